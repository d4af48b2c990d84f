/* What the dense kernels share on a vector unit: typed loads, dot32's sum, loops with tails. Include after one
 * simd/<isa>.h and simd/elementary.inc.h. */
#ifndef GDN_RUNTIME_VECTOR_INC_H
#define GDN_RUNTIME_VECTOR_INC_H

#include "runtime/dense/dense_internal.h"
#include "simd/typed.inc.h"

/* v_load_typed() takes a matrix's type: 16-bit rows that are not F16 are BF16. */
_Static_assert((int)RT_F32 == GDN_F32 && (int)RT_F16 == GDN_F16, "ggml's type numbers are the library's for these");

#define UNROLLED _Pragma("GCC unroll 32")

enum { SUMS = 32 / GDN_VL }; /* vectors of dot32's partial sums */

/* Weights are read once, and memory is the limit. prefetch_far() prefetches this many bytes ahead into the L2 cache,
 * which has more outstanding misses than L1. Hardware prefetchers stop at the end of a page. */
enum { FAR_AHEAD = 8192 };
GDN_INLINE void prefetch_far(const unsigned char *p, int bytes)
{
    for (int b = 0; b < bytes; b += 64) v_prefetch_l2(p + b);
}

/* p[l] = p[l] + p[l + h] for h = 16 .. 1 */
GDN_INLINE float sum32(const vf p[SUMS])
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

GDN_INLINE void zero32(vf p[SUMS])
{
    UNROLLED
    for (int k = 0; k < SUMS; k++) p[k] = v_zero();
}

/* Number of the `left` elements in vector k of a step of 32. */
GDN_INLINE int lanes_of(int64_t left, int k)
{
    const int64_t n = left - k * GDN_VL;
    return n <= 0 ? 0 : n < GDN_VL ? (int)n : GDN_VL;
}

/* sum of a product with itself */
GDN_INLINE float dot32_self(const float *x, int32_t n)
{
    vf p[SUMS];
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

/* Loop over n elements; the body gets i and the number of lanes m, which is constant except in the last iteration. */
#define FOR_LANES(i, m, n, ...)                                                                                        \
    do {                                                                                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + GDN_VL <= (n); i += GDN_VL) {                                                                       \
            enum { m = GDN_VL };                                                                                       \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
        if (i < (n)) {                                                                                                 \
            const int m = (int)((n)-i);                                                                                \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    } while (0)

#endif
