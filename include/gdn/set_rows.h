/* Scatter rows with conversion. Section 10 of the manual that begins in gdn.h, which is what programs include. */
#ifndef GDN_SET_ROWS_H
#define GDN_SET_ROWS_H

#include "gdn/base.h"

/* ---- 10  set_rows --------------------------------------------------------------------------------- */

/*
 * Scatter rows into a tensor and convert them. For batches b < n_batch[0] and c < n_batch[1]:
 *
 *     r = index[b % index_batch[0]][c % index_batch[1]][i];  dst[b][c][r] = convert(src[b][c][i])
 *
 * Operands:
 *   src    [n_batch[0]][n_batch[1]][n_rows][n_columns]       F32 F16 BF16       stride: batch 0, batch 1, row
 *   dst    [n_batch[0]][n_batch[1]][n_rows_dst][n_columns]   F32 F16 BF16 Q8_0  stride: batch 0, batch 1, row
 *   index  [index_batch[0]][index_batch[1]][n_rows]          I32 I64            stride: batch 0, batch 1, row
 *          0 <= index < n_rows_dst, or GDN_NONE: that row is not written. If two rows have the same
 *          target, the later one wins, on every backend.
 * Conversions round to nearest, ties to even; F16 overflow gives infinity. Q8_0 as docs/reference/numerics.md says.
 *
 * Limits: n_columns 1..2^40, a multiple of 32 for Q8_0; n_rows and n_rows_dst up to 2^40; n_batch[k] 1..2^30, and
 *   index_batch[k] divides it.
 * Aliasing: dst overlaps neither src nor index.
 * Errors: as gated_delta_net. On the CPU and the reference an index out of range is an error before
 *   anything is written. On a device that row is skipped and BAD_MAP is reported.
 * Workspace, thread-safety: as gated_delta_net.
 * Source: ggml's SET_ROWS.
 */
typedef struct gdn_set_rows_args {
    uint32_t size;
    uint32_t flags; /* 0: no flags are defined                                            */
    int64_t n_columns, n_rows, n_rows_dst;
    int64_t n_batch[2];     /* 1 by GDN_INIT                                                      */
    int64_t index_batch[2]; /* 1 by GDN_INIT                                                      */
    gdn_tensor src, dst, index;
    gdn_span workspace;
} gdn_set_rows_args;

#define GDN_DEFAULTS_gdn_set_rows_args , .n_batch = { 1, 1 }, .index_batch = { 1, 1 }
#ifdef __cplusplus
extern "C++" {
template <> inline void gdn_set_defaults(gdn_set_rows_args &args)
{
    args.n_batch[0] = args.n_batch[1] = args.index_batch[0] = args.index_batch[1] = 1;
}
}
#endif
GDN_API gdn_status gdn_set_rows_query(const gdn_context *ctx, const gdn_set_rows_args *args,
                                      gdn_capability *capability);
GDN_API gdn_status gdn_set_rows(gdn_context *ctx, const gdn_set_rows_args *args, gdn_stream stream);

#endif /* GDN_SET_ROWS_H */
