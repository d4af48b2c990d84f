/* Pipelines of ever other shapes: those of our own queue are bounded, a caller's stay. */
#include <string.h>

#include "support.h"

void test_pipelines_bounded(void)
{
    enum { OTHERS = 40 }; /* more than a device keeps */
    VkPipeline recorded, own, again;
    gdn_context *ctx = sound_context();
    gdn_vulkan_device *dev = ctx->state;
    const int before = fault.pipelines;
    uint32_t constants[GDN_VULKAN_CONSTANTS] = { 64 }; /* the last one means nothing to this kernel */
    const uint32_t last = GDN_VULKAN_CONSTANTS - 1;
    REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, (gdn_stream)ctx, &recorded) == GDN_OK);
    constants[last] = 1;
    REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, NULL, &own) == GDN_OK);
    for (uint32_t i = 0; i < OTHERS; i++) {
        constants[last] = 2 + i;
        REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, NULL, &again) == GDN_OK);
    }
    REQUIRE(fault.pipelines - before == 2 + OTHERS);
    constants[last] = 0;
    REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, NULL, &again) == GDN_OK);
    REQUIRE(again == recorded && fault.pipelines - before == 2 + OTHERS);
    constants[last] = 1; /* was used longest ago, and is made anew */
    REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, NULL, &again) == GDN_OK);
    REQUIRE(fault.pipelines - before == 3 + OTHERS);
    gdn_context_destroy(ctx);
}
