/* Saves what continuing from the current length needs, independent of how it was stored. memory_internal.h has the
 * format: a header, a record per sequence, a checksum. Snapshots of earlier lengths, numbers of cells and slots, and
 * sharing are not saved. */
#include <string.h>

#include "numerics/checksum.h"
#include "runtime/memory/replay_log.h"

/* The oldest position whose conv state entry is saved. */
static int32_t conv_from(const rt_memory *m, int32_t length)
{
    return length < m->kernel - 1 ? 0 : length - (m->kernel - 1);
}

uint64_t rt_memory_parts_bytes(const rt_memory *m, const rt_save_parts *at)
{
    const uint64_t trunk = (uint64_t)(m->n_attention - m->has_draft), n = (uint64_t)(at->length - at->first);
    const uint64_t entries = (uint64_t)(at->length - conv_from(m, at->length));
    const uint64_t drafted = at->draft > at->first ? (uint64_t)(at->draft - at->first) : 0;
    if (!at->length) return 0;
    return (uint64_t)m->n_recurrent * (m->state_bytes + entries * m->conv_slot_bytes) +
           2 * m->kv_bytes * (trunk * n + drafted);
}

uint64_t rt_memory_save_seq_bytes(const rt_memory *m, const rt_save_seq *s)
{
    const rt_save_parts parts = { .length = s->length, .draft = s->draft };
    const uint64_t hidden = s->length ? (uint64_t)s->n_hidden * (rt_memory_save_hidden_bytes(m) + 4) : 0;
    return sizeof *s + rt_memory_parts_bytes(m, &parts) + hidden;
}

/* ---- What is saved ---------------------------------------------------------------------------------------- */

static rt_save_seq record_of(const rt_memory *m, int32_t seq)
{
    const rt_sequence *s = &m->seq[seq];
    rt_save_seq record = { seq, s->length, s->draft, 0 };
    /* The draft head continues from hidden row length - 1, or draft - 1 if it lags. A head that has not processed the
     * whole sequence is not saved: it restarts from the saved hidden rows. */
    if (s->draft_from) record.draft = 0;
    const int32_t oldest = record.draft == s->length ? s->length - 1 : record.draft - 1;
    for (int32_t p = s->length - 1; p >= 0 && p >= oldest && rt_memory_hidden_row(m, seq, p, NULL); p--)
        record.n_hidden++;
    return record;
}

/* True if a sequence is in the save. */
static int is_saved(const rt_memory *m, int32_t seq, int32_t i) { return seq == i || (seq < 0 && m->seq[i].length); }

static int is_savable(const rt_memory *m, int32_t seq)
{
    return !m->seq[seq].length || rt_memory_seq_readable(m, &m->seq[seq], m->seq[seq].length);
}

uint64_t rt_memory_save_size(const rt_memory *m, int32_t seq)
{
    uint64_t bytes = sizeof(rt_save_header) + 8;
    if (seq >= m->n_seqs || m->step_active) return 0;
    for (int32_t i = 0; i < m->n_seqs; i++) {
        if (!is_saved(m, seq, i)) continue;
        if (!is_savable(m, i)) return 0;
        const rt_save_seq record = record_of(m, i);
        bytes += rt_memory_save_seq_bytes(m, &record);
    }
    return bytes;
}

/* ---- Writing ------------------------------------------------------------------------------------------------ */

static unsigned char *put(unsigned char *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
    return to + bytes;
}

static gdn_status put_pool(const rt_memory *m, const gdn_span *pool, uint64_t offset, uint64_t bytes,
                           unsigned char **to)
{
    const gdn_status status = gdn_buffer_read(m->device, pool, offset, *to, bytes);
    *to += bytes;
    return status ? rt_fail_gdn(status, "saving a sequence") : GDN_OK;
}

/* Writes a layer's state; `folded` receives it if log entries must be replayed. */
static gdn_status put_state(rt_memory *m, int32_t slot, int32_t layer, const gdn_span *folded, unsigned char **to)
{
    if (slot != GDN_NONE) return put_pool(m, &m->state[layer], (uint64_t)slot * m->state_bytes, m->state_bytes, to);
    const gdn_status status = rt_memory_log_replay(m, layer, folded);
    return status ? status : put_pool(m, folded, 0, m->state_bytes, to);
}

gdn_status rt_memory_put_parts(rt_memory *m, const rt_save_parts *at, const gdn_span *folded, unsigned char **to)
{
    const int32_t n = at->length;
    gdn_status status = GDN_OK;
    for (int32_t layer = 0; n && layer < m->n_recurrent && !status; layer++) {
        status = put_state(m, at->slot, layer, folded, to);
        for (int32_t p = conv_from(m, n); p < n && !status; p++) {
            const uint64_t entry = (uint64_t)at->row * (uint64_t)m->n_conv_slots + (uint64_t)(p % m->n_conv_slots);
            status = put_pool(m, &m->conv[layer], entry * m->conv_slot_bytes, m->conv_slot_bytes, to);
        }
    }
    for (int32_t layer = 0; layer < m->n_attention && !status; layer++) {
        const int32_t end = layer < m->n_attention - m->has_draft ? n : at->draft;
        for (int32_t p = at->first; p < end; p++)
            *to = put(*to, rt_memory_k(m, layer) + (uint64_t)at->cell[p] * m->kv_bytes, m->kv_bytes);
        for (int32_t p = at->first; p < end; p++)
            *to = put(*to, rt_memory_v(m, layer) + (uint64_t)at->cell[p] * m->kv_bytes, m->kv_bytes);
    }
    return status;
}

static gdn_status put_seq(rt_memory *m, const rt_save_seq *record, const gdn_span *folded, unsigned char **to)
{
    const int32_t n = record->length, seq = record->seq;
    const rt_sequence *s = &m->seq[seq];
    const rt_snapshot *state = &s->snapshot[n % m->K];
    const rt_save_parts at = { state->tag == n ? state->slot : GDN_NONE, s->conv_row, 0, n, record->draft, s->cell };
    gdn_status status = n && folded->data ? rt_memory_log_maps(m, s, 0) : GDN_OK;
    *to = put(*to, record, sizeof *record);
    if (!status) status = rt_memory_put_parts(m, &at, folded, to);
    for (int32_t p = n - record->n_hidden; p < n && !status; p++) {
        *to = put(*to, &s->hidden_at[p % m->n_hidden].token, 4);
        *to = put(*to, rt_memory_hidden_at(m, seq, p), m->hidden_bytes);
    }
    return status;
}

const rt_fingerprint *rt_memory_fingerprint(rt_memory *m)
{
    if (!m->fingerprinted) m->fingerprint = rt_model_fingerprint(m->model);
    m->fingerprinted = 1;
    return &m->fingerprint;
}

rt_save_header rt_memory_save_header(rt_memory *m, int32_t kind)
{
    return (rt_save_header){
        .magic = RT_SAVE_MAGIC,
        .version = RT_SAVE_VERSION,
        .kind = kind,
        .fingerprint = *rt_memory_fingerprint(m),
        .state_bytes = m->state_bytes,
        .conv_slot_bytes = m->conv_slot_bytes,
        .kv_bytes = m->kv_bytes,
        .hidden_bytes = m->hidden_bytes,
        .kv_type = m->kv_type,
        .kernel = m->kernel,
        .n_recurrent = m->n_recurrent,
        .n_attention = m->n_attention,
        .has_draft = m->has_draft,
    };
}

gdn_status rt_memory_save(rt_memory *m, int32_t seq, void *bytes, uint64_t n)
{
    const gdn_status checked = rt_memory_check_seq(m, seq < 0 ? 0 : seq, "saving");
    if (checked) return checked;
    for (int32_t i = 0; i < m->n_seqs; i++)
        if (is_saved(m, seq, i) && !is_savable(m, i))
            return rt_fail(GDN_INVALID_ARGUMENT, "saving: the state of sequence %d was lost in a step that failed", i);
    rt_save_header header = rt_memory_save_header(m, seq < 0 ? RT_SAVE_ALL : RT_SAVE_ONE);
    header.bytes = rt_memory_save_size(m, seq);
    if (!bytes || n < header.bytes)
        return rt_fail(GDN_INVALID_ARGUMENT, "saving: %llu bytes are given and %llu are needed",
                       (unsigned long long)(bytes ? n : 0), (unsigned long long)header.bytes);
    for (int32_t i = 0; i < m->n_seqs; i++) header.n_seqs += is_saved(m, seq, i);

    gdn_span folded = { 0 }; /* outside the pool, so that saving changes nothing */
    gdn_status status = m->n_log ? gdn_buffer_create(m->device, m->state_bytes, &folded) : GDN_OK;
    if (status) rt_fail_gdn(status, "saving a sequence");
    unsigned char *to = put(bytes, &header, sizeof header);
    for (int32_t i = 0; i < m->n_seqs && !status; i++) {
        if (!is_saved(m, seq, i)) continue;
        const rt_save_seq record = record_of(m, i);
        status = put_seq(m, &record, &folded, &to);
    }
    gdn_buffer_destroy(m->device, &folded);
    if (status) return status;
    const uint64_t sum = gdn_checksum(bytes, header.bytes - 8);
    put(to, &sum, 8);
    return GDN_OK;
}
