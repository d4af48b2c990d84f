/* Readers of GGUF's quantised types, block by block: the meaning of the bytes. weights.c has the types that the kernels
 * decode in registers. Inline, so that each instruction set compiles its own.
 *
 * `at` is the first byte of the block, or of its super-block of 256 elements, in which it is block j. Each function
 * writes the weights, d, and whatever differs from factors and minima of 1 and m of 0. All products for d are exact:
 * F16 times at most 6 bits, or a power of two. */
#ifndef GDN_RUNTIME_QUANT_BLOCKS_H
#define GDN_RUNTIME_QUANT_BLOCKS_H

#include "numerics/convert.h"
#include "runtime/files/quant_grids.h"
#include "runtime/files/weights.h"

#ifndef RT_FROM_F16 /* from 16 bits; an instruction set may define its own */
#define RT_FROM_F16(bits) gdn_from_f16((uint16_t)(bits))
#endif
#define RT_LOAD_F16(at) RT_FROM_F16(rt_bits16(at))

/* Always inlined, so that unused results cost nothing: the vector versions use only the scales. */
#define RT_READER static inline __attribute__((always_inline)) void

static inline uint32_t rt_bits16(const unsigned char *at) { return (uint32_t)at[0] | (uint32_t)at[1] << 8; }
static inline uint32_t rt_bits32(const unsigned char *at) { return rt_bits16(at) | rt_bits16(at + 2) << 16; }

/* ---- Nibbles: the low ones of 16 bytes are elements 0 to 15, the high ones 16 to 31 ---- */

/* Subtracts `zero`; with five bits, the fifth of element i is bit i of `high`. */
RT_READER rt_read_nibbles(const unsigned char *nibbles, uint32_t high, int zero, rt_weight_block *out)
{
    for (int i = 0; i < 16; i++) {
        out->w[i] = (int8_t)(((nibbles[i] & 15) | (high >> i & 1) << 4) - (uint32_t)zero);
        out->w[i + 16] = (int8_t)((nibbles[i] >> 4 | (high >> (i + 16) & 1) << 4) - (uint32_t)zero);
    }
}

RT_READER rt_read_table(const unsigned char *nibbles, const int8_t value[16], rt_weight_block *out)
{
    for (int i = 0; i < 16; i++) {
        out->w[i] = value[nibbles[i] & 15];
        out->w[i + 16] = value[nibbles[i] >> 4];
    }
}

/* d, minimum (added, so m is its negative), [5 bits: the fifth ones], nibbles */
RT_READER rt_read_q4_1(const unsigned char *at, rt_weight_block *out)
{
    out->d = RT_LOAD_F16(at);
    out->m = -RT_LOAD_F16(at + 2);
    rt_read_nibbles(at + 4, 0, 0, out);
}

RT_READER rt_read_q5_1(const unsigned char *at, rt_weight_block *out)
{
    out->d = RT_LOAD_F16(at);
    out->m = -RT_LOAD_F16(at + 2);
    rt_read_nibbles(at + 8, rt_bits32(at + 4), 0, out);
}

RT_READER rt_read_q5_0(const unsigned char *at, rt_weight_block *out)
{
    out->d = RT_LOAD_F16(at);
    rt_read_nibbles(at + 6, rt_bits32(at + 2), 16, out);
}

static const int8_t rt_values_iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
/* E2M1, doubled (OCP Microscaling Formats 1.0) */
static const int8_t rt_values_mxfp4[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

RT_READER rt_read_iq4_nl(const unsigned char *at, rt_weight_block *out)
{
    out->d = RT_LOAD_F16(at);
    rt_read_table(at + 2, rt_values_iq4, out);
}

/* d, 8 x 2 high bits of scales, 8 x 4 low bits, nibbles; scales have an offset of 32 */
RT_READER rt_read_iq4_xs(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    const int32_t scale = (at[4 + j / 2] >> j % 2 * 4 & 15) | (int32_t)(rt_bits16(at + 2) >> 2 * j & 3) << 4;
    out->d = RT_LOAD_F16(at) * (float)(scale - 32);
    rt_read_table(at + 8 + 16 * j, rt_values_iq4, out);
}

/* E8M0, halved since values are doubled: 2^(e - 128), subnormal for 0 and 1. As in ggml, 255 is 2^127, not NaN. */
RT_READER rt_read_mxfp4(const unsigned char *at, rt_weight_block *out)
{
    out->d = gdn_from_bits(at[0] < 2 ? (uint32_t)0x00200000 << at[0] : (uint32_t)(at[0] - 1) << 23);
    rt_read_table(at + 1, rt_values_mxfp4, out);
}

/* ---- Q2_K, Q3_K: 64 bytes of two bits, as in Q6_K: each of 32 bytes serves four elements, 32 apart ---- */

/* 16 bytes of scales (low nibbles) and minima (high ones), each of 16 elements; two bits; d; dmin */
RT_READER rt_read_q2_k(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    const unsigned char *bits = at + 16 + j / 4 * 32;
    for (int i = 0; i < 32; i++) out->w[i] = (int8_t)(bits[i] >> j % 4 * 2 & 3);
    for (int h = 0; h < 2; h++) {
        out->factor[h] = at[2 * j + h] & 15;
        out->min[h] = at[2 * j + h] >> 4;
    }
    out->d = RT_LOAD_F16(at + 80);
    out->m = RT_LOAD_F16(at + 82);
}

/* 32 bytes of third bits (0: subtract 4); two bits; 16 scales of 6 bits with an offset of 32: 16 low nibbles in 8
 * bytes, then 4 x 4 pairs of high bits; d */
RT_READER rt_read_q3_k(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    const unsigned char *bits = at + 32 + j / 4 * 32, *scales = at + 96;
    for (int i = 0; i < 32; i++) out->w[i] = (int8_t)((bits[i] >> j % 4 * 2 & 3) - (at[i] >> j & 1 ? 0 : 4));
    for (int h = 0; h < 2; h++) {
        const int k = 2 * j + h;
        out->factor[h] = ((scales[k % 8] >> k / 8 * 4 & 15) | (scales[8 + k % 4] >> k / 4 * 2 & 3) << 4) - 32;
    }
    out->d = RT_LOAD_F16(at + 108);
}

/* ---- Grids: 8 elements at once, as the bytes of a number ---- */

#define RT_BYTES(b) (UINT64_C(0x0101010101010101) * (b))

/* Elements 8 k to 8 k + 7; those whose bit in `signs` is set are negative. None is 0. */
RT_READER rt_put_signed(uint64_t grid, uint32_t signs, int k, rt_weight_block *out)
{
    const uint64_t bits = RT_BYTES(signs & 255u) & UINT64_C(0x8040201008040201);
    const uint64_t ones =
        (bits + RT_BYTES(127u)) >> 7 & RT_BYTES(1u); /* 1 in negative bytes: no carry crosses a byte */
    const uint64_t w = (grid ^ ones * 255) + ones;
    for (int i = 0; i < 8; i++) out->w[8 * k + i] = (int8_t)(w >> 8 * i & 255);
}

/* Adds the eighth sign bit to seven: their parity is even. */
static inline uint32_t rt_eighth_sign(uint32_t bits)
{
    const uint32_t seven = bits & 127;
    return seven | (uint32_t)__builtin_parity(seven) << 7;
}

/* d, then for each block four indices and 4 x 7 signs, below a scale of 4 bits */
RT_READER rt_read_iq2_xxs(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    const unsigned char *index = at + 2 + 8 * j;
    const uint32_t signs = rt_bits32(index + 4);
    for (int k = 0; k < 4; k++) rt_put_signed(rt_grid_iq2_xxs[index[k]], rt_eighth_sign(signs >> 7 * k), k, out);
    out->d = RT_LOAD_F16(at) * 0.125f * (float)(2 * (signs >> 28) + 1);
}

/* The scales of IQ2_XS and IQ2_S: a byte has two, of 16 elements each. */
RT_READER rt_scales_iq2(uint32_t scales, rt_weight_block *out)
{
    out->factor[0] = (int32_t)(2 * (scales & 15) + 1);
    out->factor[1] = (int32_t)(2 * (scales >> 4) + 1);
}

/* d, 32 times 9 bits of index and 7 signs, scales */
RT_READER rt_read_iq2_xs(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    for (int k = 0; k < 4; k++) {
        const uint32_t both = rt_bits16(at + 2 + 8 * j + 2 * k);
        rt_put_signed(rt_grid_iq2_xs[both & 511], rt_eighth_sign(both >> 9), k, out);
    }
    rt_scales_iq2(at[66 + j], out);
    out->d = RT_LOAD_F16(at) * 0.125f;
}

/* d, 32 low bytes of indices, 32 of signs, 8 of the indices' high two bits, scales */
RT_READER rt_read_iq2_s(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    for (int k = 0; k < 4; k++) {
        const uint32_t index = (uint32_t)at[2 + 4 * j + k] | (uint32_t)(at[66 + j] >> 2 * k & 3) << 8;
        rt_put_signed(rt_grid_iq2_s[index], at[34 + 4 * j + k], k, out);
    }
    rt_scales_iq2(at[74 + j], out);
    out->d = RT_LOAD_F16(at) * 0.125f;
}

static inline uint64_t rt_two_of(const uint32_t *grid, uint32_t first, uint32_t second)
{
    return (uint64_t)grid[first] | (uint64_t)grid[second] << 32;
}

/* d, 64 indices, and for each block 4 x 7 signs below a scale of 4 bits */
RT_READER rt_read_iq3_xxs(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    const unsigned char *index = at + 2 + 8 * j;
    const uint32_t signs = rt_bits32(at + 66 + 4 * j);
    for (int k = 0; k < 4; k++)
        rt_put_signed(rt_two_of(rt_grid_iq3_xxs, index[2 * k], index[2 * k + 1]), rt_eighth_sign(signs >> 7 * k), k,
                      out);
    out->d = RT_LOAD_F16(at) * 0.25f * (float)(2 * (signs >> 28) + 1);
}

/* d, 64 low bytes of indices, 8 of their ninth bits, 32 of signs, 4 of scales of 4 bits, one per block */
RT_READER rt_read_iq3_s(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    const unsigned char *index = at + 2 + 8 * j;
    const uint32_t ninth = at[66 + j];
    for (int k = 0; k < 4; k++)
        rt_put_signed(rt_two_of(rt_grid_iq3_s, index[2 * k] | (ninth >> 2 * k & 1) << 8,
                                index[2 * k + 1] | (ninth >> (2 * k + 1) & 1) << 8),
                      at[74 + 4 * j + k], k, out);
    out->d = RT_LOAD_F16(at) * (float)(2 * (at[106 + j / 2] >> j % 2 * 4 & 15) + 1);
}

/* Elements of IQ1 are -1, 0 or 1, plus or minus 1/8; weights are 8 times that. */
RT_READER rt_put_iq1(uint32_t index, int less, int k, rt_weight_block *out)
{
    const uint64_t grid = rt_grid_iq1[index];
    for (int i = 0; i < 8; i++) out->w[8 * k + i] = (int8_t)((int)(grid >> 8 * i & 255) - (less ? 9 : 7));
}

/* d, 32 low bytes of indices, and for each block 16 bits: 4 x 3 high bits of indices, the scale's 3, less */
RT_READER rt_read_iq1_s(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    const uint32_t high = rt_bits16(at + 34 + 2 * j);
    for (int k = 0; k < 4; k++) rt_put_iq1(at[2 + 4 * j + k] | (high >> 3 * k & 7) << 8, high >> 15 & 1, k, out);
    out->d = RT_LOAD_F16(at) * 0.125f * (float)(2 * (high >> 12 & 7) + 1);
}

/* 32 low bytes of indices, 32 nibbles of their 3 high bits and less, and 4 x 16 bits: 4 scales of 3 bits each, and
 * above them a part of d, the lowest first */
RT_READER rt_read_iq1_m(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    const unsigned char *scales = at + 48;
    uint32_t d = 0;
    for (int k = 0; k < 4; k++) {
        const uint32_t high = (uint32_t)(at[32 + 2 * j + k / 2] >> k % 2 * 4);
        rt_put_iq1(at[4 * j + k] | (high & 7) << 8, high >> 3 & 1, k, out);
        d |= rt_bits16(scales + 2 * k) >> 12 << 4 * k;
    }
    for (int h = 0; h < 2; h++)
        out->factor[h] = (int32_t)(2 * (rt_bits16(scales + j / 2 * 2) >> (j % 2 * 6 + 3 * h) & 7) + 1);
    out->d = RT_FROM_F16(d) * 0.125f;
}

/* Reads a block of any of these types: block j of a super-block, or a single block. Factors and minima must be 1 and m
 * 0 before. */
RT_READER rt_read_block(int32_t type, const unsigned char *at, int32_t j, rt_weight_block *out)
{
    switch (type) {
    case RT_Q4_1: rt_read_q4_1(at, out); return;
    case RT_Q5_0: rt_read_q5_0(at, out); return;
    case RT_Q5_1: rt_read_q5_1(at, out); return;
    case RT_Q2_K: rt_read_q2_k(at, j, out); return;
    case RT_Q3_K: rt_read_q3_k(at, j, out); return;
    case RT_IQ1_S: rt_read_iq1_s(at, j, out); return;
    case RT_IQ1_M: rt_read_iq1_m(at, j, out); return;
    case RT_IQ2_XXS: rt_read_iq2_xxs(at, j, out); return;
    case RT_IQ2_XS: rt_read_iq2_xs(at, j, out); return;
    case RT_IQ2_S: rt_read_iq2_s(at, j, out); return;
    case RT_IQ3_XXS: rt_read_iq3_xxs(at, j, out); return;
    case RT_IQ3_S: rt_read_iq3_s(at, j, out); return;
    case RT_IQ4_NL: rt_read_iq4_nl(at, out); return;
    case RT_IQ4_XS: rt_read_iq4_xs(at, j, out); return;
    default: rt_read_mxfp4(at, out); return;
    }
}

#endif
