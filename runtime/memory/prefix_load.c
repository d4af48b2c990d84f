/* Loads a save of the prefix cache in two passes: the first checks everything, the second adds what fits. See
 * prefix_save.c. */
#include <string.h>

#include "numerics/checksum.h"
#include "runtime/memory/prefix_tree.h"

/* A record of a save: its numbers, the bytes after them, and where it is in the tree. */
typedef struct record {
    rt_save_prefix r;
    const unsigned char *rest;
    int32_t node; /* at its end; RT_NO_NODE: not loaded */
} record;

/* ---- Checks ---- */

static gdn_status bad(const char *what) { return rt_fail(GDN_INVALID_ARGUMENT, "loading prefixes: %s", what); }

/* Error for a state of another model; says what differs. */
static gdn_status other_model(const rt_fingerprint *saved, const rt_fingerprint *here)
{
    const int hparams = saved->hparams != here->hparams, tokenizer = saved->tokenizer != here->tokenizer;
    const int weights = saved->weights != here->weights, n = hparams + tokenizer + weights;
    return rt_fail(GDN_INVALID_ARGUMENT, "loading: the state was saved with another model%s%s%s%s%s%s%s",
                   n ? ", whose " : "", hparams ? "hyperparameters" : "",
                   !hparams || n < 2 ? ""
                   : n == 3          ? ", "
                                     : " and ",
                   tokenizer ? "tokenizer" : "", tokenizer && weights ? " and " : "", weights ? "weights" : "",
                   !n                    ? ""
                   : n > 1 || !tokenizer ? " differ"
                                         : " differs");
}

static gdn_status check_format(const rt_save_header *h, uint64_t n)
{
    if (h->magic != RT_SAVE_MAGIC) return bad("not a saved state");
    if (h->version != RT_SAVE_VERSION)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "loading: another release saved the state, in version %d of the format; this one reads "
                       "version %d",
                       (int)h->version, RT_SAVE_VERSION);
    if (h->bytes != n)
        return rt_fail(GDN_INVALID_ARGUMENT, "loading: the saved state has %llu bytes, and %llu are given",
                       (unsigned long long)h->bytes, (unsigned long long)n);
    return GDN_OK;
}

static gdn_status check_model(rt_memory *m, const rt_save_header *h)
{
    const rt_fingerprint *const here = rt_memory_fingerprint(m);
    /* with or without the draft head, whatever this memory has */
    if (h->has_draft != 0 && h->has_draft != 1) return bad("the state was saved with another model");
    if (h->digits != m->digits)
        return rt_fail(GDN_INVALID_ARGUMENT, "loading: the state was saved with --form %s, and the form is %s here",
                       rt_form_name(h->digits), rt_form_name(m->digits));
    const uint64_t hidden = h->has_draft ? rt_memory_save_hidden_bytes(m) : 0;
    if (memcmp(&h->fingerprint, here, sizeof *here) || h->state_bytes != m->state_bytes ||
        h->conv_slot_bytes != m->conv_slot_bytes || h->hidden_bytes != hidden || h->kernel != m->kernel ||
        h->n_recurrent != m->n_recurrent || h->n_attention != m->n_attention - m->has_draft + h->has_draft)
        return other_model(&h->fingerprint, here);
    if (h->kv_type != m->kv_type || h->kv_bytes != m->kv_bytes)
        return bad("the state was saved with another type of KV cells");
    return GDN_OK;
}

static gdn_status check_header(rt_memory *m, uint64_t bits, const void *bytes, uint64_t n, rt_save_prefixes *h)
{
    if (!bytes || n < sizeof *h) return bad("too short to be saved prefixes");
    memcpy(h, bytes, sizeof *h);
    const gdn_status status = check_format(&h->common, n);
    if (status) return status;
    if (h->checksum != gdn_checksum(h, sizeof *h - 8)) return bad("the checksum of the header is wrong");
    if (h->common.kind != RT_SAVE_PREFIXES) return bad("sequences were saved, and not prefixes");
    const gdn_status model = check_model(m, &h->common);
    if (model) return model;
    if (h->bits != bits) return bad("they were computed at another level, or by kernels that are not exact");
    if (h->interval && h->interval != m->prefixes->interval)
        return rt_fail(GDN_INVALID_ARGUMENT, "loading prefixes: the interval is %d, and %d here", h->interval,
                       m->prefixes->interval);
    return GDN_OK;
}

/* True if the numbers of record i are possible. */
static int is_possible(const rt_memory *m, const record *list, int32_t i)
{
    const rt_save_prefix *r = &list[i].r;
    const int32_t interval = m->prefixes->interval;
    if (r->base < -1 || r->base >= i || (r->shared & ~1)) return 0;
    if (r->first < 0 || r->length < 1 || r->length > RT_POSITION_LIMIT || r->first > r->length) return 0;
    if (r->length != rt_memory_newest_state(m, r->length)) return 0;
    if (r->first % interval || (r->draft != r->first && r->draft != r->length)) return 0;
    if (r->base < 0) return !r->first;
    return r->first && r->first <= list[r->base].r.length && r->owner == list[r->base].r.owner;
}

static gdn_status check_records(const rt_memory *m, const unsigned char *bytes, uint64_t n, const rt_save_prefixes *h,
                                record *list)
{
    uint64_t at = sizeof *h, sum;
    for (int32_t i = 0; i < h->n_records; i++) {
        rt_save_prefix *const r = &list[i].r;
        if (n - at < sizeof *r) return bad("it ends within a prefix");
        memcpy(r, bytes + at, sizeof *r);
        if (!is_possible(m, list, i) || (!h->common.has_draft && r->draft != r->first))
            return rt_fail(GDN_INVALID_ARGUMENT, "loading prefixes: number %d contradicts itself", i);
        const uint64_t least = 4 + 2 * m->kv_bytes * (uint64_t)(m->n_attention - m->has_draft); /* of a token */
        if ((uint64_t)(r->length - r->first) > (n - at) / least) return bad("it ends within a prefix");
        const uint64_t size = rt_memory_prefix_record_bytes(m, r, h->common.has_draft);
        if (n - at < size) return bad("it ends within a prefix");
        memcpy(&sum, bytes + at + size - 8, 8);
        if (sum != gdn_checksum(bytes + at, size - 8))
            return rt_fail(GDN_INVALID_ARGUMENT, "loading prefixes: the checksum of number %d is wrong", i);
        list[i].rest = bytes + at + sizeof *r;
        list[i].node = RT_NO_NODE;
        at += size;
    }
    return at == n ? GDN_OK : bad("there is more than its prefixes");
}

/* ---- Adding ---- */

/* True if there is room for the record below `parent`, where no prefix goes on with its tokens. */
static int has_room(const rt_memory *m, const record *of, int32_t parent, const int32_t *token)
{
    const rt_prefixes *p = m->prefixes;
    const int32_t n = of->r.length - of->r.first;
    int32_t n_held = 0;
    for (int32_t i = 0; i < p->n_checkpoints; i++) n_held += p->checkpoint[i].node != RT_NO_NODE;
    if (n_held == p->n_checkpoints || !m->slots.n_free || !m->rows.n_free) return 0;
    if (!n) return p->node[parent].checkpoint == RT_NO_CHECKPOINT;
    return n / p->interval <= p->n_whole_max - p->n_whole && n <= m->cells.n_free &&
           rt_memory_prefix_child(p, of->r.owner, parent, token, n < p->interval ? n : p->interval) == RT_NO_NODE;
}

/* Adds the record's nodes below `parent`, in cells of their own; returns the last. */
static int32_t add_nodes(rt_memory *m, const rt_save_prefix *r, int32_t parent, const int32_t *token, int32_t *cell)
{
    rt_prefixes *p = m->prefixes;
    for (int32_t at = r->first, n; at < r->length; at += n) {
        n = r->length - at < p->interval ? r->length - at : p->interval;
        for (int32_t i = at; i < at + n; i++) cell[i] = rt_memory_take_cell(m);
        parent = rt_memory_prefix_add(m, r->owner, parent, token + (at - r->first), cell + at, n);
        for (int32_t i = at; i < at + n; i++) {
            p->drafted[cell[i]] = r->draft > r->first;
            rt_memory_drop(&m->cells, cell[i]); /* only the cache has it */
        }
    }
    return parent;
}

static gdn_status get_pool(rt_memory *m, gdn_span *pool, uint64_t offset, uint64_t bytes, const unsigned char **from)
{
    const gdn_status status = gdn_buffer_write(m->device, pool, offset, *from, bytes);
    *from += bytes;
    return status ? rt_fail_gdn(status, "loading prefixes") : GDN_OK;
}

static const unsigned char *get_kv(unsigned char *pool, const rt_memory *m, const int32_t *cell, int32_t first,
                                   int32_t end, const unsigned char *from)
{
    for (int32_t p = first; p < end; p++, from += m->kv_bytes)
        memcpy(pool + (uint64_t)cell[p] * m->kv_bytes, from, (size_t)m->kv_bytes);
    return from;
}

/* Reads the states, keys and values of a record from *from, which moves on. cell: by position. */
static gdn_status get_parts(rt_memory *m, const rt_save_prefix *r, const rt_checkpoint *at, const int32_t *cell,
                            const unsigned char **from)
{
    const int32_t n = r->length;
    gdn_status status = GDN_OK;
    for (int32_t layer = 0; layer < m->n_recurrent && !status; layer++) {
        status = get_pool(m, &m->state[layer], (uint64_t)at->slot * m->state_bytes, m->state_bytes, from);
        for (int32_t p = n < m->kernel - 1 ? 0 : n - (m->kernel - 1); p < n && !status; p++) {
            const uint64_t entry = (uint64_t)at->row * (uint64_t)m->n_conv_slots + (uint64_t)(p % m->n_conv_slots);
            status = get_pool(m, &m->conv[layer], entry * m->conv_slot_bytes, m->conv_slot_bytes, from);
        }
    }
    for (int32_t layer = 0; layer < m->n_attention && !status; layer++) {
        const int32_t end = layer < m->n_attention - m->has_draft ? n : r->draft;
        *from = get_kv(rt_memory_k(m, layer), m, cell, r->first, end, *from);
        *from = get_kv(rt_memory_v(m, layer), m, cell, r->first, end, *from);
    }
    return status;
}

/* Adds a record, if there is room. used: its time of last use. has_draft: it has a hidden row for the draft head, which
 * otherwise takes zeros. */
static gdn_status add(rt_memory *m, record *list, record *of, uint64_t used, int has_draft)
{
    rt_prefixes *p = m->prefixes;
    const rt_save_prefix *r = &of->r;
    const uint64_t n = (uint64_t)(r->length - r->first);
    int32_t parent = r->base < 0 ? RT_NO_NODE : list[r->base].node;
    if (r->base >= 0 && parent == RT_NO_NODE) return GDN_OK;
    for (int32_t end = r->base < 0 ? 0 : list[r->base].r.length; end > r->first; parent = p->node[parent].parent)
        end -= p->node[parent].n;
    int32_t *const token = rt_calloc(n, 4, "prefixes"), *const cell = rt_calloc((uint64_t)r->length, 4, "prefixes");
    gdn_status status = token && cell ? GDN_OK : GDN_OUT_OF_MEMORY;
    if (!status) memcpy(token, of->rest, 4 * (size_t)n);
    if (!status && has_room(m, of, parent, token)) {
        const unsigned char *from = of->rest + 4 * (size_t)n;
        of->node = add_nodes(m, r, parent, token, cell);
        const int32_t taken = rt_memory_prefix_take(m, of->node);
        rt_checkpoint *const at = &p->checkpoint[taken];
        status = get_parts(m, r, at, cell, &from);
        at->used = used;
        at->ready = 1;
        if (m->has_draft && has_draft) memcpy(rt_memory_prefix_hidden(m, taken), from, (size_t)m->hidden_bytes);
        else if (m->has_draft) memset(rt_memory_prefix_hidden(m, taken), 0, (size_t)m->hidden_bytes);
        if (status) rt_memory_prefix_forget(m, taken);
        else if (r->shared) rt_memory_prefix_share(p, taken);
    }
    rt_free(token);
    rt_free(cell);
    return status;
}

gdn_status rt_memory_prefix_load(rt_memory *m, uint64_t bits, const void *bytes, uint64_t n, rt_prefix_saved *loaded)
{
    rt_save_prefixes h;
    rt_prefixes *p = m->prefixes;
    gdn_status status = rt_memory_check_seq(m, 0, "loading prefixes");
    if (!status && !p) status = bad("there is no prefix cache");
    if (!status && p->n_used) status = bad("the prefix cache is not empty");
    if (!status) status = check_header(m, bits, bytes, n, &h);
    if (!status && (h.n_records < 0 || (uint64_t)h.n_records > n / sizeof(rt_save_prefix)))
        status = bad("its number of prefixes is wrong");
    if (status) return status;
    record *const list = rt_calloc((uint64_t)h.n_records, sizeof *list, "loading prefixes");
    status = list ? check_records(m, bytes, n, &h, list) : GDN_OUT_OF_MEMORY;
    rt_prefix_saved done = { 0, 0, n };
    for (int32_t i = 0; i < h.n_records && !status; i++) {
        status = add(m, list, &list[i], (uint64_t)(h.n_records - i), h.common.has_draft);
        done.n += list[i].node != RT_NO_NODE;
    }
    done.n_left_out = h.n_records - done.n;
    if (p->clock < (uint64_t)h.n_records) p->clock = (uint64_t)h.n_records;
    rt_free(list);
    if (!status) *loaded = done;
    return status;
}
