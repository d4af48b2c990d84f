/* Saves the checkpoints of the prefix cache. prefix_tree.h has the format, prefix_load.c loads it. */
#include <stdlib.h>
#include <string.h>

#include "numerics/checksum.h"
#include "runtime/memory/prefix_tree.h"

uint64_t rt_memory_prefix_record_bytes(const rt_memory *m, const rt_save_prefix *r, int has_draft)
{
    const uint64_t trunk = (uint64_t)(m->n_attention - m->has_draft), n = (uint64_t)(r->length - r->first);
    const uint64_t entries = (uint64_t)(r->length < m->kernel - 1 ? r->length : m->kernel - 1);
    const uint64_t drafted = (uint64_t)(r->draft - r->first);
    return sizeof *r + 4 * n + (uint64_t)m->n_recurrent * (m->state_bytes + entries * m->conv_slot_bytes) +
           2 * m->kv_bytes * (trunk * n + drafted) + (has_draft ? rt_memory_save_hidden_bytes(m) : 0) + 8;
}

/* ---- What is saved ---- */

typedef struct choice {
    rt_save_prefix record;
    int32_t checkpoint;
    int32_t shared;
    uint64_t used;
} choice;

/* What an earlier record has must be known: owner[node] is the record with the node's tokens, or -1. */
typedef struct choices {
    choice *list; /* [n_checkpoints]; the first n are saved */
    int32_t *owner;
    int32_t n, n_left_out, longest;
    uint64_t bytes, largest; /* of the save; of a record */
} choices;

/* What to save. */
typedef struct wanted {
    uint64_t most; /* bytes */
    int one;       /* 1: only this checkpoint; RT_NO_CHECKPOINT: none */
    int32_t checkpoint;
} wanted;

/* The most valuable first. */
static int compare(const void *a, const void *b)
{
    const choice *const x = a, *const y = b;
    if (x->shared != y->shared) return x->shared > y->shared ? -1 : 1;
    return x->used > y->used ? -1 : x->used < y->used;
}

static int is_drafted(const rt_memory *m, int32_t node)
{
    const rt_prefixes *p = m->prefixes;
    for (int32_t i = 0; i < p->node[node].n; i++)
        if (!p->drafted[rt_memory_prefix_cells(p, node)[i]]) return 0;
    return 1;
}

/* The record of a checkpoint, after those that were chosen. */
static rt_save_prefix record_of(const rt_memory *m, const choices *c, int32_t checkpoint)
{
    const rt_prefixes *p = m->prefixes;
    rt_save_prefix r = { .base = -1, .shared = p->checkpoint[checkpoint].shared };
    int drafted = m->has_draft;
    int32_t node = p->checkpoint[checkpoint].node, n_own = 0;
    r.owner = p->node[node].owner;
    for (; node != RT_NO_NODE && c->owner[node] < 0; node = p->node[node].parent) {
        drafted = drafted && is_drafted(m, node);
        n_own += p->node[node].n;
    }
    if (node != RT_NO_NODE) r.base = c->owner[node];
    for (; node != RT_NO_NODE; node = p->node[node].parent) r.first += p->node[node].n;
    r.length = r.first + n_own;
    r.draft = drafted ? r.length : r.first;
    return r;
}

/* Chooses checkpoints that fit in `most` bytes, and moves them to the front of the list. */
static void choose(const rt_memory *m, const wanted *w, choices *c)
{
    const rt_prefixes *p = m->prefixes;
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_checkpoints; i++)
        if (p->checkpoint[i].node != RT_NO_NODE && p->checkpoint[i].ready && (!w->one || i == w->checkpoint))
            c->list[n++] =
                (choice){ .checkpoint = i, .shared = p->checkpoint[i].shared, .used = p->checkpoint[i].used };
    qsort(c->list, (size_t)n, sizeof *c->list, compare);
    for (int32_t i = 0; i < p->n_nodes; i++) c->owner[i] = -1;
    c->bytes = sizeof(rt_save_prefixes);
    for (int32_t i = 0; i < n; i++) {
        choice *const to = &c->list[c->n];
        const choice from = c->list[i];
        const rt_save_prefix r = record_of(m, c, from.checkpoint);
        const uint64_t bytes = rt_memory_prefix_record_bytes(m, &r, m->has_draft);
        if (bytes > w->most - c->bytes) {
            c->n_left_out++;
            continue;
        }
        *to = from;
        to->record = r;
        for (int32_t node = p->checkpoint[from.checkpoint].node; node != RT_NO_NODE && c->owner[node] < 0;
             node = p->node[node].parent)
            c->owner[node] = c->n;
        c->n++;
        c->bytes += bytes;
        c->largest = bytes > c->largest ? bytes : c->largest;
        c->longest = r.length > c->longest ? r.length : c->longest;
    }
}

/* ---- Writing ---- */

static unsigned char *put(unsigned char *to, const void *from, uint64_t bytes)
{
    if (bytes) memcpy(to, from, (size_t)bytes);
    return to + bytes;
}

static gdn_status put_pool(const rt_memory *m, const gdn_span *pool, uint64_t offset, uint64_t bytes,
                           unsigned char **to)
{
    const gdn_status status = gdn_buffer_read(m->device, pool, offset, *to, bytes);
    *to += bytes;
    return status ? rt_fail_gdn(status, "saving prefixes") : GDN_OK;
}

/* Makes the record's bytes. cell: room for its length. */
static gdn_status put_record(rt_memory *m, const choice *c, int32_t *cell, unsigned char *bytes)
{
    const rt_prefixes *p = m->prefixes;
    const rt_save_prefix *r = &c->record;
    const rt_checkpoint *at = &p->checkpoint[c->checkpoint];
    gdn_status status = GDN_OK;
    unsigned char *to = put(bytes, r, sizeof *r), *const tokens = to;
    int32_t node = at->node;
    for (int32_t end = r->length; end > r->first; node = p->node[node].parent) {
        const size_t n = 4 * (size_t)p->node[node].n;
        end -= p->node[node].n;
        memcpy(cell + end, rt_memory_prefix_cells(p, node), n);
        memcpy(tokens + 4 * (size_t)(end - r->first), p->token + (int64_t)node * p->interval, n);
    }
    to += 4 * (size_t)(r->length - r->first);
    for (int32_t layer = 0; layer < m->n_recurrent && !status; layer++) {
        status = put_pool(m, &m->state[layer], (uint64_t)at->slot * m->state_bytes, m->state_bytes, &to);
        for (int32_t i = r->length < m->kernel - 1 ? 0 : r->length - (m->kernel - 1); i < r->length && !status; i++) {
            const uint64_t entry = (uint64_t)at->row * (uint64_t)m->n_conv_slots + (uint64_t)(i % m->n_conv_slots);
            status = put_pool(m, &m->conv[layer], entry * m->conv_slot_bytes, m->conv_slot_bytes, &to);
        }
    }
    for (int32_t layer = 0; layer < m->n_attention; layer++) {
        const int32_t end = layer < m->n_attention - m->has_draft ? r->length : r->draft;
        for (int32_t i = r->first; i < end; i++)
            to = put(to, rt_memory_k(m, layer) + (uint64_t)cell[i] * m->kv_bytes, m->kv_bytes);
        for (int32_t i = r->first; i < end; i++)
            to = put(to, rt_memory_v(m, layer) + (uint64_t)cell[i] * m->kv_bytes, m->kv_bytes);
    }
    if (m->has_draft) to = put(to, rt_memory_prefix_hidden(m, c->checkpoint), m->hidden_bytes);
    const uint64_t sum = gdn_checksum(bytes, (uint64_t)(to - bytes));
    (void)put(to, &sum, 8);
    return status;
}

const rt_fingerprint *rt_memory_fingerprint(rt_memory *m)
{
    if (!m->fingerprinted) m->fingerprint = rt_model_fingerprint(m->model);
    m->fingerprinted = 1;
    return &m->fingerprint;
}

static gdn_status write_all(rt_memory *m, uint64_t bits, int32_t interval, const choices *c, rt_write_fn write,
                            void *user)
{
    rt_save_prefixes h = { .common = { .magic = RT_SAVE_MAGIC,
                                       .version = RT_SAVE_VERSION,
                                       .kind = RT_SAVE_PREFIXES,
                                       .fingerprint = *rt_memory_fingerprint(m),
                                       .bytes = c->bytes,
                                       .state_bytes = m->state_bytes,
                                       .conv_slot_bytes = m->conv_slot_bytes,
                                       .kv_bytes = m->kv_bytes,
                                       .hidden_bytes = m->hidden_bytes,
                                       .kv_type = m->kv_type,
                                       .kernel = m->kernel,
                                       .n_recurrent = m->n_recurrent,
                                       .n_attention = m->n_attention,
                                       .has_draft = m->has_draft,
                                       .digits = m->digits },
                           .bits = bits,
                           .interval = interval,
                           .n_records = c->n };
    h.checksum = gdn_checksum(&h, sizeof h - 8);
    int32_t *const cell = rt_calloc((uint64_t)c->longest, 4, "saving prefixes");
    unsigned char *const bytes = rt_calloc(c->largest, 1, "saving prefixes");
    gdn_status status = cell && bytes ? write(user, &h, sizeof h) : GDN_OUT_OF_MEMORY;
    for (int32_t i = 0; i < c->n && !status; i++) {
        status = put_record(m, &c->list[i], cell, bytes);
        if (!status) status = write(user, bytes, rt_memory_prefix_record_bytes(m, &c->list[i].record, m->has_draft));
    }
    rt_free(cell);
    rt_free(bytes);
    return status;
}

static gdn_status save(rt_memory *m, uint64_t bits, const wanted *w, rt_write_fn write, void *user,
                       rt_prefix_saved *saved)
{
    const rt_prefixes *p = m->prefixes;
    choices c = { rt_calloc((uint64_t)p->n_checkpoints, sizeof *c.list, "saving prefixes"),
                  rt_calloc((uint64_t)p->n_nodes, sizeof *c.owner, "saving prefixes"),
                  0,
                  0,
                  0,
                  0,
                  0 };
    gdn_status status = c.list && c.owner ? GDN_OK : GDN_OUT_OF_MEMORY;
    if (!status) {
        choose(m, w, &c);
        status = write_all(m, bits, w->one ? 0 : p->interval, &c, write, user);
    }
    rt_free(c.list);
    rt_free(c.owner);
    if (!status) *saved = (rt_prefix_saved){ c.n, c.n_left_out, c.bytes };
    return status;
}

static gdn_status check(const rt_memory *m)
{
    const gdn_status status = rt_memory_check_seq(m, 0, "saving prefixes");
    if (status || m->prefixes) return status;
    return rt_fail(GDN_INVALID_ARGUMENT, "saving prefixes: there is no prefix cache");
}

gdn_status rt_memory_prefix_save(rt_memory *m, uint64_t bits, uint64_t most, rt_write_fn write, void *user,
                                 rt_prefix_saved *saved)
{
    const wanted all = { .most = most };
    const gdn_status status = check(m);
    if (status) return status;
    if (most < sizeof(rt_save_prefixes))
        return rt_fail(GDN_INVALID_ARGUMENT, "saving prefixes: %llu bytes are allowed and the header has %llu",
                       (unsigned long long)most, (unsigned long long)sizeof(rt_save_prefixes));
    return save(m, bits, &all, write, user, saved);
}

gdn_status rt_memory_prefix_save_one(rt_memory *m, uint64_t bits, const int32_t *token, int32_t n, rt_write_fn write,
                                     void *user)
{
    rt_prefix_saved saved;
    int32_t length;
    const gdn_status status = check(m);
    if (status) return status;
    const wanted w = { UINT64_MAX, 1, rt_memory_prefix_find(m->prefixes, 0, token, n, &length) };
    return save(m, bits, &w, write, user, &saved);
}
