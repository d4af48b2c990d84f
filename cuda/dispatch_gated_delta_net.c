/* gated_delta_net: chooses the device kernel and launches it. The kernels define how the work is divided. */
#include "cuda/device.h"

/* The bits of all addresses of rows, for alignment. Rows of 16-bit elements are loaded 8 bytes at a time. */
static uint64_t token_bits(const gdn_token_view *view)
{
    return (view->dtype == GDN_F32 ? 1u : 2u) * gdn_gpu_token_bits(view);
}

static uint64_t pool_bits(const gdn_pool_view *view)
{
    return (view->dtype == GDN_F32 ? 1u : 2u) * gdn_gpu_pool_bits(view);
}

/* 1 for heads of 128 keys whose rows are aligned to 16 bytes. A log entry has deltas and decays behind its keys. */
static int is_4(const gdn_gated_delta_net_call *p)
{
    uint64_t bits = token_bits(&p->q) | token_bits(&p->k) | pool_bits(&p->state) | pool_bits(&p->state_out);
    bits |= p->gate == GDN_GATE_CHANNEL ? token_bits(&p->g) | token_bits(&p->dt_bias) : 0;
    bits |= p->log.n_slots ? gdn_gpu_pool_bits(&p->log) | 4 * (uint64_t)p->head_dim_v : 0;
    return bits % 16 == 0 && p->head_dim_k == 128 && !gdn_has_read_key(p);
}

/* 1 for a `tiles` kernel, which is for sequences of many tokens and also runs those of few that a batch has beside
 * them. A `rows` kernel is for few, takes any length and gives the same bits. Only the device can read the lengths, and
 * which sequences use the log. ragged: sequences may differ in length. Calls with few tokens per sequence on average
 * may still have a long one. But these count as verifications, in which all are short: several snapshots without a log;
 * equal numbers of tokens with a log. */
static int in_tiles(const gdn_gated_delta_net_call *p, int ragged)
{
    const int64_t n = p->n_tokens;
    if ((p->has & GDN_HAS_TREE) || p->rounding_interval || p->n_seqs < 1 || !is_4(p)) return 0;
    if (n > GDN_CUDA_FEW_TOKENS * (int64_t)p->n_seqs) return 1;
    if (p->log.n_slots ? n % p->n_seqs == 0 : p->n_snapshots > 1) return 0;
    return ragged && n - p->n_seqs >= GDN_CUDA_FEW_TOKENS;
}

/* The device kernel of a call. */
typedef struct choice_t {
    gdn_cuda_kernel kernel;
    uint32_t values; /* of a thread block: Shape::VALUES of the kernel */
} choice_t;

#define ONE(kernel, C) ((choice_t){ kernel, 4 * GDN_CUDA_DELTA_WARPS * (C) })

static choice_t choose(const gdn_gated_delta_net_call *p)
{
    const int channel = p->gate == GDN_GATE_CHANNEL, four = is_4(p);
    if (in_tiles(p, (p->has & GDN_HAS_SEQ_START) != 0))
        return channel ? ONE(GDN_CUDA_delta_tiles_4_channel, 2) : ONE(GDN_CUDA_delta_tiles_4, 2);
    if (p->rounding_interval) {
        if (four && !(p->has & GDN_HAS_TREE) && !channel) return ONE(GDN_CUDA_delta_rows_4_state16, 4);
        return channel ? ONE(GDN_CUDA_delta_rows_general_channel_state16, 1)
                       : ONE(GDN_CUDA_delta_rows_general_state16, 1);
    }
    if ((p->has & GDN_HAS_TREE) && four)
        return channel ? ONE(GDN_CUDA_delta_rows_4_channel_tree, 2) : ONE(GDN_CUDA_delta_rows_4_tree, 2);
    if (!four) return channel ? ONE(GDN_CUDA_delta_rows_general_channel, 1) : ONE(GDN_CUDA_delta_rows_general, 2);
    return channel ? ONE(GDN_CUDA_delta_rows_4_channel, 4) : ONE(GDN_CUDA_delta_rows_4, 4);
}

static int is_tiles(gdn_cuda_kernel kernel)
{
    return kernel == GDN_CUDA_delta_tiles_4 || kernel == GDN_CUDA_delta_tiles_4_channel;
}

void gdn_cuda_plan_gated_delta_net(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
    const gdn_cuda_device *dev = ctx->state;
    gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const choice_t choice = choose(p);
    gdn_gated_delta_net_call nowhere =
        *p; /* the form does not depend on addresses: a query without data gets the same */
    nowhere.q.data = nowhere.k.data = nowhere.g.data = nowhere.dt_bias.data = 0;
    nowhere.state.data = nowhere.state_out.data = nowhere.log.data = 0;
    plan->variant = in_tiles(&nowhere, 1) ? GDN_VARIANT_TILES : GDN_VARIANT_ROWS;
    gpu.most_blocks = UINT64_MAX; /* a grid of three dimensions */
    plan->gpu.device_kernel = (int32_t)choice.kernel;
    gdn_gpu_plan_gated_delta_net(&gpu, p, choice.values, plan);
    if (is_tiles(choice.kernel)) { /* blocks for sequences of many tokens, then for those of few */
        plan->gpu.blocks = gdn_gpu_parts((uint64_t)p->head_dim_v, choice.values) +
                           gdn_gpu_parts((uint64_t)p->head_dim_v, GDN_CUDA_TILES_ROWS_VALUES);
        plan->n_items = (int64_t)gdn_gpu_product((uint64_t)p->n_seqs * (uint64_t)p->n_heads_v, plan->gpu.blocks);
    }
    if (p->n_heads_v > GDN_CUDA_MAX_BLOCKS_YZ) plan->refused = GDN_REFUSED_HEADS;
}

gdn_status gdn_cuda_run_gated_delta_net(void *device, const gdn_problem *problem, const gdn_plan *plan,
                                        gdn_stream stream)
{
    gdn_cuda_device *dev = device;
    const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const gdn_gated_delta_net_call params = gdn_gpu_call_gated_delta_net(&gpu, problem, plan);
    const uint32_t grid[3] = { (uint32_t)p->n_seqs, (uint32_t)p->n_heads_v, (uint32_t)plan->gpu.blocks };
    const gdn_cuda_kernel kernel = (gdn_cuda_kernel)plan->gpu.device_kernel;
    const uint32_t warps = is_tiles(kernel) ? GDN_CUDA_TILES_WARPS : GDN_CUDA_DELTA_WARPS;
    CUstream on;
    const gdn_status status = gdn_cuda_stream(dev, stream, &on);
    return status ? status : gdn_cuda_launch(dev, kernel, on, grid, 32 * warps, &params);
}
