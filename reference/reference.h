/* The reference: scalar C that defines the bits. Read it beside docs/numerics.md.
 *
 * Each kernel is written as a function of one independent item, and nothing in an item depends on how
 * many others there are. The reference backend and the CPU backend's scalar tier both run these. */
#ifndef GDN_REFERENCE_REFERENCE_H
#define GDN_REFERENCE_REFERENCE_H

#include "core/problem.h"

/* How many items a problem has, and item 0 <= i < n: a sequence and value head of gated_delta_net, a sequence and block of
 * channels of ssm_conv, a batch of set_rows (whose rows stay together, as the later of two with one target wins). */
#define GDN_KERNEL(stem, number, title)                            \
    int64_t gdn_ref_##stem##_items(const gdn_##stem##_problem *p); \
    void    gdn_ref_##stem(const gdn_##stem##_problem *p, int64_t item);
#include "core/kernels.def"
#undef GDN_KERNEL

#endif
