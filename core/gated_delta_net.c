/* gated_delta_net: from the caller's arguments to a problem, and on to the backend. */
#include "core/calls.h"
#include "core/kernels.h"
#include "core/maps.h"
#include "core/operands.h"
#include "core/status.h"
#include "core/structs.h"
#include "numerics/float_env.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef gdn_gated_delta_net_args    args_t;
typedef gdn_gated_delta_net_problem problem_t;

enum {
    Q, K, V, G, BETA, SSM_A, DT_BIAS, OUT, WORKSPACE, STATE, STATE_OUT, SEQ_START, STATE_SRC, STATE_DST, POSITION,
    STATE_CHECKPOINT, LOG, LOG_ROW, STATE_POSITION, STATE_COMMIT, PARENT, N_REGIONS
};

#define FLOATS (1u << GDN_F32 | 1u << GDN_F16 | 1u << GDN_BF16)

/* A caller's float is looked at as bits: a comparison with a subnormal number or a NaN traps where the caller wants
 * traps, and a caller that flushes subnormal numbers would find a tiny scale equal to 0. */
static uint32_t bits_of(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, 4);
    return bits;
}

static int is_zero(const float *x) { return !(bits_of(x) & 0x7fffffffu); }

static gdn_status check_finite(const char *name, const float *x, const char *zero)
{
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7f800000u) == 0x7f800000u)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s is %s%s; finite values are allowed, and 0 for %s", name,
                        bits >> 31 ? "-" : "", bits & 0x007fffffu ? "nan" : "inf", zero);
    return GDN_OK;
}

/* A call without checkpoints and without a log has no use for positions, and does not read them. */
static int uses_position(const args_t *a) { return a->checkpoint_interval || a->n_log_columns; }

static int is_raw(const args_t *a) { return a->g_form == GDN_G_RAW || a->g_form == GDN_G_RAW_A_LOG; }

/* How q, k, g and beta are prepared. What is given and would not be used is a mistake of the caller's. */
static gdn_status check_forms(const args_t *a, int launch)
{
    gdn_status status;
    if ((status = gdn_check_range("qk_norm", a->qk_norm, GDN_NORM_NONE, GDN_NORM_CLAMP)) ||
        (status = gdn_check_range("g_form", a->g_form, GDN_G_LOG, GDN_G_RAW_A_LOG)) ||
        (status = gdn_check_range("beta_form", a->beta_form, GDN_BETA_PLAIN, GDN_BETA_LOGIT)) ||
        (status = check_finite("qk_norm_eps", &a->qk_norm_eps, "none")) ||
        (status = check_finite("beta_factor", &a->beta_factor, "1")))
        return status;
    if (!is_zero(&a->qk_norm_eps) && (bits_of(&a->qk_norm_eps) >> 31 || a->qk_norm == GDN_NORM_NONE))
        return gdn_fail(GDN_INVALID_ARGUMENT, "qk_norm_eps is %s; %s",
                        bits_of(&a->qk_norm_eps) >> 31 ? "negative" : "given",
                        a->qk_norm == GDN_NORM_NONE ? "with GDN_NORM_NONE it must be 0" : "0 and above are allowed");
    if (launch && !is_raw(a) && (a->ssm_a.data || a->dt_bias.data))
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "%s is given and g_form is %d; GDN_G_RAW (%d) and GDN_G_RAW_A_LOG (%d) have it",
                        a->ssm_a.data ? "ssm_a" : "dt_bias", (int)a->g_form, GDN_G_RAW, GDN_G_RAW_A_LOG);
    return GDN_OK;
}

/* The log, and the maps that are for calls with one only. */
static gdn_status check_log(const args_t *a, int launch)
{
    gdn_status status;
    if ((status = gdn_check_range("n_log_columns", a->n_log_columns, 0, 1 << 20)))
        return status;
    if (a->n_log_columns) {
        if (launch && !a->n_snapshots && a->state_dst.data)
            return gdn_fail(GDN_INVALID_ARGUMENT, "n_snapshots is 0 and state_dst is given; with a log, which has it "
                                                  "mean none, 1 to %d have it", 1 << 20);
        return gdn_check_range("n_log_rows", a->n_log_rows, 1, INT32_MAX);
    }
    if (a->n_log_rows)
        return gdn_fail(GDN_INVALID_ARGUMENT, "n_log_rows is %d and n_log_columns is 0; then it must be 0, too",
                        (int)a->n_log_rows);
    const char *given = a->log.data              ? "log"
                        : a->log_row.data        ? "log_row"
                        : a->state_position.data ? "state_position"
                        : a->state_commit.data   ? "state_commit"
                                                 : NULL;
    if (launch && given)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s is given and n_log_columns is 0; 1 to %d have it", given, 1 << 20);
    return GDN_OK;
}

/* A tree has columns in a log, and no states behind its tokens. */
static gdn_status check_tree(const args_t *a, int launch)
{
    const int tree = (a->flags & GDN_DELTA_TREE) != 0;
    gdn_status status = gdn_check_tree_flag("GDN_DELTA_TREE", GDN_DELTA_TREE, tree, launch && a->parent.data);
    if (status || !tree)
        return status;
    if (!a->n_log_columns)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "flags has GDN_DELTA_TREE and n_log_columns is 0; a tree needs a log, of 1 to %d columns",
                        1 << 20);
    if (a->n_snapshots || a->checkpoint_interval)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "%s is %d and flags has GDN_DELTA_TREE; it must be 0: of a tree's states none is kept but that "
                        "of state_commit",
                        a->n_snapshots ? "n_snapshots" : "checkpoint_interval",
                        (int)(a->n_snapshots ? a->n_snapshots : a->checkpoint_interval));
    return GDN_OK;
}

/* States of 16 bits. Between two roundings a state has more than that, and only a log holds it. */
static gdn_status check_state_interval(const args_t *a)
{
    const int32_t interval = a->state_interval;
    gdn_status status = gdn_check_range("state_interval", interval, 0, INT32_MAX);
    if (status)
        return status;
    if (interval && a->state.dtype == GDN_F32)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "state_interval is %d and state.dtype is %d (F32); F16 and BF16 have it, with F32 it must be 0",
                        (int)interval, GDN_F32);
    if (interval > 1 && !a->n_log_columns)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "state_interval is %d and n_log_columns is 0; above 1 it needs a log, of 1 to %d columns",
                        (int)interval, 1 << 20);
    if (interval > 1 && a->checkpoint_interval % interval)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "checkpoint_interval is %d and state_interval is %d; it must be a multiple",
                        (int)a->checkpoint_interval, (int)interval);
    return GDN_OK;
}

static void fill_defaults(args_t *a)
{
    a->n_slots     = a->n_slots ? a->n_slots : 1;
    a->n_rows_out  = a->n_rows_out ? a->n_rows_out : a->n_rows;
    a->n_slots_out = a->n_slots_out ? a->n_slots_out : a->n_slots;
    if (!a->n_snapshots && !a->n_log_columns) /* with a log, 0 is none */
        a->n_snapshots = a->n_slots_out;
    if (is_zero(&a->scale)) { /* the default is not computed in whatever mode the caller rounds in */
        const gdn_float_env caller = gdn_float_env_enter();
        volatile double dim = a->head_dim_k; /* the division must not move out of here */
        volatile float  scale = (float)(1.0 / sqrt(dim));
        gdn_float_env_leave(caller);
        a->scale = scale;
    }
    if (is_zero(&a->beta_factor))
        a->beta_factor = 1;
}

/* The two norms as one, see gdn_norm_factor(). */
static void resolve_norm(const args_t *a, problem_t *p)
{
    const int clamp = a->qk_norm == GDN_NORM_CLAMP;
    p->qk_norm  = a->qk_norm != GDN_NORM_NONE;
    p->norm_add = clamp ? 0 : a->qk_norm_eps;
    p->norm_most = INFINITY;
    if (clamp && !is_zero(&a->qk_norm_eps)) {
        const gdn_float_env caller = gdn_float_env_enter();
        volatile float eps = a->qk_norm_eps, most = 1.0f / eps;
        gdn_float_env_leave(caller);
        p->norm_most = bits_of(&(float){ most }) == 0x7f800000u ? FLT_MAX : most; /* so that a zero vector stays zero */
    }
}

static gdn_status gdn_gated_delta_net_check(args_t *a, int launch)
{
    const char *const snapshots = a->n_snapshots    ? "n_snapshots"
                                  : a->n_slots_out ? "n_snapshots (n_slots_out, the default)"
                                                   : "n_snapshots (n_slots, the default)";
    gdn_status status;
    fill_defaults(a);
    if ((status = gdn_check_range("n_seqs", a->n_seqs, 0, 1 << 24)) ||
        (status = gdn_check_range("n_tokens", a->n_tokens, 0, INT32_MAX)) ||
        (status = gdn_check_range("n_heads_k", a->n_heads_k, 1, 1 << 16)) ||
        (status = gdn_check_range("n_heads_v", a->n_heads_v, 1, 1 << 16)) ||
        (status = gdn_check_range("head_dim_k", a->head_dim_k, 16, 256)) ||
        (status = gdn_check_range("head_dim_v", a->head_dim_v, 16, 256)) ||
        (status = gdn_check_range("head_map", a->head_map, GDN_HEADS_GROUPED, GDN_HEADS_TILED)) ||
        (status = gdn_check_range("gate", a->gate, GDN_GATE_SCALAR, GDN_GATE_CHANNEL)) ||
        (status = gdn_check_range("state_layout", a->state_layout, GDN_STATE_VK, GDN_STATE_KV)) ||
        (status = gdn_check_range("n_rows", a->n_rows, 1, INT32_MAX)) ||
        (status = gdn_check_range("n_slots", a->n_slots, 1, INT32_MAX)) ||
        (status = gdn_check_range("n_rows_out", a->n_rows_out, 1, INT32_MAX)) ||
        (status = gdn_check_range("n_slots_out", a->n_slots_out, 1, INT32_MAX)) ||
        (status = gdn_check_range(snapshots, a->n_snapshots, a->n_log_columns ? 0 : 1, 1 << 20)) ||
        (status = gdn_check_range("n_seqs * n_snapshots", (int64_t)a->n_seqs * a->n_snapshots, 0, INT32_MAX)) ||
        (status = gdn_check_range("n_rows * n_slots", (int64_t)a->n_rows * a->n_slots, 1, INT32_MAX)) ||
        (status = gdn_check_range("n_rows_out * n_slots_out", (int64_t)a->n_rows_out * a->n_slots_out, 1, INT32_MAX)))
        return status;
    if (a->n_heads_v % a->n_heads_k)
        return gdn_fail(GDN_INVALID_ARGUMENT, "n_heads_v is %d and n_heads_k is %d; it must be a multiple",
                        (int)a->n_heads_v, (int)a->n_heads_k);
    if (a->flags & ~(uint32_t)GDN_DELTA_TREE)
        return gdn_fail(GDN_INVALID_ARGUMENT, "flags is %#x; it must be 0 or GDN_DELTA_TREE (%#x)", (unsigned)a->flags,
                        (unsigned)GDN_DELTA_TREE);
    if (a->reserved || a->reserved2 || a->reserved3)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s is %#x; it must be 0",
                        a->reserved    ? "reserved"
                        : a->reserved2 ? "reserved2"
                                       : "reserved3",
                        a->reserved    ? (unsigned)a->reserved
                        : a->reserved2 ? (unsigned)a->reserved2
                                       : (unsigned)a->reserved3);
    if ((status = check_finite("scale", &a->scale, "1 / sqrt(head_dim_k)")) || (status = check_forms(a, launch)) ||
        (status = gdn_check_checkpoints("state_checkpoint", launch && a->state_checkpoint.data, a->checkpoint_interval,
                                        a->n_checkpoints, a->n_seqs)) ||
        (status = check_log(a, launch)) || (status = check_tree(a, launch)) || (status = check_state_interval(a)))
        return status;
    if (a->n_tokens && !a->n_seqs)
        return gdn_fail(GDN_INVALID_ARGUMENT, "n_seqs is 0 and n_tokens is %d; tokens need a sequence",
                        (int)a->n_tokens);
    if (launch && !a->state_out.data && (a->n_rows_out != a->n_rows || a->n_slots_out != a->n_slots))
        return gdn_fail(
            GDN_INVALID_ARGUMENT,
            "n_rows_out is %d and n_slots_out is %d, but state_out is absent; leave them 0 or give state_out",
            (int)a->n_rows_out, (int)a->n_slots_out);
    return GDN_OK;
}

static gdn_status resolve_tokens(const gdn_backend *b, const char *name, const gdn_tensor *t, uint32_t dtypes,
                                 const args_t *a, const gdn_place *seq_start, int32_t longest, int64_t heads,
                                 int64_t inner, int needed, gdn_token_view *view, gdn_region *region)
{
    const gdn_operand_spec spec = {
        .name = name, .dtypes = dtypes, .n_axes = 3, .axes = { "sequence", "token", "head" },
        .extent = { a->n_seqs, longest, heads }, .inner = inner,
        .ragged = 1, .ragged_tokens = a->n_tokens, .seq_start = seq_start, .needed = needed,
    };
    return gdn_tokens_resolve(b, &spec, t, view, region);
}

/* An operand per value head that all tokens share. */
static gdn_status resolve_heads(const gdn_backend *b, const char *name, const gdn_tensor *t, const args_t *a,
                                int64_t inner, int needed, gdn_token_view *view, gdn_region *region)
{
    const gdn_operand_spec spec = {
        .name = name,
        .dtypes = FLOATS,
        .n_axes = 1,
        .axes = { "head" },
        .extent = { a->n_heads_v },
        .inner = inner,
        .needed = needed,
    };
    int64_t stride[4];
    gdn_status status = gdn_operand_resolve(b, &spec, t, &view->at, stride, region);
    view->stride_head = stride[0];
    view->dtype       = t->dtype;
    return status;
}

static gdn_status resolve_state(const gdn_backend *b, const char *name, const gdn_tensor *t, const args_t *a,
                                int32_t n_rows, int32_t n_slots, int needed, gdn_state_view *view, gdn_region *region)
{
    const int     kv   = a->state_layout == GDN_STATE_KV;
    const gdn_operand_spec spec = {
        .name = name, .dtypes = FLOATS, .n_axes = 4, .axes = { "row", "slot", "head", "line" },
        .extent = { n_rows, n_slots, a->n_heads_v, kv ? a->head_dim_k : a->head_dim_v },
        .inner = kv ? a->head_dim_v : a->head_dim_k, .needed = needed,
    };
    return gdn_pool_resolve(b, &spec, t, view, region);
}

static gdn_status resolve_log(const gdn_backend *b, const args_t *a, int launch, gdn_log_view *log, gdn_region *r)
{
    const uint64_t bytes = 4 * (uint64_t)a->n_seqs;
    const int64_t  keys = (int64_t)a->n_heads_k * a->head_dim_k;
    const int64_t  decays = a->gate == GDN_GATE_CHANNEL ? a->head_dim_k : 1;
    gdn_state_view view;
    gdn_status     status;
    log->n_rows    = a->n_log_rows;
    log->n_columns = a->n_log_columns;
    if (!a->n_log_columns)
        return GDN_OK;
    const gdn_operand_spec spec = {
        .name = "log", .dtypes = 1u << GDN_F32, .n_axes = 2, .axes = { "row", "column" },
        .extent = { a->n_log_rows, a->n_log_columns },
        .inner = keys + a->n_heads_v * (a->head_dim_v + decays), .needed = launch && a->n_seqs,
    };
    if ((status = gdn_span_resolve(b, "log_row", &a->log_row, bytes, 4, 0, &log->row, &r[LOG_ROW])) ||
        (status = gdn_span_resolve(b, "state_position", &a->state_position, bytes, 4, 0, &log->state_position,
                                   &r[STATE_POSITION])) ||
        (status = gdn_span_resolve(b, "state_commit", &a->state_commit, bytes, 4, 0, &log->state_commit,
                                   &r[STATE_COMMIT])) ||
        (status = gdn_pool_resolve(b, &spec, &a->log, &view, &r[LOG])))
        return status;
    log->at            = view.at;
    log->stride_row    = view.stride_row;
    log->stride_column = view.stride_line;
    r[LOG].written     = 1;
    if (launch && !a->log_row.data)
        return gdn_check_range("n_seqs (without log_row)", a->n_seqs, 0, a->n_log_rows);
    return GDN_OK;
}

/* What the host can read of the maps: which slots and rows are read and written, and that no two are in each other's
 * way. */
static gdn_status check_maps(const args_t *a, const problem_t *p, int one_pool)
{
    const gdn_place none = { 0 };
    gdn_status status;
    const gdn_pool_maps states = {
        .src_name = "state_src", .dst_name = "state_dst", .src = &p->state_src, .dst = &p->state_dst,
        .n_seqs = a->n_seqs, .n_tokens = a->n_tokens, .n_entries = a->n_snapshots, .seq_start = &p->seq_start,
        .src_slots = a->n_slots, .dst_slots = a->n_slots_out,
        .src_size = (int64_t)a->n_rows * a->n_slots, .dst_size = (int64_t)a->n_rows_out * a->n_slots_out,
        .same_pool = one_pool, .checkpoint_name = "state_checkpoint", .checkpoints = &p->checkpoints,
        .position = &p->position, .commit_name = "state_commit", .commit = &p->log.state_commit,
    };
    if ((status = gdn_check_positions(&p->position, &p->seq_start, a->n_seqs, a->n_tokens)) ||
        (status = gdn_check_pool_maps(&states)) || (status = gdn_check_log(p)) || (status = gdn_check_rounded(p)) ||
        (status = gdn_check_parents(&p->parent, &p->state_src, &p->seq_start, a->n_seqs, a->n_tokens)) ||
        !p->log.row.base)
        return status;
    gdn_pool_maps rows = states; /* each is one sequence's, whether it writes a state or not */
    rows.dst         = &none;
    rows.n_entries   = 0;
    rows.dst_size    = p->log.n_rows;
    rows.same_pool   = 0;
    rows.checkpoints = NULL;
    rows.commit_name = "log_row";
    rows.commit      = &p->log.row;
    return gdn_check_pool_maps(&rows);
}

static gdn_status gdn_gated_delta_net_resolve(const gdn_context *ctx, const args_t *a, gdn_plan *plan, problem_t *p)
{
    const int launch = plan != NULL;
    const gdn_backend *b = ctx->backend;
    gdn_region r[N_REGIONS] = { 0 };
    gdn_status status;
    /* Without tokens the maps are judged all the same, those of a device by its kernels; of state_dst nothing is used
     * then. */
    const int judged =
        !b->host_memory && a->n_seqs &&
        (a->seq_start.data || a->state_src.data || (uses_position(a) && a->position.data) || a->log.data);
    const int committed = a->n_seqs && a->state_commit.data; /* of which a device knows no more */
    *p = (problem_t){
        .empty = !a->n_tokens && !judged && !committed,
        .n_seqs = a->n_seqs, .n_tokens = a->n_tokens, .n_heads_k = a->n_heads_k,
        .n_heads_v = a->n_heads_v, .head_dim_k = a->head_dim_k, .head_dim_v = a->head_dim_v, .head_map = a->head_map,
        .gate = a->gate, .state_layout = a->state_layout, .n_snapshots = a->n_snapshots, .scale = a->scale,
        .g_form = a->g_form, .beta_form = a->beta_form, .beta_factor = a->beta_factor,
        .checkpoints = { .interval = a->checkpoint_interval, .n = a->n_checkpoints },
        .tree = (a->flags & GDN_DELTA_TREE) != 0,
        .state_interval = a->state.dtype == GDN_F32 ? 0 : a->state_interval ? a->state_interval : 1,
    };
    if (!a->n_tokens) /* nothing to prepare, and no ssm_a to read */
        p->g_form = GDN_G_LOG;
    resolve_norm(a, p);

    /* Maps first: the longest sequence says how far the token operands reach. */
    if ((status = gdn_span_resolve(b, "seq_start", &a->seq_start, 4 * ((uint64_t)a->n_seqs + 1), 4, 0, &p->seq_start,
                                   &r[SEQ_START])) ||
        (status = gdn_span_resolve(b, "state_src", &a->state_src, 4 * (uint64_t)a->n_seqs, 4, 0, &p->state_src,
                                   &r[STATE_SRC])) ||
        (status = gdn_span_resolve(b, "state_dst", &a->state_dst, 4 * (uint64_t)a->n_seqs * (uint64_t)a->n_snapshots, 4,
                                   0, &p->state_dst, &r[STATE_DST])) ||
        (uses_position(a) && (status = gdn_span_resolve(b, "position", &a->position, 4 * (uint64_t)a->n_seqs, 4, 0,
                                                        &p->position, &r[POSITION]))) ||
        (status = gdn_span_resolve(b, "state_checkpoint", &a->state_checkpoint,
                                   4 * (uint64_t)a->n_seqs * (uint64_t)a->n_checkpoints, 4,
                                   launch && a->n_tokens && a->checkpoint_interval, &p->checkpoints.map,
                                   &r[STATE_CHECKPOINT])) ||
        (status = gdn_span_resolve(b, "parent", &a->parent, 4 * (uint64_t)a->n_tokens, 4, 0, &p->parent, &r[PARENT])))
        return status;
    if ((status = resolve_log(b, a, launch, &p->log, r)))
        return status;
    int32_t longest = 0; /* also of a query, which may come before the map */
    if (launch && (status = gdn_check_seq_start(&p->seq_start, b->host_memory, a->n_seqs, a->n_tokens, &longest)))
        return status;
    const int     needed = launch && a->n_tokens > 0;
    const int64_t gates  = a->gate == GDN_GATE_CHANNEL ? a->head_dim_k : 1;
    const gdn_place *starts = b->host_memory ? &p->seq_start : NULL;
    if ((status = resolve_tokens(b, "q", &a->q, FLOATS, a, starts, longest, a->n_heads_k, a->head_dim_k, needed, &p->q,
                                 &r[Q])) ||
        (status = resolve_tokens(b, "k", &a->k, FLOATS, a, starts, longest, a->n_heads_k, a->head_dim_k, needed, &p->k,
                                 &r[K])) ||
        (status = resolve_tokens(b, "v", &a->v, FLOATS, a, starts, longest, a->n_heads_v, a->head_dim_v, needed, &p->v,
                                 &r[V])) ||
        (status = resolve_tokens(b, "g", &a->g, FLOATS, a, starts, longest, a->n_heads_v, gates, needed, &p->g,
                                 &r[G])) ||
        (status = resolve_tokens(b, "beta", &a->beta, FLOATS, a, starts, longest, a->n_heads_v, 1, needed, &p->beta,
                                 &r[BETA])) ||
        (status = resolve_tokens(b, "out", &a->out, FLOATS, a, starts, longest, a->n_heads_v, a->head_dim_v, needed,
                                 &p->out, &r[OUT])) ||
        (status = resolve_heads(b, "ssm_a", &a->ssm_a, a, 1, needed && is_raw(a), &p->ssm_a, &r[SSM_A])) ||
        (status = resolve_heads(b, "dt_bias", &a->dt_bias, a, gates, 0, &p->dt_bias, &r[DT_BIAS])) ||
        (status = resolve_state(b, "state", &a->state, a, a->n_rows, a->n_slots, needed || (launch && committed),
                                &p->state_in, &r[STATE])))
        return status;
    if (a->state_out.data && (status = resolve_state(b, "state_out", &a->state_out, a, a->n_rows_out, a->n_slots_out, 1,
                                                     &p->state_out, &r[STATE_OUT])))
        return status;
    if (a->state_out.data && p->state_out.dtype != p->state_in.dtype)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "state_out.dtype is %d (%s) and state.dtype is %d (%s); they must be the same",
                        (int)p->state_out.dtype, gdn_dtype_name(p->state_out.dtype), (int)p->state_in.dtype,
                        gdn_dtype_name(p->state_in.dtype));
    const int pools = gdn_one_pool(a->state_out.data != NULL, &p->state_in, &p->state_out, &r[STATE], &r[STATE_OUT]);
    if (!launch)
        return GDN_OK;

    if (!a->state_src.data && (status = gdn_check_range("n_seqs (without state_src)", a->n_seqs, 0, a->n_rows)))
        return status;
    if (!a->state_dst.data && a->n_snapshots &&
        ((status = gdn_check_range("n_seqs (without state_dst)", a->n_seqs, 0, a->n_rows_out)) ||
         (status = gdn_check_range("n_snapshots (without state_dst)", a->n_snapshots, 1, a->n_slots_out))))
        return status;
    r[OUT].written = r[STATE_OUT].written = 1;
    if ((status = gdn_plan_resolve(ctx, GDN_KERNEL_gated_delta_net, p, plan, &a->workspace, !p->empty, &p->workspace, r,
                                   WORKSPACE, N_REGIONS)) ||
        !b->host_memory)
        return status;
    return check_maps(a, p, pools);
}

/* ---- The public functions ---------------------------------------------------------------------------- */

gdn_status gdn_gated_delta_net_prepare(const gdn_context *ctx, const args_t *args, gdn_plan *plan, problem_t *p)
{
    args_t     a;
    gdn_status status = gdn_struct_read("args", args, GDN_FIRST_SIZE(gdn_gated_delta_net_args), sizeof a, &a);
    if (status || (status = gdn_gated_delta_net_check(&a, plan != NULL)))
        return status;
    return gdn_gated_delta_net_resolve(ctx, &a, plan, p);
}

gdn_status gdn_gated_delta_net_query(const gdn_context *ctx, const args_t *args, gdn_capability *capability)
{
    problem_t  p;
    gdn_status status = gdn_query_check(ctx, capability);
    if (status)
        return status;
    status = gdn_gated_delta_net_prepare(ctx, args, NULL, &p);
    return gdn_query_answer(ctx, GDN_KERNEL_gated_delta_net, &p, status, capability);
}

gdn_status gdn_gated_delta_net(gdn_context *ctx, const args_t *args, gdn_stream stream)
{
    problem_t  p;
    gdn_plan   plan;
    gdn_status status = gdn_check_context(ctx);
    if (status || (status = gdn_gated_delta_net_prepare(ctx, args, &plan, &p)))
        return status;
    if (p.empty)
        return gdn_nothing_to_do(ctx, stream);
    return ctx->backend->run(ctx, GDN_KERNEL_gated_delta_net, &p, &plan, stream);
}
