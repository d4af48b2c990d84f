/* Elementary functions: the definition.
 *
 * Every backend computes these exact sequences, so every backend gives these bits. They use only
 * +, -, *, fma, comparisons with selection, and integer operations on the bits, because GPUs round
 * divide, sqrt, exp and log differently. There is no min or max, because their treatment of NaN
 * differs; that of `a < b ? a : b` does not. Compile with -ffp-contract=off: only what is written as
 * gdn_fma is fused.
 *
 * NaN in gives a NaN out; its sign and payload are unspecified. Subnormals are kept, as input and as
 * output; at the level that flushes them (numerics/arithmetic.h), they are zeros as both. The numbered steps are the
 * same in simd/elementary.inc.h.
 * Coefficients: scripts/fit_elementary.py. Proofs: tests/unit/test_elementary.c over all 2^32 inputs.
 */
#ifndef GDN_NUMERICS_ELEMENTARY_H
#define GDN_NUMERICS_ELEMENTARY_H

/* All GPU kernels include this file. For CUDA, functions must be declared for the device (cuda/kernel.cuh). The other
 * languages have no C library: metal/language.h and vulkan/arithmetic.glsl define what this file takes from it, and the
 * functions between a float and its bits. GLSL has no hexadecimal floating-point literals, so constants are decimal. */
#ifndef GDN_ELEMENTARY_BITS
#include <math.h> /* fmaf only */
#include <stdint.h>
#include <string.h>
#endif
#include "numerics/arithmetic.h"
#ifndef GDN_ELEMENTARY_FUNCTION
#define GDN_ELEMENTARY_FUNCTION static inline
#endif

/* name, scalar definition, largest |result - exact| in ulps of the exact value (2^-149 in the
 * subnormal range). 0.5 is a claim of correct rounding, tested as such: a backend whose divide is IEEE's
 * may use it for the reciprocal. The exact softplus is that of the frameworks, x > 20 ? x : log(1 + e^x). */
#define GDN_ELEMENTARY_LIST(X)                                                                                         \
    X(exp, gdn_expf, 0.69)                                                                                             \
    X(log1p, gdn_log1pf, 0.91)                                                                                         \
    X(reciprocal, gdn_reciprocal, 0.5)                                                                                 \
    X(rsqrt, gdn_rsqrt, 0.5)                                                                                           \
    X(sigmoid, gdn_sigmoid, 2.0)                                                                                       \
    X(silu, gdn_silu, 2.0)                                                                                             \
    X(softplus, gdn_softplus, 1.6)

#define GDN_INF_BITS      0x7f800000u
#define GDN_NAN_BITS      0x7fc00000u
#define GDN_SIGN_BIT      0x80000000u
#define GDN_EXPONENT_MASK 0xff800000u /* whole powers of two, as a difference of bits, sign included */
#define GDN_MIN_NORMAL    1.1754944e-38f

#define GDN_LOG2E       1.442695f
#define GDN_LN2_HI      0.69314575f    /* 0x1.62e4p-1: 15 bits, so that n * LN2_HI is exact */
#define GDN_LN2_LO      1.4286068e-06f /* ln 2 - LN2_HI */
#define GDN_ROUND_MAGIC 12582912.0f    /* adding it rounds to an integer and leaves that in the low bits */

#define GDN_EXP_SUBNORMAL -87.33654f /* -126 ln 2: exp of anything below it is subnormal */

/* exp(r) = 1 + r + r^2 (C2 + C3 r + ... + C6 r^4), |r| <= ln(2)/2: relative error 2^-28.2. */
#define GDN_EXP_C2 0.49999994f
#define GDN_EXP_C3 0.16666517f
#define GDN_EXP_C4 0.041668102f
#define GDN_EXP_C5 0.008369196f
#define GDN_EXP_C6 0.001383904f

/* log(1 + f) = f + f^2 (C2 + C3 f + ... + C10 f^8), -1/4 <= f <= 1/2: relative error 2^-27.0. */
#define GDN_LOG_C2  -0.5f
#define GDN_LOG_C3  0.33333462f
#define GDN_LOG_C4  -0.25000194f
#define GDN_LOG_C5  0.19990395f
#define GDN_LOG_C6  -0.16642739f
#define GDN_LOG_C7  0.14475356f
#define GDN_LOG_C8  -0.13205671f
#define GDN_LOG_C9  0.105816424f
#define GDN_LOG_C10 -0.04596288f

/* Seeds: the bits of the result are nearly linear in the bits of the argument. */
#define GDN_RECIPROCAL_SEED 0x7ef311c7u /* 1/d to 5.1% */
#define GDN_RSQRT_SEED      0x5f3759dfu /* 1/sqrt(d) to 3.5% */

#ifndef GDN_ELEMENTARY_BITS
GDN_ELEMENTARY_FUNCTION uint32_t gdn_bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

GDN_ELEMENTARY_FUNCTION float gdn_from_bits(uint32_t b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}
#endif

#ifndef gdn_keep_nan                          /* vulkan/arithmetic.glsl defines its own */
#define gdn_from_int(b) ((float)(int32_t)(b)) /* the float of the integer with these bits */
#define gdn_is_nan(x)   ((x) != (x))
/* `result`, or x if that is a NaN. In C the comparisons have kept it. Compilers of GLSL may turn them into min and max,
 * which do not. */
#define gdn_keep_nan(x, result) ((void)(x), (result))
#endif

/* Arithmetic shift right by one, in unsigned terms so that C defines it. */
GDN_ELEMENTARY_FUNCTION uint32_t gdn_sar1(uint32_t b) { return (b >> 1) | (b & GDN_SIGN_BIT); }

/* exp(x) = 2^n exp(r), n = round(x / ln 2).
 * Domain: all. Overflows to inf above 88.72, underflows gradually, to +0 below -103.97. exp(0) = 1. */
GDN_ELEMENTARY_FUNCTION float gdn_expf(float x)
{
    /* [1] clamp, so that n has 9 bits; both ends are past the point where the result is inf or 0 */
    const float argument = x;
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    /* [2] reduce: x = n ln2 + r + c; h is exact, c is what r's rounding lost;
     * n >= -149, because 2^-150 is no float */
    float t = gdn_fma(x, GDN_LOG2E, GDN_ROUND_MAGIC);
    t = t < GDN_ROUND_MAGIC - 149.0f ? GDN_ROUND_MAGIC - 149.0f : t;
    float n = gdn_sub(t, GDN_ROUND_MAGIC);
    float h = gdn_fma_exact_product(-n, GDN_LN2_HI, x);
    float r = gdn_fma(-n, GDN_LN2_LO, h);
    float c = gdn_fma(-n, GDN_LN2_LO, gdn_sub(h, r));
    /* [3] polynomial: u = exp(r + c) - 1 - r */
    float q = GDN_EXP_C6;
    q = gdn_fma(q, r, GDN_EXP_C5);
    q = gdn_fma(q, r, GDN_EXP_C4);
    q = gdn_fma(q, r, GDN_EXP_C3);
    q = gdn_fma(q, r, GDN_EXP_C2);
    float u = gdn_fma(gdn_mul(r, r), q, c);
    /* [4] exp(r + c) = s + w, with 1 + r = s + l exactly; s = 1 for a subnormal result, so that s scaled is exact */
    float s = x < GDN_EXP_SUBNORMAL ? 1.0f : gdn_add(1.0f, r);
    float l = gdn_sub(r, gdn_sub(s, 1.0f));
    float w = gdn_add(l, u);
    /* [5] scale by 2^n in two halves, because 2^n alone may be out of range; only the fma rounds */
    uint32_t n_bits = gdn_bits(t) << 23;
    uint32_t half_bits = gdn_sar1(n_bits) & GDN_EXPONENT_MASK;
    float scale1 = gdn_from_bits(0x3f800000u + half_bits);
    float scale2 = gdn_from_bits(0x3f800000u + (n_bits - half_bits));
    float result = gdn_fma(gdn_mul(w, scale1), scale2, gdn_mul(gdn_mul(s, scale1), scale2));
    return gdn_keep_nan(argument, result);
}

/* log1p(x) = k ln2 + log(1 + f), 1 + x = 2^k (1 + f) with 1 + f in [3/4, 3/2).
 * Domain: x >= -1; log1p(-1) = -inf, below it NaN. Subnormals and -0 come back as they are. */
GDN_ELEMENTARY_FUNCTION float gdn_log1pf(float x)
{
    /* [1] reduce: f = x 2^-k + (2^-k - 1), exact; k_bits = k 2^23; 4 2^-k, because 2^-128 is no normal number */
    uint32_t k_bits = (gdn_bits(gdn_add(1.0f, x)) - 0x3f400000u) & GDN_EXPONENT_MASK;
    float x_scaled = gdn_from_bits(gdn_bits(x) - k_bits);
    float four_scaled = gdn_from_bits(0x40800000u - k_bits);
    float f = gdn_add(x_scaled, gdn_fma_exact_product(0.25f, four_scaled, -1.0f));
    /* [2] polynomial: log(1 + f) = f + f^2 q */
    float q = GDN_LOG_C10;
    q = gdn_fma(q, f, GDN_LOG_C9);
    q = gdn_fma(q, f, GDN_LOG_C8);
    q = gdn_fma(q, f, GDN_LOG_C7);
    q = gdn_fma(q, f, GDN_LOG_C6);
    q = gdn_fma(q, f, GDN_LOG_C5);
    q = gdn_fma(q, f, GDN_LOG_C4);
    q = gdn_fma(q, f, GDN_LOG_C3);
    q = gdn_fma(q, f, GDN_LOG_C2);
    /* [3] s + l = k LN2_HI + f exactly, then the small terms */
    float k = gdn_from_int(k_bits);
    float h = gdn_mul(k, GDN_LN2_HI * 1.1920929e-07f);
    float s = gdn_add(h, f);
    float l = gdn_sub(f, gdn_sub(s, h));
    float u = gdn_fma(gdn_mul(f, f), q, gdn_fma(k, GDN_LN2_LO * 1.1920929e-07f, l));
    float result = gdn_add(s, u);
    /* [4] ends of the domain; the result has the sign of x, which matters for -0 */
    float below = x == -1.0f ? -gdn_from_bits(GDN_INF_BITS) : gdn_from_bits(GDN_NAN_BITS);
    result = x > -1.0f ? result : below;
    result = x == gdn_from_bits(GDN_INF_BITS) ? x : result;
    result = gdn_from_bits(gdn_bits(result) | (gdn_bits(x) & GDN_SIGN_BIT));
    return gdn_keep_nan(x, result);
}

/* 1/x, correctly rounded: the bits of an IEEE division 1.0f / x.
 * Domain: all; 1/(+-0) = +-inf, 1/(+-inf) = +-0. */
GDN_ELEMENTARY_FUNCTION float gdn_reciprocal(float x)
{
    /* [1] split: |x| pre = m 2^(e-128), m in [2, 4), e_bits = e 2^23 */
    float a = gdn_from_bits(gdn_bits(x) & ~GDN_SIGN_BIT);
    float pre = a < GDN_MIN_NORMAL ? 16777216.0f : 1.0f;
    uint32_t b = gdn_bits(gdn_mul(a, pre));
    uint32_t e_bits = b & GDN_INF_BITS;
    float m = gdn_from_bits((b & 0x007fffffu) | 0x40000000u);
    /* [2] y = 1/m: seed, a cubic step, a Newton step */
    float y = gdn_from_bits(GDN_RECIPROCAL_SEED - gdn_bits(m));
    float e = gdn_fma(-m, y, 1.0f);
    e = gdn_fma(e, e, e);
    y = gdn_fma(y, e, y);
    e = gdn_fma(-m, y, 1.0f);
    y = gdn_fma(y, e, y);
    /* [3] one ulp up: for m = 4 - ulp, y would be 1/4, and e + e^2 in [4] a tie that rounds the wrong way. Where
     * 1/x may be subnormal, 22 bits instead, so that y scaled is still exact */
    uint32_t up = gdn_bits(y) + 1u;
    y = gdn_from_bits(e_bits >= 0x7e800000u ? (up + 1u) & ~3u : up);
    /* [4] the residual of that y is exact; the last fma is the only rounding */
    e = gdn_fma(-m, y, 1.0f);
    e = gdn_fma(e, e, e);
    y = gdn_mul(y, gdn_from_bits(GDN_INF_BITS - e_bits));
    y = gdn_mul(gdn_fma(y, e, y), pre);
    /* [5] zero, sign, NaN */
    y = gdn_flush(a) == 0.0f ? gdn_from_bits(GDN_INF_BITS) : y;
    y = gdn_from_bits(gdn_bits(y) | (gdn_bits(x) & GDN_SIGN_BIT));
    return gdn_is_nan(x) ? x : y;
}

/* 1/sqrt(x), correctly rounded.
 * Domain: x >= 0; rsqrt(+-0) = +-inf, rsqrt(inf) = +0, below 0 NaN. */
GDN_ELEMENTARY_FUNCTION float gdn_rsqrt(float x)
{
    /* [1] lift subnormals; the result is never subnormal, so that undoing it is exact */
    float pre = x < GDN_MIN_NORMAL ? 16777216.0f : 1.0f;
    float post = x < GDN_MIN_NORMAL ? 4096.0f : 1.0f;
    float b = gdn_mul(x, pre);
    /* [2] y = 1/sqrt(b): seed, a cubic step, a Newton step */
    float y = gdn_from_bits(GDN_RSQRT_SEED - (gdn_bits(b) >> 1));
    float h = gdn_mul(b, y);
    float e = gdn_fma(-h, y, 1.0f);
    y = gdn_fma(y, gdn_mul(gdn_fma(e, 0.375f, 0.5f), e), y);
    h = gdn_mul(b, y);
    e = gdn_fma(-h, y, 1.0f);
    y = gdn_fma(gdn_mul(0.5f, y), e, y);
    /* [3] a cubic step with the residual of b y y in twice the precision: b y = h + l */
    h = gdn_mul(b, y);
    float l = gdn_fma(b, y, -h);
    e = gdn_fma(-l, y, gdn_fma(-h, y, 1.0f));
    y = gdn_mul(gdn_fma(y, gdn_fma(gdn_mul(0.375f, e), e, gdn_mul(0.5f, e)), y), post);
    /* [4] ends of the domain */
    float signed_inf = gdn_from_bits(GDN_INF_BITS | (gdn_bits(x) & GDN_SIGN_BIT));
    y = gdn_flush(x) > 0.0f ? y : gdn_from_bits(GDN_NAN_BITS);
    y = gdn_flush(x) == 0.0f ? signed_inf : y;
    y = x == gdn_from_bits(GDN_INF_BITS) ? 0.0f : y;
    return gdn_keep_nan(x, y);
}

/* num / (1 + exp(-x)), for x >= -110 and num = 1 or x: sigmoid and silu.
 * exp(-x) = 2^n (1 - v). Numerator and denominator are scaled by 2^-half, half = n/2 rounded down: nothing
 * overflows for very negative x, and a subnormal result is rounded only by the last product. */
GDN_ELEMENTARY_FUNCTION float gdn_logistic(float x, float num)
{
    /* [1] reduce: r = x + n ln2 */
    float t = gdn_fma(x, -GDN_LOG2E, GDN_ROUND_MAGIC);
    float n = gdn_sub(t, GDN_ROUND_MAGIC);
    float r = gdn_fma_exact_product(n, GDN_LN2_HI, x);
    r = gdn_fma(n, GDN_LN2_LO, r);
    /* [2] polynomial: 1 - v = exp(-r) */
    float p = GDN_EXP_C6;
    p = gdn_fma(-p, r, GDN_EXP_C5);
    p = gdn_fma(-p, r, GDN_EXP_C4);
    p = gdn_fma(-p, r, GDN_EXP_C3);
    p = gdn_fma(-p, r, GDN_EXP_C2);
    p = gdn_fma(-p, r, 1.0f);
    float v = gdn_mul(p, r);
    /* [3] d = (1 + exp(-x)) 2^-half */
    uint32_t n_bits = gdn_bits(t) << 23;
    uint32_t half_bits = gdn_sar1(n_bits) & GDN_EXPONENT_MASK;
    float scale1 = gdn_from_bits(0x3f800000u + (n_bits - half_bits));
    float minus_scale2 = gdn_from_bits(0xbf800000u - half_bits);
    float d = gdn_sub(scale1, gdn_fma_exact_product(v, scale1, minus_scale2));
    /* [4] y = -1/d: seed, a quartic step, a cubic one. Negative, so that silu(-0) = -0 comes out of [5] without
     * negating an fma: GCC 12 turns -(a b - c) into c - a b, which is the other zero */
    float y = gdn_from_bits((GDN_RECIPROCAL_SEED | GDN_SIGN_BIT) - gdn_bits(d));
    float e = gdn_fma(d, y, 1.0f);
    y = gdn_fma(y, e, y);
    y = gdn_fma(y, gdn_mul(e, e), y);
    e = gdn_fma(d, y, 1.0f);
    e = gdn_fma(e, e, e);
    y = gdn_fma(y, e, y);
    /* [5] q = -num / d, correctly rounded by its residual: IEEE's division does as well. Undo the scaling and the sign
     */
    float q = gdn_mul(num, y);
    e = gdn_fma(q, d, num);
    q = gdn_mul(gdn_fma(e, y, q), minus_scale2);
    /* [6] beyond 18 the denominator is 1 to rounding, and n may no longer fit */
    return x > 18.0f ? num : q;
}

/* 1 / (1 + exp(-x)). Domain: all; sigmoid(-inf) = +0, sigmoid(inf) = 1. */
GDN_ELEMENTARY_FUNCTION float gdn_sigmoid(float x)
{
    float y = gdn_logistic(x < -110.0f ? -110.0f : x, 1.0f);
    return gdn_keep_nan(x, y);
}

/* x / (1 + exp(-x)). Domain: all; silu(-inf) = -0, silu(inf) = inf, silu(+-0) = +-0. */
GDN_ELEMENTARY_FUNCTION float gdn_silu(float x)
{
    float least = x < -110.0f ? -110.0f : x;
    float y = gdn_logistic(least, least);
    return gdn_keep_nan(x, y);
}

/* x > 20 ? x : log(1 + exp(x)), as PyTorch and Hugging Face define it. Domain: all; softplus(-inf) = +0. */
GDN_ELEMENTARY_FUNCTION float gdn_softplus(float x)
{
    float y = gdn_log1pf(gdn_expf(x));
    return x > 20.0f ? x : y;
}

#endif
