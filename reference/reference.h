/* The reference: scalar C that defines the bits. docs/reference/numerics.md describes them.
 *
 * Each kernel is a function of one independent item; nothing in an item depends on the number of others. The reference
 * backend and the CPU backend's scalar implementation both run these functions.
 *
 * The same source is compiled once for each level of the contract (numerics/arithmetic.h, flush.c). On x86-64 each
 * level is compiled twice: for any processor, where fmaf is a function of the C library, and for processors with the
 * instruction (fma.c, flush_fma.c). The latter is several times faster. `gdn check` spends nearly all its time here.
 * Both round once, so the bits are the same (tests/unit/test_reference.c). At GDN_EXACT_FTZ the reference flushes in
 * software, in the processor's mode that keeps subnormals. */
#ifndef GDN_REFERENCE_REFERENCE_H
#define GDN_REFERENCE_REFERENCE_H

#include "core/problem.h"

#ifndef GDN_REF
#define GDN_REF(name) gdn_ref_##name##_any
#endif

/* The number of items of a problem, and item 0 <= i < n. An item is a sequence and value head of gated_delta_net, a
 * sequence and block of channels of ssm_conv, or a batch of set_rows. The rows of a batch stay together, because the
 * later of two with one target wins. Functions without a suffix choose the compiled version; those with _flush are for
 * GDN_EXACT_FTZ. */
int64_t gdn_ref_gated_delta_net_items(const gdn_gated_delta_net_problem *p);
int64_t gdn_ref_gated_delta_net_items_any(const gdn_gated_delta_net_problem *p);
int64_t gdn_ref_gated_delta_net_items_fma(const gdn_gated_delta_net_problem *p);
int64_t gdn_ref_gated_delta_net_items_flush(const gdn_gated_delta_net_problem *p);
int64_t gdn_ref_gated_delta_net_items_flush_any(const gdn_gated_delta_net_problem *p);
int64_t gdn_ref_gated_delta_net_items_flush_fma(const gdn_gated_delta_net_problem *p);
void gdn_ref_gated_delta_net(const gdn_gated_delta_net_problem *p, int64_t item);
void gdn_ref_gated_delta_net_any(const gdn_gated_delta_net_problem *p, int64_t item);
void gdn_ref_gated_delta_net_fma(const gdn_gated_delta_net_problem *p, int64_t item);
void gdn_ref_gated_delta_net_flush(const gdn_gated_delta_net_problem *p, int64_t item);
void gdn_ref_gated_delta_net_flush_any(const gdn_gated_delta_net_problem *p, int64_t item);
void gdn_ref_gated_delta_net_flush_fma(const gdn_gated_delta_net_problem *p, int64_t item);

int64_t gdn_ref_ssm_conv_items(const gdn_ssm_conv_problem *p);
int64_t gdn_ref_ssm_conv_items_any(const gdn_ssm_conv_problem *p);
int64_t gdn_ref_ssm_conv_items_fma(const gdn_ssm_conv_problem *p);
int64_t gdn_ref_ssm_conv_items_flush(const gdn_ssm_conv_problem *p);
int64_t gdn_ref_ssm_conv_items_flush_any(const gdn_ssm_conv_problem *p);
int64_t gdn_ref_ssm_conv_items_flush_fma(const gdn_ssm_conv_problem *p);
void gdn_ref_ssm_conv(const gdn_ssm_conv_problem *p, int64_t item);
void gdn_ref_ssm_conv_any(const gdn_ssm_conv_problem *p, int64_t item);
void gdn_ref_ssm_conv_fma(const gdn_ssm_conv_problem *p, int64_t item);
void gdn_ref_ssm_conv_flush(const gdn_ssm_conv_problem *p, int64_t item);
void gdn_ref_ssm_conv_flush_any(const gdn_ssm_conv_problem *p, int64_t item);
void gdn_ref_ssm_conv_flush_fma(const gdn_ssm_conv_problem *p, int64_t item);

int64_t gdn_ref_set_rows_items(const gdn_set_rows_problem *p);
int64_t gdn_ref_set_rows_items_any(const gdn_set_rows_problem *p);
int64_t gdn_ref_set_rows_items_fma(const gdn_set_rows_problem *p);
int64_t gdn_ref_set_rows_items_flush(const gdn_set_rows_problem *p);
int64_t gdn_ref_set_rows_items_flush_any(const gdn_set_rows_problem *p);
int64_t gdn_ref_set_rows_items_flush_fma(const gdn_set_rows_problem *p);
void gdn_ref_set_rows(const gdn_set_rows_problem *p, int64_t item);
void gdn_ref_set_rows_any(const gdn_set_rows_problem *p, int64_t item);
void gdn_ref_set_rows_fma(const gdn_set_rows_problem *p, int64_t item);
void gdn_ref_set_rows_flush(const gdn_set_rows_problem *p, int64_t item);
void gdn_ref_set_rows_flush_any(const gdn_set_rows_problem *p, int64_t item);
void gdn_ref_set_rows_flush_fma(const gdn_set_rows_problem *p, int64_t item);

#endif
