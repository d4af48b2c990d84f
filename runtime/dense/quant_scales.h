/* Scales of quantised types for the x86 versions (matmul_quant.inc.h), as bytes in the order of vector lanes. */
#ifndef GDN_RUNTIME_QUANT_SCALES_H
#define GDN_RUNTIME_QUANT_SCALES_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "runtime/files/weights.h"

static inline uint32_t rt_load_u32(const unsigned char *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

static inline uint16_t rt_load_u16(const unsigned char *p)
{
    uint16_t x;
    memcpy(&x, p, 2);
    return x;
}

/* Kinds of types for matmul_quant.inc.h. Its templates take a type with its own decoder, or RT_BLOCKWISE with these
 * flags for all others. */
enum { RT_BLOCKWISE = 1024, RT_FACTORS = 1, RT_MINIMA = 2 };

/* True if decoded bytes are signed weights, without an offset that makes them nonnegative. */
static inline int rt_signed_bytes(int type) { return type == RT_Q8_0 || (type & RT_BLOCKWISE); }

/* Blocks of a group beyond the end of the row are read from here. */
static const unsigned char rt_no_block[256] = { 0 };

/* Block b of a group that has n blocks in the row, `stride` bytes apart. With n = 16 the compiler removes the test. */
static inline __attribute__((always_inline)) const unsigned char *rt_block_at(const unsigned char *from, int stride,
                                                                              int b, int n)
{
    return b < n ? from + b * stride : rt_no_block;
}

/* Lane 8 u + 4 (j % 2) + j / 2 is block 2 j + u. */
static inline __m128i rt_lane_order(__m128i blocks)
{
    return _mm_shuffle_epi8(blocks, _mm_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15));
}

/* Scales and minima of two super-blocks of Q4_K or Q5_K: see weights.c. */
static inline __attribute__((always_inline)) void
rt_scales_k4_k5(const unsigned char *first, const unsigned char *second, __m128i *scale, __m128i *min)
{
    const uint32_t a0 = rt_load_u32(first), b0 = rt_load_u32(first + 4), c0 = rt_load_u32(first + 8);
    const uint32_t a1 = rt_load_u32(second), b1 = rt_load_u32(second + 4), c1 = rt_load_u32(second + 8);
    const __m128i a = _mm_setr_epi32((int)a0, (int)b0, (int)a1, (int)b1);
    const __m128i c = _mm_setr_epi32((int)c0, (int)(c0 >> 4), (int)c1, (int)(c1 >> 4));
    const __m128i low = _mm_and_si128(a, _mm_set1_epi8(63));
    const __m128i high =
        _mm_or_si128(_mm_and_si128(c, _mm_set1_epi8(15)), _mm_and_si128(_mm_srli_epi32(a, 2), _mm_set1_epi8(48)));
    /* dwords of `one` and `two`: scales, minima, of the first and the second super-block; low: blocks 0..3, high: 4..7
     */
    const __m128i one = _mm_unpacklo_epi32(low, high), two = _mm_unpackhi_epi32(low, high);
    *scale = rt_lane_order(_mm_unpacklo_epi64(one, two));
    *min = rt_lane_order(_mm_unpackhi_epi64(one, two));
}

/* d and dmin of two super-blocks, as F32, for lanes 0..3 and repeated for every four lanes. */
static inline __attribute__((always_inline)) void rt_d_dmin(const unsigned char *first, const unsigned char *second,
                                                            __m128 *d, __m128 *dmin)
{
    const __m128 f = _mm_cvtph_ps(_mm_setr_epi32((int)rt_load_u32(first), (int)rt_load_u32(second), 0, 0));
    *d = _mm_shuffle_ps(f, f, _MM_SHUFFLE(2, 2, 0, 0));
    *dmin = _mm_shuffle_ps(f, f, _MM_SHUFFLE(3, 3, 1, 1));
}

/* The same for Q6_K, which has d and no dmin. */
static inline __attribute__((always_inline)) __m128 rt_d_q6(const unsigned char *first, const unsigned char *second)
{
    const __m128 d =
        _mm_cvtph_ps(_mm_setr_epi16((short)rt_load_u16(first), 0, (short)rt_load_u16(second), 0, 0, 0, 0, 0));
    return _mm_shuffle_ps(d, d, _MM_SHUFFLE(2, 2, 0, 0));
}

/* The scales per 16 elements of two super-blocks of Q6_K. dword j has those of unit 0, bytes 0 and 16, and of unit 1.
 */
static inline __attribute__((always_inline)) __m256i rt_scales_q6(const unsigned char *first,
                                                                  const unsigned char *second)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)first)),
                                   _mm_loadu_si128((const __m128i *)(const void *)second), 1);
}

/* F16 scales of 16 blocks, `stride` bytes apart, of which n exist, in the order of lanes. */
static inline __attribute__((always_inline)) __m256i rt_scales_f16(const unsigned char *from, int stride, int n)
{
#define SCALE(b) (short)rt_load_u16(rt_block_at(from, stride, b, n))
    return _mm256_setr_epi16(SCALE(0), SCALE(4), SCALE(8), SCALE(12), SCALE(2), SCALE(6), SCALE(10), SCALE(14),
                             SCALE(1), SCALE(5), SCALE(9), SCALE(13), SCALE(3), SCALE(7), SCALE(11), SCALE(15));
#undef SCALE
}

#endif
