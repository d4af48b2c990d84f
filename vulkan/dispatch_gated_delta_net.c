/* gated_delta_net: from a problem to a dispatch. The shader says how the work is cut. */
#include <stdio.h>

#include "core/status.h"
#include "vulkan/device.h"

typedef gdn_gated_delta_net_problem problem_t;

_Static_assert(sizeof(gdn_vk_gated_delta_net) <= GDN_VK_PARAMS_BYTES, "the parameter block fits");

enum { COLUMNS_OF_EIGHT_LANES = 4 };

/* Lanes of a workgroup: whole subgroups, at least 32 lanes on a GPU. A CPU's driver runs workgroups one after another
 * on each thread, so there the smallest are the best. */
static uint32_t lanes(const gdn_vk_device *dev)
{
    const uint32_t least = dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 8 : 32;
    return dev->variant.subgroup && dev->traits.subgroup_size > least ? dev->traits.subgroup_size : least;
}

static uint64_t blocks(const gdn_vk_device *dev, const problem_t *p)
{
    const uint32_t columns = lanes(dev) / 8 * COLUMNS_OF_EIGHT_LANES;
    return ((uint32_t)p->head_dim_v + columns - 1) / columns;
}

static uint64_t items(const gdn_vk_device *dev, const problem_t *p)
{
    return (uint64_t)p->n_seqs * (uint64_t)p->n_heads_v * blocks(dev, p);
}

static int is_narrow(const problem_t *p)
{
    return p->q.dtype != GDN_F32 || p->k.dtype != GDN_F32 || p->v.dtype != GDN_F32;
}

void gdn_vk_plan_gated_delta_net(const gdn_vk_device *dev, const problem_t *p, gdn_plan *plan)
{
    gdn_capability *c = &plan->capability;
    uint32_t width, height;
    c->workspace_bytes = GDN_VK_PARAMS_BYTES;
    (void)snprintf(c->implementation, sizeof c->implementation, "%.40s/%s", dev->variant.name, dev->variant.subgroup ? "subgroup" : "shared");
    if (is_narrow(p) && !dev->traits.storage16) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "F16 and BF16 need storageBuffer16BitAccess, which %.100s does not have", dev->traits.name);
    } else if (!gdn_vk_grid(items(dev, p), &width, &height)) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "the call has more than 2^32 workgroups (sequences x heads x blocks of columns)");
    }
}

static gdn_vk_tokens tokens(const gdn_vk_device *dev, const gdn_token_view *view)
{
    return (gdn_vk_tokens){ gdn_vk_address(dev, &view->at), view->stride_seq, view->stride_token, view->stride_head };
}

static gdn_vk_pool pool(const gdn_vk_device *dev, const gdn_state_view *view)
{
    return (gdn_vk_pool){ gdn_vk_address(dev, &view->at), view->stride_row, view->stride_slot, view->stride_head, view->stride_line };
}

static uint64_t token_bits(const gdn_vk_tokens *t)
{
    return t->base | (uint64_t)t->seq | (uint64_t)t->token | (uint64_t)t->head;
}

static uint64_t pool_bits(const gdn_vk_pool *t)
{
    return t->base | (uint64_t)t->row | (uint64_t)t->slot | (uint64_t)t->head | (uint64_t)t->line;
}

/* How rows of four elements can be loaded: constant WIDE of the shader. Drivers for CPUs load element by element
 * whatever the type, so that two in one 64-bit integer cost half. */
static uint32_t width_of_loads(const gdn_vk_device *dev, const problem_t *p, const gdn_vk_gated_delta_net *x)
{
    uint64_t bits = pool_bits(&x->state_in) | pool_bits(&x->state_out);
    bits |= p->q.dtype == GDN_F32 ? token_bits(&x->q) : 0;
    bits |= p->k.dtype == GDN_F32 ? token_bits(&x->k) : 0;
    bits |= p->gate == GDN_GATE_CHANNEL ? token_bits(&x->g) : 0;
    if (dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU)
        return bits % 8 ? 0 : 2;
    return bits % 16 ? 0 : 1;
}

/* The shader's constants NB, SHAPE and WIDE. Multiples of 32, aligned, get pipelines of their own; every other head size,
 * and operands that are not aligned, share a general one (NB = 0), since a driver takes seconds for each. */
static void specialize(const gdn_vk_device *dev, const problem_t *p, uint32_t width, uint32_t constants[GDN_VK_CONSTANTS])
{
    const int general = p->head_dim_k % 32 || !width;
    const int narrow  = general ? dev->traits.storage16 : is_narrow(p);
    constants[0] = lanes(dev);
    constants[1] = general ? 0 : (uint32_t)p->head_dim_k / 32;
    constants[2] = (p->gate == GDN_GATE_CHANNEL ? 1u : 0u) | (p->state_layout == GDN_STATE_KV ? 2u : 0u) | (narrow ? 4u : 0u);
    constants[3] = general ? 0 : width;
}

gdn_status gdn_vk_run_gated_delta_net(gdn_vk_device *dev, const problem_t *p, const gdn_plan *plan, gdn_stream stream)
{
    (void)plan;
    const gdn_vk_gated_delta_net params = {
        .q = tokens(dev, &p->q), .k = tokens(dev, &p->k), .v = tokens(dev, &p->v), .g = tokens(dev, &p->g),
        .beta = tokens(dev, &p->beta), .result = tokens(dev, &p->out),
        .state_in = pool(dev, &p->state_in), .state_out = pool(dev, &p->state_out),
        .seq_start = gdn_vk_address(dev, &p->seq_start), .state_src = gdn_vk_address(dev, &p->state_src),
        .state_dst = gdn_vk_address(dev, &p->state_dst), .bad = dev->bad.address,
        .n_seqs = p->n_seqs, .n_tokens = p->n_tokens, .n_heads_k = p->n_heads_k, .n_heads_v = p->n_heads_v,
        .head_dim_k = p->head_dim_k, .head_dim_v = p->head_dim_v, .head_map = p->head_map, .n_snapshots = p->n_snapshots,
        .slots_in = p->state_in.n_slots, .entries_in = p->state_in.n_rows * p->state_in.n_slots,
        .slots_out = p->state_out.n_slots, .entries_out = p->state_out.n_rows * p->state_out.n_slots,
        .q_dtype = p->q.dtype, .k_dtype = p->k.dtype, .v_dtype = p->v.dtype,
        .blocks = (int32_t)blocks(dev, p), .scale = p->scale, .even_tokens = p->n_tokens / p->n_seqs,
    };
    uint32_t constants[GDN_VK_CONSTANTS];
    specialize(dev, p, width_of_loads(dev, p, &params), constants);
    gdn_vk_dispatch dispatch = { .n_items = items(dev, p) };
    gdn_status status = gdn_vk_pipeline_get(dev, GDN_KERNEL_gated_delta_net, constants, &dispatch.pipeline);
    return status ? status : gdn_vk_run(dev, &p->workspace, &params, sizeof params, 0, &dispatch, 1, stream);
}
