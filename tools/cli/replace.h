/* Replacing a file: at any moment, even after a crash, its path has all of the old contents or all of the new. */
#ifndef GDN_TOOL_REPLACE_H
#define GDN_TOOL_REPLACE_H

#include <stdio.h>

typedef struct replacement {
    const char *path;
    char *beside; /* PATH.part, which becomes PATH */
    FILE *file;   /* write the new contents here */
} replacement;

/* Opens a regular file beside `path` that only this process writes, with the permissions of the old one. Waits at most
 * some seconds while another process has it. 0: failed; errno says why. `path` must outlive it. */
int replace_begin(replacement *r, const char *path, int seconds);
/* Ends it. good 1: the file is written to the disk and renamed; 0: it is removed. Returns 0, with errno, if not all was
 * written; the old contents stay. */
int replace_end(replacement *r, int good);

#endif
