/* ssm_conv: one launch or two. The kernels define how the work is divided. */
#include "cuda/device.h"

void gdn_cuda_plan_ssm_conv(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    const gdn_ssm_conv_call *p = &problem->ssm_conv;
    const gdn_cuda_device *dev = ctx->state;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    plan->gpu.device_kernel = (p->has & GDN_HAS_TREE) ? GDN_CUDA_conv_tree
                              : p->kernel_width == 4  ? GDN_CUDA_conv_4
                                                      : GDN_CUDA_conv_general;
    gdn_gpu_plan_ssm_conv(&gpu, p, GDN_CUDA_CONV_THREADS, plan);
}

gdn_status gdn_cuda_run_ssm_conv(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_cuda_device *dev = device;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const gdn_ssm_conv_call params = gdn_gpu_call_ssm_conv(&gpu, problem, plan),
                            history = gdn_gpu_call_history(&params);
    const gdn_cuda_kernel kernel = (gdn_cuda_kernel)plan->gpu.device_kernel;
    CUstream on;
    const uint32_t first[3] = { (uint32_t)plan->n_items, 1, 1 }, after[3] = { (uint32_t)plan->gpu.n_after, 1, 1 };
    gdn_status status = gdn_cuda_stream(dev, stream, &on);
    if (!status) status = gdn_cuda_launch(dev, kernel, on, first, GDN_CUDA_CONV_THREADS, &params);
    if (status || !plan->gpu.n_after) return status;
    return gdn_cuda_launch(dev, kernel, on, after, GDN_CUDA_CONV_THREADS, &history);
}
