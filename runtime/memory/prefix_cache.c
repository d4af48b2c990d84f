/* The prefix cache: starting sequences from checkpoints, and writing checkpoints in steps. See prefix_cache.h; the tree
 * is in prefix_tree.c. */
#include <string.h>

#include "runtime/memory/prefix_tree.h"
#include "runtime/memory/replay_log.h"

/* ---- Creation --------------------------------------------------------------------------------------------- */

void rt_memory_prefix_destroy(rt_memory *m)
{
    rt_prefixes *p = m->prefixes;
    if (!p) return;
    gdn_buffer_destroy(m->host, &p->hidden);
    void *const arrays[] = { p->node, p->token, p->cell, p->checkpoint, p->drafted, p->map };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) rt_free(arrays[i]);
    rt_free(p);
    m->prefixes = NULL;
}

gdn_status rt_memory_prefix_create(rt_memory *m, int32_t interval, int32_t n_checkpoints)
{
    const char *const what = "the prefix cache";
    rt_prefixes *p = m->prefixes = rt_calloc(1, sizeof *p, what);
    if (!p) return GDN_OUT_OF_MEMORY;
    const uint64_t n = (uint64_t)(m->n_cells / interval) + (uint64_t)n_checkpoints + 1, cells = n * (uint64_t)interval;
    p->interval = interval;
    p->n_nodes = (int32_t)n;
    p->n_whole_max = m->n_cells / interval;
    p->n_checkpoints = n_checkpoints;
    p->node = rt_calloc(n, sizeof *p->node, what);
    p->token = rt_calloc(cells, 4, what);
    p->cell = rt_calloc(cells, 4, what);
    p->checkpoint = rt_calloc((uint64_t)n_checkpoints, sizeof *p->checkpoint, what);
    p->drafted = rt_calloc((uint64_t)m->n_cells, 1, what);
    m->cells.kept = rt_calloc((uint64_t)m->n_cells, 4, what);
    if (!p->node || !p->token || !p->cell || !p->checkpoint || !p->drafted || !m->cells.kept) return GDN_OUT_OF_MEMORY;
    if (m->hidden_bytes) {
        const gdn_status status = gdn_buffer_create(m->host, (uint64_t)n_checkpoints * m->hidden_bytes, &p->hidden);
        if (status) return rt_fail_gdn(status, what);
    }
    p->root = p->pinned = RT_NO_NODE;
    p->free = 0;
    for (int32_t i = 0; i < p->n_nodes; i++)
        p->node[i] = (rt_prefix_node){ .next = i + 1 < p->n_nodes ? i + 1 : RT_NO_NODE };
    for (int32_t i = 0; i < n_checkpoints; i++) p->checkpoint[i].node = RT_NO_NODE;
    return GDN_OK;
}

/* ---- Sequences ---------------------------------------------------------------------------------------------- */

int32_t rt_memory_prefix_find(const rt_prefixes *p, uint32_t owner, const int32_t *token, int32_t n, int32_t *length)
{
    int32_t node = RT_NO_NODE, found = RT_NO_CHECKPOINT;
    *length = 0;
    for (int32_t at = 0;;) {
        const int32_t tail = rt_memory_prefix_tail(p, owner, node, token + at, n - at);
        if (tail != RT_NO_NODE) {
            found = p->node[tail].checkpoint;
            *length = at + p->node[tail].n;
        }
        if (n - at < p->interval) return found;
        node = rt_memory_prefix_child(p, owner, node, token + at, p->interval);
        if (node == RT_NO_NODE) return found;
        at += p->interval;
        const int32_t here = p->node[node].checkpoint;
        if (here >= 0 && p->checkpoint[here].ready) {
            found = here;
            *length = at;
        }
    }
}

gdn_status rt_memory_prefix_own(rt_memory *m, int32_t seq, uint32_t owner)
{
    const gdn_status status = rt_memory_check_seq(m, seq, "giving a sequence an owner");
    if (status) return status;
    if (m->seq[seq].length && m->seq[seq].owner != owner)
        return rt_fail(GDN_INVALID_ARGUMENT, "giving a sequence an owner: sequence %d has tokens of %u, and not of %u",
                       (int)seq, (unsigned)m->seq[seq].owner, (unsigned)owner);
    m->seq[seq].owner = owner;
    return GDN_OK;
}

/* Gives the empty sequence seq the contents of the checkpoint, which has `length` tokens. */
static void fill(rt_memory *m, int32_t seq, int32_t checkpoint, const int32_t *token, int32_t length)
{
    rt_prefixes *p = m->prefixes;
    const rt_checkpoint *at = &p->checkpoint[checkpoint];
    rt_sequence *s = &m->seq[seq];
    int32_t node = at->node;
    for (int32_t end = length; end > 0; node = p->node[node].parent) {
        end -= p->node[node].n;
        memcpy(s->cell + end, rt_memory_prefix_cells(p, node), 4 * (size_t)p->node[node].n);
    }
    for (int32_t i = 0; i < length; i++) rt_memory_hold(&m->cells, s->cell[i]);
    memcpy(s->token, token, 4 * (size_t)length);
    rt_memory_hold(&m->slots, at->slot);
    rt_memory_hold(&m->rows, at->row);
    s->snapshot[length % m->K] = (rt_snapshot){ at->slot, length };
    s->conv_row = at->row;
    s->conv_from = length < m->kernel - 1 ? 0 : length - (m->kernel - 1);
    s->length = s->n_listed = s->keyed = length;
    if (!m->has_draft) return;
    /* The draft head has KV up to here, from the end of the last gap on. */
    s->draft = s->draft_from = length;
    while (s->draft_from > 0 && p->drafted[s->cell[s->draft_from - 1]]) s->draft_from--;
    rt_memory_hidden_put(m, seq, length - 1, token[length - 1], rt_memory_prefix_hidden(m, checkpoint));
}

gdn_status rt_memory_prefix_start(rt_memory *m, int32_t seq, const int32_t *token, int32_t n, int32_t *length)
{
    gdn_status status = rt_memory_check_seq(m, seq, "starting from a prefix");
    rt_prefixes *p = m->prefixes;
    int32_t end;
    if (!status && p) {
        const int32_t at = rt_memory_prefix_find(p, m->seq[seq].owner, token, n, &end);
        if (end > m->seq[seq].length) status = rt_memory_seq_grow(m, seq, end);
        if (!status && end > m->seq[seq].length) {
            p->checkpoint[at].used = ++p->clock;
            rt_memory_prefix_share(p, at);
            rt_memory_seq_empty(m, &m->seq[seq]);
            fill(m, seq, at, token, end);
        }
    }
    if (length) *length = rt_memory_seq_length(m, seq);
    return status;
}

/* The node of the first `end` tokens of a sequence, which is added if there is none; RT_NO_NODE: there is no room for
 * it. */
static int32_t node_of(rt_memory *m, const rt_sequence *s, int32_t end)
{
    const int32_t interval = m->prefixes->interval;
    int32_t node = RT_NO_NODE;
    for (int32_t at = 0; at < end;) {
        const int32_t n = end - at < interval ? end - at : interval;
        const int32_t child = rt_memory_prefix_child(m->prefixes, s->owner, node, s->token + at, n);
        node = child != RT_NO_NODE ? child : rt_memory_prefix_add(m, s->owner, node, s->token + at, s->cell + at, n);
        if (node == RT_NO_NODE) return node;
        at += n;
    }
    return node;
}

gdn_status rt_memory_prefix_keep(rt_memory *m, int32_t seq)
{
    gdn_status status = rt_memory_check_seq(m, seq, "keeping a prefix");
    rt_prefixes *const p = m->prefixes;
    if (status || !p || !m->seq[seq].length || m->seq[seq].keyed < m->seq[seq].length) return status;
    rt_sequence *const s = &m->seq[seq];
    const int32_t end = rt_memory_newest_state(m, s->length);
    const float *const hidden = rt_memory_hidden_row(m, seq, end - 1, NULL);
    if (!end || !rt_memory_seq_readable(m, s, end) || (m->has_draft && !hidden)) return GDN_OK;
    if (m->n_log && (status = rt_memory_log_fold(m, seq))) return status;
    const int32_t node = node_of(m, s, end);
    if (node == RT_NO_NODE) return GDN_OK;
    int32_t at = p->node[node].checkpoint;
    if (at != RT_NO_CHECKPOINT) {
        p->checkpoint[at].used = ++p->clock;
        return GDN_OK;
    }
    at = rt_memory_prefix_hold(m, node, s->snapshot[end % m->K].slot, s->conv_row);
    if (at == RT_NO_CHECKPOINT) return GDN_OK;
    p->checkpoint[at].ready = 1;
    p->checkpoint[at].step = s->last_step;
    p->n_written++;
    if (m->has_draft) memcpy(rt_memory_prefix_hidden(m, at), hidden, (size_t)m->hidden_bytes);
    return GDN_OK;
}

void rt_memory_prefix_roll_back(rt_memory *m, const rt_sequence *s, int32_t to)
{
    const rt_prefixes *p = m->prefixes;
    if (!p || s->keyed < s->length) return;
    const int32_t depth = s->length / p->interval;
    int32_t node = RT_NO_NODE, d = 1;
    if (to / p->interval < depth) node = rt_memory_prefix_child(p, s->owner, RT_NO_NODE, s->token, p->interval);
    while (node != RT_NO_NODE) {
        const int32_t at = p->node[node].checkpoint, end = d * p->interval;
        const int32_t next =
            d < depth ? rt_memory_prefix_child(p, s->owner, node, s->token + end, p->interval) : RT_NO_NODE;
        if (end > to && at >= 0 && p->checkpoint[at].step == s->last_step)
            rt_memory_prefix_forget(m, at); /* also removes the node, unless it has a child */
        node = next;
        d++;
    }
}

rt_prefix_stats rt_memory_prefix_stats_of(const rt_memory *m)
{
    const rt_prefixes *p = m->prefixes;
    rt_prefix_stats stats = { 0 };
    if (!p) return stats;
    stats = (rt_prefix_stats){
        .interval = p->interval, .n_max = p->n_checkpoints, .n_written = p->n_written, .n_evicted = p->n_evicted
    };
    for (int32_t i = 0; i < m->n_cells; i++) stats.n_cells += m->cells.kept[i] > 0;
    for (int32_t i = 0; i < p->n_checkpoints; i++)
        stats.n_held += p->checkpoint[i].node != RT_NO_NODE && p->checkpoint[i].ready;
    return stats;
}

/* ---- Steps ---------------------------------------------------------------------------------------------------- */

/* Number of interval ends that the span passes. */
static int32_t passed(const rt_memory *m, const rt_token_run *span)
{
    const int32_t n = m->seq[span->seq].length, N = m->prefixes->interval;
    return (n + span->n_rows) / N - n / N;
}

static int32_t most_passed(const rt_memory *m, const rt_token_run *spans, int32_t n_spans)
{
    int32_t most = 0;
    for (int32_t i = 0; i < n_spans; i++)
        if (passed(m, &spans[i]) > most) most = passed(m, &spans[i]);
    return most;
}

gdn_status rt_memory_prefix_reserve(rt_memory *m, const rt_token_run *spans, int32_t n_spans)
{
    rt_prefixes *p = m->prefixes;
    const int64_t need = p ? 2 * (int64_t)n_spans * most_passed(m, spans, n_spans) : 0;
    if (!p || need <= p->map_capacity) return GDN_OK;
    int32_t *map = rt_calloc((uint64_t)need, 4, "checkpoints of a step");
    if (!map) return GDN_OUT_OF_MEMORY;
    rt_free(p->map);
    p->map = map;
    p->map_capacity = need;
    return GDN_OK;
}

/* Plans a checkpoint at each of the last interval ends of span i that have none. */
static void plan(rt_memory *m, int32_t i)
{
    rt_prefixes *p = m->prefixes;
    rt_step *step = &m->step;
    const rt_token_run *span = &m->step_span[i];
    const rt_sequence *s = &m->seq[span->seq];
    const int32_t first = s->length / p->interval + 1, last = (s->length + span->n_rows) / p->interval;
    const int32_t from = last - p->n_checkpoints + 1 > first ? last - p->n_checkpoints + 1 : first;
    int32_t node = RT_NO_NODE;
    for (int32_t d = 1; d <= last && first <= last; d++) {
        const int64_t at = (int64_t)(d - 1) * p->interval;
        const int32_t child = rt_memory_prefix_child(p, s->owner, node, s->token + at, p->interval);
        node = child != RT_NO_NODE ? child
                                   : rt_memory_prefix_add(m, s->owner, node, s->token + at, s->cell + at, p->interval);
        if (node == RT_NO_NODE) return;
        if (d < first && child != RT_NO_NODE) rt_memory_prefix_adopt(m, node, s->cell + at); /* read in earlier steps */
        if (d < from) continue;
        const int32_t has = p->node[node].checkpoint;
        if (has >= 0) {
            p->checkpoint[has].used = ++p->clock;
            continue;
        }
        const int32_t taken = rt_memory_prefix_take(m, node);
        if (taken == RT_NO_CHECKPOINT) return;
        p->checkpoint[taken].step = m->n_steps;
        p->checkpoint[taken].step_row = span->first_row + d * p->interval - s->length - 1;
        const int64_t to = (int64_t)i * step->n_checkpoints + (d - first);
        step->state_checkpoint[to] = p->checkpoint[taken].slot;
        step->conv_checkpoint[to] = p->checkpoint[taken].row;
        p->n_planned++;
    }
}

void rt_memory_step_tokens(rt_memory *m, rt_step *step, const int32_t *token)
{
    rt_prefixes *p = m->prefixes;
    if (!p || !m->step_active || step != &m->step || m->step_keyed) return;
    m->step_keyed = 1;
    for (int32_t i = 0; i < step->n_spans; i++) {
        const rt_token_run *span = &m->step_span[i];
        rt_sequence *s = &m->seq[span->seq];
        memcpy(s->token + s->length, token + span->first_row, 4 * (size_t)span->n_rows);
        m->taken[i].keyed = s->keyed == s->length;
    }
    step->n_checkpoints = most_passed(m, m->step_span, step->n_spans);
    const int64_t n = (int64_t)step->n_spans * step->n_checkpoints;
    step->checkpoint_interval = p->interval;
    step->state_checkpoint = p->map;
    step->conv_checkpoint = n ? p->map + n : NULL;
    for (int64_t j = 0; j < 2 * n; j++) p->map[j] = GDN_NONE;
    for (int32_t i = 0; i < step->n_spans; i++)
        if (m->taken[i].keyed) plan(m, i);
    if (!p->n_planned) step->n_checkpoints = 0;
}

void rt_memory_step_hidden(rt_memory *m, const rt_step *step, const float *rows)
{
    const rt_prefixes *p = m->prefixes;
    if (!p || !p->n_planned || !m->has_draft || !m->step_active || step != &m->step) return;
    const int64_t n_embd = m->model->hp.n_embd;
    for (int32_t i = 0; i < p->n_checkpoints; i++)
        if (p->checkpoint[i].node != RT_NO_NODE && !p->checkpoint[i].ready)
            memcpy(rt_memory_prefix_hidden(m, i), rows + p->checkpoint[i].step_row * n_embd, (size_t)m->hidden_bytes);
}

void rt_memory_prefix_end(rt_memory *m, int written)
{
    rt_prefixes *p = m->prefixes;
    for (int32_t i = 0; p && p->n_planned && i < p->n_checkpoints; i++) {
        if (p->checkpoint[i].node == RT_NO_NODE || p->checkpoint[i].ready) continue;
        if (!written) rt_memory_prefix_forget(m, i);
        p->checkpoint[i].ready = written;
        p->n_written += (uint64_t)written;
        p->n_planned--;
    }
}
