/* gated_delta_net: chooses the device kernel and dispatches it. The kernels define how the work is divided. */
#include "metal/device.h"

typedef gdn_gated_delta_net_problem problem_t;

/* The index of NB = 2, 4, 8 blocks of 32 keys. Head sizes that do not match exactly use the next larger as `general`.
 * */
static int size_of(const problem_t *p) { return p->head_dim_k <= 64 ? 0 : p->head_dim_k <= 128 ? 1 : 2; }

#define LOG(name)                                                                                                      \
    {                                                                                                                  \
        GDN_METAL_delta_##name, GDN_METAL_delta_##name##_log                                                           \
    }
#define SIZE(nb)                                                                                                       \
    {                                                                                                                  \
        { LOG(nb), LOG(nb##_channel) }, { LOG(nb##_general), LOG(nb##_general_channel) }                               \
    }
static const gdn_metal_kernel kernels[3][2][2][2] = { SIZE(2), SIZE(4), SIZE(8) }; /* [size][general][channel][log] */
#undef SIZE
#undef LOG

/* 1 for a `general` kernel: other head sizes, and a read key, which only these support. */
static int is_general(const problem_t *p) { return p->head_dim_k != 64 << size_of(p) || gdn_has_read_key(p); }

/* 1 for 16-bit states of the usual size; 0 for the general kernels, which also run trees. */
static int is_usual_state16(const problem_t *p) { return p->head_dim_k == 128 && !p->tree && !gdn_has_read_key(p); }

static gdn_metal_kernel state16_kernel_of(const problem_t *p)
{
    static const gdn_metal_kernel of_16_bits[2][2] = {
        { GDN_METAL_delta_8_general_state16, GDN_METAL_delta_8_general_channel_state16 },
        { GDN_METAL_delta_4_state16, GDN_METAL_delta_4_channel_state16 },
    };
    return of_16_bits[is_usual_state16(p)][p->gate == GDN_GATE_CHANNEL];
}

/* The variant: `tiles` for many tokens per sequence on average, `rows` for few. Sequences of a batch may differ, and
 * only the device can read the maps. Both take any length and give the same bits. `tiles` supports whole blocks of keys
 * and F32 states, without logs and trees; `rows` runs the rest. */
enum { FEW_TOKENS = 8 };

static int in_tiles(const problem_t *p)
{
    if (p->tree || p->log.n_slots || p->state_interval || is_general(p)) return 0;
    return (int64_t)p->n_tokens > FEW_TOKENS * (int64_t)p->n_seqs;
}

static void plan_tiles(const problem_t *p, gdn_plan *plan)
{
    static const gdn_metal_kernel tiles[3][2] = { { GDN_METAL_delta_tiles_2, GDN_METAL_delta_tiles_2_channel },
                                                  { GDN_METAL_delta_tiles_4, GDN_METAL_delta_tiles_4_channel },
                                                  { GDN_METAL_delta_tiles_8, GDN_METAL_delta_tiles_8_channel } };
    const gdn_gpu_device gpu = gdn_metal_gpu();
    plan->form = GDN_FORM_TILES;
    plan->variant = (int32_t)tiles[size_of(p)][p->gate == GDN_GATE_CHANNEL];
    gdn_gpu_plan_gated_delta_net(&gpu, p, GDN_METAL_TILES_THREADS / 8 * 2, plan);
}

void gdn_metal_plan_gated_delta_net(const gdn_context *ctx, const void *problem, gdn_plan *plan)
{
    (void)ctx;
    const problem_t *p = problem;
    if (in_tiles(p)) {
        plan_tiles(p, plan);
        return;
    }
    const gdn_gpu_device gpu = gdn_metal_gpu();
    const int general = is_general(p), channel = p->gate == GDN_GATE_CHANNEL;
    plan->form = GDN_FORM_ROWS;
    plan->variant = (int32_t)kernels[size_of(p)][general][channel][p->log.n_slots > 0];
    if (p->tree) plan->variant = channel ? GDN_METAL_delta_8_general_channel_tree : GDN_METAL_delta_8_general_tree;
    if (p->state_interval) plan->variant = (int32_t)state16_kernel_of(p);
    const int four = p->state_interval ? is_usual_state16(p) : size_of(p) < 2; /* four value channels per eight lanes */
    gdn_gpu_plan_gated_delta_net(&gpu, p, GDN_METAL_DELTA_THREADS / 8 * (!p->tree && four ? 4 : 2), plan);
}

gdn_status gdn_metal_run_gated_delta_net(void *device, const void *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_metal_device *dev = device;
    const problem_t *p = problem;
    const gdn_gpu_device gpu = gdn_metal_gpu();
    const gdn_gpu_gated_delta_net params = gdn_gpu_params_gated_delta_net(&gpu, p, plan);
    const gdn_place bad = { .data = dev->bad_buffer };
    const gdn_log_view *log = &p->log;
    const gdn_place *const operands[] = { &p->q.at,
                                          &p->k.at,
                                          &p->v.at,
                                          &p->g.at,
                                          &p->beta.at,
                                          &p->ssm_a.at,
                                          &p->dt_bias.at,
                                          &p->out.at,
                                          &p->state_in.at,
                                          &p->state_out.at,
                                          &p->seq_start,
                                          &p->state_src,
                                          &p->state_dst,
                                          &p->position,
                                          &p->checkpoints.map,
                                          &bad,
                                          &p->read_key.at,
                                          &log->at,
                                          &log->row,
                                          &log->state_position,
                                          &log->state_commit,
                                          &p->parent };
    const uint32_t n_of_log = 4, n_of_trees = 1; /* kernels of 16-bit states have both */
    const uint32_t n = sizeof operands / sizeof operands[0] - (log->n_slots || p->state_interval ? 0 : n_of_log) -
                       (p->tree || p->state_interval ? 0 : n_of_trees);
    gdn_metal_dispatch dispatch = { .kernel = (gdn_metal_kernel)plan->variant,
                                    .params = &params,
                                    .params_bytes = sizeof params,
                                    .groups = (uint64_t)plan->n_items,
                                    .threads = plan->form == GDN_FORM_TILES ? GDN_METAL_TILES_THREADS
                                                                            : GDN_METAL_DELTA_THREADS };
    gdn_metal_bind_all(&dispatch, operands, n);
    return gdn_metal_run(dev, &dispatch, 1, stream);
}
