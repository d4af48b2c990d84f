/* Buffers, and copies between them and the host. See device.h. */
#include <string.h>

#include "core/status.h"
#include "vulkan/device.h"

/* The first memory type among `bits` that has all of `want`, or -1. */
static int find_type(const gdn_vulkan_device *dev, uint32_t bits, VkMemoryPropertyFlags want)
{
    for (uint32_t i = 0; i < dev->memory.memoryTypeCount; i++)
        if ((bits >> i & 1) && (dev->memory.memoryTypes[i].propertyFlags & want) == want) return (int)i;
    return -1;
}

/* Chooses device memory, and prefers a host-visible type where host and device share memory. */
static int choose_type(const gdn_vulkan_device *dev, uint32_t bits, int memory)
{
    const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const int shared =
        dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU || dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    int type = -1;
    if (memory == GDN_VULKAN_MEMORY_UPLOAD) {
        type = find_type(dev, bits, host | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
        return type >= 0 ? type : find_type(dev, bits, host);
    }
    if (memory == GDN_VULKAN_MEMORY_HOST) {
        type = find_type(dev, bits, host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
        return type >= 0 ? type : find_type(dev, bits, host);
    }
    if (shared) {
        type = find_type(dev, bits, host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
        type = type >= 0 ? type : find_type(dev, bits, host | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    }
    type = type >= 0 ? type : find_type(dev, bits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    return type >= 0 ? type : find_type(dev, bits, 0);
}

static gdn_status too_large(const gdn_vulkan_device *dev, uint64_t bytes)
{
    return gdn_fail(GDN_OUT_OF_MEMORY,
                    "an allocation takes %llu bytes, and %s has at most %llu in one (maxMemoryAllocationSize)",
                    (unsigned long long)bytes, dev->traits.about.name, (unsigned long long)dev->traits.max_allocation);
}

gdn_status gdn_vulkan_allocate(gdn_vulkan_device *dev, uint64_t bytes, int memory, gdn_vulkan_buffer *b)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    VkMemoryRequirements need;
    VkResult result;
    *b = (gdn_vulkan_buffer){ .bytes = bytes };
    if (bytes > dev->traits.max_allocation) return too_large(dev, bytes);
    if ((result = dev->vk.CreateBuffer(dev->device, &info, NULL, &b->buffer)) != VK_SUCCESS) {
        b->buffer = VK_NULL_HANDLE;
        return gdn_vulkan_fail(dev, result, "vkCreateBuffer");
    }
    dev->vk.GetBufferMemoryRequirements(dev->device, b->buffer, &need);
    if (need.size > dev->traits.max_allocation) {
        gdn_vulkan_release(dev, b);
        return too_large(dev, need.size);
    }
    const int type = choose_type(dev, need.memoryTypeBits, memory);
    if (type < 0) {
        gdn_vulkan_release(dev, b);
        return gdn_fail(GDN_INTERNAL, "the device %s has no memory type for a %s buffer", dev->traits.about.name,
                        memory == GDN_VULKAN_MEMORY_DEVICE ? "storage" : "host-visible");
    }
    const VkMemoryAllocateFlagsInfo flags = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                              .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT };
    const VkMemoryAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &flags,
        .allocationSize = need.size,
        .memoryTypeIndex = (uint32_t)type,
    };
    const char *call = "vkAllocateMemory";
    if ((result = dev->vk.AllocateMemory(dev->device, &allocate, NULL, &b->memory)) != VK_SUCCESS) {
        b->memory = VK_NULL_HANDLE;
    } else if (call = "vkBindBufferMemory",
               (result = dev->vk.BindBufferMemory(dev->device, b->buffer, b->memory, 0)) == VK_SUCCESS) {
        const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        if ((dev->memory.memoryTypes[type].propertyFlags & host) == host) {
            call = "vkMapMemory";
            result = dev->vk.MapMemory(dev->device, b->memory, 0, VK_WHOLE_SIZE, 0, &b->mapped);
        }
    }
    if (result != VK_SUCCESS) {
        gdn_vulkan_release(dev, b);
        return gdn_vulkan_fail(dev, result, call);
    }
    const VkBufferDeviceAddressInfo at = { .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = b->buffer };
    b->address = dev->vk.GetBufferDeviceAddress(dev->device, &at);
    return GDN_OK;
}

void gdn_vulkan_release(gdn_vulkan_device *dev, gdn_vulkan_buffer *b)
{
    if (b->buffer) dev->vk.DestroyBuffer(dev->device, b->buffer, NULL);
    if (b->memory) dev->vk.FreeMemory(dev->device, b->memory, NULL); /* unmaps it */
    *b = (gdn_vulkan_buffer){ .record = b->record };
}

gdn_status gdn_vulkan_memory_open(gdn_vulkan_device *dev)
{
    gdn_status status;
    if ((status = gdn_vulkan_allocate(dev, GDN_VULKAN_STAGING_BYTES, GDN_VULKAN_MEMORY_HOST, &dev->staging)) ||
        (status = gdn_vulkan_allocate(dev, 256, GDN_VULKAN_MEMORY_HOST, &dev->bad)) ||
        (status = gdn_vulkan_allocate(dev, GDN_VULKAN_RING * GDN_VULKAN_PARAMS_BYTES, GDN_VULKAN_MEMORY_UPLOAD,
                                      &dev->params)))
        return status;
    memset(dev->bad.mapped, 0, 256);
    return GDN_OK;
}

void gdn_vulkan_memory_close(gdn_vulkan_device *dev)
{
    for (gdn_gpu_buffer *b = dev->gpu.buffers; b; b = b->next) gdn_vulkan_release(dev, (gdn_vulkan_buffer *)b);
    gdn_vulkan_release(dev, &dev->staging);
    gdn_vulkan_release(dev, &dev->bad);
    gdn_vulkan_release(dev, &dev->params);
}

/* ---- Copies ----------------------------------------------------------------------------------------- */

/* The host address of a buffer of ours, or NULL if the host cannot access it. */
static char *mapped_bytes(const gdn_vulkan_device *dev, const gdn_span *span)
{
    for (const gdn_gpu_buffer *b = dev->gpu.buffers; b; b = b->next)
        if (b->data == span->data) return ((const gdn_vulkan_buffer *)b)->mapped;
    return NULL;
}

/* Copies one piece through the staging buffer, and waits for it. Also flushes earlier calls' writes, and makes the copy
 * visible to later commands. */
static gdn_status copy_piece(gdn_vulkan_device *dev, VkBuffer from, uint64_t from_at, VkBuffer to, uint64_t to_at,
                             uint64_t bytes)
{
    const VkMemoryBarrier before = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    const VkMemoryBarrier after = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT,
    };
    const VkBufferCopy region = { from_at, to_at, bytes };
    VkCommandBuffer commands;
    gdn_status status = gdn_vulkan_begin(dev, &commands);
    if (status) return status;
    dev->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT,
                               VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &before, 0, NULL, 0, NULL);
    dev->vk.CmdCopyBuffer(commands, from, to, 1, &region);
    dev->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                               VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &after, 0, NULL,
                               0, NULL);
    return (status = gdn_vulkan_submit(dev, commands)) ? status : gdn_vulkan_wait(dev);
}

gdn_status gdn_vulkan_write(void *device, const gdn_span *span, uint64_t offset, const void *source, uint64_t bytes)
{
    gdn_vulkan_device *dev = device;
    /* nothing queued may still read what is overwritten, here or in staging */
    gdn_status status = gdn_vulkan_wait(dev);
    char *mapped = mapped_bytes(dev, span);
    if (!status && mapped && bytes) memcpy(mapped + span->offset + offset, source, (size_t)bytes);
    for (uint64_t done = 0; !status && !mapped && done < bytes;) {
        const uint64_t piece = bytes - done < GDN_VULKAN_STAGING_BYTES ? bytes - done : GDN_VULKAN_STAGING_BYTES;
        memcpy(dev->staging.mapped, (const char *)source + done, (size_t)piece);
        status = copy_piece(dev, dev->staging.buffer, 0, (VkBuffer)span->data, span->offset + offset + done, piece);
        done += piece;
    }
    return status;
}

gdn_status gdn_vulkan_read(void *device, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes)
{
    gdn_vulkan_device *dev = device;
    gdn_status status = gdn_vulkan_wait(dev);
    const char *mapped = mapped_bytes(dev, span);
    if (!status && mapped && bytes) memcpy(target, mapped + span->offset + offset, (size_t)bytes);
    for (uint64_t done = 0; !status && !mapped && done < bytes;) {
        const uint64_t piece = bytes - done < GDN_VULKAN_STAGING_BYTES ? bytes - done : GDN_VULKAN_STAGING_BYTES;
        status = copy_piece(dev, (VkBuffer)span->data, span->offset + offset + done, dev->staging.buffer, 0, piece);
        if (!status) memcpy((char *)target + done, dev->staging.mapped, (size_t)piece);
        done += piece;
    }
    return status;
}

uint64_t gdn_vulkan_address(const gdn_vulkan_device *dev, const void *buffer)
{
    const VkBufferDeviceAddressInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                             .buffer = (VkBuffer)buffer };
    return dev->vk.GetBufferDeviceAddress(dev->device, &info);
}
