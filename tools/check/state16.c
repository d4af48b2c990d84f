/* States of 16 bits: random ones beside whatever a case does already. What any cut into calls must come to is in
 * invariances_state16.c. */
#include "specs.h"

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
