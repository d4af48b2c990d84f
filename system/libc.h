/* Functions of POSIX's C library, and of GNU's, that Windows' lacks. Elsewhere <string.h> has them with _GNU_SOURCE. */
#ifndef GDN_SYSTEM_LIBC_H
#define GDN_SYSTEM_LIBC_H

#include <string.h>

#if defined(_WIN32)
void *memmem(const void *bytes, size_t n, const void *part, size_t n_part);
char *strndup(const char *text, size_t n);
int setenv(const char *name, const char *value, int replace);
int unsetenv(const char *name);
#endif

#endif
