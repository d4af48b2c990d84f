/* Blocks of quantised weights in AVX-512 registers, for matmul_quant.inc.h. RT_VNNI: with vpdpbusd.
 * Included before it, after vector.inc.h. */
#include "runtime/dense/quant_scales.h"

#define KEEP_REGISTER(vector) "v"(vector)
#define WV                    1
typedef __m512i wv;

/* A group of 512 decoded weights: bytes in the order of matmul_quant.inc.h, scales and minima of blocks in the order of
 * lanes. Q6_K and types with RT_FACTORS also have scales of 16 bytes in the order of accumulators. */
typedef struct group {
    wv w[2][4];
    vf d[1], m[1];
    vi factor[2][1];
} group;

enum {
#ifdef RT_VNNI
    STEPWISE = 1,
    STEP_ROWS = 4,
    Q8_SIGNED = 0 /* vpdpbusd needs unsigned bytes: Q8_0 has an offset of 128, and 128 * (sum of q) is subtracted */
#else
    STEPWISE = 0,
    STEP_ROWS = 2,
    Q8_SIGNED = 1
#endif
};

GDN_INLINE wv wv_load(const void *p) { return _mm512_loadu_si512(p); }
GDN_INLINE void wv_store(void *p, wv a) { _mm512_storeu_si512(p, a); }
GDN_INLINE wv wv_ones(void) { return _mm512_set1_epi8(1); }
GDN_INLINE vi vi_mul(vi a, vi b) { return _mm512_mullo_epi32(a, b); }

GDN_INLINE void pack_i8(int8_t *p, const vi q[2])
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(q[0]));
    _mm_storeu_si128((__m128i *)(void *)(p + 16), _mm512_cvtepi32_epi8(q[1]));
}

#ifdef RT_VNNI
GDN_INLINE vi dot1(vi sum, wv w, wv x) { return _mm512_dpbusd_epi32(sum, w, x); }
GDN_INLINE vi dot4(int type, const wv w[4], const wv x[4])
{
    vi sum = _mm512_setzero_si512();
    (void)type;
    UNROLLED
    for (int k = 0; k < 4; k++) sum = _mm512_dpbusd_epi32(sum, w[k], x[k]);
    return sum;
}
#else
GDN_INLINE vi dot1(vi sum, wv w, wv x) /* not called */
{
    (void)w, (void)x;
    return sum;
}
/* Sums of two products fit in 16 bits: at most 2 * 127 * 15, 31, 63 or (signed) 128. */
GDN_INLINE vi dot4(int type, const wv w[4], const wv x[4])
{
    const wv one = _mm512_set1_epi16(1);
    wv t[4];
    UNROLLED
    for (int k = 0; k < 4; k++) {
        if (rt_signed_bytes(type))
            t[k] = _mm512_maddubs_epi16(_mm512_abs_epi8(w[k]), _mm512_mask_sub_epi8(x[k], _mm512_movepi8_mask(w[k]),
                                                                                    _mm512_setzero_si512(), x[k]));
        else t[k] = _mm512_maddubs_epi16(w[k], x[k]);
    }
    if (rt_signed_bytes(type))
        return vi_add(vi_add(_mm512_madd_epi16(t[0], one), _mm512_madd_epi16(t[1], one)),
                      vi_add(_mm512_madd_epi16(t[2], one), _mm512_madd_epi16(t[3], one)));
    const wv a = _mm512_add_epi16(t[0], t[1]), b = _mm512_add_epi16(t[2], t[3]);
    if (type == RT_Q6_K) return vi_add(_mm512_madd_epi16(a, one), _mm512_madd_epi16(b, one));
    return _mm512_madd_epi16(_mm512_add_epi16(a, b), one);
}
#endif

/* An accumulator's quarters are: 16 bytes of even j, the other 16, the same of odd j. */
GDN_INLINE void unite(vi acc[2][1], vi t[1])
{
    t[0] = vi_add(_mm512_shuffle_i32x4(acc[0][0], acc[1][0], 0x88), _mm512_shuffle_i32x4(acc[0][0], acc[1][0], 0xdd));
}

/* Vector i of a unit holds blocks j = 2 i and 2 i + 1, in order. Transposes 4 x 4 dwords of each quarter. */
GDN_INLINE void order_unit(wv w[4])
{
    const wv a = _mm512_unpacklo_epi32(w[0], w[1]), b = _mm512_unpackhi_epi32(w[0], w[1]);
    const wv c = _mm512_unpacklo_epi32(w[2], w[3]), d = _mm512_unpackhi_epi32(w[2], w[3]);
    w[0] = _mm512_unpacklo_epi64(a, c);
    w[1] = _mm512_unpackhi_epi64(a, c);
    w[2] = _mm512_unpacklo_epi64(b, d);
    w[3] = _mm512_unpackhi_epi64(b, d);
}

GDN_INLINE wv two_blocks(const unsigned char *first, const unsigned char *second)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)first)),
                              _mm256_loadu_si256((const __m256i *)(const void *)second), 1);
}

GDN_INLINE void blocks_to_units(const unsigned char *base, int stride, int n, wv w[2][4])
{
    UNROLLED
    for (int u = 0; u < 2; u++) {
        UNROLLED
        for (int i = 0; i < 4; i++)
            w[u][i] = two_blocks(rt_block_at(base, stride, 4 * i + u, n), rt_block_at(base, stride, 4 * i + 2 + u, n));
        order_unit(w[u]);
    }
}

GDN_INLINE void decode_q8_0(const unsigned char *from, int n, group *g)
{
    blocks_to_units(from + 2, 34, n, g->w);
    if (!Q8_SIGNED) {
        UNROLLED
        for (int i = 0; i < 8; i++) g->w[i / 4][i % 4] = _mm512_xor_si512(g->w[i / 4][i % 4], _mm512_set1_epi8(-128));
    }
    g->d[0] = _mm512_cvtph_ps(rt_scales_f16(from, 34, n));
}

/* The same 16 bytes of a block twice: low nibbles, then high ones. */
GDN_INLINE void decode_q4_0(const unsigned char *from, int n, group *g)
{
    const __m512i shift = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0, 4, 4, 4, 4);
    UNROLLED
    for (int u = 0; u < 2; u++) {
        UNROLLED
        for (int i = 0; i < 4; i++) {
            const unsigned char *at = rt_block_at(from + 2, 18, 4 * i + u, n),
                                *other = rt_block_at(from + 2, 18, 4 * i + 2 + u, n);
            const __m512i one = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)at));
            const __m512i both =
                _mm512_mask_broadcast_i32x4(one, 0xff00, _mm_loadu_si128((const __m128i *)(const void *)other));
            g->w[u][i] = _mm512_and_si512(_mm512_srlv_epi32(both, shift), _mm512_set1_epi8(15));
        }
        order_unit(g->w[u]);
    }
    g->d[0] = _mm512_cvtph_ps(rt_scales_f16(from, 18, n));
}

GDN_INLINE void decode_k4_k5(const unsigned char *from, int five, int n, group *g)
{
    const int bytes = five ? 176 : 144;
    const unsigned char *second = rt_block_at(from, bytes, 1, n / 8);
    const __m512i low = _mm512_set1_epi8(15), bit = _mm512_set1_epi8(16);
    wv raw[4], high[4];
    UNROLLED
    for (int i = 0; i < 4; i++) { /* j = 2 i and the one after it, in both units */
        const unsigned char *at = i < 2 ? from : second;
        raw[i] = _mm512_loadu_si512(at + (five ? 48 : 16) + i % 2 * 64);
        if (five) { /* bit b of a byte to bit 4: to the left by 4 - b, in a circle; b = 0, 2, or 4, 6; the next one is
                       unit 1's */
            const __m512i by = i % 2 ? _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 30, 30, 30, 30, 30, 30, 30, 30)
                                     : _mm512_setr_epi32(4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2);
            high[i] = _mm512_rolv_epi32(
                _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(at + 16))), by);
        }
    }
    order_unit(raw);
    if (five) order_unit(high);
    UNROLLED
    for (int k = 0; k < 4; k++) {
        g->w[0][k] = _mm512_and_si512(raw[k], low);
        g->w[1][k] = _mm512_and_si512(_mm512_srli_epi16(raw[k], 4), low);
        if (five) {
            g->w[0][k] = _mm512_or_si512(g->w[0][k], _mm512_and_si512(high[k], bit));
            g->w[1][k] = _mm512_or_si512(g->w[1][k], _mm512_and_si512(_mm512_ror_epi32(high[k], 1), bit));
        }
    }
    __m128i scale, min;
    __m128 d, dmin;
    rt_scales_k4_k5(from + 4, second + 4, &scale, &min);
    rt_d_dmin(from, second, &d, &dmin);
    g->d[0] = v_mul(_mm512_broadcast_f32x4(d), v_from_int(_mm512_cvtepu8_epi32(scale)));
    g->m[0] = v_mul(_mm512_broadcast_f32x4(dmin), v_from_int(_mm512_cvtepu8_epi32(min)));
}

GDN_INLINE void decode_q6_k(const unsigned char *from, int n, group *g)
{
    const unsigned char *second = rt_block_at(from, 210, 1, n / 8);
    const __m512i low = _mm512_set1_epi8(15), two = _mm512_set1_epi8(48);
    const __m512i shift = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4);
    const __m512i by0 = _mm512_setr_epi32(4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i by1 = _mm512_setr_epi32(2, 2, 2, 2, 2, 2, 2, 2, 30, 30, 30, 30, 30, 30, 30, 30);
    UNROLLED
    for (int i = 0; i < 4; i++) { /* j = 2 i, 2 i + 1: half of a super-block */
        const unsigned char *at = i < 2 ? from : second, *l = at + i % 2 * 64;
        const __m512i high =
            _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(at + 128 + i % 2 * 32)));
        const __m512i l0 = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)l));
        const __m512i l1 = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(l + 32)));
        g->w[0][i] = _mm512_or_si512(_mm512_and_si512(_mm512_srlv_epi32(l0, shift), low),
                                     _mm512_and_si512(_mm512_rolv_epi32(high, by0), two));
        g->w[1][i] = _mm512_or_si512(_mm512_and_si512(_mm512_srlv_epi32(l1, shift), low),
                                     _mm512_and_si512(_mm512_rolv_epi32(high, by1), two));
    }
    order_unit(g->w[0]);
    order_unit(g->w[1]);
    const __m512i dwords = _mm512_castsi256_si512(rt_scales_q6(from + 192, second + 192));
    const __m512i f =
        _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6, 1, 3, 5, 7, 1, 3, 5, 7), dwords);
    g->factor[0][0] = _mm512_srai_epi32(
        _mm512_sllv_epi32(f, _mm512_setr_epi32(24, 24, 24, 24, 16, 16, 16, 16, 24, 24, 24, 24, 16, 16, 16, 16)), 24);
    g->factor[1][0] =
        _mm512_srai_epi32(_mm512_sllv_epi32(f, _mm512_setr_epi32(8, 8, 8, 8, 0, 0, 0, 0, 8, 8, 8, 8, 0, 0, 0, 0)), 24);
    g->d[0] = _mm512_broadcast_f32x4(rt_d_q6(from + 208, second + 208));
}
