/* gated_delta_net: validates the caller's arguments, makes a problem, and runs it on the backend. */
#include "core/calls.h"
#include "core/maps.h"
#include "core/operands.h"
#include "core/status.h"
#include "core/structs.h"
#include "numerics/chunked.h"
#include "numerics/float_env.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef gdn_gated_delta_net_args args_t;
typedef gdn_gated_delta_net_call block_t;

#define FLOATS (1u << GDN_F32 | 1u << GDN_F16 | 1u << GDN_BF16)

/* The bits of a caller's float. Tests use bits, because the caller's floating-point mode affects comparisons: with a
 * subnormal number or a NaN they may trap, and with flushing on, a tiny scale equals 0. */
static uint32_t bits_of(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, 4);
    return bits;
}

static int is_zero(const float *x) { return !(bits_of(x) & 0x7fffffffu); }

/* A number for an error text, formatted in the default floating-point mode. */
typedef struct number_text {
    char text[32];
} number_text;

static number_text number(const float *x)
{
    const gdn_float_env caller = gdn_float_env_enter();
    number_text n;
    (void)snprintf(n.text, sizeof n.text, "%g", (double)*x);
    gdn_float_env_leave(caller);
    return n;
}

static gdn_status check_finite(const char *name, const float *x)
{
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7f800000u) == 0x7f800000u)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s is %s%s; finite values are allowed", name, bits >> 31 ? "-" : "",
                        bits & 0x007fffffu ? "nan" : "inf");
    return GDN_OK;
}

/* A factor of 0 shows a struct that was only zeroed. */
static gdn_status check_factor(const char *name, const float *x, const char *usual)
{
    if (is_zero(x))
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "%s is 0; set it, %s (a struct is initialised by GDN_INIT, zeros alone do not)", name, usual);
    return check_finite(name, x);
}

/* Copies of the caller's structs, so that the call uses the values that it has checked. Parts that the call does not
 * use have their defaults. */
typedef struct call_t {
    gdn_gated_delta_net_args args;
    gdn_delta_inputs inputs;
    gdn_replay_log log;
    gdn_checkpoints checkpoints;
    gdn_token_tree tree;
    gdn_state_rounding rounding;
    gdn_chunked_form chunked;
    int two_pools; /* 1: state_out is given */
} call_t;

static gdn_status read_call(const gdn_gated_delta_net_args *args, call_t *c)
{
    gdn_status status;
    if ((status = gdn_struct_read("args", args, GDN_FIRST_SIZE(gdn_gated_delta_net_args), sizeof c->args, &c->args)) ||
        (status =
             gdn_part_read("inputs", c->args.inputs, GDN_FIRST_SIZE(gdn_delta_inputs), sizeof c->inputs, &c->inputs)) ||
        (status = gdn_part_read("log", c->args.log, GDN_FIRST_SIZE(gdn_replay_log), sizeof c->log, &c->log)) ||
        (status = gdn_part_read("checkpoints", c->args.checkpoints, GDN_FIRST_SIZE(gdn_checkpoints),
                                sizeof c->checkpoints, &c->checkpoints)) ||
        (status = gdn_part_read("tree", c->args.tree, GDN_FIRST_SIZE(gdn_token_tree), sizeof c->tree, &c->tree)) ||
        (status = gdn_part_read("chunked", c->args.chunked, GDN_FIRST_SIZE(gdn_chunked_form), sizeof c->chunked,
                                &c->chunked)))
        return status;
    if (!c->args.inputs) c->inputs.beta_factor = 1;
    return gdn_part_read("rounding", c->args.rounding, GDN_FIRST_SIZE(gdn_state_rounding), sizeof c->rounding,
                         &c->rounding);
}

/* The recurrence without checkpoints and without a log does not read positions. */
static int uses_position(const args_t *a) { return a->checkpoints || a->log || a->chunked; }

/* 1 if g is a projection. */
static int is_raw(const gdn_delta_inputs *in) { return in->gate_input >= GDN_G_RAW; }

/* Refuses operands that are given but would not be used: they are mistakes of the caller. */
static gdn_status check_inputs(const gdn_delta_inputs *in)
{
    gdn_status status;
    if ((status = gdn_check_range("inputs.qk_norm", in->qk_norm, GDN_NORM_NONE, GDN_NORM_CLAMP)) ||
        (status = gdn_check_range("inputs.gate_input", in->gate_input, GDN_G_LOG, GDN_G_BOUNDED)) ||
        (status = gdn_check_range("inputs.beta_input", in->beta_input, GDN_BETA_PLAIN, GDN_BETA_LOGIT)) ||
        (status = check_finite("inputs.qk_norm_eps", &in->qk_norm_eps)) ||
        (status = check_factor("inputs.beta_factor", &in->beta_factor, "1 by GDN_INIT")))
        return status;
    if (!is_zero(&in->qk_norm_eps) && (bits_of(&in->qk_norm_eps) >> 31 || in->qk_norm == GDN_NORM_NONE))
        return gdn_fail(GDN_INVALID_ARGUMENT, "inputs.qk_norm_eps is %s; %s", number(&in->qk_norm_eps).text,
                        in->qk_norm == GDN_NORM_NONE ? "with GDN_NORM_NONE it must be 0" : "0 and above are allowed");
    if (!is_raw(in) && (in->ssm_a.data || in->dt_bias.data))
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "inputs.%s is given and inputs.gate_input is %d; GDN_G_RAW (%d), GDN_G_RAW_A_LOG (%d) and "
                        "GDN_G_BOUNDED (%d) use it",
                        in->ssm_a.data ? "ssm_a" : "dt_bias", (int)in->gate_input, GDN_G_RAW, GDN_G_RAW_A_LOG,
                        GDN_G_BOUNDED);
    const int bounded = in->gate_input == GDN_G_BOUNDED;
    if ((status = check_finite("inputs.lower_bound", &in->lower_bound))) return status;
    if (bounded ? is_zero(&in->lower_bound) || !(bits_of(&in->lower_bound) >> 31) : !is_zero(&in->lower_bound))
        return gdn_fail(GDN_INVALID_ARGUMENT, "inputs.lower_bound is %s and inputs.gate_input is %d; %s",
                        number(&in->lower_bound).text, (int)in->gate_input,
                        bounded ? "GDN_G_BOUNDED needs a negative one, usually -5"
                                : "without GDN_G_BOUNDED it must be 0");
    return GDN_OK;
}

static gdn_status check_log(const call_t *c)
{
    gdn_status status;
    if (!c->args.log) return GDN_OK;
    if ((status = gdn_check_range("log.entries.n_slots", c->log.entries.n_slots, 1, 1 << 20))) return status;
    return gdn_check_range("log.entries.n_rows", c->log.entries.n_rows, 1, INT32_MAX);
}

/* A tree needs a log for its entries, and keeps no states after its tokens. */
static gdn_status check_tree(const call_t *c)
{
    if (!c->args.tree) return GDN_OK;
    if (!c->args.log) return gdn_fail(GDN_INVALID_ARGUMENT, "tree is given and log is NULL; a tree needs a log");
    if (c->args.n_snapshots)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "n_snapshots is %d and tree is given; it must be 0: a tree keeps no states but those of "
                        "log.commit",
                        (int)c->args.n_snapshots);
    if (c->args.checkpoints)
        return gdn_fail(
            GDN_INVALID_ARGUMENT,
            "checkpoints and tree are given; one must be NULL: a tree keeps no states but those of log.commit");
    return GDN_OK;
}

/* Between two roundings a state has more than 16 bits; only a log can hold it. */
static gdn_status check_rounding(const call_t *c)
{
    const int32_t interval = c->rounding.interval;
    gdn_status status;
    if (!c->args.rounding) return GDN_OK;
    if ((status = gdn_check_range("rounding.interval", interval, 1, INT32_MAX))) return status;
    if (c->args.state.dtype == GDN_F32)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "rounding is given and state.dtype is %d (F32); F16 and BF16 have it, with F32 it must be NULL",
                        GDN_F32);
    if (interval > 1 && !c->args.log)
        return gdn_fail(GDN_INVALID_ARGUMENT, "rounding.interval is %d and log is NULL; above 1 it needs a log",
                        (int)interval);
    if (c->args.checkpoints && c->checkpoints.interval % interval)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "checkpoints.interval is %d and rounding.interval is %d; the first must be a multiple of the "
                        "second",
                        (int)c->checkpoints.interval, (int)interval);
    return GDN_OK;
}

/* The type of states of digits, which must have the call's own number of them. */
static int32_t digits_type(const call_t *c) { return c->chunked.digits == 2 ? GDN_DIGITS2 : GDN_DIGITS3; }

static int of_digits(const args_t *a) { return a->state.dtype == GDN_DIGITS2 || a->state.dtype == GDN_DIGITS3; }

static gdn_status check_chunked(const call_t *c)
{
    const args_t *a = &c->args;
    gdn_status status;
    if (!a->chunked) return GDN_OK;
    if ((status = gdn_check_range("chunked.digits", c->chunked.digits, 2, 3)) ||
        (status = gdn_check_range("n_snapshots (in the chunked form)", a->n_snapshots, 0, 1)))
        return status;
    if (a->tree || a->rounding)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s and chunked are given; one must be NULL: the chunked form has no %s",
                        a->tree ? "tree" : "rounding", a->tree ? "trees" : "states of 16 bits");
    if (c->inputs.gate_input == GDN_G_LINEAR)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "inputs.gate_input is GDN_G_LINEAR (%d) and chunked is given; the chunked form needs the "
                        "logarithm of the decay",
                        GDN_G_LINEAR);
    if (a->head_dim_k % 16 || a->head_dim_v % 16)
        return gdn_fail(GDN_INVALID_ARGUMENT, "head_dim_%c is %d; in the chunked form multiples of 16 are allowed",
                        a->head_dim_k % 16 ? 'k' : 'v', (int)(a->head_dim_k % 16 ? a->head_dim_k : a->head_dim_v));
    if (a->checkpoints && c->checkpoints.interval % GDN_CHUNK)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "checkpoints.interval is %d; in the chunked form multiples of %d are allowed",
                        (int)c->checkpoints.interval, GDN_CHUNK);
    if (of_digits(a) && a->state_layout != GDN_STATE_VK)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "state_layout is %d and state.dtype is %d (%s); states of digits have GDN_STATE_VK (%d)",
                        (int)a->state_layout, (int)a->state.dtype, gdn_dtype_name(a->state.dtype), GDN_STATE_VK);
    return GDN_OK;
}

/* Expresses both norms through the arguments of gdn_norm_factor(). */
static void resolve_norm(const gdn_delta_inputs *in, block_t *p)
{
    const int clamp = in->qk_norm == GDN_NORM_CLAMP;
    p->qk_norm = in->qk_norm != GDN_NORM_NONE;
    p->norm_add = clamp ? 0 : in->qk_norm_eps;
    p->norm_most = INFINITY;
    if (clamp && !is_zero(&in->qk_norm_eps)) { /* the caller's rounding mode must not affect the division */
        const gdn_float_env caller = gdn_float_env_enter();
        volatile float eps = in->qk_norm_eps, most = 1.0f / eps;
        gdn_float_env_leave(caller);
        p->norm_most = bits_of(&(float){ most }) == 0x7f800000u ? FLT_MAX : most; /* so that a zero vector stays zero */
    }
}

static gdn_status check_pool(const char *names[3], const gdn_pool *pool)
{
    gdn_status status;
    if ((status = gdn_check_range(names[0], pool->n_rows, 1, INT32_MAX)) ||
        (status = gdn_check_range(names[1], pool->n_slots, 1, INT32_MAX)))
        return status;
    return gdn_check_range(names[2], (int64_t)pool->n_rows * pool->n_slots, 1, INT32_MAX);
}

/* Checks sizes, enumerations, and what parts require of each other. */
static gdn_status check_call(call_t *c, int launch)
{
    args_t *a = &c->args;
    gdn_status status;
    if ((status = gdn_check_range("n_seqs", a->n_seqs, 0, 1 << 24)) ||
        (status = gdn_check_range("n_tokens", a->n_tokens, 0, INT32_MAX)) ||
        (status = gdn_check_range("n_heads_k", a->n_heads_k, 1, 1 << 16)) ||
        (status = gdn_check_range("n_heads_v", a->n_heads_v, 1, 1 << 16)) ||
        (status = gdn_check_range("head_dim_k", a->head_dim_k, 16, 256)) ||
        (status = gdn_check_range("head_dim_v", a->head_dim_v, 16, 256)) ||
        (status = gdn_check_range("head_map", a->head_map, GDN_HEADS_GROUPED, GDN_HEADS_TILED)) ||
        (status = gdn_check_range("gate", a->gate, GDN_GATE_SCALAR, GDN_GATE_CHANNEL)) ||
        (status = gdn_check_range("state_layout", a->state_layout, GDN_STATE_VK, GDN_STATE_KV)) ||
        (status = check_factor("scale", &a->scale, "usually 1 / sqrt(head_dim_k)")) ||
        (status = gdn_check_range("n_snapshots", a->n_snapshots, 0, 1 << 20)) ||
        (status = gdn_check_range("n_seqs * n_snapshots", (int64_t)a->n_seqs * a->n_snapshots, 0, INT32_MAX)) ||
        (status = check_pool((const char *[]){ "state.n_rows", "state.n_slots", "state.n_rows * n_slots" }, &a->state)))
        return status;
    c->two_pools = gdn_pool_given(&a->state_out);
    if (!c->two_pools) {
        a->state_out = a->state;
    } else if ((status = check_pool(
                    (const char *[]){ "state_out.n_rows", "state_out.n_slots", "state_out.n_rows * n_slots" },
                    &a->state_out)))
        return status;
    else if (launch && !a->state_out.data)
        return gdn_fail(GDN_INVALID_ARGUMENT, "state_out.n_rows is %d and state_out.data is NULL; give both or neither",
                        (int)a->state_out.n_rows);
    if (a->n_heads_v % a->n_heads_k)
        return gdn_fail(GDN_INVALID_ARGUMENT, "n_heads_v is %d and n_heads_k is %d; it must be a multiple",
                        (int)a->n_heads_v, (int)a->n_heads_k);
    if (!a->n_snapshots && a->state_dst.data)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "n_snapshots is 0 and state_dst is given; it has n_snapshots entries per sequence");
    if ((status = check_inputs(&c->inputs)) ||
        (status = gdn_check_checkpoints(a->checkpoints ? &c->checkpoints : NULL, a->n_seqs)) ||
        (status = check_log(c)) || (status = check_chunked(c)) || (status = check_tree(c)) ||
        (status = check_rounding(c)))
        return status;
    if (a->n_tokens && !a->n_seqs)
        return gdn_fail(GDN_INVALID_ARGUMENT, "n_seqs is 0 and n_tokens is %d; tokens need a sequence",
                        (int)a->n_tokens);
    return GDN_OK;
}

/* The operands over tokens, and those per value head that all tokens share. Those with a bit belong to inputs. */
static gdn_status resolve_operands(const gdn_context *ctx, const call_t *c, int launch, int32_t longest, block_t *p,
                                   gdn_region *r)
{
    const args_t *a = &c->args;
    const int needed = launch && a->n_tokens > 0;
    const int64_t n_heads_k = a->n_heads_k, n_heads_v = a->n_heads_v, head_dim_k = a->head_dim_k,
                  head_dim_v = a->head_dim_v;
    const int64_t gates = a->gate == GDN_GATE_CHANNEL ? head_dim_k : 1;
    const int32_t *starts = ctx->backend->host_memory ? gdn_map(p->seq_start) : NULL;
    const int projected = needed && is_raw(&c->inputs) && c->inputs.gate_input != GDN_G_BOUNDED; /* ssm_a is needed */
    const struct {
        const char *name;
        const gdn_tensor *tensor;
        gdn_token_view *view;
        int32_t region, bit, per_head;
        int64_t heads, inner;
    } operands[] = {
#define SIZE(heads, inner) heads, inner
#define TOKENS(name, part, member, access, bit, size)                                                                  \
    { GDN_NAME_##part(member), &c->part.member, &p->name, GDN_DELTA_##name, bit, 0, SIZE size },
#define HEADS(name, part, member, access, bit, size)                                                                   \
    { GDN_NAME_##part(member), &c->part.member, &p->name, GDN_DELTA_##name, bit, 1, SIZE size },
#define OTHER(name, part, member, access, bit, size)
        GDN_DELTA_OPERANDS(TOKENS, HEADS, OTHER, OTHER)
#undef SIZE
#undef TOKENS
#undef HEADS
#undef OTHER
    };
    for (size_t i = 0; i < sizeof operands / sizeof operands[0]; i++) {
        if (operands[i].bit && !a->inputs) continue;
        gdn_operand_spec spec = {
            .name = operands[i].name,
            .dtypes = FLOATS,
            .n_axes = 3,
            .axes = { "sequence", "token", "head" },
            .extent = { a->n_seqs, longest, operands[i].heads },
            .inner = operands[i].inner,
            .ragged = 1,
            .ragged_tokens = a->n_tokens,
            .seq_start = starts,
            .needed = operands[i].bit ? projected && operands[i].bit == GDN_HAS_SSM_A : needed,
        };
        if (operands[i].per_head)
            spec = (gdn_operand_spec){ .name = operands[i].name,
                                       .dtypes = FLOATS,
                                       .n_axes = 1,
                                       .axes = { "head" },
                                       .extent = { operands[i].heads },
                                       .inner = operands[i].inner,
                                       .needed = spec.needed };
        gdn_token_view *view = operands[i].view;
        const gdn_status status = gdn_tokens_resolve(ctx, &spec, operands[i].tensor, view, &r[operands[i].region]);
        if (status) return status;
        if (operands[i].per_head) {
            view->stride_head = view->stride_seq;
            view->stride_seq = 0;
        }
    }
    return GDN_OK;
}

/* Bytes of a head's state of digits. */
static int64_t digits_bytes(const call_t *c)
{
    return gdn_state_factors(c->args.head_dim_k, c->args.head_dim_v, c->chunked.digits) + 4 * c->args.head_dim_v;
}

static gdn_status resolve_state(const gdn_context *ctx, const char *name, const gdn_pool *pool, const call_t *c,
                                int needed, gdn_pool_view *view, gdn_region *region)
{
    const args_t *a = &c->args;
    const int kv = a->state_layout == GDN_STATE_KV, digits = of_digits(a);
    const gdn_operand_spec spec = {
        .name = name,
        .dtypes = a->chunked ? 1u << GDN_F32 | 1u << digits_type(c) : FLOATS,
        .n_axes = digits ? 3 : 4,
        .axes = { "row", "slot", "head", kv ? "key" : "value" },
        .extent = { pool->n_rows, pool->n_slots, a->n_heads_v, kv ? a->head_dim_k : a->head_dim_v },
        .inner = digits ? digits_bytes(c)
                 : kv   ? a->head_dim_v
                        : a->head_dim_k,
        .needed = needed,
    };
    view->n_slots = pool->n_slots;
    view->n_entries = pool->n_rows * pool->n_slots;
    return gdn_pool_resolve(ctx, &spec, pool, view, region);
}

static gdn_status resolve_states(const gdn_context *ctx, const call_t *c, int needed, block_t *p, gdn_region *r,
                                 int *one_pool)
{
    const args_t *a = &c->args;
    gdn_status status;
    if ((status = resolve_state(ctx, "state", &a->state, c, needed, &p->state, &r[GDN_DELTA_state])) ||
        (c->two_pools &&
         (status = resolve_state(ctx, "state_out", &a->state_out, c, 0, &p->state_out, &r[GDN_DELTA_state_out]))))
        return status;
    if (a->state_out.dtype != a->state.dtype)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "state_out.dtype is %d (%s) and state.dtype is %d (%s); they must be the same",
                        (int)a->state_out.dtype, gdn_dtype_name(a->state_out.dtype), (int)a->state.dtype,
                        gdn_dtype_name(a->state.dtype));
    *one_pool = gdn_one_pool(c->two_pools, &p->state, &p->state_out, &r[GDN_DELTA_state], &r[GDN_DELTA_state_out],
                             &p->has, &p->pool_offset);
    return GDN_OK;
}

static int64_t log_entry_elements(const args_t *a)
{
    const int64_t gates = a->gate == GDN_GATE_CHANNEL ? a->head_dim_k : 1;
    return (int64_t)a->n_heads_k * a->head_dim_k + a->n_heads_v * (a->head_dim_v + gates);
}

static gdn_status resolve_log(const gdn_context *ctx, const call_t *c, int launch, block_t *p, gdn_region *r)
{
    const args_t *a = &c->args;
    gdn_status status;
    if (!a->log) return GDN_OK;
    p->log.n_entries = c->log.entries.n_rows;
    p->log.n_slots = c->log.entries.n_slots;
    const gdn_operand_spec spec = {
        .name = "log.entries",
        .dtypes = 1u << GDN_F32,
        .n_axes = 2,
        .axes = { "row", "slot" },
        .extent = { p->log.n_entries, p->log.n_slots },
        .inner = log_entry_elements(a),
        .needed = launch && a->n_seqs,
    };
    if ((status = gdn_pool_resolve(ctx, &spec, &c->log.entries, &p->log, &r[GDN_DELTA_log]))) return status;
    if (launch && !c->log.row.data)
        return gdn_check_range("n_seqs (without log.row, up to log.entries.n_rows)", a->n_seqs, 0, p->log.n_entries);
    return GDN_OK;
}

/* Checks the maps: ranges, and that no written slot conflicts with another access. */
static gdn_status check_maps(const block_t *p, int one_pool)
{
    gdn_status status;
    const gdn_pool_maps states = {
        .src_name = "state_src",
        .dst_name = "state_dst",
        .src = gdn_map(p->state_src),
        .dst = gdn_map(p->state_dst),
        .n_seqs = p->n_seqs,
        .even_tokens = p->even_tokens,
        .n_entries = p->n_snapshots,
        .seq_start = gdn_map(p->seq_start),
        .src_slots = p->state.n_slots,
        .dst_slots = p->state_out.n_slots,
        .src_size = p->state.n_entries,
        .dst_size = p->state_out.n_entries,
        .same_pool = one_pool,
        .interval = p->checkpoints_interval,
        .n_checkpoints = p->checkpoints_n,
        .checkpoints = gdn_map(p->checkpoints_dst),
        .position = gdn_map(p->position),
        .commit_name = "log.commit",
        .commit = gdn_map(p->commit),
    };
    if ((status = gdn_check_sequences(p, &states)) || !p->log_row) return status;
    gdn_pool_maps rows = states; /* a log row belongs to one sequence, whether it writes a state or not */
    rows.dst = NULL;
    rows.n_entries = 0;
    rows.dst_size = p->log.n_entries;
    rows.same_pool = 0;
    rows.interval = 0;
    rows.commit_name = "log.row";
    rows.commit = gdn_map(p->log_row);
    return gdn_check_pool_maps(&rows);
}

/* The same for a device's call without maps, whose sequences are all alike. Not inlined: the copy would cost every call
 * time. */
static __attribute__((noinline)) gdn_status check_one_sequence(const block_t *p, int one_pool)
{
    block_t alike = *p;
    alike.n_seqs = 1;
    return check_maps(&alike, one_pool);
}

static gdn_status resolve_maps(const gdn_context *ctx, const call_t *c, int launch, block_t *p, gdn_region *r)
{
    const args_t *a = &c->args;
    const uint64_t n_seqs = (uint64_t)a->n_seqs, n_tokens = (uint64_t)a->n_tokens;
    const uint64_t n_snapshots = (uint64_t)a->n_snapshots, n_checkpoints = (uint64_t)c->checkpoints.n;
    const int32_t unused = uses_position(a) ? 0 : GDN_HAS_POSITION;
    gdn_status status;
#define GIVEN_args        1
#define GIVEN_log         (a->log != NULL)
#define GIVEN_checkpoints (a->checkpoints != NULL)
#define GIVEN_tree        (a->tree != NULL)
#define MAP(name, part, member, access, bit, size)                                                                     \
    if (GIVEN_##part && bit != unused &&                                                                               \
        (status = gdn_span_resolve(ctx, GDN_NAME_##part(member), &c->part.member, 4 * (size), 4,                       \
                                   bit == GDN_HAS_CHECKPOINTS && launch && n_tokens, &p->name, &r[GDN_DELTA_##name]))) \
        return status;
#define OTHER(name, part, member, access, bit, size)
    GDN_DELTA_OPERANDS(OTHER, OTHER, OTHER, MAP)
#undef MAP
#undef OTHER
    return GDN_OK;
}

static gdn_status resolve_call(const gdn_context *ctx, const call_t *c, gdn_plan *plan, gdn_problem *problem)
{
    const args_t *a = &c->args;
    const int launch = plan != NULL;
    const gdn_backend *b = ctx->backend;
    block_t *const p = &problem->gated_delta_net;
    gdn_region *const r = problem->regions;
    gdn_status status;
    _Static_assert((int)GDN_DELTA_REGIONS < (int)GDN_MAX_REGIONS, "regions of a call");
    gdn_regions_clear(r, GDN_DELTA_REGIONS + 1);
    /* A device's kernels check the maps of a call without tokens too. */
    const int judged = !b->host_memory && a->n_seqs &&
                       (a->seq_start.data || a->state_src.data || (uses_position(a) && a->position.data) || a->log);
    const int committed = a->n_seqs && c->log.commit.data; /* without tokens a commit is still work */
    problem->kernel = GDN_KERNEL_gated_delta_net;
    problem->n_regions = GDN_DELTA_REGIONS;
    problem->workspace = 0;
    problem->empty = !a->n_tokens && !judged && !committed;
    *p = (block_t){
        .n_seqs = a->n_seqs,
        .n_tokens = a->n_tokens,
        .even_tokens = a->n_seqs ? a->n_tokens / a->n_seqs : 0,
        .n_heads_k = a->n_heads_k,
        .n_heads_v = a->n_heads_v,
        .head_dim_k = a->head_dim_k,
        .head_dim_v = a->head_dim_v,
        .heads_per_key = a->n_heads_v / a->n_heads_k,
        .head_map = a->head_map,
        .gate = a->gate,
        .state_layout = a->state_layout,
        .n_snapshots = a->n_snapshots,
        .scale = a->scale,
        .gate_input = a->n_tokens ? c->inputs.gate_input : GDN_G_LOG, /* without tokens there is no ssm_a to read */
        .beta_input = c->inputs.beta_input,
        .beta_factor = c->inputs.beta_factor,
        .lower_bound = c->inputs.lower_bound,
        .checkpoints_interval = c->checkpoints.interval,
        .checkpoints_n = c->checkpoints.n,
        .digits = c->chunked.digits,
        .rounding_interval = a->chunked                  ? GDN_CHUNK
                             : a->state.dtype == GDN_F32 ? 0
                             : a->rounding               ? c->rounding.interval
                                                         : 1,
    };
    resolve_norm(&c->inputs, p);

    /* Maps first: the extents of the token operands depend on the longest sequence. */
    if ((status = resolve_maps(ctx, c, launch, p, r)) || (status = resolve_log(ctx, c, launch, p, r))) return status;
    int32_t longest = 0; /* stays 0 in a query, which does not read the map */
    int one_pool = 0;
    if ((launch && (status = gdn_check_seq_start(&r[GDN_DELTA_seq_start], b->host_memory ? gdn_map(p->seq_start) : NULL,
                                                 a->n_seqs, a->n_tokens, &longest))) ||
        (status = resolve_operands(ctx, c, launch, longest, p, r)) ||
        (status = resolve_states(ctx, c, launch && (a->n_tokens || committed), p, r, &one_pool)))
        return status;
    p->has |= (a->tree ? GDN_HAS_TREE : 0)
#define PRESENCE(name, part, member, access, bit, size) | gdn_presence_of(r, GDN_DELTA_##name, bit)
        GDN_DELTA_OPERANDS(PRESENCE, PRESENCE, PRESENCE, PRESENCE);
#undef PRESENCE
    if (!launch) {
        const int64_t head = of_digits(a) ? digits_bytes(c) : (int64_t)a->head_dim_k * a->head_dim_v;
        problem->slot_bytes = gdn_dtype_bytes(a->state.dtype, a->n_heads_v * head);
        problem->log_entry_bytes = gdn_dtype_bytes(GDN_F32, log_entry_elements(a));
        return GDN_OK;
    }

    if (!a->state_src.data && (status = gdn_check_range("n_seqs (without state_src)", a->n_seqs, 0, a->state.n_rows)))
        return status;
    if (!a->state_dst.data && a->n_snapshots &&
        ((status = gdn_check_range("n_seqs (without state_dst)", a->n_seqs, 0, a->state_out.n_rows)) ||
         (status = gdn_check_range("n_snapshots (without state_dst)", a->n_snapshots, 1, a->state_out.n_slots))))
        return status;
#define WRITES(name, part, member, access, bit, size) r[GDN_DELTA_##name].written = GDN_WRITES_##access;
    GDN_DELTA_OPERANDS(WRITES, WRITES, WRITES, WRITES)
#undef WRITES
    if ((status = gdn_plan_resolve(ctx, problem, &a->workspace, plan))) return status;
    if (b->host_memory) return check_maps(p, one_pool);
    return p->has & GDN_HAS_MAPS || !p->n_seqs ? GDN_OK : check_one_sequence(p, one_pool);
}

gdn_status gdn_gated_delta_net_resolve(const gdn_context *ctx, const void *args, gdn_plan *plan, gdn_problem *p)
{
    call_t c;
    gdn_status status = read_call(args, &c);
    if (status || (status = check_call(&c, plan != NULL))) return status;
    return resolve_call(ctx, &c, plan, p);
}

/* ---- The public functions ---------------------------------------------------------------------------- */

gdn_status gdn_gated_delta_net_query(const gdn_context *ctx, const args_t *args, gdn_capability *capability)
{
    return gdn_query(ctx, gdn_gated_delta_net_resolve, args, capability);
}

gdn_status gdn_gated_delta_net(gdn_context *ctx, const args_t *args, gdn_stream stream)
{
    return gdn_call(ctx, gdn_gated_delta_net_resolve, args, stream);
}
