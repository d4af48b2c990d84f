/* Which of the reference's compiled versions this processor runs. See reference.h. */
#include "reference/reference.h"
#include "simd/features.h"

#if defined(__x86_64__)
#define GDN_CHOOSE(name) (gdn_simd_has_fma() ? gdn_ref_##name##_fma : gdn_ref_##name##_any)
#else
#define GDN_CHOOSE(name) gdn_ref_##name##_any
#endif

#define GDN_KERNEL(stem, number, title, last, end)                                                                     \
    int64_t gdn_ref_##stem##_items(const gdn_##stem##_problem *p)                                                      \
    {                                                                                                                  \
        return GDN_CHOOSE(stem##_items)(p);                                                                            \
    }                                                                                                                  \
    void gdn_ref_##stem(const gdn_##stem##_problem *p, int64_t item)                                                   \
    {                                                                                                                  \
        GDN_CHOOSE(stem)(p, item);                                                                                     \
    }
#include "core/kernels.def"
#undef GDN_KERNEL
