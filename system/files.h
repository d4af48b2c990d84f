/* Files, for the runtime and the tool. Paths are UTF-8, and contents bytes. */
#ifndef GDN_SYSTEM_FILES_H
#define GDN_SYSTEM_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Like fopen(), with "r", "w" or "a" as mode. */
FILE *file_open(const char *path, const char *mode);

/* The path without its folders. */
const char *file_name(const char *path);

/* Maps a regular file, to read it. Returns 0, or an errno: ENOENT, EINVAL for what is no regular file, ENOMEM where the
 * system refuses the mapping, or another. An empty file has 0 bytes at NULL. */
int file_map(const char *path, const void **bytes, uint64_t *n);
void file_unmap(const void *bytes, uint64_t n);

/* A stream that is written to memory. stream_close() ends it: *text has *n bytes and a 0 behind them, to be freed; 0:
 * no memory, and *text may be freed. Until then *text and *n are not to be used. */
FILE *stream_open(char **text, size_t *n);
int stream_close(FILE *stream, char **text, size_t *n);

#endif
