/* The shape of thread blocks, which host code and kernels have to know alike. */
#ifndef GDN_CUDA_SHAPE_H
#define GDN_CUDA_SHAPE_H

/* Threads of a block of gated_delta_net, in warps: each warp has its own columns of one head. The grid is sequences x
 * value heads x blocks of columns. */
#define GDN_CUDA_DELTA_WARPS    4
#define GDN_CUDA_PREPARED_WARPS (2 * GDN_CUDA_DELTA_WARPS) /* where half of them prepare tokens for the others */
#define GDN_CUDA_MIXED_COLUMNS  64 /* of a block of a mixed kernel that has a sequence of few tokens */
#define GDN_CUDA_FEW_TOKENS     8  /* of a sequence, or on average: decode and verification, not prefill */
#define GDN_CUDA_CONV_THREADS   128
#define GDN_CUDA_ROWS_THREADS   128
#define GDN_CUDA_ROWS_PIECE     2048 /* columns of a block, a multiple of 32 */
#define GDN_CUDA_PROBE_THREADS  128

#endif
