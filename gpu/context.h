/* What the contexts of all devices share: lists, opening and closing, implementations found by a probe, buffers for
 * programs. A backend's table holds these functions; its gdn_gpu_driver holds what is specific to it. */
#ifndef GDN_GPU_CONTEXT_H
#define GDN_GPU_CONTEXT_H

#include "core/backend.h"
#include "gpu/self_test.h"
#include "numerics/float_env.h"

/* An implementation: a method of doing arithmetic on a device, and whether it gives the reference's bits. */
typedef struct gdn_gpu_implementation {
    char name[GDN_NAME_MAX];
    char reason[GDN_REASON_MAX]; /* why it is not exact, or "" */
    int exact;                   /* at GDN_EXACT; in a context, at its level */
    uint32_t levels;             /* as in gdn_implementation_info */
    int soft_fma, subgroup;      /* Vulkan: which shader variant */
} gdn_gpu_implementation;

enum { GDN_GPU_MAX_IMPLEMENTATIONS = 4 };
typedef struct gdn_gpu_implementations { /* best first */
    uint32_t n;
    gdn_gpu_implementation list[GDN_GPU_MAX_IMPLEMENTATIONS];
} gdn_gpu_implementations;

/* The record of a program's buffer. A backend's own record begins with it. */
typedef struct gdn_gpu_buffer {
    struct gdn_gpu_buffer *next;
    void *data; /* as in the program's span */
} gdn_gpu_buffer;

/* The description of a device for programs. */
typedef struct gdn_gpu_about {
    char name[GDN_NAME_MAX * 2];
    uint64_t memory_bytes;
    int emulated; /* as the driver reports itself */
} gdn_gpu_about;

/* The first member of every backend's device, which is a context's state. */
typedef struct gdn_gpu_context {
    gdn_gpu_implementations implementations; /* of the device                    */
    gdn_gpu_implementation implementation;   /* the one that this context runs   */
    uint32_t level;                          /* of this context                  */
    gdn_gpu_buffer *buffers;
    /* Filled in by open: */
    const gdn_gpu_about *about;
    const gdn_context *ctx; /* for its allocator and log; NULL while a device is only described */
    uint64_t timeout_ns;
    gdn_gpu_self_test self_test;
} gdn_gpu_context;

/* What has to be undone after the calls of a driver: the floating-point mode, and what a backend's enter() changes. */
typedef struct gdn_gpu_scope {
    gdn_float_env caller;
    int mode;   /* CUDA: of graph capture       */
    void *pool; /* Metal: the autorelease pool  */
} gdn_gpu_scope;

/* The functions and constants of one backend. Each has its own device type, zeroed before it is opened. */
typedef struct gdn_gpu_driver {
    const char *only;               /* name of the implementation, if all devices have the same single one; else NULL */
    gdn_gpu_implementations *known; /* of each device of the list, once they have been probed; room for all of them   */
    size_t device_bytes, buffer_bytes;
    const char *limit;   /* which limit a refused call exceeds: "2^31 thread blocks or more"  */
    uint32_t rows_piece; /* columns of a thread block of set_rows                             */
    int makes_all;       /* 1: open makes all pipelines and runs the self-test of all */
    int may_flush;       /* 1: the kernels support GDN_EXACT_FTZ where the probe finds that a device flushes */

    gdn_status (*count)(uint32_t *n); /* as in gdn_backend; thread-safe */
    /* Describes a device of the list. */
    const gdn_gpu_about *(*about)(uint32_t index);
    /* native may be NULL. ctx is NULL while a device is only described. Close also undoes a failed open. */
    gdn_status (*open)(void *device, const gdn_context *ctx, uint32_t index, const void *native);
    void (*close)(void *device);
    /* Around each call of the functions below that have a device and a status. NULL: nothing to do. */
    gdn_status (*enter)(void *device, gdn_gpu_scope *scope);
    void (*leave)(void *device, const gdn_gpu_scope *scope);
    /* Finds the implementations. NULL: there is one, `only`, which probe_kernel runs on memory made by allocate. */
    gdn_status (*probe)(void *device, gdn_gpu_implementations *variants);
    gdn_status (*probe_kernel)(void *device, void *memory);
    /* Distinguishes devices and drivers of one name that compile the kernels differently. */
    uint64_t (*identity)(const void *device);
    /* The name of a plan's device kernel; NULL if its number and constants identify the pipeline. */
    const char *(*pipeline_name)(int32_t device_kernel);
    /* The reason for refusing a plan, other than GDN_REFUSED_BLOCKS; NULL if there are no others. */
    void (*explain)(const void *device, const gdn_problem *problem, const gdn_plan *plan, char reason[GDN_REASON_MAX]);
    /* Fills in the record, whose `data` is the span's. release returns 0 if the device may still use the buffer. */
    gdn_status (*allocate)(void *device, uint64_t bytes, gdn_gpu_buffer *buffer);
    int (*release)(void *device, gdn_gpu_buffer *buffer);
    gdn_status (*write)(void *device, const gdn_span *span, uint64_t offset, const void *source, uint64_t bytes);
    gdn_status (*read)(void *device, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes);
    /* Of each kernel. */
    void (*plan[GDN_KERNEL_COUNT])(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
    gdn_status (*run[GDN_KERNEL_COUNT])(void *device, const gdn_problem *problem, const gdn_plan *plan,
                                        gdn_stream stream);
    gdn_status (*wait)(void *device, gdn_stream stream);
    gdn_status (*take_report)(void *device); /* BAD_MAP once per occurrence, DEVICE_LOST permanently. Does not wait. */
} gdn_gpu_driver;

/* For the backend table in core, whose `own` is the gdn_gpu_driver. */
gdn_status gdn_gpu_count_devices(const gdn_backend *backend, uint32_t *n);
gdn_status gdn_gpu_describe_device(const gdn_backend *backend, uint32_t device, gdn_device_info *info);
gdn_status gdn_gpu_describe_implementation(const gdn_backend *backend, uint32_t device, uint32_t index,
                                           gdn_implementation_info *info);
gdn_status gdn_gpu_describe_context(const gdn_context *ctx, gdn_device_info *device,
                                    gdn_implementation_info *implementation);
gdn_status gdn_gpu_open(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation);
void gdn_gpu_close(gdn_context *ctx);
void gdn_gpu_describe_plan(const gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan,
                           gdn_capability *capability);
gdn_status gdn_gpu_buffer_create(gdn_context *ctx, uint64_t bytes, gdn_span *span);
gdn_status gdn_gpu_buffer_destroy(gdn_context *ctx, const gdn_span *span);
gdn_status gdn_gpu_buffer_write(gdn_context *ctx, const gdn_span *span, uint64_t offset, const void *source,
                                uint64_t bytes);
gdn_status gdn_gpu_buffer_read(gdn_context *ctx, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes);
void gdn_gpu_plan(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_gpu_run(gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream);
gdn_status gdn_gpu_synchronize(gdn_context *ctx, gdn_stream stream);
gdn_status gdn_gpu_poll(gdn_context *ctx);

/* All of them, for a table, with the backend's number, name and driver. */
#define GDN_GPU_BACKEND(number, word, driver)                                                                          \
    .id = number, .name = word, .own = driver, .count_devices = gdn_gpu_count_devices,                                 \
    .describe_device = gdn_gpu_describe_device, .describe_implementation = gdn_gpu_describe_implementation,            \
    .describe_context = gdn_gpu_describe_context, .open = gdn_gpu_open, .close = gdn_gpu_close,                        \
    .buffer_create = gdn_gpu_buffer_create, .buffer_destroy = gdn_gpu_buffer_destroy,                                  \
    .buffer_write = gdn_gpu_buffer_write, .buffer_read = gdn_gpu_buffer_read, .plan = gdn_gpu_plan,                    \
    .describe_plan = gdn_gpu_describe_plan, .run = gdn_gpu_run, .synchronize = gdn_gpu_synchronize,                    \
    .poll = gdn_gpu_poll

/* For a driver's probe: adds an implementation and the levels at which it is exact. reason: why it is not exact at
 * GDN_EXACT. */
void gdn_gpu_add_implementation(gdn_gpu_implementations *v, const char *name, int soft_fma, int subgroup,
                                uint32_t levels, const char *reason);
/* For a driver: waits until is_done() is 1 or sets a failure. It polls at growing intervals, up to the context's
 * timeout. A wait that times out changes nothing. */
gdn_status gdn_gpu_wait_for(const gdn_gpu_context *dev, int (*is_done)(void *user, gdn_status *status), void *user);
gdn_status gdn_gpu_timed_out(const gdn_gpu_context *dev);
/* For a driver's allocate: returns the failure just reported, with the requested size prepended to its text. */
gdn_status gdn_gpu_no_buffer(gdn_status status, uint64_t bytes);
/* The implementation's name for a capability: the context's, and the plan's variant. */
void gdn_gpu_name_plan(const gdn_context *ctx, const gdn_plan *plan, char name[GDN_NAME_MAX]);

#endif
