/* set_rows: from a problem to one dispatch or three. The kernels say how the work is cut. */
#include <stdio.h>

#include "core/status.h"
#include "metal/device.h"

typedef gdn_set_rows_problem problem_t;

static uint64_t blocks(const problem_t *p)
{
    return ((uint64_t)p->n_columns + GDN_METAL_ROWS_PIECE - 1) / GDN_METAL_ROWS_PIECE;
}

static uint64_t index_batches(const problem_t *p)
{
    return (uint64_t)p->index_batch[0] * (uint64_t)p->index_batch[1];
}

/* Slots of one index batch's table: a power of two, at least twice the rows. 0 = no table. */
static uint64_t slots(const problem_t *p)
{
    uint64_t n = 2 * GDN_METAL_ROWS_FEW;
    if (p->n_rows <= GDN_METAL_ROWS_FEW)
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
           items > GDN_METAL_MAX_GROUPS || index_batches(p) * slots(p) / GDN_METAL_ROWS_THREADS >= GDN_METAL_MAX_GROUPS;
}

void gdn_metal_plan_set_rows(const gdn_metal_device *dev, const problem_t *p, gdn_plan *plan)
{
    gdn_capability *c = &plan->capability;
    (void)dev;
    (void)snprintf(c->implementation, sizeof c->implementation, "fma/%s", p->n_rows > GDN_METAL_ROWS_FEW ? "table" : "compare");
    if (too_large(p)) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "the call has 2^31 threadgroups or more (batches x rows x %d columns)", GDN_METAL_ROWS_PIECE);
        return;
    }
    c->workspace_bytes = 4 * index_batches(p) * slots(p);
}

gdn_status gdn_metal_run_set_rows(gdn_metal_device *dev, const problem_t *p, const gdn_plan *plan, gdn_stream stream)
{
    (void)plan;
    const uint64_t table_slots = slots(p), words = index_batches(p) * table_slots, threads = GDN_METAL_ROWS_THREADS;
    const gdn_metal_set_rows params = {
        .n_columns = p->n_columns, .n_rows = p->n_rows, .n_rows_dst = p->n_rows_dst,
        .src_stride = { p->src_stride[0], p->src_stride[1], p->src_stride[2] },
        .dst_stride = { p->dst_stride[0], p->dst_stride[1], p->dst_stride[2] },
        .index_stride = { p->index_stride[0], p->index_stride[1], p->index_stride[2] },
        .blocks = (int64_t)blocks(p), .table_words = (int64_t)words, .table_mask = table_slots ? (uint32_t)table_slots - 1 : 0,
        .n_batch1 = (int32_t)p->n_batch[1], .index_batch0 = (int32_t)p->index_batch[0], .index_batch1 = (int32_t)p->index_batch[1],
        .src_dtype = p->src_dtype, .dst_dtype = p->dst_dtype, .index_dtype = p->index_dtype,
        .has = table_slots ? GDN_METAL_HAS_TABLE : 0,
    };
    const uint64_t rows = index_batches(p) * (uint64_t)p->n_rows;
    const gdn_metal_binding table = { table_slots ? p->workspace.data : NULL, table_slots ? p->workspace.offset : 0 };
    const gdn_metal_binding index = gdn_metal_bind(&p->index), src = gdn_metal_bind(&p->src), dst = gdn_metal_bind(&p->dst);
    const gdn_metal_binding bad = { dev->bad_buffer, 0 };
    const gdn_metal_dispatch dispatch[3] = {
        { .kernel = GDN_METAL_rows_clear, .params = &params, .params_bytes = sizeof params, .groups = (words + threads - 1) / threads,
          .threads = (uint32_t)threads, .n_bindings = 1, .bindings = { table } },
        { .kernel = GDN_METAL_rows_enter, .params = &params, .params_bytes = sizeof params, .groups = (rows + threads - 1) / threads,
          .threads = (uint32_t)threads, .n_bindings = 2, .bindings = { table, index } },
        { .kernel = GDN_METAL_rows_write, .params = &params, .params_bytes = sizeof params,
          .groups = (uint64_t)p->n_batch[0] * (uint64_t)p->n_batch[1] * (uint64_t)p->n_rows * blocks(p),
          .threads = (uint32_t)threads, .n_bindings = 5, .bindings = { table, index, src, dst, bad } },
    };
    return table_slots ? gdn_metal_run(dev, dispatch, 3, stream) : gdn_metal_run(dev, dispatch + 2, 1, stream);
}
