/* ssm_conv: validates the caller's arguments, makes a problem, and runs it on the backend. */
#include "core/calls.h"
#include "core/kernels.h"
#include "core/maps.h"
#include "core/operands.h"
#include "core/status.h"
#include "core/structs.h"

#include <string.h>

typedef gdn_ssm_conv_args args_t;
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
    CHECKPOINTS,
    PARENT,
    N_REGIONS
};

#define FLOATS (1u << GDN_F32 | 1u << GDN_F16 | 1u << GDN_BF16)

/* Copies of the caller's structs, so that the call uses the values that it has checked. */
typedef struct call_t {
    gdn_ssm_conv_args a;
    gdn_checkpoints checkpoints;
    gdn_token_tree tree;
    int history, two_pools; /* 1: history, history_out is given */
} call_t;

static gdn_status read_call(const gdn_ssm_conv_args *args, call_t *c)
{
    gdn_status status;
    if ((status = gdn_struct_read("args", args, GDN_FIRST_SIZE(gdn_ssm_conv_args), sizeof c->a, &c->a)) ||
        (status = gdn_part_read("checkpoints", c->a.checkpoints, GDN_FIRST_SIZE(gdn_checkpoints), sizeof c->checkpoints,
                                &c->checkpoints)))
        return status;
    return gdn_part_read("tree", c->a.tree, GDN_FIRST_SIZE(gdn_token_tree), sizeof c->tree, &c->tree);
}

/* Checks sizes, enumerations, and what parts require of each other. */
static gdn_status check_call(call_t *c, int launch)
{
    args_t *a = &c->a;
    gdn_status status;
    if ((status = gdn_check_range("n_seqs", a->n_seqs, 0, 1 << 24)) ||
        (status = gdn_check_range("n_tokens", a->n_tokens, 0, INT32_MAX)) ||
        (status = gdn_check_range("n_channels", a->n_channels, 1, INT32_MAX)) ||
        (status = gdn_check_range("kernel_width", a->kernel_width, 1, 16)) ||
        (status = gdn_check_range("activation", a->activation, GDN_ACTIVATION_NONE, GDN_ACTIVATION_SILU)))
        return status;
    const int history = c->history = gdn_pool_given(&a->history);
    const int out = c->two_pools = gdn_pool_given(&a->history_out);
    if (history && ((status = gdn_check_range("history.n_rows", a->history.n_rows, 1, INT32_MAX)) ||
                    (status = gdn_check_range("history.n_slots", a->history.n_slots, a->kernel_width - 1, INT32_MAX))))
        return status;
    if (out && !history)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "history_out is given and history is absent; give both, or history alone");
    if (!out) {
        a->history_out = a->history;
    } else if ((status = gdn_check_range("history_out.n_rows", a->history_out.n_rows, 1, INT32_MAX))) {
        return status;
    } else if (a->history_out.n_slots != a->history.n_slots) {
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "history_out.n_slots is %d and history.n_slots is %d; they must be the same",
                        (int)a->history_out.n_slots, (int)a->history.n_slots);
    }
    if (launch && history && !a->history.data)
        return gdn_fail(GDN_INVALID_ARGUMENT, "history.n_rows is %d and history.data is NULL; give both or neither",
                        (int)a->history.n_rows);
    if (launch && out && !a->history_out.data)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "history_out.n_rows is %d and history_out.data is NULL; give both or neither",
                        (int)a->history_out.n_rows);
    if ((status = gdn_check_checkpoints(a->checkpoints ? &c->checkpoints : NULL, a->n_seqs))) return status;
    if (a->checkpoints && a->tree)
        return gdn_fail(GDN_INVALID_ARGUMENT, "checkpoints and tree are given; a tree has no checkpoints");
    if (a->checkpoints && !history)
        return gdn_fail(GDN_INVALID_ARGUMENT, "checkpoints is given and history is absent; it must be NULL then");
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
        .name = name,
        .dtypes = FLOATS,
        .n_axes = 2,
        .axes = { "sequence", "token" },
        .extent = { a->n_seqs, longest },
        .inner = a->n_channels,
        .ragged = 1,
        .ragged_tokens = a->n_tokens,
        .seq_start = seq_start,
        .needed = needed,
    };
    return gdn_tokens_resolve(b, &spec, t, view, region);
}

/* The taps of the weight need not be contiguous, so the spec's contiguous axis is a single element. */
static gdn_status resolve_weight(const gdn_backend *b, const args_t *a, int needed, problem_t *p, gdn_region *region)
{
    const gdn_operand_spec spec = {
        .name = "weight",
        .dtypes = FLOATS,
        .n_axes = 2,
        .axes = { "channel", "tap" },
        .extent = { a->n_channels, a->kernel_width },
        .inner = 1,
        .needed = needed,
    };
    int64_t stride[4];
    gdn_status status = gdn_operand_resolve(b, &spec, &a->weight, &p->weight, stride, region);
    p->weight_stride_channel = stride[0];
    p->weight_stride_tap = stride[1];
    p->weight_dtype = a->weight.dtype;
    return status;
}

static gdn_status resolve_history(const gdn_backend *b, const char *name, const gdn_pool *pool, const args_t *a,
                                  gdn_state_view *view, gdn_region *region)
{
    const gdn_operand_spec spec = {
        .name = name,
        .dtypes = FLOATS,
        .n_axes = 2,
        .axes = { "row", "slot" },
        .extent = { pool->n_rows, pool->n_slots },
        .inner = a->n_channels,
    };
    return gdn_pool_resolve(b, &spec, pool, view, region);
}

/* Checks the parts of a tree that the host can read. */
static gdn_status check_tree(const call_t *c, const problem_t *p)
{
    const args_t *a = &c->a;
    for (int32_t s = 0; p->tree && c->history && s < a->n_seqs; s++) {
        const int32_t length = gdn_seq_length(&p->seq_start, a->n_seqs, a->n_tokens, s);
        if (gdn_map_at(&p->history_src, s, 0) != GDN_SKIP && length &&
            (int64_t)a->kernel_width - 1 + length > a->history.n_slots)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "history.n_slots is %d and tree is given; sequence %d has %d tokens, for which at least "
                            "%lld are needed",
                            (int)a->history.n_slots, (int)s, (int)length, (long long)a->kernel_width - 1 + length);
    }
    return gdn_check_parents(&p->parent, &p->history_src, &p->seq_start, a->n_seqs, a->n_tokens);
}

static gdn_status resolve_call(const gdn_context *ctx, const call_t *c, gdn_plan *plan, problem_t *p)
{
    const args_t *a = &c->a;
    const int launch = plan != NULL;
    const gdn_backend *b = ctx->backend;
    gdn_region r[N_REGIONS];
    gdn_status status;
    _Static_assert((int)N_REGIONS <= (int)GDN_MAX_REGIONS, "regions of a call");
    gdn_regions_clear(r, N_REGIONS);
    /* The maps are checked without tokens too: a device's kernels check theirs. */
    const int judged = !b->host_memory && a->n_seqs &&
                       (a->seq_start.data || a->position.data || a->history_src.data || a->history_dst.data);
    *p = (problem_t){
        .empty = !a->n_tokens && !judged,
        .n_seqs = a->n_seqs,
        .n_tokens = a->n_tokens,
        .n_channels = a->n_channels,
        .kernel_width = a->kernel_width,
        .n_slots = a->history.n_slots,
        .silu = a->activation == GDN_ACTIVATION_SILU,
        .checkpoints = { .interval = c->checkpoints.interval, .n = c->checkpoints.n },
        .tree = a->tree != NULL,
    };

    const uint64_t map_bytes = 4 * (uint64_t)a->n_seqs;
    if ((status = gdn_span_resolve(b, "seq_start", &a->seq_start, map_bytes + 4, 4, 0, &p->seq_start, &r[SEQ_START])) ||
        (status = gdn_span_resolve(b, "position", &a->position, map_bytes, 4, 0, &p->position, &r[POSITION])) ||
        (status =
             gdn_span_resolve(b, "history_src", &a->history_src, map_bytes, 4, 0, &p->history_src, &r[HISTORY_SRC])) ||
        (status =
             gdn_span_resolve(b, "history_dst", &a->history_dst, map_bytes, 4, 0, &p->history_dst, &r[HISTORY_DST])) ||
        (status = gdn_span_resolve(b, "checkpoints.dst", &c->checkpoints.dst, map_bytes * (uint64_t)c->checkpoints.n, 4,
                                   launch && a->n_tokens && a->checkpoints, &p->checkpoints.map, &r[CHECKPOINTS])) ||
        (status = gdn_span_resolve(b, "tree.parent", &c->tree.parent, 4 * (uint64_t)a->n_tokens, 4, 0, &p->parent,
                                   &r[PARENT])))
        return status;
    int32_t longest = 0; /* stays 0 in a query, which does not read the map */
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
        (status = resolve_history(b, "history", &a->history, a, &p->history_in, &r[HISTORY])))
        return status;
    p->bias_dtype = a->bias.dtype;
    if (c->two_pools) {
        if (a->history_out.dtype != a->history.dtype)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "history_out.dtype is %d (%s) and history.dtype is %d (%s); they must be the same",
                            (int)a->history_out.dtype, gdn_dtype_name(a->history_out.dtype), (int)a->history.dtype,
                            gdn_dtype_name(a->history.dtype));
        if ((status = resolve_history(b, "history_out", &a->history_out, a, &p->history_out, &r[HISTORY_OUT])))
            return status;
    }
    const int pools = gdn_one_pool(c->two_pools, &p->history_in, &p->history_out, &r[HISTORY], &r[HISTORY_OUT]);
    if (!c->history) {
        p->n_slots = 0;
        p->history_in.dtype = p->history_out.dtype = a->x.dtype; /* ignore the dtype of an absent operand */
    }
    if (!launch) return GDN_OK;

    if (c->history && ((!a->history_src.data &&
                        (status = gdn_check_range("n_seqs (without history_src)", a->n_seqs, 0, a->history.n_rows))) ||
                       (!a->history_dst.data && (status = gdn_check_range("n_seqs (without history_dst)", a->n_seqs, 0,
                                                                          a->history_out.n_rows)))))
        return status;
    r[OUT].written = r[HISTORY_OUT].written = 1;
    if ((status = gdn_plan_resolve(ctx, GDN_KERNEL_ssm_conv, p, plan, &a->workspace, !p->empty, &p->workspace, r,
                                   WORKSPACE, N_REGIONS)) ||
        !b->host_memory || (status = gdn_check_positions(&p->position, &p->seq_start, a->n_seqs, a->n_tokens)))
        return status;
    /* Without a history the maps may still hold GDN_NONE or GDN_SKIP: a pool of no rows allows only these. */
    const gdn_pool_maps maps = {
        .src_name = "history_src",
        .dst_name = "history_dst",
        .src = &p->history_src,
        .dst = &p->history_dst,
        .n_seqs = a->n_seqs,
        .n_tokens = a->n_tokens,
        .n_entries = c->history || p->history_dst.base ? 1 : 0,
        .seq_start = &p->seq_start,
        .src_slots = 1,
        .dst_slots = 1,
        .src_size = c->history ? a->history.n_rows : 0,
        .dst_size = c->history ? a->history_out.n_rows : 0,
        .checkpoints = &p->checkpoints,
        .position = &p->position,
        .same_pool = pools,
        .check_unused = 1,
        .dst_is_row = 1,
    };
    if ((c->history || p->history_src.base || p->history_dst.base) && (status = gdn_check_pool_maps(&maps)))
        return status;
    return check_tree(c, p);
}

gdn_status gdn_ssm_conv_prepare(const gdn_context *ctx, const args_t *args, gdn_plan *plan, problem_t *p)
{
    call_t c;
    gdn_status status = read_call(args, &c);
    if (status || (status = check_call(&c, plan != NULL))) return status;
    return resolve_call(ctx, &c, plan, p);
}

/* ---- The public functions ---------------------------------------------------------------------------- */

gdn_status gdn_ssm_conv_query(const gdn_context *ctx, const args_t *args, gdn_capability *capability)
{
    problem_t p;
    gdn_status status = gdn_query_check(ctx, capability);
    if (status) return status;
    status = gdn_ssm_conv_prepare(ctx, args, NULL, &p);
    return gdn_query_answer(ctx, GDN_KERNEL_ssm_conv, &p, status, capability);
}

gdn_status gdn_ssm_conv(gdn_context *ctx, const args_t *args, gdn_stream stream)
{
    problem_t p;
    gdn_plan plan;
    gdn_status status = gdn_check_context(ctx);
    if (status || (status = gdn_ssm_conv_prepare(ctx, args, &plan, &p))) return status;
    if (p.empty) return gdn_nothing_to_do(ctx, stream);
    return ctx->backend->run(ctx, GDN_KERNEL_ssm_conv, &p, &plan, stream);
}
