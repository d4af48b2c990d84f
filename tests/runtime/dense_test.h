/* What the tests of the dense kernels share: numbers, memory with canaries, comparison by bits. */
#ifndef GDN_TESTS_DENSE_TEST_H
#define GDN_TESTS_DENSE_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/dense.h"
#include "runtime/error.h"

static int failures;

#define CHECK(condition, ...)                                        \
    do {                                                             \
        if (!(condition) && failures++ < 20) {                       \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);   \
            printf(__VA_ARGS__);                                     \
            printf("\n");                                            \
        }                                                            \
    } while (0)

/* ---- Numbers: splitmix64 (Steele, Lea, Flood 2014) ---- */

static uint64_t random_state = 1;

static inline uint64_t random_bits(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline int32_t random_int(int32_t from, int32_t to)
{
    return from + (int32_t)(random_bits() % (uint64_t)(to - from + 1));
}
static inline float random_float(void) { return (float)((double)(random_bits() >> 11) * 0x1p-52 - 1.0); }

static inline void random_floats(float *x, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = random_float() * scale;
}

/* Now and then infinities, NaN, zeros of both signs, subnormals, the largest and the smallest. */
static inline void sprinkle(float *x, int64_t n, int one_in)
{
    static const float odd[] = { INFINITY,   -INFINITY, NAN,      0.0f,      -0.0f,  0x1p-149f,
                                 -0x1p-130f, 3.4e38f,   -3.4e38f, 0x1p-126f, 1e-30f, 100.0f };
    for (int64_t i = 0; i < n; i++)
        if (random_bits() % (uint64_t)one_in == 0)
            x[i] = odd[random_bits() % (sizeof odd / sizeof odd[0])];
}

/* ---- Memory: n floats between canaries ---- */

enum { CANARY = 16 };
#define CANARY_BITS 0x7fabcdefu

static inline float *floats(int64_t n)
{
    uint32_t *at = malloc(4 * (size_t)(n + 2 * CANARY));
    if (!at) {
        printf("no memory\n");
        exit(1);
    }
    for (int64_t i = 0; i < n + 2 * CANARY; i++)
        at[i] = CANARY_BITS;
    return (float *)(void *)(at + CANARY);
}

static inline int canaries_live(const float *x, int64_t n)
{
    const uint32_t *at = (const uint32_t *)(const void *)x;
    for (int64_t i = 1; i <= CANARY; i++)
        if (at[-i] != CANARY_BITS || at[n + i - 1] != CANARY_BITS)
            return 0;
    return 1;
}

static inline void release(float *x)
{
    if (x)
        free((uint32_t *)(void *)x - CANARY);
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
        if (bits_of(a[i]) != bits_of(b[i]))
            return i;
    return -1;
}

/* ---- Kernels ---- */

static inline rt_threads *threads_of(int32_t n)
{
    rt_threads *t;
    if (rt_threads_create(n, &t)) {
        printf("%s\n", rt_last_error());
        exit(1);
    }
    return t;
}

static const char *const isas[] = { "avx2", "avx512", "avx512_vnni", "neon" };
enum { ISAS = 4 };

/* NULL where this processor has no such set. */
static inline rt_dense *dense_of(const char *isa, rt_threads *t)
{
    rt_dense *d;
    if (rt_dense_create(isa, t, &d))
        return NULL;
    return d;
}

static inline int report(const char *name)
{
    printf("%s: %d failed\n", name, failures);
    return failures != 0;
}

#endif
