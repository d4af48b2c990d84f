/* The replay log of gated_delta_net: random ones beside whatever a case does already. What a number of rounds must come
 * to is in invariances_log.c. */
#include "entries.h"

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
