/* States of 16 bits: random ones beside whatever a case does already, and the fixed list. What any cut into calls must
 * come to is in invariances_state16.c. */
#include <stdio.h>

#include "families.h"
#include "kernel.h"

/* Where a sequence's state may stand, when it is rounded after every `interval` tokens. 0 where there is no such
 * place: the position has been used for something else, and no column of the log can make up for it. */
static int draw_standing(const delta_spec *spec, delta_seq *seq, int interval, check_rng *rng)
{
    const int behind = seq->position % interval, movable = spec->map_position && !spec->interval;
    if (seq->log_row < 0 || !spec->map_stands) {
        if (behind && !movable) return 0;
        seq->position -= behind;
        seq->repeated = 0;
        return 1;
    }
    const int whole = seq->position / interval;
    seq->repeated = behind + interval * check_between(rng, 0, whole < 2 ? whole : 2);
    return 1;
}

static int draw_interval(const delta_spec *spec, check_rng *rng)
{
    static const int intervals[] = { 2, 2, 3, 4, 4, 5, 8, 16 };
    const int interval = CHECK_PICK(rng, intervals);
    return spec->interval % interval ? 1 : interval;
}

void delta_random_state16(delta_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    delta_seq seq[DELTA_MAX_SEQS];
    for (int i = 0; i < 37; i++) /* away from what the others were drawn from */
        check_next(rng);
    if (!check_one_in(rng, 3)) return;
    spec->dtype_state = check_between(rng, GDN_F16, GDN_BF16);
    if (check_one_in(rng, 4)) spec->values[DELTA_STATE] = CHECK_TIES;
    spec->state_interval = check_between(rng, 0, 1);
    if (!spec->log_columns || check_one_in(rng, 3)) return;
    const int interval = draw_interval(spec, rng);
    for (int s = 0; s < spec->n_seqs; s++) {
        seq[s] = spec->seq[s];
        if (seq[s].src != GDN_SKIP && !draw_standing(spec, &seq[s], interval, rng)) return;
    }
    spec->state_interval = interval;
    spec->map_dst |= spec->n_snapshots > 0;
    for (int s = 0; s < spec->n_seqs; s++) {
        const int length = seq[s].length, needed = seq[s].repeated + length;
        spec->seq[s] = seq[s];
        if (seq[s].src == GDN_SKIP) continue;
        for (int r = 0; r < length && r < spec->n_snapshots; r++)
            if ((seq[s].position + length - r) % interval) spec->seq[s].dst[r] = GDN_NONE;
        if (seq[s].log_row >= 0 && spec->log_columns < needed) spec->log_columns = needed;
    }
}

/* ---- the fixed list ----------------------------------------------------------------------------------- */

static const char *const types[] = { "f32", "f16", "bf16" };

/* Every order of loops, from memory and from nothing, with every token's state kept, elsewhere and in place. */
static void orders(check_walk *w, delta_spec *spec)
{
    static const int lengths[] = { 1, 2, 4, 5, 16, 17, 40 };
    static const int dims[][2] = { { 128, 64 }, { 33, 40 }, { 64, 24 }, { 128, 128 } };
    for (int type = GDN_F16; type <= GDN_BF16; type++)
        for (int i = 0; i < CHECK_COUNT(lengths); i++)
            for (int d = 0; d < CHECK_COUNT(dims); d++)
                for (int layout = 0; layout < 2; layout++)
                    if (check_here(w)) {
                        const int slots = (i + d) % 3 + 1;
                        delta_defaults(spec, 1, 2, dims[d][0], dims[d][1]);
                        spec->n_slots = spec->n_slots_out = spec->n_snapshots = slots;
                        delta_batch(spec, 2, lengths[i]);
                        spec->where = (i + layout) % 3;
                        spec->gate = (i + d + type) & 1;
                        spec->layout = layout;
                        spec->dtype_state = type;
                        spec->values[DELTA_G] = CHECK_GATE_SLOW;
                        spec->values[DELTA_V] = CHECK_NORMAL;
                        if (d == 2) spec->map_src = 1, spec->seq[1].src = GDN_NONE;
                        CHECK_NAME(w, "state16/%s_T%d_k%d_v%d_%s", types[type], lengths[i], dims[d][0], dims[d][1],
                                   layout ? "kv" : "vk");
                    }
}

/* Sums that lie between two neighbours: from nothing and with a beta of 1, the state is a product with a power of two.
 * And values that are too large, too small, or none. */
static void edges(check_walk *w, delta_spec *spec)
{
    static const struct {
        const char *name;
        int state, v;
    } values[] = {
        { "ties", CHECK_NORMAL, CHECK_TIES },  { "wide", CHECK_WIDE, CHECK_WIDE },
        { "huge", CHECK_HUGE, CHECK_HUGE },    { "subnormal", CHECK_SUBNORMAL, CHECK_SUBNORMAL },
        { "zeros", CHECK_ZEROS, CHECK_ZEROS }, { "special", CHECK_SPECIAL, CHECK_SPECIAL },
    };
    static const int lengths[] = { 1, 3, 20 };
    for (int type = GDN_F16; type <= GDN_BF16; type++)
        for (int i = 0; i < CHECK_COUNT(values); i++)
            for (int length = 0; length < 3; length++)
                for (int layout = 0; layout < 2; layout++)
                    if (check_here(w)) {
                        delta_defaults(spec, 1, 2, length ? 48 : 128, 32);
                        spec->n_slots = spec->n_slots_out = spec->n_snapshots = 2;
                        delta_batch(spec, 2, lengths[length]);
                        spec->layout = layout;
                        spec->dtype_state = type;
                        spec->state_interval = 1;
                        spec->map_src = 1;
                        spec->seq[0].src = GDN_NONE;
                        spec->beta_form = GDN_BETA_LOGIT; /* of 0: a half */
                        spec->beta_factor = 2;
                        spec->values[DELTA_BETA] = spec->values[DELTA_G] = CHECK_GATE_ZERO;
                        spec->values[DELTA_K] = CHECK_POWERS;
                        spec->values[DELTA_STATE] = values[i].state;
                        spec->values[DELTA_V] = values[i].v;
                        CHECK_NAME(w, "state16/%s_%s_T%d_%s", types[type], values[i].name, lengths[length],
                                   layout ? "kv" : "vk");
                    }
}

/* States of the type whose gates forget little, so that a rounding stays to be seen. */
static void slow(delta_spec *spec, int type, int interval, int gate, int layout)
{
    spec->gate = gate;
    spec->layout = layout;
    spec->values[DELTA_G] = CHECK_GATE_SLOW;
    spec->values[DELTA_V] = CHECK_NORMAL;
    spec->dtype_state = type;
    spec->state_interval = interval;
}

/* With a log, rounded after every so many tokens: of three sequences the first has a row, begins between two roundings,
 * repeats and commits; the second begins at one, and has no row; the third has nothing but what it commits. */
static void intervals(check_walk *w, delta_spec *spec)
{
    static const int lengths[] = { 1, 3, 8, 17, 40 }, every[] = { 1, 2, 4, 5, 16 };
    static const int dims[][2] = { { 128, 64 }, { 33, 40 } };
    for (int type = GDN_F16; type <= GDN_BF16; type++)
        for (int i = 0; i < CHECK_COUNT(lengths); i++)
            for (int n = 0; n < CHECK_COUNT(every); n++)
                for (int layout = 0; layout < 2; layout++)
                    if (check_here(w)) {
                        const int d = (i + n + type) & 1, interval = every[n], length = lengths[i];
                        delta_defaults(spec, 1, 2, dims[d][0], dims[d][1]);
                        spec->n_snapshots = 0;
                        delta_batch(spec, 3, length);
                        spec->n_rows = spec->n_rows_out = 8;
                        spec->n_slots = spec->n_slots_out = spec->n_snapshots = 1;
                        spec->map_start = spec->map_src = spec->map_dst = 1;
                        spec->map_position = spec->map_stands = spec->map_log_row = spec->map_commit = 1;
                        spec->where = (i + layout) % 3;
                        slow(spec, type, interval, (i + n) & 1, layout);
                        spec->interval = interval * (1 + (i + n) % 2);
                        spec->n_checkpoints = 1;
                        spec->log_rows = 3;
                        spec->log_columns = length + 2 * interval + 3;
                        for (int s = 0; s < 3; s++) {
                            delta_seq *seq = &spec->seq[s];
                            seq->position = (7 + s) * interval + (s == 1 ? 0 : (i + s) % interval);
                            seq->repeated = s == 1 ? 0 : seq->position % interval + (i + s) % 2 * interval;
                            seq->length = s == 2 ? 0 : length;
                            seq->log_row = s == 1 ? GDN_NONE : 2 - s;
                            seq->commit = s == 2 || (i + layout) % 2 ? seq->src : GDN_NONE;
                            seq->checkpoint[0] = 3 + s;
                            seq->dst[0] = (seq->position + seq->length) % interval ? GDN_NONE : s == 1 ? 7 : 6;
                        }
                        CHECK_NAME(w, "state16/%s_every%d_T%d_%s", types[type], interval, length, layout ? "kv" : "vk");
                    }
}

/* Trees, whose tokens are counted along their branches, and the usual head counts. */
static void trees(check_walk *w, delta_spec *spec)
{
    static const int lengths[] = { 3, 8, 40 }, every[] = { 1, 2, 5 };
    static int long_branches[40]; /* from a trunk of 30 tokens, so that each repeats 18 to 24 ancestors */
    for (int t = 0; t < 40; t++) long_branches[t] = t < 30 ? t - 1 : 17 + t % 7;
    for (int type = GDN_F16; type <= GDN_BF16; type++)
        for (int i = 0; i < CHECK_COUNT(lengths); i++)
            for (int n = 0; n < CHECK_COUNT(every); n++)
                for (int layout = 0; layout < 2; layout++)
                    if (check_here(w)) {
                        const int length = lengths[i], interval = every[n];
                        delta_defaults(spec, 1, 2, i == 1 ? 33 : 128, i == 2 ? 40 : 64);
                        spec->n_snapshots = 0;
                        delta_batch(spec, 2, length);
                        slow(spec, type, interval, (i + n) & 1, layout);
                        spec->tree = spec->map_parent = 1;
                        spec->map_position = spec->map_stands = spec->map_commit = 1;
                        spec->log_rows = 2;
                        spec->log_columns = length + 2 * interval;
                        for (int s = 0; s < 2; s++) {
                            delta_seq *seq = &spec->seq[s];
                            seq->log_row = s;
                            seq->position = 4 * interval + (i + s) % interval;
                            seq->repeated = seq->position % interval + s * interval;
                            seq->commit = s ? seq->src : GDN_NONE;
                            seq->parent = i == 2 && s ? long_branches : NULL;
                        }
                        CHECK_NAME(w, "state16/%s_tree_every%d_T%d_%s", types[type], interval, length,
                                   layout ? "kv" : "vk");
                    }
    for (int type = GDN_F16; type <= GDN_BF16; type++)
        for (int gate = 0; gate < 2; gate++)
            for (int length = 1; length <= 4; length += 3)
                if (check_here(w)) {
                    delta_defaults(spec, 16, 32, 128, 128);
                    delta_batch(spec, 1, length);
                    spec->gate = gate;
                    spec->dtype_state = type;
                    CHECK_NAME(w, "state16/%s_model_%s_T%d", types[type], gate ? "channel" : "scalar", length);
                }
}

void delta_fixed_state16(check_walk *w, delta_spec *spec)
{
    orders(w, spec);
    edges(w, spec);
    intervals(w, spec);
    trees(w, spec);
}
