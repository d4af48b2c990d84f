/* Hard operands for a device's arithmetic, and the results that the contract requires. See probe.h. */
#include "gpu/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/probe_results.h"
#include "numerics/float_env.h"

typedef struct triple_t {
    float a, b, c;
} triple_t;
_Static_assert(sizeof(triple_t) * GDN_PROBE_OPERANDS == GDN_PROBE_IN_BYTES, "the kernels know how operands lie");

uint32_t gdn_gpu_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

static triple_t operands(uint32_t i, uint64_t *random)
{
    static const uint32_t special[] = { 0,           0x80000000u, 1,           0x80000001u, 0x007fffffu, 0x00800000u,
                                        0x00800001u, 0x3f800000u, 0xbf800000u, 0x7f7fffffu, 0x7f800000u, 0xff800000u,
                                        0x7fc00000u, 0x33800000u, 0x42b17218u, 0xc2cff1b5u };
    const uint32_t x = gdn_gpu_random(random), y = gdn_gpu_random(random), z = gdn_gpu_random(random);
    const float c = gdn_from_bits(0x3f800000u | (x & 0x807fffffu)); /* +-[1, 2) */
    switch (i % 7) {
    case 0: /* any bits */ return (triple_t){ gdn_from_bits(x), gdn_from_bits(y), gdn_from_bits(z) };
    case 1: /* every pair of special values */
        return (triple_t){ gdn_from_bits(special[x & 15]), gdn_from_bits(special[y & 15]),
                           gdn_from_bits(special[z & 15]) };
    case 2: { /* half an ulp of c and a little more or less: (1 + e)(1 - e) = 1 - e^2, lost where the product or the sum
                 is rounded early */
        const float e = (float)(1 + (y & 255)) * 0x1p-23f;
        return (triple_t){ (z & 1 ? -0x1p-24f : 0x1p-24f) * (1.0f + e), z & 2 ? 1.0f - e : 1.0f + e, c };
    }
    case 3: { /* the product nearly cancels c: the result is what rounding the product would lose */
        const float a = gdn_from_bits(0x3f800000u | (y & 0x7fffffu)), b = gdn_from_bits(0x3f800000u | (z & 0x7fffffu));
        return (triple_t){ a, b, -(a * b) };
    }
    case 4: /* subnormal results, also from a tie in the subnormal range */
        return (triple_t){ gdn_from_bits(0x1f000000u + (y & 0x00ffffffu)),
                           gdn_from_bits(0x1f000000u + (z & 0x80ffffffu)), gdn_from_bits(x & 0x80ffffffu) };
    case 5: /* a product about the least normal number, where rules of flushing to zero differ: (1 - k e)(1 + 2 m e) */
        return (triple_t){ gdn_from_bits((0x3f800000u | (x & 0x80000000u)) - (y & 7)),
                           gdn_from_bits((0x00800000u | (y & 0x80000000u)) + (z & 3)), gdn_from_bits(z & 0x80000000u) };
    default: /* the usual range of gates and inputs */
        return (triple_t){ c * gdn_from_bits(0x3f000000u + (y & 0x7fffffu)),
                           gdn_from_bits(0x3f800000u | (z & 0x7fffffu)),
                           (float)(int32_t)(z & 0xffffu) * 0x1p-9f - 110.0f };
    }
}

static int same(uint32_t a, uint32_t b)
{
    const int nan_a = (a & 0x7fffffffu) > 0x7f800000u, nan_b = (b & 0x7fffffffu) > 0x7f800000u;
    return a == b || (nan_a && nan_b);
}

static const char *const result_names[GDN_GPU_PROBE_RESULTS] = { "fma", "+",    "*",          "* then +",
                                                                 "exp", "silu", "reciprocal", "comparison" };

/* 1 for a number that may have been subnormal before it was rounded. */
static int tiny(uint32_t bits) { return ((bits & 0x7fffffffu) - 1) < 0x00800000u; }

static void fill(triple_t in[GDN_PROBE_OPERANDS])
{
    uint64_t random = 1;
    for (uint32_t i = 0; i < GDN_PROBE_OPERANDS; i++) in[i] = operands(i, &random);
}

static int right(uint32_t r, uint32_t got, uint32_t want) { return r == 7 ? got == want : same(got, want); }

/* 1 if all results are right at GDN_EXACT_FTZ. */
static int is_flushed(const triple_t *in, const uint32_t *out)
{
    for (uint32_t i = 0; i < GDN_PROBE_OPERANDS; i++) {
        uint32_t want[GDN_GPU_PROBE_RESULTS];
        gdn_gpu_probe_flushed(in[i].a, in[i].b, in[i].c, want);
        for (uint32_t r = 0; r < GDN_GPU_PROBE_RESULTS; r++)
            if (!right(r, out[GDN_GPU_PROBE_RESULTS * i + r], want[r])) return 0;
    }
    return 1;
}

static void compare(const triple_t *in, const uint32_t *out, char reason[GDN_REASON_MAX], int *flushes)
{
    uint32_t wrong = 0, normal = 0, fma = 0, others = 0; /* wrong; without tiny numbers, and of these fma, +, * */
    uint32_t first = 0, first_result = 0;                /* of fma without tiny numbers, or else of all */
    for (uint32_t i = 0; i < GDN_PROBE_OPERANDS; i++) {
        uint32_t want[GDN_GPU_PROBE_RESULTS];
        gdn_probe_results(in[i].a, in[i].b, in[i].c, want);
        for (uint32_t r = 0; r < GDN_GPU_PROBE_RESULTS; r++) {
            if (right(r, out[GDN_GPU_PROBE_RESULTS * i + r], want[r])) continue;
            const int is_normal =
                !tiny(want[r]) && !tiny(gdn_bits(in[i].a)) && !tiny(gdn_bits(in[i].b)) && !tiny(gdn_bits(in[i].c));
            if (!wrong++ || (is_normal && !r && !fma)) {
                first = i;
                first_result = r;
            }
            normal += is_normal;
            fma += is_normal && !r;
            others += is_normal && r >= 1 && r <= 3;
        }
    }
    reason[0] = 0;
    if (!wrong) return;
    const triple_t t = in[first];
    if (flushes && is_flushed(in, out)) {
        *flushes = 1;
        (void)snprintf(reason, GDN_REASON_MAX,
                       "subnormal numbers are flushed to zero; everything else is exact, as it is at GDN_EXACT_FTZ");
    } else if (!fma && !others && wrong > normal)
        (void)snprintf(reason, GDN_REASON_MAX, "subnormal numbers are flushed to zero%s",
                       normal ? "" : "; everything else is exact");
    else if (fma && !others)
        (void)snprintf(reason, GDN_REASON_MAX,
                       "the device's fma rounds twice: %u of %d differ, the first is fma(%a, %a, %a)", (unsigned)fma,
                       GDN_PROBE_OPERANDS, (double)t.a, (double)t.b, (double)t.c);
    else
        (void)snprintf(reason, GDN_REASON_MAX, "%u results differ from IEEE arithmetic, the first is %s of %a, %a, %a",
                       (unsigned)wrong, result_names[first_result], (double)t.a, (double)t.b, (double)t.c);
}

gdn_status gdn_gpu_probe_arithmetic(void *memory, gdn_status (*run)(void *user), void *user,
                                    char reason[GDN_REASON_MAX], int *flushes)
{
    triple_t *in = memory;
    uint32_t *out = (uint32_t *)(void *)((char *)memory + GDN_PROBE_IN_BYTES);
    const gdn_float_env caller = gdn_float_env_enter();
    fill(in);
    if (flushes) *flushes = 0;
    memset(out, 0xa5, GDN_PROBE_BYTES - GDN_PROBE_IN_BYTES);
    const gdn_status status = run(user);
    if (!status) compare(in, out, reason, flushes);
    gdn_float_env_leave(caller);
    return status;
}
