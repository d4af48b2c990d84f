/* Building ssm_conv calls from specifications. See ssm_conv.h. */
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "numerics/convert.h"
#include "specs.h"

#define FIELD(member) offsetof(gdn_ssm_conv_args, member)

const check_operand check_operands_ssm_conv[] = {
#define OPERAND(member, ...) { #member, FIELD(member), __VA_ARGS__ }
    OPERAND(x, 2, 0, 0), OPERAND(weight, 2, 0, 0), OPERAND(bias, 0, 0, 1), OPERAND(out, 2, 1, 0),
    OPERAND(history, 2, 1, 1), OPERAND(history_out, 2, 1, 1), OPERAND(seq_start, CHECK_MAP, 0, 1),
    OPERAND(position, CHECK_MAP, 0, 1), OPERAND(history_src, CHECK_MAP, 0, 1),
    OPERAND(history_dst, CHECK_MAP, 0, 1), OPERAND(history_checkpoint, CHECK_MAP, 0, 1),
    OPERAND(parent, CHECK_MAP, 0, 1), { NULL, 0, 0, 0, 0 },
#undef OPERAND
};

void conv_defaults(conv_spec *spec, int n_channels, int width)
{
    memset(spec, 0, sizeof *spec);
    spec->n_channels = n_channels;
    spec->width = width;
    spec->n_columns = width - 1;
    spec->bias = 1;
    spec->seed = 1;
    conv_batch(spec, 1, 1);
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
    for (int i = 0; i < s; i++)
        n += spec->seq[i].length;
    return n;
}

unsigned char *conv_token(const check_case *c, const conv_spec *spec, const char *name, unsigned char *const *image,
                          int s, int t)
{
    const check_view *v = check_find(c, name);
    return v->given[0] ? check_at(c, v, image[v->memory], s, t, 0, 0)
                       : check_at(c, v, image[v->memory], 0, first_token(spec, s) + t, 0, 0);
}

unsigned char *conv_column(const check_case *c, const conv_spec *spec, const char *pool, unsigned char *const *image,
                           int row, int64_t position)
{
    const check_view *v = check_find(c, pool);
    return check_at(c, v, image[v->memory], row, position % spec->n_columns, 0, 0);
}

static void add_tokens(check_case *c, const conv_spec *spec, const char *name, size_t field, int32_t dtype, int written,
                       check_rng *rng)
{
    int longest = 0, order[2] = { 0, 1 };
    for (int s = 0; s < spec->n_seqs; s++)
        longest = spec->seq[s].length > longest ? spec->seq[s].length : longest;
    const int by_seq = spec->strided && longest && check_one_in(rng, 3);
    const int64_t extent[3] = { by_seq ? spec->n_seqs : 1,
                                by_seq ? longest : first_token(spec, spec->n_seqs) + spec->tail, spec->n_channels };
    check_view v = { .name = name, .field = field, .axis = { "seq", "token", "channel" } };
    if (by_seq)
        check_shuffle(rng, order, 2);
    const uint64_t bytes =
        check_lay_out(&v, dtype, 3, extent, order, spec->strided ? 9 : 0, spec->strided ? rng : NULL);
    v.given[0] = by_seq ? v.stride[0] : 0;
    v.memory = check_add_memory(c, bytes, check_alignment(dtype), written, spec->strided ? rng : NULL);
    v.stated = spec->strided && check_one_in(rng, 2) ? bytes : 0;
    check_add_view(c, &v);
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
    if (!spec->bias)
        return;
    check_view b = { .name = "bias", .field = FIELD(bias), .axis = { "channel" } };
    const int64_t channels[1] = { spec->n_channels };
    const uint64_t bytes = check_lay_out(&b, spec->dtype_bias, 1, channels, NULL, 0, NULL);
    b.memory = check_add_memory(c, bytes, check_alignment(spec->dtype_bias), 0, spec->strided ? rng : NULL);
    v = check_add_view(c, &b);
    check_fill(check_at(c, v, c->memory[v->memory].image, 0, 0, 0, 0), spec->dtype_bias, spec->n_channels,
               (check_values)spec->weight_values, check_mix(spec->seed, 99));
}

static void add_history(check_case *c, const conv_spec *spec, const char *name, size_t field, int n_rows, int written,
                        check_rng *rng)
{
    const int64_t extent[3] = { n_rows, spec->n_columns, spec->n_channels };
    int order[2] = { 0, 1 };
    check_view v = { .name = name, .field = field, .axis = { "row", "column", "channel" } };
    if (spec->strided && check_one_in(rng, 3))
        check_shuffle(rng, order, 2);
    const uint64_t bytes =
        check_lay_out(&v, spec->dtype_history, 3, extent, order, spec->strided ? 7 : 0, spec->strided ? rng : NULL);
    v.memory = check_add_memory(c, bytes, check_alignment(spec->dtype_history), written, spec->strided ? rng : NULL);
    v.stated = spec->strided && spec->n_columns && check_one_in(rng, 2) ? bytes : 0;
    check_add_view(c, &v);
}

/* A column of the history, as a call leaves it that is given this token in x. */
static void fill_column(const conv_spec *spec, unsigned char *column, uint64_t seed)
{
    check_fill(column, spec->dtype_history, spec->n_channels, (check_values)spec->values, seed);
    if (spec->dtype_history != GDN_F32 || spec->dtype_x == GDN_F32)
        return;
    unsigned char *x = check_alloc(2 * (uint64_t)spec->n_channels);
    check_fill(x, spec->dtype_x, spec->n_channels, (check_values)spec->values, seed);
    for (int i = 0; i < spec->n_channels; i++) {
        const float value = gdn_load_element(x, spec->dtype_x, i);
        memcpy(column + 4 * i, &value, 4);
    }
    free(x);
}

/* x and the columns that the history must have; the rest of it stays poison. */
static void fill(check_case *c, const conv_spec *spec)
{
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_initial(c, image);
    for (int s = 0; s < spec->n_seqs; s++) {
        const conv_seq *seq = &spec->seq[s];
        if (seq->src == GDN_SKIP || !seq->length)
            continue;
        for (int t = 0; t < seq->length; t++)
            check_fill(conv_token(c, spec, "x", image, s, t), spec->dtype_x, spec->n_channels,
                       (check_values)spec->values,
                       check_mix(spec->seed, (t < seq->length - seq->rejected ? seq->key : ~seq->key) +
                                                 (uint64_t)seq->position + (uint64_t)(seq->order ? seq->order[t] : t)));
        for (int64_t p = (int64_t)seq->position - spec->n_columns;
             seq->src >= 0 && spec->where != CONV_NOWHERE && p < seq->position; p++)
            if (p >= 0)
                fill_column(spec, conv_column(c, spec, "history", image, seq->src, p),
                            check_mix(spec->seed, seq->key + (uint64_t)p));
    }
}

int conv_parent(const conv_spec *spec, int s, int t)
{
    const conv_seq *seq = &spec->seq[s];
    return !spec->tree || !spec->map_parent ? t - 1
           : seq->parent                    ? seq->parent[t]
                                            : check_tree_parent(seq->key ^ spec->seed, t);
}

/* Of every token of the call; those of nobody and of padding are not looked at. */
static void add_parents(check_case *c, const conv_spec *spec, check_rng *rng)
{
    const int n = first_token(spec, spec->n_seqs) + spec->tail;
    int32_t *const parent = check_alloc(4 * (uint64_t)(n ? n : 1));
    for (int i = 0; i < n; i++) parent[i] = (int32_t)check_next(rng);
    for (int s = 0; s < spec->n_seqs; s++)
        for (int t = 0; spec->seq[s].src != GDN_SKIP && t < spec->seq[s].length; t++)
            parent[first_token(spec, s) + t] = conv_parent(spec, s, t);
    check_add_map(c, "parent", FIELD(parent), parent, n, "token", rng);
    free(parent);
}

static void add_maps(check_case *c, const conv_spec *spec, check_rng *rng)
{
    int32_t start[CONV_MAX_SEQS + 1], position[CONV_MAX_SEQS], src[CONV_MAX_SEQS], dst[CONV_MAX_SEQS];
    int32_t checkpoint[CONV_MAX_SEQS * CONV_MAX_CHECKPOINTS];
    for (int s = 0; s <= spec->n_seqs; s++)
        start[s] = first_token(spec, s);
    for (int s = 0; s < spec->n_seqs; s++) {
        position[s] = spec->seq[s].position;
        src[s] = spec->seq[s].src;
        dst[s] = spec->seq[s].dst;
        for (int i = 0; i < spec->n_checkpoints; i++)
            checkpoint[s * spec->n_checkpoints + i] = spec->seq[s].checkpoint[i];
    }
    if (spec->map_start)
        check_add_map(c, "seq_start", FIELD(seq_start), start, spec->n_seqs + 1, "seq", rng);
    if (spec->map_position)
        check_add_map(c, "position", FIELD(position), position, spec->n_seqs, "seq", rng);
    if (spec->map_src)
        check_add_map(c, "history_src", FIELD(history_src), src, spec->n_seqs, "seq", rng);
    if (spec->map_dst)
        check_add_map(c, "history_dst", FIELD(history_dst), dst, spec->n_seqs, "seq", rng);
    if (spec->interval)
        check_add_map(c, "history_checkpoint", FIELD(history_checkpoint), checkpoint,
                      spec->n_seqs * spec->n_checkpoints, "seq * checkpoint", rng);
    if (spec->tree && spec->map_parent)
        add_parents(c, spec, rng);
}

void check_build_ssm_conv(check_case *c, const check_spec *any, check_rng *rng)
{
    const conv_spec *spec = &any->ssm_conv;
    gdn_ssm_conv_args *a = &c->args.ssm_conv;
    const int shorten = spec->strided && check_one_in(rng, 2), history = spec->where != CONV_NOWHERE;
    *a = (gdn_ssm_conv_args){
        .size = sizeof *a,
        .flags = (spec->silu ? GDN_CONV_SILU : 0u) | (spec->tree ? GDN_CONV_TREE : 0u),
        .n_seqs = spec->n_seqs,
        .n_tokens = first_token(spec, spec->n_seqs) + spec->tail,
        .n_channels = spec->n_channels,
        .kernel_width = spec->width,
        .n_rows = history ? spec->n_rows : 0,
        .n_columns = !history || (shorten && spec->n_columns == spec->width - 1) ? 0 : spec->n_columns,
        .n_rows_out = !history || (shorten && spec->n_rows_out == spec->n_rows) ? 0 : spec->n_rows_out,
        .checkpoint_interval = spec->interval,
        .n_checkpoints = spec->n_checkpoints,
    };
    add_tokens(c, spec, "x", FIELD(x), spec->dtype_x, 0, rng);
    add_weights(c, spec, rng);
    add_tokens(c, spec, "out", FIELD(out), spec->dtype_out, 1, rng);
    if (history) {
        add_history(c, spec, "history", FIELD(history), spec->n_rows, spec->where != CONV_APART, rng);
        if (spec->where == CONV_APART)
            add_history(c, spec, "history_out", FIELD(history_out), spec->n_rows_out, 1, rng);
        if (spec->where == CONV_SAME)
            check_add_same(c, "history", "history_out", FIELD(history_out));
    }
    fill(c, spec);
    add_maps(c, spec, rng);
    check_note_writes(c);
}

/* ---- What a call may write -------------------------------------------------------------------------------------- */

const char *check_writes_ssm_conv(const void *args, const check_writes *writes)
{
    const gdn_ssm_conv_args *a = args;
    const char *wrong = NULL;
    const gdn_tensor *histories = a->history_out.data ? &a->history_out : &a->history;
    const int apart = (uintptr_t)histories->data + histories->offset != (uintptr_t)a->history.data + a->history.offset;
    const int64_t W = !a->history.data ? 0 : a->n_columns ? a->n_columns : a->kernel_width - 1;
    const int64_t rows = a->history_out.data && a->n_rows_out ? a->n_rows_out : a->n_rows;
    const int64_t read[4] = { a->n_rows, W, 1, 1 }, written[4] = { rows, W, 1, 1 };
    const uint64_t channels = (uint64_t)a->n_channels, bytes = check_unit_bytes(histories->dtype) * channels;
    const check_place out = check_resolve(&a->out, 2, (int64_t[]){ a->n_seqs, a->n_tokens }, a->n_channels, 1);
    const check_place source = check_resolve(&a->history, 2, read, a->n_channels, 0);
    const check_place target = check_resolve(histories, 2, written, a->n_channels, 0);
    for (int pass = 0; pass < 2 && a->n_tokens && !wrong; pass++) {
        for (int64_t s = 0; s < a->n_seqs && !wrong; s++) {
            const check_sequence q = check_sequence_of(writes, &a->seq_start, s, a->n_seqs, a->n_tokens, &wrong);
            const int64_t last_row = a->history.data ? a->n_rows - 1 : GDN_NONE;
            const int64_t src = check_entry(writes, &a->history_src, s, a->history.data ? s : GDN_NONE, GDN_SKIP,
                                            last_row, "history_src", &wrong);
            const int64_t dst = check_entry(writes, &a->history_dst, s, a->history.data ? s : GDN_NONE, GDN_NONE,
                                            a->history.data ? rows - 1 : GDN_NONE, "history_dst", &wrong);
            const int64_t position =
                check_entry(writes, &a->position, s, 0, 0, INT32_MAX - q.length, "position", &wrong);
            if (src == GDN_SKIP || wrong)
                continue;
            check_parents(writes, &a->parent, q, &wrong);
            if (pass == 0)
                check_tokens_written(writes, &a->out, &out, q, s, 1, check_unit_bytes(a->out.dtype) * channels);
            /* The newest columns; where the row is the one that was read, the older of them are there already. */
            const int64_t end = position + q.length, oldest = end > W ? end - W : 0,
                          kept = !apart && src == dst ? position : 0;
            for (int64_t p = oldest > kept ? oldest : kept; pass && p < end && q.length && dst >= 0; p++)
                writes->may(writes->user, histories, target.at + dst * target.stride[0] + p % W * target.stride[1],
                            bytes);
            /* Of a checkpoint, what the next token reads; of those, what lay before this call's tokens is there already
             * in the row that was read. */
            for (int64_t t = 0, i = 0; pass && t < q.length && i < a->n_checkpoints; t++) {
                const int64_t length = position + t + 1, reach = a->kernel_width - 1;
                if (length % a->checkpoint_interval)
                    continue;
                const int64_t row = check_entry(writes, &a->history_checkpoint, s * a->n_checkpoints + i++, GDN_NONE,
                                                GDN_NONE, rows - 1, "history_checkpoint", &wrong);
                const int64_t given = !apart && src == row ? position : 0, least = length > reach ? length - reach : 0;
                for (int64_t p = least > given ? least : given; row >= 0 && !wrong && p < length; p++)
                    writes->may(writes->user, histories,
                                target.at + row * target.stride[0] + p % W * target.stride[1], bytes);
            }
        }
        if (pass == 0 && !wrong) {
            check_pool_lines(writes, &source, read, bytes);
            check_pool_lines(writes, &target, written, bytes);
        }
    }
    return wrong;
}
