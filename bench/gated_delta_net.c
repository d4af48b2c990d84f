/* gdn bench: gated_delta_net in the shape of Qwen3-Next and Qwen3.5 (32 value heads, 16 key heads, 128).
 *
 *   decode    one token: reads and writes the state once
 *   _layer    with the convolution before it (gated_delta_net_layer.c)
 *   kda       the same with a gate per key channel
 *   kv        the same with the other state layout
 *   verify    four drafted tokens with a snapshot after each: reads one state, writes four
 *   verify4_log, round4_log   the same without snapshots (gated_delta_net_log.c)
 *   prefill   many tokens: bound by arithmetic
 *   _every64  writes a checkpoint of the state every 64 tokens
 *   _raw      the call normalises q and k and computes the gates from projections
 *   _bf16     the same, with everything but the state in BF16
 *   _state_*  16-bit state, rounded after every token
 *   _digits2, 3   the chunked form (gated_delta_net_chunked.c)
 *   calls1000 1000 calls with one head of 16x16 and one token: the overhead of a call */
#include <math.h>
#include <stdlib.h>

#include "bench/gated_delta_net.h"
#include "bench/peer.h"
#include "numerics/convert.h"

typedef struct gated_delta_net_case {
    bench_case info;
    int tokens, slots; /* per sequence */
    int32_t gate, layout;
    int raw, narrow;
    int interval;  /* of checkpoints; 0 = none */
    int log;       /* 1: verification, 2: a round of speculation */
    int layer;     /* 1: with the convolution */
    int digits;    /* of the chunked form */
    int32_t state; /* type of the state       */
    int calls;     /* calls of the smallest shape per repetition; 0 = one call of the model's shape */
} gated_delta_net_case;

static const gated_delta_net_case cases[] = {
    { { "decode", 1, 1 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK },
    { { "decode", 8, 1 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK },
    { { "decode_raw", 1, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .raw = 1 },
    { { "decode_raw", 8, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .raw = 1 },
    { { "decode_bf16", 1, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .raw = 1, .narrow = 1 },
    { { "decode_bf16", 8, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .raw = 1, .narrow = 1 },
    { { "decode_kda", 1, 0 }, 1, 1, GDN_GATE_CHANNEL, GDN_STATE_VK },
    { { "decode_kda", 8, 0 }, 1, 1, GDN_GATE_CHANNEL, GDN_STATE_VK },
    { { "decode_kv", 1, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_KV },
    { { "decode_kv", 8, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_KV },
    { { "decode_state_f16", 1, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .state = GDN_F16 },
    { { "decode_state_f16", 8, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .state = GDN_F16 },
    { { "decode_state_bf16", 1, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .state = GDN_BF16 },
    { { "decode_state_bf16", 8, 0 }, 1, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .state = GDN_BF16 },
    { { "decode_layer", 1, 0 }, .layer = 1 },
    { { "decode_layer", 8, 0 }, .layer = 1 },
    { { "verify4", 1, 1 }, 4, 4, GDN_GATE_SCALAR, GDN_STATE_VK },
    { { "verify4", 8, 0 }, 4, 4, GDN_GATE_SCALAR, GDN_STATE_VK },
    { { "verify4_log", 1, 1 }, .log = 1 },
    { { "verify4_log", 8, 1 }, .log = 1 },
    { { "round4_log", 1, 0 }, .log = 2 },
    { { "round4_log", 8, 0 }, .log = 2 },
    { { "prefill512", 1, 1 }, 512, 1, GDN_GATE_SCALAR, GDN_STATE_VK },
    { { "prefill512", 8, 0 }, 512, 1, GDN_GATE_SCALAR, GDN_STATE_VK },
    { { "prefill512_raw", 1, 0 }, 512, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .raw = 1 },
    { { "prefill512_bf16", 1, 0 }, 512, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .raw = 1, .narrow = 1 },
    { { "prefill512_state_bf16", 1, 0 }, 512, 1, GDN_GATE_SCALAR, GDN_STATE_VK, .state = GDN_BF16 },
    { { "prefill512_kda", 1, 0 }, 512, 1, GDN_GATE_CHANNEL, GDN_STATE_VK },
    { { "prefill512_kda_raw", 1, 0 }, 512, 1, GDN_GATE_CHANNEL, GDN_STATE_VK, .raw = 1 },
    { { "prefill512_kv", 1, 0 }, 512, 1, GDN_GATE_SCALAR, GDN_STATE_KV },
    { { "prefill512_every64", 1, 0 }, 512, 9, GDN_GATE_SCALAR, GDN_STATE_VK, .interval = 64 },
    { { "prefill512_every256", 1, 0 }, 512, 3, GDN_GATE_SCALAR, GDN_STATE_VK, .interval = 256 },
    { { "prefill2048", 1, 0 }, 2048, 1, GDN_GATE_SCALAR, GDN_STATE_VK },
    { { "decode32_digits2", 1, 0 }, 1, .digits = 2 },
    { { "decode32_digits2", 8, 0 }, 1, .digits = 2 },
    { { "decode32_digits2", 32, 0 }, 1, .digits = 2 },
    { { "decode32_digits3", 8, 0 }, 1, .digits = 3 },
    { { "decode32_digits3", 32, 0 }, 1, .digits = 3 },
    { { "prefill512_digits2", 1, 1 }, 512, .digits = 2 },
    { { "prefill512_digits3", 1, 0 }, 512, .digits = 3 },
    { { "prefill2048_digits2", 1, 0 }, 2048, .digits = 2 },
    { { "prefill2048_digits3", 1, 0 }, 2048, .digits = 3 },
    { { "calls1000", 1, 0 }, .calls = 1000 },
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

gdn_gated_delta_net_args bench_delta_args(int seqs, int64_t tokens)
{
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    a.n_seqs = a.state.n_rows = seqs;
    a.n_tokens = (int32_t)tokens;
    a.n_heads_k = HEADS_K;
    a.n_heads_v = HEADS_V;
    a.head_dim_k = a.head_dim_v = HEAD_DIM;
    a.head_map = GDN_HEADS_TILED;
    a.scale = 1.0f / sqrtf(HEAD_DIM);
    return a;
}

gdn_delta_inputs bench_raw_inputs(void)
{
    gdn_delta_inputs in = GDN_INIT(gdn_delta_inputs);
    in.qk_norm = GDN_NORM_ADD;
    in.qk_norm_eps = 1e-6f;
    in.gate_input = GDN_G_RAW;
    in.beta_input = GDN_BETA_LOGIT;
    return in;
}

float *bench_unit_rows(uint64_t seed, int64_t n_rows)
{
    float *x = bench_random_floats(seed, n_rows * HEAD_DIM, -1.0f, 1.0f);
    for (int64_t r = 0; r < n_rows; r++) {
        float sum = 0.0f;
        for (int i = 0; i < HEAD_DIM; i++) sum += x[r * HEAD_DIM + i] * x[r * HEAD_DIM + i];
        for (int i = 0; i < HEAD_DIM; i++) x[r * HEAD_DIM + i] /= sqrtf(sum);
    }
    return x;
}

enum { Q, K, V, G, BETA, OUT, STATES, SSM_A, DT_BIAS, N_OPERANDS, SLOTS = SSM_A };

static gdn_status launch(bench_row *row, int copy)
{
    gdn_gated_delta_net_args *a = &row->args.gated_delta_net;
    gdn_tensor *const tensor[] = { &a->q, &a->k, &a->v, &a->g, &a->beta, &a->out };
    for (int i = Q; i <= OUT; i++) {
        const int32_t dtype = tensor[i]->dtype;
        *tensor[i] = bench_tensor(row, i, copy);
        tensor[i]->dtype = dtype;
    }
    const int32_t state_dtype = a->state.dtype;
    a->state = bench_pool(row, STATES, copy, a->state.n_rows, a->state.n_slots);
    a->state.dtype = state_dtype;
    if (a->inputs) {
        row->inputs.ssm_a = bench_tensor(row, SSM_A, copy);
        row->inputs.dt_bias = bench_tensor(row, DT_BIAS, copy);
        a->inputs = &row->inputs;
    }
    if (a->checkpoints) {
        row->checkpoints.dst = row->operand[SLOTS].copy[copy];
        a->checkpoints = &row->checkpoints;
    }
    a->workspace = row->workspace;
    return gdn_gated_delta_net(row->ctx, a, NULL);
}

void bench_token_traffic(bench_row *row, int first_read, int last_read, int write)
{
    for (int i = first_read; i <= last_read; i++) bench_add_operand_traffic(row, i, ROOFLINE_READ);
    bench_add_operand_traffic(row, write, ROOFLINE_WRITE);
}

static gdn_status launch_calls(bench_row *row, int copy)
{
    gdn_status status = launch(row, copy);
    for (int i = 1; i < row->work.tokens && !status; i++)
        status = gdn_gated_delta_net(row->ctx, &row->args.gated_delta_net, NULL);
    return status;
}

static gdn_status setup_calls(bench_row *row, int calls)
{
    enum { DIM = 16 };
    const int64_t floats[SSM_A] = { DIM, DIM, DIM, 1, 1, DIM, DIM * DIM };
    for (int i = Q; i < SSM_A; i++) bench_add_operand(row, floats[i] * 4, NULL);
    gdn_gated_delta_net_args *a = &row->args.gated_delta_net;
    *a = bench_delta_args(1, 1);
    a->n_heads_k = a->n_heads_v = 1;
    a->head_dim_k = a->head_dim_v = DIM;
    row->launch = launch_calls;
    row->work.seqs = 1;
    row->work.tokens = calls;
    return bench_prepare(row, gdn_gated_delta_net_query(row->ctx, a, &row->capability));
}

static gdn_status setup(bench_row *row, int index)
{
    const gated_delta_net_case *c = &cases[index];
    const int seqs = c->info.seqs;
    if (c->calls) return setup_calls(row, c->calls);
    if (c->layer) return bench_layer_setup(row, seqs);
    if (c->digits) return bench_chunked_setup(row, seqs, c->tokens, c->digits);
    if (c->log) return bench_log_setup(row, seqs, c->log == 2);
    const int64_t tokens = (int64_t)c->tokens * seqs;
    const int gate_channels = c->gate == GDN_GATE_CHANNEL ? HEAD_DIM : 1;
    const int64_t state_floats = (int64_t)seqs * c->slots * STATE;
    const int64_t floats[N_OPERANDS] = {
        tokens * HEADS_K * HEAD_DIM,
        tokens * HEADS_K * HEAD_DIM,
        tokens * HEADS_V * HEAD_DIM,
        tokens * HEADS_V * gate_channels,
        tokens * HEADS_V,
        tokens * HEADS_V * HEAD_DIM,
        state_floats,
        HEADS_V,
        HEADS_V * gate_channels,
    };
    /* The decay is near 1 and the state near 0.1, far from subnormal numbers. */
    void *const content[N_OPERANDS] = {
        c->raw ? bench_random_floats(1, floats[Q], -1.0f, 1.0f) : bench_unit_rows(1, tokens * HEADS_K),
        c->raw ? bench_random_floats(2, floats[K], -1.0f, 1.0f) : bench_unit_rows(2, tokens * HEADS_K),
        bench_random_floats(3, floats[V], -1.0f, 1.0f),
        c->raw ? bench_random_floats(4, floats[G], -1.0f, 1.0f) : bench_random_floats(4, floats[G], -0.09f, -0.01f),
        c->raw ? bench_random_floats(5, floats[BETA], -3.0f, 3.0f) : bench_random_floats(5, floats[BETA], 0.05f, 0.95f),
        NULL,
        bench_random_floats(6, floats[STATES], -0.1f, 0.1f),
        c->raw ? bench_random_floats(7, floats[SSM_A], -0.1f, -0.02f) : NULL,
        c->raw ? bench_random_floats(8, floats[DT_BIAS], -1.0f, 1.0f) : NULL,
    };
    for (int i = 0; i < (c->raw ? N_OPERANDS : SSM_A); i++) {
        if (c->narrow && i < OUT) gdn_store_elements(content[i], GDN_BF16, content[i], floats[i]);
        if (c->state && i == STATES) gdn_store_elements(content[i], c->state, content[i], floats[i]);
        bench_add_operand(row, floats[i] * ((c->narrow && i <= OUT) || (c->state && i == STATES) ? 2 : 4), content[i]);
    }
    if (c->interval) { /* slot 0 is the state; one sequence */
        int32_t *slots = bench_alloc((c->slots - 1) * (int64_t)sizeof *slots);
        for (int i = 0; i < c->slots - 1; i++) slots[i] = i + 1;
        bench_add_operand(row, (c->slots - 1) * (int64_t)sizeof *slots, slots);
    }

    gdn_gated_delta_net_args *a = &row->args.gated_delta_net;
    *a = bench_delta_args(seqs, tokens);
    a->gate = c->gate;
    a->state_layout = c->layout;
    a->state.n_slots = c->slots;
    a->state.dtype = c->state;
    a->n_snapshots = c->interval ? 1 : c->slots;
    if (c->interval) {
        row->checkpoints =
            (gdn_checkpoints){ .size = sizeof row->checkpoints, .interval = c->interval, .n = c->slots - 1 };
        a->checkpoints = &row->checkpoints;
    }
    if (c->raw) {
        row->inputs = bench_raw_inputs();
        a->inputs = &row->inputs;
    }
    if (c->narrow) a->q.dtype = a->k.dtype = a->v.dtype = a->g.dtype = a->beta.dtype = a->out.dtype = GDN_BF16;
    row->launch = launch;
    row->work.seqs = seqs;
    row->work.tokens = c->tokens;
    const gdn_status status = bench_prepare(row, gdn_gated_delta_net_query(row->ctx, a, &row->capability));
    if (status || !row->capability.supported) return status;

    /* Operations per state element and token: decay, two multiply-adds of dot products, one of the update. */
    const double element_steps = (double)tokens * STATE;
    const int written = c->tokens < c->slots ? c->tokens : c->slots;
    row->work.ops = 4.0 * element_steps;
    row->work.bytes = (c->state ? 2.0 : 4.0) * ((double)seqs * STATE * (1 + written));
    for (int i = Q; i <= OUT; i++) row->work.bytes += (double)row->operand[i].bytes;

    if (c->tokens == 1) {
        bench_add_operand_traffic(row, STATES, ROOFLINE_UPDATE);
        bench_token_traffic(row, Q, V, OUT);
    } else if (c->slots == 4) {
        bench_add_traffic(row, STATES, 0, 4 * (int64_t)seqs * STATE, ROOFLINE_READ);
        bench_add_operand_traffic(row, STATES, ROOFLINE_WRITE);
        bench_token_traffic(row, Q, V, OUT);
    } else {
        row->lane_ops = row->work.ops;
    }

    if (c->raw || c->interval || c->state) return GDN_OK; /* no peer has this in one operator */
    peer_add_gated_delta_net(row, &(peer_gated_delta_net){
                                      .q = Q,
                                      .k = K,
                                      .v = V,
                                      .g = G,
                                      .beta = BETA,
                                      .out = OUT,
                                      .state = STATES,
                                      .tokens = c->tokens,
                                      .seqs = seqs,
                                      .slots = c->slots,
                                      .heads_k = HEADS_K,
                                      .heads_v = HEADS_V,
                                      .head_dim = HEAD_DIM,
                                      .gate_channels = gate_channels,
                                      .compare = c->layout == GDN_STATE_VK && (c->slots == 1 || seqs == 1),
                                  });
    return GDN_OK;
}

const bench_kernel bench_gated_delta_net = { "gated_delta_net", N_CASES, cases, sizeof cases[0], setup };
