/* Standard output; see output.h. */
#define _XOPEN_SOURCE 700 /* SIGXFSZ */
#include "tools/cli/output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int lost, reason; /* lost: a write failed; reason: errno of the first failure, 0: unknown */

void output_begin(void)
{
    (void)signal(SIGXFSZ, SIG_IGN); /* writing beyond `ulimit -f` fails then, as on a full disk */
    /* open() returns the lowest free number. A closed stdin or stdout gets /dev/null with the wrong access mode, so
     * that using it still fails. stderr gets the right mode, since errors could not be reported. */
    static const int flags[3] = { O_WRONLY, O_RDONLY, O_WRONLY };
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[fd]) < 0) break;
}

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

int output_is_errors(void)
{
    struct stat out, err;
    return !fstat(STDOUT_FILENO, &out) && !fstat(STDERR_FILENO, &err) && out.st_dev == err.st_dev &&
           out.st_ino == err.st_ino;
}
