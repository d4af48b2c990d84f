/* ssm_conv: what must not change the bits. See invariances_gated_delta_net.c. */
#include <stdio.h>
#include <string.h>

#include "trial.h"

static int run(check_trial *trial, check_call *call, check_rng *rng, const char *what)
{
    return check_call_run(trial, &check_kernel_ssm_conv, call, rng, what);
}

/* The newest entries of two rows, as many as both have. */
static int same_history(check_trial *trial, const check_call *a, int s, const check_call *b, int s2, const char *what)
{
    const conv_seq *x = &a->conv.seq[s], *y = &b->conv.seq[s2];
    const int entries = a->conv.n_slots < b->conv.n_slots ? a->conv.n_slots : b->conv.n_slots;
    const int64_t last = (int64_t)x->position + x->length;
    for (int64_t p = last - 1; p >= 0 && p >= last - entries; p--)
        if (!conv_same_slot(trial, a, x->dst, p, b, y->dst, p, what)) return 0;
    return 1;
}

static void random_shape(conv_spec *spec, check_rng *rng)
{
    const int width = check_between(rng, 1, 16);
    *spec = CONV(1, 1, .n_channels = check_between(rng, 1, 150), .width = width);
    spec->n_slots = spec->width - 1 + check_between(rng, spec->width == 1, 6);
    conv_random_rest(spec, rng);
    spec->map_position = spec->map_start = 1;
}

static void random_batch(conv_spec *spec, check_rng *rng, int n, int most)
{
    conv_batch(spec, n, 0);
    for (int s = 0; s < n; s++) {
        spec->seq[s].length = check_between(rng, 0, most);
        spec->seq[s].position = check_one_in(rng, 3) ? check_between(rng, 0, 3) : check_between(rng, 0, 100);
        spec->seq[s].key = check_next(rng) >> 1;
    }
}

/* Tokens [first, last) as a call of their own. The history before them is built from the same data, so it
 * is what the call before leaves there; that it does is compared as well. */
static void take_part(const conv_spec *whole, int s, int first, int last, conv_spec *part, check_rng *rng)
{
    *part = *whole;
    part->n_seqs = 1;
    part->map_src = part->map_dst = 1;
    part->lead = check_between(rng, 0, 2);
    part->tail = check_between(rng, 0, 2);
    part->seq[0] = whole->seq[s];
    part->seq[0].position += first;
    part->seq[0].length = last - first;
}

static void splits(check_trial *trial, check_rng *rng)
{
    check_call *whole = check_trial_call(trial), *part = check_trial_call(trial);
    const int single = trial->number % 3 == 0;
    random_shape(&whole->conv, rng);
    random_batch(&whole->conv, rng, 1, 1);
    whole->conv.seq[0].length = check_between(rng, 2, 30);
    if (!run(trial, whole, rng, "the whole")) return;
    const int n = whole->conv.seq[0].length;
    for (int t = 0; t < n;) {
        const int length = single ? 1 : check_between(rng, 1, n - t < 9 ? n - t : 9);
        take_part(&whole->conv, 0, t, t + length, &part->conv, rng);
        if (!run(trial, part, rng, "a part") ||
            !conv_same_tokens(trial, whole, 0, t, part, 0, 0, length, single ? "token by token" : "in parts"))
            return;
        t += length;
    }
    same_history(trial, whole, 0, part, 0, "after all parts");
}

static void batches(check_trial *trial, check_rng *rng)
{
    check_call *all = check_trial_call(trial), *other = check_trial_call(trial), *one = check_trial_call(trial);
    int order[CONV_MAX_SEQS];
    random_shape(&all->conv, rng);
    random_batch(&all->conv, rng, check_between(rng, 2, 8), 7);
    other->conv = all->conv;
    other->conv.strided = check_between(rng, 0, 1);
    for (int s = 0; s < all->conv.n_seqs; s++) order[s] = s;
    check_shuffle(rng, order, all->conv.n_seqs);
    for (int s = 0; s < all->conv.n_seqs; s++) {
        other->conv.seq[s] = all->conv.seq[order[s]];
        other->conv.seq[s].src = other->conv.seq[s].dst = s;
    }
    if (!run(trial, all, rng, "the batch") || !run(trial, other, rng, "the batch in another order")) return;
    for (int s = 0; s < all->conv.n_seqs; s++) {
        const int length = other->conv.seq[s].length;
        take_part(&all->conv, order[s], 0, length, &one->conv, rng);
        if (!run(trial, one, rng, "one sequence") ||
            !conv_same_tokens(trial, all, order[s], 0, other, s, 0, length, "in another order") ||
            !conv_same_tokens(trial, all, order[s], 0, one, 0, 0, length, "alone"))
            return;
        if (length && (!same_history(trial, all, order[s], other, s, "in another order") ||
                       !same_history(trial, all, order[s], one, 0, "alone")))
            return;
    }
}

/* Rolling back and going on gives the results of decoding without the rejected tokens. The ring holds as many rejected
 * tokens as it has spare slots, in place of the oldest entries. */
static void rollbacks(check_trial *trial, check_rng *rng)
{
    check_call *plain = check_trial_call(trial), *again = check_trial_call(trial);
    random_shape(&plain->conv, rng);
    plain->conv.n_slots = plain->conv.width - 1 + check_between(rng, 1, 6);
    random_batch(&plain->conv, rng, 1, 6);
    again->conv = plain->conv;
    if (!run(trial, plain, rng, "never gone further")) return;
    const conv_seq *seq = &again->conv.seq[0];
    const int spare = again->conv.n_slots - (again->conv.width - 1), n_rejected = check_between(rng, 1, spare);
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_call_build(trial, &check_kernel_ssm_conv, again, rng);
    check_initial(&again->c, image);
    for (int i = 0; i < n_rejected; i++)
        check_fill(conv_slot(&again->c, &again->conv, "history", image, seq->src, (int64_t)seq->position + i),
                   again->conv.dtype_history, again->conv.n_channels, CHECK_SPECIAL, check_next(rng));
    if (!check_trial_run(trial, &again->c, &again->result, "after a rollback")) return;
    if (!conv_same_tokens(trial, plain, 0, 0, again, 0, 0, seq->length, "after a rollback")) return;
    const int64_t oldest = (int64_t)seq->position + n_rejected - again->conv.n_slots,
                  end_position = (int64_t)seq->position + seq->length;
    for (int64_t p = oldest > 0 ? oldest : 0; seq->length && p < end_position; p++)
        if (p >= end_position - again->conv.n_slots &&
            !conv_same_slot(trial, plain, seq->dst, p, again, seq->dst, p, "after a rollback"))
            return;
}

/* A checkpoint has the entries that a call which ends there leaves. A sequence that goes on from them alone gives the
 * results of one call. */
static void checkpoints(check_trial *trial, check_rng *rng)
{
    check_call *all = check_trial_call(trial), *part = check_trial_call(trial), *next = check_trial_call(trial);
    conv_spec *spec = &all->conv;
    conv_seq *seq = &spec->seq[0];
    random_shape(spec, rng);
    random_batch(spec, rng, 1, 1);
    const int n = seq->length = check_between(rng, 1, check_one_in(rng, 3) ? 70 : 12), reach = spec->width - 1;
    spec->where = check_between(rng, CONV_IN_PLACE, CONV_APART);
    spec->interval = check_between(rng, 1, n < 20 ? 4 : 20);
    const int kept = (int)check_checkpoints(spec->interval, seq->position, n);
    spec->n_checkpoints = kept < 1 ? 1 : kept < CONV_MAX_CHECKPOINTS ? kept : CONV_MAX_CHECKPOINTS;
    spec->n_rows = spec->n_rows_out = 1 + spec->n_checkpoints;
    for (int i = 0; i < spec->n_checkpoints; i++) seq->checkpoint[i] = 1 + i;
    const char *const pool = spec->where == CONV_APART ? "history_out" : "history";
    if (!run(trial, all, rng, "all tokens")) return;
    for (int t = 0, i = 0; t < n && i < kept && i < spec->n_checkpoints; t++) {
        const int64_t length = (int64_t)seq->position + t + 1;
        const int row = seq->checkpoint[i];
        if (length % spec->interval) continue;
        i++;
        take_part(spec, 0, 0, t + 1, &part->conv, rng);
        part->conv.interval = part->conv.n_checkpoints = 0;
        part->conv.where = CONV_IN_PLACE;
        if (!run(trial, part, rng, "a prefix")) return;
        for (int64_t p = length - reach > 0 ? length - reach : 0; p < length; p++)
            if (!conv_same_slot(trial, all, row, p, part, seq->dst, p, "checkpoint against prefix")) return;
        take_part(spec, 0, t + 1, n, &next->conv, rng);
        next->conv.interval = next->conv.n_checkpoints = 0;
        next->conv.where = CONV_IN_PLACE;
        check_call_build(trial, &check_kernel_ssm_conv, next, rng);
        unsigned char *image[CHECK_MAX_MEMORIES];
        check_initial(&next->c, image);
        for (int slot = 0; slot < spec->n_slots; slot++)
            memcpy(conv_slot(&next->c, &next->conv, "history", image, seq->src, slot),
                   conv_slot(&all->c, spec, pool, all->result.image, row, slot),
                   check_unit_bytes(spec->dtype_history) * (uint64_t)spec->n_channels);
        if (!check_trial_run(trial, &next->c, &next->result, "from a checkpoint") ||
            !conv_same_tokens(trial, all, 0, t + 1, next, 0, 0, n - t - 1, "from a checkpoint"))
            return;
    }
}

/* Other rows, a pool of its own, more slots, the other order of weights, other threads, strides. */
static void variants(check_trial *trial, check_rng *rng)
{
    static const char *const what[] = { "into another row",   "into a pool of its own",
                                        "with more slots",    "with the other order of weights",
                                        "with other threads", "strided" };
    check_call *a = check_trial_call(trial), *b = check_trial_call(trial);
    const int way = trial->number % (int)(sizeof what / sizeof what[0]);
    random_shape(&a->conv, rng);
    random_batch(&a->conv, rng, check_between(rng, 1, 4), 6);
    b->conv = a->conv;
    if (!run(trial, a, rng, "the first way")) return;
    if (way == 0 || way == 1) {
        b->conv.map_src = b->conv.map_dst = 1;
        b->conv.where = way == 0 ? CONV_IN_PLACE : CONV_APART;
        b->conv.n_rows_out = 2 * b->conv.n_seqs;
        if (way == 0) b->conv.n_rows = b->conv.n_rows_out;
        for (int s = 0; s < b->conv.n_seqs; s++) b->conv.seq[s].dst = 2 * b->conv.n_seqs - 1 - s;
    }
    if (way == 2) b->conv.n_slots += check_between(rng, 1, 5);
    if (way == 3) b->conv.tap_major = !a->conv.tap_major;
    if (way == 4) {
        const int kind = check_between(rng, 0, 2);
        trial->setting.executor =
            CHECK_EXECUTOR(kind, trial->threads->value[check_between(rng, 0, trial->threads->n - 1)]);
    }
    if (way == 5) b->conv.strided = !a->conv.strided;
    if (!run(trial, b, rng, what[way])) return;
    for (int s = 0; s < a->conv.n_seqs; s++) {
        if (!conv_same_tokens(trial, a, s, 0, b, s, 0, a->conv.seq[s].length, what[way])) return;
        if (a->conv.seq[s].length && !same_history(trial, a, s, b, s, what[way])) return;
    }
}

const check_family check_families_ssm_conv[] = {
    { "splits", 60, splits },           { "batches", 40, batches },
    { "rollbacks", 40, rollbacks },     { "variants", 60, variants },
    { "checkpoints", 40, checkpoints }, { "trees", 40, check_history_trees },
    { "far", 2, check_far_histories },  { NULL, 0, NULL },
};
