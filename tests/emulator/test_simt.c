/* Tests of the SIMT emulator: threads, lanes, shared memory, conversions, and that mistakes are found. */
#define _GNU_SOURCE
#include "tests/emulator/test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int checked; /* the kernels' accesses are watched */

/* That a kernel fails, with a text that has these words. */
static void fails(fixture *f, const char *kernel, unsigned block, int mode, const char *words)
{
    simt_control("quiet", 1);
    const simt_result result = run(f, kernel, 2, block, 0, mode, f->n);
    simt_control("quiet", 0);
    REQUIRE(result != SIMT_SUCCESS, "%s, mode %d: nothing was found", kernel, mode);
    REQUIRE(strstr(simt_last_fault(), words) != NULL, "%s, mode %d: \"%s\" has no \"%s\"", kernel, mode,
            simt_last_fault(), words);
    if (getenv("SHOW")) printf("%s %d: %s\n", kernel, mode, simt_last_fault());
}

/* Threads in a block, mode of the kernel, and words of what is said. */
typedef struct mistake {
    const char *kernel;
    unsigned block;
    int mode;
    const char *words;
} mistake;
static const mistake mistakes[] = {
    { "lanes", 64, 20, "never come" },
    { "lanes", 64, 21, "reads from lane 20, which does not take part" },
    { "lanes", 64, 22, "in which it is not itself" },
    { "lanes", 64, 23, "reads from lane 25" },
    { "lanes", 64, 24, "never come" },
    { "lanes", 64, 25, "a width of 12" },
    { "lanes", 32, 26, "never come" },
    { "lanes", 32, 27, "never come" },
    { "barriers", 128, 1, "never come" },
    { "barriers", 128, 2, "not all threads are at the same barrier" },
    { "barriers", 128, 3, "returned" },
};
static const mistake for_checker[] = {
    { "memory", 64, 0, "shared memory that nobody has written" },
    { "memory", 64, 1, "a write outside of any memory" },
    { "memory", 64, 2, "not aligned" },
    { "memory", 64, 3, "shared memory" },
    { "memory", 64, 4, "a race: block" },
    { "memory", 64, 5, "a read outside of any memory" },
    { "memory", 64, 10, "a race: thread" },
    { "memory", 128, 8, "a race" },
    { "reduce", 256, 1, "shared memory" },
    { "copies", 32, 1, "shared memory" },
};

static void fail_all(fixture *f, const mistake *m, size_t n)
{
    for (size_t i = 0; i < n; i++) fails(f, m[i].kernel, m[i].block, m[i].mode, m[i].words);
}

static void test_reductions(fixture *f)
{
    for (int seed = 0; seed < 6; seed++) {
        simt_control("seed", seed);
        OK(run(f, "add_one", 5, 256, 0, 0, 1000));
        for (unsigned i = 0; i < 1000; i++) REQUIRE(f->host_out[i] == (float)(i + 2), "%u", i);
        for (unsigned block = 32; block <= 1024; block *= 2) {
            OK(run(f, "reduce", 3, block, 0, 0, 1024));
            REQUIRE(f->host_out[2] == 524800, "%u threads, seed %d: %g", block, seed, (double)f->host_out[2]);
            OK(run(f, "reduce_shared", 3, block, block * 4, 0, block));
            REQUIRE(f->host_out[0] == (float)(block * (block + 1) / 2), "%g", (double)f->host_out[0]);
        }
    }
    if (checked) return;
    /* A barrier is missing: the result depends on the seed, and is wrong with some. */
    int wrong = 0;
    for (int seed = 0; seed < 8; seed++) {
        simt_control("seed", seed);
        run(f, "reduce", 1, 256, 0, 1, 1024);
        wrong += f->host_out[0] != 524800;
    }
    REQUIRE(wrong >= 3, "with a missing barrier %d of 8 seeds are wrong", wrong);
    simt_control("seed", 0);
}

static unsigned lanes_expected(int mode, unsigned lane)
{
#define V(l) ((l)*100u + 7u)
    unsigned r = 0;
    switch (mode) {
    case 0: return V(lane / 8 * 8 + 3);
    case 1: return V(lane ^ 5);
    case 2: return V((lane ^ 9) < (lane / 8 + 1) * 8 ? lane ^ 9 : lane);
    case 3: return V(lane % 16 >= 3 ? lane - 3 : lane);
    case 4: return V(lane % 16 < 13 ? lane + 3 : lane);
    case 5:
        for (unsigned l = 0; l < 32; l += 3) r |= 1u << l;
        return r;
    case 6: return 2;
    case 7: return V(lane < 16 ? lane ^ 1 : lane ^ 2) + V(0);
    case 8: return 100u * 496 + 7 * 32 - V(31);
    case 9:
        for (unsigned l = 0; l < 32; l++) r ^= l * 2 + 1;
        return 31 + r;
    case 10:
        for (unsigned l = lane % 5; l < 32; l += 5) r |= 1u << l;
        return r;
    case 11: return (lane ^ 31) + 1;
    case 12: return lane < 20 ? 0xfffffu : 0;
    case 14: return lane < 8 ? 0xffu : lane < 16 ? 0xff00u : 0;
    default: return 0xffffffffu;
    }
#undef V
}

static void test_lanes(fixture *f)
{
    for (int seed = 0; seed < 6; seed++)
        for (int mode = 0; mode <= 14; mode++) {
            simt_control("seed", seed);
            OK(cuMemsetD32_v2(f->words, 0, f->n));
            OK(run(f, "lanes", 1, 96, 0, mode, 0));
            for (unsigned t = 0; t < 96 && (mode != 13); t++)
                REQUIRE(f->host_words[t] == lanes_expected(mode, t % 32), "seed %d, mode %d, thread %u: %x, not %x",
                        seed, mode, t, f->host_words[t], lanes_expected(mode, t % 32));
        }
    for (int seed = 0; seed < 4; seed++) {
        simt_control("seed", seed);
        fail_all(f, mistakes, sizeof mistakes / sizeof *mistakes);
        OK(run(f, "barriers", 1, 64, 0, 0, 0));
        for (unsigned t = 0; t < 64; t++) REQUIRE(f->host_words[t] == 40 * 4 + 1, "%u: %u", t, f->host_words[t]);
        OK(run(f, "barriers", 1, 40, 0, 0, 0)); /* a warp that is not whole */
        REQUIRE(f->host_words[3] == 40 * 4 + 2, "%u", f->host_words[3]);
    }
    simt_control("seed", 0);
}

/* What only the checker finds, whatever the order. */
static void test_checker(fixture *f)
{
    for (int seed = 0; seed < 4; seed++) {
        simt_control("seed", seed);
        fail_all(f, for_checker, sizeof for_checker / sizeof *for_checker);
        OK(run(f, "memory", 1, 64, 0, 8, 0)); /* lanes are ordered by __syncwarp */
        OK(run(f, "memory", 1, 64, 0, 7, 0));
        OK(run(f, "copies", 1, 32, 0, 0, 0));
        OK(run(f, "memory", 1, 32, 0, 15, 0));
        REQUIRE(f->host_out[31] == 15, "%g", (double)f->host_out[31]);
        OK(run(f, "memory", 3, 96, 0, 9, 0));
        fails(f, "memory", 32, 16, "a race");
        fails(f, "copies", 32, 2, "nobody has written");
    }
    simt_control("seed", 0);
    fails(f, "memory", 64, 13, "another thread has read");
    fails(f, "memory", 64, 14, "another block has read");
    fails(f, "memory", 64, 17, "a write to a parameter");
    simt_control("quiet", 1);
    REQUIRE(run(f, "reduce_shared", 1, 256, 1020, 0, 256) != 0, "dynamic shared memory is too small");
    simt_control("quiet", 0);
}

static void test_memory(fixture *f)
{
    float first[64];
    if (checked) {
        test_checker(f);
        return;
    }
    OK(run(f, "memory", 1, 64, 256, 12, 0));
    for (int i = 0; i < 64; i++) REQUIRE(isnan(f->host_out[i]), "%g", (double)f->host_out[i]);
    OK(run(f, "memory", 1, 64, 0, 0, 0)); /* uninitialised: two seeds differ, and seed 0 is NaN */
    memcpy(first, f->host_out, sizeof first);
    REQUIRE(isnan(first[7]), "%g", (double)first[7]);
    simt_control("seed", 2);
    OK(run(f, "memory", 1, 64, 0, 0, 0));
    REQUIRE(memcmp(first, f->host_out, sizeof first) != 0 && !isnan(f->host_out[7]), "%g", (double)f->host_out[7]);
    simt_control("seed", 0);
    fails(f, "memory", 64, 2, "not aligned");
    fails(f, "memory", 64, 11, "__trap");
#ifndef SIMT_TEST_ASAN
    fails(f, "memory", 64, 1, "wrote behind an allocation");
#endif
    simt_control("seed", 0);
    OK(cuMemsetD32_v2(f->words, 0, f->n));
    OK(run(f, "memory", 3, 96, 0, 9, 0)); /* atomics */
    REQUIRE(f->host_words[0] == 288 && f->host_words[1] == 95 && f->host_words[2] == 0xffffffffu, "%u %u %x",
            f->host_words[0], f->host_words[1], f->host_words[2]);
    REQUIRE(f->host_words[3] == f->host_words[4], "%u %u", f->host_words[3], f->host_words[4]);
    OK(run(f, "copies", 1, 32, 0, 0, 0));
    for (unsigned i = 0; i < 128; i++) {
        REQUIRE(f->host_out[i] == (float)(i + 1), "%u", i);
        REQUIRE(f->host_out[128 + i] == (i % 4 < 2 ? (float)(129 + i) : 0), "%u", i);
    }
    OK(run(f, "copies", 1, 32, 0, 1, 0)); /* the wait is missing */
    REQUIRE(f->host_out[31] != 32, "a copy that nobody waited for has arrived");
    OK(run(f, "copies", 1, 32, 0, 2, 0));
    REQUIRE(isnan(f->host_out[31]), "a copy that nobody waited for has arrived");
}

/* Is h, of those that could be, what x rounds to? */
static int rounds_to(float x, unsigned h, float (*value)(unsigned), unsigned infinity)
{
    if (isnan(x)) return (h & 0x7fff) > infinity;
    if ((h >> 15 & 1) != (signbit(x) != 0)) return 0;
    const double a = fabs((double)x);
    const unsigned m = h & 0x7fff;
    if (m > infinity) return 0;
    const double top = 2.0 * (double)value(infinity - 1) - (double)value(infinity - 2); /* where infinity would be */
    const double at = m == infinity ? top : (double)value(m), below = m ? (double)value(m - 1) : -1;
    const double above = m == infinity ? 1e300 : m + 1 == infinity ? top : (double)value(m + 1);
    if (m && (a - below < at - a || (a - below == at - a && m % 2))) return 0;
    return m == infinity || !(above - a < a - at || (above - a == a - at && m % 2));
}

static float half_value(unsigned h)
{
    return (float)ldexp(h < 1024 ? h : 1024 + h % 1024, (h < 1024 ? 1 : (int)(h >> 10)) - 25);
}

static float bfloat_value(unsigned h)
{
    const unsigned bits = h << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static void test_conversions(void)
{
    enum { N = 65536 };
    fixture f;
    set_up(&f, N);
    OK(run(&f, "convert", 1, 1024, 0, 1, N));
    for (unsigned i = 0; i < N; i++) {
        float x;
        memcpy(&x, &f.host_words[i], 4);
        const unsigned m = i & 0x7fff;
        REQUIRE(m > 0x7c00 ? isnan(x) : m == 0x7c00 ? isinf(x) : fabsf(x) == half_value(m), "%x: %a", i, (double)x);
        REQUIRE(m > 0x7c00 || (signbit(x) != 0) == (i >> 15), "%x", i);
    }
    OK(run(&f, "convert", 1, 1024, 0, 3, N));
    for (unsigned i = 0; i < N; i++) REQUIRE(f.host_words[i] == i << 16, "%x", i);
    float *in = malloc(N * sizeof *in);
    if (!in) exit(3);
    for (int mode = 0; mode <= 2; mode += 2)
        for (int part = 0; part < 4; part++) {
            for (unsigned i = 0; i < N; i++) { /* numbers, ties, beside ties, and any bits */
                unsigned bits = (mode ? i << 16 : 0) | (part == 1 ? 0x8000u : part == 2 ? 0x7fffu : 0);
                if (!mode) {
                    const float h = half_value(i & 0x7fff);
                    memcpy(&bits, &h, 4);
                    bits = (bits | i >> 15 << 31) + (part == 1 ? 0x1000u : part == 2 ? 0x0fffu : 0);
                }
                if (part == 3) bits = i * 2654435761u;
                memcpy(&in[i], &bits, 4);
            }
            OK(cuMemcpyHtoD_v2(f.in, in, N * sizeof *in));
            OK(run(&f, "convert", 1, 1024, 0, mode, N));
            for (unsigned i = 0; i < N; i++)
                REQUIRE(rounds_to(in[i], f.host_words[i], mode ? bfloat_value : half_value, mode ? 0x7f80 : 0x7c00),
                        "mode %d: %a gives %x", mode, (double)in[i], f.host_words[i]);
        }
    const float odd[] = { 2.5f, 3.5f, -2.5f, 3e9f, -3e9f, NAN, 0.49f, -0.0f };
    const int rounded[] = { 2, 4, -2, 0x7fffffff, -0x7fffffff - 1, 0, 0, 0 };
    memcpy(in, odd, sizeof odd);
    in[8] = 0x1.000006p0f;
    OK(cuMemcpyHtoD_v2(f.in, in, N * sizeof *in));
    OK(run(&f, "convert", 1, 64, 0, 4, 8));
    for (int i = 0; i < 8; i++) REQUIRE((int)f.host_words[i] == rounded[i], "%d: %d", i, (int)f.host_words[i]);
    OK(run(&f, "convert", 1, 64, 0, 6, 9));
    REQUIRE(f.host_words[8] == 0x35400002u, "fma: %x", f.host_words[8]);
    free(in);
    tear_down(&f);
}

int main(int argc, char **argv)
{
    fixture f;
    if (argc > 1 && strcmp(argv[1], "overflow") == 0) { /* AddressSanitizer ends this one */
        set_up(&f, 1024);
        run(&f, "memory", 1, 64, 0, 1, f.n);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "environment") == 0) {
        test_environment();
        return test_summary();
    }
    int n;
    GIVES(cuDeviceGetCount(&n), SIMT_NOT_INITIALIZED);
    checked = argc > 1 && strcmp(argv[1], "CHECKED") == 0;
    set_up(&f, 1024);
    test_reductions(&f);
    test_lanes(&f);
    test_memory(&f);
    tear_down(&f);
    test_conversions();
    test_driver();
    test_graphs();
    const char *const kinds[] = {
        "contexts", "streams", "events", "modules", "graphs", "graph execs", "device blocks"
    };
    for (unsigned i = 0; i < 7; i++)
        REQUIRE(simt_count(kinds[i]) == 0, "%s left: %lld", kinds[i], simt_count(kinds[i]));
    return test_summary();
}
