/* Blocks of quantised weights in AVX2 registers, for matmul_quant.inc.h. Included before it, after vector.inc.h. */
#include "runtime/dense/quant_scales.h"

#define KEEP_REGISTER(vector) "x"(vector)
#define WV                    2
typedef __m256i wv;

/* A group of 512 decoded weights: bytes in the order of matmul_quant.inc.h, scales and minima of blocks in the order of
 * lanes. Q6_K and types with RT_FACTORS also have scales of 16 bytes in the order of accumulators. */
typedef struct group {
    wv w[2][8];
    vf d[2], m[2];
    vi factor[2][2];
} group;

enum { STEPWISE = 0, STEP_ROWS = 2, Q8_SIGNED = 1 };

GDN_INLINE wv wv_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
GDN_INLINE void wv_store(void *p, wv a) { _mm256_storeu_si256((__m256i *)p, a); }
GDN_INLINE wv wv_ones(void) { return _mm256_set1_epi8(1); }
GDN_INLINE vi vi_mul(vi a, vi b) { return _mm256_mullo_epi32(a, b); }

GDN_INLINE void pack_i8(int8_t *p, const vi q[4])
{
    const __m256i a = _mm256_packs_epi32(q[0], q[1]), b = _mm256_packs_epi32(q[2], q[3]);
    wv_store(p, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

GDN_INLINE vi dot1(vi sum, wv w, wv x) /* not called */
{
    (void)w, (void)x;
    return sum;
}

/* Sums of two products fit in 16 bits: at most 2 * 127 * 15, 31, 63 or (signed) 128. */
GDN_INLINE vi dot4(int type, const wv w[4], const wv x[4])
{
    const wv one = _mm256_set1_epi16(1);
    wv t[4];
    UNROLLED
    for (int k = 0; k < 4; k++) {
        if (rt_signed_bytes(type)) t[k] = _mm256_maddubs_epi16(_mm256_abs_epi8(w[k]), _mm256_sign_epi8(x[k], w[k]));
        else t[k] = _mm256_maddubs_epi16(w[k], x[k]);
    }
    if (rt_signed_bytes(type))
        return vi_add(vi_add(_mm256_madd_epi16(t[0], one), _mm256_madd_epi16(t[1], one)),
                      vi_add(_mm256_madd_epi16(t[2], one), _mm256_madd_epi16(t[3], one)));
    const wv a = _mm256_add_epi16(t[0], t[1]), b = _mm256_add_epi16(t[2], t[3]);
    if (type == RT_Q6_K) return vi_add(_mm256_madd_epi16(a, one), _mm256_madd_epi16(b, one));
    return _mm256_madd_epi16(_mm256_add_epi16(a, b), one);
}

/* An accumulator's halves are the two halves of blocks: of even j in [0], of odd j in [1]. */
GDN_INLINE void unite(vi acc[2][2], vi t[2])
{
    UNROLLED
    for (int u = 0; u < 2; u++)
        t[u] = vi_add(_mm256_permute2x128_si256(acc[u][0], acc[u][1], 0x20),
                      _mm256_permute2x128_si256(acc[u][0], acc[u][1], 0x31));
}

/* w[j] is block j of a unit. Transposes 4 x 4 dwords of each half, among even j and among odd j. */
GDN_INLINE void order_unit(wv w[8])
{
    wv from[8];
    UNROLLED
    for (int j = 0; j < 8; j++) from[j] = w[j];
    UNROLLED
    for (int h = 0; h < 2; h++) {
        const wv a = _mm256_unpacklo_epi32(from[h], from[h + 2]), b = _mm256_unpackhi_epi32(from[h], from[h + 2]);
        const wv c = _mm256_unpacklo_epi32(from[h + 4], from[h + 6]),
                 d = _mm256_unpackhi_epi32(from[h + 4], from[h + 6]);
        w[0 + h] = _mm256_unpacklo_epi64(a, c);
        w[2 + h] = _mm256_unpackhi_epi64(a, c);
        w[4 + h] = _mm256_unpacklo_epi64(b, d);
        w[6 + h] = _mm256_unpackhi_epi64(b, d);
    }
}

GDN_INLINE void blocks_to_units(const unsigned char *base, int stride, int n, wv w[2][8])
{
    UNROLLED
    for (int u = 0; u < 2; u++) {
        UNROLLED
        for (int j = 0; j < 8; j++) w[u][j] = wv_load(rt_block_at(base, stride, 2 * j + u, n));
        order_unit(w[u]);
    }
}

GDN_INLINE void f16_scales(const unsigned char *from, int stride, int n, vf d[2])
{
    const __m256i f16 = rt_scales_f16(from, stride, n);
    d[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(f16));
    d[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(f16, 1));
}

GDN_INLINE void decode_q8_0(const unsigned char *from, int n, group *g)
{
    blocks_to_units(from + 2, 34, n, g->w);
    f16_scales(from, 34, n, g->d);
}

/* The same 16 bytes of a block twice: low nibbles, then high ones. */
GDN_INLINE void decode_q4_0(const unsigned char *from, int n, group *g)
{
    const __m256i shift = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    UNROLLED
    for (int u = 0; u < 2; u++) {
        UNROLLED
        for (int j = 0; j < 8; j++) {
            const unsigned char *at = rt_block_at(from + 2, 18, 2 * j + u, n);
            const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)at));
            g->w[u][j] = _mm256_and_si256(_mm256_srlv_epi32(twice, shift), _mm256_set1_epi8(15));
        }
        order_unit(g->w[u]);
    }
    f16_scales(from, 18, n, g->d);
}

GDN_INLINE void decode_k4_k5(const unsigned char *from, int five, int n, group *g)
{
    const int bytes = five ? 176 : 144;
    const unsigned char *second = rt_block_at(from, bytes, 1, n / 8);
    const __m256i low = _mm256_set1_epi8(15), bit = _mm256_set1_epi8(16);
    wv raw[8], high[8];
    UNROLLED
    for (int j = 0; j < 8; j++) {
        const unsigned char *at = j < 4 ? from : second;
        raw[j] = wv_load(at + (five ? 48 : 16) + j % 4 * 32);
        if (five) { /* bit 2 (j % 4) of a byte to bit 4; the next one, to bit 5, is unit 1's */
            const __m256i bits = wv_load(at + 16);
            high[j] = j % 4 == 0   ? _mm256_slli_epi16(bits, 4)
                      : j % 4 == 1 ? _mm256_slli_epi16(bits, 2)
                      : j % 4 == 2 ? bits
                                   : _mm256_srli_epi16(bits, 2);
        }
    }
    order_unit(raw);
    if (five) order_unit(high);
    UNROLLED
    for (int k = 0; k < 8; k++) {
        g->w[0][k] = _mm256_and_si256(raw[k], low);
        g->w[1][k] = _mm256_and_si256(_mm256_srli_epi16(raw[k], 4), low);
        if (five) {
            g->w[0][k] = _mm256_or_si256(g->w[0][k], _mm256_and_si256(high[k], bit));
            g->w[1][k] = _mm256_or_si256(g->w[1][k], _mm256_and_si256(_mm256_srli_epi16(high[k], 1), bit));
        }
    }
    __m128i scale, min;
    __m128 d4, m4;
    rt_scales_k4_k5(from + 4, second + 4, &scale, &min);
    rt_d_dmin(from, second, &d4, &m4);
    const vf d = _mm256_set_m128(d4, d4), m = _mm256_set_m128(m4, m4);
    g->d[0] = v_mul(d, v_from_int(_mm256_cvtepu8_epi32(scale)));
    g->d[1] = v_mul(d, v_from_int(_mm256_cvtepu8_epi32(_mm_srli_si128(scale, 8))));
    g->m[0] = v_mul(m, v_from_int(_mm256_cvtepu8_epi32(min)));
    g->m[1] = v_mul(m, v_from_int(_mm256_cvtepu8_epi32(_mm_srli_si128(min, 8))));
}

GDN_INLINE void decode_q6_k(const unsigned char *from, int n, group *g)
{
    const unsigned char *second = rt_block_at(from, 210, 1, n / 8);
    const __m256i low = _mm256_set1_epi8(15), two = _mm256_set1_epi8(48);
    UNROLLED
    for (int h = 0; h < 4; h++) { /* halves of super-blocks: j = 2 h, 2 h + 1 */
        const unsigned char *at = h < 2 ? from : second, *nibbles = at + h % 2 * 64;
        const __m256i high = wv_load(at + 128 + h % 2 * 32), l0 = wv_load(nibbles), l1 = wv_load(nibbles + 32);
        g->w[0][2 * h] = _mm256_or_si256(_mm256_and_si256(l0, low), _mm256_and_si256(_mm256_slli_epi16(high, 4), two));
        g->w[1][2 * h] = _mm256_or_si256(_mm256_and_si256(l1, low), _mm256_and_si256(_mm256_slli_epi16(high, 2), two));
        g->w[0][2 * h + 1] =
            _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l0, 4), low), _mm256_and_si256(high, two));
        g->w[1][2 * h + 1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l1, 4), low),
                                             _mm256_and_si256(_mm256_srli_epi16(high, 2), two));
    }
    order_unit(g->w[0]);
    order_unit(g->w[1]);
    const __m256i dwords = rt_scales_q6(from + 192, second + 192);
    const __m256i up0 = _mm256_setr_epi32(24, 24, 24, 24, 16, 16, 16, 16),
                  up1 = _mm256_setr_epi32(8, 8, 8, 8, 0, 0, 0, 0);
    const __m256i even = _mm256_permutevar8x32_epi32(dwords, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    const __m256i odd = _mm256_permutevar8x32_epi32(dwords, _mm256_setr_epi32(1, 3, 5, 7, 1, 3, 5, 7));
    g->factor[0][0] = _mm256_srai_epi32(_mm256_sllv_epi32(even, up0), 24);
    g->factor[0][1] = _mm256_srai_epi32(_mm256_sllv_epi32(odd, up0), 24);
    g->factor[1][0] = _mm256_srai_epi32(_mm256_sllv_epi32(even, up1), 24);
    g->factor[1][1] = _mm256_srai_epi32(_mm256_sllv_epi32(odd, up1), 24);
    const __m128 d4 = rt_d_q6(from + 208, second + 208);
    g->d[0] = g->d[1] = _mm256_set_m128(d4, d4);
}
