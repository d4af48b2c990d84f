/* Speculative decoding with a log instead of snapshots. Any split into calls gives the outputs and states of one call
 * without drafts. Some tokens are read without a row of the log, drafts are rejected, and some calls commit. The same
 * holds for 16-bit states, which are rounded after every `interval` tokens. */
#include "trial.h"

enum { ROWS = 3 };

static void draw(delta_spec *spec, int narrow, check_rng *rng)
{
    static const int dims[] = { 16, 17, 32, 33, 64, 128 }, intervals[] = { 0, 1, 2, 3, 4, 5, 8 };
    const int heads = check_between(rng, 1, 3), dim_v = CHECK_PICK(rng, dims), dim_k = CHECK_PICK(rng, dims);
    *spec = DELTA(1, 1, .n_heads_k = heads, .n_heads_v = heads * check_between(rng, 1, narrow ? 2 : 3), .dim_k = dim_k,
                  .dim_v = dim_v);
    delta_random_rest(spec, rng);
    if (narrow) {
        spec->dtype_state = check_between(rng, GDN_F16, GDN_BF16);
        spec->state_interval = CHECK_PICK(rng, intervals);
    }
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
    if (interval == 1 && (drawn->dtype_state == GDN_F32 || check_one_in(rng, 2))) { /* needs no log */
        call->delta.log_rows = call->delta.log_slots = 0;
        call->delta.map_position = call->delta.map_base_position = call->delta.map_log_row = call->delta.map_commit = 0;
    }
    return check_call_run(trial, &check_kernel_gated_delta_net, call, rng, "one call");
}

/* A call with the state and the log that `before` left. */
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
    return check_trial_run(trial, &next->c, &next->result, seq->length ? "a part" : "a commit");
}

static void check_parts(check_trial *trial, int narrow, check_rng *rng)
{
    check_call *whole = check_trial_call(trial), *next = check_trial_call(trial), *before = NULL,
               *spare = check_trial_call(trial), *prefix = check_trial_call(trial);
    delta_spec drawn;
    draw(&drawn, narrow, rng);
    const int n = drawn.seq[0].length, interval = drawn.state_interval ? drawn.state_interval : 1;
    const int begin = !narrow && check_one_in(rng, 8) ? INT32_MAX - n : interval * check_between(rng, 0, 9);
    const int most = check_between(rng, 1, narrow ? 2 * interval + 2 : 6);
    const int slots = most + interval - 1 + check_between(rng, 0, narrow ? 6 : 9);
    const int policy = check_between(rng, 0, 3); /* how often to commit: each call, now and then, when it has to be */
    drawn.seq[0].position = begin;
    if (!run_prefix(trial, &drawn, interval, n, whole, rng)) return;

    int at = 0, base_position = 0, slot = 0;
    while (trial->outcome == CHECK_RAN && (at < n || base_position < n - n % interval)) {
        delta_seq *const seq = &next->delta.seq[0];
        int length = n - at < most ? n - at : check_between(rng, 1, most), kept = GDN_NONE;
        next->delta = drawn;
        next->delta.n_rows = next->delta.n_rows_out = ROWS;
        next->delta.log_slots = slots;
        if (at + length - base_position > slots) length = 0; /* no room: only a commit */
        const int without = at == base_position && length >= interval && check_one_in(rng, 2);
        if (without) length -= length % interval;
        const int commit = !without && (!length || policy == 0 || (policy == 1 && check_one_in(rng, 3)));
        seq->first = at;
        seq->length = length;
        seq->rejected = length && !without ? check_between(rng, 0, length - 1) : 0;
        seq->position = begin + at;
        seq->n_replayed = at - base_position;
        seq->log_row = without ? GDN_NONE : check_between(rng, 0, 1); /* a row may move, if its entries go with it */
        seq->src = slot;
        seq->commit = commit ? check_between(rng, 0, ROWS - 1) : GDN_NONE;
        if (without || (length && !commit && (at + length) % interval == 0 && !seq->rejected && check_one_in(rng, 2)))
            kept = check_between(rng, 0, ROWS - 1);
        seq->dst[0] = kept;
        next->delta.n_snapshots = next->delta.map_dst = narrow || kept >= 0;
        if (!run_part(trial, before, next, rng) ||
            !delta_same_tokens(trial, whole, 0, at, next, 0, 0, length - seq->rejected, "a part"))
            return;
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
             !delta_same_state(trial, prefix, 0, next, slot, "a commit")))
            return;
        before = next;
        next = spare;
        spare = before;
    }
    if (base_position && run_prefix(trial, &drawn, interval, base_position, prefix, rng))
        delta_same_state(trial, prefix, 0, before, slot, "the last commit");
}

void check_log(check_trial *trial, check_rng *rng) { check_parts(trial, 0, rng); }
void check_state16(check_trial *trial, check_rng *rng) { check_parts(trial, 1, rng); }
