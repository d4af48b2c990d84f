/* Creation of an engine: contexts, buffers and weights of one model on one device. See engine.h. */
#define _POSIX_C_SOURCE 200809L /* strnlen */
#include <math.h>
#include <string.h>

#include "numerics/checksum.h"
#include "runtime/decode/engine_internal.h"

static int32_t largest(int32_t a, int32_t b) { return a > b ? a : b; }

/* Checkpoints that one sequence can pass in a micro-batch; MAX_CHECKPOINTS limits the map entries of all sequences. */
enum { MAX_CHECKPOINTS = 1 << 22 };
static int32_t checkpoints(int32_t n_batch, int32_t interval)
{
    return interval ? (int32_t)(((int64_t)n_batch + interval - 1) / interval) : 0;
}

/* Replaces a description's zeros by defaults, and checks it. */
static gdn_status complete(rt_engine_desc *d)
{
    if (!d->model) return rt_fail(GDN_INVALID_ARGUMENT, "model is NULL");
    d->n_seqs = d->n_seqs ? d->n_seqs : 1;
    d->n_batch = d->n_batch ? d->n_batch : 512;
    if (d->n_seqs < 1 || d->n_seqs > 4096)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_seqs is %d; 1 to 4096 are allowed", (int)d->n_seqs);
    if (d->n_rollback < 0 || d->n_rollback > 255)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_rollback is %d; 0 to 255 are allowed", (int)d->n_rollback);
    if (d->n_ctx < 1 || d->n_ctx > 1 << 26)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_ctx is %d; 1 to %d are allowed", (int)d->n_ctx, 1 << 26);
    if (!d->n_cells && (int64_t)d->n_ctx * d->n_seqs > 1 << 26)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_ctx is %d for each of %d sequences; %d KV cells in all are allowed",
                       (int)d->n_ctx, (int)d->n_seqs, 1 << 26);
    d->n_cells = d->n_cells ? d->n_cells : d->n_ctx * d->n_seqs;
    if (d->n_cells < d->n_ctx || d->n_cells > 1 << 26)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "n_cells is %d; %d (n_ctx: a sequence may need them all) to %d are allowed", (int)d->n_cells,
                       (int)d->n_ctx, 1 << 26);
    if (d->n_batch < 1 || d->n_batch > 65536)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_batch is %d; 1 to 65536 are allowed", (int)d->n_batch);
    if (d->n_prefixes < 0 || d->n_prefixes > 1 << 20)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_prefixes is %d; 0 to %d are allowed", (int)d->n_prefixes, 1 << 20);
    if (d->rollback != RT_ROLLBACK_SNAPSHOTS && d->rollback != RT_ROLLBACK_LOG)
        return rt_fail(GDN_INVALID_ARGUMENT, "rollback is %d; %d (snapshots) and %d (log) are allowed",
                       (int)d->rollback, RT_ROLLBACK_SNAPSHOTS, RT_ROLLBACK_LOG);
    if (d->commit_after < 0 || d->commit_after > 1 << 16)
        return rt_fail(GDN_INVALID_ARGUMENT, "commit_after is %d; 0 to %d are allowed", (int)d->commit_after, 1 << 16);
    if (d->draft_vocab < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "draft_vocab is %d; 0 and more are allowed", (int)d->draft_vocab);
    if (d->prefix_interval < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "prefix_interval is %d; 0 and more are allowed", (int)d->prefix_interval);
    /* a draft round has a row per sequence, and more when it catches up */
    d->n_batch = largest(d->n_batch, largest(d->n_seqs, d->n_rollback + 1));
    d->prefix_interval = d->prefix_interval ? d->prefix_interval : RT_PREFIX_INTERVAL;
    /* no sequence is longer */
    const int32_t most = d->digits ? (d->n_ctx + RT_CHUNK - 1) / RT_CHUNK * RT_CHUNK : d->n_ctx;
    if (d->prefix_interval > most) d->prefix_interval = most;
    if (d->n_prefixes > d->n_cells) d->n_prefixes = d->n_cells; /* each has a cell of its own */
    if (!d->n_prefixes) d->prefix_interval = 0;
    else if ((int64_t)d->n_seqs * checkpoints(d->n_batch, d->prefix_interval) > MAX_CHECKPOINTS)
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "prefix_interval is %d: %d sequences in micro-batches of %d rows would have maps of more than "
                       "%d checkpoints",
                       (int)d->prefix_interval, (int)d->n_seqs, (int)d->n_batch, MAX_CHECKPOINTS);
    if (!d->model->hp.n_mtp) d->draft = 0;
    return GDN_OK;
}

/* Assigns the buffers of a micro-batch in one allocation at `base`, and returns its size in floats; base NULL: size
 * only. */
static uint64_t place_buffers(rt_engine *e, float *base)
{
    const rt_hparams *hp = &e->model->hp;
    const uint64_t B = (uint64_t)e->n_batch, E = (uint64_t)hp->n_embd;
    const uint64_t inner = (uint64_t)hp->n_value_heads * (uint64_t)hp->state_size;
    const uint64_t F = hp->n_expert ? 0 : (uint64_t)hp->n_ff;
    const uint64_t X = (uint64_t)hp->n_expert, U = (uint64_t)hp->n_expert_used, nv = (uint64_t)hp->n_value_heads;
    const uint64_t q = (uint64_t)hp->n_head * (uint64_t)hp->head_dim,
                   kv = (uint64_t)hp->n_head_kv * (uint64_t)hp->head_dim;
    const struct {
        float **at;
        uint64_t n;
    } list[] = {
        { &e->x, B * E },
        { &e->xn, B * 2 * E },
        { &e->proj, B * E },
        { &e->hidden, B * E },
        { &e->gate, B * inner },
        { &e->ba, B * 2 * nv },
        { &e->qg, B * 2 * q },
        { &e->k, B * kv },
        { &e->v, B * kv },
        { &e->attn, B * q },
        { &e->ff_a, B * F },
        { &e->ff_b, B * F },
        { &e->router, X ? B * (X + U + 1) : 0 },
        { &e->draft_hidden, e->draft ? B * E : 0 },
        { &e->draft_feed, e->draft ? (uint64_t)e->n_seqs * E : 0 },
        { &e->draft_logits, e->draft ? (uint64_t)e->n_seqs * (uint64_t)e->draft_head.n_rows : 0 },
    };
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (base) *list[i].at = base + at;
        at += (list[i].n + 31) / 16 * 16; /* a gap between buffers, for checkers and cache associativity */
    }
    return at;
}

/* Largest scratch in bytes of a layer's matrix products or experts. */
static uint64_t products_scratch(const rt_model *m, int32_t n_batch)
{
    const rt_hparams *hp = &m->hp;
    int32_t widest = largest(2 * hp->n_embd, hp->n_head * hp->head_dim);
    widest = largest(widest, hp->n_value_heads * hp->state_size);
    uint64_t most = rt_matmul_scratch(n_batch, largest(widest, hp->n_ff));
    for (int32_t l = 0; hp->n_expert && l < hp->n_layer + hp->n_mtp; l++) {
        const rt_experts_args a = rt_layer_experts(m, &m->layer[l], n_batch);
        const uint64_t bytes = rt_experts_scratch(&a);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static uint64_t map_ints(const rt_engine *e)
{
    const int32_t n = checkpoints(e->n_batch, e->prefix_interval);
    const int32_t maps = 5 + (n ? 2 : 0) + (e->n_log ? 3 : 0); /* maps with one entry, or n, per sequence */
    return (uint64_t)e->n_seqs * (uint64_t)(e->n_snapshots + 5 + 2 * n + (e->n_log ? 3 : 0)) +
           ((uint64_t)maps + 1) * 16 + 16;
}

static uint64_t larger_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t delta_workspace(const rt_engine *e, const gdn_gated_delta_net_args *a)
{
    gdn_capability can = GDN_INIT(gdn_capability);
    return gdn_gated_delta_net_query(e->device, a, &can) ? 0 : can.workspace_bytes;
}

static uint64_t conv_workspace(const rt_engine *e, const gdn_ssm_conv_args *c)
{
    gdn_capability can = GDN_INIT(gdn_capability);
    return gdn_ssm_conv_query(e->device, c, &can) ? 0 : can.workspace_bytes;
}

/* Workspace in bytes that both kernels need for a micro-batch of n_rows in n_spans sequences. */
static uint64_t workspace_bytes(const rt_engine *e, int32_t n_spans, int32_t n_rows)
{
    const rt_hparams *hp = &e->model->hp;
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    gdn_ssm_conv_args c = GDN_INIT(gdn_ssm_conv_args);
    gdn_replay_log log = GDN_INIT(gdn_replay_log);
    gdn_checkpoints keep = GDN_INIT(gdn_checkpoints);
    const gdn_chunked_form chunked = { sizeof chunked, e->digits };
    uint64_t most = 0;
    keep.interval = e->prefix_interval;
    keep.n = checkpoints(n_rows, e->prefix_interval);
    log.entries.n_rows = e->n_seqs;
    log.entries.n_slots = e->n_log;
    a.n_seqs = c.n_seqs = n_spans;
    a.n_tokens = c.n_tokens = n_rows;
    a.n_heads_k = hp->n_key_heads;
    a.n_heads_v = hp->n_value_heads;
    a.head_dim_k = a.head_dim_v = hp->state_size;
    a.head_map = hp->head_map;
    a.scale = rt_delta_scale(hp);
    a.state.n_rows = e->n_seqs * e->n_snapshots + e->n_prefixes;
    a.state.dtype = rt_state_type(e->digits);
    a.chunked = e->digits ? &chunked : NULL;
    a.n_snapshots = e->n_snapshots;
    a.seq_start = c.seq_start = e->maps.span; /* marks the call as ragged; a query does not read it */
    a.checkpoints = c.checkpoints = keep.n ? &keep : NULL;
    c.n_channels = hp->n_channels;
    c.kernel_width = hp->conv_kernel;
    c.activation = GDN_ACTIVATION_SILU;
    c.history.n_rows = e->n_seqs + e->n_prefixes;
    c.history.n_slots = hp->conv_kernel - 1;
    if (!e->digits) most = delta_workspace(e, &a);
    most = larger_of(most, conv_workspace(e, &c));
    if (!e->n_log) return most;
    a.log = &log; /* a step of the recurrence may have a log or not */
    return larger_of(most, delta_workspace(e, &a));
}

gdn_status rt_engine_reserve_workspace(rt_engine *e, int32_t n_spans, int32_t n_rows)
{
    if (n_spans == e->workspace_spans && n_rows == e->workspace_rows) return GDN_OK;
    const uint64_t need = workspace_bytes(e, n_spans, n_rows);
    if (need <= e->workspace.bytes) {
        e->workspace_spans = n_spans;
        e->workspace_rows = n_rows;
        return GDN_OK;
    }
    gdn_span larger;
    const gdn_status status = gdn_buffer_create(e->device, need + need / 2, &larger);
    if (status) return rt_fail_gdn(status, "a workspace");
    if (e->workspace.data) gdn_buffer_destroy(e->device, &e->workspace);
    e->workspace = larger;
    return GDN_OK;
}

static gdn_status open_contexts(rt_engine *e, const rt_engine_desc *d)
{
    gdn_context_desc cpu = { sizeof cpu };
    cpu.parallel_for = rt_parallel_for;
    cpu.parallel_user = e->threads;
    cpu.n_threads = (uint32_t)rt_threads_count(e->threads);
    if (d->backend == GDN_BACKEND_CPU) cpu.implementation = d->implementation, cpu.level = d->level;
    gdn_status status = gdn_context_create(&cpu, &e->host);
    if (status) return rt_fail_gdn(status, "the CPU context");
    e->device = e->host;
    if (d->backend != GDN_BACKEND_CPU) {
        gdn_context_desc other = { sizeof other };
        other.backend = d->backend;
        other.device = d->device;
        other.implementation = d->implementation;
        other.level = d->level;
        e->device = NULL;
        status = gdn_context_create(&other, &e->device);
        if (status) return rt_fail_gdn(status, "the device");
    }
    gdn_device_info info = { sizeof info };
    gdn_implementation_info kernels = { sizeof kernels };
    status = gdn_context_describe(e->device, &info, &kernels);
    if (status) return rt_fail_gdn(status, "the device");
    if (!(kernels.levels >> d->level & 1) && !d->implementation)
        return rt_fail(GDN_UNSUPPORTED,
                       "no implementation of %s is exact at this level (%s); name one to run it all the same",
                       info.name, kernels.reason);
    e->shared = info.shared_memory;
    return GDN_OK;
}

/* Uploads the weights that recurrent layers read on the device: convolution, A, and the bias of dt. */
static gdn_status upload_weights(rt_engine *e)
{
    const rt_hparams *hp = &e->model->hp;
    const uint64_t conv = (uint64_t)hp->n_channels * (uint64_t)hp->conv_kernel, nv = (uint64_t)hp->n_value_heads;
    const uint64_t bytes = 4 * (conv + 2 * nv);
    e->recurrent_weight = rt_calloc((uint64_t)e->model->n_recurrent, sizeof *e->recurrent_weight, "recurrent weights");
    gdn_status status = e->recurrent_weight ? GDN_OK : GDN_OUT_OF_MEMORY;
    for (int32_t l = 0; !status && l < hp->n_layer; l++) {
        const rt_layer *layer = &e->model->layer[l];
        if (!layer->recurrent) continue;
        rt_stage *stage = &e->recurrent_weight[layer->index_in_kind];
        status = rt_stage_create(e->device, e->shared, bytes, "recurrent weights", &e->counters.transfers, stage);
        if (!status) {
            float *to = stage->host;
            memcpy(to, layer->conv, 4 * conv);
            memcpy(to + conv, layer->a, 4 * nv);
            memcpy(to + conv + nv, layer->dt_bias, 4 * nv);
            status = rt_stage_push(stage, bytes);
        }
    }
    return status;
}

static gdn_status create_stages(rt_engine *e)
{
    const rt_hparams *hp = &e->model->hp;
    const uint64_t B = 4 * (uint64_t)e->n_batch, nv = (uint64_t)hp->n_value_heads;
    const struct {
        rt_stage *stage;
        uint64_t bytes;
    } list[] = {
        { &e->mixed, B * ((uint64_t)hp->n_channels + 2 * nv) },
        { &e->delta_out, B * nv * (uint64_t)hp->state_size },
        { &e->maps, 4 * map_ints(e) },
    };
    gdn_status status = gdn_buffer_create(e->device, B * (uint64_t)hp->n_channels, &e->conv_out);
    if (status) return rt_fail_gdn(status, "activations");
    for (size_t i = 0; !status && i < sizeof list / sizeof list[0]; i++)
        status =
            rt_stage_create(e->device, e->shared, list[i].bytes, "activations", &e->counters.transfers, list[i].stage);
    /* enough for most micro-batches; it grows for others */
    if (!status) status = rt_engine_reserve_workspace(e, 1, e->n_batch);
    if (!status) status = rt_engine_reserve_workspace(e, e->n_seqs, e->n_batch);
    return status;
}

/* Largest number of cells that a row attends to. */
static int32_t attended(const rt_engine *e) { return e->n_cells < e->n_positions ? e->n_cells : e->n_positions; }

/* Arrays with an element for each row of a micro-batch, or for each sequence. */
#define ARRAYS(X)                                                                                                      \
    X(row_of_batch, B)                                                                                                 \
    X(row_token, B)                                                                                                    \
    X(row_rope, B)                                                                                                     \
    X(row_cell, B)                                                                                                     \
    X(row_cells_n, B)                                                                                                  \
    X(row_cells, B)                                                                                                    \
    X(row_hidden, B)                                                                                                   \
    X(draft_rows_token, B)                                                                                             \
    X(spans, S) X(draft_ahead, S) X(draft_active, S) X(draft_last, S)

static gdn_status create_arrays(rt_engine *e)
{
    const rt_hparams *hp = &e->model->hp;
    const uint64_t B = (uint64_t)e->n_batch, S = (uint64_t)e->n_seqs;
    float *buffers = rt_calloc(place_buffers(e, NULL), 4, "activations");
    e->scratch = rt_calloc(products_scratch(e->model, e->n_batch), 1, "matrix products");
    e->attn_scratch = rt_calloc(
        rt_attention_scratch(rt_threads_count(e->threads), hp->n_head, hp->n_head_kv, attended(e)), 4, "attention");
    e->expert = rt_calloc(B * (uint64_t)hp->n_expert_used, 4, "experts");
    int good = buffers && e->scratch && e->attn_scratch && e->expert;
#define MAKE(name, n) good = (e->name = rt_calloc(n, sizeof *e->name, "rows and sequences")) && good;
    ARRAYS(MAKE)
#undef MAKE
    if (buffers) place_buffers(e, buffers);
    return good ? GDN_OK : GDN_OUT_OF_MEMORY;
}

/* Hidden rows kept per sequence: at most a micro-batch, so that a draft round can process them in one. With the chunked
 * form a checkpoint has that before the last multiple of RT_CHUNK, also after rejected drafts. */
static int32_t hidden_rows(const rt_engine_desc *d)
{
    const int32_t wanted = d->digits && d->n_prefixes ? RT_HIDDEN_ROWS + d->n_rollback : RT_HIDDEN_ROWS;
    const int32_t most = d->n_batch < wanted ? d->n_batch : wanted;
    return most > d->n_rollback + 1 ? most : d->n_rollback + 1;
}

static rt_memory_desc memory_desc(const rt_engine_desc *d, gdn_context *device, gdn_context *host)
{
    const rt_memory_desc m = {
        d->model, device,         host,          d->n_seqs,          d->n_cells,  d->n_rollback,   d->kv_type,
        d->draft, hidden_rows(d), d->n_prefixes, d->prefix_interval, d->rollback, d->commit_after, d->digits
    };
    return m;
}

static void take(rt_engine *e, const rt_engine_desc *d)
{
    e->model = d->model;
    e->n_seqs = d->n_seqs;
    e->n_ctx = d->n_ctx;
    e->n_cells = d->n_cells;
    e->n_positions = d->n_ctx + d->n_rollback; /* drafts may be beyond the last token */
    e->n_batch = d->n_batch;
    e->n_rollback = d->n_rollback;
    const rt_memory_desc m = memory_desc(d, NULL, NULL);
    e->n_log = rt_memory_log_slots(&m);
    e->n_snapshots = e->n_log ? 1 : d->n_rollback + 1;
    e->n_hidden = hidden_rows(d);
    e->kv_type = d->kv_type;
    e->draft = d->draft;
    e->draft_head = d->model->mtp_head;
    if (d->draft_vocab && d->draft_vocab < e->draft_head.n_rows) e->draft_head.n_rows = d->draft_vocab;
    e->n_prefixes = d->n_prefixes;
    e->prefix_interval = d->prefix_interval;
    e->level = d->level;
    e->digits = d->digits;
    const float scale = d->model->hp.attention_scale;
    e->attention_scale = scale != 0 ? scale : 1.0f / sqrtf((float)d->model->hp.head_dim);
}

/* Bytes of the prefix cache's lists, tree and maps (on host and device). */
static uint64_t prefix_tables_bytes(const rt_engine *e)
{
    const uint64_t cells = (uint64_t)e->n_cells, map = (uint64_t)checkpoints(e->n_batch, e->prefix_interval);
    const uint64_t interval = (uint64_t)e->prefix_interval, n_prefixes = (uint64_t)e->n_prefixes;
    return (8 + 2 * 4 + 5) * cells + 20 * (cells / interval) + (68 + 8 * interval) * n_prefixes +
           2 * 2 * 4 * (uint64_t)e->n_seqs * map;
}

/* Bytes of tables that do not depend on the rows of a micro-batch alone. */
static uint64_t tables_bytes(const rt_engine *e, int32_t n_threads)
{
    const rt_hparams *hp = &e->model->hp;
    const uint64_t threads = (uint64_t)rt_threads_wanted(n_threads);
    const uint64_t B = (uint64_t)e->n_batch, rows = (uint64_t)e->n_seqs * ((uint64_t)e->n_rollback + 1);
    return 4 * (uint64_t)e->n_positions * (uint64_t)hp->n_rot + /* rotary angles              */
           4 * rt_attention_scratch((int32_t)threads, hp->n_head, hp->n_head_kv, attended(e)) + /* attention's scores */
           rt_dense_bytes((int32_t)threads) +    /* decoded rows of weights    */
           4 * (uint64_t)e->model->n_recurrent * /* convolutions, A, dt_bias   */
               ((uint64_t)hp->n_channels * (uint64_t)hp->conv_kernel + 2 * (uint64_t)hp->n_value_heads) +
           threads * (112 << 10) +                      /* the kernels' workspace     */
           (uint64_t)hp->n_vocab * (4 * rows + 12) +    /* logits; the sampler        */
           B * (8 * (uint64_t)hp->n_expert_used + 64) + /* experts; maps of rows      */
           4 * 4 * (uint64_t)e->n_cells +               /* lists of cells             */
           (e->n_prefixes ? prefix_tables_bytes(e) : 0);
}

gdn_status rt_engine_size(const rt_engine_desc *desc, rt_memory_bytes *memory, uint64_t *scratch)
{
    rt_engine_desc d = *desc;
    rt_engine e = { 0 };
    gdn_status status = complete(&d);
    if (status) return status;
    take(&e, &d);
    const rt_hparams *hp = &d.model->hp;
    *scratch = 4 * place_buffers(&e, NULL) + products_scratch(d.model, d.n_batch) +
               4 * (uint64_t)d.n_batch *
                   (uint64_t)(2 * hp->n_channels + 2 * hp->n_value_heads + hp->n_value_heads * hp->state_size) +
               tables_bytes(&e, d.n_threads);
    const rt_memory_desc m = memory_desc(&d, NULL, NULL);
    return rt_memory_size(&m, memory);
}

void rt_engine_destroy(rt_engine *e)
{
    if (!e) return;
    rt_memory_destroy(e->memory);
    for (int32_t i = 0; e->recurrent_weight && i < e->model->n_recurrent; i++)
        rt_stage_destroy(&e->recurrent_weight[i]);
    if (e->device) gdn_buffer_destroy(e->device, &e->conv_out);
    rt_stage *stages[] = { &e->mixed, &e->delta_out, &e->maps };
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) rt_stage_destroy(stages[i]);
    if (e->workspace.data) gdn_buffer_destroy(e->device, &e->workspace);
    void *arrays[] = { e->recurrent_weight, e->x,      e->scratch,    e->attn_scratch,
                       e->expert,           e->logits, e->logits_row, e->order };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) rt_free(arrays[i]);
#define FREE(name, n) rt_free((void *)e->name);
    ARRAYS(FREE)
#undef FREE
    rt_rope_destroy(e->rope);
    if (e->device != e->host) gdn_context_destroy(e->device);
    gdn_context_destroy(e->host);
    rt_dense_destroy(e->dense);
    rt_threads_destroy(e->threads);
    rt_free(e);
}

gdn_status rt_engine_create(const rt_engine_desc *desc, rt_engine **engine)
{
    *engine = NULL;
    rt_engine_desc d = *desc;
    gdn_status status = complete(&d);
    if (status) return status;
    rt_engine *e = rt_calloc(1, sizeof *e, "the engine");
    if (!e) return GDN_OUT_OF_MEMORY;
    take(e, &d);
    const rt_hparams *hp = &e->model->hp;
    status = rt_threads_create(d.n_threads, &e->threads);
    if (!status) status = rt_dense_create(d.isa, e->threads, &e->dense);
    if (!status) status = open_contexts(e, &d);
    if (!status) status = rt_rope_create(hp->n_rot, hp->rope_base, &hp->rope_scaling, e->n_positions, &e->rope);
    if (!status) status = create_arrays(e);
    if (!status) status = create_stages(e);
    if (!status) status = upload_weights(e);
    if (!status) {
        const rt_memory_desc m = memory_desc(&d, e->device, e->host);
        status = rt_memory_create(&m, &e->memory);
    }
    if (status) rt_engine_destroy(e);
    else *engine = e;
    return status;
}

rt_engine_limits rt_engine_limits_of(const rt_engine *e)
{
    const rt_engine_limits limits = { e->model->hp.n_vocab, e->n_seqs,     e->n_ctx,
                                      e->n_batch,           e->n_rollback, e->draft,
                                      e->n_cells,           e->n_prefixes, e->prefix_interval };
    return limits;
}

uint64_t rt_engine_bits(const rt_engine *e)
{
    gdn_implementation_info kernels = { sizeof kernels };
    uint64_t name[(GDN_NAME_MAX + 7) / 8] = { 0 };
    if (gdn_context_describe(e->device, NULL, &kernels) || !(kernels.levels >> e->level & 1))
        memcpy(name, kernels.name, strnlen(kernels.name, GDN_NAME_MAX));
    return gdn_checksum(name, sizeof name) + e->level;
}

rt_memory *rt_engine_memory(rt_engine *e) { return e->memory; }
rt_dense *rt_engine_dense(rt_engine *e) { return e->dense; }

rt_counters rt_engine_counters(const rt_engine *e)
{
    rt_counters counters = e->counters;
    counters.folds = rt_memory_folds(e->memory);
    return counters;
}

void rt_engine_tap(rt_engine *e, rt_tap_fn tap, void *user)
{
    e->tap = tap;
    e->tap_user = user;
}

void rt_engine_stop_when(rt_engine *e, rt_stop_fn stop, void *user)
{
    e->stop = stop;
    e->stop_user = user;
}

void rt_engine_embed(const rt_weight *embeddings, const int32_t *token, int32_t n, int32_t n_embd, float *y)
{
    for (int32_t i = 0; i < n; i++) rt_weight_row(embeddings, token[i], y + (int64_t)i * n_embd);
}
