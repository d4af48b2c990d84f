/*
 * gdn/vulkan.h - a program's own Vulkan objects with libgdn's Vulkan backend.
 *
 * Not needed for running on a device of libgdn's own: gdn_context_desc.backend = GDN_BACKEND_VULKAN does that.
 * With this header a program brings its device and queue, records kernels into its own command buffers, keeps
 * the pipeline cache, or chooses a device by name. Needs no Vulkan header: handles are as Vulkan defines them
 * for 64-bit programs.
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
 * With stream = NULL a call is recorded into a command buffer of the context's and submitted to the queue; it returns
 * then. gdn_synchronize() waits on the host, gdn_vulkan_timeline() lets other submissions wait on the device.
 *
 * ---- Recording ----
 * gdn_stream is a VkCommandBuffer in the recording state, outside a render pass, of a family with compute. A call
 * records into it and never submits it. It leaves another compute pipeline and other push constants bound, and
 * no descriptor set. What the call records is complete: it may be submitted again and again, and sees the maps and
 * the tensors as they are then. Its workspace must not be used by anything else that runs at the same time.
 *
 * Barriers. Calls are ordered among themselves: each begins with a memory barrier from the compute and transfer
 * stages to the compute and transfer stages (with stream = NULL: to those that it uses). The program itself must
 *   - before: make what other stages wrote to the operands available to COMPUTE_SHADER (SHADER_READ, SHADER_WRITE),
 *     and earlier accesses to the workspace to TRANSFER (TRANSFER_WRITE);
 *   - after: make COMPUTE_SHADER / SHADER_WRITE available to its own readers. Writes are already made available to
 *     the host (HOST_READ), so after a fence the host may read mapped memory.
 *
 * gdn_synchronize() waits for the context's own queue only: a command buffer of the program is waited for with the
 * program's fence, and gdn_poll() then reports what the device found.
 *
 * ---- Maps ----
 * Maps lie in memory that the device can read, so a call does not read them: a shader does. vkCmdUpdateBuffer() (up to
 * 64 KiB) into a buffer with TRANSFER_DST_BIT, recorded in front of the call, writes them without a wait: the call's
 * first barrier is enough. Where an earlier call reads the same buffer, a barrier from its shader to the transfer comes
 * before. Host-visible memory is as good, if it is written before the submission and left alone until that is done.
 *
 * A value out of range makes its sequence (set_rows: its row) one that is skipped, nothing is written out of range, and
 * GDN_BAD_MAP is reported by gdn_synchronize() or gdn_poll(). A bad value in state_dst is one that is not written.
 * Where seq_start does not ascend, other sequences of the call may be left out too. That no slot is written twice
 * cannot be checked there: which write stays is then not defined.
 *
 * ---- Pipelines ----
 * A pipeline is created at the first call that needs it (a head size, a gate, an alignment). A pipeline of a command
 * buffer of the program is kept until the context is destroyed; of the others the 32 that were used last are kept.
 * Creating one allocates, and its self-test (below) allocates and frees a buffer. A caller that wants neither at a bad
 * moment runs every shape once beforehand, on any data.
 *
 * A new pipeline of an exact implementation is asked for a known answer (GDN_KNOWN_ANSWERS, see gdn_context_create()),
 * unless this process has asked the same device and driver before: a small submission to the queue, for which the call
 * waits. A call that records submits nothing and does not wait; there gdn_synchronize(ctx, NULL) asks, and returns
 * UNSUPPORTED where the answer is wrong. One more than 128 pipelines that wait for that is refused. A program that
 * records only calls it once, when its queue can run.
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
    GDN_VULKAN_FLOAT64        = 1, /* shaderFloat64: the software fma                               */
    GDN_VULKAN_STORAGE_16     = 2, /* storageBuffer16BitAccess: F16, BF16 and Q8_0 operands         */
    GDN_VULKAN_FULL_SUBGROUPS = 4, /* subgroupSizeControl and computeFullSubgroups: lanes exchange
                                      through shuffles and not through shared memory               */
    GDN_VULKAN_SHADER_FMA     = 8  /* VK_KHR_shader_fma with shaderFmaFloat32: an fma that is fused */
};

typedef struct gdn_vulkan_desc {
    uint32_t            size;
    uint32_t            features;               /* of `device`: GDN_VULKAN_*                                     */
    gdn_vulkan_function get_instance_proc_addr; /* vkGetInstanceProcAddr; NULL = the system's loader             */

    /* The program's own device: all five, or device = NULL for one of libgdn's. The device must be of Vulkan 1.2
     * with bufferDeviceAddress, timelineSemaphore and shaderInt64 enabled. The objects must outlive the context.
     * gdn_context_desc.device is not used then. */
    void               *instance;               /* VkInstance                                                    */
    void               *physical_device;        /* VkPhysicalDevice                                              */
    void               *device;                 /* VkDevice                                                      */
    void               *queue;                  /* VkQueue, with compute                                         */
    uint32_t            queue_family;
    uint32_t            reserved;
    gdn_vulkan_lock_fn  lock_queue;             /* both or neither; neither: this thread has the queue to itself */
    gdn_vulkan_lock_fn  unlock_queue;
    void               *lock_user;

    const char         *device_name;            /* libgdn's device: the first whose name contains this; NULL: by
                                                   gdn_context_desc.device                                       */
    gdn_vulkan_cache_load_fn cache_load;        /* each may be NULL                                              */
    gdn_vulkan_cache_save_fn cache_save;
    void               *cache_user;
} gdn_vulkan_desc;
#define GDN_DEFAULTS_gdn_vulkan_desc

/* For a program whose own submissions need what calls with stream = NULL compute: the timeline semaphore (VkSemaphore)
 * of the context's submissions, and the value that it has when everything queued so far is done. A submission that
 * waits for that value, in the stages that read, needs no further barrier, and nothing waits on the host. The semaphore
 * lives as long as the context; only the library signals it. GDN_UNSUPPORTED on other backends. */
GDN_API gdn_status gdn_vulkan_timeline(gdn_context *ctx, void **semaphore, uint64_t *value);

#endif /* GDN_VULKAN_H */
