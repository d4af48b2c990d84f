/* ssm_conv: one dispatch or two. The kernels define how the work is divided. */
#include "metal/device.h"

void gdn_metal_plan_ssm_conv(const gdn_context *ctx, const void *problem, gdn_plan *plan)
{
    (void)ctx;
    const gdn_ssm_conv_problem *p = problem;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    plan->variant = p->tree ? GDN_METAL_conv_tree : p->kernel_width == 4 ? GDN_METAL_conv_4 : GDN_METAL_conv_general;
    gdn_gpu_plan_ssm_conv(&gpu, p, GDN_METAL_CONV_THREADS, plan);
}

gdn_status gdn_metal_run_ssm_conv(void *device, const void *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_metal_device *dev = device;
    const gdn_ssm_conv_problem *p = problem;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    const gdn_gpu_ssm_conv params = gdn_gpu_params_ssm_conv(&gpu, p, plan), history = gdn_gpu_history_ssm_conv(&params);
    const gdn_place bad = { .data = dev->bad_buffer };
    const gdn_place *const operands[] = { &p->x.at,        &p->weight,          &p->bias,
                                          &p->out.at,      &p->history_in.at,   &p->history_out.at,
                                          &p->seq_start,   &p->position,        &p->history_src,
                                          &p->history_dst, &p->checkpoints.map, &bad,
                                          &p->parent };
    gdn_metal_dispatch dispatch[2] = { { .kernel = (gdn_metal_kernel)plan->variant,
                                         .params = &params,
                                         .params_bytes = sizeof params,
                                         .groups = (uint64_t)plan->n_items,
                                         .threads = GDN_METAL_CONV_THREADS } };
    gdn_metal_bind_all(&dispatch[0], operands, sizeof operands / sizeof operands[0]);
    dispatch[1] = dispatch[0];
    dispatch[1].params = &history;
    dispatch[1].groups = (uint64_t)plan->n_after;
    return gdn_metal_run(dev, dispatch, plan->n_after ? 2 : 1, stream);
}
