/* See files.h. */
#define _DEFAULT_SOURCE /* fstat, O_NOCTTY */
#include "system/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

FILE *file_open(const char *path, const char *mode) { return fopen(path, mode); }

const char *file_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int map(int descriptor, const void **bytes, uint64_t *n)
{
    struct stat about;
    if (fstat(descriptor, &about)) return errno;
    if (!S_ISREG(about.st_mode)) return EINVAL;
    *n = (uint64_t)about.st_size;
    if (!*n) return 0;
    if (*n > PTRDIFF_MAX) return ENOMEM;
    void *const mapped = mmap(NULL, (size_t)*n, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) return ENOMEM;
    *bytes = mapped;
    return 0;
}

int file_map(const char *path, const void **bytes, uint64_t *n)
{
    *bytes = NULL;
    *n = 0;
    /* without O_NONBLOCK, opening a pipe waits for a writer; regular files ignore the flag */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return errno == ENXIO ? EINVAL : errno; /* a socket, or a device that does not exist */
    const int why = map(descriptor, bytes, n);
    (void)close(descriptor); /* the mapping remains valid */
    return why;
}

void file_unmap(const void *bytes, uint64_t n)
{
    void *mapping;
    memcpy(&mapping, &bytes, sizeof mapping); /* munmap() takes a pointer without const */
    if (n) (void)munmap(mapping, (size_t)n);
}

FILE *stream_open(char **text, size_t *n) { return open_memstream(text, n); }

int stream_close(FILE *stream, char **text, size_t *n)
{
    (void)text, (void)n;
    return !fclose(stream);
}
