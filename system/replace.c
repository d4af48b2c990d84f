/* Replacing a file. See replace.h. */
#define _DEFAULT_SOURCE /* fdopen, fileno, close */
#include "system/replace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/replace_files.h"
#include "system/system.h"

/* Opens PATH and the ending. Waits at most some seconds while another process has it. -1: failed; *beside is NULL then.
 */
static int open_beside(const char *path, const char *ending, int seconds, char **beside)
{
    const size_t n = strlen(path), n_ending = strlen(ending) + 1;
    *beside = malloc(n + n_ending);
    if (!*beside) return -1;
    memcpy(*beside, path, n);
    memcpy(*beside + n, ending, n_ending);
    int fd = replace_open(*beside);
    for (int i = 0; fd < 0 && errno == EWOULDBLOCK && i < 20 * seconds; i++) {
        gdn_sleep(50000000);
        fd = replace_open(*beside);
    }
    if (fd >= 0) return fd;
    const int why = errno;
    free(*beside);
    *beside = NULL;
    errno = why;
    return -1;
}

int replace_begin(replacement *r, const char *path, int seconds)
{
    *r = (replacement){ .path = replace_resolve(path) };
    const int fd = r->path ? open_beside(r->path, ".part", seconds, &r->beside) : -1;
    r->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (r->file) {
        replace_allow(fd, r->path);
        return 1;
    }
    const int why = errno;
    if (fd >= 0) (void)close(fd);
    free(r->beside);
    free(r->path);
    errno = why;
    return 0;
}

int replace_end(replacement *r, int good)
{
    const int fd = fileno(r->file);
    int why = good ? 0 : errno;
    if (good && (fflush(r->file) || !replace_rename(fd, r->beside, r->path))) why = errno ? errno : EIO;
    if (!good || why) replace_remove(fd, r->beside);
    (void)fclose(r->file); /* frees the lock, after the name is gone */
    if (good && !why && !replace_sync_folder(r->path)) why = errno;
    free(r->beside);
    free(r->path);
    errno = why;
    return good && !why;
}

int file_lock_take(file_lock *lock, const char *path, int seconds)
{
    char *const resolved = replace_resolve(path);
    lock->fd = resolved ? open_beside(resolved, ".lock", seconds, &lock->beside) : -1;
    const int why = errno;
    free(resolved);
    errno = why;
    return lock->fd >= 0;
}

void file_lock_free(file_lock *lock)
{
    if (!lock->beside) return;
    replace_remove(lock->fd, lock->beside);
    (void)close(lock->fd); /* frees the lock, after the name is gone */
    free(lock->beside);
    lock->beside = NULL;
}

const char *replace_error(void)
{
    if (errno == EINVAL) return "it is no regular file";
    return errno == EWOULDBLOCK ? "another gdn is using this file" : strerror(errno);
}
