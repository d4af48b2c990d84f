/* verify_rollback.c - speculative decoding with snapshots: verifies drafts of several sequences in one call, and rolls
 * back rejected ones without recomputation.
 *
 * The layer is that of Qwen3-Next: ssm_conv over q, k and v together, then gated_delta_net. Both have memory, in rings
 * by position:
 * - a sequence has SLOTS = DRAFTS + 1 snapshots; the state after p tokens is in slot p % SLOTS;
 * - its history has WIDTH - 1 + DRAFTS inputs; that of position p is in slot p % INPUTS (done by the kernel).
 *
 * A round verifies the newest token and its drafts. If n of these tokens are accepted, the sequence continues at
 * position + n. Nothing else is needed for the rollback, since both rings still hold the earlier entries.
 *
 * The numbers of drafts and of accepted tokens differ between sequences and rounds. At the end all outputs, states and
 * histories are compared with those of plain decoding. Exit status: 0 = the same bits. */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADS = 2,
    DIM = 32,
    PART = HEADS * DIM,
    CHANNELS = 3 * PART,
    STATE = HEADS * DIM * DIM,
    WIDTH = 4,
    DRAFTS = 3,
    SLOTS = DRAFTS + 1,
    INPUTS = WIDTH - 1 + DRAFTS,
    SEQS = 4,
    PROMPT = 9,
    LENGTH = 40,
    ROOM = LENGTH + DRAFTS,
    MAX_TOKENS = SEQS * PROMPT /* PROMPT: the longest prompt */
};

/* A layer with its memory. Plain decoding has one state and WIDTH - 1 inputs, as it needs no rollback. */
typedef struct layer {
    gdn_context *ctx;
    int32_t slots, inputs;
    float state[SEQS][SLOTS * STATE], history[SEQS][INPUTS * CHANNELS];
    gdn_span conv_workspace, delta_workspace;
} layer;

/* The tokens of one call, sequence after sequence. */
typedef struct batch {
    int32_t seq_start[SEQS + 1], position[SEQS];
    float x[MAX_TOKENS][CHANNELS], g[MAX_TOKENS][HEADS], beta[MAX_TOKENS][HEADS], out[MAX_TOKENS][PART];
} batch;

static float weight[CHANNELS][WIDTH];
static layer speculative, plain;
static batch work;
static float outputs[2][SEQS][ROOM][PART]; /* of accepted tokens; of plain decoding */

/* The projections of the token at a position; `wrong`: of a wrong token in its place. */
static void put_token(batch *b, int i, uint32_t seq, uint32_t position, uint32_t wrong)
{
    const uint32_t id = seq * 1000 + position;
    for (uint32_t c = 0; c < CHANNELS; c++) b->x[i][c] = number(id, c, wrong);
    put_gates(b->g[i], b->beta[i], HEADS, id, wrong);
}

/* Runs the layer over a batch. measure: only creates the workspaces, which suffice for all smaller calls. */
static void run(layer *l, batch *b, int measure)
{
    static float qkv[MAX_TOKENS][CHANNELS];
    int32_t src[SEQS], dst[SEQS][SLOTS];
    gdn_ssm_conv_args c = GDN_INIT(gdn_ssm_conv_args);
    c.activation = GDN_ACTIVATION_SILU;
    c.n_seqs = c.history.n_rows = SEQS;
    c.n_tokens = b->seq_start[SEQS];
    c.n_channels = CHANNELS;
    c.kernel_width = WIDTH;
    c.history.n_slots = l->inputs;
    c.x.data = b->x;
    c.weight.data = weight;
    c.out.data = qkv;
    c.history.data = l->history;
    c.history.stride[0] = sizeof l->history[0]; /* stride of a row of the array; 0 means packed */
    c.seq_start.data = b->seq_start;
    c.position.data = b->position;
    c.workspace = l->conv_workspace;

    gdn_gated_delta_net_args a = heads_of(SEQS, b->seq_start, HEADS, DIM);
    a.state.n_slots = l->slots;
    a.q.data = qkv[0];
    a.k.data = qkv[0] + PART;
    a.v.data = qkv[0] + 2 * PART;                                  /* strides: sequence, token, head */
    a.q.stride[1] = a.k.stride[1] = a.v.stride[1] = sizeof qkv[0]; /* 0 for sequence: ragged */
    a.g.data = b->g;
    a.beta.data = b->beta;
    a.out.data = b->out;
    a.state.data = l->state;
    a.state.stride[0] = sizeof l->state[0];
    a.state_src.data = src;
    a.state_dst.data = dst;
    a.n_snapshots = SLOTS;
    a.workspace = l->delta_workspace;

    if (measure) {
        gdn_capability can = GDN_INIT(gdn_capability);
        must(gdn_ssm_conv_query(l->ctx, &c, &can), "gdn_ssm_conv_query");
        if (can.workspace_bytes) must(gdn_buffer_create(l->ctx, can.workspace_bytes, &l->conv_workspace), "workspace");
        must(gdn_gated_delta_net_query(l->ctx, &a, &can), "gdn_gated_delta_net_query");
        if (can.workspace_bytes) must(gdn_buffer_create(l->ctx, can.workspace_bytes, &l->delta_workspace), "workspace");
        return;
    }
    for (int s = 0; s < SEQS; s++) {
        const int32_t p = b->position[s], tokens = b->seq_start[s + 1] - b->seq_start[s];
        src[s] = p ? s * l->slots + p % l->slots : GDN_NONE; /* a sequence's first call starts from zero */
        for (int r = 0; r < SLOTS; r++)                      /* the state r tokens before the newest */
            dst[s][r] = r < tokens && r < l->slots ? s * l->slots + (p + tokens - r) % l->slots : GDN_NONE;
    }
    must(gdn_ssm_conv(l->ctx, &c, NULL), "gdn_ssm_conv");
    must(gdn_gated_delta_net(l->ctx, &a, NULL), "gdn_gated_delta_net");
}

/* One call: n[s] tokens of sequence s, of which the first good[s] are right; stores their outputs. */
static void step(layer *l, int32_t *position, const int *n, const int *good)
{
    work.seq_start[0] = 0;
    for (int s = 0; s < SEQS; s++) {
        work.position[s] = position[s];
        work.seq_start[s + 1] = work.seq_start[s] + n[s];
        for (int i = 0; i < n[s]; i++)
            put_token(&work, work.seq_start[s] + i, (uint32_t)s, (uint32_t)(position[s] + i), i >= good[s]);
    }
    run(l, &work, 0);
    for (int s = 0; s < SEQS; s++) {
        for (int i = 0; i < good[s]; i++)
            memcpy(outputs[l == &plain][s][position[s] + i], work.out[work.seq_start[s] + i], sizeof work.out[0]);
        position[s] += good[s]; /* the rollback */
    }
}

int main(void)
{
    int32_t end[SEQS] = { 0 }, at[SEQS] = { 0 };
    int n[SEQS], good[SEQS], rounds = 0, rejected = 0, more, bad;
    gdn_context *ctx = NULL;
    gdn_context_desc desc = GDN_INIT(gdn_context_desc); /* defaults: the CPU, all cores */
    must(gdn_context_create(&desc, &ctx), "gdn_context_create");
    for (uint32_t c = 0; c < CHANNELS; c++)
        for (uint32_t j = 0; j < WIDTH; j++) weight[c][j] = number(c, j, 7);
    speculative.ctx = plain.ctx = ctx;
    speculative.slots = SLOTS, speculative.inputs = INPUTS;
    plain.slots = 1, plain.inputs = WIDTH - 1;
    for (int s = 0; s <= SEQS; s++) work.seq_start[s] = s * PROMPT; /* the largest call */
    run(&speculative, &work, 1);
    run(&plain, &work, 1);

    for (int s = 0; s < SEQS; s++) n[s] = good[s] = PROMPT - 2 * s; /* prompts of 9, 7, 5 and 3 tokens */
    step(&speculative, end, n, good);
    do {
        more = 0;
        for (int s = 0; s < SEQS; s++) {
            const int going = end[s] < LENGTH;           /* a finished sequence has no tokens in the call */
            n[s] = going ? 1 + (rounds + s) % SLOTS : 0; /* one accepted token, and 0 to DRAFTS drafts */
            good[s] = going ? 1 + (rounds / SLOTS + 3 * s) % n[s] : 0;
            rejected += n[s] - good[s];
            more |= going;
        }
        if (more) step(&speculative, end, n, good);
        rounds += more;
    } while (more);

    do { /* the same tokens, one at a time */
        more = 0;
        for (int s = 0; s < SEQS; s++) more |= n[s] = good[s] = at[s] < end[s];
        if (more) step(&plain, at, n, good);
    } while (more);

    bad = memcmp(outputs[0], outputs[1], sizeof outputs[0]) != 0;
    for (int s = 0; s < SEQS; s++) {
        bad |= memcmp(speculative.state[s] + end[s] % SLOTS * STATE, plain.state[s], STATE * sizeof(float)) != 0;
        for (int p = end[s] - (WIDTH - 1); p < end[s]; p++)
            bad |= memcmp(speculative.history[s] + p % INPUTS * CHANNELS, plain.history[s] + p % (WIDTH - 1) * CHANNELS,
                          CHANNELS * sizeof(float)) != 0;
        printf("sequence %d: %d tokens\n", s, (int)end[s]);
    }
    printf("%d rounds, %d drafts rejected: %s plain decoding\n", rounds, rejected,
           bad ? "OTHER BITS than" : "the bits of");
    for (layer *l = &speculative; l; l = l == &plain ? NULL : &plain) {
        gdn_buffer_destroy(ctx, &l->conv_workspace);
        gdn_buffer_destroy(ctx, &l->delta_workspace);
    }
    gdn_context_destroy(ctx);
    return bad;
}
