/* Conversions between floats and their 16-bit types over vectors, against numerics/convert.h. Widening has all 65,536
 * inputs, as vectors, as halves of two and as groups of four. Narrowing has every upper half with the lower halves that
 * decide the rounding, or with --all every float. Any NaN equals any NaN. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/convert.h"
#include "simd/features.h"
#include "tests/harness.h"
#include "tests/unit/convert.h"

enum { BLOCK = 1 << 16 };

static const char *isa_name;
static const convert_table *isa;
static _Alignas(64) uint16_t halves[BLOCK], narrow_got[BLOCK];
static _Alignas(64) float floats[BLOCK], wide_got[BLOCK];

static int same(float a, float b) { return gdn_bits(a) == gdn_bits(b) || (a != a && b != b); }
static float wide_of(uint16_t h, int dtype) { return dtype == GDN_F16 ? gdn_from_f16(h) : gdn_from_bf16(h); }
static uint16_t narrow_of(float x, int dtype) { return dtype == GDN_F16 ? gdn_to_f16(x) : gdn_to_bf16(x); }

static void complain(const char *what, int dtype, uint32_t input, uint32_t got, uint32_t want)
{
    REQUIRE(0, "%s: %s of %s: %08x gives %08x, not %08x", isa_name, what, dtype == GDN_F16 ? "F16" : "BF16", input, got,
            want);
}

static void test_widening(int dtype)
{
    const struct {
        const char *name;
        void (*run)(const uint16_t *, int, float *, size_t);
    } way[] = { { "widening", isa->widen }, { "widening by halves", isa->widen_halves }, { "turning", isa->turn4 } };
    for (int i = 0; i < BLOCK; i++)
        halves[i] = (uint16_t)(i * 40503u); /* odd: each once, and no two neighbours alike */
    for (size_t w = 0; w < sizeof way / sizeof way[0]; w++) {
        memset(wide_got, 0x55, sizeof wide_got);
        way[w].run(halves, dtype, wide_got, BLOCK);
        for (int i = 0; i < BLOCK; i++)
            if (!same(wide_got[i], wide_of(halves[i], dtype)))
                complain(way[w].name, dtype, halves[i], gdn_bits(wide_got[i]), gdn_bits(wide_of(halves[i], dtype)));
    }
}

/* Of all that `floats` holds. */
static void test_narrowing(int dtype)
{
    for (int w = 0; w < 2; w++) {
        memset(narrow_got, 0x55, sizeof narrow_got);
        (w ? isa->narrow_halves : isa->narrow)(floats, dtype, narrow_got, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            const uint16_t want = narrow_of(floats[i], dtype);
            if (narrow_got[i] != want && !same(wide_of(narrow_got[i], dtype), wide_of(want, dtype)))
                complain(w ? "narrowing by halves" : "narrowing", dtype, gdn_bits(floats[i]), narrow_got[i], want);
        }
    }
    isa->round_to(floats, dtype, wide_got, BLOCK);
    for (int i = 0; i < BLOCK; i++) {
        const float want = wide_of(narrow_of(floats[i], dtype), dtype);
        if (!same(wide_got[i], want))
            complain("rounding", dtype, gdn_bits(floats[i]), gdn_bits(wide_got[i]), gdn_bits(want));
    }
}

static void test_isa(const char *name, const convert_table *table, int all)
{
    /* About halfway between two numbers of either type, and their ends. BF16 keeps the upper 16 bits, F16 down to 13.
     */
    static const uint16_t lower[] = { 0,      1,      0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2fff, 0x3000,
                                      0x3001, 0x4000, 0x7fff, 0x8000, 0x8001, 0xcfff, 0xd000, 0xf001, 0xffff };
    isa = table, isa_name = name;
    for (int dtype = GDN_F16; dtype <= GDN_BF16; dtype++) {
        test_widening(dtype);
        const int n_lower = all ? 1 << 16 : (int)(sizeof lower / sizeof lower[0]);
        for (int l = 0; l < n_lower; l++) {
            for (uint32_t i = 0; i < BLOCK; i++)
                floats[i] = gdn_from_bits((uint32_t)(uint16_t)(i * 40503u) << 16 | (all ? (uint32_t)l : lower[l]));
            test_narrowing(dtype);
        }
    }
    REQUIRE(!test_failed, "%s", name);
}

int main(int argc, char **argv)
{
    const int all = argc > 1 && !strcmp(argv[1], "--all");
    (void)all;
#if defined(__x86_64__)
    if (gdn_simd_has_avx2()) test_isa("avx2", &convert_avx2, all);
    if (gdn_simd_has_avx512()) test_isa("avx512", &convert_avx512, all);
#elif defined(__aarch64__)
    test_isa("neon", &convert_neon, all);
#endif
    return isa ? test_summary() : 0; /* there may be scalar code alone */
}
