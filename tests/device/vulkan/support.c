/* See support.h. */
#include "support.h"
#include "flush.h"

#include <stdlib.h>
#include <string.h>

faults fault;

/* ---- Faults ------------------------------------------------------------------------------------------ */

static PFN_vkGetInstanceProcAddr real_instance;
static PFN_vkGetDeviceProcAddr real_device;
// clang-format off
#define WRAPPED(X)                                                                                                     \
    X(QueueSubmit)                                                                                                     \
    X(WaitSemaphores) X(AllocateMemory) X(FreeMemory) X(CreateComputePipelines) X(GetSemaphoreCounterValue)            \
        X(CreateBuffer) X(CreateShaderModule) X(CreateSemaphore) X(AllocateCommandBuffers) X(BeginCommandBuffer)       \
            X(EndCommandBuffer) X(CmdPipelineBarrier) X(CmdUpdateBuffer) X(CmdFillBuffer) X(CmdDispatch)     \
                X(CmdBindPipeline)
// clang-format on

#define X(name) static PFN_vk##name real_##name;
WRAPPED(X)
#undef X

/* ---- What the device says of itself ---- */

static PFN_vkGetPhysicalDeviceProperties2 real_properties2;

static void VKAPI_CALL fake_properties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *p)
{
    real_properties2(physical, p);
    for (VkBaseOutStructure *next = p->pNext; next; next = next->pNext) {
        VkPhysicalDeviceSubgroupSizeControlProperties *const sizes = (void *)next;
        VkPhysicalDeviceVulkan11Properties *const p11 = (void *)next;
        VkPhysicalDeviceVulkan12Properties *const p12 = (void *)next;
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
            if (fault.no_required_size) sizes->requiredSubgroupSizeStages = 0;
            if (fault.min_subgroup) sizes->minSubgroupSize = fault.min_subgroup;
        }
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES && fault.max_allocation)
            p11->maxMemoryAllocationSize = fault.max_allocation;
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES) {
            if (fault.can_flush) p12->shaderDenormFlushToZeroFloat32 = VK_TRUE;
            if (fault.not_alone) p12->denormBehaviorIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
        }
    }
}

/* ---- A device that flushes where it is asked to: the driver's threads have the mode of what is submitted. ---- */

enum { MOST_ASKING = 64 };
static VkPipeline asking[MOST_ASKING]; /* to flush */
static int n_asking, module_asks, bound_asks;
static PFN_vkQueueWaitIdle real_QueueWaitIdle;

static int asks_to_flush(const VkShaderModuleCreateInfo *info)
{
    enum { HEADER = 5, OP_EXECUTION_MODE = 16, FLUSH_TO_ZERO = 4460, ROUND_TO_EVEN = 4462 };
    const uint32_t *const words = info->pCode;
    int asks = 0;
    for (size_t i = HEADER; i < info->codeSize / sizeof *words; i += words[i] >> 16)
        asks |= (words[i] & 0xffff) == OP_EXECUTION_MODE &&
                words[i + 2] == (fault.flushes_unasked ? ROUND_TO_EVEN : FLUSH_TO_ZERO) && words[i + 3] == 32;
    return asks;
}

static int find_asking(VkPipeline pipeline)
{
    int i = 0;
    while (i < n_asking && asking[i] != pipeline) i++;
    return i;
}

static void note_pipeline(VkPipeline pipeline)
{
    const int i = find_asking(pipeline);
    if (module_asks && i == n_asking && n_asking < MOST_ASKING) asking[n_asking++] = pipeline;
    if (!module_asks && i < n_asking) asking[i] = asking[--n_asking]; /* another of that name */
}

static void VKAPI_CALL fake_CmdBindPipeline(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline)
{
    bound_asks = find_asking(pipeline) < n_asking;
    real_CmdBindPipeline(commands, point, pipeline);
}

static VkResult VKAPI_CALL fake_QueueSubmit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    fault.submissions++;
    if (fault.flushes_asked || fault.flushes_unasked) {
        (void)real_QueueWaitIdle(queue);
        const unsigned asked = fault.flushes_unasked ? GDN_TEST_FLUSH_OPERANDS : GDN_TEST_FLUSH_BOTH;
        gdn_test_flush_now(bound_asks ? asked : fault.flushes_unasked ? GDN_TEST_FLUSH_BOTH : 0);
    }
    return fault.submit ? fault.submit : real_QueueSubmit(queue, n, info, fence);
}

static VkResult VKAPI_CALL fake_WaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    if (timeout > fault.longest_wait) fault.longest_wait = timeout;
    return fault.wait ? fault.wait : real_WaitSemaphores(device, info, timeout);
}

static VkResult VKAPI_CALL fake_AllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *a, VkDeviceMemory *out)
{
    fault.creations++;
    if (fault.allocate && fault.allocate_after-- <= 0) return fault.allocate;
    return real_AllocateMemory(device, info, a, out);
}

static void VKAPI_CALL fake_FreeMemory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *a)
{
    fault.frees += memory != VK_NULL_HANDLE;
    real_FreeMemory(device, memory, a);
}

static VkResult VKAPI_CALL fake_CreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t n,
                                                       const VkComputePipelineCreateInfo *info,
                                                       const VkAllocationCallbacks *a, VkPipeline *out)
{
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *const size = info->stage.pNext;
    fault.creations++;
    fault.pipelines++;
    if (size) fault.required_size = size->requiredSubgroupSize;
    fault.sized += size != NULL;
    const VkResult result =
        fault.pipeline ? fault.pipeline : real_CreateComputePipelines(device, cache, n, info, a, out);
    if (result == VK_SUCCESS) note_pipeline(*out);
    return result;
}

static VkResult VKAPI_CALL fake_GetSemaphoreCounterValue(VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
    return fault.counter ? fault.counter : real_GetSemaphoreCounterValue(device, semaphore, value);
}

static VkResult VKAPI_CALL fake_CreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                   const VkAllocationCallbacks *a, VkShaderModule *out)
{
    /* OpFSub and OpFAdd have the same operands. The words of float controls come in addition to the shader's. */
    enum { HEADER = 5, OP_FADD = 129, OP_FSUB = 131 };
    const size_t n = info->codeSize / sizeof(uint32_t), of = fault.wrong_shader.n;
    fault.creations++;
    module_asks = asks_to_flush(info);
    if (!of || n < of || n > of + GDN_VULKAN_CONTROL_WORDS) return real_CreateShaderModule(device, info, a, out);
    uint32_t *words = malloc(info->codeSize);
    VkShaderModuleCreateInfo wrong = *info;
    memcpy(words, info->pCode, info->codeSize);
    for (size_t i = HEADER; i < n; i += words[i] >> 16)
        if ((words[i] & 0xffff) == OP_FSUB) words[i] = (words[i] & 0xffff0000u) | OP_FADD;
    wrong.pCode = words;
    const VkResult result = real_CreateShaderModule(device, &wrong, a, out);
    free(words);
    fault.wrong_shaders++;
    return result;
}

/* Creations that are counted. */
#define COUNTED(name, parameters, arguments)                                                                           \
    static VkResult VKAPI_CALL fake_##name parameters                                                                  \
    {                                                                                                                  \
        fault.creations++;                                                                                             \
        return real_##name arguments;                                                                                  \
    }
COUNTED(CreateBuffer, (VkDevice d, const VkBufferCreateInfo *i, const VkAllocationCallbacks *a, VkBuffer *o),
        (d, i, a, o))
COUNTED(CreateSemaphore, (VkDevice d, const VkSemaphoreCreateInfo *i, const VkAllocationCallbacks *a, VkSemaphore *o),
        (d, i, a, o))
COUNTED(AllocateCommandBuffers, (VkDevice d, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *o), (d, i, o))

/* ---- Barriers: what was written and not yet made available to whom. ---- */

/* Synchronization validation does not follow accesses by address, so this does, taking every dispatch for one that
 * reads and writes everything. A command buffer begins with everything written, by calls that are still on their way.
 */
static struct {
    int by_shader, by_transfer; /* written, and no barrier since */
    int to_host;                /* what shaders wrote is available to the host */
} hazard;

static void hazardous(int is) { fault.hazards += is; }

static VkResult VKAPI_CALL fake_BeginCommandBuffer(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info)
{
    hazard.by_shader = hazard.by_transfer = hazard.to_host = 1;
    fault.transfer_barriers = 0;
    return real_BeginCommandBuffer(commands, info);
}

static VkResult VKAPI_CALL fake_EndCommandBuffer(VkCommandBuffer commands)
{
    hazardous(!hazard.to_host);
    return real_EndCommandBuffer(commands);
}

static void VKAPI_CALL fake_CmdPipelineBarrier(VkCommandBuffer commands, VkPipelineStageFlags from,
                                               VkPipelineStageFlags to, VkDependencyFlags flags, uint32_t n,
                                               const VkMemoryBarrier *memory, uint32_t n_buffers,
                                               const VkBufferMemoryBarrier *buffers, uint32_t n_images,
                                               const VkImageMemoryBarrier *images)
{
    const VkPipelineStageFlags shader = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkAccessFlags shader_all = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    if (++fault.barriers == fault.drop_barrier) return;
    for (uint32_t i = 0; i < n; i++) {
        /* Everything that this library does next is a dispatch, unless the barrier is for transfers as well, or the
         * last. */
        const int for_shader = (to & shader) && (memory[i].dstAccessMask & shader_all) == shader_all;
        const int after_shader = (from & shader) && (memory[i].srcAccessMask & VK_ACCESS_SHADER_WRITE_BIT);
        const int after_transfer = (from & transfer) && (memory[i].srcAccessMask & VK_ACCESS_TRANSFER_WRITE_BIT);
        if (for_shader && after_shader) hazard.by_shader = 0;
        if (for_shader && after_transfer) hazard.by_transfer = 0;
        if (after_shader && (to & VK_PIPELINE_STAGE_HOST_BIT) && (memory[i].dstAccessMask & VK_ACCESS_HOST_READ_BIT))
            hazard.to_host = 1;
        if ((to & transfer) && (memory[i].dstAccessMask & VK_ACCESS_TRANSFER_WRITE_BIT) && after_shader &&
            after_transfer)
            fault.transfer_barriers++;
    }
    real_CmdPipelineBarrier(commands, from, to, flags, n, memory, n_buffers, buffers, n_images, images);
}

static void written_by_transfer(void)
{
    hazardous(fault.transfer_barriers == 0); /* the workspace may still be in use by the call before */
    hazard.by_transfer = 1;
}

static void VKAPI_CALL fake_CmdUpdateBuffer(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset,
                                            VkDeviceSize bytes, const void *data)
{
    fault.updates++;
    written_by_transfer();
    real_CmdUpdateBuffer(commands, buffer, offset, bytes, data);
}

static void VKAPI_CALL fake_CmdFillBuffer(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset,
                                          VkDeviceSize bytes, uint32_t data)
{
    written_by_transfer();
    real_CmdFillBuffer(commands, buffer, offset, bytes, data);
}

static void VKAPI_CALL fake_CmdDispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    hazardous(hazard.by_shader || hazard.by_transfer);
    hazard.by_shader = 1;
    hazard.to_host = 0;
    fault.dispatches++;
    real_CmdDispatch(commands, x, y, z);
}

static PFN_vkVoidFunction VKAPI_CALL fake_device(VkDevice device, const char *name)
{
    if (fault.no_device_function && !strcmp(name, "vkCmdDispatch")) return NULL;
#define X(function)                                                                                                    \
    if (!strcmp(name, "vk" #function)) {                                                                               \
        real_##function = (PFN_vk##function)real_device(device, name);                                                 \
        return (PFN_vkVoidFunction)fake_##function;                                                                    \
    }
    WRAPPED(X)
#undef X
    real_QueueWaitIdle = (PFN_vkQueueWaitIdle)real_device(device, "vkQueueWaitIdle");
    return real_device(device, name);
}

static PFN_vkVoidFunction VKAPI_CALL fake_instance(VkInstance instance, const char *name)
{
    if (!strcmp(name, "vkGetDeviceProcAddr")) {
        real_device = (PFN_vkGetDeviceProcAddr)real_instance(instance, name);
        return (PFN_vkVoidFunction)fake_device;
    }
    if (!strcmp(name, "vkGetPhysicalDeviceProperties2")) {
        real_properties2 = (PFN_vkGetPhysicalDeviceProperties2)real_instance(instance, name);
        return (PFN_vkVoidFunction)fake_properties2;
    }
    return real_instance(instance, name);
}

gdn_vulkan_function faulty_loader(void)
{
    real_instance = gdn_vulkan_catalogue_get()->vk.GetInstanceProcAddr;
    return (gdn_vulkan_function)fake_instance;
}

gdn_status faulty_context(gdn_context **ctx, uint64_t timeout_ns)
{
    gdn_vulkan_desc native = { .size = sizeof native, .get_instance_proc_addr = faulty_loader() };
    gdn_context_desc desc =
        FIELDS(.size = sizeof desc, .backend = GDN_BACKEND_VULKAN, .native = &native, .timeout_ns = timeout_ns);
    return gdn_context_create(&desc, ctx);
}

gdn_context *context_with(faults of_it)
{
    gdn_context *ctx = NULL;
    fault = of_it;
    REQUIRE(faulty_context(&ctx, 0) == GDN_OK);
    return ctx;
}

gdn_context *sound_context(void) { return context_with((faults){ 0 }); }

gdn_context *faulty_step(step_on *on) { return step_open(on, sound_context()); }

void compile_wrongly(const gdn_vulkan_device *dev)
{
    const gdn_gpu_implementation *v = &dev->gpu.implementation;
    fault.wrong_shader =
        gdn_vulkan_shader(GDN_VULKAN_gated_delta_net, 0, v->soft_fma, v->subgroup, dev->traits.storage16);
}
