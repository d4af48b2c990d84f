/* Speculative decoding with a log instead of snapshots: any number of rounds, of which each has a few tokens, keeps any
 * number of them, and commits or does not, comes to the outputs and the state of a call that never saw a draft. */
#include "families.h"
#include "trial.h"

enum { ROWS = 3 };

static int same_token(check_trial *trial, const check_call *whole, int at, const check_call *round, int t)
{
    for (int h = 0; h < whole->delta.n_heads_v; h++)
        if (!check_trial_same(trial, delta_out(&whole->c, &whole->delta, whole->result.image, 0, at, h),
                              delta_out(&round->c, &round->delta, round->result.image, 0, t, h), whole->delta.dim_v,
                              "out at position %d, head %d", at, h))
            return 0;
    return 1;
}

static int same_state(check_trial *trial, const check_call *whole, int entry, const check_call *round, int committed)
{
    for (int h = 0; h < whole->delta.n_heads_v; h++)
        for (int j = 0; j < whole->delta.dim_v; j++)
            for (int i = 0; i < whole->delta.dim_k; i++)
                if (!check_trial_same(
                        trial, delta_state(&whole->c, &whole->delta, "state", whole->result.image, entry, h, i, j),
                        delta_state(&round->c, &round->delta, "state", round->result.image, committed, h, i, j), 1,
                        "the committed state, head %d, key %d, value %d", h, i, j))
                    return 0;
    return 1;
}

/* A round: `length` tokens, of which the last `rejected` are others. */
static int run_round(check_trial *trial, const check_call *before, check_call *next, const char *what, check_rng *rng)
{
    const delta_seq *seq = &next->delta.seq[0];
    check_call_build(trial, &check_kernel_gated_delta_net, next, rng);
    if (before) {
        delta_copy_slot(&before->c, &before->delta, "state", before->result.image, seq->src, &next->c, &next->delta,
                        seq->src);
        delta_copy_log(&before->c, before->result.image, before->delta.seq[0].log_row, &next->c, seq->log_row,
                       seq->position - seq->repeated, seq->position);
    }
    return check_trial_run(trial, &next->c, &next->result, what);
}

void check_log(check_trial *trial, check_rng *rng)
{
    static const int dims[] = { 16, 17, 32, 33, 64, 128 };
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    check_call *whole = check_trial_call(trial), *next = check_trial_call(trial), *before = NULL,
               *spare = check_trial_call(trial), *prefix = check_trial_call(trial);
    const int heads = check_between(rng, 1, 3), n = check_between(rng, 2, 16), most = check_between(rng, 1, 6);
    const int policy = check_between(rng, 0, 3); /* how often to commit: each round, now and then, when it has to be */
    const int begin = check_one_in(rng, 8) ? INT32_MAX - n : check_between(rng, 0, 60);
    delta_defaults(&whole->delta, heads, heads * check_between(rng, 1, 3), CHECK_PICK(rng, dims),
                   CHECK_PICK(rng, dims));
    whole->delta.head_map = check_between(rng, 0, 1);
    whole->delta.gate = check_between(rng, 0, 1);
    whole->delta.layout = check_between(rng, 0, 1);
    whole->delta.strided = check_between(rng, 0, 1);
    whole->delta.dtype[0] = whole->delta.dtype[1] = whole->delta.dtype[2] = CHECK_PICK(rng, types);
    whole->delta.seed = check_next(rng);
    delta_random_values(&whole->delta, rng);
    if (check_one_in(rng, 2)) delta_random_forms(&whole->delta, rng);
    delta_batch(&whole->delta, 1, n);
    whole->delta.seq[0].state_key = 3;
    if (!check_call_run(trial, &check_kernel_gated_delta_net, whole, rng, "all tokens")) return;

    int at = 0, stands = 0, slot = 0;
    const int columns = most + check_between(rng, 0, 9);
    while (trial->outcome == CHECK_RAN && (at < n || stands < n)) {
        delta_seq *seq = &next->delta.seq[0];
        int length = n - at < most ? n - at : check_between(rng, 1, most);
        if (at + length - stands > columns || at == n) /* no room: nothing but a commit */
            length = 0;
        const int commit = !length || policy == 0 || (policy == 1 && check_one_in(rng, 3));
        next->delta = whole->delta;
        next->delta.n_rows = next->delta.n_rows_out = ROWS;
        next->delta.n_snapshots = 0;
        next->delta.map_start = next->delta.map_src = next->delta.map_position = next->delta.map_stands = 1;
        next->delta.map_log_row = next->delta.map_commit = 1;
        next->delta.log_rows = 2;
        next->delta.log_columns = columns;
        seq->first = at;
        seq->length = length;
        seq->rejected = length ? check_between(rng, 0, length - 1) : 0;
        seq->src = slot;
        seq->position = begin + at;
        seq->repeated = at - stands;
        seq->log_row = check_between(rng, 0, 1); /* a row may be moved, as long as its columns go with it */
        seq->commit = !commit ? GDN_NONE : check_one_in(rng, 2) ? slot : check_between(rng, 0, ROWS - 1);
        if (!run_round(trial, before, next, length ? "a round" : "a commit", rng)) return;
        for (int t = 0; t < length - seq->rejected; t++)
            if (!same_token(trial, whole, at + t, next, t)) return;
        if (commit) {
            stands = at;
            slot = seq->commit;
        }
        at += length - seq->rejected;
        if (commit && stands && check_one_in(rng, 3)) {
            prefix->delta = whole->delta;
            prefix->delta.seq[0].length = stands;
            if (!check_call_run(trial, &check_kernel_gated_delta_net, prefix, rng, "a prefix") ||
                !same_state(trial, prefix, 0, next, slot))
                return;
        }
        before = next;
        next = spare;
        spare = before;
    }
    same_state(trial, whole, 0, before, slot);
}
