/* Stubs for builds without a peer; see peer.h. */
#include <stddef.h>

#include "bench/peer.h"

void peer_add_gated_delta_net(bench_row *row, const peer_gated_delta_net *shape) { (void)row, (void)shape; }

void peer_add_ssm_conv(bench_row *row, const peer_ssm_conv *shape) { (void)row, (void)shape; }

void peer_add_set_rows(bench_row *row, const peer_set_rows *shape) { (void)row, (void)shape; }

const char *peer_name(void) { return NULL; }
