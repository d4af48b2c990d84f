/* Steps: what a forward pass reads and writes. begin reserves everything, so that nothing can fail between the kernels
 * and commit. See memory.h. */
#include <string.h>

#include "runtime/memory/prefix_tree.h"
#include "runtime/memory/replay_log.h"

/* ---- What a span needs ------------------------------------------------------------------------------------ */

typedef struct need {
    int32_t slots, rows, cells;
} need;

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

/* The ring index of the state of length p. */
static rt_snapshot *snapshot_of(const rt_memory *m, const rt_sequence *s, int32_t p) { return &s->snapshot[p % m->K]; }

/* True if no other sequence references the slot, so that a step can write it. References that another sequence releases
 * only at this step's commit count too: that sequence reads the slot in this step, or keeps it after a cancel. */
static int own_slot(const rt_memory *m, const rt_snapshot *at)
{
    return at->slot != GDN_NONE && m->slots.count[at->slot] == 1;
}
static int own_row(const rt_memory *m, const rt_sequence *s)
{
    return s->conv_row != GDN_NONE && m->rows.count[s->conv_row] == 1;
}

static need need_of(const rt_memory *m, const rt_token_run *span)
{
    const rt_sequence *s = &m->seq[span->seq];
    const rt_log_plan plan = m->n_log ? rt_memory_log_plan_of(m, s, span->n_rows) : (rt_log_plan){ 0 };
    need n = { 0 };
    if (m->n_log) /* folding leaves the sequence with its own slot; log rows never run out */
        n.slots = plan.writes != GDN_NONE && !own_slot(m, &s->snapshot[0]);
    for (int32_t r = 0; !m->n_log && r < smaller(m->K, span->n_rows); r++)
        n.slots += !own_slot(m, snapshot_of(m, s, s->length + span->n_rows - r));
    n.rows = !own_row(m, s);
    n.cells = span->n_rows - smaller(span->n_rows, s->n_listed - s->length);
    return n;
}

int32_t rt_memory_step_fit(const rt_memory *m, const rt_token_run *spans, int32_t n_spans)
{
    int64_t slots = 0, rows = 0;
    for (int32_t i = 0; i < n_spans; i++) {
        if (spans[i].seq < 0 || spans[i].seq >= m->n_seqs || spans[i].n_rows < 1 ||
            spans[i].n_rows > m->n_cells - m->seq[spans[i].seq].length)
            return i ? i : 1; /* rt_memory_step_begin() reports the error */
        const need n = need_of(m, &spans[i]);
        slots += n.slots;
        rows += n.rows;
        /* One sequence always fits. For each slot that it shares or lacks, one of the n_seqs * K slots is free;
         * likewise rows. */
        if (i && (slots > m->slots.n_free || rows > m->rows.n_free)) return i;
    }
    return n_spans;
}

/* ---- begin -------------------------------------------------------------------------------------------------- */

static gdn_status check_spans(rt_memory *m, const rt_token_run *spans, int32_t n_spans, int32_t *n_rows,
                              int64_t *n_cells)
{
    const char *const what = "beginning a step";
    gdn_status status = GDN_OK;
    if (!spans || n_spans < 1 || n_spans > m->n_seqs)
        return rt_fail(GDN_INVALID_ARGUMENT, "%s: %d spans; 1 to %d are allowed", what, n_spans, m->n_seqs);
    memset(m->seen, 0, (size_t)m->n_seqs);
    int64_t rows = 0, slots = 0, conv_rows = 0, cells = 0;
    for (int32_t i = 0; i < n_spans; i++) {
        const rt_token_run *at = &spans[i];
        if ((status = rt_memory_check_seq(m, at->seq, what))) return status;
        if (m->seen[at->seq]++) return rt_fail(GDN_INVALID_ARGUMENT, "%s: sequence %d has two spans", what, at->seq);
        if (at->n_rows < 1 || at->first_row != rows)
            return rt_fail(GDN_INVALID_ARGUMENT, "%s: span %d has %d rows from %d; at least 1 from %lld is wanted",
                           what, i, at->n_rows, at->first_row, (long long)rows);
        const rt_sequence *s = &m->seq[at->seq];
        if (s->length && !rt_memory_seq_readable(m, s, s->length))
            return rt_fail(GDN_INVALID_ARGUMENT,
                           "%s: the state of sequence %d was lost in a step that failed; remove tokens from it", what,
                           at->seq);
        rows += at->n_rows;
        if (at->n_rows > m->n_cells - s->length)
            return rt_fail(GDN_OUT_OF_MEMORY, "%s: sequence %d would have %lld tokens, and there are %d KV cells", what,
                           at->seq, (long long)s->length + at->n_rows, m->n_cells);
        const need n = need_of(m, at);
        slots += n.slots;
        conv_rows += n.rows;
        cells += n.cells;
    }
    if (cells > rt_memory_free_cells(m))
        return rt_fail(GDN_OUT_OF_MEMORY, "%s: %lld KV cells are needed and %d are free", what, (long long)cells,
                       rt_memory_free_cells(m));
    if (slots > m->slots.n_free || conv_rows > m->rows.n_free)
        return rt_fail(GDN_OUT_OF_MEMORY, "%s: these %d sequences share so much that only %d can go on at once", what,
                       n_spans, rt_memory_step_fit(m, spans, n_spans));
    *n_rows = (int32_t)rows; /* fits: each row has its own cell, reserved or free */
    *n_cells = cells;
    return GDN_OK;
}

static gdn_status grow_step(rt_memory *m, int32_t n_rows)
{
    if (n_rows <= m->step_capacity) return GDN_OK;
    const int32_t capacity = n_rows < m->n_cells / 2 ? 2 * n_rows : m->n_cells;
    const uint64_t n = (uint64_t)capacity;
    int32_t *const rope = rt_calloc(n, sizeof *rope, "a step");
    int32_t *const new_cell = rt_calloc(n, sizeof *new_cell, "a step");
    int32_t *const n_cells = rt_calloc(n, sizeof *n_cells, "a step");
    const int32_t **cells = rt_calloc(n, sizeof *cells, "a step");
    if (!rope || !new_cell || !n_cells || !cells) {
        rt_free(rope);
        rt_free(new_cell);
        rt_free(n_cells);
        rt_free(cells);
        return GDN_OUT_OF_MEMORY;
    }
    rt_free(m->step.rope);
    rt_free(m->step.new_cell);
    rt_free(m->step.n_cells);
    rt_free(m->step.cells);
    m->step.rope = rope;
    m->step.new_cell = new_cell;
    m->step.n_cells = n_cells;
    m->step.cells = cells;
    m->step_capacity = capacity;
    return GDN_OK;
}

/* Fills the maps of a span for the log, after rt_memory_log_ready(). */
static void begin_log(rt_memory *m, int32_t i)
{
    const rt_token_run *span = &m->step_span[i];
    rt_sequence *s = &m->seq[span->seq];
    rt_step *step = &m->step;
    const rt_log_plan plan = rt_memory_log_plan_of(m, s, span->n_rows);
    const rt_snapshot *at = &s->snapshot[0];
    int32_t to = GDN_NONE;
    if (plan.writes != GDN_NONE) to = own_slot(m, at) ? at->slot : rt_memory_take(&m->slots);
    m->taken[i].state_to = to;
    m->taken[i].state_at = plan.writes;
    step->log_row[i] = plan.logs ? s->log_row : GDN_NONE;
    step->base_position[i] = rt_memory_state_at(s);
    const int at_end = plan.writes > s->length;
    step->commit[i] = at_end ? GDN_NONE : to;
    step->state_dst[i] = at_end ? to : GDN_NONE;
    step->n_snapshots |= at_end;
    step->n_log |= plan.logs ? m->n_log : 0;
}

static void begin_span(rt_memory *m, int32_t i)
{
    const rt_token_run *span = &m->step_span[i];
    rt_sequence *s = &m->seq[span->seq];
    rt_step *step = &m->step;
    const int32_t n = s->length, T = span->n_rows;

    step->length[i] = n;
    step->state_src[i] = snapshot_of(m, s, n)->slot; /* GDN_NONE without tokens */
    if (m->n_log) begin_log(m, i);
    for (int32_t r = 0; !m->n_log && r < m->K; r++) {
        int32_t to = GDN_NONE;
        if (r < T) {
            const rt_snapshot *at = snapshot_of(m, s, n + T - r);
            to = own_slot(m, at) ? at->slot : rt_memory_take(&m->slots);
        }
        step->state_dst[(int64_t)i * m->K + r] = to;
    }

    m->taken[i].conv_row = own_row(m, s) ? GDN_NONE : rt_memory_take(&m->rows);
    step->conv_src[i] = s->conv_row;
    step->conv_dst[i] = m->taken[i].conv_row != GDN_NONE ? m->taken[i].conv_row : s->conv_row;

    m->taken[i].n_listed = s->n_listed;
    m->taken[i].keyed = 0;
    while (s->n_listed < n + T) s->cell[s->n_listed++] = rt_memory_take_cell(m);
    for (int32_t t = 0; t < T; t++) {
        const int32_t row = span->first_row + t;
        step->rope[row] = n + t;
        step->new_cell[row] = s->cell[n + t];
        step->cells[row] = s->cell;
        step->n_cells[row] = n + t + 1;
    }
}

gdn_status rt_memory_step_begin(rt_memory *m, const rt_token_run *spans, int32_t n_spans, rt_step **step)
{
    int32_t n_rows = 0;
    int64_t n_cells = 0;
    *step = NULL;
    gdn_status status = check_spans(m, spans, n_spans, &n_rows, &n_cells);
    if (!status) status = grow_step(m, n_rows);
    if (!status) status = rt_memory_prefix_reserve(m, spans, n_spans);
    for (int32_t i = 0; i < n_spans && !status; i++)
        status = rt_memory_seq_grow(m, spans[i].seq, m->seq[spans[i].seq].length + spans[i].n_rows);
    for (int32_t i = 0; i < n_spans && !status; i++) status = rt_memory_log_ready(m, spans[i].seq, spans[i].n_rows);
    if (status) return status;
    memcpy(m->step_span, spans, (size_t)n_spans * sizeof *spans);
    m->step.n_spans = n_spans;
    m->step.n_rows = n_rows;
    m->step.n_checkpoints = 0;
    m->step.n_snapshots = m->n_log ? 0 : m->K;
    m->step.n_log = 0;
    m->step_keyed = 0;
    m->n_steps++;
    if (m->prefixes) rt_memory_prefix_yield(m, n_cells);
    for (int32_t i = 0; i < n_spans; i++) {
        m->step.seq_start[i] = spans[i].first_row;
        begin_span(m, i);
    }
    m->step.seq_start[n_spans] = n_rows;
    m->step_active = 1;
    *step = &m->step;
    return GDN_OK;
}

/* ---- commit and cancel ---------------------------------------------------------------------------------------- */

/* Updates conv_from after writing entries up to position `end`: the row keeps the newest n_conv_slots positions. */
static void conv_wrote(const rt_memory *m, rt_sequence *s, int32_t end)
{
    if (s->conv_from < end - m->n_conv_slots) s->conv_from = end - m->n_conv_slots;
}

static void commit_log(rt_memory *m, int32_t i)
{
    rt_snapshot *at = &m->seq[m->step_span[i].seq].snapshot[0];
    const int32_t to = m->taken[i].state_to;
    if (to != GDN_NONE && at->slot != to) {
        rt_memory_seq_drop_snapshot(m, at);
        at->slot = to;
    }
    if (to != GDN_NONE) at->tag = m->taken[i].state_at;
    else if (at->tag < 0) at->tag = 0; /* all tokens are in the log */
}

static void commit_span(rt_memory *m, int32_t i)
{
    const rt_token_run *span = &m->step_span[i];
    rt_sequence *s = &m->seq[span->seq];
    const int32_t T = span->n_rows, end = s->length + T;

    if (m->n_log) commit_log(m, i);
    for (int32_t r = 0; !m->n_log && r < smaller(m->K, T); r++) {
        rt_snapshot *at = snapshot_of(m, s, end - r);
        const int32_t to = m->step.state_dst[(int64_t)i * m->K + r];
        if (at->slot != to) {
            rt_memory_seq_drop_snapshot(m, at);
            at->slot = to;
        }
        at->tag = end - r; /* other tags stay valid: all indexes in between were just written */
    }
    if (m->taken[i].conv_row != GDN_NONE) {
        if (s->conv_row != GDN_NONE) rt_memory_drop(&m->rows, s->conv_row);
        s->conv_row = m->taken[i].conv_row;
    }
    conv_wrote(m, s, end);

    s->length = end;
    s->keyed = m->taken[i].keyed ? end : s->keyed;
    s->last_step = m->n_steps;
    s->ahead = -1;
    rt_memory_seq_truncate_cells(m, s, end); /* releases cells reserved for drafting */
}

static void cancel_span(rt_memory *m, int32_t i, int started)
{
    const rt_token_run *span = &m->step_span[i];
    rt_sequence *s = &m->seq[span->seq];
    const int32_t end = s->length + span->n_rows, base = rt_memory_state_at(s);

    for (int32_t r = 0; r < smaller(m->K, span->n_rows); r++) {
        rt_snapshot *at = snapshot_of(m, s, end - r);
        const int32_t to = m->n_log ? m->taken[i].state_to : m->step.state_dst[(int64_t)i * m->K + r];
        if (to == GDN_NONE) continue; /* a log without commit: no state is written */
        if (at->slot != to) rt_memory_drop(&m->slots, to);
        else if (started) rt_memory_seq_drop_snapshot(m, at);
    }
    if (m->digits && started && s->length > base && end - base > m->n_log) /* entries may have been overwritten */
        rt_memory_seq_drop_snapshot(m, &s->snapshot[0]);
    if (m->taken[i].conv_row != GDN_NONE) rt_memory_drop(&m->rows, m->taken[i].conv_row);
    else if (started) conv_wrote(m, s, end);
    /* A shared state of an earlier length is no use: callers see by the smallest length that the end was lost. */
    if (s->length && !rt_memory_seq_readable(m, s, s->length))
        for (int32_t r = 0; r < m->K; r++) rt_memory_seq_drop_snapshot(m, &s->snapshot[r]);
    rt_memory_seq_truncate_cells(m, s, m->taken[i].n_listed);
}

void rt_memory_step_commit(rt_memory *m, rt_step *step)
{
    if (!m->step_active || step != &m->step) return;
    for (int32_t i = 0; i < step->n_spans; i++) commit_span(m, i);
    rt_memory_prefix_end(m, 1);
    m->step_active = 0;
}

void rt_memory_step_cancel(rt_memory *m, rt_step *step, int started)
{
    if (!m->step_active || step != &m->step) return;
    for (int32_t i = 0; i < step->n_spans; i++) cancel_span(m, i, started);
    rt_memory_prefix_end(m, 0);
    m->step_active = 0;
}
