/* set_rows: one launch or three. The kernels define how the work is divided. */
#include "cuda/device.h"

void gdn_cuda_plan_set_rows(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    const gdn_set_rows_call *p = &problem->set_rows;
    const gdn_cuda_device *dev = ctx->state;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    gdn_gpu_plan_set_rows(&gpu, p, GDN_CUDA_ROWS_PIECE, plan);
    plan->gpu.device_kernel = -1; /* there is only one set of kernels */
}

gdn_status gdn_cuda_run_set_rows(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_cuda_device *dev = device;
    const uint32_t threads = GDN_CUDA_ROWS_THREADS;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const gdn_set_rows_call params = gdn_gpu_call_set_rows(&gpu, problem, plan);
    CUstream on;
    gdn_status status = gdn_cuda_stream(dev, stream, &on);
    if (!status && plan->gpu.table_slots) {
        const uint32_t clear[3] = { (uint32_t)gdn_gpu_clear_blocks(&params, threads), 1, 1 };
        const uint32_t enter[3] = { (uint32_t)gdn_gpu_enter_blocks(&params, threads), 1, 1 };
        status = gdn_cuda_launch(dev, GDN_CUDA_rows_clear, on, clear, threads, &params);
        if (!status) status = gdn_cuda_launch(dev, GDN_CUDA_rows_enter, on, enter, threads, &params);
    }
    const uint32_t write[3] = { (uint32_t)plan->n_items, 1, 1 };
    return status ? status : gdn_cuda_launch(dev, GDN_CUDA_rows_write, on, write, threads, &params);
}
