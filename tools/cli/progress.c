/* Progress on stderr; see progress.h. */
#include "tools/cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/interrupt.h"
#include "system/system.h"

enum { BAR_CELLS = 24, REDRAW_MS = 50, LINE_MS = 10000, FIRST_LINE_MS = 5000, WAIT_MS = 1000 };

static int64_t now_ms(void) { return gdn_now() / 1000000; }

static volatile sig_atomic_t drawn; /* 1: a bar is on the terminal */

void progress_begin(progress_bar *bar, int64_t total)
{
    const char *terminal = getenv("TERM"), *pause = getenv("GDN_PROGRESS");
    memset(bar, 0, sizeof *bar);
    bar->total = total > 0 ? total : 1;
    bar->kind = isatty(STDERR_FILENO) && !(terminal && !strcmp(terminal, "dumb")) ? PROGRESS_BAR : PROGRESS_LINES;
    bar->pause = bar->kind == PROGRESS_BAR ? REDRAW_MS : LINE_MS;
    if (pause && !strcmp(pause, "off")) bar->kind = PROGRESS_OFF;
    if (pause && bar->kind == PROGRESS_LINES) {
        char *end;
        const double seconds = strtod(pause, &end);
        if (end != pause && *end == 0 && seconds >= 0 && seconds <= 1e6) bar->pause = (int64_t)(1000 * seconds);
    }
    if (bar->kind == PROGRESS_LINES) /* short work prints no line */
        bar->drawn_at = now_ms() - (bar->pause == LINE_MS ? LINE_MS - FIRST_LINE_MS : 0);
    if (bar->kind == PROGRESS_BAR) interrupt_wipes(&drawn);
}

void progress_step(progress_bar *bar, const char *label) { progress_to(bar, bar->done + 1, label); }

void progress_wait(progress_bar *bar)
{
    const int64_t pause = bar->pause;
    if (bar->kind == PROGRESS_LINES && pause < WAIT_MS) bar->pause = WAIT_MS;
    progress_to(bar, bar->done, bar->label);
    bar->pause = pause;
}

void progress_to(progress_bar *bar, int64_t n, const char *label)
{
    int64_t now;
    bar->done = n;
    bar->label = label;
    if (bar->kind == PROGRESS_OFF || (now = now_ms()) - bar->drawn_at < bar->pause) return;
    bar->drawn_at = now;
    int64_t done = bar->done < bar->total ? bar->done : bar->total;
    if (bar->kind == PROGRESS_LINES) {
        fprintf(stderr, "progress: %lld/%lld (%lld%%) %.80s\n", (long long)done, (long long)bar->total,
                (long long)(100 * done / bar->total), label ? label : "");
        return;
    }
    drawn = 1;
    char cells[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++) cells[i] = i < done * BAR_CELLS / bar->total ? '#' : '.';
    cells[BAR_CELLS] = 0;
    fprintf(stderr, "\r[%s] %lld/%lld %.40s\033[K", cells, (long long)done, (long long)bar->total, label ? label : "");
    fflush(stderr);
}

void progress_clear(progress_bar *bar)
{
    if (!drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    drawn = 0;
    bar->drawn_at = 0;
}

void progress_end(progress_bar *bar)
{
    progress_clear(bar);
    if (bar->kind == PROGRESS_BAR) interrupt_wipes(NULL);
    bar->kind = PROGRESS_OFF;
}
