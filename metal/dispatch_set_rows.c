/* set_rows: one dispatch or three. The kernels define how the work is divided. */
#include "metal/device.h"

void gdn_metal_plan_set_rows(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    (void)ctx;
    const gdn_set_rows_call *p = &problem->set_rows;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    gdn_gpu_plan_set_rows(&gpu, p, GDN_METAL_ROWS_PIECE, plan);
    plan->gpu.device_kernel = -1; /* there is only one set of kernels */
}

gdn_status gdn_metal_run_set_rows(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_metal_device *dev = device;
    enum { CLEAR, ENTER, WRITE, N };
    const uint32_t threads = GDN_METAL_ROWS_THREADS;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    const gdn_set_rows_call params = gdn_gpu_call_set_rows(&gpu, problem, plan);
    gdn_metal_dispatch dispatch[N] = {
        { .kernel = GDN_METAL_rows_clear, .groups = gdn_gpu_clear_blocks(&params, threads) },
        { .kernel = GDN_METAL_rows_enter, .groups = gdn_gpu_enter_blocks(&params, threads) },
        { .kernel = GDN_METAL_rows_write, .groups = (uint64_t)plan->n_items },
    };
    for (int i = 0; i < N; i++) {
        dispatch[i].params = &params;
        dispatch[i].params_bytes = sizeof params;
        dispatch[i].threads = threads;
        gdn_metal_bind(&dispatch[i], dev, problem, 1);
    }
    return plan->gpu.table_slots ? gdn_metal_run(dev, dispatch, N, stream)
                                 : gdn_metal_run(dev, dispatch + WRITE, 1, stream);
}
