/* Replacing a file. See replace.h. */
#define _DEFAULT_SOURCE /* flock, O_NOFOLLOW, realpath */
#include "system/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* True if the path still names the open file, which another process may have renamed before the lock was taken. */
static int is_named(int fd, const char *path)
{
    struct stat open_one, named;
    return !fstat(fd, &open_one) && !stat(path, &named) && open_one.st_ino == named.st_ino &&
           open_one.st_dev == named.st_dev;
}

/* Opens the file beside, and locks it. -1: failed; errno is EWOULDBLOCK if another process has it. */
static int open_beside(const char *beside)
{
    const int fd = open(beside, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat about;
    if (fd < 0) return -1;
    errno = EINVAL;
    int good = !fstat(fd, &about) && S_ISREG(about.st_mode) && !flock(fd, LOCK_EX | LOCK_NB);
    if (good && !is_named(fd, beside)) {
        errno = EWOULDBLOCK;
        good = 0;
    }
    if (good && !ftruncate(fd, 0)) return fd;
    const int why = errno;
    (void)close(fd);
    errno = why;
    return -1;
}

/* The path without symbolic links, which a rename would replace. NULL: what it names is no regular file, or there is no
 * memory. */
static char *resolve(const char *path)
{
    struct stat old;
    if (lstat(path, &old)) return *path && errno == ENOENT ? strdup(path) : NULL;
    if (stat(path, &old)) return NULL;
    if (S_ISREG(old.st_mode)) return realpath(path, NULL);
    errno = EINVAL;
    return NULL;
}

/* Opens PATH and the ending, and locks it. Waits at most some seconds while another process has it. -1: failed; *beside
 * is NULL then. */
static int lock_beside(const char *path, const char *ending, int seconds, char **beside)
{
    const struct timespec moment = { .tv_nsec = 50000000 };
    const size_t n = strlen(path), n_ending = strlen(ending) + 1;
    *beside = malloc(n + n_ending);
    if (!*beside) return -1;
    memcpy(*beside, path, n);
    memcpy(*beside + n, ending, n_ending);
    int fd = open_beside(*beside);
    for (int i = 0; fd < 0 && errno == EWOULDBLOCK && i < 20 * seconds; i++) {
        (void)nanosleep(&moment, NULL);
        fd = open_beside(*beside);
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
    struct stat old;
    *r = (replacement){ .path = resolve(path) };
    const int fd = r->path ? lock_beside(r->path, ".part", seconds, &r->beside) : -1;
    r->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (r->file && !stat(r->path, &old)) (void)fchmod(fd, old.st_mode & 0777);
    if (r->file) return 1;
    const int why = errno;
    if (fd >= 0) (void)close(fd);
    free(r->beside);
    free(r->path);
    errno = why;
    return 0;
}

int file_lock_take(file_lock *lock, const char *path, int seconds)
{
    char *const resolved = resolve(path);
    lock->fd = resolved ? lock_beside(resolved, ".lock", seconds, &lock->beside) : -1;
    const int why = errno;
    free(resolved);
    errno = why;
    return lock->fd >= 0;
}

void file_lock_free(file_lock *lock)
{
    if (!lock->beside) return;
    (void)remove(lock->beside);
    (void)close(lock->fd); /* frees the lock, after the name is gone */
    free(lock->beside);
    lock->beside = NULL;
}

const char *replace_error(void)
{
    if (errno == EINVAL) return "it is no regular file";
    return errno == EWOULDBLOCK ? "another gdn is using this file" : strerror(errno);
}

/* Writes the folder of the path to the disk, so that a rename in it lasts. */
static int sync_folder(const char *path)
{
    const char *const slash = strrchr(path, '/');
    char *const folder = slash ? strdup(path) : NULL;
    if (slash && !folder) return 0;
    if (folder) folder[slash == path ? 1 : slash - path] = 0;
    const int fd = open(folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int good = fd >= 0 && (!fsync(fd) || errno == EINVAL); /* some file systems cannot */
    if (fd >= 0) (void)close(fd);
    free(folder);
    return good;
}

int replace_end(replacement *r, int good)
{
    int why = good ? 0 : errno;
    if (good && (fflush(r->file) || fsync(fileno(r->file)) || rename(r->beside, r->path))) why = errno ? errno : EIO;
    if (!good || why) (void)remove(r->beside);
    (void)fclose(r->file); /* frees the lock, after the name is gone */
    if (good && !why && !sync_folder(r->path)) why = errno;
    free(r->beside);
    free(r->path);
    errno = why;
    return good && !why;
}
