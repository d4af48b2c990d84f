/* Progress on stderr: a bar where that is a terminal; elsewhere a line after five seconds and then every ten, without
 * control characters, so that logs stay clean. GDN_PROGRESS=N is the seconds between two lines (0: each step gets one),
 * GDN_PROGRESS=off turns both off.
 *
 *     progress_bar bar;
 *     progress_begin(&bar, n_cases);
 *     for (...) { progress_step(&bar, case_name);  ...  progress_clear(&bar); printf(...); }
 *     progress_end(&bar); */
#ifndef GDN_TOOL_PROGRESS_H
#define GDN_TOOL_PROGRESS_H

#include <stdint.h>

typedef enum progress_kind { PROGRESS_OFF, PROGRESS_BAR, PROGRESS_LINES } progress_kind;

typedef struct progress_bar {
    int64_t total, done;
    int64_t drawn_at; /* milliseconds, of the last drawing or line   */
    int64_t pause;    /* milliseconds from one to the next           */
    const char *label;
    progress_kind kind;
    int visible; /* there is a bar on the terminal              */
} progress_bar;

void progress_begin(progress_bar *bar, int64_t total);
void progress_step(progress_bar *bar, const char *label);             /* one more begins; label says which */
void progress_to(progress_bar *bar, int64_t done, const char *label); /* `done` of them are done */
void progress_wait(progress_bar *bar);                                /* the same step still goes on */
void progress_clear(progress_bar *bar);                               /* before other output */
void progress_end(progress_bar *bar);

#endif
