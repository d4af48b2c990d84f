/* The fixed cases of gated_delta_net: sizes, types, inputs and batches. See cases.h. Checkpoints, logs, trees and
 * states of 16 bits are in cases_gated_delta_net_log.c. */
#include "cases.h"

#include <stdarg.h>
#include <stdio.h>

#define ADD(...) check_add(list, &(check_spec){ .gated_delta_net = d }, __VA_ARGS__)

enum { N_TYPES = 3 }; /* F32, F16 and BF16 */

static const char *const *const types = check_type_names;
static const char *const *const gates = check_gate_names, *const *const layouts = check_layout_names;
static const char *const *const places = check_place_names;

/* Four cases: both gates, both layouts of the state. `format` is what comes before their names. */
__attribute__((format(printf, 3, 4))) static void add_four(check_list *list, delta_spec d, const char *format, ...)
{
    char name[64];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (d.gate = 0; d.gate < 2; d.gate++)
        for (d.layout = 0; d.layout < 2; d.layout++) ADD("%s%s_%s", name, gates[d.gate], layouts[d.layout]);
}

/* ---- Sizes and types ---- */

static void sizes(check_list *list)
{
    static const int dims[][2] = {
        { 16, 16 },   { 16, 64 },   { 17, 17 },   { 17, 128 },  { 24, 24 },   { 24, 16 },   { 31, 31 },
        { 31, 33 },   { 32, 32 },   { 32, 100 },  { 33, 33 },   { 33, 255 },  { 48, 48 },   { 48, 31 },
        { 64, 64 },   { 64, 65 },   { 65, 65 },   { 65, 129 },  { 96, 96 },   { 96, 17 },   { 100, 100 },
        { 100, 48 },  { 127, 127 }, { 127, 127 }, { 128, 128 }, { 128, 256 }, { 129, 129 }, { 129, 32 },
        { 192, 192 }, { 192, 96 },  { 255, 255 }, { 255, 192 }, { 256, 256 }, { 256, 24 },
    };
    static const int heads[][2] = { { 1, 1 }, { 1, 4 }, { 2, 4 }, { 3, 3 }, { 3, 9 }, { 16, 32 }, { 1, 17 } };
    static const char *const maps[] = { "grouped", "tiled" };
    static const int lengths[] = { 1,  2,  3,  4,  5,  7,   8,   9,   15,  16,  17, 31,
                                   32, 33, 63, 64, 65, 100, 127, 128, 129, 200, 256 };
    for (int i = 0; i < COUNT(dims); i++) {
        const delta_spec d = DELTA(2, 3, .n_heads_v = 2, .dim_k = dims[i][0], .dim_v = dims[i][1]);
        add_four(list, d, "sizes/k%d_v%d_", d.dim_k, d.dim_v);
    }
    for (int i = 0; i < COUNT(heads); i++)
        for (int map = 0; map < 2; map++)
            for (int gate = 0; gate < 2; gate++) {
                const delta_spec d = DELTA(2, 2, .n_heads_k = heads[i][0], .n_heads_v = heads[i][1],
                                           .call.args.head_map = map, .gate = gate, .dim_k = 32, .dim_v = 32);
                ADD("heads/%d_of_%d_%s_%s", d.n_heads_k, d.n_heads_v, maps[map], gates[gate]);
            }
    for (int t = 0; t < COUNT(lengths); t++) {
        const delta_spec d = DELTA(1, lengths[t], .n_heads_v = 2, .dim_k = 128, .dim_v = 64, SLOW);
        add_four(list, d, "tokens/%d_", lengths[t]);
    }
}

/* Heads above 128 in little memory, so that --calls writes them. Every other gate is bounded and has no ssm_a. */
static void wide_heads(check_list *list)
{
    static const int dims[][2] = { { 129, 17 }, { 256, 16 }, { 16, 200 }, { 200, 20 } };
    for (int i = 0; i < COUNT(dims); i++) {
        const int bounded = i % 2;
        add_four(list,
                 DELTA(1, 2, .dim_k = dims[i][0], .dim_v = dims[i][1], .no_a = bounded, .has_bias = bounded,
                       .call.inputs.gate_input = bounded ? GDN_G_BOUNDED : GDN_G_LOG,
                       .call.inputs.lower_bound = bounded ? -5 : 0),
                 "sizes/wide_k%d_v%d_", dims[i][0], dims[i][1]);
    }
}

/* Long calls at sizes that leave remainders: implementations split tokens into chunks and values into blocks. */
static void chunks(check_list *list)
{
    static const int dims[][2] = { { 16, 16 }, { 33, 17 }, { 64, 40 }, { 32, 100 }, { 100, 72 } };
    static const int lengths[] = { 75, 150, 300 };
    for (int i = 0; i < COUNT(dims); i++)
        for (int t = 0; t < COUNT(lengths); t++) {
            const delta_spec d = DELTA(1, lengths[t], .dim_k = dims[i][0], .dim_v = dims[i][1], SLOTS(2), SLOW);
            add_four(list, d, "chunks/k%d_v%d_T%d_", d.dim_k, d.dim_v, lengths[t]);
        }
}

static void types_of_keys(check_list *list)
{
    for (int q = 0; q < N_TYPES; q++)
        for (int k = 0; k < N_TYPES; k++)
            for (int v = 0; v < N_TYPES; v++) {
                const delta_spec d =
                    DELTA(2, 3, .n_heads_k = 2, .n_heads_v = 2, .dim_k = 48, .dim_v = 40, .dtype = { q, k, v });
                ADD("types/q_%s_k_%s_v_%s", types[q], types[k], types[v]);
            }
}

/* Calls with one token: implementations have kernels for them. Rows of the state lie differently where they are read
 * and where they are written. Snapshots go in place, into another slot and nowhere. q, k and v have every type. */
static void decode(check_list *list)
{
    static const int dims[][2] = { { 64, 64 }, { 128, 128 }, { 128, 40 }, { 128, 48 }, { 256, 64 } };
    static const int dst[] = { 0, 3, GDN_NONE };
    for (int i = 0; i < COUNT(dims); i++)
        for (int gate = 0; gate < 2; gate++)
            for (int where = DELTA_IN_PLACE; where <= DELTA_APART; where++)
                for (int type = 0; type < N_TYPES; type++)
                    for (int strided = 0; strided < 2; strided++) {
                        delta_spec d =
                            DELTA(3, 1, .n_heads_k = 2, .n_heads_v = 4, .dim_k = dims[i][0], .dim_v = dims[i][1],
                                  .gate = gate, .where = where, .dtype = { type, type, type }, .strided = strided,
                                  .n_slots = 2, .n_slots_out = 2, .map_src = 1, .map_dst = 1);
                        for (int s = 0; s < 3; s++) d.seq[s].dst[0] = dst[s];
                        ADD("decode/k%d_v%d_%s_%s_%s_%s", d.dim_k, d.dim_v, gates[gate], places[where], types[type],
                            strided ? "gaps" : "packed");
                    }
    /* One token per sequence on average. */
    for (int i = 0; i < COUNT(dims); i++)
        for (int gate = 0; gate < 2; gate++) {
            delta_spec d = DELTA(4, 1, .n_heads_k = 2, .n_heads_v = 4, .dim_k = dims[i][0], .dim_v = dims[i][1],
                                 .gate = gate, .map_start = 1);
            d.seq[0].length = 2, d.seq[1].length = 0;
            ADD("decode/uneven_k%d_v%d_%s", d.dim_k, d.dim_v, gates[gate]);
        }
}

static void snapshots(check_list *list)
{
    static const int slots[] = { 1, 2, 3, 4, 8, 16 }, lengths[] = { 0, 1, 2, 3, 4, 5, 8, 9, 17 };
    for (int k = 0; k < COUNT(slots); k++)
        for (int t = 0; t < COUNT(lengths); t++)
            for (int where = DELTA_IN_PLACE; where <= DELTA_APART; where++) {
                const delta_spec d = DELTA(2, lengths[t], .n_heads_v = 2, .dim_k = 24, .dim_v = 16, SLOTS(slots[k]),
                                           .where = where, .layout = (k + t) % 2);
                ADD("snapshots/K%d_T%d_%s", slots[k], lengths[t], places[where]);
            }
    for (int at = 0; at <= 8; at++) { /* each sequence in another row of five slots */
        delta_spec d = DELTA(3, 4, .n_heads_v = 2, .dim_k = 32, .dim_v = 32, SLOTS(5), .map_src = 1, .map_dst = 1);
        for (int s = 0; s < 3; s++) delta_ring(&d, s, 2 - s, at + s);
        ADD("snapshots/ring_at_%d", at);
    }
}

/* ---- Calls that each need something of their own ---- */

#define EDGE(n, length, ...) DELTA(n, length, .n_heads_v = 2, .dim_k = 32, .dim_v = 40, __VA_ARGS__)

static void edges_of_batches(check_list *list)
{
    static const int ragged[] = { 0, 5, 0, 0, 1, 12, 0, 2 };
    static const int padded[][2] = { { 0, 0 }, { GDN_SKIP, GDN_NONE }, { GDN_NONE, GDN_NONE }, { GDN_NONE, GDN_NONE } };
    static const int kept[] = { 0, 1, 3, 4 };
    delta_spec d;
    add_four(list, EDGE(0, 1, .map_src = 0), "no_sequences/");
    add_four(list, EDGE(3, 0, .map_src = 0), "no_tokens/");
    add_four(list, EDGE(3, 0, .no_operands = 1), "no_tokens_absent/");
    add_four(list, EDGE(3, 0, .map_start = 1, .map_src = 1, .map_dst = 1, .lead = 2), "no_tokens_maps/");

    d = EDGE(8, 0, .map_start = 1);
    for (int s = 0; s < 8; s++) d.seq[s].length = ragged[s];
    add_four(list, d, "ragged/");
    d.lead = 3, d.tail = 4, d.strided = 1;
    add_four(list, d, "ragged_windows/");

    d = EDGE(4, 3, .map_src = 1, .map_dst = 1);
    for (int s = 0; s < 4; s++) d.seq[s].src = GDN_SKIP;
    add_four(list, d, "all_skipped/");

    d = EDGE(6, 3, .map_src = 1, .map_dst = 1);
    for (int s = 0; s < 6; s += 2) d.seq[s].src = GDN_SKIP;
    add_four(list, d, "some_skipped/");

    /* Padding in both maps, while row 0 belongs to a live sequence: a peer clamped -1 to 0 and overwrote it. */
    d = EDGE(4, 2, .map_src = 1, .map_dst = 1);
    for (int s = 0; s < 4; s++) d.seq[s].src = padded[s][0], d.seq[s].dst[0] = padded[s][1];
    add_four(list, d, "padding_beside_row_0/");

    d = EDGE(4, 2, .map_src = 1);
    for (int s = 0; s < 4; s++) d.seq[s].src = GDN_NONE;
    add_four(list, d, "from_zero/");

    d = EDGE(4, 2, .map_dst = 1);
    for (int s = 0; s < 4; s++) d.seq[s].dst[0] = GDN_NONE;
    add_four(list, d, "nothing_kept/");

    d = EDGE(4, 2, ROWS_OF_POOL(5), .map_src = 1, .map_dst = 1);
    for (int s = 0; s < 4; s++) d.seq[s].src = 2, d.seq[s].dst[0] = kept[s];
    add_four(list, d, "shared_source/");

    d = EDGE(6, 1, .map_src = 1, .map_dst = 1);
    for (int s = 0; s < 6; s++) d.seq[s].src = d.seq[s].dst[0] = (s * 5 + 3) % 6;
    add_four(list, d, "permuted_rows/");

    d = EDGE(3, 4, .n_slots = 3, .n_slots_out = 3, .map_src = 1, .map_dst = 1);
    for (int s = 0; s < 3; s++) d.seq[s].src = s * 3 + 1, d.seq[s].dst[0] = s * 3 + 2;
    add_four(list, d, "other_slot/");

    d = EDGE(2, 6, SLOTS(4), .map_dst = 1);
    for (int s = 0; s < 2; s++)
        for (int r = 0; r < 4; r++)
            if (r != 2) d.seq[s].dst[r] = GDN_NONE;
    add_four(list, d, "only_older_snapshot/");
}

static void edges_of_operands(check_list *list)
{
    add_four(list, EDGE(3, 5, SLOTS(3), .strided = 1), "strided/");
    add_four(list, EDGE(3, 5, SLOTS(3), .strided = 1, .dtype = { GDN_F16, GDN_F16, GDN_F16 }, .dim_k = 33, .dim_v = 47),
             "strided_half/");
    add_four(list, EDGE(2, 3, .same_keys = 1), "same_keys/");
    add_four(list, EDGE(1, 300, SLOW), "long_memory/");
    add_four(list, EDGE(1, 3, .call.args.scale = -1e-41f), "tiny_scale/");
}

/* Values of one operand. */
static void values(check_list *list)
{
    static const struct {
        const char *name;
        int operand, values;
    } calls[] = {
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
    for (int i = 0; i < COUNT(calls); i++) {
        delta_spec d = DELTA(2, 5, .n_heads_k = 2, .n_heads_v = 2, .dim_k = 48, .dim_v = 32);
        d.values[calls[i].operand] = calls[i].values;
        add_four(list, d, "values/%s_", calls[i].name);
    }
}

static void threads(check_list *list)
{
    for (int kind = 0; kind < COUNT(check_executor_names); kind++)
        for (int n = 1; n <= 8; n++) {
            const delta_spec d = DELTA(3, 3, .n_heads_k = 2, .n_heads_v = 4, .dim_k = 64, .dim_v = 64, SLOTS(2));
            list->executor = CHECK_EXECUTOR(kind, n);
            ADD("threads/%s_%d", check_executor_names[kind], n);
        }
    /* Every other sequence is empty and names as its source the slot that the next one writes: allowed, since it reads
     * nothing. Reading it all the same races with that writer, which ThreadSanitizer sees. */
    for (int n = 2; n <= 8; n++) {
        delta_spec d = DELTA(12, 0, .n_heads_k = 2, .n_heads_v = 4, .dim_k = 64, .dim_v = 64, .map_start = 1,
                             .map_src = 1, .map_dst = 1);
        for (int s = 0; s < 12; s++) {
            const int full = s % 2;
            d.seq[s].length = full ? 2 : 0;
            d.seq[s].src = full ? GDN_NONE : s + 1;
            if (!full) d.seq[s].dst[0] = GDN_NONE;
        }
        list->executor = CHECK_EXECUTOR(CHECK_THREADS_POOL, n);
        ADD("threads/empty_source_%d", n);
    }
}

/* The caller's floating-point mode. Subnormal values, and numbers that are compared and computed outside of the
 * kernels: the scale, the epsilon of a norm. */
static void modes(check_list *list)
{
    for (int mode = 0; mode < 7; mode++)
        for (int kind = 0; kind < 2; kind++)
            for (int subnormal = 0; subnormal < 2; subnormal++) {
                const int class = subnormal ? CHECK_SUBNORMAL : CHECK_NORMAL;
                const delta_spec d = DELTA(2, 4, .n_heads_k = 2, .n_heads_v = 2, .dim_k = 33, .dim_v = 40,
                                           .values[DELTA_STATE] = class, .values[DELTA_V] = class);
                list->executor = CHECK_EXECUTOR(kind, 2);
                list->environment = mode;
                ADD("mode/%d_%s_%s", mode, check_executor_names[kind], subnormal ? "subnormal" : "normal");
            }
    for (int mode = 0; mode < 7; mode++)
        for (int norm = 0; norm < 2; norm++) {
            const delta_spec d =
                DELTA(1, 6, .n_heads_v = 2, .dim_k = 20, .dim_v = 31, .call.args.scale = norm ? 0 : -1e-41f,
                      .call.inputs.qk_norm = norm ? GDN_NORM_CLAMP : GDN_NORM_NONE,
                      .call.inputs.qk_norm_eps = norm ? 3e-7f : 0);
            list->environment = mode;
            ADD("mode/%d_%s", mode, norm ? "norm" : "scale");
        }
}

/* The cases of ggml's own operator tests (version 0.21, tests/test-backend-ops.cpp), as calls of ours. ggml passes the
 * initial states apart from the K snapshots that it returns, newest first, and maps heads as h % n_heads_k. Its tests
 * allow an error; these compare bits. Each is there twice: "_slow" has gates near 0, with which the state is not
 * forgotten and errors would add up. */
static void ggml(check_list *list)
{
    static const struct {
        int dim, heads, tokens, seqs, kda, repeated, permuted, snapshots;
    } calls[] = {
        { 128, 32, 1, 1, 0, 0, 0, 0 }, { 16, 32, 1, 1, 0, 0, 0, 0 },  { 16, 32, 1, 1, 1, 0, 0, 0 },
        { 16, 32, 1, 1, 1, 0, 1, 0 },  { 64, 16, 1, 2, 0, 0, 0, 0 },  { 64, 4, 4, 1, 0, 0, 0, 0 },
        { 64, 4, 4, 2, 0, 0, 0, 0 },   { 32, 8, 4, 2, 0, 1, 0, 0 },   { 64, 4, 4, 1, 0, 0, 1, 0 },
        { 64, 4, 4, 2, 0, 0, 1, 0 },   { 64, 4, 1, 1, 1, 0, 0, 0 },   { 64, 4, 1, 2, 1, 0, 0, 0 },
        { 16, 4, 1, 2, 1, 0, 0, 0 },   { 32, 4, 4, 1, 1, 0, 0, 0 },   { 64, 4, 4, 2, 1, 0, 0, 0 },
        { 32, 8, 4, 2, 1, 1, 0, 0 },   { 64, 4, 4, 2, 1, 0, 1, 0 },   { 16, 4, 4, 2, 1, 0, 1, 0 },
        { 64, 4, 64, 1, 0, 0, 0, 0 },  { 64, 4, 65, 1, 0, 0, 0, 0 },  { 64, 4, 100, 1, 0, 0, 0, 0 },
        { 64, 4, 127, 1, 0, 0, 0, 0 }, { 64, 4, 200, 1, 0, 0, 0, 0 }, { 64, 4, 256, 1, 0, 0, 0, 0 },
        { 64, 4, 127, 2, 0, 0, 0, 0 }, { 64, 4, 33, 1, 1, 0, 0, 0 },  { 64, 4, 64, 1, 1, 0, 0, 0 },
        { 64, 4, 100, 1, 1, 0, 0, 0 }, { 16, 4, 2, 1, 0, 0, 0, 2 },   { 32, 4, 4, 1, 0, 0, 0, 4 },
        { 64, 4, 4, 2, 0, 0, 0, 4 },   { 128, 8, 4, 1, 0, 0, 0, 4 },  { 64, 4, 4, 2, 1, 0, 0, 4 },
        { 32, 8, 4, 2, 1, 1, 0, 4 },   { 32, 4, 8, 1, 0, 0, 0, 3 },   { 64, 4, 16, 2, 0, 0, 0, 4 },
    };
    static const char *const snapshot_names[] = { "", "", "_K2", "_K3", "_K4" };
    for (int slow = 0; slow < 2; slow++)
        for (int i = 0; i < COUNT(calls); i++) {
            const int dim = calls[i].dim, heads = calls[i].heads, k = calls[i].snapshots ? calls[i].snapshots : 1;
            const delta_spec d =
                DELTA(calls[i].seqs, calls[i].tokens, .dim_k = dim, .dim_v = dim, .n_heads_k = heads,
                      .n_heads_v = heads * (1 + calls[i].repeated), .call.args.head_map = GDN_HEADS_TILED,
                      .gate = calls[i].kda, .strided = calls[i].permuted, .where = DELTA_APART, .n_slots_out = k,
                      .n_snapshots = k, .values[DELTA_G] = slow ? CHECK_GATE_SLOW : CHECK_GATE_GGML);
            ADD("ggml/gdn/S%d_H%d_T%d_B%d%s%s%s%s%s", dim, heads, calls[i].tokens, calls[i].seqs,
                calls[i].repeated ? "_rep2" : "", calls[i].permuted ? "_perm" : "", calls[i].kda ? "_kda" : "",
                snapshot_names[k], slow ? "_slow" : "");
        }
}

/* ---- Inputs as projections give them ---- */

/* Every form of q and k, g and beta, for one token of the usual head, a few tokens, and more than a chunk. */
static void forms(check_list *list)
{
    static const int lengths[] = { 1, 5, 40, 20 }, dims_v[] = { 64, 40, 48, 40 };
    static const char *const norms[] = { "plain", "add", "clamp" },
                             *const g_forms[] = { "log", "linear", "raw", "a_log", "bounded" },
                             *const beta_forms[] = { "beta", "logit" };
    static const int g_values[] = { CHECK_GATE_MODEL, CHECK_UNIT, CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL };
    for (int t = 0; t < COUNT(lengths); t++)
        for (int norm = 0; norm < 3; norm++)
            for (int g = 0; g < 5; g++)
                for (int beta = 0; beta < 2; beta++) {
                    const int bounded = g == GDN_G_BOUNDED, keys = norm ? CHECK_NORMAL : CHECK_SMALL;
                    const delta_spec d = DELTA(2, lengths[t], .n_heads_k = 2, .n_heads_v = 4, .dim_k = t % 2 ? 33 : 128,
                                               .dim_v = dims_v[t], .call.inputs.qk_norm = norm,
                                               .call.inputs.qk_norm_eps = norm ? 1e-6f : 0, .call.inputs.gate_input = g,
                                               .call.inputs.lower_bound = bounded ? -5 : 0, .no_a = bounded && norm,
                                               .has_bias = g >= GDN_G_RAW, .call.inputs.beta_input = beta,
                                               .call.inputs.beta_factor = 2 * (float)beta, .values[DELTA_Q] = keys,
                                               .values[DELTA_K] = keys, .values[DELTA_G] = g_values[g],
                                               .values[DELTA_A] = g == GDN_G_RAW ? CHECK_GATE_MODEL : CHECK_NORMAL,
                                               .values[DELTA_BETA] = beta ? CHECK_NORMAL : CHECK_UNIT);
                    add_four(list, d, "forms/T%d_%s_%s_%s_", lengths[t], norms[norm], g_forms[g], beta_forms[beta]);
                }
    for (int t = 0; t < 2; t++)
        add_four(list,
                 DELTA(2, lengths[t], .n_heads_v = 2, .dim_k = 32, .dim_v = 16, .call.inputs.gate_input = GDN_G_RAW,
                       .call.inputs.beta_factor = 1, .values[DELTA_G] = CHECK_GATE_HIGH,
                       .values[DELTA_A] = CHECK_GATE_SLOW),
                 "forms/T%d_raw_high_", lengths[t]);
}

/* A norm of what has none, or too much of it. */
static void norms(check_list *list)
{
    static const char *const names[] = { "zeros", "subnormal", "huge", "wide", "special" };
    static const int classes[] = { CHECK_ZEROS, CHECK_SUBNORMAL, CHECK_HUGE, CHECK_WIDE, CHECK_SPECIAL };
    static const float eps[] = { 0, 1e-40f, 1e-6f };
    static const int lengths[] = { 1, 4 };
    for (int norm = GDN_NORM_ADD; norm <= GDN_NORM_CLAMP; norm++)
        for (int v = 0; v < COUNT(classes); v++)
            for (int e = 0; e < 3; e++)
                for (int t = 0; t < 2; t++) {
                    const delta_spec d = DELTA(2, lengths[t], .n_heads_v = 2, .dim_k = 128, .dim_v = 32,
                                               .call.inputs.qk_norm = norm, .call.inputs.qk_norm_eps = eps[e],
                                               .values[DELTA_Q] = classes[v], .values[DELTA_K] = classes[v]);
                    ADD("norms/%s_%s_eps%d_T%d", norm == GDN_NORM_ADD ? "add" : "clamp", names[v], e, lengths[t]);
                }
}

/* Vectors of zeros alone. 1 / eps of the second eps is too large for a number. */
static void norms_of_nothing(check_list *list)
{
    static const float eps[] = { 0, 1e-40f, 1e-6f };
    for (int norm = GDN_NORM_ADD; norm <= GDN_NORM_CLAMP; norm++)
        for (int e = 0; e < 3; e++) {
            const delta_spec d =
                DELTA(1, 3, .dim_k = 48, .dim_v = 16, .call.inputs.qk_norm = norm, .call.inputs.qk_norm_eps = eps[e],
                      .values[DELTA_Q] = CHECK_GATE_ZERO, .values[DELTA_K] = CHECK_GATE_ZERO);
            ADD("norms/%s_nothing_eps%d", norm == GDN_NORM_ADD ? "add" : "clamp", e);
        }
}

/* g, beta, ssm_a, dt_bias and out in each type. */
static void types_of_gates(check_list *list)
{
    static const int lengths[] = { 1, 3, 40 };
    for (int type = 0; type < N_TYPES; type++)
        for (int out = 0; out < N_TYPES; out++)
            for (int t = 0; t < COUNT(lengths); t++) {
                const delta_spec d = DELTA(2, lengths[t], .n_heads_v = 2, .dim_k = t ? 48 : 128, .dim_v = 72,
                                           .call.inputs.gate_input = GDN_G_RAW, .has_bias = 1, .dtype_g = type,
                                           .dtype_beta = type, .dtype_a = type, .dtype_bias = type, .dtype_out = out,
                                           .values[DELTA_A] = CHECK_GATE_MODEL, .values[DELTA_G] = CHECK_NORMAL);
                add_four(list, d, "types/gates_%s_out_%s_T%d_", types[type], types[out], lengths[t]);
            }
}

/* One thing that is not as by default, and nothing else: a backend may choose a kernel by it. */
static void forms_alone(check_list *list)
{
    enum { NORM, LINEAR, BOUNDED, LOGIT, FACTOR, G_F16, BETA_F16, OUT_F16, N };
    static const char *const names[N] = {
        "norm", "linear", "bounded", "logit", "factor", "g_f16", "beta_f16", "out_f16"
    };
    static const int lengths[] = { 1, 40 };
    for (int what = 0; what < N; what++)
        for (int gate = 0; gate < 2; gate++)
            for (int t = 0; t < 2; t++) {
                delta_spec d = DELTA(2, lengths[t], .n_heads_v = 2, .dim_k = 128, .dim_v = 32, .gate = gate);
                if (what == NORM) d.call.inputs.qk_norm = GDN_NORM_ADD;
                if (what == LINEAR) d.call.inputs.gate_input = GDN_G_LINEAR, d.values[DELTA_G] = CHECK_UNIT;
                if (what == BOUNDED)
                    d.call.inputs.gate_input = GDN_G_BOUNDED, d.call.inputs.lower_bound = -5, d.no_a = 1;
                if (what == LOGIT) d.call.inputs.beta_input = GDN_BETA_LOGIT;
                if (what == FACTOR) d.call.inputs.beta_factor = 2;
                if (what == G_F16) d.dtype_g = GDN_F16;
                if (what == BETA_F16) d.dtype_beta = GDN_F16;
                if (what == OUT_F16) d.dtype_out = GDN_F16;
                ADD("forms/alone_%s_%s_T%d", names[what], gates[gate], lengths[t]);
            }
}

/* A read key: every order of loops, with everything else that a call may have. With a log each sequence replays at
 * least one token, and 16-bit states have even base positions. A norm does not change the read key. */
static void read_keys(check_list *list)
{
    static const struct {
        const char *name;
        int logged, tree, narrow;
    } with[] = { { "plain", 0, 0, 0 }, { "log", 1, 0, 0 },      { "tree", 1, 1, 0 },
                 { "half", 0, 0, 1 },  { "half_log", 1, 0, 1 }, { "half_tree", 1, 1, 1 } };
    static const int lengths[] = { 1, 5, 20, 40 }, dims_k[] = { 128, 33, 64 }, dims_v[] = { 64, 40, 48 };
    for (int w = 0; w < COUNT(with); w++)
        for (int t = 0; t < COUNT(lengths); t++)
            for (int k = 0; k < COUNT(dims_k); k++)
                for (int gate = 0; gate < 2; gate++)
                    for (int layout = 0; layout < 2; layout++) {
                        const int logged = with[w].logged, tree = with[w].tree, narrow = with[w].narrow;
                        const int length = lengths[t], mix = w + t + k + gate + layout;
                        const int keys = mix % 2 ? CHECK_NORMAL : CHECK_SMALL;
                        delta_spec d =
                            DELTA(2, length, .n_heads_k = 2, .n_heads_v = 4, .dim_k = dims_k[k], .dim_v = dims_v[k],
                                  .gate = gate, .layout = layout, .read_key = 1, .dtype_read = mix % 3,
                                  .dtype_state = narrow * (1 + mix % 2), .state_interval = narrow * (1 + logged),
                                  .n_snapshots = !tree, .log_rows = 2 * logged, .log_slots = logged * (length + 4),
                                  .map_position = logged, .map_base_position = logged, .map_commit = logged,
                                  .map_dst = logged && !tree, .tree = tree, .map_parent = tree,
                                  .call.inputs.qk_norm = mix % 2, .call.inputs.qk_norm_eps = mix % 2 ? 1e-6f : 0,
                                  .values[DELTA_Q] = keys, .values[DELTA_K] = keys);
                        for (int s = 0; s < 2 && logged; s++) {
                            delta_seq *const seq = &d.seq[s];
                            seq->log_row = s;
                            seq->n_replayed = 2 * s + 2;
                            seq->position = (3 * length + 14 + s) / 2 * 2;
                            seq->commit = tree ? seq->src : GDN_NONE;
                            if (d.state_interval > 1 && (seq->position + length) % 2) seq->dst[0] = GDN_NONE;
                        }
                        ADD("read_key/%s_T%d_k%d_%s_%s", with[w].name, length, dims_k[k], gates[gate], layouts[layout]);
                    }
}

/* Many tokens per sequence at the sizes of models: devices have kernels for them. Sequences have different lengths.
 * They begin with a state, with none, or are padding. dim_v is a multiple of no block size. */
static void prefill(check_list *list)
{
    static const int dims_k[] = { 64, 128, 256 }, lengths[] = { 11, 1, 30, 9 };
    for (int k = 0; k < COUNT(dims_k); k++)
        for (int gate = 0; gate < 2; gate++)
            for (int type = 0; type < N_TYPES; type++) {
                delta_spec d = DELTA(4, 0, .n_heads_v = 2, .dim_k = dims_k[k], .dim_v = 44, SLOTS(3), .map_start = 1,
                                     .map_src = 1, .map_dst = 1, .gate = gate, .layout = (k + gate + type) % 2,
                                     .dtype = { type, type, type }, .strided = type % 2);
                for (int s = 0; s < 4; s++) d.seq[s].length = lengths[s];
                d.seq[0].src = GDN_NONE;
                d.seq[3].src = GDN_SKIP;
                ADD("prefill/k%d_%s_%s", dims_k[k], gates[gate], types[type]);
            }
}

void check_cases_gated_delta_net(check_list *list)
{
    sizes(list);
    wide_heads(list);
    chunks(list);
    types_of_keys(list);
    decode(list);
    snapshots(list);
    edges_of_batches(list);
    edges_of_operands(list);
    values(list);
    threads(list);
    modes(list);
    ggml(list);
    forms(list);
    norms(list);
    norms_of_nothing(list);
    types_of_gates(list);
    forms_alone(list);
    read_keys(list);
    check_cases_of_logs(list);
    prefill(list); /* the last, since some runs take every fourth case */
}
