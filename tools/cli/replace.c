/* Replacing a file. See replace.h. */
#define _DEFAULT_SOURCE /* flock, O_NOFOLLOW */
#include "tools/cli/replace.h"

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

int replace_begin(replacement *r, const char *path, int seconds)
{
    const struct timespec moment = { .tv_nsec = 50000000 };
    const size_t n = strlen(path);
    struct stat old;
    *r = (replacement){ .path = path, .beside = malloc(n + 6) };
    if (!r->beside) return 0;
    memcpy(r->beside, path, n);
    memcpy(r->beside + n, ".part", 6);
    int fd = open_beside(r->beside);
    for (int i = 0; fd < 0 && errno == EWOULDBLOCK && i < 20 * seconds; i++) {
        (void)nanosleep(&moment, NULL);
        fd = open_beside(r->beside);
    }
    r->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (r->file && !stat(path, &old)) (void)fchmod(fd, old.st_mode & 0777);
    if (r->file) return 1;
    const int why = errno;
    if (fd >= 0) (void)close(fd);
    free(r->beside);
    errno = why;
    return 0;
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
    errno = why;
    return good && !why;
}
