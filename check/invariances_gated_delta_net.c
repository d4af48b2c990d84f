/* gated_delta_net: what must not change the bits. Every trial draws a call, makes it in two or more ways on
 * the target, and compares the results; each way is compared with the reference, too. */
#include <string.h>

#include "trial.h"

static int run(check_trial *trial, check_call *call, check_rng *rng, const char *what)
{
    return check_call_run(trial, &check_kernel_gated_delta_net, call, rng, what);
}

/* Sizes and values of a trial; no batch yet. */
static void random_shape(delta_spec *spec, check_rng *rng)
{
    static const int dims[] = { 16, 16, 17, 31, 32, 33, 48, 64, 100, 128 };
    const int dim_k = CHECK_PICK(rng, dims), heads = check_between(rng, 1, 3);
    const int dim_v = check_one_in(rng, 2) ? dim_k : CHECK_PICK(rng, dims);
    *spec =
        DELTA(1, 1, .n_heads_k = heads, .n_heads_v = heads * check_between(rng, 1, 2), .dim_k = dim_k, .dim_v = dim_v);
    delta_random_rest(spec, rng);
    delta_random_state(spec);
}

static void random_lengths(delta_spec *spec, check_rng *rng, int n, int most)
{
    delta_batch(spec, n, 0);
    spec->map_start = 1;
    for (int s = 0; s < n; s++) spec->seq[s].length = check_between(rng, 0, most);
}

/* Tokens [first, last) of one sequence of `whole`, as a call of its own on a packed copy of the tokens. */
static void take_part(const delta_spec *whole, int s, int first, int last, delta_spec *part, check_rng *rng)
{
    *part = *whole;
    part->n_seqs = 1;
    part->map_start = 1;
    part->lead = check_between(rng, 0, 2);
    part->tail = check_between(rng, 0, 2);
    part->seq[0] = whole->seq[s];
    part->seq[0].first += first;
    part->seq[0].length = last - first;
}

/* One call = any split into calls = token by token. The state goes from call to call, in place, and so do checkpoints.
 */
static void same_in_parts(check_trial *trial, const check_call *whole, int single, check_rng *rng)
{
    check_call *part = check_trial_call(trial), *next = check_trial_call(trial);
    const delta_spec *spec = &whole->delta;
    const delta_seq *seq = &spec->seq[0];
    const char *const how = single ? "token by token" : "in parts";
    const int n = seq->length;
    for (int t = 0, i = 0; t < n;) {
        const int length = single ? 1 : check_between(rng, 1, n - t < 9 ? n - t : 9);
        delta_seq *const of = &next->delta.seq[0];
        take_part(spec, 0, t, t + length, &next->delta, rng);
        next->delta.where = DELTA_IN_PLACE;
        of->position += t;
        for (int c = 0; c < spec->n_checkpoints; c++)
            of->checkpoint[c] = i + c < spec->n_checkpoints ? seq->checkpoint[i + c] : GDN_NONE;
        check_call_build(trial, &check_kernel_gated_delta_net, next, rng);
        if (t)
            delta_copy_slot(&part->c, &part->delta, "state", part->result.image, seq->dst[0], &next->c, &next->delta,
                            seq->src);
        if (!check_trial_run(trial, &next->c, &next->result, "a part") ||
            !delta_same_tokens(trial, whole, 0, t, next, 0, 0, length, how))
            return;
        const int end = i + (int)check_checkpoints(spec->interval, of->position, length);
        for (; i < end && i < spec->n_checkpoints; i++)
            if (!delta_same_state(trial, whole, seq->checkpoint[i], next, seq->checkpoint[i], how)) return;
        check_call *spent = part;
        part = next, next = spent;
        t += length;
    }
    delta_same_state(trial, whole, seq->dst[0], part, seq->dst[0], "after all parts");
}

static void splits(check_trial *trial, check_rng *rng)
{
    check_call *whole = check_trial_call(trial);
    const int most = check_one_in(rng, 4) ? 70 : 12;
    random_shape(&whole->delta, rng);
    delta_batch(&whole->delta, 1, check_between(rng, 2, most));
    if (run(trial, whole, rng, "the whole")) same_in_parts(trial, whole, trial->number % 3 == 0, rng);
}

/* A batch = its sequences one by one = the batch in another order. */
static void batches(check_trial *trial, check_rng *rng)
{
    check_call *all = check_trial_call(trial), *other = check_trial_call(trial), *one = check_trial_call(trial);
    int order[DELTA_MAX_SEQS];
    random_shape(&all->delta, rng);
    random_lengths(&all->delta, rng, check_between(rng, 2, 7), 8);
    const int n = all->delta.n_seqs;
    for (int s = 0; s < n; s++) {
        all->delta.seq[s].state_key = check_next(rng) | 1;
        order[s] = s;
    }
    check_shuffle(rng, order, n);
    other->delta = all->delta;
    other->delta.strided = check_between(rng, 0, 1);
    for (int s = 0; s < n; s++) { /* sequence order[s] in place s, its row likewise */
        other->delta.seq[s] = all->delta.seq[order[s]];
        other->delta.seq[s].src = other->delta.seq[s].dst[0] = s;
    }
    if (!run(trial, all, rng, "the batch") || !run(trial, other, rng, "the batch in another order")) return;
    for (int s = 0; s < n; s++) {
        const delta_seq *seq = &all->delta.seq[order[s]];
        if (!delta_same_tokens(trial, all, order[s], 0, other, s, 0, seq->length, "in another order") ||
            (seq->length && !delta_same_state(trial, all, order[s], other, s, "in another order")))
            return;
        take_part(&all->delta, order[s], 0, seq->length, &one->delta, rng);
        one->delta.map_src = one->delta.map_dst = 1; /* its row stays where it is */
        if (!run(trial, one, rng, "one sequence") ||
            !delta_same_tokens(trial, all, order[s], 0, one, 0, 0, seq->length, "alone") ||
            (seq->length && !delta_same_state(trial, all, order[s], one, order[s], "alone")))
            return;
    }
}

/* Snapshot r = the state after the prefix that leaves out the last r tokens. */
static void snapshots(check_trial *trial, check_rng *rng)
{
    check_call *all = check_trial_call(trial), *prefix = check_trial_call(trial);
    random_shape(&all->delta, rng);
    const int k = check_between(rng, 2, 8), n = check_between(rng, 1, 11);
    all->delta.n_slots = all->delta.n_slots_out = all->delta.n_snapshots = k;
    all->delta.where = check_between(rng, DELTA_IN_PLACE, DELTA_APART);
    delta_batch(&all->delta, 1, n);
    all->delta.seq[0].state_key = 3;
    if (check_one_in(rng, 2) && all->delta.where != DELTA_APART) {
        all->delta.map_src = all->delta.map_dst = 1;
        delta_ring(&all->delta, 0, 0, check_between(rng, 0, 50));
    }
    if (!run(trial, all, rng, "all tokens")) return;
    for (int r = 0; r < k && r < n; r++) {
        take_part(&all->delta, 0, 0, n - r, &prefix->delta, rng);
        prefix->delta.n_snapshots = 1;
        prefix->delta.map_src = prefix->delta.map_dst = 1;
        prefix->delta.seq[0].dst[0] = check_between(rng, 0, k - 1);
        if (!run(trial, prefix, rng, "a prefix") ||
            !delta_same_state(trial, all, all->delta.seq[0].dst[r], prefix, prefix->delta.seq[0].dst[0],
                              "snapshot against prefix"))
            return;
    }
}

/* Checkpoints change nothing else; each is the state after the tokens up to it; and they are the same in a call as in
 * any split of it into calls. */
static void checkpoints(check_trial *trial, check_rng *rng)
{
    check_call *all = check_trial_call(trial), *part = check_trial_call(trial);
    delta_spec *spec = &all->delta;
    delta_seq *seq = &spec->seq[0];
    random_shape(spec, rng);
    const int n = check_between(rng, 1, check_one_in(rng, 4) ? 70 : 14), slots = check_between(rng, 1, 3);
    spec->n_slots = spec->n_slots_out = spec->n_snapshots = slots;
    delta_batch(spec, 1, n);
    seq->state_key = 3;
    seq->position = check_between(rng, 0, 40);
    spec->map_src = spec->map_dst = spec->map_position = 1;
    spec->where = check_between(rng, DELTA_IN_PLACE, DELTA_APART);
    spec->interval = check_between(rng, 1, n < 40 ? 5 : 20);
    const int kept = (int)check_checkpoints(spec->interval, seq->position, n);
    spec->n_checkpoints = kept < 1 ? 1 : kept < DELTA_MAX_CHECKPOINTS ? kept : DELTA_MAX_CHECKPOINTS;
    spec->n_rows = spec->n_rows_out = 1 + (spec->n_checkpoints + slots - 1) / slots;
    for (int i = 0; i < spec->n_checkpoints; i++) seq->checkpoint[i] = slots + i;
    part->delta = *spec;
    part->delta.interval = part->delta.n_checkpoints = 0;
    if (!run(trial, all, rng, "all tokens") || !run(trial, part, rng, "without checkpoints") ||
        !delta_same_tokens(trial, all, 0, 0, part, 0, 0, n, "without checkpoints"))
        return;
    for (int r = 0; r < slots && r < n; r++)
        if (!delta_same_state(trial, all, seq->dst[r], part, seq->dst[r], "without checkpoints")) return;
    for (int t = 0, i = 0; t < n && i < kept && i < spec->n_checkpoints; t++) {
        if ((seq->position + t + 1) % spec->interval) continue;
        take_part(spec, 0, 0, t + 1, &part->delta, rng);
        part->delta.interval = part->delta.n_checkpoints = 0;
        part->delta.n_snapshots = 1;
        if (!run(trial, part, rng, "a prefix") ||
            !delta_same_state(trial, all, seq->checkpoint[i++], part, seq->dst[0], "checkpoint against prefix"))
            return;
    }
    same_in_parts(trial, all, 0, rng);
}

static void random_call(delta_spec *spec, check_rng *rng)
{
    random_shape(spec, rng);
    spec->n_slots = spec->n_slots_out = spec->n_snapshots = check_between(rng, 1, 3);
    random_lengths(spec, rng, check_between(rng, 1, 4), 7);
    for (int s = 0; s < spec->n_seqs; s++) spec->seq[s].state_key = check_next(rng) | 1;
}

/* out of all tokens, and the first n_snapshots states of each sequence. */
static int same_results(check_trial *trial, const check_call *a, const check_call *b, int n_snapshots, const char *what)
{
    for (int s = 0; s < a->delta.n_seqs; s++) {
        const delta_seq *x = &a->delta.seq[s], *y = &b->delta.seq[s];
        if (!delta_same_tokens(trial, a, s, 0, b, s, 0, x->length, what)) return 0;
        for (int r = 0; r < n_snapshots && r < x->length; r++)
            if (!delta_same_state(trial, a, x->dst[r], b, y->dst[r], what)) return 0;
    }
    return 1;
}

/* What makes another call of the same results: changes b, which is like a, or both, and says what it did. */
typedef const char *change_fn(const check_trial *trial, delta_spec *a, delta_spec *b, check_rng *rng);

static void same_call(check_trial *trial, check_rng *rng, change_fn *change)
{
    check_call *a = check_trial_call(trial), *b = check_trial_call(trial);
    random_call(&a->delta, rng);
    b->delta = a->delta;
    const char *what = change(trial, &a->delta, &b->delta, rng);
    if (run(trial, a, rng, "the first way") && run(trial, b, rng, what))
        same_results(trial, a, b, a->delta.n_snapshots, what);
}

static const char *other_layout(const check_trial *trial, delta_spec *a, delta_spec *b, check_rng *rng)
{
    (void)trial, (void)rng;
    b->layout = !a->layout;
    return "in the other state layout";
}

/* In place = into other slots of the pool = into a pool of its own. */
static const char *other_place(const check_trial *trial, delta_spec *a, delta_spec *b, check_rng *rng)
{
    const int apart = trial->number & 1, n = a->n_seqs;
    b->map_src = b->map_dst = 1;
    b->where = apart ? DELTA_APART : check_between(rng, DELTA_IN_PLACE, DELTA_SAME);
    b->n_rows_out = apart ? n + 2 : 2 * n;
    if (apart) b->n_slots_out = a->n_snapshots + 1;
    else b->n_rows = b->n_rows_out;
    for (int s = 0; s < n; s++)
        for (int r = 0; r < a->n_snapshots; r++)
            b->seq[s].dst[r] =
                apart ? (n - s) * b->n_slots_out + (r + s) % b->n_slots_out : (2 * n - 1 - s) * a->n_slots + r;
    return apart ? "into a pool of its own" : "into other rows";
}

/* Operands in 16 bits = the same values in 32. */
static const char *other_types(const check_trial *trial, delta_spec *a, delta_spec *b, check_rng *rng)
{
    (void)trial;
    for (int i = 0; i < 3; i++) {
        a->dtype[i] = check_between(rng, GDN_F16, GDN_BF16);
        b->dtype[i] = GDN_F32;
        b->narrow[i] = a->dtype[i];
    }
    return "widened to F32";
}

/* Packed = strided, shifted, permuted, fused. */
static const char *other_strides(const check_trial *trial, delta_spec *a, delta_spec *b, check_rng *rng)
{
    (void)trial, (void)rng;
    a->strided = 0;
    b->strided = 1;
    return "strided";
}

static void layouts(check_trial *trial, check_rng *rng) { same_call(trial, rng, other_layout); }
static void places(check_trial *trial, check_rng *rng) { same_call(trial, rng, other_place); }
static void types(check_trial *trial, check_rng *rng) { same_call(trial, rng, other_types); }
static void strides(check_trial *trial, check_rng *rng) { same_call(trial, rng, other_strides); }

/* Any number of threads, the library's or the caller's, in any order; and any floating-point mode of the caller. */
static void threads(check_trial *trial, check_rng *rng)
{
    check_call *a = check_trial_call(trial), *b = check_trial_call(trial);
    random_call(&a->delta, rng);
    b->delta = a->delta;
    check_setting setting = trial->setting;
    trial->setting.executor = CHECK_EXECUTOR(CHECK_THREADS_LIBRARY, 1);
    trial->setting.environment = 0;
    if (!run(trial, a, rng, "one thread")) return;
    for (int i = 0; i < trial->threads->n; i++) {
        setting.executor = CHECK_EXECUTOR((i + trial->number) % 3, trial->threads->value[i]);
        trial->setting = setting;
        b->delta.strided = i & 1;
        if (!run(trial, b, rng, "other threads")) return;
        if (!same_results(trial, a, b, 1, "with other threads")) return;
    }
}

/* Grouped heads = tiled heads whose operands are permuted: head h of the one is head p(h) of the other. */
static void heads(check_trial *trial, check_rng *rng)
{
    check_call *a = check_trial_call(trial), *b = check_trial_call(trial);
    random_call(&a->delta, rng);
    const int r = check_between(rng, 2, 4), n = a->delta.n_heads_k = check_between(rng, 2, 3);
    a->delta.n_heads_v = r * n;
    a->delta.call.args.head_map = GDN_HEADS_GROUPED;
    b->delta = a->delta;
    b->delta.call.args.head_map = GDN_HEADS_TILED;
    b->delta.permuted = 1;
    if (!run(trial, a, rng, "grouped") || !run(trial, b, rng, "tiled")) return;
    for (int s = 0; s < a->delta.n_seqs; s++)
        for (int h = 0; h < n * r; h++) {
            const int of = h % n * r + h / n; /* tiled head h has the data of this grouped one */
            for (int t = 0; t < a->delta.seq[s].length; t++)
                if (!check_trial_same(trial, delta_out(&a->c, &a->delta, a->result.image, s, t, of),
                                      delta_out(&b->c, &b->delta, b->result.image, s, t, h), a->delta.dim_v,
                                      "grouped head %d against tiled head %d: sequence %d, token %d", of, h, s, t))
                    return;
            for (int j = 0; a->delta.seq[s].length && j < a->delta.dim_v; j++)
                for (int i = 0; i < a->delta.dim_k; i++)
                    if (!check_trial_same_of(
                            trial, a->delta.dtype_state,
                            delta_state(&a->c, &a->delta, "state", a->result.image, a->delta.seq[s].dst[0], of, i, j),
                            delta_state(&b->c, &b->delta, "state", b->result.image, b->delta.seq[s].dst[0], h, i, j), 1,
                            "grouped head %d against tiled head %d: state of sequence %d, key %d, value %d", of, h, s,
                            i, j))
                        return;
        }
}

const check_family check_families_gated_delta_net[] = {
    { "splits", 60, splits },         { "batches", 40, batches },
    { "snapshots", 40, snapshots },   { "layouts", 60, layouts },
    { "places", 60, places },         { "threads", 24, threads },
    { "heads", 40, heads },           { "types", 40, types },
    { "strides", 40, strides },       { "checkpoints", 40, checkpoints },
    { "log", 40, check_log },         { "trees", 40, check_state_trees },
    { "state16", 40, check_state16 }, { "chunked", 60, check_chunked },
    { "far", 4, check_far_states },   { NULL, 0, NULL },
};
