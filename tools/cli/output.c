/* Standard output; see output.h. */
#define _POSIX_C_SOURCE 200809L
#include "tools/cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int lost, reason; /* lost: a write failed; reason: errno of the first failure, 0: unknown */

int output_flush(void)
{
    errno = 0;
    const int failed = fflush(stdout) != 0;
    if (failed && !reason) reason = errno;
    lost |= failed || ferror(stdout);
    /* The stream does not store errno; writing one more byte gives the same error. */
    errno = 0;
    if (lost && !reason && write(STDOUT_FILENO, "\n", 1) < 0) reason = errno;
    return lost;
}

int output_end(const char *tool, int code)
{
    (void)output_flush();
    /* Network file systems report a full disk at close. Close a copy, since the stream is needed until exit. */
    const int copy = lost ? -1 : dup(STDOUT_FILENO);
    if (copy >= 0 && close(copy) != 0) {
        lost = 1;
        reason = errno;
    }
    if (!lost) return code;
    if (reason != EPIPE)
        (void)fprintf(stderr, "%s: cannot write the output%s%s\n", tool, reason ? ": " : "",
                      reason ? strerror(reason) : "");
    return code ? code : 1;
}

int output_is_terminal(void) { return isatty(fileno(stdout)) != 0; }
int input_is_terminal(void) { return isatty(fileno(stdin)) != 0; }
