/* verify_tree.c - speculative decoding with token trees: a call verifies several continuations of a sequence with a
 * common beginning, of which at most one path is accepted.
 *
 * A layer here is a convolution and the gated delta rule. `parent` gives the token of the same sequence that a token
 * follows. The bits of each branch are those of a call with that branch alone. A call writes no state of drafts. It
 * stores log entries (see verify_log.c) and conv history entries of all tokens, in their order in the call.
 *
 * gdn_set_rows() then moves the entries of the accepted path, in one call for all sequences. It must not write what it
 * reads, so log and history have two halves:
 * - log: calls alternate between the halves. Earlier accepted tokens are already in the state, as each call commits
 *   what it replays; otherwise their entries would have to be moved too.
 * - history: the first half has the accepted inputs, which calls read. Calls write the second half, from which the path
 *   is copied back; the rest of the first half does not change.
 *
 * At the end all outputs and states are compared with those of plain decoding. Exit status: 0 = the same bits. */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADS = 2,
    DIM = 32,
    PART = HEADS * DIM,
    CHANNELS = 3 * PART, /* q, k and v of all heads */
    WIDTH = 4,           /* of the convolution */
    STATE = HEADS * DIM * DIM,
    TREE = 6, /* tokens of a call: an accepted one, and drafts */
    DEPTH = 3,
    SLOTS = DEPTH + TREE,     /* of the log: a call replays at most what the previous one accepted */
    KEPT = WIDTH - 1 + TREE,  /* slots of a history */
    ENTRY = 2 * PART + HEADS, /* of the log: k and d of all heads, and their decays */
    SEQS = 3,
    LENGTH = 30,
    ROOM = LENGTH + DEPTH,
    MAX_TOKENS = SEQS * TREE
};

/* The tree: two drafts after the accepted token, two after the first draft, one after the second. */
static const int32_t parents[TREE] = { GDN_NONE, 0, 0, 1, 1, 2 };

static float x[MAX_TOKENS][CHANNELS], qkv[MAX_TOKENS][CHANNELS], out[MAX_TOKENS][PART];
static float g[MAX_TOKENS][HEADS], beta[MAX_TOKENS][HEADS], weight[CHANNELS][WIDTH];
static float states[SEQS][STATE], plain_states[SEQS][STATE], entries[2][SEQS][SLOTS][ENTRY];
static float history[2][SEQS][KEPT][CHANNELS], plain_history[SEQS][KEPT][CHANNELS];
static float outputs[2][SEQS][ROOM][PART]; /* of accepted tokens; of plain decoding */
static int32_t to_entry[SEQS * SLOTS], to_kept[SEQS * KEPT];
static gdn_context *ctx;
static gdn_span workspace;

/* Operands of the token at a position; `wrong`: of a wrong token in its place. */
static void put_token(int i, uint32_t seq, uint32_t position, uint32_t wrong)
{
    const uint32_t id = seq * 1000 + position;
    for (uint32_t c = 0; c < CHANNELS; c++) x[i][c] = number(id, c, wrong);
    put_gates(g[i], beta[i], HEADS, id, wrong);
}

/* Arguments common to calls with and without trees. */
static gdn_ssm_conv_args conv_call(float (*rows)[KEPT][CHANNELS], const int32_t *start, const int32_t *position)
{
    gdn_ssm_conv_args a = GDN_INIT(gdn_ssm_conv_args);
    a.activation = GDN_ACTIVATION_SILU;
    a.n_seqs = a.history.n_rows = SEQS;
    a.n_tokens = start[SEQS];
    a.n_channels = CHANNELS;
    a.kernel_width = WIDTH;
    a.history.n_slots = KEPT;
    a.x.data = x;
    a.weight.data = weight;
    a.out.data = qkv;
    a.history.data = rows;
    a.seq_start.data = (void *)start;
    a.position.data = (void *)position;
    a.workspace = workspace;
    return a;
}

static gdn_gated_delta_net_args delta_call(float (*state)[STATE], const int32_t *start)
{
    gdn_gated_delta_net_args a = heads_of(SEQS, start, HEADS, DIM);
    a.q.data = a.k.data = a.v.data = qkv;
    a.q.stride[1] = a.k.stride[1] = a.v.stride[1] = sizeof qkv[0];
    a.k.offset = sizeof(float) * PART;
    a.v.offset = sizeof(float) * 2 * PART;
    a.g.data = g;
    a.beta.data = beta;
    a.out.data = out;
    a.state.data = state;
    a.workspace = workspace;
    return a;
}

/* Moves n rows of `size` floats, each to the row that index names, or nowhere. */
static void move_rows(void *from, void *to, int32_t *index, int n, int size)
{
    gdn_set_rows_args a = GDN_INIT(gdn_set_rows_args);
    gdn_capability can = GDN_INIT(gdn_capability);
    a.n_columns = size;
    a.n_rows = a.n_rows_dst = n;
    a.src.data = from;
    a.dst.data = to;
    a.index.data = index;
    a.index.dtype = GDN_I32;
    a.workspace = workspace;
    must(gdn_set_rows_query(ctx, &a, &can), "gdn_set_rows_query");
    must(gdn_set_rows(ctx, &a, NULL), "gdn_set_rows");
}

int main(void)
{
    int32_t start[SEQS + 1] = { 0 }, position[SEQS] = { 0 }, base[SEQS] = { 0 }, from[SEQS], slots[SEQS];
    int32_t parent[MAX_TOKENS], log_row[SEQS], written[SEQS];
    int rounds = 0, rejected = 0, more;
    gdn_context_desc desc = GDN_INIT(gdn_context_desc); /* defaults: the CPU, all cores */
    gdn_capability can = GDN_INIT(gdn_capability);
    must(gdn_context_create(&desc, &ctx), "gdn_context_create");
    for (uint32_t c = 0; c < CHANNELS; c++)
        for (uint32_t j = 0; j < WIDTH; j++) weight[c][j] = number(c, j, 300);
    for (int s = 0; s < SEQS; s++) slots[s] = s, written[s] = SEQS + s;
    gdn_token_tree tree = GDN_INIT(gdn_token_tree);
    gdn_replay_log log = GDN_INIT(gdn_replay_log);
    tree.parent.data = parent;
    log.entries.data = entries;
    log.entries.n_rows = 2 * SEQS;
    log.entries.n_slots = SLOTS;
    log.row.data = log_row;
    log.base_position.data = base;
    log.commit.data = slots;

    do { /* rounds of one accepted token and 5 drafts for each sequence */
        const int half = rounds % 2;
        int32_t path[SEQS][DEPTH];
        int n_path[SEQS];
        more = 0;
        for (int s = 0; s < SEQS; s++) {
            const int going = position[s] < LENGTH; /* a finished sequence has no tokens, and only commits */
            int depth[TREE] = { 0 };
            /* The model's choice: here the branch that ends at this token. */
            const int last = (rounds + 2 * s) % TREE;
            n_path[s] = 0;
            for (int t = last; t >= 0 && going; t = parents[t]) n_path[s]++;
            for (int t = last, m = n_path[s]; m > 0; t = parents[t]) path[s][--m] = t;
            start[s + 1] = start[s] + (going ? TREE : 0);
            for (int t = 0; t < TREE && going; t++) {
                int wrong = 1 + t;
                depth[t] = parents[t] < 0 ? 0 : depth[parents[t]] + 1;
                for (int m = 0; m < n_path[s]; m++)
                    if (path[s][m] == t) wrong = 0;
                put_token(start[s] + t, (uint32_t)s, (uint32_t)(position[s] + depth[t]), (uint32_t)wrong);
                parent[start[s] + t] = parents[t];
            }
            log_row[s] = half * SEQS + s;
            from[s] = position[s] ? s : GDN_NONE; /* a sequence's first call starts from zero */
            more |= going;
        }

        gdn_ssm_conv_args c = conv_call(history[0], start, position);
        gdn_gated_delta_net_args a = delta_call(states, start);
        c.tree = a.tree = &tree;
        c.history.n_rows = 2 * SEQS;
        c.history_src.data = slots;
        c.history_dst.data = written;
        a.log = &log;
        a.n_snapshots = 0;
        a.state_src.data = from;
        a.position.data = position;
        if (!rounds) { /* of the largest calls; set_rows needs none here */
            gdn_capability also = GDN_INIT(gdn_capability);
            must(gdn_ssm_conv_query(ctx, &c, &can), "gdn_ssm_conv_query");
            must(gdn_gated_delta_net_query(ctx, &a, &also), "gdn_gated_delta_net_query");
            if (also.workspace_bytes > can.workspace_bytes) can = also;
            if (can.workspace_bytes) must(gdn_buffer_create(ctx, can.workspace_bytes, &workspace), "gdn_buffer_create");
            a.workspace = c.workspace = workspace;
        }
        must(gdn_ssm_conv(ctx, &c, NULL), "the convolution of a round");
        must(gdn_gated_delta_net(ctx, &a, NULL), "a round");

        for (int i = 0; i < SEQS * SLOTS; i++) to_entry[i] = GDN_NONE;
        for (int i = 0; i < SEQS * KEPT; i++) to_kept[i] = GDN_NONE;
        for (int s = 0; s < SEQS; s++) {
            for (int m = 0; m < n_path[s]; m++) {
                const int at = position[s] + path[s][m], to = position[s] + m;
                to_entry[s * SLOTS + at % SLOTS] = s * SLOTS + to % SLOTS;
                to_kept[s * KEPT + at % KEPT] = s * KEPT + to % KEPT;
                memcpy(outputs[0][s][to], out[start[s] + path[s][m]], sizeof out[0]);
            }
            base[s] = position[s];
            position[s] += n_path[s];
            rejected += start[s + 1] - start[s] - n_path[s];
        }
        move_rows(entries[half], entries[1 - half], to_entry, SEQS * SLOTS, ENTRY);
        move_rows(history[1], history[0], to_kept, SEQS * KEPT, CHANNELS);
        rounds += more;
    } while (more); /* the last call had no tokens: it committed the rest */

    for (int32_t at = 0, here[SEQS]; one_token_each(SEQS, at, position, start); at++) { /* the same, one at a time */
        for (int s = 0; s < SEQS; s++) {
            if (start[s + 1] > start[s]) put_token(start[s], (uint32_t)s, (uint32_t)at, 0);
            here[s] = at;
            from[s] = at ? s : GDN_NONE;
        }
        gdn_ssm_conv_args c = conv_call(plain_history, start, here);
        gdn_gated_delta_net_args a = delta_call(plain_states, start);
        a.state_src.data = from;
        must(gdn_ssm_conv(ctx, &c, NULL), "plain decoding");
        must(gdn_gated_delta_net(ctx, &a, NULL), "plain decoding");
        for (int s = 0; s < SEQS; s++)
            if (start[s + 1] > start[s]) memcpy(outputs[1][s][at], out[start[s]], sizeof out[0]);
    }

    const int bad = memcmp(outputs[0], outputs[1], sizeof outputs[0]) || memcmp(states, plain_states, sizeof states);
    for (int s = 0; s < SEQS; s++) printf("sequence %d: %d tokens\n", s, (int)position[s]);
    printf("%d rounds of trees of %d tokens, %d drafts rejected: %s plain decoding\n", rounds, TREE, rejected,
           bad ? "OTHER BITS than" : "the bits of");
    gdn_buffer_destroy(ctx, &workspace);
    gdn_context_destroy(ctx);
    return bad;
}
