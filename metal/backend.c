/* The Metal backend's entry in core's table. See device.h. */
#include "core/backend.h"
#include "core/status.h"
#include "metal/device.h"

/* ---- The functions for gpu/context.c ------------------------------------------------------------------ */

static gdn_gpu_variants known[1];

static uint32_t count(const char **reason)
{
    const gdn_metal_catalogue *c = gdn_metal_catalogue_get();
    *reason = c->reason;
    return c->device ? 1 : 0;
}

static const gdn_gpu_about *about(uint32_t index)
{
    (void)index;
    return &gdn_metal_catalogue_get()->about;
}

static gdn_status open_device(void *device, const gdn_context *ctx, uint32_t index, const void *native)
{
    const gdn_metal_catalogue *c = gdn_metal_catalogue_get();
    void *pool = c->loaded ? c->rt.pool_push() : NULL;
    const gdn_status status = gdn_metal_device_open(device, ctx, index, native);
    if (c->loaded) c->rt.pool_pop(pool);
    return status;
}

static void close_device(void *device)
{
    gdn_metal_device *dev = device;
    if (!dev->rt || !gdn_metal_catalogue_get()->loaded) return;
    const gdn_objc *rt = dev->rt;
    void *pool = rt->pool_push();
    gdn_metal_device_close(dev);
    rt->pool_pop(pool);
}

static gdn_status probe_device(void *device, gdn_gpu_variants *variants)
{
    gdn_metal_device *dev = device;
    void *pool = dev->rt->pool_push();
    const gdn_status status = gdn_metal_probe(dev, variants);
    dev->rt->pool_pop(pool);
    return status;
}

static gdn_status allocate(void *device, uint64_t bytes, gdn_gpu_buffer *b)
{
    gdn_metal_device *dev = device;
    return dev->lost ? gdn_metal_lost(dev) : gdn_metal_allocate(dev, bytes, &b->data);
}

/* Releases a buffer. Command buffers that use it retain it until they are done. */
static int release(void *device, gdn_gpu_buffer *b)
{
    ((gdn_metal_device *)device)->rt->release(b->data);
    return 1;
}

static uint64_t identity(const void *device) { return (uint64_t)(uintptr_t)((const gdn_metal_device *)device)->device; }

static const gdn_gpu_driver driver = {
    .identity = identity,
    .limit = "2^31 threadgroups or more",
    .rows_piece = GDN_METAL_ROWS_PIECE,
    .pipeline_name = gdn_metal_kernel_name,
    .only = gdn_metal_implementation,
    .known = known,
    .device_bytes = sizeof(gdn_metal_device),
    .buffer_bytes = sizeof(gdn_gpu_buffer),
    .count = count,
    .about = about,
    .open = open_device,
    .close = close_device,
    .probe = probe_device,
    .allocate = allocate,
    .release = release,
};

/* ---- Running ---------------------------------------------------------------------------------------- */

static void plan_metal(const gdn_context *ctx, gdn_kernel kernel, const void *problem, gdn_plan *plan)
{
    switch (kernel) {
#define GDN_KERNEL(stem, number, title)                                                                                \
    case GDN_KERNEL_##stem:                                                                                            \
        gdn_metal_plan_##stem(ctx, problem, plan);                                                                     \
        break;
#include "core/kernels.def"
#undef GDN_KERNEL
    }
}

static gdn_status run_metal(gdn_context *ctx, gdn_kernel kernel, const void *problem, const gdn_plan *plan,
                            gdn_stream stream)
{
    const gdn_status status = gdn_gpu_self_test_plan(ctx, kernel, plan, stream != NULL);
    if (status) return status;
    switch (kernel) {
#define GDN_KERNEL(stem, number, title)                                                                                \
    case GDN_KERNEL_##stem:                                                                                            \
        return gdn_metal_run_##stem(ctx, problem, plan, stream);
#include "core/kernels.def"
#undef GDN_KERNEL
    }
    return gdn_fail(GDN_INTERNAL, "a call of no kernel");
}

static gdn_status wait_and_report(gdn_metal_device *dev)
{
    const gdn_status status = gdn_metal_wait(dev);
    return status ? status : gdn_metal_take_report(dev);
}

static gdn_status synchronize(gdn_context *ctx, gdn_stream stream)
{
    gdn_metal_device *dev = ctx->state;
    if (stream)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "stream is %p; a command buffer is committed by its owner, so wait for it with its own "
                        "waitUntilCompleted and then call gdn_poll(); NULL is allowed",
                        stream);
    void *pool = dev->rt->pool_push();
    gdn_status status = wait_and_report(dev);
    if (!status) status = gdn_gpu_self_test_later(ctx);
    dev->rt->pool_pop(pool);
    return status;
}

static gdn_status poll_metal(gdn_context *ctx)
{
    gdn_metal_device *dev = ctx->state;
    void *pool = dev->rt->pool_push();
    const gdn_status status = gdn_metal_take_report(dev);
    dev->rt->pool_pop(pool);
    return status;
}

const gdn_backend gdn_backend_metal = {
    GDN_GPU_BACKEND(GDN_BACKEND_METAL, "metal", &driver),
    .host_memory = 0,
    .data_is_address = 0,
    .synchronize = synchronize,
    .poll = poll_metal,
    .buffer_write = gdn_metal_buffer_write,
    .buffer_read = gdn_metal_buffer_read,
    .plan = plan_metal,
    .describe_plan = gdn_gpu_describe_plan,
    .run = run_metal,
};
