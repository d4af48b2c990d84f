/* Where calls have their parameter blocks, and the barriers that this leaves: vulkan/record.c. */
#include <string.h>

#include "support.h"

enum { PARAMS = GDN_VULKAN_PARAMS_BYTES };

/* A step that differs from others in its parameters alone, and what comes of it shows in the state. */
static gdn_delta_inputs inputs_of(int i)
{
    gdn_delta_inputs inputs = GDN_INIT(gdn_delta_inputs);
    inputs.beta_factor = 1.0f + 0.0625f * (float)(i + 1);
    return inputs;
}
static gdn_status numbered_step(step_on *on, int i)
{
    const gdn_delta_inputs inputs = inputs_of(i);
    on->args.inputs = &inputs;
    const gdn_status status = step_run(on, NULL);
    on->args.inputs = NULL;
    return status;
}
static void expected_step(step *expected, int i)
{
    const gdn_delta_inputs inputs = inputs_of(i);
    expected->args.inputs = &inputs;
    step_reference(expected, 1);
    expected->args.inputs = NULL;
}

/* While the device waits, calls are queued until no command buffer is free. Each has a parameter block of its own. No
 * later call changes it, not even one that finds no command buffer. Then the device sees each block as it was. */
static void test_ring(void)
{
    step_on on;
    static step expected;
    static unsigned char before[GDN_VULKAN_RING * PARAMS];
    gdn_context *ctx = sound_context();
    gdn_vulkan_device *const dev = ctx->state;
    expected = start;
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK);
    for (int i = 0; i < 2; i++) { /* the pipeline is made, asked, and compiled */
        expected_step(&expected, i);
        REQUIRE(numbered_step(&on, i) == GDN_OK);
        REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK);
    }

    const VkSemaphoreTypeCreateInfo type = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                             .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
    const VkSemaphoreCreateInfo info = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type };
    const uint64_t open = 1;
    VkSemaphore gate = VK_NULL_HANDLE;
    REQUIRE(dev->vk.CreateSemaphore(dev->device, &info, NULL, &gate) == VK_SUCCESS);
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkTimelineSemaphoreSubmitInfo values = FIELDS(.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                        .waitSemaphoreValueCount = 1, .pWaitSemaphoreValues = &open);
    const VkSubmitInfo submit = FIELDS(.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values,
                                       .waitSemaphoreCount = 1, .pWaitSemaphores = &gate, .pWaitDstStageMask = &stages);
    REQUIRE(dev->vk.QueueSubmit(dev->queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS);

    for (int i = 0; i < GDN_VULKAN_RING; i++) {
        const uint32_t own = dev->ring_next;
        memcpy(before, dev->params.mapped, sizeof before);
        expected_step(&expected, 2 + i);
        REQUIRE(numbered_step(&on, 2 + i) == GDN_OK);
        REQUIRE(memcmp(before + own * PARAMS, (char *)dev->params.mapped + own * PARAMS, PARAMS) != 0);
        memcpy(before + own * PARAMS, (char *)dev->params.mapped + own * PARAMS, PARAMS);
        REQUIRE(!memcmp(before, dev->params.mapped, sizeof before));
    }
    const uint64_t patience = dev->gpu.timeout_ns;
    dev->gpu.timeout_ns = 1000000;
    REQUIRE(numbered_step(&on, 2 + GDN_VULKAN_RING) == GDN_TIMEOUT);
    dev->gpu.timeout_ns = patience;
    REQUIRE(!memcmp(before, dev->params.mapped, sizeof before));

    const VkSemaphoreSignalInfo signal =
        FIELDS(.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = gate, .value = open);
    const PFN_vkSignalSemaphore signal_semaphore =
        (PFN_vkSignalSemaphore)dev->vk.GetDeviceProcAddr(dev->device, "vkSignalSemaphore");
    REQUIRE(signal_semaphore && signal_semaphore(dev->device, &signal) == VK_SUCCESS);
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK && step_same(&on, &expected));
    step_drop(&on);
    dev->vk.DestroySemaphore(dev->device, gate, NULL);
    gdn_context_destroy(ctx);
}

/* A call on our queue has one barrier before its dispatch and one for the host behind it, and no command that writes
 * its parameters. In a command buffer of the program's these are a command, since it may be submitted again. Each
 * barrier is needed: without it the test's own look at hazards (support.c) sees one. */
static void test_commands(void)
{
    step_on on;
    gdn_context *ctx = sound_context();
    gdn_vulkan_device *const dev = ctx->state;
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK &&
            gdn_synchronize(ctx, NULL) == GDN_OK && fault.hazards == 0);
    for (int recorded = 0; recorded < 2; recorded++) {
        const int barriers = recorded ? 3 : 2;
        for (int missing = 0; missing <= barriers; missing++) {
            VkCommandBuffer commands = NULL;
            fault.barriers = fault.updates = fault.hazards = fault.dispatches = 0;
            fault.drop_barrier = missing; /* 0: none */
            if (recorded) REQUIRE(gdn_vulkan_begin(dev, &commands) == GDN_OK);
            REQUIRE(step_run(&on, commands) == GDN_OK);
            if (recorded) REQUIRE(gdn_vulkan_submit(dev, commands) == GDN_OK);
            fault.drop_barrier = 0;
            REQUIRE(fault.dispatches == 1 && fault.barriers == barriers && fault.updates == recorded);
            REQUIRE((fault.hazards != 0) == (missing != 0));
            REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK); /* nothing is left that could be a hazard in truth */
        }
    }
    step_close(&on);
}

void test_parameters(void)
{
    test_ring();
    test_commands();
}
