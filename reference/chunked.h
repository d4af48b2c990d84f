/* The chunked form of gated_delta_net, scalar: see chunked.c. */
#ifndef GDN_REFERENCE_CHUNKED_H
#define GDN_REFERENCE_CHUNKED_H

#include "reference/reference.h"

/* Item 0 <= item < n_seqs * n_heads_k: a sequence and the value heads of a key head. */
void GDN_REF(chunked)(const gdn_gated_delta_net_call *p, int64_t item, void *scratch);

/* The bytes of scratch. */
uint64_t GDN_REF(chunked_bytes)(const gdn_gated_delta_net_call *p);

#endif
