/* The backend table: the public functions call an implementation only through it. */
#ifndef GDN_CORE_BACKEND_H
#define GDN_CORE_BACKEND_H

#include "core/plan.h"
#include "core/problem.h"
#include "system/system.h"

typedef struct gdn_backend {
    uint32_t id;
    const char *name;
    const void *own; /* the backend's data, for functions that several backends share */

    /* Lists, callable without a context. count_devices sets n to 1 or more, or fails; the next call tries again. The
     * caller has checked that the indices are in range. */
    gdn_status (*count_devices)(const struct gdn_backend *backend, uint32_t *n);
    gdn_status (*describe_device)(const struct gdn_backend *backend, uint32_t device, gdn_device_info *info);
    gdn_status (*describe_implementation)(const struct gdn_backend *backend, uint32_t device, uint32_t index,
                                          gdn_implementation_info *info);

    /* Optional: describes the device of a context. The lists do not hold a device that desc->native brings. For such a
     * context core calls this, and open resolves desc->implementation itself (its implementation argument is 0). Either
     * of the last two arguments may be NULL. */
    gdn_status (*describe_context)(const gdn_context *ctx, gdn_device_info *device,
                                   gdn_implementation_info *implementation);

    /* open sets ctx->state; implementation is an index into the device's list. close undoes it, also after a failed
     * open. */
    gdn_status (*open)(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation);
    void (*close)(gdn_context *ctx);

    int32_t host_memory;     /* 1: operands are host memory, so core checks map contents before run   */
    int32_t data_is_address; /* 1: a span's data is an address; 0: a buffer object                    */
    /* The address that a buffer object has for kernels. NULL: data is an address, or kernels know no addresses. */
    uint64_t (*address)(const gdn_context *ctx, const void *data);

    /* plan receives a zeroed plan with grain 1 and fills in what run needs. For a query, core sets `supported` and
     * workspace_bytes, and describe_plan fills in the rest of the capability. run may rely on everything that core has
     * validated, and on the plan made for this problem. */
    void (*plan)(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
    void (*describe_plan)(const gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan,
                          gdn_capability *capability);
    gdn_status (*run)(gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream);

    gdn_status (*synchronize)(gdn_context *ctx, gdn_stream stream);
    gdn_status (*poll)(gdn_context *ctx);
    gdn_status (*timeline)(gdn_context *ctx, void **semaphore, uint64_t *value); /* NULL: the backend has none */
    gdn_status (*buffer_create)(gdn_context *ctx, uint64_t bytes, gdn_span *span);
    gdn_status (*buffer_destroy)(gdn_context *ctx, const gdn_span *span);
    gdn_status (*buffer_write)(gdn_context *ctx, const gdn_span *span, uint64_t offset, const void *source,
                               uint64_t bytes);
    gdn_status (*buffer_read)(gdn_context *ctx, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes);
} gdn_backend;

/* UNSUPPORTED: `what`, an implementation or a device, cannot run at GDN_EXACT_FTZ. */
gdn_status gdn_no_level(const char *what);

extern const gdn_backend gdn_backend_cpu;
extern const gdn_backend gdn_backend_reference;
#ifdef GDN_HAVE_CUDA
extern const gdn_backend gdn_backend_cuda;
#endif
#ifdef GDN_HAVE_VULKAN
extern const gdn_backend gdn_backend_vulkan;
#endif
#ifdef GDN_HAVE_METAL
extern const gdn_backend gdn_backend_metal;
#endif

typedef struct gdn_host_buffer gdn_host_buffer;

struct gdn_context {
    const gdn_backend *backend;
    gdn_context_desc desc; /* the caller's, defaults filled in */
    uint32_t implementation;
    void *state;                   /* the backend's own */
    _Atomic uint32_t hints;        /* those that the log has had: core/hints.c */
    gdn_host_buffer *host_buffers; /* of gdn_buffer_create(), on backends with host memory */
    gdn_mutex host_buffers_lock;
    int64_t host_buffers_process;
};

/* The longest wait for a device: desc->timeout_ns, or the default. A software device shares the host's cores with other
 * programs, so a long wait does not show that it has failed. Its default is an hour. ctx may be NULL. */
uint64_t gdn_timeout_ns(const gdn_context *ctx, int software);

/* A software driver that replaces a hardware driver exports an object of this name. Its devices are reported as
 * emulated. */
#define GDN_EMULATED_DRIVER "gdn_emulated_driver"

/* Memory through the context's allocator; NULL when it runs out. */
void *gdn_context_alloc(const gdn_context *ctx, uint64_t bytes, uint64_t alignment);
void gdn_context_free(const gdn_context *ctx, void *memory);

/* Formats a line for the log callback, printf-like. Without a callback it does nothing. */
void gdn_context_log(const gdn_context *ctx, int32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* count_devices, buffer_*, synchronize and poll of backends whose memory is the host's (core/memory.c). */
gdn_status gdn_host_count_devices(const gdn_backend *backend, uint32_t *n);
gdn_status gdn_host_synchronize(gdn_context *ctx, gdn_stream stream);
gdn_status gdn_host_poll(gdn_context *ctx);
gdn_status gdn_host_buffer_create(gdn_context *ctx, uint64_t bytes, gdn_span *span);
gdn_status gdn_host_buffer_destroy(gdn_context *ctx, const gdn_span *span);
/* Frees the buffers that are left, and the lock of their list, when the context ends. */
void gdn_host_buffers_free(gdn_context *ctx);
/* INVALID_ARGUMENT: the span is no buffer of the context. */
gdn_status gdn_no_such_buffer(const gdn_span *span);
gdn_status gdn_host_buffer_write(gdn_context *ctx, const gdn_span *span, uint64_t offset, const void *source,
                                 uint64_t bytes);
gdn_status gdn_host_buffer_read(gdn_context *ctx, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes);

/* All of these, for the tables of such backends. */
#define GDN_HOST_MEMORY                                                                                                \
    .host_memory = 1, .data_is_address = 1, .count_devices = gdn_host_count_devices,                                   \
    .synchronize = gdn_host_synchronize, .poll = gdn_host_poll, .buffer_create = gdn_host_buffer_create,               \
    .buffer_destroy = gdn_host_buffer_destroy, .buffer_write = gdn_host_buffer_write,                                  \
    .buffer_read = gdn_host_buffer_read

#endif
