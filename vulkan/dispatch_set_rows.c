/* set_rows: one dispatch or two. The shader defines how the work is divided. */
#include "vulkan/device.h"

void gdn_vulkan_plan_set_rows(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    const gdn_set_rows_call *p = &problem->set_rows;
    const gdn_vulkan_device *dev = ctx->state;
    const gdn_gpu_device gpu = gdn_vulkan_gpu(dev);
    gdn_gpu_plan_set_rows(&gpu, p, GDN_VULKAN_ROWS_PIECE, plan);
    plan->gpu.constants[0] = gdn_vulkan_lanes(dev);
    plan->gpu.constants[1] = 0; /* 1: enters rows into the table */
    plan->gpu.constants[2] = GDN_VULKAN_ROWS_PIECE;
    if (p->src_dtype != GDN_F32 || p->dst_dtype != GDN_F32) gdn_vulkan_need_storage16(dev, plan);
}

gdn_status gdn_vulkan_run_set_rows(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_vulkan_device *dev = device;
    const gdn_gpu_device gpu = gdn_vulkan_gpu(dev);
    const gdn_set_rows_call params = gdn_gpu_call_set_rows(&gpu, problem, plan);
    const uint32_t *write = plan->gpu.constants, enter[GDN_VULKAN_CONSTANTS] = { write[0], 1, write[2], write[3] };
    const int table = plan->gpu.table_slots != 0;
    gdn_vulkan_dispatch dispatch[2] = {
        { .n_items = gdn_gpu_enter_blocks(&params, enter[0]) },
        { .n_items = (uint64_t)plan->n_items, .after_previous = table },
    };
    gdn_status status;
    if ((table &&
         (status = gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, enter, stream, &dispatch[0].pipeline))) ||
        (status = gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, write, stream, &dispatch[1].pipeline)))
        return status;
    return gdn_vulkan_run(dev, &problem->regions[problem->n_regions], &params, sizeof params,
                          4 * (uint64_t)params.table_words, dispatch + !table, 1 + table, stream);
}
