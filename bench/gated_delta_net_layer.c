/* gdn bench: one token through the operations between a layer's projections: ssm_conv and gated_delta_net.
 *
 * The row compares two computations. In the first, the second call normalises q and k and computes the gates. In the
 * other, separate passes over memory do that (norms of q and k, gate, beta), each split over the threads, before a call
 * that takes their results. */
#include <math.h>
#include <stdlib.h>

#include "bench/gated_delta_net.h"

enum {
    WIDTH = 4,
    COLUMNS = WIDTH - 1,
    KEYS = HEADS_K * HEAD_DIM,
    VALUES = HEADS_V * HEAD_DIM,
    CHANNELS = 2 * KEYS + VALUES
};
enum {
    X,
    WEIGHT,
    HISTORY,
    POSITIONS,
    MIXED,
    G,
    BETA,
    SSM_A,
    DT_BIAS,
    OUT,
    STATES,
    Q_READY,
    K_READY,
    G_READY,
    BETA_READY,
    N_OPERANDS
};

static float *floats_of(const bench_row *row, int operand, int copy)
{
    const gdn_span *s = &row->operand[operand].copy[copy];
    return (float *)(void *)((char *)s->data + s->offset);
}

static gdn_ssm_conv_args conv_args(const bench_row *row, int copy)
{
    return (gdn_ssm_conv_args){
        .size = sizeof(gdn_ssm_conv_args),
        .activation = GDN_ACTIVATION_SILU,
        .n_seqs = row->work.seqs,
        .n_tokens = row->work.seqs,
        .n_channels = CHANNELS,
        .kernel_width = WIDTH,
        .x = bench_tensor(row, X, copy),
        .weight = bench_tensor(row, WEIGHT, copy),
        .out = bench_tensor(row, MIXED, copy),
        .history = bench_pool(row, HISTORY, copy, row->work.seqs, COLUMNS),
        .position = row->operand[POSITIONS].copy[copy],
        .workspace = row->workspace,
    };
}

/* A part of the convolution's output, from a channel on. */
static gdn_tensor slice(const bench_row *row, int copy, int64_t channel)
{
    gdn_tensor t = bench_tensor(row, MIXED, copy);
    t.offset += (uint64_t)(4 * channel);
    t.bytes -= (uint64_t)(4 * channel);
    t.stride[1] = (int64_t)4 * CHANNELS;
    return t;
}

/* inside: the call normalises and computes the gates, with *in. */
static gdn_gated_delta_net_args delta_args(const bench_row *row, int copy, int inside, gdn_delta_inputs *in)
{
    gdn_gated_delta_net_args a = bench_delta_args(row->work.seqs, row->work.seqs);
    a.v = slice(row, copy, (int64_t)2 * KEYS);
    a.out = bench_tensor(row, OUT, copy);
    a.state = bench_pool(row, STATES, copy, row->work.seqs, 1);
    a.workspace = row->workspace;
    a.q = inside ? slice(row, copy, 0) : bench_tensor(row, Q_READY, copy);
    a.k = inside ? slice(row, copy, KEYS) : bench_tensor(row, K_READY, copy);
    a.g = bench_tensor(row, inside ? G : G_READY, copy);
    a.beta = bench_tensor(row, inside ? BETA : BETA_READY, copy);
    if (!inside) return a;
    *in = bench_raw_inputs();
    in->ssm_a = bench_tensor(row, SSM_A, copy);
    in->dt_bias = bench_tensor(row, DT_BIAS, copy);
    a.inputs = in;
    return a;
}

static gdn_status launch_inside(bench_row *row, int copy)
{
    const gdn_ssm_conv_args conv = conv_args(row, copy);
    gdn_delta_inputs in;
    const gdn_gated_delta_net_args delta = delta_args(row, copy, 1, &in);
    const gdn_status status = gdn_ssm_conv(row->ctx, &conv, NULL);
    return status ? status : gdn_gated_delta_net(row->ctx, &delta, NULL);
}

/* The arguments of a pass over memory. */
typedef struct pass {
    const bench_row *row;
    int copy;
    int64_t channel; /* norms: first channel in the convolution's output */
    float *to;
} pass;

static void norm_task(void *arg, int32_t t)
{
    const pass *p = arg;
    const int n = p->row->work.seqs * HEADS_K, threads = p->row->work.threads;
    for (int r = n * t / threads; r < n * (t + 1) / threads; r++) {
        const float *x = floats_of(p->row, MIXED, p->copy) + p->channel + (int64_t)(r / HEADS_K) * CHANNELS +
                         (int64_t)(r % HEADS_K) * HEAD_DIM;
        float *to = p->to + (int64_t)r * HEAD_DIM, sum[16] = { 0 };
        for (int i = 0; i < HEAD_DIM; i += 16)
            for (int l = 0; l < 16; l++) sum[l] += x[i + l] * x[i + l];
        for (int l = 1; l < 16; l++) sum[0] += sum[l];
        const float factor = 1.0f / sqrtf(sum[0] + 1e-6f);
        for (int i = 0; i < HEAD_DIM; i++) to[i] = x[i] * factor;
    }
}

static void gate_task(void *arg, int32_t t)
{
    const pass *p = arg;
    const int n = p->row->work.seqs * HEADS_V, threads = p->row->work.threads;
    const float *g = floats_of(p->row, G, p->copy), *a = floats_of(p->row, SSM_A, p->copy),
                *bias = floats_of(p->row, DT_BIAS, p->copy);
    for (int i = n * t / threads; i < n * (t + 1) / threads; i++) {
        const float x = g[i] + bias[i % HEADS_V];
        p->to[i] = a[i % HEADS_V] * (x > 20 ? x : log1pf(expf(x)));
    }
}

static void beta_task(void *arg, int32_t t)
{
    const pass *p = arg;
    const int n = p->row->work.seqs * HEADS_V, threads = p->row->work.threads;
    const float *beta = floats_of(p->row, BETA, p->copy);
    for (int i = n * t / threads; i < n * (t + 1) / threads; i++) p->to[i] = 1.0f / (1.0f + expf(-beta[i]));
}

static void run_pass(bench_row *row, int copy, void (*task)(void *, int32_t), int64_t channel, int to)
{
    pass p = { row, copy, channel, floats_of(row, to, copy) };
    void *user = NULL;
    const gdn_parallel_for_fn parallel_for = roofline_threads(row->work.threads, &user);
    if (parallel_for) {
        parallel_for(user, row->work.threads, task, &p);
        return;
    }
    for (int t = 0; t < row->work.threads; t++) task(&p, t);
}

static gdn_status launch_outside(bench_row *row, int copy)
{
    const gdn_ssm_conv_args conv = conv_args(row, copy);
    const gdn_gated_delta_net_args delta = delta_args(row, copy, 0, NULL);
    const gdn_status status = gdn_ssm_conv(row->ctx, &conv, NULL);
    if (status) return status;
    run_pass(row, copy, norm_task, 0, Q_READY);
    run_pass(row, copy, norm_task, KEYS, K_READY);
    run_pass(row, copy, gate_task, 0, G_READY);
    run_pass(row, copy, beta_task, 0, BETA_READY);
    return gdn_gated_delta_net(row->ctx, &delta, NULL);
}

/* Runs both computations, each on its own copy, and compares the outputs up to rounding. */
static gdn_status compare(bench_row *row)
{
    gdn_status status = launch_inside(row, 0);
    if (!status) status = launch_outside(row, 1);
    for (int64_t i = 0; i < row->operand[OUT].bytes / 4 && !status; i++)
        if (!(fabsf(floats_of(row, OUT, 0)[i] - floats_of(row, OUT, 1)[i]) < 1e-4f))
            row->wrong = "the outputs of the two ways differ";
    return status;
}

gdn_status bench_layer_setup(bench_row *row, int seqs)
{
    const int64_t floats[N_OPERANDS] = {
        [X] = (int64_t)seqs * CHANNELS,
        [WEIGHT] = (int64_t)CHANNELS * WIDTH,
        [HISTORY] = (int64_t)seqs * COLUMNS * CHANNELS,
        [POSITIONS] = seqs,
        [MIXED] = (int64_t)seqs * CHANNELS,
        [G] = (int64_t)seqs * HEADS_V,
        [BETA] = (int64_t)seqs * HEADS_V,
        [SSM_A] = HEADS_V,
        [DT_BIAS] = HEADS_V,
        [OUT] = (int64_t)seqs * VALUES,
        [STATES] = (int64_t)seqs * STATE,
        [Q_READY] = (int64_t)seqs * KEYS,
        [K_READY] = (int64_t)seqs * KEYS,
        [G_READY] = (int64_t)seqs * HEADS_V,
        [BETA_READY] = (int64_t)seqs * HEADS_V,
    };
    void *const content[N_OPERANDS] = {
        [X] = bench_random_floats(1, floats[X], -1.0f, 1.0f),
        [WEIGHT] = bench_random_floats(2, floats[WEIGHT], -0.5f, 0.5f),
        [HISTORY] = bench_random_floats(3, floats[HISTORY], -1.0f, 1.0f),
        [G] = bench_random_floats(4, floats[G], -1.0f, 1.0f),
        [BETA] = bench_random_floats(5, floats[BETA], -3.0f, 3.0f),
        [SSM_A] = bench_random_floats(6, HEADS_V, -0.1f, -0.02f),
        [DT_BIAS] = bench_random_floats(7, HEADS_V, -1.0f, 1.0f),
        [STATES] = bench_random_floats(8, floats[STATES], -0.1f, 0.1f),
    };
    for (int i = 0; i < N_OPERANDS; i++) bench_add_operand(row, 4 * floats[i], content[i]); /* positions: 0 */
    row->launch = launch_inside;
    row->work.seqs = seqs;
    row->work.tokens = 1;
    gdn_status status = bench_fill(row);
    if (status) return status;

    gdn_capability conv = { .size = sizeof conv }, outside = { .size = sizeof outside };
    const gdn_ssm_conv_args conv_call = conv_args(row, 0);
    gdn_delta_inputs in;
    const gdn_gated_delta_net_args call = delta_args(row, 0, 1, &in), plain = delta_args(row, 0, 0, NULL);
    row->capability.size = sizeof row->capability;
    status = gdn_gated_delta_net_query(row->ctx, &call, &row->capability);
    if (!status) status = gdn_ssm_conv_query(row->ctx, &conv_call, &conv);
    if (!status) status = gdn_gated_delta_net_query(row->ctx, &plain, &outside);
    if (status || !row->capability.supported) return status;
    if (conv.workspace_bytes > row->capability.workspace_bytes) row->capability.workspace_bytes = conv.workspace_bytes;
    if (outside.workspace_bytes > row->capability.workspace_bytes)
        row->capability.workspace_bytes = outside.workspace_bytes;
    if ((status = bench_create_workspace(row))) return status;
    if (row->device.shared_memory) {
        row->other = launch_outside;
        row->other_ratio = "outside_ratio";
        if ((status = compare(row))) return status;
    }

    row->work.ops = 4.0 * (double)floats[STATES];
    row->work.bytes =
        8.0 * (double)floats[STATES] + 4.0 * (double)(floats[X] + floats[WEIGHT] + floats[HISTORY] + floats[OUT]);
    bench_add_operand_traffic(row, STATES, ROOFLINE_UPDATE);
    bench_add_operand_traffic(row, X, ROOFLINE_READ);
    bench_add_operand_traffic(row, HISTORY, ROOFLINE_READ);
    bench_add_operand_traffic(row, WEIGHT, ROOFLINE_READ);
    bench_add_traffic(row, HISTORY, 0, row->operand[X].bytes, ROOFLINE_WRITE);
    bench_add_operand_traffic(row, OUT, ROOFLINE_WRITE);
    return GDN_OK;
}
