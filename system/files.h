/* Files, for the runtime and the tool. Paths are UTF-8, and contents bytes. */
#ifndef GDN_SYSTEM_FILES_H
#define GDN_SYSTEM_FILES_H

#include <stdint.h>
#include <stdio.h>

/* Like fopen(), with "r", "w" or "a" as mode. */
FILE *file_open(const char *path, const char *mode);

/* Maps a regular file, to read it. Returns 0, or an errno: ENOENT, EINVAL for what is no regular file, ENOMEM where the
 * system refuses the mapping, or another. An empty file has 0 bytes at NULL. */
int file_map(const char *path, const void **bytes, uint64_t *n);
void file_unmap(const void *bytes, uint64_t n);

#endif
