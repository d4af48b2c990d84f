/* Creation, sizes and pools of the memory, and its state of the draft head. See memory.h and memory_internal.h. */
#include <string.h>

#include "runtime/memory/prefix_tree.h"
#include "runtime/memory/replay_log.h"

/* ---- Sizes ---------------------------------------------------------------------------------------------- */

/* a * b if at most 2^46, the limit of a buffer; otherwise 0 and *bad = 1. */
static uint64_t times(uint64_t a, uint64_t b, int *bad)
{
    const uint64_t limit = UINT64_C(1) << 46;
    if (b && a > limit / b) {
        *bad = 1;
        return 0;
    }
    return a * b;
}

/* Bytes of the keys or values of one head in a KV cell. */
static uint64_t head_bytes(int32_t kv_type, int32_t head_dim)
{
    const uint64_t n = (uint64_t)head_dim;
    return kv_type == GDN_F32 ? 4 * n : kv_type == GDN_Q8_0 ? n / 32 * 34 : 2 * n;
}

/* Sets the parameters of a memory and the sizes of its pools. GDN_INVALID_ARGUMENT with a text: the description is
 * invalid. */
static gdn_status shape_of(const rt_memory_desc *desc, rt_memory *m)
{
    if (!desc || !desc->model) return rt_fail(GDN_INVALID_ARGUMENT, "memory: no model");
    const rt_model *model = desc->model;
    const rt_hparams *hp = &model->hp;
    if (desc->n_seqs < 1 || desc->n_seqs > 1 << 16)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: n_seqs is %d; 1 to 2^16 are allowed", desc->n_seqs);
    if (desc->n_cells < 1 || desc->n_cells > RT_POSITION_LIMIT)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: n_cells is %d; 1 to 2^29 are allowed", desc->n_cells);
    if (desc->n_rollback < 0 || desc->n_rollback > 1023)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: n_rollback is %d; 0 to 1023 are allowed", desc->n_rollback);
    if (desc->n_hidden < 0 || desc->n_hidden > 1 << 16)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: n_hidden is %d; 0 to 2^16 are allowed", desc->n_hidden);
    if (desc->kv_type != GDN_F32 && desc->kv_type != GDN_F16 && desc->kv_type != GDN_BF16 && desc->kv_type != GDN_Q8_0)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "memory: kv_type is %d; GDN_F32, GDN_F16, GDN_BF16 and GDN_Q8_0 are allowed", desc->kv_type);
    if (desc->n_prefixes < 0 || desc->n_prefixes > 1 << 20)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: n_prefixes is %d; 0 to 2^20 are allowed", desc->n_prefixes);
    if (desc->n_prefixes && desc->prefix_interval < 1)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: prefix_interval is %d; 1 and more are allowed",
                       desc->prefix_interval);
    if (desc->rollback != RT_ROLLBACK_SNAPSHOTS && desc->rollback != RT_ROLLBACK_LOG)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: rollback is %d; %d (snapshots) and %d (log) are allowed",
                       (int)desc->rollback, RT_ROLLBACK_SNAPSHOTS, RT_ROLLBACK_LOG);
    if (desc->commit_after < 0 || desc->commit_after > 1 << 16)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: commit_after is %d; 0 to 2^16 are allowed", desc->commit_after);
    if (desc->digits && desc->digits != 2 && desc->digits != 3)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: digits is %d; 0 (recurrence), 2 and 3 are allowed", desc->digits);
    if (desc->digits && desc->n_prefixes && desc->prefix_interval % RT_CHUNK)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "memory: prefix_interval is %d; the chunked form has states at multiples of %d",
                       desc->prefix_interval, RT_CHUNK);
    if (hp->conv_kernel < 1 || hp->n_channels < 1 || hp->state_size < 1 || hp->n_value_heads < 1 || hp->n_head_kv < 1 ||
        hp->head_dim < 1 || hp->n_embd < 1 || model->n_recurrent < 0 || model->n_attention < 0 || hp->n_mtp < 0 ||
        hp->n_mtp > 1)
        return rt_fail(GDN_INVALID_ARGUMENT, "memory: the model's sizes are not those of a hybrid model");
    if (desc->kv_type == GDN_Q8_0 && hp->head_dim % 32)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "memory: kv_type is GDN_Q8_0 and head_dim is %d; a multiple of 32 is needed", hp->head_dim);

    *m = (rt_memory){ .model = model,
                      .device = desc->device,
                      .host = desc->host,
                      .n_seqs = desc->n_seqs,
                      .n_cells = desc->n_cells,
                      .n_rollback = desc->n_rollback,
                      .kv_type = desc->kv_type,
                      .kernel = hp->conv_kernel,
                      .digits = desc->digits,
                      .n_recurrent = model->n_recurrent };
    int bad = 0;
    const uint64_t S = (uint64_t)hp->state_size;
    m->n_log = rt_memory_log_slots(desc);
    m->K = m->n_log ? 1 : desc->n_rollback + 1;
    m->commit_after = desc->commit_after ? desc->commit_after : RT_COMMIT_AFTER;
    m->log_bytes = m->n_log ? rt_memory_log_entry_bytes(hp, &bad) : 0;
    m->n_prefixes =
        desc->n_prefixes < desc->n_cells ? desc->n_prefixes : desc->n_cells; /* each has a cell of its own */
    m->n_conv_slots = hp->conv_kernel - 1 + desc->n_rollback;
    if (m->digits && m->n_prefixes) m->n_conv_slots += RT_CHUNK - 1; /* a checkpoint is at the last multiple */
    m->has_draft = desc->draft && hp->n_mtp;
    m->n_attention = model->n_attention + m->has_draft;
    m->n_hidden = desc->n_hidden > desc->n_rollback + 1 ? desc->n_hidden : desc->n_rollback + 1;
    const uint64_t head = m->digits ? times(S, (uint64_t)m->digits * S + 4, &bad) : times(S, 4 * S, &bad);
    m->state_bytes = times(head, (uint64_t)hp->n_value_heads, &bad);
    m->conv_slot_bytes = times((uint64_t)hp->n_channels, 4, &bad);
    m->kv_bytes = times((uint64_t)hp->n_head_kv, head_bytes(desc->kv_type, hp->head_dim), &bad);
    m->hidden_bytes = m->has_draft ? times((uint64_t)hp->n_embd, 4, &bad) : 0;

    /* Each pool fits a buffer, and all together fit a save: sums cannot overflow. */
    const uint64_t n_slots = (uint64_t)desc->n_seqs * (uint64_t)m->K + (uint64_t)m->n_prefixes;
    const uint64_t n_rows = (uint64_t)desc->n_seqs + (uint64_t)m->n_prefixes;
    times(times(n_slots, m->state_bytes, &bad), (uint64_t)model->n_recurrent, &bad);
    times(times(n_rows * (uint64_t)m->n_conv_slots, m->conv_slot_bytes, &bad), (uint64_t)model->n_recurrent, &bad);
    times(times((uint64_t)desc->n_seqs * (uint64_t)m->n_log, m->log_bytes, &bad), (uint64_t)model->n_recurrent, &bad);
    times(times((uint64_t)desc->n_cells, m->kv_bytes, &bad), 2 * (uint64_t)m->n_attention, &bad);
    times((uint64_t)desc->n_seqs * (uint64_t)m->n_hidden + (uint64_t)m->n_prefixes, m->hidden_bytes, &bad);
    if (bad || n_slots > INT32_MAX)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "memory: %d sequences with %d snapshots and %d cells are more than 2^46 bytes", desc->n_seqs,
                       desc->n_rollback + 1, desc->n_cells);
    return GDN_OK;
}

gdn_status rt_memory_size(const rt_memory_desc *desc, rt_memory_bytes *bytes)
{
    rt_memory shape;
    const gdn_status status = shape_of(desc, &shape);
    if (status) return status;
    const uint64_t n = (uint64_t)desc->n_seqs, R = (uint64_t)desc->n_rollback,
                   layers = (uint64_t)desc->model->n_recurrent, prefixes = (uint64_t)shape.n_prefixes;
    bytes->state = layers * n * shape.state_bytes;
    bytes->conv = layers * n * ((uint64_t)shape.n_conv_slots - R) * shape.conv_slot_bytes;
    bytes->snapshots = layers * n * (((uint64_t)shape.K - 1) * shape.state_bytes + R * shape.conv_slot_bytes);
    bytes->log = layers * n * (uint64_t)shape.n_log * shape.log_bytes;
    bytes->kv = 2 * (uint64_t)shape.n_attention * (uint64_t)desc->n_cells * shape.kv_bytes;
    bytes->hidden = n * (uint64_t)shape.n_hidden * shape.hidden_bytes;
    bytes->prefixes = prefixes * (layers * (shape.state_bytes + (uint64_t)shape.n_conv_slots * shape.conv_slot_bytes) +
                                  shape.hidden_bytes);
    return GDN_OK;
}

/* ---- Creation ------------------------------------------------------------------------------------------- */

static gdn_status create_resource(rt_resource *r, int32_t n, const char *what)
{
    r->count = rt_calloc((uint64_t)n, sizeof *r->count, what);
    r->free = rt_calloc((uint64_t)n, sizeof *r->free, what);
    if (!r->count || !r->free) return GDN_OUT_OF_MEMORY;
    r->n = r->n_free = n;
    for (int32_t i = 0; i < n; i++) r->free[i] = n - 1 - i; /* the lowest is taken first */
    return GDN_OK;
}

/* Creates n buffers of `bytes` each (0: none). Contents are undefined. */
static gdn_status create_pools(gdn_context *ctx, gdn_span **pools, int32_t n, uint64_t bytes, const char *what)
{
    *pools = rt_calloc((uint64_t)n, sizeof **pools, what);
    if (!*pools) return GDN_OUT_OF_MEMORY;
    for (int32_t i = 0; i < n && bytes; i++) {
        const gdn_status status = gdn_buffer_create(ctx, bytes, &(*pools)[i]);
        if (status) return rt_fail_gdn(status, what);
    }
    return GDN_OK;
}

static void destroy_pools(gdn_context *ctx, gdn_span *pools, int32_t n)
{
    for (int32_t i = 0; pools && i < n; i++) gdn_buffer_destroy(ctx, &pools[i]);
    rt_free(pools);
}

static gdn_status create_sequences(rt_memory *m)
{
    m->seq = rt_calloc((uint64_t)m->n_seqs, sizeof *m->seq, "sequences");
    if (!m->seq) return GDN_OUT_OF_MEMORY;
    for (int32_t i = 0; i < m->n_seqs; i++) {
        rt_sequence *s = &m->seq[i];
        s->conv_row = s->log_row = GDN_NONE;
        s->snapshot = rt_calloc((uint64_t)m->K, sizeof *s->snapshot, "sequences");
        s->hidden_at = rt_calloc((uint64_t)m->n_hidden, sizeof *s->hidden_at, "sequences");
        s->ahead = -1;
        if (!s->snapshot || !s->hidden_at) return GDN_OUT_OF_MEMORY;
        for (int32_t r = 0; r < m->K; r++) s->snapshot[r] = (rt_snapshot){ GDN_NONE, -1 };
        for (int32_t r = 0; r < m->n_hidden; r++) s->hidden_at[r] = (rt_hidden_tag){ -1, -1 };
    }
    return GDN_OK;
}

/* Allocates the step's arrays by sequence; those by row grow with the steps. */
static gdn_status create_step(rt_memory *m)
{
    const uint64_t n = (uint64_t)m->n_seqs;
    m->step_span = rt_calloc(n, sizeof *m->step_span, "a step");
    m->taken = rt_calloc(n, sizeof *m->taken, "a step");
    m->seen = rt_calloc(n, 1, "a step");
    m->step.seq_start = rt_calloc(n + 1, 4, "a step");
    m->step.length = rt_calloc(n, 4, "a step");
    m->step.state_src = rt_calloc(n, 4, "a step");
    m->step.state_dst = rt_calloc(n * (uint64_t)m->K, 4, "a step");
    m->step.conv_src = rt_calloc(n, 4, "a step");
    m->step.conv_dst = rt_calloc(n, 4, "a step");
    m->step.log_row = rt_calloc(n, 4, "a step");
    m->step.base_position = rt_calloc(n, 4, "a step");
    m->step.commit = rt_calloc(n, 4, "a step");
    if (!m->step_span || !m->taken || !m->seen || !m->step.seq_start || !m->step.length || !m->step.state_src ||
        !m->step.state_dst || !m->step.conv_src || !m->step.conv_dst || !m->step.log_row || !m->step.base_position ||
        !m->step.commit)
        return GDN_OUT_OF_MEMORY;
    m->step.span = m->step_span;
    return GDN_OK;
}

static gdn_status create_all(rt_memory *m, int32_t prefix_interval)
{
    const uint64_t n = (uint64_t)m->n_seqs, rows = n + (uint64_t)m->n_prefixes,
                   slots = n * (uint64_t)m->K + (uint64_t)m->n_prefixes;
    gdn_status status = GDN_OK;
    if (!status) status = create_resource(&m->slots, (int32_t)slots, "state slots");
    if (!status) status = create_resource(&m->rows, (int32_t)rows, "convolution rows");
    if (!status) status = create_resource(&m->cells, m->n_cells, "KV cells");
    if (!status) status = create_resource(&m->log_rows, m->n_log ? m->n_seqs : 0, "rows of the log");
    if (!status) status = create_sequences(m);
    if (!status) status = create_step(m);
    if (!status) status = create_pools(m->device, &m->state, m->n_recurrent, slots * m->state_bytes, "states");
    if (!status)
        status = create_pools(m->device, &m->conv, m->n_recurrent,
                              rows * (uint64_t)m->n_conv_slots * m->conv_slot_bytes, "convolution history");
    if (!status)
        status = create_pools(m->device, &m->log, m->n_recurrent, n * (uint64_t)m->n_log * m->log_bytes, "logs");
    if (!status && m->n_log) status = rt_memory_log_create(m);
    if (!status) status = create_pools(m->host, &m->k, m->n_attention, (uint64_t)m->n_cells * m->kv_bytes, "keys");
    if (!status) status = create_pools(m->host, &m->v, m->n_attention, (uint64_t)m->n_cells * m->kv_bytes, "values");
    if (!status && m->hidden_bytes) {
        status = gdn_buffer_create(m->host, n * (uint64_t)m->n_hidden * m->hidden_bytes, &m->hidden);
        if (status) rt_fail_gdn(status, "hidden rows");
    }
    if (!status && m->n_prefixes) status = rt_memory_prefix_create(m, prefix_interval, m->n_prefixes);
    return status;
}

void rt_memory_destroy(rt_memory *m)
{
    if (!m) return;
    destroy_pools(m->device, m->state, m->n_recurrent);
    destroy_pools(m->device, m->conv, m->n_recurrent);
    destroy_pools(m->device, m->log, m->n_recurrent);
    rt_memory_log_destroy(m);
    destroy_pools(m->host, m->k, m->n_attention);
    destroy_pools(m->host, m->v, m->n_attention);
    gdn_buffer_destroy(m->host, &m->hidden);
    rt_memory_prefix_destroy(m);
    for (int32_t i = 0; m->seq && i < m->n_seqs; i++) {
        rt_free(m->seq[i].cell);
        rt_free(m->seq[i].token);
        rt_free(m->seq[i].snapshot);
        rt_free(m->seq[i].hidden_at);
    }
    rt_resource *const resources[] = { &m->slots, &m->rows, &m->cells, &m->log_rows, NULL };
    for (rt_resource *const *r = resources; *r; r++) {
        rt_free((*r)->count);
        rt_free((*r)->free);
        rt_free((*r)->kept);
    }
    void *const arrays[] = {
        m->seq,          m->step_span,          m->taken,          m->seen,          m->step.seq_start,
        m->step.length,  m->step.state_src,     m->step.state_dst, m->step.conv_src, m->step.conv_dst,
        m->step.log_row, m->step.base_position, m->step.commit,    m->step.rope,     m->step.new_cell,
        m->step.cells,   m->step.n_cells
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) rt_free(arrays[i]);
    rt_free(m);
}

gdn_status rt_memory_create(const rt_memory_desc *desc, rt_memory **memory)
{
    rt_memory shape;
    *memory = NULL;
    gdn_status status = shape_of(desc, &shape);
    if (status) return status;
    gdn_device_info host = { sizeof host };
    if (!desc->device || !desc->host || gdn_context_describe(desc->host, &host, NULL) || !host.shared_memory)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "memory: it needs a context for states, and one in the host's memory for KV");
    rt_memory *m = rt_calloc(1, sizeof *m, "the memory");
    if (!m) return GDN_OUT_OF_MEMORY;
    *m = shape;
    status = create_all(m, desc->prefix_interval);
    if (status) rt_memory_destroy(m);
    else *memory = m;
    return status;
}

/* ---- Pools ---------------------------------------------------------------------------------------------- */

rt_pool rt_memory_pool(const rt_memory *m, int32_t layer)
{
    return (rt_pool){ .state = m->state[layer],
                      .conv = m->conv[layer],
                      .log = m->log[layer],
                      .n_slots = m->slots.n,
                      .n_conv_rows = m->rows.n,
                      .n_conv_slots = m->n_conv_slots,
                      .n_log_rows = m->log_rows.n };
}

unsigned char *rt_memory_k(const rt_memory *m, int32_t layer) { return m->k[layer].data; }
unsigned char *rt_memory_v(const rt_memory *m, int32_t layer) { return m->v[layer].data; }
uint64_t rt_memory_folds(const rt_memory *m) { return m->n_folds; }
int32_t rt_memory_free_cells(const rt_memory *m) { return m->cells.n_free + m->cells.n_idle; }

int32_t rt_memory_take_cell(rt_memory *m)
{
    const int32_t cell = rt_memory_take(&m->cells);
    if (m->prefixes) m->prefixes->drafted[cell] = 0;
    return cell;
}

/* ---- The draft head --------------------------------------------------------------------------------------- */

static int is_seq(const rt_memory *m, int32_t seq) { return seq >= 0 && seq < m->n_seqs; }

int32_t rt_memory_draft_length(const rt_memory *m, int32_t seq) { return is_seq(m, seq) ? m->seq[seq].draft : 0; }
int32_t rt_memory_draft_from(const rt_memory *m, int32_t seq) { return is_seq(m, seq) ? m->seq[seq].draft_from : 0; }

void rt_memory_draft_restart(rt_memory *m, int32_t seq, int32_t position)
{
    if (is_seq(m, seq) && m->has_draft && position >= 0 && position <= m->seq[seq].length)
        m->seq[seq].draft_from = m->seq[seq].draft = position;
}

void rt_memory_draft_set_length(rt_memory *m, int32_t seq, int32_t n)
{
    if (!is_seq(m, seq)) return;
    rt_sequence *s = &m->seq[seq];
    const int32_t was = s->draft;
    s->draft = !m->has_draft || n < 0 ? 0 : n < s->length ? n : s->length;
    for (int32_t p = was; m->prefixes && p < s->draft; p++) m->prefixes->drafted[s->cell[p]] = 1;
    s->draft_from = s->draft_from < s->draft ? s->draft_from : s->draft;
}

int32_t rt_memory_draft_ahead(const rt_memory *m, int32_t seq) { return is_seq(m, seq) ? m->seq[seq].ahead : -1; }

void rt_memory_draft_set_ahead(rt_memory *m, int32_t seq, int32_t token)
{
    if (is_seq(m, seq) && m->has_draft && m->seq[seq].n_listed > m->seq[seq].length &&
        m->seq[seq].draft == m->seq[seq].length)
        m->seq[seq].ahead = token;
}

/* True if the position is among the newest whose hidden rows are kept. */
static int is_kept(const rt_memory *m, int32_t seq, int32_t position)
{
    return m->has_draft && is_seq(m, seq) && position >= 0 && position < m->seq[seq].length &&
           m->seq[seq].length - position <= m->n_hidden;
}

const float *rt_memory_hidden_row(const rt_memory *m, int32_t seq, int32_t position, int32_t *token)
{
    /* Rows older than the newest n_hidden may still be there: the draft head reads them after a commit, before new ones
     * are stored. */
    if (!m->has_draft || !is_seq(m, seq) || position < 0) return NULL;
    const rt_hidden_tag *at = &m->seq[seq].hidden_at[position % m->n_hidden];
    if (at->position != position) return NULL;
    if (token) *token = at->token;
    return rt_memory_hidden_at(m, seq, position);
}

void rt_memory_hidden_put(rt_memory *m, int32_t seq, int32_t position, int32_t token, const float *row)
{
    if (!is_kept(m, seq, position)) return;
    memcpy(rt_memory_hidden_at(m, seq, position), row, m->hidden_bytes);
    m->seq[seq].hidden_at[position % m->n_hidden] = (rt_hidden_tag){ position, token };
}

int32_t rt_memory_draft_reserved(const rt_memory *m, int32_t seq)
{
    return is_seq(m, seq) ? m->seq[seq].n_listed - m->seq[seq].length : 0;
}

gdn_status rt_memory_draft_reserve(rt_memory *m, int32_t seq, int32_t n, const int32_t **cells)
{
    gdn_status status = rt_memory_check_seq(m, seq, "reserving cells");
    if (status) return status;
    rt_sequence *s = &m->seq[seq];
    if (n < 0 || n > m->n_cells) return rt_fail(GDN_INVALID_ARGUMENT, "reserving cells: n is %d", n);
    const int32_t more = n - (s->n_listed - s->length);
    if (more > rt_memory_free_cells(m))
        return rt_fail(GDN_OUT_OF_MEMORY, "reserving cells: %d are wanted and %d are free", more,
                       rt_memory_free_cells(m));
    /* A list has distinct cells, so it never exceeds n_cells and the sum fits. */
    if (more > 0 && (status = rt_memory_seq_grow(m, seq, s->length + n))) return status;
    if (more > 0 && m->prefixes) rt_memory_prefix_yield(m, more);
    for (int32_t i = 0; i < more; i++) s->cell[s->n_listed++] = rt_memory_take_cell(m);
    if (n == 0) rt_memory_seq_truncate_cells(m, s, s->length);
    if (cells) *cells = s->cell ? s->cell + s->length : NULL;
    return GDN_OK;
}
