/* The integers of quant_blocks.h in AVX2 registers, 32 at once: the weights of block j of the super-block at `at`, or
 * of the block there. quant_blocks.h has the meaning of the bytes. */
#ifndef GDN_RUNTIME_QUANT_BLOCKS_X86_H
#define GDN_RUNTIME_QUANT_BLOCKS_X86_H

#include <immintrin.h>

#define RT_FROM_F16(bits) _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128((int)(bits))))
#include "runtime/files/quant_blocks.h"

#define RT_ALWAYS static inline __attribute__((always_inline))

RT_ALWAYS __m256i rt_load_32(const unsigned char *at) { return _mm256_loadu_si256((const __m256i *)(const void *)at); }

/* The low nibbles of 16 bytes, then the high ones. */
RT_ALWAYS __m256i rt_nibbles_32(const unsigned char *at)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
}

/* All ones in byte i where bit i is set. */
RT_ALWAYS __m256i rt_bits_32(uint32_t bits)
{
    const __m256i place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)UINT64_C(0x8040201008040201));
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), place);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}

RT_ALWAYS __m256i rt_fifth_bits(const unsigned char *at)
{
    return _mm256_and_si256(rt_bits_32(rt_bits32(at)), _mm256_set1_epi8(16));
}

RT_ALWAYS __m256i rt_values_32(const int8_t value[16], const unsigned char *at)
{
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)value));
    return _mm256_shuffle_epi8(table, rt_nibbles_32(at));
}

/* Two bits of each of 32 bytes. */
RT_ALWAYS __m256i rt_pairs_32(const unsigned char *at, int32_t quarter)
{
    return _mm256_and_si256(_mm256_srl_epi16(rt_load_32(at), _mm_cvtsi32_si128(2 * quarter)), _mm256_set1_epi8(3));
}

RT_ALWAYS __m256i rt_third_bits(const unsigned char *at, int32_t j)
{
    const __m256i set = _mm256_and_si256(rt_load_32(at), _mm256_set1_epi8((char)(1 << j)));
    return _mm256_and_si256(_mm256_cmpeq_epi8(set, _mm256_setzero_si256()), _mm256_set1_epi8(4));
}

RT_ALWAYS __m256i rt_signed_32(const uint64_t grid[4], uint32_t signs)
{
    const __m256i minus = rt_bits_32(signs);
    const __m256i w = _mm256_setr_epi64x((int64_t)grid[0], (int64_t)grid[1], (int64_t)grid[2], (int64_t)grid[3]);
    return _mm256_sub_epi8(_mm256_xor_si256(w, minus), minus);
}

/* 32 signs, of which 28 are given. */
RT_ALWAYS uint32_t rt_all_signs(uint32_t bits)
{
    return rt_eighth_sign(bits) | rt_eighth_sign(bits >> 7) << 8 | rt_eighth_sign(bits >> 14) << 16 |
           rt_eighth_sign(bits >> 21) << 24;
}

RT_ALWAYS __m256i rt_iq2_32(int32_t type, const unsigned char *at, int32_t j)
{
    uint64_t grid[4];
    uint32_t signs = 0;
    for (int k = 0; k < 4; k++) {
        if (type == RT_IQ2_XXS) {
            grid[k] = rt_grid_iq2_xxs[at[2 + 8 * j + k]];
        } else if (type == RT_IQ2_XS) {
            const uint32_t both = rt_bits16(at + 2 + 8 * j + 2 * k);
            grid[k] = rt_grid_iq2_xs[both & 511];
            signs |= rt_eighth_sign(both >> 9) << 8 * k;
        } else {
            grid[k] = rt_grid_iq2_s[(uint32_t)at[2 + 4 * j + k] | (uint32_t)(at[66 + j] >> 2 * k & 3) << 8];
        }
    }
    return rt_signed_32(grid, type == RT_IQ2_XXS  ? rt_all_signs(rt_bits32(at + 6 + 8 * j))
                              : type == RT_IQ2_XS ? signs
                                                  : rt_bits32(at + 34 + 4 * j));
}

RT_ALWAYS __m256i rt_iq3_32(int32_t type, const unsigned char *at, int32_t j)
{
    const unsigned char *index = at + 2 + 8 * j;
    const uint32_t ninth = type == RT_IQ3_S ? at[66 + j] : 0;
    uint64_t grid[4];
    for (int k = 0; k < 4; k++)
        grid[k] =
            rt_two_of(type == RT_IQ3_S ? rt_grid_iq3_s : rt_grid_iq3_xxs, index[2 * k] | (ninth >> 2 * k & 1) << 8,
                      index[2 * k + 1] | (ninth >> (2 * k + 1) & 1) << 8);
    return rt_signed_32(grid, type == RT_IQ3_S ? rt_bits32(at + 74 + 4 * j) : rt_all_signs(rt_bits32(at + 66 + 4 * j)));
}

RT_ALWAYS __m256i rt_iq1_32(int32_t type, const unsigned char *at, int32_t j)
{
    uint64_t grid[4], less[4];
    for (int k = 0; k < 4; k++) {
        const uint32_t high =
            type == RT_IQ1_S ? rt_bits16(at + 34 + 2 * j) : (uint32_t)(at[32 + 2 * j + k / 2] >> k % 2 * 4);
        const uint32_t low = type == RT_IQ1_S ? at[2 + 4 * j + k] : at[4 * j + k];
        grid[k] = rt_grid_iq1[low | (type == RT_IQ1_S ? high >> 3 * k & 7 : high & 7) << 8];
        less[k] = RT_BYTES((type == RT_IQ1_S ? high >> 15 & 1 : high >> 3 & 1) ? 9u : 7u);
    }
    return _mm256_sub_epi8(_mm256_setr_epi64x((int64_t)grid[0], (int64_t)grid[1], (int64_t)grid[2], (int64_t)grid[3]),
                           _mm256_setr_epi64x((int64_t)less[0], (int64_t)less[1], (int64_t)less[2], (int64_t)less[3]));
}

RT_ALWAYS __m256i rt_weights_32(int32_t type, const unsigned char *at, int32_t j)
{
    switch (type) {
    case RT_Q4_1: return rt_nibbles_32(at + 4);
    case RT_Q5_0:
        return _mm256_sub_epi8(_mm256_or_si256(rt_nibbles_32(at + 6), rt_fifth_bits(at + 2)), _mm256_set1_epi8(16));
    case RT_Q5_1: return _mm256_or_si256(rt_nibbles_32(at + 8), rt_fifth_bits(at + 4));
    case RT_Q2_K: return rt_pairs_32(at + 16 + j / 4 * 32, j % 4);
    case RT_Q3_K: return _mm256_sub_epi8(rt_pairs_32(at + 32 + j / 4 * 32, j % 4), rt_third_bits(at, j));
    case RT_IQ1_S:
    case RT_IQ1_M: return rt_iq1_32(type, at, j);
    case RT_IQ2_XXS:
    case RT_IQ2_XS:
    case RT_IQ2_S: return rt_iq2_32(type, at, j);
    case RT_IQ3_XXS:
    case RT_IQ3_S: return rt_iq3_32(type, at, j);
    case RT_IQ4_NL: return rt_values_32(rt_values_iq4, at + 2);
    case RT_IQ4_XS: return rt_values_32(rt_values_iq4, at + 8 + 16 * j);
    default: return rt_values_32(rt_values_mxfp4, at + 1);
    }
}

#endif
