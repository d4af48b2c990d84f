/* ssm_conv: random cases and the fixed list. */
#include "ssm_conv.h"

#include <stdio.h>
#include <string.h>

#include "environment.h"
#include "families.h"
#include "ggml_cases.h"
#include "target.h"

/* ---- random cases ---------------------------------------------------------------------------------------- */

enum { NOBODY = -1, SEVERAL = -2, MAX_ROWS = 64 };

static int32_t random_position(check_rng *rng, int n_columns, int length)
{
    switch (check_between(rng, 0, 7)) {
    case 0: return 0;
    case 1: return INT32_MAX - length;
    case 2: return check_between(rng, 1 << 20, 1 << 30);
    case 3: case 4: return check_between(rng, 0, n_columns + 1);
    default: return check_between(rng, 0, 300);
    }
}

static void random_maps(conv_spec *spec, check_rng *rng)
{
    int reader[MAX_ROWS], writer[MAX_ROWS];
    const int apart = spec->where == CONV_APART;
    for (int r = 0; r < MAX_ROWS; r++)
        reader[r] = writer[r] = NOBODY;
    spec->map_src = spec->n_rows < spec->n_seqs || !check_one_in(rng, 3);
    spec->map_dst = spec->n_rows_out < spec->n_seqs || !check_one_in(rng, 3);
    if (spec->where == CONV_NOWHERE) { /* only a map of what to skip makes sense */
        spec->map_dst = 0;
        spec->map_src = check_one_in(rng, 2);
    }
    for (int s = 0; s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        seq->src = seq->dst = s;
        if (!spec->map_dst && s < MAX_ROWS)
            writer[s] = s;
    }
    for (int s = 0; s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        if (spec->map_src) {
            const int kind = check_between(rng, 0, 9);
            seq->src = kind == 0 ? GDN_SKIP : GDN_NONE;
            for (int attempt = 0; kind > 1 && spec->where != CONV_NOWHERE && attempt < 8; attempt++) {
                const int row = check_between(rng, 0, spec->n_rows - 1);
                if (!apart && writer[row] != NOBODY && writer[row] != s)
                    continue;
                seq->src = row;
                break;
            }
        }
        if (seq->src >= 0 && seq->length && !apart)
            reader[seq->src] = reader[seq->src] == NOBODY ? s : SEVERAL;
    }
    for (int s = 0; spec->map_dst && s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        const int written = seq->src != GDN_SKIP && seq->length;
        const int in_place = !apart && seq->src >= 0 && check_one_in(rng, 2);
        seq->dst = GDN_NONE;
        for (int attempt = check_one_in(rng, 8) ? 8 : 0; attempt < 8; attempt++) {
            const int row = in_place && !attempt ? seq->src : check_between(rng, 0, spec->n_rows_out - 1);
            if (written && (writer[row] != NOBODY || (reader[row] != NOBODY && reader[row] != s)))
                continue;
            if (written)
                writer[row] = s;
            seq->dst = row;
            break;
        }
    }
}

void conv_random(conv_spec *spec, check_rng *rng)
{
    static const int values[] = { CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL, CHECK_SMALL, CHECK_ZEROS, CHECK_SUBNORMAL,
                                  CHECK_WIDE, CHECK_HUGE, CHECK_SPECIAL, CHECK_ONE_NAN };
    static const int channels[] = { 1, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 128, 257 };
    static const int widths[] = { 3, 4, 4, 4, 5, 9, 15 };
    memset(spec, 0, sizeof *spec);
    spec->seed = check_next(rng);
    spec->n_channels = check_one_in(rng, 2) ? CHECK_PICK(rng, channels) : check_between(rng, 1, 300);
    spec->width = check_one_in(rng, 2) ? CHECK_PICK(rng, widths) : check_between(rng, 1, 16);
    spec->n_columns = spec->width - 1 + (check_one_in(rng, 2) ? 0 : check_between(rng, 1, 9));
    spec->where = check_one_in(rng, 8) ? CONV_NOWHERE : check_between(rng, CONV_IN_PLACE, CONV_APART);
    spec->silu = check_between(rng, 0, 1);
    spec->bias = check_between(rng, 0, 1);
    spec->tap_major = check_between(rng, 0, 1);
    spec->strided = !check_one_in(rng, 4);
    spec->values = CHECK_PICK(rng, values);
    spec->weight_values = check_one_in(rng, 2) ? CHECK_NORMAL : CHECK_PICK(rng, values);
    spec->n_seqs = check_one_in(rng, 3) ? 1 : check_between(rng, 1, 8);
    spec->n_rows = check_one_in(rng, 2) ? spec->n_seqs : check_between(rng, 1, 12);
    spec->n_rows_out = spec->where == CONV_APART && check_one_in(rng, 2) ? check_between(rng, 1, 12) : spec->n_rows;
    const int equal = check_one_in(rng, 2), most = check_one_in(rng, 5) ? 60 : 6, length = check_between(rng, 0, most);
    spec->map_position = check_one_in(rng, 5) ? 0 : 1;
    for (int s = 0; s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        seq->key = check_next(rng);
        seq->length = equal ? length : check_between(rng, 0, most);
        seq->position = spec->map_position ? random_position(rng, spec->n_columns, seq->length) : 0;
    }
    spec->map_start =
        check_draw_starts(&spec->seq[0].length, sizeof spec->seq[0], spec->n_seqs, &spec->lead, &spec->tail, rng);
    random_maps(spec, rng);
    conv_random_types(spec, 0, rng);
    conv_random_checkpoints(spec, *rng);
    conv_random_tree(spec, *rng);
}

void conv_random_types(conv_spec *spec, int exact, check_rng *rng)
{
    static const int types[] = { GDN_F32, GDN_F16, GDN_BF16 };
    const int kind = check_between(rng, 0, 3); /* F32 alone; 16-bit as models have it; any */
    spec->dtype_x = kind == 0 ? GDN_F32 : CHECK_PICK(rng, types);
    spec->dtype_out = spec->dtype_history = spec->dtype_x;
    spec->dtype_weight = check_one_in(rng, 2) ? GDN_F32 : spec->dtype_x;
    spec->dtype_bias = check_one_in(rng, 2) ? GDN_F32 : spec->dtype_x;
    if (kind < 2)
        return;
    spec->dtype_weight = CHECK_PICK(rng, types);
    spec->dtype_bias = CHECK_PICK(rng, types);
    spec->dtype_out = CHECK_PICK(rng, types);
    if (exact)
        spec->dtype_history = check_one_in(rng, 2) ? GDN_F32 : spec->dtype_x;
    else
        spec->dtype_history = CHECK_PICK(rng, types);
    if (spec->dtype_history != spec->dtype_x && check_one_in(rng, 3))
        spec->values = CHECK_TIES;
}

static void random_case(check_spec *spec, check_rng *rng)
{
    conv_random(&spec->ssm_conv, rng);
}

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
    for (int s = 0; s < 5; s += 2)
        spec->seq[s].src = GDN_SKIP;
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
    { "no_sequences", set_no_sequences, 0, 0 }, { "no_tokens", set_no_tokens, 0, 0 },
    { "no_history", set_no_history, 0, 0 }, { "some_skipped", set_some_skipped, 0, 0 },
    { "from_zero", set_from_zero, 0, 0 }, { "nothing_kept", set_nothing_kept, 0, 0 },
    { "other_row", set_other_row, 0, 0 }, { "shared_row", set_shared_row, 0, 0 },
    { "ragged", set_ragged, 0, 0 }, { "strided", set_strided, 0, 0 },
    { "far_position", set_far_position, 0, 0 }, { "subnormal", NULL, CHECK_SUBNORMAL, 3 },
    { "huge", NULL, CHECK_HUGE, 3 }, { "wide", NULL, CHECK_WIDE, 9 }, { "special", NULL, CHECK_SPECIAL, 9 },
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
                        if (!check_here(w))
                            continue;
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
                        for (int s = 0; s < 3; s++)
                            spec->seq[s].position = s * width;
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
                         where == CONV_IN_PLACE ? "in_place" : where == CONV_SAME ? "same" : "apart");
                }
    for (int i = 0; i < CHECK_COUNT(awkwards); i++)
        for (int silu = 0; silu < 2; silu++)
            for (int width = 1; width <= 9; width += width == 1 ? 3 : 5)
                if (check_here(w)) {
                    conv_defaults(spec, 37, width);
                    spec->silu = silu;
                    if (awkwards[i].set)
                        awkwards[i].set(spec);
                    else {
                        conv_batch(spec, 2, awkwards[i].length);
                        spec->values = awkwards[i].values;
                        spec->weight_values = spec->values == CHECK_ZEROS ? CHECK_ZEROS : CHECK_NORMAL;
                    }
                    CHECK_NAME(w, "%s/width%d%s", awkwards[i].name, width, silu ? "_silu" : "");
                }
    for (int kind = 0; kind < 3; kind++)
        for (int threads = 1; threads <= 8; threads++)
            if (check_here(w)) {
                static const char *const kinds[] = { "library", "pool", "reverse" };
                conv_defaults(spec, 700, 4);
                conv_batch(spec, 3, 5);
                if (w->c)
                    w->c->executor = CHECK_EXECUTOR(kind, threads);
                CHECK_NAME(w, "threads/%s_%d", kinds[kind], threads);
            }
    for (int threads = 2; threads <= 8; threads++)
        if (check_here(w)) {
            conv_defaults(spec, 700, 4);
            set_empty_source(spec);
            if (w->c)
                w->c->executor = CHECK_EXECUTOR(CHECK_THREADS_POOL, threads);
            CHECK_NAME(w, "threads/empty_source_%d", threads);
        }
    for (int environment = 0; environment < CHECK_ENV_COUNT; environment++)
        for (int silu = 0; silu < 2; silu++)
            if (check_here(w)) {
                conv_defaults(spec, 50, 4);
                conv_batch(spec, 2, 5);
                spec->silu = silu;
                spec->values = CHECK_SUBNORMAL;
                if (w->c)
                    w->c->environment = environment;
                CHECK_NAME(w, "mode/%d%s", environment, silu ? "_silu" : "");
            }
    for (int i = 0; i < ggml_n_conv(); i++)
        if (check_here(w))
            ggml_conv(i, spec, w->name, w->bytes);
    fixed_types(w);
    conv_fixed_checkpoints(w, spec);
    conv_fixed_tree(w, spec);
}

const check_suite check_suite_ssm_conv = { &check_kernel_ssm_conv, random_case, walk_list, check_families_ssm_conv };
