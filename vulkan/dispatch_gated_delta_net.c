/* gated_delta_net: chooses the pipeline and dispatches it. The shader defines how the work is divided. */
#include "vulkan/device.h"

enum { MOST_VALUES = 4 };                                       /* value channels of eight lanes */
enum { KEY_MAJOR = 2, STATE16 = 256, FEWER = 9, AHEAD = 2048 }; /* of the shader's constant SHAPE */

/* Lanes of a workgroup: whole subgroups, at least 32 lanes on a GPU. A CPU driver runs workgroups one after another on
 * each thread, so the smallest are best there. */
static uint32_t lanes(const gdn_vulkan_device *dev)
{
    const uint32_t least = dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 8 : 32;
    return dev->gpu.implementation.subgroup && dev->traits.subgroup_size > least ? dev->traits.subgroup_size : least;
}

static int is_raw(const gdn_gated_delta_net_call *p) { return p->gate_input >= GDN_G_RAW; }

/* 1 if an operand other than the state is 16-bit. */
static int is_narrow(const gdn_gated_delta_net_call *p)
{
    const gdn_token_view *const view[] = { &p->q, &p->k, &p->v, &p->g, &p->beta, &p->result, &p->ssm_a, &p->dt_bias };
    int narrow = 0;
    for (int i = 0; i < (is_raw(p) ? 8 : 6); i++) narrow |= view[i]->dtype != GDN_F32;
    return narrow || ((p->has & GDN_HAS_READ_KEY) && p->read_key.dtype != GDN_F32);
}

/* How rows of four elements can be loaded: the shader's constant WIDE. CPU drivers load each element of any type by
 * itself, so two in one 64-bit integer cost half. */
static uint32_t width_of_loads(const gdn_vulkan_device *dev, const gdn_gated_delta_net_call *p)
{
    uint64_t bits = gdn_gpu_pool_bits(&p->state) | gdn_gpu_pool_bits(&p->state_out);
    bits |= p->q.dtype == GDN_F32 ? gdn_gpu_token_bits(&p->q) : 0;
    bits |= p->k.dtype == GDN_F32 ? gdn_gpu_token_bits(&p->k) : 0;
    bits |= p->gate == GDN_GATE_CHANNEL && p->g.dtype == GDN_F32 ? gdn_gpu_token_bits(&p->g) : 0;
    bits |= (p->has & GDN_HAS_READ_KEY) && p->read_key.dtype == GDN_F32 ? gdn_gpu_token_bits(&p->read_key) : 0;
    if (p->log.n_slots) /* parts of a log entry: keys are whole blocks of 32, deltas rows of head_dim_v */
        bits |= gdn_gpu_pool_bits(&p->log) | 4 * (uint64_t)p->head_dim_v;
    if (dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU) return bits % 8 ? 0 : 2;
    return bits % 16 ? 0 : 1;
}

/* Registers that a lane needs: the state, q, k and the decays of keys, partial sums, and 24 for addresses and a token's
 * scalars. A prefetched token needs the rows of q, k and decays again; 16-bit q and k need half of that. */
static uint32_t needed(uint32_t blocks, int channel, int narrow, uint32_t values, int ahead)
{
    const uint32_t rows = channel ? 3 : 2, rows_ahead = rows - (narrow ? 1 : 0);
    return 4 * blocks * (values + rows + (ahead ? rows_ahead : 0)) + 4 * values + 24;
}

/* Bits of SHAPE: the value channels of eight lanes, and whether the next token is prefetched, so that a lane's
 * registers suffice. Fewer channels cost loads, since each group of lanes loads all of q and k. Without a prefetch,
 * loads are waited for. If registers are short, channels beyond two are given up first. */
static uint32_t values_of(const gdn_vulkan_device *dev, uint32_t blocks, int channel, int narrow)
{
    static const struct {
        uint32_t fewer;
        int ahead;
    } ways[] = { { 0, 1 }, { 1, 1 }, { 0, 0 }, { 1, 0 } };
    if (!dev->traits.registers) return 0;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (needed(blocks, channel, narrow, MOST_VALUES >> ways[i].fewer, ways[i].ahead) <= dev->traits.registers)
            return ways[i].fewer << FEWER | (ways[i].ahead ? AHEAD : 0);
    return 2u << FEWER;
}

/* The shader's constants NB, SHAPE and WIDE. A driver takes seconds for each pipeline, so few kinds of calls have their
 * own. The others share general ones (NB = 0).
 *   - head_dim_k a multiple of 32, aligned operands: a pipeline of its own.
 *   - With a log: only heads of 128 keys have their own. Each includes checkpoints and FORMS: logs are for
 *     verification, in models whose heads have that size and whose gates are raw.
 *   - Trees: general, for every size.
 *   - 16-bit states: heads of 128 keys, and general, for either gate. Each serves both layouts, all parametrisations
 *     and types, with or without checkpoints and a log. The general ones also serve trees. */
static void specialize(const gdn_vulkan_device *dev, const gdn_gated_delta_net_call *p, uint32_t width, gdn_plan *plan)
{
    const int state16 = p->rounding_interval > 0, log = state16 || p->log.n_slots > 0;
    const int general = p->head_dim_k % 32 || !width || (log && p->head_dim_k != 128) || (p->has & GDN_HAS_TREE) ||
                        (state16 && p->head_dim_v % MOST_VALUES);
    const int narrow = general || state16 ? dev->traits.storage16 : is_narrow(p);
    const int key_major = !state16 && p->state_layout == GDN_STATE_KV,
              tree = (p->has & GDN_HAS_TREE) || (state16 && general);
    plan->gpu.device_kernel = general;
    plan->gpu.constants[0] = lanes(dev);
    plan->gpu.constants[1] = general ? 0 : (uint32_t)p->head_dim_k / 32;
    plan->gpu.constants[2] = (p->gate == GDN_GATE_CHANNEL ? 1u : 0u) | (key_major ? KEY_MAJOR : 0u) |
                             (narrow ? 4u : 0u) | (log || gdn_gpu_has_forms(p) ? 8u : 0u) |
                             (log || p->checkpoints_interval ? 16u : 0u) | (log ? 32u : 0u) | (tree ? 64u : 0u) |
                             (state16 ? STATE16 : 0u);
    if (!general && !state16)
        plan->gpu.constants[2] |= values_of(dev, plan->gpu.constants[1], p->gate == GDN_GATE_CHANNEL, narrow);
    plan->gpu.constants[3] = general ? 0 : width;
}

/* Counts more iterations than any pipeline has: of loops over tokens, over log entries that are replayed, and in
 * general pipelines over the blocks of keys of each. A token of a tree replays entries of the log and the tokens before
 * it. */
int32_t gdn_vulkan_most_tokens(const gdn_vulkan_device *dev, const gdn_gated_delta_net_call *p, int general)
{
    if (dev->traits.type != VK_PHYSICAL_DEVICE_TYPE_CPU) return INT32_MAX;
    const int tree = (p->has & GDN_HAS_TREE) != 0;
    const int64_t blocks = general ? (p->head_dim_k + 31) / 32 + 1 : 0, slots = p->log.n_slots;
    const int64_t token = general ? (tree ? 9 : 19) + 10 * blocks : 5, entry = 1 + 2 * blocks;
    const int64_t left = GDN_VULKAN_CPU_ITERATIONS - 8 * blocks - token - entry * slots;
    if (left < 0) return -1;
    if (!tree) return (int32_t)(left / token);
    for (int64_t n = 1;; n++) {
        const int64_t branch = 2 * blocks + 16 + entry * (slots > n ? slots : n);
        if (n * (token + branch) + n / 64 * (n - 64) * n > left) return (int32_t)n - 1;
    }
}

void gdn_vulkan_plan_gated_delta_net(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
    const gdn_vulkan_device *dev = ctx->state;
    const gdn_gpu_device gpu = gdn_vulkan_gpu(dev);
    specialize(dev, p, width_of_loads(dev, p), plan);
    plan->variant = dev->gpu.implementation.subgroup ? GDN_VARIANT_SUBGROUP : GDN_VARIANT_SHARED;
    gdn_gpu_plan_gated_delta_net(&gpu, p, lanes(dev) / 8 * (MOST_VALUES >> (plan->gpu.constants[2] >> FEWER & 3)),
                                 plan);
    if (is_narrow(p) || p->rounding_interval) gdn_vulkan_need_storage16(dev, plan);
    if (gdn_vulkan_most_tokens(dev, p, plan->gpu.device_kernel) < p->n_tokens / (p->n_seqs + !p->n_seqs))
        plan->refused = GDN_REFUSED_ITERATIONS;
}

gdn_status gdn_vulkan_run_gated_delta_net(void *device, const gdn_problem *problem, const gdn_plan *plan,
                                          gdn_stream stream)
{
    gdn_vulkan_device *dev = device;
    const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
    const gdn_gpu_device gpu = gdn_vulkan_gpu(dev);
    const gdn_gated_delta_net_call params = gdn_gpu_call_gated_delta_net(&gpu, problem, plan);
    gdn_vulkan_dispatch dispatch = { .n_items = (uint64_t)plan->n_items,
                                     .most_tokens = gdn_vulkan_most_tokens(dev, p, plan->gpu.device_kernel) };
    const gdn_status status = gdn_vulkan_pipeline_get(dev, GDN_VULKAN_gated_delta_net, plan->gpu.device_kernel,
                                                      plan->gpu.constants, stream, &dispatch.pipeline);
    return status ? status
                  : gdn_vulkan_run(dev, &problem->regions[problem->n_regions], &params, sizeof params, 0, &dispatch, 1,
                                   stream);
}
