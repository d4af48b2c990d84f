/* See memory_audit.h. */
#include "memory_audit.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/memory/prefix_tree.h"
#include "tests/harness.h"

static void audit(const rt_resource *r, const int32_t *named)
{
    int32_t n_free = 0, n_idle = 0;
    for (int32_t i = 0; i < r->n; i++) {
        REQUIRE(r->count[i] == named[i]);
        n_free += named[i] == 0;
        n_idle += r->kept && r->kept[i] && named[i] == r->kept[i];
    }
    REQUIRE(r->n_free == n_free && r->n_idle == n_idle);
    for (int32_t i = 0; i < r->n_free; i++) REQUIRE(r->count[r->free[i]] == 0);
}

/* Marks the conv state entries of positions [from, length) as used. */
static void use_conv(const rt_memory *m, uint8_t *used, int32_t row, int32_t from, int32_t length)
{
    for (int32_t p = from; p < length; p++) used[row * m->n_conv_slots + p % m->n_conv_slots] = 1;
}

/* How many tokens a node's path has. */
static int32_t length_of(const rt_prefixes *p, int32_t node)
{
    int32_t n = 0;
    for (; node != RT_NO_NODE; node = p->node[node].parent) n += p->node[node].n;
    return n;
}

/* What the cache names, and that its tree is one. */
static void tree(const rt_memory *m, int32_t *slots, int32_t *rows, int32_t *cells, uint8_t *conv)
{
    const rt_prefixes *p = m->prefixes;
    int32_t *kept = calloc((size_t)m->n_cells, 4);
    uint8_t *leaf = calloc((size_t)p->n_nodes + 1, 1);
    int32_t n_used = 0, n_free = 0;
    NEED(kept && leaf);
    memset(leaf, 1, (size_t)p->n_nodes);
    for (int32_t i = p->free; i != RT_NO_NODE && n_free <= p->n_nodes; i = p->node[i].next, n_free++) leaf[i] = 2;
    for (int32_t i = 0; i < p->n_nodes; i++) {
        if (leaf[i] == 2) continue;
        n_used++;
        const int32_t parent = p->node[i].parent;
        REQUIRE(parent == RT_NO_NODE || p->node[parent].owner == p->node[i].owner);
        REQUIRE(rt_memory_prefix_child(p, p->node[i].owner, parent, p->token + (int64_t)i * p->interval,
                                       p->node[i].n) == i); /* each path is there once */
        REQUIRE(p->node[i].n == p->interval ||
                (p->node[i].n > 0 && p->node[i].n < p->interval && p->node[i].child == RT_NO_NODE));
        if (parent != RT_NO_NODE) leaf[parent] = leaf[parent] == 2 ? 2 : 0;
        for (int32_t j = 0; j < p->node[i].n; j++) {
            const int32_t cell = p->cell[(int64_t)i * p->interval + j];
            cells[cell]++;
            kept[cell]++;
        }
    }
    REQUIRE(n_used == p->n_used && n_used + n_free == p->n_nodes &&
            !memcmp(kept, m->cells.kept, 4 * (size_t)m->n_cells));
    for (int32_t i = 0; i < p->n_nodes; i++)
        REQUIRE(leaf[i] == 2 || p->node[i].checkpoint == RT_NO_CHECKPOINT || p->node[i].checkpoint >= 0);
    for (int32_t i = 0; i < p->n_nodes; i++) REQUIRE(leaf[i] != 1 || p->node[i].checkpoint >= 0);
    REQUIRE(p->n_planned == 0);
    for (int32_t i = 0; i < p->n_checkpoints; i++) {
        const rt_checkpoint *at = &p->checkpoint[i];
        if (at->node == RT_NO_NODE) continue;
        REQUIRE(at->ready && p->node[at->node].checkpoint == i);
        slots[at->slot]++;
        rows[at->row]++;
        const int32_t n = length_of(p, at->node);
        use_conv(m, conv, at->row, n < m->kernel - 1 ? 0 : n - (m->kernel - 1), n);
    }
    free(kept);
    free(leaf);
}

static void poison(rt_memory *m, const uint8_t *conv, const uint8_t *entries)
{
    for (int32_t layer = 0; layer < m->n_recurrent && m->device == m->host; layer++) {
        for (int32_t i = 0; i < m->slots.n; i++)
            if (!m->slots.count[i])
                memset((char *)m->state[layer].data + (uint64_t)i * m->state_bytes, 0xFF, m->state_bytes);
        for (int32_t i = 0; i < m->rows.n * m->n_conv_slots; i++)
            if (!conv[i])
                memset((char *)m->conv[layer].data + (uint64_t)i * m->conv_slot_bytes, 0xFF, m->conv_slot_bytes);
        for (int32_t i = 0; i < m->log_rows.n * m->n_log; i++)
            if (!entries[i]) memset((char *)m->log[layer].data + (uint64_t)i * m->log_bytes, 0xFF, m->log_bytes);
    }
    for (int32_t i = 0; i < m->cells.n; i++)
        for (int32_t layer = 0; layer < m->n_attention && !m->cells.count[i]; layer++) {
            memset(rt_memory_k(m, layer) + (uint64_t)i * m->kv_bytes, 0xFF, m->kv_bytes);
            memset(rt_memory_v(m, layer) + (uint64_t)i * m->kv_bytes, 0xFF, m->kv_bytes);
        }
}

int32_t memory_prefix_find(const rt_memory *m, const int32_t *token, int32_t n)
{
    int32_t length = 0;
    if (m->prefixes) (void)rt_memory_prefix_find(m->prefixes, 0, token, n, &length);
    return length;
}

void memory_audit(rt_memory *m)
{
    int32_t *slots = calloc((size_t)m->slots.n, 4), *rows = calloc((size_t)m->rows.n, 4),
            *cells = calloc((size_t)m->cells.n, 4), *logs = calloc((size_t)m->log_rows.n + 1, 4);
    uint8_t *conv = calloc((size_t)m->rows.n * (size_t)m->n_conv_slots + 1, 1);
    uint8_t *entries = calloc((size_t)m->log_rows.n * (size_t)m->n_log + 1, 1);
    NEED(slots && rows && cells && conv && logs && entries);
    for (int32_t s = 0; s < m->n_seqs; s++) {
        const rt_sequence *at = &m->seq[s];
        for (int32_t r = 0; r < m->K; r++)
            if (at->snapshot[r].slot != GDN_NONE) slots[at->snapshot[r].slot]++;
        for (int32_t p = 0; p < at->n_listed; p++) cells[at->cell[p]]++;
        if (at->log_row != GDN_NONE) {
            const int32_t tag = at->snapshot[0].tag; /* the entries behind it are needed, if any */
            logs[at->log_row]++;
            REQUIRE(at->length - tag <= m->n_log || tag < 0);
            for (int32_t p = tag; tag >= 0 && p < at->length; p++) entries[at->log_row * m->n_log + p % m->n_log] = 1;
        }
        if (at->conv_row == GDN_NONE) continue;
        rows[at->conv_row]++;
        use_conv(m, conv, at->conv_row, at->conv_from, at->length);
    }
    if (m->prefixes) tree(m, slots, rows, cells, conv);
    audit(&m->slots, slots);
    audit(&m->rows, rows);
    audit(&m->cells, cells);
    audit(&m->log_rows, logs);
    poison(m, conv, entries);
    free(logs);
    free(entries);
    free(slots);
    free(rows);
    free(cells);
    free(conv);
}
