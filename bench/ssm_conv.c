/* gdn bench: ssm_conv with silu, 8192 channels and width 4, as in Qwen3-Next and Qwen3.5; in F32, and all in BF16.
 *
 *   decode      one token: reads the weights, the token and three history entries, writes an entry and out
 *   prefill512  512 tokens: bound by moving x and out, or by arithmetic, whichever is slower */
#include <string.h>

#include "bench/bench.h"
#include "bench/peer.h"
#include "numerics/convert.h"

enum {
    CHANNELS = 8192,
    WIDTH = 4,
    COLUMNS = WIDTH - 1,
    POSITION = 5, /* of the first token: the history is full */
    /* Vector operations per output, for the roofline: one multiply-add per tap, and the 14 floating-point operations of
     * silu in numerics/elementary.h. Steps 4 and 5 count as a division (step 1: 4, step 2: 6, step 3: 2, the division,
     * the scaling back). All count as one fma each; integer operations, clamps and selections are not counted. */
    OPS_PER_OUTPUT = WIDTH + 14
};

typedef struct ssm_conv_case {
    bench_case info;
    int tokens;
    int32_t dtype; /* of all operands */
} ssm_conv_case;

static const ssm_conv_case cases[] = {
    { { "decode", 1, 1 }, 1, GDN_F32 },
    { { "decode", 8, 1 }, 1, GDN_F32 },
    { { "decode_bf16", 8, 1 }, 1, GDN_BF16 },
    { { "prefill512", 1, 1 }, 512, GDN_F32 },
    { { "prefill512_bf16", 1, 1 }, 512, GDN_BF16 },
    { { "prefill512", 8, 0 }, 512, GDN_F32 },
};
enum { N_CASES = sizeof cases / sizeof cases[0] };
enum { X, WEIGHT, OUT, HISTORY, POSITIONS };

static void set_operands(bench_row *row, int copy)
{
    gdn_ssm_conv_args *a = &row->args.ssm_conv;
    const int32_t dtype = a->x.dtype;
    a->x = bench_tensor(row, X, copy);
    a->weight = bench_tensor(row, WEIGHT, copy);
    a->out = bench_tensor(row, OUT, copy);
    a->history = bench_pool(row, HISTORY, copy, a->history.n_rows, COLUMNS);
    a->x.dtype = a->weight.dtype = a->out.dtype = a->history.dtype = dtype;
    a->position = row->operand[POSITIONS].copy[copy];
}

static gdn_status launch(bench_row *row, int copy)
{
    set_operands(row, copy);
    row->args.ssm_conv.workspace = row->workspace;
    return gdn_ssm_conv(row->ctx, &row->args.ssm_conv, NULL);
}

/* Random values of a type: F32 or BF16. */
static void *random_values(int32_t dtype, uint64_t seed, int64_t n, float low, float high)
{
    float *x = bench_random_floats(seed, n, low, high);
    for (int64_t i = 0; dtype == GDN_BF16 && i < n; i++) { /* in place: only values that were read are overwritten */
        const uint16_t b = gdn_to_bf16(x[i]);
        memcpy((char *)x + 2 * i, &b, 2);
    }
    return x;
}

static gdn_status setup(bench_row *row, int index)
{
    const ssm_conv_case *c = &cases[index];
    const int seqs = c->info.seqs;
    const int64_t tokens = (int64_t)c->tokens * seqs, values = tokens * CHANNELS;
    const int64_t element = c->dtype == GDN_F32 ? 4 : 2;
    int32_t *positions = bench_alloc(seqs * (int64_t)sizeof *positions);
    for (int s = 0; s < seqs; s++) positions[s] = POSITION;

    bench_add_operand(row, values * element, random_values(c->dtype, 1, values, -1.0f, 1.0f));
    bench_add_operand(row, CHANNELS * WIDTH * element, random_values(c->dtype, 2, CHANNELS * WIDTH, -0.5f, 0.5f));
    bench_add_operand(row, values * element, NULL);
    bench_add_operand(row, (int64_t)seqs * COLUMNS * CHANNELS * element,
                      random_values(c->dtype, 3, (int64_t)seqs * COLUMNS * CHANNELS, -1.0f, 1.0f));
    bench_add_operand(row, seqs * (int64_t)sizeof *positions, positions);

    gdn_ssm_conv_args *a = &row->args.ssm_conv;
    *a = (gdn_ssm_conv_args)GDN_INIT(gdn_ssm_conv_args);
    a->activation = GDN_ACTIVATION_SILU;
    a->n_seqs = a->history.n_rows = seqs;
    a->n_tokens = (int32_t)tokens;
    a->n_channels = CHANNELS;
    a->kernel_width = WIDTH;
    a->x.dtype = c->dtype;
    row->launch = launch;
    row->work.seqs = seqs;
    row->work.tokens = c->tokens;
    gdn_status status = bench_fill(row);
    if (status) return status;
    set_operands(row, 0);
    status = bench_prepare(row, gdn_ssm_conv_query(row->ctx, a, &row->capability));
    if (status || !row->capability.supported) return status;

    const int columns_written = c->tokens < COLUMNS ? c->tokens : COLUMNS;
    row->work.ops = (double)OPS_PER_OUTPUT * (double)values;
    row->work.bytes =
        (double)element * (2.0 * (double)values + CHANNELS * (WIDTH + (double)seqs * (COLUMNS + columns_written)));

    bench_add_operand_traffic(row, X, ROOFLINE_READ);
    bench_add_operand_traffic(row, OUT, ROOFLINE_WRITE);
    if (c->tokens == 1) {
        bench_add_operand_traffic(row, WEIGHT, ROOFLINE_READ);
        bench_add_operand_traffic(row, HISTORY, ROOFLINE_READ);
        bench_add_traffic(row, HISTORY, 0, seqs * CHANNELS * element, ROOFLINE_WRITE);
    }
    row->lane_ops = row->work.ops;

    if (c->dtype != GDN_F32) return GDN_OK; /* ggml's operator takes F32 */
    peer_add_ssm_conv(row, &(peer_ssm_conv){ .x = X,
                                             .weight = WEIGHT,
                                             .out = OUT,
                                             .history = HISTORY,
                                             .tokens = c->tokens,
                                             .seqs = seqs,
                                             .channels = CHANNELS,
                                             .kernel_width = WIDTH,
                                             .position = POSITION });
    return GDN_OK;
}

const bench_kernel bench_ssm_conv = { "ssm_conv", N_CASES, cases, sizeof cases[0], setup };
