/* gated_delta_net: what must not change the bits. Every trial draws a call, makes it in two or more ways on
 * the target, and compares the results; each way is compared with the reference, too. */
#include <stdlib.h>
#include <string.h>

#include "families.h"
#include "gated_delta_net.h"
#include "trial.h"

/* A call: its specification, its memory, its result. */
typedef struct delta_call {
    delta_spec   spec;
    check_case   c;
    check_result result;
} delta_call;

static void build(check_trial *trial, delta_call *call, check_rng *rng)
{
    check_case_begin(&call->c, &check_kernel_gated_delta_net, &trial->setting);
    delta_build(&call->c, &call->spec, rng);
}

static int run(check_trial *trial, delta_call *call, const char *what)
{
    return check_trial_run(trial, &call->c, &call->result, what);
}

static int build_and_run(check_trial *trial, delta_call *call, check_rng *rng, const char *what)
{
    build(trial, call, rng);
    return run(trial, call, what);
}

static void end(delta_call *call)
{
    check_case_free(&call->c);
    check_result_free(&call->result);
}

static const char *pool_of(const delta_spec *spec)
{
    return spec->where == DELTA_APART ? "state_out" : "state";
}

/* Token t of sequence s of one call against another's. */
static int same_token(check_trial *trial, const delta_call *a, int s, int t, const delta_call *b, int s2, int t2, const char *what)
{
    for (int h = 0; h < a->spec.n_heads_v; h++)
        if (!check_trial_same(trial, delta_out(&a->c, &a->spec, a->result.image, s, t, h),
                              delta_out(&b->c, &b->spec, b->result.image, s2, t2, h), a->spec.dim_v,
                              "%s: out of sequence %d, token %d, head %d", what, s, t, h))
            return 0;
    return 1;
}

static int same_state(check_trial *trial, const delta_call *a, int entry, const delta_call *b, int entry2, const char *what)
{
    for (int h = 0; h < a->spec.n_heads_v; h++)
        for (int j = 0; j < a->spec.dim_v; j++)
            for (int i = 0; i < a->spec.dim_k; i++)
                if (!check_trial_same(trial, delta_state(&a->c, &a->spec, pool_of(&a->spec), a->result.image, entry, h, i, j),
                                      delta_state(&b->c, &b->spec, pool_of(&b->spec), b->result.image, entry2, h, i, j), 1,
                                      "%s: state in entry %d against entry %d, head %d, key %d, value %d", what, entry, entry2,
                                      h, i, j))
                    return 0;
    return 1;
}

/* Sizes and values of a trial; no batch yet. */
static void random_shape(delta_spec *spec, check_rng *rng)
{
    static const int dims[] = { 16, 16, 17, 31, 32, 33, 48, 64, 100, 128 };
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    const int dim_k = CHECK_PICK(rng, dims), heads = check_between(rng, 1, 3);
    delta_defaults(spec, heads, heads * check_between(rng, 1, 2), dim_k, check_one_in(rng, 2) ? dim_k : CHECK_PICK(rng, dims));
    spec->head_map = check_between(rng, 0, 1);
    spec->gate = check_between(rng, 0, 1);
    spec->layout = check_between(rng, 0, 1);
    spec->strided = check_between(rng, 0, 1);
    spec->dtype[0] = spec->dtype[1] = spec->dtype[2] = CHECK_PICK(rng, types);
    spec->seed = check_next(rng);
    delta_random_values(spec, rng);
    if (check_one_in(rng, 2))
        delta_random_forms(spec, rng);
}

static void random_lengths(delta_spec *spec, check_rng *rng, int n, int most)
{
    delta_batch(spec, n, 0);
    spec->map_start = 1;
    for (int s = 0; s < n; s++)
        spec->seq[s].length = check_between(rng, 0, most);
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

/* One call = any split into calls = token by token. The state goes from call to call, in place. */
static void splits(check_trial *trial, check_rng *rng)
{
    delta_call whole = { 0 }, part = { 0 }, next = { 0 };
    const int most = check_one_in(rng, 4) ? 70 : 12, single = trial->number % 3 == 0;
    random_shape(&whole.spec, rng);
    delta_batch(&whole.spec, 1, check_between(rng, 2, most));
    if (!build_and_run(trial, &whole, rng, "the whole"))
        goto done;
    const int n = whole.spec.seq[0].length;
    for (int t = 0; t < n;) {
        const int length = single ? 1 : check_between(rng, 1, n - t < 9 ? n - t : 9);
        take_part(&whole.spec, 0, t, t + length, &next.spec, rng);
        build(trial, &next, rng);
        if (t)
            delta_copy_slot(&part.c, &part.spec, "state", part.result.image, 0, &next.c, &next.spec, 0);
        if (!run(trial, &next, "a part"))
            goto done;
        for (int i = 0; i < length; i++)
            if (!same_token(trial, &whole, 0, t + i, &next, 0, i, single ? "token by token" : "in parts"))
                goto done;
        end(&part);
        part = next;
        memset(&next, 0, sizeof next);
        t += length;
    }
    same_state(trial, &whole, 0, &part, 0, "after all parts");
done:
    end(&whole);
    end(&part);
    end(&next);
}

/* A batch = its sequences one by one = the batch in another order. */
static void batches(check_trial *trial, check_rng *rng)
{
    delta_call all = { 0 }, other = { 0 }, one = { 0 };
    int order[DELTA_MAX_SEQS];
    random_shape(&all.spec, rng);
    random_lengths(&all.spec, rng, check_between(rng, 2, 7), 8);
    const int n = all.spec.n_seqs;
    for (int s = 0; s < n; s++) {
        all.spec.seq[s].state_key = check_next(rng) | 1;
        order[s] = s;
    }
    check_shuffle(rng, order, n);
    other.spec = all.spec;
    other.spec.strided = check_between(rng, 0, 1);
    for (int s = 0; s < n; s++) { /* sequence order[s] in place s, its row likewise */
        other.spec.seq[s] = all.spec.seq[order[s]];
        other.spec.seq[s].src = other.spec.seq[s].dst[0] = s;
    }
    if (!build_and_run(trial, &all, rng, "the batch") || !build_and_run(trial, &other, rng, "the batch in another order"))
        goto done;
    for (int s = 0; s < n; s++) {
        const delta_seq *seq = &all.spec.seq[order[s]];
        for (int t = 0; t < seq->length; t++)
            if (!same_token(trial, &all, order[s], t, &other, s, t, "in another order"))
                goto done;
        if (seq->length && !same_state(trial, &all, order[s], &other, s, "in another order"))
            goto done;
        take_part(&all.spec, order[s], 0, seq->length, &one.spec, rng);
        one.spec.map_src = one.spec.map_dst = 1; /* its row stays where it is */
        if (!build_and_run(trial, &one, rng, "one sequence"))
            goto done;
        for (int t = 0; t < seq->length; t++)
            if (!same_token(trial, &all, order[s], t, &one, 0, t, "alone"))
                goto done;
        if (seq->length && !same_state(trial, &all, order[s], &one, order[s], "alone"))
            goto done;
        end(&one);
        memset(&one, 0, sizeof one);
    }
done:
    end(&all);
    end(&other);
    end(&one);
}

/* Snapshot r = the state after the prefix that leaves out the last r tokens. */
static void snapshots(check_trial *trial, check_rng *rng)
{
    delta_call all = { 0 }, prefix = { 0 };
    random_shape(&all.spec, rng);
    const int k = check_between(rng, 2, 8), n = check_between(rng, 1, 11);
    all.spec.n_slots = all.spec.n_slots_out = all.spec.n_snapshots = k;
    all.spec.where = check_between(rng, DELTA_IN_PLACE, DELTA_APART);
    delta_batch(&all.spec, 1, n);
    all.spec.seq[0].state_key = 3;
    if (check_one_in(rng, 2) && all.spec.where != DELTA_APART) {
        all.spec.map_src = all.spec.map_dst = 1;
        delta_ring(&all.spec, 0, 0, check_between(rng, 0, 50));
    }
    if (!build_and_run(trial, &all, rng, "all tokens"))
        goto done;
    for (int r = 0; r < k && r < n; r++) {
        take_part(&all.spec, 0, 0, n - r, &prefix.spec, rng);
        prefix.spec.n_snapshots = 1;
        prefix.spec.map_src = prefix.spec.map_dst = 1;
        prefix.spec.seq[0].dst[0] = check_between(rng, 0, k - 1);
        if (!build_and_run(trial, &prefix, rng, "a prefix") ||
            !same_state(trial, &all, all.spec.seq[0].dst[r], &prefix, prefix.spec.seq[0].dst[0], "snapshot against prefix"))
            goto done;
        end(&prefix);
        memset(&prefix, 0, sizeof prefix);
    }
done:
    end(&all);
    end(&prefix);
}

/* The same call in another way: all results must be the same. */
static void same_call(check_trial *trial, delta_call *a, delta_call *b, check_rng *rng, const char *what)
{
    if (build_and_run(trial, a, rng, "the first way") && build_and_run(trial, b, rng, what))
        for (int s = 0; s < a->spec.n_seqs; s++) {
            for (int t = 0; t < a->spec.seq[s].length; t++)
                if (!same_token(trial, a, s, t, b, s, t, what))
                    goto done;
            for (int r = 0; r < a->spec.n_snapshots && r < a->spec.seq[s].length; r++)
                if (!same_state(trial, a, a->spec.seq[s].dst[r], b, b->spec.seq[s].dst[r], what))
                    goto done;
        }
done:
    end(a);
    end(b);
}

static void random_call(delta_spec *spec, check_rng *rng)
{
    random_shape(spec, rng);
    spec->n_slots = spec->n_slots_out = spec->n_snapshots = check_between(rng, 1, 3);
    random_lengths(spec, rng, check_between(rng, 1, 4), 7);
    for (int s = 0; s < spec->n_seqs; s++)
        spec->seq[s].state_key = check_next(rng) | 1;
}

static void layouts(check_trial *trial, check_rng *rng)
{
    delta_call a = { 0 }, b = { 0 };
    random_call(&a.spec, rng);
    b.spec = a.spec;
    b.spec.layout = !a.spec.layout;
    same_call(trial, &a, &b, rng, "in the other state layout");
}

/* In place = into other slots of the pool = into a pool of its own. */
static void places(check_trial *trial, check_rng *rng)
{
    delta_call a = { 0 }, b = { 0 };
    random_call(&a.spec, rng);
    b.spec = a.spec;
    b.spec.map_src = b.spec.map_dst = 1;
    if (trial->number & 1) {
        b.spec.where = DELTA_APART;
        b.spec.n_rows_out = a.spec.n_seqs + 2;
        b.spec.n_slots_out = a.spec.n_snapshots + 1;
        for (int s = 0; s < a.spec.n_seqs; s++)
            for (int r = 0; r < a.spec.n_snapshots; r++)
                b.spec.seq[s].dst[r] = (a.spec.n_seqs - s) * b.spec.n_slots_out + (r + s) % b.spec.n_slots_out;
    } else {
        b.spec.where = check_between(rng, DELTA_IN_PLACE, DELTA_SAME);
        b.spec.n_rows = b.spec.n_rows_out = 2 * a.spec.n_seqs;
        for (int s = 0; s < a.spec.n_seqs; s++)
            for (int r = 0; r < a.spec.n_snapshots; r++)
                b.spec.seq[s].dst[r] = (2 * a.spec.n_seqs - 1 - s) * a.spec.n_slots + r;
    }
    same_call(trial, &a, &b, rng, b.spec.where == DELTA_APART ? "into a pool of its own" : "into other rows");
}

/* Any number of threads, whoever owns them, in any order; and any mode of the caller. */
static void threads(check_trial *trial, check_rng *rng)
{
    delta_call a = { 0 }, b = { 0 };
    random_call(&a.spec, rng);
    b.spec = a.spec;
    check_setting setting = trial->setting;
    trial->setting.executor = CHECK_EXECUTOR(CHECK_THREADS_LIBRARY, 1);
    trial->setting.environment = 0;
    if (!build_and_run(trial, &a, rng, "one thread"))
        goto done;
    for (int i = 0; i < trial->threads->n; i++) {
        setting.executor = CHECK_EXECUTOR((i + trial->number) % 3, trial->threads->value[i]);
        trial->setting = setting;
        b.spec.strided = i & 1;
        if (!build_and_run(trial, &b, rng, "other threads"))
            goto done;
        for (int s = 0; s < a.spec.n_seqs; s++) {
            for (int t = 0; t < a.spec.seq[s].length; t++)
                if (!same_token(trial, &a, s, t, &b, s, t, "with other threads"))
                    goto done;
            if (a.spec.seq[s].length && !same_state(trial, &a, a.spec.seq[s].dst[0], &b, b.spec.seq[s].dst[0], "with other threads"))
                goto done;
        }
        check_case_free(&b.c);
    }
done:
    end(&a);
    end(&b);
}

/* Grouped heads = tiled heads whose operands are permuted: head h of the one is head p(h) of the other. */
static void heads(check_trial *trial, check_rng *rng)
{
    delta_call a = { 0 }, b = { 0 };
    random_call(&a.spec, rng);
    const int r = check_between(rng, 2, 4), n = a.spec.n_heads_k = check_between(rng, 2, 3);
    a.spec.n_heads_v = r * n;
    a.spec.head_map = GDN_HEADS_GROUPED;
    b.spec = a.spec;
    b.spec.head_map = GDN_HEADS_TILED;
    b.spec.permuted = 1;
    if (!build_and_run(trial, &a, rng, "grouped") || !build_and_run(trial, &b, rng, "tiled"))
        goto done;
    for (int s = 0; s < a.spec.n_seqs; s++)
        for (int h = 0; h < n * r; h++) {
            const int of = h % n * r + h / n; /* tiled head h has the data of this grouped one */
            for (int t = 0; t < a.spec.seq[s].length; t++)
                if (!check_trial_same(trial, delta_out(&a.c, &a.spec, a.result.image, s, t, of),
                                      delta_out(&b.c, &b.spec, b.result.image, s, t, h), a.spec.dim_v,
                                      "grouped head %d against tiled head %d: sequence %d, token %d", of, h, s, t))
                    goto done;
            for (int j = 0; a.spec.seq[s].length && j < a.spec.dim_v; j++)
                for (int i = 0; i < a.spec.dim_k; i++)
                    if (!check_trial_same(trial, delta_state(&a.c, &a.spec, "state", a.result.image, a.spec.seq[s].dst[0], of, i, j),
                                          delta_state(&b.c, &b.spec, "state", b.result.image, b.spec.seq[s].dst[0], h, i, j), 1,
                                          "grouped head %d against tiled head %d: state of sequence %d, key %d, value %d", of, h, s,
                                          i, j))
                        goto done;
        }
done:
    end(&a);
    end(&b);
}

/* Operands in 16 bits = the same values in 32. */
static void types(check_trial *trial, check_rng *rng)
{
    delta_call a = { 0 }, b = { 0 };
    random_call(&a.spec, rng);
    b.spec = a.spec;
    for (int i = 0; i < 3; i++) {
        a.spec.dtype[i] = check_between(rng, GDN_F16, GDN_BF16);
        b.spec.dtype[i] = GDN_F32;
        b.spec.narrow[i] = a.spec.dtype[i];
    }
    same_call(trial, &a, &b, rng, "widened to F32");
}

/* Packed = strided, shifted, permuted, fused. */
static void strides(check_trial *trial, check_rng *rng)
{
    delta_call a = { 0 }, b = { 0 };
    random_call(&a.spec, rng);
    b.spec = a.spec;
    a.spec.strided = 0;
    b.spec.strided = 1;
    same_call(trial, &a, &b, rng, "strided");
}

const check_family check_families_gated_delta_net[] = {
    { "splits", 60, splits },   { "batches", 40, batches }, { "snapshots", 40, snapshots }, { "layouts", 60, layouts },
    { "places", 60, places },   { "threads", 24, threads }, { "heads", 40, heads },         { "types", 40, types },
    { "strides", 40, strides }, { "speculation", 40, check_speculation }, { "far", 2, check_far_states }, { NULL, 0, NULL },
};
