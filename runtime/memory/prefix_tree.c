/* The tree of cached prefixes, and eviction. See prefix_tree.h. */
#include "runtime/memory/prefix_tree.h"

#include <string.h>

static const int32_t *tokens_of(const rt_prefixes *p, int32_t node) { return p->token + (int64_t)node * p->interval; }

/* Head of the parent's list of children. */
static int32_t *children(rt_prefixes *p, int32_t parent)
{
    return parent == RT_NO_NODE ? &p->root : &p->node[parent].child;
}

static int32_t first_child(const rt_prefixes *p, int32_t parent)
{
    return parent == RT_NO_NODE ? p->root : p->node[parent].child;
}

int32_t rt_memory_prefix_child(const rt_prefixes *p, uint32_t owner, int32_t parent, const int32_t *token, int32_t n)
{
    int32_t node = first_child(p, parent);
    while (node != RT_NO_NODE && (p->node[node].owner != owner || p->node[node].n != n ||
                                  memcmp(tokens_of(p, node), token, 4 * (size_t)n) != 0))
        node = p->node[node].next;
    return node;
}

int32_t rt_memory_prefix_tail(const rt_prefixes *p, uint32_t owner, int32_t parent, const int32_t *token, int32_t n)
{
    int32_t found = RT_NO_NODE;
    for (int32_t i = first_child(p, parent); i != RT_NO_NODE; i = p->node[i].next) {
        const rt_prefix_node *at = &p->node[i];
        if (at->owner == owner && at->n < p->interval && at->n <= n &&
            (found == RT_NO_NODE || at->n > p->node[found].n) && at->checkpoint >= 0 &&
            p->checkpoint[at->checkpoint].ready && !memcmp(tokens_of(p, i), token, 4 * (size_t)at->n))
            found = i;
    }
    return found;
}

static void remove_node(rt_memory *m, int32_t node)
{
    rt_prefixes *p = m->prefixes;
    int32_t *link = children(p, p->node[node].parent);
    while (*link != node) link = &p->node[*link].next;
    *link = p->node[node].next;
    for (int32_t i = 0; i < p->node[node].n; i++) rt_memory_unkeep(&m->cells, rt_memory_prefix_cells(p, node)[i]);
    p->node[node].next = p->free;
    p->free = node;
    p->n_whole -= p->node[node].n == p->interval;
    p->n_used--;
}

/* Removes the node if it is a leaf without a checkpoint, then likewise its parents. */
static void prune(rt_memory *m, int32_t node)
{
    const rt_prefixes *p = m->prefixes;
    while (node != RT_NO_NODE && node != p->pinned && p->node[node].child == RT_NO_NODE &&
           p->node[node].checkpoint == RT_NO_CHECKPOINT) {
        const int32_t parent = p->node[node].parent;
        remove_node(m, node);
        node = parent;
    }
}

void rt_memory_prefix_forget(rt_memory *m, int32_t checkpoint)
{
    rt_prefixes *p = m->prefixes;
    rt_checkpoint *at = &p->checkpoint[checkpoint];
    const int32_t node = at->node;
    rt_memory_drop(&m->slots, at->slot);
    rt_memory_drop(&m->rows, at->row);
    at->node = RT_NO_NODE;
    p->node[node].checkpoint = RT_NO_CHECKPOINT;
    prune(m, node);
}

/* Number of cells that removing the node would free. */
static int32_t idle_cells(const rt_memory *m, int32_t node)
{
    int32_t n = 0;
    for (int32_t i = 0; i < m->prefixes->node[node].n; i++)
        n += m->cells.count[rt_memory_prefix_cells(m->prefixes, node)[i]] == 1;
    return n;
}

void rt_memory_prefix_adopt(rt_memory *m, int32_t node, const int32_t *cell)
{
    int32_t *const own = rt_memory_prefix_cells(m->prefixes, node);
    const int32_t interval = m->prefixes->interval;
    if (!memcmp(own, cell, 4 * (size_t)interval) || idle_cells(m, node) < interval) return;
    for (int32_t i = 0; i < interval; i++) {
        rt_memory_keep(&m->cells, cell[i]);
        rt_memory_unkeep(&m->cells, own[i]);
        own[i] = cell[i];
    }
}

/* Which checkpoints may be evicted: any; those whose leaf would be removed too; of these, only
 * those that free cells. */
typedef enum which { ANY, LEAF, IDLE_LEAF } which;

/* The least recently used of these checkpoints, and of those that are not shared first; or RT_NO_CHECKPOINT. */
static int32_t oldest(const rt_memory *m, which wanted)
{
    const rt_prefixes *p = m->prefixes;
    int32_t found = RT_NO_CHECKPOINT;
    for (int32_t i = 0; i < p->n_checkpoints; i++) {
        const rt_checkpoint *at = &p->checkpoint[i];
        if (at->node == RT_NO_NODE || !at->ready ||
            (wanted != ANY && (p->node[at->node].child != RT_NO_NODE || at->node == p->pinned)) ||
            (wanted == IDLE_LEAF && !idle_cells(m, at->node)))
            continue;
        const rt_checkpoint *const best = found == RT_NO_CHECKPOINT ? at : &p->checkpoint[found];
        if (at == best || at->shared < best->shared || (at->shared == best->shared && at->used < best->used)) found = i;
    }
    return found;
}

/* The least recently used checkpoint above the node that is not shared, or RT_NO_CHECKPOINT. */
static int32_t oldest_above(const rt_prefixes *p, int32_t node)
{
    int32_t found = RT_NO_CHECKPOINT;
    while ((node = p->node[node].parent) != RT_NO_NODE) {
        const int32_t i = p->node[node].checkpoint;
        if (i >= 0 && p->checkpoint[i].ready && !p->checkpoint[i].shared &&
            (found == RT_NO_CHECKPOINT || p->checkpoint[i].used < p->checkpoint[found].used))
            found = i;
    }
    return found;
}

void rt_memory_prefix_share(rt_prefixes *p, int32_t checkpoint)
{
    int32_t n = 0, first = RT_NO_CHECKPOINT;
    p->checkpoint[checkpoint].shared = 1;
    for (int32_t i = 0; i < p->n_checkpoints; i++) {
        const rt_checkpoint *at = &p->checkpoint[i];
        if (at->node == RT_NO_NODE || !at->shared) continue;
        n++;
        if (first == RT_NO_CHECKPOINT || at->used < p->checkpoint[first].used) first = i;
    }
    if (n > p->n_checkpoints / 2) p->checkpoint[first].shared = 0;
}

/* True if prefixes branch at the end of the node. Tails do not count: a longer prefix may go on with their tokens. */
static int branches(const rt_prefixes *p, int32_t node)
{
    int32_t n = 0;
    for (int32_t i = p->node[node].child; i != RT_NO_NODE; i = p->node[i].next) n += p->node[i].n == p->interval;
    return n > 1;
}

static void evict(rt_memory *m, int32_t checkpoint)
{
    m->prefixes->n_evicted++;
    rt_memory_prefix_forget(m, checkpoint);
}

static int32_t find_free(const rt_prefixes *p)
{
    for (int32_t i = 0; i < p->n_checkpoints; i++)
        if (p->checkpoint[i].node == RT_NO_NODE) return i;
    return RT_NO_CHECKPOINT;
}

int32_t rt_memory_prefix_add(rt_memory *m, uint32_t owner, int32_t parent, const int32_t *token, const int32_t *cell,
                             int32_t n)
{
    rt_prefixes *p = m->prefixes;
    const int whole = n == p->interval;
    while (whole && p->n_whole == p->n_whole_max) {
        p->pinned = parent; /* it has no child yet that protects it from pruning */
        const int32_t at = oldest(m, LEAF);
        if (at != RT_NO_CHECKPOINT) evict(m, at);
        p->pinned = RT_NO_NODE;
        if (at != RT_NO_CHECKPOINT) continue;
        prune(m, parent);
        return RT_NO_NODE;
    }
    const int32_t node = p->free;
    p->free = p->node[node].next;
    p->n_whole += whole;
    p->n_used++;
    p->node[node] = (rt_prefix_node){ parent, RT_NO_NODE, *children(p, parent), RT_NO_CHECKPOINT, n, owner };
    *children(p, parent) = node;
    if (parent != RT_NO_NODE && p->node[parent].checkpoint >= 0 && branches(p, parent))
        rt_memory_prefix_share(p, p->node[parent].checkpoint);
    memcpy(p->token + (int64_t)node * p->interval, token, 4 * (size_t)n);
    memcpy(rt_memory_prefix_cells(p, node), cell, 4 * (size_t)n);
    for (int32_t i = 0; i < n; i++) rt_memory_keep(&m->cells, cell[i]);
    return node;
}

/* A free checkpoint for the node, or one that gave way; RT_NO_CHECKPOINT: none. */
static int32_t make_free(rt_memory *m, int32_t node)
{
    rt_prefixes *p = m->prefixes;
    int32_t at = find_free(p);
    p->pinned = node;
    if (at == RT_NO_CHECKPOINT) {
        at = oldest_above(p, node);
        at = at == RT_NO_CHECKPOINT ? oldest(m, ANY) : at;
        if (at != RT_NO_CHECKPOINT && p->checkpoint[at].shared) at = RT_NO_CHECKPOINT;
        if (at != RT_NO_CHECKPOINT) evict(m, at);
    }
    p->pinned = RT_NO_NODE;
    return at;
}

/* Gives the node a checkpoint. */
static int32_t set(rt_prefixes *p, int32_t node, int32_t at, int32_t slot, int32_t row)
{
    p->checkpoint[at] = (rt_checkpoint){ node, slot, row, .used = ++p->clock };
    p->node[node].checkpoint = at;
    if (branches(p, node)) rt_memory_prefix_share(p, at);
    return at;
}

int32_t rt_memory_prefix_hold(rt_memory *m, int32_t node, int32_t slot, int32_t row)
{
    const int32_t at = make_free(m, node);
    if (at == RT_NO_CHECKPOINT) {
        prune(m, node);
        return RT_NO_CHECKPOINT;
    }
    rt_memory_hold(&m->slots, slot);
    rt_memory_hold(&m->rows, row);
    return set(m->prefixes, node, at, slot, row);
}

int32_t rt_memory_prefix_take(rt_memory *m, int32_t node)
{
    const int32_t at = make_free(m, node);
    /* Slots can run out when sequences that shared one take one each in the same step. */
    if (at == RT_NO_CHECKPOINT || !m->slots.n_free || !m->rows.n_free) {
        prune(m, node);
        return RT_NO_CHECKPOINT;
    }
    const int32_t slot = rt_memory_take(&m->slots);
    return set(m->prefixes, node, at, slot, rt_memory_take(&m->rows));
}

void rt_memory_prefix_yield(rt_memory *m, int64_t n)
{
    while (m->cells.n_free < n) {
        int32_t at = oldest(m, IDLE_LEAF);
        if (at == RT_NO_CHECKPOINT) /* sequences use all leaves' cells; evict a leaf to reach its parents */
            at = oldest(m, LEAF);
        if (at == RT_NO_CHECKPOINT) return;
        evict(m, at);
    }
}
