/* The block of ssm_conv (types.h). Members have the names of gdn/ssm_conv.h, which explains them; `result` is `out`, a
 * word of GLSL. */
#ifndef GDN_CALL_SSM_CONV_H
#define GDN_CALL_SSM_CONV_H

#include "call/types.h"

/* The operands: see call/gated_delta_net.h. TOKENS are [n_tokens][n_channels]; WEIGHTS, which all tokens share, have as
 * many axes with strides as `size` says. */
#define GDN_CONV_OPERANDS(TOKENS, WEIGHTS, POOL, MAP)                                                                  \
    TOKENS(x, args, x, READ, 0, n_channels)                                                                            \
    WEIGHTS(weight, args, weight, READ, 0, 2)                                                                          \
    WEIGHTS(bias, args, bias, READ, GDN_HAS_BIAS, 0)                                                                   \
    TOKENS(result, args, out, WRITTEN, 0, n_channels)                                                                  \
    POOL(history, args, history, READ, 0, 2)                                                                           \
    POOL(history_out, args, history_out, WRITTEN, 0, 2)                                                                \
    MAP(seq_start, args, seq_start, READ, GDN_HAS_SEQ_START, n_seqs + 1)                                               \
    MAP(position, args, position, READ, GDN_HAS_POSITION, n_seqs)                                                      \
    MAP(history_src, args, history_src, READ, GDN_HAS_SRC, n_seqs)                                                     \
    MAP(history_dst, args, history_dst, READ, GDN_HAS_DST, n_seqs)                                                     \
    MAP(checkpoints_dst, checkpoints, dst, READ, GDN_HAS_CHECKPOINTS, n_seqs *n_checkpoints)                           \
    MAP(parent, tree, parent, READ, GDN_HAS_PARENT, n_tokens)

/* How a device splits a call. Sequences of many tokens on average are split into pieces, and a second launch writes the
 * history. */
#define GDN_CONV_WHOLE   0 /* whole sequences, and their history */
#define GDN_CONV_PIECES  1 /* pieces of the token axis */
#define GDN_CONV_HISTORY 2 /* the history, after the pieces */

GDN_STRUCT(gdn_ssm_conv_call)
{
    GDN_CONV_OPERANDS(GDN_TOKEN_VIEW, GDN_ADDRESS, GDN_POOL_VIEW, GDN_ADDRESS)
    int64_t pool_offset;
    int64_t weight_stride_channel, weight_stride_tap;
    GDN_MEMORY bad; /* GDN_BAD_WORDS words; a device's */
    GDN_I32T n_seqs, n_tokens, n_channels, kernel_width;
    GDN_I32T silu;        /* 1: out goes through silu */
    GDN_I32T even_tokens; /* tokens of each sequence where seq_start is absent */
    GDN_I32T weight_dtype, bias_dtype;
    GDN_I32T checkpoints_interval, checkpoints_n; /* 0: no checkpoints */
    GDN_I32T same_pool;                           /* 1: history and history_out are one pool */
    GDN_I32T has;
    /* A device's: */
    GDN_I32T part;        /* GDN_CONV_*; Vulkan: a specialization constant, and both launches share the block */
    GDN_I32T blocks;      /* thread blocks across the channels */
    GDN_I32T chunk;       /* tokens of a piece */
    GDN_I32T wide_weight; /* 1: a channel's taps are adjacent, aligned to the bytes of four */
};

#ifndef GDN_GLSL
#define GDN_REGION(name, part, member, access, bit, size) GDN_CONV_##name,
enum { GDN_CONV_OPERANDS(GDN_REGION, GDN_REGION, GDN_REGION, GDN_REGION) GDN_CONV_REGIONS };
#undef GDN_REGION
#endif

#endif
