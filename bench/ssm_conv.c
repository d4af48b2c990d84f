/* gdn bench: ssm_conv with silu, 8192 channels and width 4, as in Qwen3-Next and Qwen3.5.
 *
 *   decode      one token: reads the weights, the token and three columns of history, writes a column and out
 *   prefill512  512 tokens: whichever is slower, moving x and out or the arithmetic */
#include "bench/bench.h"
#include "bench/peer.h"

enum {
    CHANNELS = 8192,
    WIDTH = 4,
    COLUMNS = WIDTH - 1,
    POSITION = 5, /* of the first token: the history is full */
    /* Vector operations per output, for the floor: one multiply-add per tap, and the 14 floating-point operations
     * of silu in numerics/elementary.h where steps 4 and 5 are a division (step 1: 4, step 2: 6, step 3: 2, the
     * division, the scaling back), all taken for as fast as an fma. Its integer operations, clamps and selections
     * are not counted. */
    OPS_PER_OUTPUT = WIDTH + 14
};

typedef struct ssm_conv_case {
    bench_case info;
    int        tokens;
} ssm_conv_case;

static const ssm_conv_case cases[] = {
    { { "decode", 1, 1 }, 1 },
    { { "decode", 8, 1 }, 1 },
    { { "prefill512", 1, 1 }, 512 },
    { { "prefill512", 8, 0 }, 512 },
};
enum { N_CASES = sizeof cases / sizeof cases[0] };
enum { X, WEIGHT, OUT, HISTORY, POSITIONS };

static const bench_case *describe(int index)
{
    return &cases[index].info;
}

static gdn_status launch(bench_row *row, int copy)
{
    gdn_ssm_conv_args *a = &row->args.ssm_conv;
    a->x = bench_tensor(row, X, copy);
    a->weight = bench_tensor(row, WEIGHT, copy);
    a->out = bench_tensor(row, OUT, copy);
    a->history = bench_tensor(row, HISTORY, copy);
    a->position = row->operand[POSITIONS].copy[copy];
    a->workspace = row->workspace;
    return gdn_ssm_conv(row->ctx, a, NULL);
}

static gdn_status setup(bench_row *row, int index)
{
    const ssm_conv_case *c = &cases[index];
    const int seqs = c->info.seqs;
    const int64_t tokens = (int64_t)c->tokens * seqs, values = tokens * CHANNELS;
    int32_t *positions = bench_alloc(seqs * (int64_t)sizeof *positions);
    for (int s = 0; s < seqs; s++) positions[s] = POSITION;

    bench_add_operand(row, values * 4, bench_random_floats(1, values, -1.0f, 1.0f));
    bench_add_operand(row, CHANNELS * WIDTH * 4, bench_random_floats(2, CHANNELS * WIDTH, -0.5f, 0.5f));
    bench_add_operand(row, values * 4, NULL);
    bench_add_operand(row, (int64_t)seqs * COLUMNS * CHANNELS * 4,
                      bench_random_floats(3, (int64_t)seqs * COLUMNS * CHANNELS, -1.0f, 1.0f));
    bench_add_operand(row, seqs * (int64_t)sizeof *positions, positions);

    gdn_ssm_conv_args *a = &row->args.ssm_conv;
    *a = (gdn_ssm_conv_args){
        .size = sizeof *a,        .flags = GDN_CONV_SILU, .n_seqs = seqs,      .n_tokens = (int32_t)tokens,
        .n_channels = CHANNELS,   .kernel_width = WIDTH,  .n_rows = seqs,      .n_columns = COLUMNS,
    };
    row->launch = launch;
    row->seqs = seqs;
    row->tokens = c->tokens;
    gdn_status status = bench_fill(row); /* first: without an address the history would count as absent */
    if (status) return status;
    a->x = bench_tensor(row, X, 0);
    a->weight = bench_tensor(row, WEIGHT, 0);
    a->out = bench_tensor(row, OUT, 0);
    a->history = bench_tensor(row, HISTORY, 0);
    a->position = row->operand[POSITIONS].copy[0];
    row->capability.size = sizeof row->capability;
    status = gdn_ssm_conv_query(row->ctx, a, &row->capability);
    if (status || !row->capability.supported) return status;
    if ((status = bench_create_workspace(row))) return status;

    const int columns_written = c->tokens < COLUMNS ? c->tokens : COLUMNS;
    row->ops = (double)OPS_PER_OUTPUT * (double)values;
    row->bytes = 4.0 * (2.0 * (double)values + CHANNELS * (WIDTH + (double)seqs * (COLUMNS + columns_written)));

    if (c->tokens == 1) {
        /* The weights are read for the first sequence and then come from a cache, here as in the kernel. */
        bench_stream stream = { .n_in = 8, .n_out = 2, .n = CHANNELS, .n_blocks = seqs, .factor = 0.1f };
        const int64_t row_bytes = 4 * COLUMNS * CHANNELS, column = POSITION % COLUMNS * 4 * CHANNELS;
        stream.in[0] = (bench_ref){ X, 0, 4 * CHANNELS };
        for (int j = 0; j < WIDTH; j++) stream.in[1 + j] = (bench_ref){ WEIGHT, 4 * (int64_t)j * CHANNELS, 0 };
        for (int j = 0; j < COLUMNS; j++)
            stream.in[1 + WIDTH + j] = (bench_ref){ HISTORY, 4 * (int64_t)j * CHANNELS, row_bytes };
        stream.out[0] = (bench_ref){ HISTORY, column, row_bytes };
        stream.out[1] = (bench_ref){ OUT, 0, 4 * CHANNELS };
        bench_add_streams(row, PART_PATTERN, 1.0, &stream, 1);
    } else {
        const bench_stream stream = { .n_in = 1, .n_out = 1, .n = values, .n_blocks = 1, .factor = 1.0f,
                                      .in = { { X, 0, 0 } }, .out = { { OUT, 0, 0 } } };
        bench_add_streams(row, PART_PATTERN, 1.0, &stream, 1);
    }
    bench_add_arithmetic(row, row->ops);

    peer_add_ssm_conv(row, &(peer_ssm_conv){ .x = X, .weight = WEIGHT, .out = OUT, .history = HISTORY, .tokens = c->tokens,
                                             .seqs = seqs, .channels = CHANNELS, .kernel_width = WIDTH,
                                             .position = POSITION });
    return GDN_OK;
}

const bench_kernel bench_ssm_conv = { "ssm_conv", N_CASES, describe, setup };
