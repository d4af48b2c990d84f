/* Opening and closing a device: one of ours, or the caller's. See device.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/structs.h"
#include "vulkan/device.h"

static const struct {
    VkResult result;
    gdn_status status;
    const char *name;
} errors[] = {
#define ERROR(name, status)                                                                                            \
    {                                                                                                                  \
        name, status, #name                                                                                            \
    }
    ERROR(VK_TIMEOUT, GDN_TIMEOUT),
    ERROR(VK_NOT_READY, GDN_INTERNAL),
    ERROR(VK_INCOMPLETE, GDN_INTERNAL),
    ERROR(VK_ERROR_OUT_OF_HOST_MEMORY, GDN_OUT_OF_MEMORY),
    ERROR(VK_ERROR_OUT_OF_DEVICE_MEMORY, GDN_OUT_OF_MEMORY),
    ERROR(VK_ERROR_OUT_OF_POOL_MEMORY, GDN_OUT_OF_MEMORY),
    ERROR(VK_ERROR_MEMORY_MAP_FAILED, GDN_OUT_OF_MEMORY),
    ERROR(VK_ERROR_TOO_MANY_OBJECTS, GDN_OUT_OF_MEMORY),
    ERROR(VK_ERROR_DEVICE_LOST, GDN_DEVICE_LOST),
    ERROR(VK_ERROR_INITIALIZATION_FAILED, GDN_UNAVAILABLE),
    ERROR(VK_ERROR_LAYER_NOT_PRESENT, GDN_UNAVAILABLE),
    ERROR(VK_ERROR_INCOMPATIBLE_DRIVER, GDN_UNAVAILABLE),
    ERROR(VK_ERROR_EXTENSION_NOT_PRESENT, GDN_UNSUPPORTED),
    ERROR(VK_ERROR_FEATURE_NOT_PRESENT, GDN_UNSUPPORTED),
#undef ERROR
};

gdn_status gdn_vulkan_fail(gdn_vulkan_device *dev, VkResult result, const char *call)
{
    gdn_status status = GDN_INTERNAL;
    const char *name = "an error";
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].result == result) {
            status = errors[i].status;
            name = errors[i].name;
        }
    if (status == GDN_DEVICE_LOST && dev) dev->lost = 1;
    return gdn_fail(status, "%s returned %s (%d)%s%s", call, name, (int)result, dev ? " on " : "",
                    dev ? dev->traits.about.name : "");
}

void *gdn_vulkan_host_alloc(const gdn_vulkan_device *dev, uint64_t bytes)
{
    return dev->gpu.ctx ? gdn_context_alloc(dev->gpu.ctx, bytes, 64) : malloc((size_t)bytes);
}

void gdn_vulkan_host_free(const gdn_vulkan_device *dev, void *memory)
{
    if (dev->gpu.ctx) gdn_context_free(dev->gpu.ctx, memory);
    else free(memory);
}

/* ---- The library's own device ----------------------------------------------------------------------- */

static gdn_status create_device(gdn_vulkan_device *dev)
{
    const gdn_vulkan_traits *t = &dev->traits;
    const float priority = 1.0f;
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = VK_TRUE,
    };
    VkPhysicalDeviceShaderFmaFeaturesKHR fma = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FMA_FEATURES_KHR,
        .pNext = t->full_subgroups ? &sizes : NULL,
        .shaderFmaFloat32 = VK_TRUE,
    };
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = t->shader_fma ? (void *)&fma : fma.pNext,
        .bufferDeviceAddress = VK_TRUE,
        .timelineSemaphore = VK_TRUE,
    };
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = &f12,
        .storageBuffer16BitAccess = (VkBool32)t->storage16,
    };
    const VkPhysicalDeviceFeatures2 f2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .pNext = &f11,
        .features = { .shaderInt64 = VK_TRUE, .shaderFloat64 = (VkBool32)t->float64 },
    };
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = t->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    VkPhysicalDeviceProperties basic;
    dev->vk.GetPhysicalDeviceProperties(t->physical, &basic);
    const char *extensions[2];
    uint32_t n = 0;
    if (t->full_subgroups && basic.apiVersion < VK_API_VERSION_1_3)
        extensions[n++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (t->shader_fma) extensions[n++] = VK_KHR_SHADER_FMA_EXTENSION_NAME;
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &f2,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = n,
        .ppEnabledExtensionNames = extensions,
    };
    VkResult result = dev->vk.CreateDevice(t->physical, &info, NULL, &dev->device);
    if (result != VK_SUCCESS) {
        dev->device = VK_NULL_HANDLE;
        return gdn_vulkan_fail(dev, result, "vkCreateDevice");
    }
    dev->own_device = 1;
    dev->queue_family = t->queue_family;
    gdn_status status = gdn_vulkan_load_device_functions(&dev->vk, dev->device);
    if (status) return status;
    dev->vk.GetDeviceQueue(dev->device, dev->queue_family, 0, &dev->queue);
    return GDN_OK;
}

static gdn_status choose(const gdn_vulkan_traits *list, uint32_t n, uint32_t index, const char *name,
                         gdn_vulkan_traits *chosen)
{
    for (uint32_t i = 0; name && i < n; i++)
        if (strstr(list[i].about.name, name)) {
            *chosen = list[i];
            return GDN_OK;
        }
    if (name)
        return gdn_fail(GDN_NOT_FOUND,
                        "device_name is \"%.64s\"; no Vulkan device has that in its name, the first is \"%s\"", name,
                        list[0].about.name);
    if (index >= n)
        return gdn_fail(GDN_NOT_FOUND, "device is %u; the vulkan backend has devices 0..%u", (unsigned)index,
                        (unsigned)n - 1);
    *chosen = list[index];
    return GDN_OK;
}

/* Opens a device of the process's instance, or of an instance behind the loader that the caller gave. */
static gdn_status open_own(gdn_vulkan_device *dev, uint32_t index, const gdn_vulkan_desc *native)
{
    gdn_status status;
    const char *name = native ? native->device_name : NULL;
    if (native && native->get_instance_proc_addr) {
        gdn_vulkan_traits *list = NULL;
        uint32_t n = 0;
        if ((status = gdn_vulkan_instance_open((PFN_vkGetInstanceProcAddr)native->get_instance_proc_addr, &dev->vk,
                                               &dev->instance)))
            return status;
        dev->own_instance = 1;
        if ((status = gdn_vulkan_list_devices(&dev->vk, dev->instance, &list, &n))) return status;
        status = choose(list, n, index, name, &dev->traits);
        free(list);
    } else {
        const gdn_vulkan_catalogue *c = gdn_vulkan_catalogue_get();
        uint32_t n;
        if ((status = gdn_vulkan_count(&n))) return status;
        dev->vk = c->vk;
        status = choose(c->traits, c->n, index, name, &dev->traits);
    }
    return status ? status : create_device(dev);
}

/* ---- The caller's device --------------------------------------------------------------------------- */

static gdn_status open_callers(gdn_vulkan_device *dev, const gdn_vulkan_desc *native)
{
    gdn_status status;
    if (!native->get_instance_proc_addr || !native->instance || !native->physical_device || !native->queue)
        return gdn_fail(GDN_INVALID_ARGUMENT, "native->%s is NULL, but native->device is not; give both, or no device",
                        !native->get_instance_proc_addr ? "get_instance_proc_addr"
                        : !native->instance             ? "instance"
                        : !native->physical_device      ? "physical_device"
                                                        : "queue");
    dev->vk =
        (gdn_vulkan_functions){ .GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)native->get_instance_proc_addr };
    if ((status = gdn_vulkan_load_instance_functions(&dev->vk, native->instance)) ||
        (status = gdn_vulkan_load_device_functions(&dev->vk, native->device)) ||
        (status = gdn_vulkan_read_traits(&dev->vk, native->physical_device, &dev->traits)))
        return status;
    /* The caller must have enabled a feature for the device to have it. */
    dev->traits.float64 &= !!(native->features & GDN_VULKAN_FLOAT64);
    dev->traits.storage16 &= !!(native->features & GDN_VULKAN_STORAGE_16);
    dev->traits.full_subgroups &= !!(native->features & GDN_VULKAN_FULL_SUBGROUPS);
    dev->traits.shader_fma &= !!(native->features & GDN_VULKAN_SHADER_FMA);
    dev->device = native->device;
    dev->queue = native->queue;
    dev->queue_family = native->queue_family;
    dev->lock = native->lock_queue;
    dev->unlock = native->unlock_queue;
    dev->lock_user = native->lock_user;
    return GDN_OK;
}

static gdn_status check_native(const gdn_vulkan_desc *native)
{
    const uint32_t known =
        GDN_VULKAN_FLOAT64 | GDN_VULKAN_STORAGE_16 | GDN_VULKAN_FULL_SUBGROUPS | GDN_VULKAN_SHADER_FMA;
    if (native->features & ~known || native->reserved)
        return gdn_fail(GDN_INVALID_ARGUMENT, "native->%s is %#x; %#x are allowed",
                        native->reserved ? "reserved" : "features",
                        native->reserved ? (unsigned)native->reserved : (unsigned)native->features,
                        native->reserved ? 0 : (unsigned)known);
    if (!native->lock_queue != !native->unlock_queue)
        return gdn_fail(GDN_INVALID_ARGUMENT, "native->%s is NULL; give lock_queue and unlock_queue, or neither",
                        native->lock_queue ? "unlock_queue" : "lock_queue");
    if (!native->device && (native->instance || native->physical_device || native->queue || native->features))
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "native->device is NULL, but the instance, physical device, queue or features are given");
    if (native->device && native->device_name)
        return gdn_fail(GDN_INVALID_ARGUMENT, "native->device and native->device_name are both given");
    return GDN_OK;
}

gdn_status gdn_vulkan_device_open(void *device, const gdn_context *ctx, uint32_t index, const void *callers)
{
    gdn_vulkan_device *dev = device;
    gdn_vulkan_desc native = { 0 };
    gdn_status status;
    dev->gpu.ctx = ctx;
    if (callers &&
        ((status = gdn_struct_read("native", callers, GDN_FIRST_SIZE(gdn_vulkan_desc), sizeof native, &native)) ||
         (status = check_native(&native))))
        return status;
    dev->cache_load = native.cache_load;
    dev->cache_save = native.cache_save;
    dev->cache_user = native.cache_user;
    if ((status = native.device ? open_callers(dev, &native) : open_own(dev, index, callers ? &native : NULL)) ||
        (status = gdn_vulkan_find_registers(&dev->traits)))
        return status;
    dev->gpu.about = &dev->traits.about;
    dev->gpu.timeout_ns = gdn_timeout_ns(ctx, dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU);
    dev->vk.GetPhysicalDeviceMemoryProperties(dev->traits.physical, &dev->memory);
    if ((status = gdn_vulkan_queue_open(dev)) || (status = gdn_vulkan_memory_open(dev))) return status;
    return gdn_vulkan_pipelines_open(dev);
}

/* If the device does not finish in time, its objects are not destroyed: destroying objects in use is undefined, and a
 * wait must be bounded. */
void gdn_vulkan_device_close(void *device)
{
    gdn_vulkan_device *dev = device;
    const int idle = !dev->timeline || gdn_vulkan_wait(dev) == GDN_OK || dev->lost;
    if (!idle && dev->gpu.ctx)
        gdn_context_log(dev->gpu.ctx, GDN_LOG_ERROR,
                        "vulkan: the device did not finish in time; its objects are left behind");
    if (idle) {
        gdn_vulkan_pipelines_close(dev);
        gdn_vulkan_memory_close(dev);
        gdn_vulkan_queue_close(dev);
        if (dev->own_device && dev->vk.DestroyDevice) dev->vk.DestroyDevice(dev->device, NULL);
        if (dev->own_instance) dev->vk.DestroyInstance(dev->instance, NULL);
    }
    dev->device = VK_NULL_HANDLE;
    dev->instance = VK_NULL_HANDLE;
    dev->own_device = dev->own_instance = 0;
}
