/* Checkpoints of both kernels: random ones beside whatever a case does already, and the fixed lists. */
#include <stdio.h>
#include <string.h>

#include "entries.h"
#include "families.h"
#include "kernel.h"

/* An entry for each of the checkpoints of sequence s, of which the first n_used are used. */
static void draw_entries(check_entries *e, int s, int *checkpoint, int n, int64_t n_used, check_rng *rng)
{
    for (int i = 0; i < n; i++) {
        checkpoint[i] = i < n_used ? GDN_NONE : check_between(rng, -3, 1 << 30); /* nobody looks at the others */
        if (!check_one_in(rng, 8) && i < n_used) checkpoint[i] = check_entries_take(e, s, rng);
    }
}

static int draw_interval(check_rng *rng)
{
    static const int intervals[] = { 1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 16, 32, 33, 64, INT32_MAX };
    return CHECK_PICK(rng, intervals);
}

void delta_random_checkpoints(delta_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    if (!check_one_in(rng, 3)) return;
    const int apart = spec->where == DELTA_APART, more = check_between(rng, 0, 3);
    check_entries e;
    spec->n_rows_out += more; /* room for them */
    if (!apart) spec->n_rows = spec->n_rows_out;
    check_entries_of_delta(&e, spec);
    spec->interval = draw_interval(rng);
    spec->n_checkpoints = check_between(rng, 1, check_one_in(rng, 4) ? DELTA_MAX_CHECKPOINTS : 3);
    spec->map_position = !check_one_in(rng, 4);
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        seq->position = !spec->map_position     ? 0
                        : check_one_in(rng, 16) ? INT32_MAX - seq->length
                                                : check_between(rng, 0, check_one_in(rng, 2) ? 9 : 300);
    }
    for (int s = 0; s < spec->n_seqs; s++) {
        delta_seq *seq = &spec->seq[s];
        draw_entries(&e, s, seq->checkpoint, spec->n_checkpoints,
                     seq->src == GDN_SKIP ? 0 : check_checkpoints(spec->interval, seq->position, seq->length), rng);
    }
}

void conv_random_checkpoints(conv_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    if (spec->where == CONV_NOWHERE || !check_one_in(rng, 3)) return;
    const int apart = spec->where == CONV_APART, more = check_between(rng, 0, 4);
    check_entries e;
    spec->n_rows_out += more;
    if (!apart) spec->n_rows = spec->n_rows_out;
    check_entries_clear(&e, spec->n_rows_out);
    spec->interval = draw_interval(rng);
    spec->n_checkpoints = check_between(rng, 1, check_one_in(rng, 4) ? CONV_MAX_CHECKPOINTS : 3);
    for (int s = 0; s < spec->n_seqs; s++) {
        const conv_seq *seq = &spec->seq[s];
        if (seq->src == GDN_SKIP || !seq->length) continue;
        if (!apart) check_entries_read(&e, s, seq->src);
        if (seq->dst >= 0) e.writer[seq->dst] = s;
    }
    for (int s = 0; s < spec->n_seqs; s++) {
        conv_seq *seq = &spec->seq[s];
        draw_entries(&e, s, seq->checkpoint, spec->n_checkpoints,
                     seq->src == GDN_SKIP ? 0 : check_checkpoints(spec->interval, seq->position, seq->length), rng);
    }
}

/* ---- the fixed lists ----------------------------------------------------------------------------------- */

/* Two sequences at positions that are apart, each with a few checkpoints behind all rows of the batch: short and long
 * ones, so that every order of loops and every way to cut the tokens meets them, at the first token, the last, on the
 * way, and where a snapshot is; more of them than there are entries, and fewer. */
static const int lengths[] = { 1, 3, 6, 16, 17, 33, 70 }, intervals[] = { 1, 2, 3, 16, 32, 64 };

void delta_fixed_checkpoints(check_walk *w, delta_spec *spec)
{
    static const int dims[][2] = { { 128, 64 }, { 33, 40 } };
    for (int i = 0; i < CHECK_COUNT(lengths); i++)
        for (int j = 0; j < CHECK_COUNT(intervals); j++)
            for (int d = 0; d < 2; d++)
                for (int layout = 0; layout < 2; layout++)
                    if (check_here(w)) {
                        const int gate = (i + j + d) & 1, slots = 1 + (j & 1);
                        delta_defaults(spec, 1, 2, dims[d][0], dims[d][1]);
                        spec->n_slots = spec->n_slots_out = spec->n_snapshots = slots;
                        delta_batch(spec, 2, lengths[i]);
                        spec->n_rows = spec->n_rows_out = 6;
                        spec->where = (i + j + layout) % 3;
                        spec->gate = gate;
                        spec->layout = layout;
                        spec->values[DELTA_G] = CHECK_GATE_SLOW;
                        spec->interval = intervals[j];
                        spec->n_checkpoints = 2 * slots;
                        spec->map_position = (i + j) % 3 != 0;
                        for (int s = 0; s < 2; s++) {
                            spec->seq[s].position = spec->map_position ? 2 + 29 * s + i : 0;
                            for (int c = 0; c < spec->n_checkpoints; c++)
                                spec->seq[s].checkpoint[c] = c == 1 && i == 2 ? GDN_NONE : (4 - 2 * s) * slots + c;
                        }
                        CHECK_NAME(w, "checkpoints/T%d_N%d_k%d_%s", lengths[i], intervals[j], dims[d][0],
                                   layout ? "kv" : "vk");
                    }
}

void conv_fixed_checkpoints(check_walk *w, conv_spec *spec)
{
    static const int widths[] = { 1, 2, 4, 16 };
    for (int i = 0; i < CHECK_COUNT(lengths); i++)
        for (int j = 0; j < CHECK_COUNT(intervals); j++)
            for (int width = 0; width < CHECK_COUNT(widths); width++)
                if (check_here(w)) {
                    conv_defaults(spec, 37, widths[width]);
                    spec->n_columns += (i + j) % 3;
                    conv_batch(spec, 2, lengths[i]);
                    spec->n_rows = spec->n_rows_out = 6;
                    spec->where = (i + j + width) % 3;
                    spec->silu = i & 1;
                    spec->interval = intervals[j];
                    spec->n_checkpoints = 2;
                    spec->map_position = spec->map_src = 1;
                    spec->dtype_x = spec->dtype_out = (i + width) % 3;
                    spec->dtype_history = j & 1 ? GDN_F32 : spec->dtype_x;
                    spec->seq[1].src = (i + j) % 4 ? 1 : GDN_NONE;
                    for (int s = 0; s < 2; s++) {
                        spec->seq[s].position = j * s + i;
                        for (int c = 0; c < 2; c++)
                            spec->seq[s].checkpoint[c] = c == 1 && i == 2 ? GDN_NONE : 4 - 2 * s + c;
                    }
                    CHECK_NAME(w, "checkpoints/T%d_N%d_width%d", lengths[i], intervals[j], widths[width]);
                }
}
