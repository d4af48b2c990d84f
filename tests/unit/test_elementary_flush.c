/* The elementary functions at the level that flushes: every instruction set's vectors, in the processor's mode for it,
 * against numerics/elementary.h over the arithmetic of numerics/flush.h. Inputs are spread over all floats, and are
 * close together where functions leave the normal numbers or change their branch. Each input is in a group of vectors
 * that may take the short branch, in one that takes the long branch, and alone. --stride N: every Nth float. */
#define GDN_FLUSH
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/elementary.h"
#include "numerics/float_env.h"
#include "tests/unit/elementary_table.h"
#include "simd/features.h"
#include "tests/harness.h"

enum {
    BLOCK = 2048,
    ALONE = 12, /* less than a group, and a tail */
    LANES = 8,  /* of the narrowest vectors; a group is PLACES of them at most */
    PLACES = 16
};

#if defined(__x86_64__)
typedef void array_fn(const float *in, float *out, size_t n);
typedef struct function {
    const char *name;
    float (*definition)(float x);
    array_fn *fn[2];
} function;

#define DEFINITION(name, reference, bound)                                                                             \
    static float definition_##name(float x) { return reference(x); }
GDN_ELEMENTARY_LIST(DEFINITION)

#define FUNCTION(name, reference, bound)                                                                               \
    { #name, definition_##name, { gdn_elementary_avx2.name, gdn_elementary_avx512.name } },
static int same(float a, float b) { return gdn_bits(a) == gdn_bits(b) || (a != a && b != b); }

static void compare(const function *f, const char *isa, const char *how, const float *in, const float *got,
                    const float *want, int n)
{
    for (int i = 0; i < n; i++)
        REQUIRE(same(got[i], want[i]), "%s, %s, %s: %08x (%a) gives %08x, not %08x", f->name, isa, how, gdn_bits(in[i]),
                (double)in[i], gdn_bits(got[i]), gdn_bits(want[i]));
}

static void run(const function *f, int k, const float *in, float *out, int n, int step)
{
    const gdn_float_env caller = gdn_float_env_enter_flushing();
    for (int i = 0; i < n; i += step) f->fn[k](in + i, out + i, (size_t)(n - i < step ? n - i : step));
    gdn_float_env_leave(caller);
}

static void test_block(const function *f, const float *in, float longer)
{
    static float want[BLOCK], got[BLOCK], mixed[BLOCK], mixed_want[BLOCK];
    const char *const isas[] = { "avx2", "avx512" };
    const float of_longer = f->definition(longer), of_zero = f->definition(0.0f);
    for (int i = 0; i < BLOCK; i++) want[i] = f->definition(in[i]);
    for (int k = 0; k < 2; k++) {
        if (!(k ? gdn_simd_has_avx512() : gdn_simd_has_avx2())) continue;
        run(f, k, in, got, BLOCK, BLOCK);
        compare(f, isas[k], "a group", in, got, want, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            mixed[i] = i % 32 == 5 ? longer : in[i];
            mixed_want[i] = i % 32 == 5 ? of_longer : want[i];
        }
        run(f, k, mixed, got, BLOCK, BLOCK);
        compare(f, isas[k], "a group with another way", mixed, got, mixed_want, BLOCK);
        run(f, k, in, got, BLOCK, ALONE);
        compare(f, isas[k], "alone", in, got, want, BLOCK);
        /* Which way a group goes is asked of sums of squares: near a bound only one vector of it may be. */
        for (int place = 0; place < PLACES; place++) {
            for (int i = 0; i < BLOCK; i++) {
                const int kept = i / LANES % PLACES == place;
                mixed[i] = kept ? in[i] : 0.0f;
                mixed_want[i] = kept ? want[i] : of_zero;
            }
            run(f, k, mixed, got, BLOCK, BLOCK);
            compare(f, isas[k], "a group of which it is the only one", mixed, got, mixed_want, BLOCK);
        }
    }
}

/* n floats, every `step`th from `first` on by their bits. */
static void test_range(const function *f, uint32_t first, uint32_t step, uint64_t n)
{
    static float in[BLOCK];
    for (uint64_t at = 0; at < n; at += BLOCK) {
        for (uint32_t i = 0; i < BLOCK; i++) in[i] = gdn_from_bits(first + ((uint32_t)at + i) * step);
        test_block(f, in, f->name[0] == 's' ? -85.0f : 87.5f); /* softplus and silu, and exp: beyond their short ways */
    }
}

static int test_all(uint32_t stride)
{
    const function functions[] = { GDN_ELEMENTARY_LIST(FUNCTION) };
    static const float around[] = { -150.0f, -110.0f, -104.0f,   -89.0f,     -87.4f,   -86.0f,   -80.0f, -20.0f,
                                    -17.0f,  -1.0f,   0x1p-126f, -0x1p-126f, 0x1p-24f, 0x1p-25f, 18.0f,  20.0f,
                                    86.0f,   88.8f,   89.5f,     90.0f,      0x1p126f, 0x1p127f };
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
        test_range(&functions[f], 0, stride, ((uint64_t)1 << 32) / stride + 1);
        for (size_t a = 0; a < sizeof around / sizeof around[0]; a++) { /* neighbours, and a wider look */
            test_range(&functions[f], gdn_bits(around[a]) - BLOCK / 2, 1, BLOCK);
            test_range(&functions[f], gdn_bits(around[a]) - BLOCK * 37, 37, 2 * BLOCK);
        }
    }
    return gdn_simd_has_avx2() ? test_summary() : 0;
}
#endif

int main(int argc, char **argv)
{
    const uint32_t stride = argc > 2 && !strcmp(argv[1], "--stride") ? (uint32_t)strtoul(argv[2], NULL, 10) : 65537;
#if defined(__x86_64__)
    return test_all(stride ? stride : 1);
#else
    (void)stride;
    printf("no instruction set but scalar has the level here; the definition is what that runs\n");
    return 0;
#endif
}
