/* Trees of tokens: random ones in calls that may have them, and the fixed lists of both kernels. What a branch must
 * come to is in invariances_tree.c. */
#include <stdio.h>

#include "families.h"

void delta_random_tree(delta_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    for (int i = 0; i < 23; i++) /* away from what checkpoints and the log were drawn from */
        check_next(rng);
    if (!spec->log_columns || spec->n_snapshots || spec->interval || check_one_in(rng, 4)) return;
    for (int s = 0; s < spec->n_seqs; s++)
        if (spec->seq[s].src != GDN_SKIP && spec->seq[s].length && spec->seq[s].log_row < 0) return;
    spec->tree = 1;
    spec->map_parent = !check_one_in(rng, 8);
}

void conv_random_tree(conv_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    int longest = 0;
    for (int i = 0; i < 23; i++) check_next(rng);
    if (spec->interval || !check_one_in(rng, 3)) return;
    for (int s = 0; s < spec->n_seqs; s++)
        if (spec->seq[s].length > longest && spec->seq[s].src != GDN_SKIP) longest = spec->seq[s].length;
    spec->tree = 1;
    spec->map_parent = !check_one_in(rng, 8);
    const int least = spec->width - 1 + longest + (check_one_in(rng, 2) ? 0 : check_between(rng, 1, 5));
    if (spec->n_columns < least) spec->n_columns = least;
}

/* ---- the fixed lists ----------------------------------------------------------------------------------- */

enum { MOST = 320 };

/* Two branches side by side, whose tokens take turns: none follows the one before it. */
static const int *comb(void)
{
    static int parent[MOST];
    for (int t = 0; t < MOST; t++) parent[t] = t < 2 ? GDN_NONE : t - 2;
    return parent;
}

/* Many tokens that all follow the state. */
static const int *star(void)
{
    static int parent[MOST];
    for (int t = 0; t < MOST; t++) parent[t] = GDN_NONE;
    return parent;
}

static void name_state(const check_walk *w, const delta_spec *spec, const char *shape)
{
    CHECK_NAME(w, "tree/%s_T%d_k%d_v%d_%s_%s", shape, spec->seq[0].length, spec->dim_k, spec->dim_v,
               spec->gate ? "channel" : "scalar", spec->layout ? "kv" : "vk");
}

static void state_tree(delta_spec *spec, int n_heads_k, int n_heads_v, const int *dim, int length, int mixed)
{
    delta_defaults(spec, n_heads_k, n_heads_v, dim[0], dim[1]);
    spec->n_snapshots = 0;
    delta_batch(spec, 2, length);
    spec->n_rows = spec->n_rows_out = 4;
    spec->where = mixed % 3;
    spec->values[DELTA_G] = CHECK_GATE_SLOW;
    spec->values[DELTA_V] = CHECK_NORMAL;
    spec->log_rows = 3;
    spec->log_columns = length + 3;
    spec->tree = spec->map_parent = spec->map_src = 1;
    spec->map_position = spec->map_stands = spec->map_log_row = spec->map_commit = 1;
    for (int s = 0; s < 2; s++) {
        delta_seq *seq = &spec->seq[s];
        seq->log_row = 2 - s;
        seq->repeated = (mixed + s) % 4;
        seq->position = (3 + s) * spec->log_columns + s - 2;
        seq->commit = (mixed + s) % 2 ? mixed % 4 == 1 ? s : 2 + s : GDN_NONE;
        if (mixed % 5 == 4 && s) seq->src = GDN_NONE;
    }
}

/* Trees of a few and of many tokens, of every shape, for every order of loops, and longer than what is kept of keys. */
void delta_fixed_tree(check_walk *w, delta_spec *spec)
{
    static const int lengths[] = { 2, 3, 8, 17, 40, 70 };
    static const int dims[][2] = { { 128, 64 }, { 33, 40 }, { 128, 128 }, { 16, 16 } };
    static const char *const shapes[] = { "random", "comb", "star" };
    for (int i = 0; i < CHECK_COUNT(lengths); i++)
        for (int d = 0; d < 3; d++)
            for (int layout = 0; layout < 2; layout++)
                for (int shape = 0; shape < 3; shape++)
                    if (check_here(w)) {
                        state_tree(spec, 1, 2, dims[d], lengths[i], i + d + layout + shape);
                        spec->gate = (i + d + shape) & 1;
                        spec->head_map = d & 1;
                        spec->layout = layout;
                        spec->dtype[0] = spec->dtype[1] = spec->dtype[2] = (i + shape) % 3;
                        for (int s = 0; s < 2 && shape; s++) spec->seq[s].parent = shape == 1 ? comb() : star();
                        name_state(w, spec, shapes[shape]);
                    }
    for (int gate = 0; gate < 2; gate++)
        for (int shape = 0; shape < 2; shape++)
            if (check_here(w)) {
                state_tree(spec, 1, 1, dims[3], 310, shape);
                spec->gate = gate;
                for (int s = 0; s < 2 && shape; s++) spec->seq[s].parent = comb();
                name_state(w, spec, shapes[shape]);
            }
    for (int gate = 0; gate < 2; gate++)
        if (check_here(w)) { /* the usual head counts */
            state_tree(spec, 16, 32, dims[2], 8, 1);
            spec->gate = gate;
            spec->n_seqs = 1;
            CHECK_NAME(w, "tree/model_%s", gate ? "channel" : "scalar");
        }
}

void conv_fixed_tree(check_walk *w, conv_spec *spec)
{
    static const int lengths[] = { 2, 5, 9, 33 }, widths[] = { 1, 2, 4, 16 };
    static const char *const shapes[] = { "random", "comb", "star" };
    for (int i = 0; i < CHECK_COUNT(lengths); i++)
        for (int width = 0; width < CHECK_COUNT(widths); width++)
            for (int shape = 0; shape < 3; shape++)
                for (int type = 0; type < 3; type++)
                    if (check_here(w)) {
                        conv_defaults(spec, 37, widths[width]);
                        conv_batch(spec, 2, lengths[i]);
                        spec->n_columns = widths[width] - 1 + lengths[i] + (i + shape) % 3;
                        spec->n_rows = spec->n_rows_out = 4;
                        spec->where = (i + width + shape + type) % 4;
                        spec->silu = i & 1;
                        spec->tree = spec->map_parent = spec->map_position = spec->map_src = 1;
                        spec->dtype_x = spec->dtype_out = type;
                        spec->dtype_history = shape & 1 ? GDN_F32 : type;
                        for (int s = 0; s < 2; s++) {
                            conv_seq *seq = &spec->seq[s];
                            seq->position = (shape + i) * s + width;
                            if (spec->where == CONV_NOWHERE) seq->src = seq->dst = GDN_NONE;
                            if (shape) seq->parent = shape == 1 ? comb() : star();
                        }
                        if (spec->where != CONV_NOWHERE && (i + type) % 4 == 3) spec->seq[1].src = GDN_NONE;
                        CHECK_NAME(w, "tree/%s_T%d_width%d_%d", shapes[shape], lengths[i], widths[width], type);
                    }
}
