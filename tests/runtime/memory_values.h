/* The values that the test world's forward pass makes of a token. All are exact in the types that hold them. */
#ifndef GDN_TEST_MEMORY_VALUES_H
#define GDN_TEST_MEMORY_VALUES_H

#include <stdint.h>
#include <string.h>

#include "tests/runtime/memory_world.h"

/* v of value head h, channel j; beta is 1/2 and the gate 0. Powers of two commute with rounding. */
static inline float value_scale(int32_t j) { return (float)(1 << j % 4); }
static inline float value_v(int32_t token, int32_t layer, int32_t h) { return (float)(token * (layer + 1) + 7 * h); }

/* The state after n tokens: [key channel], for value channel 0. */
static inline void value_state(const int32_t *token, int32_t n, int32_t layer, int32_t h, float *state)
{
    memset(state, 0, W_STATE * sizeof *state);
    for (int32_t p = 0; p < n; p++) {
        const float d = 0.5f * (value_v(token[p], layer, h) - state[p % W_STATE]);
        state[p % W_STATE] = d + state[p % W_STATE];
    }
}

static inline float value_conv(int32_t token, int32_t c, int32_t layer) { return (float)(token + c + 64 * layer); }

/* A digit below 128: exact in F16 and BF16. */
static inline float value_kv(int32_t token, int32_t rope, int32_t layer, int is_v, int32_t e)
{
    uint32_t x = (uint32_t)token * 0x9E3779B1u ^ (uint32_t)rope * 0x85EBCA77u ^
                 (uint32_t)(layer * 2 + is_v + 16 * e) * 0xC2B2AE3Du;
    x = (x ^ x >> 15) * 0x2C1B3C6Du;
    return (float)((x ^ x >> 13) & 127);
}

static inline float value_kv_read(const unsigned char *row, int32_t type, int32_t e)
{
    if (type == GDN_F32) {
        float x;
        memcpy(&x, row + 4 * e, 4);
        return x;
    }
    uint16_t half;
    memcpy(&half, row + 2 * e, 2);
    uint32_t bits = (uint32_t)half << 16;
    if (type == GDN_F16) { /* digits are normal numbers or 0; NaN stays none of them */
        if ((half & 0x7C00) == 0x7C00) return -1.0f;
        bits = half & 0x7FFF ? ((uint32_t)(half & 0x7FFF) << 13) + (112u << 23) : 0;
    }
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline const float *value_hidden(int32_t token, int32_t position)
{
    static _Thread_local float row[W_EMBD];
    for (int32_t e = 0; e < W_EMBD; e++) row[e] = (float)(token * 8 + e) + (float)position / 128;
    return row;
}

#endif
