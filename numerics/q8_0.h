/* The numbers of a Q8_0 block, for all GPU kernels too (docs/reference/numerics.md). */
#ifndef GDN_NUMERICS_Q8_0_H
#define GDN_NUMERICS_Q8_0_H

#include "numerics/elementary.h"

/* The step: d = amax / 127, correctly rounded without a division. Infinity and NaN are returned unchanged. */
GDN_ELEMENTARY_FUNCTION float gdn_q8_0_step(float amax)
{
    const float by_127 = gdn_from_bits(0x3c010204u); /* 1/127 rounded */
    const float q0 = gdn_mul(amax, by_127);
    const float d = gdn_fma(gdn_fma(-127.0f, q0, amax), by_127, q0);
    return (gdn_bits(amax) & ~GDN_SIGN_BIT) >= GDN_INF_BITS ? amax : d;
}

/* 1 / d, or 0 for d below 2^-100: the step is then zero in binary16 anyway, and its reciprocal might overflow. */
GDN_ELEMENTARY_FUNCTION float gdn_q8_0_inverse(float d)
{
    return gdn_bits(d) - 0x0d800000u < GDN_INF_BITS - 0x0d800000u ? gdn_reciprocal(d) : 0.0f;
}

/* x / d as a whole number for a signed byte: x times the inverse to the nearest, ties to even; a NaN is 0. */
GDN_ELEMENTARY_FUNCTION float gdn_q8_0_value(float x, float inverse)
{
    const float y = gdn_mul(x, inverse);
    const float even = gdn_sub(gdn_add(y, GDN_ROUND_MAGIC), GDN_ROUND_MAGIC);
    return (gdn_bits(y) & ~GDN_SIGN_BIT) > GDN_INF_BITS ? 0.0f : even;
}

#endif
