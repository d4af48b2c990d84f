/* Parameters of the kernels: each takes one struct by value. Included by the host code and by the kernels. Addresses
 * are integers, 0 = absent; but those that kernels write through are pointers there, because nvcc knows that a pointer
 * from a kernel's parameters is one to global memory, and takes slower instructions where it does not know. */
#ifndef GDN_CUDA_PARAMS_H
#define GDN_CUDA_PARAMS_H

#include <stdint.h>

#ifdef __cplusplus
typedef char *gdn_cuda_memory;
#else
typedef uint64_t gdn_cuda_memory;
#endif

/* Words that a kernel sets where a map holds a bad value; the host reads them (cuda/queue.c). */
#define GDN_CUDA_BAD_SEQ_START 0
#define GDN_CUDA_BAD_STATE_SRC 1
#define GDN_CUDA_BAD_STATE_DST 2
#define GDN_CUDA_BAD_POSITION 3
#define GDN_CUDA_BAD_HISTORY_SRC 4
#define GDN_CUDA_BAD_HISTORY_DST 5
#define GDN_CUDA_BAD_INDEX 6
#define GDN_CUDA_BAD_WORDS 7

/* Element types, as GDN_F32 ... in gdn/gdn.h, which kernels do not include. */
#define GDN_CUDA_F32 0
#define GDN_CUDA_F16 1
#define GDN_CUDA_BF16 2
#define GDN_CUDA_Q8_0 3
#define GDN_CUDA_I64 5

typedef struct gdn_cuda_tokens {
    gdn_cuda_memory base;
    int64_t  seq, token, head; /* byte strides; seq 0: tokens of all sequences follow each other */
} gdn_cuda_tokens;

typedef struct gdn_cuda_pool {
    gdn_cuda_memory base;
    int64_t  row, slot, head, line;
} gdn_cuda_pool;

/* Threads of a block of gated_delta_net, in warps: each warp has its own columns of one head. The grid is sequences x value
 * heads x blocks of columns. */
#define GDN_CUDA_DELTA_WARPS 4

typedef struct gdn_cuda_gated_delta_net {
    gdn_cuda_tokens q, k, v, g, beta, result;
    gdn_cuda_pool   state_in, state_out;
    uint64_t seq_start, state_src, state_dst;
    gdn_cuda_memory bad;
    int32_t  n_seqs, n_tokens, n_heads_k, n_heads_v;
    int32_t  head_dim_k, head_dim_v, head_map, n_snapshots;
    int32_t  slots_in, entries_in, slots_out, entries_out;
    int32_t  q_dtype, k_dtype, v_dtype;
    int32_t  key_major;   /* 1: the state's lines are keys */
    int32_t  even_tokens; /* tokens of each sequence where seq_start is absent */
    float    scale;
} gdn_cuda_gated_delta_net;

#define GDN_CUDA_CONV_THREADS 128
#define GDN_CUDA_CONV_WHOLE 0   /* whole sequences, and their history */
#define GDN_CUDA_CONV_PIECES 1  /* pieces of the token axis */
#define GDN_CUDA_CONV_HISTORY 2 /* the history behind pieces */

typedef struct gdn_cuda_ssm_conv {
    gdn_cuda_tokens x, result;
    gdn_cuda_pool   history_in, history_out; /* row and line used */
    uint64_t weight, bias;
    int64_t  weight_channel, weight_tap;
    uint64_t seq_start, position, history_src, history_dst;
    gdn_cuda_memory bad;
    int32_t  n_seqs, n_tokens, n_channels, n_columns;
    int32_t  rows_in, rows_out;
    int32_t  kernel_width;
    int32_t  silu;
    int32_t  part;       /* GDN_CUDA_CONV_* */
    int32_t  blocks;     /* thread blocks across the channels */
    int32_t  chunk;      /* tokens of a block where the token axis is cut */
    int32_t  same_pool;  /* history_in and history_out are one */
    int32_t  even_tokens;
    int32_t  wide_weight; /* 1: a channel's taps lie side by side, at a multiple of 16 bytes */
} gdn_cuda_ssm_conv;

#define GDN_CUDA_ROWS_THREADS 128
#define GDN_CUDA_ROWS_PIECE 2048 /* columns of a block, a multiple of 32 */
#define GDN_CUDA_ROWS_FEW 64     /* rows that are compared with each other directly; more go through a table */

typedef struct gdn_cuda_set_rows {
    uint64_t src, index;
    gdn_cuda_memory dst, bad;
    gdn_cuda_memory table;           /* winners by hash, 0 where rows are compared directly */
    int64_t  n_columns, n_rows, n_rows_dst;
    int64_t  src_stride[3], dst_stride[3], index_stride[3]; /* batch 0, batch 1, row */
    int64_t  blocks;          /* thread blocks per row */
    int64_t  table_words;     /* of all index batches */
    uint32_t table_mask;      /* entries of one index batch - 1 */
    int32_t  n_batch1;
    int32_t  index_batch0, index_batch1;
    int32_t  src_dtype, dst_dtype, index_dtype;
    int32_t  wide;            /* 1: every row of src and dst begins at a multiple of 16 bytes */
} gdn_cuda_set_rows;

#define GDN_CUDA_PROBE_RESULTS 8
#define GDN_CUDA_PROBE_THREADS 128

typedef struct gdn_cuda_probe {
    uint64_t operands; /* [n][3] */
    gdn_cuda_memory results; /* [n][GDN_CUDA_PROBE_RESULTS] */
    uint32_t n, unused;
} gdn_cuda_probe;

#endif
