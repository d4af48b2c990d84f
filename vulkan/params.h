/* Parameter blocks: what a dispatch reads besides its operands. Included by the host code and by the shaders,
 * so that there is one layout; members of 8 bytes come first, which makes std430 and C agree.
 *
 * A block lies at the start of the call's workspace, because push constants are only sure to have 128 bytes. */
#ifndef GDN_VULKAN_PARAMS_H
#define GDN_VULKAN_PARAMS_H

#ifdef GDN_GLSL
#define PARAM_U64 uint64_t
#define PARAM_I64 int64_t
#define PARAM_I32 int
#define PARAM_U32 uint
#define PARAM_STRUCT(name) struct name
#else
#include <stdint.h>
#define PARAM_U64 uint64_t
#define PARAM_I64 int64_t
#define PARAM_I32 int32_t
#define PARAM_U32 uint32_t
#define PARAM_STRUCT(name) typedef struct name name; struct name
#endif

/* Push constants of all kernels. */
PARAM_STRUCT(gdn_vk_push)
{
    PARAM_U64 params;      /* address of the parameter block */
    PARAM_U32 n_items;     /* workgroups that have work; the grid is two-dimensional and may have more */
    PARAM_U32 grid_width;  /* workgroups in x */
};

/* Words that a shader sets where a map holds a bad value; the host reads them (vulkan/queue.c). */
#define GDN_VK_BAD_SEQ_START 0
#define GDN_VK_BAD_STATE_SRC 1
#define GDN_VK_BAD_STATE_DST 2
#define GDN_VK_BAD_POSITION 3
#define GDN_VK_BAD_HISTORY_SRC 4
#define GDN_VK_BAD_HISTORY_DST 5
#define GDN_VK_BAD_INDEX 6
#define GDN_VK_BAD_WORDS 7

PARAM_STRUCT(gdn_vk_tokens)
{
    PARAM_U64 base;
    PARAM_I64 seq, token, head; /* byte strides; seq 0: tokens of all sequences follow each other */
};

PARAM_STRUCT(gdn_vk_pool)
{
    PARAM_U64 base;
    PARAM_I64 row, slot, head, line;
};

PARAM_STRUCT(gdn_vk_gated_delta_net)
{
    gdn_vk_tokens q, k, v, g, beta, result;
    gdn_vk_pool   state_in, state_out;
    PARAM_U64 seq_start, state_src, state_dst; /* 0 = absent */
    PARAM_U64 bad;
    PARAM_I32 n_seqs, n_tokens, n_heads_k, n_heads_v;
    PARAM_I32 head_dim_k, head_dim_v, head_map, n_snapshots;
    PARAM_I32 slots_in, entries_in, slots_out, entries_out;
    PARAM_I32 q_dtype, k_dtype, v_dtype;
    PARAM_I32 blocks; /* workgroups per head */
    float   scale;
    PARAM_I32 even_tokens; /* tokens of each sequence where seq_start is absent */
};

PARAM_STRUCT(gdn_vk_ssm_conv)
{
    gdn_vk_tokens x, result;
    gdn_vk_pool   history_in, history_out; /* row and line used */
    PARAM_U64 weight, bias;
    PARAM_I64 weight_channel, weight_tap;
    PARAM_U64 seq_start, position, history_src, history_dst;
    PARAM_U64 bad;
    PARAM_I32 n_seqs, n_tokens, n_channels, n_columns;
    PARAM_I32 rows_in, rows_out;
    PARAM_I32 blocks;     /* workgroups across the channels */
    PARAM_I32 chunk;      /* tokens of a workgroup where the token axis is cut */
    PARAM_I32 same_pool;  /* history_in and history_out are one */
    PARAM_I32 even_tokens;
};

PARAM_STRUCT(gdn_vk_set_rows)
{
    PARAM_U64 src, dst, index, bad;
    PARAM_U64 table;           /* winners by hash, 0 where rows are compared directly */
    PARAM_I64 n_columns, n_rows, n_rows_dst;
    PARAM_I64 src_stride[3], dst_stride[3], index_stride[3]; /* batch 0, batch 1, row */
    PARAM_I64 blocks;          /* workgroups per row */
    PARAM_U32 table_mask;      /* entries of one index batch - 1 */
    PARAM_I32 n_batch1;
    PARAM_I32 index_batch0, index_batch1;
    PARAM_I32 src_dtype, dst_dtype, index_dtype;
    PARAM_I32 unused;
};

/* vulkan/probe.c */
#define GDN_VK_PROBE_RESULTS 8
PARAM_STRUCT(gdn_vk_probe_params)
{
    PARAM_U64 operands; /* [n][3] */
    PARAM_U64 results;  /* [n][GDN_VK_PROBE_RESULTS] */
    PARAM_U32 n, unused;
};

#endif
