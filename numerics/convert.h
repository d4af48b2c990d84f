/* Conversions between element types, on the bits: round to nearest, ties to even, subnormals kept. All plain C on the
 * host uses this version; simd/ has the same over vectors, and the GPU backends over their languages' types. Rows may
 * have any alignment. docs/reference/numerics.md describes Q8_0. */
#ifndef GDN_NUMERICS_CONVERT_H
#define GDN_NUMERICS_CONVERT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "gdn/gdn.h"
#include "numerics/q8_0.h"

static inline float gdn_from_bf16(uint16_t b) { return gdn_from_bits((uint32_t)b << 16); }

static inline uint16_t gdn_to_bf16(float x)
{
    const uint32_t b = gdn_bits(x);
    if ((b & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(b >> 16 | 0x40); /* a NaN stays a NaN */
    return (uint16_t)((b + 0x7fffu + (b >> 16 & 1)) >> 16);
}

static inline float gdn_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
    if (exponent == 31) return gdn_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent) return gdn_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = (float)fraction * 0x1p-24f; /* exact */
    return gdn_from_bits(sign | gdn_bits(magnitude));
}

static inline uint16_t gdn_to_f16(float x)
{
    const uint32_t b = gdn_bits(x), magnitude = b & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(b >> 16 & 0x8000u);
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) /* normal in binary16: drop 13 bits */
        return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13);
    /* Subnormal in binary16: a multiple of 2^-24. Adding 0.5 puts that bit at the end of the significand,
     * so the addition itself rounds, ties to even. */
    return (uint16_t)(sign | (gdn_bits(gdn_from_bits(magnitude) + 0.5f) - gdn_bits(0.5f)));
}

static inline float gdn_load_bf16(const void *at)
{
    uint16_t b;
    memcpy(&b, at, 2);
    return gdn_from_bf16(b);
}

static inline float gdn_load_f16(const void *at)
{
    uint16_t b;
    memcpy(&b, at, 2);
    return gdn_from_f16(b);
}

/* Element i of a row of F32, F16 or BF16. */
static inline float gdn_load_element(const void *row, int32_t dtype, int64_t i)
{
    if (dtype == GDN_F32) {
        float x;
        memcpy(&x, (const char *)row + 4 * i, 4);
        return x;
    }
    const char *at = (const char *)row + 2 * i;
    return dtype == GDN_F16 ? gdn_load_f16(at) : gdn_load_bf16(at);
}

/* 32 values share a step, which is stored as binary16. */
static inline void gdn_store_q8_0_block(char *block, const float *x)
{
    float amax = 0;
    for (int m = 0; m < 32; m++)
        if (gdn_flush(fabsf(x[m])) > amax) /* a NaN is never larger */
            amax = fabsf(x[m]);
    const float d = gdn_q8_0_step(amax), inverse = gdn_q8_0_inverse(d);
    const uint16_t step = gdn_to_f16(d);
    memcpy(block, &step, 2);
    for (int m = 0; m < 32; m++) block[2 + m] = (char)(int8_t)gdn_q8_0_value(x[m], inverse);
}

/* Stores n elements as F32, F16, BF16 or Q8_0; for Q8_0 n is a multiple of 32. */
static inline void gdn_store_elements(void *row, int32_t dtype, const float *x, int64_t n)
{
    char *at = row;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t b = dtype == GDN_F16 ? gdn_to_f16(x[i]) : gdn_to_bf16(x[i]);
        if (dtype == GDN_F32) memcpy(at + 4 * i, &x[i], 4);
        else if (dtype != GDN_Q8_0) memcpy(at + 2 * i, &b, 2);
        else if (i % 32 == 0) gdn_store_q8_0_block(at + i / 32 * 34, x + i);
    }
}

#endif
