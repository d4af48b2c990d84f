/* What the files of the ggml peer share: peer_ggml.c for operands in host memory, peer_ggml_device.c for devices with a
 * ggml backend. */
#ifndef GDN_BENCH_PEER_GGML_H
#define GDN_BENCH_PEER_GGML_H

#include "bench/peer.h"
#include "ggml.h"

enum { PEER_GRAPH_NODES = 16, PEER_TENSORS = 24 };
static const enum ggml_type peer_types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16,
                                             GGML_TYPE_Q8_0 }; /* indexed by GDN_F32, ... */

/* Normalised mean squared error: squared difference over squared value. */
typedef struct nmse {
    double difference, square;
} nmse;

void nmse_add(nmse *e, const float *ours, const float *theirs, int64_t n);
/* Removes the peer if its results differ: then there are no ratios. */
void nmse_finish(bench_row *row, const nmse *e, const char *what);

/* peer_ggml_device.c: peer_add_*() for rows with operands on a device. */
void peer_device_gated_delta_net(bench_row *row, const peer_gated_delta_net *shape);
void peer_device_ssm_conv(bench_row *row, const peer_ssm_conv *shape);
void peer_device_set_rows(bench_row *row, const peer_set_rows *shape);

#endif
