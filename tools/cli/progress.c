/* Progress on stderr; see progress.h. */
#define _POSIX_C_SOURCE 200809L
#include "tools/cli/progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 24, REDRAW_MS = 50, LINE_MS = 10000, FIRST_LINE_MS = 5000, WAIT_MS = 1000 };

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* not affected by changes of the system time */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- Removing the bar when a signal ends the program ---- */

static volatile sig_atomic_t drawn; /* 1: a bar is on the terminal */

static void wipe_and_end(int number)
{
    if (drawn) {
        const ssize_t written = write(STDERR_FILENO, "\r\033[K", 4);
        (void)written; /* errors do not matter */
    }
    (void)raise(number); /* SA_RESETHAND: now has its default action */
}

/* Handles only signals with their default action; commands with their own handlers call progress_clear(). */
static void wipe_on_signals(int wipe)
{
    static const int signals[] = { SIGINT, SIGTERM };
    for (int i = 0; i < 2; i++) {
        struct sigaction now, with = { 0 };
        with.sa_handler = wipe ? wipe_and_end : SIG_DFL;
        with.sa_flags = wipe ? (int)SA_RESETHAND | SA_NODEFER : 0;
        sigemptyset(&with.sa_mask);
        if (!sigaction(signals[i], NULL, &now) && now.sa_handler == (wipe ? SIG_DFL : wipe_and_end))
            sigaction(signals[i], &with, NULL);
    }
}

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
    if (bar->kind == PROGRESS_BAR) wipe_on_signals(1);
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
    if (bar->kind == PROGRESS_BAR) wipe_on_signals(0);
    bar->kind = PROGRESS_OFF;
}
