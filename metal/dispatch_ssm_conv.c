/* ssm_conv: one dispatch or two. The kernels define how the work is divided. */
#include "metal/device.h"

void gdn_metal_plan_ssm_conv(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    (void)ctx;
    const gdn_ssm_conv_call *p = &problem->ssm_conv;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    plan->gpu.device_kernel = (p->has & GDN_HAS_TREE) ? GDN_METAL_conv_tree
                              : p->kernel_width == 4  ? GDN_METAL_conv_4
                                                      : GDN_METAL_conv_general;
    gdn_gpu_plan_ssm_conv(&gpu, p, GDN_METAL_CONV_THREADS, plan);
}

gdn_status gdn_metal_run_ssm_conv(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_metal_device *dev = device;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    const gdn_ssm_conv_call params = gdn_gpu_call_ssm_conv(&gpu, problem, plan),
                            history = gdn_gpu_call_history(&params);
    gdn_metal_dispatch dispatch[2] = { { .kernel = (gdn_metal_kernel)plan->gpu.device_kernel,
                                         .params = &params,
                                         .params_bytes = sizeof params,
                                         .groups = (uint64_t)plan->n_items,
                                         .threads = GDN_METAL_CONV_THREADS } };
    gdn_metal_bind(&dispatch[0], dev, problem, 0);
    dispatch[1] = dispatch[0];
    dispatch[1].params = &history;
    dispatch[1].groups = (uint64_t)plan->gpu.n_after;
    return gdn_metal_run(dev, dispatch, plan->gpu.n_after ? 2 : 1, stream);
}
