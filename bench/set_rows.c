/* gdn bench: set_rows: 1024 rows of 512 floats to scattered rows of a larger tensor, like writes to a KV cache. The
 * roofline reads the same rows and writes as many bytes side by side. */
#include "bench/bench.h"
#include "bench/peer.h"

enum { COLUMNS = 512, ROWS = 1024, ROWS_DST = 4096 };

typedef struct set_rows_case {
    bench_case info;
    int32_t dtype;
    int64_t row_bytes;
} set_rows_case;

static const set_rows_case cases[] = {
    { { "f32_to_f32", 0, 1 }, GDN_F32, COLUMNS * 4 },
    { { "f32_to_f16", 0, 1 }, GDN_F16, COLUMNS * 2 },
    { { "f32_to_bf16", 0, 0 }, GDN_BF16, COLUMNS * 2 },
    { { "f32_to_q8_0", 0, 1 }, GDN_Q8_0, COLUMNS / 32 * 34 },
};
enum { N_CASES = sizeof cases / sizeof cases[0] };
enum { SRC, DST, INDEX };

static gdn_status launch(bench_row *row, int copy)
{
    gdn_set_rows_args *a = &row->args.set_rows;
    const int32_t dtype = a->dst.dtype;
    a->src = bench_tensor(row, SRC, copy);
    a->dst = bench_tensor(row, DST, copy);
    a->dst.dtype = dtype;
    a->index = bench_tensor(row, INDEX, copy);
    a->index.dtype = GDN_I32;
    a->workspace = row->workspace;
    return gdn_set_rows(row->ctx, a, NULL);
}

/* ROWS distinct rows in random order. */
static int32_t *random_rows(uint64_t seed)
{
    bench_random random = { seed };
    int32_t *all = bench_alloc(ROWS_DST * (int64_t)sizeof *all);
    for (int32_t i = 0; i < ROWS_DST; i++) all[i] = i;
    for (int32_t i = 0; i < ROWS; i++) {
        const int32_t j = i + (int32_t)(bench_random_bits(&random) % (uint64_t)(ROWS_DST - i)), other = all[j];
        all[j] = all[i];
        all[i] = other;
    }
    return all;
}

static gdn_status setup(bench_row *row, int index)
{
    const set_rows_case *c = &cases[index];
    bench_add_operand(row, ROWS * COLUMNS * 4, bench_random_floats(1, ROWS * COLUMNS, -2.0f, 2.0f));
    bench_add_operand(row, ROWS_DST * c->row_bytes, NULL);
    bench_add_operand(row, ROWS * 4, random_rows(2));

    gdn_set_rows_args *a = &row->args.set_rows;
    *a = (gdn_set_rows_args)GDN_INIT(gdn_set_rows_args);
    a->n_columns = COLUMNS;
    a->n_rows = ROWS;
    a->n_rows_dst = ROWS_DST;
    a->src.dtype = GDN_F32;
    a->dst.dtype = c->dtype;
    a->index.dtype = GDN_I32;
    row->launch = launch;
    row->work.tokens = ROWS;
    const gdn_status status = bench_prepare(row, gdn_set_rows_query(row->ctx, a, &row->capability));
    if (status || !row->capability.supported) return status;

    row->work.bytes = (double)ROWS * (double)(COLUMNS * 4 + c->row_bytes + 4);
    bench_add_operand_traffic(row, SRC, ROOFLINE_READ);
    bench_add_operand_traffic(row, INDEX, ROOFLINE_READ);
    bench_add_traffic(row, DST, 0, ROWS * c->row_bytes, ROOFLINE_WRITE);
    peer_add_set_rows(row, &(peer_set_rows){ .src = SRC,
                                             .dst = DST,
                                             .index = INDEX,
                                             .rows = ROWS,
                                             .rows_dst = ROWS_DST,
                                             .columns = COLUMNS,
                                             .dtype = c->dtype });
    return GDN_OK;
}

const bench_kernel bench_set_rows = { "set_rows", N_CASES, cases, sizeof cases[0], setup };
