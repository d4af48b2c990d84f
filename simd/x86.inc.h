/* The part of the vocabulary that AVX2 and AVX-512 share except for the width of registers. avx2.h and avx512.h include
 * it with vf, vi, vm and vh. They define GDN_MM(name), which adds the prefix to a name; GDN_MM_SI(name), which also
 * adds the width; and GDN_MM_CMP, whose result is a vm. GDN_MM_VH(name) is GDN_MM_SI(name) of a vh. */

/* --- memory --- */
static inline vf v_load(const float *p) { return GDN_MM(loadu_ps)(p); }
static inline void v_store(float *p, vf a) { GDN_MM(storeu_ps)(p, a); }
static inline void v_stream(float *p, vf a) { GDN_MM(stream_ps)(p, a); }
static inline void v_fence(void) { _mm_sfence(); }
static inline vi vi_load(const int32_t *p) { return GDN_MM_SI(loadu)((const vi *)(const void *)p); }
static inline void vi_store(int32_t *p, vi a) { GDN_MM_SI(storeu)((vi *)(void *)p, a); }
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
static inline vf v_abs(vf a) { return GDN_MM(andnot_ps)(v_set1(-0.0f), a); }
static inline vf v_larger(vf a, vf b) { return GDN_MM(max_ps)(a, b); }
static inline vf v_smaller(vf a, vf b) { return GDN_MM(min_ps)(a, b); }

/* --- int32 lanes; shift counts are constants --- */
static inline vi vi_set1(int32_t a) { return GDN_MM(set1_epi32)(a); }
static inline vi vi_add(vi a, vi b) { return GDN_MM(add_epi32)(a, b); }
static inline vi vi_sub(vi a, vi b) { return GDN_MM(sub_epi32)(a, b); }
static inline vi vi_and(vi a, vi b) { return GDN_MM_SI(and)(a, b); }
static inline vi vi_or(vi a, vi b) { return GDN_MM_SI(or)(a, b); }
static inline vi vi_xor(vi a, vi b) { return GDN_MM_SI(xor)(a, b); }
static inline vi vi_add_halves(vi a, vi b) { return GDN_MM(add_epi16)(a, b); }
static inline vi vi_larger(vi a, vi b) { return GDN_MM(max_epi32)(a, b); }
#define vi_shl(a, count) GDN_MM(slli_epi32)((a), (count))
#define vi_shr(a, count) GDN_MM(srli_epi32)((a), (count))
#define vi_sar(a, count) GDN_MM(srai_epi32)((a), (count))

/* --- between the two --- */
static inline vi v_bits(vf a) { return GDN_MM_SI(castps)(a); }
static inline vf v_from_int(vi a) { return GDN_MM(cvtepi32_ps)(a); }
static inline vi v_to_int(vf a) { return GDN_MM(cvttps_epi32)(a); }

/* --- across lanes --- */
/* The last three steps of v_sum and of v_hmax. */
static inline float gdn_sum_of_8(__m256 s8)
{
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
static inline float gdn_max_of_8(__m256 m8)
{
    __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}
/* Transposes the 4x4 blocks in the 128-bit parts of four registers: the first step of v_transpose. */
static inline void gdn_transpose_4(const vf r[4], vf t[4])
{
    vf ab0 = GDN_MM(unpacklo_ps)(r[0], r[1]), ab1 = GDN_MM(unpackhi_ps)(r[0], r[1]);
    vf cd0 = GDN_MM(unpacklo_ps)(r[2], r[3]), cd1 = GDN_MM(unpackhi_ps)(r[2], r[3]);
    t[0] = GDN_MM(shuffle_ps)(ab0, cd0, 0x44);
    t[1] = GDN_MM(shuffle_ps)(ab0, cd0, 0xee);
    t[2] = GDN_MM(shuffle_ps)(ab1, cd1, 0x44);
    t[3] = GDN_MM(shuffle_ps)(ab1, cd1, 0xee);
}

/* --- 16-bit floats, with functions that the including file defines --- */
static inline vf v_from_bits(vi a);
static inline vi vi_sel(vm m, vi iftrue, vi iffalse);
static inline int vm_any(vm a);
static inline vf v_deal(vf a, vf b, int half);
static inline vh gdn_v_to_bf16(vf a);
static inline vh gdn_load_u16_n(const uint16_t *p, int n);
static inline void gdn_store_u16_n(uint16_t *p, vh h, int n);
static inline vi gdn_v_pair(vh a, vh b);         /* one after the other */
static inline vi gdn_v_odd_u16(vi even, vi odd); /* odd 16-bit elements from `odd` */
static inline vh gdn_load_u16(const uint16_t *p) { return GDN_MM_VH(loadu)((const vh *)(const void *)p); }
static inline void gdn_store_u16(uint16_t *p, vh h) { GDN_MM_VH(storeu)((vh *)(void *)p, h); }
static inline void gdn_stream_u16(uint16_t *p, vh h) { GDN_MM_VH(stream)((vh *)(void *)p, h); }
static inline void gdn_stream_u16_pair(uint16_t *p, vi pair) { GDN_MM_SI(stream)((vi *)(void *)p, pair); }
static inline vf gdn_v_from_f16(vh h) { return GDN_MM(cvtph_ps)(h); }
static inline vf gdn_v_from_bf16(vh h) { return v_from_bits(vi_shl(GDN_MM(cvtepu16_epi32)(h), 16)); }
static inline vh gdn_v_to_f16(vf a) { return GDN_MM(cvtps_ph)(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* The upper halves are the result, except for a NaN. */
static inline vi gdn_v_bf16_sum(vf a)
{
    const vi b = v_bits(a);
    return vi_add(vi_add(b, vi_set1(0x7fff)), vi_and(vi_shr(b, 16), vi_set1(1)));
}
static inline vi gdn_v_bf16_upper(vf a)
{
    return vi_sel(v_unord(a), vi_or(v_bits(a), vi_set1(0x400000)), gdn_v_bf16_sum(a));
}
static inline vf v_round_f16(vf a) { return gdn_v_from_f16(gdn_v_to_f16(a)); }
static inline vf v_load_f16(const uint16_t *p) { return gdn_v_from_f16(gdn_load_u16(p)); }
static inline vf v_load_f16_n(const uint16_t *p, int n) { return gdn_v_from_f16(gdn_load_u16_n(p, n)); }
static inline vf v_load_bf16(const uint16_t *p) { return gdn_v_from_bf16(gdn_load_u16(p)); }
static inline vf v_load_bf16_n(const uint16_t *p, int n) { return gdn_v_from_bf16(gdn_load_u16_n(p, n)); }
static inline void v_store_f16(uint16_t *p, vf a) { gdn_store_u16(p, gdn_v_to_f16(a)); }
static inline void v_store_f16_n(uint16_t *p, vf a, int n) { gdn_store_u16_n(p, gdn_v_to_f16(a), n); }
static inline void v_store_bf16(uint16_t *p, vf a) { gdn_store_u16(p, gdn_v_to_bf16(a)); }
static inline void v_store_bf16_n(uint16_t *p, vf a, int n) { gdn_store_u16_n(p, gdn_v_to_bf16(a), n); }
static inline void v_stream_f16(uint16_t *p, vf a) { gdn_stream_u16(p, gdn_v_to_f16(a)); }
static inline void v_stream_bf16(uint16_t *p, vf a) { gdn_stream_u16(p, gdn_v_to_bf16(a)); }
static inline void v_stream_f16_pair(uint16_t *p, vf a, vf b)
{
    gdn_stream_u16_pair(p, gdn_v_pair(gdn_v_to_f16(a), gdn_v_to_f16(b)));
}
static inline void v_stream_bf16_pair(uint16_t *p, vf a, vf b)
{
    gdn_stream_u16_pair(p, gdn_v_pair(gdn_v_to_bf16(a), gdn_v_to_bf16(b)));
}

/* Halves: the even elements and the odd ones, which are the lower and the upper parts of 32 bits. */
static inline vf v_load_bf16_half(const uint16_t *p, int half)
{
    const vi both = GDN_MM_SI(loadu)((const vi *)(const void *)p);
    return v_from_bits(half ? vi_and(both, vi_set1((int32_t)0xffff0000)) : vi_shl(both, 16));
}
static inline vi gdn_v_halves_to_bf16(vf even, vf odd)
{
    vi low = gdn_v_bf16_sum(even), high = gdn_v_bf16_sum(odd);
    if (__builtin_expect(vm_any(GDN_MM_CMP(even, odd, _CMP_UNORD_Q)), 0)) {
        low = gdn_v_bf16_upper(even);
        high = gdn_v_bf16_upper(odd);
    }
    return gdn_v_odd_u16(vi_shr(low, 16), high);
}
static inline void v_store_bf16_halves(uint16_t *p, vf even, vf odd)
{
    GDN_MM_SI(storeu)((vi *)(void *)p, gdn_v_halves_to_bf16(even, odd));
}
static inline void v_stream_bf16_halves(uint16_t *p, vf even, vf odd)
{
    gdn_stream_u16_pair(p, gdn_v_halves_to_bf16(even, odd));
}

/* Groups of 4. A group is two pairs of 32 bits. */
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

/* --- quads of signed bytes: a word of a lane has 4 --- */
#ifdef GDN_MM_DPBUSD
/* The instruction multiplies unsigned by signed bytes. So 128 is added to the lanes' bytes. */
#define GDN_QUAD_PARTS 1
#define GDN_QUAD_BIAS  128
typedef vi vquad;
static inline vquad quad_load(const int8_t *p)
{
    return vi_xor(vi_load((const int32_t *)(const void *)p), vi_set1((int32_t)0x80808080));
}
static inline vi quad_dot(vi sum, vquad l, const int32_t *word, int64_t step)
{
    (void)step;
    return GDN_MM_DPBUSD(sum, l, vi_set1(*word));
}
static inline int32_t quad_sum(const int8_t *bytes, int32_t n)
{
    __m128i sum = _mm_setzero_si128();
    for (int32_t i = 0; i < n; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i));
        sum = _mm_add_epi64(sum, _mm_sad_epu8(_mm_xor_si128(x, _mm_set1_epi8(-128)), _mm_setzero_si128()));
    }
    return _mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 2) - 128 * n;
}
static inline vi quad_byte(vi sum, vi quad, int i) { return GDN_MM_DPBUSD(sum, vi_set1(1 << 8 * i), quad); }
#else
/* Products of 16 bits. A quad is widened to its even and its odd bytes. */
#define GDN_QUAD_PARTS 2
#define GDN_QUAD_BIAS  0
typedef struct vquad {
    vi even, odd;
} vquad;
static inline vquad quad_load(const int8_t *p)
{
    const vi x = vi_load((const int32_t *)(const void *)p);
    return (vquad){ GDN_MM(srai_epi16)(GDN_MM(slli_epi16)(x, 8), 8), GDN_MM(srai_epi16)(x, 8) };
}
static inline vi quad_dot(vi sum, vquad l, const int32_t *word, int64_t step)
{
    return vi_add(vi_add(sum, GDN_MM(madd_epi16)(l.even, vi_set1(word[0]))),
                  GDN_MM(madd_epi16)(l.odd, vi_set1(word[step])));
}
static inline void quad_words(int32_t *word, const int8_t *bytes, int32_t n)
{
    for (int32_t i = 0; i < n; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i));
        _mm_storeu_si128((__m128i *)(void *)(word + i / 4), _mm_srai_epi16(_mm_slli_epi16(x, 8), 8));
        _mm_storeu_si128((__m128i *)(void *)(word + (n + i) / 4), _mm_srai_epi16(x, 8));
    }
}
static inline void quad_pack(const vi x[4], vi word[GDN_QUAD_PARTS])
{
    for (int part = 0; part < 2; part++) word[part] = vi_or(vi_and(x[part], vi_set1(0xffff)), vi_shl(x[part + 2], 16));
}
#endif
