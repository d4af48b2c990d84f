/* The right results of a probe (gpu/probe.h), at the level for which numerics/arithmetic.h is compiled. */
#ifndef GDN_GPU_PROBE_RESULTS_H
#define GDN_GPU_PROBE_RESULTS_H

#include "gpu/probe_call.h"
#include "numerics/elementary.h"

/* In the order of metal/probe.metal and the others. */
static inline void gdn_probe_results(float a, float b, float c, uint32_t want[GDN_GPU_PROBE_RESULTS])
{
    const float product = gdn_mul(a, b), x = gdn_flush(a), y = gdn_flush(b);
    want[0] = gdn_bits(gdn_fma(a, b, c));
    want[1] = gdn_bits(gdn_add(b, c));
    want[2] = gdn_bits(product);
    want[3] = gdn_bits(gdn_add(product, c));
    want[4] = gdn_bits(gdn_expf(c));
    want[5] = gdn_bits(gdn_silu(c));
    want[6] = gdn_bits(gdn_reciprocal(c));
    want[7] = (x < y ? 1u : 0u) | (x == y ? 2u : 0u) | (x != x ? 4u : 0u);
}

#endif
