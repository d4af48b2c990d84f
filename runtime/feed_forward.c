/* Feed forward: dense, or a mixture of experts with a shared one. */
#include <string.h>

#include "runtime/engine_internal.h"

/* y = down(silu(gate x) * (up x)) for n rows. */
static void swiglu(rt_engine *e, const rt_weight *gate, const rt_weight *up, const rt_weight *down, int32_t matrix,
                   const float *x, int32_t n, float *y)
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
    rt_choose_experts(e->dense, e->router, n, X, U, hp->expert_scale, e->expert, weight);
    for (int32_t at = 0; !hp->expert_norm && at < n * U; at++) /* shares of all experts, which the softmax left there */
        weight[at] = e->router[(int64_t)(at / U) * X + e->expert[at]] * hp->expert_scale;
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
    rt_mix_args mix = { .n = n, .m = E, .n_used = U, .x = e->moe_y, .weight = weight, .y = e->moe_x };
    if (layer->gate_shexp.data) {
        const rt_weight gate = { (const unsigned char *)layer->shexp_gate, RT_F32, E, 1, 1, 4 * (int64_t)E };
        rt_matmul(e->dense, &gate, 0, e->xn, E, n, e->router, 1, e->scratch);
        swiglu(e, &layer->gate_shexp, &layer->up_shexp, &layer->down_shexp, 0, e->xn, n, e->proj);
        mix.shared      = e->proj;
        mix.shared_gate = e->router;
    }
    rt_mix(e->dense, &mix);
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
