/* What the tests of the dense kernels share: numbers, memory with canaries, comparison by bits. */
#ifndef GDN_TESTS_DENSE_TEST_H
#define GDN_TESTS_DENSE_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/dense/dense.h"
#include "runtime/base/error.h"
#include "tests/harness.h"

static inline uint64_t random_bits(void) { return test_random(&test_seed); }

static inline int32_t random_int(int32_t from, int32_t to)
{
    return from + (int32_t)(random_bits() % (uint64_t)(to - from + 1));
}
static inline float random_float(void) { return (float)(2 * draw_unit() - 1.0); }

static inline void random_floats(float *x, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i++) x[i] = random_float() * scale;
}

/* Now and then infinities, NaN, zeros of both signs, subnormals, the largest and the smallest. */
static inline void sprinkle(float *x, int64_t n, int one_in)
{
    static const float odd[] = { INFINITY,   -INFINITY, NAN,      0.0f,      -0.0f,  0x1p-149f,
                                 -0x1p-130f, 3.4e38f,   -3.4e38f, 0x1p-126f, 1e-30f, 100.0f };
    for (int64_t i = 0; i < n; i++)
        if (random_bits() % (uint64_t)one_in == 0) x[i] = odd[random_bits() % (sizeof odd / sizeof odd[0])];
}

/* ---- Memory: n floats between canaries ---- */

enum { CANARY = 16 };
#define CANARY_BITS 0x7fabcdefu

static inline float *floats(int64_t n)
{
    uint32_t *at = malloc(4 * (size_t)(n + 2 * CANARY));
    NEED(at);
    for (int64_t i = 0; i < n + 2 * CANARY; i++) at[i] = CANARY_BITS;
    return (float *)(void *)(at + CANARY);
}

static inline int canaries_live(const float *x, int64_t n)
{
    const uint32_t *at = (const uint32_t *)(const void *)x;
    for (int64_t i = 1; i <= CANARY; i++)
        if (at[-i] != CANARY_BITS || at[n + i - 1] != CANARY_BITS) return 0;
    return 1;
}

static inline void release(float *x)
{
    if (x) free((uint32_t *)(void *)x - CANARY);
}

/* ---- Comparison: by bits, any NaN equal to any NaN except that an untouched canary is not a result ---- */

static inline uint32_t bits_of(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return b != CANARY_BITS && x != x ? 0x7fc00000u : b;
}

/* The first difference, or -1. */
static inline int64_t differs(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (bits_of(a[i]) != bits_of(b[i])) return i;
    return -1;
}

/* ---- Weights ---- */

/* F16 or BF16 of random size, not too large. */
static inline uint16_t random_half(int32_t type)
{
    const uint16_t sign = (uint16_t)(random_bits() & 0x8000u);
    return (uint16_t)(type == RT_BF16 ? sign | (uint16_t)random_int(0x3c00, 0x3f80)
                                      : sign | (uint16_t)random_int(0x1000, 0x3c00));
}

/* A block's scale, and its minimum's where it has one. */
static inline void put_scales(int32_t type, unsigned char *block, const uint16_t h[2])
{
    const int place = type == RT_Q6_K ? 208 : type == RT_Q2_K ? 80 : type == RT_Q3_K ? 108 : 0;
    if (type == RT_MXFP4)
        block[0] = (h[0] & 0x7fff) >= 0x7c00 ? 255 : (unsigned char)((h[0] >> 8 & 31) + 110); /* 2^-18 to 2^13 */
    else if (type == RT_IQ1_M)
        for (int i = 0; i < 4; i++)
            block[49 + 2 * i] = (unsigned char)((block[49 + 2 * i] & 15) | (h[0] >> 4 * i & 15) << 4);
    else memcpy(block + place, h, rt_type_minima(type) ? 4 : 2);
}

/* Any bytes are valid blocks; scales are kept finite, so that a single one does not make all outputs NaN. */
static inline unsigned char *random_weights(rt_weight *w, int32_t type, int32_t n_columns, int32_t n_rows,
                                            int32_t n_matrices, int special)
{
    const rt_type_info *info = rt_type_describe(type);
    *w = (rt_weight){ NULL, type, n_columns, n_rows, n_matrices, (int64_t)n_columns / info->block * info->block_bytes };
    const int64_t bytes = w->row_bytes * n_rows * n_matrices;
    unsigned char *memory = malloc((size_t)bytes + 2),
                  *data = memory + 2; /* aligned to 2, the end is the end of memory */
    for (int64_t i = 0; i < bytes; i++) data[i] = (unsigned char)random_bits();
    for (int64_t at = 0; at < bytes; at += info->block_bytes) {
        uint16_t h[2] = { random_half(type == RT_BF16 ? RT_BF16 : RT_F16), random_half(RT_F16) };
        const float f = special && random_bits() % 64 == 0 ? INFINITY : random_float();
        if (special && random_bits() % 32 == 0) h[random_bits() % 2] = random_bits() % 2 ? 0x7c00 : 0x7fff;
        if (type == RT_F32) memcpy(data + at, &f, 4);
        else put_scales(type, data + at, h);
        if (type == RT_Q8_0 && random_bits() % 8 == 0) memset(data + at + 2, 0x80, 32); /* -128 is a weight too */
    }
    w->data = data;
    return memory;
}

/* ---- Kernels ---- */

static inline rt_threads *threads_of(int32_t n)
{
    rt_threads *t;
    NEED(!rt_threads_create(n, &t));
    return t;
}

enum { SCALAR, ISAS = 5, BEST = ISAS, MOST_THREADS = 4 };
static const char *const isas[] = { "scalar", "avx2", "avx512", "avx512_vnni", "neon", NULL };
static rt_threads *dense_threads[ISAS + 1][MOST_THREADS + 1];
static rt_dense *dense_made[ISAS + 1][MOST_THREADS + 1];

static inline void dense_end(void)
{
    for (int i = 0; i <= ISAS; i++)
        for (int n = 0; n <= MOST_THREADS; n++) {
            rt_dense_destroy(dense_made[i][n]);
            rt_threads_destroy(dense_threads[i][n]);
        }
}

/* Kernels of an instruction set with so many threads, kept until the program ends; NULL where this processor has no
 * such set. */
static inline rt_dense *dense_of(int isa, int32_t n)
{
    static int begun;
    if (!begun++) NEED(!atexit(dense_end));
    if (!dense_threads[isa][n]) {
        dense_threads[isa][n] = threads_of(n);
        if (rt_dense_create(isas[isa], dense_threads[isa][n], &dense_made[isa][n])) dense_made[isa][n] = NULL;
    }
    return dense_made[isa][n];
}

#endif
