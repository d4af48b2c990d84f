/* What both forms of gated_delta_net read from a call's operands, element by element. */
#ifndef GDN_REFERENCE_OPERANDS_H
#define GDN_REFERENCE_OPERANDS_H

#include "call/dialect_c.h"
#include "numerics/convert.h"
#include "numerics/dot32.h"
#include "numerics/prepare.h"

enum { MAX_DIM = 256 };

/* The address of key i and value channel j in a head's state, which begins at `head`. */
static inline char *column_element(const gdn_gated_delta_net_call *p, const gdn_pool_view *view, char *head, int32_t i,
                                   int32_t j)
{
    const int64_t bytes = view->dtype == GDN_F32 ? 4 : 2;
    return p->state_layout == GDN_STATE_VK ? head + j * view->stride_line + bytes * i
                                           : head + i * view->stride_line + bytes * j;
}

/* 0, q and k, and a read key: loads a row; normalises q and k if the call has a norm */
static inline void load_key(const gdn_gated_delta_net_call *p, const gdn_token_view *view, const char *row, float *x)
{
    for (int32_t i = 0; i < p->head_dim_k; i++) x[i] = gdn_load_element(row, view->dtype, i);
    if (!p->qk_norm || view == &p->read_key) return;
    const float factor = gdn_norm_factor(gdn_dot32(x, x, p->head_dim_k), p->norm_add, p->norm_most);
    for (int32_t i = 0; i < p->head_dim_k; i++) x[i] = gdn_mul(x[i], factor);
}

/* 2: element i of head h's decay, from a token's row of g; or with gdn_decay_log() its logarithm */
static inline float gate(const gdn_gated_delta_net_call *p, float (*of)(int32_t, float, float, float, float),
                         const char *g, int32_t h, int32_t i)
{
    const float A = p->ssm_a.data ? gdn_load_element(gdn_token_at(&p->ssm_a, 0, 0, 0, h), p->ssm_a.dtype, 0) : 0;
    const float bias =
        p->dt_bias.data ? gdn_load_element(gdn_token_at(&p->dt_bias, 0, 0, 0, h), p->dt_bias.dtype, i) : 0;
    return of(p->gate_input, gdn_load_element(g, p->g.dtype, i), gdn_gate_rate(p->gate_input, A), bias, p->lower_bound);
}

/* 0, beta: the factor of the delta */
static inline float delta_factor(const gdn_gated_delta_net_call *p, const char *beta)
{
    const float x = gdn_load_element(beta, p->beta.dtype, 0);
    return gdn_mul(p->beta_factor, p->beta_input == GDN_BETA_LOGIT ? gdn_sigmoid(x) : x);
}

#endif
