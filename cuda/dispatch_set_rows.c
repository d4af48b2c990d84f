/* set_rows: from a problem to one launch or three. The kernels say how the work is cut. */
#include <stdio.h>

#include "core/status.h"
#include "cuda/device.h"

typedef gdn_set_rows_problem problem_t;

static uint64_t blocks(const problem_t *p)
{
    return ((uint64_t)p->n_columns + GDN_CUDA_ROWS_PIECE - 1) / GDN_CUDA_ROWS_PIECE;
}

static uint64_t index_batches(const problem_t *p)
{
    return (uint64_t)p->index_batch[0] * (uint64_t)p->index_batch[1];
}

/* Slots of one index batch's table: a power of two, at least twice the rows. 0 = no table. */
static uint64_t slots(const problem_t *p)
{
    uint64_t n = 2 * GDN_CUDA_ROWS_FEW;
    if (p->n_rows <= GDN_CUDA_ROWS_FEW)
        return 0;
    while (n < 2 * (uint64_t)p->n_rows)
        n *= 2;
    return n;
}

static int too_large(const problem_t *p)
{
    const uint64_t rows = (uint64_t)p->n_rows, batch0 = (uint64_t)p->n_batch[0], batch1 = (uint64_t)p->n_batch[1];
    uint64_t items;
    return rows > 1u << 30 || __builtin_mul_overflow(batch0 * batch1, rows, &items) || __builtin_mul_overflow(items, blocks(p), &items) ||
           items > GDN_CUDA_MAX_BLOCKS;
}

void gdn_cuda_plan_set_rows(const gdn_cuda_device *dev, const problem_t *p, gdn_plan *plan)
{
    gdn_capability *c = &plan->capability;
    (void)dev;
    (void)snprintf(c->implementation, sizeof c->implementation, "fma/%s", p->n_rows > GDN_CUDA_ROWS_FEW ? "table" : "compare");
    if (too_large(p)) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "the call has 2^31 thread blocks or more (batches x rows x %d columns)", GDN_CUDA_ROWS_PIECE);
        return;
    }
    c->workspace_bytes = 4 * index_batches(p) * slots(p);
}

/* Whether every row begins at a multiple of 16 bytes, where both sides are of F32, F16 or BF16. */
static int wide(const problem_t *p, const gdn_cuda_set_rows *x)
{
    uint64_t bits = x->src | x->dst;
    for (int i = 0; i < 3; i++)
        bits |= (uint64_t)p->src_stride[i] | (uint64_t)p->dst_stride[i];
    return bits % 16 == 0;
}

gdn_status gdn_cuda_run_set_rows(gdn_cuda_device *dev, const problem_t *p, const gdn_plan *plan, CUstream stream)
{
    (void)plan;
    const uint64_t table_slots = slots(p), words = index_batches(p) * table_slots, threads = GDN_CUDA_ROWS_THREADS;
    gdn_cuda_set_rows params = {
        .src = gdn_cuda_address(&p->src), .dst = gdn_cuda_address(&p->dst), .index = gdn_cuda_address(&p->index),
        .bad = dev->bad_address, .table = table_slots ? gdn_cuda_address(&p->workspace) : 0,
        .n_columns = p->n_columns, .n_rows = p->n_rows, .n_rows_dst = p->n_rows_dst,
        .src_stride = { p->src_stride[0], p->src_stride[1], p->src_stride[2] },
        .dst_stride = { p->dst_stride[0], p->dst_stride[1], p->dst_stride[2] },
        .index_stride = { p->index_stride[0], p->index_stride[1], p->index_stride[2] },
        .blocks = (int64_t)blocks(p), .table_words = (int64_t)words, .table_mask = table_slots ? (uint32_t)table_slots - 1 : 0,
        .n_batch1 = (int32_t)p->n_batch[1], .index_batch0 = (int32_t)p->index_batch[0], .index_batch1 = (int32_t)p->index_batch[1],
        .src_dtype = p->src_dtype, .dst_dtype = p->dst_dtype, .index_dtype = p->index_dtype,
    };
    const uint64_t rows = index_batches(p) * (uint64_t)p->n_rows;
    gdn_status status = GDN_OK;
    params.wide = wide(p, &params);
    if (table_slots && ((status = gdn_cuda_launch(dev, GDN_CUDA_rows_clear, stream, (words + threads - 1) / threads, (uint32_t)threads, &params)) ||
                        (status = gdn_cuda_launch(dev, GDN_CUDA_rows_enter, stream, (rows + threads - 1) / threads, (uint32_t)threads, &params))))
        return status;
    const uint64_t items = (uint64_t)p->n_batch[0] * (uint64_t)p->n_batch[1] * (uint64_t)p->n_rows * blocks(p);
    return gdn_cuda_launch(dev, GDN_CUDA_rows_write, stream, items, (uint32_t)threads, &params);
}
