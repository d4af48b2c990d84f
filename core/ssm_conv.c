/* ssm_conv: validates the caller's arguments, makes a problem, and runs it on the backend. */
#include "core/calls.h"
#include "core/maps.h"
#include "core/operands.h"
#include "core/status.h"
#include "core/structs.h"

#include <string.h>

typedef gdn_ssm_conv_args args_t;
typedef gdn_ssm_conv_call block_t;

#define FLOATS (1u << GDN_F32 | 1u << GDN_F16 | 1u << GDN_BF16)

/* Copies of the caller's structs, so that the call uses the values that it has checked. */
typedef struct call_t {
    gdn_ssm_conv_args args;
    gdn_checkpoints checkpoints;
    gdn_token_tree tree;
    int history, two_pools; /* 1: history, history_out is given */
} call_t;

static gdn_status read_call(const gdn_ssm_conv_args *args, call_t *c)
{
    gdn_status status;
    if ((status = gdn_struct_read("args", args, GDN_FIRST_SIZE(gdn_ssm_conv_args), sizeof c->args, &c->args)) ||
        (status = gdn_part_read("checkpoints", c->args.checkpoints, GDN_FIRST_SIZE(gdn_checkpoints),
                                sizeof c->checkpoints, &c->checkpoints)))
        return status;
    return gdn_part_read("tree", c->args.tree, GDN_FIRST_SIZE(gdn_token_tree), sizeof c->tree, &c->tree);
}

/* Checks sizes, enumerations, and what parts require of each other. */
static gdn_status check_call(call_t *c, int launch)
{
    args_t *a = &c->args;
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

static gdn_status resolve_tokens(const gdn_context *ctx, const char *name, const gdn_tensor *t, const args_t *a,
                                 const int32_t *seq_start, int32_t longest, int needed, gdn_token_view *view,
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
    return gdn_tokens_resolve(ctx, &spec, t, view, region);
}

/* The taps of the weight need not be contiguous, so the spec's contiguous axis is a single element. */
static gdn_status resolve_weight(const gdn_context *ctx, const args_t *a, int needed, block_t *p, gdn_region *region)
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
    gdn_status status = gdn_operand_resolve(ctx, &spec, &a->weight, &p->weight, stride, region);
    p->weight_stride_channel = stride[0];
    p->weight_stride_tap = stride[1];
    p->weight_dtype = a->weight.dtype;
    return status;
}

static gdn_status resolve_history(const gdn_context *ctx, const char *name, const gdn_pool *pool, const args_t *a,
                                  gdn_pool_view *view, gdn_region *region)
{
    const gdn_operand_spec spec = {
        .name = name,
        .dtypes = FLOATS,
        .n_axes = 2,
        .axes = { "row", "slot" },
        .extent = { pool->n_rows, pool->n_slots },
        .inner = a->n_channels,
    };
    view->n_slots = pool->n_slots;
    const gdn_status status = gdn_pool_resolve(ctx, &spec, pool, view, region);
    view->n_entries = region->data ? pool->n_rows : 0;
    return status;
}

/* Checks the maps: ranges, and that no written slot conflicts with another access. */
static gdn_status check_maps(const block_t *p)
{
    /* Without a history the maps may still hold GDN_NONE or GDN_SKIP: a pool of no rows allows only these. */
    const gdn_pool_maps maps = {
        .src_name = "history_src",
        .dst_name = "history_dst",
        .src = gdn_map(p->history_src),
        .dst = gdn_map(p->history_dst),
        .n_seqs = p->n_seqs,
        .even_tokens = p->even_tokens,
        .n_entries = p->history_out.n_entries || p->history_dst ? 1 : 0,
        .seq_start = gdn_map(p->seq_start),
        .src_slots = 1,
        .dst_slots = 1,
        .src_size = p->history.n_entries,
        .dst_size = p->history_out.n_entries,
        .interval = p->checkpoints_interval,
        .n_checkpoints = p->checkpoints_n,
        .checkpoints = gdn_map(p->checkpoints_dst),
        .position = gdn_map(p->position),
        .same_pool = p->same_pool,
        .check_unused = 1,
        .dst_is_row = 1,
    };
    return gdn_check_conv_sequences(p, &maps);
}

/* The same for a device's call without maps, whose sequences are all alike. Not inlined: the copy would cost every call
 * time. */
static __attribute__((noinline)) gdn_status check_one_sequence(const block_t *p)
{
    block_t alike = *p;
    alike.n_seqs = 1;
    return check_maps(&alike);
}

static gdn_status resolve_maps(const gdn_context *ctx, const call_t *c, int launch, block_t *p, gdn_region *r)
{
    const args_t *a = &c->args;
    const uint64_t n_seqs = (uint64_t)a->n_seqs, n_tokens = (uint64_t)a->n_tokens,
                   n_checkpoints = (uint64_t)c->checkpoints.n;
    gdn_status status;
#define GIVEN_args        1
#define GIVEN_checkpoints (a->checkpoints != NULL)
#define GIVEN_tree        (a->tree != NULL)
#define MAP(name, part, member, access, bit, size)                                                                     \
    if (GIVEN_##part &&                                                                                                \
        (status = gdn_span_resolve(ctx, GDN_NAME_##part(member), &c->part.member, 4 * (size), 4,                       \
                                   bit == GDN_HAS_CHECKPOINTS && launch && n_tokens, &p->name, &r[GDN_CONV_##name])))  \
        return status;
#define OTHER(name, part, member, access, bit, size)
    GDN_CONV_OPERANDS(OTHER, OTHER, OTHER, MAP)
#undef MAP
#undef OTHER
    return GDN_OK;
}

static gdn_status resolve_call(const gdn_context *ctx, const call_t *c, gdn_plan *plan, gdn_problem *problem)
{
    const args_t *a = &c->args;
    const int launch = plan != NULL;
    const gdn_backend *b = ctx->backend;
    block_t *const p = &problem->ssm_conv;
    gdn_region *const r = problem->regions;
    gdn_status status;
    _Static_assert((int)GDN_CONV_REGIONS < (int)GDN_MAX_REGIONS, "regions of a call");
    gdn_regions_clear(r, GDN_CONV_REGIONS + 1);
    /* The maps are checked without tokens too: a device's kernels check theirs. */
    const int judged = !b->host_memory && a->n_seqs &&
                       (a->seq_start.data || a->position.data || a->history_src.data || a->history_dst.data);
    problem->kernel = GDN_KERNEL_ssm_conv;
    problem->n_regions = GDN_CONV_REGIONS;
    problem->workspace = 0;
    problem->empty = !a->n_tokens && !judged;
    *p = (block_t){
        .n_seqs = a->n_seqs,
        .n_tokens = a->n_tokens,
        .even_tokens = a->n_seqs ? a->n_tokens / a->n_seqs : 0,
        .n_channels = a->n_channels,
        .kernel_width = a->kernel_width,
        .silu = a->activation == GDN_ACTIVATION_SILU,
        .checkpoints_interval = c->checkpoints.interval,
        .checkpoints_n = c->checkpoints.n,
    };

    if ((status = resolve_maps(ctx, c, launch, p, r))) return status;
    const int32_t *starts = b->host_memory ? gdn_map(p->seq_start) : NULL;
    int32_t longest = 0; /* stays 0 in a query, which does not read the map */
    if (launch && (status = gdn_check_seq_start(&r[GDN_CONV_seq_start], starts, a->n_seqs, a->n_tokens, &longest)))
        return status;
    const int needed = launch && a->n_tokens > 0;
    if ((status = resolve_tokens(ctx, "x", &a->x, a, starts, longest, needed, &p->x, &r[GDN_CONV_x])) ||
        (status = resolve_tokens(ctx, "out", &a->out, a, starts, longest, needed, &p->result, &r[GDN_CONV_result])) ||
        (status = resolve_weight(ctx, a, needed, p, &r[GDN_CONV_weight])))
        return status;
    const gdn_operand_spec bias = { .name = "bias", .dtypes = FLOATS, .inner = a->n_channels };
    int64_t none[4];
    if ((status = gdn_operand_resolve(ctx, &bias, &a->bias, &p->bias, none, &r[GDN_CONV_bias])) ||
        (status = resolve_history(ctx, "history", &a->history, a, &p->history, &r[GDN_CONV_history])))
        return status;
    p->bias_dtype = a->bias.dtype;
    if (c->two_pools) {
        if (a->history_out.dtype != a->history.dtype)
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "history_out.dtype is %d (%s) and history.dtype is %d (%s); they must be the same",
                            (int)a->history_out.dtype, gdn_dtype_name(a->history_out.dtype), (int)a->history.dtype,
                            gdn_dtype_name(a->history.dtype));
        if ((status =
                 resolve_history(ctx, "history_out", &a->history_out, a, &p->history_out, &r[GDN_CONV_history_out])))
            return status;
    }
    p->same_pool = gdn_one_pool(c->two_pools, &p->history, &p->history_out, &r[GDN_CONV_history],
                                &r[GDN_CONV_history_out], &p->has, &p->pool_offset);
    if (!c->history) {
        p->history.n_slots = p->history_out.n_slots = 0;
        p->history.dtype = p->history_out.dtype = a->x.dtype; /* ignore the dtype of an absent operand */
    }
    p->has |= (a->tree ? GDN_HAS_TREE : 0)
#define PRESENCE(name, part, member, access, bit, size) | gdn_presence_of(r, GDN_CONV_##name, bit)
        GDN_CONV_OPERANDS(PRESENCE, PRESENCE, PRESENCE, PRESENCE);
#undef PRESENCE
    if (!launch) {
        problem->slot_bytes = gdn_dtype_bytes(p->history.dtype, a->n_channels);
        problem->log_entry_bytes = 0;
        return GDN_OK;
    }

    if (c->history && ((!a->history_src.data &&
                        (status = gdn_check_range("n_seqs (without history_src)", a->n_seqs, 0, a->history.n_rows))) ||
                       (!a->history_dst.data && (status = gdn_check_range("n_seqs (without history_dst)", a->n_seqs, 0,
                                                                          a->history_out.n_rows)))))
        return status;
#define WRITES(name, part, member, access, bit, size) r[GDN_CONV_##name].written = GDN_WRITES_##access;
    GDN_CONV_OPERANDS(WRITES, WRITES, WRITES, WRITES)
#undef WRITES
    if ((status = gdn_plan_resolve(ctx, problem, &a->workspace, plan))) return status;
    if (b->host_memory) return check_maps(p);
    return p->has & GDN_HAS_MAPS || !p->n_seqs ? GDN_OK : check_one_sequence(p);
}

gdn_status gdn_ssm_conv_resolve(const gdn_context *ctx, const void *args, gdn_plan *plan, gdn_problem *p)
{
    call_t c;
    gdn_status status = read_call(args, &c);
    if (status || (status = check_call(&c, plan != NULL))) return status;
    return resolve_call(ctx, &c, plan, p);
}

/* ---- The public functions ---------------------------------------------------------------------------- */

gdn_status gdn_ssm_conv_query(const gdn_context *ctx, const args_t *args, gdn_capability *capability)
{
    return gdn_query(ctx, gdn_ssm_conv_resolve, args, capability);
}

gdn_status gdn_ssm_conv(gdn_context *ctx, const args_t *args, gdn_stream stream)
{
    return gdn_call(ctx, gdn_ssm_conv_resolve, args, stream);
}
