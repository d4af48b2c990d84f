/* What the dense kernels share on a vector unit: typed loads, dot32's sum, loops with tails. Included after one
 * cpu/simd_<isa>.h and cpu/elementary.inc.h. */
#ifndef GDN_RUNTIME_VECTOR_INC_H
#define GDN_RUNTIME_VECTOR_INC_H

#include "runtime/dense_internal.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 32")

enum { SUMS = 32 / GDN_VL }; /* vectors of dot32's partial sums */

/* n lanes from element i on. Elements need not be aligned. */
INLINE vf load_typed(const unsigned char *row, int type, int64_t i, int n)
{
    if (type == RT_F32) {
        const float *at = (const float *)(const void *)row + i;
        return n == GDN_VL ? v_load(at) : v_load_n(at, n);
    }
    const uint16_t *at = (const uint16_t *)(const void *)row + i;
    if (type == RT_F16) return n == GDN_VL ? v_load_f16(at) : v_load_f16_n(at, n);
    return n == GDN_VL ? v_load_bf16(at) : v_load_bf16_n(at, n);
}

/* p[l] = p[l] + p[l + h] for h = 16 .. 1 */
INLINE float sum32(const vf p[SUMS])
{
    vf t[SUMS];
    UNROLLED
    for (int k = 0; k < SUMS; k++) t[k] = p[k];
    UNROLLED
    for (int h = SUMS / 2; h; h /= 2) {
        UNROLLED
        for (int k = 0; k < h; k++) t[k] = v_add(t[k], t[k + h]);
    }
    return v_sum(t[0]);
}

INLINE void zero32(vf p[SUMS])
{
    UNROLLED
    for (int k = 0; k < SUMS; k++) p[k] = v_zero();
}

/* Of `left` elements, those that fall to vector k of a step of 32. */
INLINE int lanes_of(int64_t left, int k)
{
    const int64_t n = left - k * GDN_VL;
    return n <= 0 ? 0 : n < GDN_VL ? (int)n : GDN_VL;
}

/* sum of a product with itself */
INLINE float dot32_self(const float *x, int32_t n)
{
    vf      p[SUMS];
    int32_t i = 0;
    zero32(p);
    for (; i + 32 <= n; i += 32) {
        UNROLLED
        for (int k = 0; k < SUMS; k++) {
            const vf v = v_load(x + i + k * GDN_VL);
            p[k] = v_fma(v, v, p[k]);
        }
    }
    for (int k = 0; k < SUMS; k++) {
        const int m = lanes_of(n - i, k);
        if (!m) break;
        const vf v = v_load_n(x + i + k * GDN_VL, m);
        p[k] = v_sel(vm_first_n(m), v_fma(v, v, p[k]), p[k]);
    }
    return sum32(p);
}

INLINE vf load_some(const float *p, int n) { return n == GDN_VL ? v_load(p) : v_load_n(p, n); }
INLINE void store_some(float *p, vf a, int n)
{
    if (n == GDN_VL) v_store(p, a);
    else v_store_n(p, a, n);
}

/* A loop over n elements: body sees i and the number of lanes m, a constant but for the last step. */
#define FOR_LANES(i, m, n, ...)                                            \
    do {                                                                   \
        int64_t i = 0;                                                     \
        for (; i + GDN_VL <= (n); i += GDN_VL) { enum { m = GDN_VL }; __VA_ARGS__ } \
        if (i < (n)) { const int m = (int)((n) - i); __VA_ARGS__ }         \
    } while (0)

#endif
