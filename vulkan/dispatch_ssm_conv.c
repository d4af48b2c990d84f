/* ssm_conv: one dispatch or two. The shader says how the work is cut. */
#include "vulkan/device.h"

void gdn_vk_plan_ssm_conv(const gdn_vk_device *dev, const gdn_ssm_conv_problem *p, gdn_plan *plan)
{
    const gdn_gpu_device gpu = gdn_vk_gpu(dev);
    gdn_gpu_plan_ssm_conv(&gpu, p, gdn_vk_lanes(dev), plan);
    if (gdn_gpu_ssm_conv_is_typed(p) && !dev->traits.storage16)
        gdn_gpu_refuse(plan, "F16 and BF16 need storageBuffer16BitAccess, which %.100s does not have", dev->traits.name);
}

gdn_status gdn_vk_run_ssm_conv(gdn_vk_device *dev, const gdn_ssm_conv_problem *p, const gdn_plan *plan, gdn_stream stream)
{
    const gdn_gpu_device gpu = gdn_vk_gpu(dev);
    const gdn_gpu_ssm_conv params = gdn_gpu_params_ssm_conv(&gpu, p, plan);
    const uint32_t typed = gdn_gpu_ssm_conv_is_typed(p) ? 4 : 0;
    const uint32_t part[2] = { (uint32_t)params.part | typed, GDN_GPU_CONV_HISTORY | typed };
    const int n = plan->n_after ? 2 : 1;
    /* One parameter block is both dispatches', so that the second's workgroups are as many as they are across the channels
     * (plan->blocks) also where there is no history. */
    gdn_vk_dispatch dispatch[2] = {
        { .n_items = (uint64_t)plan->n_items },
        { .n_items = plan->blocks * (uint64_t)p->n_seqs, .after_previous = 1 },
    };
    for (int i = 0; i < n; i++) {
        const uint32_t constants[GDN_VK_CONSTANTS] = { gdn_vk_lanes(dev), (uint32_t)p->kernel_width, (uint32_t)params.silu, part[i] };
        gdn_status status = gdn_vk_pipeline_get(dev, GDN_KERNEL_ssm_conv, constants, &dispatch[i].pipeline);
        if (status)
            return status;
    }
    return gdn_vk_run(dev, &p->workspace, &params, sizeof params, 0, dispatch, n, stream);
}
