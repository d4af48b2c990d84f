/* The backend's use of a queue: a ring of command buffers on one timeline semaphore. See device.h. The parameter blocks
 * of calls in flight have the same ring: see record.c.
 *
 * Every wait has the context's timeout. A wait that times out changes nothing: the next one waits for the same. */
#include "core/status.h"
#include "vulkan/device.h"

gdn_status gdn_vulkan_queue_open(gdn_vulkan_device *dev)
{
    const VkSemaphoreTypeCreateInfo type = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                             .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
    const VkSemaphoreCreateInfo semaphore = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type };
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = dev->queue_family,
    };
    VkResult result;
    if ((result = dev->vk.CreateSemaphore(dev->device, &semaphore, NULL, &dev->timeline)) != VK_SUCCESS) {
        dev->timeline = VK_NULL_HANDLE;
        return gdn_vulkan_fail(dev, result, "vkCreateSemaphore");
    }
    if ((result = dev->vk.CreateCommandPool(dev->device, &pool, NULL, &dev->pool)) != VK_SUCCESS) {
        dev->pool = VK_NULL_HANDLE;
        return gdn_vulkan_fail(dev, result, "vkCreateCommandPool");
    }
    const VkCommandBufferAllocateInfo buffers = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = dev->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = GDN_VULKAN_RING,
    };
    if ((result = dev->vk.AllocateCommandBuffers(dev->device, &buffers, dev->ring)) != VK_SUCCESS)
        return gdn_vulkan_fail(dev, result, "vkAllocateCommandBuffers");
    return GDN_OK;
}

void gdn_vulkan_queue_close(gdn_vulkan_device *dev)
{
    if (dev->pool) dev->vk.DestroyCommandPool(dev->device, dev->pool, NULL);
    if (dev->timeline) dev->vk.DestroySemaphore(dev->device, dev->timeline, NULL);
    dev->pool = VK_NULL_HANDLE;
    dev->timeline = VK_NULL_HANDLE;
}

static gdn_status wait_for(gdn_vulkan_device *dev, uint64_t value)
{
    if (dev->lost)
        return gdn_fail(GDN_DEVICE_LOST, "the device %s was lost; the context can only be destroyed",
                        dev->traits.about.name);
    if (!value) return GDN_OK;
    const VkSemaphoreWaitInfo wait = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                       .semaphoreCount = 1,
                                       .pSemaphores = &dev->timeline,
                                       .pValues = &value };
    VkResult result = dev->vk.WaitSemaphores(dev->device, &wait, dev->gpu.timeout_ns);
    if (result == VK_TIMEOUT) return gdn_gpu_timed_out(&dev->gpu);
    return result == VK_SUCCESS ? GDN_OK : gdn_vulkan_fail(dev, result, "vkWaitSemaphores");
}

gdn_status gdn_vulkan_wait(gdn_vulkan_device *dev) { return wait_for(dev, dev->submitted); }

gdn_status gdn_vulkan_begin(gdn_vulkan_device *dev, VkCommandBuffer *commands)
{
    const VkCommandBufferBeginInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT };
    const uint32_t i = dev->ring_next;
    gdn_status status = wait_for(dev, dev->ring_value[i]);
    if (status) return status;
    VkResult result = dev->vk.BeginCommandBuffer(dev->ring[i], &info);
    if (result != VK_SUCCESS) return gdn_vulkan_fail(dev, result, "vkBeginCommandBuffer");
    *commands = dev->ring[i];
    return GDN_OK;
}

gdn_status gdn_vulkan_submit(gdn_vulkan_device *dev, VkCommandBuffer commands)
{
    VkResult result = dev->vk.EndCommandBuffer(commands);
    if (result != VK_SUCCESS) return gdn_vulkan_fail(dev, result, "vkEndCommandBuffer");
    const uint64_t value = dev->submitted + 1;
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &timeline,
        .commandBufferCount = 1,
        .pCommandBuffers = &commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &dev->timeline,
    };
    if (dev->lock) dev->lock(dev->lock_user);
    result = dev->vk.QueueSubmit(dev->queue, 1, &submit, VK_NULL_HANDLE);
    if (dev->unlock) dev->unlock(dev->lock_user);
    if (result != VK_SUCCESS) return gdn_vulkan_fail(dev, result, "vkQueueSubmit");
    dev->submitted = value;
    dev->ring_value[dev->ring_next] = value;
    dev->ring_next = (dev->ring_next + 1) % GDN_VULKAN_RING;
    return GDN_OK;
}

gdn_status gdn_vulkan_take_report(void *device)
{
    gdn_vulkan_device *dev = device;
    uint64_t value = 0;
    if (dev->lost) return wait_for(dev, 0);
    VkResult result = dev->vk.GetSemaphoreCounterValue(dev->device, dev->timeline, &value);
    if (result != VK_SUCCESS) return gdn_vulkan_fail(dev, result, "vkGetSemaphoreCounterValue");
    return gdn_gpu_take_bad_maps(dev->bad.mapped, GDN_OK);
}
