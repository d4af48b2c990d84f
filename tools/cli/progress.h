/* Progress on stderr. On a terminal it is a bar. Otherwise it is a line after five seconds and then every ten, without
 * control characters. GDN_PROGRESS=N sets the seconds between lines (0: a line per step), GDN_PROGRESS=off disables
 * both.
 *
 *   progress_bar bar;
 *   progress_begin(&bar, n_cases);
 *   for (...) {
 *       progress_step(&bar, case_name);
 *       ...
 *       progress_clear(&bar);
 *       printf(...);
 *   }
 *   progress_end(&bar); */
#ifndef GDN_TOOL_PROGRESS_H
#define GDN_TOOL_PROGRESS_H

#include <stdint.h>

typedef enum progress_kind { PROGRESS_OFF, PROGRESS_BAR, PROGRESS_LINES } progress_kind;

typedef struct progress_bar {
    int64_t total, done;
    int64_t drawn_at; /* time of the last drawing or line, in milliseconds */
    int64_t pause;    /* milliseconds between two                    */
    const char *label;
    progress_kind kind;
} progress_bar;

void progress_begin(progress_bar *bar, int64_t total);
void progress_step(progress_bar *bar, const char *label);             /* a step begins; label names it */
void progress_to(progress_bar *bar, int64_t done, const char *label); /* `done` steps are done */
void progress_wait(progress_bar *bar);                                /* the current step continues */
void progress_clear(progress_bar *bar);                               /* removes the bar before other output */
void progress_end(progress_bar *bar);

#endif
