/* prefill_decode.c - prefill of prompts with different lengths in one call, then decoding of one token per sequence and
 * call. The workspace is allocated once.
 *
 * Tokens of all sequences are concatenated; seq_start gives the begin of each. The program also runs each sequence
 * alone, token by token, and compares outputs and final states: the bits are the same. Exit status: 0 = the same bits.
 */
#include "example.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEQS = 3,
    DECODED = 16, /* tokens decoded after each prompt */
    HEADS_K = 2,
    HEADS_V = 4,
    DIM = 64,
    STATE = HEADS_V * DIM * DIM,
    LONGEST = 150,
    PROMPTS = 1 + 37 + LONGEST /* tokens of all prompts together */
};
static const int32_t prompt[SEQS] = { 37, 1, LONGEST };

/* Outputs of the layers before, per token, [sequence][token]; computed once so that both runs use the same. */
typedef struct token {
    float q[HEADS_K][DIM], k[HEADS_K][DIM], v[HEADS_V][DIM], g[HEADS_V], beta[HEADS_V];
} token;
static token tokens[SEQS][LONGEST + DECODED];

/* Operands of a call: arrays of consecutive tokens. */
static token in[PROMPTS];
static float out[PROMPTS][HEADS_V][DIM];
static float outputs[2][SEQS][LONGEST + DECODED][HEADS_V][DIM], state[2][SEQS][STATE];

static void make_token(token *t)
{
    for (int h = 0; h < HEADS_K; h++)
        for (int i = 0; i < DIM; i++) t->q[h][i] = next_number(), t->k[h][i] = next_number();
    for (int h = 0; h < HEADS_V; h++) {
        for (int i = 0; i < DIM; i++) t->v[h][i] = next_number();
        t->g[h] = 0.05f * (next_number() - 1.0f); /* the logarithm of a decay: <= 0 */
        t->beta[h] = 0.5f + 0.5f * next_number();
    }
}

/* Arguments for concatenated sequences in `in`, whose states are rows of `pool`. */
static gdn_gated_delta_net_args arguments(int32_t n_seqs, int32_t n_tokens, float *pool)
{
    static gdn_delta_inputs normalised = GDN_INIT(gdn_delta_inputs);
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    normalised.qk_norm = GDN_NORM_ADD;
    normalised.qk_norm_eps = 1e-6f; /* of each head's q and k, as in models */
    a.inputs = &normalised;
    a.n_seqs = a.state.n_rows = n_seqs;
    a.n_tokens = n_tokens;
    a.n_heads_k = HEADS_K;
    a.n_heads_v = HEADS_V;
    a.head_dim_k = a.head_dim_v = DIM;
    a.scale = 1 / sqrtf(DIM);
    a.q.data = in[0].q;
    a.k.data = in[0].k;
    a.v.data = in[0].v;
    a.g.data = in[0].g;
    a.beta.data = in[0].beta;
    /* Strides are bytes: sequence, token, head. 0 for the sequence (ragged), and for heads (packed). */
    a.q.stride[1] = a.k.stride[1] = a.v.stride[1] = a.g.stride[1] = a.beta.stride[1] = sizeof(token);
    a.out.data = out;
    a.state.data = pool; /* without maps, sequence s reads and writes row s */
    return a;
}

/* One call over n[s] more tokens of each sequence, from at[s] on. A sequence that has begun continues from its state.
 */
static void step(gdn_context *ctx, const gdn_span *workspace, int which, int first, int count, const int32_t *n,
                 int32_t *at)
{
    int32_t start[SEQS + 1] = { 0 }, src[SEQS];
    for (int s = 0; s < count; s++) {
        memcpy(in + start[s], tokens[first + s] + at[s], (size_t)n[s] * sizeof(token));
        start[s + 1] = start[s] + n[s];
        src[s] = at[s] ? s : GDN_NONE; /* its first call starts from zero; the memory need not be cleared */
    }
    gdn_gated_delta_net_args a = arguments(count, start[count], state[which][first]);
    a.seq_start.data = start;
    a.state_src.data = src;
    a.workspace = *workspace;
    must(gdn_gated_delta_net(ctx, &a, NULL), "gdn_gated_delta_net");
    for (int s = 0; s < count; s++) {
        memcpy(outputs[which][first + s][at[s]], out + start[s], (size_t)n[s] * sizeof out[0]);
        at[s] += n[s];
    }
}

int main(void)
{
    const int32_t one[SEQS] = { 1, 1, 1 };
    int32_t at[SEQS] = { 0 }; /* tokens done of each sequence */
    gdn_context_desc desc = GDN_INIT(gdn_context_desc);
    gdn_context *ctx = NULL;
    gdn_span workspace = { 0 };
    uint64_t bytes = 0;
    must(gdn_context_create(&desc, &ctx), "gdn_context_create");
    for (int s = 0; s < SEQS; s++)
        for (int i = 0; i < prompt[s] + DECODED; i++) make_token(&tokens[s][i]);

    memset(state, 0xff, sizeof state); /* NaN, like memory used before */

    /* Create the workspace for the largest calls, before the first one. No later call allocates. */
    for (int i = 0; i < 2; i++) {
        gdn_gated_delta_net_args a = arguments(SEQS, i ? SEQS : PROMPTS, state[0][0]);
        gdn_capability can = GDN_INIT(gdn_capability);
        a.seq_start.data = at; /* marks the call as ragged; a query does not read it */
        must(gdn_gated_delta_net_query(ctx, &a, &can), "gdn_gated_delta_net_query");
        printf("%s: %s, %llu bytes of workspace\n", i ? "decode" : "prefill", can.implementation,
               (unsigned long long)can.workspace_bytes);
        if (can.workspace_bytes > bytes) bytes = can.workspace_bytes;
    }
    if (bytes) must(gdn_buffer_create(ctx, bytes, &workspace), "gdn_buffer_create");

    /* All prompts in one call, then DECODED calls of one token per sequence. */
    step(ctx, &workspace, 0, 0, SEQS, prompt, at);
    for (int i = 0; i < DECODED; i++) step(ctx, &workspace, 0, 0, SEQS, one, at);

    /* Each sequence by itself, one token per call. */
    int bad = 0;
    for (int s = 0; s < SEQS; s++) {
        int32_t alone = 0;
        while (alone < at[s]) step(ctx, &workspace, 1, s, 1, one, &alone);
        const int same = !memcmp(outputs[0][s], outputs[1][s], sizeof outputs[0][s]) &&
                         !memcmp(state[0][s], state[1][s], sizeof state[0][s]);
        printf("sequence %d: prompt of %d tokens, then %d: %s\n", s, (int)prompt[s], DECODED,
               same ? "the same bits as alone, token by token" : "OTHER BITS than alone");
        bad |= !same;
    }
    gdn_buffer_destroy(ctx, &workspace);
    gdn_context_destroy(ctx);
    return bad;
}
