/* Loads a save in two passes. The first checks every number against the model, the memory and the length of the save.
 * The second replaces the sequences, and cannot refuse anything. See memory_save.c. */
#include <string.h>

#include "numerics/checksum.h"
#include "runtime/memory/prefix_tree.h"

/* ---- Checks --------------------------------------------------------------------------------------------- */

static gdn_status bad(const char *what) { return rt_fail(GDN_INVALID_ARGUMENT, "loading: %s", what); }

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

gdn_status rt_memory_check_format(const void *bytes, uint64_t n, rt_save_header *h)
{
    if (!bytes || n < sizeof *h + 8) return bad("too short to be a saved state");
    memcpy(h, bytes, sizeof *h);
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

gdn_status rt_memory_check_model(rt_memory *m, const rt_save_header *h)
{
    const rt_fingerprint *const here = rt_memory_fingerprint(m);
    /* with or without the draft head, whatever this memory has */
    if (h->has_draft != 0 && h->has_draft != 1) return bad("the state was saved with another model");
    const uint64_t hidden = h->has_draft ? rt_memory_save_hidden_bytes(m) : 0;
    if (memcmp(&h->fingerprint, here, sizeof *here) || h->state_bytes != m->state_bytes ||
        h->conv_slot_bytes != m->conv_slot_bytes || h->hidden_bytes != hidden || h->kernel != m->kernel ||
        h->n_recurrent != m->n_recurrent || h->n_attention != m->n_attention - m->has_draft + h->has_draft)
        return other_model(&h->fingerprint, here);
    if (h->kv_type != m->kv_type || h->kv_bytes != m->kv_bytes)
        return bad("the state was saved with another type of KV cells");
    return GDN_OK;
}

static gdn_status check_header(rt_memory *m, int32_t seq, const unsigned char *bytes, uint64_t n, rt_save_header *h)
{
    uint64_t sum;
    gdn_status status = rt_memory_check_format(bytes, n, h);
    if (status) return status;
    memcpy(&sum, bytes + n - 8, 8);
    if (sum != gdn_checksum(bytes, n - 8)) return bad("the checksum is wrong: the saved state is damaged");
    status = rt_memory_check_model(m, h);
    if (status) return status;
    if (h->kind != (seq < 0 ? RT_SAVE_ALL : RT_SAVE_ONE))
        return bad(seq < 0 ? "one sequence was saved, and all are wanted"
                           : "all sequences were saved, and one is wanted");
    if (h->n_seqs < 0 || h->n_seqs > m->n_seqs || (h->kind == RT_SAVE_ONE && h->n_seqs != 1))
        return rt_fail(GDN_INVALID_ARGUMENT, "loading: %d sequences were saved, and there is room for %d", h->n_seqs,
                       seq < 0 ? m->n_seqs : 1);
    return GDN_OK;
}

static gdn_status check_record(const rt_memory *m, const rt_save_seq *s, int32_t has_draft)
{
    if (s->length < 0 || s->length > m->n_cells)
        return rt_fail(GDN_OUT_OF_MEMORY, "loading: a sequence has %d tokens, and there are %d KV cells", s->length,
                       m->n_cells);
    if (s->draft < 0 || s->draft > s->length || s->n_hidden < 0 || s->n_hidden > s->length ||
        (!has_draft && (s->draft || s->n_hidden)))
        return bad("a sequence contradicts itself");
    return GDN_OK;
}

/* Cells available after the sequences to replace are removed. */
static int64_t cells_for(const rt_memory *m, int32_t seq)
{
    int64_t n = seq < 0 ? m->n_cells : rt_memory_free_cells(m);
    for (int32_t i = 0; seq >= 0 && i < m->seq[seq].n_listed; i++) {
        const int32_t cell = m->seq[seq].cell[i];
        n += m->cells.count[cell] - (m->cells.kept ? m->cells.kept[cell] : 0) == 1; /* the prefix cache can evict it */
    }
    return n;
}

static gdn_status check_records(const rt_memory *m, int32_t seq, const unsigned char *bytes, const rt_save_header *h)
{
    uint64_t at = sizeof *h;
    const uint64_t end = h->bytes - 8;
    int64_t cells = 0;
    int32_t last = -1;
    for (int32_t i = 0; i < h->n_seqs; i++) {
        rt_save_seq record;
        if (end - at < sizeof record) return bad("it ends within a sequence");
        memcpy(&record, bytes + at, sizeof record);
        const gdn_status status = check_record(m, &record, h->has_draft);
        if (status) return status;
        if (h->kind == RT_SAVE_ALL && (record.seq <= last || record.seq >= m->n_seqs))
            return rt_fail(GDN_INVALID_ARGUMENT, "loading: sequence %d was saved; ids are 0 to %d, each once",
                           record.seq, m->n_seqs - 1);
        last = record.seq;
        const uint64_t size = rt_memory_save_seq_bytes(m, &record);
        if (end - at < size) return bad("it ends within a sequence");
        at += size;
        cells += record.length;
    }
    if (at != end) return bad("there is more than its sequences");
    if (cells > cells_for(m, seq))
        return rt_fail(GDN_OUT_OF_MEMORY, "loading: %lld KV cells are needed, and %lld would be free", (long long)cells,
                       (long long)cells_for(m, seq));
    return GDN_OK;
}

/* ---- Replacing -------------------------------------------------------------------------------------------- */

static gdn_status get_pool(rt_memory *m, gdn_span *pool, uint64_t offset, uint64_t bytes, const unsigned char **from)
{
    const gdn_status status = gdn_buffer_write(m->device, pool, offset, *from, bytes);
    *from += bytes;
    return status ? rt_fail_gdn(status, "loading a sequence") : GDN_OK;
}

static const unsigned char *get_kv(unsigned char *pool, const rt_memory *m, const int32_t *cell, int32_t first,
                                   int32_t end, const unsigned char *from)
{
    for (int32_t p = first; p < end; p++, from += m->kv_bytes)
        memcpy(pool + (uint64_t)cell[p] * m->kv_bytes, from, (size_t)m->kv_bytes);
    return from;
}

gdn_status rt_memory_get_parts(rt_memory *m, const rt_save_parts *at, const unsigned char **from)
{
    const int32_t n = at->length;
    gdn_status status = GDN_OK;
    for (int32_t layer = 0; layer < m->n_recurrent && !status; layer++) {
        status = get_pool(m, &m->state[layer], (uint64_t)at->slot * m->state_bytes, m->state_bytes, from);
        for (int32_t p = n < m->kernel - 1 ? 0 : n - (m->kernel - 1); p < n && !status; p++) {
            const uint64_t entry = (uint64_t)at->row * (uint64_t)m->n_conv_slots + (uint64_t)(p % m->n_conv_slots);
            status = get_pool(m, &m->conv[layer], entry * m->conv_slot_bytes, m->conv_slot_bytes, from);
        }
    }
    for (int32_t layer = 0; layer < m->n_attention && !status; layer++) {
        const int32_t end = layer < m->n_attention - m->has_draft ? n : at->draft;
        *from = get_kv(rt_memory_k(m, layer), m, at->cell, at->first, end, *from);
        *from = get_kv(rt_memory_v(m, layer), m, at->cell, at->first, end, *from);
    }
    return status;
}

/* Fills the empty sequence `seq`. There is room for it; fails only if the device fails. */
static gdn_status get_seq(rt_memory *m, int32_t seq, const rt_save_seq *record, const unsigned char *from)
{
    rt_sequence *s = &m->seq[seq];
    const int32_t n = record->length;
    gdn_status status = GDN_OK;

    if (!n) return GDN_OK;
    if (m->prefixes) rt_memory_prefix_yield(m, n);
    from += sizeof *record;
    while (s->n_listed < n) s->cell[s->n_listed++] = rt_memory_take_cell(m);
    s->snapshot[n % m->K] = (rt_snapshot){ rt_memory_take(&m->slots), n };
    s->conv_row = rt_memory_take(&m->rows);
    s->conv_from = n < m->kernel - 1 ? 0 : n - (m->kernel - 1);
    s->length = n;
    s->draft = m->has_draft ? record->draft : 0;
    const rt_save_parts at = { s->snapshot[n % m->K].slot, s->conv_row, 0, n, record->draft, s->cell };
    status = rt_memory_get_parts(m, &at, &from);
    if (!m->has_draft) return status; /* the draft head's part, if saved, is the last */
    for (int32_t p = n - record->n_hidden; p < n && !status; p++, from += 4 + m->hidden_bytes) {
        rt_hidden_tag *tag = &s->hidden_at[p % m->n_hidden]; /* if fewer are kept here, the newest remain */
        tag->position = p;
        memcpy(&tag->token, from, 4);
        memcpy(rt_memory_hidden_at(m, seq, p), from + 4, (size_t)m->hidden_bytes);
    }
    return status;
}

gdn_status rt_memory_load(rt_memory *m, int32_t seq, const void *bytes, uint64_t n)
{
    rt_save_header header;
    gdn_status status = rt_memory_check_seq(m, seq < 0 ? 0 : seq, "loading");
    if (!status) status = check_header(m, seq, bytes, n, &header);
    if (!status) status = check_records(m, seq, bytes, &header);
    if (status) return status;

    /* Allocate lists first: nothing else can be refused. */
    const unsigned char *at = (const unsigned char *)bytes + sizeof header;
    for (int32_t i = 0; !status && i < header.n_seqs; i++) {
        rt_save_seq record;
        memcpy(&record, at, sizeof record);
        status = rt_memory_seq_grow(m, seq < 0 ? record.seq : seq, record.length);
        at += rt_memory_save_seq_bytes(m, &record);
    }
    if (status) return status;

    for (int32_t i = 0; i < m->n_seqs; i++)
        if (seq < 0 || i == seq) rt_memory_seq_empty(m, &m->seq[i]);
    at = (const unsigned char *)bytes + sizeof header;
    for (int32_t i = 0; i < header.n_seqs && !status; i++) {
        rt_save_seq record;
        memcpy(&record, at, sizeof record);
        status = get_seq(m, seq < 0 ? record.seq : seq, &record, at);
        at += rt_memory_save_seq_bytes(m, &record);
    }
    if (status) /* the device failed: empty all sequences that were being loaded */
        for (int32_t i = 0; i < m->n_seqs; i++)
            if (seq < 0 || i == seq) rt_memory_seq_empty(m, &m->seq[i]);
    return status;
}
