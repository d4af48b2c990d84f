/* See streams.h. */
#define _DEFAULT_SOURCE /* SIGXFSZ */
#include "system/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

void streams_begin(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    (void)signal(SIGXFSZ, SIG_IGN);
    /* open() returns the lowest free number. A closed stdin or stdout gets /dev/null with the wrong access mode, so
     * that using it still fails. stderr gets the right mode, since errors could not be reported. */
    static const int flags[3] = { O_WRONLY, O_RDONLY, O_WRONLY };
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[fd]) < 0) break;
}

int streams_are_one(void)
{
    struct stat out, err;
    return !fstat(STDOUT_FILENO, &out) && !fstat(STDERR_FILENO, &err) && out.st_dev == err.st_dev &&
           out.st_ino == err.st_ino;
}

int streams_line_most(void)
{
#if defined(__linux__)
    return 4094; /* it drops what comes after 4,095 */
#else
    return 1022; /* MAX_INPUT of macOS has 1,024 */
#endif
}
