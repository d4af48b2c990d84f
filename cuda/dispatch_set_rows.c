/* set_rows: one launch or three. The kernels define how the work is divided. */
#include "cuda/device.h"

void gdn_cuda_plan_set_rows(const gdn_context *ctx, const gdn_set_rows_problem *p, gdn_plan *plan)
{
    const gdn_cuda_device *dev = ctx->state;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    gdn_gpu_plan_set_rows(&gpu, p, GDN_CUDA_ROWS_PIECE, plan);
    plan->variant = -1; /* there is only one set of kernels */
}

gdn_status gdn_cuda_run_set_rows(gdn_cuda_device *dev, const gdn_set_rows_problem *p, const gdn_plan *plan,
                                 CUstream stream)
{
    const uint32_t threads = GDN_CUDA_ROWS_THREADS;
    const gdn_gpu_device gpu = gdn_cuda_gpu(dev);
    const gdn_gpu_set_rows params = gdn_gpu_params_set_rows(&gpu, p, plan);
    gdn_status status;
    if (plan->table_slots && ((status = gdn_cuda_launch(dev, GDN_CUDA_rows_clear, stream,
                                                        gdn_gpu_clear_blocks(&params, threads), threads, &params)) ||
                              (status = gdn_cuda_launch(dev, GDN_CUDA_rows_enter, stream,
                                                        gdn_gpu_enter_blocks(&params, threads), threads, &params))))
        return status;
    return gdn_cuda_launch(dev, GDN_CUDA_rows_write, stream, (uint64_t)plan->n_items, threads, &params);
}
