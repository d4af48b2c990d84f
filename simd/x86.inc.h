/* The part of the vocabulary that AVX2 and AVX-512 share except for the width of registers. avx2.h and avx512.h include
 * it with vf, vi and vm. They define GDN_MM(name), which adds the prefix to a name; GDN_MM_SI(name), which also adds
 * the width; and GDN_MM_CMP, whose result is a vm. */

/* --- memory --- */
static inline vf v_load(const float *p) { return GDN_MM(loadu_ps)(p); }
static inline void v_store(float *p, vf a) { GDN_MM(storeu_ps)(p, a); }
static inline void v_stream(float *p, vf a) { GDN_MM(stream_ps)(p, a); }
static inline void v_fence(void) { _mm_sfence(); }
static inline void v_prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }
static inline void v_prefetch_l2(const void *p) { __builtin_prefetch(p, 0, 2); }
/* In assembly, because __builtin_prefetch(p, 1) prefetches for reading unless -mprfchw is given. */
static inline void v_prefetchw(const void *p) { __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p)); }

/* --- float lanes --- */
static inline vf v_set1(float a) { return GDN_MM(set1_ps)(a); }
static inline vf v_zero(void) { return GDN_MM(setzero_ps)(); }
static inline vf v_add(vf a, vf b) { return GDN_MM(add_ps)(a, b); }
static inline vf v_sub(vf a, vf b) { return GDN_MM(sub_ps)(a, b); }
static inline vf v_mul(vf a, vf b) { return GDN_MM(mul_ps)(a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return GDN_MM(fmadd_ps)(a, b, c); }
static inline vf v_div(vf a, vf b) { return GDN_MM(div_ps)(a, b); }
static inline vf v_fnma(vf a, vf b, vf c) { return GDN_MM(fnmadd_ps)(a, b, c); }
static inline vm v_lt(vf a, vf b) { return GDN_MM_CMP(a, b, _CMP_LT_OQ); }
static inline vm v_le(vf a, vf b) { return GDN_MM_CMP(a, b, _CMP_LE_OQ); }
static inline vm v_gt(vf a, vf b) { return GDN_MM_CMP(a, b, _CMP_GT_OQ); }
static inline vm v_ngt(vf a, vf b) { return GDN_MM_CMP(a, b, _CMP_NGT_UQ); }
static inline vm v_ge(vf a, vf b) { return GDN_MM_CMP(a, b, _CMP_GE_OQ); }
static inline vm v_eq(vf a, vf b) { return GDN_MM_CMP(a, b, _CMP_EQ_OQ); }
static inline vm v_unord(vf a) { return GDN_MM_CMP(a, a, _CMP_UNORD_Q); }
static inline vf v_neg(vf a) { return -a; } /* the compiler can fold this into an fma */
static inline vf v_larger(vf a, vf b) { return GDN_MM(max_ps)(a, b); }
static inline vf v_smaller(vf a, vf b) { return GDN_MM(min_ps)(a, b); }

/* --- int32 lanes; shift counts are constants --- */
static inline vi vi_set1(int32_t a) { return GDN_MM(set1_epi32)(a); }
static inline vi vi_add(vi a, vi b) { return GDN_MM(add_epi32)(a, b); }
static inline vi vi_sub(vi a, vi b) { return GDN_MM(sub_epi32)(a, b); }
static inline vi vi_and(vi a, vi b) { return GDN_MM_SI(and)(a, b); }
static inline vi vi_or(vi a, vi b) { return GDN_MM_SI(or)(a, b); }
static inline vi vi_xor(vi a, vi b) { return GDN_MM_SI(xor)(a, b); }
#define vi_shl(a, count) GDN_MM(slli_epi32)((a), (count))
#define vi_shr(a, count) GDN_MM(srli_epi32)((a), (count))
#define vi_sar(a, count) GDN_MM(srai_epi32)((a), (count))

/* --- between the two --- */
static inline vi v_bits(vf a) { return GDN_MM_SI(castps)(a); }
static inline vf v_from_int(vi a) { return GDN_MM(cvtepi32_ps)(a); }
static inline vi v_to_int(vf a) { return GDN_MM(cvttps_epi32)(a); }

/* --- across lanes --- */
/* The last two steps of v_sum and of v_hmax. */
static inline float gdn_sum_of_4(__m128 s4)
{
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
static inline float gdn_max_of_4(__m128 m4)
{
    __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}
/* Transposes each 4x4 block inside 128-bit parts of registers: the first step of v_transpose. */
static inline void gdn_transpose_4x4(const vf r[GDN_VL], vf t[GDN_VL])
{
    for (int i = 0; i < GDN_VL; i += 4) {
        vf ab0 = GDN_MM(unpacklo_ps)(r[i + 0], r[i + 1]);
        vf ab1 = GDN_MM(unpackhi_ps)(r[i + 0], r[i + 1]);
        vf cd0 = GDN_MM(unpacklo_ps)(r[i + 2], r[i + 3]);
        vf cd1 = GDN_MM(unpackhi_ps)(r[i + 2], r[i + 3]);
        t[i + 0] = GDN_MM(shuffle_ps)(ab0, cd0, 0x44);
        t[i + 1] = GDN_MM(shuffle_ps)(ab0, cd0, 0xee);
        t[i + 2] = GDN_MM(shuffle_ps)(ab1, cd1, 0x44);
        t[i + 3] = GDN_MM(shuffle_ps)(ab1, cd1, 0xee);
    }
}

/* --- groups of 4 16-bit elements, with two functions that the including file defines --- */
static inline vf v_from_bits(vi a);
static inline vf v_deal(vf a, vf b, int half);
/* A group is two pairs of 32 bits. */
static inline void v_load4_bf16(const uint16_t *p, vf r[4])
{
    const vf a = v_load((const float *)(const void *)p), b = v_load((const float *)(const void *)(p + 2 * GDN_VL));
    for (int j = 0; j < 2; j++) {
        const vi pairs = v_bits(v_deal(a, b, j));
        r[2 * j] = v_from_bits(vi_shl(pairs, 16));
        r[2 * j + 1] = v_from_bits(vi_and(pairs, vi_set1((int32_t)0xffff0000)));
    }
}
/* Half of 2 * GDN_VL groups: of the pairs that v_deal() selects from two vectors it again selects every other one. */
static inline void v_load4_bf16_half(const uint16_t *p, int half, vf r[4])
{
    const float *pairs = (const float *)(const void *)p;
    for (int j = 0; j < 2; j++) {
        const vf low = v_deal(v_load(pairs), v_load(pairs + GDN_VL), j);
        const vf high = v_deal(v_load(pairs + 2 * GDN_VL), v_load(pairs + 3 * GDN_VL), j);
        const vi both = v_bits(v_deal(low, high, half));
        r[2 * j] = v_from_bits(vi_shl(both, 16));
        r[2 * j + 1] = v_from_bits(vi_and(both, vi_set1((int32_t)0xffff0000)));
    }
}
