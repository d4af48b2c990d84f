/* The call whose result is known. See suite.h. */
#include "tests/device/suite.h"

#include <string.h>

static float number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state * 0x1p-31f;
}

void step_init(step *s, uint32_t seed)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < N_Q; i++) s->q[i] = number(&seed), s->k[i] = 0.3f * number(&seed), s->v[i] = number(&seed);
    for (int i = 0; i < N_G; i++) s->g[i] = -0.1f + 0.1f * number(&seed), s->beta[i] = 0.5f + 0.4f * number(&seed);
    for (int i = 0; i < N_STATE; i++) s->state[i] = number(&seed);
    for (int i = 0; i < SEQS; i++) s->src[i] = s->dst[i] = i;
    s->args =
        (gdn_gated_delta_net_args)FIELDS(.size = sizeof s->args, .n_seqs = SEQS, .n_tokens = SEQS, .n_heads_k = HEADS,
                                         .n_heads_v = HEADS, .head_dim_k = DIM, .head_dim_v = DIM, .n_snapshots = 1,
                                         .scale = 0.125f, .state = { .n_rows = SEQS, .n_slots = 1 });
}

void step_reference(step *s, int n) { step_reference_at(s, n, GDN_EXACT); }

void step_reference_at(step *s, int n, uint32_t level)
{
    gdn_context *ctx = NULL;
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE, .level = level };
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
    gdn_gated_delta_net_args a = s->args;
    a.q.data = s->q, a.k.data = s->k, a.v.data = s->v, a.g.data = s->g, a.beta.data = s->beta, a.out.data = s->out,
    a.state.data = s->state, a.state_src.data = s->src, a.state_dst.data = s->dst;
    for (int i = 0; i < n; i++) REQUIRE(gdn_gated_delta_net(ctx, &a, NULL) == GDN_OK);
    gdn_context_destroy(ctx);
}

enum { OUT = 5, STATE = 6, WORKSPACE = 9 };

gdn_status step_put(step_on *on, gdn_context *ctx, const step *s)
{
    const struct {
        const void *data;
        uint64_t bytes;
    } parts[] = {
        { s->q, sizeof s->q },         { s->k, sizeof s->k },       { s->v, sizeof s->v },
        { s->g, sizeof s->g },         { s->beta, sizeof s->beta }, { s->out, sizeof s->out },
        { s->state, sizeof s->state }, { s->src, sizeof s->src },   { s->dst, sizeof s->dst },
    };
    gdn_status status;
    *on = (step_on){ .ctx = ctx, .args = s->args };
    void **const data[] = { &on->args.q.data,    &on->args.k.data,   &on->args.v.data,    &on->args.g.data,
                            &on->args.beta.data, &on->args.out.data, &on->args.state.data };
    for (int i = 0; i < WORKSPACE; i++) {
        if ((status = gdn_buffer_create(ctx, parts[i].bytes, &on->span[i])) ||
            (status = gdn_buffer_write(ctx, &on->span[i], 0, parts[i].data, parts[i].bytes)))
            return status;
        if (i <= STATE) *data[i] = on->span[i].data;
    }
    on->args.state_src = on->span[7];
    on->args.state_dst = on->span[8];
    gdn_capability c = { .size = sizeof c };
    if ((status = gdn_gated_delta_net_query(ctx, &on->args, &c)) ||
        (c.workspace_bytes && (status = gdn_buffer_create(ctx, c.workspace_bytes, &on->span[WORKSPACE]))))
        return status;
    on->args.workspace = on->span[WORKSPACE];
    return GDN_OK;
}

gdn_status step_run(step_on *on, gdn_stream stream) { return gdn_gated_delta_net(on->ctx, &on->args, stream); }

int step_same(step_on *on, const step *expected)
{
    static _Thread_local step got;
    return gdn_buffer_read(on->ctx, &on->span[OUT], 0, got.out, sizeof got.out) == GDN_OK &&
           gdn_buffer_read(on->ctx, &on->span[STATE], 0, got.state, sizeof got.state) == GDN_OK &&
           !memcmp(got.out, expected->out, sizeof got.out) && !memcmp(got.state, expected->state, sizeof got.state);
}

void step_drop(step_on *on)
{
    for (int i = 0; i <= WORKSPACE; i++) gdn_buffer_destroy(on->ctx, &on->span[i]);
}

gdn_context *step_open(step_on *on, gdn_context *ctx)
{
    REQUIRE(step_put(on, ctx, &start) == GDN_OK);
    return ctx;
}

void step_close(step_on *on)
{
    step_drop(on);
    gdn_context_destroy(on->ctx);
}
