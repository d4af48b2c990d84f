/* gated_delta_net: chooses the device kernel and dispatches it. The kernels define how the work is divided. */
#include "metal/device.h"

typedef gdn_gated_delta_net_problem problem_t;

/* 1 for a kernel of size 4: heads of 128 keys, without a tree and a read key. The general kernels run the others. */
static int is_4(const problem_t *p) { return p->head_dim_k == 128 && !p->tree && !gdn_has_read_key(p); }

/* [gate per channel] */
static const gdn_metal_kernel trees[2] = { GDN_METAL_delta_general_tree, GDN_METAL_delta_general_channel_tree };
/* [16-bit states][size 4][gate per channel] */
static const gdn_metal_kernel rows[2][2][2] = {
    { { GDN_METAL_delta_general, GDN_METAL_delta_general_channel }, { GDN_METAL_delta_4, GDN_METAL_delta_4_channel } },
    { { GDN_METAL_delta_general_state16, GDN_METAL_delta_general_channel_state16 },
      { GDN_METAL_delta_4_state16, GDN_METAL_delta_4_channel_state16 } },
};

void gdn_metal_plan_gated_delta_net(const gdn_context *ctx, const void *problem, gdn_plan *plan)
{
    (void)ctx;
    const problem_t *p = problem;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    const int channel = p->gate == GDN_GATE_CHANNEL, four = is_4(p), state16 = p->state_interval > 0;
    plan->form = GDN_FORM_ROWS;
    plan->variant = (int32_t)(p->tree && !state16 ? trees[channel] : rows[state16][four][channel]);
    gdn_gpu_plan_gated_delta_net(&gpu, p, GDN_METAL_DELTA_THREADS / 8 * (four ? 4 : 2), plan);
}

gdn_status gdn_metal_run_gated_delta_net(void *device, const void *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_metal_device *dev = device;
    const problem_t *p = problem;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    const gdn_gpu_gated_delta_net params = gdn_gpu_params_gated_delta_net(&gpu, p, plan);
    const gdn_place bad = { .data = dev->bad_buffer };
    const gdn_log_view *log = &p->log;
    const gdn_place *const operands[] = {
        &p->q.at,      &p->k.at,        &p->v.at,      &p->g.at,        &p->beta.at,
        &p->ssm_a.at,  &p->dt_bias.at,  &p->out.at,    &p->state_in.at, &p->state_out.at,
        &p->seq_start, &p->state_src,   &p->state_dst, &p->position,    &p->checkpoints.map,
        &bad,          &p->read_key.at, &log->at,      &log->row,       &log->base_position,
        &log->commit,  &p->parent
    };
    gdn_metal_dispatch dispatch = { .kernel = (gdn_metal_kernel)plan->variant,
                                    .params = &params,
                                    .params_bytes = sizeof params,
                                    .groups = (uint64_t)plan->n_items,
                                    .threads = GDN_METAL_DELTA_THREADS };
    gdn_metal_bind_all(&dispatch, operands, sizeof operands / sizeof operands[0]);
    return gdn_metal_run(dev, &dispatch, 1, stream);
}
