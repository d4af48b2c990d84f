/* States of 16 bits that are rounded after every so many tokens of their sequence: any cut into calls, with tokens that
 * are read without a row of the log, drafts that are rejected, and commits now and then, comes to the outputs and the
 * states of one call. */
#include "families.h"
#include "trial.h"

enum { ROWS = 3 };

static int same_outs(check_trial *trial, const check_call *whole, int at, const check_call *part, int n)
{
    for (int t = 0; t < n; t++)
        for (int h = 0; h < whole->delta.n_heads_v; h++)
            if (!check_trial_same(trial, delta_out(&whole->c, &whole->delta, whole->result.image, 0, at + t, h),
                                  delta_out(&part->c, &part->delta, part->result.image, 0, t, h), whole->delta.dim_v,
                                  "out of token %d, head %d", at + t, h))
                return 0;
    return 1;
}

static int same_state(check_trial *trial, const check_call *whole, const check_call *part, int slot)
{
    for (int h = 0; h < whole->delta.n_heads_v; h++)
        for (int j = 0; j < whole->delta.dim_v; j++)
            for (int i = 0; i < whole->delta.dim_k; i++)
                if (!check_trial_same_of(
                        trial, whole->delta.dtype_state,
                        delta_state(&whole->c, &whole->delta, "state", whole->result.image, 0, h, i, j),
                        delta_state(&part->c, &part->delta, "state", part->result.image, slot, h, i, j), 1,
                        "the rounded state, head %d, key %d, value %d", h, i, j))
                    return 0;
    return 1;
}

static void draw(delta_spec *spec, check_rng *rng)
{
    static const int dims[] = { 16, 17, 32, 33, 64, 128 }, intervals[] = { 0, 1, 2, 3, 4, 5, 8 };
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    const int heads = check_between(rng, 1, 2), dim_v = CHECK_PICK(rng, dims), dim_k = CHECK_PICK(rng, dims);
    delta_defaults(spec, heads, heads * check_between(rng, 1, 2), dim_k, dim_v);
    spec->head_map = check_between(rng, 0, 1);
    spec->gate = check_between(rng, 0, 1);
    spec->layout = check_between(rng, 0, 1);
    spec->strided = check_between(rng, 0, 1);
    spec->dtype[0] = spec->dtype[1] = spec->dtype[2] = CHECK_PICK(rng, types);
    spec->dtype_state = check_between(rng, GDN_F16, GDN_BF16);
    spec->state_interval = CHECK_PICK(rng, intervals);
    spec->seed = check_next(rng);
    delta_random_values(spec, rng);
    if (check_one_in(rng, 2)) delta_random_forms(spec, rng);
    delta_batch(spec, 1, check_between(rng, 2, check_one_in(rng, 4) ? 40 : 18));
    spec->n_snapshots = 1;
    spec->map_start = spec->map_src = spec->map_dst = 1;
    spec->map_position = spec->map_base_position = spec->map_log_row = spec->map_commit = 1;
    spec->log_rows = 2;
    spec->seq[0].state_key = 3;
    spec->seq[0].commit = GDN_NONE;
}

/* The sequence's first `length` tokens in one call, whose last state is kept where it may be. */
static int run_prefix(check_trial *trial, const delta_spec *drawn, int interval, int length, check_call *call,
                      check_rng *rng)
{
    delta_seq *const seq = &call->delta.seq[0];
    call->delta = *drawn;
    seq->length = length;
    seq->dst[0] = (seq->position + length) % interval ? GDN_NONE : 0;
    call->delta.log_slots = length + check_between(rng, 0, 3);
    if (interval == 1 && check_one_in(rng, 2)) { /* needs no log */
        call->delta.log_rows = call->delta.log_slots = 0;
        call->delta.map_position = call->delta.map_base_position = call->delta.map_log_row = call->delta.map_commit = 0;
    }
    return check_call_run(trial, &check_kernel_gated_delta_net, call, rng, "one call");
}

static int run_part(check_trial *trial, const check_call *before, check_call *next, check_rng *rng)
{
    const delta_seq *seq = &next->delta.seq[0];
    check_call_build(trial, &check_kernel_gated_delta_net, next, rng);
    if (before) {
        delta_copy_slot(&before->c, &before->delta, "state", before->result.image, seq->src, &next->c, &next->delta,
                        seq->src);
        if (seq->n_replayed)
            delta_copy_log(&before->c, before->result.image, before->delta.seq[0].log_row, &next->c, seq->log_row,
                           seq->position - seq->n_replayed, seq->position);
    }
    return check_trial_run(trial, &next->c, &next->result, "a part");
}

void check_state16(check_trial *trial, check_rng *rng)
{
    check_call *whole = check_trial_call(trial), *next = check_trial_call(trial), *before = NULL,
               *spare = check_trial_call(trial), *prefix = check_trial_call(trial);
    delta_spec drawn;
    draw(&drawn, rng);
    const int n = drawn.seq[0].length, interval = drawn.state_interval ? drawn.state_interval : 1;
    const int begin = interval * check_between(rng, 0, 9), most = check_between(rng, 1, 2 * interval + 2);
    const int columns = most + interval - 1 + check_between(rng, 0, 6), policy = check_between(rng, 0, 3);
    drawn.seq[0].position = begin;
    if (!run_prefix(trial, &drawn, interval, n, whole, rng)) return;

    int at = 0, base_position = 0, slot = 0;
    while (trial->outcome == CHECK_RAN && (at < n || base_position < n - n % interval)) {
        delta_seq *const seq = &next->delta.seq[0];
        int length = n - at < most ? n - at : check_between(rng, 1, most), kept = GDN_NONE;
        next->delta = drawn;
        next->delta.n_rows = next->delta.n_rows_out = ROWS;
        next->delta.log_slots = columns;
        if (at + length - base_position > columns) length = 0;
        const int without = at == base_position && length >= interval && check_one_in(rng, 2);
        if (without) length -= length % interval;
        const int commit = !without && (!length || policy == 0 || (policy == 1 && check_one_in(rng, 3)));
        seq->first = at;
        seq->length = length;
        seq->rejected = length && !without ? check_between(rng, 0, length - 1) : 0;
        seq->position = begin + at;
        seq->n_replayed = at - base_position;
        seq->log_row = without ? GDN_NONE : check_between(rng, 0, 1);
        seq->src = slot;
        seq->commit = commit ? check_between(rng, 0, ROWS - 1) : GDN_NONE;
        seq->dst[0] = GDN_NONE;
        if (without || (length && !commit && (at + length) % interval == 0 && !seq->rejected && check_one_in(rng, 2)))
            seq->dst[0] = kept = check_between(rng, 0, ROWS - 1);
        if (!run_part(trial, before, next, rng) || !same_outs(trial, whole, at, next, length - seq->rejected)) return;
        if (commit) {
            base_position = at - at % interval;
            slot = seq->commit;
        }
        at += length - seq->rejected;
        if (kept >= 0) {
            base_position = at;
            slot = kept;
        }
        if (base_position && (commit || kept >= 0) && check_one_in(rng, 3) &&
            (!run_prefix(trial, &drawn, interval, base_position, prefix, rng) ||
             !same_state(trial, prefix, next, slot)))
            return;
        before = next;
        next = spare;
        spare = before;
    }
    if (base_position && run_prefix(trial, &drawn, interval, base_position, prefix, rng))
        same_state(trial, prefix, before, slot);
}
