/* Parameter blocks: the arguments of device kernels. All GPU backends share one layout; host code and kernels include
 * this file, in C, CUDA C++, GLSL and Metal. Members of 8 bytes come first, so that std430 and C agree. Some members
 * are for one backend only; the kernels of the others ignore them.
 *
 * Addresses are integers, 0 = absent. On Metal operands are bound buffers and every address is 0; `has` tells which
 * operands are present. */
#ifndef GDN_GPU_PARAMS_H
#define GDN_GPU_PARAMS_H

#ifdef GDN_GLSL
#define GDN_GPU_I32          int
#define GDN_GPU_U32          uint
#define GDN_GPU_STRUCT(name) struct name
#else
#ifndef __METAL_VERSION__ /* there, the language has these types */
#include <stdint.h>
#endif
#define GDN_GPU_I32 int32_t
#define GDN_GPU_U32 uint32_t
#define GDN_GPU_STRUCT(name)                                                                                           \
    typedef struct name name;                                                                                          \
    struct name
#endif
/* The address of what kernels write. In CUDA's kernels (cuda/kernel.cuh) it is a pointer: nvcc knows that a pointer
 * from a kernel's parameters points to global memory. Without that knowledge it uses slower instructions. */
#ifndef GDN_GPU_MEMORY
#define GDN_GPU_MEMORY uint64_t
#endif

/* Words that a kernel sets where a map holds a bad value; the host reads them (gpu/bad_maps.c). */
#define GDN_GPU_BAD_SEQ_START          0
#define GDN_GPU_BAD_STATE_SRC          1
#define GDN_GPU_BAD_STATE_DST          2
#define GDN_GPU_BAD_POSITION           3
#define GDN_GPU_BAD_HISTORY_SRC        4
#define GDN_GPU_BAD_HISTORY_DST        5
#define GDN_GPU_BAD_INDEX              6
#define GDN_GPU_BAD_STATE_CHECKPOINT   7
#define GDN_GPU_BAD_HISTORY_CHECKPOINT 8
#define GDN_GPU_BAD_STATE_POSITION     9
#define GDN_GPU_BAD_LOG_ROW            10
#define GDN_GPU_BAD_STATE_COMMIT       11
#define GDN_GPU_BAD_PARENT             12
#define GDN_GPU_BAD_WORDS              13

/* Entries of maps, as GDN_NONE and GDN_SKIP in gdn/base.h, which kernels do not include. */
#define GDN_GPU_NONE -1
#define GDN_GPU_SKIP -2

/* Element types, as GDN_F32 ... in gdn/base.h. */
#define GDN_GPU_F32  0
#define GDN_GPU_F16  1
#define GDN_GPU_BF16 2
#define GDN_GPU_Q8_0 3
#define GDN_GPU_I64  5

/* What g and beta hold, as GDN_G_LOG ... and GDN_BETA_PLAIN ... in gdn/gated_delta_net.h. */
#define GDN_GPU_G_LOG       0
#define GDN_GPU_G_LINEAR    1
#define GDN_GPU_G_RAW       2
#define GDN_GPU_G_RAW_A_LOG 3
#define GDN_GPU_G_BOUNDED   4
#define GDN_GPU_BETA_LOGIT  1

/* `has`: which optional operands are present. */
#define GDN_GPU_HAS_SEQ_START 1
#define GDN_GPU_HAS_SRC       2 /* state_src, history_src */
#define GDN_GPU_HAS_DST       4 /* state_dst, history_dst */
#define GDN_GPU_HAS_POSITION  8
#define GDN_GPU_HAS_BIAS      16 /* bias, dt_bias */
#define GDN_GPU_HAS_TABLE     32
/* The pool that is read is in the buffer that is written, pool_offset bytes from it. Metal reads it through the written
   buffer, because its compiler may assume that two buffers do not alias. */
#define GDN_GPU_ONE_POOL          64
#define GDN_GPU_HAS_BASE_POSITION 128
#define GDN_GPU_HAS_LOG_ROW       256
#define GDN_GPU_HAS_COMMIT        512
#define GDN_GPU_TREE              1024 /* `parent` names the token that each follows */
#define GDN_GPU_HAS_PARENT        2048
#define GDN_GPU_HAS_SSM_A         4096
#define GDN_GPU_HAS_READ_KEY      8192

GDN_GPU_STRUCT(gdn_gpu_tokens)
{
    GDN_GPU_MEMORY base;
    int64_t seq, token, head; /* byte strides; seq 0: tokens of all sequences follow each other */
};

GDN_GPU_STRUCT(gdn_gpu_pool)
{
    GDN_GPU_MEMORY base;
    int64_t row, slot, head, line;
};

GDN_GPU_STRUCT(gdn_gpu_gated_delta_net)
{
    gdn_gpu_tokens q, k, v, g, beta, result;
    gdn_gpu_tokens ssm_a, dt_bias; /* of all tokens: head only; ssm_a absent unless g_form is raw or bounded */
    gdn_gpu_tokens read_key;       /* replaces k where the state is read; may be absent */
    gdn_gpu_pool state_in, state_out;
    gdn_gpu_pool log; /* row; line: the stride of entries. Base 0 and log_entries 0: no log */
    int64_t pool_offset;
    uint64_t seq_start, state_src, state_dst, position, state_checkpoint;
    uint64_t log_row, base_position, commit, parent;
    GDN_GPU_MEMORY bad;
    GDN_GPU_I32 n_seqs, n_tokens, n_heads_k, n_heads_v;
    GDN_GPU_I32 head_dim_k, head_dim_v, head_map, n_snapshots;
    GDN_GPU_I32 slots_in, entries_in, slots_out, entries_out;
    GDN_GPU_I32 q_dtype, k_dtype, v_dtype, g_dtype, beta_dtype, result_dtype, ssm_a_dtype, dt_bias_dtype;
    GDN_GPU_I32 read_key_dtype, unused;
    GDN_GPU_I32 qk_norm; /* 1: q and k are multiplied by gdn_norm_factor(dot32, norm_add, norm_most) */
    GDN_GPU_I32 g_form, beta_form;
    GDN_GPU_I32 key_major;                          /* 1: the outer dimension of the state is the key */
    GDN_GPU_I32 blocks;                             /* thread blocks per head */
    GDN_GPU_I32 even_tokens;                        /* tokens of each sequence where seq_start is absent */
    GDN_GPU_I32 checkpoint_interval, n_checkpoints; /* 0: no checkpoints */
    GDN_GPU_I32 log_rows, log_entries;              /* 0: no log */
    GDN_GPU_I32 state_dtype, state_interval;        /* interval 0: states are F32, and are not rounded */
    GDN_GPU_I32 has;
    float lower_bound; /* of GDN_GPU_G_BOUNDED */
    float scale, norm_add, norm_most, beta_factor;
};

/* Parts of ssm_conv. Sequences of many tokens on average are split into pieces, and a second launch writes the
 * history. */
#define GDN_GPU_CONV_WHOLE   0 /* whole sequences, and their history */
#define GDN_GPU_CONV_PIECES  1 /* pieces of the token axis */
#define GDN_GPU_CONV_HISTORY 2 /* the history, after the pieces */

GDN_GPU_STRUCT(gdn_gpu_ssm_conv)
{
    gdn_gpu_tokens x, result;
    gdn_gpu_pool history_in, history_out; /* row and line used */
    int64_t pool_offset;
    uint64_t weight, bias;
    int64_t weight_channel, weight_tap;
    uint64_t seq_start, position, history_src, history_dst, history_checkpoint, parent;
    GDN_GPU_MEMORY bad;
    GDN_GPU_I32 n_seqs, n_tokens, n_channels, n_entries;
    GDN_GPU_I32 rows_in, rows_out;
    GDN_GPU_I32 kernel_width;
    GDN_GPU_I32 silu;
    GDN_GPU_I32 part;      /* GDN_GPU_CONV_*; Vulkan: a specialization constant, and both launches share the block */
    GDN_GPU_I32 blocks;    /* thread blocks across the channels */
    GDN_GPU_I32 chunk;     /* tokens of a piece */
    GDN_GPU_I32 same_pool; /* history_in and history_out are one pool at one address */
    GDN_GPU_I32 even_tokens;
    GDN_GPU_I32 wide_weight; /* 1: a channel's taps are adjacent, aligned to the bytes of four */
    GDN_GPU_I32 x_dtype, weight_dtype, bias_dtype, result_dtype, history_dtype;
    GDN_GPU_I32 checkpoint_interval, n_checkpoints; /* 0: no checkpoints */
    GDN_GPU_I32 has;
};

#define GDN_GPU_ROWS_FEW 64 /* rows that are compared with each other directly; more go through a table */

GDN_GPU_STRUCT(gdn_gpu_set_rows)
{
    uint64_t src, index;
    GDN_GPU_MEMORY dst;
    GDN_GPU_MEMORY bad;
    GDN_GPU_MEMORY table; /* the last rows by hash, 0 where rows are compared directly */
    int64_t n_columns, n_rows, n_rows_dst;
    int64_t src_stride[3], dst_stride[3], index_stride[3]; /* batch 0, batch 1, row */
    int64_t blocks;                                        /* thread blocks per row */
    int64_t table_words;                                   /* of all index batches */
    GDN_GPU_U32 table_mask;                                /* entries of one index batch - 1 */
    GDN_GPU_I32 n_batch1;
    GDN_GPU_I32 index_batch0, index_batch1;
    GDN_GPU_I32 src_dtype, dst_dtype, index_dtype;
    GDN_GPU_I32 wide; /* 1: every row of src and dst begins at a multiple of 16 bytes */
    GDN_GPU_I32 has, unused;
};

#define GDN_GPU_PROBE_RESULTS 8 /* of each triple (gpu/probe.h) */

GDN_GPU_STRUCT(gdn_gpu_probe)
{
    uint64_t operands;      /* [n][3] */
    GDN_GPU_MEMORY results; /* [n][GDN_GPU_PROBE_RESULTS] */
    GDN_GPU_U32 n, unused;
};

#endif
