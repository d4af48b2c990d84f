/* gated_delta_net: chooses the device kernel and launches it. The kernels define how the work is divided. */
#include "cuda/device.h"

#include "cuda/chunked.h"

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
    return bits % 16 == 0 && p->head_dim_k == 128 && !(p->has & GDN_HAS_READ_KEY);
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

/* 1 for a `decode` kernel: one token per sequence on average, and nothing else. Sequences with another number of tokens
 * get the same bits, but take longer. */
static int in_decode(const gdn_gated_delta_net_call *p)
{
    return p->n_tokens > 0 && p->n_tokens <= p->n_seqs && !(p->has & GDN_HAS_TREE) && p->state_layout != GDN_STATE_KV &&
           p->head_dim_v % GDN_CUDA_DELTA_VALUES(1) == 0 && is_4(p);
}

/* Value channels of a thread block that decodes. Few blocks leave multiprocessors without work; many repeat what is the
 * same for all value channels of a head. */
static uint32_t decode_values(const gdn_gated_delta_net_call *p, uint64_t multiprocessors)
{
    const uint64_t heads = (uint64_t)p->n_seqs * (uint64_t)p->n_heads_v,
                   blocks = heads * (uint64_t)p->head_dim_v / GDN_CUDA_DELTA_VALUES(4);
    uint32_t C = blocks <= multiprocessors ? 1 : blocks <= 2 * multiprocessors ? 2 : 4;
    if (C == 4 && p->gate == GDN_GATE_CHANNEL && !p->rounding_interval) C = 2; /* the kernel has no more */
    while ((uint32_t)p->head_dim_v % GDN_CUDA_DELTA_VALUES(C)) C /= 2;
    return GDN_CUDA_DELTA_VALUES(C);
}

/* The device kernel of a call. */
typedef struct choice_t {
    gdn_cuda_kernel kernel;
    uint32_t values; /* of a thread block: Shape::VALUES of the kernel */
} choice_t;

/* The self-test's calls are small. A device of two multiprocessors has kernels for many thread blocks run them too. */
enum { SELF_TEST_MULTIPROCESSORS = 2 };

static choice_t choose(const gdn_cuda_device *dev, const gdn_gated_delta_net_call *p)
{
    const uint64_t multiprocessors =
        dev->gpu.self_test.busy ? SELF_TEST_MULTIPROCESSORS : (uint64_t)dev->traits.multiprocessors;
    const int channel = p->gate == GDN_GATE_CHANNEL, tree = (p->has & GDN_HAS_TREE) != 0;
    if (in_decode(p))
        return (choice_t){ channel ? GDN_CUDA_delta_decode_4_channel : GDN_CUDA_delta_decode_4,
                           decode_values(p, multiprocessors) };
    if (in_tiles(p, (p->has & GDN_HAS_SEQ_START) != 0)) {
        const uint64_t heads = (uint64_t)p->n_seqs * (uint64_t)p->n_heads_v;
        for (uint32_t C = 1; C <= 2; C++)
            if (heads * gdn_gpu_parts((uint64_t)p->head_dim_v, GDN_CUDA_DELTA_VALUES(C)) <= multiprocessors)
                return (choice_t){ channel ? GDN_CUDA_delta_tiles_4_wide_channel : GDN_CUDA_delta_tiles_4_wide,
                                   GDN_CUDA_DELTA_VALUES(C) };
        return (choice_t){ channel ? GDN_CUDA_delta_tiles_4_channel : GDN_CUDA_delta_tiles_4,
                           GDN_CUDA_DELTA_VALUES(2) };
    }
    if (is_4(p) && !(channel && p->rounding_interval) && !(tree && p->rounding_interval))
        return (choice_t){ channel ? GDN_CUDA_delta_rows_4_channel : GDN_CUDA_delta_rows_4,
                           GDN_CUDA_DELTA_VALUES(tree ? 2 : 4) };
    return (choice_t){ channel ? GDN_CUDA_delta_rows_general_channel : GDN_CUDA_delta_rows_general,
                       GDN_CUDA_DELTA_VALUES(channel || p->rounding_interval ? 1 : 2) };
}

/* ---- The chunked form: the kernel `prepare`, then that of the chain ---- */

/* `prepare` gets about as many thread blocks as fill a device; where there are fewer chunks, one for each. */
enum { PREPARE_BLOCKS = 4096 };

/* What the kernels receive, but for addresses. A sequence has a record for every 32 of its tokens in the call, and
 * `spare` more. These are for entries of the log, at most n_slots, and for chunks that begin before the call. */
static gdn_cuda_chunked_call chunked_call(const gdn_gated_delta_net_call *p)
{
    const int32_t n = p->head_dim_k, steps = (n + 31) / 32, sides = p->has & GDN_HAS_READ_KEY ? 3 : 2;
    const uint64_t heads = gdn_gpu_product((uint64_t)p->n_seqs, (uint64_t)p->n_heads_k);
    gdn_cuda_chunked_call c = { .call = *p, .spare = (int32_t)((62 + (int64_t)p->log.n_slots) / 32) };
    c.side_bytes = 2 * steps * p->digits * 512;
    c.transposed_at = sides * c.side_bytes;
    c.left_at = c.transposed_at + n / 16 * p->digits * 512;
    c.key_bytes = c.left_at + 4 * n;
    c.keys_at = (int64_t)p->n_heads_v * GDN_CUDA_CHUNKED_HEAD;
    c.record_bytes = c.keys_at + (int64_t)p->n_heads_k * c.key_bytes;
    const int64_t most = p->n_tokens / 32 + (int64_t)c.spare,
                  fill = 1 + (int64_t)(PREPARE_BLOCKS / (heads ? heads : 1));
    c.parts = (int32_t)(most < fill ? most : fill);
    return c;
}

static void plan_chunked(const gdn_gpu_device *gpu, gdn_cuda_digits as, const gdn_gated_delta_net_call *p,
                         gdn_plan *plan)
{
    const gdn_cuda_chunked_call c = chunked_call(p);
    const uint64_t records = (uint64_t)(p->n_tokens / 32) + (uint64_t)p->n_seqs * (uint64_t)c.spare;
    gdn_gpu_plan_gated_delta_net(gpu, p, GDN_CUDA_CHUNKED_VALUES, plan);
    plan->variant = GDN_VARIANT_CHUNKED;
    plan->workspace_bytes = gdn_gpu_product(records, (uint64_t)c.record_bytes);
    if (as == GDN_CUDA_DIGITS_F16)
        plan->gpu.device_kernel = p->head_dim_k <= 128 ? GDN_CUDA_chunked_128_f16 : GDN_CUDA_chunked_256_f16;
    else plan->gpu.device_kernel = p->head_dim_k <= 128 ? GDN_CUDA_chunked_128 : GDN_CUDA_chunked_256;
    plan->gpu.constants[0] = (uint32_t)p->digits | (uint32_t)(p->state.dtype == GDN_F32) << 8;
    if (p->gate == GDN_GATE_CHANNEL) plan->refused = GDN_REFUSED_GATE;
    else if (p->n_heads_v > GDN_CUDA_MAX_BLOCKS_YZ) plan->refused = GDN_REFUSED_HEADS;
    else if (as == GDN_CUDA_DIGITS_NONE) plan->refused = GDN_REFUSED_DIGITS;
}

static gdn_status run_chunked(gdn_cuda_device *dev, const gdn_problem *problem, const gdn_plan *plan, CUstream on)
{
    const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const uint32_t threads = 32 * GDN_CUDA_CHUNKED_WARPS;
    gdn_cuda_chunked_call params = chunked_call(p);
    params.call = gdn_gpu_call_gated_delta_net(&gpu, problem, plan);
    params.workspace = problem->workspace;
    const uint32_t prepare[3] = { (uint32_t)p->n_seqs, (uint32_t)p->n_heads_k, (uint32_t)params.parts },
                   chain[3] = { (uint32_t)p->n_seqs, (uint32_t)p->n_heads_v, (uint32_t)plan->gpu.blocks };
    const gdn_cuda_kernel first =
        dev->digits == GDN_CUDA_DIGITS_F16 ? GDN_CUDA_chunked_prepare_f16 : GDN_CUDA_chunked_prepare;
    const gdn_status status = gdn_cuda_launch(dev, first, on, prepare, threads, &params);
    return status ? status
                  : gdn_cuda_launch(dev, (gdn_cuda_kernel)plan->gpu.device_kernel, on, chain, threads, &params);
}

void gdn_cuda_plan_gated_delta_net(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
    const gdn_cuda_device *dev = ctx->state;
    gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    gpu.most_blocks = UINT64_MAX; /* a grid of three dimensions */
    if (p->digits) {
        plan_chunked(&gpu, dev->digits, p, plan);
        return;
    }
    const choice_t choice = choose(dev, p);
    gdn_gated_delta_net_call nowhere =
        *p; /* the variant does not depend on addresses: a query without data gets the same */
    nowhere.q.data = nowhere.k.data = nowhere.g.data = nowhere.dt_bias.data = 0;
    nowhere.state.data = nowhere.state_out.data = nowhere.log.data = 0;
    plan->variant = in_tiles(&nowhere, 1) ? GDN_VARIANT_TILES : GDN_VARIANT_ROWS;
    plan->gpu.device_kernel = (int32_t)choice.kernel;
    /* Which shape in the kernel: the self-test runs all. */
    plan->gpu.constants[0] = choice.values | (uint32_t)(p->rounding_interval != 0) << 16 |
                             (uint32_t)((p->has & GDN_HAS_TREE) != 0) << 17 | (uint32_t)(p->log.n_slots != 0) << 18;
    gdn_gpu_plan_gated_delta_net(&gpu, p, choice.values, plan);
    if (p->n_heads_v > GDN_CUDA_MAX_BLOCKS_YZ) plan->refused = GDN_REFUSED_HEADS;
}

gdn_status gdn_cuda_run_gated_delta_net(void *device, const gdn_problem *problem, const gdn_plan *plan,
                                        gdn_stream stream)
{
    gdn_cuda_device *dev = device;
    const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const gdn_gated_delta_net_call params = gdn_gpu_call_gated_delta_net(&gpu, problem, plan);
    const gdn_cuda_kernel kernel = (gdn_cuda_kernel)plan->gpu.device_kernel;
    const int tiles = kernel >= GDN_CUDA_delta_tiles_4 && kernel <= GDN_CUDA_delta_tiles_4_wide_channel;
    const uint32_t warps = tiles ? GDN_CUDA_TILES_WARPS : GDN_CUDA_DELTA_WARPS;
    uint32_t grid[3] = { (uint32_t)p->n_seqs, (uint32_t)p->n_heads_v, (uint32_t)plan->gpu.blocks };
    /* Thread blocks for sequences of few tokens, unless all have the same number and none uses a log row. */
    if (tiles && (p->has & GDN_HAS_SEQ_START || p->log.n_slots))
        grid[2] += (uint32_t)gdn_gpu_parts((uint64_t)p->head_dim_v, GDN_CUDA_TILES_ROWS_VALUES);
    CUstream on;
    const gdn_status status = gdn_cuda_stream(dev, stream, &on);
    if (status) return status;
    return p->digits ? run_chunked(dev, problem, plan, on)
                     : gdn_cuda_launch(dev, kernel, on, grid, 32 * warps, &params);
}
