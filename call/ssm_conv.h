/* The block of ssm_conv (types.h). Members have the names of gdn/ssm_conv.h, which explains them; `result` is `out`, a
 * word of GLSL. */
#ifndef GDN_CALL_SSM_CONV_H
#define GDN_CALL_SSM_CONV_H

#include "call/types.h"

/* How a device splits a call. Sequences of many tokens on average are split into pieces, and a second launch writes the
 * history. */
#define GDN_CONV_WHOLE   0 /* whole sequences, and their history */
#define GDN_CONV_PIECES  1 /* pieces of the token axis */
#define GDN_CONV_HISTORY 2 /* the history, after the pieces */

GDN_STRUCT(gdn_ssm_conv_call)
{
    gdn_token_view x, result;
    gdn_pool_view history, history_out;
    int64_t pool_offset;
    uint64_t weight, bias;
    int64_t weight_stride_channel, weight_stride_tap;
    uint64_t seq_start, position, history_src, history_dst, checkpoints_dst, parent;
    GDN_MEMORY bad; /* GDN_BAD_WORDS words; a device's */
    GDN_I32T n_seqs, n_tokens, n_channels, kernel_width;
    GDN_I32T silu;        /* 1: out goes through silu */
    GDN_I32T even_tokens; /* tokens of each sequence where seq_start is absent */
    GDN_I32T weight_dtype, bias_dtype;
    GDN_I32T checkpoints_interval, checkpoints_n; /* 0: no checkpoints */
    GDN_I32T has;
    /* A device's: */
    GDN_I32T part;        /* GDN_CONV_*; Vulkan: a specialization constant, and both launches share the block */
    GDN_I32T blocks;      /* thread blocks across the channels */
    GDN_I32T chunk;       /* tokens of a piece */
    GDN_I32T same_pool;   /* history and history_out are one pool at one address */
    GDN_I32T wide_weight; /* 1: a channel's taps are adjacent, aligned to the bytes of four */
};

#endif
