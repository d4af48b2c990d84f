/* Problems: the kernels' input after validation.
 *
 * The public argument structs leave much to defaults. core/<kernel>.c checks them once and makes a problem: it fills in
 * every stride, sets every absent map to NULL, and resolves every address. All backends, the reference included,
 * compute from a problem, so each default is implemented once. A problem begins with the call's workspace. */
#ifndef GDN_CORE_PROBLEM_H
#define GDN_CORE_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "gdn/gdn.h"

/* The kernels. A switch over them has no default, so that the compiler reports a missing case. */
typedef enum gdn_kernel {
    GDN_KERNEL_gated_delta_net,
    GDN_KERNEL_ssm_conv,
    GDN_KERNEL_set_rows,
} gdn_kernel;
enum { GDN_KERNEL_COUNT = 3 };

/* The location of an operand: `data` and `offset` as the caller gave them (GPU backends bind these), and for host
 * backends `base`, their sum. An absent operand has NULL in both. */
typedef struct gdn_place {
    void *data;
    uint64_t offset;
    char *base;
} gdn_place;

/* A tensor over tokens. See gdn_token_at(). */
typedef struct gdn_token_view {
    gdn_place at;
    int64_t stride_seq; /* 0 = tokens of all sequences follow each other */
    int64_t stride_token;
    int64_t stride_head;
    int32_t dtype;
} gdn_token_view;

/* The pool of states or of history rows. */
typedef struct gdn_state_view {
    gdn_place at;
    int64_t stride_row;
    int64_t stride_slot; /* history: unused, 0 */
    int64_t stride_head; /* history: unused, 0 */
    int64_t stride_line; /* state: of the outer dimension; history: of a conv state entry */
    int32_t n_rows;
    int32_t n_slots; /* history: 1 */
    int32_t dtype;
} gdn_state_view;

/* The replay log: see gdn_log_at(). */
typedef struct gdn_log_view {
    gdn_place at;
    int64_t stride_row, stride_slot;
    int32_t n_rows, n_slots; /* 0 slots: there is none */
    gdn_place row, base_position, commit;
} gdn_log_view;

/* Checkpoints: see gdn_checkpoint_at(). */
typedef struct gdn_checkpoint_view {
    int32_t interval; /* tokens; 0 = there are none       */
    int32_t n;        /* entries of the map per sequence  */
    gdn_place map;
} gdn_checkpoint_view;

typedef struct gdn_gated_delta_net_problem {
    gdn_place workspace;
    int32_t empty; /* 1: there is nothing to do */
    int32_t n_seqs, n_tokens, n_heads_k, n_heads_v, head_dim_k, head_dim_v;
    int32_t head_map, gate, state_layout, n_snapshots;
    float scale;
    int32_t qk_norm;           /* 1: q and k are multiplied by gdn_norm_factor()              */
    float norm_add, norm_most; /* its arguments                                               */
    int32_t g_form, beta_form;
    float beta_factor, lower_bound;
    gdn_token_view q, k, v, g, beta, out;
    gdn_token_view ssm_a, dt_bias;      /* the same for all tokens; dt_bias may be absent              */
    gdn_token_view read_key;            /* replaces k where the state is read; may be absent           */
    gdn_state_view state_in, state_out; /* equal unless the caller gave a state_out of its own */
    gdn_place seq_start, state_src, state_dst;
    gdn_place position; /* of each sequence's first token; for checkpoints and the log only */
    gdn_checkpoint_view checkpoints;
    gdn_log_view log;
    int32_t tree; /* 1: `parent` names the token that each token follows, see gdn_parent_at() */
    gdn_place parent;
    int32_t state_interval; /* rounding interval of 16-bit states, see gdn_rounds_at(); 0 = F32 states */
} gdn_gated_delta_net_problem;

typedef struct gdn_ssm_conv_problem {
    gdn_place workspace;
    int32_t empty; /* 1: there is nothing to do */
    int32_t n_seqs, n_tokens, n_channels, kernel_width;
    int32_t n_slots;       /* slots of the history's ring; 0 = no history */
    int32_t silu;          /* 1: out goes through silu */
    gdn_token_view x, out; /* stride_head unused */
    gdn_place weight;
    int64_t weight_stride_channel, weight_stride_tap;
    gdn_place bias;
    int32_t weight_dtype, bias_dtype;
    gdn_state_view history_in, history_out;
    gdn_place seq_start, position, history_src, history_dst;
    gdn_checkpoint_view checkpoints;
    int32_t tree; /* as of gated_delta_net */
    gdn_place parent;
} gdn_ssm_conv_problem;

typedef struct gdn_set_rows_problem {
    gdn_place workspace;
    int32_t empty; /* 1: there is nothing to do */
    int64_t n_columns, n_rows, n_rows_dst;
    int64_t n_batch[2], index_batch[2];
    gdn_place src, dst, index;
    int64_t src_stride[3], dst_stride[3], index_stride[3]; /* batch 0, batch 1, row */
    int32_t src_dtype, dst_dtype, index_dtype;
} gdn_set_rows_problem;

/* ---- Reading a problem on the host: the reference and the CPU backend. ---------------------------- */

/* Index of sequence s's first token in the call; gdn_seq_first(p, n_seqs) is one past the last token. */
static inline int32_t gdn_seq_first(const gdn_place *seq_start, int32_t n_seqs, int32_t n_tokens, int32_t s)
{
    return seq_start->base ? ((const int32_t *)(const void *)seq_start->base)[s] : s * (n_tokens / n_seqs);
}

static inline int32_t gdn_seq_length(const gdn_place *seq_start, int32_t n_seqs, int32_t n_tokens, int32_t s)
{
    return gdn_seq_first(seq_start, n_seqs, n_tokens, s + 1) - gdn_seq_first(seq_start, n_seqs, n_tokens, s);
}

/* Address of head `head` of token t (counted within sequence s, whose first token is `first`). */
static inline char *gdn_token_at(const gdn_token_view *view, int32_t s, int32_t first, int32_t t, int32_t head)
{
    int64_t token = view->stride_seq ? (int64_t)s * view->stride_seq + (int64_t)t * view->stride_token
                                     : ((int64_t)first + t) * view->stride_token;
    return view->at.base + token + (int64_t)head * view->stride_head;
}

/* 1 if the state is read with a key of its own. */
static inline int gdn_has_read_key(const gdn_gated_delta_net_problem *p) { return p->read_key.at.data != NULL; }

/* The state of one head in the slot that a map entry names. */
static inline char *gdn_state_at(const gdn_state_view *view, int32_t entry, int32_t head)
{
    return view->at.base + (int64_t)(entry / view->n_slots) * view->stride_row +
           (int64_t)(entry % view->n_slots) * view->stride_slot + (int64_t)head * view->stride_head;
}

/* An entry of a map, or `absent` if the map is absent. */
static inline int32_t gdn_map_at(const gdn_place *map, int64_t index, int32_t absent)
{
    return map->base ? ((const int32_t *)(const void *)map->base)[index] : absent;
}

/* The default is computed only if the map is absent: with a map, it may not fit 32 bits. */
static inline int32_t gdn_state_src_at(const gdn_gated_delta_net_problem *p, int32_t s)
{
    return gdn_map_at(&p->state_src, s, p->state_src.base ? 0 : s * p->state_in.n_slots);
}

static inline int32_t gdn_state_dst_at(const gdn_gated_delta_net_problem *p, int32_t s, int32_t r)
{
    return gdn_map_at(&p->state_dst, (int64_t)s * p->n_snapshots + r,
                      p->state_dst.base ? 0 : s * p->state_out.n_slots + r);
}

/* How many checkpoints a sequence writes that has `position` tokens before its `length` ones: one for each multiple of
 * the interval that it reaches, at most n. */
static inline int32_t gdn_checkpoints_used(const gdn_checkpoint_view *c, int32_t position, int32_t length)
{
    const int32_t n = c->interval ? (position + length) / c->interval - position / c->interval : 0;
    return n < c->n ? n : c->n;
}

/* The slot for the checkpoint after token t of sequence s, or GDN_NONE. */
static inline int32_t gdn_checkpoint_at(const gdn_checkpoint_view *c, int32_t s, int32_t position, int32_t t)
{
    const int32_t length = position + t + 1;
    if (!c->interval || length % c->interval) return GDN_NONE;
    const int32_t entry = length / c->interval - position / c->interval - 1;
    return entry < c->n ? gdn_map_at(&c->map, (int64_t)s * c->n + entry, GDN_NONE) : GDN_NONE;
}

/* The log's row of sequence s, or GDN_NONE. */
static inline int32_t gdn_log_row_at(const gdn_log_view *log, int32_t s)
{
    return log->n_slots ? gdn_map_at(&log->row, s, s) : GDN_NONE;
}

/* The log entry of a position: n_heads_k keys, then n_heads_v deltas, then the decays. */
static inline char *gdn_log_at(const gdn_log_view *log, int32_t row, int32_t position)
{
    return log->at.base + (int64_t)row * log->stride_row + (int64_t)(position % log->n_slots) * log->stride_slot;
}

/* Offsets in an entry, in elements: the key of a key head, the deltas of a value head, the decays of a value head. */
static inline int64_t gdn_log_key(const gdn_gated_delta_net_problem *p, int32_t key_head)
{
    return (int64_t)key_head * p->head_dim_k;
}

static inline int64_t gdn_log_delta(const gdn_gated_delta_net_problem *p, int32_t h)
{
    return (int64_t)p->n_heads_k * p->head_dim_k + (int64_t)h * p->head_dim_v;
}

static inline int64_t gdn_log_decay(const gdn_gated_delta_net_problem *p, int32_t h)
{
    return gdn_log_delta(p, p->n_heads_v) + (int64_t)h * (p->gate == GDN_GATE_CHANNEL ? p->head_dim_k : 1);
}

/* The parent of token t, or GDN_NONE, counted within the sequence; `first` is the sequence's first token. */
static inline int32_t gdn_parent_at(const gdn_place *parent, int32_t first, int32_t t)
{
    return gdn_map_at(parent, (int64_t)first + t, t - 1);
}

/* gdn_depth_of: the number of tokens of the call from the root to token t, 0 if t is GDN_NONE. gdn_ancestor_of: the
 * token on that path that has n tokens after it. */
static inline int32_t gdn_depth_of(const gdn_place *parent, int32_t first, int32_t t)
{
    int32_t depth = 0;
    for (; t >= 0; t = gdn_parent_at(parent, first, t)) depth++;
    return depth;
}

static inline int32_t gdn_ancestor_of(const gdn_place *parent, int32_t first, int32_t t, int32_t n)
{
    while (n-- > 0) t = gdn_parent_at(parent, first, t);
    return t;
}

/* 1 if each of a sequence's tokens follows the token before it. */
static inline int gdn_is_chain(const gdn_place *parent, int32_t first, int32_t length)
{
    int32_t t = 0;
    while (t < length && gdn_parent_at(parent, first, t) == t - 1) t++;
    return t == length;
}

/* The sequence's length up to and including token t of the call, along its branch in a tree. */
static inline int32_t gdn_length_at(const gdn_place *parent, int32_t first, int32_t position, int32_t t)
{
    return position + (parent->base ? gdn_depth_of(parent, first, t) : t + 1);
}

/* 1 if a 16-bit state is rounded after the token that gives the sequence `length` tokens. */
static inline int gdn_rounds_at(const gdn_gated_delta_net_problem *p, int32_t length)
{
    return p->state_interval && length % p->state_interval == 0;
}

/* The position of the state that is committed: `position`, or the last rounding at or before it. */
static inline int32_t gdn_commit_position(const gdn_gated_delta_net_problem *p, int32_t position)
{
    return p->state_interval > 1 ? position - position % p->state_interval : position;
}

/* The slot for the state at gdn_commit_position(), or GDN_NONE. */
static inline int32_t gdn_commit_at(const gdn_log_view *log, int32_t s)
{
    return log->n_slots ? gdn_map_at(&log->commit, s, GDN_NONE) : GDN_NONE;
}

/* The row of dst for row i of the batch, or GDN_NONE. */
static inline int64_t gdn_index_at(const gdn_set_rows_problem *p, int64_t b, int64_t c, int64_t i)
{
    const char *at = p->index.base + b % p->index_batch[0] * p->index_stride[0] +
                     c % p->index_batch[1] * p->index_stride[1] + i * p->index_stride[2];
    return p->index_dtype == GDN_I64 ? *(const int64_t *)(const void *)at : *(const int32_t *)(const void *)at;
}

/* 0 for padding, and for a sequence without a token or a commit. Such a sequence must not read its source, because
 * another sequence may write it. */
static inline int gdn_has_work(const gdn_gated_delta_net_problem *p, int32_t s)
{
    return gdn_state_src_at(p, s) != GDN_SKIP &&
           (gdn_seq_length(&p->seq_start, p->n_seqs, p->n_tokens, s) || gdn_commit_at(&p->log, s) >= 0);
}

/* The key head of value head h. */
static inline int32_t gdn_key_head(const gdn_gated_delta_net_problem *p, int32_t h)
{
    return p->head_map == GDN_HEADS_TILED ? h % p->n_heads_k : h / (p->n_heads_v / p->n_heads_k);
}

/* 1 if value head h is the first that uses its key head: it writes the key to the log. */
static inline int gdn_logs_key(const gdn_gated_delta_net_problem *p, int32_t h)
{
    return p->head_map == GDN_HEADS_TILED ? h < p->n_heads_k : h % (p->n_heads_v / p->n_heads_k) == 0;
}

#endif
