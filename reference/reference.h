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

/* Conversions between element types (reference/convert.c). n is a multiple of 32 for Q8_0. */
float    gdn_ref_load(const void *row, int32_t dtype, int64_t i);
void     gdn_ref_store(void *row, int32_t dtype, const float *x, int64_t n);
float    gdn_ref_from_f16(uint16_t bits);
uint16_t gdn_ref_to_f16(float x);
float    gdn_ref_from_bf16(uint16_t bits);
uint16_t gdn_ref_to_bf16(float x);

#endif
