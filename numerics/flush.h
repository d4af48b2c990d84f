/* Arithmetic that flushes to zero, in software: what GDN_EXACT_FTZ means (docs/reference/numerics.md), for the
 * reference and for processors that have no such mode. A subnormal operand counts as the zero of its sign, and a result
 * that is tiny is the zero of its sign. Tiny is what is below 2^-126 when it is rounded to 24 bits as if the exponent
 * had no bound: the rule of x86's FTZ, of which the processor needs nothing here. To be run where subnormals are kept.
 */
#ifndef GDN_NUMERICS_FLUSH_H
#define GDN_NUMERICS_FLUSH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The zero of its sign in the place of a subnormal number. On the bits: to compare it would be arithmetic. */
static inline float gdn_flush(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    b &= b & 0x7f800000u ? 0xffffffffu : 0x80000000u;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* Whether a result is the least normal number, 2^-126, or its negative. What is tiny is rounded as if the exponent had
 * no bound, and so to a finer grid than that of the subnormal numbers, which this result was rounded to: it may have
 * been a little less than what rounds to 2^-126 there. */
static inline int gdn_maybe_tiny(float r)
{
    return fabsf(r) == 0x1p-126f;
}

static inline float gdn_zero_of(float x)
{
    return copysignf(0.0f, x);
}

/* A sum of numbers that are not subnormal is a multiple of 2^-149, so that one below 2^-126 is exact. */
static inline float gdn_add(float a, float b)
{
    return gdn_flush(gdn_flush(a) + gdn_flush(b));
}

static inline float gdn_sub(float a, float b)
{
    return gdn_flush(gdn_flush(a) - gdn_flush(b));
}

/* Of the two factors the smaller is scaled, so that the same operation 2^64 times as large is far from tiny. Where that
 * overflows, the operation has nothing to round: a c of 2^64 or more, whose last bit is far above 2^-126, is met by a
 * product whose last bit is too. */
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
