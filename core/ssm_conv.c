/* ssm_conv: from the caller's arguments to a problem, and on to the backend. */
#include "core/calls.h"
#include "core/kernels.h"
#include "core/maps.h"
#include "core/operands.h"
#include "core/status.h"
#include "core/structs.h"

#include <string.h>

typedef gdn_ssm_conv_args    args_t;
typedef gdn_ssm_conv_problem problem_t;

enum {
    X,
    WEIGHT,
    BIAS,
    OUT,
    WORKSPACE,
    HISTORY,
    HISTORY_OUT,
    SEQ_START,
    POSITION,
    HISTORY_SRC,
    HISTORY_DST,
    HISTORY_CHECKPOINT,
    PARENT,
    N_REGIONS
};

#define FLOATS (1u << GDN_F32 | 1u << GDN_F16 | 1u << GDN_BF16)

static void fill_defaults(args_t *a)
{
    a->n_rows_out = a->n_rows_out ? a->n_rows_out : a->n_rows;
    if ((a->history.data || a->n_rows) && !a->n_columns && a->kernel_width > 0) /* it is checked only afterwards */
        a->n_columns = a->kernel_width - 1;
}

static gdn_status gdn_ssm_conv_check(args_t *a, int launch)
{
    gdn_status status;
    fill_defaults(a);
    if ((status = gdn_check_range("n_seqs", a->n_seqs, 0, 1 << 24)) ||
        (status = gdn_check_range("n_tokens", a->n_tokens, 0, INT32_MAX)) ||
        (status = gdn_check_range("n_channels", a->n_channels, 1, INT32_MAX)) ||
        (status = gdn_check_range("kernel_width", a->kernel_width, 1, 16)))
        return status;
    if (a->history.data || a->n_rows || a->n_columns) {
        if ((status = gdn_check_range("n_rows", a->n_rows, 1, INT32_MAX)) ||
            (status = gdn_check_range("n_rows_out", a->n_rows_out, 1, INT32_MAX)) ||
            (status = gdn_check_range("n_columns", a->n_columns, a->kernel_width - 1, INT32_MAX)))
            return status;
    }
    if (a->history_out.data && !a->history.data)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "history_out is given and history is absent; give both, or history alone");
    if (launch && !a->history_out.data && a->n_rows_out != a->n_rows)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "n_rows_out is %d, but history_out is absent; leave it 0 or give history_out",
                        (int)a->n_rows_out);
    if (a->flags & ~(uint32_t)(GDN_CONV_SILU | GDN_CONV_TREE))
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "flags is %#x; GDN_CONV_SILU (%#x), GDN_CONV_TREE (%#x), both or 0 are allowed",
                        (unsigned)a->flags, (unsigned)GDN_CONV_SILU, (unsigned)GDN_CONV_TREE);
    if ((status = gdn_check_tree_flag("GDN_CONV_TREE", GDN_CONV_TREE, (a->flags & GDN_CONV_TREE) != 0,
                                      launch && a->parent.data)))
        return status;
    if (a->reserved)
        return gdn_fail(GDN_INVALID_ARGUMENT, "reserved is %d; it must be 0", (int)a->reserved);
    if ((status = gdn_check_checkpoints("history_checkpoint", launch && a->history_checkpoint.data,
                                        a->checkpoint_interval, a->n_checkpoints, a->n_seqs)))
        return status;
    if (a->checkpoint_interval && a->flags & GDN_CONV_TREE)
        return gdn_fail(
            GDN_INVALID_ARGUMENT,
            "checkpoint_interval is %d and flags has GDN_CONV_TREE; it must be 0: a tree has no checkpoints",
            (int)a->checkpoint_interval);
    if (launch && a->checkpoint_interval && !a->history.data)
        return gdn_fail(GDN_INVALID_ARGUMENT, "checkpoint_interval is %d and history is absent; it must be 0 then",
                        (int)a->checkpoint_interval);
    if (a->n_tokens && !a->n_seqs)
        return gdn_fail(GDN_INVALID_ARGUMENT, "n_seqs is 0 and n_tokens is %d; tokens need a sequence",
                        (int)a->n_tokens);
    return GDN_OK;
}

static gdn_status resolve_tokens(const gdn_backend *b, const char *name, const gdn_tensor *t, const args_t *a,
                                 const gdn_place *seq_start, int32_t longest, int needed, gdn_token_view *view,
                                 gdn_region *region)
{
    const gdn_operand_spec spec = {
        .name = name, .dtypes = FLOATS, .n_axes = 2, .axes = { "sequence", "token" }, .extent = { a->n_seqs, longest },
        .inner = a->n_channels, .ragged = 1, .ragged_tokens = a->n_tokens, .seq_start = seq_start, .needed = needed,
    };
    return gdn_tokens_resolve(b, &spec, t, view, region);
}

/* The weight's taps need not be contiguous, so its innermost "row" is a single element. */
static gdn_status resolve_weight(const gdn_backend *b, const args_t *a, int needed, problem_t *p, gdn_region *region)
{
    const gdn_operand_spec spec = {
        .name = "weight", .dtypes = FLOATS, .n_axes = 2, .axes = { "channel", "tap" },
        .extent = { a->n_channels, a->kernel_width }, .inner = 1,
        .needed = needed,
    };
    int64_t stride[4];
    gdn_status status = gdn_operand_resolve(b, &spec, &a->weight, &p->weight, stride, region);
    p->weight_stride_channel = stride[0];
    p->weight_stride_tap     = stride[1];
    p->weight_dtype          = a->weight.dtype;
    return status;
}

static gdn_status resolve_history(const gdn_backend *b, const char *name, const gdn_tensor *t, const args_t *a,
                                  int32_t n_rows, gdn_state_view *view, gdn_region *region)
{
    const gdn_operand_spec spec = {
        .name = name, .dtypes = FLOATS, .n_axes = 2, .axes = { "row", "column" }, .extent = { n_rows, a->n_columns },
        .inner = a->n_channels,
    };
    return gdn_pool_resolve(b, &spec, t, view, region);
}

/* What the host can read of a tree. */
static gdn_status check_tree(const args_t *a, const problem_t *p)
{
    for (int32_t s = 0; p->tree && a->history.data && s < a->n_seqs; s++) {
        const int32_t length = gdn_seq_length(&p->seq_start, a->n_seqs, a->n_tokens, s);
        if (gdn_map_at(&p->history_src, s, 0) != GDN_SKIP && length &&
            (int64_t)a->kernel_width - 1 + length > a->n_columns)
            return gdn_fail(
                GDN_INVALID_ARGUMENT,
                "n_columns is %d and flags has GDN_CONV_TREE; sequence %d has %d tokens, for which at least "
                "%lld are needed",
                (int)a->n_columns, (int)s, (int)length, (long long)a->kernel_width - 1 + length);
    }
    return gdn_check_parents(&p->parent, &p->history_src, &p->seq_start, a->n_seqs, a->n_tokens);
}

static gdn_status gdn_ssm_conv_resolve(const gdn_context *ctx, const args_t *a, gdn_plan *plan, problem_t *p)
{
    const int launch = plan != NULL;
    const gdn_backend *b = ctx->backend;
    gdn_region r[N_REGIONS] = { 0 };
    gdn_status status;
    /* Without tokens the maps are judged all the same, those of a device by its kernels. */
    const int judged = !b->host_memory && a->n_seqs &&
                       (a->seq_start.data || a->position.data || a->history_src.data || a->history_dst.data);
    *p = (problem_t){
        .empty = !a->n_tokens && !judged, .n_seqs = a->n_seqs, .n_tokens = a->n_tokens, .n_channels = a->n_channels,
        .kernel_width = a->kernel_width, .n_columns = a->n_columns, .flags = a->flags,
        .checkpoints = { .interval = a->checkpoint_interval, .n = a->n_checkpoints },
        .tree = (a->flags & GDN_CONV_TREE) != 0,
    };

    const uint64_t map_bytes = 4 * (uint64_t)a->n_seqs;
    if ((status = gdn_span_resolve(b, "seq_start", &a->seq_start, map_bytes + 4, 4, 0, &p->seq_start, &r[SEQ_START])) ||
        (status = gdn_span_resolve(b, "position", &a->position, map_bytes, 4, 0, &p->position, &r[POSITION])) ||
        (status =
             gdn_span_resolve(b, "history_src", &a->history_src, map_bytes, 4, 0, &p->history_src, &r[HISTORY_SRC])) ||
        (status =
             gdn_span_resolve(b, "history_dst", &a->history_dst, map_bytes, 4, 0, &p->history_dst, &r[HISTORY_DST])) ||
        (status = gdn_span_resolve(b, "history_checkpoint", &a->history_checkpoint,
                                   map_bytes * (uint64_t)a->n_checkpoints, 4,
                                   launch && a->n_tokens && a->checkpoint_interval, &p->checkpoints.map,
                                   &r[HISTORY_CHECKPOINT])) ||
        (status = gdn_span_resolve(b, "parent", &a->parent, 4 * (uint64_t)a->n_tokens, 4, 0, &p->parent, &r[PARENT])))
        return status;
    int32_t longest = 0; /* also of a query, which may come before the map */
    if (launch && (status = gdn_check_seq_start(&p->seq_start, b->host_memory, a->n_seqs, a->n_tokens, &longest)))
        return status;
    const int needed = launch && a->n_tokens > 0;
    const gdn_place *starts = b->host_memory ? &p->seq_start : NULL;
    if ((status = resolve_tokens(b, "x", &a->x, a, starts, longest, needed, &p->x, &r[X])) ||
        (status = resolve_tokens(b, "out", &a->out, a, starts, longest, needed, &p->out, &r[OUT])) ||
        (status = resolve_weight(b, a, needed, p, &r[WEIGHT])))
        return status;
    const gdn_operand_spec bias = { .name = "bias", .dtypes = FLOATS, .inner = a->n_channels };
    int64_t none[4];
    if ((status = gdn_operand_resolve(b, &bias, &a->bias, &p->bias, none, &r[BIAS])) ||
        (status = resolve_history(b, "history", &a->history, a, a->n_rows, &p->history_in, &r[HISTORY])))
        return status;
    p->bias_dtype = a->bias.dtype;
    if (a->history_out.data) {
        if (a->history_out.dtype != a->history.dtype)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "history_out.dtype is %d (%s) and history.dtype is %d (%s); they must be the same",
                            (int)a->history_out.dtype, gdn_dtype_name(a->history_out.dtype), (int)a->history.dtype,
                            gdn_dtype_name(a->history.dtype));
        if ((status = resolve_history(b, "history_out", &a->history_out, a, a->n_rows_out, &p->history_out,
                                      &r[HISTORY_OUT])))
            return status;
    }
    const int pools =
        gdn_one_pool(a->history_out.data != NULL, &p->history_in, &p->history_out, &r[HISTORY], &r[HISTORY_OUT]);
    if (!launch)
        return GDN_OK;

    if (!a->history.data) {
        p->n_columns = 0;
        p->history_in.dtype = p->history_out.dtype = a->x.dtype; /* whatever type an absent operand states */
    }
    if (a->history.data && ((!a->history_src.data &&
                             (status = gdn_check_range("n_seqs (without history_src)", a->n_seqs, 0, a->n_rows))) ||
                            (!a->history_dst.data &&
                             (status = gdn_check_range("n_seqs (without history_dst)", a->n_seqs, 0, a->n_rows_out)))))
        return status;
    r[OUT].written = r[HISTORY_OUT].written = 1;
    if ((status = gdn_plan_resolve(ctx, GDN_KERNEL_ssm_conv, p, plan, &a->workspace, !p->empty, &p->workspace, r,
                                   WORKSPACE, N_REGIONS)) ||
        !b->host_memory || (status = gdn_check_positions(&p->position, &p->seq_start, a->n_seqs, a->n_tokens)))
        return status;
    /* Without a pool the maps may still say GDN_NONE or GDN_SKIP: a pool of no rows allows just these. */
    const gdn_pool_maps maps = {
        .src_name = "history_src", .dst_name = "history_dst", .src = &p->history_src, .dst = &p->history_dst,
        .n_seqs = a->n_seqs, .n_tokens = a->n_tokens, .n_entries = a->history.data || p->history_dst.base ? 1 : 0,
        .seq_start = &p->seq_start, .src_slots = 1, .dst_slots = 1,
        .src_size = a->history.data ? a->n_rows : 0, .dst_size = a->history.data ? a->n_rows_out : 0,
        .checkpoint_name = "history_checkpoint", .checkpoints = &p->checkpoints, .position = &p->position,
        .same_pool = pools, .check_unused = 1, .dst_is_row = 1,
    };
    if ((a->history.data || p->history_src.base || p->history_dst.base) && (status = gdn_check_pool_maps(&maps)))
        return status;
    return check_tree(a, p);
}

/* ---- The public functions ---------------------------------------------------------------------------- */

gdn_status gdn_ssm_conv_prepare(const gdn_context *ctx, const args_t *args, gdn_plan *plan, problem_t *p)
{
    args_t     a;
    gdn_status status = gdn_struct_read("args", args, GDN_FIRST_SIZE(gdn_ssm_conv_args), sizeof a, &a);
    if (status || (status = gdn_ssm_conv_check(&a, plan != NULL)))
        return status;
    return gdn_ssm_conv_resolve(ctx, &a, plan, p);
}

gdn_status gdn_ssm_conv_query(const gdn_context *ctx, const args_t *args, gdn_capability *capability)
{
    problem_t  p;
    gdn_status status = gdn_query_check(ctx, capability);
    if (status)
        return status;
    status = gdn_ssm_conv_prepare(ctx, args, NULL, &p);
    return gdn_query_answer(ctx, GDN_KERNEL_ssm_conv, &p, status, capability);
}

gdn_status gdn_ssm_conv(gdn_context *ctx, const args_t *args, gdn_stream stream)
{
    problem_t  p;
    gdn_plan   plan;
    gdn_status status = gdn_check_context(ctx);
    if (status || (status = gdn_ssm_conv_prepare(ctx, args, &plan, &p)))
        return status;
    if (p.empty)
        return gdn_nothing_to_do(ctx, stream);
    return ctx->backend->run(ctx, GDN_KERNEL_ssm_conv, &p, &plan, stream);
}
