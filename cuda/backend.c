/* The CUDA backend's entry in core's table. See device.h. */
#include "core/backend.h"
#include "cuda/device.h"

#ifdef GDN_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#define RANGE_BEGIN(name) (void)nvtxRangePushA(name)
#define RANGE_END() (void)nvtxRangePop()
#else
#define RANGE_BEGIN(name) (void)0
#define RANGE_END() (void)0
#endif

/* ---- What gpu/context.c asks for ---------------------------------------------------------------------- */

static gdn_gpu_variants known[GDN_CUDA_MAX_DEVICES];

static uint32_t count(const char **reason)
{
    const gdn_cuda_catalogue *c = gdn_cuda_catalogue_get();
    *reason = c->reason;
    return c->n;
}

static const gdn_gpu_about *about(uint32_t index)
{
    return &gdn_cuda_catalogue_get()->traits[index].about;
}

static uint64_t identity(const void *device)
{
    const gdn_cuda_traits *t = &((const gdn_cuda_device *)device)->traits;
    return (uint64_t)t->device << 16 | (uint64_t)(10 * t->major + t->minor);
}

static const gdn_gpu_driver driver = {
    .makes_all = 1, .identity = identity, .pipeline_name = gdn_cuda_kernel_name,
    .only = gdn_cuda_implementation, .known = known, .device_bytes = sizeof(gdn_cuda_device),
    .buffer_bytes = sizeof(gdn_gpu_buffer), .count = count, .about = about, .open = gdn_cuda_device_open,
    .close = gdn_cuda_device_close, .probe = gdn_cuda_probe, .allocate = gdn_cuda_allocate, .release = gdn_cuda_release,
};

/* ---- Running ---------------------------------------------------------------------------------------- */

#define GDN_KERNEL(stem, number, title, last, end)                                                                     \
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
    GDN_GPU_BACKEND(GDN_BACKEND_CUDA, "cuda", &driver),
    .host_memory = 0, .data_is_address = 1, .synchronize = synchronize, .poll = poll_cuda,
    .buffer_write = gdn_cuda_buffer_write, .buffer_read = gdn_cuda_buffer_read,
#define GDN_KERNEL(stem, number, title, last, end) .stem = { gdn_cuda_plan_##stem, run_##stem },
#include "core/kernels.def"
#undef GDN_KERNEL
};
