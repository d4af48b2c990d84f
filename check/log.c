/* The replay log of gated_delta_net: random ones beside whatever a case does already, and the fixed list. What a number
 * of rounds must come to is in invariances_log.c. */
#include <stdio.h>

#include "entries.h"
#include "families.h"

/* Any place for padding: nobody looks at what it commits, and its row may be another sequence's. */
static void draw_padding(delta_spec *spec, delta_seq *seq, check_rng *rng)
{
    seq->log_row = check_between(rng, GDN_NONE, spec->log_rows - 1);
    seq->repeated = check_between(rng, 0, seq->position < 50 ? seq->position : 50);
    seq->commit = check_between(rng, -3, 1 << 30);
}

/* The state at the sequence's position: in place, elsewhere, or nowhere. */
static void draw_commit(const delta_spec *spec, check_entries *e, int s, delta_seq *seq, check_rng *rng)
{
    const int apart = spec->where == DELTA_APART;
    seq->commit = GDN_NONE;
    if (check_one_in(rng, 3) || (!seq->length && !apart && seq->src >= 0 && e->writer[seq->src] != CHECK_NOBODY))
        return;
    if (!seq->length && !apart) /* it reads as well, then */
        check_entries_read(e, s, seq->src);
    if (!apart && seq->src >= 0 && check_one_in(rng, 2) && check_entries_write(e, s, seq->src)) seq->commit = seq->src;
    else seq->commit = check_entries_take(e, s, rng);
}

void delta_random_log(delta_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    int row[DELTA_MAX_SEQS + 3], most = 1;
    for (int i = 0; i < 9; i++) /* away from what the checkpoints were drawn from */
        check_next(rng);
    if (!check_one_in(rng, 3)) return;
    check_entries e;
    if (check_one_in(rng, 2)) spec->n_snapshots = spec->map_dst = 0;
    for (int s = 0; s < spec->n_seqs && !spec->n_snapshots; s++)
        for (int r = 0; r < DELTA_MAX_SNAPSHOTS; r++) spec->seq[s].dst[r] = GDN_NONE;
    if (spec->where == DELTA_APART && check_one_in(rng, 2)) spec->n_rows_out += check_between(rng, 1, 3);
    check_entries_of_delta(&e, spec);
    for (int s = 0; s < spec->n_seqs && spec->interval; s++) {
        const delta_seq *seq = &spec->seq[s];
        const int64_t kept = check_checkpoints(spec->interval, seq->position, seq->length);
        for (int i = 0; i < kept && i < spec->n_checkpoints && seq->src != GDN_SKIP; i++)
            if (seq->checkpoint[i] >= 0) e.writer[seq->checkpoint[i]] = s;
    }
    spec->log_rows = spec->n_seqs + check_between(rng, 0, 3);
    spec->map_log_row = !check_one_in(rng, 4);
    spec->map_stands = !check_one_in(rng, 8);
    spec->map_commit = !check_one_in(rng, 4);
    if (!spec->interval) spec->map_position = !check_one_in(rng, 8);
    for (int i = 0; i < spec->log_rows; i++) row[i] = i;
    if (spec->map_log_row) check_shuffle(rng, row, spec->log_rows);
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        if (!spec->interval)
            seq->position = !spec->map_position     ? 0
                            : check_one_in(rng, 16) ? INT32_MAX - seq->length
                                                    : check_between(rng, 0, check_one_in(rng, 2) ? 9 : 300);
        seq->log_row = spec->map_log_row && check_one_in(rng, 5) ? GDN_NONE : row[s];
        const int furthest = seq->position < 6 ? seq->position : 6;
        seq->repeated = seq->log_row < 0 || !spec->map_stands ? 0 : check_between(rng, 0, furthest);
        seq->commit = GDN_NONE;
        if (seq->src == GDN_SKIP && spec->map_log_row && spec->map_stands) draw_padding(spec, seq, rng);
        else if (seq->src == GDN_SKIP) seq->repeated = 0;
        else {
            if (spec->map_commit) draw_commit(spec, &e, s, seq, rng);
            if (seq->log_row >= 0 && seq->repeated + seq->length > most) most = seq->repeated + seq->length;
        }
    }
    spec->log_columns = most + (check_one_in(rng, 2) ? 0 : check_between(rng, 1, 5));
}

/* ---- the fixed list ----------------------------------------------------------------------------------- */

/* What a server has in one call: prompts that nothing is taken back of, which have no row of the log; drafts of others,
 * that are verified; one that has many tokens and a row, or is committed as well; and one that is only committed.
 * Devices may take each kind another way. With the types and forms of models, and without. */
static void beside_prompts(check_walk *w, delta_spec *spec)
{
    enum { N = 6 };
    static const int dims[][2] = { { 64, 40 }, { 128, 64 }, { 128, 44 } };
    static const int lengths[N] = { 50, 4, 2, 20, 12, 0 }, rows[N] = { GDN_NONE, 0, 1, GDN_NONE, 2, 3 };
    static const int repeated[N] = { 0, 2, 0, 0, 1, 2 }, commits[N] = { 0, 1, 0, 1, 0, 1 };
    for (int d = 0; d < CHECK_COUNT(dims); d++)
        for (int gate = 0; gate < 2; gate++)
            for (int model = 0; model < 2; model++)
                if (check_here(w)) {
                    delta_defaults(spec, 1, 2, dims[d][0], dims[d][1]);
                    delta_batch(spec, N, 0);
                    spec->n_rows = spec->n_rows_out = N + 1;
                    spec->map_start = spec->map_position = spec->map_stands = spec->map_log_row = spec->map_commit = 1;
                    spec->n_snapshots = !gate; /* the newest state of each, where there is nothing else to write it */
                    spec->map_dst = spec->n_snapshots;
                    spec->gate = gate;
                    spec->layout = (d + model) & 1;
                    spec->log_rows = 5;
                    spec->log_columns = 14;
                    spec->values[DELTA_G] = CHECK_GATE_SLOW;
                    for (int s = 0; s < N; s++) {
                        delta_seq *seq = &spec->seq[s];
                        seq->length = lengths[s];
                        seq->log_row = rows[s];
                        seq->position = 20 + s;
                        seq->repeated = repeated[s];
                        seq->commit = !commits[s] ? GDN_NONE : lengths[s] == 20 ? N : seq->src;
                        seq->dst[0] = spec->n_snapshots && !commits[s] ? seq->src : GDN_NONE;
                    }
                    if (model) {
                        for (int m = 0; m < 3; m++) spec->dtype[m] = GDN_BF16;
                        spec->dtype_g = spec->dtype_beta = spec->dtype_out = GDN_BF16;
                        spec->qk_norm = GDN_NORM_ADD;
                        spec->eps = 1e-6f;
                        spec->g_form = GDN_G_RAW;
                        spec->beta_form = GDN_BETA_LOGIT;
                        spec->values[DELTA_G] = CHECK_NORMAL;
                        spec->values[DELTA_A] = CHECK_GATE_MODEL;
                        spec->values[DELTA_BIAS] = CHECK_NORMAL;
                        spec->has_bias = 1;
                    }
                    CHECK_NAME(w, "log/prompts_k%d_v%d_%s_%s", dims[d][0], dims[d][1], gate ? "channel" : "scalar",
                               model ? "model" : "plain");
                }
}

/* Two sequences, of which one has a state that commits in place, elsewhere or not at all, and both begin where the ring
 * is about to wrap; with tokens for every order of loops and without any, with nothing to repeat and with as much as
 * fits. Where i, j and others are added up, it is to meet everything with everything in few cases. */
void delta_fixed_log(check_walk *w, delta_spec *spec)
{
    static const int lengths[] = { 0, 1, 2, 4, 5, 16, 17, 40 }, repeated[] = { 0, 1, 3, 8 };
    static const int dims[][2] = { { 128, 64 }, { 33, 40 }, { 128, 128 } };
    for (int i = 0; i < CHECK_COUNT(lengths); i++)
        for (int j = 0; j < CHECK_COUNT(repeated); j++)
            for (int d = 0; d < CHECK_COUNT(dims); d++)
                for (int layout = 0; layout < 2; layout++)
                    if (check_here(w)) {
                        const int mixed = i + j + d + layout, snapshots = mixed % 3 == 2;
                        delta_defaults(spec, 1, 2, dims[d][0], dims[d][1]);
                        spec->n_slots = spec->n_slots_out = 2;
                        spec->n_snapshots = snapshots;
                        delta_batch(spec, 2, lengths[i]);
                        spec->n_rows = spec->n_rows_out = 4;
                        spec->where = (i + layout) % 3;
                        spec->gate = (i + j) & 1;
                        spec->head_map = d & 1;
                        spec->layout = layout;
                        spec->values[DELTA_G] = CHECK_GATE_SLOW;
                        spec->values[DELTA_V] = CHECK_NORMAL;
                        spec->log_rows = 3;
                        spec->log_columns = lengths[i] + repeated[j] + (mixed & 1) + !(lengths[i] + repeated[j]);
                        spec->map_position = spec->map_stands = spec->map_log_row = spec->map_commit = 1;
                        for (int s = 0; s < 2; s++) {
                            delta_seq *seq = &spec->seq[s];
                            const int commit[] = { seq->src, 4 + 2 * s, GDN_NONE };
                            seq->log_row = 2 - s;
                            seq->repeated = repeated[j];
                            seq->position = (3 + s) * spec->log_columns + repeated[j] / 2 + s;
                            seq->commit = commit[(i + j + s) % 3];
                            if (snapshots) seq->dst[0] = 5 + 2 * s;
                            if (s && d == 1) seq->src = GDN_NONE;
                        }
                        spec->map_dst = snapshots;
                        spec->map_src = 1;
                        CHECK_NAME(w, "log/T%d_R%d_k%d_v%d_%s", lengths[i], repeated[j], dims[d][0], dims[d][1],
                                   layout ? "kv" : "vk");
                    }
    beside_prompts(w, spec);
    for (int gate = 0; gate < 2; gate++)
        for (int map = 0; map < 2; map++)
            if (check_here(w)) { /* the usual head counts, verifying */
                delta_defaults(spec, 16, 32, 128, 128);
                delta_batch(spec, 1, 4);
                spec->n_snapshots = 0;
                spec->gate = gate;
                spec->head_map = map;
                spec->log_rows = 1;
                spec->log_columns = 8;
                spec->map_position = spec->map_stands = spec->map_commit = 1;
                spec->seq[0].position = 14;
                spec->seq[0].repeated = 3;
                spec->seq[0].commit = spec->seq[0].src;
                CHECK_NAME(w, "log/model_%s_%s", gate ? "channel" : "scalar", map ? "tiled" : "grouped");
            }
}
