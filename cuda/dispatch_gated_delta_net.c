/* gated_delta_net: from a problem to a launch. The kernels say how the work is cut. */
#include <stdio.h>

#include "core/status.h"
#include "cuda/device.h"

typedef gdn_gated_delta_net_problem problem_t;

/* Which kernel: `tiles` for many tokens per sequence on average, `rows` for few. Sequences of a batch may differ, and maps are
 * the device's to read; either kernel takes any length and gives the same bits. */
enum { FEW_TOKENS = 8 };

static int in_tiles(const problem_t *p)
{
    return (int64_t)p->n_tokens > FEW_TOKENS * (int64_t)p->n_seqs;
}

/* Variants of either: NB = 2, 4, 8 blocks of 32 keys with 16-byte accesses, or the general one. */
enum { NB_2, NB_4, NB_8, GENERAL };

static int blocks_of_keys(const problem_t *p)
{
    return p->head_dim_k == 64 ? NB_2 : p->head_dim_k == 128 ? NB_4 : p->head_dim_k == 256 ? NB_8 : GENERAL;
}

/* Columns of a thread block: Shape::COLUMNS of the kernels. */
static uint64_t columns(int tiles, int nb)
{
    const int per_lanes = !tiles && nb <= NB_4 ? 4 : 2;
    return GDN_CUDA_DELTA_WARPS * 4 * (uint64_t)per_lanes;
}

static uint64_t blocks(const problem_t *p, int nb)
{
    return ((uint64_t)p->head_dim_v + columns(in_tiles(p), nb) - 1) / columns(in_tiles(p), nb);
}

void gdn_cuda_plan_gated_delta_net(const gdn_cuda_device *dev, const problem_t *p, gdn_plan *plan)
{
    gdn_capability *c = &plan->capability;
    (void)dev;
    (void)snprintf(c->implementation, sizeof c->implementation, "fma/%s", in_tiles(p) ? "tiles" : "rows");
    if (p->n_heads_v > GDN_CUDA_MAX_BLOCKS_YZ) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "n_heads_v is %d; a CUDA grid has at most %d of them", (int)p->n_heads_v, GDN_CUDA_MAX_BLOCKS_YZ);
    }
}

static gdn_cuda_tokens tokens(const gdn_token_view *view)
{
    return (gdn_cuda_tokens){ gdn_cuda_address(&view->at), view->stride_seq, view->stride_token, view->stride_head };
}

static gdn_cuda_pool pool(const gdn_state_view *view)
{
    return (gdn_cuda_pool){ gdn_cuda_address(&view->at), view->stride_row, view->stride_slot, view->stride_head, view->stride_line };
}

/* All bits of what decides the alignment of rows. Those of 16-bit elements are loaded 8 bytes at a time. */
static uint64_t token_bits(const gdn_cuda_tokens *t, int32_t dtype)
{
    const uint64_t bits = t->base | (uint64_t)t->seq | (uint64_t)t->token | (uint64_t)t->head;
    return dtype == GDN_F32 ? bits : 2 * bits;
}

static uint64_t pool_bits(const gdn_cuda_pool *t)
{
    return t->base | (uint64_t)t->row | (uint64_t)t->slot | (uint64_t)t->head | (uint64_t)t->line;
}

static int aligned(const problem_t *p, const gdn_cuda_gated_delta_net *x)
{
    uint64_t bits = token_bits(&x->q, p->q.dtype) | token_bits(&x->k, p->k.dtype);
    bits |= p->gate == GDN_GATE_CHANNEL ? token_bits(&x->g, GDN_F32) : 0;
    bits |= in_tiles(p) ? 0 : pool_bits(&x->state_in) | pool_bits(&x->state_out);
    return bits % 16 == 0;
}

static gdn_cuda_kernel kernel_of(const problem_t *p, int nb)
{
    static const gdn_cuda_kernel kernels[2][4] = {
        { GDN_CUDA_delta_rows_2, GDN_CUDA_delta_rows_4, GDN_CUDA_delta_rows_8, GDN_CUDA_delta_rows_general },
        { GDN_CUDA_delta_tiles_2, GDN_CUDA_delta_tiles_4, GDN_CUDA_delta_tiles_8, GDN_CUDA_delta_tiles_general },
    };
    const int channel = p->gate == GDN_GATE_CHANNEL;
    const int narrow  = p->q.dtype != GDN_F32 || p->k.dtype != GDN_F32 || p->v.dtype != GDN_F32;
    const int variant = nb == GENERAL ? channel : 2 * channel + narrow; /* in the order of GDN_CUDA_DELTA_KERNELS */
    return (gdn_cuda_kernel)((int)kernels[in_tiles(p)][nb] + variant);
}

gdn_status gdn_cuda_run_gated_delta_net(gdn_cuda_device *dev, const problem_t *p, const gdn_plan *plan, CUstream stream)
{
    (void)plan;
    const gdn_cuda_gated_delta_net params = {
        .q = tokens(&p->q), .k = tokens(&p->k), .v = tokens(&p->v), .g = tokens(&p->g), .beta = tokens(&p->beta),
        .result = tokens(&p->out), .state_in = pool(&p->state_in), .state_out = pool(&p->state_out),
        .seq_start = gdn_cuda_address(&p->seq_start), .state_src = gdn_cuda_address(&p->state_src),
        .state_dst = gdn_cuda_address(&p->state_dst), .bad = dev->bad_address,
        .n_seqs = p->n_seqs, .n_tokens = p->n_tokens, .n_heads_k = p->n_heads_k, .n_heads_v = p->n_heads_v,
        .head_dim_k = p->head_dim_k, .head_dim_v = p->head_dim_v, .head_map = p->head_map, .n_snapshots = p->n_snapshots,
        .slots_in = p->state_in.n_slots, .entries_in = p->state_in.n_rows * p->state_in.n_slots,
        .slots_out = p->state_out.n_slots, .entries_out = p->state_out.n_rows * p->state_out.n_slots,
        .q_dtype = p->q.dtype, .k_dtype = p->k.dtype, .v_dtype = p->v.dtype, .key_major = p->state_layout == GDN_STATE_KV,
        .even_tokens = p->n_tokens / p->n_seqs, .scale = p->scale,
    };
    const int nb = aligned(p, &params) ? blocks_of_keys(p) : GENERAL;
    const uint32_t grid[3] = { (uint32_t)p->n_seqs, (uint32_t)p->n_heads_v, (uint32_t)blocks(p, nb) };
    return gdn_cuda_launch_3d(dev, kernel_of(p, nb), stream, grid, 32 * GDN_CUDA_DELTA_WARPS, &params);
}
