/* What the public functions of all kernels share. See calls.h. */
#include "core/calls.h"

#include <stdio.h>

#include "core/status.h"
#include "core/structs.h"

gdn_status gdn_no_context(void) { return gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL"); }

const char *gdn_variant_name(gdn_variant variant)
{
    static const char *const names[] = {
        [GDN_VARIANT_REFERENCE] = "reference", [GDN_VARIANT_ROWS] = "rows",
        [GDN_VARIANT_LINES] = "lines",         [GDN_VARIANT_COLUMNS] = "columns",
        [GDN_VARIANT_TREE] = "tree",           [GDN_VARIANT_CHUNKED] = "chunked",
        [GDN_VARIANT_TILES] = "tiles",         [GDN_VARIANT_SUBGROUP] = "subgroup",
        [GDN_VARIANT_SHARED] = "shared",       [GDN_VARIANT_CHANNELS] = "channels",
        [GDN_VARIANT_PIECES] = "pieces",       [GDN_VARIANT_SEQUENCES] = "sequences",
        [GDN_VARIANT_TABLE] = "table",         [GDN_VARIANT_COMPARE] = "compare",
    };
    return names[variant];
}

static void make_plan(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    *plan = (gdn_plan){ .cpu.grain = 1 };
    ctx->backend->plan(ctx, problem, plan);
}

gdn_status gdn_plan_resolve(const gdn_context *ctx, gdn_problem *problem, const gdn_span *workspace, gdn_plan *plan)
{
    make_plan(ctx, problem, plan);
    if (plan->refused) {
        gdn_capability c;
        ctx->backend->describe_plan(ctx, problem, plan, &c);
        return gdn_fail(GDN_UNSUPPORTED, "%s", c.reason);
    }
    return gdn_workspace_resolve(ctx, plan->workspace_bytes, workspace, problem);
}

gdn_status gdn_query(const gdn_context *ctx, gdn_resolver *resolve, const void *args, gdn_capability *capability)
{
    gdn_capability c = { .size = sizeof c };
    gdn_problem problem;
    gdn_plan plan;
    gdn_status status =
        ctx ? gdn_struct_check("capability", capability, GDN_FIRST_SIZE(gdn_capability)) : gdn_no_context();
    if (status) return status;
    if ((status = resolve(ctx, args, NULL, &problem))) {
        (void)snprintf(c.reason, sizeof c.reason, "%s", gdn_last_error());
    } else {
        make_plan(ctx, &problem, &plan);
        c.supported = !plan.refused;
        c.workspace_bytes = plan.workspace_bytes;
        ctx->backend->describe_plan(ctx, &problem, &plan, &c);
        c.slot_bytes = problem.slot_bytes;
        c.log_entry_bytes = problem.log_entry_bytes;
    }
    gdn_struct_write(capability, &c, sizeof c);
    return status;
}
