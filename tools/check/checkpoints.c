/* Checkpoints of both kernels: random ones beside whatever a case does already. */
#include "entries.h"

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
