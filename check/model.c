/* The kernels once more. See model.h. */
#include "model.h"

#include <math.h>

static float multiply_add(float a, float b, float c, int fused)
{
    volatile float product = a * b; /* rounded, whatever the compiler would like */
    return fused ? fmaf(a, b, c) : product + c;
}

/* 32 partial sums, element i to sum i % 32, then halves onto each other. */
static float dot(const float *a, const float *b, int n, int fused)
{
    float p[32] = { 0 };
    for (int i = 0; i < n; i++) p[i % 32] = multiply_add(a[i], b[i], p[i % 32], fused);
    for (int h = 16; h > 0; h /= 2)
        for (int l = 0; l < h; l++) p[l] = p[l] + p[l + h];
    return p[0];
}

void check_model_delta(const model_delta *m, int fused)
{
    for (int t = 0; t < m->n_tokens; t++)
        for (int h = 0; h < m->n_heads; h++) {
            const int row = t * m->n_heads + h;
            const float *q = m->q + row * m->dim_k, *k = m->k + row * m->dim_k, *v = m->v + row * m->dim_v;
            for (int j = 0; j < m->dim_v; j++) {
                float *s = m->state + (h * m->dim_v + j) * m->dim_k;
                const float d = m->beta[row] * (v[j] - dot(s, k, m->dim_k, fused));
                for (int i = 0; i < m->dim_k; i++) s[i] = multiply_add(k[i], d, s[i], fused);
                m->out[row * m->dim_v + j] = m->scale * dot(s, q, m->dim_k, fused);
            }
        }
}

void check_model_conv(const model_conv *m, int fused)
{
    for (int t = 0; t < m->n_tokens; t++)
        for (int c = 0; c < m->n_channels; c++) {
            float u = m->bias[c];
            for (int j = 0; j < m->width; j++) {
                const int p = t - m->width + 1 + j;
                u = multiply_add(m->weight[c * m->width + j], p < 0 ? 0.0f : m->x[p * m->n_channels + c], u, fused);
            }
            m->out[t * m->n_channels + c] = u;
        }
}
