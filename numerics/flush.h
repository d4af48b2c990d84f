/* Arithmetic at GDN_EXACT_FTZ in software (docs/reference/numerics.md), for the reference and for processors without
 * such a mode. A subnormal operand counts as the zero of its sign, and a tiny result is the zero of its sign. A result
 * is tiny if it is below 2^-126 after rounding to 24 bits with an unbounded exponent. That is the rule of x86's FTZ.
 * The processor's mode must keep subnormals. */
#ifndef GDN_NUMERICS_FLUSH_H
#define GDN_NUMERICS_FLUSH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Replaces a subnormal number by the zero of its sign. It tests the bits, because a comparison is arithmetic. */
static inline float gdn_flush(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    b &= b & 0x7f800000u ? 0xffffffffu : 0x80000000u;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* 1 if a result is 2^-126, the least normal number, or its negative. Such a result may be tiny: it was rounded to the
 * grid of subnormal numbers. Rounded to 24 bits with an unbounded exponent, whose grid is finer, it may be below
 * 2^-126. */
static inline int gdn_maybe_tiny(float r) { return fabsf(r) == 0x1p-126f; }

static inline float gdn_zero_of(float x) { return copysignf(0.0f, x); }

/* A sum of numbers that are not subnormal is a multiple of 2^-149, so a sum below 2^-126 is exact. */
static inline float gdn_add(float a, float b) { return gdn_flush(gdn_flush(a) + gdn_flush(b)); }

static inline float gdn_sub(float a, float b) { return gdn_flush(gdn_flush(a) - gdn_flush(b)); }

/* To decide whether a result of 2^-126 is tiny, the operation is repeated 2^64 times as large, far from the subnormal
 * range. The smaller factor is scaled, so the product does not overflow. If c overflows, it was 2^64 or more. Its last
 * bit and that of the product, which nearly cancels it, are then far above 2^-126, so the result was exact. */
static inline float gdn_fma(float a, float b, float c)
{
    a = gdn_flush(a);
    b = gdn_flush(b);
    c = gdn_flush(c);
    const float r = fmaf(a, b, c);
    if (gdn_maybe_tiny(r)) {
        const float small = fabsf(a) < fabsf(b) ? a : b, large = fabsf(a) < fabsf(b) ? b : a;
        if (fabsf(fmaf(small * 0x1p64f, large, c * 0x1p64f)) < 0x1p-62f) return gdn_zero_of(r);
    }
    return gdn_flush(r);
}

static inline float gdn_mul(float a, float b)
{
    a = gdn_flush(a);
    b = gdn_flush(b);
    const float r = a * b;
    if (gdn_maybe_tiny(r)) {
        const float small = fabsf(a) < fabsf(b) ? a : b, large = fabsf(a) < fabsf(b) ? b : a;
        if (fabsf(small * 0x1p64f * large) < 0x1p-62f) return gdn_zero_of(r);
    }
    return gdn_flush(r);
}

#endif
