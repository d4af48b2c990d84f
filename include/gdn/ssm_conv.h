/* Causal depthwise convolution with a history that rolls back. Section 9 of the manual that begins in gdn.h, which is
 * what programs include. */
#ifndef GDN_SSM_CONV_H
#define GDN_SSM_CONV_H

#include "gdn/base.h"

/* ---- 9  ssm_conv ---------------------------------------------------------------------------------- */

enum { /* flags */
    GDN_CONV_SILU = 1, /* out = silu(sum)                                  */
    GDN_CONV_TREE = 2  /* a sequence's tokens are a tree, see parent       */
};

/*
 * Causal depthwise convolution along the tokens of each sequence, with its history kept as a ring that
 * rolls back by position. For channel c of the token at position p, taps oldest first:
 *
 *     u = bias[c];  for j = 0 .. kernel_width - 1:  u = weight[c][j] * x(p - kernel_width + 1 + j)[c] + u
 *     out[c] = u, or u / (1 + exp(-u)) with GDN_CONV_SILU
 *
 * where x(p') is a token of this call, a column of the history, or zero for p' < 0.
 *
 * Operands:
 *   x        [n_tokens][n_channels]              F32 F16 BF16   stride: sequence, token
 *   weight   [n_channels][kernel_width]          F32 F16 BF16   stride: channel, tap; tap-major: { 4, 4 * n_channels }
 *   bias     [n_channels]                        F32 F16 BF16   optional
 *   out      [n_tokens][n_channels]              F32 F16 BF16, rounded once   stride: sequence, token
 *   history  [n_rows][n_columns][n_channels]     F32 F16 BF16   stride: row, column. Optional: absent means that every
 *            sequence starts from zero and none is kept. The column of position p is p % n_columns, n_columns >=
 *            kernel_width - 1; each column more allows a rollback one token deeper: to verify N drafts, kernel_width
 *            - 1 + N. Read and written.
 *   history_out  as history, of its type, n_rows_out rows: where columns are written. Absent = history itself.
 * 16-bit elements are widened exactly; sums are F32. The history takes x's bits where it has x's type, else its values,
 * rounded once. A history of x's type, or of F32, is exact; any other is not, and then results depend on where tokens
 * are cut into calls.
 *
 * Maps, int32, as in gated_delta_net; each may be absent:
 *   seq_start   [n_seqs + 1]
 *   position    [n_seqs]   position of the sequence's first token in this call = number of tokens before it, >= 0.
 *                          Absent: 0. Rolling back is passing a smaller position.
 *   history_src [n_seqs]   row to read, GDN_NONE for a zero history, GDN_SKIP. Absent: row s.
 *   history_dst [n_seqs]   row to write, or GDN_NONE. Absent: row s.
 *   history_checkpoint [n_seqs][n_checkpoints]  rows for checkpoints, or GDN_NONE. With checkpoint_interval only.
 *   parent      [n_tokens] which token a token follows, as in gated_delta_net. Absent: the token before it. With
 *                          GDN_CONV_TREE only.
 * Every entry has to be in range, also those of padding and of sequences without tokens, as in gated_delta_net, but of
 * history_checkpoint and parent only those that are used. After the call the written row holds the columns of the
 * newest min(position + T, n_columns) positions; where it is another than the row that was read, the older of them are
 * copied over (or are zero), so that it rolls back as deep. No row may be written twice, nor be written by one sequence
 * and read by another. Sequences without tokens read and write nothing.
 *
 * Checkpoints come after the same tokens, and use as many entries, as in gated_delta_net; they need a history. Of the
 * row, the columns of the newest min(p, kernel_width - 1) positions are written, where p is the number of tokens by
 * then, and no others: a sequence goes on from it at position p, and cannot be rolled back behind that.
 *
 * With GDN_CONV_TREE x(p - 1), x(p - 2), ... are the inputs of the token's ancestors in the call, the nearest first,
 * and behind the last of them the history's, from that of position - 1 on. A token's out is what its branch alone would
 * give, bit for bit. The history takes the tokens' columns by their places in the call, position + i for the sequence's
 * token i; so that they leave what the next call reads, n_columns must be at least kernel_width - 1 and the sequence's
 * tokens, where there is a history. There are no checkpoints then. When a path has been accepted, the caller moves its
 * columns together as in gated_delta_net: with history_dst another row than history_src, which has the columns before
 * position as well, from there into the row that was read.
 *
 * Limits: kernel_width 1..16; n_seqs 0..2^24; n_tokens, n_channels, n_rows and n_columns below 2^31; n_checkpoints up
 * to 2^20, n_seqs * n_checkpoints below 2^31; position + number of tokens below 2^31. Workspace, errors, threads: as
 * gated_delta_net. Aliasing: inputs may overlap each other; out and written history overlap nothing else. Source: the
 * causal-conv1d of Mamba (Gu, Dao 2023); ggml's SSM_CONV fused with its concat, bias, SiLU.
 */
typedef struct gdn_ssm_conv_args {
    uint32_t   size;
    uint32_t   flags;        /* GDN_CONV_*                                                           */
    int32_t    n_seqs, n_tokens, n_channels, kernel_width, n_rows;
    int32_t    n_columns;    /* 0 = kernel_width - 1                                                 */
    int32_t    n_rows_out;   /* of history_out; 0 = n_rows                                           */
    int32_t    reserved;
    gdn_tensor x, weight, bias, out, history, history_out;
    gdn_span   seq_start, position, history_src, history_dst;
    gdn_span   workspace;
    int32_t    checkpoint_interval; /* N tokens; 0 = no checkpoints                                  */
    int32_t    n_checkpoints; /* entries of history_checkpoint per sequence; 0 without an interval   */
    gdn_span   history_checkpoint;
    gdn_span   parent;
} gdn_ssm_conv_args;

GDN_API gdn_status gdn_ssm_conv_query(const gdn_context *ctx, const gdn_ssm_conv_args *args,
                                      gdn_capability *capability);
GDN_API gdn_status gdn_ssm_conv(gdn_context *ctx, const gdn_ssm_conv_args *args, gdn_stream stream);

#endif /* GDN_SSM_CONV_H */
