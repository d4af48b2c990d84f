/*
 * gdn/vulkan.h - a program's own Vulkan objects with libgdn's Vulkan backend.
 *
 * A program that runs on a device of libgdn's own does not need this header: gdn_context_desc.backend =
 * GDN_BACKEND_VULKAN does that. With this header a program brings its device and queue, records kernels into its own
 * command buffers, keeps the pipeline cache, or chooses a device by name. Needs no Vulkan header: handles are as Vulkan
 * defines them for 64-bit programs.
 *
 *     gdn_vulkan_desc native = GDN_INIT(gdn_vulkan_desc);
 *     native.get_instance_proc_addr = (gdn_vulkan_function)vkGetInstanceProcAddr;
 *     native.instance = instance;  native.physical_device = physical;  native.device = device;
 *     native.queue = queue;        native.queue_family = family;
 *     native.features = GDN_VULKAN_FLOAT64 | GDN_VULKAN_STORAGE_16 | GDN_VULKAN_FULL_SUBGROUPS;
 *                                                    // those of them that the device was created with
 *     gdn_context_desc desc = GDN_INIT(gdn_context_desc);
 *     desc.backend = GDN_BACKEND_VULKAN;  desc.native = &native;
 *     if (gdn_context_create(&desc, &ctx)) fail(gdn_last_error());
 *
 * ---- Buffers ----
 * gdn_span.data and gdn_tensor.data are VkBuffer handles, gdn_span.offset is in bytes from the buffer's start.
 * Every buffer needs VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT and STORAGE_BUFFER_BIT, and memory allocated with
 * VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT. One that is passed as a workspace needs TRANSFER_DST_BIT as well, and
 * one that is passed to gdn_buffer_read() or gdn_buffer_write() TRANSFER_SRC_BIT or TRANSFER_DST_BIT. Buffers of
 * gdn_buffer_create() have all of that. Sharing mode: exclusive to the queue's family, or concurrent.
 *
 * ---- Queue ----
 * With stream = NULL a call records into a command buffer of the context, submits it to the queue and returns.
 * gdn_synchronize() waits on the host; gdn_vulkan_timeline() lets other submissions wait on the device.
 *
 * gdn_stream is a VkCommandBuffer in the recording state, outside a render pass, of a family with compute. A call
 * records into it and never submits it. It leaves another compute pipeline and other push constants bound, and no
 * descriptor set. The program may submit the recording any number of times. Each execution reads the maps and the
 * tensors as they are at that time. Nothing else that runs at the same time may use the call's workspace.
 *
 * Barriers. Calls are ordered among themselves. Each begins with a memory barrier from the compute and transfer stages
 * to the same stages (with stream = NULL: to those that it uses). The program itself must
 *   - before: make what other stages wrote to the operands available to COMPUTE_SHADER (SHADER_READ, SHADER_WRITE),
 *     and earlier accesses to the workspace to TRANSFER (TRANSFER_WRITE);
 *   - after: make COMPUTE_SHADER / SHADER_WRITE available to its own readers. Writes are already made available to
 *     the host (HOST_READ), so after a fence the host may read mapped memory.
 *
 * gdn_synchronize() waits for the context's own queue only. For a command buffer of the program, wait for the program's
 * fence; gdn_poll() then reports what the device found.
 *
 * ---- Maps ----
 * Maps are in memory that the device can read; a shader reads them. To write them without a wait, record
 * vkCmdUpdateBuffer() (up to 64 KiB) in front of the call, into a buffer with TRANSFER_DST_BIT. The call's first
 * barrier is enough. If an earlier call reads the same buffer, record a barrier from its shader to the transfer first.
 * Host-visible memory works too: write it before the submission, and do not change it until the submission is done.
 *
 * A shader that reads a value out of range skips that sequence (set_rows: that row) and writes nothing out of range.
 * gdn_synchronize() or gdn_poll() reports GDN_BAD_MAP. For a bad value in state_dst,
 * log.commit or checkpoints.dst only that state is not written.
 * Where seq_start descends, the shader may skip other sequences of the call too. A shader cannot check that no slot is
 * written twice: which write remains is then undefined.
 *
 * ---- Pipelines ----
 * The first call that needs a pipeline (a head size, a gate, an alignment) creates it. The context keeps pipelines of
 * the program's command buffers until it is destroyed, and of the others the 32 most recently used. Creating a pipeline
 * allocates memory, and its self-test (below) allocates and frees a buffer. To avoid both in later calls, run every
 * shape once beforehand, on any data.
 *
 * On an exact implementation each new pipeline runs its self-test vectors, once in a process for a device and driver
 * (GDN_KNOWN_ANSWERS, see gdn_context_create()). The self-test is a small submission to the queue, and the call waits
 * for it. A call that records neither submits nor waits; gdn_synchronize(ctx, NULL) then runs the self-test. It returns
 * UNSUPPORTED where the result is wrong. At most 128 pipelines may wait for their self-test; a call that needs one more
 * is refused. A program that only records calls gdn_synchronize(ctx, NULL) once, when its queue can run.
 */
#ifndef GDN_VULKAN_H
#define GDN_VULKAN_H

#include "gdn/gdn.h"

/* Any function, to be cast to its own type: what vkGetInstanceProcAddr is, and returns. */
typedef void (*gdn_vulkan_function)(void);

/* Called around vkQueueSubmit on the program's queue, which Vulkan allows only one thread at a time. */
typedef void (*gdn_vulkan_lock_fn)(void *user);

/* The saved pipeline cache: copies at most `capacity` bytes to data and returns how many there are; called with
 * capacity 0 first. 0 = none. Data from another device, driver or libgdn are recognised and not used. */
typedef uint64_t (*gdn_vulkan_cache_load_fn)(void *user, void *data, uint64_t capacity);
/* Takes the pipeline cache, when a context that made pipelines is destroyed. */
typedef void (*gdn_vulkan_cache_save_fn)(void *user, const void *data, uint64_t bytes);

/* Features that the program's device was created with. */
enum {
    GDN_VULKAN_FLOAT64 = 1,        /* shaderFloat64: the software fma                               */
    GDN_VULKAN_STORAGE_16 = 2,     /* storageBuffer16BitAccess: F16, BF16 and Q8_0 operands         */
    GDN_VULKAN_FULL_SUBGROUPS = 4, /* subgroupSizeControl and computeFullSubgroups: lanes exchange
                                      through shuffles and not through shared memory               */
    GDN_VULKAN_SHADER_FMA = 8      /* VK_KHR_shader_fma with shaderFmaFloat32: an fma that is fused */
};

typedef struct gdn_vulkan_desc {
    uint32_t size;
    uint32_t features;                          /* of `device`: GDN_VULKAN_*                                     */
    gdn_vulkan_function get_instance_proc_addr; /* vkGetInstanceProcAddr; NULL = the system's loader             */

    /* The program's own device: all five, or device = NULL for one of libgdn's. The device must be of Vulkan 1.2
     * with bufferDeviceAddress, timelineSemaphore and shaderInt64 enabled. The objects must outlive the context.
     * gdn_context_desc.device is not used then. */
    void *instance;        /* VkInstance                                                    */
    void *physical_device; /* VkPhysicalDevice                                              */
    void *device;          /* VkDevice                                                      */
    void *queue;           /* VkQueue, with compute                                         */
    uint32_t queue_family;
    uint32_t reserved;
    gdn_vulkan_lock_fn lock_queue; /* both or neither; neither: this thread has the queue to itself */
    gdn_vulkan_lock_fn unlock_queue;
    void *lock_user;

    const char *device_name;             /* libgdn's device: the first whose name contains this; NULL: by
                                            gdn_context_desc.device                                       */
    gdn_vulkan_cache_load_fn cache_load; /* each may be NULL                                              */
    gdn_vulkan_cache_save_fn cache_save;
    void *cache_user;
} gdn_vulkan_desc;
#define GDN_DEFAULTS_gdn_vulkan_desc

/* The timeline semaphore (VkSemaphore) of the context's submissions, and the value that it has when everything queued
 * so far is done. It is for a program whose own submissions need the results of calls with stream = NULL. A submission
 * that waits for that value, in the stages that read, needs no further barrier, and nothing waits on the host. The
 * semaphore lives as long as the context; only the library signals it. GDN_UNSUPPORTED on other backends. */
GDN_API gdn_status gdn_vulkan_timeline(gdn_context *ctx, void **semaphore, uint64_t *value);

#endif /* GDN_VULKAN_H */
