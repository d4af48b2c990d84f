/* The CUDA backend's entry in core's table. See device.h. */
#include <stdio.h>
#include <string.h>

#include "core/backend.h"
#include "core/status.h"
#include "cuda/device.h"

#ifdef GDN_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#define RANGE_BEGIN(name) (void)nvtxRangePushA(name)
#define RANGE_END() (void)nvtxRangePop()
#else
#define RANGE_BEGIN(name) (void)0
#define RANGE_END() (void)0
#endif

/* The one implementation: fma is fused on every CUDA device. */
static const char implementation_name[] = "fma";

/* ---- Lists ------------------------------------------------------------------------------------------ */

static uint32_t device_count(char reason[GDN_REASON_MAX])
{
    const gdn_cuda_catalogue *c = gdn_cuda_catalogue_get();
    (void)snprintf(reason, GDN_REASON_MAX, "%s", c->n ? "" : c->reason);
    return c->n;
}

static void describe_traits(const gdn_cuda_traits *t, gdn_device_info *info)
{
    (void)snprintf(info->name, sizeof info->name, "%s", t->name);
    info->n_implementations = 1;
    info->memory_bytes      = t->memory_bytes;
    info->emulated          = t->emulated;
}

static gdn_status describe_device(uint32_t device, gdn_device_info *info)
{
    describe_traits(&gdn_cuda_catalogue_get()->traits[device], info);
    return GDN_OK;
}

static gdn_status describe_implementation(uint32_t device, uint32_t index, gdn_implementation_info *info)
{
    (void)index;
    (void)snprintf(info->name, sizeof info->name, "%s", implementation_name);
    return gdn_cuda_exact_of(device, &info->exact, info->reason);
}

static gdn_status describe_context(const gdn_context *ctx, gdn_device_info *device, gdn_implementation_info *implementation)
{
    const gdn_cuda_device *dev = ctx->state;
    if (device)
        describe_traits(&dev->traits, device);
    if (implementation) {
        implementation->exact = dev->exact;
        (void)snprintf(implementation->name, sizeof implementation->name, "%s", implementation_name);
        (void)snprintf(implementation->reason, sizeof implementation->reason, "%s", dev->reason);
    }
    return GDN_OK;
}

/* ---- Context ---------------------------------------------------------------------------------------- */

static gdn_status open_cuda(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation)
{
    gdn_status status;
    (void)implementation;
    gdn_cuda_device *dev = gdn_context_alloc(ctx, sizeof *dev, 64);
    if (!dev)
        return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a cuda context of %zu bytes", sizeof *dev);
    memset(dev, 0, sizeof *dev);
    ctx->state = dev;
    if (desc->native && desc->implementation && strcmp(desc->implementation, implementation_name)) /* core has not looked */
        return gdn_fail(GDN_NOT_FOUND, "desc->implementation is \"%.64s\"; the cuda backend has %s", desc->implementation, implementation_name);
    if ((status = gdn_cuda_device_open(dev, ctx, desc->device, desc->native)))
        return status;
    return desc->native ? gdn_cuda_probe_device(dev) : gdn_cuda_exact_of(desc->device, &dev->exact, dev->reason);
}

static void close_cuda(gdn_context *ctx)
{
    gdn_cuda_device *dev = ctx->state;
    if (!dev)
        return;
    gdn_cuda_device_close(dev);
    gdn_context_free(ctx, dev);
    ctx->state = NULL;
}

/* ---- Running ---------------------------------------------------------------------------------------- */

/* What is the same for every kernel, which then says its part. */
static void begin_plan(const gdn_cuda_device *dev, gdn_capability *c)
{
    c->supported = 1; /* unless the kernel says otherwise */
    c->exact     = dev->exact;
    c->emulated  = dev->traits.emulated;
    (void)snprintf(c->reason, sizeof c->reason, "%s", dev->reason);
}

#define GDN_KERNEL(stem, number, title)                                                                                \
    static gdn_status plan_##stem(const gdn_context *ctx, const gdn_##stem##_problem *p, gdn_plan *plan)              \
    {                                                                                                                  \
        begin_plan(ctx->state, &plan->capability);                                                                     \
        gdn_cuda_plan_##stem(ctx->state, p, plan);                                                                     \
        return GDN_OK;                                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    static gdn_status run_##stem(gdn_context *ctx, const gdn_##stem##_problem *p, const gdn_plan *plan,               \
                                 gdn_stream stream)                                                                    \
    {                                                                                                                  \
        gdn_cuda_device *dev = ctx->state;                                                                             \
        gdn_cuda_scope scope;                                                                                          \
        CUstream on;                                                                                                   \
        gdn_status status = gdn_cuda_enter(dev, &scope);                                                               \
        if (status)                                                                                                    \
            return status;                                                                                             \
        if (!(status = gdn_cuda_stream(dev, stream, &on))) {                                                           \
            RANGE_BEGIN("gdn_" #stem);                                                                                 \
            status = gdn_cuda_run_##stem(dev, p, plan, on);                                                            \
            RANGE_END();                                                                                               \
        }                                                                                                              \
        gdn_cuda_leave(dev, &scope);                                                                                   \
        return status;                                                                                                 \
    }
#include "core/kernels.def"
#undef GDN_KERNEL

static gdn_status synchronize(gdn_context *ctx, gdn_stream stream)
{
    gdn_cuda_device *dev = ctx->state;
    gdn_cuda_scope scope;
    CUstream on;
    gdn_status status = gdn_cuda_enter(dev, &scope);
    if (status)
        return status;
    if (!(status = gdn_cuda_stream(dev, stream, &on)) && !(status = gdn_cuda_wait(dev, on)))
        status = gdn_cuda_take_report(dev);
    gdn_cuda_leave(dev, &scope);
    return status;
}

static gdn_status poll_cuda(gdn_context *ctx)
{
    gdn_cuda_device *dev = ctx->state;
    gdn_cuda_scope scope;
    gdn_status status = gdn_cuda_enter(dev, &scope);
    if (status)
        return status;
    status = gdn_cuda_take_report(dev);
    gdn_cuda_leave(dev, &scope);
    return status;
}

const gdn_backend gdn_backend_cuda = {
    .id = GDN_BACKEND_CUDA, .name = "cuda",
    .device_count = device_count, .describe_device = describe_device, .describe_implementation = describe_implementation,
    .describe_context = describe_context,
    .open = open_cuda, .close = close_cuda, .host_memory = 0, .data_is_address = 1,
    .synchronize = synchronize, .poll = poll_cuda,
    .buffer_create = gdn_cuda_buffer_create, .buffer_destroy = gdn_cuda_buffer_destroy,
    .buffer_write = gdn_cuda_buffer_write, .buffer_read = gdn_cuda_buffer_read,
#define GDN_KERNEL(stem, number, title) .stem = { plan_##stem, run_##stem },
#include "core/kernels.def"
#undef GDN_KERNEL
};
