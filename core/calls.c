/* The public functions of every kernel: validate, plan, run. */
#include "core/kernels.h"
#include "core/status.h"
#include "core/structs.h"

#include <stdio.h>

static gdn_status check_context(const gdn_context *ctx)
{
    return ctx ? GDN_OK : gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL");
}

/* What a call without work returns: host backends refuse a stream all the same. */
static gdn_status nothing_to_do(gdn_context *ctx, gdn_stream stream)
{
    return ctx->backend->host_memory ? ctx->backend->synchronize(ctx, stream) : GDN_OK;
}

/* What a query that fails tells: supported is 0, and the reason is the error's text. */
static gdn_capability not_supported(void)
{
    gdn_capability c = { .size = sizeof c };
    (void)snprintf(c.reason, sizeof c.reason, "%s", gdn_last_error());
    return c;
}

#define GDN_KERNEL(stem, number, title, last, end)                                                                     \
    gdn_status gdn_##stem##_query(const gdn_context *ctx, const gdn_##stem##_args *args, gdn_capability *capability)  \
    {                                                                                                                  \
        gdn_##stem##_problem p;                                                                                        \
        gdn_plan   plan   = GDN_PLAN_INIT;                                                                             \
        gdn_status status = check_context(ctx);                                                                        \
        if (status || (status = gdn_struct_check("capability", capability, GDN_FIRST_SIZE(gdn_capability))))           \
            return status;                                                                                             \
        if ((status = gdn_##stem##_prepare(ctx, args, NULL, &p)) ||                                                    \
            (status = ctx->backend->stem.plan(ctx, &p, &plan)))                                                        \
            plan.capability = not_supported();                                                                         \
        gdn_struct_write(capability, &plan.capability, sizeof plan.capability);                                        \
        return status;                                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    gdn_status gdn_##stem(gdn_context *ctx, const gdn_##stem##_args *args, gdn_stream stream)                         \
    {                                                                                                                  \
        gdn_##stem##_problem p;                                                                                        \
        gdn_plan   plan   = GDN_PLAN_INIT;                                                                             \
        gdn_status status = check_context(ctx);                                                                        \
        if (status || (status = gdn_##stem##_prepare(ctx, args, &plan, &p)))                                           \
            return status;                                                                                             \
        return p.empty ? nothing_to_do(ctx, stream) : ctx->backend->stem.run(ctx, &p, &plan, stream);                 \
    }
#include "core/kernels.def"
#undef GDN_KERNEL
