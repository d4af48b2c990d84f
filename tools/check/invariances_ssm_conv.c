/* ssm_conv: what must not change the bits. See invariances_gated_delta_net.c. */
#include <string.h>

#include "families.h"
#include "trial.h"

static int run(check_trial *trial, check_call *call, check_rng *rng, const char *what)
{
    return check_call_run(trial, &check_kernel_ssm_conv, call, rng, what);
}

static int same_token(check_trial *trial, const check_call *a, int s, int t, const check_call *b, int s2, int t2,
                      const char *what)
{
    return check_trial_same_of(trial, a->conv.dtype_out, conv_token(&a->c, &a->conv, "out", a->result.image, s, t),
                               conv_token(&b->c, &b->conv, "out", b->result.image, s2, t2), a->conv.n_channels,
                               "%s: out of sequence %d, token %d", what, s, t);
}

/* The newest columns of two rows, as many as both have. */
static int same_history(check_trial *trial, const check_call *a, int s, const check_call *b, int s2, const char *what)
{
    const conv_seq *x = &a->conv.seq[s], *y = &b->conv.seq[s2];
    const int columns = a->conv.n_columns < b->conv.n_columns ? a->conv.n_columns : b->conv.n_columns;
    const int64_t last = (int64_t)x->position + x->length;
    for (int64_t p = last - 1; p >= 0 && p >= last - columns; p--)
        if (!check_trial_same_of(trial, a->conv.dtype_history,
                                 conv_column(&a->c, &a->conv, a->conv.where == CONV_APART ? "history_out" : "history",
                                             a->result.image, x->dst, p),
                                 conv_column(&b->c, &b->conv, b->conv.where == CONV_APART ? "history_out" : "history",
                                             b->result.image, y->dst, p),
                                 a->conv.n_channels, "%s: history of sequence %d, position %lld", what, s,
                                 (long long)p))
            return 0;
    return 1;
}

static void random_shape(conv_spec *spec, check_rng *rng)
{
    static const int values[] = { CHECK_NORMAL, CHECK_NORMAL, CHECK_WIDE, CHECK_SUBNORMAL, CHECK_SPECIAL };
    conv_defaults(spec, check_between(rng, 1, 150), check_between(rng, 1, 16));
    spec->n_columns = spec->width - 1 + check_between(rng, spec->width == 1, 6);
    spec->silu = check_between(rng, 0, 1);
    spec->bias = check_between(rng, 0, 1);
    spec->tap_major = check_between(rng, 0, 1);
    spec->strided = check_between(rng, 0, 1);
    spec->values = CHECK_PICK(rng, values);
    spec->seed = check_next(rng);
    conv_random_types(spec, 1, rng);
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
    if (!run(trial, whole, rng, "the whole"))
        return;
    const int n = whole->conv.seq[0].length;
    for (int t = 0; t < n;) {
        const int length = single ? 1 : check_between(rng, 1, n - t < 9 ? n - t : 9);
        take_part(&whole->conv, 0, t, t + length, &part->conv, rng);
        if (!run(trial, part, rng, "a part"))
            return;
        for (int i = 0; i < length; i++)
            if (!same_token(trial, whole, 0, t + i, part, 0, i, single ? "token by token" : "in parts"))
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
    for (int s = 0; s < all->conv.n_seqs; s++)
        order[s] = s;
    check_shuffle(rng, order, all->conv.n_seqs);
    for (int s = 0; s < all->conv.n_seqs; s++) {
        other->conv.seq[s] = all->conv.seq[order[s]];
        other->conv.seq[s].src = other->conv.seq[s].dst = s;
    }
    if (!run(trial, all, rng, "the batch") || !run(trial, other, rng, "the batch in another order"))
        return;
    for (int s = 0; s < all->conv.n_seqs; s++) {
        const int length = other->conv.seq[s].length;
        take_part(&all->conv, order[s], 0, length, &one->conv, rng);
        if (!run(trial, one, rng, "one sequence"))
            return;
        for (int t = 0; t < length; t++)
            if (!same_token(trial, all, order[s], t, other, s, t, "in another order") ||
                !same_token(trial, all, order[s], t, one, 0, t, "alone"))
                return;
        if (length && (!same_history(trial, all, order[s], other, s, "in another order") ||
                       !same_history(trial, all, order[s], one, 0, "alone")))
            return;
    }
}

/* Rolling back and going on = never having gone further: the ring still holds the columns of up to as many
 * rejected tokens as it has spare columns, in place of the oldest ones. */
static void rollbacks(check_trial *trial, check_rng *rng)
{
    check_call *plain = check_trial_call(trial), *again = check_trial_call(trial);
    random_shape(&plain->conv, rng);
    plain->conv.n_columns = plain->conv.width - 1 + check_between(rng, 1, 6);
    random_batch(&plain->conv, rng, 1, 6);
    again->conv = plain->conv;
    if (!run(trial, plain, rng, "never gone further"))
        return;
    const conv_seq *seq = &again->conv.seq[0];
    const int spare = again->conv.n_columns - (again->conv.width - 1), n_rejected = check_between(rng, 1, spare);
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_call_build(trial, &check_kernel_ssm_conv, again, rng);
    check_initial(&again->c, image);
    for (int i = 0; i < n_rejected; i++)
        check_fill(conv_column(&again->c, &again->conv, "history", image, seq->src, (int64_t)seq->position + i),
                   again->conv.dtype_history, again->conv.n_channels, CHECK_SPECIAL, check_next(rng));
    if (!check_trial_run(trial, &again->c, &again->result, "after a rollback"))
        return;
    for (int t = 0; t < seq->length; t++)
        if (!same_token(trial, plain, 0, t, again, 0, t, "after a rollback"))
            return;
    const int64_t oldest = (int64_t)seq->position + n_rejected - again->conv.n_columns,
                  end_position = (int64_t)seq->position + seq->length;
    for (int64_t p = oldest > 0 ? oldest : 0; seq->length && p < end_position; p++)
        if (p >= end_position - again->conv.n_columns &&
            !check_trial_same_of(trial, plain->conv.dtype_history,
                                 conv_column(&plain->c, &plain->conv, "history", plain->result.image, seq->dst, p),
                                 conv_column(&again->c, &again->conv, "history", again->result.image, seq->dst, p),
                                 again->conv.n_channels, "history after a rollback, position %lld", (long long)p))
            return;
}

/* A checkpoint has the columns that a call leaves which ends there, and with nothing but these a sequence goes on as if
 * there had been no cut. */
static void checkpoints(check_trial *trial, check_rng *rng)
{
    check_call *all = check_trial_call(trial), *part = check_trial_call(trial), *next = check_trial_call(trial);
    conv_spec *spec = &all->conv;
    conv_seq  *seq = &spec->seq[0];
    random_shape(spec, rng);
    random_batch(spec, rng, 1, 1);
    const int n = seq->length = check_between(rng, 1, check_one_in(rng, 3) ? 70 : 12), reach = spec->width - 1;
    spec->where = check_between(rng, CONV_IN_PLACE, CONV_APART);
    spec->interval = check_between(rng, 1, n < 20 ? 4 : 20);
    const int kept = (int)check_checkpoints(spec->interval, seq->position, n);
    spec->n_checkpoints = kept < 1 ? 1 : kept < CONV_MAX_CHECKPOINTS ? kept : CONV_MAX_CHECKPOINTS;
    spec->n_rows = spec->n_rows_out = 1 + spec->n_checkpoints;
    for (int i = 0; i < spec->n_checkpoints; i++)
        seq->checkpoint[i] = 1 + i;
    const char *const pool = spec->where == CONV_APART ? "history_out" : "history";
    if (!run(trial, all, rng, "all tokens"))
        return;
    for (int t = 0, i = 0; t < n && i < kept && i < spec->n_checkpoints; t++) {
        const int64_t length = (int64_t)seq->position + t + 1;
        const int     row = seq->checkpoint[i];
        if (length % spec->interval)
            continue;
        i++;
        take_part(spec, 0, 0, t + 1, &part->conv, rng);
        part->conv.interval = part->conv.n_checkpoints = 0;
        part->conv.where = CONV_IN_PLACE;
        if (!run(trial, part, rng, "a prefix"))
            return;
        for (int64_t p = length - reach > 0 ? length - reach : 0; p < length; p++)
            if (!check_trial_same_of(
                    trial, spec->dtype_history, conv_column(&all->c, spec, pool, all->result.image, row, p),
                    conv_column(&part->c, &part->conv, "history", part->result.image, seq->dst, p), spec->n_channels,
                    "checkpoint at %lld against prefix, position %lld", (long long)length, (long long)p))
                return;
        take_part(spec, 0, t + 1, n, &next->conv, rng);
        next->conv.interval = next->conv.n_checkpoints = 0;
        next->conv.where = CONV_IN_PLACE;
        check_call_build(trial, &check_kernel_ssm_conv, next, rng);
        unsigned char *image[CHECK_MAX_MEMORIES];
        check_initial(&next->c, image);
        for (int column = 0; column < spec->n_columns; column++)
            memcpy(conv_column(&next->c, &next->conv, "history", image, seq->src, column),
                   conv_column(&all->c, spec, pool, all->result.image, row, column),
                   check_unit_bytes(spec->dtype_history) * (uint64_t)spec->n_channels);
        if (!check_trial_run(trial, &next->c, &next->result, "from a checkpoint"))
            return;
        for (int u = t + 1; u < n; u++)
            if (!same_token(trial, all, 0, u, next, 0, u - t - 1, "from a checkpoint"))
                return;
    }
}

/* Other rows, a pool of its own, more columns, the other order of weights, other threads, strides. */
static void variants(check_trial *trial, check_rng *rng)
{
    static const char *const what[] = { "into another row",   "into a pool of its own",
                                        "with more columns",  "with the other order of weights",
                                        "with other threads", "strided" };
    check_call *a = check_trial_call(trial), *b = check_trial_call(trial);
    const int way = trial->number % (int)(sizeof what / sizeof what[0]);
    random_shape(&a->conv, rng);
    random_batch(&a->conv, rng, check_between(rng, 1, 4), 6);
    b->conv = a->conv;
    if (!run(trial, a, rng, "the first way"))
        return;
    if (way == 0 || way == 1) {
        b->conv.map_src = b->conv.map_dst = 1;
        b->conv.where = way == 0 ? CONV_IN_PLACE : CONV_APART;
        b->conv.n_rows_out = 2 * b->conv.n_seqs;
        if (way == 0)
            b->conv.n_rows = b->conv.n_rows_out;
        for (int s = 0; s < b->conv.n_seqs; s++)
            b->conv.seq[s].dst = 2 * b->conv.n_seqs - 1 - s;
    }
    if (way == 2)
        b->conv.n_columns += check_between(rng, 1, 5);
    if (way == 3)
        b->conv.tap_major = !a->conv.tap_major;
    if (way == 4)
        trial->setting.executor = CHECK_EXECUTOR(check_between(rng, 0, 2),
                                                 trial->threads->value[check_between(rng, 0, trial->threads->n - 1)]);
    if (way == 5)
        b->conv.strided = !a->conv.strided;
    if (!run(trial, b, rng, what[way]))
        return;
    for (int s = 0; s < a->conv.n_seqs; s++) {
        for (int t = 0; t < a->conv.seq[s].length; t++)
            if (!same_token(trial, a, s, t, b, s, t, what[way]))
                return;
        if (a->conv.seq[s].length && !same_history(trial, a, s, b, s, what[way]))
            return;
    }
}

const check_family check_families_ssm_conv[] = {
    { "splits", 60, splits },     { "batches", 40, batches },        { "rollbacks", 40, rollbacks },
    { "variants", 60, variants }, { "checkpoints", 40, checkpoints }, { "trees", 40, check_history_trees },
    { "far", 2, check_far_histories }, { NULL, 0, NULL },
};
