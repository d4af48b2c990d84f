/* ssm_conv: one dispatch or two. The shader defines how the work is divided. */
#include "vulkan/device.h"

enum { MIXED_IO = 4, TREE = 8 }; /* bits beside GDN_CONV_*: operands that are not F32, and parents */

int64_t gdn_vulkan_conv_iterations(const gdn_ssm_conv_call *p, const gdn_plan *plan)
{
    const int64_t tokens = plan->cut ? 0 : 2 * (int64_t)p->n_tokens; /* one sequence may have all */
    return tokens + p->checkpoints_n * (int64_t)(p->kernel_width + 1) + p->history.n_slots;
}

void gdn_vulkan_plan_ssm_conv(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    const gdn_ssm_conv_call *p = &problem->ssm_conv;
    const gdn_vulkan_device *dev = ctx->state;
    const gdn_gpu_device gpu = gdn_vulkan_gpu(dev);
    const int mixed = (p->x.dtype | p->weight_dtype | p->bias_dtype | p->result.dtype | p->history.dtype) != GDN_F32;
    gdn_gpu_plan_ssm_conv(&gpu, p, gdn_vulkan_lanes(dev), plan);
    if (mixed) gdn_vulkan_need_storage16(dev, plan);
    if (dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU &&
        gdn_vulkan_conv_iterations(p, plan) > GDN_VULKAN_CPU_ITERATIONS)
        plan->refused = GDN_REFUSED_ITERATIONS;
    plan->gpu.constants[0] = gdn_vulkan_lanes(dev);
    plan->gpu.constants[1] = (uint32_t)p->kernel_width;
    plan->gpu.constants[2] = (uint32_t)p->silu;
    plan->gpu.constants[3] =
        (plan->cut ? GDN_CONV_PIECES : GDN_CONV_WHOLE) | (mixed ? MIXED_IO : 0) | ((p->has & GDN_HAS_TREE) ? TREE : 0);
}

gdn_status gdn_vulkan_run_ssm_conv(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_vulkan_device *dev = device;
    const gdn_ssm_conv_call *p = &problem->ssm_conv;
    const gdn_gpu_device gpu = gdn_vulkan_gpu(dev);
    const gdn_ssm_conv_call params = gdn_gpu_call_ssm_conv(&gpu, problem, plan);
    const uint32_t *pieces = plan->gpu.constants;
    const uint32_t history[GDN_VULKAN_CONSTANTS] = { pieces[0], pieces[1], 0, /* no activation */
                                                     GDN_CONV_HISTORY | (pieces[3] & MIXED_IO) };
    const int n = plan->gpu.n_after ? 2 : 1;
    /* Both dispatches share one parameter block. So the second has plan->gpu.blocks workgroups per sequence even
     * without a history. */
    gdn_vulkan_dispatch dispatch[2] = {
        { .n_items = (uint64_t)plan->n_items },
        { .n_items = plan->gpu.blocks * (uint64_t)p->n_seqs, .after_previous = 1 },
    };
    for (int i = 0; i < n; i++) {
        gdn_status status =
            gdn_vulkan_pipeline_get(dev, GDN_VULKAN_ssm_conv, 0, i ? history : pieces, stream, &dispatch[i].pipeline);
        if (status) return status;
    }
    return gdn_vulkan_run(dev, &problem->regions[problem->n_regions], &params, sizeof params, 0, dispatch, n, stream);
}
