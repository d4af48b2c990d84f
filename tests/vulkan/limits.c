/* What a device says of itself is asked for and respected: the size of its subgroups, how much an allocation may have.
 */
#include <string.h>

#include "support.h"

static void test_subgroup_size(void)
{
    gdn_context *ctx = NULL;
    step_on on;
    memset(&fault, 0, sizeof fault);
    CHECK(faulty_context(&ctx, 0) == GDN_OK);
    const gdn_vulkan_traits traits = ((const gdn_vulkan_device *)ctx->state)->traits;
    const int shuffles = ((const gdn_vulkan_device *)ctx->state)->gpu.variant.subgroup;
    fault.sized = fault.pipelines = 0;
    CHECK(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
    CHECK(fault.pipelines == 1 && fault.sized == (shuffles && traits.required_size));
    CHECK(!fault.sized || (fault.required_size == traits.subgroup_size && traits.subgroup_size >= 8));
    step_drop(&on);
    gdn_context_destroy(ctx);

    /* None can be asked for, or none that is large enough: the device's own size is taken as before. */
    for (int i = 0; i < 2; i++) {
        memset(&fault, 0, sizeof fault);
        fault.no_required_size = i == 0;
        fault.min_subgroup = i == 1 ? 1u << 16 : 0;
        CHECK(faulty_context(&ctx, 0) == GDN_OK);
        CHECK(!((const gdn_vulkan_device *)ctx->state)->traits.required_size);
        CHECK(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
        CHECK(fault.pipelines > 0 && fault.sized == 0);
        step_drop(&on);
        gdn_context_destroy(ctx);
    }

    /* Smaller ones than the eight lanes are passed over. */
    memset(&fault, 0, sizeof fault);
    fault.min_subgroup = 2;
    CHECK(faulty_context(&ctx, 0) == GDN_OK);
    const gdn_vulkan_traits small = ((const gdn_vulkan_device *)ctx->state)->traits;
    CHECK(!small.required_size || small.subgroup_size == 8);
    gdn_context_destroy(ctx);
}

static void test_allocation_size(void)
{
    gdn_context *ctx = NULL;
    gdn_span span;
    memset(&fault, 0, sizeof fault);
    fault.max_allocation = UINT64_C(1) << 24;
    CHECK(faulty_context(&ctx, 0) == GDN_OK);
    CHECK(gdn_buffer_create(ctx, fault.max_allocation, &span) == GDN_OK);
    gdn_buffer_destroy(ctx, &span);
    const int before = fault.creations;
    CHECK(gdn_buffer_create(ctx, fault.max_allocation + 1, &span) == GDN_OUT_OF_MEMORY && !span.data);
    CHECK(strstr(gdn_last_error(), "16777217 bytes") && strstr(gdn_last_error(), "at most 16777216") &&
          strstr(gdn_last_error(), "maxMemoryAllocationSize"));
    CHECK(fault.creations == before);
    gdn_context_destroy(ctx);
}

void test_limits(void)
{
    test_subgroup_size();
    test_allocation_size();
    memset(&fault, 0, sizeof fault);
}
