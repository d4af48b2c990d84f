/* Speculative decoding with a log instead of snapshots: any number of rounds, of which each has a few tokens, keeps any
 * number of them, and commits or does not, comes to the outputs and the state of a call that never saw a draft. */
#include "families.h"
#include "trial.h"

enum { ROWS = 3 };

/* A round: `length` tokens, of which the last `rejected` are others. */
static int run_round(check_trial *trial, const check_call *before, check_call *next, const char *what, check_rng *rng)
{
    const delta_seq *seq = &next->delta.seq[0];
    check_call_build(trial, &check_kernel_gated_delta_net, next, rng);
    if (before) {
        delta_copy_slot(&before->c, &before->delta, "state", before->result.image, seq->src, &next->c, &next->delta,
                        seq->src);
        delta_copy_log(&before->c, before->result.image, before->delta.seq[0].log_row, &next->c, seq->log_row,
                       seq->position - seq->n_replayed, seq->position);
    }
    return check_trial_run(trial, &next->c, &next->result, what);
}

void check_log(check_trial *trial, check_rng *rng)
{
    static const int dims[] = { 16, 17, 32, 33, 64, 128 };
    check_call *whole = check_trial_call(trial), *next = check_trial_call(trial), *before = NULL,
               *spare = check_trial_call(trial), *prefix = check_trial_call(trial);
    const int heads = check_between(rng, 1, 3), n = check_between(rng, 2, 16), most = check_between(rng, 1, 6);
    const int policy = check_between(rng, 0, 3); /* how often to commit: each round, now and then, when it has to be */
    const int begin = check_one_in(rng, 8) ? INT32_MAX - n : check_between(rng, 0, 60);
    const int dim_v = CHECK_PICK(rng, dims), dim_k = CHECK_PICK(rng, dims);
    delta_defaults(&whole->delta, heads, heads * check_between(rng, 1, 3), dim_k, dim_v);
    delta_random_ways(&whole->delta, rng);
    delta_batch(&whole->delta, 1, n);
    whole->delta.seq[0].state_key = 3;
    if (!check_call_run(trial, &check_kernel_gated_delta_net, whole, rng, "all tokens")) return;

    int at = 0, base_position = 0, slot = 0;
    const int columns = most + check_between(rng, 0, 9);
    while (trial->outcome == CHECK_RAN && (at < n || base_position < n)) {
        delta_seq *seq = &next->delta.seq[0];
        int length = n - at < most ? n - at : check_between(rng, 1, most);
        if (at + length - base_position > columns || at == n) /* no room: nothing but a commit */
            length = 0;
        const int commit = !length || policy == 0 || (policy == 1 && check_one_in(rng, 3));
        next->delta = whole->delta;
        next->delta.n_rows = next->delta.n_rows_out = ROWS;
        next->delta.n_snapshots = 0;
        next->delta.map_start = next->delta.map_src = next->delta.map_position = next->delta.map_base_position = 1;
        next->delta.map_log_row = next->delta.map_commit = 1;
        next->delta.log_rows = 2;
        next->delta.log_slots = columns;
        seq->first = at;
        seq->length = length;
        seq->rejected = length ? check_between(rng, 0, length - 1) : 0;
        seq->src = slot;
        seq->position = begin + at;
        seq->n_replayed = at - base_position;
        seq->log_row = check_between(rng, 0, 1); /* a row may be moved, as long as its columns go with it */
        seq->commit = !commit ? GDN_NONE : check_one_in(rng, 2) ? slot : check_between(rng, 0, ROWS - 1);
        if (!run_round(trial, before, next, length ? "a round" : "a commit", rng)) return;
        if (!delta_same_tokens(trial, whole, 0, at, next, 0, 0, length - seq->rejected, "a round")) return;
        if (commit) {
            base_position = at;
            slot = seq->commit;
        }
        at += length - seq->rejected;
        if (commit && base_position && check_one_in(rng, 3)) {
            prefix->delta = whole->delta;
            prefix->delta.seq[0].length = base_position;
            if (!check_call_run(trial, &check_kernel_gated_delta_net, prefix, rng, "a prefix") ||
                !delta_same_state(trial, prefix, 0, next, slot, "a commit"))
                return;
        }
        before = next;
        next = spare;
        spare = before;
    }
    delta_same_state(trial, whole, 0, before, slot, "the last commit");
}
