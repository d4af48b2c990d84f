/* The elementary functions over arrays, one table per instruction set. Kernels inline the functions
 * of elementary.inc.h instead. Tests reach every version through the tables. */
#ifndef GDN_TESTS_ELEMENTARY_TABLE_H
#define GDN_TESTS_ELEMENTARY_TABLE_H

#include <stddef.h>

#include "numerics/elementary.h"

typedef struct gdn_elementary_table {
    /* out[i] = f(in[i]), 0 <= i < n; in == out is allowed, other overlap is not. */
#define GDN_ELEMENTARY_MEMBER(name, reference, bound) void (*name)(const float *in, float *out, size_t n);
    GDN_ELEMENTARY_LIST(GDN_ELEMENTARY_MEMBER)
#undef GDN_ELEMENTARY_MEMBER
} gdn_elementary_table;

/* Each table exists only if its instruction set can be compiled for; the caller checks the CPU. */
extern const gdn_elementary_table gdn_elementary_scalar;
extern const gdn_elementary_table gdn_elementary_avx2;
extern const gdn_elementary_table gdn_elementary_avx512;
extern const gdn_elementary_table gdn_elementary_neon;

#endif
