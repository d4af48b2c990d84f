/* The array functions and the table of one instruction set, from the functions of elementary.inc.h.
 * The includer defines GDN_ELEMENTARY_TABLE, the table's name. */
#include "tests/unit/elementary_table.h"

/* The arrays process a group of vectors at once where possible, as kernels do. */
#define GDN_ELEMENTARY_ONE_BY_ONE(name)                                                                                \
    static inline __attribute__((always_inline)) void v_##name##_n(vf *x, int n)                                       \
    {                                                                                                                  \
        for (int i = 0; i < n; i++) x[i] = v_##name(x[i]);                                                             \
    }
GDN_ELEMENTARY_ONE_BY_ONE(log1p)
GDN_ELEMENTARY_ONE_BY_ONE(reciprocal)
GDN_ELEMENTARY_ONE_BY_ONE(rsqrt)
GDN_ELEMENTARY_ONE_BY_ONE(sigmoid)

#define GDN_ELEMENTARY_ARRAY(name, reference, bound)                                                                   \
    static void name##_array(const float *in, float *out, size_t n)                                                    \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
        for (; i + GDN_GROUP * GDN_VL <= n; i += GDN_GROUP * GDN_VL) {                                                 \
            vf x[GDN_GROUP];                                                                                           \
            for (int m = 0; m < GDN_GROUP; m++) x[m] = v_load(in + i + m * GDN_VL);                                    \
            v_##name##_n(x, GDN_GROUP);                                                                                \
            for (int m = 0; m < GDN_GROUP; m++) v_store(out + i + m * GDN_VL, x[m]);                                   \
        }                                                                                                              \
        for (; i + GDN_VL <= n; i += GDN_VL) v_store(out + i, v_##name(v_load(in + i)));                               \
        int tail = (int)(n - i);                                                                                       \
        if (tail > 0) v_store_n(out + i, v_##name(v_load_n(in + i, tail)), tail);                                      \
    }
GDN_ELEMENTARY_LIST(GDN_ELEMENTARY_ARRAY)

#define GDN_ELEMENTARY_ENTRY(name, reference, bound) .name = name##_array,
const gdn_elementary_table GDN_ELEMENTARY_TABLE = { GDN_ELEMENTARY_LIST(GDN_ELEMENTARY_ENTRY) };
