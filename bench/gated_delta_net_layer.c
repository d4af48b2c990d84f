/* gdn bench: one token through the operations between a layer's projections: ssm_conv, and gated_delta_net, which
 * normalises q and k and computes the gates. */
#include "bench/gated_delta_net.h"

enum {
    WIDTH = 4,
    COLUMNS = WIDTH - 1,
    KEYS = HEADS_K * HEAD_DIM,
    VALUES = HEADS_V * HEAD_DIM,
    CHANNELS = 2 * KEYS + VALUES
};
enum { X, WEIGHT, HISTORY, POSITIONS, MIXED, G, BETA, SSM_A, DT_BIAS, OUT, STATES, N_OPERANDS };

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

static gdn_gated_delta_net_args delta_args(const bench_row *row, int copy, gdn_delta_inputs *in)
{
    gdn_gated_delta_net_args a = bench_delta_args(row->work.seqs, row->work.seqs);
    a.q = slice(row, copy, 0);
    a.k = slice(row, copy, KEYS);
    a.v = slice(row, copy, (int64_t)2 * KEYS);
    a.g = bench_tensor(row, G, copy);
    a.beta = bench_tensor(row, BETA, copy);
    a.out = bench_tensor(row, OUT, copy);
    a.state = bench_pool(row, STATES, copy, row->work.seqs, 1);
    a.workspace = row->workspace;
    *in = bench_raw_inputs();
    in->ssm_a = bench_tensor(row, SSM_A, copy);
    in->dt_bias = bench_tensor(row, DT_BIAS, copy);
    a.inputs = in;
    return a;
}

static gdn_status launch(bench_row *row, int copy)
{
    const gdn_ssm_conv_args conv = conv_args(row, copy);
    gdn_delta_inputs in;
    const gdn_gated_delta_net_args delta = delta_args(row, copy, &in);
    const gdn_status status = gdn_ssm_conv(row->ctx, &conv, NULL);
    return status ? status : gdn_gated_delta_net(row->ctx, &delta, NULL);
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
    row->launch = launch;
    row->work.seqs = seqs;
    row->work.tokens = 1;
    gdn_status status = bench_fill(row);
    if (status) return status;

    gdn_capability conv = { .size = sizeof conv };
    const gdn_ssm_conv_args conv_call = conv_args(row, 0);
    gdn_delta_inputs in;
    const gdn_gated_delta_net_args call = delta_args(row, 0, &in);
    status = gdn_gated_delta_net_query(row->ctx, &call, &row->capability);
    if (!status) status = gdn_ssm_conv_query(row->ctx, &conv_call, &conv);
    if (conv.workspace_bytes > row->capability.workspace_bytes) row->capability.workspace_bytes = conv.workspace_bytes;
    status = bench_prepare(row, status);
    if (status || !row->capability.supported) return status;

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
