/* The kernels once more, written from the header and docs/reference/numerics.md alone, for the self-test: with fused
 * multiply-adds they must be the reference's bits, without them the check must see the difference.
 * Plain cases only: packed, in place, one sequence, scalar gate of 0; convolution without SiLU. */
#ifndef GDN_CHECK_MODEL_H
#define GDN_CHECK_MODEL_H

typedef struct model_delta {
    int n_tokens, n_heads, dim_k, dim_v; /* as many key heads as value heads */
    float scale;
    const float *q, *k, *v, *beta; /* [token][head][dim], beta [token][head] */
    float *state, *out;            /* [head][dim_v][dim_k], [token][head][dim_v] */
} model_delta;

typedef struct model_conv {
    int n_tokens, n_channels, width;
    const float *x, *weight, *bias; /* [token][channel], [channel][tap], [channel] */
    float *out;
} model_conv;

void check_model_delta(const model_delta *m, int fused);
void check_model_conv(const model_conv *m, int fused); /* from position 0, without history */

#endif
