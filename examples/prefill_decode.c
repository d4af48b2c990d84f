/* prefill_decode.c - prompts of unequal lengths in one call, then one token at a time for all sequences together, and
 * the workspace asked for once.
 *
 * Tokens of all sequences lie one after another; seq_start says where each begins. Alone and together, in one call and
 * token by token, the bits are the same: the program runs each sequence by itself too, and compares the outputs and the
 * last states. Exit status: 0 = the same bits. */
#include "example.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEQS = 3, DECODED = 16,                         /* tokens after each prompt */
    HEADS_K = 2, HEADS_V = 4, DIM = 64, STATE = HEADS_V * DIM * DIM,
    LONGEST = 150, PROMPTS = 1 + 37 + LONGEST       /* tokens of all prompts together */
};
static const int32_t prompt[SEQS] = { 37, 1, LONGEST };

/* What the layers before gave for each token, [sequence][token]; made once so that both runs see the same. */
typedef struct token {
    float q[HEADS_K][DIM], k[HEADS_K][DIM], v[HEADS_V][DIM], g[HEADS_V], beta[HEADS_V];
} token;
static token tokens[SEQS][LONGEST + DECODED];

/* Where a call finds its operands: arrays of tokens, one after another. */
static token in[PROMPTS];
static float out[PROMPTS][HEADS_V][DIM];
static float outputs[2][SEQS][LONGEST + DECODED][HEADS_V][DIM], state[2][SEQS][STATE];

static void make_token(token *t)
{
    for (int h = 0; h < HEADS_K; h++)
        for (int i = 0; i < DIM; i++) t->q[h][i] = next_number(), t->k[h][i] = next_number();
    for (int h = 0; h < HEADS_V; h++) {
        for (int i = 0; i < DIM; i++) t->v[h][i] = next_number();
        t->g[h]    = 0.05f * (next_number() - 1.0f); /* the logarithm of a decay: <= 0 */
        t->beta[h] = 0.5f + 0.5f * next_number();
    }
}

/* Arguments for sequences that lie one after another in `in`, the states of which are rows of `pool`. */
static gdn_gated_delta_net_args arguments(int32_t n_seqs, int32_t n_tokens, float *pool)
{
    static gdn_delta_inputs normalised = GDN_INIT(gdn_delta_inputs);
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    normalised.qk_norm = GDN_NORM_ADD; normalised.qk_norm_eps = 1e-6f; /* of each head's q and k, as models do */
    a.inputs = &normalised;
    a.n_seqs = a.state.n_rows = n_seqs; a.n_tokens = n_tokens;
    a.n_heads_k = HEADS_K; a.n_heads_v = HEADS_V; a.head_dim_k = a.head_dim_v = DIM; a.scale = 1 / sqrtf(DIM);
    a.q.data = in[0].q; a.k.data = in[0].k; a.v.data = in[0].v; a.g.data = in[0].g; a.beta.data = in[0].beta;
    /* Strides are bytes: sequence, token, head. 0 for the sequence, since it is ragged, and for heads, which are
     * packed. */
    a.q.stride[1] = a.k.stride[1] = a.v.stride[1] = a.g.stride[1] = a.beta.stride[1] = sizeof(token);
    a.out.data = out;
    a.state.data = pool; /* without maps: row s is sequence s's, read and written */
    return a;
}

/* One call over n[s] more tokens of each sequence, from at[s] on. A sequence that has begun goes on from its state. */
static void step(gdn_context *ctx, const gdn_span *workspace, int which, int first, int count, const int32_t *n,
                 int32_t *at)
{
    int32_t start[SEQS + 1] = { 0 }, src[SEQS];
    for (int s = 0; s < count; s++) {
        memcpy(in + start[s], tokens[first + s] + at[s], (size_t)n[s] * sizeof(token));
        start[s + 1] = start[s] + n[s];
        src[s]       = at[s] ? s : GDN_NONE; /* its first call starts from zero; nobody has to clear the memory */
    }
    gdn_gated_delta_net_args a = arguments(count, start[count], state[which][first]);
    a.seq_start.data = start;
    a.state_src.data = src;
    a.workspace      = *workspace;
    must(gdn_gated_delta_net(ctx, &a, NULL), "gdn_gated_delta_net");
    for (int s = 0; s < count; s++) {
        memcpy(outputs[which][first + s][at[s]], out + start[s], (size_t)n[s] * sizeof out[0]);
        at[s] += n[s];
    }
}

int main(void)
{
    const int32_t one[SEQS] = { 1, 1, 1 };
    int32_t at[SEQS] = { 0 }; /* how far each sequence is */
    gdn_context_desc desc = GDN_INIT(gdn_context_desc);
    gdn_context *ctx = NULL;
    gdn_span workspace = { 0 };
    uint64_t bytes = 0;
    must(gdn_context_create(&desc, &ctx), "gdn_context_create");
    for (int s = 0; s < SEQS; s++)
        for (int i = 0; i < prompt[s] + DECODED; i++) make_token(&tokens[s][i]);

    memset(state, 0xff, sizeof state); /* as memory is that was used before: NaN */

    /* Before the first call: what the kinds of calls need at their largest. Nothing is allocated after this. */
    for (int i = 0; i < 2; i++) {
        gdn_gated_delta_net_args a = arguments(SEQS, i ? SEQS : PROMPTS, state[0][0]);
        gdn_capability can = GDN_INIT(gdn_capability);
        a.seq_start.data = at; /* there will be a map; a query does not read it */
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
