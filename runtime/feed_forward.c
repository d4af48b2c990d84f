/* Feed forward: dense, or a mixture of experts with a shared one. */
#include <string.h>

#include "numerics/elementary.h"
#include "runtime/engine_internal.h"

/* y = down(silu(gate x) * (up x)) for n rows. */
static void swiglu(rt_engine *e, const rt_weight *gate, const rt_weight *up, const rt_weight *down, int32_t matrix, const float *x,
                   int32_t n, float *y)
{
    const int32_t    F = gate->n_rows, E = e->model->hp.n_embd;
    const rt_product products[] = { { gate, matrix, e->ff_a, F }, { up, matrix, e->ff_b, F } };
    rt_matmul_many(e->dense, products, 2, x, E, n, e->scratch);
    rt_swiglu(e->dense, e->ff_a, e->ff_b, e->ff_a, (int64_t)n * F);
    rt_matmul(e->dense, down, matrix, e->ff_a, F, n, y, E, e->scratch);
}

/* Experts one after another, each on all the rows that chose it. Their outputs are then summed per row in the order of
 * their rank, so that a row's bits do not depend on what other rows chose. */
static void mixture(rt_engine *e, const rt_layer *layer, int32_t n)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t     E = hp->n_embd, X = hp->n_expert, U = hp->n_expert_used;
    float            *weight = e->router + (int64_t)n * X; /* [n][U], behind the router's own rows */
    rt_matmul(e->dense, &layer->router, 0, e->xn, E, n, e->router, X, e->scratch);
    for (int32_t i = 0; i < n; i++) {
        float   *p    = e->router + (int64_t)i * X;
        int32_t *pick = e->expert + (int64_t)i * U;
        float    sum  = 0;
        rt_softmax(e->dense, p, X);
        rt_top_k(p, X, U, pick);
        for (int32_t u = 0; u < U; u++)
            sum += p[pick[u]];
        for (int32_t u = 0; u < U; u++)
            weight[(int64_t)i * U + u] = p[pick[u]] / sum * hp->expert_scale;
    }
    for (int32_t x = 0; x < X; x++) {
        int32_t n_rows = 0;
        for (int32_t at = 0; at < n * U; at++)
            if (e->expert[at] == x)
                e->expert_rows[n_rows++] = at;
        if (!n_rows)
            continue;
        for (int32_t j = 0; j < n_rows; j++)
            memcpy(e->moe_x + (int64_t)j * E, e->xn + (int64_t)(e->expert_rows[j] / U) * E, 4 * (size_t)E);
        swiglu(e, &layer->gate_exps, &layer->up_exps, &layer->down_exps, x, e->moe_x, n_rows, e->proj);
        for (int32_t j = 0; j < n_rows; j++)
            memcpy(e->moe_y + (int64_t)e->expert_rows[j] * E, e->proj + (int64_t)j * E, 4 * (size_t)E);
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t u = 0; u < U; u++) {
            const float *y = e->moe_y + ((int64_t)i * U + u) * E, w = weight[(int64_t)i * U + u];
            float       *out = e->moe_x + (int64_t)i * E;
            for (int32_t c = 0; c < E; c++)
                out[c] = (u ? out[c] : 0.0f) + w * y[c];
        }
    if (!layer->gate_shexp.data)
        return;
    const rt_weight gate = { (const unsigned char *)layer->shexp_gate, RT_F32, E, 1, 1, 4 * (int64_t)E };
    rt_matmul(e->dense, &gate, 0, e->xn, E, n, e->router, 1, e->scratch);
    swiglu(e, &layer->gate_shexp, &layer->up_shexp, &layer->down_shexp, 0, e->xn, n, e->proj);
    for (int32_t i = 0; i < n; i++) {
        const float s = gdn_sigmoid(e->router[i]);
        for (int32_t c = 0; c < E; c++)
            e->moe_x[(int64_t)i * E + c] += s * e->proj[(int64_t)i * E + c];
    }
}

void rt_layer_feed_forward(rt_engine *e, const rt_layer *layer, int32_t n)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t     E  = hp->n_embd;
    rt_rms_norm(e->dense, e->x, E, layer->post_attention_norm, hp->rms_eps, n, E, e->xn, E);
    if (hp->n_expert)
        mixture(e, layer, n);
    else
        swiglu(e, &layer->ffn_gate, &layer->ffn_up, &layer->ffn_down, 0, e->xn, n, e->proj);
    rt_add(e->dense, hp->n_expert ? e->moe_x : e->proj, e->x, (int64_t)n * E);
}
