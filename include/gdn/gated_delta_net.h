/* The gated delta rule over a recurrent state with snapshots. Section 8 of the manual that begins in gdn.h, which is
 * what programs include. */
#ifndef GDN_GATED_DELTA_NET_H
#define GDN_GATED_DELTA_NET_H

#include "gdn/base.h"

/* ---- 8  gated_delta_net -------------------------------------------------------------------------- */

/* Which key head kappa(h) value head h uses, with r = n_heads_v / n_heads_k. */
enum {
    GDN_HEADS_GROUPED = 0, /* h / r          HF transformers, Qwen3-Next GGUF                        */
    GDN_HEADS_TILED   = 1  /* h % n_heads_k  ggml, Qwen3.5 GGUF                                      */
};
/* Shape of the gate. */
enum {
    GDN_GATE_SCALAR  = 0, /* one per token and head: gated delta net                                 */
    GDN_GATE_CHANNEL = 1  /* one per token, head and key channel: Kimi delta attention (KDA)         */
};
/* Order of a head's state matrix. The bits of every element are the same in both. */
enum {
    GDN_STATE_VK = 0, /* [head_dim_v][head_dim_k], keys contiguous: ggml, vLLM, SGLang, FlashInfer   */
    GDN_STATE_KV = 1  /* [head_dim_k][head_dim_v], values contiguous: HF transformers, FLA           */
};
/* How each head's q and k are normalised inside the call (l2 norm). */
enum {
    GDN_NORM_NONE  = 0, /* they come as the recurrence wants them                                    */
    GDN_NORM_ADD   = 1, /* x / sqrt(sum x^2 + eps): FLA, HF transformers, vLLM (1e-6)                */
    GDN_NORM_CLAMP = 2  /* x / max(sqrt(sum x^2), eps): ggml's l2_norm. With eps 0 a zero vector gives NaN */
};
/* What g holds, x being an element of it. */
enum {
    GDN_G_LOG       = 0, /* the logarithm of the decay: a = exp(x)                                   */
    GDN_G_LINEAR    = 1, /* the decay: a = x                                                         */
    GDN_G_RAW       = 2, /* the projection: a = exp(ssm_a * softplus(x + dt_bias)), ssm_a -exp(A_log): GGUF files */
    GDN_G_RAW_A_LOG = 3  /* the same, with A_log in ssm_a, as HF transformers and FLA have it        */
};
enum { GDN_DELTA_TREE = 1 }; /* flag: a sequence's tokens are a tree, see parent */
/* What beta holds, x being an element of it. */
enum {
    GDN_BETA_PLAIN = 0, /* beta_factor * x                                                           */
    GDN_BETA_LOGIT = 1  /* the projection: beta_factor * sigmoid(x)                                  */
};
/*
 * The gated delta rule, token by token, for every value head h of every sequence, in place of attention.
 * With S the head's state (key x value), a = exp(g) unless g_form says otherwise, in the order docs/numerics.md fixes:
 *
 *     kv[j]   = a * sum_i S[i][j] k[i]              (GATE_CHANNEL: sum_i S[i][j] (a[i] k[i]))
 *     d[j]    = beta * (v[j] - kv[j])
 *     S[i][j] = k[i] * d[j] + a * S[i][j]           (GATE_CHANNEL: a[i])
 *     out[j]  = scale * sum_i S[i][j] q[i]
 *
 * Operands, with their axes outermost first and the strides that apply to them:
 *   q, k     [n_tokens][n_heads_k][head_dim_k]   F32 F16 BF16   stride: sequence, token, head
 *            Models divide each head's q and k by its length (l2 norm): with a k much longer than 1 the states
 *            grow without bound. qk_norm says how the call does it; GDN_NORM_NONE takes them as they are.
 *   v        [n_tokens][n_heads_v][head_dim_v]   F32 F16 BF16   stride: sequence, token, head
 *   g        [n_tokens][n_heads_v], or [..][head_dim_k] for GATE_CHANNEL; F32 F16 BF16; what g_form says, by
 *            default the natural logarithm of the decay (usually <= 0)    stride: sequence, token, head
 *   beta     [n_tokens][n_heads_v]               F32 F16 BF16; what beta_form says, by default the factor of
 *            the delta itself                                    stride: sequence, token, head
 *   ssm_a    [n_heads_v]                         F32 F16 BF16   stride: head.  GDN_G_RAW, GDN_G_RAW_A_LOG only
 *   dt_bias  [n_heads_v], or [..][head_dim_k] for GATE_CHANNEL; F32 F16 BF16; stride: head. Optional; as ssm_a
 *   out      [n_tokens][n_heads_v][head_dim_v]   F32 F16 BF16, rounded once; stride: sequence, token, head
 *   state    [n_rows][n_slots][n_heads_v][line][contiguous]  F32 F16 BF16   stride: row, slot, head, line
 *            a pool of rows, each with n_slots snapshots; `line` is head_dim_v lines of head_dim_k for
 *            STATE_VK and head_dim_k lines of head_dim_v for STATE_KV. Read and written. See "States of 16 bits".
 *   state_out  as state, n_rows_out x n_slots_out: where states are written. Absent = state itself. Of state's type.
 *   log      [n_log_rows][n_log_columns][entry]  F32   stride: row, column. Optional, see "The replay log". An entry
 *            is k [n_heads_k][head_dim_k], then d [n_heads_v][head_dim_v], then a [n_heads_v], for GATE_CHANNEL
 *            [n_heads_v][head_dim_k]. The column of position p is p % n_log_columns. Read and written.
 *
 * Slices of one projection need no copies: with x = [n_tokens][2 * K + V] what ssm_conv gave for a layer with K =
 * n_heads_k * head_dim_k key channels and V = n_heads_v * head_dim_v value channels,
 *
 *     const int64_t token = 4 * (2 * K + V);
 *     args.q = (gdn_tensor){ .data = x, .stride = { 0, token } };
 *     args.k = (gdn_tensor){ .data = x, .offset = 4 * K, .stride = { 0, token } };
 *     args.v = (gdn_tensor){ .data = x, .offset = 8 * K, .stride = { 0, token } };
 *
 * and so with a projection [n_tokens][2 * n_heads_v] whose halves are beta and g. With qk_norm, g_form and beta_form
 * a layer between its two projections is two calls, ssm_conv and this one.
 *
 * Maps, int32, in memory that the device can read (host memory on the CPU and the reference); each may be absent:
 *   seq_start [n_seqs + 1]  not descending, from >= 0 to <= n_tokens. Absent: n_tokens / n_seqs each.
 *   state_src [n_seqs]      where sequence s starts from: row * n_slots + slot, or GDN_NONE for a zero state, or
 *                           GDN_SKIP. Absent: slot 0 of row s.
 *   state_dst [n_seqs][n_snapshots]  where the state r tokens before the sequence's newest goes, for
 *                           r < n_snapshots: row * n_slots_out + slot, or GDN_NONE. Absent: slot r of row s.
 *   position  [n_seqs]      position of the sequence's first token = number of tokens before it, >= 0. Absent: 0.
 *   state_checkpoint [n_seqs][n_checkpoints]  where the sequence's checkpoints go, in the order of its tokens:
 *                           row * n_slots_out + slot, or GDN_NONE. With checkpoint_interval only; position with that
 *                           or with a log.
 *   log_row  [n_seqs]       the sequence's row of the log, or GDN_NONE: it has none. Absent: row s.
 *   state_position [n_seqs] where the state that state_src names stands: the number of tokens it has seen, from 0 to
 *                           the sequence's position. Absent: its position.
 *   state_commit [n_seqs]   where the state at the sequence's position goes, before its first token (with
 *                           state_interval > 1 see there): row * n_slots_out + slot, or GDN_NONE. Absent: GDN_NONE.
 *                           These three with a log only.
 *   parent   [n_tokens]     which token a token follows: the number of one of its sequence's tokens before it, counted
 *                           from 0, or GDN_NONE: it follows the state at the sequence's position. Absent: the token
 *                           before it. With GDN_DELTA_TREE only.
 * Every entry has to be in range, also of padding and of sequences without tokens, even where no sequence has any;
 * but of state_dst, state_checkpoint, state_commit and parent only those that are used: no backend looks at entries of
 * state_dst with r not less than the sequence's number of tokens, at checkpoints that it does not come to, nor at any
 * of padding. With n_seqs 0 no map is read.
 * position is read only in calls with checkpoints or with a log; elsewhere it has no effect.
 * No slot may be written twice in one call, nor be written by one sequence and read by another. A sequence may write
 * the slot it reads: that is the in-place update. Memory that no map entry names is never touched, and a sequence
 * without tokens reads and writes nothing, unless it has a state to commit.
 *
 * A ring of snapshots tagged by position needs no copies ever: the state after p tokens lives in slot p % n_slots, so
 * state_src = row * K + p % K and state_dst[r] = row * K + (p + T - r) % K; rolling back is choosing a smaller p. To
 * verify N drafts, a call has N + 1 tokens, the last accepted one and the drafts, any number of which may be
 * rejected: K = N + 1 slots, for the state behind the accepted token and N behind drafts.
 *
 * Checkpoints are kept on the way: with checkpoint_interval N, the state after each token with which the number of the
 * sequence's tokens becomes a multiple of N goes to the sequence's next entry of state_checkpoint. With T tokens from
 * position p on it uses its first min((p + T) / N - p / N, n_checkpoints) entries; later ones are not kept. A token may
 * have a snapshot too: both are written, to two slots. For example, to keep a prompt's prefixes of 256, 512, ... tokens
 * in slots from which other calls may start, by naming one in state_src, while at most 1024 tokens go through a call:
 *
 *     args.checkpoint_interval = 256;   args.position.data = position;       // [n_seqs]: 0, in the next call 1024, ...
 *     args.n_checkpoints = 4;           args.state_checkpoint.data = slots;  // [n_seqs][4]: of rows that nobody has
 *
 * The replay log makes verification write no states. Each token leaves what it did to the states in its column of the
 * log: its k and a as the recurrence used them, and the delta d. A later call that starts at position p from a state
 * that stands at p0 <= p first repeats the columns p0 .. p - 1, S[i][j] = k[i] * d[j] + a * S[i][j], with the roundings
 * of the tokens themselves, so that its bits are those of plain decoding. Rolling back is passing a smaller position,
 * and a token's column is about a hundredth of a state. With n_log_columns:
 *   - n_snapshots is 0 by default: no state is written but those that state_dst (with n_snapshots), state_checkpoint
 *     and state_commit name. Otherwise these work as without a log.
 *   - position + number of tokens - state_position must be at most n_log_columns, so that no token's column is one that
 *     is repeated. A sequence whose log_row is GDN_NONE has no column: its state_position must be its position.
 *   - A row of the log belongs to one sequence of a call. Only the columns of its tokens are written.
 *   - A sequence without tokens, but with a state to commit, is repeated and committed: so any number of columns can be
 *     folded into any slot. A slot may be committed to that is read by the same sequence.
 * For example, to verify drafts with N tokens a call, of which at least one is accepted each time, and to fold what was
 * accepted into the state at each call's begin: 2 * N columns at least, and
 *
 *     args.n_log_columns = 2 * N;  args.n_log_rows = n_seqs;  args.log.data = log;
 *     args.position.data = position;       // [n_seqs]: the number of tokens that have been accepted
 *     args.state_position.data = stands;   // [n_seqs]: position of the call before
 *     args.state_commit.data = slots;      // [n_seqs]: the slots of state_src
 *
 * A tree of drafts is verified in one call with GDN_DELTA_TREE: several tokens may follow the same one, and parent says
 * which. A token's out and column of the log are what decoding its branch alone would give, bit for bit: the state that
 * it follows is the state at the sequence's position, on which its ancestors of this call are repeated. Its column is
 * that of its place in the call, position + i for the sequence's token i, however deep in the tree it stands. A tree
 * needs a log, and every sequence with tokens a row of it; it has neither snapshots nor checkpoints (n_snapshots and
 * checkpoint_interval are 0), while state_position and state_commit are as without one. A tree in which each token
 * follows the one before it is the same call as one without parent. When a path i0 < i1 < ... has been accepted, the
 * caller moves its columns together, to those of position, position + 1, ...; as gdn_set_rows does not read what it
 * writes, into another row of the log, which the next call names, or through a copy. Each token costs a step of the
 * recurrence, and each that does not follow the token before it repeats its ancestors, at a third of that apiece or
 * less. With two halves of a log, log_row[s] = half * n_seqs + s, and everything committed up to position, for all
 * sequences:
 *
 *     // index[s * n_log_columns + (position[s] + i) % n_log_columns] = GDN_NONE, or for the m-th accepted token i
 *     //     s * n_log_columns + (position[s] + m) % n_log_columns
 *     rows.n_columns = entry;   rows.n_rows = rows.n_rows_dst = n_seqs * n_log_columns;   rows.index.data = index;
 *     rows.src.data = log + half * n_seqs * n_log_columns * entry;
 *     rows.dst.data = log + (1 - half) * n_seqs * n_log_columns * entry;
 *
 * States of 16 bits take half the memory, and half the time where memory is the limit; docs/numerics-states.md says
 * what they cost in accuracy. With N = state_interval (0 = 1) the state is rounded to state.dtype, to nearest, ties to
 * even, behind each token with which the number of the sequence's tokens becomes a multiple of N; out is read before
 * that, and the next token reads what was rounded. What counts is the token's place in its sequence (in a tree: on its
 * branch), so that bits do not depend on how tokens are cut into calls. A state that is too large becomes infinity, a
 * NaN stays one.
 *   - N = 1 rounds behind every token, and works with everything else there is, and without it.
 *   - N > 1 is N times fewer roundings, whose errors add up to the root of that less. Between two of them the state is
 *     its last rounding and the log's columns since (F32), so it needs a log, and position. States are in memory only
 *     where they were rounded: state_position and checkpoint_interval are multiples of N, state_dst has GDN_NONE for
 *     the states behind other tokens, and state_commit keeps the state at the last multiple of N that is not behind
 *     the sequence's position; that is its state_position then. So n_log_columns is larger by N - 1.
 * For example, to read a prompt in calls that end at multiples of N and its rest with a row of the log, and then to
 * decode: as with a log, with
 *
 *     args.state.dtype = GDN_BF16;   args.state_interval = 16;   args.n_log_columns = 16 + 15;
 *     args.state_position.data = stands;   // [n_seqs]: position of the call before, rounded down to a multiple of 16
 *
 * Limits: head_dim_k, head_dim_v 16..256; n_heads_k, n_heads_v 1..2^16, n_heads_v a multiple of n_heads_k; n_seqs
 *   0..2^24; n_tokens below 2^31; n_rows * n_slots, n_rows_out * n_slots_out, n_seqs * n_snapshots and n_seqs *
 *   n_checkpoints below 2^31; n_snapshots, n_checkpoints and n_log_columns up to 2^20; position + number of tokens
 *   below 2^31; scale, qk_norm_eps and beta_factor finite.
 * Aliasing: inputs may overlap each other. out, the log and the written states overlap nothing else; state_out
 *   is either absent, the same tensor as state, or apart from it.
 * Workspace: args.workspace, of the size the query tells; it may be absent when that is 0. Contents are
 *   of no meaning before and after; two calls that run at the same time need two.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED; on devices, bad map values surface later as BAD_MAP.
 * Thread-safety: see "Thread-safety of a context".
 * Source: Yang, Kautz, Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule" (2024),
 *   equation 10; the channel gate is from "Kimi Linear" (2025).
 */
typedef struct gdn_gated_delta_net_args {
    uint32_t   size;
    uint32_t   flags;        /* GDN_DELTA_*                                                          */
    int32_t    n_seqs;
    int32_t    n_tokens;     /* of all sequences together                                            */
    int32_t    n_heads_k, n_heads_v, head_dim_k, head_dim_v;
    int32_t    head_map;     /* GDN_HEADS_*                                                          */
    int32_t    gate;         /* GDN_GATE_*                                                           */
    int32_t    state_layout; /* GDN_STATE_*                                                          */
    int32_t    n_rows;
    int32_t    n_slots;      /* K; 0 = 1                                                             */
    int32_t    n_rows_out;   /* of state_out; 0 = n_rows                                             */
    int32_t    n_slots_out;  /* of state_out; 0 = n_slots                                            */
    int32_t    n_snapshots;  /* entries of state_dst per sequence; 0 = n_slots_out, none with a log  */
    float      scale;        /* of out; 0 = 1 / sqrt(head_dim_k)                                     */
    int32_t    reserved;
    gdn_tensor q, k, v, g, beta, out, state, state_out;
    gdn_span   seq_start, state_src, state_dst;
    gdn_span   workspace;
    int32_t    qk_norm;      /* GDN_NORM_*                                                           */
    int32_t    g_form;       /* GDN_G_*                                                              */
    int32_t    beta_form;    /* GDN_BETA_*                                                           */
    float      qk_norm_eps;  /* eps of qk_norm, >= 0; 0 is 0                                         */
    float      beta_factor;  /* 0 = 1; 2 for models with negative eigenvalues                        */
    int32_t    reserved2;
    gdn_tensor ssm_a, dt_bias;
    int32_t    checkpoint_interval; /* N tokens; 0 = no checkpoints                                  */
    int32_t    n_checkpoints; /* entries of state_checkpoint per sequence; 0 without an interval     */
    gdn_span   position, state_checkpoint;
    int32_t    n_log_rows;
    int32_t    n_log_columns; /* 0 = no log; more than it may be repeated and has tokens             */
    gdn_tensor log;
    gdn_span   log_row, state_position, state_commit;
    gdn_span   parent;
    int32_t    state_interval; /* N tokens, with F16 and BF16 states; 0 = 1; with F32 0                */
    int32_t    reserved3;
} gdn_gated_delta_net_args;

/* Would it run, would it be exact, which implementation, how much workspace. Maps are not read, and
 * data, maps and workspace may be absent. */
GDN_API gdn_status gdn_gated_delta_net_query(const gdn_context *ctx, const gdn_gated_delta_net_args *args,
                                             gdn_capability *capability);
/* Run it. */
GDN_API gdn_status gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, gdn_stream stream);

#endif /* GDN_GATED_DELTA_NET_H */
