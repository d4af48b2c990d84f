/* Errors of the runtime: a status of gdn.h and a text, kept per thread, as the library does it. */
#ifndef GDN_RUNTIME_ERROR_H
#define GDN_RUNTIME_ERROR_H

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
void  rt_free(void *memory);

#endif
