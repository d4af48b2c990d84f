/* Building calls of ssm_conv from specifications. See specs.h. */
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "numerics/convert.h"
#include "specs.h"

#include "call/ssm_conv.h" /* behind gdn.h, which has its constants */

#define FIELD(member) offsetof(conv_call, args.member)
#define PART(member)  offsetof(conv_call, member)

const check_operand check_operands_ssm_conv[] = {
#define LINE(part, member, axes, written, optional, is_pool)                                                           \
    { GDN_NAME_##part(member), PART(part.member), axes, written, optional, is_pool },
#define TOKENS(name, part, member, access, bit, size)  LINE(part, member, 2, CHECK_##access, bit != 0, 0)
#define WEIGHTS(name, part, member, access, bit, size) LINE(part, member, size, CHECK_##access, bit != 0, 0)
#define POOL(name, part, member, access, bit, size)    LINE(part, member, size, 1, 1, 1)
#define MAP(name, part, member, access, bit, size)     LINE(part, member, CHECK_MAP, CHECK_##access, 1, 0)
    GDN_CONV_OPERANDS(TOKENS, WEIGHTS, POOL, MAP){ NULL, 0, 0, 0, 0, 0 },
#undef LINE
#undef TOKENS
#undef WEIGHTS
#undef POOL
#undef MAP
};

conv_spec conv_of(conv_spec spec, int n, int length)
{
    const int n_rows = spec.n_rows, n_rows_out = spec.n_rows_out;
    conv_batch(&spec, n, length);
    if (n_rows) spec.n_rows = n_rows;
    if (n_rows_out) spec.n_rows_out = n_rows_out;
    if (!spec.n_slots) spec.n_slots = spec.width - 1;
    return spec;
}

void conv_batch(conv_spec *spec, int n, int length)
{
    spec->n_seqs = n;
    spec->n_rows = spec->n_rows_out = n ? n : 1;
    for (int s = 0; s < n; s++)
        spec->seq[s] = (conv_seq){ .length = length, .src = s, .dst = s, .key = 1000003u * (uint64_t)(s + 1) };
}

static int first_token(const conv_spec *spec, int s)
{
    int n = spec->lead;
    for (int i = 0; i < s; i++) n += spec->seq[i].length;
    return n;
}

unsigned char *conv_token(const check_case *c, const conv_spec *spec, const char *name, unsigned char *const *image,
                          int s, int t)
{
    const check_view *v = check_find(c, name);
    return v->given[0] ? check_at(c, v, image[v->memory], s, t, 0, 0)
                       : check_at(c, v, image[v->memory], 0, first_token(spec, s) + t, 0, 0);
}

unsigned char *conv_slot(const check_case *c, const conv_spec *spec, const char *pool, unsigned char *const *image,
                         int row, int64_t position)
{
    const check_view *v = check_find(c, pool);
    return check_at(c, v, image[v->memory], row, position % spec->n_slots, 0, 0);
}

static void add_tokens(check_case *c, const conv_spec *spec, const char *name, size_t field, int32_t dtype, int written,
                       check_rng *rng)
{
    int longest = 0, order[2] = { 0, 1 };
    for (int s = 0; s < spec->n_seqs; s++) longest = spec->seq[s].length > longest ? spec->seq[s].length : longest;
    const int by_seq = spec->strided && longest && check_one_in(rng, 3);
    const int64_t extent[3] = { by_seq ? spec->n_seqs : 1,
                                by_seq ? longest : first_token(spec, spec->n_seqs) + spec->tail, spec->n_channels };
    check_view v = { .name = name, .field = field, .axis = { "seq", "token", "channel" } };
    if (by_seq) check_shuffle(rng, order, 2);
    check_view *added = check_add_operand(c, &v, dtype, 3, extent, order, 9, written, spec->strided ? rng : NULL);
    added->given[0] = by_seq ? added->stride[0] : 0;
}

static void add_weights(check_case *c, const conv_spec *spec, check_rng *rng)
{
    const int64_t extent[3] = { spec->n_channels, spec->width, 1 };
    const int order[2] = { spec->tap_major ? 1 : 0, spec->tap_major ? 0 : 1 };
    check_view w = { .name = "weight", .field = FIELD(weight), .axis = { "channel", "tap", "" } };
    const int gaps = spec->strided && check_one_in(rng, 2) ? 5 : 0;
    const check_view *v =
        check_add_operand(c, &w, spec->dtype_weight, 3, extent, order, gaps, 0, spec->strided ? rng : NULL);
    const uint64_t element = check_unit_bytes(spec->dtype_weight);
    for (int i = 0; i < spec->n_channels; i++) {
        unsigned char taps[16 * 4];
        check_fill(taps, spec->dtype_weight, spec->width, (check_values)spec->weight_values,
                   check_mix(spec->seed, 77000u + (uint64_t)i));
        for (int j = 0; j < spec->width; j++)
            memcpy(check_at(c, v, c->memory[v->memory].image, i, j, 0, 0), taps + (uint64_t)j * element, element);
    }
    if (!spec->bias) return;
    check_view b = { .name = "bias", .field = FIELD(bias), .axis = { "channel" } };
    v = check_add_operand(c, &b, spec->dtype_bias, 1, extent, NULL, 0, 0, spec->strided ? rng : NULL);
    check_fill(check_at(c, v, c->memory[v->memory].image, 0, 0, 0, 0), spec->dtype_bias, spec->n_channels,
               (check_values)spec->weight_values, check_mix(spec->seed, 99));
}

static void add_history(check_case *c, const conv_spec *spec, const char *name, size_t field, int n_rows, int written,
                        check_rng *rng)
{
    const int64_t extent[3] = { n_rows, spec->n_slots, spec->n_channels };
    int order[2] = { 0, 1 };
    check_view v = { .name = name, .field = field, .axis = { "row", "slot", "channel" } };
    if (spec->strided && check_one_in(rng, 3)) check_shuffle(rng, order, 2);
    check_add_operand(c, &v, spec->dtype_history, 3, extent, order, 7, written, spec->strided ? rng : NULL);
}

/* A conv state entry, as a call with this token in x leaves it. */
static void fill_entry(const conv_spec *spec, unsigned char *column, uint64_t seed)
{
    check_fill(column, spec->dtype_history, spec->n_channels, (check_values)spec->values, seed);
    if (spec->dtype_history != GDN_F32 || spec->dtype_x == GDN_F32) return;
    unsigned char *x = check_alloc(2 * (uint64_t)spec->n_channels);
    check_fill(x, spec->dtype_x, spec->n_channels, (check_values)spec->values, seed);
    for (int i = 0; i < spec->n_channels; i++) {
        const float value = gdn_load_element(x, spec->dtype_x, i);
        memcpy(column + 4 * i, &value, 4);
    }
    free(x);
}

/* x and the entries that the history must have; the rest of it stays poison. */
static void fill(check_case *c, const conv_spec *spec)
{
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_initial(c, image);
    for (int s = 0; s < spec->n_seqs; s++) {
        const conv_seq *seq = &spec->seq[s];
        if (seq->src == GDN_SKIP || !seq->length) continue;
        for (int t = 0; t < seq->length; t++)
            check_fill(
                conv_token(c, spec, "x", image, s, t), spec->dtype_x, spec->n_channels, (check_values)spec->values,
                check_mix(spec->seed, seq->key + (uint64_t)seq->position + (uint64_t)(seq->order ? seq->order[t] : t)));
        for (int64_t p = (int64_t)seq->position - spec->n_slots;
             seq->src >= 0 && spec->where != CONV_NOWHERE && p < seq->position; p++)
            if (p >= 0)
                fill_entry(spec, conv_slot(c, spec, "history", image, seq->src, p),
                           check_mix(spec->seed, seq->key + (uint64_t)p));
    }
}

static void add_maps(check_case *c, const conv_spec *spec, check_rng *rng)
{
    int32_t start[CONV_MAX_SEQS + 1];
    check_tree tree[CONV_MAX_SEQS];
    for (int s = 0; s <= spec->n_seqs; s++) start[s] = first_token(spec, s);
    for (int s = 0; s < spec->n_seqs; s++) {
        const conv_seq *seq = &spec->seq[s];
        tree[s] = (check_tree){ start[s], seq->src == GDN_SKIP ? 0 : seq->length, seq->parent, seq->key ^ spec->seed };
    }
    if (spec->map_start)
        check_add_map(c, "seq_start", FIELD(seq_start), start, sizeof *start, spec->n_seqs + 1, 1, rng);
    if (spec->map_position) CHECK_MAP_OF(FIELD, position, position, 1);
    if (spec->map_src) CHECK_MAP_OF(FIELD, history_src, src, 1);
    if (spec->map_dst) CHECK_MAP_OF(FIELD, history_dst, dst, 1);
    if (spec->interval) CHECK_MAP_OF(PART, checkpoints.dst, checkpoint, spec->n_checkpoints);
    if (spec->tree && spec->map_parent)
        check_add_parents(c, PART(tree.parent), tree, spec->n_seqs, first_token(spec, spec->n_seqs) + spec->tail, rng);
}

void check_build_ssm_conv(check_case *c, const check_spec *any, check_rng *rng)
{
    const conv_spec *spec = &any->ssm_conv;
    conv_call *call = &c->args.ssm_conv;
    gdn_ssm_conv_args *a = &call->args;
    const int history = spec->where != CONV_NOWHERE;
    *call = spec->call;
    a->size = sizeof *a;
    a->n_seqs = spec->n_seqs;
    a->n_tokens = first_token(spec, spec->n_seqs) + spec->tail;
    a->n_channels = spec->n_channels;
    a->kernel_width = spec->width;
    if (history) {
        a->history.n_rows = spec->n_rows;
        a->history.n_slots = spec->n_slots;
    }
    if (history && spec->where != CONV_IN_PLACE) {
        a->history_out.n_rows = spec->n_rows_out;
        a->history_out.n_slots = spec->n_slots;
    }
    if (spec->interval)
        call->checkpoints =
            (gdn_checkpoints){ .size = sizeof call->checkpoints, .interval = spec->interval, .n = spec->n_checkpoints };
    if (spec->tree) call->tree = (gdn_token_tree)GDN_INIT(gdn_token_tree);
    add_tokens(c, spec, "x", FIELD(x), spec->dtype_x, 0, rng);
    add_weights(c, spec, rng);
    add_tokens(c, spec, "out", FIELD(out), spec->dtype_out, 1, rng);
    if (history) {
        add_history(c, spec, "history", FIELD(history), spec->n_rows, spec->where != CONV_APART, rng);
        if (spec->where == CONV_APART)
            add_history(c, spec, "history_out", FIELD(history_out), spec->n_rows_out, 1, rng);
        if (spec->where == CONV_SAME) check_add_same(c, "history", "history_out", FIELD(history_out));
    }
    fill(c, spec);
    add_maps(c, spec, rng);
    check_note_writes(c);
}

/* ---- What a call may write -------------------------------------------------------------------------------------- */

const char *check_writes_ssm_conv(const void *any, const check_writes *writes)
{
    const conv_call *call = any;
    const gdn_ssm_conv_args *a = &call->args;
    const char *wrong = NULL;
    const gdn_pool *to = a->history_out.data ? &a->history_out : &a->history;
    const gdn_tensor history = pool_tensor(&a->history), histories = pool_tensor(to);
    const int apart = (uintptr_t)to->data + to->offset != (uintptr_t)a->history.data + a->history.offset;
    const int64_t W = a->history.data ? a->history.n_slots : 0, rows = to->n_rows;
    const int64_t read[4] = { a->history.n_rows, W, 1, 1 }, written[4] = { rows, W, 1, 1 };
    const uint64_t channels = (uint64_t)a->n_channels, bytes = check_unit_bytes(histories.dtype) * channels;
    const check_place out = check_resolve(&a->out, 2, (int64_t[]){ a->n_seqs, a->n_tokens }, a->n_channels, 1);
    const check_place source = check_resolve(&history, 2, read, a->n_channels, 0);
    const check_place target = check_resolve(&histories, 2, written, a->n_channels, 0);
    for (int pass = 0; pass < 2 && a->n_tokens && !wrong; pass++) {
        for (int64_t s = 0; s < a->n_seqs && !wrong; s++) {
            const check_sequence q = check_sequence_of(writes, &a->seq_start, s, a->n_seqs, a->n_tokens, &wrong);
            const int64_t last_row = a->history.data ? a->history.n_rows - 1 : GDN_NONE;
            const int64_t src = check_entry(writes, &a->history_src, s, a->history.data ? s : GDN_NONE, GDN_SKIP,
                                            last_row, "history_src", &wrong);
            const int64_t dst = check_entry(writes, &a->history_dst, s, a->history.data ? s : GDN_NONE, GDN_NONE,
                                            a->history.data ? rows - 1 : GDN_NONE, "history_dst", &wrong);
            const int64_t position =
                check_entry(writes, &a->position, s, 0, 0, INT32_MAX - q.length, "position", &wrong);
            if (src == GDN_SKIP || wrong) continue;
            if (call->tree.size) check_parents(writes, &call->tree.parent, q, &wrong);
            if (pass == 0)
                check_tokens_written(writes, &a->out, &out, q, s, 1, check_unit_bytes(a->out.dtype) * channels);
            /* The newest entries. If the row is the one that was read, it has the older of them. */
            const int64_t end = position + q.length, oldest = end > W ? end - W : 0,
                          kept = !apart && src == dst ? position : 0;
            for (int64_t p = oldest > kept ? oldest : kept; pass && p < end && q.length && dst >= 0; p++)
                writes->may(writes->user, &histories, target.at + dst * target.stride[0] + p % W * target.stride[1],
                            bytes);
            /* Of a checkpoint, what the next token reads; of those, what lay before this call's tokens is there already
             * in the row that was read. */
            for (int64_t t = 0, i = 0; pass && t < q.length && call->checkpoints.size && i < call->checkpoints.n; t++) {
                const int64_t length = position + t + 1, reach = a->kernel_width - 1;
                if (length % call->checkpoints.interval) continue;
                const int64_t row = check_entry(writes, &call->checkpoints.dst, s * call->checkpoints.n + i++, GDN_NONE,
                                                GDN_NONE, rows - 1, "checkpoints.dst", &wrong);
                const int64_t given = !apart && src == row ? position : 0, least = length > reach ? length - reach : 0;
                for (int64_t p = least > given ? least : given; row >= 0 && !wrong && p < length; p++)
                    writes->may(writes->user, &histories, target.at + row * target.stride[0] + p % W * target.stride[1],
                                bytes);
            }
        }
        if (pass == 0 && !wrong) {
            check_pool_rows(writes, &source, read, bytes);
            check_pool_rows(writes, &target, written, bytes);
        }
    }
    return wrong;
}
