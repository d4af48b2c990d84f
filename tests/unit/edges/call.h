/* One kernel call that several threads share, for programs that try what surrounds it. */
#ifndef GDN_EDGES_CALL_H
#define GDN_EDGES_CALL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gdn/gdn.h"
#include "tests/harness.h"

enum { SKIPPED = 77, CALL_SEQS = 4, CALL_HEADS = 8, CALL_DIM = 64 }; /* 77: ctest's word for it */

/* The functions of a library that was linked, or of one that was loaded. */
typedef struct call_api {
    gdn_status (*create)(const gdn_context_desc *desc, gdn_context **ctx);
    void (*destroy)(gdn_context *ctx);
    gdn_status (*query)(const gdn_context *ctx, const gdn_gated_delta_net_args *args, gdn_capability *capability);
    gdn_status (*run)(gdn_context *ctx, const gdn_gated_delta_net_args *args, gdn_stream stream);
} call_api;

typedef struct call_memory {
    float q[CALL_SEQS * CALL_HEADS * CALL_DIM], out[CALL_SEQS * CALL_HEADS * CALL_DIM], g[CALL_SEQS * CALL_HEADS];
    float state[CALL_SEQS * CALL_HEADS * CALL_DIM * CALL_DIM];
    _Alignas(64) char workspace[1 << 24]; /* differs from call to call */
} call_memory;
enum { CALL_RESULT_BYTES = offsetof(call_memory, workspace) };

/* Fill *m and run one token of every sequence; status of the call. Allocates nothing, see fork.c. */
static inline gdn_status call_run(const call_api *api, gdn_context *ctx, call_memory *m)
{
    memset(m, 0, CALL_RESULT_BYTES);
    for (int i = 0; i < CALL_SEQS * CALL_HEADS * CALL_DIM; i++) m->q[i] = 0.01f * (float)(i % 7);
    for (int i = 0; i < CALL_SEQS * CALL_HEADS; i++) m->g[i] = -0.1f * (float)(i % 3);
    for (int i = 0; i < CALL_SEQS * CALL_HEADS * CALL_DIM * CALL_DIM; i++) m->state[i] = 0.001f * (float)(i % 11);
    gdn_gated_delta_net_args a =
        FIELDS(.size = sizeof a, .n_seqs = CALL_SEQS, .n_tokens = CALL_SEQS, .n_heads_k = CALL_HEADS,
               .n_heads_v = CALL_HEADS, .head_dim_k = CALL_DIM, .head_dim_v = CALL_DIM, .n_snapshots = 1,
               .scale = 0.125f, .state = { .n_rows = CALL_SEQS, .n_slots = 1 });
    a.q.data = a.k.data = a.v.data = m->q;
    a.g.data = a.beta.data = m->g;
    a.out.data = m->out;
    a.state.data = m->state;
    gdn_capability c = { .size = sizeof c };
    gdn_status status = api->query(ctx, &a, &c);
    if (status) return status;
    a.workspace.data = m->workspace;
    return c.workspace_bytes <= sizeof m->workspace ? api->run(ctx, &a, NULL) : GDN_OUT_OF_MEMORY;
}

static inline gdn_context *call_context(const call_api *api, uint32_t n_threads)
{
    const gdn_context_desc desc = { .size = sizeof desc, .n_threads = n_threads };
    gdn_context *ctx = NULL;
    return api->create(&desc, &ctx) == GDN_OK ? ctx : NULL;
}

/* What the call computes, on one thread. */
static inline void call_expect(const call_api *api, call_memory *expected)
{
    gdn_context *ctx = call_context(api, 1);
    NEED(ctx && call_run(api, ctx, expected) == GDN_OK);
    api->destroy(ctx);
}

#endif
