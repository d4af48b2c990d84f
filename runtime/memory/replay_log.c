/* Rollback with a replay log: when to fold and commit, and calls that replay without tokens. See replay_log.h. */
#include "runtime/memory/replay_log.h"

/* ---- The policy ---- */

int32_t rt_memory_log_slots(const rt_memory_desc *desc)
{
    const int32_t commit_after = desc->commit_after ? desc->commit_after : RT_COMMIT_AFTER;
    if (desc->digits) return RT_CHUNK - 1 + desc->n_rollback + 1; /* of the open chunk, and of a step */
    if (desc->rollback != RT_ROLLBACK_LOG || !desc->n_rollback) return 0;
    /* A step that does not commit leaves up to commit_after - 1 entries and its own; the next one adds as many again.
     */
    return 2 * (desc->n_rollback + 1) + commit_after - 1;
}

uint64_t rt_memory_log_entry_bytes(const rt_hparams *hp, int *bad)
{
    const uint64_t S = (uint64_t)hp->state_size, heads = (uint64_t)hp->n_key_heads + (uint64_t)hp->n_value_heads;
    *bad |= S > 1 << 20 || hp->n_key_heads < 1 || hp->n_key_heads > 1 << 20 || hp->n_value_heads > 1 << 20;
    return *bad ? 0 : 4 * (heads * S + (uint64_t)hp->n_value_heads);
}

/* The plan of the chunked form: each step logs, and writes a state if it can be at a later multiple. */
static rt_log_plan chunked_plan(const rt_memory *m, const rt_sequence *s, int32_t n_rows)
{
    const int drafts = n_rows > 1 && n_rows <= m->n_rollback + 1;
    const int32_t at = rt_memory_newest_state(m, drafts ? s->length : s->length + n_rows);
    return (rt_log_plan){ .fold = 0, .logs = 1, .writes = at > rt_memory_state_at(s) ? at : GDN_NONE };
}

rt_log_plan rt_memory_log_plan_of(const rt_memory *m, const rt_sequence *s, int32_t n_rows)
{
    if (m->digits) return chunked_plan(m, s, n_rows);
    const int32_t behind = s->length - rt_memory_state_at(s);
    if (n_rows > m->n_rollback + 1) return (rt_log_plan){ .fold = behind > 0, .logs = 0, .writes = s->length + n_rows };
    if (n_rows == 1) /* no rollback: plain decoding once there are no entries to replay */
        return (rt_log_plan){ .fold = 0, .logs = behind > 0, .writes = s->length + 1 };
    return (rt_log_plan){ .fold = 0, .logs = 1, .writes = behind >= m->commit_after ? s->length : GDN_NONE };
}

/* ---- Replay without tokens ---- */

enum { N_MAPS = 5, MAP_BYTES = 64 }; /* maps are separate, with an alignment that suits all devices */
static const char *const what = "folding a log";

static gdn_gated_delta_net_args call(const rt_memory *m)
{
    const rt_hparams *hp = &m->model->hp;
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    a.n_seqs = 1;
    a.n_heads_k = hp->n_key_heads;
    a.n_heads_v = hp->n_value_heads;
    a.head_dim_k = a.head_dim_v = hp->state_size;
    a.head_map = hp->head_map;
    a.scale = rt_delta_scale(hp);
    a.n_snapshots = 0;
    a.state.n_rows = m->slots.n;
    a.state.dtype = rt_state_type(m->digits);
    return a;
}

static gdn_replay_log log_of(const rt_memory *m)
{
    gdn_replay_log log = GDN_INIT(gdn_replay_log);
    log.entries.n_rows = m->log_rows.n;
    log.entries.n_slots = m->n_log;
    return log;
}

static gdn_span map(const rt_memory *m, uint64_t i)
{
    return (gdn_span){ m->fold_maps.data, m->fold_maps.offset + i * MAP_BYTES, 4 };
}

gdn_status rt_memory_log_create(rt_memory *m)
{
    gdn_capability can = { sizeof can };
    const gdn_replay_log log = log_of(m);
    const gdn_chunked_form chunked = { sizeof chunked, m->digits };
    gdn_gated_delta_net_args a = call(m);
    a.log = &log;
    a.chunked = m->digits ? &chunked : NULL;
    gdn_status status = gdn_gated_delta_net_query(m->device, &a, &can);
    if (!status) status = gdn_buffer_create(m->device, N_MAPS * MAP_BYTES, &m->fold_maps);
    if (!status && can.workspace_bytes) status = gdn_buffer_create(m->device, can.workspace_bytes, &m->fold_workspace);
    return status ? rt_fail_gdn(status, what) : GDN_OK;
}

void rt_memory_log_destroy(rt_memory *m)
{
    gdn_buffer_destroy(m->device, &m->fold_maps);
    gdn_buffer_destroy(m->device, &m->fold_workspace);
}

/* Writes the index maps of a replay to slot `to`, for all layers. */
static gdn_status put_maps(rt_memory *m, const rt_sequence *s, int32_t to)
{
    int32_t maps[N_MAPS][MAP_BYTES / 4] = {
        { s->snapshot[0].slot }, { s->length }, { s->log_row }, { rt_memory_state_at(s) }, { to }
    };
    const gdn_status status = gdn_buffer_write(m->device, &m->fold_maps, 0, maps, sizeof maps);
    return status ? rt_fail_gdn(status, what) : GDN_OK;
}

static void put_whole(gdn_pool *pool, const gdn_span *span)
{
    pool->data = span->data;
    pool->offset = span->offset;
    pool->bytes = span->bytes;
}

/* Replays one layer's log. */
static gdn_status replay(rt_memory *m, int32_t layer)
{
    const gdn_chunked_form chunked = { sizeof chunked, m->digits };
    gdn_gated_delta_net_args a = call(m);
    gdn_replay_log log = log_of(m);
    put_whole(&a.state, &m->state[layer]);
    put_whole(&log.entries, &m->log[layer]);
    a.state_src = map(m, 0);
    a.position = map(m, 1);
    log.row = map(m, 2);
    log.base_position = map(m, 3);
    log.commit = map(m, 4);
    a.log = &log;
    a.chunked = m->digits ? &chunked : NULL;
    a.workspace = m->fold_workspace;
    const gdn_status status = gdn_gated_delta_net(m->device, &a, NULL);
    return status ? rt_fail_gdn(status, what) : GDN_OK;
}

/* ---- Before a step ---- */

/* Replays the log into the sequence's state, in place if no one shares it. */
static gdn_status fold(rt_memory *m, rt_sequence *s)
{
    rt_snapshot *at = &s->snapshot[0];
    const int own = at->slot != GDN_NONE && m->slots.count[at->slot] == 1;
    const int32_t to = own ? at->slot : rt_memory_take(&m->slots);
    gdn_status status = put_maps(m, s, to);
    int started = 0;
    for (int32_t layer = 0; layer < m->n_recurrent && !status; layer++, started = 1) status = replay(m, layer);
    if (status) {
        if (!own) rt_memory_drop(&m->slots, to);
        else if (started) rt_memory_seq_drop_snapshot(m, at); /* the layers' states have different lengths */
        return status;
    }
    if (!own) rt_memory_seq_drop_snapshot(m, at);
    *at = (rt_snapshot){ to, rt_memory_newest_state(m, s->length) };
    m->n_folds++;
    return GDN_OK;
}

gdn_status rt_memory_log_fold(rt_memory *m, int32_t seq)
{
    rt_sequence *const s = &m->seq[seq];
    const rt_snapshot *const at = &s->snapshot[0];
    if (at->slot != GDN_NONE && at->tag == rt_memory_newest_state(m, s->length)) return GDN_OK;
    if (!m->slots.n_free && (at->slot == GDN_NONE || m->slots.count[at->slot] > 1))
        return rt_fail(GDN_OUT_OF_MEMORY, "%s: there is no state to fold to", what);
    return fold(m, s);
}

/* Gives the sequence its own log row, with the entries that its state needs. They are copied through host memory, once
 * after a sequence was copied. */
static gdn_status own_row(rt_memory *m, rt_sequence *s)
{
    if (s->log_row != GDN_NONE && m->log_rows.count[s->log_row] == 1) return GDN_OK;
    const int32_t to = rt_memory_take(&m->log_rows), n = s->length - rt_memory_state_at(s);
    const uint64_t row_bytes = (uint64_t)m->n_log * m->log_bytes;
    unsigned char *entries = n ? rt_calloc(row_bytes, 1, "a row of the log") : NULL;
    gdn_status status = n && !entries ? GDN_OUT_OF_MEMORY : GDN_OK;
    for (int32_t layer = 0; n && layer < m->n_recurrent && !status; layer++) {
        status = gdn_buffer_read(m->device, &m->log[layer], (uint64_t)s->log_row * row_bytes, entries, row_bytes);
        if (!status) status = gdn_buffer_write(m->device, &m->log[layer], (uint64_t)to * row_bytes, entries, row_bytes);
        if (status) rt_fail_gdn(status, "copying a row of the log");
    }
    rt_free(entries);
    if (status) {
        rt_memory_drop(&m->log_rows, to);
        return status;
    }
    if (s->log_row != GDN_NONE) rt_memory_drop(&m->log_rows, s->log_row);
    s->log_row = to;
    return GDN_OK;
}

gdn_status rt_memory_log_ready(rt_memory *m, int32_t seq, int32_t n_rows)
{
    rt_sequence *s = &m->seq[seq];
    if (!m->n_log) return GDN_OK;
    const rt_log_plan plan = rt_memory_log_plan_of(m, s, n_rows);
    gdn_status status = plan.fold ? fold(m, s) : GDN_OK;
    if (!status && plan.logs) status = own_row(m, s);
    return status;
}
