/* What the contexts of all devices have in common: lists, opening and closing, which implementations a probe has found,
 * buffers for programs. A backend's table has these functions; what only it can do stands in its gdn_gpu_driver. */
#ifndef GDN_GPU_CONTEXT_H
#define GDN_GPU_CONTEXT_H

#include "core/backend.h"
#include "gpu/answers.h"

/* An implementation: a way of doing arithmetic on a device, and whether it gives the reference's bits. */
typedef struct gdn_gpu_variant {
    char name[GDN_NAME_MAX];
    char reason[GDN_REASON_MAX]; /* why it is not exact, or "" */
    int  exact;                  /* at GDN_EXACT; of a context's, at its level */
    uint32_t levels;             /* as in gdn_implementation_info */
    int  soft_fma, subgroup;     /* Vulkan: which of the shaders' variants */
} gdn_gpu_variant;

enum { GDN_GPU_MAX_VARIANTS = 4 };
typedef struct gdn_gpu_variants { /* best first */
    uint32_t        n;
    gdn_gpu_variant list[GDN_GPU_MAX_VARIANTS];
} gdn_gpu_variants;

/* The record of a program's buffer. A backend's own begins with it. */
typedef struct gdn_gpu_buffer {
    struct gdn_gpu_buffer *next;
    void                  *data; /* as in the program's span */
} gdn_gpu_buffer;

/* What a program is told of a device. */
typedef struct gdn_gpu_about {
    char     name[GDN_NAME_MAX * 2];
    uint64_t memory_bytes;
    int      emulated; /* as the driver says of itself */
} gdn_gpu_about;

/* What every backend's device, a context's state, begins with. */
typedef struct gdn_gpu_context {
    gdn_gpu_variants     variants; /* of the device                    */
    gdn_gpu_variant      variant;  /* the one that this context runs   */
    uint32_t             level;    /* at which it runs it              */
    gdn_gpu_buffer      *buffers;
    /* Filled in by open: */
    const gdn_gpu_about *about;
    const gdn_context   *ctx; /* whose allocator and log are used; NULL while a device is only described */
    uint64_t             timeout_ns;
    gdn_gpu_answers      answers;
} gdn_gpu_context;

/* What a backend has of its own. Devices are its own type, zeros before they are opened. */
typedef struct gdn_gpu_driver {
    const char       *only;  /* name of the implementation, where all devices have one and the same; else NULL */
    gdn_gpu_variants *known; /* of each device of the list, once they have been probed; room for all of them   */
    size_t            device_bytes, buffer_bytes;
    const char       *limit;      /* what a call has that is too large: "2^31 thread blocks or more"   */
    uint32_t          rows_piece; /* columns of a thread block of set_rows                             */
    int               makes_all; /* 1: open makes all pipelines, and the known answers are asked of all of them */

    uint32_t   (*count)(const char **reason);
    /* Of a device of the list. */
    const gdn_gpu_about *(*about)(uint32_t index);
    /* native may be NULL. ctx is NULL while a device is only described. Close also undoes a failed open. */
    gdn_status (*open)(void *device, const gdn_context *ctx, uint32_t index, const void *native);
    void       (*close)(void *device);
    gdn_status (*probe)(void *device, gdn_gpu_variants *variants);
    /* What tells devices and drivers of one name apart, as far as they make other code of the same kernels. */
    uint64_t   (*identity)(const void *device);
    /* Of a plan's variant; NULL where variants and constants say more. */
    const char *(*pipeline_name)(int32_t variant);
    /* Why it refuses a plan, where that is not GDN_REFUSED_BLOCKS; NULL where there is nothing else. */
    void        (*explain)(const void *device, gdn_kernel kernel, const void *problem, const gdn_plan *plan,
                           char reason[GDN_REASON_MAX]);
    /* Fills in the record, whose `data` is the span's. Release says 0 where the device may still use the buffer. */
    gdn_status (*allocate)(void *device, uint64_t bytes, gdn_gpu_buffer *buffer);
    int        (*release)(void *device, gdn_gpu_buffer *buffer);
} gdn_gpu_driver;

/* For core's table of a backend, whose `own` is its driver. */
uint32_t   gdn_gpu_device_count(const gdn_backend *backend, char reason[GDN_REASON_MAX]);
gdn_status gdn_gpu_describe_device(const gdn_backend *backend, uint32_t device, gdn_device_info *info);
gdn_status gdn_gpu_describe_implementation(const gdn_backend *backend, uint32_t device, uint32_t index,
                                           gdn_implementation_info *info);
gdn_status gdn_gpu_describe_context(const gdn_context *ctx, gdn_device_info *device,
                                    gdn_implementation_info *implementation);
gdn_status gdn_gpu_open(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation);
void       gdn_gpu_close(gdn_context *ctx);
void       gdn_gpu_describe_plan(const gdn_context *ctx, gdn_kernel kernel, const void *problem, const gdn_plan *plan,
                                 gdn_capability *capability);
gdn_status gdn_gpu_buffer_create(gdn_context *ctx, uint64_t bytes, gdn_span *span);
gdn_status gdn_gpu_buffer_destroy(gdn_context *ctx, const gdn_span *span);

/* All of them, for a table, with the backend's number and name and its driver. */
#define GDN_GPU_BACKEND(number, word, driver)                                                                          \
    .id = number, .name = word, .own = driver, .device_count = gdn_gpu_device_count,                                   \
    .describe_device = gdn_gpu_describe_device, .describe_implementation = gdn_gpu_describe_implementation,            \
    .describe_context = gdn_gpu_describe_context, .open = gdn_gpu_open, .close = gdn_gpu_close,                        \
    .buffer_create = gdn_gpu_buffer_create, .buffer_destroy = gdn_gpu_buffer_destroy

/* For a driver's probe: the next implementation, and at which levels it is exact; reason: why it is not so at
 * GDN_EXACT. */
void gdn_gpu_add_variant(gdn_gpu_variants *v, const char *name, int soft_fma, int subgroup, uint32_t levels,
                         const char *reason);
/* For a driver's allocate: the failure that has just been reported, with the size that was wanted in front. */
gdn_status gdn_gpu_no_buffer(gdn_status status, uint64_t bytes);
/* The implementation of a plan as a capability names it: the context's, and the plan's form. */
void gdn_gpu_name_plan(const gdn_context *ctx, const gdn_plan *plan, char name[GDN_NAME_MAX]);

#endif
