/* A progress bar on stderr; see progress.h. */
#define _POSIX_C_SOURCE 200809L
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(_WIN32)
#  include <io.h>
#  define is_terminal(file) _isatty(_fileno(file))
#else
#  include <unistd.h>
#  define is_terminal(file) isatty(fileno(file))
#endif

enum { BAR_CELLS = 24, REDRAW_MS = 50 };

static int64_t now_ms(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void progress_begin(progress_bar *bar, int64_t total)
{
    const char *terminal = getenv("TERM");
    memset(bar, 0, sizeof *bar);
    bar->total = total > 0 ? total : 1;
    bar->enabled = is_terminal(stderr) && !(terminal && !strcmp(terminal, "dumb"));
}

void progress_step(progress_bar *bar, const char *label) { progress_to(bar, bar->done + 1, label); }

void progress_to(progress_bar *bar, int64_t n, const char *label)
{
    int64_t now;
    bar->done = n;
    if (!bar->enabled || (now = now_ms()) - bar->drawn_at < REDRAW_MS) return;
    bar->drawn_at = now;
    bar->visible = 1;
    int64_t done = bar->done < bar->total ? bar->done : bar->total;
    char cells[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++) cells[i] = i < done * BAR_CELLS / bar->total ? '#' : '.';
    cells[BAR_CELLS] = 0;
    fprintf(stderr, "\r[%s] %lld/%lld %.40s\033[K", cells, (long long)done, (long long)bar->total, label ? label : "");
    fflush(stderr);
}

void progress_clear(progress_bar *bar)
{
    if (!bar->visible) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    bar->visible = 0;
    bar->drawn_at = 0;
}

void progress_end(progress_bar *bar)
{
    progress_clear(bar);
    bar->enabled = 0;
}
