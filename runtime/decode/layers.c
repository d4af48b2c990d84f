/* The two mixers of a layer: gated delta net and gated attention. Formulas: docs/design/runtime.md. */
#include <string.h>

#include "runtime/decode/engine_internal.h"

/* Floats of a row of e->mixed: a token's projections for a recurrent layer. They are n_channels inputs of the
 * convolution, then per value head a logit of beta and an input of the gate. Two calls on the device compute the
 * layer's output from it. */
static int64_t mixed_width(const rt_hparams *hp) { return (int64_t)hp->n_channels + 2 * hp->n_value_heads; }

/* An operand in a span, at an offset and with strides in floats. */
static gdn_tensor operand(const gdn_span *span, int64_t offset, int64_t token_stride, int64_t head_stride)
{
    gdn_tensor t = { span->data,
                     span->offset + 4 * (uint64_t)offset,
                     span->bytes - 4 * (uint64_t)offset,
                     { 0, 4 * token_stride, 4 * head_stride, 0 },
                     GDN_F32,
                     0 };
    return t;
}

/* An operand of a pool, whose rows the maps select. */
static gdn_pool pooled(gdn_span pool, int32_t n_rows, int32_t n_slots)
{
    return (gdn_pool){
        .data = pool.data, .offset = pool.offset, .bytes = pool.bytes, .n_rows = n_rows, .n_slots = n_slots
    };
}

static gdn_span put(rt_engine *e, int64_t *at, const int32_t *values, int64_t n)
{
    memcpy((int32_t *)e->maps.host + *at, values, 4 * (size_t)n);
    gdn_span span = { e->maps.span.data, e->maps.span.offset + 4 * (uint64_t)*at, 4 * (uint64_t)n };
    *at += (n + 15) / 16 * 16;
    return span;
}

gdn_status rt_layers_begin(rt_engine *e, const rt_step *step)
{
    int64_t at = 0;
    rt_step_maps *m = &e->step_maps;
    m->seq_start = put(e, &at, step->seq_start, step->n_spans + 1);
    m->state_src = put(e, &at, step->state_src, step->n_spans);
    m->state_dst = put(e, &at, step->state_dst, (int64_t)step->n_spans * step->n_snapshots);
    m->position = put(e, &at, step->length, step->n_spans);
    m->conv_src = put(e, &at, step->conv_src, step->n_spans);
    m->conv_dst = put(e, &at, step->conv_dst, step->n_spans);
    if (step->n_log) {
        m->log_row = put(e, &at, step->log_row, step->n_spans);
        m->base_position = put(e, &at, step->base_position, step->n_spans);
        m->commit = put(e, &at, step->commit, step->n_spans);
    }
    if (step->n_checkpoints) {
        m->state_checkpoint = put(e, &at, step->state_checkpoint, (int64_t)step->n_spans * step->n_checkpoints);
        m->conv_checkpoint = put(e, &at, step->conv_checkpoint, (int64_t)step->n_spans * step->n_checkpoints);
    }
    return rt_stage_push(&e->maps, 4 * (uint64_t)at);
}

static gdn_status convolve(rt_engine *e, const rt_layer *layer, const rt_step *step, const rt_pool *pool)
{
    const rt_hparams *hp = &e->model->hp;
    const rt_step_maps *m = &e->step_maps;
    gdn_ssm_conv_args a = GDN_INIT(gdn_ssm_conv_args);
    gdn_checkpoints keep = GDN_INIT(gdn_checkpoints);
    a.activation = GDN_ACTIVATION_SILU;
    a.n_seqs = step->n_spans;
    a.n_tokens = step->n_rows;
    a.n_channels = hp->n_channels;
    a.kernel_width = hp->conv_kernel;
    a.x = operand(&e->mixed.span, 0, mixed_width(hp), 0);
    a.out = operand(&e->conv_out, 0, hp->n_channels, 0);
    a.weight = operand(&e->recurrent_weight[layer->index_in_kind].span, 0, 0, 0);
    if (pool->n_conv_slots) {
        a.history = pooled(pool->conv, pool->n_conv_rows, pool->n_conv_slots);
        a.history_src = m->conv_src;
        a.history_dst = m->conv_dst;
        if (step->n_checkpoints) {
            keep.interval = step->checkpoint_interval;
            keep.n = step->n_checkpoints;
            keep.dst = m->conv_checkpoint;
            a.checkpoints = &keep;
        }
    }
    a.seq_start = m->seq_start;
    a.position = m->position;
    a.workspace = e->workspace;
    const gdn_status status = gdn_ssm_conv(e->device, &a, NULL);
    return status ? rt_fail_gdn(status, "ssm_conv") : GDN_OK;
}

static gdn_status delta(rt_engine *e, const rt_layer *layer, const rt_step *step, const rt_pool *pool)
{
    const rt_hparams *hp = &e->model->hp;
    const rt_step_maps *m = &e->step_maps;
    const gdn_span *w = &e->recurrent_weight[layer->index_in_kind].span;
    const int64_t W = mixed_width(hp), conv = (int64_t)hp->n_channels * hp->conv_kernel;
    const int64_t d = hp->state_size, C = hp->n_channels, nk = hp->n_key_heads, nv = hp->n_value_heads;
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    gdn_delta_inputs in = GDN_INIT(gdn_delta_inputs);
    gdn_replay_log log = GDN_INIT(gdn_replay_log);
    gdn_checkpoints keep = GDN_INIT(gdn_checkpoints);
    const gdn_chunked_form chunked = { sizeof chunked, e->digits };
    a.n_seqs = step->n_spans;
    a.n_tokens = step->n_rows;
    a.n_heads_k = hp->n_key_heads;
    a.n_heads_v = hp->n_value_heads;
    a.head_dim_k = a.head_dim_v = hp->state_size;
    a.head_map = hp->head_map;
    a.scale = rt_delta_scale(hp);
    a.n_snapshots = step->n_snapshots;
    a.q = operand(&e->conv_out, 0, C, d);
    a.k = operand(&e->conv_out, nk * d, C, d);
    a.v = operand(&e->conv_out, 2 * nk * d, C, d);
    a.beta = operand(&e->mixed.span, C, W, 1);
    a.g = operand(&e->mixed.span, C + nv, W, 1);
    in.ssm_a = operand(w, conv, 0, 0);
    in.dt_bias = operand(w, conv + nv, 0, 0);
    in.gate_input = GDN_G_RAW;
    in.beta_input = GDN_BETA_LOGIT;
    in.qk_norm = hp->l2_mode ? GDN_NORM_CLAMP : GDN_NORM_ADD;
    in.qk_norm_eps = hp->l2_eps;
    a.inputs = &in;
    a.out = operand(&e->delta_out.span, 0, nv * d, d);
    a.state = pooled(pool->state, pool->n_slots, 1); /* flat pool: maps select single slots */
    a.state.dtype = rt_state_type(e->digits);
    a.chunked = e->digits ? &chunked : NULL;
    a.seq_start = m->seq_start;
    a.position = m->position;
    a.state_src = m->state_src;
    if (step->n_snapshots) a.state_dst = m->state_dst;
    if (step->n_log) {
        log.entries = pooled(pool->log, pool->n_log_rows, step->n_log);
        log.row = m->log_row;
        log.base_position = m->base_position;
        log.commit = m->commit;
        a.log = &log;
    }
    if (step->n_checkpoints) {
        keep.interval = step->checkpoint_interval;
        keep.n = step->n_checkpoints;
        keep.dst = m->state_checkpoint;
        a.checkpoints = &keep;
    }
    a.workspace = e->workspace;
    e->counters.recurrent_launches++;
    const gdn_status status = gdn_gated_delta_net(e->device, &a, NULL);
    return status ? rt_fail_gdn(status, "gated_delta_net") : GDN_OK;
}

/* Splits the fused b and a of qwen3next into e->mixed. Per key head: b of its r value heads, then their a. */
static void split_ba(const rt_engine *e, int32_t n)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t nv = hp->n_value_heads, r = nv / hp->n_key_heads;
    for (int32_t i = 0; i < n; i++)
        for (int32_t h = 0; h < nv; h++) {
            const float *from = e->ba + (int64_t)i * 2 * nv + (int64_t)(h / r) * 2 * r + h % r;
            float *to = (float *)e->mixed.host + i * mixed_width(hp) + hp->n_channels + h;
            to[0] = from[0];
            to[nv] = from[r];
        }
}

gdn_status rt_layer_recurrent(rt_engine *e, const rt_layer *layer, const rt_step *step)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t n = step->n_rows, E = hp->n_embd, C = hp->n_channels, nv = hp->n_value_heads, d = hp->state_size;
    const int32_t inner = nv * d;
    const int64_t W = mixed_width(hp);
    float *mixed = e->mixed.host;
    rt_pool pool = rt_memory_pool(e->memory, layer->index_in_kind);

    /* projections of the normed rows, to memory that the device reads */
    rt_rms_norm(e->dense, e->x, E, layer->attn_norm, hp->rms_eps, n, E, e->xn, E);
    rt_product products[4] = { { &layer->qkv, 0, mixed, W }, { &layer->gate, 0, e->gate, inner } };
    int n_products = 2;
    if (layer->ba.data) {
        products[n_products++] = (rt_product){ &layer->ba, 0, e->ba, 2 * nv };
    } else {
        products[n_products++] = (rt_product){ &layer->beta, 0, mixed + C, W };
        products[n_products++] = (rt_product){ &layer->alpha, 0, mixed + C + nv, W };
    }
    rt_matmul_many(e->dense, products, n_products, e->xn, E, n, e->scratch);
    if (layer->ba.data) split_ba(e, n);

    /* convolution of q, k, v, then the recurrence, for all sequences in one call each */
    gdn_status status = rt_stage_push(&e->mixed, 4 * (uint64_t)n * (uint64_t)W);
    if (!status) status = convolve(e, layer, step, &pool);
    if (!status) status = delta(e, layer, step, &pool);
    if (!status) status = rt_stage_pull(&e->delta_out, 4 * (uint64_t)n * (uint64_t)inner);
    if (status) return status;

    /* gated norm per head, output projection */
    float *o = e->delta_out.host;
    rt_rms_norm_silu_gate(e->dense, o, d, layer->ssm_norm, hp->rms_eps, e->gate, d, n * nv, d, o, d);
    rt_matmul(e->dense, &layer->ssm_out, 0, o, inner, n, e->proj, E, e->scratch);
    rt_add(e->dense, e->proj, e->x, (int64_t)n * E);
    return GDN_OK;
}

/* Stores k or v rows in the cells of a cache. */
static gdn_status store(rt_engine *e, const float *rows, const rt_rows *at, unsigned char *cache)
{
    const rt_hparams *hp = &e->model->hp;
    gdn_set_rows_args a = GDN_INIT(gdn_set_rows_args);
    a.n_columns = (int64_t)hp->n_head_kv * hp->head_dim;
    a.n_rows = at->n;
    a.n_rows_dst = e->n_cells;
    a.src.data = (void *)(uintptr_t)rows;
    a.src.dtype = GDN_F32;
    a.dst.data = cache;
    a.dst.dtype = e->kv_type;
    a.index.data = (void *)(uintptr_t)at->new_cell;
    a.index.dtype = GDN_I32;
    const gdn_status status = gdn_set_rows(e->host, &a, NULL);
    return status ? rt_fail_gdn(status, "set_rows") : GDN_OK;
}

/* Adds a bias to each of n rows. */
static void add_bias(const rt_engine *e, const float *bias, float *rows, int32_t n, int32_t width)
{
    for (int32_t i = 0; bias && i < n; i++) rt_add(e->dense, bias, rows + (int64_t)i * width, width);
}

gdn_status rt_layer_attention(rt_engine *e, const rt_layer *layer, const rt_rows *rows)
{
    static const rt_type types[] = {
        [GDN_F32] = RT_F32, [GDN_F16] = RT_F16, [GDN_BF16] = RT_BF16, [GDN_Q8_0] = RT_Q8_0
    };
    const rt_hparams *hp = &e->model->hp;
    const int32_t n = rows->n, E = hp->n_embd, hd = hp->head_dim, nh = hp->n_head, nkv = hp->n_head_kv;

    /* q with its gate, k, v; norm per head and rotary embedding of q and k */
    rt_rms_norm(e->dense, e->x, E, layer->attn_norm, hp->rms_eps, n, E, e->xn, E);
    const rt_product products[] = { { &layer->wq, 0, e->qg, 2 * nh * hd },
                                    { &layer->wk, 0, e->k, nkv * hd },
                                    { &layer->wv, 0, e->v, nkv * hd } };
    rt_matmul_many(e->dense, products, 3, e->xn, E, n, e->scratch);
    add_bias(e, layer->q_bias, e->qg, n, 2 * nh * hd);
    add_bias(e, layer->k_bias, e->k, n, nkv * hd);
    add_bias(e, layer->v_bias, e->v, n, nkv * hd);
    rt_rms_norm(e->dense, e->qg, 2 * hd, layer->q_norm, hp->rms_eps, n * nh, hd, e->qg, 2 * hd);
    rt_rms_norm(e->dense, e->k, hd, layer->k_norm, hp->rms_eps, n * nkv, hd, e->k, hd);
    rt_rope_apply(e->dense, e->rope, rows->rope, e->qg, 2 * (int64_t)nh * hd, 2 * hd, n, nh);
    rt_rope_apply(e->dense, e->rope, rows->rope, e->k, (int64_t)nkv * hd, hd, n, nkv);

    /* store k and v, then attention of each row over its sequence's cells */
    unsigned char *k_cache = rt_memory_k(e->memory, layer->index_in_kind),
                  *v_cache = rt_memory_v(e->memory, layer->index_in_kind);
    gdn_status status = store(e, e->k, rows, k_cache);
    if (!status) status = store(e, e->v, rows, v_cache);
    if (status) return status;
    const rt_attention_args a = {
        e->qg, 2 * (int64_t)nh * hd, 2 * hd,      k_cache,       v_cache, types[e->kv_type], n, nh, nkv,
        hd,    e->attention_scale,   rows->cells, rows->n_cells, e->attn, e->attn_scratch
    };
    rt_attention(e->dense, &a);

    /* gate, output projection */
    rt_sigmoid_gate(e->dense, e->attn, hd, e->qg + hd, 2 * hd, n * nh, hd, e->attn, hd);
    rt_matmul(e->dense, &layer->wo, 0, e->attn, (int64_t)nh * hd, n, e->proj, E, e->scratch);
    add_bias(e, layer->o_bias, e->proj, n, E);
    rt_add(e->dense, e->proj, e->x, (int64_t)n * E);
    return GDN_OK;
}
