/* verify.h - shared by the four examples that verify drafts: values of tokens, and arguments common to their calls. */
#ifndef VERIFY_H
#define VERIFY_H

#include "example.h"

#include <math.h>

/* A pseudo-random number in [-1, 1) that depends only on the arguments. */
static float number(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = (a * 0x9e3779b1u ^ b * 0x85ebca77u ^ c * 0xc2b2ae3du) + 1u;
    h = (h ^ h >> 15) * 0x2c1b3ce3u;
    h = (h ^ h >> 13) * 0x297a2d39u;
    return (float)(h >> 8) * 0x1p-23f - 1.0f;
}

/* The gates of token `id`; `wrong`: of a wrong token in its place. */
static inline void put_gates(float *g, float *beta, int heads, uint32_t id, uint32_t wrong)
{
    for (uint32_t h = 0; h < (uint32_t)heads; h++) {
        g[h] = 0.1f * (number(id, h, 10 + wrong) - 1.0f); /* the logarithm of a decay: <= 0 */
        beta[h] = 0.5f + 0.5f * number(id, h, 20 + wrong);
    }
}

/* Arguments of gated_delta_net calls; each sequence's state is one row of a pool. */
static inline gdn_gated_delta_net_args heads_of(int seqs, const int32_t *start, int heads, int dim)
{
    static gdn_delta_inputs normalised = GDN_INIT(gdn_delta_inputs);
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    a.n_seqs = a.state.n_rows = seqs;
    a.n_tokens = start[seqs];
    a.n_heads_k = a.n_heads_v = heads;
    a.head_dim_k = a.head_dim_v = dim;
    a.scale = 1 / sqrtf((float)dim);
    normalised.qk_norm = GDN_NORM_ADD;
    normalised.qk_norm_eps = 1e-6f; /* of each head's q and k, as in models */
    a.inputs = &normalised;
    a.seq_start.data = (void *)start;
    return a;
}

/* Fills `start` for a call of plain decoding, with one token of each sequence that has one at this position. 0: none
 * has. */
static inline int one_token_each(int seqs, int32_t position, const int32_t *lengths, int32_t *start)
{
    for (int s = 0; s < seqs; s++) start[s + 1] = start[s] + (position < lengths[s]);
    return start[seqs] > 0;
}

#endif
