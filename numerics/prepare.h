/* Functions that gated_delta_net applies to q, k, g and beta before the recurrence (docs/reference/numerics.md). The
 * reference and the GPU kernels include this file, as they do numerics/elementary.h. */
#ifndef GDN_NUMERICS_PREPARE_H
#define GDN_NUMERICS_PREPARE_H

#include "call/types.h"
#include "numerics/elementary.h"

/* The factor that normalises a head's q or k; `sum` is dot32(x, x). It implements both norms of gated_delta_net:
 * GDN_NORM_ADD with add = eps, most = inf; GDN_NORM_CLAMP with add = 0, most = 1 / eps. A NaN stays a NaN. */
GDN_ELEMENTARY_FUNCTION float gdn_norm_factor(float sum, float add, float most)
{
    const float r = gdn_rsqrt(gdn_add(sum, add));
    const float factor = gdn_flush(most) < r ? most : r;
    return gdn_keep_nan(r, factor);
}

/* The factor of a raw gate, of a head's element of ssm_a; 0 where that is absent. */
GDN_ELEMENTARY_FUNCTION float gdn_gate_rate(GDN_I32T gate_input, float a)
{
    if (gate_input == GDN_G_RAW_A_LOG) return -gdn_expf(a);
    return gate_input == GDN_G_BOUNDED ? gdn_expf(a) : a;
}

/* The logarithm of the decay, of an element x of g; not of GDN_G_LINEAR. rate is gdn_gate_rate(). */
GDN_ELEMENTARY_FUNCTION float gdn_decay_log(GDN_I32T gate_input, float x, float rate, float bias, float lower_bound)
{
    if (gate_input == GDN_G_BOUNDED) return gdn_mul(lower_bound, gdn_sigmoid(gdn_mul(rate, gdn_add(x, bias))));
    return gate_input == GDN_G_LOG ? x : gdn_mul(rate, gdn_softplus(gdn_add(x, bias)));
}

/* 2: the decay. */
GDN_ELEMENTARY_FUNCTION float gdn_decay(GDN_I32T gate_input, float x, float rate, float bias, float lower_bound)
{
    return gate_input == GDN_G_LINEAR ? x : gdn_expf(gdn_decay_log(gate_input, x, rate, bias, lower_bound));
}

#endif
