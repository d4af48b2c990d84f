/* Replacing a file: at any moment, even after a crash, its path has all of the old contents or all of the new. */
#ifndef GDN_SYSTEM_REPLACE_H
#define GDN_SYSTEM_REPLACE_H

#include <stdio.h>

typedef struct replacement {
    char *path;   /* without symbolic links */
    char *beside; /* PATH.part, which becomes PATH */
    FILE *file;   /* write the new contents here */
} replacement;

/* Opens a regular file beside `path` that only this process writes, with the permissions of the old one. Waits at most
 * some seconds while another process has it. A symbolic link stays, and the file that it names is replaced. 0: failed;
 * errno says why, such as that `path` is a device. */
int replace_begin(replacement *r, const char *path, int seconds);
/* Ends it. good 1: the file is written to the disk and renamed; 0: it is removed. Returns 0, with errno, if not all was
 * written; the old contents stay. */
int replace_end(replacement *r, int good);

/* Keeps a file to this process, for as long as it reads and replaces it: a locked file PATH.lock. Begins as zeros. */
typedef struct file_lock {
    char *beside; /* NULL: not taken */
    int fd;
} file_lock;

/* Waits at most some seconds while another process has it. 0: failed; errno says why. */
int file_lock_take(file_lock *lock, const char *path, int seconds);
void file_lock_free(file_lock *lock); /* also one that was not taken */

/* What errno says after these functions failed. */
const char *replace_error(void);

#endif
