/* Parameters of the Metal kernels: each takes one struct as buffer 0, and the operands as the buffers behind it. Included by
 * the host code and by the kernels. */
#ifndef GDN_METAL_PARAMS_H
#define GDN_METAL_PARAMS_H

#ifndef __METAL_VERSION__ /* there, the language has these types */
#include <stdint.h>
#endif

/* Words that a kernel sets where a map holds a bad value; the host reads them (metal/queue.c). */
#define GDN_METAL_BAD_SEQ_START 0
#define GDN_METAL_BAD_STATE_SRC 1
#define GDN_METAL_BAD_STATE_DST 2
#define GDN_METAL_BAD_POSITION 3
#define GDN_METAL_BAD_HISTORY_SRC 4
#define GDN_METAL_BAD_HISTORY_DST 5
#define GDN_METAL_BAD_INDEX 6
#define GDN_METAL_BAD_WORDS 7

/* Element types, as GDN_F32 ... in gdn/gdn.h, which kernels do not include. */
#define GDN_METAL_F32 0
#define GDN_METAL_F16 1
#define GDN_METAL_BF16 2
#define GDN_METAL_Q8_0 3
#define GDN_METAL_I64 5

/* `has` of a params struct: which optional operands are there. Others are bound to a buffer that nobody reads. */
#define GDN_METAL_HAS_SEQ_START 1
#define GDN_METAL_HAS_SRC 2      /* state_src, history_src */
#define GDN_METAL_HAS_DST 4      /* state_dst, history_dst */
#define GDN_METAL_HAS_POSITION 8
#define GDN_METAL_HAS_BIAS 16
#define GDN_METAL_HAS_TABLE 32
#define GDN_METAL_ONE_POOL 64    /* the pool that is read is in the buffer that is written, pool_offset bytes from it: it is read
                                    through that, because the compiler may take it that two buffers are not the same memory */

typedef struct gdn_metal_tokens {
    int64_t seq, token, head; /* byte strides; seq 0: tokens of all sequences follow each other */
} gdn_metal_tokens;

typedef struct gdn_metal_pool {
    int64_t row, slot, head, line;
} gdn_metal_pool;

/* Threads of a threadgroup of gated_delta_net: two simdgroups, each of which has its own columns of one head. */
#define GDN_METAL_DELTA_THREADS 64

typedef struct gdn_metal_gated_delta_net {
    gdn_metal_tokens q, k, v, g, beta, result;
    gdn_metal_pool   state_in, state_out;
    int64_t pool_offset;
    int32_t n_seqs, n_tokens, n_heads_k, n_heads_v;
    int32_t head_dim_k, head_dim_v, head_map, n_snapshots;
    int32_t slots_in, entries_in, slots_out, entries_out;
    int32_t q_dtype, k_dtype, v_dtype;
    int32_t key_major;   /* 1: the state's lines are keys */
    int32_t blocks;      /* threadgroups per head */
    int32_t even_tokens; /* tokens of each sequence where seq_start is absent */
    int32_t has;
    float   scale;
} gdn_metal_gated_delta_net;

#define GDN_METAL_CONV_THREADS 64
#define GDN_METAL_CONV_WHOLE 0   /* whole sequences, and their history */
#define GDN_METAL_CONV_PIECES 1  /* pieces of the token axis */
#define GDN_METAL_CONV_HISTORY 2 /* the history behind pieces */

typedef struct gdn_metal_ssm_conv {
    gdn_metal_tokens x, result;
    gdn_metal_pool   history_in, history_out; /* row and line used */
    int64_t pool_offset;
    int64_t weight_channel, weight_tap;
    int32_t n_seqs, n_tokens, n_channels, n_columns;
    int32_t rows_in, rows_out;
    int32_t kernel_width;
    int32_t silu;
    int32_t part;       /* GDN_METAL_CONV_* */
    int32_t blocks;     /* threadgroups across the channels */
    int32_t chunk;      /* tokens of a threadgroup where the token axis is cut */
    int32_t same_pool;  /* history_in and history_out are one, at one offset */
    int32_t even_tokens;
    int32_t has;
} gdn_metal_ssm_conv;

#define GDN_METAL_ROWS_THREADS 64
#define GDN_METAL_ROWS_PIECE 1024 /* columns of a threadgroup, a multiple of 32 */
#define GDN_METAL_ROWS_FEW 64     /* rows that are compared with each other directly; more go through a table */

typedef struct gdn_metal_set_rows {
    int64_t  n_columns, n_rows, n_rows_dst;
    int64_t  src_stride[3], dst_stride[3], index_stride[3]; /* batch 0, batch 1, row */
    int64_t  blocks;          /* threadgroups per row */
    int64_t  table_words;     /* of all index batches */
    uint32_t table_mask;      /* entries of one index batch - 1 */
    int32_t  n_batch1;
    int32_t  index_batch0, index_batch1;
    int32_t  src_dtype, dst_dtype, index_dtype;
    int32_t  has;
} gdn_metal_set_rows;

#define GDN_METAL_PROBE_RESULTS 8
#define GDN_METAL_PROBE_THREADS 64

typedef struct gdn_metal_probe {
    uint32_t n, unused;
} gdn_metal_probe;

#endif
