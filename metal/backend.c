/* The Metal backend's entry in core's table. See device.h. */
#include "core/backend.h"
#include "core/status.h"
#include "gpu/probe.h"
#include "metal/device.h"

/* ---- The functions for gpu/context.c ------------------------------------------------------------------ */

static gdn_gpu_implementations known[1];

static const gdn_gpu_about *about(uint32_t index)
{
    (void)index;
    return &gdn_metal_catalogue_get()->about;
}

static gdn_status open_device(void *device, const gdn_context *ctx, uint32_t index, const void *native)
{
    const gdn_metal_catalogue *c = gdn_metal_catalogue_get();
    uint32_t n;
    (void)gdn_metal_count(&n); /* loads the frameworks; gdn_metal_device_open() reports a failure */
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

static gdn_status enter(void *device, gdn_gpu_scope *scope)
{
    scope->pool = ((gdn_metal_device *)device)->rt->pool_push();
    return GDN_OK;
}

static void leave(void *device, const gdn_gpu_scope *scope) { ((gdn_metal_device *)device)->rt->pool_pop(scope->pool); }

static gdn_status probe_kernel(void *device, void *memory)
{
    const gdn_gpu_probe params = { .n = GDN_PROBE_OPERANDS };
    const gdn_metal_dispatch dispatch = {
        .kernel = GDN_METAL_probe_arithmetic,
        .params = &params,
        .params_bytes = sizeof params,
        .groups = gdn_gpu_parts(GDN_PROBE_OPERANDS, GDN_METAL_PROBE_THREADS),
        .threads = GDN_METAL_PROBE_THREADS,
        .n_bindings = 2,
        .bindings = { { memory, 0 }, { memory, GDN_PROBE_IN_BYTES } },
    };
    return gdn_metal_run(device, &dispatch, 1, NULL);
}

static gdn_status wait_for(void *device, gdn_stream stream)
{
    if (stream)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "stream is %p; a command buffer is committed by its owner, so wait for it with its own "
                        "waitUntilCompleted and then call gdn_poll(); NULL is allowed",
                        stream);
    return gdn_metal_wait(device);
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
    .only = "fma", /* Metal guarantees that it is fused, but not that subnormals are kept */
    .may_flush = 1,
    .known = known,
    .device_bytes = sizeof(gdn_metal_device),
    .buffer_bytes = sizeof(gdn_gpu_buffer),
    .count = gdn_metal_count,
    .about = about,
    .open = open_device,
    .close = close_device,
    .enter = enter,
    .leave = leave,
    .probe_kernel = probe_kernel,
    .allocate = allocate,
    .release = release,
    .write = gdn_metal_write,
    .read = gdn_metal_read,
    .plan = { gdn_metal_plan_gated_delta_net, gdn_metal_plan_ssm_conv, gdn_metal_plan_set_rows },
    .run = { gdn_metal_run_gated_delta_net, gdn_metal_run_ssm_conv, gdn_metal_run_set_rows },
    .wait = wait_for,
    .take_report = gdn_metal_take_report,
};

const gdn_backend gdn_backend_metal = {
    GDN_GPU_BACKEND(GDN_BACKEND_METAL, "metal", &driver),
};
