/* Runs the calls of a plan on ggml's threads. */
#include "engine.h"

#include <stdlib.h>

bool bytes_need(bytes *b, size_t size)
{
    if (b->size >= size) return true;
    bytes_free(b);
    size = (size + 63) / 64 * 64;
    b->data = aligned_alloc(64, size);
    b->size = b->data ? size : 0;
    return b->data != NULL;
}

void bytes_free(bytes *b)
{
    free(b->data);
    *b = (bytes){ 0 };
}

void engine_fail(engine *e, const char *what)
{
    if (!atomic_exchange(&e->failed, 1)) GGML_LOG_ERROR("libggml-gdn: %s: %s\n", what, gdn_last_error());
}

/* Programs use few thread counts, usually one for prompts and one for generation. A new count replaces the oldest
 * context. */
gdn_context *engine_context(engine *e, int n_threads)
{
    if (n_threads == 1) return e->single;
    int place = 0;
    for (; place < MAX_CONTEXTS && e->contexts[place].ctx; place++)
        if (e->contexts[place].n_threads == n_threads) return e->contexts[place].ctx;
    if (place == MAX_CONTEXTS) {
        gdn_context_destroy(e->contexts[0].ctx);
        for (place = 0; place < MAX_CONTEXTS - 1; place++) e->contexts[place] = e->contexts[place + 1];
        e->contexts[place].ctx = NULL;
    }
    gdn_context_desc desc = GDN_INIT(gdn_context_desc);
    desc.n_threads = (uint32_t)n_threads;
    desc.parallel_for = team_run;
    desc.parallel_user = &e->seat;
    if (gdn_context_create(&desc, &e->contexts[place].ctx)) {
        e->contexts[place].ctx = NULL;
        return NULL;
    }
    e->contexts[place].n_threads = n_threads;
    return e->contexts[place].ctx;
}

static gdn_status with_workspace(engine *e, const gdn_capability *can, gdn_span *workspace)
{
    if (!bytes_need(&e->workspace, can->workspace_bytes)) return GDN_OUT_OF_MEMORY;
    *workspace = (gdn_span){ .data = e->workspace.data, .bytes = e->workspace.size };
    return GDN_OK;
}

/* The first thread's part: one call of libgdn, which splits its work over the team. */
static void lead(engine *e, call *c, int nth)
{
    gdn_context *ctx = engine_context(e, nth);
    gdn_capability can = GDN_INIT(gdn_capability);
    gdn_status status = ctx ? GDN_OK : GDN_OUT_OF_MEMORY;
    e->seat.now = &c->threads;
    if (c->kind == CALL_GDN) {
        gdn_gated_delta_net_args *args = &c->as.gdn;
        if (!status) status = gdn_gated_delta_net_query(ctx, args, &can);
        if (!status) status = with_workspace(e, &can, &args->workspace);
        if (!status) status = gdn_gated_delta_net(ctx, args, NULL);
        if (status) engine_fail(e, "gated_delta_net");
    } else {
        gdn_set_rows_args *args = &c->as.rows;
        if (!status) status = gdn_set_rows_query(ctx, args, &can);
        if (!status) status = with_workspace(e, &can, &args->workspace);
        if (!status) status = gdn_set_rows(ctx, args, NULL);
        if (status) engine_fail(e, "set_rows");
    }
}

void engine_call(struct ggml_tensor *node, int ith, int nth, void *user)
{
    (void)node;
    call *c = user;
    engine *e = c->owner;
    if (c->kind == CALL_CONV) {
        conv_run(e, &c->as.conv, ith, nth);
    } else if (c->kind == CALL_STAGE) {
        conv_stage(&c->as.conv, ith, nth);
    } else if (ith == 0) {
        lead(e, c, nth);
        team_close(&c->threads);
    } else {
        team_help(&c->threads);
    }
}
