/* Token trees of drafts: their rows in a step, and how the accepted branch becomes the sequence. See memory.h.
 *
 * A step stores a sequence's tokens at addresses (places) behind its end, in row order. Place i is log entry and conv
 * state entry (length + i) of the rings, and the cell (KV cache slot) of that index in the list. Tokens of the chain
 * are thus already where decoding stores them. A token of another branch at place i has a depth below i; attention
 * reads it through its own cell list. If it is accepted, its entries move to the place of its depth. */
#include <string.h>

#include "runtime/memory/prefix_tree.h"
#include "runtime/memory/replay_log.h"

enum { MOST_ROWS = 256 }; /* of a tree */

int32_t rt_tree_chain(const int32_t *parent, int32_t n)
{
    int32_t chain = 1;
    while (chain < n && parent[chain] == chain - 1) chain++;
    return chain < n ? chain : n;
}

/* ---- A step ---- */

static gdn_status check(const rt_memory *m, const rt_token_run *span, const int32_t *parent)
{
    const char *const what = "beginning a step of trees";
    if (!m->n_log) return rt_fail(GDN_UNSUPPORTED, "%s: the memory rolls back with snapshots; a log is needed", what);
    const int32_t most = m->n_rollback < MOST_ROWS ? m->n_rollback : MOST_ROWS;
    if (span->n_rows > most)
        return rt_fail(GDN_INVALID_ARGUMENT, "%s: sequence %d has %d rows; 1 to %d are allowed (n_rollback is %d)",
                       what, span->seq, span->n_rows, most, m->n_rollback);
    for (int32_t t = 0; t < span->n_rows; t++)
        if (t ? parent[t] < 0 || parent[t] >= t : parent[t] != GDN_NONE)
            return rt_fail(GDN_INVALID_ARGUMENT,
                           "%s: row %d of sequence %d follows %d; of the first row that is %d, of others a row before",
                           what, t, span->seq, parent[t], GDN_NONE);
    return GDN_OK;
}

gdn_status rt_tree_begin(rt_memory *m, const rt_token_run *spans, int32_t n_spans, const int32_t *parent)
{
    gdn_status status = GDN_OK;
    int64_t need = 0;
    for (int32_t i = 0; i < n_spans && !status; i++) status = check(m, &spans[i], parent + spans[i].first_row);
    for (int32_t i = 0; i < n_spans && !status; i++) {
        const int32_t *from = parent + spans[i].first_row, n = spans[i].n_rows;
        need += (int64_t)(n - rt_tree_chain(from, n)) * (m->seq[spans[i].seq].length + n);
        for (int32_t t = 0; t < n; t++) {
            m->step_parent[spans[i].first_row + t] = from[t];
            m->step_depth[spans[i].first_row + t] = t ? m->step_depth[spans[i].first_row + from[t]] + 1 : 0;
        }
    }
    if (status || need <= m->aside_capacity) return status;
    int32_t *lists = rt_calloc(2 * (uint64_t)need, sizeof *lists, "lists of cells of a tree");
    if (!lists) return GDN_OUT_OF_MEMORY;
    rt_free(m->branch_cells);
    m->branch_cells = lists;
    m->aside_capacity = 2 * need;
    return GDN_OK;
}

void rt_tree_rows(rt_memory *m, int32_t i, int64_t *lists)
{
    const rt_token_run *span = &m->step_span[i];
    const rt_sequence *s = &m->seq[span->seq];
    const int32_t *parent = m->step_parent + span->first_row, *depth = m->step_depth + span->first_row;
    const int32_t n = s->length, chain = rt_tree_chain(parent, span->n_rows);
    rt_step *step = &m->step;
    for (int32_t t = 0; t < span->n_rows; t++) {
        const int32_t row = span->first_row + t;
        step->rope[row] = n + depth[t];
        step->new_cell[row] = s->cell[n + t];
        step->cells[row] = s->cell;
        step->n_cells[row] = n + depth[t] + 1;
        if (t < chain) continue;
        int32_t *list = m->branch_cells + *lists;
        *lists += n + depth[t] + 1;
        memcpy(list, s->cell, (size_t)n * sizeof *list);
        for (int32_t a = t; a >= 0; a = parent[a]) list[n + depth[a]] = s->cell[n + a];
        step->cells[row] = list;
    }
}

/* ---- A branch ---- */

/* Layout of the index maps: each is separate, aligned for all devices. The first one is for a single entry and is
 * written once. */
enum { MAP_ALIGN = 16, MAP_ENTRIES = MAP_ALIGN + 2 * MOST_ROWS * (1 + MAP_ALIGN) };

/* One call of set_rows on a pool's row: moves n entries from `from` on to those at `to`, as map entries [map, map + n)
 * say. */
typedef struct entry_move {
    int32_t from, to, n, n_to, map;
} entry_move;

static gdn_tensor entries(const gdn_span *pool, int32_t row, int32_t n_slots, int32_t first, int32_t n, uint64_t bytes)
{
    const uint64_t at = ((uint64_t)row * (uint64_t)n_slots + (uint64_t)first) * bytes;
    return (
        gdn_tensor){ .data = pool->data, .offset = pool->offset + at, .bytes = (uint64_t)n * bytes, .dtype = GDN_F32 };
}

static gdn_set_rows_args some_rows(uint64_t bytes, int32_t n, int32_t n_to)
{
    gdn_set_rows_args a = GDN_INIT(gdn_set_rows_args);
    a.n_columns = (int64_t)(bytes / 4);
    a.n_rows = n;
    a.n_rows_dst = n_to;
    a.index.dtype = GDN_I32;
    return a;
}

uint64_t rt_tree_map_bytes(void) { return MAP_ENTRIES * sizeof(int32_t); }

gdn_status rt_tree_workspace(const rt_memory *m, uint64_t *bytes)
{
    const uint64_t widths[] = { m->log_bytes, m->conv_slot_bytes };
    gdn_status status = GDN_OK;
    for (int i = 0; i < 4 && !status; i++) {
        const int32_t n = i < 2 ? 1 : m->n_rollback;
        const gdn_set_rows_args a = some_rows(widths[i % 2], n, n);
        gdn_capability can = { sizeof can };
        status = gdn_set_rows_query(m->device, &a, &can);
        *bytes = can.workspace_bytes > *bytes ? can.workspace_bytes : *bytes;
    }
    return status;
}

static gdn_status move(rt_memory *m, const gdn_span *pool, int32_t row, int32_t n_slots, uint64_t bytes,
                       const entry_move *what, int32_t n_moves)
{
    gdn_status status = GDN_OK;
    for (int32_t i = 0; i < n_moves && !status; i++) {
        gdn_set_rows_args a = some_rows(bytes, what[i].n, what[i].n_to);
        a.src = entries(pool, row, n_slots, what[i].from, what[i].n, bytes);
        a.dst = entries(pool, row, n_slots, what[i].to, what[i].n_to, bytes);
        a.index.data = m->branch_map.data;
        a.index.offset = m->branch_map.offset + 4 * (uint64_t)what[i].map;
        a.index.bytes = 4 * (uint64_t)what[i].n;
        a.workspace = m->fold_workspace;
        status = gdn_set_rows(m->device, &a, NULL);
    }
    return status ? rt_fail_gdn(status, "taking a branch") : GDN_OK;
}

/* Plans the calls that move place path[i] to place i, for i in [first, n), in rings of n_slots entries. A call must
 * not write what it reads, and neither range may wrap around, so some paths take several calls. Places move in
 * ascending order; since path[i] >= i, a place is read before it is overwritten. Appends to the map at *used. */
static int32_t plan_moves(const rt_sequence *s, const int32_t *path, int32_t first, int32_t n, int32_t n_slots,
                          entry_move *out, int32_t *map, int32_t *used)
{
    int32_t n_moves = 0;
    for (int32_t i = first, end; i < n; i = end) {
        entry_move *to = &out[n_moves++];
        *to = (entry_move){ (s->tree_at + path[i]) % n_slots, (s->tree_at + i) % n_slots, 0, 0, *used };
        for (end = i; end < n && end < path[i]; end++) {
            const int32_t from = path[end] - path[i];
            if (to->from + from >= n_slots || to->to + (end - i) >= n_slots) break;
            while (to->n < from) map[*used + to->n++] = GDN_NONE;
            map[*used + to->n++] = to->n_to++;
        }
        if (to->n == 1) to->map = 0;
        else *used += (to->n + MAP_ALIGN - 1) / MAP_ALIGN * MAP_ALIGN;
    }
    return n_moves;
}

/* Moves the places of the path that are not at their final address, in all layers. */
static gdn_status move_columns(rt_memory *m, const rt_sequence *s, const int32_t *path, int32_t first, int32_t n)
{
    entry_move log[MOST_ROWS], conv[MOST_ROWS];
    int32_t map[MAP_ENTRIES], used = MAP_ALIGN;
    const int32_t n_log = plan_moves(s, path, first, n, m->n_log, log, map, &used);
    const int32_t n_conv = m->n_conv_slots ? plan_moves(s, path, first, n, m->n_conv_slots, conv, map, &used) : 0;
    gdn_status status = GDN_OK;
    if (used > MAP_ALIGN) {
        const uint64_t bytes = 4 * (uint64_t)(used - MAP_ALIGN);
        status = gdn_buffer_write(m->device, &m->branch_map, 4 * MAP_ALIGN, map + MAP_ALIGN, bytes);
        if (status) return rt_fail_gdn(status, "taking a branch");
    }
    for (int32_t layer = 0; layer < m->n_recurrent && !status; layer++) {
        status = move(m, &m->log[layer], s->log_row, m->n_log, m->log_bytes, log, n_log);
        if (!status) status = move(m, &m->conv[layer], s->conv_row, m->n_conv_slots, m->conv_slot_bytes, conv, n_conv);
    }
    return status;
}

/* Tag of an unlinked hidden row: negative, so it is no position. */
static int32_t aside_tag(int32_t position) { return -2 - position; }

static void move_hidden(rt_memory *m, int32_t seq, const int32_t *path, int32_t first, int32_t n)
{
    rt_sequence *s = &m->seq[seq];
    for (int32_t r = 0; r < m->n_hidden; r++)
        if (s->hidden_at[r].position >= s->tree_at + first) s->hidden_at[r] = (rt_hidden_tag){ -1, -1 };
    for (int32_t i = first; i < n; i++) {
        const int32_t from = s->tree_at + path[i], to = s->tree_at + i;
        const rt_hidden_tag tag = s->hidden_at[from % m->n_hidden];
        if (tag.position != aside_tag(from)) continue;
        memcpy(rt_hidden_at(m, seq, to), rt_hidden_at(m, seq, from), (size_t)m->hidden_bytes);
        s->hidden_at[to % m->n_hidden] = (rt_hidden_tag){ to, tag.token };
    }
}

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

gdn_status rt_seq_branch(rt_memory *m, int32_t seq, int32_t row)
{
    const char *const what = "taking a branch";
    gdn_status status = rt_check_seq(m, seq, what);
    if (status) return status;
    rt_sequence *s = &m->seq[seq];
    if (row < 0 || row >= s->n_tree)
        return rt_fail(GDN_INVALID_ARGUMENT, "%s: row %d of sequence %d; its last step has left %d to choose from",
                       what, row, seq, s->n_tree);
    int32_t path[MOST_ROWS], n = 0, common = 0;
    for (int32_t t = row; t >= 0; t = s->parent[t]) n++;
    for (int32_t t = row, i = n; t >= 0; t = s->parent[t]) path[--i] = t;
    while (common < n && path[common] == common) common++;
    if (common < n && (status = move_columns(m, s, path, common, n))) {
        rt_seq_drop_snapshot(m, &s->snapshot[0]); /* some layers have moved entries */
        s->n_tree = 0;
        return status;
    }
    const int32_t at = s->tree_at, first = at + common, end = at + n;
    const int keyed = s->keyed == s->length;
    if (first < s->length) rt_prefix_roll_back(m, s, first);
    move_hidden(m, seq, path, common, n);
    for (int32_t i = common; i < n; i++) {
        const int32_t cell = s->cell[at + i];
        s->cell[at + i] = s->cell[at + path[i]];
        s->cell[at + path[i]] = cell;
        if (keyed && m->prefixes) s->token[at + i] = s->token[at + path[i]];
    }
    s->length = end;
    s->keyed = keyed && m->prefixes ? end : smaller(s->keyed, first);
    s->draft = smaller(s->draft, first);
    s->draft_from = smaller(s->draft_from, first);
    rt_seq_truncate_cells(m, s, end);
    s->n_tree = 0;
    return GDN_OK;
}

void rt_branch_put(rt_memory *m, int32_t seq, int32_t row, int32_t token, const float *hidden)
{
    if (!m->has_draft || seq < 0 || seq >= m->n_seqs || row < 0 || row >= m->seq[seq].n_tree) return;
    const int32_t at = m->seq[seq].tree_at + row;
    memcpy(rt_hidden_at(m, seq, at), hidden, (size_t)m->hidden_bytes);
    m->seq[seq].hidden_at[at % m->n_hidden] = (rt_hidden_tag){ aside_tag(at), token };
}
