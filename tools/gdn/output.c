/* Standard output; see output.h. */
#define _POSIX_C_SOURCE 200809L
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#if defined(_WIN32)
#  include <io.h>
#  define isatty _isatty
#  define fileno _fileno
#else
#  include <fcntl.h>
#  include <sys/stat.h>
#  include <unistd.h>
#endif

static int lost, reason; /* something was not written, and the errno of the first time; 0 where that is not known */

void output_begin(void)
{
#if !defined(_WIN32)
    /* What is opened first takes the lowest free number. A stream that was closed gets /dev/null the wrong way round,
     * so that reading and writing still fail; standard error gets it the right way, as nobody could be told. */
    static const int flags[3] = { O_WRONLY, O_RDONLY, O_WRONLY };
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[fd]) < 0)
            break;
#endif
}

int output_flush(void)
{
    errno = 0;
    const int failed = fflush(stdout) != 0;
    if (failed && !reason)
        reason = errno;
    lost |= failed || ferror(stdout);
#if !defined(_WIN32)
    /* The stream remembers that something failed, and not why; the next byte meets the same. */
    errno = 0;
    if (lost && !reason && write(STDOUT_FILENO, "\n", 1) < 0)
        reason = errno;
#endif
    return lost;
}

int output_end(const char *tool, int code)
{
    (void)output_flush();
#if !defined(_WIN32)
    /* Network file systems report a full disk when the file is closed. The stream stays open, for those who write at
     * exit. */
    const int copy = lost ? -1 : dup(STDOUT_FILENO);
    if (copy >= 0 && close(copy) != 0) {
        lost   = 1;
        reason = errno;
    }
#endif
    if (!lost)
        return code;
    if (reason != EPIPE)
        (void)fprintf(stderr, "%s: cannot write the output%s%s\n", tool, reason ? ": " : "",
                      reason ? strerror(reason) : "");
    return code ? code : 1;
}

int output_is_terminal(void) { return isatty(fileno(stdout)) != 0; }
int input_is_terminal(void) { return isatty(fileno(stdin)) != 0; }

int output_is_errors(void)
{
#if defined(_WIN32)
    return 0;
#else
    struct stat out, err;
    return !fstat(STDOUT_FILENO, &out) && !fstat(STDERR_FILENO, &err) && out.st_dev == err.st_dev &&
           out.st_ino == err.st_ino;
#endif
}
