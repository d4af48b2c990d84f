/* Errors of the runtime: a status of gdn.h and a text, kept per thread, as the library does it. */
#ifndef GDN_RUNTIME_ERROR_H
#define GDN_RUNTIME_ERROR_H

#include <stddef.h>

#include "gdn/gdn.h"

enum { RT_ERROR_MAX = 512 };

/* Set the thread's text (printf) and return `status`. */
gdn_status rt_fail(gdn_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A call into libgdn failed: keep its text, after `what`. Returns `status`. */
gdn_status rt_fail_gdn(gdn_status status, const char *what);

/* The thread's last text; "" when nothing has failed. */
const char *rt_last_error(void);

/* Allocate n x size bytes, zeroed and aligned to 64; NULL after rt_fail(GDN_OUT_OF_MEMORY, ...). n or size
 * may be 0. Free with rt_free. */
void *rt_calloc(uint64_t n, uint64_t size, const char *what);
void rt_free(void *memory);

/* An object and its arrays in one allocation, so that there is nothing to undo: `size` bytes, and n x each behind them
 * at *arrays, aligned to 64 too. */
static inline void *rt_calloc_with(uint64_t size, uint64_t n, uint64_t each, const char *what, void **arrays)
{
    const uint64_t begin = (size + 63) / 64; /* in units of 64 bytes, as large products do not overflow then */
    char *object = rt_calloc(begin + n / 64 * each + (n % 64 * each + 63) / 64, 64, what);
    *arrays = object ? object + 64 * begin : NULL;
    return object;
}

#endif
