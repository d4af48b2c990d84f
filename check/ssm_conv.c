/* ssm_conv: the fixed list, and what must not change the bits. */
#include "specs.h"

#include <stdio.h>
#include <string.h>

#include "families.h"
#include "trial.h"

static void random_case(check_spec *spec, check_rng *rng) { conv_random(&spec->ssm_conv, rng); }

static void begin(check_spec *spec)
{
    conv_spec *const c = &spec->ssm_conv;
    const int n_seqs = c->n_seqs, width = c->width;
    conv_defaults(c, 1, width ? width : 1);
    if (width) conv_batch(c, n_seqs, 1);
}

/* ---- the fixed list ---------------------------------------------------------------------------------------- */

#define ONE(member)  CHECK_MEMBER(#member, conv_spec, member, 0)
#define EACH(member) CHECK_MEMBER(#member, conv_spec, seq[0].member, sizeof(conv_seq))

static const check_member members[] = {
    { ONE(n_seqs) },       { ONE(n_channels) },    { ONE(width) },       { ONE(n_rows) },       { ONE(n_slots) },
    { ONE(n_rows_out) },   { ONE(where) },         { ONE(silu) },        { ONE(bias) },         { ONE(tap_major) },
    { ONE(values) },       { ONE(weight_values) }, { ONE(dtype_x) },     { ONE(dtype_weight) }, { ONE(dtype_bias) },
    { ONE(dtype_out) },    { ONE(dtype_history) }, { ONE(lead) },        { ONE(tail) },         { ONE(map_start) },
    { ONE(map_position) }, { ONE(map_src) },       { ONE(map_dst) },     { ONE(interval) },     { ONE(n_checkpoints) },
    { ONE(tree) },         { ONE(map_parent) },    { ONE(strided) },     { EACH(length) },      { EACH(position) },
    { EACH(src) },         { EACH(dst) },          { EACH(checkpoint) }, { EACH(key) },         { EACH(parent) },
    { NULL, 0, 0, 0, 0 }
};

#define SILU  "{silu:|_silu}"
#define TYPES "f32|f16|bf16"

/* Calls that each need something of their own. */
#define EDGE(name, set) name "/width{width}" SILU " {width:1|4|9} n_channels=37 " set
#define RAGGED          "n_seqs=7 length=0,5,0,1,12,2,0 map_start=map_position=1 lead=2 tail=1 position=2*s "

/* A width, and one more. */
#define GGML(width, more)                                                                                              \
    "ggml/ssm_conv/nc{width:" width "}_d{n_channels:1024|1536|2048}_T{length,n_seqs:1_B1|" more                        \
    "_B1|1_B4|64_B1|64_B4}{bias:|_bias}" SILU " map_position=1 position=width-1"

static const char *const lines[] = {
    "widths/{width:1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16}" SILU "{bias:|_bias}{tap_major:|_tapmajor}"
    " n_channels=37 n_seqs=3 length=5 map_position=1 position=s*width",
    "channels/{n_channels:1|2|3|4|5|7|8|9|15|16|17|31|32|33|63|64|65|127|128|200|1024}_T{length:1|2|3|4|5|8|17|64} "
    "width=4 n_seqs=2 map_position=1 position=2,33 silu=#length%2",
    "ring/slots{n_slots:3|4|5|6|7|8}_at{p:0|1|2|3|4|5|6|7|8|9|10|11}_{where:in_place|same|apart} n_channels=24 "
    "width=4 n_seqs=2 length=n_slots-2 map_position=1 position=p+100*s",

    EDGE("no_sequences", "n_seqs=0"),
    EDGE("no_tokens", "n_seqs=3 length=0"),
    EDGE("no_history", "n_seqs=3 length=5 where=nowhere"),
    EDGE("some_skipped", "n_seqs=5 length=3 map_src=1 src=s%2?src:skip"),
    /* The entries before are zeros and are written as such. */
    EDGE("from_zero", "n_seqs=3 length=2 map_src=map_position=1 src=none position=3*s"),
    EDGE("nothing_kept", "n_seqs=3 length=2 map_dst=map_position=1 dst=none position=20+s"),
    /* At 0, partly filled, full. */
    EDGE("other_row", "n_slots=width+3 n_seqs=3 length=2 n_rows=n_rows_out=6 map_dst=map_position=1 dst=5-s "
                      "position=4*s"),
    /* Rolled back by 0, 1, 2. */
    EDGE("shared_row", "n_slots=width+1 n_seqs=3 length=4 n_rows=n_rows_out=4 map_src=map_dst=map_position=1 src=3 "
                       "key=5 position=11-s"),
    EDGE("ragged", RAGGED),
    EDGE("strided", RAGGED "strided=1"),
    EDGE("far_position", "n_seqs=2 length=7 map_position=1 position=2147483640,16777217"),
    EDGE("subnormal", "n_seqs=2 length=3 values=subnormal"),
    EDGE("huge", "n_seqs=2 length=3 values=huge"),
    EDGE("wide", "n_seqs=2 length=9 values=wide"),
    EDGE("special", "n_seqs=2 length=9 values=special"),
    EDGE("zeros", "n_seqs=2 length=3 values=weight_values=zeros"),

    "threads/{kind:library|pool|reverse}_{threads:1|2|3|4|5|6|7|8} n_channels=700 width=4 n_seqs=3 length=5",
    /* Every other sequence is empty and names as its source the row that the next one writes: allowed, since it
     * reads nothing. Who reads all the same races with that writer, which ThreadSanitizer sees. */
    "threads/empty_source_{threads:2|3|4|5|6|7|8} kind=pool n_channels=700 width=4 n_seqs=12 "
    "map_start=map_position=map_src=map_dst=1 length=s%2*5 position=s%2?0:7 src=s%2?none:s+1 dst=s%2?dst:none",
    "mode/{environment:0|1|2|3|4|5|6}" SILU " n_channels=50 width=4 n_seqs=2 length=5 values=subnormal",

    /* The cases of ggml's own operator tests, as in gated_delta_net.c. Its convolution gets the history in front of the
     * tokens. */
    GGML("3", "4"),
    GGML("4", "5"),
    GGML("9", "10"),

    /* Every type of each operand: a token, several, and more than a piece of what is cut; a width with versions of its
     * own and one without. The older entries come along. */
    "types/{dtype_x:" TYPES "}_{dtype_weight:" TYPES "}_{dtype_bias?" TYPES "}_{dtype_out:" TYPES
    "}_{dtype_history:" TYPES "}_T{length,width:1_width4|6_width4|70_width4|5_width3}"
    " n_channels=70 n_seqs=2 n_slots=width+1 map_position=map_dst=1 position=2,33 n_rows=n_rows_out=3 dst=0,2 "
    "silu=dtype_out!=dtype_history tap_major=#length==1 dtype_bias=(dtype_x+dtype_weight)%3 "
    "values=pick(dtype_x+dtype_weight+dtype_out+dtype_history,normal,ties,special,subnormal)",

    /* As in gated_delta_net.c. */
    "checkpoints/T{length:1|3|6|16|17|33|70}_N{interval:1|2|3|16|32|64}_width{width:1|2|4|16} a=#length b=#interval "
    "n_channels=37 n_slots=width-1+(a+b)%3 n_seqs=2 n_rows=n_rows_out=6 where=(a+b+#width)%3 silu=a%2 "
    "n_checkpoints=2 map_position=map_src=1 dtype_x=dtype_out=(a+#width)%3 dtype_history=b%2?f32:dtype_x "
    "src=s&&(a+b)%4==0?none:src position=b*s+a checkpoint=i==1&&a==2?none:4-2*s+i",
    "tree/{h}_T{length:2|5|9|33}_width{width:1|2|4|16}_{d} {h:random|comb|star} {d:0|1|2} a=#length n_channels=37 "
    "n_seqs=2 n_slots=width-1+length+(a+h)%3 n_rows=n_rows_out=4 where=(a+#width+h+d)%4 silu=a%2 "
    "tree=map_parent=map_position=map_src=1 dtype_x=dtype_out=d dtype_history=h%2?f32:d position=(h+a)*s+#width "
    "src=where==nowhere||s&&(a+d)%4==3?none:src dst=where==nowhere?none:dst "
    "parent=has(comb)?i<2?none:i-2:has(star)?none:drawn",
    NULL,
};

/* ---- what must not change the bits: see invariances_gated_delta_net.c ------------------------------------- */

static int run(check_trial *trial, check_call *call, check_rng *rng, const char *what)
{
    return check_call_run(trial, &check_kernel_ssm_conv, call, rng, what);
}

/* The newest entries of two rows, as many as both have. */
static int same_history(check_trial *trial, const check_call *a, int s, const check_call *b, int s2, const char *what)
{
    const conv_seq *x = &a->conv.seq[s], *y = &b->conv.seq[s2];
    const int columns = a->conv.n_slots < b->conv.n_slots ? a->conv.n_slots : b->conv.n_slots;
    const int64_t last = (int64_t)x->position + x->length;
    for (int64_t p = last - 1; p >= 0 && p >= last - columns; p--)
        if (!conv_same_slot(trial, a, x->dst, p, b, y->dst, p, what)) return 0;
    return 1;
}

static void random_shape(conv_spec *spec, check_rng *rng)
{
    const int width = check_between(rng, 1, 16);
    conv_defaults(spec, check_between(rng, 1, 150), width);
    spec->n_slots = spec->width - 1 + check_between(rng, spec->width == 1, 6);
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
        for (int column = 0; column < spec->n_slots; column++)
            memcpy(conv_slot(&next->c, &next->conv, "history", image, seq->src, column),
                   conv_slot(&all->c, spec, pool, all->result.image, row, column),
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

static const check_family families[] = {
    { "splits", 60, splits },           { "batches", 40, batches },
    { "rollbacks", 40, rollbacks },     { "variants", 60, variants },
    { "checkpoints", 40, checkpoints }, { "trees", 40, check_history_trees },
    { "far", 2, check_far_histories },  { NULL, 0, NULL },
};

const check_suite check_suite_ssm_conv = { &check_kernel_ssm_conv, random_case, begin, members, lines, families };
