/* Functions that gated_delta_net applies to q, k, g and beta before the recurrence (docs/reference/numerics.md). The
 * reference and the GPU kernels include this file, as they do numerics/elementary.h. */
#ifndef GDN_NUMERICS_PREPARE_H
#define GDN_NUMERICS_PREPARE_H

#include "numerics/elementary.h"

/* The factor that normalises a head's q or k; `sum` is dot32(x, x). It implements both norms of gated_delta_net:
 * GDN_NORM_ADD with add = eps, most = inf; GDN_NORM_CLAMP with add = 0, most = 1 / eps. A NaN stays a NaN. */
GDN_ELEMENTARY_FUNCTION float gdn_norm_factor(float sum, float add, float most)
{
    const float r = gdn_rsqrt(gdn_add(sum, add));
    const float factor = gdn_flush(most) < r ? most : r;
    return gdn_keep_nan(r, factor);
}

/* The logarithm of the decay for GDN_G_RAW; rate is -exp(A_log). */
GDN_ELEMENTARY_FUNCTION float gdn_raw_gate(float x, float rate, float bias)
{
    return gdn_mul(rate, gdn_softplus(gdn_add(x, bias)));
}

/* The logarithm of the decay for GDN_G_BOUNDED; rate is exp(A_log), or 1. */
GDN_ELEMENTARY_FUNCTION float gdn_bounded_gate(float x, float rate, float bias, float lower_bound)
{
    return gdn_mul(lower_bound, gdn_sigmoid(gdn_mul(rate, gdn_add(x, bias))));
}

#endif
