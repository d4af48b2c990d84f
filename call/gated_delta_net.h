/* The block of gated_delta_net (types.h). Members have the names of gdn/gated_delta_net.h, which explains them;
 * `result` is `out`, a word of GLSL. ssm_a and dt_bias are absent unless gate_input uses them; read_key replaces k
 * where the state is read. */
#ifndef GDN_CALL_GATED_DELTA_NET_H
#define GDN_CALL_GATED_DELTA_NET_H

#include "call/types.h"

/* The operands, a line each, in the order of the block, of core's regions and of Metal's buffers.
 *   name           the block's member
 *   part, member   the public name, such as log.entries; args is the call itself
 *   access         READ or WRITTEN
 *   bit            of `has`; 0 for what each call has, and for pools
 *   size           of TOKENS [n_tokens][heads][inner], and of HEADS [heads][inner], which all tokens share: (heads,
 * inner). gates is 1, or head_dim_k for GATE_CHANNEL. POOL: axes with strides. MAP: entries */
#define GDN_DELTA_OPERANDS(TOKENS, HEADS, POOL, MAP)                                                                   \
    TOKENS(q, args, q, READ, 0, (n_heads_k, head_dim_k))                                                               \
    TOKENS(k, args, k, READ, 0, (n_heads_k, head_dim_k))                                                               \
    TOKENS(v, args, v, READ, 0, (n_heads_v, head_dim_v))                                                               \
    TOKENS(g, args, g, READ, 0, (n_heads_v, gates))                                                                    \
    TOKENS(beta, args, beta, READ, 0, (n_heads_v, 1))                                                                  \
    HEADS(ssm_a, inputs, ssm_a, READ, GDN_HAS_SSM_A, (n_heads_v, 1))                                                   \
    HEADS(dt_bias, inputs, dt_bias, READ, GDN_HAS_BIAS, (n_heads_v, gates))                                            \
    TOKENS(result, args, out, WRITTEN, 0, (n_heads_v, head_dim_v))                                                     \
    POOL(state, args, state, READ, 0, 4)                                                                               \
    POOL(state_out, args, state_out, WRITTEN, 0, 4)                                                                    \
    MAP(seq_start, args, seq_start, READ, GDN_HAS_SEQ_START, n_seqs + 1)                                               \
    MAP(state_src, args, state_src, READ, GDN_HAS_SRC, n_seqs)                                                         \
    MAP(state_dst, args, state_dst, READ, GDN_HAS_DST, n_seqs *n_snapshots)                                            \
    MAP(position, args, position, READ, GDN_HAS_POSITION, n_seqs)                                                      \
    MAP(checkpoints_dst, checkpoints, dst, READ, GDN_HAS_CHECKPOINTS, n_seqs *n_checkpoints)                           \
    TOKENS(read_key, inputs, read_key, READ, GDN_HAS_READ_KEY, (n_heads_k, head_dim_k))                                \
    POOL(log, log, entries, WRITTEN, 0, 2)                                                                             \
    MAP(log_row, log, row, READ, GDN_HAS_LOG_ROW, n_seqs)                                                              \
    MAP(base_position, log, base_position, READ, GDN_HAS_BASE_POSITION, n_seqs)                                        \
    MAP(commit, log, commit, READ, GDN_HAS_COMMIT, n_seqs)                                                             \
    MAP(parent, tree, parent, READ, GDN_HAS_PARENT, n_tokens)

GDN_STRUCT(gdn_gated_delta_net_call)
{
    GDN_DELTA_OPERANDS(GDN_TOKEN_VIEW, GDN_TOKEN_VIEW, GDN_POOL_VIEW, GDN_ADDRESS)
    int64_t pool_offset; /* see GDN_HAS_ONE_POOL */
    GDN_MEMORY bad;      /* GDN_BAD_WORDS words; a device's */
    GDN_I32T n_seqs, n_tokens, n_heads_k, n_heads_v, head_dim_k, head_dim_v;
    GDN_I32T heads_per_key; /* n_heads_v / n_heads_k */
    GDN_I32T head_map, gate, state_layout, n_snapshots;
    GDN_I32T even_tokens; /* tokens of each sequence where seq_start is absent */
    GDN_I32T qk_norm;     /* 1: q and k are multiplied by gdn_norm_factor(dot32, norm_add, norm_most) */
    GDN_I32T gate_input, beta_input;
    GDN_I32T checkpoints_interval, checkpoints_n; /* 0: no checkpoints */
    GDN_I32T digits;                              /* of the chunked form; 0: the recurrence */
    /* States exist at multiples of this: of 16 bits, where they are rounded; of the chunked form. 0: after each token
     */
    GDN_I32T rounding_interval;
    GDN_I32T has;
    GDN_I32T blocks; /* a device's: thread blocks per head */
    float scale, norm_add, norm_most, beta_factor, lower_bound;
};

#ifndef GDN_GLSL
#define GDN_REGION(name, part, member, access, bit, size) GDN_DELTA_##name,
enum { GDN_DELTA_OPERANDS(GDN_REGION, GDN_REGION, GDN_REGION, GDN_REGION) GDN_DELTA_REGIONS };
#undef GDN_REGION
#endif

#endif
