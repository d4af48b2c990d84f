/* Between the checker and the hooks that the compiler calls. */
#ifndef GDN_SIMT_CHECK_INTERNAL_H
#define GDN_SIMT_CHECK_INTERNAL_H

#include <stddef.h>

enum simt_access { SIMT_READ, SIMT_WRITE, SIMT_ATOMIC };
void simt_accessed(const void *at, size_t bytes, enum simt_access access, const void *pc);

#endif
