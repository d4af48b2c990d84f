/* Signals that end a command; see interrupt.h. */
#define _DEFAULT_SOURCE /* sigaction, SIGWINCH */
#include "system/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/select.h>
#include <unistd.h>

static volatile sig_atomic_t noted;
static void (*restore)(void), (*woken)(void);

void interrupt_hooks(void (*on_end)(void), void (*on_wake)(void))
{
    restore = on_end;
    woken = on_wake;
}

void interrupt_restore(void)
{
    if (restore) restore();
}

static void note(int number)
{
    if (noted && number == SIGHUP) return; /* shell and terminal both send one */
    if (noted && noted != SIGHUP) {        /* the second signal ends the program when this handler returns */
        interrupt_restore();
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
    noted = number;
}

static const int caught[] = { SIGINT, SIGTERM, SIGHUP };
enum { N_CAUGHT = sizeof caught / sizeof caught[0] };

void interrupt_catch(void)
{
    for (int i = 0; i < N_CAUGHT; i++) {
        struct sigaction now, with = { 0 };
        if (sigaction(caught[i], 0, &now) || now.sa_handler == SIG_IGN)
            continue; /* ignored, as by nohup, or in a background job of a shell without job control: keep it so */
        with.sa_handler = note;
        with.sa_flags = SA_RESTART;
        (void)sigemptyset(&with.sa_mask);
        (void)sigaction(caught[i], &with, 0);
    }
}

/* Waits for standard input or a recorded signal. Signals are unblocked only inside pselect(), so none is lost between
 * the checks and the wait. */
static void wait_for_input(void)
{
    sigset_t held, before;
    (void)sigemptyset(&held);
    for (int i = 0; i < N_CAUGHT; i++) (void)sigaddset(&held, caught[i]);
    (void)sigaddset(&held, SIGCONT);
    (void)sigaddset(&held, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    int ready = 0;
    while (!noted && !ready) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(STDIN_FILENO, &set);
        if (woken) woken();
        ready = pselect(STDIN_FILENO + 1, &set, NULL, NULL, NULL, &before);
        ready = ready > 0 || (ready < 0 && errno != EINTR);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

int interrupt_getc(void)
{
    static unsigned char bytes[4096];
    static ssize_t n, at;
    if (at >= n) {
        wait_for_input();
        errno = 0;
        at = 0;
        n = noted ? 0 : read(STDIN_FILENO, bytes, sizeof bytes);
        if (noted) errno = EINTR;
    }
    return at < n ? bytes[at++] : EOF;
}

void interrupt_forget(void) { noted = 0; }
int interrupt_is_key(void) { return noted == SIGINT; }

int interrupt_noted(void) { return noted; }

int interrupt_end(int code)
{
    if (!noted) return code;
    (void)signal(noted, SIG_DFL);
    (void)raise(noted);
    return 128 + noted;
}

/* ---- A line that is wiped ---- */

static const volatile sig_atomic_t *is_drawn;

static void wipe_and_end(int number)
{
    if (is_drawn && *is_drawn) {
        const ssize_t written = write(STDERR_FILENO, "\r\033[K", 4);
        (void)written; /* errors do not matter */
    }
    (void)raise(number); /* SA_RESETHAND: now has its default action */
}

/* Handles only signals with their default action; commands with their own handlers wipe it themselves. */
void interrupt_wipes(const volatile sig_atomic_t *drawn)
{
    static const int signals[] = { SIGINT, SIGTERM };
    if (drawn) is_drawn = drawn;
    for (int i = 0; i < 2; i++) {
        struct sigaction now, with = { 0 };
        with.sa_handler = drawn ? wipe_and_end : SIG_DFL;
        with.sa_flags = drawn ? (int)SA_RESETHAND | SA_NODEFER : 0;
        sigemptyset(&with.sa_mask);
        if (!sigaction(signals[i], NULL, &now) && now.sa_handler == (drawn ? SIG_DFL : wipe_and_end))
            sigaction(signals[i], &with, NULL);
    }
}
