/* The host's floors in plain C, for processors without a vector file; see floors.h. They are as fast as the compiler
 * makes these loops. */
#include <math.h>
#include <string.h>

#include "bench/floors.h"

static _Thread_local volatile float sink;

static void scalar_stream(int variant, int n_in, int n_out, const float *const *in, float *const *out, int64_t first,
                          int64_t last)
{
    (void)variant;
    float kept = 0.0f;
    for (int64_t i = first; i < last; i++) {
        const float v = n_in > 0 ? in[0][i] : 1.0f;
        for (int r = n_out > 0; r < n_in; r++) kept += in[r][i];
        for (int w = 0; w < n_out; w++) out[w][i] = v;
    }
    sink = kept;
}

static void scalar_scatter(int variant, const char *in, int64_t in_bytes, char *out, int64_t out_bytes,
                           const int32_t *index, int64_t first, int64_t last)
{
    (void)variant;
    for (int64_t row = first; row < last; row++) {
        const char *s = in + row * in_bytes;
        memcpy(out + index[row] * out_bytes, s, (size_t)(out_bytes < in_bytes ? out_bytes : in_bytes));
        for (int64_t b = out_bytes; b < in_bytes; b += 64) sink = (float)s[b];
    }
}

static int64_t scalar_fma(int64_t n)
{
    float acc[8] = { 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f };
    for (int64_t i = 0; i < n; i += 8)
        for (int k = 0; k < 8; k++) acc[k] = fmaf(acc[k], 0.999f, 0.001f);
    for (int k = 0; k < 8; k++) sink = acc[k];
    return (n + 7) / 8 * 8;
}

static void scalar_together(int variant, const float *in, float *out, int64_t first, int64_t last, double fmas)
{
    (void)variant;
    float acc[8] = { 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f }, kept = 0.0f;
    double owed = 0;
    for (int64_t i = first; i < last; i++) {
        kept += in[i];
        if (out) out[i] = in[i];
        for (owed += fmas / 16 - 1; owed >= 8; owed -= 8)
            for (int k = 0; k < 8; k++) acc[k] = fmaf(acc[k], 0.999f, 0.001f);
    }
    for (int k = 0; k < 8; k++) sink = acc[k];
    sink = kept;
}

const floor_isa floor_isa_scalar = { "scalar", 1, scalar_stream, scalar_scatter, scalar_fma, scalar_together };
