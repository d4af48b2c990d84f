/* The CUDA backend's entry in core's table. See device.h. */
#include <stdio.h>

#include "core/backend.h"
#include "cuda/device.h"

#ifdef GDN_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#define RANGE_BEGIN(name) (void)nvtxRangePushA(name)
#define RANGE_END()       (void)nvtxRangePop()
#else
#define RANGE_BEGIN(name) (void)0
#define RANGE_END()       (void)0
#endif

/* ---- The functions for gpu/context.c ------------------------------------------------------------------ */

static gdn_gpu_variants known[GDN_CUDA_MAX_DEVICES];

static uint32_t count(const char **reason)
{
    const gdn_cuda_catalogue *c = gdn_cuda_catalogue_get();
    *reason = c->reason;
    return c->n;
}

static const gdn_gpu_about *about(uint32_t index) { return &gdn_cuda_catalogue_get()->traits[index].about; }

static uint64_t identity(const void *device)
{
    const gdn_cuda_traits *t = &((const gdn_cuda_device *)device)->traits;
    return (uint64_t)t->device << 16 | (uint64_t)(10 * t->major + t->minor);
}

static void explain(const void *device, gdn_kernel kernel, const void *problem, const gdn_plan *plan,
                    char reason[GDN_REASON_MAX])
{
    const gdn_gated_delta_net_problem *p = problem;
    (void)device, (void)kernel, (void)plan;
    (void)snprintf(reason, GDN_REASON_MAX, "n_heads_v is %d; a CUDA grid has at most %d of them", (int)p->n_heads_v,
                   GDN_CUDA_MAX_BLOCKS_YZ);
}

static const gdn_gpu_driver driver = {
    .limit = "2^31 thread blocks or more",
    .rows_piece = GDN_CUDA_ROWS_PIECE,
    .explain = explain,
    .makes_all = 1,
    .identity = identity,
    .pipeline_name = gdn_cuda_kernel_name,
    .only = gdn_cuda_implementation,
    .known = known,
    .device_bytes = sizeof(gdn_cuda_device),
    .buffer_bytes = sizeof(gdn_gpu_buffer),
    .count = count,
    .about = about,
    .open = gdn_cuda_device_open,
    .close = gdn_cuda_device_close,
    .probe = gdn_cuda_probe,
    .allocate = gdn_cuda_allocate,
    .release = gdn_cuda_release,
};

/* ---- Running ---------------------------------------------------------------------------------------- */

static void plan_cuda(const gdn_context *ctx, gdn_kernel kernel, const void *problem, gdn_plan *plan)
{
    switch (kernel) {
#define GDN_KERNEL(stem, number, title)                                                                                \
    case GDN_KERNEL_##stem:                                                                                            \
        gdn_cuda_plan_##stem(ctx, problem, plan);                                                                      \
        break;
#include "core/kernels.def"
#undef GDN_KERNEL
    }
}

static void describe_plan(const gdn_context *ctx, gdn_kernel kernel, const void *problem, const gdn_plan *plan,
                          gdn_capability *capability)
{
    gdn_plan named = *plan;
    if (kernel == GDN_KERNEL_gated_delta_net) named.form = gdn_cuda_form_of(ctx->state, problem);
    gdn_gpu_describe_plan(ctx, kernel, problem, &named, capability);
}

static gdn_status run_cuda(gdn_context *ctx, gdn_kernel kernel, const void *problem, const gdn_plan *plan,
                           gdn_stream stream)
{
    gdn_cuda_device *dev = ctx->state;
    gdn_cuda_scope scope;
    CUstream on;
    gdn_status status = gdn_cuda_enter(dev, &scope);
    if (status) return status;
    if (!(status = gdn_cuda_stream(dev, stream, &on))) switch (kernel) {
#define GDN_KERNEL(stem, number, title)                                                                                \
    case GDN_KERNEL_##stem:                                                                                            \
        RANGE_BEGIN("gdn_" #stem);                                                                                     \
        status = gdn_cuda_run_##stem(dev, problem, plan, on);                                                          \
        RANGE_END();                                                                                                   \
        break;
#include "core/kernels.def"
#undef GDN_KERNEL
        }
    gdn_cuda_leave(dev, &scope);
    return status;
}

static gdn_status synchronize(gdn_context *ctx, gdn_stream stream)
{
    gdn_cuda_device *dev = ctx->state;
    gdn_cuda_scope scope;
    CUstream on;
    gdn_status status = gdn_cuda_enter(dev, &scope);
    if (status) return status;
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
    if (status) return status;
    status = gdn_cuda_take_report(dev);
    gdn_cuda_leave(dev, &scope);
    return status;
}

const gdn_backend gdn_backend_cuda = {
    GDN_GPU_BACKEND(GDN_BACKEND_CUDA, "cuda", &driver),
    .host_memory = 0,
    .data_is_address = 1,
    .synchronize = synchronize,
    .poll = poll_cuda,
    .buffer_write = gdn_cuda_buffer_write,
    .buffer_read = gdn_cuda_buffer_read,
    .plan = plan_cuda,
    .describe_plan = describe_plan,
    .run = run_cuda,
};
