/* gdn bench: gated_delta_net with a replay log.
 *
 *   verify4_log   verifies four drafted tokens, which are logged; writes no state
 *   round4_log    a round of speculation: replays three log entries, commits the state in place, and verifies four
 *                 tokens
 *
 * Each alternates with verification that writes a snapshot after each of the four tokens. Before timing, both calls run
 * one after the other, and their results are compared with the formula in binary64. A call that replayed nothing, or
 * wrote empty entries, would otherwise look fast. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gated_delta_net.h"

enum { TOKENS = 4, REPLAYED = 3, LOG_SLOTS = 8, ENTRY = HEADS_K * HEAD_DIM + HEADS_V * HEAD_DIM + HEADS_V };
enum { Q, K, V, G, BETA, OUT, STATES, LOG, SNAPSHOTS, MAPS };
enum { MAP_BYTES = 256, POSITION_0 = 0, POSITION_3, SLOTS, N_MAPS };

static gdn_span map_of(const bench_row *row, int map, int copy)
{
    gdn_span span = row->operand[MAPS].copy[copy];
    span.offset += (uint64_t)map * MAP_BYTES;
    span.bytes = MAP_BYTES;
    return span;
}

static void set_tokens(const bench_row *row, gdn_gated_delta_net_args *a, int copy)
{
    a->q = bench_tensor(row, Q, copy);
    a->k = bench_tensor(row, K, copy);
    a->v = bench_tensor(row, V, copy);
    a->g = bench_tensor(row, G, copy);
    a->beta = bench_tensor(row, BETA, copy);
    a->out = bench_tensor(row, OUT, copy);
    a->workspace = row->workspace;
}

static gdn_gated_delta_net_args with_log(const bench_row *row, int round, int copy, gdn_replay_log *log)
{
    gdn_gated_delta_net_args a = row->args.gated_delta_net;
    set_tokens(row, &a, copy);
    a.state = bench_pool(row, STATES, copy, a.n_seqs, 1);
    *log = row->log;
    log->entries = bench_pool(row, LOG, copy, a.n_seqs, LOG_SLOTS);
    if (round) {
        a.position = map_of(row, POSITION_3, copy);
        log->base_position = map_of(row, POSITION_0, copy);
        log->commit = map_of(row, SLOTS, copy);
    }
    a.log = log;
    return a;
}

static gdn_status launch_verify(bench_row *row, int copy)
{
    gdn_replay_log log;
    const gdn_gated_delta_net_args a = with_log(row, 0, copy, &log);
    return gdn_gated_delta_net(row->ctx, &a, NULL);
}

static gdn_status launch_round(bench_row *row, int copy)
{
    gdn_replay_log log;
    const gdn_gated_delta_net_args a = with_log(row, 1, copy, &log);
    return gdn_gated_delta_net(row->ctx, &a, NULL);
}

static gdn_gated_delta_net_args with_snapshots(const bench_row *row, int copy)
{
    gdn_gated_delta_net_args a = row->args.gated_delta_net;
    if (row->work.n_copies) set_tokens(row, &a, copy);
    if (row->work.n_copies) a.state = bench_pool(row, SNAPSHOTS, copy, a.n_seqs, TOKENS);
    a.state.n_slots = a.n_snapshots = TOKENS;
    a.log = NULL;
    return a;
}

static gdn_status launch_snapshots(bench_row *row, int copy)
{
    const gdn_gated_delta_net_args a = with_snapshots(row, copy);
    return gdn_gated_delta_net(row->ctx, &a, NULL);
}

/* The tokens and state of one sequence of the first copy. */
typedef struct plain_input {
    const float *q, *k, *v, *g, *beta, *state;
} plain_input;

/* Computes the first n of the four tokens by the formula, from position `first` on. S: the state before, then after
 * them. Both calls have the same four tokens. */
static void plain_tokens(const plain_input *x, int h, int first, int n, double *S, double *out)
{
    for (int t = first; t < first + n; t++) {
        const int at = t - first;
        const float *k = x->k + (at * HEADS_K + h % HEADS_K) * HEAD_DIM,
                    *q = x->q + (at * HEADS_K + h % HEADS_K) * HEAD_DIM;
        const double a = exp(x->g[at * HEADS_V + h]), beta = x->beta[at * HEADS_V + h];
        for (int j = 0; j < HEAD_DIM; j++) {
            double *row = S + j * HEAD_DIM, kv = 0, o = 0;
            for (int i = 0; i < HEAD_DIM; i++) kv += row[i] * k[i];
            const double d = beta * (x->v[(at * HEADS_V + h) * HEAD_DIM + j] - a * kv);
            for (int i = 0; i < HEAD_DIM; i++) {
                row[i] = k[i] * d + a * row[i];
                o += row[i] * q[i];
            }
            out[((t - first) * HEADS_V + h) * HEAD_DIM + j] = o / sqrt(HEAD_DIM);
        }
    }
}

/* The maximum of `worst` and the error of x. */
static double farther(double worst, const float *x, const double *wanted, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double off = fabs((double)x[i] - wanted[i]);
        if (!(off <= worst)) worst = off;
    }
    return worst;
}

/* Runs a verification, then a round that starts at its fourth token, on the first copy. Compares the outputs of both
 * and the committed state of one sequence with the formula. */
static gdn_status compare(bench_row *row, int seq, const plain_input *x)
{
    enum { N_OUT = TOKENS * HEADS_V * HEAD_DIM };
    float *out = bench_alloc(2 * N_OUT * (int64_t)sizeof *out), *state = bench_alloc(STATE * (int64_t)sizeof *state);
    double *S = bench_alloc(STATE * (int64_t)sizeof *S), *wanted = bench_alloc(2 * N_OUT * (int64_t)sizeof *wanted);
    double worst = 0;
    const gdn_span *outs = &row->operand[OUT].copy[0], *states = &row->operand[STATES].copy[0];
    gdn_status status = gdn_buffer_write(row->ctx, states, (uint64_t)seq * 4 * STATE, x->state, 4 * STATE);
    for (int round = 0; round < 2 && !status; round++) {
        gdn_replay_log log;
        const gdn_gated_delta_net_args a = with_log(row, round, 0, &log);
        status = gdn_gated_delta_net(row->ctx, &a, NULL);
        if (!status) status = gdn_synchronize(row->ctx, NULL);
        if (!status)
            status = gdn_buffer_read(row->ctx, outs, (uint64_t)seq * 4 * N_OUT, out + round * N_OUT, 4 * N_OUT);
    }
    if (!status) status = gdn_buffer_read(row->ctx, states, (uint64_t)seq * 4 * STATE, state, 4 * STATE);
    for (int64_t i = 0; i < STATE; i++) S[i] = x->state[i];
    for (int h = 0; h < HEADS_V; h++) { /* the replayed tokens give the committed state; then the round's tokens */
        double *const head = S + h * HEAD_DIM * HEAD_DIM;
        plain_tokens(x, h, 0, REPLAYED, head, wanted);
        worst = farther(worst, state + h * HEAD_DIM * HEAD_DIM, head, HEAD_DIM * HEAD_DIM);
        plain_tokens(x, h, REPLAYED, TOKENS, head, wanted + N_OUT);
    }
    worst = farther(worst, out, wanted, REPLAYED * HEADS_V * HEAD_DIM);
    worst = farther(worst, out + N_OUT, wanted + N_OUT, N_OUT);
    free(wanted);
    free(S);
    free(state);
    free(out);
    if (!(worst < 1e-5)) row->wrong = "the outputs or the committed state are not those of the formula";
    return status;
}

static gdn_status prepare(bench_row *row, int seqs, const plain_input *x, const float *states)
{
    gdn_status status = GDN_OK;
    for (int seq = 0; seq < seqs && !status; seq += seqs > 1 ? seqs - 1 : 1) {
        plain_input one = *x;
        one.q += (int64_t)seq * TOKENS * HEADS_K * HEAD_DIM;
        one.k += (int64_t)seq * TOKENS * HEADS_K * HEAD_DIM;
        one.v += (int64_t)seq * TOKENS * HEADS_V * HEAD_DIM;
        one.g += (int64_t)seq * TOKENS * HEADS_V;
        one.beta += (int64_t)seq * TOKENS * HEADS_V;
        one.state = states + (int64_t)seq * STATE;
        status = compare(row, seq, &one);
    }
    for (int copy = 0; copy < row->work.n_copies && !status; copy++)
        status = launch_verify(row, copy); /* log entries 0 .. 3 */
    return status ? status : gdn_synchronize(row->ctx, NULL);
}

gdn_status bench_log_setup(bench_row *row, int seqs, int round)
{
    const int64_t tokens = (int64_t)TOKENS * seqs, states = (int64_t)seqs * STATE;
    const int64_t floats[SNAPSHOTS + 1] = {
        tokens * HEADS_K * HEAD_DIM,
        tokens * HEADS_K * HEAD_DIM,
        tokens * HEADS_V * HEAD_DIM,
        tokens * HEADS_V,
        tokens * HEADS_V,
        tokens * HEADS_V * HEAD_DIM,
        states,
        (int64_t)seqs * LOG_SLOTS * ENTRY,
        TOKENS * states,
    };
    void *content[SNAPSHOTS + 1] = {
        bench_unit_rows(1, tokens * HEADS_K),
        bench_unit_rows(2, tokens * HEADS_K),
        bench_random_floats(3, floats[V], -1.0f, 1.0f),
        bench_random_floats(4, floats[G], -0.09f, -0.01f),
        bench_random_floats(5, floats[BETA], 0.05f, 0.95f),
        NULL,
        bench_random_floats(6, floats[STATES], -0.1f, 0.1f),
        NULL,
        bench_random_floats(7, floats[SNAPSHOTS], -0.1f, 0.1f),
    };
    void *kept[STATES + 1]; /* bench_fill() frees the others */
    for (int i = 0; i <= STATES; i++) {
        kept[i] = content[i] ? bench_alloc(4 * floats[i]) : NULL;
        if (content[i]) memcpy(kept[i], content[i], 4 * (size_t)floats[i]);
    }
    for (int i = 0; i <= SNAPSHOTS; i++) bench_add_operand(row, 4 * floats[i], content[i]);
    int32_t *maps = bench_alloc(N_MAPS * MAP_BYTES);
    for (int s = 0; s < seqs; s++) {
        maps[POSITION_3 * MAP_BYTES / 4 + s] = REPLAYED;
        maps[SLOTS * MAP_BYTES / 4 + s] = s;
    }
    bench_add_operand(row, N_MAPS * MAP_BYTES, maps);

    gdn_gated_delta_net_args *a = &row->args.gated_delta_net;
    *a = bench_delta_args(seqs, tokens);
    a->n_snapshots = 0;
    row->log = (gdn_replay_log)GDN_INIT(gdn_replay_log);
    row->log.entries.n_rows = seqs;
    row->log.entries.n_slots = LOG_SLOTS;
    a->log = &row->log;
    row->launch = round ? launch_round : launch_verify;
    row->other = launch_snapshots;
    row->other_ratio = "snapshot_ratio";
    row->work.seqs = seqs;
    row->work.tokens = TOKENS;
    row->capability.size = sizeof row->capability;
    gdn_capability snapshots = { .size = sizeof snapshots };
    const gdn_gated_delta_net_args other = with_snapshots(row, 0);
    gdn_status status = gdn_gated_delta_net_query(row->ctx, a, &row->capability);
    if (!status) status = gdn_gated_delta_net_query(row->ctx, &other, &snapshots);
    if (!status && row->capability.supported) {
        const uint64_t both = row->capability.workspace_bytes;
        if (snapshots.workspace_bytes > both) row->capability.workspace_bytes = snapshots.workspace_bytes;
        if (!(status = bench_fill(row)) && !(status = bench_create_workspace(row)))
            status = prepare(row, seqs, &(plain_input){ kept[Q], kept[K], kept[V], kept[G], kept[BETA], NULL },
                             kept[STATES]);
    }
    for (int i = 0; i <= STATES; i++) free(kept[i]);
    if (status || !row->capability.supported) return status;

    /* Operations per state element: decay, update and two products of a token; decay and update of an entry. */
    const int n_replayed = round ? REPLAYED : 0;
    const double entry_bytes = 4.0 * ENTRY * seqs;
    row->work.ops = (4.0 * TOKENS + 2.0 * n_replayed) * (double)states;
    row->work.bytes = 4.0 * (double)states * (1 + round) + entry_bytes * (TOKENS + n_replayed);
    for (int i = Q; i <= OUT; i++) row->work.bytes += (double)row->operand[i].bytes;
    bench_add_operand_traffic(row, STATES, round ? ROOFLINE_UPDATE : ROOFLINE_READ);
    if (round) bench_add_traffic(row, LOG, 0, 4 * (int64_t)seqs * TOKENS * ENTRY, ROOFLINE_READ);
    bench_add_traffic(row, LOG, 0, 4 * (int64_t)seqs * TOKENS * ENTRY, ROOFLINE_WRITE);
    bench_token_traffic(row, Q, V, OUT);
    row->lane_ops = row->work.ops;
    return GDN_OK;
}
