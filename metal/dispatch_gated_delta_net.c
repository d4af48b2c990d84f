/* gated_delta_net: from a problem to a dispatch. The kernels say how the work is cut. */
#include <stdio.h>

#include "core/status.h"
#include "metal/device.h"

typedef gdn_gated_delta_net_problem problem_t;

/* Kernels of NB = 2, 4, 8 blocks of 32 keys; head sizes that are not exactly that many take the next, as `any`. */
static int size_of(const problem_t *p)
{
    return p->head_dim_k <= 64 ? 0 : p->head_dim_k <= 128 ? 1 : 2;
}

static gdn_metal_kernel kernel_of(const problem_t *p)
{
    const int any = p->head_dim_k != 64 << size_of(p), channel = p->gate == GDN_GATE_CHANNEL;
    return (gdn_metal_kernel)((int)GDN_METAL_delta_2 + 4 * size_of(p) + 2 * any + channel); /* in the order of GDN_METAL_KERNELS */
}

static uint64_t blocks(const problem_t *p)
{
    const uint64_t columns = GDN_METAL_DELTA_THREADS / 8 * (size_of(p) < 2 ? 4 : 2); /* of a threadgroup */
    return ((uint64_t)p->head_dim_v + columns - 1) / columns;
}

static uint64_t items(const problem_t *p)
{
    return (uint64_t)p->n_seqs * (uint64_t)p->n_heads_v * blocks(p);
}

void gdn_metal_plan_gated_delta_net(const gdn_metal_device *dev, const problem_t *p, gdn_plan *plan)
{
    gdn_capability *c = &plan->capability;
    (void)dev;
    (void)snprintf(c->implementation, sizeof c->implementation, "fma/rows");
    if (items(p) > GDN_METAL_MAX_GROUPS) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "the call has 2^31 threadgroups or more (sequences x heads x blocks of columns)");
    }
}

static gdn_metal_tokens tokens(const gdn_token_view *view)
{
    return (gdn_metal_tokens){ view->stride_seq, view->stride_token, view->stride_head };
}

static gdn_metal_pool pool(const gdn_state_view *view)
{
    return (gdn_metal_pool){ view->stride_row, view->stride_slot, view->stride_head, view->stride_line };
}

gdn_status gdn_metal_run_gated_delta_net(gdn_metal_device *dev, const problem_t *p, const gdn_plan *plan, gdn_stream stream)
{
    (void)plan;
    gdn_metal_gated_delta_net params = {
        .q = tokens(&p->q), .k = tokens(&p->k), .v = tokens(&p->v), .g = tokens(&p->g), .beta = tokens(&p->beta),
        .result = tokens(&p->out), .state_in = pool(&p->state_in), .state_out = pool(&p->state_out),
        .n_seqs = p->n_seqs, .n_tokens = p->n_tokens, .n_heads_k = p->n_heads_k, .n_heads_v = p->n_heads_v,
        .head_dim_k = p->head_dim_k, .head_dim_v = p->head_dim_v, .head_map = p->head_map, .n_snapshots = p->n_snapshots,
        .slots_in = p->state_in.n_slots, .entries_in = p->state_in.n_rows * p->state_in.n_slots,
        .slots_out = p->state_out.n_slots, .entries_out = p->state_out.n_rows * p->state_out.n_slots,
        .q_dtype = p->q.dtype, .k_dtype = p->k.dtype, .v_dtype = p->v.dtype, .key_major = p->state_layout == GDN_STATE_KV,
        .blocks = (int32_t)blocks(p), .even_tokens = p->n_tokens / p->n_seqs, .scale = p->scale,
        .has = (p->seq_start.data ? GDN_METAL_HAS_SEQ_START : 0) | (p->state_src.data ? GDN_METAL_HAS_SRC : 0) |
               (p->state_dst.data ? GDN_METAL_HAS_DST : 0),
    };
    params.has |= gdn_metal_one_pool(&p->state_in.at, &p->state_out.at, &params.pool_offset);
    const gdn_place bad = { .data = dev->bad_buffer };
    const gdn_place *const operands[] = { &p->q.at, &p->k.at, &p->v.at, &p->g.at, &p->beta.at, &p->out.at, &p->state_in.at, &p->state_out.at,
                                          &p->seq_start, &p->state_src, &p->state_dst, &bad };
    gdn_metal_dispatch dispatch = { .kernel = kernel_of(p), .params = &params, .params_bytes = sizeof params, .groups = items(p),
                                    .threads = GDN_METAL_DELTA_THREADS, .n_bindings = sizeof operands / sizeof operands[0] };
    for (uint32_t i = 0; i < dispatch.n_bindings; i++)
        dispatch.bindings[i] = gdn_metal_bind(operands[i]);
    return gdn_metal_run(dev, &dispatch, 1, stream);
}
