/* What the public functions of all kernels have in common. */
#ifndef GDN_CORE_CALLS_H
#define GDN_CORE_CALLS_H

#include "core/operands.h"

gdn_status gdn_check_context(const gdn_context *ctx);

/* The backend's plan for a problem, and the workspace that it asks for: see gdn_workspace_resolve(). */
gdn_status gdn_plan_resolve(const gdn_context *ctx, gdn_kernel kernel, const void *problem, gdn_plan *plan,
                            const gdn_span *span, int needed, gdn_place *at, gdn_region *r, int workspace, int n);

/* What a call without work returns: host backends refuse a stream all the same. */
gdn_status gdn_nothing_to_do(gdn_context *ctx, gdn_stream stream);

/* A query's context and capability, before anything else. */
gdn_status gdn_query_check(const gdn_context *ctx, const gdn_capability *capability);
/* Its answer: what the plan for the problem says, or the text of the error that `status` is. Returns status. */
gdn_status gdn_query_answer(const gdn_context *ctx, gdn_kernel kernel, const void *problem, gdn_status status,
                            gdn_capability *capability);

/* "columns" */
const char *gdn_form_name(gdn_form form);

#endif
