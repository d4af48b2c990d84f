/* Entries of pools. See entries.h. */
#include "entries.h"

void check_entries_clear(check_entries *e, int n)
{
    e->n = n;
    for (int i = 0; i < CHECK_MAX_ENTRIES; i++) e->reader[i] = e->writer[i] = CHECK_NOBODY;
}

void check_entries_read(check_entries *e, int s, int entry)
{
    if (entry >= 0) e->reader[entry] = e->reader[entry] == CHECK_NOBODY || e->reader[entry] == s ? s : CHECK_SEVERAL;
}

int check_entries_write(check_entries *e, int s, int entry)
{
    if (e->writer[entry] != CHECK_NOBODY || (e->reader[entry] != CHECK_NOBODY && e->reader[entry] != s)) return 0;
    e->writer[entry] = s;
    return 1;
}

int check_entries_take(check_entries *e, int s, check_rng *rng)
{
    for (int attempt = 0; attempt < 8; attempt++) {
        const int entry = check_between(rng, 0, e->n - 1);
        if (check_entries_write(e, s, entry)) return entry;
    }
    return GDN_NONE;
}

void check_entries_checkpoints(check_entries *e, int s, int *checkpoint, int n, int64_t n_used, check_rng *rng)
{
    for (int i = 0; i < n; i++) {
        checkpoint[i] = i < n_used ? GDN_NONE : check_between(rng, -3, 1 << 30); /* the call does not read the others */
        if (!check_one_in(rng, 8) && i < n_used) checkpoint[i] = check_entries_take(e, s, rng);
    }
}

int check_draw_interval(check_rng *rng)
{
    static const int intervals[] = { 1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 16, 32, 33, 64, INT32_MAX };
    return CHECK_PICK(rng, intervals);
}

void check_entries_of_delta(check_entries *e, const delta_spec *spec)
{
    check_entries_clear(e, spec->n_rows_out * spec->n_slots_out);
    for (int s = 0; s < spec->n_seqs; s++) {
        const delta_seq *seq = &spec->seq[s];
        if (seq->src == GDN_SKIP || !seq->length) continue;
        if (spec->where != DELTA_APART) check_entries_read(e, s, seq->src);
        for (int r = 0; r < spec->n_snapshots && r < seq->length; r++)
            if (seq->dst[r] >= 0) e->writer[seq->dst[r]] = s;
    }
}

int check_draw_starts(const int *length, size_t stride, int n, int *lead, int *tail, check_rng *rng)
{
    int same = 1;
    for (int s = 1; s < n; s++)
        same &= *(const int *)(const void *)((const char *)length + (size_t)s * stride) == *length;
    if (same && !check_one_in(rng, 2)) return 0;
    *lead = check_one_in(rng, 3) ? check_between(rng, 0, 3) : 0;
    *tail = check_one_in(rng, 3) ? check_between(rng, 0, 3) : 0;
    return 1;
}
