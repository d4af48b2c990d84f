/* Vectors of F32, F16 and BF16 rows: the element type is an argument, a constant wherever it matters. Included after
 * one simd/<isa>.h. Elements need not be aligned. */
#ifndef GDN_SIMD_TYPED_INC_H
#define GDN_SIMD_TYPED_INC_H

#include "gdn/gdn.h"

#define GDN_INLINE static inline __attribute__((always_inline))

GDN_INLINE vf v_load_some(const float *p, int n)
{
    return n == GDN_VL ? v_load(p) : v_load_n(p, n);
}

GDN_INLINE void v_store_some(float *p, vf a, int n)
{
    if (n == GDN_VL) v_store(p, a);
    else v_store_n(p, a, n);
}

/* n <= GDN_VL lanes from element i on; dtype is GDN_F32, GDN_F16, or else it is BF16. */
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

/* As it is when it has been stored: of GDN_F32 itself. */
GDN_INLINE vf v_round_typed(vf x, int dtype)
{
    if (dtype == GDN_F32) return x;
    return dtype == GDN_F16 ? v_round_f16(x) : v_round_bf16(x);
}

/* All lanes, past the caches; where they go is aligned to their bytes. */
GDN_INLINE void v_stream_typed(void *row, int dtype, int64_t i, vf x)
{
    if (dtype == GDN_F32) v_stream((float *)row + i, x);
    else if (dtype == GDN_F16) v_stream_f16((uint16_t *)row + i, x);
    else v_stream_bf16((uint16_t *)row + i, x);
}

#endif
