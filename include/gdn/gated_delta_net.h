/* The gated delta rule over a pool of recurrent states. Section 8 of the manual that begins in gdn.h, which is what
 * programs include. */
#ifndef GDN_GATED_DELTA_NET_H
#define GDN_GATED_DELTA_NET_H

#include "gdn/base.h"

/* ---- 8  gated_delta_net --------------------------------------------------------------------------
 *
 * | you want to                                    | set                                     | section |
 * |------------------------------------------------|-----------------------------------------|---------|
 * | decode one token of many sequences, in place   | the simple call                         | 8.1     |
 * | read ragged prompts                            | seq_start; state_src GDN_NONE for new   | 8.2     |
 * | pass projections as they are                   | inputs                                  | 8.3     |
 * | verify a few drafts, roll back to a snapshot   | n_snapshots, state_dst                  | 8.4     |
 * | verify many drafts, roll back to any depth     | log                                     | 8.5     |
 * | keep prefixes for a cache                      | checkpoints, position                   | base.h  |
 * | verify a tree of drafts                        | tree and log                            | 8.6     |
 * | halve the memory of the states                 | state.dtype; rounding                   | 8.7     |
 * | read prompts by products of matrices           | chunked                                 | 8.8     |
 * | fork a sequence                                | state_src names the other's slot        | 8.2     |
 */

/* Which key head a value head h reads, with r = n_heads_v / n_heads_k. */
typedef int32_t gdn_head_map;
enum {
    GDN_HEADS_GROUPED = 0, /* h / r: HF transformers, Qwen3-Next GGUF                                */
    GDN_HEADS_TILED = 1    /* h % n_heads_k: ggml, Qwen3.5 GGUF                                      */
};
/* The shape of the gate. */
typedef int32_t gdn_gate_shape;
enum {
    GDN_GATE_SCALAR = 0, /* one decay per token and head: gated delta net                           */
    GDN_GATE_CHANNEL = 1 /* one per token, head and key channel: Kimi delta attention (KDA)         */
};
/* The order of a head's state matrix. The bits of every element are the same in both. */
typedef int32_t gdn_state_layout;
enum {
    GDN_STATE_VK = 0, /* [head_dim_v][head_dim_k], keys contiguous: ggml, vLLM, SGLang, FlashInfer   */
    GDN_STATE_KV = 1  /* [head_dim_k][head_dim_v], values contiguous: HF transformers, FLA           */
};
/* How the call normalises each head's q and k (l2 norm). */
typedef int32_t gdn_norm;
enum {
    GDN_NORM_NONE = 0, /* not at all                                                                */
    GDN_NORM_ADD = 1,  /* x / sqrt(sum x^2 + eps): FLA, HF transformers, vLLM (eps 1e-6)            */
    GDN_NORM_CLAMP = 2 /* x / max(sqrt(sum x^2), eps): ggml's l2_norm. With eps 0 a zero vector gives NaN */
};
/* What an element x of g holds. a is the decay of the recurrence. */
typedef int32_t gdn_gate_input;
enum {
    GDN_G_LOG = 0,       /* the logarithm of the decay: a = exp(x)                                   */
    GDN_G_LINEAR = 1,    /* the decay: a = x                                                         */
    GDN_G_RAW = 2,       /* a projection: a = exp(ssm_a * softplus(x + dt_bias)), ssm_a = -exp(A_log): GGUF files */
    GDN_G_RAW_A_LOG = 3, /* the same, with A_log in ssm_a: HF transformers, FLA                      */
    GDN_G_BOUNDED = 4    /* a projection: a = exp(lower_bound * sigmoid(exp(ssm_a) * (x + dt_bias))), A_log in ssm_a, or
                            absent for a factor of 1: Kimi K3, GLM-5.3-Flash, Ling-3.0; FLA's safe_gate */
};
/* What an element x of beta holds. */
typedef int32_t gdn_beta_input;
enum {
    GDN_BETA_PLAIN = 0, /* beta_factor * x                                                           */
    GDN_BETA_LOGIT = 1  /* a projection: beta_factor * sigmoid(x)                                    */
};

/* ---- 8.1  The call ----------------------------------------------------------------------------------
 *
 * The gated delta rule, token by token, for every value head of every sequence, in place of attention. S is the head's
 * state (key x value) and a = exp(g) its decay, in the order of operations of docs/reference/numerics.md:
 *
 *     kv[j]   = a * sum_i S[i][j] k[i]              (GATE_CHANNEL: sum_i S[i][j] (a[i] k[i]))
 *     d[j]    = beta * (v[j] - kv[j])
 *     S[i][j] = k[i] * d[j] + a * S[i][j]           (GATE_CHANNEL: a[i])
 *     out[j]  = scale * sum_i S[i][j] q[i]
 *
 * Operands, axes outermost first, with the axes that their strides belong to: `stride: sequence, token, head` means
 * stride[0] of sequences, [1] of tokens and [2] of heads. F32, F16 and BF16 are allowed:
 *   q, k   [n_tokens][n_heads_k][head_dim_k]   stride: sequence, token, head
 *   v      [n_tokens][n_heads_v][head_dim_v]   stride: sequence, token, head
 *   g      [n_tokens][n_heads_v], GATE_CHANNEL: [n_tokens][n_heads_v][head_dim_k]   stride: sequence, token, head
 *          the natural logarithm of the decay, usually <= 0; or what inputs.gate_input says
 *   beta   [n_tokens][n_heads_v]   stride: sequence, token, head.  The factor of the delta; or inputs.beta_input
 *   out    [n_tokens][n_heads_v][head_dim_v]   stride: sequence, token, head.  Rounded once
 *   state  [n_rows][n_slots][n_heads_v][outer][inner]   stride: row, slot, head, outer.  Read and written
 *          A pool of rows with n_slots states each. outer x inner is head_dim_v x head_dim_k for STATE_VK and
 *          head_dim_k x head_dim_v for STATE_KV.
 *   state_out   as state, of its type, with n_rows and n_slots of its own: where states are written. Absent: state.
 *
 * Slices of one projection need no copies. With x = [n_tokens][2 * K + V] from ssm_conv, K = n_heads_k * head_dim_k
 * and V = n_heads_v * head_dim_v:
 *
 *     args.q.data = args.k.data = args.v.data = x;
 *     args.q.stride[1] = args.k.stride[1] = args.v.stride[1] = 4 * (2 * K + V); // [0], of sequences, stays 0
 *     args.k.offset = 4 * K;
 *     args.v.offset = 8 * K;
 *
 * ---- 8.2  Maps
 *
 * int32, in memory that the device can read (host memory on the CPU and the reference). Each may be absent:
 *   seq_start [n_seqs + 1]  where each sequence's tokens begin: not descending, each 0 to n_tokens. Tokens before the
 *                           first and from the last entry on belong to no sequence; the call does not write their out.
 *                           Absent: n_tokens / n_seqs tokens each, without a remainder.
 *   position  [n_seqs]      how many tokens come before the sequence's first token, >= 0. Absent: 0.
 *                           Without log and checkpoints the call does not read it.
 *   state_src [n_seqs]      the state to start from: row * n_slots + slot, GDN_NONE for a zero state, or
 *                           GDN_SKIP for padding. Absent: slot 0 of row s.
 *   state_dst [n_seqs][n_snapshots]  where states go, newest first: entry r is the state r tokens before
 *                           the newest, row * state_out.n_slots + slot, or GDN_NONE. Absent: slot r of row s.
 *                           With n_snapshots 0 it must be absent.
 *
 * Rules:
 *   - Every entry that is used must be in range, also of padding and of sequences without tokens. All are used, with
 *     these exceptions. Of state_dst: entries r from the sequence's number of tokens on. Of checkpoints.dst: entries
 *     behind those that base.h counts. Of padding: state_dst, checkpoints.dst, log.commit and tree.parent. With n_seqs
 *     0 the call reads no map.
 *   - No slot may be written twice in a call, nor be written by one sequence and read by another. A sequence may write
 *     the slot that it reads: that is the update in place.
 *   - The call does not touch slots that no entry names. A sequence without tokens is a no-op, except for its
 *     log.commit. With n_tokens 0 the token operands may be absent. */

/* ---- 8.3  Inputs as projections give them ---------------------------------------------------------
 *
 * The call can normalise q and k, and compute the decay and beta from projections. Without this part it uses q and k as
 * they are, g holds the logarithm of the decay, and beta the factor of the delta. With it, a layer between its two
 * projections is two calls: ssm_conv and gated_delta_net.
 *
 *     gdn_delta_inputs in = GDN_INIT(gdn_delta_inputs);
 *     in.qk_norm = GDN_NORM_ADD;  in.qk_norm_eps = 1e-6f;
 *     in.gate_input = GDN_G_RAW_A_LOG;  in.ssm_a.data = A_log;  in.dt_bias.data = dt_bias;
 *     in.beta_input = GDN_BETA_LOGIT;
 *     args.inputs = &in;
 *
 * Models normalise q and k: with a k much longer than 1 the states grow without bound.
 *
 * read_key r replaces k where the state is read: kv[j] = a * sum_i S[i][j] r[i], for GATE_CHANNEL sum_i S[i][j] (a[i]
 * r[i]). The write still uses k, and the log holds k. qk_norm does not normalise r. Comba and GDN-2 have a read key.
 * GDN-2's delta is w * v - S^T (b * k): pass w * v as v, b * k as read_key with k normalised, and a beta of 1. A query
 * uses read_key if its data is not NULL. On CUDA and Metal such calls run the variants for any head_dim_k, which are
 * slower.
 * Limits: qk_norm_eps finite and >= 0, and 0 without a norm; beta_factor finite and not 0. ssm_a and dt_bias only with
 * GDN_G_RAW, GDN_G_RAW_A_LOG and GDN_G_BOUNDED. lower_bound finite and below 0 with GDN_G_BOUNDED, else 0. */
typedef struct gdn_delta_inputs {
    uint32_t size;
    gdn_norm qk_norm;
    float qk_norm_eps;
    gdn_gate_input gate_input;
    gdn_beta_input beta_input;
    float beta_factor;   /* 1 by GDN_INIT; 2 for models with negative eigenvalues                  */
    float lower_bound;   /* of GDN_G_BOUNDED, usually -5                                           */
    gdn_tensor ssm_a;    /* [n_heads_v]; F32 F16 BF16; stride: head.  Optional with GDN_G_BOUNDED  */
    gdn_tensor dt_bias;  /* [n_heads_v], GATE_CHANNEL: [n_heads_v][head_dim_k]; F32 F16 BF16; stride: head.  Optional */
    gdn_tensor read_key; /* [n_tokens][n_heads_k][head_dim_k], as k; optional. Absent: k           */
} gdn_delta_inputs;

/* ---- 8.4  Snapshots
 *
 * n_snapshots is how many of its newest states a sequence keeps: 1 by GDN_INIT, 0 for none, K to roll back up to K - 1
 * tokens. A ring of snapshots needs no copies: the state after p tokens is in slot p % n_slots. For T tokens, state_src
 * = row * K + p % K and state_dst[r] = row * K + (p + T - r) % K. To roll back, pass a smaller p. To verify N drafts,
 * pass N + 1 tokens (the last accepted one and the drafts) with K = N + 1 slots. */

/* ---- 8.5  The replay log --------------------------------------------------------------------------
 *
 * With a log and n_snapshots 0, a call that verifies drafts writes no states. To roll back, pass a smaller position.
 * Each token leaves an entry in the log: its k and its decay as the recurrence used them, and its delta d. An entry
 * takes about a hundredth of a state. A later call starts at position p from a state with base position p0 <= p. It
 * first replays the entries p0 .. p - 1, S[i][j] = k[i] * d[j] + a * S[i][j], with the roundings of the tokens
 * themselves. So the bits are those of plain decoding.
 *
 * The entry of position p is in slot p % n_slots of the sequence's row. An entry is F32: k [n_heads_k][head_dim_k],
 * d [n_heads_v][head_dim_v], then a [n_heads_v], for GATE_CHANNEL [n_heads_v][head_dim_k]. Its size in floats:
 *     GATE_SCALAR    n_heads_k * head_dim_k + n_heads_v * (head_dim_v + 1)
 *     GATE_CHANNEL   n_heads_k * head_dim_k + n_heads_v * (head_dim_v + head_dim_k)
 *
 * A prompt may be longer than n_slots: run it without a log, or with GDN_NONE for its row. In the first call with a log
 * base_position is the position: there is nothing to replay, and a commit in place changes nothing.
 *
 * Example: verify at most N drafts a call, which are N + 1 tokens. Each call first folds the accepted tokens into the
 * state.
 *
 *     gdn_replay_log log = GDN_INIT(gdn_replay_log);
 *     log.entries.data = entries;  log.entries.n_rows = n_seqs;  log.entries.n_slots = 2 * (N + 1);
 *     log.base_position.data = base;        // [n_seqs]: the position of the previous call; at first as position
 *     log.commit.data = state_slots;        // [n_seqs]: as state_src; for a new sequence its own slot
 *     args.position.data = position;        // [n_seqs]: how many tokens have been accepted
 *     args.log = &log;  args.n_snapshots = 0;
 *     // after the call, with m tokens of sequence s accepted:  base[s] = position[s];  position[s] += m;
 *
 * Rules:
 *   - position + number of tokens - base_position is at most n_slots, so that no token overwrites a replayed entry.
 *   - For each sequence the call replays, then commits, then computes the tokens. It also replays and commits for a
 *     sequence without tokens. So it can fold entries into any slot. A commit may write the slot that the same sequence
 *     reads.
 *   - A sequence without a row has no entries to replay: its base_position is its position. Its commit copies the state
 *     of state_src, or writes zeros.
 *   - A row belongs to one sequence of a call. The call writes only the entries of the sequence's tokens.
 *   - Set n_snapshots to 0 to verify. GDN_INIT has 1: the call then also writes the state after the last token, drafts
 *     included. That is the way to leave the log: decode a token with n_snapshots 1 and without log.commit, and go on
 *     without a log. With a commit in place the call is refused, since both would write the sequence's slot.
 * Limits: n_slots 1 to 2^20; n_rows 1 to 2^31 - 1. */
typedef struct gdn_replay_log {
    uint32_t size;
    gdn_pool entries;       /* [n_rows][n_slots][entry]; F32; stride: row, slot. Read and written           */
    gdn_span row;           /* int32 [n_seqs]: the sequence's row, or GDN_NONE. Absent: row s               */
    gdn_span base_position; /* int32 [n_seqs]: how many tokens the state of state_src has seen, 0 to the
                               sequence's position. Absent: the position                                    */
    gdn_span commit;        /* int32 [n_seqs]: where the state at the sequence's position (8.7: at the last
                               multiple of N up to it) goes, as in state_dst. Absent: nowhere               */
} gdn_replay_log;

/* ---- 8.6  A tree of drafts: gdn_token_tree in base.h
 *
 * A tree needs a log, and each sequence with tokens needs a row of it. A token's entry is in the slot of position + i,
 * with i its index in the sequence; its depth in the tree does not matter. There are no snapshots (n_snapshots 0) and
 * no checkpoints; log.base_position and log.commit work as without a tree. Each token costs a step of the recurrence. A
 * token that does not follow the token before it also replays its ancestors, for at most a third of a step each.
 *
 * When a path i0 < i1 < ... is accepted, the caller moves its entries to those of position, position + 1, ... The
 * source and target of gdn_set_rows must not overlap, so the entries go to another row, which the next call names. The
 * entries from base_position to position move as well; there are none if each call commits. The example has two halves
 * of a log, with log.row[s] = half * n_seqs + s. All sequences commit, and m is counted from 0:
 *
 *     // index[s * n_slots + (position[s] + i) % n_slots] = GDN_NONE, or for the m-th accepted token i
 *     //     s * n_slots + (position[s] + m) % n_slots
 *     rows.n_columns = entry;   rows.n_rows = rows.n_rows_dst = n_seqs * n_slots;   rows.index.data = index;
 *     rows.index.dtype = GDN_I32;
 *     rows.src.data = entries + half * n_seqs * n_slots * entry;
 *     rows.dst.data = entries + (1 - half) * n_seqs * n_slots * entry; */

/* ---- 8.7  States of 16 bits -------------------------------------------------------------------------
 *
 * F16 and BF16 states take half the memory, and half the time where memory is the limit.
 * docs/reference/numerics-states.md has what they cost in accuracy. A call rounds the state to nearest even after every
 * `interval`-th token of a sequence, counted from its beginning (in a tree: along the token's branch). It computes out
 * before the rounding, and the next token reads the rounded state. So the bits do not depend on how tokens are divided
 * into calls. An element that is too large becomes infinity.
 *
 * Without this part the call rounds the state after every token. A larger interval N has N times fewer roundings.
 * Between two of them the state is the last rounded state and the log's entries since. So a call with N > 1 and no log
 * is refused, and:
 *   - base_position and checkpoints.interval are multiples of N;
 *   - state_dst has GDN_NONE for states after other tokens than multiples of N;
 *   - log.commit keeps the state at the last multiple of N up to the sequence's position. The next call's base_position
 *     is that multiple. So the log needs N - 1 slots more.
 *   - A prompt that is longer than the log runs with GDN_NONE for its row, in calls that end at multiples of N.
 *
 *     gdn_state_rounding rounding = GDN_INIT(gdn_state_rounding);
 *     rounding.interval = 16;  args.state.dtype = GDN_BF16;  log.entries.n_slots = 2 * 8 + 15; // 8 tokens a call
 *     args.rounding = &rounding; // log.base_position: the position of the previous call, rounded down to 16
 *
 * Limits: interval 1 to 2^31 - 1, with F16 and BF16 states only. */
typedef struct gdn_state_rounding {
    uint32_t size;
    int32_t interval;
} gdn_state_rounding;

/* ---- 8.8  The chunked form -----------------------------------------------------------------------------
 *
 * A second contract, beside the recurrence: docs/reference/numerics-chunked.md has its bits, docs/guide/chunked.md says
 * when to use it. A sequence is processed in chunks of 32 tokens, counted from its beginning, by products of matrices
 * of small integers: of 2 or 3 digits of 8 bits. The same token has the same bits in any call. The two forms, and the
 * two numbers of digits, give different bits: a sequence keeps to one of them, from its first token to its last. The
 * library cannot tell a state of one form in F32 from that of another.
 *
 * States exist at multiples of 32 tokens. A sequence is its state at a multiple, and the log's entries since.
 *   - position is always read.
 *   - log.base_position, the number of tokens that the state of state_src has seen, is a multiple of 32. Absent: the
 *     last multiple up to the position.
 *   - n_snapshots is 0 or 1. The entry of state_dst gets the state at the last multiple of 32 up to the sequence's new
 *     length. In place, a call that reaches no multiple writes no state: that is 31 of 32 calls that decode.
 *   - log.commit gets the state at the last multiple of 32 up to the position.
 *   - An entry of the log has g, the logarithm of the decay, in place of a. The call reads all entries that it replays
 *     before it writes one. It writes the entries of its tokens that the sequence needs afterwards: those from its next
 *     base on. That is the multiple of state_dst if it names a slot for the sequence, else that of log.commit if it
 *     does, else base_position. From that base to the new length are at most log.entries.n_slots tokens, and from
 *     base_position to the position too. So 32 slots are enough to read prompts of any length and to decode. To verify
 *     drafts in calls of N tokens, with n_snapshots 0 and log.commit, 31 + N slots are.
 *   - A sequence without a row of the log has a position that is a multiple of 32. Its new length is one too, if
 *     state_dst names a slot for it.
 *   - checkpoints.interval is a multiple of 32.
 *   - state.dtype is GDN_F32, or the type of the same number of digits. States of digits take half and three quarters
 *     of the memory of F32, and decoding reads as much less. They have state_layout GDN_STATE_VK, and no stride of the
 *     outer dimension: numerics-chunked.md has the order of a head's bytes.
 *   - head_dim_k and head_dim_v are multiples of 16. There is no tree, no rounding, and no GDN_G_LINEAR.
 *   - A gate that is NaN or above 0 gives NaN, from its token on.
 *
 *     gdn_chunked_form chunked = GDN_INIT(gdn_chunked_form);
 *     args.chunked = &chunked;  args.log = &log;  log.entries.n_slots = 32;
 *     args.state.dtype = GDN_DIGITS3;
 *     args.position.data = position; // [n_seqs]: prompts and decode alike. After the call: position[s] += its tokens
 *
 * Limits: digits 2 or 3. CUDA returns UNSUPPORTED for GDN_GATE_CHANNEL, and needs a workspace. Its kernels have been
 * executed by an emulator; no device has run them. Vulkan and Metal return UNSUPPORTED. */
typedef struct gdn_chunked_form {
    uint32_t size;
    int32_t digits; /* 3 by GDN_INIT: errors of about 1e-6; 2: of about 2e-4, and faster           */
} gdn_chunked_form;

/* ---- Reference
 *
 * Limits:
 *   head_dim_k, head_dim_v   16 to 256
 *   n_heads_k, n_heads_v     1 to 2^16; n_heads_v is a multiple of n_heads_k
 *   n_seqs                   0 to 2^24
 *   n_tokens                 below 2^31, as is position + number of tokens
 *   n_rows, n_slots          of a pool: at least 1, their product below 2^31
 *   n_snapshots              0 to 2^20, n_seqs * n_snapshots below 2^31
 *   scale                    finite and not 0
 * Aliasing: inputs may overlap each other. out, the log and the written states overlap nothing else. state_out is
 *   absent, the same pool as state, or apart from it.
 * Workspace: args.workspace, of the size that the query returns. It may be absent when that is 0. Its contents have no
 *   meaning before and after the call. Two calls that run at the same time need two.
 * Errors: INVALID_ARGUMENT where a limit or rule above is broken, UNSUPPORTED where this backend cannot do it. Devices
 *   report bad map values later, as BAD_MAP.
 * Thread-safety: see "Thread-safety of a context" in base.h.
 * Source: Yang, Kautz, Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule" (2024), equation 10. The
 *   channel gate is from "Kimi Linear" (2025).
 */
typedef struct gdn_gated_delta_net_args {
    uint32_t size;
    int32_t n_seqs;
    int32_t n_tokens; /* of all sequences together                                          */
    int32_t n_heads_k, n_heads_v, head_dim_k, head_dim_v;
    gdn_head_map head_map;
    gdn_gate_shape gate;
    gdn_state_layout state_layout;
    int32_t n_snapshots; /* entries of state_dst per sequence; 1 by GDN_INIT                */
    float scale;         /* of out; usually 1 / sqrt(head_dim_k). It must be set            */
    gdn_tensor q, k, v, g, beta, out;
    gdn_pool state, state_out; /* n_slots is 1 by GDN_INIT                                   */
    gdn_span seq_start, position, state_src, state_dst;
    gdn_span workspace;
    const gdn_delta_inputs *inputs;
    const gdn_replay_log *log;
    const gdn_checkpoints *checkpoints;
    const gdn_token_tree *tree;
    const gdn_state_rounding *rounding;
    const gdn_chunked_form *chunked;
} gdn_gated_delta_net_args;

#define GDN_DEFAULTS_gdn_gated_delta_net_args                                                                          \
    , .n_snapshots = 1, .state = { .n_slots = 1 }, .state_out = { .n_slots = 1 }
#define GDN_DEFAULTS_gdn_delta_inputs , .beta_factor = 1
#define GDN_DEFAULTS_gdn_replay_log
#define GDN_DEFAULTS_gdn_state_rounding
#define GDN_DEFAULTS_gdn_chunked_form , .digits = 3
#ifdef __cplusplus
extern "C++" {
template <> inline void gdn_set_defaults(gdn_gated_delta_net_args &args)
{
    args.n_snapshots = args.state.n_slots = args.state_out.n_slots = 1;
}
template <> inline void gdn_set_defaults(gdn_delta_inputs &inputs) { inputs.beta_factor = 1; }
template <> inline void gdn_set_defaults(gdn_chunked_form &chunked) { chunked.digits = 3; }
}
#endif
/* Reports whether the call would run, whether it would be exact, which implementation runs it, and how much workspace
 * it needs. The query does not read maps. data, maps and workspace may be absent. It validates optional tensors that
 * are given. */
GDN_API gdn_status gdn_gated_delta_net_query(const gdn_context *ctx, const gdn_gated_delta_net_args *args,
                                             gdn_capability *capability);
/* Run it. */
GDN_API gdn_status gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, gdn_stream stream);

#endif /* GDN_GATED_DELTA_NET_H */
