/* The Metal backend's entry in core's table. See device.h. */
#include <stdio.h>
#include <string.h>

#include "core/backend.h"
#include "core/status.h"
#include "metal/device.h"

/* The one implementation: Metal says that fma is fused. */
static const char implementation_name[] = "fma";

/* ---- Lists ------------------------------------------------------------------------------------------ */

static uint32_t device_count(char reason[GDN_REASON_MAX])
{
    const gdn_metal_catalogue *c = gdn_metal_catalogue_get();
    (void)snprintf(reason, GDN_REASON_MAX, "%s", c->device ? "" : c->reason);
    return c->device ? 1 : 0;
}

static void describe_traits(const gdn_metal_traits *t, gdn_device_info *info)
{
    (void)snprintf(info->name, sizeof info->name, "%s", t->name);
    info->n_implementations = 1;
    info->memory_bytes      = t->memory_bytes;
    info->emulated          = t->emulated;
}

static gdn_status describe_device(uint32_t device, gdn_device_info *info)
{
    (void)device;
    describe_traits(&gdn_metal_catalogue_get()->traits, info);
    return GDN_OK;
}

static gdn_status exact_of_default(int *exact, char reason[GDN_REASON_MAX])
{
    const gdn_objc *rt = &gdn_metal_catalogue_get()->rt;
    void *pool = rt->pool_push();
    const gdn_status status = gdn_metal_exact_of_default(exact, reason);
    rt->pool_pop(pool);
    return status;
}

static gdn_status describe_implementation(uint32_t device, uint32_t index, gdn_implementation_info *info)
{
    (void)device, (void)index;
    (void)snprintf(info->name, sizeof info->name, "%s", implementation_name);
    return exact_of_default(&info->exact, info->reason);
}

static gdn_status describe_context(const gdn_context *ctx, gdn_device_info *device, gdn_implementation_info *implementation)
{
    const gdn_metal_device *dev = ctx->state;
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

static gdn_status open_and_probe(gdn_metal_device *dev, const gdn_context *ctx, const gdn_context_desc *desc)
{
    const gdn_status status = gdn_metal_device_open(dev, ctx, desc->device, desc->native);
    if (status)
        return status;
    return desc->native ? gdn_metal_probe_device(dev) : gdn_metal_exact_of_default(&dev->exact, dev->reason);
}

static gdn_status open_metal(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation)
{
    const gdn_metal_catalogue *c = gdn_metal_catalogue_get();
    (void)implementation;
    gdn_metal_device *dev = gdn_context_alloc(ctx, sizeof *dev, 64);
    if (!dev)
        return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a metal context of %zu bytes", sizeof *dev);
    memset(dev, 0, sizeof *dev);
    ctx->state = dev;
    if (desc->native && desc->implementation && strcmp(desc->implementation, implementation_name)) /* core has not looked */
        return gdn_fail(GDN_NOT_FOUND, "desc->implementation is \"%.64s\"; the metal backend has %s", desc->implementation, implementation_name);
    void *pool = c->loaded ? c->rt.pool_push() : NULL;
    const gdn_status status = open_and_probe(dev, ctx, desc);
    if (c->loaded)
        c->rt.pool_pop(pool);
    return status;
}

static void close_metal(gdn_context *ctx)
{
    gdn_metal_device *dev = ctx->state;
    if (!dev)
        return;
    if (dev->rt && gdn_metal_catalogue_get()->loaded) {
        void *pool = dev->rt->pool_push();
        gdn_metal_device_close(dev);
        dev->rt->pool_pop(pool);
    }
    gdn_context_free(ctx, dev);
    ctx->state = NULL;
}

/* ---- Running ---------------------------------------------------------------------------------------- */

/* What is the same for every kernel, which then says its part. */
static void begin_plan(const gdn_metal_device *dev, gdn_capability *c)
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
        gdn_metal_plan_##stem(ctx->state, p, plan);                                                                  \
        return GDN_OK;                                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    static gdn_status run_##stem(gdn_context *ctx, const gdn_##stem##_problem *p, const gdn_plan *plan,               \
                                 gdn_stream stream)                                                                    \
    {                                                                                                                  \
        return gdn_metal_run_##stem(ctx->state, p, plan, stream);                                                    \
    }
#include "core/kernels.def"
#undef GDN_KERNEL

static gdn_status wait_and_report(gdn_metal_device *dev)
{
    const gdn_status status = gdn_metal_wait(dev);
    return status ? status : gdn_metal_take_report(dev);
}

static gdn_status synchronize(gdn_context *ctx, gdn_stream stream)
{
    gdn_metal_device *dev = ctx->state;
    if (stream)
        return gdn_fail(GDN_INVALID_ARGUMENT, "stream is %p; a command buffer is committed by its owner, so wait for it with its own "
                        "waitUntilCompleted and then call gdn_poll(); NULL is allowed", stream);
    void *pool = dev->rt->pool_push();
    const gdn_status status = wait_and_report(dev);
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
    .id = GDN_BACKEND_METAL, .name = "metal",
    .device_count = device_count, .describe_device = describe_device, .describe_implementation = describe_implementation,
    .describe_context = describe_context,
    .open = open_metal, .close = close_metal, .host_memory = 0, .data_is_address = 0,
    .synchronize = synchronize, .poll = poll_metal,
    .buffer_create = gdn_metal_buffer_create, .buffer_destroy = gdn_metal_buffer_destroy,
    .buffer_write = gdn_metal_buffer_write, .buffer_read = gdn_metal_buffer_read,
#define GDN_KERNEL(stem, number, title) .stem = { plan_##stem, run_##stem },
#include "core/kernels.def"
#undef GDN_KERNEL
};
