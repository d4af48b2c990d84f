/* The reference: scalar C that defines the bits. Read it beside docs/numerics.md.
 *
 * Each kernel is written as a function of one independent item, and nothing in an item depends on how
 * many others there are. The reference backend and the CPU backend's scalar tier both run these. */
#ifndef GDN_REFERENCE_REFERENCE_H
#define GDN_REFERENCE_REFERENCE_H

#include "core/problem.h"

/* All tokens of sequence s for value head h. */
void gdn_ref_gated_delta_net(const gdn_gated_delta_net_problem *p, int32_t s, int32_t h);

/* All tokens of sequence s for channels [first, last). */
void gdn_ref_ssm_conv(const gdn_ssm_conv_problem *p, int32_t s, int32_t first, int32_t last);

/* All rows of batch (b, c). */
void gdn_ref_set_rows(const gdn_set_rows_problem *p, int64_t b, int64_t c);

#endif
