/* Conversions over the vector vocabulary, for test_convert.c: arrays of floats and of what is stored of them. Included
 * by convert_<isa>.c after the vocabulary. */
#include "simd/typed.inc.h"
#include "tests/unit/convert.h"

static void widen(const uint16_t *from, int dtype, float *to, size_t n)
{
    for (size_t i = 0; i < n; i += GDN_VL) v_store(to + i, v_load_typed(from, dtype, (int64_t)i, GDN_VL));
}

static void narrow(const float *from, int dtype, uint16_t *to, size_t n)
{
    for (size_t i = 0; i < n; i += GDN_VL) v_store_typed(to, dtype, (int64_t)i, v_load(from + i), GDN_VL);
}

static void round_to(const float *from, int dtype, float *to, size_t n)
{
    for (size_t i = 0; i < n; i += GDN_VL) v_store(to + i, v_round_typed(v_load(from + i), dtype));
}

/* Half after half; the floats of the same channels tell which those are. */
static void widen_halves(const uint16_t *from, int dtype, float *to, size_t n)
{
    static float number[2 * GDN_VL];
    for (int i = 0; i < 2 * GDN_VL; i++) number[i] = (float)i;
    for (size_t i = 0; i < n; i += 2 * GDN_VL)
        for (int half = 0; half < 2; half++) {
            float at[GDN_VL], x[GDN_VL];
            v_store(at, v_load_half(number, GDN_F32, 0, half, dtype));
            v_store(x, v_load_half(from, dtype, (int64_t)i, half, dtype));
            for (int l = 0; l < GDN_VL; l++) to[i + (size_t)at[l]] = x[l];
        }
}

static void narrow_halves(const float *from, int dtype, uint16_t *to, size_t n)
{
    for (size_t i = 0; i < n; i += 2 * GDN_VL)
        v_store_halves(to, dtype, (int64_t)i, v_load_half(from, GDN_F32, (int64_t)i, 0, dtype),
                       v_load_half(from, GDN_F32, (int64_t)i, 1, dtype), i % (4 * GDN_VL) == 0);
    v_fence();
}

static void turn4(const uint16_t *from, int dtype, float *to, size_t n)
{
    for (size_t i = 0; i < n; i += 4 * GDN_VL) {
        vf r[4];
        v_load4_typed(from, dtype, (int64_t)i / 4, r);
        for (int j = 0; j < 4; j++)
            for (int l = 0; l < GDN_VL; l++) {
                float lanes[GDN_VL];
                v_store(lanes, r[j]);
                to[i + 4 * (size_t)l + (size_t)j] = lanes[l];
            }
    }
}

const convert_table CONVERT_TABLE = { widen, widen_halves, turn4, narrow, narrow_halves, round_to };
