/* The vector vocabulary over AVX2+FMA+F16C. Names and meanings: avx512.h. */
#ifndef GDN_SIMD_H
#define GDN_SIMD_H

#include <immintrin.h>
#include <stdint.h>

#define GDN_VL 8

typedef __m256 vf;
typedef __m256i vi;
typedef __m128i vh; /* 16-bit elements */
typedef __m256 vm;  /* all bits of a lane set or clear */

#define GDN_MM(name)    _mm256_##name
#define GDN_MM_SI(name) _mm256_##name##_si256
#define GDN_MM_VH(name) _mm_##name##_si128
#define GDN_MM_CMP      _mm256_cmp_ps
#ifdef __AVXVNNI__
#define GDN_MM_DPBUSD _mm256_dpbusd_avx_epi32
#endif
#include "simd/x86.inc.h"

/* --- masks --- */
static inline vm vm_first_n(int n)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}
static inline vm vm_and(vm a, vm b) { return _mm256_and_ps(a, b); }
static inline vm vm_or(vm a, vm b) { return _mm256_or_ps(a, b); }
static inline vm vm_not(vm a) { return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1))); }
static inline int vm_any(vm a) { return _mm256_movemask_ps(a) != 0; }

/* --- memory --- */
static inline vf v_load_n(const float *p, int n) { return _mm256_maskload_ps(p, _mm256_castps_si256(vm_first_n(n))); }
static inline void v_store_n(float *p, vf a, int n) { _mm256_maskstore_ps(p, _mm256_castps_si256(vm_first_n(n)), a); }

/* --- float lanes --- */
static inline vf v_sel(vm m, vf iftrue, vf iffalse) { return _mm256_blendv_ps(iffalse, iftrue, m); }

/* --- int32 lanes --- */
static inline vm vi_eq(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
static inline vm vi_lt(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a)); }
static inline vm vi_gt(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }
static inline vi vi_sel(vm m, vi iftrue, vi iffalse)
{
    return _mm256_blendv_epi8(iffalse, iftrue, _mm256_castps_si256(m));
}
static inline vi vi_merge(vi bits, vi a, vi b)
{
    return _mm256_or_si256(_mm256_and_si256(bits, a), _mm256_andnot_si256(bits, b));
}

/* --- between the two --- */
static inline vf v_from_bits(vi a) { return _mm256_castsi256_ps(a); }
/* roundps comes first: cvtps2dq alone would round as the caller's MXCSR says. */
static inline vi v_to_int_rne(vf a)
{
    return _mm256_cvttps_epi32(_mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* --- 16-bit floats; AVX2 has no 16-bit masked access, so tails are copied through the stack --- */
static inline vh gdn_load_u16_n(const uint16_t *p, int n)
{
    uint16_t t[8] = { 0 };
    for (int i = 0; i < n; i++) t[i] = p[i];
    return _mm_loadu_si128((const vh *)t);
}
static inline void gdn_store_u16_n(uint16_t *p, vh h, int n)
{
    uint16_t t[8];
    _mm_storeu_si128((vh *)t, h);
    for (int i = 0; i < n; i++) p[i] = t[i];
}
static inline vi gdn_v_pair(vh a, vh b) { return _mm256_set_m128i(b, a); }
static inline vi gdn_v_odd_u16(vi even, vi odd) { return _mm256_blend_epi16(even, odd, 0xaa); }
static inline vh gdn_v_to_bf16(vf a)
{
    const vi h = vi_shr(gdn_v_bf16_upper(a), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}
static inline vf v_round_bf16(vf a)
{
    return v_sel(v_unord(a), a, v_from_bits(vi_and(gdn_v_bf16_sum(a), vi_set1((int32_t)0xffff0000))));
}
static inline vf v_deal(vf a, vf b, int half)
{
    const vf mixed = half ? _mm256_shuffle_ps(a, b, 0xdd) : _mm256_shuffle_ps(a, b, 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
}

/* --- across lanes --- */
static inline float v_sum(vf a) { return gdn_sum_of_8(a); }

static inline vf v_sums(const vf x[GDN_VL])
{
    vf s4[4], s2[2];
    for (int i = 0; i < 4; i++) {
        const vf ends = _mm256_blend_ps(x[i], x[i + 4], 0xf0);
        s4[i] = _mm256_add_ps(ends, _mm256_permute2f128_ps(x[i], x[i + 4], 0x21));
    }
    for (int i = 0; i < 2; i++) {
        const vf ends = _mm256_blend_ps(s4[2 * i], s4[2 * i + 1], 0xcc);
        s2[i] = _mm256_add_ps(ends, _mm256_shuffle_ps(s4[2 * i], s4[2 * i + 1], 0x4e));
    }
    return _mm256_add_ps(_mm256_shuffle_ps(s2[0], s2[1], 0x88), _mm256_shuffle_ps(s2[0], s2[1], 0xdd));
}

static inline float v_hmax(vf a) { return gdn_max_of_8(v_sel(v_unord(a), v_set1(-__builtin_inff()), a)); }

/* Transposes 4x4 blocks first, then swaps the halves. */
static inline void v_transpose(vf r[GDN_VL])
{
    vf t[GDN_VL];
    for (int i = 0; i < GDN_VL; i += 4) gdn_transpose_4(r + i, t + i);
    for (int i = 0; i < 4; i++) {
        r[i + 0] = _mm256_permute2f128_ps(t[i + 0], t[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(t[i + 0], t[i + 4], 0x31);
    }
}

static inline void v_load4(const float *p, vf r[4])
{
    vf g[4]; /* groups i and i + 4 */
    for (int i = 0; i < 4; i++)
        g[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4 * i)), _mm_loadu_ps(p + 4 * i + 16), 1);
    gdn_transpose_4(g, r);
}
static inline void v_load4_f16(const uint16_t *p, vf r[4])
{
    float g[4 * GDN_VL]; /* through the stack: shuffles are scarcer than loads */
    for (int i = 0; i < 4; i++) v_store(g + i * GDN_VL, v_load_f16(p + i * GDN_VL));
    v_load4(g, r);
}

static inline vf v_set1_f16(const void *p)
{
    int16_t h;
    __builtin_memcpy(&h, p, 2);
    return _mm256_cvtph_ps(_mm_set1_epi16(h));
}
static inline vf v_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
static inline void v_store_i8(int8_t *p, const vf *y)
{
    vi q[4];
    for (int m = 0; m < 4; m++) q[m] = v_to_int_rne(v_sel(v_unord(y[m]), v_zero(), y[m]));
    const __m256i ab = _mm256_packs_epi32(q[0], q[1]), cd = _mm256_packs_epi32(q[2], q[3]);
    /* Packing works within halves: 4 bytes each of a0 b0 c0 d0 a1 b1 c1 d1. */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order));
}

#endif
