/* Chooses the reference's compiled version for this processor. See reference.h. */
#include "reference/chunked.h"
#include "simd/features.h"

#if defined(__x86_64__)
#define GDN_CHOOSE(name, level) (gdn_simd_has_fma() ? gdn_ref_##name##level##_fma : gdn_ref_##name##level##_any)
#else
#define GDN_CHOOSE(name, level) gdn_ref_##name##level##_any
#endif

#define GDN_AT_LEVEL(stem, level)                                                                                      \
    int64_t gdn_ref_##stem##_items##level(const gdn_##stem##_call *p) { return GDN_CHOOSE(stem##_items, level)(p); }   \
    void gdn_ref_##stem##level(const gdn_##stem##_call *p, int64_t item, void *scratch)                                \
    {                                                                                                                  \
        GDN_CHOOSE(stem, level)(p, item, scratch);                                                                     \
    }
GDN_AT_LEVEL(gated_delta_net, )
GDN_AT_LEVEL(gated_delta_net, _flush)
GDN_AT_LEVEL(ssm_conv, )
GDN_AT_LEVEL(ssm_conv, _flush)
GDN_AT_LEVEL(set_rows, )
GDN_AT_LEVEL(set_rows, _flush)

uint64_t gdn_ref_scratch_bytes(const gdn_gated_delta_net_call *p)
{
    return p->digits ? gdn_ref_chunked_bytes_any(p) : 0;
}
