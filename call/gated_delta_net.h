/* The block of gated_delta_net (types.h). Members have the names of gdn/gated_delta_net.h, which explains them;
 * `result` is `out`, a word of GLSL. */
#ifndef GDN_CALL_GATED_DELTA_NET_H
#define GDN_CALL_GATED_DELTA_NET_H

#include "call/types.h"

GDN_STRUCT(gdn_gated_delta_net_call)
{
    gdn_token_view q, k, v, g, beta, result;
    gdn_token_view ssm_a, dt_bias; /* of all tokens; absent unless gate_input uses them */
    gdn_token_view read_key;       /* replaces k where the state is read; may be absent */
    gdn_pool_view state, state_out, log;
    int64_t pool_offset; /* see GDN_HAS_ONE_POOL */
    uint64_t seq_start, state_src, state_dst, position, checkpoints_dst, log_row, base_position, commit, parent;
    GDN_MEMORY bad; /* GDN_BAD_WORDS words; a device's */
    GDN_I32T n_seqs, n_tokens, n_heads_k, n_heads_v, head_dim_k, head_dim_v;
    GDN_I32T heads_per_key; /* n_heads_v / n_heads_k */
    GDN_I32T head_map, gate, state_layout, n_snapshots;
    GDN_I32T even_tokens; /* tokens of each sequence where seq_start is absent */
    GDN_I32T qk_norm;     /* 1: q and k are multiplied by gdn_norm_factor(dot32, norm_add, norm_most) */
    GDN_I32T gate_input, beta_input;
    GDN_I32T checkpoints_interval, checkpoints_n; /* 0: no checkpoints */
    GDN_I32T rounding_interval;                   /* of 16-bit states; 0: states are F32, and are not rounded */
    GDN_I32T has;
    GDN_I32T blocks; /* a device's: thread blocks per head */
    float scale, norm_add, norm_most, beta_factor, lower_bound;
};

#endif
