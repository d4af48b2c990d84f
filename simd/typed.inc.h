/* Vectors of F32, F16 and BF16 rows. The element type is an argument, which is a constant in performance-critical code.
 * Included after one simd/<isa>.h. Elements need not be aligned. */
#ifndef GDN_SIMD_TYPED_INC_H
#define GDN_SIMD_TYPED_INC_H

#include "gdn/gdn.h"

#define GDN_INLINE static inline __attribute__((always_inline))

#ifndef GDN_BF16_INSTRUCTION
#define GDN_BF16_INSTRUCTION 0
GDN_INLINE void v_convert_bf16(uint16_t *p, vf a, int stream) { (void)p, (void)a, (void)stream; }
#endif

/* The lowest bytes of four vectors, those of a lane one after the other. */
GDN_INLINE vi vi_low_bytes(const vi x[4])
{
    const vi low = vi_merge(vi_set1(0xff), x[0], vi_shl(x[1], 8));
    return vi_merge(vi_set1(0xffff), low, vi_merge(vi_set1(0xff0000), vi_shl(x[2], 16), vi_shl(x[3], 24)));
}

#if GDN_QUAD_BIAS == 0
/* Adds byte i of each lane of a quad, 0 <= i < 4 a constant. */
GDN_INLINE vi quad_byte(vi sum, vi quad, const int i)
{
    const vi high = i == 0 ? vi_shl(quad, 24) : i == 1 ? vi_shl(quad, 16) : i == 2 ? vi_shl(quad, 8) : quad;
    return vi_add(sum, vi_sar(high, 24));
}
static inline int32_t quad_sum(const int8_t *bytes, int32_t n) { return (void)bytes, (void)n, 0; }
#endif

#if GDN_QUAD_PARTS == 1 /* a word is its four bytes */
static inline void quad_words(int32_t *word, const int8_t *bytes, int32_t n)
{
    __builtin_memcpy(word, bytes, (size_t)n);
}
static inline void quad_pack(const vi x[4], vi word[1]) { *word = vi_low_bytes(x); }
#endif

GDN_INLINE vf v_load_some(const float *p, int n) { return n == GDN_VL ? v_load(p) : v_load_n(p, n); }

GDN_INLINE void v_store_some(float *p, vf a, int n)
{
    if (n == GDN_VL) v_store(p, a);
    else v_store_n(p, a, n);
}

/* Loads n <= GDN_VL lanes from element i on. dtype is GDN_F32, GDN_F16 or GDN_BF16. */
GDN_INLINE vf v_load_typed(const void *row, int dtype, int64_t i, int n)
{
    if (dtype == GDN_F32) return v_load_some((const float *)row + i, n);
    const uint16_t *at = (const uint16_t *)row + i;
    if (dtype == GDN_F16) return n == GDN_VL ? v_load_f16(at) : v_load_f16_n(at, n);
    return n == GDN_VL ? v_load_bf16(at) : v_load_bf16_n(at, n);
}

GDN_INLINE void v_store_typed(void *row, int dtype, int64_t i, vf x, int n)
{
    if (dtype == GDN_F32) {
        v_store_some((float *)row + i, x, n);
        return;
    }
    uint16_t *at = (uint16_t *)row + i;
    if (dtype == GDN_F16 && n == GDN_VL) v_store_f16(at, x);
    else if (dtype == GDN_F16) v_store_f16_n(at, x, n);
    else if (n == GDN_VL) v_store_bf16(at, x);
    else v_store_bf16_n(at, x, n);
}

/* Stores all lanes, past the caches. The address is aligned to the bytes stored. */
GDN_INLINE void v_stream_typed(void *row, int dtype, int64_t i, vf x)
{
    if (dtype == GDN_F32) v_stream((float *)row + i, x);
    else if (dtype == GDN_F16) v_stream_f16((uint16_t *)row + i, x);
    else v_stream_bf16((uint16_t *)row + i, x);
}

/* Loads GDN_VL groups of 4 elements from group i on; r[j] gets element j of each. */
GDN_INLINE void v_load4_typed(const void *row, int dtype, int64_t i, vf r[4])
{
    if (dtype == GDN_F32) v_load4((const float *)row + 4 * i, r);
    else if (dtype == GDN_F16) v_load4_f16((const uint16_t *)row + 4 * i, r);
    else v_load4_bf16((const uint16_t *)row + 4 * i, r);
}

/* Loads half h of the 2 * GDN_VL elements from i on. `order` is a row type, and a half has the elements that need no
 * lane moves for that type: GDN_BF16 as in v_load_bf16_half(), else the first or the last elements. */
GDN_INLINE vf v_load_half(const void *row, int dtype, int64_t i, int half, int order)
{
    if (order != GDN_BF16) return v_load_typed(row, dtype, i + half * GDN_VL, GDN_VL);
    if (dtype == GDN_BF16) return v_load_bf16_half((const uint16_t *)row + i, half);
    return v_deal(v_load_typed(row, dtype, i, GDN_VL), v_load_typed(row, dtype, i + GDN_VL, GDN_VL), half);
}

/* v_load4_typed() for one half of the 2 * GDN_VL groups from group i on, with the halves of v_load_half(). */
GDN_INLINE void v_load4_half(const void *row, int dtype, int64_t i, int half, int order, vf r[4])
{
    if (order != GDN_BF16) {
        v_load4_typed(row, dtype, i + half * GDN_VL, r);
    } else if (dtype == GDN_BF16) {
        v_load4_bf16_half((const uint16_t *)row + 4 * i, half, r);
    } else {
        vf first[4], last[4];
        v_load4_typed(row, dtype, i, first);
        v_load4_typed(row, dtype, i + GDN_VL, last);
        for (int j = 0; j < 4; j++) r[j] = v_deal(first[j], last[j], half);
    }
}

/* Stores both halves to a row of the type that defines their order. `stream`: past the caches, aligned as above. */
GDN_INLINE void v_store_halves(void *row, int dtype, int64_t i, vf half0, vf half1, int stream)
{
    if (dtype == GDN_BF16) {
        if (stream) v_stream_bf16_halves((uint16_t *)row + i, half0, half1);
        else v_store_bf16_halves((uint16_t *)row + i, half0, half1);
    } else if (stream) {
        v_stream_typed(row, dtype, i, half0);
        v_stream_typed(row, dtype, i + GDN_VL, half1);
    } else {
        v_store_typed(row, dtype, i, half0, GDN_VL);
        v_store_typed(row, dtype, i + GDN_VL, half1, GDN_VL);
    }
}

/* The value after a store and a load; GDN_F32 returns x. */
GDN_INLINE vf v_round_typed(vf x, int dtype)
{
    if (dtype == GDN_F32) return x;
    return dtype == GDN_F16 ? v_round_f16(x) : v_round_bf16(x);
}

#endif
