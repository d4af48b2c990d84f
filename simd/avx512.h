/* The vector vocabulary over AVX-512 (F+BW+DQ+VL, and F16C by implication).
 *
 * avx512.h, avx2.h and neon.h define the same names, so that a kernel is written once and compiled for
 * each instruction set. A source includes exactly one of them and is compiled with -ffp-contract=off:
 * a*b+c is fused only in v_fma.
 *
 * - vf, vi, vm: float vector, int32 vector, lane mask; GDN_VL lanes each
 * - v_fma(a, b, c): a*b+c, one rounding; v_fnma(a, b, c): c-a*b, one rounding
 * - v_sel(m, a, b): m ? a : b; comparisons are false where a lane is NaN, except v_ngt
 * - vi_add_halves: adds numbers of 16 bits, two in a lane
 * - vi_merge(bits, a, b): the bits of a where `bits` has ones, else those of b
 * - v_larger(a, b): a > b ? a : b, v_smaller(a, b): a < b ? a : b; so the result is b where a lane is NaN
 * - *_n: the first n lanes, 0 <= n <= GDN_VL; memory beyond n is neither read nor written, lanes beyond n load as +0
 * - v_to_int: towards zero; v_to_int_rne: to nearest, ties to even; both for |x| < 2^31 only, because the instruction
 *   sets differ outside
 * - v_store_f16, v_store_bf16: nearest even, subnormals kept, overflow to inf, NaN stays a NaN
 * - v_convert_bf16: v_store_bf16 or v_stream_bf16 by an instruction, where GDN_BF16_INSTRUCTION is defined and the
 *   processor has it
 * - v_round_f16, v_round_bf16: the value that one of these stores, as floats
 * - v_load_bf16_half(p, h): half h, 0 or 1, of the 2 GDN_VL elements at p. Which elements a half has depends on the
 *   instruction set (here the even or the odd ones, so that no lane has to move). v_deal(a, b, h) selects the same half
 *   of 2 GDN_VL floats, the first GDN_VL in a. v_store_bf16_halves(p, half 0, half 1) stores both in order
 * - v_stream, v_stream_f16, v_stream_bf16, v_stream_bf16_halves: non-temporal if the instruction set has such a store;
 *   p is aligned to what is stored. v_fence comes after the last one, before another thread may read. v_stream_f16_pair
 *   and v_stream_bf16_pair: two vectors, one after the other, in one store if registers are that long
 * - v_sum: for h = VL/2, ..., 1: p[l] = p[l] + p[l+h]; the order is part of the contract
 * - v_sums: lane i is v_sum(x[i]), of GDN_VL vectors at once
 * - v_hmax: the largest lane; NaN lanes count as -inf; meant for values without -0
 * - v_transpose: r[i] lane j <-> r[j] lane i
 * - v_load4(p, r): VL groups of 4 floats: r[j] gets float j of group i in lane i
 * - v_load4_f16, v_load4_bf16: the same of 4 elements of 16 bits
 * - v_load4_bf16_half(p, h, r): half h of 2 GDN_VL groups, the half of v_load_bf16_half()
 * - v_set1_f16(p), v_load_i8(p): the F16 at p in all lanes; GDN_VL signed bytes
 * - v_store_i8(p, y): 32 floats rounded to integers, ties to even, as bytes; 0 for a NaN
 * - quad_dot(sum, l, word, step): sum plus 4 products of signed bytes: each lane of l with a word. A word has
 *   GDN_QUAD_PARTS parts, `step` words apart. quad_words() makes words of 16 k bytes, quad_pack() of numbers. The
 *   lanes' bytes count as GDN_QUAD_BIAS more than they are. quad_byte(sum, quad, i): sum plus byte i of each lane.
 *   quad_sum(bytes, n): the sum of 16 k bytes, where there is a bias
 * - v_div: IEEE's, for quotients that are defined as correctly rounded. GPUs compute those by the sequences of
 *   numerics/elementary.h. There is no square root.
 */
#ifndef GDN_SIMD_H
#define GDN_SIMD_H

#include <immintrin.h>
#include <stdint.h>

#define GDN_VL 16

typedef __m512 vf;
typedef __m512i vi;
typedef __m256i vh; /* 16-bit elements */
typedef __mmask16 vm;

#define GDN_MM(name)    _mm512_##name
#define GDN_MM_SI(name) _mm512_##name##_si512
#define GDN_MM_VH(name) _mm256_##name##_si256
#define GDN_MM_CMP      _mm512_cmp_ps_mask
#ifdef __AVX512VNNI__
#define GDN_MM_DPBUSD _mm512_dpbusd_epi32
#endif
#include "simd/x86.inc.h"

/* --- masks --- */
static inline vm vm_first_n(int n) { return (vm)((1u << (unsigned)n) - 1u); }
static inline vm vm_and(vm a, vm b) { return (vm)(a & b); }
static inline vm vm_or(vm a, vm b) { return (vm)(a | b); }
static inline vm vm_not(vm a) { return (vm)~a; }
static inline int vm_any(vm a) { return a != 0; }

/* --- memory --- */
static inline vf v_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(vm_first_n(n), p); }
static inline void v_store_n(float *p, vf a, int n) { _mm512_mask_storeu_ps(p, vm_first_n(n), a); }

/* --- float lanes --- */
static inline vf v_sel(vm m, vf iftrue, vf iffalse) { return _mm512_mask_blend_ps(m, iffalse, iftrue); }

/* --- int32 lanes --- */
static inline vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
static inline vm vi_lt(vi a, vi b) { return _mm512_cmplt_epi32_mask(a, b); }
static inline vm vi_gt(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
static inline vi vi_sel(vm m, vi iftrue, vi iffalse) { return _mm512_mask_blend_epi32(m, iffalse, iftrue); }
static inline vi vi_merge(vi bits, vi a, vi b) { return _mm512_ternarylogic_epi32(bits, a, b, 0xca); }

/* --- between the two --- */
static inline vf v_from_bits(vi a) { return _mm512_castsi512_ps(a); }
static inline vi v_to_int_rne(vf a)
{
    return _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* --- 16-bit floats --- */
static inline vh gdn_load_u16_n(const uint16_t *p, int n) { return _mm256_maskz_loadu_epi16(vm_first_n(n), p); }
static inline void gdn_store_u16_n(uint16_t *p, vh h, int n) { _mm256_mask_storeu_epi16(p, vm_first_n(n), h); }
static inline vi gdn_v_pair(vh a, vh b) { return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1); }
static inline vi gdn_v_odd_u16(vi even, vi odd) { return _mm512_mask_blend_epi16(0xaaaaaaaau, even, odd); }
/* Not vcvtneps2bf16: that instruction flushes subnormals. */
static inline vh gdn_v_to_bf16(vf a) { return _mm512_cvtepi32_epi16(vi_shr(gdn_v_bf16_upper(a), 16)); }
/* The instruction of AVX512_BF16, where there are no subnormals. It is written in assembly, so that the rest of a
 * source can run on processors without it. */
#define GDN_BF16_INSTRUCTION 1
static inline void gdn_stream_u16(uint16_t *p, vh h);
static inline void gdn_store_u16(uint16_t *p, vh h);
static inline void v_convert_bf16(uint16_t *p, vf a, int stream)
{
    vh h;
    if (__builtin_expect(_mm512_fpclass_ps_mask(a, 0x20) != 0, 0)) h = gdn_v_to_bf16(a);
    else __asm__("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(a));
    if (stream) gdn_stream_u16(p, h);
    else gdn_store_u16(p, h);
}
/* A NaN is returned unchanged; the store makes its upper half a NaN. */
static inline vf v_round_bf16(vf a)
{
    return v_from_bits(
        _mm512_mask_and_epi32(v_bits(a), vm_not(v_unord(a)), gdn_v_bf16_sum(a), vi_set1((int32_t)0xffff0000)));
}
static inline vf v_deal(vf a, vf b, int half)
{
    const vi even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, half ? vi_add(even, vi_set1(1)) : even, b);
}

/* --- across lanes --- */
static inline float v_sum(vf a)
{
    return gdn_sum_of_8(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
}

/* Each step adds the halves of two vectors in one addition. One of its two operands needs a shuffle; the other is a
 * blend, which more than one port can execute. */
static inline vf v_sums(const vf x[GDN_VL])
{
    const vi swap = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    vf s8[8], s4[4], s2[2];
    for (int i = 0; i < 8; i++) {
        const vf ends = _mm512_mask_blend_ps(0xff00, x[i], x[i + 8]);
        s8[i] = _mm512_add_ps(ends, _mm512_shuffle_f32x4(x[i], x[i + 8], 0x4e));
    }
    for (int i = 0; i < 4; i++) {
        const vf ends = _mm512_mask_blend_ps(0xf0f0, s8[i], s8[i + 4]);
        s4[i] = _mm512_add_ps(ends, _mm512_permutex2var_ps(s8[i], swap, s8[i + 4]));
    }
    for (int i = 0; i < 2; i++) {
        const vf ends = _mm512_mask_blend_ps(0xcccc, s4[2 * i], s4[2 * i + 1]);
        s2[i] = _mm512_add_ps(ends, _mm512_shuffle_ps(s4[2 * i], s4[2 * i + 1], 0x4e));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(s2[0], s2[1], 0x88), _mm512_shuffle_ps(s2[0], s2[1], 0xdd));
}

static inline float v_hmax(vf a)
{
    a = v_sel(v_unord(a), v_set1(-__builtin_inff()), a);
    return gdn_max_of_8(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
}

/* Transposes 4x4 blocks first, then swaps the quarters. */
static inline void v_transpose(vf r[GDN_VL])
{
    vf t[GDN_VL];
    for (int i = 0; i < GDN_VL; i += 4) gdn_transpose_4(r + i, t + i);
    for (int i = 0; i < 4; i++) {
        vf lo0 = _mm512_shuffle_f32x4(t[i + 0], t[i + 4], 0x88);
        vf lo1 = _mm512_shuffle_f32x4(t[i + 0], t[i + 4], 0xdd);
        vf hi0 = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
        vf hi1 = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        r[i + 0] = _mm512_shuffle_f32x4(lo0, hi0, 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(lo1, hi1, 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(lo0, hi0, 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(lo1, hi1, 0xdd);
    }
}

static inline void gdn_v_turn4(vf a, vf b, vf c, vf d, vf r[4])
{
    const vi lo = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    const vi hi = _mm512_add_epi32(lo, _mm512_set1_epi32(2));
    const vf r01_ab = _mm512_permutex2var_ps(a, lo, b), r01_cd = _mm512_permutex2var_ps(c, lo, d);
    const vf r23_ab = _mm512_permutex2var_ps(a, hi, b), r23_cd = _mm512_permutex2var_ps(c, hi, d);
    r[0] = _mm512_shuffle_f32x4(r01_ab, r01_cd, 0x44);
    r[1] = _mm512_shuffle_f32x4(r01_ab, r01_cd, 0xee);
    r[2] = _mm512_shuffle_f32x4(r23_ab, r23_cd, 0x44);
    r[3] = _mm512_shuffle_f32x4(r23_ab, r23_cd, 0xee);
}

static inline void v_load4(const float *p, vf r[4])
{
    gdn_v_turn4(v_load(p), v_load(p + GDN_VL), v_load(p + 2 * GDN_VL), v_load(p + 3 * GDN_VL), r);
}
static inline void v_load4_f16(const uint16_t *p, vf r[4])
{
    gdn_v_turn4(v_load_f16(p), v_load_f16(p + GDN_VL), v_load_f16(p + 2 * GDN_VL), v_load_f16(p + 3 * GDN_VL), r);
}

static inline vf v_set1_f16(const void *p)
{
    int16_t h;
    __builtin_memcpy(&h, p, 2);
    return _mm512_cvtph_ps(_mm256_set1_epi16(h));
}
static inline vf v_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
static inline void v_store_i8(int8_t *p, const vf *y)
{
    for (int m = 0; m < 2; m++) {
        const vi q =
            _mm512_maskz_cvt_roundps_epi32(vm_not(v_unord(y[m])), y[m], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm_storeu_si128((__m128i *)(void *)(p + 16 * m), _mm512_cvtepi32_epi8(q));
    }
}

#endif
