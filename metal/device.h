/* The Metal backend's internal interface: from the frameworks to a device that can run kernels.
 *
 *   objc.h       the Objective-C runtime and Metal's interface, from C
 *   loader.c     the frameworks, their functions, the process's default device
 *   device.c     opening a device: ours, or the caller's; errors of Metal
 *   library.c    the kernels' source, compiled when a context is created, and their pipelines
 *   queue.c      command buffers of our own, bounded waits, what the device reports
 *   memory.c     buffers, and the copies of gdn_buffer_read() and gdn_buffer_write()
 *   record.c     what every call encodes
 *   dispatch_<kernel>.c, backend.c */
#ifndef GDN_METAL_DEVICE_H
#define GDN_METAL_DEVICE_H

#include "core/backend.h"
#include "gdn/metal.h"
#include "gpu/context.h"
#include "gpu/plan.h"
#include "metal/objc.h"
#include "metal/shape.h"

_Static_assert(sizeof(void *) == 8 && sizeof(unsigned long) == 8,
               "NSUInteger, and int64_t in the kernels' params, have 64 bits");

/* The device kernels: GDN_METAL_<name> is gdn_metal_<name>() of the .metal files. */
// clang-format off
#define GDN_METAL_KERNELS(X)                                                                                \
    X(delta_4) X(delta_4_channel) X(delta_general) X(delta_general_channel)                                 \
    X(delta_general_tree) X(delta_general_channel_tree)                                                     \
    X(delta_4_state16) X(delta_4_channel_state16) X(delta_general_state16) X(delta_general_channel_state16) \
    X(conv_4) X(conv_general) X(conv_tree)                                                                  \
    X(rows_clear) X(rows_enter) X(rows_write)                                                               \
    X(probe_arithmetic)
// clang-format on
typedef enum gdn_metal_kernel {
#define X(name) GDN_METAL_##name,
    GDN_METAL_KERNELS(X)
#undef X
        GDN_METAL_KERNEL_COUNT
} gdn_metal_kernel;

enum { GDN_METAL_RING = 16 };

typedef struct gdn_metal_device {
    gdn_gpu_context gpu;
    const gdn_objc *rt;
    gdn_gpu_about about;
    gdn_id device, queue, library; /* retained, also if the caller's */
    gdn_id pipelines[GDN_METAL_KERNEL_COUNT];
    gdn_id ring[GDN_METAL_RING]; /* our command buffers that may not be done, retained */
    uint32_t ring_next;
    gdn_id bad_buffer; /* shared memory */
    uint32_t *bad;     /* GDN_BAD_WORDS words that kernels set */
    _Atomic int lost;
    gdn_mutex ring_lock; /* gdn_poll() reads the ring on any thread */
} gdn_metal_device;

/* ---- frameworks.c; a build with other libraries than Apple's replaces this file ---- */
/* The libraries with the functions of metal/objc.h. Without the first there is no Metal. NULL after the last. */
enum { GDN_METAL_MAX_FRAMEWORKS = 4 };
extern const char *const gdn_metal_frameworks[GDN_METAL_MAX_FRAMEWORKS];

/* ---- loader.c ---- */
typedef struct gdn_metal_catalogue {
    gdn_objc rt;
    int loaded;    /* the frameworks are present, with or without a device */
    gdn_id device; /* the default device, or NULL */
    gdn_gpu_about about;
} gdn_metal_catalogue;
/* Looks for the default device if there is none; for gdn_gpu_driver. */
gdn_status gdn_metal_count(uint32_t *n);
/* The process's default device. It stays as it is once gdn_metal_count() has succeeded. */
const gdn_metal_catalogue *gdn_metal_catalogue_get(void);
/* GDN_UNSUPPORTED with a text if the device lacks what the kernels need. */
gdn_status gdn_metal_describe(const gdn_objc *rt, gdn_id device, gdn_gpu_about *about);

/* ---- device.c ---- */
/* Fills *dev, which starts as zeros. native may be NULL. close also undoes a failed open. Both run in a pool. */
gdn_status gdn_metal_device_open(gdn_metal_device *dev, const gdn_context *ctx, uint32_t index,
                                 const gdn_metal_desc *native);
void gdn_metal_device_close(gdn_metal_device *dev);
/* Fails because `call` returned nil; error may be nil. */
gdn_status gdn_metal_fail(const gdn_metal_device *dev, gdn_status status, const char *call, gdn_id error);
gdn_status gdn_metal_lost(const gdn_metal_device *dev);

/* ---- library.c ---- */
gdn_status gdn_metal_library_open(gdn_metal_device *dev);
void gdn_metal_library_close(gdn_metal_device *dev);
/* Makes the pipeline on first use. `threads` of a threadgroup are the same at every use of a kernel. */
gdn_status gdn_metal_pipeline_get(gdn_metal_device *dev, gdn_metal_kernel kernel, uint32_t threads, gdn_id *pipeline);

const char *gdn_metal_kernel_name(int32_t device_kernel); /* of a plan, a gdn_metal_kernel: "delta_4" */

/* ---- queue.c ---- */
gdn_status gdn_metal_begin(gdn_metal_device *dev, gdn_id *commands); /* waits for a free slot in the ring */
void gdn_metal_submit(gdn_metal_device *dev, gdn_id commands);
gdn_status gdn_metal_wait(gdn_metal_device *dev); /* for everything submitted */
gdn_status gdn_metal_take_report(void *device);
void gdn_metal_queue_close(gdn_metal_device *dev);

/* ---- memory.c ---- */
gdn_status gdn_metal_memory_open(gdn_metal_device *dev);
void gdn_metal_memory_close(gdn_metal_device *dev);
gdn_status gdn_metal_allocate(gdn_metal_device *dev, uint64_t bytes, gdn_id *buffer);
gdn_status gdn_metal_write(void *device, const gdn_span *span, uint64_t offset, const void *source, uint64_t bytes);
gdn_status gdn_metal_read(void *device, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes);

/* ---- record.c ---- */
enum { GDN_METAL_MAX_BINDINGS = GDN_MAX_REGIONS + 1, GDN_METAL_MAX_GROUPS = INT32_MAX };
typedef struct gdn_metal_binding { /* of buffer i + 1; data NULL: the operand is absent */
    gdn_id data;
    uint64_t offset;
} gdn_metal_binding;
typedef struct gdn_metal_dispatch {
    gdn_metal_kernel kernel;
    const void *params;
    size_t params_bytes;
    uint64_t groups;
    uint32_t threads; /* of a threadgroup */
    uint32_t n_bindings;
    gdn_metal_binding bindings[GDN_METAL_MAX_BINDINGS];
} gdn_metal_dispatch;
/* Runs dispatches on `stream`, or on our own queue if that is NULL. Each reads what the ones before it wrote. */
gdn_status gdn_metal_run(gdn_metal_device *dev, const gdn_metal_dispatch *dispatches, int n, gdn_stream stream);
/* Binds the operands, in the order of their regions, then the workspace if `workspace` is 1, then the words for bad
 * maps.
 * */
void gdn_metal_bind(gdn_metal_dispatch *dispatch, const gdn_metal_device *dev, const gdn_problem *problem,
                    int workspace);
gdn_gpu_device gdn_metal_gpu(void); /* for gpu/plan.h: the same for every device */

/* ---- dispatch_<kernel>.c ---- */
void gdn_metal_plan_gated_delta_net(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_metal_run_gated_delta_net(void *device, const gdn_problem *problem, const gdn_plan *plan,
                                         gdn_stream stream);
void gdn_metal_plan_ssm_conv(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_metal_run_ssm_conv(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream);
void gdn_metal_plan_set_rows(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_metal_run_set_rows(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream);

#endif
