/* gdn bench: gated_delta_net with a replay log.
 *
 *   verify4_log   verifies four drafted tokens, which are logged; writes no state
 *   round4_log    a round of speculation: replays three log entries, commits the state in place, and verifies four
 *                 tokens
 *
 * Each alternates with verification that writes a snapshot after each of the four tokens. Before timing, the
 * results of both are compared. A call that replayed nothing, or wrote empty entries, would otherwise look fast. */
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

/* Runs `launch` on the first copy, and reads what it wrote to an operand. */
static gdn_status run_and_read(bench_row *row, gdn_status (*launch)(bench_row *, int), int operand, void *to)
{
    gdn_status status = launch(row, 0);
    if (!status) status = gdn_synchronize(row->ctx, NULL);
    if (status) return status;
    return gdn_buffer_read(row->ctx, &row->operand[operand].copy[0], 0, to, (uint64_t)row->operand[operand].bytes);
}

/* Compares the first copy's results, bit for bit. The first call is compared with a verification of the same tokens
 * with snapshots. The second starts at the fourth token; it is compared with a verification from the snapshot after
 * three. */
static gdn_status compare(bench_row *row, int seqs)
{
    const gdn_span *outs = &row->operand[OUT].copy[0], *snapshots = &row->operand[SNAPSHOTS].copy[0];
    const uint64_t n_out = (uint64_t)row->operand[OUT].bytes, n_state = 4 * (uint64_t)STATE;
    char *out = bench_alloc((int64_t)n_out), *wanted = bench_alloc((int64_t)n_out);
    char *state = bench_alloc(row->operand[STATES].bytes), *kept = bench_alloc(row->operand[SNAPSHOTS].bytes);
    gdn_status status = run_and_read(row, launch_verify, OUT, out);
    if (!status) status = run_and_read(row, launch_snapshots, SNAPSHOTS, kept);
    if (!status) status = gdn_buffer_read(row->ctx, outs, 0, wanted, n_out);
    int good = !memcmp(out, wanted, n_out);

    if (!status) status = run_and_read(row, launch_round, STATES, state);
    if (!status) status = gdn_buffer_read(row->ctx, outs, 0, out, n_out);
    for (uint64_t s = 0; s < (uint64_t)seqs && !status; s++) { /* slot 1: one token before the last */
        const char *after3 = kept + (TOKENS * s + 1) * n_state;
        good &= !memcmp(state + s * n_state, after3, n_state);
        status = gdn_buffer_write(row->ctx, snapshots, TOKENS * s * n_state, after3, n_state);
    }
    if (!status) status = run_and_read(row, launch_snapshots, OUT, wanted);
    good &= !memcmp(out, wanted, n_out);
    free(out);
    free(wanted);
    free(state);
    free(kept);
    if (!good) row->wrong = "the outputs or the committed state differ from those with snapshots";
    return status;
}

static gdn_status prepare(bench_row *row, int seqs)
{
    gdn_status status = compare(row, seqs);
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
    for (int64_t q = 0; q < seqs; q++) /* both begin with the same states */
        memcpy((float *)content[SNAPSHOTS] + TOKENS * q * STATE, (float *)content[STATES] + q * STATE,
               sizeof(float) * STATE);
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
    gdn_capability snapshots = { .size = sizeof snapshots };
    const gdn_gated_delta_net_args other = with_snapshots(row, 0);
    gdn_status status = gdn_gated_delta_net_query(row->ctx, a, &row->capability);
    if (!status) status = gdn_gated_delta_net_query(row->ctx, &other, &snapshots);
    const uint64_t both = row->capability.workspace_bytes;
    if (snapshots.workspace_bytes > both) row->capability.workspace_bytes = snapshots.workspace_bytes;
    status = bench_prepare(row, status);
    if (status || !row->capability.supported || (status = prepare(row, seqs))) return status;

    /* Operations per state element: decay, update and two products of a token; decay and update of an entry. */
    const int n_replayed = round ? REPLAYED : 0;
    const double entry_bytes = 4.0 * ENTRY * seqs;
    row->work.ops = (4.0 * TOKENS + 2.0 * n_replayed) * (double)states;
    row->work.bytes = 4.0 * (double)states * (1 + round) + entry_bytes * (TOKENS + n_replayed);
    for (int i = Q; i <= OUT; i++) row->work.bytes += (double)row->operand[i].bytes;
    bench_add_operand_traffic(row, STATES, round ? ROOFLINE_UPDATE : ROOFLINE_READ);
    bench_add_traffic(row, LOG, 0, 4 * (int64_t)seqs * TOKENS * ENTRY, round ? ROOFLINE_UPDATE : ROOFLINE_WRITE);
    bench_token_traffic(row, Q, V, OUT);
    row->lane_ops = row->work.ops;
    return GDN_OK;
}
