/* set_rows: validates the caller's arguments, makes a problem, and runs it on the backend. */
#include "core/calls.h"
#include "core/operands.h"
#include "core/status.h"
#include "core/structs.h"

#include <string.h>

typedef gdn_set_rows_args args_t;
typedef gdn_set_rows_call block_t;

enum { SRC, DST, INDEX, N_REGIONS }; /* regions: see gdn_problem */

#define FLOATS  (1u << GDN_F32 | 1u << GDN_F16 | 1u << GDN_BF16)
#define LARGEST ((int64_t)1 << 40)

static gdn_status check_args(const args_t *a)
{
    gdn_status status;
    if ((status = gdn_check_range("n_columns", a->n_columns, 1, LARGEST)) ||
        (status = gdn_check_range("n_rows", a->n_rows, 0, LARGEST)) ||
        (status = gdn_check_range("n_rows_dst", a->n_rows_dst, a->n_rows ? 1 : 0, LARGEST)))
        return status;
    for (int i = 0; i < 2; i++) {
        if (!a->n_batch[i] || !a->index_batch[i])
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "%s[%d] is 0; set it, 1 by GDN_INIT (zeros alone do not initialise a struct)",
                            a->n_batch[i] ? "index_batch" : "n_batch", i);
        const char *const names[2][2] = { { "n_batch[0]", "index_batch[0]" }, { "n_batch[1]", "index_batch[1]" } };
        if ((status = gdn_check_range(names[i][0], a->n_batch[i], 1, 1 << 30)) ||
            (status = gdn_check_range(names[i][1], a->index_batch[i], 1, a->n_batch[i])))
            return status;
        if (a->n_batch[i] % a->index_batch[i])
            return gdn_fail(GDN_INVALID_ARGUMENT, "%s is %lld; it must divide %s, which is %lld", names[i][1],
                            (long long)a->index_batch[i], names[i][0], (long long)a->n_batch[i]);
    }
    if (a->flags) return gdn_fail(GDN_INVALID_ARGUMENT, "flags is %#x; it must be 0", (unsigned)a->flags);
    return GDN_OK;
}

static gdn_status check_index(const block_t *p)
{
    for (int64_t b = 0; b < p->index_batch[0]; b++)
        for (int64_t c = 0; c < p->index_batch[1]; c++)
            for (int64_t i = 0; i < p->n_rows; i++) {
                const int64_t row = gdn_index_at(p, b, c, i);
                if (row < GDN_NONE || row >= p->n_rows_dst)
                    return gdn_fail(GDN_INVALID_ARGUMENT,
                                    "index[%lld][%lld][%lld] is %lld; 0 to %lld and GDN_NONE are allowed", (long long)b,
                                    (long long)c, (long long)i, (long long)row, (long long)p->n_rows_dst - 1);
            }
    return GDN_OK;
}

static gdn_status resolve_operand(const gdn_context *ctx, const char *name, const gdn_tensor *t, uint32_t dtypes,
                                  const int64_t batch[2], int64_t rows, int64_t inner, int needed, uint64_t *at,
                                  int64_t stride[3], gdn_region *region)
{
    const gdn_operand_spec spec = {
        .name = name,
        .dtypes = dtypes,
        .n_axes = 3,
        .axes = { "batch 0", "batch 1", "row" },
        .extent = { batch[0], batch[1], rows },
        .inner = inner,
        .needed = needed,
    };
    int64_t all[4];
    gdn_status status = gdn_operand_resolve(ctx, &spec, t, at, all, region);
    memcpy(stride, all, 3 * sizeof all[0]);
    return status;
}

gdn_status gdn_set_rows_resolve(const gdn_context *ctx, const void *args, gdn_plan *plan, gdn_problem *problem)
{
    args_t copy; /* the call uses the values that it has checked */
    const args_t *a = &copy;
    block_t *const p = &problem->set_rows;
    gdn_region *const r = problem->regions;
    gdn_status status;
    _Static_assert((int)N_REGIONS < (int)GDN_MAX_REGIONS, "regions of a call");
    gdn_regions_clear(r, N_REGIONS + 1);
    if ((status = gdn_struct_read("args", args, GDN_FIRST_SIZE(gdn_set_rows_args), sizeof copy, &copy)) ||
        (status = check_args(a)))
        return status;
    problem->kernel = GDN_KERNEL_set_rows;
    problem->n_regions = N_REGIONS;
    problem->workspace = 0;
    problem->slot_bytes = problem->log_entry_bytes = 0;
    problem->empty = !a->n_rows;
    *p = (block_t){
        .n_columns = a->n_columns,
        .n_rows = a->n_rows,
        .n_rows_dst = a->n_rows_dst,
        .n_batch = { (int32_t)a->n_batch[0], (int32_t)a->n_batch[1] },
        .index_batch = { (int32_t)a->index_batch[0], (int32_t)a->index_batch[1] },
        .src_dtype = a->src.dtype,
        .dst_dtype = a->dst.dtype,
        .index_dtype = a->index.dtype,
    };
    const int needed = plan && a->n_rows > 0;
    if ((status = resolve_operand(ctx, "src", &a->src, FLOATS, a->n_batch, a->n_rows, a->n_columns, needed, &p->src,
                                  p->src_stride, &r[SRC])) ||
        (status = resolve_operand(ctx, "dst", &a->dst, FLOATS | 1u << GDN_Q8_0, a->n_batch, a->n_rows_dst, a->n_columns,
                                  needed, &p->dst, p->dst_stride, &r[DST])) ||
        (status = resolve_operand(ctx, "index", &a->index, 1u << GDN_I32 | 1u << GDN_I64, a->index_batch, a->n_rows, 1,
                                  needed, &p->index, p->index_stride, &r[INDEX])))
        return status;
    if (!plan) return GDN_OK;

    r[DST].written = 1;
    if ((status = gdn_plan_resolve(ctx, problem, &a->workspace, plan))) return status;
    return ctx->backend->host_memory && a->n_rows ? check_index(p) : GDN_OK;
}

/* ---- The public functions ---------------------------------------------------------------------------- */

gdn_status gdn_set_rows_query(const gdn_context *ctx, const args_t *args, gdn_capability *capability)
{
    return gdn_query(ctx, gdn_set_rows_resolve, args, capability);
}

gdn_status gdn_set_rows(gdn_context *ctx, const args_t *args, gdn_stream stream)
{
    return gdn_call(ctx, gdn_set_rows_resolve, args, stream);
}
