/* What gated_delta_net does to q, k, g and beta before the recurrence, as docs/reference/numerics.md says. CUDA and
 * Metal kernels include this file, as they do numerics/elementary.h, and so does the reference. */
#ifndef GDN_NUMERICS_PREPARE_H
#define GDN_NUMERICS_PREPARE_H

#include "numerics/elementary.h"

/* What a head's q or k is multiplied by, `sum` being dot32(x, x). Both norms of gated_delta_net are this one function:
 * GDN_NORM_ADD with add = eps, most = inf; GDN_NORM_CLAMP with add = 0, most = 1 / eps. A NaN stays one. */
GDN_ELEMENTARY_FUNCTION float gdn_norm_factor(float sum, float add, float most)
{
    const float r = gdn_rsqrt(gdn_add(sum, add));
    return gdn_flush(most) < r ? most : r;
}

/* GDN_G_RAW's logarithm of the decay; rate is -exp(A_log). */
GDN_ELEMENTARY_FUNCTION float gdn_raw_gate(float x, float rate, float bias)
{
    return gdn_mul(rate, gdn_softplus(gdn_add(x, bias)));
}

/* GDN_G_BOUNDED's; rate is exp(A_log), or 1. */
GDN_ELEMENTARY_FUNCTION float gdn_bounded_gate(float x, float rate, float bias, float lower_bound)
{
    return gdn_mul(lower_bound, gdn_sigmoid(gdn_mul(rate, gdn_add(x, bias))));
}

#endif
