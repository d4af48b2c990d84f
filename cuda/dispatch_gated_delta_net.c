/* gated_delta_net: chooses the device kernel and launches it. The kernels define how the work is divided. */
#include "cuda/device.h"

typedef gdn_gated_delta_net_problem problem_t;

/* The bits of all addresses of rows, for alignment. Rows of 16-bit elements are loaded 8 bytes at a time. */
static uint64_t token_bits(const gdn_gpu_device *gpu, const gdn_token_view *view)
{
    const gdn_gpu_tokens tokens = gdn_gpu_tokens_of(gpu, view);
    return (view->dtype == GDN_F32 ? 1u : 2u) * gdn_gpu_token_bits(&tokens);
}

static uint64_t pool_bits(const gdn_gpu_device *gpu, const gdn_state_view *view)
{
    const gdn_gpu_pool pool = gdn_gpu_pool_of(gpu, view);
    return (view->dtype == GDN_F32 ? 1u : 2u) * gdn_gpu_pool_bits(&pool);
}

/* The same for the log, including the offsets of deltas and decays in an entry. */
static uint64_t log_bits(const gdn_gpu_device *gpu, const problem_t *p)
{
    const gdn_gpu_pool log = { .base = gdn_gpu_address(gpu, &p->log.at),
                               .row = p->log.stride_row,
                               .line = p->log.stride_slot };
    return p->log.n_slots ? gdn_gpu_pool_bits(&log) | 4 * (uint64_t)p->head_dim_v : 0;
}

/* 1 for heads of 128 keys whose rows are aligned to 16 bytes. Prefill loads states element by element. */
static int is_4(const gdn_gpu_device *gpu, const problem_t *p, int prefill)
{
    uint64_t bits = token_bits(gpu, &p->q) | token_bits(gpu, &p->k);
    bits |= p->gate == GDN_GATE_CHANNEL ? token_bits(gpu, &p->g) | token_bits(gpu, &p->dt_bias) : 0;
    bits |= prefill ? 0 : pool_bits(gpu, &p->state_in) | pool_bits(gpu, &p->state_out) | log_bits(gpu, p);
    return bits % 16 == 0 && p->head_dim_k == 128 && !gdn_has_read_key(p);
}

static int has_many_tokens(const problem_t *p)
{
    return (int64_t)p->n_tokens > GDN_CUDA_FEW_TOKENS * (int64_t)p->n_seqs;
}

/* 1 for a `tiles` kernel: many tokens per sequence on average. A `rows` kernel is for few. Sequences of a batch may
 * differ, and only the device can read the maps. Both kernels take any length and give the same bits. */
static int in_tiles(const gdn_gpu_device *gpu, const problem_t *p)
{
    return has_many_tokens(p) && is_4(gpu, p, 1) && !p->tree && !p->state_interval && !p->log.n_slots;
}

/* The device kernel of a call. */
typedef struct choice_t {
    gdn_form form;
    gdn_cuda_kernel kernel;
    uint32_t values; /* of a thread block: Shape::VALUES of the kernel */
    int mixed;
} choice_t;

#define ONE(name, C) ((choice_t){ GDN_FORM_ROWS, GDN_CUDA_delta_##name, 4 * GDN_CUDA_DELTA_WARPS * (C), 0 })

/* The choice if one kernel runs all sequences. */
static choice_t one_kernel(const gdn_gpu_device *gpu, const problem_t *p)
{
    const int channel = p->gate == GDN_GATE_CHANNEL, four = is_4(gpu, p, 0);
    choice_t choice;
    if (in_tiles(gpu, p)) {
        choice = channel ? ONE(tiles_4_channel, 2) : ONE(tiles_4, 2);
        choice.form = GDN_FORM_TILES;
        return choice;
    }
    if (p->state_interval) {
        if (four && !p->tree && !channel) return ONE(rows_4_state16, 4);
        return channel ? ONE(rows_general_channel_state16, 1) : ONE(rows_general_state16, 1);
    }
    if (p->tree && four) return channel ? ONE(rows_4_channel_tree, 2) : ONE(rows_4_tree, 2);
    if (p->tree) return channel ? ONE(rows_general_channel_tree, 1) : ONE(rows_general_tree, 2);
    if (!four) return channel ? ONE(rows_general_channel, 1) : ONE(rows_general, 2);
    return channel ? ONE(rows_4_channel, 4) : ONE(rows_4, 4);
}

/* 1 if the call may have both sequences of many tokens and of few; a `mixed` kernel then runs it. Only the device can
 * read the lengths, and which sequences use the log. These calls count as verifications, in which all sequences are
 * short, unless they have many tokens on average: several snapshots without a log; equal numbers of tokens with a log.
 * */
static int may_be_mixed(const gdn_gpu_device *gpu, const problem_t *p)
{
    const int log = p->log.n_slots != 0, many = has_many_tokens(p);
    if (p->tree || p->state_interval || p->n_seqs < 1 || !is_4(gpu, p, 0)) return 0;
    if (!many && (log ? p->n_tokens % p->n_seqs == 0 : p->n_snapshots > 1)) return 0;
    return log ? many || p->n_tokens - p->n_seqs >= GDN_CUDA_FEW_TOKENS
               : p->n_seqs >= 2 && p->n_tokens - p->n_seqs >= GDN_CUDA_FEW_TOKENS;
}

static choice_t choose(const gdn_gpu_device *gpu, const problem_t *p)
{
    choice_t choice = one_kernel(gpu, p);
    if (!may_be_mixed(gpu, p)) return choice;
    choice.form = GDN_FORM_MIXED;
    /* Without a map all sequences have equally many tokens. One kernel is then enough, unless there is a log. */
    if (!p->seq_start.data && !p->log.n_slots) return choice;
    choice.kernel = p->gate == GDN_GATE_CHANNEL ? GDN_CUDA_delta_mixed_4_channel : GDN_CUDA_delta_mixed_4;
    choice.mixed = 1;
    return choice;
}

/* Warps of a thread block. Prefill doubles them for producer warps, except for F32. */
static uint32_t warps_of(gdn_cuda_kernel kernel)
{
    const int more = kernel == GDN_CUDA_delta_tiles_4 || kernel == GDN_CUDA_delta_tiles_4_channel ||
                     kernel == GDN_CUDA_delta_mixed_4 || kernel == GDN_CUDA_delta_mixed_4_channel;
    return more ? GDN_CUDA_PREPARED_WARPS : GDN_CUDA_DELTA_WARPS;
}

void gdn_cuda_plan_gated_delta_net(const gdn_context *ctx, const void *problem, gdn_plan *plan)
{
    const problem_t *p = problem;
    const gdn_cuda_device *dev = ctx->state;
    gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    gdn_gpu_device nowhere = gpu;
    nowhere.address = NULL; /* the form does not depend on addresses, so that a query without data gets the same */
    plan->form = choose(&nowhere, p).form;
    const choice_t choice = choose(&gpu, p);
    gpu.most_blocks = UINT64_MAX; /* a grid of three dimensions */
    plan->variant = (int32_t)choice.kernel;
    gdn_gpu_plan_gated_delta_net(&gpu, p, choice.values, plan);
    if (choice.mixed) {
        plan->blocks = gdn_gpu_parts((uint64_t)p->head_dim_v, 8 * GDN_CUDA_DELTA_WARPS) +
                       gdn_gpu_parts((uint64_t)p->head_dim_v, GDN_CUDA_MIXED_VALUES);
        plan->n_items = (int64_t)gdn_gpu_product((uint64_t)p->n_seqs * (uint64_t)p->n_heads_v, plan->blocks);
    }
    if (p->n_heads_v > GDN_CUDA_MAX_BLOCKS_YZ) plan->refused = GDN_REFUSED_HEADS;
}

gdn_status gdn_cuda_run_gated_delta_net(void *device, const void *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_cuda_device *dev = device;
    const problem_t *p = problem;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const gdn_gpu_gated_delta_net params = gdn_gpu_params_gated_delta_net(&gpu, p, plan);
    const uint32_t grid[3] = { (uint32_t)p->n_seqs, (uint32_t)p->n_heads_v, (uint32_t)plan->blocks };
    const gdn_cuda_kernel kernel = (gdn_cuda_kernel)plan->variant;
    CUstream on;
    const gdn_status status = gdn_cuda_stream(dev, stream, &on);
    return status ? status : gdn_cuda_launch(dev, kernel, on, grid, 32 * warps_of(kernel), &params);
}
