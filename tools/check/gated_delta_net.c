/* gated_delta_net: random cases and the fixed list. */
#include "specs.h"

#include <stdio.h>
#include <string.h>

#include "entries.h"
#include "environment.h"
#include "families.h"
#include "ggml_cases.h"
#include "target.h"

void delta_random_values(delta_spec *spec, check_rng *rng)
{
    static const int keys[] = { CHECK_SMALL,     CHECK_SMALL, CHECK_SMALL, CHECK_NORMAL,  CHECK_ZEROS,
                                CHECK_SUBNORMAL, CHECK_WIDE,  CHECK_HUGE,  CHECK_SPECIAL, CHECK_ONE_NAN };
    static const int others[] = { CHECK_NORMAL,    CHECK_NORMAL, CHECK_SMALL, CHECK_ZEROS,
                                  CHECK_SUBNORMAL, CHECK_WIDE,   CHECK_HUGE,  CHECK_SPECIAL };
    static const int gates[] = { CHECK_GATE_MODEL, CHECK_GATE_MODEL, CHECK_GATE_SLOW, CHECK_GATE_SLOW, CHECK_GATE_GGML,
                                 CHECK_GATE_EDGE, CHECK_GATE_EDGE, CHECK_GATE_ZERO, CHECK_GATE_UNDER };
    const int tame = check_one_in(rng, 2); /* half of the cases stay finite, so that their bits say more */
    spec->values[DELTA_Q] = tame ? CHECK_SMALL : CHECK_PICK(rng, keys);
    spec->values[DELTA_K] = tame ? CHECK_SMALL : CHECK_PICK(rng, keys);
    spec->values[DELTA_V] = tame ? CHECK_NORMAL : CHECK_PICK(rng, others);
    spec->values[DELTA_G] = CHECK_PICK(rng, gates);
    spec->values[DELTA_BETA] = tame || !check_one_in(rng, 4) ? CHECK_UNIT : CHECK_PICK(rng, others);
    spec->values[DELTA_STATE] = tame ? CHECK_NORMAL : CHECK_PICK(rng, others);
}

void delta_random_ways(delta_spec *spec, check_rng *rng)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
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

void delta_random_state(delta_spec *spec)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    spec->dtype_state = types[spec->seed >> 32 & 3];
}

/* ---- random cases -------------------------------------------------------------------------------------- */

static int random_dim(check_rng *rng)
{
    static const int usual[] = { 16, 32, 64, 128 };
    const int kind = check_between(rng, 0, 19);
    if (kind < 10)
        return CHECK_PICK(rng, usual);
    return kind < 17 ? check_between(rng, 16, 80) : kind < 19 ? check_between(rng, 16, 256) : 256;
}

static int random_length(check_rng *rng, int style)
{
    switch (style) {
    case 0: return 1;
    case 1: return check_between(rng, 0, 3);
    case 2: return check_between(rng, 1, 9);
    default: return check_one_in(rng, 4) ? check_between(rng, 10, 70) : check_between(rng, 0, 12);
    }
}

static int64_t work(const delta_spec *spec)
{
    int64_t tokens = 2;
    for (int s = 0; s < spec->n_seqs; s++)
        tokens += spec->seq[s].length;
    const int64_t state = (int64_t)spec->n_heads_v * spec->dim_k * spec->dim_v;
    return state * (tokens + (int64_t)spec->n_rows * spec->n_slots +
                    (spec->where == DELTA_APART ? (int64_t)spec->n_rows_out * spec->n_slots_out : 0));
}

/* Which sequences have to do with an entry of the pools, for the rule that no slot is written twice nor
 * written by one sequence and read by another. */
enum { NOBODY = -1, SEVERAL = -2, MAX_ENTRIES = 256 };

static void random_sources(delta_spec *spec, const int *writer, check_rng *rng)
{
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        const int kind = check_between(rng, 0, 9);
        seq->src = kind == 0 ? GDN_SKIP : GDN_NONE;
        for (int attempt = 0; kind > 1 && attempt < 8; attempt++) {
            const int e = check_between(rng, 0, spec->n_rows * spec->n_slots - 1);
            if (spec->where != DELTA_APART && writer[e] != NOBODY && writer[e] != s)
                continue;
            seq->src = e;
            break;
        }
    }
}

static void random_targets(delta_spec *spec, check_rng *rng)
{
    int reader[MAX_ENTRIES], writer[MAX_ENTRIES];
    for (int e = 0; e < MAX_ENTRIES; e++)
        reader[e] = writer[e] = NOBODY;
    for (int s = 0; s < spec->n_seqs; s++) {
        const delta_seq *seq = &spec->seq[s];
        if (seq->src >= 0 && seq->length && spec->where != DELTA_APART)
            reader[seq->src] = reader[seq->src] == NOBODY ? s : SEVERAL;
    }
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        for (int r = 0; r < spec->n_snapshots; r++) {
            const int last = spec->n_rows_out * spec->n_slots_out - 1;
            const int written = seq->src != GDN_SKIP && r < seq->length;
            const int in_place = spec->where != DELTA_APART && seq->src >= 0 && check_one_in(rng, 3);
            seq->dst[r] = GDN_NONE;
            if (check_one_in(rng, 8))
                continue;
            for (int attempt = 0; attempt < 8; attempt++) {
                const int e = in_place && !attempt ? seq->src : check_between(rng, 0, last);
                if (written && (writer[e] != NOBODY || (reader[e] != NOBODY && reader[e] != s)))
                    continue;
                if (written)
                    writer[e] = s;
                seq->dst[r] = e;
                break;
            }
        }
    }
}

static void random_maps(delta_spec *spec, check_rng *rng)
{
    int writer[MAX_ENTRIES];
    for (int e = 0; e < MAX_ENTRIES; e++)
        writer[e] = NOBODY;
    spec->map_src = spec->n_rows < spec->n_seqs || !check_one_in(rng, 4);
    spec->map_dst = spec->n_rows_out < spec->n_seqs || spec->n_snapshots > spec->n_slots_out || !check_one_in(rng, 4);
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        seq->src = s * spec->n_slots;
        for (int r = 0; !spec->map_dst && r < spec->n_snapshots; r++) {
            seq->dst[r] = s * spec->n_slots_out + r;
            writer[seq->dst[r]] = s;
        }
    }
    if (spec->map_src)
        random_sources(spec, writer, rng);
    if (spec->map_dst)
        random_targets(spec, rng);
    if (spec->map_src && spec->map_dst && spec->where != DELTA_APART && spec->n_slots >= spec->n_snapshots &&
        spec->n_rows >= spec->n_seqs && check_one_in(rng, 4)) {
        const int shift = check_between(rng, 0, spec->n_rows - 1);
        for (int s = 0; s < spec->n_seqs; s++)
            delta_ring(spec, s, (s + shift) % spec->n_rows, check_one_in(rng, 5) ? 0 : check_between(rng, 1, 1000));
    }
}

static void random_call(delta_spec *spec, check_rng *rng, int64_t budget)
{
    static const int types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    static const int heads[] = { 1, 1, 2, 2, 3, 4, 5, 8 };
    memset(spec, 0, sizeof *spec);
    spec->seed = check_next(rng);
    spec->dim_k = random_dim(rng);
    spec->dim_v = check_one_in(rng, 2) ? spec->dim_k : random_dim(rng);
    spec->n_heads_k = CHECK_PICK(rng, heads);
    spec->n_heads_v = spec->n_heads_k * CHECK_PICK(rng, ((const int[]){ 1, 1, 2, 2, 3, 4 }));
    spec->head_map = check_between(rng, 0, 1);
    spec->gate = check_between(rng, 0, 1);
    spec->layout = check_between(rng, 0, 1);
    spec->where = check_between(rng, DELTA_IN_PLACE, DELTA_APART);
    spec->strided = !check_one_in(rng, 4);
    spec->scale = check_one_in(rng, 2) ? 0 : check_one_in(rng, 8) ? -1e-40f : check_unit(rng) + 0.01f;
    const int one_type = check_one_in(rng, 2);
    spec->dtype[0] = CHECK_PICK(rng, types);
    spec->dtype[1] = one_type ? spec->dtype[0] : CHECK_PICK(rng, types);
    spec->dtype[2] = one_type ? spec->dtype[0] : CHECK_PICK(rng, types);
    spec->same_keys = spec->dtype[0] == spec->dtype[1] && check_one_in(rng, 16);
    delta_random_values(spec, rng);

    spec->n_seqs = check_one_in(rng, 3) ? 1 : check_between(rng, 1, 7);
    spec->n_slots = check_one_in(rng, 2) ? 1 : check_between(rng, 1, 6);
    spec->n_rows = check_between(rng, 1, 3) * (check_one_in(rng, 4) ? 1 : spec->n_seqs);
    spec->n_slots_out = spec->where == DELTA_APART && check_one_in(rng, 2) ? check_between(rng, 1, 6) : spec->n_slots;
    spec->n_rows_out = spec->where == DELTA_APART && check_one_in(rng, 2) ? check_between(rng, 1, 9) : spec->n_rows;
    spec->n_snapshots = check_one_in(rng, 2) ? spec->n_slots_out : check_between(rng, 1, 8);
    const int style = check_between(rng, 0, 3), equal = check_one_in(rng, 3), length = random_length(rng, style);
    for (int s = 0; s < spec->n_seqs; s++)
        spec->seq[s] = (delta_seq){ .length = equal ? length : random_length(rng, style), .key = check_next(rng) };

    while (work(spec) > budget) { /* make smaller what is largest */
        int most = 0;
        for (int s = 1; s < spec->n_seqs; s++)
            most = spec->seq[s].length > spec->seq[most].length ? s : most;
        const int ratio = spec->n_heads_v / spec->n_heads_k;
        if (ratio > 2) spec->n_heads_v = 2 * spec->n_heads_k;
        else if (spec->n_heads_k > 2) spec->n_heads_k = 2, spec->n_heads_v = 2 * ratio;
        else if (!equal && spec->seq[most].length > 3) spec->seq[most].length = spec->seq[most].length / 2;
        else if (equal && spec->seq[0].length > 3) for (int s = 0; s < spec->n_seqs; s++) spec->seq[s].length = 3;
        else if (spec->n_rows > spec->n_seqs) spec->n_rows = spec->n_seqs;
        else if (spec->n_rows_out > spec->n_seqs) spec->n_rows_out = spec->n_seqs;
        else if (spec->n_seqs > 2) spec->n_seqs = 2, spec->n_rows = spec->n_rows_out = 2;
        else if (spec->dim_v > 64) spec->dim_v = spec->dim_v / 2 + 8;
        else break;
        if (spec->where != DELTA_APART) spec->n_rows_out = spec->n_rows;
    }
    spec->map_start =
        check_draw_starts(&spec->seq[0].length, sizeof spec->seq[0], spec->n_seqs, &spec->lead, &spec->tail, rng);
    random_maps(spec, rng);
    if (check_one_in(rng, 2))
        delta_random_forms(spec, rng);
    spec->dtype_out = CHECK_PICK(rng, types);
    delta_random_checkpoints(spec, *rng);
    delta_random_log(spec, *rng);
    delta_random_tree(spec, *rng);
    delta_random_state16(spec, *rng);
}

static void random_case(check_spec *spec, check_rng *rng)
{
    random_call(&spec->gated_delta_net, rng, check_one_in(rng, 20) ? 1500000 : 200000);
}

/* ---- the fixed list -------------------------------------------------------------------------------------- */

static void fixed_sizes(check_walk *w)
{
    delta_spec *spec = &w->spec->gated_delta_net;
    static const int dims[] = { 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 100, 127, 128, 129, 192, 255, 256 };
    for (int i = 0; i < CHECK_COUNT(dims); i++)
        for (int other = 0; other < 2; other++)
            for (int gate = 0; gate < 2; gate++)
                for (int layout = 0; layout < 2; layout++)
                    if (check_here(w)) {
                        const int dim_v = other ? dims[(i * 5 + 7) % CHECK_COUNT(dims)] : dims[i];
                        delta_defaults(spec, 1, 2, dims[i], dim_v);
                        delta_batch(spec, 2, 3);
                        spec->gate = gate;
                        spec->layout = layout;
                        CHECK_NAME(w, "sizes/k%d_v%d_%s_%s", dims[i], dim_v, gate ? "channel" : "scalar",
                                   layout ? "kv" : "vk");
                    }
    static const int heads[][2] = { { 1, 1 }, { 1, 4 }, { 2, 4 }, { 3, 3 }, { 3, 9 }, { 16, 32 }, { 1, 17 } };
    for (int i = 0; i < CHECK_COUNT(heads); i++)
        for (int map = 0; map < 2; map++)
            for (int gate = 0; gate < 2; gate++)
                if (check_here(w)) {
                    delta_defaults(spec, heads[i][0], heads[i][1], 32, 32);
                    delta_batch(spec, 2, 2);
                    spec->head_map = map;
                    spec->gate = gate;
                    CHECK_NAME(w, "heads/%d_of_%d_%s_%s", heads[i][0], heads[i][1], map ? "tiled" : "grouped",
                               gate ? "channel" : "scalar");
                }
    static const int lengths[] = { 1,  2,  3,  4,  5,  7,   8,   9,   15,  16,  17, 31,
                                   32, 33, 63, 64, 65, 100, 127, 128, 129, 200, 256 };
    for (int i = 0; i < CHECK_COUNT(lengths); i++)
        for (int gate = 0; gate < 2; gate++)
            for (int layout = 0; layout < 2; layout++)
                if (check_here(w)) {
                    delta_defaults(spec, 1, 2, 64, 64);
                    delta_batch(spec, 1, lengths[i]);
                    spec->gate = gate;
                    spec->layout = layout;
                    spec->values[DELTA_G] = CHECK_GATE_SLOW;
                    CHECK_NAME(w, "tokens/%d_%s_%s", lengths[i], gate ? "channel" : "scalar", layout ? "kv" : "vk");
                }
    /* Long calls at sizes that leave remainders: implementations cut tokens into chunks and columns into blocks. */
    static const int odd[][2] = { { 16, 16 }, { 33, 17 }, { 64, 40 }, { 32, 100 }, { 100, 72 } };
    for (int i = 0; i < CHECK_COUNT(odd); i++)
        for (int length = 75; length <= 300; length *= 2)
            for (int gate = 0; gate < 2; gate++)
                for (int layout = 0; layout < 2; layout++)
                    if (check_here(w)) {
                        delta_defaults(spec, 1, 1, odd[i][0], odd[i][1]);
                        spec->n_slots = spec->n_slots_out = spec->n_snapshots = 2;
                        delta_batch(spec, 1, length);
                        spec->gate = gate;
                        spec->layout = layout;
                        spec->values[DELTA_G] = CHECK_GATE_SLOW;
                        CHECK_NAME(w, "chunks/k%d_v%d_T%d_%s_%s", odd[i][0], odd[i][1], length,
                                   gate ? "channel" : "scalar", layout ? "kv" : "vk");
                    }
    for (int q = 0; q < 3; q++)
        for (int k = 0; k < 3; k++)
            for (int v = 0; v < 3; v++)
                if (check_here(w)) {
                    static const char *const names[] = { "f32", "f16", "bf16" };
                    delta_defaults(spec, 2, 2, 48, 40);
                    delta_batch(spec, 2, 3);
                    spec->dtype[0] = q;
                    spec->dtype[1] = k;
                    spec->dtype[2] = v;
                    CHECK_NAME(w, "types/q_%s_k_%s_v_%s", names[q], names[k], names[v]);
                }
}

/* One token, which implementations treat apart: lines of the state that lie differently where they are read and
 * where they are written, snapshots in place, elsewhere and nowhere, and every type of q, k and v. */
static void fixed_decode(check_walk *w)
{
    delta_spec *spec = &w->spec->gated_delta_net;
    static const char *const where[] = { "in_place", "same", "apart" }, *const types[] = { "f32", "f16", "bf16" };
    static const int dims[][2] = { { 64, 64 }, { 128, 128 }, { 128, 40 }, { 256, 64 } };
    for (int i = 0; i < CHECK_COUNT(dims); i++)
        for (int gate = 0; gate < 2; gate++)
            for (int p = 0; p < 3; p++)
                for (int type = 0; type < 3; type++)
                    for (int strided = 0; strided < 2; strided++)
                        if (check_here(w)) {
                            delta_defaults(spec, 2, 4, dims[i][0], dims[i][1]);
                            spec->n_slots = spec->n_slots_out = 2;
                            spec->n_snapshots = 1;
                            delta_batch(spec, 3, 1);
                            spec->map_src = spec->map_dst = 1;
                            spec->gate = gate;
                            spec->where = p;
                            spec->strided = strided;
                            for (int s = 0; s < 3; s++) { /* the slot that is read, the other, none */
                                spec->seq[s].src = 2 * s;
                                spec->seq[s].dst[0] = s == 2 ? GDN_NONE : 2 * s + s;
                            }
                            for (int m = 0; m < 3; m++) spec->dtype[m] = type;
                            CHECK_NAME(w, "decode/k%d_v%d_%s_%s_%s_%s", dims[i][0], dims[i][1],
                                       gate ? "channel" : "scalar", where[p], types[type], strided ? "gaps" : "packed");
                        }
}

/* Many tokens per sequence at the sizes of models, which devices may treat apart: sequences of different lengths that
 * begin with a state, with none, or are padding, and values that are no whole number of anything. */
static void fixed_prefill(check_walk *w)
{
    delta_spec *spec = &w->spec->gated_delta_net;
    static const int keys[] = { 64, 128, 256 }, lengths[] = { 11, 1, 30, 9 };
    static const char *const types[] = { "f32", "f16", "bf16" };
    for (int i = 0; i < CHECK_COUNT(keys); i++)
        for (int gate = 0; gate < 2; gate++)
            for (int type = 0; type < CHECK_COUNT(types); type++)
                if (check_here(w)) {
                    delta_defaults(spec, 1, 2, keys[i], 44);
                    spec->n_snapshots = 3;
                    spec->n_slots = spec->n_slots_out = 3;
                    delta_batch(spec, 4, 0);
                    for (int s = 0; s < 4; s++) spec->seq[s].length = lengths[s];
                    spec->map_start = spec->map_src = spec->map_dst = 1;
                    spec->seq[0].src = GDN_NONE;
                    spec->seq[3].src = GDN_SKIP;
                    spec->gate = gate;
                    spec->layout = (i + gate + type) & 1;
                    spec->strided = type & 1;
                    for (int m = 0; m < 3; m++) spec->dtype[m] = type;
                    CHECK_NAME(w, "prefill/k%d_%s_%s", keys[i], gate ? "channel" : "scalar", types[type]);
                }
}

static void fixed_snapshots(check_walk *w)
{
    delta_spec *spec = &w->spec->gated_delta_net;
    static const int slots[] = { 1, 2, 3, 4, 8, 16 }, lengths[] = { 0, 1, 2, 3, 4, 5, 8, 9, 17 };
    static const char *const where[] = { "in_place", "same", "apart" };
    for (int i = 0; i < CHECK_COUNT(slots); i++)
        for (int j = 0; j < CHECK_COUNT(lengths); j++)
            for (int p = 0; p < 3; p++)
                if (check_here(w)) {
                    delta_defaults(spec, 1, 2, 24, 16);
                    spec->n_slots = spec->n_slots_out = spec->n_snapshots = slots[i];
                    delta_batch(spec, 2, lengths[j]);
                    spec->where = p;
                    spec->layout = (i + j) & 1;
                    CHECK_NAME(w, "snapshots/K%d_T%d_%s", slots[i], lengths[j], where[p]);
                }
    for (int position = 0; position < 9; position++)
        if (check_here(w)) {
            delta_defaults(spec, 1, 2, 32, 32);
            spec->n_slots = spec->n_slots_out = spec->n_snapshots = 5;
            delta_batch(spec, 3, 4);
            spec->map_src = spec->map_dst = 1;
            for (int s = 0; s < 3; s++)
                delta_ring(spec, s, 2 - s, position + s);
            CHECK_NAME(w, "snapshots/ring_at_%d", position);
        }
}

/* Cases that each need a few lines of their own. */
typedef struct awkward {
    const char *name;
    void (*set)(delta_spec *spec);
} awkward;

#include "tools/check/gated_delta_net_awkward.inc.h"

static const awkward awkwards[] = {
    { "no_sequences", set_no_sequences },
    { "no_tokens", set_no_tokens },
    { "no_tokens_maps", set_no_tokens_maps },
    { "ragged", set_ragged },
    { "ragged_windows", set_ragged_windows },
    { "all_skipped", set_all_skipped },
    { "some_skipped", set_some_skipped },
    { "padding_beside_row_0", set_padding_beside_row_0 },
    { "from_zero", set_from_zero },
    { "nothing_kept", set_nothing_kept },
    { "shared_source", set_shared_source },
    { "permuted_rows", set_permuted_rows },
    { "other_slot", set_other_slot },
    { "only_older_snapshot", set_only_older_snapshot },
    { "strided", set_strided },
    { "strided_half", set_strided_half },
    { "same_keys", set_same_keys },
    { "long_memory", set_long_memory },
    { "tiny_scale", set_tiny_scale },
};

static void fixed_awkward(check_walk *w)
{
    delta_spec *spec = &w->spec->gated_delta_net;
    for (int i = 0; i < CHECK_COUNT(awkwards); i++)
        for (int gate = 0; gate < 2; gate++)
            for (int layout = 0; layout < 2; layout++)
                if (check_here(w)) {
                    delta_defaults(spec, 1, 2, 32, 40);
                    spec->gate = gate;
                    spec->layout = layout;
                    awkwards[i].set(spec);
                    CHECK_NAME(w, "%s/%s_%s", awkwards[i].name, gate ? "channel" : "scalar", layout ? "kv" : "vk");
                }
    static const struct { const char *name; int operand, values;
    } values[] = {
        { "subnormal_state", DELTA_STATE, CHECK_SUBNORMAL },
        { "subnormal_q", DELTA_Q, CHECK_SUBNORMAL },
        { "subnormal_k", DELTA_K, CHECK_SUBNORMAL },
        { "subnormal_v", DELTA_V, CHECK_SUBNORMAL },
        { "huge_state", DELTA_STATE, CHECK_HUGE },
        { "huge_v", DELTA_V, CHECK_HUGE },
        { "huge_k", DELTA_K, CHECK_HUGE },
        { "wide_q", DELTA_Q, CHECK_WIDE },
        { "zeros_k", DELTA_K, CHECK_ZEROS },
        { "zeros_state", DELTA_STATE, CHECK_ZEROS },
        { "gate_edge", DELTA_G, CHECK_GATE_EDGE },
        { "gate_under", DELTA_G, CHECK_GATE_UNDER },
        { "gate_zero", DELTA_G, CHECK_GATE_ZERO },
        { "gate_wide", DELTA_G, CHECK_WIDE },
        { "gate_special", DELTA_G, CHECK_SPECIAL },
        { "nan_q", DELTA_Q, CHECK_ONE_NAN },
        { "nan_v", DELTA_V, CHECK_ONE_NAN },
        { "special_k", DELTA_K, CHECK_SPECIAL },
        { "special_state", DELTA_STATE, CHECK_SPECIAL },
        { "beta_wide", DELTA_BETA, CHECK_WIDE },
    };
    for (int i = 0; i < CHECK_COUNT(values); i++)
        for (int gate = 0; gate < 2; gate++)
            for (int layout = 0; layout < 2; layout++)
                if (check_here(w)) {
                    delta_defaults(spec, 2, 2, 48, 32);
                    delta_batch(spec, 2, 5);
                    spec->gate = gate;
                    spec->layout = layout;
                    spec->values[values[i].operand] = values[i].values;
                    CHECK_NAME(w, "values/%s_%s_%s", values[i].name, gate ? "channel" : "scalar", layout ? "kv" : "vk");
                }
}

static void set_threads(check_spec *spec, int threads)
{
    delta_spec *delta = &spec->gated_delta_net;
    (void)threads;
    delta_defaults(delta, 2, 4, 64, 64);
    delta->n_slots = delta->n_slots_out = delta->n_snapshots = 2;
    delta_batch(delta, 3, 3);
}

static void set_empty_sources(check_spec *spec)
{
    delta_defaults(&spec->gated_delta_net, 2, 4, 64, 64);
    set_empty_source(&spec->gated_delta_net);
}

static void fixed_callers(check_walk *w)
{
    delta_spec *spec = &w->spec->gated_delta_net;
    static const char *const kinds[] = { "library", "pool" };
    check_walk_threads(w, set_threads);
    check_walk_empty_sources(w, set_empty_sources);
    for (int environment = 0; environment < CHECK_ENV_COUNT; environment++)
        for (int kind = 0; kind < 2; kind++)
            for (int values = 0; values < 2; values++)
                if (check_here(w)) {
                    delta_defaults(spec, 2, 2, 33, 40);
                    delta_batch(spec, 2, 4);
                    spec->values[DELTA_STATE] = values ? CHECK_SUBNORMAL : CHECK_NORMAL;
                    spec->values[DELTA_V] = values ? CHECK_SUBNORMAL : CHECK_NORMAL;
                    if (w->c) {
                        w->c->environment = environment;
                        w->c->executor = CHECK_EXECUTOR(kind, 2);
                    }
                    CHECK_NAME(w, "mode/%d_%s_%s", environment, kinds[kind], values ? "subnormal" : "normal");
                }
}

static void walk_list(check_walk *w)
{
    fixed_sizes(w);
    fixed_decode(w);
    fixed_snapshots(w);
    fixed_awkward(w);
    fixed_callers(w);
    for (int i = 0; i < ggml_n_delta(); i++)
        if (check_here(w))
            ggml_delta(i, &w->spec->gated_delta_net, w->name, w->bytes);
    delta_fixed_forms(w);
    delta_fixed_checkpoints(w, &w->spec->gated_delta_net);
    delta_fixed_log(w, &w->spec->gated_delta_net);
    delta_fixed_tree(w, &w->spec->gated_delta_net);
    delta_fixed_state16(w, &w->spec->gated_delta_net);
    fixed_prefill(w); /* the last, since some runs take every nth */
}

const check_suite check_suite_gated_delta_net = { &check_kernel_gated_delta_net, random_case, walk_list,
                                                  check_families_gated_delta_net };
