/* Exhaustive test of the elementary functions: over all 2^32 inputs,
 *   bits   every instruction set's table gives the bits of numerics/elementary.h (any NaN equals any NaN);
 *          where the result is one constant, most inputs are met in the mode that flushes (are_constant());
 *   bound  |result - exact| is within the bound of GDN_ELEMENTARY_LIST; a bound of 0.5 is a claim of correct
 *          rounding, and everything near a tie is decided in exact arithmetic.
 * Over samples: special values; tails of every length write nothing beyond n. The baseline scalar build agrees, whose
 * fmaf may be a library call. The oracle agrees with libm in long double.
 *
 * Compile with -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math: the last two let the oracle's loops be
 * vectorised, and change no value. */
#define _GNU_SOURCE
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "numerics/float_env.h"
#include "tests/unit/elementary_table.h"
#include "simd/features.h"
#include "system/system.h"
#include "tests/harness.h"

enum {
    BLOCK = 2048,            /* inputs per inner loop: the buffers of a thread stay in its L1 cache */
    BLOCKS_PER_CHUNK = 2048, /* per turn at the shared counter */
    SCALAR_STRIDE = 509,     /* at least: the baseline scalar build may be 20 times slower */
    ORACLE_STRIDE = 20011,   /* at least: long double is slower still */
    CHECKED = 61,            /* see none_above() */
    MAX_THREADS = 256,
    MAX_ISAS = 4
};

/* Above this a result with a claim of correct rounding is decided exactly: 0.5 less the oracle's error, generously. */
static const double NEAR_TIE = 0.5 - 1e-5;
/* What the double oracle itself may be off, in float ulps. */
static const double ORACLE_ERROR = 1e-6;
/* Up to here it is of no interest what the worst error is: no function has so small a bound. */
static const double SMALL_ERROR = 0.25;

/* ------------------------------------------------------------------ bits */

static inline __attribute__((always_inline)) uint64_t double_bits(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static inline __attribute__((always_inline)) double double_from_bits(uint64_t b)
{
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

static bool same(float a, float b) { return gdn_bits(a) == gdn_bits(b) || (a != a && b != b); }

#include "tests/unit/test_elementary_oracle.inc.h"

/* ------------------------------------------------------------------ loops, compiled for several targets */

#if defined(__x86_64__)
#if defined(__clang__) /* does not know the last one, and would drop the others with it */
#define TARGET_WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#else
#define TARGET_WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")))
#endif
#define TARGET_FMA __attribute__((target("avx2,fma")))
#else
#define TARGET_WIDE
#define TARGET_FMA
#endif

#define VARIANT(name, variant, target)                                                                                 \
    target static void expect_##name##_##variant(const float *in, float *out) { expect_##name(in, out); }              \
    target static void measure_##name##_##variant(const float *in, const float *out, double *error)                    \
    {                                                                                                                  \
        measure_##name(in, out, error);                                                                                \
    }
#define LOOPS(name, reference, bound)                                                                                  \
    INLINE void expect_##name(const float *restrict in, float *restrict out)                                           \
    {                                                                                                                  \
        for (int i = 0; i < BLOCK; i++) out[i] = reference(in[i]);                                                     \
    }                                                                                                                  \
    INLINE void measure_##name(const float *restrict in, const float *restrict out, double *restrict error)            \
    {                                                                                                                  \
        for (int i = 0; i < BLOCK; i++) error[i] = ulps((double)out[i], oracle_##name((double)in[i]));                 \
    }                                                                                                                  \
    VARIANT(name, base, )                                                                                              \
    VARIANT(name, fma, TARGET_FMA)                                                                                     \
    VARIANT(name, wide, TARGET_WIDE)                                                                                   \
    static double exact_##name(double x) { return oracle_##name(x); }
GDN_ELEMENTARY_LIST(LOOPS)

/* ------------------------------------------------------------------ what there is to test */

typedef void array_fn(const float *in, float *out, size_t n);

typedef struct {
    const char *name;
    double bound;
    void (*expect[3])(const float *in, float *out); /* by width */
    void (*measure[3])(const float *in, const float *out, double *error);
    double (*exact)(double x);
    long double (*libm)(long double x);
} function;

#define FUNCTION(name, reference, bound)                                                                               \
    { #name,                                                                                                           \
      bound,                                                                                                           \
      { expect_##name##_base, expect_##name##_fma, expect_##name##_wide },                                             \
      { measure_##name##_base, measure_##name##_fma, measure_##name##_wide },                                          \
      exact_##name,                                                                                                    \
      libm_##name },
static const function functions[] = { GDN_ELEMENTARY_LIST(FUNCTION) };
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

typedef struct {
    const char *name;
    array_fn *fn[FUNCTIONS];
} isa;

#define ENTRY(name, reference, bound) table->name,
static isa make_isa(const char *name, const gdn_elementary_table *table)
{
    isa result = { name, { GDN_ELEMENTARY_LIST(ENTRY) } };
    return result;
}

static int width; /* of the loops that the CPU that runs the test has: 0 base, 1 fma, 2 wide */
static isa isas[MAX_ISAS];
static int isa_count;

static void detect(const char *only)
{
#define OFFER(name, condition)                                                                                         \
    if ((condition) && (!only || strcmp(only, #name) == 0)) isas[isa_count++] = make_isa(#name, &gdn_elementary_##name)
    OFFER(scalar, true);
#if defined(__x86_64__)
    /* not __builtin_cpu_supports(): clang 14 does not know "f16c" */
    width = gdn_simd_has_avx512() ? 2 : gdn_simd_has_avx2() != 0;
    OFFER(avx2, width > 0);
    OFFER(avx512, width > 1);
#elif defined(__aarch64__)
    OFFER(neon, true);
#endif
}

/* ------------------------------------------------------------------ one function over all inputs */

typedef struct {
    uint64_t failures, first_index; /* first differing input, by index, so that the report does not depend on threads */
    float want, got;
} difference;

typedef struct {
    difference bits[MAX_ISAS];
    double worst; /* ulps */
    uint64_t worst_index, near_ties, not_rounded, not_rounded_index;
    uint64_t missed;   /* blocks in which none_above() was wrong */
    uint64_t constant; /* inputs that are_constant() */
} outcome;

typedef struct {
    const function *f;
    int f_index;
    uint64_t stride, count;         /* inputs are index * stride, index < count */
    float below, constant, flushed; /* see are_constant() */
    atomic_uint_fast64_t next;
} work;

typedef struct {
    work *w;
    outcome o;
} worker;

static float input_at(const work *w, uint64_t index) { return gdn_from_bits((uint32_t)(index * w->stride)); }

/* Is y the float nearest to f(x)? Exact: x M of 24 + 25 bits is a double; M M of 50 bits is one, and the fma's
 * sign is that of the exact M M x - 1. M: the midpoints between y and its neighbours. */
static bool correctly_rounded(const function *f, float x, float y)
{
    float rounded = (float)f->exact((double)x);
    if (y != y || y == 0.0f || isinf(y)) return same(y, rounded);
    if (isinf(rounded)) return false;
    double m = fabs((double)y), v = fabs((double)x);
    double below = 0.5 * (m + (double)nextafterf((float)m, 0.0f));
    double above = 0.5 * (m + (double)nextafterf((float)m, INFINITY));
    if (isinf(nextafterf((float)m, INFINITY))) above = 0x1.ffffffp+127;
    if (strcmp(f->name, "rsqrt") == 0)
        return x > 0.0f && y > 0.0f && fma(below * below, v, -1.0) < 0.0 && fma(above * above, v, -1.0) > 0.0;
    if (strcmp(f->name, "reciprocal") == 0) return signbit(x) == signbit(y) && v * below < 1.0 && v * above > 1.0;
    return false; /* a claim of correct rounding needs its exact check here */
}

static void compare(uint64_t index, const float *want, const float *got, int n, difference *d)
{
    if (memcmp(want, got, (size_t)n * sizeof *want) == 0) return;
    for (int i = 0; i < n; i++) {
        if (same(want[i], got[i])) continue;
        if (d->failures++ == 0 || index + (uint64_t)i < d->first_index) {
            d->first_index = index + (uint64_t)i;
            d->want = want[i];
            d->got = got[i];
        }
    }
}

#include "tests/unit/test_elementary_groups.inc.h"

static void run_block(worker *self, uint64_t start)
{
    static _Thread_local _Alignas(64) float in[BLOCK], want[BLOCK], got[BLOCK];
    static _Thread_local _Alignas(64) double error[BLOCK];
    work *w = self->w;
    const function *f = w->f;
    const struct two_ways *const ways = two_ways_of(f->name);
    outcome *o = &self->o;
    int n = w->count - start < BLOCK ? (int)(w->count - start) : BLOCK;
    uint32_t first = (uint32_t)(start * w->stride), step = (uint32_t)w->stride;
    uint32_t bits[BLOCK];
    /* Past n these wrap around to inputs that were tested before; their results are not looked at. */
    for (uint32_t i = 0; i < BLOCK; i++) bits[i] = first + i * step;
    memcpy(in, bits, sizeof in);

    const bool alike = step == 1 && n == BLOCK && are_constant(w, start, in, want);
    if (!alike) f->expect[width](in, want);
    else o->constant += BLOCK;
    for (int k = 0; k < isa_count && !alike; k++) {
        if (strcmp(isas[k].name, "scalar") == 0) continue;
        isas[k].fn[w->f_index](in, got, BLOCK);
        compare(start, want, got, n, &o->bits[k]);
        if (ways) compare_mixed(ways, isas[k].fn[w->f_index], start, in, want, n, step == 1, &o->bits[k]);
    }
    const double limit = fmin(fmax(o->worst, SMALL_ERROR), f->bound == 0.5 ? NEAR_TIE : (double)INFINITY);
    const bool fine = none_above(f->name, f->exact, in, want, n, limit);
    if (fine && start / BLOCK % CHECKED != 0) return;
    f->measure[width](in, want, error);
    double m = largest(error);
    if (fine && m > limit) o->missed++;
    if (m > o->worst || (m == o->worst && start < o->worst_index)) {
        for (int i = 0; i < n; i++) {
            if (error[i] > o->worst || (error[i] == o->worst && start + (uint64_t)i < o->worst_index)) {
                o->worst = error[i];
                o->worst_index = start + (uint64_t)i;
            }
        }
    }
    if (f->bound == 0.5 && m > NEAR_TIE) {
        for (int i = 0; i < n; i++) {
            if (error[i] <= NEAR_TIE) continue;
            o->near_ties++;
            if (correctly_rounded(f, in[i], want[i])) continue;
            if (o->not_rounded++ == 0 || start + (uint64_t)i < o->not_rounded_index)
                o->not_rounded_index = start + (uint64_t)i;
        }
    }
}

static void *run_worker(void *argument)
{
    worker *self = argument;
    work *w = self->w;
    const uint64_t chunk = (uint64_t)BLOCK * BLOCKS_PER_CHUNK;
    for (;;) {
        uint64_t start = atomic_fetch_add(&w->next, chunk);
        if (start >= w->count) return NULL;
        uint64_t end = start + chunk < w->count ? start + chunk : w->count;
        for (uint64_t i = start; i < end; i += BLOCK) run_block(self, i);
    }
}

static void merge(outcome *into, const outcome *from)
{
    for (int k = 0; k < isa_count; k++) {
        const difference *d = &from->bits[k];
        uint64_t failures = into->bits[k].failures + d->failures;
        if (d->failures && (!into->bits[k].failures || d->first_index < into->bits[k].first_index)) into->bits[k] = *d;
        into->bits[k].failures = failures;
    }
    if (from->worst > into->worst || (from->worst == into->worst && from->worst_index < into->worst_index)) {
        into->worst = from->worst;
        into->worst_index = from->worst_index;
    }
    if (from->not_rounded && (!into->not_rounded || from->not_rounded_index < into->not_rounded_index))
        into->not_rounded_index = from->not_rounded_index;
    into->not_rounded += from->not_rounded;
    into->near_ties += from->near_ties;
    into->missed += from->missed;
    into->constant += from->constant;
}

/* ------------------------------------------------------------------ report */

static void report(bool ok, const char *what, const char *function_name, const char *detail)
{
    printf("%-10s  %-14s  %s\n", function_name, what, detail);
    REQUIRE(ok, "%s, %s", function_name, what);
}

static double seconds(void) { return 1e-9 * (double)gdn_now(); }

static void describe_difference(char *text, size_t size, const work *w, const difference *d, uint64_t inputs)
{
    if (d->failures == 0) {
        snprintf(text, size, "%llu inputs, same bits", (unsigned long long)inputs);
        return;
    }
    float x = input_at(w, d->first_index);
    snprintf(text, size, "%llu of %llu inputs differ; first: input %08x (%a), want %08x (%a), got %08x (%a)",
             (unsigned long long)d->failures, (unsigned long long)inputs, gdn_bits(x), (double)x, gdn_bits(d->want),
             (double)d->want, gdn_bits(d->got), (double)d->got);
}

static void test_all_inputs(int f_index, uint64_t stride, int threads)
{
    const function *f = &functions[f_index];
    work w = { .f = f, .f_index = f_index, .stride = stride, .count = (((uint64_t)1 << 32) + stride - 1) / stride };
    find_constant(&w);
    static worker workers[MAX_THREADS];
    gdn_thread ids[MAX_THREADS];
    double t0 = seconds();
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker){ .w = &w };
        NEED(gdn_thread_start(&ids[i], 0, run_worker, &workers[i]));
    }
    for (int i = 0; i < threads; i++) gdn_thread_join(ids[i]);
    outcome o = workers[0].o;
    for (int i = 1; i < threads; i++) merge(&o, &workers[i].o);
    double t = seconds() - t0;

    char text[400];
    for (int k = 0; k < isa_count; k++) {
        if (strcmp(isas[k].name, "scalar") == 0) continue;
        describe_difference(text, sizeof text, &w, &o.bits[k], w.count);
        if (o.constant && !o.bits[k].failures)
            snprintf(text + strlen(text), sizeof text - strlen(text), "; %llu a constant, in the mode that flushes",
                     (unsigned long long)o.constant);
        report(o.bits[k].failures == 0, isas[k].name, f->name, text);
    }
    float x = input_at(&w, o.worst_index), y;
    array_fn *scalar = make_isa("scalar", &gdn_elementary_scalar).fn[f_index];
    scalar(&x, &y, 1);
    int used = snprintf(text, sizeof text, "worst %.6f ulp (bound %g) at %08x (%a = %.9g): result %08x (%a); %.1f s",
                        o.worst, f->bound, gdn_bits(x), (double)x, (double)x, gdn_bits(y), (double)y, t);
    bool ok = o.missed == 0 && (f->bound == 0.5 ? o.not_rounded == 0 && o.worst < 0.5 + 1e-5 : o.worst <= f->bound);
    if (o.missed && used > 0 && (size_t)used < sizeof text)
        used += snprintf(text + used, sizeof text - (size_t)used, "; the ends of %llu blocks do not show their errors",
                         (unsigned long long)o.missed);
    if (f->bound == 0.5 && used > 0 && (size_t)used < sizeof text) {
        used += snprintf(text + used, sizeof text - (size_t)used, "; correctly rounded, %llu near ties decided exactly",
                         (unsigned long long)o.near_ties);
        if (o.not_rounded && (size_t)used < sizeof text)
            snprintf(text + used, sizeof text - (size_t)used, ": NOT in %llu, first input %08x",
                     (unsigned long long)o.not_rounded, gdn_bits(input_at(&w, o.not_rounded_index)));
    }
    report(ok, "bound", f->name, text);
}

/* The scalar table as built for the baseline, against the copy in this file. */
static void test_scalar(int f_index, uint64_t stride)
{
    static float in[BLOCK], want[BLOCK], got[BLOCK];
    if (stride < SCALAR_STRIDE) stride = SCALAR_STRIDE;
    work w = { .stride = stride, .count = (((uint64_t)1 << 32) + stride - 1) / stride };
    array_fn *scalar = make_isa("scalar", &gdn_elementary_scalar).fn[f_index];
    difference d = { 0 };
    for (uint64_t start = 0; start < w.count; start += BLOCK) {
        int n = w.count - start < BLOCK ? (int)(w.count - start) : BLOCK;
        for (int i = 0; i < BLOCK; i++) in[i] = input_at(&w, start + (uint64_t)i);
        functions[f_index].expect[width](in, want);
        scalar(in, got, (size_t)n);
        compare(start, want, got, n, &d);
    }
    char text[400];
    describe_difference(text, sizeof text, &w, &d, w.count);
    report(d.failures == 0, "scalar", functions[f_index].name, text);
}

static void test_oracle(int f_index, uint64_t stride)
{
    const function *f = &functions[f_index];
    double worst = 0.0;
    uint32_t worst_input = 0;
    if (stride < ORACLE_STRIDE) stride = ORACLE_STRIDE;
    for (uint64_t u = 0; u < (uint64_t)1 << 32; u += stride) {
        float x = gdn_from_bits((uint32_t)u);
        long double exact = f->libm((long double)x);
        double oracle = f->exact((double)x), error;
        if (exact != exact || oracle != oracle) error = (exact != exact) == (oracle != oracle) ? 0.0 : (double)INFINITY;
        else if (fabsl(exact) >= 0x1p128L || fabs(oracle) >= 0x1p128)
            error = (double)fabsl(exact) >= 0x1p128 && fabs(oracle) >= 0x1p128 ? 0.0 : (double)INFINITY;
        else error = (double)(fabsl((long double)oracle - exact) * (long double)inverse_ulp((double)exact));
        if (error > worst) {
            worst = error;
            worst_input = (uint32_t)u;
        }
    }
    char text[200];
    snprintf(text, sizeof text, "off by %.2g ulp at most (allowed %g), at %08x", worst, ORACLE_ERROR, worst_input);
    report(worst <= ORACLE_ERROR, "oracle", f->name, text);
}

/* Zeros, infinities, the ends of the subnormals and of the domains, with their neighbours: a sample over a stride
 * may miss them. */
static void test_special(int f_index)
{
    static const float values[] = { 0.0f,     0x1p-149f, 0x1p-126f,        0x1p-24f,   1.0f,   18.0f,
                                    20.0f,    88.72284f, 0x1.5d589ep+6f,   103.97208f, 104.0f, 110.0f,
                                    0x1p126f, 0x1p127f,  0x1.fffffep+127f, INFINITY };
    enum { VALUES = sizeof values / sizeof values[0] };
    static float in[BLOCK], want[BLOCK], got[BLOCK];
    static double error[BLOCK];
    const function *f = &functions[f_index];
    int n = 0;
    for (int i = 0; i < VALUES; i++)
        for (uint32_t sign = 0; sign < 2; sign++)
            for (uint32_t step = 0; step < 5; step++)
                in[n++] = gdn_from_bits((gdn_bits(values[i]) + step - 2u) ^ (sign << 31));
    f->expect[width](in, want);
    f->measure[width](in, want, error);
    char text[400] = "zeros, infinities, ends of ranges";
    bool ok = true;
    for (int k = 0; k < isa_count; k++) {
        isas[k].fn[f_index](in, got, (size_t)n);
        for (int i = 0; i < n; i++) {
            bool good = same(want[i], got[i]) &&
                        (f->bound == 0.5 ? correctly_rounded(f, in[i], want[i]) : error[i] <= f->bound);
            if (ok && !good)
                snprintf(text, sizeof text, "input %08x (%a): reference %08x (%a), off by %g ulp; %s %08x (%a)",
                         gdn_bits(in[i]), (double)in[i], gdn_bits(want[i]), (double)want[i], error[i], isas[k].name,
                         gdn_bits(got[i]), (double)got[i]);
            ok = ok && good;
        }
    }
    report(ok, "special", f->name, text);
}

/* Every length up to a few vectors, in place and not, with sentinels behind the end. */
static void test_tails(int f_index, const isa *tested)
{
    enum { N = 67, GUARD = 32 };
    float in[N + GUARD], want[N], out[N + GUARD];
    const float sentinel = gdn_from_bits(0xdeadbeefu);
    bool ok = true;
    array_fn *scalar = make_isa("scalar", &gdn_elementary_scalar).fn[f_index];
    for (int i = 0; i < N; i++) in[i] = (float)(i - 30) * 0.37f;
    scalar(in, want, N);
    for (int n = 0; n <= N; n++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int i = 0; i < N + GUARD; i++) out[i] = in_place && i < n ? in[i] : sentinel;
            tested->fn[f_index](in_place ? out : in, out, (size_t)n);
            for (int i = 0; i < N + GUARD; i++)
                ok = ok && same(out[i], i < n ? want[i] : sentinel) && (i < n || gdn_bits(out[i]) == 0xdeadbeefu);
        }
    }
    char what[32];
    snprintf(what, sizeof what, "%s tails", tested->name);
    report(ok, what, functions[f_index].name, "n = 0..67, in place and not");
}

/* ------------------------------------------------------------------ command line */

/* test_elementary [--stride N] [--function NAME] [--isa NAME]: every Nth input, N odd. */
int main(int argc, char **argv)
{
    const int processors = gdn_processors_of_process().n, threads = processors > MAX_THREADS ? MAX_THREADS : processors;
    const char *only_function = NULL, *only_isa = NULL;
    uint64_t stride = 1;
    int found = 0;
    for (int i = 1; i < argc; i += 2) {
        NEED(i + 1 < argc, "%s needs a value", argv[i]);
        if (strcmp(argv[i], "--stride") == 0) stride = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--function") == 0) only_function = argv[i + 1];
        else if (strcmp(argv[i], "--isa") == 0) only_isa = argv[i + 1];
        else NEED(0, "unknown option %s", argv[i]);
    }
    NEED(stride % 2, "low bits of the inputs would never be set");
    detect(only_isa);
    NEED(isa_count, "no instruction set of this build and CPU");
    for (int i = 0; i < FUNCTIONS; i++) {
        if (only_function && strcmp(only_function, functions[i].name) != 0) continue;
        found = 1;
        test_oracle(i, stride);
        test_special(i);
        test_groups(i);
        for (int k = 0; k < isa_count; k++) {
            test_tails(i, &isas[k]);
            if (strcmp(isas[k].name, "scalar") == 0) test_scalar(i, stride);
        }
        test_all_inputs(i, stride, threads);
    }
    NEED(found, "no function %s", only_function);
    return test_summary();
}
