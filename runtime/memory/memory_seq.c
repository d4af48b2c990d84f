/* Operations on sequences: they change references, not stored data. See memory.h. */
#include <string.h>

#include "runtime/memory/prefix_tree.h"
#include "runtime/memory/replay_log.h"

/* ---- Checks --------------------------------------------------------------------------------------------- */

gdn_status rt_memory_check_seq(const rt_memory *m, int32_t seq, const char *what)
{
    if (seq < 0 || seq >= m->n_seqs)
        return rt_fail(GDN_INVALID_ARGUMENT, "%s: there is no sequence %d; ids are 0 to %d", what, seq, m->n_seqs - 1);
    if (m->step_active)
        return rt_fail(GDN_INVALID_ARGUMENT, "%s: a step is under way; commit or cancel it first", what);
    return GDN_OK;
}

int rt_memory_seq_readable(const rt_memory *m, const rt_sequence *s, int32_t p)
{
    /* The next token's conv window needs the kernel - 1 positions before it; before position 0 they are zero. */
    if (s->conv_from != 0 && s->conv_from > p - (m->kernel - 1)) return 0;
    const int32_t tag = s->snapshot[p % m->K].tag; /* with a log, entries cover the tokens after the tag */
    return m->n_log ? tag >= 0 && tag <= p && p <= s->length : tag == p;
}

/* ---- Parts of a sequence ---------------------------------------------------------------------------------- */

gdn_status rt_memory_seq_grow(rt_memory *m, int32_t seq, int32_t n)
{
    rt_sequence *s = &m->seq[seq];
    if (n <= s->capacity) return GDN_OK;
    int32_t capacity = s->capacity ? s->capacity : 64;
    while (capacity < n) capacity *= 2;               /* n <= 2^29 */
    if (capacity > m->n_cells) capacity = m->n_cells; /* a list has distinct cells, so n <= n_cells */
    int32_t *cell = rt_calloc((uint64_t)capacity, sizeof *cell, "a sequence's list of cells");
    int32_t *token = m->prefixes ? rt_calloc((uint64_t)capacity, sizeof *token, "a sequence's list of tokens") : NULL;
    if (!cell || (m->prefixes && !token)) {
        rt_free(cell);
        rt_free(token);
        return GDN_OUT_OF_MEMORY;
    }
    if (s->n_listed) memcpy(cell, s->cell, (size_t)s->n_listed * sizeof *cell);
    if (s->keyed) memcpy(token, s->token, (size_t)s->keyed * sizeof *token);
    rt_free(s->cell);
    rt_free(s->token);
    s->cell = cell;
    s->token = token;
    s->capacity = capacity;
    return GDN_OK;
}

void rt_memory_seq_truncate_cells(rt_memory *m, rt_sequence *s, int32_t n)
{
    while (s->n_listed > n) rt_memory_drop(&m->cells, s->cell[--s->n_listed]);
    if (s->n_listed <= s->length) s->ahead = -1; /* the cell with the draft head's advance KV is gone */
}

void rt_memory_seq_drop_snapshot(rt_memory *m, rt_snapshot *at)
{
    if (at->slot != GDN_NONE) rt_memory_drop(&m->slots, at->slot);
    *at = (rt_snapshot){ GDN_NONE, -1 };
}

void rt_memory_seq_empty(rt_memory *m, rt_sequence *s)
{
    rt_memory_seq_truncate_cells(m, s, 0);
    for (int32_t r = 0; r < m->K; r++) rt_memory_seq_drop_snapshot(m, &s->snapshot[r]);
    for (int32_t r = 0; r < m->n_hidden; r++) s->hidden_at[r] = (rt_hidden_tag){ -1, -1 };
    if (s->conv_row != GDN_NONE) rt_memory_drop(&m->rows, s->conv_row);
    if (s->log_row != GDN_NONE) rt_memory_drop(&m->log_rows, s->log_row);
    s->conv_row = s->log_row = GDN_NONE;
    s->length = s->conv_from = s->draft = s->draft_from = s->keyed = 0;
}

/* Rolls back to length p > 0, which must be readable: drops everything of later positions. */
static void roll_back(rt_memory *m, rt_sequence *s, int32_t p)
{
    rt_memory_prefix_roll_back(m, s, p);
    rt_memory_seq_truncate_cells(m, s, p);
    for (int32_t r = 0; r < m->K; r++)
        if (s->snapshot[r].tag > p) rt_memory_seq_drop_snapshot(m, &s->snapshot[r]);
    for (int32_t r = 0; r < m->n_hidden; r++)
        if (s->hidden_at[r].position >= p) s->hidden_at[r] = (rt_hidden_tag){ -1, -1 };
    s->length = p;
    s->keyed = s->keyed < p ? s->keyed : p;
    s->draft = s->draft < p ? s->draft : p;
    s->draft_from = s->draft_from < p ? s->draft_from : p;
}

/* ---- The interface ---------------------------------------------------------------------------------------- */

int32_t rt_memory_seq_length(const rt_memory *m, int32_t seq)
{
    return seq >= 0 && seq < m->n_seqs ? m->seq[seq].length : 0;
}

int32_t rt_memory_seq_min_length(const rt_memory *m, int32_t seq)
{
    if (!rt_memory_seq_length(m, seq)) return 0;
    const rt_sequence *s = &m->seq[seq];
    int32_t p = s->length >= m->K ? s->length - m->K + 1 : 1;
    if (m->n_log && p > rt_memory_state_at(s)) p = rt_memory_state_at(s) ? rt_memory_state_at(s) : 1;
    while (p <= s->length && !rt_memory_seq_readable(m, s, p)) p++;
    return p;
}

const int32_t *rt_memory_seq_cells(const rt_memory *m, int32_t seq)
{
    return seq >= 0 && seq < m->n_seqs ? m->seq[seq].cell : NULL;
}

/* Checks that [p0, p1) can be removed from the sequence. */
static gdn_status check_rm(const rt_memory *m, int32_t seq, int32_t p0, int32_t p1)
{
    const rt_sequence *s = &m->seq[seq];
    if (p0 >= s->length || (p1 >= 0 && p1 <= p0)) return GDN_OK;
    if (p1 >= 0 && p1 < s->length)
        return rt_fail(GDN_UNSUPPORTED, "sequence %d has %d tokens: [%d, %d) cannot be taken out of a recurrent state",
                       seq, s->length, p0, p1);
    if (p0 && !rt_memory_seq_readable(m, s, p0))
        return rt_fail(GDN_UNSUPPORTED, "sequence %d has %d tokens and no snapshot of length %d; the smallest is %d",
                       seq, s->length, p0, rt_memory_seq_min_length(m, seq));
    return GDN_OK;
}

gdn_status rt_memory_seq_rm(rt_memory *m, int32_t seq, int32_t p0, int32_t p1)
{
    const int32_t first = seq < 0 ? 0 : seq, last = seq < 0 ? m->n_seqs - 1 : seq;
    gdn_status status = rt_memory_check_seq(m, first, "removing tokens");
    if (!status && p0 < 0) status = rt_fail(GDN_INVALID_ARGUMENT, "removing tokens: p0 is %d", p0);
    for (int32_t i = first; i <= last && !status; i++) status = check_rm(m, i, p0, p1);
    if (status) return status;
    for (int32_t i = first; i <= last; i++) {
        rt_sequence *s = &m->seq[i];
        if (p1 >= 0 && (p1 < s->length || p1 <= p0)) continue;
        if (p0 == 0) rt_memory_seq_empty(m, s);
        else if (p0 < s->length) roll_back(m, s, p0);
        else rt_memory_seq_truncate_cells(m, s, s->length); /* only cells reserved for drafting are removed */
    }
    return GDN_OK;
}

gdn_status rt_memory_seq_cp(rt_memory *m, int32_t from, int32_t to)
{
    gdn_status status = rt_memory_check_seq(m, from, "copying a sequence");
    if (!status) status = rt_memory_check_seq(m, to, "copying a sequence");
    if (status || from == to) return status;
    rt_sequence *a = &m->seq[from], *b = &m->seq[to];
    if ((status = rt_memory_seq_grow(m, to, a->length))) return status;
    rt_memory_seq_empty(m, b);
    for (int32_t p = 0; p < a->length; p++) {
        b->cell[p] = a->cell[p];
        rt_memory_hold(&m->cells, b->cell[p]);
    }
    for (int32_t r = 0; r < m->K; r++) {
        b->snapshot[r] = a->snapshot[r];
        if (b->snapshot[r].slot != GDN_NONE) rt_memory_hold(&m->slots, b->snapshot[r].slot);
    }
    if (a->conv_row != GDN_NONE) rt_memory_hold(&m->rows, a->conv_row);
    if (a->log_row != GDN_NONE) rt_memory_hold(&m->log_rows, a->log_row);
    if (m->has_draft) /* hidden rows are small and in host memory: they are copied, not shared */
        memcpy(rt_memory_hidden_at(m, to, 0), rt_memory_hidden_at(m, from, 0),
               (size_t)((uint64_t)m->n_hidden * m->hidden_bytes));
    memcpy(b->hidden_at, a->hidden_at, (size_t)m->n_hidden * sizeof *b->hidden_at);
    if (a->keyed) memcpy(b->token, a->token, (size_t)a->keyed * sizeof *b->token);
    b->length = b->n_listed = a->length;
    b->keyed = a->keyed;
    b->owner = a->owner;
    b->conv_row = a->conv_row;
    b->log_row = a->log_row;
    b->conv_from = a->conv_from;
    b->draft = a->draft;
    b->draft_from = a->draft_from;
    return GDN_OK;
}
