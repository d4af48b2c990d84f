/* The reference as a table. It runs without a vector version, and tests compare the others with it. */
#include "tests/unit/elementary_table.h"

#define GDN_ELEMENTARY_ARRAY(name, reference, bound)                                                                   \
    static void name##_array(const float *in, float *out, size_t n)                                                    \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) out[i] = reference(in[i]);                                                      \
    }
GDN_ELEMENTARY_LIST(GDN_ELEMENTARY_ARRAY)

#define GDN_ELEMENTARY_ENTRY(name, reference, bound) .name = name##_array,
const gdn_elementary_table gdn_elementary_scalar = { GDN_ELEMENTARY_LIST(GDN_ELEMENTARY_ENTRY) };
