/* The reference as a backend, so that programs can compare everything with it through one interface. */
#include <stdio.h>

#include "core/backend.h"
#include "core/status.h"
#include "numerics/float_env.h"
#include "reference/reference.h"

static gdn_status describe_device(const gdn_backend *backend, uint32_t device, gdn_device_info *info)
{
    (void)backend, (void)device;
    (void)snprintf(info->name, sizeof info->name, "scalar reference");
    info->n_implementations = 1;
    info->shared_memory = 1;
    return GDN_OK;
}

static gdn_status describe_implementation(const gdn_backend *backend, uint32_t device, uint32_t index,
                                          gdn_implementation_info *info)
{
    (void)backend, (void)device, (void)index;
    (void)snprintf(info->name, sizeof info->name, "scalar");
    info->levels = 1u << GDN_EXACT | 1u << GDN_EXACT_FTZ;
    return GDN_OK;
}

static gdn_status open_reference(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation)
{
    (void)ctx, (void)implementation;
    if (desc->native)
        return gdn_fail(GDN_INVALID_ARGUMENT, "desc->native is %p; on the reference backend it must be NULL",
                        desc->native);
    return GDN_OK;
}

static void close_reference(gdn_context *ctx) { (void)ctx; }

static void plan_reference(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    (void)ctx;
    switch (problem->kernel) {
    case GDN_KERNEL_gated_delta_net:
        plan->n_items = gdn_ref_gated_delta_net_items(&problem->gated_delta_net);
        plan->workspace_bytes = gdn_ref_scratch_bytes(&problem->gated_delta_net);
        break;
    case GDN_KERNEL_ssm_conv: plan->n_items = gdn_ref_ssm_conv_items(&problem->ssm_conv); break;
    case GDN_KERNEL_set_rows: plan->n_items = gdn_ref_set_rows_items(&problem->set_rows); break;
    }
}

static void describe_plan(const gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan,
                          gdn_capability *capability)
{
    (void)ctx, (void)problem, (void)plan;
    capability->exact = 1;
    (void)snprintf(capability->implementation, sizeof capability->implementation, "scalar");
}

static void run_item(const gdn_problem *problem, int64_t item, int flushes)
{
    void *const scratch = gdn_memory(problem->workspace);
    switch (problem->kernel) {
    case GDN_KERNEL_gated_delta_net:
        (flushes ? gdn_ref_gated_delta_net_flush : gdn_ref_gated_delta_net)(&problem->gated_delta_net, item, scratch);
        break;
    case GDN_KERNEL_ssm_conv:
        (flushes ? gdn_ref_ssm_conv_flush : gdn_ref_ssm_conv)(&problem->ssm_conv, item, scratch);
        break;
    case GDN_KERNEL_set_rows:
        (flushes ? gdn_ref_set_rows_flush : gdn_ref_set_rows)(&problem->set_rows, item, scratch);
        break;
    }
}

static gdn_status run_reference(gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream)
{
    gdn_status status = gdn_host_synchronize(ctx, stream); /* refuses a stream */
    if (status) return status;
    const gdn_float_env caller = gdn_float_env_enter();
    for (int64_t item = 0; item < plan->n_items; item++) run_item(problem, item, ctx->desc.level == GDN_EXACT_FTZ);
    gdn_float_env_leave(caller);
    return GDN_OK;
}

const gdn_backend gdn_backend_reference = {
    .id = GDN_BACKEND_REFERENCE,
    .name = "reference",
    .describe_device = describe_device,
    .describe_implementation = describe_implementation,
    .open = open_reference,
    .close = close_reference,
    GDN_HOST_MEMORY,
    .plan = plan_reference,
    .describe_plan = describe_plan,
    .run = run_reference,
};
