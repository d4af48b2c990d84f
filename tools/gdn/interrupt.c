/* Ctrl-C and SIGTERM; see interrupt.h. */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include <signal.h>

static volatile sig_atomic_t noted;

#if defined(_WIN32)
static void note(int number)
{
    noted = number;
    (void)signal(number, SIG_DFL);
}

void interrupt_catch(void)
{
    (void)signal(SIGINT, note);
    (void)signal(SIGTERM, note);
}

void interrupt_listen(void) { interrupt_catch(); }
#else
static void note(int number) { noted = number; }

static void catch_with(int flags)
{
    static const int signals[] = { SIGINT, SIGTERM };
    for (int i = 0; i < 2; i++) {
        struct sigaction now, with = { 0 };
        if (sigaction(signals[i], 0, &now) || now.sa_handler == SIG_IGN)
            continue; /* started in the background by a shell that has no job control: stays deaf */
        with.sa_handler = note;
        with.sa_flags   = flags | (int)SA_RESETHAND;
        (void)sigemptyset(&with.sa_mask);
        (void)sigaction(signals[i], &with, 0);
    }
}

void interrupt_catch(void) { catch_with(SA_RESTART); }
void interrupt_listen(void) { catch_with(0); }
#endif

void interrupt_forget(void) { noted = 0; }
int interrupt_is_key(void) { return noted == SIGINT; }

int interrupt_noted(void) { return noted; }

int interrupt_end(int code)
{
    if (!noted)
        return code;
    (void)signal(noted, SIG_DFL);
    (void)raise(noted);
    return 128 + noted;
}
