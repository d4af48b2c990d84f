/* gdn bench: gated_delta_net in the chunked form, with states of digits.
 *
 *   decode32_digits2, 3     32 calls of one token, from a multiple of 32 to the next: all read the state, the last
 *                           writes it
 *   prefill512_digits2, 3   a prompt
 *
 * Each alternates with the recurrence on F32 states. */
#include <stdlib.h>

#include "bench/gated_delta_net.h"
#include "numerics/chunked.h"

enum { Q, K, V, G, BETA, OUT, STATES, DIGITS, LOG, POSITIONS };
enum { STEPS = GDN_CHUNK, ENTRY = HEADS_K * HEAD_DIM + HEADS_V * HEAD_DIM + HEADS_V, MAP_BYTES = 256 };

static int64_t slot_bytes(int digits) { return (int64_t)HEADS_V * HEAD_DIM * (digits * HEAD_DIM + 4); }

static gdn_gated_delta_net_args args_of(const bench_row *row, int copy)
{
    gdn_gated_delta_net_args a = row->args.gated_delta_net;
    a.q = bench_tensor(row, Q, copy);
    a.k = bench_tensor(row, K, copy);
    a.v = bench_tensor(row, V, copy);
    a.g = bench_tensor(row, G, copy);
    a.beta = bench_tensor(row, BETA, copy);
    a.out = bench_tensor(row, OUT, copy);
    a.workspace = row->workspace;
    return a;
}

static int calls_of(const bench_row *row) { return row->n_operands > LOG ? STEPS : 1; }

static gdn_status launch(bench_row *row, int copy)
{
    gdn_gated_delta_net_args a = args_of(row, copy);
    gdn_replay_log log = row->log;
    gdn_status status = GDN_OK;
    a.state = bench_pool(row, DIGITS, copy, a.n_seqs, 1);
    a.state.dtype = row->chunked.digits == 2 ? GDN_DIGITS2 : GDN_DIGITS3;
    a.chunked = &row->chunked;
    for (int i = 0; i < calls_of(row) && !status; i++) {
        if (calls_of(row) > 1) {
            log.entries = bench_pool(row, LOG, copy, a.n_seqs, STEPS);
            a.log = &log;
            a.position = row->operand[POSITIONS].copy[copy];
            a.position.offset += (uint64_t)i * MAP_BYTES;
            a.position.bytes = MAP_BYTES;
        }
        status = gdn_gated_delta_net(row->ctx, &a, NULL);
    }
    return status;
}

static gdn_status launch_recurrence(bench_row *row, int copy)
{
    gdn_gated_delta_net_args a = args_of(row, copy);
    gdn_status status = GDN_OK;
    a.state = bench_pool(row, STATES, copy, a.n_seqs, 1);
    for (int i = 0; i < calls_of(row) && !status; i++) status = gdn_gated_delta_net(row->ctx, &a, NULL);
    return status;
}

gdn_status bench_chunked_setup(bench_row *row, int seqs, int tokens, int digits)
{
    const int64_t n = (int64_t)tokens * seqs, digits_bytes = slot_bytes(digits) * seqs;
    const int64_t floats[STATES + 1] = {
        n * HEADS_K * HEAD_DIM, n * HEADS_K * HEAD_DIM, n * HEADS_V * HEAD_DIM, n * HEADS_V, n * HEADS_V,
        n * HEADS_V * HEAD_DIM, (int64_t)seqs * STATE,
    };
    void *const content[STATES + 1] = {
        bench_unit_rows(1, n * HEADS_K),
        bench_unit_rows(2, n * HEADS_K),
        bench_random_floats(3, floats[V], -1.0f, 1.0f),
        bench_random_floats(4, floats[G], -0.09f, -0.01f),
        bench_random_floats(5, floats[BETA], 0.05f, 0.95f),
        NULL,
        bench_random_floats(6, floats[STATES], -0.1f, 0.1f),
    };
    for (int i = 0; i <= STATES; i++) bench_add_operand(row, 4 * floats[i], content[i]);
    bench_add_operand(row, digits_bytes, NULL); /* zeros are a state: all factors are 0 */
    if (tokens == 1) {
        bench_add_operand(row, 4 * (int64_t)seqs * STEPS * ENTRY, NULL);
        int32_t *positions = bench_alloc(STEPS * MAP_BYTES);
        for (int i = 0; i < STEPS; i++)
            for (int s = 0; s < MAP_BYTES / 4; s++) positions[i * MAP_BYTES / 4 + s] = i;
        bench_add_operand(row, STEPS * MAP_BYTES, positions);
    }
    gdn_gated_delta_net_args *a = &row->args.gated_delta_net;
    *a = bench_delta_args(seqs, n);
    row->chunked = (gdn_chunked_form){ .size = sizeof row->chunked, .digits = digits };
    row->log = (gdn_replay_log)GDN_INIT(gdn_replay_log);
    row->log.entries.n_rows = seqs;
    row->log.entries.n_slots = STEPS;
    row->launch = launch;
    row->other = launch_recurrence;
    row->other_ratio = "recurrence_ratio";
    row->work.seqs = seqs;
    row->work.tokens = tokens == 1 ? STEPS : tokens;
    gdn_capability recurrence = { .size = sizeof recurrence };
    gdn_status status = gdn_gated_delta_net_query(row->ctx, a, &recurrence);
    gdn_gated_delta_net_args chunked = *a;
    chunked.chunked = &row->chunked;
    chunked.state.dtype = digits == 2 ? GDN_DIGITS2 : GDN_DIGITS3;
    if (tokens == 1) chunked.log = &row->log;
    if (!status) status = gdn_gated_delta_net_query(row->ctx, &chunked, &row->capability);
    if (recurrence.workspace_bytes > row->capability.workspace_bytes)
        row->capability.workspace_bytes = recurrence.workspace_bytes;
    status = bench_prepare(row, status);
    if (status || !row->capability.supported) return status;

    /* Multiply-adds count as two: of r and q with the state and of the update, the products of digits each. */
    const double products = digits == 2 ? 3 : 6, steps = (double)row->work.tokens * seqs;
    row->work.ops = 2 * 3 * products * steps * STATE;
    for (int i = Q; i <= OUT; i++) row->work.bytes += (double)row->operand[i].bytes * calls_of(row);
    row->work.bytes += (double)digits_bytes * (calls_of(row) + 1);
    if (tokens > 1) return GDN_OK; /* the host's rooflines have no products of integers */
    row->work.bytes += 4.0 * ENTRY * seqs * STEPS * (STEPS + 1) / 2; /* entries, read and written */
    for (int i = 0; i < STEPS; i++) {
        bench_add_operand_traffic(row, DIGITS, ROOFLINE_READ);
        if (i) bench_add_traffic(row, LOG, 0, 4 * (int64_t)ENTRY * seqs * i, ROOFLINE_READ);
    }
    bench_add_operand_traffic(row, DIGITS, ROOFLINE_WRITE);
    bench_add_operand_traffic(row, LOG, ROOFLINE_WRITE);
    bench_token_traffic(row, Q, V, OUT);
    return GDN_OK;
}
