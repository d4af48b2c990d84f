/* Conversions between element types, on the bits: round to nearest, ties to even, subnormals kept. */
#include "reference/reference.h"

#include <math.h>
#include <string.h>

#include "reference/elementary.h"

static uint32_t bits_of(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}

static float of_bits(uint32_t b)
{
    float x;
    memcpy(&x, &b, 4);
    return x;
}

float gdn_ref_from_bf16(uint16_t b)
{
    return of_bits((uint32_t)b << 16);
}

uint16_t gdn_ref_to_bf16(float x)
{
    const uint32_t b = bits_of(x);
    if ((b & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(b >> 16 | 0x40); /* a NaN stays one */
    return (uint16_t)((b + 0x7fffu + (b >> 16 & 1)) >> 16);
}

float gdn_ref_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
    if (exponent == 31)
        return of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = (float)fraction * 0x1p-24f; /* exact */
    return of_bits(sign | bits_of(magnitude));
}

uint16_t gdn_ref_to_f16(float x)
{
    const uint32_t b = bits_of(x), magnitude = b & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(b >> 16 & 0x8000u);
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) /* normal in binary16: drop 13 bits */
        return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13);
    /* Subnormal in binary16: a multiple of 2^-24. Adding 0.5 puts that bit at the end of the significand,
     * so the addition itself rounds, ties to even. */
    return (uint16_t)(sign | (bits_of(of_bits(magnitude) + 0.5f) - bits_of(0.5f)));
}

float gdn_ref_load(const void *row, int32_t dtype, int64_t i)
{
    if (dtype == GDN_F32) {
        float x;
        memcpy(&x, (const char *)row + 4 * i, 4);
        return x;
    }
    uint16_t b;
    memcpy(&b, (const char *)row + 2 * i, 2);
    return dtype == GDN_F16 ? gdn_ref_from_f16(b) : gdn_ref_from_bf16(b);
}

/* Q8_0: 32 values share a scale d = largest magnitude / 127, kept as binary16; each value is a signed byte. */
static void store_q8_0_block(char *block, const float *x)
{
    float amax = 0;
    for (int m = 0; m < 32; m++)
        if (fabsf(x[m]) > amax) /* a NaN is never larger */
            amax = fabsf(x[m]);

    /* d = amax / 127, correctly rounded without a division; 0x1.020408p-7 is 1/127 rounded. */
    const float q0 = amax * 0x1.020408p-7f;
    float       d  = fmaf(fmaf(-127.0f, q0, amax), 0x1.020408p-7f, q0);
    if (amax == INFINITY)
        d = INFINITY;
    /* Below 2^-100 the binary16 scale is zero anyway, and the reciprocal might overflow. */
    const float    id    = d < 0x1p-100f || d == INFINITY ? 0.0f : gdn_ref_reciprocal(d);
    const uint16_t scale = gdn_ref_to_f16(d);
    memcpy(block, &scale, 2);
    for (int m = 0; m < 32; m++) {
        const float  y    = x[m] * id;
        const float  even = (y + 12582912.0f) - 12582912.0f; /* to the nearest integer, ties to even */
        const int8_t q    = y != y ? 0 : (int8_t)even;
        memcpy(block + 2 + m, &q, 1);
    }
}

void gdn_ref_store(void *row, int32_t dtype, const float *x, int64_t n)
{
    char *at = row;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t b = dtype == GDN_F16 ? gdn_ref_to_f16(x[i]) : gdn_ref_to_bf16(x[i]);
        if (dtype == GDN_F32)
            memcpy(at + 4 * i, &x[i], 4);
        else if (dtype != GDN_Q8_0)
            memcpy(at + 2 * i, &b, 2);
        else if (i % 32 == 0)
            store_q8_0_block(at + i / 32 * 34, x + i);
    }
}
