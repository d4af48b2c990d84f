/* The fixed cases of gated_delta_net with checkpoints, a log, trees and states of 16 bits. See cases.h.
 *
 * Where a loop has more dimensions than can be crossed, the sums of the loops' indices choose what is left, so that few
 * cases have every pair. */
#include "cases.h"

#define ADD(...) check_add(list, &(check_spec){ .gated_delta_net = d }, __VA_ARGS__)

static const char *const *const types = check_type_names;
static const char *const *const gates = check_gate_names, *const *const layouts = check_layout_names,
                                *const *const places = check_place_names;

/* ---- Checkpoints, logs and trees ---- */

/* Two sequences at different positions, each with a few checkpoints behind all rows of the batch. Calls are short and
 * long, for every order of loops and every way to split the tokens. Checkpoints are at the first token, at the last,
 * between them, and where a snapshot is. There are more of them than entries, and fewer. */
static void checkpoints(check_list *list)
{
    static const int lengths[] = { 1, 3, 6, 16, 17, 33, 70 }, intervals[] = { 1, 2, 3, 16, 32, 64 },
                     dims_k[] = { 128, 33 }, dims_v[] = { 64, 40 };
    for (int a = 0; a < COUNT(lengths); a++)
        for (int b = 0; b < COUNT(intervals); b++)
            for (int k = 0; k < COUNT(dims_k); k++)
                for (int layout = 0; layout < 2; layout++) {
                    const int slots = 1 + b % 2, placed = (a + b) % 3 != 0;
                    delta_spec d =
                        DELTA(2, lengths[a], .n_heads_v = 2, .dim_k = dims_k[k], .dim_v = dims_v[k], .layout = layout,
                              SLOTS(slots), ROWS_OF_POOL(6), .where = (a + b + layout) % 3, .gate = (a + b + k) % 2,
                              SLOW, .interval = intervals[b], .n_checkpoints = 2 * slots, .map_position = placed);
                    for (int s = 0; s < 2; s++) {
                        d.seq[s].position = placed * (2 + 29 * s + a);
                        for (int i = 0; i < 2 * slots; i++)
                            d.seq[s].checkpoint[i] = i == 1 && a == 2 ? GDN_NONE : (4 - 2 * s) * slots + i;
                    }
                    ADD("checkpoints/T%d_N%d_k%d_%s", lengths[a], intervals[b], dims_k[k], layouts[layout]);
                }
}

/* Two sequences, both about to wrap around the ring. A state commits in place, to another slot, or not at all. There
 * are tokens for every order of loops, or none. Nothing is replayed, or as much as fits. Entries of four heads have a
 * multiple of 16 bytes, which some kernels need. */
static void logs(check_list *list)
{
    static const int lengths[] = { 0, 1, 2, 4, 5, 16, 17, 40 }, replayed[] = { 0, 1, 3, 8, 17 };
    static const int dims[][2] = { { 128, 64 }, { 33, 40 }, { 128, 128 } };
    for (int a = 0; a < COUNT(lengths); a++)
        for (int b = 0; b < COUNT(replayed); b++)
            for (int k = 0; k < COUNT(dims); k++)
                for (int layout = 0; layout < 2; layout++) {
                    const int length = lengths[a], most = length + replayed[b], mix = a + b + k + layout;
                    const int kept = mix % 3 == 2, slots = most + mix % 2 + !most;
                    delta_spec d =
                        DELTA(2, length, .n_heads_v = k == 2 ? 4 : 2, .dim_k = dims[k][0], .dim_v = dims[k][1],
                              .layout = layout, .n_slots = 2, .n_slots_out = 2, .n_snapshots = kept, .map_dst = kept,
                              ROWS_OF_POOL(4), .where = (a + layout) % 3, .gate = (a + b) % 2,
                              .call.args.head_map = k % 2, SLOW, LOG(3, slots), .map_src = 1, .map_log_row = 1);
                    for (int s = 0; s < 2; s++) {
                        delta_seq *const seq = &d.seq[s];
                        const int commits[] = { seq->src, 4 + 2 * s, GDN_NONE };
                        seq->log_row = 2 - s;
                        seq->n_replayed = replayed[b];
                        seq->position = (3 + s) * slots + replayed[b] / 2 + s;
                        seq->commit = commits[(a + b + s) % 3];
                        seq->dst[0] = 5 + 2 * s;
                        if (s && k == 1) seq->src = GDN_NONE;
                    }
                    ADD("log/T%d_R%d_k%d_v%d_%s", length, replayed[b], d.dim_k, d.dim_v, layouts[layout]);
                }
}

/* Every choice of the maps of a log and of checkpoints, in little memory, so that --calls writes them. */
static void maps_of_logs(check_list *list)
{
    for (int given = 0; given < 16; given++)
        for (int layout = 0; layout < 2; layout++) {
            const int row = given & 1, base = given >> 1 & 1, commit = given >> 2 & 1, position = given >> 3;
            delta_spec d =
                DELTA(3, 2, .n_heads_k = 2, .n_heads_v = 4, .dim_k = 16, .dim_v = 16, .layout = layout,
                      .gate = (given + layout) % 2, .call.args.head_map = layout, .n_snapshots = 0, SLOW, LOG(3, 6),
                      .map_log_row = row, .map_base_position = base, .map_commit = commit, .map_position = position);
            for (int s = 0; s < 3; s++) {
                delta_seq *const seq = &d.seq[s];
                seq->log_row = row ? (s + 1) % 3 : s;
                seq->position = position * (7 + 3 * s);
                seq->n_replayed = base && position ? 1 + s : 0;
                seq->commit = commit ? seq->src : GDN_NONE;
            }
            ADD("log/maps%s%s%s%s_%s", row ? "_row" : "", base ? "_base" : "", commit ? "_commit" : "",
                position ? "_position" : "", layouts[layout]);
        }
    for (int given = 0; given < 4; given++) {
        const int position = given & 1, start = given >> 1;
        delta_spec d =
            DELTA(3, 7, .n_heads_v = 2, .dim_k = 16, .dim_v = 16, ROWS_OF_POOL(12), .gate = start, .layout = position,
                  SLOW, .interval = 3, .n_checkpoints = 2, .map_position = position, .map_start = start);
        for (int s = 0; s < 3; s++) {
            d.seq[s].length -= start * s;
            d.seq[s].position = position * (4 + 5 * s);
            for (int i = 0; i < 2; i++) d.seq[s].checkpoint[i] = 3 + 3 * i + s;
        }
        ADD("checkpoints/maps%s%s", position ? "_position" : "", start ? "_start" : "");
    }
}

/* What a server has in one call:
 *   - prompts that are never rolled back, without a row of the log;
 *   - drafts of other sequences, to be verified;
 *   - a sequence with many tokens that has a row, or is committed as well;
 *   - a sequence that is only committed.
 * Devices may use a different kernel for each. With the types and input forms of models, and without. */
static void logs_of_servers(check_list *list)
{
    static const int dims[][2] = { { 64, 40 }, { 128, 64 }, { 128, 44 } };
    static const struct {
        int length, log_row, n_replayed, commit;
    } seqs[] = { { 50, GDN_NONE, 0, GDN_NONE }, { 4, 0, 2, 1 },         { 2, 1, 0, GDN_NONE },
                 { 20, GDN_NONE, 0, 6 },        { 12, 2, 1, GDN_NONE }, { 0, 3, 2, 5 } };
    for (int k = 0; k < COUNT(dims); k++)
        for (int gate = 0; gate < 2; gate++)
            for (int m = 0; m < 2; m++) {
                const int type = m ? GDN_BF16 : GDN_F32;
                delta_spec d = DELTA(6, 0, .n_heads_v = 2, .dim_k = dims[k][0], .dim_v = dims[k][1], .gate = gate,
                                     .layout = (k + m) % 2, ROWS_OF_POOL(7), .map_start = 1, .map_log_row = 1,
                                     LOG(5, 14), .n_snapshots = !gate, .map_dst = !gate, .dtype = { type, type, type },
                                     .dtype_g = type, .dtype_beta = type, .dtype_out = type, .call.inputs.qk_norm = m,
                                     .call.inputs.qk_norm_eps = m ? 1e-6f : 0,
                                     .call.inputs.gate_input = m ? GDN_G_RAW : GDN_G_LOG, .call.inputs.beta_input = m,
                                     .has_bias = m, .values[DELTA_G] = m ? CHECK_NORMAL : CHECK_GATE_SLOW,
                                     .values[DELTA_A] = m ? CHECK_GATE_MODEL : CHECK_NORMAL);
                for (int s = 0; s < 6; s++) {
                    d.seq[s].length = seqs[s].length;
                    d.seq[s].log_row = seqs[s].log_row;
                    d.seq[s].n_replayed = seqs[s].n_replayed;
                    d.seq[s].commit = seqs[s].commit;
                    d.seq[s].position = 20 + s;
                    d.seq[s].dst[0] = s % 2 ? GDN_NONE : s;
                }
                ADD("log/prompts_k%d_v%d_%s_%s", d.dim_k, d.dim_v, gates[gate], m ? "model" : "plain");
            }
    for (int gate = 0; gate < 2; gate++)
        for (int map = 0; map < 2; map++) { /* the usual head counts, verifying */
            delta_spec d = DELTA(1, 4, MODEL, .gate = gate, .call.args.head_map = map, .n_snapshots = 0, LOG(1, 8));
            d.seq[0].position = 14;
            d.seq[0].n_replayed = 3;
            ADD("log/model_%s_%s", gates[gate], map ? "tiled" : "grouped");
        }
}

/* Commits into another slot: with a row of the log, and without one, from a state and from zeros. The last sequence is
 * padding, whose commit names a slot and is not performed. Where states are written apart, rows have another number of
 * slots there. 16-bit states are rounded after every second token; the first sequence begins between two roundings. */
static void commits(check_list *list)
{
    static const int lengths[] = { 2, 1, 0, 3 }, positions[] = { 5, 4, 8, 7 }, replayed[] = { 3, 0, 0, 1 };
    static const int src[] = { 0, 2, GDN_NONE, GDN_SKIP }, log_rows[] = { 3, GDN_NONE, GDN_NONE, 0 };
    static const int commit[] = { 1, 3, 5, 6 };
    for (int state = GDN_F32; state <= GDN_BF16; state++)
        for (int where = DELTA_IN_PLACE; where <= DELTA_APART; where++)
            for (int layout = 0; layout < 2; layout++) {
                delta_spec d = DELTA(4, 0, .dim_k = 16, .dim_v = 20, .layout = layout, .gate = (state + where) % 2,
                                     .n_slots = 2, .n_slots_out = where == DELTA_APART ? 3 : 2, .where = where,
                                     .n_snapshots = 0, SLOW, .dtype_state = state, .state_interval = state ? 2 : 0,
                                     LOG(4, 6), .map_start = 1, .map_src = 1, .map_log_row = 1);
                for (int s = 0; s < 4; s++) {
                    delta_seq *const seq = &d.seq[s];
                    seq->length = lengths[s];
                    seq->position = positions[s];
                    seq->n_replayed = replayed[s];
                    seq->src = src[s];
                    seq->log_row = log_rows[s];
                    seq->commit = commit[s];
                }
                ADD("log/commits_%s_%s_%s", types[state], places[where], layouts[layout]);
            }
}

/* More checkpoints than entries. Where states are written apart, rows have another number of slots there. */
static void checkpoints_beyond(check_list *list)
{
    for (int where = DELTA_IN_PLACE; where <= DELTA_APART; where++)
        for (int gate = 0; gate < 2; gate++) {
            delta_spec d = DELTA(2, 9, .dim_k = 16, .dim_v = 16, .gate = gate, .n_slots = 2,
                                 .n_slots_out = where == DELTA_APART ? 3 : 2, ROWS_OF_POOL(4), .where = where,
                                 .interval = 2, .n_checkpoints = 2, .map_position = 1);
            for (int s = 0; s < 2; s++) {
                d.seq[s].position = 1 + s;
                for (int i = 0; i < 2; i++) d.seq[s].checkpoint[i] = 7 - 2 * s - i;
            }
            ADD("checkpoints/beyond_%s_%s", places[where], gates[gate]);
        }
}

/* A tree and a row of the log for each of two sequences; `mix` mixes the rest. */
#define TREE(length)                                                                                                   \
    .n_snapshots = 0, ROWS_OF_POOL(4), SLOW, LOG(3, (length) + 3), .tree = 1, .map_parent = 1, .map_src = 1,           \
    .map_log_row = 1
static void grow(delta_spec *d, int shape, int mix)
{
    d->where = mix % 3;
    for (int s = 0; s < d->n_seqs; s++) {
        delta_seq *const seq = &d->seq[s];
        seq->log_row = 2 - s;
        seq->n_replayed = (mix + s) % 4;
        seq->position = (3 + s) * d->log_slots + s - 2;
        seq->commit = (mix + s) % 2 == 0 ? GDN_NONE : mix % 4 == 1 ? s : 2 + s;
        if (mix % 5 == 4 && s) seq->src = GDN_NONE;
        seq->parent = check_tree_parents(shape);
    }
}

/* Trees of a few and of many tokens, of every shape, for every order of loops, and longer than what is kept of keys. */
static void trees(check_list *list)
{
    static const int lengths[] = { 2, 3, 8, 17, 40, 70 };
    static const int dims[][2] = { { 128, 64 }, { 33, 40 }, { 128, 128 } };
    for (int a = 0; a < COUNT(lengths); a++)
        for (int k = 0; k < COUNT(dims); k++)
            for (int layout = 0; layout < 2; layout++)
                for (int shape = 0; shape < CHECK_N_TREES; shape++) {
                    const int type = (a + shape) % 3;
                    delta_spec d = DELTA(2, lengths[a], .n_heads_v = 2, .dim_k = dims[k][0], .dim_v = dims[k][1],
                                         .gate = (a + k + shape) % 2, .layout = layout, .call.args.head_map = k % 2,
                                         .dtype = { type, type, type }, TREE(lengths[a]));
                    grow(&d, shape, a + k + layout + shape);
                    ADD("tree/%s_T%d_k%d_v%d_%s_%s", check_tree_names[shape], lengths[a], d.dim_k, d.dim_v,
                        gates[d.gate], layouts[layout]);
                }
    for (int gate = 0; gate < 2; gate++)
        for (int shape = CHECK_TREE_RANDOM; shape <= CHECK_TREE_COMB; shape++) {
            delta_spec d = DELTA(2, 310, .dim_k = 16, .dim_v = 16, .gate = gate, TREE(310));
            grow(&d, shape, shape);
            ADD("tree/%s_T310_k16_v16_%s_vk", check_tree_names[shape], gates[gate]);
        }
    for (int gate = 0; gate < 2; gate++) {
        delta_spec d = DELTA(1, 8, MODEL, .gate = gate, TREE(8));
        grow(&d, CHECK_TREE_RANDOM, 1);
        ADD("tree/model_%s", gates[gate]);
    }
}

/* ---- States of 16 bits ---- */

/* Every order of loops, from a state and from zeros, with a snapshot of every token, in place and in another slot.
 * Their decays are close to 1, so that roundings stay visible. */
static void states16(check_list *list)
{
    static const int lengths[] = { 1, 2, 4, 5, 16, 17, 40 };
    static const int dims[][2] = { { 128, 64 }, { 33, 40 }, { 64, 24 }, { 128, 128 } };
    for (int state = GDN_F16; state <= GDN_BF16; state++)
        for (int a = 0; a < COUNT(lengths); a++)
            for (int k = 0; k < COUNT(dims); k++)
                for (int layout = 0; layout < 2; layout++) {
                    delta_spec d =
                        DELTA(2, lengths[a], .n_heads_v = 2, .dim_k = dims[k][0], .dim_v = dims[k][1], .layout = layout,
                              .dtype_state = state, SLOTS((a + k) % 3 + 1), .where = (a + layout) % 3,
                              .gate = (a + k + state) % 2, SLOW, .map_src = k == 2);
                    if (k == 2) d.seq[1].src = GDN_NONE;
                    ADD("state16/%s_T%d_k%d_v%d_%s", types[state], lengths[a], d.dim_k, d.dim_v, layouts[layout]);
                }
}

/* Sums halfway between two neighbours: from zeros and with a beta of 1, the state is a product with a power of two. And
 * values that are too large, too small, zero or special. */
static void values_of_states16(check_list *list)
{
    static const char *const names[] = { "ties", "wide", "huge", "subnormal", "zeros", "special" };
    static const int classes[] = { CHECK_TIES, CHECK_WIDE, CHECK_HUGE, CHECK_SUBNORMAL, CHECK_ZEROS, CHECK_SPECIAL };
    static const int lengths[] = { 1, 3, 20 };
    for (int state = GDN_F16; state <= GDN_BF16; state++)
        for (int v = 0; v < COUNT(classes); v++)
            for (int t = 0; t < COUNT(lengths); t++)
                for (int layout = 0; layout < 2; layout++) {
                    delta_spec d =
                        DELTA(2, lengths[t], .n_heads_v = 2, .dim_k = t ? 48 : 128, .dim_v = 32, .layout = layout,
                              SLOTS(2), .dtype_state = state, .state_interval = 1, .map_src = 1,
                              .call.inputs.beta_input = GDN_BETA_LOGIT, .call.inputs.beta_factor = 2,
                              .values[DELTA_BETA] = CHECK_GATE_ZERO, .values[DELTA_G] = CHECK_GATE_ZERO,
                              .values[DELTA_K] = CHECK_POWERS, .values[DELTA_V] = classes[v],
                              .values[DELTA_STATE] = classes[v] == CHECK_TIES ? CHECK_NORMAL : classes[v]);
                    d.seq[0].src = GDN_NONE;
                    ADD("state16/%s_%s_T%d_%s", types[state], names[v], lengths[t], layouts[layout]);
                }
}

/* With a log, rounded after every n tokens. The first of three sequences has a row, begins between two roundings,
 * replays and commits. The second begins at a rounding and has no row. The third has nothing but its commit. */
static void rounded_logs(check_list *list)
{
    static const int lengths[] = { 1, 3, 8, 17, 40 }, intervals[] = { 1, 2, 4, 5, 16 };
    static const int log_rows[] = { 2, GDN_NONE, 0 };
    for (int state = GDN_F16; state <= GDN_BF16; state++)
        for (int a = 0; a < COUNT(lengths); a++)
            for (int b = 0; b < COUNT(intervals); b++)
                for (int layout = 0; layout < 2; layout++) {
                    const int t = lengths[a], n = intervals[b], odd = (a + b + state) % 2;
                    delta_spec d = DELTA(3, t, .n_heads_v = odd ? 2 : 4, .dim_k = odd ? 33 : 128,
                                         .dim_v = odd ? 40 : 64, .layout = layout, ROWS_OF_POOL(8), .map_start = 1,
                                         .map_src = 1, .map_dst = 1, .map_log_row = 1, .where = (a + layout) % 3,
                                         .gate = (a + b) % 2, SLOW, .dtype_state = state, .state_interval = n,
                                         .interval = n * (1 + (a + b) % 2), .n_checkpoints = 1, LOG(3, t + 2 * n + 3));
                    d.seq[2].length = 0;
                    for (int s = 0; s < 3; s++) {
                        delta_seq *const seq = &d.seq[s];
                        seq->position = (7 + s) * n + (s == 1 ? 0 : (a + b + s) % n);
                        seq->n_replayed = s == 1 ? 0 : seq->position % n + (a + b + s) % 2 * n;
                        seq->log_row = log_rows[s];
                        seq->commit = s == 2 || (a + layout) % 2 ? seq->src : GDN_NONE;
                        seq->checkpoint[0] = 3 + s;
                        seq->dst[0] = (seq->position + seq->length) % n ? GDN_NONE : s == 1 ? 7 : 6;
                    }
                    ADD("state16/%s_every%d_T%d_%s", types[state], n, t, layouts[layout]);
                }
}

/* Trees, whose tokens are counted along their branches. Long branches from a trunk of 30 tokens replay 18 to 24
 * ancestors each. And the usual head counts. */
static void rounded_trees(check_list *list)
{
    static const int lengths[] = { 3, 8, 40 }, intervals[] = { 1, 2, 5 }, few[] = { 1, 4 };
    int trunk[40];
    for (int i = 0; i < 40; i++) trunk[i] = i < 30 ? i - 1 : 17 + i % 7;
    for (int state = GDN_F16; state <= GDN_BF16; state++)
        for (int a = 0; a < COUNT(lengths); a++)
            for (int b = 0; b < COUNT(intervals); b++)
                for (int layout = 0; layout < 2; layout++) {
                    const int n = intervals[b];
                    delta_spec d =
                        DELTA(2, lengths[a], .n_heads_v = 2, .dim_k = a == 1 ? 33 : 128, .dim_v = a == 2 ? 40 : 64,
                              .layout = layout, .n_snapshots = 0, .gate = (a + b) % 2, SLOW, .dtype_state = state,
                              .state_interval = n, .tree = 1, .map_parent = 1, LOG(2, lengths[a] + 2 * n));
                    for (int s = 0; s < 2; s++) {
                        d.seq[s].log_row = s;
                        d.seq[s].position = 4 * n + (a + s) % n;
                        d.seq[s].n_replayed = d.seq[s].position % n + s * n;
                        d.seq[s].commit = s ? d.seq[s].src : GDN_NONE;
                    }
                    if (a == 2) d.seq[1].parent = trunk;
                    ADD("state16/%s_tree_every%d_T%d_%s", types[state], n, lengths[a], layouts[layout]);
                }
    for (int state = GDN_F16; state <= GDN_BF16; state++)
        for (int n = 2; n <= 3; n++)
            for (int shape = 0; shape < CHECK_N_TREES; shape++) { /* in little memory, so that --calls writes them */
                delta_spec d =
                    DELTA(1, 7, .dim_k = 16, .dim_v = 16, .gate = n % 2, .layout = shape % 2, .n_snapshots = 0, SLOW,
                          .dtype_state = state, .state_interval = n, .tree = 1, .map_parent = 1, LOG(1, 8 + n));
                d.seq[0].position = 2 * n + 1;
                d.seq[0].n_replayed = n + 1;
                d.seq[0].commit = d.seq[0].src;
                d.seq[0].parent = check_tree_parents(shape);
                ADD("state16/%s_%s_every%d", types[state], check_tree_names[shape], n);
            }
    for (int state = GDN_F16; state <= GDN_BF16; state++)
        for (int gate = 0; gate < 2; gate++)
            for (int t = 0; t < COUNT(few); t++) {
                const delta_spec d = DELTA(1, few[t], MODEL, .gate = gate, .dtype_state = state);
                ADD("state16/%s_model_%s_T%d", types[state], gates[gate], few[t]);
            }
}

/* The chunked form. The first sequence begins at a multiple of 32, the second 2 tokens before one. Both read a state
 * and keep none after their last token, or the usual one. Of two checkpoints each keeps one. */
static void chunked(check_list *list)
{
    static const char *const keeps[] = { "no_map", "none", "usual" };
    static const int lengths[] = { 2, 32, 75 };
    for (int a = 0; a < COUNT(lengths); a++)
        for (int n = 2; n <= 3; n++)
            for (int of_digits = 0; of_digits < 2; of_digits++)
                for (int kept = 0; kept < COUNT(keeps); kept++) {
                    const int state = !of_digits ? GDN_F32 : n == 2 ? GDN_DIGITS2 : GDN_DIGITS3;
                    delta_spec d =
                        DELTA(2, lengths[a], .n_heads_v = 2, .dim_k = 16, .dim_v = 16, ROWS_OF_POOL(4), SLOW,
                              .gate = (a + kept) % 2, .digits = n, .dtype_state = state, .n_snapshots = kept > 0,
                              .map_dst = kept == 1, LOG(2, 32 + 75), .interval = 32, .n_checkpoints = 2);
                    for (int s = 0; s < 2; s++) {
                        delta_seq *const seq = &d.seq[s];
                        seq->position = 32 + 30 * s;
                        seq->n_replayed = 30 * s;
                        seq->log_row = s;
                        seq->commit = GDN_NONE;
                        if (kept == 1) seq->dst[0] = GDN_NONE;
                        seq->checkpoint[s] = 2 + s;
                        seq->checkpoint[1 - s] = GDN_NONE;
                    }
                    ADD("chunked/T%d_digits%d_%s_%s", lengths[a], n, of_digits ? "digits" : "f32", keeps[kept]);
                }
}

void check_cases_of_logs(check_list *list)
{
    chunked(list);
    checkpoints(list);
    checkpoints_beyond(list);
    logs(list);
    maps_of_logs(list);
    commits(list);
    logs_of_servers(list);
    trees(list);
    states16(list);
    values_of_states16(list);
    rounded_logs(list);
    rounded_trees(list);
}
