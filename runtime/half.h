/* 16-bit floats of any alignment, widened exactly: in plain C, for what runs on every machine. */
#ifndef GDN_RUNTIME_HALF_H
#define GDN_RUNTIME_HALF_H

#include <stdint.h>
#include <string.h>

static inline float rt_from_bits(uint32_t b)
{
    float x;
    memcpy(&x, &b, 4);
    return x;
}

static inline uint32_t rt_to_bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}

static inline float rt_load_bf16(const void *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return rt_from_bits((uint32_t)h << 16);
}

static inline float rt_load_f16(const void *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
    if (exponent == 31)
        return rt_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return rt_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = (float)fraction * 0x1p-24f; /* exact */
    return rt_from_bits(sign | rt_to_bits(magnitude));
}

#endif
