/* gated_delta_net: chooses the device kernel and dispatches it. The kernels define how the work is divided. */
#include "metal/device.h"

/* 1 for a kernel of size 4: heads of 128 keys, without a tree and a read key. The general kernels run the others. */
static int is_4(const gdn_gated_delta_net_call *p)
{
    return p->head_dim_k == 128 && !(p->has & GDN_HAS_TREE) && !(p->has & GDN_HAS_READ_KEY);
}

/* [gate per channel] */
static const gdn_metal_kernel trees[2] = { GDN_METAL_delta_general_tree, GDN_METAL_delta_general_channel_tree };
/* [16-bit states][size 4][gate per channel] */
static const gdn_metal_kernel rows[2][2][2] = {
    { { GDN_METAL_delta_general, GDN_METAL_delta_general_channel }, { GDN_METAL_delta_4, GDN_METAL_delta_4_channel } },
    { { GDN_METAL_delta_general_state16, GDN_METAL_delta_general_channel_state16 },
      { GDN_METAL_delta_4_state16, GDN_METAL_delta_4_channel_state16 } },
};

void gdn_metal_plan_gated_delta_net(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    (void)ctx;
    const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    const int channel = p->gate == GDN_GATE_CHANNEL, four = is_4(p), state16 = p->rounding_interval > 0;
    plan->variant = GDN_VARIANT_ROWS;
    plan->gpu.device_kernel =
        (int32_t)((p->has & GDN_HAS_TREE) && !state16 ? trees[channel] : rows[state16][four][channel]);
    gdn_gpu_plan_gated_delta_net(&gpu, p, GDN_METAL_DELTA_THREADS / 8 * (four ? 4 : 2), plan);
}

gdn_status gdn_metal_run_gated_delta_net(void *device, const gdn_problem *problem, const gdn_plan *plan,
                                         gdn_stream stream)
{
    gdn_metal_device *dev = device;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    const gdn_gated_delta_net_call params = gdn_gpu_call_gated_delta_net(&gpu, problem, plan);
    gdn_metal_dispatch dispatch = { .kernel = (gdn_metal_kernel)plan->gpu.device_kernel,
                                    .params = &params,
                                    .params_bytes = sizeof params,
                                    .groups = (uint64_t)plan->n_items,
                                    .threads = GDN_METAL_DELTA_THREADS };
    gdn_metal_bind(&dispatch, dev, problem, 0);
    return gdn_metal_run(dev, &dispatch, 1, stream);
}
