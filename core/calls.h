/* What the public functions of all kernels share. */
#ifndef GDN_CORE_CALLS_H
#define GDN_CORE_CALLS_H

#include "core/kernels.h"
#include "core/operands.h"

gdn_status gdn_no_context(void);

/* Makes the backend's plan for a problem and resolves the workspace that it needs: see gdn_workspace_resolve(). */
gdn_status gdn_plan_resolve(const gdn_context *ctx, gdn_problem *problem, const gdn_span *workspace, gdn_plan *plan);

/* Logs what the call's arguments allow and rarely mean, once in a context. */
void gdn_hint(gdn_context *ctx, const gdn_problem *problem);

/* A kernel's public function: checks the call and runs it. Without work, host backends still refuse a stream. */
static inline __attribute__((always_inline)) gdn_status gdn_call(gdn_context *ctx, gdn_resolver *resolve,
                                                                 const void *args, gdn_stream stream)
{
    gdn_problem p;
    gdn_plan plan;
    if (!ctx) return gdn_no_context();
    const gdn_status status = resolve(ctx, args, &plan, &p);
    if (status) return status;
    if (ctx->desc.log) gdn_hint(ctx, &p);
    if (!p.empty) return ctx->backend->run(ctx, &p, &plan, stream);
    return ctx->backend->host_memory ? ctx->backend->synchronize(ctx, stream) : GDN_OK;
}

/* A kernel's query: fills the capability from the plan for the call, or with the error text. */
gdn_status gdn_query(const gdn_context *ctx, gdn_resolver *resolve, const void *args, gdn_capability *capability);

/* The variant's name, such as "columns". */
const char *gdn_variant_name(gdn_variant variant);

#endif
