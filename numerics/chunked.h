/* The numbers of the chunked form of gated_delta_net: steps of gates, lines, digits
 * (docs/reference/numerics-chunked.md). The reference, the scalar parts of the CPU's kernels and those of CUDA include
 * this file. */
#ifndef GDN_NUMERICS_CHUNKED_H
#define GDN_NUMERICS_CHUNKED_H

#include <math.h>
#include <stdint.h>

#include "numerics/elementary.h"

enum { GDN_CHUNK = 32, GDN_CHUNK_BLOCK = 16, GDN_MOST_DIGITS = 3 };

#define GDN_LINE_HEADROOM   0x1.022p0f /* room for the carry of the top digit */
#define GDN_LINE_EXPONENT   (-104)     /* the least: factors and what they multiply stay normal numbers */
#define GDN_LEAST_GATE      (-100.0f)
#define GDN_LEAST_STEPS     (-(INT64_C(1) << 37))
#define GDN_FACTOR_OF_ZEROS 0x1p-111f

/* What sums of products of digits are added in: an integer, or for a test a float, which gives the same bits. */
#ifndef GDN_DIGIT_SUM
#define GDN_DIGIT_SUM int32_t
#endif

/* ---- Gates ---- */

/* 1 if a gate makes all that follows it in its chunk NaN. */
GDN_ELEMENTARY_FUNCTION int gdn_gate_spoiled(float g) { return !(gdn_flush(g) <= 0); }

/* The step of a gate, in 2^-30. */
GDN_ELEMENTARY_FUNCTION int64_t gdn_gate_step(float g)
{
    if (gdn_gate_spoiled(g)) return 0;
    return (int64_t)rintf(gdn_mul(g > GDN_LEAST_GATE ? g : GDN_LEAST_GATE, 0x1p30f));
}

/* The decay of a sum of steps. */
GDN_ELEMENTARY_FUNCTION float gdn_decay_of_steps(int64_t d)
{
    if (d < GDN_LEAST_STEPS) d = GDN_LEAST_STEPS;
    return gdn_expf(gdn_fma((float)(int32_t)(d >> 16), 0x1p-14f, (float)(int32_t)(d & 65535) * 0x1p-30f));
}

/* ---- Lines ---- */

/* What makes a line's digits, 2^(8s-1-e), and its factor. */
typedef struct gdn_line {
    float scale, factor;
} gdn_line;

/* Of the bits of a line's largest element without its sign. The digits of a line whose factor is NaN are 0. */
GDN_ELEMENTARY_FUNCTION gdn_line gdn_line_of(uint32_t most, int32_t digits)
{
    int32_t e = (int32_t)(gdn_bits(gdn_mul(gdn_from_bits(most), GDN_LINE_HEADROOM)) >> 23 & 255) - 126;
    if (e < GDN_LINE_EXPONENT) e = GDN_LINE_EXPONENT;
    const uint32_t scale = (uint32_t)(8 * digits - 1 - e + 127) << 23, factor = (uint32_t)(e - 7 + 127) << 23;
    const gdn_line line = { gdn_from_bits(scale), gdn_from_bits(most >= GDN_INF_BITS ? GDN_NAN_BITS : factor) };
    return line;
}

/* The factor of a line as a row of a product. */
GDN_ELEMENTARY_FUNCTION float gdn_left_factor(float factor, int32_t digits)
{
    return digits == 2 ? factor * 0x1p-8f : factor;
}

GDN_ELEMENTARY_FUNCTION int32_t gdn_line_integer(float x, gdn_line line)
{
    return isnan(line.factor) ? 0 : (int32_t)rintf(gdn_mul(x, line.scale));
}

/* Digit a of the integer of an element; digit 0 is the top. */
GDN_ELEMENTARY_FUNCTION int8_t gdn_digit(int32_t n, int32_t a, int32_t digits)
{
    for (int32_t below = digits - 1; below > a; below--) n = (n - (int8_t)(n & 255)) >> 8; /* without the digit below */
    return (int8_t)(a ? n & 255 : n);
}

/* The integer of an element's digits, times its line's factor: the element. */
GDN_ELEMENTARY_FUNCTION float gdn_line_element(int32_t n, float factor, int32_t digits)
{
    return gdn_mul((float)n * (digits == 2 ? 0x1p-8f : 0x1p-16f), factor);
}

/* The dot product of two lines, of its sums. */
GDN_ELEMENTARY_FUNCTION float gdn_digit_dot(const GDN_DIGIT_SUM g[GDN_MOST_DIGITS], int32_t digits)
{
    if (digits == 2) return fmaf(256, (float)g[0], (float)g[1]);
    return fmaf(0x1p-8f, fmaf(0x1p-8f, (float)g[2], (float)g[1]), (float)g[0]);
}

/* ---- States of digits: a head's memory, in bytes ---- */

GDN_ELEMENTARY_FUNCTION int64_t gdn_state_digit(int32_t head_dim_k, int32_t digits, int32_t i, int32_t j, int32_t a)
{
    return ((((int64_t)(j / 16) * (head_dim_k / 4) + i / 4) * digits + a) * 16 + j % 16) * 4 + i % 4;
}

/* The factor of value channel 0. The others follow. */
GDN_ELEMENTARY_FUNCTION int64_t gdn_state_factors(int32_t head_dim_k, int32_t head_dim_v, int32_t digits)
{
    return (int64_t)head_dim_k * head_dim_v * digits;
}

#endif
