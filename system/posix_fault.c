/* Error message for a mapped file that becomes unreadable; see fault.h. */
#define _DEFAULT_SOURCE /* sigaction */
#include "system/fault.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "system/interrupt.h"

static char text[600]; /* prepared in advance: a signal handler may call few functions */
static size_t text_bytes;

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code == BUS_ADRERR) {
        const ssize_t written = write(STDERR_FILENO, text, text_bytes);
        (void)written;
        interrupt_restore();
        _exit(1);
    }
    (void)signal(number, SIG_DFL); /* another cause: the default action */
    (void)raise(number);
}

void fault_watch(const char *program, const char *path)
{
    struct sigaction action = { 0 };
    (void)snprintf(text, sizeof text, "\n%s: %.400s shrank or cannot be read any more, while it was in use\n", program,
                   path);
    text_bytes = strlen(text);
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, NULL);
}
