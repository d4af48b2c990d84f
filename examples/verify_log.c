/* verify_log.c - speculative decoding with a replay log: verifies and rolls back drafts with one state per sequence,
 * for any number of drafts.
 *
 * A call writes a log entry for each token, and no state. The next call passes the number of accepted tokens of a
 * sequence (`position`) and the number that its state has seen (`base_position`). The kernel replays the entries in
 * between, with the bits of the tokens themselves, and continues. Here it also commits the replayed state to the slot
 * that it has read (`commit`), so that a call replays at most what the previous call accepted. Prompts are processed
 * without a log, and write their states.
 *
 * verify_rollback.c does the same with snapshots, and includes the convolution, which is used in the same way here. At
 * the end all outputs and states are compared with those of plain decoding. Exit status: 0 = the same bits. */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADS = 2,
    DIM = 32,
    PART = HEADS * DIM,
    STATE = HEADS * DIM * DIM,
    MOST = 4,                 /* tokens of a call: an accepted one, and drafts */
    SLOTS = 2 * MOST,         /* of the log */
    ENTRY = 2 * PART + HEADS, /* of a token: k and d of all heads, and their decays */
    SEQS = 4,
    PROMPT = 9,
    LENGTH = 40,
    ROOM = LENGTH + MOST,
    MAX_TOKENS = SEQS * PROMPT
};

static float q[MAX_TOKENS][PART], k[MAX_TOKENS][PART], v[MAX_TOKENS][PART], out[MAX_TOKENS][PART];
static float g[MAX_TOKENS][HEADS], beta[MAX_TOKENS][HEADS];
static float states[SEQS][STATE], plain_states[SEQS][STATE], entries[SEQS][SLOTS][ENTRY];
static float outputs[2][SEQS][ROOM][PART]; /* of accepted tokens; of plain decoding */
static gdn_context *ctx;
static gdn_span workspace;

/* Operands of the token at a position; `wrong`: of a wrong token in its place. */
static void put_token(int i, uint32_t seq, uint32_t position, uint32_t wrong)
{
    const uint32_t id = seq * 1000 + position;
    for (uint32_t c = 0; c < PART; c++) {
        q[i][c] = number(id, c, wrong);
        k[i][c] = number(id, c, 2 + wrong);
        v[i][c] = number(id, c, 4 + wrong);
    }
    put_gates(g[i], beta[i], HEADS, id, wrong);
}

/* Arguments common to all calls. */
static gdn_gated_delta_net_args call(float (*state)[STATE], const int32_t *start)
{
    gdn_gated_delta_net_args a = heads_of(SEQS, start, HEADS, DIM);
    a.q.data = q;
    a.k.data = k;
    a.v.data = v;
    a.g.data = g;
    a.beta.data = beta;
    a.out.data = out;
    a.state.data = state;
    a.workspace = workspace;
    return a;
}

int main(void)
{
    int32_t start[SEQS + 1] = { 0 }, position[SEQS] = { 0 }, base[SEQS], zero[SEQS], slots[SEQS];
    int n[SEQS], good[SEQS], rounds = 0, rejected = 0, more;
    gdn_context_desc desc = GDN_INIT(gdn_context_desc); /* defaults: the CPU, all cores */
    gdn_capability can = GDN_INIT(gdn_capability);
    must(gdn_context_create(&desc, &ctx), "gdn_context_create");
    for (int s = 0; s < SEQS; s++) zero[s] = GDN_NONE, slots[s] = s;

    /* Prompts of 9, 7, 5 and 3 tokens, without a log. */
    for (int s = 0; s < SEQS; s++) {
        position[s] = PROMPT - 2 * s;
        start[s + 1] = start[s] + position[s];
        for (int i = 0; i < position[s]; i++) put_token(start[s] + i, (uint32_t)s, (uint32_t)i, 0);
    }
    gdn_gated_delta_net_args a = call(states, start);
    a.state_src.data = zero; /* a sequence's first call starts from zero */
    must(gdn_gated_delta_net_query(ctx, &a, &can), "gdn_gated_delta_net_query"); /* of the largest call */
    if (can.workspace_bytes) must(gdn_buffer_create(ctx, can.workspace_bytes, &workspace), "gdn_buffer_create");
    a.workspace = workspace;
    must(gdn_gated_delta_net(ctx, &a, NULL), "prompts");
    for (int s = 0; s < SEQS; s++) memcpy(outputs[0][s], out[start[s]], (size_t)position[s] * sizeof out[0]);
    memcpy(base, position, sizeof base);

    gdn_replay_log log = GDN_INIT(gdn_replay_log);
    log.entries.data = entries;
    log.entries.n_rows = SEQS;
    log.entries.n_slots = SLOTS;
    log.base_position.data = base; /* the position of the previous call */
    log.commit.data = slots;       /* to the states' own slots; the log restarts there */
    do {                           /* rounds of one accepted token and 0 to 3 drafts for each sequence */
        more = 0;
        for (int s = 0; s < SEQS; s++) {
            const int going = position[s] < LENGTH; /* a finished sequence has no tokens, and only commits */
            n[s] = going ? 1 + (rounds + s) % MOST : 0;
            good[s] = going ? 1 + (rounds / MOST + 3 * s) % n[s] : 0;
            start[s + 1] = start[s] + n[s];
            for (int i = 0; i < n[s]; i++)
                put_token(start[s] + i, (uint32_t)s, (uint32_t)(position[s] + i), i >= good[s]);
            more |= going;
        }
        a = call(states, start);
        a.log = &log;
        a.n_snapshots = 0;
        a.position.data = position; /* the number of accepted tokens */
        must(gdn_gated_delta_net(ctx, &a, NULL), "a round");
        for (int s = 0; s < SEQS; s++) {
            memcpy(outputs[0][s][position[s]], out[start[s]], (size_t)good[s] * sizeof out[0]);
            base[s] = position[s];
            position[s] += good[s]; /* the rollback */
            rejected += n[s] - good[s];
        }
        rounds += more;
    } while (more); /* the last call had no tokens: it committed the rest */

    for (int32_t at = 0; one_token_each(SEQS, at, position, start); at++) { /* the same tokens, one at a time */
        for (int s = 0; s < SEQS; s++)
            if (start[s + 1] > start[s]) put_token(start[s], (uint32_t)s, (uint32_t)at, 0);
        a = call(plain_states, start);
        if (!at) a.state_src.data = zero;
        must(gdn_gated_delta_net(ctx, &a, NULL), "plain decoding");
        for (int s = 0; s < SEQS; s++)
            if (start[s + 1] > start[s]) memcpy(outputs[1][s][at], out[start[s]], sizeof out[0]);
    }

    const int bad = memcmp(outputs[0], outputs[1], sizeof outputs[0]) || memcmp(states, plain_states, sizeof states);
    for (int s = 0; s < SEQS; s++) printf("sequence %d: %d tokens\n", s, (int)position[s]);
    printf("%d rounds, %d drafts rejected, %zu bytes of log beside %zu of states: %s plain decoding\n", rounds,
           rejected, sizeof entries, sizeof states, bad ? "OTHER BITS than" : "the bits of");
    gdn_buffer_destroy(ctx, &workspace);
    gdn_context_destroy(ctx);
    return bad;
}
