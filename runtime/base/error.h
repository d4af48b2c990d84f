/* Errors of the runtime: a status of gdn.h and a text, kept per thread, as in libgdn. */
#ifndef GDN_RUNTIME_ERROR_H
#define GDN_RUNTIME_ERROR_H

#include <stddef.h>

#include "gdn/gdn.h"

enum { RT_ERROR_MAX = 512 };

/* Sets the thread's error text (printf format) and returns `status`. */
gdn_status rt_fail(gdn_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For a failed call of libgdn: sets the text to `what` and libgdn's text. Returns `status`. */
gdn_status rt_fail_gdn(gdn_status status, const char *what);

/* The thread's last error text; "" if nothing has failed. */
const char *rt_last_error(void);

/* Allocates n x size bytes, zeroed and aligned to 64. NULL: failed, rt_fail(GDN_OUT_OF_MEMORY, ...) has set the text. n
 * or size may be 0. Free with rt_free(). */
void *rt_calloc(uint64_t n, uint64_t size, const char *what);
void rt_free(void *memory);

/* Allocates an object of `size` bytes and, behind it, n x each bytes at *arrays, both zeroed and aligned to 64. One
 * rt_free() frees both. */
static inline void *rt_calloc_with(uint64_t size, uint64_t n, uint64_t each, const char *what, void **arrays)
{
    const uint64_t begin = (size + 63) / 64; /* units of 64 bytes keep large products from overflowing */
    char *object = rt_calloc(begin + n / 64 * each + (n % 64 * each + 63) / 64, 64, what);
    *arrays = object ? object + 64 * begin : NULL;
    return object;
}

#endif
