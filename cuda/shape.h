/* The shape of thread blocks, shared by host code and kernels. */
#ifndef GDN_CUDA_SHAPE_H
#define GDN_CUDA_SHAPE_H

/* Warps of a thread block of gated_delta_net: each warp has its own value channels of one head. The grid is sequences x
 * value heads x blocks of value channels. */
#define GDN_CUDA_DELTA_WARPS       4
#define GDN_CUDA_DELTA_VALUES(C)   (4 * GDN_CUDA_DELTA_WARPS * (C)) /* of a thread block; C: of eight lanes */
#define GDN_CUDA_TILES_WARPS       (2 * GDN_CUDA_DELTA_WARPS)       /* with producer warps, which are the second half */
#define GDN_CUDA_TILES_ROWS_VALUES 64 /* value channels of such a block for a sequence of few tokens */
#define GDN_CUDA_FEW_TOKENS        8  /* of a sequence, or on average: decode and verification, not prefill */
#define GDN_CUDA_CONV_THREADS      128
#define GDN_CUDA_ROWS_THREADS      128
#define GDN_CUDA_ROWS_PIECE        2048 /* columns of a block, a multiple of 32 */
#define GDN_CUDA_PROBE_THREADS     128

#endif
