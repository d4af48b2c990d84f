/* The host's floors (rooflines) for one instruction set. floors_<isa>.c includes it after simd/<isa>.h, which the
 * kernels use too. All loops work in steps of STEP floats, two cache lines. Prefetch distances suit a sequential walk.
 * Several variants exist, since a floor that is slower than necessary would flatter the kernels. */
#include "bench/floors.h"

enum {
    STEP = 32, /* floats per iteration                 */
    VECTORS = STEP / GDN_VL,
    AHEAD = 256,     /* prefetch distance in floats: 1 KiB */
    FAR_AHEAD = 2048 /* prefetch distance for the L2 cache */
};

/* Unrolls fixed-length loops over registers: otherwise an array of vectors is kept in memory. */
#define UNROLLED _Pragma("GCC unroll 32")

static _Thread_local volatile float sink; /* stores unused results, so that the compiler keeps the work */

/* Tails shorter than a step use single floats. */
static inline __attribute__((always_inline)) void stream_loop(int variant, int n_in, int n_out, const float *const *in,
                                                              float *const *out, int64_t first, int64_t last)
{
    const vf one = v_set1(1.0f);
    vf kept[VECTORS];
    UNROLLED
    for (int k = 0; k < VECTORS; k++) kept[k] = v_zero();

    int64_t i = first;
    for (; i + STEP <= last; i += STEP) {
        if (variant == FLOOR_PREFETCH) {
            for (int line = 0; line < STEP; line += 16) {
                UNROLLED
                for (int r = 0; r < n_in; r++) v_prefetch(in[r] + i + AHEAD + line);
                UNROLLED
                for (int w = 0; w < n_out; w++) v_prefetchw(out[w] + i + AHEAD + line);
            }
        }
        if (variant == FLOOR_FAR) {
            for (int line = 0; line < STEP; line += 16) {
                UNROLLED
                for (int r = 0; r < n_in; r++) v_prefetch_l2(in[r] + i + FAR_AHEAD + line);
            }
        }
        UNROLLED
        for (int k = 0; k < VECTORS; k++) {
            const vf v = n_in > 0 ? v_load(in[0] + i + k * GDN_VL) : one;
            UNROLLED
            for (int r = n_out > 0; r < n_in; r++) kept[k] = v_add(kept[k], v_load(in[r] + i + k * GDN_VL));
            UNROLLED
            for (int w = 0; w < n_out; w++) {
                if (variant == FLOOR_STREAMING) v_stream(out[w] + i + k * GDN_VL, v);
                else v_store(out[w] + i + k * GDN_VL, v);
            }
        }
    }
    for (; i < last; i++) {
        const float v = n_in > 0 ? in[0][i] : 1.0f;
        for (int r = n_out > 0; r < n_in; r++) sink = in[r][i];
        for (int w = 0; w < n_out; w++) out[w][i] = v;
    }
    if (n_in > (n_out > 0)) {
        UNROLLED
        for (int k = 1; k < VECTORS; k++) kept[0] = v_add(kept[0], kept[k]);
        sink = v_sum(kept[0]);
    }
    if (variant == FLOOR_STREAMING) v_fence();
}

/* The shapes that the benchmarks use, compiled with constant counts. */
static inline __attribute__((always_inline)) void
stream_shapes(int variant, int n_in, int n_out, const float *const *in, float *const *out, int64_t first, int64_t last)
{
    if (n_in == 1 && n_out == 1) stream_loop(variant, 1, 1, in, out, first, last);
    else if (n_in == 1 && n_out == 4) stream_loop(variant, 1, 4, in, out, first, last);
    else if (n_in == 8 && n_out == 1) stream_loop(variant, 8, 1, in, out, first, last);
    else if (n_in == 8 && n_out == 2) stream_loop(variant, 8, 2, in, out, first, last);
    else if (n_in == 1 && n_out == 0) stream_loop(variant, 1, 0, in, out, first, last);
    else if (n_in == 0 && n_out == 1) stream_loop(variant, 0, 1, in, out, first, last);
    else stream_loop(variant, n_in, n_out, in, out, first, last);
}

/* Non-temporal stores need aligned vectors; other outputs use plain stores. */
static void isa_stream(int variant, int n_in, int n_out, const float *const *in, float *const *out, int64_t first,
                       int64_t last)
{
    if (variant == FLOOR_STREAMING)
        for (int w = 0; w < n_out; w++)
            if ((uintptr_t)(out[w] + first) % 64 != 0) variant = FLOOR_PLAIN;
    if (variant == FLOOR_PLAIN) stream_shapes(FLOOR_PLAIN, n_in, n_out, in, out, first, last);
    else if (variant == FLOOR_PREFETCH) stream_shapes(FLOOR_PREFETCH, n_in, n_out, in, out, first, last);
    else if (variant == FLOOR_FAR) stream_shapes(FLOOR_FAR, n_in, n_out, in, out, first, last);
    else stream_shapes(FLOOR_STREAMING, n_in, n_out, in, out, first, last);
}

/* Rows may begin inside a cache line (as with Q8_0). Stores are 32 bytes or a vector, whichever is smaller, and
 * non-temporal only if the row is aligned. */
static void isa_scatter(int variant, const char *in, int64_t in_bytes, char *out, int64_t out_bytes,
                        const int32_t *index, int64_t first, int64_t last)
{
    const int64_t n_in = in_bytes / 4, n_out = out_bytes / 4;
    const int aligned = (uintptr_t)out % 64 == 0 && out_bytes % 64 == 0;
    for (int64_t row = first; row < last; row++) {
        const float *s = (const float *)(const void *)(in + row * in_bytes);
        float *d = (float *)(void *)(out + index[row] * out_bytes);
        if (variant == FLOOR_PREFETCH && row + 2 < last) {
            const char *next = out + index[row + 2] * out_bytes;
            for (int64_t b = 0; b < out_bytes; b += 64) v_prefetchw(next + b);
            for (int64_t b = 0; b < in_bytes; b += 64) v_prefetch(in + (row + 2) * in_bytes + b);
        }
        /* v combines the source vectors of each stored vector */
        vf v = v_zero();
        int64_t i = 0, o = 0;
        for (; o + GDN_VL <= n_out; o += GDN_VL) {
            for (const int64_t until = n_in * (o + GDN_VL) / n_out; i + GDN_VL <= until; i += GDN_VL)
                v = v_add(v, v_load(s + i));
            if (variant == FLOOR_STREAMING && aligned) v_stream(d + o, v);
            else v_store(d + o, v);
        }
        for (; i + GDN_VL <= n_in; i += GDN_VL) v = v_add(v, v_load(s + i));
        for (; o + 8 <= n_out; o += 8) v_store_n(d + o, v, 8);
        sink = v_sum(v);
    }
    if (variant == FLOOR_STREAMING) v_fence();
}

/* Uses enough accumulators to cover the latency on two or four units, and few enough to stay in registers. */
static int64_t isa_fma(int64_t n)
{
    enum { ACCUMULATORS = FLOOR_ACCUMULATORS };
    vf acc[ACCUMULATORS];
    const vf a = v_set1(0.999f), b = v_set1(0.001f);
    UNROLLED
    for (int k = 0; k < ACCUMULATORS; k++) acc[k] = v_set1(0.5f + (float)k / 64.0f);
    const int64_t rounds = n / ACCUMULATORS + 1;
    for (int64_t i = 0; i < rounds; i++) {
        UNROLLED
        for (int k = 0; k < ACCUMULATORS; k++) acc[k] = v_fma(acc[k], a, b);
    }
    UNROLLED
    for (int k = 1; k < ACCUMULATORS; k++) acc[0] = v_add(acc[0], acc[k]);
    sink = v_sum(acc[0]);
    return rounds * ACCUMULATORS;
}

static inline __attribute__((always_inline)) void together_loop(int variant, int n_out, const float *in, float *out,
                                                                int64_t first, int64_t last, double fmas)
{
    enum { LINE = 16, TOGETHER = 8, PARTS_OF_ONE = 256 };
    const int64_t step = (int64_t)((fmas - LINE / GDN_VL) * PARTS_OF_ONE); /* adding each vector read is one
                                                                              operation too */
    const vf a = v_set1(0.999f), b = v_set1(0.001f);
    vf kept = v_zero(), acc[TOGETHER];
    UNROLLED
    for (int k = 0; k < TOGETHER; k++) acc[k] = v_set1(0.5f + (float)k / 64.0f);
    int64_t owed = 0;
    for (int64_t i = first; i + LINE <= last; i += LINE) {
        if (variant == TOGETHER_PREFETCH) v_prefetch(in + i + AHEAD);
        if (variant == TOGETHER_FAR) v_prefetch_l2(in + i + FAR_AHEAD);
        UNROLLED
        for (int k = 0; k < LINE / GDN_VL; k++) {
            const vf v = v_load(in + i + k * GDN_VL);
            kept = v_add(kept, v);
            if (n_out) v_store(out + i + k * GDN_VL, v);
        }
        for (owed += step; owed >= TOGETHER * PARTS_OF_ONE; owed -= TOGETHER * PARTS_OF_ONE) {
            UNROLLED
            for (int k = 0; k < TOGETHER; k++) acc[k] = v_fma(acc[k], a, b);
        }
    }
    UNROLLED
    for (int k = 0; k < TOGETHER; k++) kept = v_add(kept, acc[k]);
    sink = v_sum(kept);
}

static void isa_together(int variant, const float *in, float *out, int64_t first, int64_t last, double fmas)
{
    const int n_out = out != 0;
    if (variant == TOGETHER_PLAIN && !n_out) together_loop(TOGETHER_PLAIN, 0, in, out, first, last, fmas);
    else if (variant == TOGETHER_PLAIN) together_loop(TOGETHER_PLAIN, 1, in, out, first, last, fmas);
    else if (variant == TOGETHER_PREFETCH && !n_out) together_loop(TOGETHER_PREFETCH, 0, in, out, first, last, fmas);
    else if (variant == TOGETHER_PREFETCH) together_loop(TOGETHER_PREFETCH, 1, in, out, first, last, fmas);
    else if (!n_out) together_loop(TOGETHER_FAR, 0, in, out, first, last, fmas);
    else together_loop(TOGETHER_FAR, 1, in, out, first, last, fmas);
}
