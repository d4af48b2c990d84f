/* dot32: the only order in which this library sums products. It has 32 partial sums, then a fixed tree. It maps onto a
 * 32-lane warp, onto SIMD registers of any width, and onto lanes that each own another value channel. */
#ifndef GDN_NUMERICS_DOT32_H
#define GDN_NUMERICS_DOT32_H

#include <math.h>
#include <stdint.h>

#include "numerics/arithmetic.h"

static inline float gdn_dot32(const float *a, const float *b, int32_t n)
{
    float p[32] = { 0 };
    for (int32_t i = 0; i < n; i++) p[i % 32] = gdn_fma(a[i], b[i], p[i % 32]);
    for (int32_t h = 16; h; h /= 2)
        for (int32_t l = 0; l < h; l++) p[l] = gdn_add(p[l], p[l + h]);
    return p[0];
}

#endif
