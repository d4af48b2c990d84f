/* See replace_files.h. */
#define _DEFAULT_SOURCE /* flock, O_NOFOLLOW, realpath */
#include "system/replace_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* True if the path still names the open file, which another process may have renamed before the lock was taken. */
static int is_named(int fd, const char *path)
{
    struct stat open_one, named;
    return !fstat(fd, &open_one) && !stat(path, &named) && open_one.st_ino == named.st_ino &&
           open_one.st_dev == named.st_dev;
}

int replace_open(const char *beside)
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

char *replace_resolve(const char *path)
{
    struct stat old;
    if (lstat(path, &old)) return *path && errno == ENOENT ? strdup(path) : NULL;
    if (stat(path, &old)) return NULL;
    if (S_ISREG(old.st_mode)) return realpath(path, NULL);
    errno = EINVAL;
    return NULL;
}

void replace_allow(int fd, const char *path)
{
    struct stat old;
    if (!stat(path, &old)) (void)fchmod(fd, old.st_mode & 0777);
}

int replace_rename(int fd, const char *beside, const char *path) { return !fsync(fd) && !rename(beside, path); }

int replace_sync_folder(const char *path)
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

void replace_remove(int fd, const char *beside)
{
    (void)fd;
    (void)remove(beside);
}
