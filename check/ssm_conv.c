/* ssm_conv: the fixed list, and what must not change the bits. */
#include "specs.h"

#include <stdio.h>
#include <string.h>

#include "environment.h"
#include "families.h"
#include "ggml_cases.h"
#include "target.h"
#include "trial.h"

static void random_case(check_spec *spec, check_rng *rng) { conv_random(&spec->ssm_conv, rng); }

/* ---- the fixed list ---------------------------------------------------------------------------------------- */

static void set_no_sequences(conv_spec *spec) { conv_batch(spec, 0, 0); }
static void set_no_tokens(conv_spec *spec) { conv_batch(spec, 3, 0); }
static void set_no_history(conv_spec *spec)
{
    conv_batch(spec, 3, 5);
    spec->where = CONV_NOWHERE;
}
static void set_some_skipped(conv_spec *spec)
{
    conv_batch(spec, 5, 3);
    spec->map_src = 1;
    for (int s = 0; s < 5; s += 2) spec->seq[s].src = GDN_SKIP;
}
static void set_from_zero(conv_spec *spec)
{
    conv_batch(spec, 3, 2);
    spec->map_src = spec->map_position = 1;
    for (int s = 0; s < 3; s++) {
        spec->seq[s].src = GDN_NONE;
        spec->seq[s].position = 3 * s; /* the columns before are zeros and are written as such */
    }
}
static void set_nothing_kept(conv_spec *spec)
{
    conv_batch(spec, 3, 2);
    spec->map_dst = spec->map_position = 1;
    for (int s = 0; s < 3; s++) {
        spec->seq[s].dst = GDN_NONE;
        spec->seq[s].position = 20 + s;
    }
}
static void set_other_row(conv_spec *spec)
{
    spec->n_columns += 4;
    conv_batch(spec, 3, 2);
    spec->n_rows = spec->n_rows_out = 6;
    spec->map_dst = spec->map_position = 1;
    for (int s = 0; s < 3; s++) {
        spec->seq[s].dst = 5 - s;
        spec->seq[s].position = 4 * s; /* at 0, partly filled, full */
    }
}
static void set_shared_row(conv_spec *spec)
{
    spec->n_columns += 2;
    conv_batch(spec, 3, 4);
    spec->n_rows = spec->n_rows_out = 4;
    spec->map_src = spec->map_dst = spec->map_position = 1;
    for (int s = 0; s < 3; s++) {
        spec->seq[s].src = 3;
        spec->seq[s].key = 5;
        spec->seq[s].position = 11 - s; /* rolled back by 0, 1, 2 */
    }
}
static void set_ragged(conv_spec *spec)
{
    static const int lengths[] = { 0, 5, 0, 1, 12, 2, 0 };
    conv_batch(spec, 7, 0);
    spec->map_start = spec->map_position = 1;
    spec->lead = 2;
    spec->tail = 1;
    for (int s = 0; s < 7; s++) {
        spec->seq[s].length = lengths[s];
        spec->seq[s].position = 2 * s;
    }
}
static void set_strided(conv_spec *spec)
{
    set_ragged(spec);
    spec->strided = 1;
}
/* Every other sequence is empty and names as its source the row that the next one writes: allowed, since it
 * reads nothing. Who reads all the same races with that writer, which ThreadSanitizer sees. */
static void set_empty_source(conv_spec *spec)
{
    conv_batch(spec, 12, 5);
    spec->map_start = spec->map_position = spec->map_src = spec->map_dst = 1;
    for (int s = 0; s < 12; s += 2) {
        spec->seq[s].length = 0;
        spec->seq[s].position = 7;
        spec->seq[s].src = s + 1;
        spec->seq[s].dst = GDN_NONE;
        spec->seq[s + 1].src = GDN_NONE;
    }
}
static void set_far_position(conv_spec *spec)
{
    conv_batch(spec, 2, 7);
    spec->map_position = 1;
    spec->seq[0].position = INT32_MAX - 7;
    spec->seq[1].position = (1 << 24) + 1;
}
static const struct awkward {
    const char *name;
    void (*set)(conv_spec *spec);
    int values, length; /* without set: two sequences with these values */
} awkwards[] = {
    { "no_sequences", set_no_sequences, 0, 0 },
    { "no_tokens", set_no_tokens, 0, 0 },
    { "no_history", set_no_history, 0, 0 },
    { "some_skipped", set_some_skipped, 0, 0 },
    { "from_zero", set_from_zero, 0, 0 },
    { "nothing_kept", set_nothing_kept, 0, 0 },
    { "other_row", set_other_row, 0, 0 },
    { "shared_row", set_shared_row, 0, 0 },
    { "ragged", set_ragged, 0, 0 },
    { "strided", set_strided, 0, 0 },
    { "far_position", set_far_position, 0, 0 },
    { "subnormal", NULL, CHECK_SUBNORMAL, 3 },
    { "huge", NULL, CHECK_HUGE, 3 },
    { "wide", NULL, CHECK_WIDE, 9 },
    { "special", NULL, CHECK_SPECIAL, 9 },
    { "zeros", NULL, CHECK_ZEROS, 3 },
};

/* Every type of each operand: a token, several, and more than a piece of what is cut; a width with versions of its own
 * and one without. */
static void fixed_types(check_walk *w)
{
    conv_spec *spec = &w->spec->ssm_conv;
    static const char *const words[] = { "f32", "f16", "bf16" };
    static const int shapes[][3] = {
        { 1, 4, 0 }, { 6, 4, 1 }, { 70, 4, 0 }, { 5, 3, 0 }
    }; /* tokens, width, tap-major */
    static const int values[] = { CHECK_NORMAL, CHECK_TIES, CHECK_SPECIAL, CHECK_SUBNORMAL };
    for (int x = 0; x < 3; x++)
        for (int weight = 0; weight < 3; weight++)
            for (int out = 0; out < 3; out++)
                for (int history = 0; history < 3; history++)
                    for (int shape = 0; shape < CHECK_COUNT(shapes); shape++) {
                        if (!check_here(w)) continue;
                        conv_defaults(spec, 70, shapes[shape][1]);
                        conv_batch(spec, 2, shapes[shape][0]);
                        spec->n_columns += 2;
                        spec->map_position = spec->map_dst = 1;
                        spec->seq[0].position = 2;
                        spec->seq[1].position = 33;
                        spec->n_rows = spec->n_rows_out = 3;
                        spec->seq[1].dst = 2; /* the older columns come along */
                        spec->silu = out != history;
                        spec->tap_major = shapes[shape][2];
                        spec->dtype_x = x;
                        spec->dtype_weight = weight;
                        spec->dtype_bias = (x + weight) % 3;
                        spec->dtype_out = out;
                        spec->dtype_history = history;
                        spec->values = values[(x + weight + out + history) % CHECK_COUNT(values)];
                        CHECK_NAME(w, "types/%s_%s_%s_%s_%s_T%d_width%d", words[x], words[weight],
                                   words[spec->dtype_bias], words[out], words[history], shapes[shape][0],
                                   shapes[shape][1]);
                    }
}

static void set_threads(check_spec *spec, int threads)
{
    (void)threads;
    conv_defaults(&spec->ssm_conv, 700, 4);
    conv_batch(&spec->ssm_conv, 3, 5);
}

static void set_empty_sources(check_spec *spec)
{
    conv_defaults(&spec->ssm_conv, 700, 4);
    set_empty_source(&spec->ssm_conv);
}

static void walk_list(check_walk *w)
{
    conv_spec *spec = &w->spec->ssm_conv;
    static const int channels[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 200, 1024 };
    static const int lengths[] = { 1, 2, 3, 4, 5, 8, 17, 64 };
    for (int width = 1; width <= 16; width++)
        for (int silu = 0; silu < 2; silu++)
            for (int bias = 0; bias < 2; bias++)
                for (int tap_major = 0; tap_major < 2; tap_major++)
                    if (check_here(w)) {
                        conv_defaults(spec, 37, width);
                        conv_batch(spec, 3, 5);
                        spec->map_position = 1;
                        for (int s = 0; s < 3; s++) spec->seq[s].position = s * width;
                        spec->silu = silu;
                        spec->bias = bias;
                        spec->tap_major = tap_major;
                        CHECK_NAME(w, "widths/%d%s%s%s", width, silu ? "_silu" : "", bias ? "_bias" : "",
                                   tap_major ? "_tapmajor" : "");
                    }
    for (int i = 0; i < CHECK_COUNT(channels); i++)
        for (int j = 0; j < CHECK_COUNT(lengths); j++)
            if (check_here(w)) {
                conv_defaults(spec, channels[i], 4);
                conv_batch(spec, 2, lengths[j]);
                spec->map_position = 1;
                spec->seq[0].position = 2;
                spec->seq[1].position = 33;
                spec->silu = j & 1;
                CHECK_NAME(w, "channels/%d_T%d", channels[i], lengths[j]);
            }
    for (int extra = 0; extra < 6; extra++)
        for (int position = 0; position < 12; position++)
            for (int where = CONV_IN_PLACE; where <= CONV_APART; where++)
                if (check_here(w)) {
                    conv_defaults(spec, 24, 4);
                    spec->n_columns = 3 + extra;
                    conv_batch(spec, 2, 1 + extra);
                    spec->where = where;
                    spec->map_position = 1;
                    spec->seq[0].position = position;
                    spec->seq[1].position = position + 100;
                    CHECK_NAME(w, "ring/columns%d_at%d_%s", spec->n_columns, position,
                               where == CONV_IN_PLACE ? "in_place"
                               : where == CONV_SAME   ? "same"
                                                      : "apart");
                }
    for (int i = 0; i < CHECK_COUNT(awkwards); i++)
        for (int silu = 0; silu < 2; silu++)
            for (int width = 1; width <= 9; width += width == 1 ? 3 : 5)
                if (check_here(w)) {
                    conv_defaults(spec, 37, width);
                    spec->silu = silu;
                    if (awkwards[i].set) awkwards[i].set(spec);
                    else {
                        conv_batch(spec, 2, awkwards[i].length);
                        spec->values = awkwards[i].values;
                        spec->weight_values = spec->values == CHECK_ZEROS ? CHECK_ZEROS : CHECK_NORMAL;
                    }
                    CHECK_NAME(w, "%s/width%d%s", awkwards[i].name, width, silu ? "_silu" : "");
                }
    check_walk_threads(w, set_threads);
    check_walk_empty_sources(w, set_empty_sources);
    for (int environment = 0; environment < CHECK_ENV_COUNT; environment++)
        for (int silu = 0; silu < 2; silu++)
            if (check_here(w)) {
                conv_defaults(spec, 50, 4);
                conv_batch(spec, 2, 5);
                spec->silu = silu;
                spec->values = CHECK_SUBNORMAL;
                if (w->c) w->c->environment = environment;
                CHECK_NAME(w, "mode/%d%s", environment, silu ? "_silu" : "");
            }
    for (int i = 0; i < ggml_n_conv(); i++)
        if (check_here(w)) ggml_conv(i, spec, w->name, w->bytes);
    fixed_types(w);
    conv_fixed_checkpoints(w, spec);
    conv_fixed_tree(w, spec);
}

/* ---- what must not change the bits: see invariances_gated_delta_net.c ------------------------------------- */

static int run(check_trial *trial, check_call *call, check_rng *rng, const char *what)
{
    return check_call_run(trial, &check_kernel_ssm_conv, call, rng, what);
}

/* The newest columns of two rows, as many as both have. */
static int same_history(check_trial *trial, const check_call *a, int s, const check_call *b, int s2, const char *what)
{
    const conv_seq *x = &a->conv.seq[s], *y = &b->conv.seq[s2];
    const int columns = a->conv.n_columns < b->conv.n_columns ? a->conv.n_columns : b->conv.n_columns;
    const int64_t last = (int64_t)x->position + x->length;
    for (int64_t p = last - 1; p >= 0 && p >= last - columns; p--)
        if (!conv_same_column(trial, a, x->dst, p, b, y->dst, p, what)) return 0;
    return 1;
}

static void random_shape(conv_spec *spec, check_rng *rng)
{
    conv_defaults(spec, check_between(rng, 1, 150), check_between(rng, 1, 16));
    spec->n_columns = spec->width - 1 + check_between(rng, spec->width == 1, 6);
    conv_random_ways(spec, rng);
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

/* Rolling back and going on = never having gone further: the ring still holds the columns of up to as many
 * rejected tokens as it has spare columns, in place of the oldest ones. */
static void rollbacks(check_trial *trial, check_rng *rng)
{
    check_call *plain = check_trial_call(trial), *again = check_trial_call(trial);
    random_shape(&plain->conv, rng);
    plain->conv.n_columns = plain->conv.width - 1 + check_between(rng, 1, 6);
    random_batch(&plain->conv, rng, 1, 6);
    again->conv = plain->conv;
    if (!run(trial, plain, rng, "never gone further")) return;
    const conv_seq *seq = &again->conv.seq[0];
    const int spare = again->conv.n_columns - (again->conv.width - 1), n_rejected = check_between(rng, 1, spare);
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_call_build(trial, &check_kernel_ssm_conv, again, rng);
    check_initial(&again->c, image);
    for (int i = 0; i < n_rejected; i++)
        check_fill(conv_column(&again->c, &again->conv, "history", image, seq->src, (int64_t)seq->position + i),
                   again->conv.dtype_history, again->conv.n_channels, CHECK_SPECIAL, check_next(rng));
    if (!check_trial_run(trial, &again->c, &again->result, "after a rollback")) return;
    if (!conv_same_tokens(trial, plain, 0, 0, again, 0, 0, seq->length, "after a rollback")) return;
    const int64_t oldest = (int64_t)seq->position + n_rejected - again->conv.n_columns,
                  end_position = (int64_t)seq->position + seq->length;
    for (int64_t p = oldest > 0 ? oldest : 0; seq->length && p < end_position; p++)
        if (p >= end_position - again->conv.n_columns &&
            !conv_same_column(trial, plain, seq->dst, p, again, seq->dst, p, "after a rollback"))
            return;
}

/* A checkpoint has the columns that a call leaves which ends there, and with nothing but these a sequence goes on as if
 * there had been no cut. */
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
            if (!conv_same_column(trial, all, row, p, part, seq->dst, p, "checkpoint against prefix")) return;
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
        if (!check_trial_run(trial, &next->c, &next->result, "from a checkpoint") ||
            !conv_same_tokens(trial, all, 0, t + 1, next, 0, 0, n - t - 1, "from a checkpoint"))
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
    if (!run(trial, a, rng, "the first way")) return;
    if (way == 0 || way == 1) {
        b->conv.map_src = b->conv.map_dst = 1;
        b->conv.where = way == 0 ? CONV_IN_PLACE : CONV_APART;
        b->conv.n_rows_out = 2 * b->conv.n_seqs;
        if (way == 0) b->conv.n_rows = b->conv.n_rows_out;
        for (int s = 0; s < b->conv.n_seqs; s++) b->conv.seq[s].dst = 2 * b->conv.n_seqs - 1 - s;
    }
    if (way == 2) b->conv.n_columns += check_between(rng, 1, 5);
    if (way == 3) b->conv.tap_major = !a->conv.tap_major;
    if (way == 4)
        trial->setting.executor = CHECK_EXECUTOR(check_between(rng, 0, 2),
                                                 trial->threads->value[check_between(rng, 0, trial->threads->n - 1)]);
    if (way == 5) b->conv.strided = !a->conv.strided;
    if (!run(trial, b, rng, what[way])) return;
    for (int s = 0; s < a->conv.n_seqs; s++) {
        if (!conv_same_tokens(trial, a, s, 0, b, s, 0, a->conv.seq[s].length, what[way])) return;
        if (a->conv.seq[s].length && !same_history(trial, a, s, b, s, what[way])) return;
    }
}

static const check_family families[] = {
    { "splits", 60, splits },           { "batches", 40, batches },
    { "rollbacks", 40, rollbacks },     { "variants", 60, variants },
    { "checkpoints", 40, checkpoints }, { "trees", 40, check_history_trees },
    { "far", 2, check_far_histories },  { NULL, 0, NULL },
};

const check_suite check_suite_ssm_conv = { &check_kernel_ssm_conv, random_case, walk_list, families };
