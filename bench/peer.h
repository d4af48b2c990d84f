/* Peers: the same computation by another library, measured in the same repetitions.
 *
 * ggml is compiled in if GDN_BENCH_GGML is defined (CMake: GDN_GGML_DIR). It gets the same data in as many copies, and
 * the same number of threads; its outputs rotate like ours. Two times are measured:
 *   operator   the operator alone
 *   with copy  the operator and what a model's graph must add to match our call. For gated_delta_net this is the copy
 *              of new states into the cache. For the convolution it is the transposing concatenation with the history
 *              before it, and the copy of the new history after it. */
#ifndef GDN_BENCH_PEER_H
#define GDN_BENCH_PEER_H

#include "bench/bench.h"

/* Numbers of the row's operands, and sizes. Layouts are those of our calls. */
typedef struct peer_gated_delta_net {
    int q, k, v, g, beta, out, state;
    int tokens, seqs, slots, heads_k, heads_v, head_dim, gate_channels; /* gate_channels: 1, or head_dim */
    int compare; /* 1: the layouts agree, so results are compared */
} peer_gated_delta_net;

typedef struct peer_ssm_conv {
    int x, weight, out, history;
    int tokens, seqs, channels, kernel_width;
    int32_t position; /* of the first token; the history's ring has kernel_width - 1 entries */
} peer_ssm_conv;

typedef struct peer_set_rows {
    int src, dst, index;
    int rows, rows_dst, columns;
    int32_t dtype; /* of dst, GDN_F32, ... */
} peer_set_rows;

/* Set row->peer. Call after the row is complete and filled. No-op without a peer. */
void peer_add_gated_delta_net(bench_row *row, const peer_gated_delta_net *shape);
void peer_add_ssm_conv(bench_row *row, const peer_ssm_conv *shape);
void peer_add_set_rows(bench_row *row, const peer_set_rows *shape);

/* "ggml 0.21.0"; NULL: no peer is compiled in. */
const char *peer_name(void);

#endif
