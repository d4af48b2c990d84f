/* Feed forward of a layer: dense, or a mixture of experts with a shared expert. */
#include "runtime/decode/engine_internal.h"

/* y = down(silu(gate x) * (up x)) for n rows. */
static void swiglu(rt_engine *e, const rt_layer *layer, const float *x, int32_t n, float *y)
{
    const int32_t F = layer->ffn_gate.n_rows, E = e->model->hp.n_embd;
    const rt_product products[] = { { &layer->ffn_gate, 0, e->ff_a, F }, { &layer->ffn_up, 0, e->ff_b, F } };
    rt_matmul_many(e->dense, products, 2, x, E, n, e->scratch);
    rt_swiglu(e->dense, e->ff_a, e->ff_b, e->ff_a, (int64_t)n * F);
    rt_matmul(e->dense, &layer->ffn_down, 0, e->ff_a, F, n, y, E, e->scratch);
}

/* Mixture of experts. e->router holds, one after another: the router's rows, the experts' weights, and the logits of
 * the shared expert's gate. */
static void mixture(rt_engine *e, const rt_layer *layer, int32_t n)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t E = hp->n_embd, X = hp->n_expert, U = hp->n_expert_used;
    float *weight = e->router + (int64_t)n * X, *share = weight + (int64_t)n * U; /* [n][U], [n] */
    const rt_weight gate = { (const unsigned char *)layer->shexp_gate, RT_F32, E, 1, 1, 4 * (int64_t)E };
    const rt_product products[] = { { &layer->router, 0, e->router, X }, { &gate, 0, share, 1 } };
    rt_matmul_many(e->dense, products, layer->gate_shexp.data ? 2 : 1, e->xn, E, n, e->scratch);
    rt_choose_experts(e->dense, e->router, n, X, U, hp->expert_scale, e->expert, weight);
    for (int32_t at = 0; !hp->expert_norm && at < n * U; at++) /* not normalised: use the softmax over all experts */
        weight[at] = e->router[(int64_t)(at / U) * X + e->expert[at]] * hp->expert_scale;
    rt_experts_args a = rt_layer_experts(e->model, layer, n);
    a.x = e->xn;
    a.expert = e->expert;
    a.weight = weight;
    a.shared_gate = share;
    a.y = e->proj;
    a.scratch = e->scratch;
    rt_experts(e->dense, &a);
}

rt_experts_args rt_layer_experts(const rt_model *model, const rt_layer *layer, int32_t n)
{
    const rt_hparams *hp = &model->hp;
    const rt_experts_args a = { .n = n,
                                .m = hp->n_embd,
                                .n_experts = hp->n_expert,
                                .n_used = hp->n_expert_used,
                                .gate = &layer->gate_exps,
                                .up = &layer->up_exps,
                                .down = &layer->down_exps,
                                .gate_shared = &layer->gate_shexp,
                                .up_shared = &layer->up_shexp,
                                .down_shared = &layer->down_shexp };
    return a;
}

void rt_layer_feed_forward(rt_engine *e, const rt_layer *layer, int32_t n)
{
    const rt_hparams *hp = &e->model->hp;
    const int32_t E = hp->n_embd;
    rt_rms_norm(e->dense, e->x, E, layer->post_attention_norm, hp->rms_eps, n, E, e->xn, E);
    if (hp->n_expert) mixture(e, layer, n);
    else swiglu(e, layer, e->xn, n, e->proj);
    rt_add(e->dense, e->proj, e->x, (int64_t)n * E);
}
