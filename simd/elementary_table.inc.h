/* The array functions and the table of one instruction set, from the functions of elementary.inc.h.
 * The includer defines GDN_ELEMENTARY_TABLE, the table's name. */
#include "simd/elementary.h"

#define GDN_ELEMENTARY_ARRAY(name, reference, bound)                              \
    static void name##_array(const float *in, float *out, size_t n) {            \
        size_t i = 0;                                                             \
        for (; i + GDN_VL <= n; i += GDN_VL) v_store(out + i, v_##name(v_load(in + i))); \
        int tail = (int)(n - i);                                                  \
        if (tail > 0) v_store_n(out + i, v_##name(v_load_n(in + i, tail)), tail); \
    }
GDN_ELEMENTARY_LIST(GDN_ELEMENTARY_ARRAY)

#define GDN_ELEMENTARY_ENTRY(name, reference, bound) .name = name##_array,
const gdn_elementary_table GDN_ELEMENTARY_TABLE = {GDN_ELEMENTARY_LIST(GDN_ELEMENTARY_ENTRY)};
