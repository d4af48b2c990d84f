/* Arithmetic that flushes to zero (docs/reference/numerics.md), against an oracle that uses only integers. Tested are
 * the software of numerics/flush.h and, on processors that have one, the mode of numerics/float_env.h. The operands lie
 * where rules differ: about the least normal number, down to less than what any rounding keeps of it. */
#define GDN_FLUSH
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/arithmetic.h"
#include "numerics/elementary.h"
#include "numerics/float_env.h"
#include "simd/features.h"
#include "tests/harness.h"

/* ---- The oracle: everything is a whole number of 2^-UNIT ------------------------------------------------------- */

__extension__ typedef __int128 wide;
enum { UNIT = 200 }; /* 2^-126 is 2^74 of them: room for products, and for all of their bits */

typedef enum rule { BY_CONTRACT, BEFORE_ROUNDING, ON_SUBNORMAL_GRID, OPERANDS_KEPT, RESULTS_KEPT, RULES } rule;
static const char *const rule_names[RULES] = { "the contract's", "tiny before rounding", "tiny on the subnormal grid",
                                               "subnormal operands kept", "subnormal results kept" };

/* Magnitude of a number below 2^-74. Operands may count as zeros. */
static wide units(uint32_t bits, int flush, int unit)
{
    const uint32_t exponent = bits >> 23 & 255, fraction = bits & 0x7fffff;
    if (!exponent) return flush ? 0 : (wide)fraction << (unit - 149);
    return (wide)(fraction | 0x800000) << (unit - 150 + (int)exponent);
}

/* x * 2^-shift to the nearest whole number, ties to even. */
static wide shift_right(wide x, int shift)
{
    const wide below = x & (((wide)1 << shift) - 1), half = (wide)1 << (shift - 1);
    x >>= shift;
    return x + (below > half || (below == half && (x & 1)));
}

/* A sum, and the sign of its zero where it is one, as binary32. */
static uint32_t round_to_float(wide sum, uint32_t zero_sign, rule by)
{
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    const wide least = (wide)1 << (UNIT - 126), magnitude = sum < 0 ? -sum : sum;
    int shift = 0;
    if (!magnitude) return zero_sign;
    if (by == BEFORE_ROUNDING && magnitude < least) return sign;
    while (magnitude >> shift >> 24) shift++; /* 24 bits, wherever they lie */
    if (by == ON_SUBNORMAL_GRID || by == RESULTS_KEPT) shift = shift < UNIT - 149 ? UNIT - 149 : shift;
    const wide rounded = (shift ? shift_right(magnitude, shift) : magnitude) << shift;
    if (rounded < least) return by == RESULTS_KEPT ? sign | (uint32_t)(rounded >> (UNIT - 149)) : sign;
    for (shift = 0; rounded >> shift >> 24;) shift++;
    return sign | (((uint32_t)(rounded >> shift) & 0x7fffff) + ((uint32_t)(shift - UNIT + 150) << 23));
}

static uint32_t oracle_fma(uint32_t a, uint32_t b, uint32_t c, rule by)
{
    const int flush = by != OPERANDS_KEPT;
    /* The product's factors are brought to units whose product is ours; each has its 24 bits in front. */
    const uint32_t ea = a >> 23 & 255 ? a >> 23 & 255 : 1, eb = b >> 23 & 255 ? b >> 23 & 255 : 1;
    const wide fa = (a >> 23 & 255 ? 0x800000 : 0) | (a & 0x7fffff),
               fb = (b >> 23 & 255 ? 0x800000 : 0) | (b & 0x7fffff);
    const int zero = flush && (!(a >> 23 & 255) || !(b >> 23 & 255));
    const int up = (int)(ea + eb) - 300 + UNIT;
    const wide product = zero ? 0 : up >= 0 ? (fa * fb) << up : 0;
    const uint32_t sign_p = (a ^ b) & 0x80000000u, sign_c = c & 0x80000000u;
    const wide added = units(c, flush, UNIT);
    return round_to_float((sign_p ? -product : product) + (sign_c ? -added : added), sign_p == sign_c ? sign_p : 0, by);
}

/* ---- What is tested -------------------------------------------------------------------------------------------- */

typedef struct triple {
    uint32_t a, b, c;
} triple;

/* Sometimes with few bits, so that ties and exact results come up. */
static uint32_t number(uint32_t exponent)
{
    const uint32_t keep = draw() % 3 ? 0x807fffffu : 0x80000000u | 0x7fffffu << (draw() % 24);
    const uint32_t near = draw() % 4, fraction = near == 0 ? 0u - (draw() & 3) : near == 1 ? draw() & 3 : draw();
    return ((fraction & 0x7fffff) | (draw() & 0x80000000u) | exponent << 23) & (keep | 0x7f800000u);
}

/* Products from 2^-150 to 2^-110, and c from subnormals to 2^-110. ea + eb >= 100 keeps all bits of the product. */
static triple operands(uint32_t i)
{
    const uint32_t sum = 102 + draw() % 42, ea = i % 8 == 0 ? 0 : 1 + draw() % (sum - 1);
    triple t = { number(ea), number(i % 8 == 0 ? 110 + draw() % 30 : sum - ea), number(draw() % 17) };
    if (i % 3 == 0) t.c = (i & 1) << 31; /* the product alone */
    if (i % 16 == 1) t.c = number(0);
    if (i % 5 == 0) { /* the last bits about 2^-126: 1 - e times 1 + e' */
        t.b = (draw() & 0x80000000u) | (0x00800000u - 4 + (draw() & 7));
        t.b = (t.b & 0x7f800000u) ? t.b : t.b | 0x00800000u;
        t.a = (draw() & 0x80000000u) | (0x3f7fffffu - (draw() & 3));
        t.c = (i & 1) << 31;
    }
    return t;
}

#if defined(__x86_64__)
static float processor_fma(float a, float b, float c) /* in the mode of the level; the operations stay where they are */
{
    volatile float x = a, y = b, z = c, r;
    const gdn_float_env caller = gdn_float_env_enter_flushing();
    __asm__ volatile("vmovss %1, %%xmm0\n\tvmovss %2, %%xmm1\n\tvmovss %3, %%xmm2\n\t"
                     "vfmadd213ss %%xmm2, %%xmm1, %%xmm0\n\tvmovss %%xmm0, %0"
                     : "=m"(r)
                     : "m"(x), "m"(y), "m"(z)
                     : "xmm0", "xmm1", "xmm2");
    gdn_float_env_leave(caller);
    return r;
}
#define GDN_PROCESSOR(name, operation)                                                                                 \
    static float processor_##name(float a, float b)                                                                    \
    {                                                                                                                  \
        volatile float x = a, y = b, r;                                                                                \
        const gdn_float_env caller = gdn_float_env_enter_flushing();                                                   \
        r = x operation y;                                                                                             \
        gdn_float_env_leave(caller);                                                                                   \
        return r;                                                                                                      \
    }
GDN_PROCESSOR(mul, *)
GDN_PROCESSOR(add, +)
GDN_PROCESSOR(sub, -)
#endif

typedef struct side {
    const char *name;
    float (*fma)(float, float, float);
    float (*mul)(float, float);
    float (*add)(float, float);
    float (*sub)(float, float);
} side;

/* How many results are other than by the rule. */
static int differences(const side *s, rule by, int describe)
{
    static const char *const names[] = { "fma", "*", "+", "-" };
    enum { N = 40000 };
    int wrong = 0;
    test_seed = 1;
    for (uint32_t i = 0; i < N; i++) {
        const triple t = operands(i);
        const uint32_t one = 0x3f800000u, sign = 0x80000000u;
        const uint32_t zero = (t.a ^ t.b) & sign; /* a * b is a * b + (-0) or + 0, whichever has the product's sign */
        const uint32_t got[4] = { gdn_bits(s->fma(gdn_from_bits(t.a), gdn_from_bits(t.b), gdn_from_bits(t.c))),
                                  gdn_bits(s->mul(gdn_from_bits(t.a), gdn_from_bits(t.b))),
                                  gdn_bits(s->add(gdn_from_bits(t.c), gdn_from_bits(t.b & 0x8fffffffu))),
                                  gdn_bits(s->sub(gdn_from_bits(t.b & 0x8fffffffu), gdn_from_bits(t.c))) };
        const uint32_t want[4] = { oracle_fma(t.a, t.b, t.c, by), oracle_fma(t.a, t.b, zero, by),
                                   oracle_fma(t.b & 0x8fffffffu, one, t.c, by),
                                   oracle_fma(t.b & 0x8fffffffu, one, t.c ^ sign, by) };
        for (int k = 0; k < 4; k++)
            if (got[k] != want[k] && wrong++ < 5 && describe)
                (void)printf("%s, %s of %08x %08x %08x: %08x, and by the oracle %08x\n", s->name, names[k], t.a, t.b,
                             t.c, got[k], want[k]);
    }
    return wrong;
}

int main(void)
{
    int n = 1;
    side sides[2] = { { "software", gdn_fma, gdn_mul, gdn_add, gdn_sub } };
#if defined(__x86_64__)
    if (gdn_simd_has_fma())
        sides[n++] = (side){ "the processor's mode", processor_fma, processor_mul, processor_add, processor_sub };
#endif
    for (int i = 0; i < n; i++)
        for (rule by = BY_CONTRACT; by < RULES; by++) {
            const int wrong = differences(&sides[i], by, by == BY_CONTRACT);
            /* another rule has to show */
            REQUIRE((by == BY_CONTRACT) == !wrong, "%s: %d results are other than by %s rule", sides[i].name, wrong,
                    rule_names[by]);
        }
    return test_summary();
}
