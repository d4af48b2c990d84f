/* The two mixers: gated delta net and gated attention. Formulas: docs/runtime.md. */
#include <string.h>

#include "runtime/engine_internal.h"

/* Operand of n rows in a stage, `offset` floats from its beginning, with strides in floats. */
static gdn_tensor operand(const rt_stage *stage, int64_t offset, int64_t token_stride, int64_t head_stride)
{
    gdn_tensor t = { stage->span.data, stage->span.offset + 4 * (uint64_t)offset, stage->bytes - 4 * (uint64_t)offset,
                     { 0, 4 * token_stride, 4 * head_stride, 0 }, GDN_F32, 0 };
    return t;
}

/* A pool of rows, which the maps choose from. */
static gdn_tensor pooled(gdn_span pool)
{
    return (gdn_tensor){ .data = pool.data, .offset = pool.offset, .bytes = pool.bytes };
}

/* Maps of the step lie one after another in e->maps. */
typedef struct maps { gdn_span seq_start, state_src, state_dst, position, conv_src, conv_dst; } maps;

static gdn_span put(rt_engine *e, int64_t *at, const int32_t *values, int64_t n)
{
    memcpy((int32_t *)e->maps.host + *at, values, 4 * (size_t)n);
    gdn_span span = { e->maps.span.data, e->maps.span.offset + 4 * (uint64_t)*at, 4 * (uint64_t)n };
    *at += (n + 15) / 16 * 16;
    return span;
}

static gdn_status put_maps(rt_engine *e, const rt_step *step, maps *m)
{
    int64_t at = 0;
    m->seq_start = put(e, &at, step->seq_start, step->n_spans + 1);
    m->state_src = put(e, &at, step->state_src, step->n_spans);
    m->state_dst = put(e, &at, step->state_dst, (int64_t)step->n_spans * e->n_snapshots);
    m->position  = put(e, &at, step->length, step->n_spans);
    m->conv_src  = put(e, &at, step->conv_src, step->n_spans);
    m->conv_dst  = put(e, &at, step->conv_dst, step->n_spans);
    return rt_stage_push(&e->maps, 4 * (uint64_t)at);
}

static gdn_status convolve(rt_engine *e, const rt_layer *layer, const rt_step *step, const rt_pool *pool, const maps *m)
{
    const rt_hparams *hp = &e->model->hp;
    const rt_stage   *w  = &e->conv_weight[layer->index_in_kind];
    gdn_ssm_conv_args a  = { sizeof a };
    a.flags        = GDN_CONV_SILU;
    a.n_seqs       = step->n_spans;
    a.n_tokens     = step->n_rows;
    a.n_channels   = hp->n_channels;
    a.kernel_width = hp->conv_kernel;
    a.n_rows       = pool->n_conv_rows;
    a.n_columns    = pool->n_columns;
    a.x            = operand(&e->mixed, 0, hp->n_channels, 0);
    a.out          = operand(&e->conv_out, 0, hp->n_channels, 0);
    a.weight       = operand(w, 0, 0, 0);
    memset(a.weight.stride, 0, sizeof a.weight.stride);
    if (pool->n_columns) {
        a.history     = pooled(pool->conv);
        a.history_src = m->conv_src;
        a.history_dst = m->conv_dst;
    }
    a.seq_start = m->seq_start;
    a.position  = m->position;
    a.workspace = e->workspace;
    const gdn_status status = gdn_ssm_conv(e->device, &a, NULL);
    return status ? rt_fail_gdn(status, "ssm_conv") : GDN_OK;
}

static gdn_status delta(rt_engine *e, const rt_step *step, const rt_pool *pool, const maps *m)
{
    const rt_hparams *hp = &e->model->hp;
    const int64_t     d = hp->state_size, C = hp->n_channels, nk = hp->n_key_heads, nv = hp->n_value_heads;
    gdn_gated_delta_net_args a = { sizeof a };
    a.n_seqs      = step->n_spans;
    a.n_tokens    = step->n_rows;
    a.n_heads_k   = hp->n_key_heads;
    a.n_heads_v   = hp->n_value_heads;
    a.head_dim_k  = a.head_dim_v = hp->state_size;
    a.head_map    = hp->head_map;
    a.n_rows      = pool->n_slots; /* a flat pool: slots need not lie in rows */
    a.n_slots     = 1;
    a.n_snapshots = pool->n_snapshots;
    a.q           = operand(&e->conv_out, 0, C, d);
    a.k           = operand(&e->conv_out, nk * d, C, d);
    a.v           = operand(&e->conv_out, 2 * nk * d, C, d);
    a.g           = operand(&e->decay, 0, nv, 0);
    a.beta        = operand(&e->beta, 0, nv, 0);
    a.out         = operand(&e->delta_out, 0, nv * d, d);
    a.state       = pooled(pool->state);
    a.seq_start   = m->seq_start;
    a.state_src   = m->state_src;
    a.state_dst   = m->state_dst;
    a.workspace   = e->workspace;
    e->counters.recurrent_launches++;
    const gdn_status status = gdn_gated_delta_net(e->device, &a, NULL);
    return status ? rt_fail_gdn(status, "gated_delta_net") : GDN_OK;
}

/* Fused b and a of qwen3next: per key head, b of its r value heads, then a of them. */
static void split_ba(const rt_engine *e, int32_t n)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t     nv = hp->n_value_heads, r = nv / hp->n_key_heads;
    for (int32_t i = 0; i < n; i++)
        for (int32_t h = 0; h < nv; h++) {
            const float *from = e->ba + (int64_t)i * 2 * nv + (int64_t)(h / r) * 2 * r + h % r;
            e->b[(int64_t)i * nv + h] = from[0];
            e->a[(int64_t)i * nv + h] = from[r];
        }
}

gdn_status rt_layer_recurrent(rt_engine *e, const rt_layer *layer, const rt_step *step)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t     n = step->n_rows, E = hp->n_embd, C = hp->n_channels, nv = hp->n_value_heads, d = hp->state_size;
    const int32_t     inner = nv * d;
    rt_pool           pool  = rt_memory_pool(e->memory, layer->index_in_kind);
    maps              m;

    /* projections of the normed rows; the convolution's input goes where the device reads it */
    rt_rms_norm(e->dense, e->x, E, layer->attn_norm, hp->rms_eps, n, E, e->xn, E);
    rt_product products[4] = { { &layer->qkv, 0, e->mixed.host, C }, { &layer->gate, 0, e->gate, inner } };
    int        n_products  = 2;
    if (layer->ba.data) {
        products[n_products++] = (rt_product){ &layer->ba, 0, e->ba, 2 * nv };
    } else {
        products[n_products++] = (rt_product){ &layer->beta, 0, e->b, nv };
        products[n_products++] = (rt_product){ &layer->alpha, 0, e->a, nv };
    }
    rt_matmul_many(e->dense, products, n_products, e->xn, E, n, e->scratch);
    if (layer->ba.data)
        split_ba(e, n);
    rt_gates(e->dense, e->b, nv, e->a, nv, layer->dt_bias, layer->a, n, nv, e->beta.host, e->decay.host);

    /* q, k, v through the convolution; q and k to unit length per head */
    gdn_status status = put_maps(e, step, &m);
    if (!status)
        status = rt_stage_push(&e->mixed, 4 * (uint64_t)n * (uint64_t)C);
    if (!status)
        status = convolve(e, layer, step, &pool, &m);
    if (!status)
        status = rt_stage_pull(&e->conv_out, 4 * (uint64_t)n * (uint64_t)C);
    if (status)
        return status;
    float *u = e->conv_out.host;
    for (int32_t i = 0; i < n; i++)
        rt_l2_norm(e->dense, u + (int64_t)i * C, d, hp->l2_eps, hp->l2_mode, 2 * hp->n_key_heads, d, u + (int64_t)i * C, d);

    /* the recurrence, for all sequences at once */
    status = rt_stage_push(&e->conv_out, 4 * (uint64_t)n * (uint64_t)C);
    if (!status)
        status = rt_stage_push(&e->beta, 4 * (uint64_t)n * (uint64_t)nv);
    if (!status)
        status = rt_stage_push(&e->decay, 4 * (uint64_t)n * (uint64_t)nv);
    if (!status)
        status = delta(e, step, &pool, &m);
    if (!status)
        status = rt_stage_pull(&e->delta_out, 4 * (uint64_t)n * (uint64_t)inner);
    if (status)
        return status;

    /* gated norm per head, and out */
    float *o = e->delta_out.host;
    rt_rms_norm_silu_gate(e->dense, o, d, layer->ssm_norm, hp->rms_eps, e->gate, d, n * nv, d, o, d);
    rt_matmul(e->dense, &layer->ssm_out, 0, o, inner, n, e->proj, E, e->scratch);
    rt_add(e->dense, e->proj, e->x, (int64_t)n * E);
    return GDN_OK;
}

/* k or v rows into the cells of a cache. */
static gdn_status store(rt_engine *e, const float *rows, const rt_rows *at, unsigned char *cache)
{
    const rt_hparams *hp = &e->model->hp;
    gdn_set_rows_args a  = { sizeof a };
    a.n_columns  = (int64_t)hp->n_head_kv * hp->head_dim;
    a.n_rows     = at->n;
    a.n_rows_dst = e->n_cells;
    a.src.data   = (void *)(uintptr_t)rows;
    a.src.dtype  = GDN_F32;
    a.dst.data   = cache;
    a.dst.dtype  = e->kv_type;
    a.index.data  = (void *)(uintptr_t)at->new_cell;
    a.index.dtype = GDN_I32;
    const gdn_status status = gdn_set_rows(e->host, &a, NULL);
    return status ? rt_fail_gdn(status, "set_rows") : GDN_OK;
}

gdn_status rt_layer_attention(rt_engine *e, const rt_layer *layer, const rt_rows *rows)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t     n = rows->n, E = hp->n_embd, hd = hp->head_dim, nh = hp->n_head, nkv = hp->n_head_kv;

    /* q with its gate, k, v; q and k normed per head and rotated */
    rt_rms_norm(e->dense, e->x, E, layer->attn_norm, hp->rms_eps, n, E, e->xn, E);
    const rt_product products[] = { { &layer->wq, 0, e->qg, 2 * nh * hd }, { &layer->wk, 0, e->k, nkv * hd }, { &layer->wv, 0, e->v, nkv * hd } };
    rt_matmul_many(e->dense, products, 3, e->xn, E, n, e->scratch);
    rt_rms_norm(e->dense, e->qg, 2 * hd, layer->q_norm, hp->rms_eps, n * nh, hd, e->qg, 2 * hd);
    rt_rms_norm(e->dense, e->k, hd, layer->k_norm, hp->rms_eps, n * nkv, hd, e->k, hd);
    rt_rope_apply(e->dense, e->rope, rows->rope, e->qg, 2 * (int64_t)nh * hd, 2 * hd, n, nh);
    rt_rope_apply(e->dense, e->rope, rows->rope, e->k, (int64_t)nkv * hd, hd, n, nkv);

    /* into the cache, then every row over the cells of its own sequence */
    unsigned char *k_cache = rt_memory_k(e->memory, layer->index_in_kind), *v_cache = rt_memory_v(e->memory, layer->index_in_kind);
    gdn_status     status  = store(e, e->k, rows, k_cache);
    if (!status)
        status = store(e, e->v, rows, v_cache);
    if (status)
        return status;
    const rt_attention_args a = { e->qg, 2 * (int64_t)nh * hd, 2 * hd, k_cache, v_cache,
                                  e->kv_type == GDN_F32 ? RT_F32 : e->kv_type == GDN_F16 ? RT_F16 : RT_BF16,
                                  n, nh, nkv, hd, e->attention_scale, rows->cells, rows->n_cells, e->attn, e->attn_scratch };
    rt_attention(e->dense, &a);

    /* gate and out */
    rt_sigmoid_gate(e->dense, e->attn, hd, e->qg + hd, 2 * hd, n * nh, hd, e->attn, hd);
    rt_matmul(e->dense, &layer->wo, 0, e->attn, (int64_t)nh * hd, n, e->proj, E, e->scratch);
    rt_add(e->dense, e->proj, e->x, (int64_t)n * E);
    return GDN_OK;
}
