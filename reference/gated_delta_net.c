/* gated_delta_net, scalar: the specification. One value column of the state at a time, kept in `S` over all
 * tokens, which is also what the GPU backends do; columns do not depend on each other.
 *
 * Steps, numbered as in docs/kernels/gated_delta_net.md and in every other version:
 *   1 load state   2 decay   3 read kv   4 delta   5 update   6 output   7 snapshot */
#include "reference/reference.h"

#include <math.h>
#include <string.h>

#include "numerics/convert.h"
#include "numerics/dot32.h"

enum { MAX_DIM = 256 };

/* Column j of a head's state, `head` being its first byte. */
static char *column_element(const gdn_gated_delta_net_problem *p, const gdn_state_view *view, char *head, int32_t i, int32_t j)
{
    return p->state_layout == GDN_STATE_VK ? head + j * view->stride_line + 4 * (int64_t)i
                                           : head + i * view->stride_line + 4 * (int64_t)j;
}

static void load_row(const char *row, int32_t dtype, int32_t n, float *x)
{
    for (int32_t i = 0; i < n; i++)
        x[i] = gdn_load_element(row, dtype, i);
}

static void column(const gdn_gated_delta_net_problem *p, int32_t s, int32_t h, int32_t j)
{
    const int32_t first = gdn_seq_first(&p->seq_start, p->n_seqs, p->n_tokens, s);
    const int32_t T     = gdn_seq_first(&p->seq_start, p->n_seqs, p->n_tokens, s + 1) - first;
    const int32_t src   = gdn_state_src_at(p, s);
    const int32_t n     = p->head_dim_k;
    float S[MAX_DIM], q[MAX_DIM], k[MAX_DIM], a[MAX_DIM], ak[MAX_DIM];

    /* 1: load state */
    for (int32_t i = 0; i < n; i++) {
        S[i] = 0;
        if (src >= 0)
            memcpy(&S[i], column_element(p, &p->state_in, gdn_state_at(&p->state_in, src, h), i, j), 4);
    }

    for (int32_t t = 0; t < T; t++) {
        const int32_t kappa = gdn_key_head(p, h);
        load_row(gdn_token_at(&p->q, s, first, t, kappa), p->q.dtype, n, q);
        load_row(gdn_token_at(&p->k, s, first, t, kappa), p->k.dtype, n, k);
        const float v    = gdn_load_element(gdn_token_at(&p->v, s, first, t, h), p->v.dtype, j);
        const float beta = gdn_load_element(gdn_token_at(&p->beta, s, first, t, h), GDN_F32, 0);

        /* 2: decay, per head or per key channel */
        for (int32_t i = 0; i < n; i++)
            a[i] = gdn_expf(gdn_load_element(gdn_token_at(&p->g, s, first, t, h), GDN_F32, p->gate == GDN_GATE_CHANNEL ? i : 0));

        /* 3: read kv */
        float kv;
        if (p->gate == GDN_GATE_CHANNEL) {
            for (int32_t i = 0; i < n; i++)
                ak[i] = a[i] * k[i];
            kv = gdn_dot32(S, ak, n);
        } else {
            kv = a[0] * gdn_dot32(S, k, n);
        }

        /* 4: delta */
        const float d = beta * (v - kv);

        /* 5: update */
        for (int32_t i = 0; i < n; i++)
            S[i] = fmaf(k[i], d, a[i] * S[i]);

        /* 6: output */
        const float o = p->scale * gdn_dot32(S, q, n);
        memcpy(gdn_token_at(&p->out, s, first, t, h) + 4 * (int64_t)j, &o, 4);

        /* 7: snapshot, r tokens before the newest */
        const int32_t r   = T - 1 - t;
        const int32_t dst = r < p->n_snapshots ? gdn_state_dst_at(p, s, r) : GDN_NONE;
        if (dst >= 0)
            for (int32_t i = 0; i < n; i++)
                memcpy(column_element(p, &p->state_out, gdn_state_at(&p->state_out, dst, h), i, j), &S[i], 4);
    }
}

int64_t GDN_REF(gated_delta_net_items)(const gdn_gated_delta_net_problem *p)
{
    return (int64_t)p->n_seqs * p->n_heads_v;
}

void GDN_REF(gated_delta_net)(const gdn_gated_delta_net_problem *p, int64_t item)
{
    const int32_t s = (int32_t)(item / p->n_heads_v), h = (int32_t)(item % p->n_heads_v);
    if (gdn_state_src_at(p, s) == GDN_SKIP || !gdn_seq_length(&p->seq_start, p->n_seqs, p->n_tokens, s))
        return; /* padding; without tokens even the source is another sequence's to write */
    for (int32_t j = 0; j < p->head_dim_v; j++)
        column(p, s, h, j);
}
