/* A progress bar on stderr, shown only when stderr is a terminal, so that logs stay clean.
 *
 *     progress_bar bar;
 *     progress_begin(&bar, n_cases);
 *     for (...) { progress_step(&bar, case_name);  ...  progress_clear(&bar); printf(...); }
 *     progress_end(&bar); */
#ifndef GDN_TOOL_PROGRESS_H
#define GDN_TOOL_PROGRESS_H

#include <stdint.h>

typedef struct progress_bar {
    int64_t total, done;
    int64_t drawn_at; /* milliseconds; draws at most some 20 times a second */
    int     enabled;
    int     visible;
} progress_bar;

void progress_begin(progress_bar *bar, int64_t total);
void progress_step(progress_bar *bar, const char *label); /* one more begins; label says which */
void progress_to(progress_bar *bar, int64_t done, const char *label); /* `done` of them are done */
void progress_clear(progress_bar *bar);                   /* before other output */
void progress_end(progress_bar *bar);

#endif
