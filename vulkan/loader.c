/* The loader library, instances, and the process's list of devices. See device.h.
 *
 * A list of devices is kept for the life of the process: describing devices must be cheap, and opening and closing
 * loaders and drivers often is unreliable. A failure is not kept. The backend's other process-wide objects are the
 * results of probes (backend.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "core/status.h"
#include "system/system.h"
#include "vulkan/device.h"

/* An object pointer can hold a function's where there are dynamic libraries; ISO C has no cast for it. */
static PFN_vkGetInstanceProcAddr entry_point(void *library)
{
    PFN_vkGetInstanceProcAddr get = NULL;
    void *symbol = gdn_library_find(library, "vkGetInstanceProcAddr");
    memcpy(&get, &symbol, sizeof get);
    return get;
}

static gdn_status open_loader(PFN_vkGetInstanceProcAddr *get)
{
    const char *const *const names = gdn_vulkan_libraries;
    for (int i = 0; names[i]; i++) {
        void *library = gdn_library_open(names[i]);
        *get = library ? entry_point(library) : NULL;
        if (*get) return GDN_OK;
        if (library) gdn_library_close(library);
    }
    return gdn_fail(GDN_UNAVAILABLE, "no Vulkan loader (%s) on this machine", names[0]);
}

#define LOAD(name, look_up, from, who)                                                                                 \
    if (!(vk->name = (PFN_vk##name)vk->look_up(from, "vk" #name)))                                                     \
        return gdn_fail(GDN_UNAVAILABLE, "the Vulkan " who " has no vk" #name "; Vulkan 1.2 is needed");
#define OF_INSTANCE(name) LOAD(name, GetInstanceProcAddr, instance, "loader")
#define OF_DEVICE(name)   LOAD(name, GetDeviceProcAddr, device, "driver")

gdn_status gdn_vulkan_load_instance_functions(gdn_vulkan_functions *vk, VkInstance instance)
{
    GDN_VULKAN_INSTANCE_FUNCTIONS(OF_INSTANCE)
    return GDN_OK;
}

gdn_status gdn_vulkan_load_device_functions(gdn_vulkan_functions *vk, VkDevice device)
{
    GDN_VULKAN_DEVICE_FUNCTIONS(OF_DEVICE)
    return GDN_OK;
}

gdn_status gdn_vulkan_instance_open(PFN_vkGetInstanceProcAddr get, gdn_vulkan_functions *vk, VkInstance *instance)
{
    *vk = (gdn_vulkan_functions){ .GetInstanceProcAddr = get };
    *instance = VK_NULL_HANDLE;
    vk->CreateInstance = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    PFN_vkEnumerateInstanceVersion version_of = (PFN_vkEnumerateInstanceVersion)get(NULL, "vkEnumerateInstanceVersion");
    uint32_t version = 0;
    if (!vk->CreateInstance || !version_of || version_of(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2)
        return gdn_fail(GDN_UNAVAILABLE, "the Vulkan loader offers version %u.%u; 1.2 is needed",
                        (unsigned)VK_API_VERSION_MAJOR(version), (unsigned)VK_API_VERSION_MINOR(version));
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pEngineName = "libgdn",
        .engineVersion = gdn_version(),
        .apiVersion = version < VK_API_VERSION_1_3 ? VK_API_VERSION_1_2 : VK_API_VERSION_1_3,
    };
    const VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                        .pApplicationInfo = &application };
    VkResult result = vk->CreateInstance(&info, NULL, instance);
    if (result != VK_SUCCESS) {
        *instance = VK_NULL_HANDLE;
        return gdn_vulkan_fail(NULL, result, "vkCreateInstance");
    }
    gdn_status status = gdn_vulkan_load_instance_functions(vk, *instance);
    if (status && vk->DestroyInstance) {
        vk->DestroyInstance(*instance, NULL);
        *instance = VK_NULL_HANDLE;
    }
    return status;
}

/* ---- Physical devices ------------------------------------------------------------------------------ */

/* Sets *found to 1 if the device has the extension. */
static gdn_status find_extension(const gdn_vulkan_functions *vk, VkPhysicalDevice physical, const char *name,
                                 int *found)
{
    uint32_t n = 0;
    VkExtensionProperties *list = NULL;
    VkResult result = vk->EnumerateDeviceExtensionProperties(physical, NULL, &n, NULL);
    if (result == VK_SUCCESS && n) {
        if (!(list = calloc(n, sizeof *list)))
            return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a list of %u extensions", (unsigned)n);
        result = vk->EnumerateDeviceExtensionProperties(physical, NULL, &n, list);
        for (uint32_t i = 0; result >= 0 && i < n; i++) *found |= !strcmp(list[i].extensionName, name);
        free(list);
    }
    return result >= 0 ? GDN_OK : gdn_vulkan_fail(NULL, result, "vkEnumerateDeviceExtensionProperties");
}

static int find_queue_family(const gdn_vulkan_functions *vk, VkPhysicalDevice physical, uint32_t *family)
{
    VkQueueFamilyProperties list[32];
    uint32_t n = 32;
    vk->GetPhysicalDeviceQueueFamilyProperties(physical, &n, list);
    for (uint32_t i = 0; i < n; i++)
        if (list[i].queueCount && (list[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
            *family = i;
            return 1;
        }
    return 0;
}

/* The smallest subgroup size that holds the eight lanes that share value channels. On some GPUs a lane has the more
 * registers the fewer lanes a subgroup has. 0 if no size can be required. */
static uint32_t choose_subgroup(const VkPhysicalDeviceSubgroupSizeControlProperties *sizes)
{
    uint32_t size = sizes->minSubgroupSize;
    if (!(sizes->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) || !size) return 0;
    while (size < 8) size *= 2;
    const uint32_t lanes = size < 32 ? 32 : size; /* of a workgroup */
    return size <= sizes->maxSubgroupSize && lanes / size <= sizes->maxComputeWorkgroupSubgroups ? size : 0;
}

/* The 32-bit registers that a lane can use without losing much occupancy. Vulkan does not report them.
 *   NVIDIA, AMD     168 of 255: leaves room for three times as many subgroups as 255 registers
 *   Intel           4 KiB for the lanes of a subgroup together
 *   other GPUs      64
 *   CPU drivers     no limit: they keep a lane's values in memory, and the processor prefetches by itself */
gdn_status gdn_vulkan_find_registers(gdn_vulkan_traits *t)
{
    enum { NVIDIA = 0x10de, AMD = 0x1002, INTEL = 0x8086 };
    int registers = t->type == VK_PHYSICAL_DEVICE_TYPE_CPU       ? 0
                    : t->vendor == NVIDIA || t->vendor == AMD    ? 168
                    : t->vendor == INTEL && t->subgroup_size > 8 ? (int)(1024 / t->subgroup_size)
                    : t->vendor == INTEL                         ? 128
                                                                 : 64;
    const gdn_status status = gdn_environment_number("GDN_VULKAN_REGISTERS", 0, 1024, &registers);
    t->registers = (uint32_t)registers;
    return status;
}

gdn_status gdn_vulkan_read_traits(const gdn_vulkan_functions *vk, VkPhysicalDevice physical, gdn_vulkan_traits *t)
{
    *t = (gdn_vulkan_traits){ .physical = physical };
    VkPhysicalDeviceProperties basic;
    vk->GetPhysicalDeviceProperties(physical, &basic);
    if (basic.apiVersion < VK_API_VERSION_1_2) /* the structs below need 1.2 */
        return gdn_fail(GDN_UNSUPPORTED, "%s is of Vulkan %u.%u; 1.2 is needed", basic.deviceName,
                        (unsigned)VK_API_VERSION_MAJOR(basic.apiVersion),
                        (unsigned)VK_API_VERSION_MINOR(basic.apiVersion));

    int sizes = basic.apiVersion >= VK_API_VERSION_1_3, fmas = 0;
    gdn_status status;
    if ((status = find_extension(vk, physical, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, &sizes)) ||
        (status = find_extension(vk, physical, VK_KHR_SHADER_FMA_EXTENSION_NAME, &fmas)))
        return status;
    VkPhysicalDeviceSubgroupSizeControlProperties subgroups = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES
    };
    VkPhysicalDeviceVulkan12Properties p12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES,
                                               .pNext = sizes ? &subgroups : NULL };
    VkPhysicalDeviceVulkan11Properties p11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
                                               .pNext = &p12 };
    VkPhysicalDeviceProperties2 p2 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &p11 };
    vk->GetPhysicalDeviceProperties2(physical, &p2);

    VkPhysicalDeviceSubgroupSizeControlFeatures size_control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES
    };
    VkPhysicalDeviceShaderFmaFeaturesKHR fma = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FMA_FEATURES_KHR,
                                                 .pNext = sizes ? &size_control : NULL };
    VkPhysicalDeviceVulkan12Features f12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                             .pNext = fmas ? (void *)&fma : fma.pNext };
    VkPhysicalDeviceVulkan11Features f11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                             .pNext = &f12 };
    VkPhysicalDeviceFeatures2 f2 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f11 };
    vk->GetPhysicalDeviceFeatures2(physical, &f2);

    if (!f12.bufferDeviceAddress || !f12.timelineSemaphore || !f2.features.shaderInt64)
        return gdn_fail(GDN_UNSUPPORTED, "%s has no %s", basic.deviceName,
                        !f12.bufferDeviceAddress ? "bufferDeviceAddress"
                        : !f12.timelineSemaphore ? "timelineSemaphore"
                                                 : "shaderInt64");
    if (!find_queue_family(vk, physical, &t->queue_family))
        return gdn_fail(GDN_UNSUPPORTED, "%s has no queue with compute", basic.deviceName);

    (void)snprintf(t->about.name, sizeof t->about.name, "%.120s", basic.deviceName);
    t->type = basic.deviceType;
    t->vendor = basic.vendorID;
    t->id = basic.deviceID;
    t->driver_version = basic.driverVersion;
    memcpy(t->cache_uuid, basic.pipelineCacheUUID, VK_UUID_SIZE);
    memcpy(t->device_uuid, p11.deviceUUID, VK_UUID_SIZE);
    memcpy(t->driver_uuid, p11.driverUUID, VK_UUID_SIZE);
    const uint32_t chosen = size_control.subgroupSizeControl ? choose_subgroup(&subgroups) : 0;
    t->subgroup_size = chosen ? chosen : p11.subgroupSize;
    t->required_size = chosen != 0;
    t->max_allocation = p11.maxMemoryAllocationSize;
    t->shuffle = (p11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                 (p11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    t->full_subgroups = size_control.subgroupSizeControl && size_control.computeFullSubgroups;
    t->float64 = (int)f2.features.shaderFloat64;
    t->storage16 = (int)f11.storageBuffer16BitAccess;
    t->shader_fma = fmas && fma.shaderFmaFloat32;
    t->denorm_preserve = (int)p12.shaderDenormPreserveFloat32;
    t->denorm_flush = (int)p12.shaderDenormFlushToZeroFloat32;
    t->denorm_alone = p12.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
    t->inf_nan_preserve = (int)p12.shaderSignedZeroInfNanPreserveFloat32;
    t->round_to_even = (int)p12.shaderRoundingModeRTEFloat32;
    VkPhysicalDeviceMemoryProperties memory;
    vk->GetPhysicalDeviceMemoryProperties(physical, &memory);
    for (uint32_t i = 0; i < memory.memoryHeapCount; i++)
        if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
            t->about.memory_bytes += memory.memoryHeaps[i].size;
    return GDN_OK;
}

/* The order of the list: hardware GPUs before software. */
static int rank(const gdn_vulkan_traits *t)
{
    switch (t->type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 4;
    default: return 3;
    }
}

gdn_status gdn_vulkan_list_devices(const gdn_vulkan_functions *vk, VkInstance instance, gdn_vulkan_traits **out,
                                   uint32_t *n_out)
{
    VkPhysicalDevice physical[64];
    uint32_t n = 64, kept = 0;
    gdn_status status = GDN_OK;
    *out = NULL;
    *n_out = 0;
    VkResult result = vk->EnumeratePhysicalDevices(instance, &n, physical);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return gdn_vulkan_fail(NULL, result, "vkEnumeratePhysicalDevices");
    if (!n) return gdn_fail(GDN_UNAVAILABLE, "the Vulkan loader knows no device");
    gdn_vulkan_traits *traits = calloc(n, sizeof *traits);
    if (!traits) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a list of %u devices", (unsigned)n);
    for (uint32_t i = 0; i < n; i++) {
        gdn_vulkan_traits t;
        gdn_status one = gdn_vulkan_read_traits(vk, physical[i], &t);
        if (one == GDN_OUT_OF_MEMORY) { /* a shorter list would stay */
            free(traits);
            return one;
        }
        if (one) {
            status = one;
            continue;
        }
        uint32_t at = kept++;
        for (; at && rank(&traits[at - 1]) > rank(&t); at--) traits[at] = traits[at - 1];
        traits[at] = t;
    }
    if (!kept) {
        free(traits);
        return status;
    }
    *out = traits;
    *n_out = kept;
    return GDN_OK;
}

/* ---- The process's list ---------------------------------------------------------------------------- */

static gdn_vulkan_catalogue catalogue;

static gdn_status fill_catalogue(void)
{
    static PFN_vkGetInstanceProcAddr get;
    gdn_vulkan_catalogue *c = &catalogue;
    gdn_status status;
    if ((!get && (status = open_loader(&get))) || (status = gdn_vulkan_instance_open(get, &c->vk, &c->instance)))
        return status;
    if ((status = gdn_vulkan_list_devices(&c->vk, c->instance, &c->traits, &c->n)))
        c->vk.DestroyInstance(c->instance, NULL);
    return status;
}

gdn_status gdn_vulkan_count(uint32_t *n)
{
    static gdn_mutex lock = GDN_MUTEX_INIT;
    gdn_mutex_lock(&lock);
    const gdn_status status = catalogue.n ? GDN_OK : fill_catalogue();
    *n = catalogue.n;
    gdn_mutex_unlock(&lock);
    return status;
}

const gdn_vulkan_catalogue *gdn_vulkan_catalogue_get(void) { return &catalogue; }
