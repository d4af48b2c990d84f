/* The rooflines of one instruction set. roofline_<isa>.c includes it after simd/<isa>.h, which the kernels use too. */
#include "bench/roofline.h"

enum {
    STEP = 32, /* words of an iteration: two cache lines */
    VECTORS = STEP / GDN_VL,
    AHEAD = 256,         /* prefetch distance in words: 1 KiB */
    FAR_AHEAD = 2048,    /* prefetch distance for the L2 cache */
    WRITTEN = 0x3c003c00 /* a normal number as F32, and two as F16 or BF16 */
};

/* Unrolls fixed-length loops over registers: otherwise an array of vectors is kept in memory. */
#define UNROLLED _Pragma("GCC unroll 32")

static _Thread_local volatile int32_t sink; /* stores unused results, so that the compiler keeps the work */
static _Thread_local volatile int32_t zero; /* added, so that the compiler keeps a store of what it has just loaded */

static inline __attribute__((always_inline)) void move_loop(int variant, roofline_access access, int32_t *p, int64_t n)
{
    const vi nothing = vi_set1(zero);
    vi sum[VECTORS], v = vi_set1(WRITTEN);
    UNROLLED
    for (int k = 0; k < VECTORS; k++) sum[k] = vi_set1(0);
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        for (int line = 0; line < STEP; line += 16) {
            if (variant == ROOFLINE_PREFETCH && access == ROOFLINE_READ) v_prefetch(p + i + AHEAD + line);
            else if (variant == ROOFLINE_PREFETCH) v_prefetchw(p + i + AHEAD + line);
            else if (variant == ROOFLINE_FAR) v_prefetch_l2(p + i + FAR_AHEAD + line);
        }
        UNROLLED
        for (int k = 0; k < VECTORS; k++) {
            int32_t *at = p + i + k * GDN_VL;
            if (access != ROOFLINE_WRITE) v = vi_load(at);
            if (access == ROOFLINE_UPDATE) v = vi_add(v, nothing);
            if (access == ROOFLINE_READ) sum[k] = vi_add(sum[k], v);
            else if (variant == ROOFLINE_STREAMING) v_stream((float *)(void *)at, v_from_bits(v));
            else vi_store(at, v);
        }
    }
    for (; i < n; i++) {
        if (access == ROOFLINE_READ) sink = p[i];
        else ((volatile int32_t *)p)[i] = access == ROOFLINE_UPDATE ? p[i] : WRITTEN;
    }
    if (access == ROOFLINE_READ) {
        int32_t rest[GDN_VL];
        UNROLLED
        for (int k = 1; k < VECTORS; k++) sum[0] = vi_add(sum[0], sum[k]);
        vi_store(rest, sum[0]);
        sink = rest[0];
    } else if (variant == ROOFLINE_STREAMING) {
        v_fence();
    }
}

static void isa_move(int variant, roofline_access access, int32_t *p, int64_t n)
{
    if (variant == ROOFLINE_STREAMING && (uintptr_t)p % 64) variant = ROOFLINE_PLAIN; /* such stores need alignment */
#define MOVE(v, a)                                                                                                     \
    if (variant == (v) && access == (a)) move_loop(v, a, p, n)
#define ACCESSES(v)                                                                                                    \
    MOVE(v, ROOFLINE_READ);                                                                                            \
    MOVE(v, ROOFLINE_WRITE);                                                                                           \
    MOVE(v, ROOFLINE_UPDATE)
    ACCESSES(ROOFLINE_PLAIN);
    ACCESSES(ROOFLINE_PREFETCH);
    ACCESSES(ROOFLINE_FAR);
    ACCESSES(ROOFLINE_STREAMING);
}

/* Enough accumulators to cover the latency on two or four units, and few enough to stay in registers. */
static int64_t isa_fma(int64_t n)
{
    enum { ACCUMULATORS = ROOFLINE_ACCUMULATORS };
    vf acc[ACCUMULATORS];
    const vf a = v_set1(0.999f), b = v_set1(0.001f);
    UNROLLED
    for (int k = 0; k < ACCUMULATORS; k++) acc[k] = v_set1(0.5f + (float)k / 64.0f);
    const int64_t iterations = n / ACCUMULATORS + 1;
    for (int64_t i = 0; i < iterations; i++) {
        UNROLLED
        for (int k = 0; k < ACCUMULATORS; k++) acc[k] = v_fma(acc[k], a, b);
    }
    UNROLLED
    for (int k = 1; k < ACCUMULATORS; k++) acc[0] = v_add(acc[0], acc[k]);
    sink = v_sum(acc[0]) > 0;
    return iterations * ACCUMULATORS;
}
