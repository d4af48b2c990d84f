/* A driver that compiles a shader wrongly. */
#include <string.h>

#include "support.h"

/* A driver whose compiler takes subtractions for additions in gated_delta_net, and in nothing else: calls there are
 * refused, and those that only record are reported by the next gdn_synchronize(). First of all tests: a process does
 * not ask twice. */
void test_self_test(void)
{
    gdn_context *ctx = NULL;
    step_on on;
    if (!suite_asks()) return;
    ctx = faulty_step(&on);
    const gdn_vulkan_device *dev = ctx->state;
    const gdn_gpu_variant *v = &dev->gpu.variant;
    fault.wrong_shader =
        gdn_vulkan_shader(GDN_VULKAN_gated_delta_net, 0, v->soft_fma, v->subgroup, dev->traits.storage16);
    for (int i = 0; i < 2; i++)
        REQUIRE(step_run(&on, NULL) == GDN_UNSUPPORTED && strstr(gdn_last_error(), "self-test") &&
                strstr(gdn_last_error(), "gated_delta_net (") && strstr(gdn_last_error(), "shader 0, constants"));
    REQUIRE(fault.wrong_shaders > 0 && step_same(&on, &start)); /* and the call did nothing */

    /* The pipeline is there now, and the answer is wrong still; a recording does not wait for it. */
    VkCommandBuffer commands;
    gdn_vulkan_device *own = ctx->state;
    REQUIRE(gdn_vulkan_begin(own, &commands) == GDN_OK);
    const int submissions = fault.submissions;
    REQUIRE(step_run(&on, commands) == GDN_OK && fault.submissions == submissions && gdn_poll(ctx) == GDN_OK);
    REQUIRE(own->vk.EndCommandBuffer(commands) == VK_SUCCESS);
    FAILS(gdn_synchronize(ctx, NULL), GDN_UNSUPPORTED, "self-test");
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK); /* reported once */
    step_close(&on);
    memset(&fault, 0, sizeof fault);
}
