/* The Vulkan backend's internal interface: from the loader to a device that can run kernels.
 *
 *   loader.c     the loader library, instances, function tables, the process's list of devices
 *   device.c     opening a device: ours, or the caller's
 *   queue.c      command buffers of our own queue, submission, bounded waits, what the device reports
 *   memory.c     buffers, and the copies of gdn_buffer_read() and gdn_buffer_write()
 *   pipelines.c  pipelines made on first use, the pipeline cache
 *   shaders.c    SPIR-V, and the float controls that a device supports
 *   probe.c      tests a device's arithmetic, and so finds its implementations
 *   record.c     what every dispatch has in common
 *   dispatch_<kernel>.c, backend.c */
#ifndef GDN_VULKAN_DEVICE_H
#define GDN_VULKAN_DEVICE_H

#include "core/backend.h"
#include "gdn/vulkan.h"
#include "gpu/context.h"
#include "gpu/plan.h"
#include "vulkan/functions.h"
#include "vulkan/push.h"

_Static_assert(sizeof(void *) == 8, "a VkBuffer travels in gdn_span.data, which takes 64-bit pointers");

/* Properties and features of a physical device. */
typedef struct gdn_vulkan_traits {
    VkPhysicalDevice physical;
    VkPhysicalDeviceType type;
    gdn_gpu_about about;
    uint32_t vendor, id, driver_version;
    uint8_t cache_uuid[VK_UUID_SIZE], device_uuid[VK_UUID_SIZE], driver_uuid[VK_UUID_SIZE];
    uint32_t queue_family;   /* the first with compute                                               */
    uint32_t subgroup_size;  /* of pipelines with shuffles                                           */
    int required_size;       /* 1: pipelines must require that size: the device has several          */
    uint64_t max_allocation; /* bytes                                                                */
    uint32_t registers;      /* per lane, for which gated_delta_net is tuned; 0: no limit            */
    int shuffle;             /* subgroup shuffles in compute shaders                                 */
    int full_subgroups;      /* pipelines can require full subgroups                                 */
    int float64, storage16;
    int shader_fma; /* VK_KHR_shader_fma with binary32: an fma that is fused by definition  */
    int denorm_preserve, denorm_flush, inf_nan_preserve, round_to_even; /* float controls for binary32 */
    int denorm_alone; /* the first two may be set for binary32 without binary64               */
} gdn_vulkan_traits;

enum { GDN_VULKAN_RING = 8, GDN_VULKAN_STAGING_BYTES = 1 << 20 };

typedef struct gdn_vulkan_buffer {
    gdn_gpu_buffer record; /* if a program created it */
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    uint64_t bytes;
    void *mapped; /* NULL if the host cannot access it */
} gdn_vulkan_buffer;

typedef struct gdn_vulkan_pipeline gdn_vulkan_pipeline;

typedef struct gdn_vulkan_device {
    gdn_gpu_context gpu;
    gdn_vulkan_functions vk;
    gdn_vulkan_traits traits;
    VkInstance instance;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    int own_instance, own_device;
    void (*lock)(void *user);
    void (*unlock)(void *user);
    void *lock_user;
    VkPhysicalDeviceMemoryProperties memory;

    /* queue.c */
    VkCommandPool pool;
    VkCommandBuffer ring[GDN_VULKAN_RING];
    uint64_t ring_value[GDN_VULKAN_RING]; /* of the timeline, when the command buffer is free again */
    uint32_t ring_next;
    VkSemaphore timeline;
    uint64_t submitted; /* last value that will be signalled */
    _Atomic int lost;   /* gdn_poll() reads it on any thread */

    /* memory.c */
    gdn_vulkan_buffer staging, bad; /* bad: GDN_BAD_WORDS words that shaders set */
    gdn_vulkan_buffer params;       /* a parameter block for each command buffer of the ring */

    /* pipelines.c */
    VkPipelineLayout layout;
    VkPipelineCache cache;
    gdn_vulkan_pipeline *pipelines;
    uint64_t n_uses; /* of pipelines */
    uint64_t (*cache_load)(void *user, void *data, uint64_t capacity);
    void (*cache_save)(void *user, const void *data, uint64_t bytes);
    void *cache_user;
} gdn_vulkan_device;

/* ---- loader.c ---- */
/* The process's own instance and its devices, best first. They stay as they are once gdn_vulkan_count() has succeeded.
 */
enum { GDN_VULKAN_MAX_DEVICES = 64 };
typedef struct gdn_vulkan_catalogue {
    gdn_vulkan_functions vk;
    VkInstance instance;
    uint32_t n;
    gdn_vulkan_traits *traits;
} gdn_vulkan_catalogue;
/* Makes the list if there is none; for gdn_gpu_driver. */
gdn_status gdn_vulkan_count(uint32_t *n);
const gdn_vulkan_catalogue *gdn_vulkan_catalogue_get(void);

/* Opens an instance of our own behind the given loader, and lists its usable devices (malloc), best first. */
gdn_status gdn_vulkan_instance_open(PFN_vkGetInstanceProcAddr get, gdn_vulkan_functions *vk, VkInstance *instance);
gdn_status gdn_vulkan_list_devices(const gdn_vulkan_functions *vk, VkInstance instance, gdn_vulkan_traits **traits,
                                   uint32_t *n);
gdn_status gdn_vulkan_load_instance_functions(gdn_vulkan_functions *vk, VkInstance instance);
gdn_status gdn_vulkan_load_device_functions(gdn_vulkan_functions *vk, VkDevice device);
/* GDN_UNSUPPORTED with a text if the device lacks what the backend requires. */
gdn_status gdn_vulkan_read_traits(const gdn_vulkan_functions *vk, VkPhysicalDevice physical, gdn_vulkan_traits *traits);
/* Sets traits->registers, from GDN_VULKAN_REGISTERS if that is set. */
gdn_status gdn_vulkan_find_registers(gdn_vulkan_traits *traits);

/* ---- device.c ---- */
/* For gdn_gpu_driver: device is a gdn_vulkan_device, native a gdn_vulkan_desc or NULL. */
gdn_status gdn_vulkan_device_open(void *device, const gdn_context *ctx, uint32_t index, const void *native);
void gdn_vulkan_device_close(void *device);
/* Makes a status and text of a VkResult: "vkCreateBuffer returned VK_ERROR_...". dev may be NULL; records a lost
 * device. */
gdn_status gdn_vulkan_fail(gdn_vulkan_device *dev, VkResult result, const char *call);
void *gdn_vulkan_host_alloc(const gdn_vulkan_device *dev, uint64_t bytes);
void gdn_vulkan_host_free(const gdn_vulkan_device *dev, void *memory);

/* ---- queue.c ---- */
gdn_status gdn_vulkan_queue_open(gdn_vulkan_device *dev);
void gdn_vulkan_queue_close(gdn_vulkan_device *dev);
gdn_status gdn_vulkan_begin(gdn_vulkan_device *dev, VkCommandBuffer *commands); /* waits for a free command buffer */
gdn_status gdn_vulkan_submit(gdn_vulkan_device *dev, VkCommandBuffer commands);
gdn_status gdn_vulkan_wait(gdn_vulkan_device *dev); /* for everything submitted */
gdn_status gdn_vulkan_take_report(void *device);

/* ---- memory.c ---- */
gdn_status gdn_vulkan_memory_open(gdn_vulkan_device *dev);
void gdn_vulkan_memory_close(gdn_vulkan_device *dev);
gdn_status gdn_vulkan_write(void *device, const gdn_span *span, uint64_t offset, const void *source, uint64_t bytes);
gdn_status gdn_vulkan_read(void *device, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes);
/* Memory of the backend's own. HOST and UPLOAD are host-visible and coherent. The host reads HOST. It only writes
 * UPLOAD, which is device memory where the host can access that. */
enum { GDN_VULKAN_MEMORY_DEVICE, GDN_VULKAN_MEMORY_HOST, GDN_VULKAN_MEMORY_UPLOAD };
gdn_status gdn_vulkan_allocate(gdn_vulkan_device *dev, uint64_t bytes, int memory, gdn_vulkan_buffer *buffer);
void gdn_vulkan_release(gdn_vulkan_device *dev, gdn_vulkan_buffer *buffer);
/* The device address of an operand; 0 if it is absent. */
uint64_t gdn_vulkan_address(const gdn_vulkan_device *dev, const void *buffer);

/* ---- shaders.c ---- */
/* The shader files: one per kernel, and the probe's. Each has several variants. */
typedef enum gdn_vulkan_kernel {
    GDN_VULKAN_gated_delta_net = GDN_KERNEL_gated_delta_net,
    GDN_VULKAN_ssm_conv = GDN_KERNEL_ssm_conv,
    GDN_VULKAN_set_rows = GDN_KERNEL_set_rows,
    GDN_VULKAN_probe,
    GDN_VULKAN_KERNEL_COUNT
} gdn_vulkan_kernel;
const char *gdn_vulkan_kernel_name(gdn_vulkan_kernel kernel); /* "set_rows", "probe" */
typedef struct gdn_vulkan_code {
    const uint32_t *words;
    size_t n;
} gdn_vulkan_code;
/* One variant; general is for gated_delta_net only. */
gdn_vulkan_code gdn_vulkan_shader(gdn_vulkan_kernel kernel, int general, int soft_fma, int subgroup, int storage16);
/* The words that gdn_vulkan_fit() may add to the code. */
enum { GDN_VULKAN_CONTROL_WORDS = 3 * (2 + 4) + 2 + 4 };
/* Copies `code` to `to` and adds what the device supports: denorm-preserve, or denorm-flush-to-zero at GDN_EXACT_FTZ;
 * signed-zero-inf-nan-preserve; round-to-even; its own fused multiply-add. Returns the number of words. */
size_t gdn_vulkan_fit(const gdn_vulkan_traits *traits, uint32_t level, gdn_vulkan_code code, uint32_t *to);

/* ---- pipelines.c ---- */
gdn_status gdn_vulkan_pipelines_open(gdn_vulkan_device *dev);
void gdn_vulkan_pipelines_close(gdn_vulkan_device *dev);
/* Constant 0 is the workgroup's size. The constant after a plan's constants tells whether arithmetic flushes. */
enum { GDN_VULKAN_CONSTANTS = GDN_PLAN_CONSTANTS };
/* general: as for gdn_vulkan_shader(). */
gdn_status gdn_vulkan_pipeline_get(gdn_vulkan_device *dev, gdn_vulkan_kernel kernel, int general,
                                   const uint32_t constants[GDN_VULKAN_CONSTANTS], gdn_stream stream,
                                   VkPipeline *pipeline);
/* The same for a given implementation and level, for the probe. The pipeline is not kept. */
gdn_status gdn_vulkan_pipeline_make(gdn_vulkan_device *dev, gdn_vulkan_kernel kernel, int general,
                                    const gdn_gpu_implementation *of, uint32_t level,
                                    const uint32_t constants[GDN_VULKAN_CONSTANTS], VkPipeline *pipeline);

/* A hash of the device, its driver, and what affects shader code; see gdn_gpu_driver. */
uint64_t gdn_vulkan_identity(const gdn_vulkan_device *dev);

/* ---- probe.c ---- */
gdn_status gdn_vulkan_probe(void *device, gdn_gpu_implementations *variants);

/* ---- record.c ---- */
typedef struct gdn_vulkan_dispatch {
    VkPipeline pipeline;
    uint64_t n_items;
    int after_previous;  /* 1: reads what the previous dispatch wrote */
    int32_t most_tokens; /* as in gdn_vulkan_push */
} gdn_vulkan_dispatch;
/* Records a call on `stream`, or on our queue if that is NULL. A call has the parameter block, an optional zeroed table
 * in the workspace, dispatches, and the end, which submits on our queue. */
gdn_status gdn_vulkan_run(gdn_vulkan_device *dev, const gdn_region *workspace, const void *params, size_t params_bytes,
                          uint64_t zeroed_bytes, const gdn_vulkan_dispatch *dispatches, int n, gdn_stream stream);
gdn_gpu_device gdn_vulkan_gpu(const gdn_vulkan_device *dev); /* for gpu/plan.h */
/* Refuses the plan if the device lacks 16-bit storage. */
void gdn_vulkan_need_storage16(const gdn_vulkan_device *dev, gdn_plan *plan);
/* Lanes of a workgroup whose lanes are independent. A CPU driver runs workgroups one after another on each thread, so
 * the smallest are best there. */
static inline uint32_t gdn_vulkan_lanes(const gdn_vulkan_device *dev)
{
    return dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 8 : 64;
}

/* llvmpipe (Mesa's CPU driver, for example 22.3) leaves the loops of an invocation after 65,535 iterations in total,
 * without an error. So on devices of type CPU a call is refused that could take more than this. */
enum { GDN_VULKAN_CPU_ITERATIONS = 65535 - 256 };

/* ---- dispatch_<kernel>.c ---- */
enum { GDN_VULKAN_ROWS_PIECE = 1024 }; /* columns of a workgroup of set_rows */
/* The most tokens of a sequence that a call of gated_delta_net can have; -1 if it cannot run even without a token. */
int32_t gdn_vulkan_most_tokens(const gdn_vulkan_device *dev, const gdn_gated_delta_net_call *p, int general);
/* At least the loop iterations of an invocation of ssm_conv. */
int64_t gdn_vulkan_conv_iterations(const gdn_ssm_conv_call *p, const gdn_plan *plan);
void gdn_vulkan_plan_gated_delta_net(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_vulkan_run_gated_delta_net(void *device, const gdn_problem *problem, const gdn_plan *plan,
                                          gdn_stream stream);
void gdn_vulkan_plan_ssm_conv(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_vulkan_run_ssm_conv(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream);
void gdn_vulkan_plan_set_rows(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_vulkan_run_set_rows(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream);

#endif
