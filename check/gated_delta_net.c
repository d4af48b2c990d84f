/* gated_delta_net: random cases and the fixed list. */
#include "specs.h"

#include <stdio.h>
#include <string.h>

#include "entries.h"
#include "environment.h"
#include "families.h"
#include "ggml_cases.h"
#include "target.h"

static void random_case(check_spec *spec, check_rng *rng)
{
    delta_random(&spec->gated_delta_net, rng, check_one_in(rng, 20) ? 1500000 : 200000);
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
                    delta_defaults(spec, 1, 2, 128, 64);
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
            for (int s = 0; s < 3; s++) delta_ring(spec, s, 2 - s, position + s);
            CHECK_NAME(w, "snapshots/ring_at_%d", position);
        }
}

/* Cases that each need a few lines of their own. */
typedef struct awkward {
    const char *name;
    void (*set)(delta_spec *spec);
} awkward;

#include "check/gated_delta_net_awkward.inc.h"

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
    static const struct {
        const char *name;
        int operand, values;
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
        if (check_here(w)) ggml_delta(i, &w->spec->gated_delta_net, w->name, w->bytes);
    delta_fixed_forms(w);
    delta_fixed_checkpoints(w, &w->spec->gated_delta_net);
    delta_fixed_log(w, &w->spec->gated_delta_net);
    delta_fixed_tree(w, &w->spec->gated_delta_net);
    delta_fixed_state16(w, &w->spec->gated_delta_net);
    fixed_prefill(w); /* the last, since some runs take every nth */
}

const check_suite check_suite_gated_delta_net = { &check_kernel_gated_delta_net, random_case, walk_list,
                                                  check_families_gated_delta_net };
