/* What the public functions of all kernels share. */
#ifndef GDN_CORE_CALLS_H
#define GDN_CORE_CALLS_H

#include "core/operands.h"

gdn_status gdn_check_context(const gdn_context *ctx);

/* Makes the backend's plan for a problem and resolves the workspace that it needs: see gdn_workspace_resolve(). */
gdn_status gdn_plan_resolve(const gdn_context *ctx, gdn_problem *problem, const gdn_span *workspace, gdn_plan *plan);

/* Runs a problem that has been checked. Without work, host backends still refuse a stream. */
static inline __attribute__((always_inline)) gdn_status gdn_run(gdn_context *ctx, const gdn_problem *problem,
                                                                const gdn_plan *plan, gdn_stream stream)
{
    if (!problem->empty) return ctx->backend->run(ctx, problem, plan, stream);
    return ctx->backend->host_memory ? ctx->backend->synchronize(ctx, stream) : GDN_OK;
}

/* Checks a query's context and capability. A query calls it first. */
gdn_status gdn_query_check(const gdn_context *ctx, const gdn_capability *capability);
/* Fills the capability from the plan for the problem, or with the error text if `status` is an error. Returns status.
 * */
gdn_status gdn_query_answer(const gdn_context *ctx, const gdn_problem *problem, gdn_status status,
                            gdn_capability *capability);

/* The variant's name, such as "columns". */
const char *gdn_variant_name(gdn_variant form);

#endif
