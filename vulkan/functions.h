/* The Vulkan functions that the backend calls. Each device has its own table; there are no global pointers. So the
 * library's own instance and a caller's may be open together, behind different loaders. A test can also replace any
 * function for one device through get_instance_proc_addr. (volk, for comparison, has one set of pointers per
 * process.) */
#ifndef GDN_VULKAN_FUNCTIONS_H
#define GDN_VULKAN_FUNCTIONS_H

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

/* Declarations of VK_KHR_shader_fma, which is newer than many headers. */
#ifndef VK_KHR_shader_fma
#define VK_KHR_SHADER_FMA_EXTENSION_NAME                          "VK_KHR_shader_fma"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FMA_FEATURES_KHR ((VkStructureType)1000579000)
typedef struct VkPhysicalDeviceShaderFmaFeaturesKHR {
    VkStructureType sType;
    void *pNext;
    VkBool32 shaderFmaFloat16, shaderFmaFloat32, shaderFmaFloat64;
} VkPhysicalDeviceShaderFmaFeaturesKHR;
#endif

#define GDN_VULKAN_INSTANCE_FUNCTIONS(X)                                                                               \
    X(DestroyInstance)                                                                                                 \
    X(EnumeratePhysicalDevices)                                                                                        \
    X(GetPhysicalDeviceProperties)                                                                                     \
    X(GetPhysicalDeviceProperties2)                                                                                    \
    X(GetPhysicalDeviceFeatures2)                                                                                      \
    X(GetPhysicalDeviceMemoryProperties)                                                                               \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                          \
    X(EnumerateDeviceExtensionProperties)                                                                              \
    X(CreateDevice)                                                                                                    \
    X(GetDeviceProcAddr)

#define GDN_VULKAN_DEVICE_FUNCTIONS(X)                                                                                 \
    X(DestroyDevice)                                                                                                   \
    X(GetDeviceQueue)                                                                                                  \
    X(QueueSubmit)                                                                                                     \
    X(CreateCommandPool)                                                                                               \
    X(DestroyCommandPool)                                                                                              \
    X(AllocateCommandBuffers)                                                                                          \
    X(BeginCommandBuffer)                                                                                              \
    X(EndCommandBuffer)                                                                                                \
    X(CreateSemaphore)                                                                                                 \
    X(DestroySemaphore)                                                                                                \
    X(WaitSemaphores)                                                                                                  \
    X(GetSemaphoreCounterValue)                                                                                        \
    X(CreateBuffer)                                                                                                    \
    X(DestroyBuffer)                                                                                                   \
    X(GetBufferMemoryRequirements)                                                                                     \
    X(GetBufferDeviceAddress)                                                                                          \
    X(AllocateMemory)                                                                                                  \
    X(FreeMemory)                                                                                                      \
    X(BindBufferMemory)                                                                                                \
    X(MapMemory)                                                                                                       \
    X(CreateShaderModule)                                                                                              \
    X(DestroyShaderModule)                                                                                             \
    X(CreatePipelineLayout)                                                                                            \
    X(DestroyPipelineLayout)                                                                                           \
    X(CreatePipelineCache)                                                                                             \
    X(DestroyPipelineCache)                                                                                            \
    X(GetPipelineCacheData)                                                                                            \
    X(CreateComputePipelines)                                                                                          \
    X(DestroyPipeline)                                                                                                 \
    X(CmdBindPipeline)                                                                                                 \
    X(CmdPushConstants)                                                                                                \
    X(CmdUpdateBuffer)                                                                                                 \
    X(CmdFillBuffer)                                                                                                   \
    X(CmdCopyBuffer)                                                                                                   \
    X(CmdPipelineBarrier)                                                                                              \
    X(CmdDispatch)

typedef struct gdn_vulkan_functions {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    PFN_vkCreateInstance CreateInstance;
#define X(name) PFN_vk##name name;
    GDN_VULKAN_INSTANCE_FUNCTIONS(X)
    GDN_VULKAN_DEVICE_FUNCTIONS(X)
#undef X
} gdn_vulkan_functions;

#endif
