/* Causal depthwise convolution with a history that rolls back. Section 9 of the manual that begins in gdn.h, which is
 * what programs include. */
#ifndef GDN_SSM_CONV_H
#define GDN_SSM_CONV_H

#include "gdn/base.h"

/* ---- 9  ssm_conv ---------------------------------------------------------------------------------- */

typedef int32_t gdn_activation;
enum {
    GDN_ACTIVATION_NONE = 0, /* out = u               */
    GDN_ACTIVATION_SILU = 1  /* out = u / (1 + exp(-u)) */
};

/* Causal depthwise convolution along the tokens of each sequence. The history of a sequence is a ring of inputs that
 * rolls back by position. For channel c of the token at position p, oldest tap first:
 *
 *     u = bias[c];  for j = 0 .. kernel_width - 1:  u = weight[c][j] * x(p - kernel_width + 1 + j)[c] + u
 *     out[c] = activation(u)
 *
 * where x(p') is a token of this call, an entry of the history, or zero for p' < 0.
 *
 * Operands. F32, F16 and BF16 are allowed:
 *   x        [n_tokens][n_channels]       stride: sequence, token
 *   weight   [n_channels][kernel_width]   stride: channel, tap; tap-major: { 4, 4 * n_channels }. A channel stride of 0
 *            means kernel_width times the tap stride.
 *   bias     [n_channels]                 optional
 *   out      [n_tokens][n_channels]       stride: sequence, token.  Rounded once
 *   history  [n_rows][n_slots][n_channels]   stride: row, slot.  Optional; read and written
 *            A slot holds the input of one token: position p is in slot p % n_slots, n_slots >= kernel_width - 1. Each
 *            slot more allows a rollback of one token more. To verify N drafts: kernel_width - 1 + N. Absent: every
 *            sequence starts from zero, and no input is kept.
 *   history_out  as history, with its type and n_slots: where inputs are written. Absent: history itself.
 * 16-bit elements are widened exactly; sums are F32. The history takes x's bits where it has x's type, else its values,
 * rounded once. A history of x's type or of F32 is exact. With any other, results depend on how tokens are divided into
 * calls.
 *
 * Maps, int32; each may be absent:
 *   seq_start   [n_seqs + 1]  as in gated_delta_net.
 *   position    [n_seqs]      how many tokens come before the sequence's first token, >= 0. To roll back, pass a
 *                             smaller position. Absent: 0. A decode with a history needs it.
 *   history_src [n_seqs]      row to read, GDN_NONE for a zero history, or GDN_SKIP for padding. Absent: row s.
 *   history_dst [n_seqs]      row of history_out to write, or GDN_NONE. Absent: row s.
 * Every entry that is used must be in range, also of padding and of sequences without tokens. All are used,
 * with these exceptions. Of checkpoints.dst: entries behind those that base.h counts. Of padding: checkpoints.dst and
 * tree.parent. After the call the written row holds the inputs of the newest min(position + T, n_slots) positions. If
 * the call reads another row, it copies the bits of the older inputs, whatever the slots hold, so that both rows can be
 * rolled back equally far. With GDN_NONE in history_src it writes zeros for them. No row may be written twice, nor be
 * written by one sequence and read by another. A sequence without tokens is a no-op. With n_tokens 0 x, weight, bias
 * and out may be absent.
 *
 *     gdn_ssm_conv_args args = GDN_INIT(gdn_ssm_conv_args); // one token of each of 8 sequences
 *     args.n_seqs = args.n_tokens = args.history.n_rows = 8;
 *     args.n_channels = 8192;  args.kernel_width = 4;  args.activation = GDN_ACTIVATION_SILU;
 *     args.x.data = x;  args.weight.data = weight;  args.out.data = out;
 *     args.history.data = history;  args.history.n_slots = 3 + n_drafts; // [8][3 + n_drafts][8192]
 *     args.position.data = position;                                     // [8]
 *
 * Checkpoints (gdn_checkpoints in base.h) need a history; dst names rows, as history_dst does. A checkpoint at position
 * p, which is the number of tokens so far, holds the inputs of the newest min(p, kernel_width - 1) positions, in their
 * slots. The call does not write the row's other slots. A sequence continues from it at position p, and cannot be
 * rolled back further.
 *
 * A tree (gdn_token_tree in base.h): x(p - 1), x(p - 2), ... are the inputs of the token's ancestors in
 * the call, and before them those of the history. The history takes inputs by their index: sequence token i goes to
 * position + i. With a history, n_slots is at least kernel_width - 1 plus the sequence's tokens. A call with a tree
 * takes no checkpoints. When a path i0 < i1 < ... is accepted, the caller moves its inputs to the slots of position,
 * position + 1, ... gdn_set_rows() writes another row than it reads, and the next call must also find the kernel_width
 * - 1 inputs before `position`. So there are two ways:
 *   - In place: these inputs move too. The example has two halves of a history; the call reads and writes the rows
 *     half * n_seqs + s, and the next call those of the other half.
 *   - history_src and history_dst name different rows. The path moves back into the row that the call reads, which
 *     still has the earlier inputs. examples/verify_tree.c does this.
 *
 *     // index[s * n_slots + q % n_slots] = s * n_slots + q' % n_slots, else GDN_NONE, with
 *     //     q = position[s] + i, q' = position[s] + m for the m-th accepted token i, m from 0
 *     //     q = q' = position[s] - 1, ... position[s] - (kernel_width - 1), those that are >= 0
 *     rows.n_columns = n_channels;   rows.n_rows = rows.n_rows_dst = n_seqs * n_slots;   rows.index.data = index;
 *     rows.index.dtype = GDN_I32;
 *     rows.src.data = history + half * n_seqs * n_slots * n_channels;
 *     rows.dst.data = history + (1 - half) * n_seqs * n_slots * n_channels;
 *
 * Limits: kernel_width 1 to 16; n_seqs 0 to 2^24; n_tokens, n_channels, n_rows and n_slots below 2^31; position +
 *   number of tokens below 2^31.
 * Aliasing: inputs may overlap each other; out and the written history overlap nothing else.
 * Workspace, errors, thread-safety: as gated_delta_net.
 * Source: causal-conv1d of Mamba (Gu, Dao 2023); ggml's SSM_CONV fused with its concat, bias and SiLU. */
typedef struct gdn_ssm_conv_args {
    uint32_t size;
    int32_t n_seqs;
    int32_t n_tokens; /* of all sequences together                                            */
    int32_t n_channels, kernel_width;
    gdn_activation activation;
    gdn_tensor x, weight, bias, out;
    gdn_pool history, history_out;
    gdn_span seq_start, position, history_src, history_dst;
    gdn_span workspace;
    const gdn_checkpoints *checkpoints;
    const gdn_token_tree *tree;
} gdn_ssm_conv_args;

#define GDN_DEFAULTS_gdn_ssm_conv_args

GDN_API gdn_status gdn_ssm_conv_query(const gdn_context *ctx, const gdn_ssm_conv_args *args,
                                      gdn_capability *capability);
GDN_API gdn_status gdn_ssm_conv(gdn_context *ctx, const gdn_ssm_conv_args *args, gdn_stream stream);

#endif /* GDN_SSM_CONV_H */
