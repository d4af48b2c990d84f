/* Values. See values.h. All generators work by bits or by exact products, so that the values do not
 * depend on the compiler or the machine. */
#include "values.h"

#include <string.h>

#include "numerics/convert.h"

int check_is_nan(const void *from, int32_t dtype)
{
    uint32_t word;
    uint16_t half;
    if (dtype == GDN_F32) {
        memcpy(&word, from, 4);
        return (word & 0x7FFFFFFF) > 0x7F800000;
    }
    memcpy(&half, from, 2);
    return dtype == GDN_BF16 ? (half & 0x7FFF) > 0x7F80 : (half & 0x7FFF) > 0x7C00;
}

/* One of our NaNs: quiet, negative, and signalling with a payload that 16-bit types cannot hold. None of
 * them looks like poison, nor turns into it when it is converted. */
static float a_nan(uint64_t random)
{
    static const uint32_t nans[] = { 0x7FC00000u, 0xFFC00001u, 0x7F800001u, 0x7FE00000u };
    return gdn_from_bits(nans[random & 3]);
}

static float one_value(check_values values, check_rng *r)
{
    static const float edges[] = { -100.0f, -1e-30f, 0.5f,   0.0f,  -0.0f,  -1.0f,  -87.5f, -88.8f,
                                   -103.9f, -104.5f, -1e-8f, -5e4f, -1e38f, 1e-40f, 2.0f,   -0.69314718f };
    const float u = check_unit(r), s = 2.0f * u - 1.0f;
    const uint64_t b = check_next(r);
    switch (values) {
    case CHECK_NORMAL: return s;
    case CHECK_UNIT: return u;
    case CHECK_SMALL: return 0.1f * s;
    case CHECK_SUBNORMAL:
        return b & 7 ? gdn_from_bits((uint32_t)(b >> 8 & 0x7FFFFF) >> (b >> 40 & 15) | (uint32_t)(b >> 50 & 1) << 31)
                     : s * 0x1p-120f;
    case CHECK_ZEROS: return b & 15 ? (b & 16 ? 0.0f : -0.0f) : s;
    case CHECK_HUGE: return gdn_from_bits((uint32_t)(177 + (b >> 8) % 77) << 23 | (uint32_t)(b >> 20 & 0x807FFFFF));
    case CHECK_WIDE: return gdn_from_bits((uint32_t)((b >> 8) % 255) << 23 | (uint32_t)(b >> 20 & 0x807FFFFF));
    case CHECK_TIES: {
        /* exponents of binary16 and around; low bits at, just below or just above a tie */
        static const uint32_t low16[] = { 0x1000, 0x3000, 0x0FFF, 0x1001, 0x8000, 0x18000, 0x7FFF, 0x8001, 0, 0x1FFF };
        return gdn_from_bits((uint32_t)(100 + (b >> 8) % 46) << 23 |
                             ((uint32_t)(b >> 20 & 0x807E0000) | low16[(b >> 55) % 10]));
    }
    case CHECK_SPECIAL:
        return (b & 63) == 0   ? a_nan(b >> 8)
               : (b & 63) == 1 ? gdn_from_bits(0x7F800000u | (uint32_t)(b >> 40 & 1) << 31)
                               : s;
    case CHECK_GATE_SLOW: return -0.02f * u;
    case CHECK_GATE_MODEL: return b & 3 ? -0.0001f - 0.5f * u : -8.0f * u;
    case CHECK_GATE_GGML: return -20.0f + 19.9999f * u;
    case CHECK_GATE_EDGE: return (b & 31) == 0 ? gdn_from_bits(0xFF800000u) : b & 32 ? edges[b >> 8 & 15] : -3.0f * u;
    case CHECK_GATE_ZERO: return 0.0f;
    case CHECK_GATE_UNDER: return -80.0f - 25.0f * u;
    case CHECK_POWERS: return gdn_from_bits((126 + (uint32_t)(b >> 8) % 3) << 23 | (uint32_t)(b & 1) << 31);
    case CHECK_GATE_HIGH: return 30.0f * u;
    case CHECK_ONE_NAN: break;
    }
    return s;
}

void check_fill(void *to, int32_t dtype, int64_t n, check_values values, uint64_t seed)
{
    check_rng r = { seed };
    const int64_t nan_at = values == CHECK_ONE_NAN && n > 0 ? (int64_t)(check_next(&r) % (uint64_t)n) : -1;
    unsigned char *at = to;
    for (int64_t i = 0; i < n; i++) {
        const float f = i == nan_at ? a_nan(check_next(&r)) : one_value(values, &r);
        uint16_t h;
        if (dtype == GDN_F32) {
            memcpy(at, &f, 4);
            at += 4;
            continue;
        }
        h = dtype == GDN_F16 ? gdn_to_f16(f) : (uint16_t)(gdn_bits(f) >> 16);
        if (h == CHECK_POISON || (dtype == GDN_BF16 && (gdn_bits(f) & 0x7FFFFFFF) > 0x7F800000))
            h = dtype == GDN_F16 ? 0x7E00 : 0x7FC0;
        memcpy(at, &h, 2);
        at += 2;
    }
}
