/* The Vulkan backend's entry in core's table. See device.h. */
#include <stdio.h>
#include <string.h>

#include "core/backend.h"
#include "core/status.h"
#include "vulkan/device.h"

/* ---- Lists ------------------------------------------------------------------------------------------ */

static uint32_t device_count(char reason[GDN_REASON_MAX])
{
    const gdn_vk_catalogue *c = gdn_vk_catalogue_get();
    (void)snprintf(reason, GDN_REASON_MAX, "%s", c->n ? "" : c->reason);
    return c->n;
}

static void describe_traits(const gdn_vk_traits *t, uint32_t n_implementations, gdn_device_info *info)
{
    (void)snprintf(info->name, sizeof info->name, "%s", t->name);
    info->n_implementations = n_implementations;
    info->memory_bytes      = t->memory_bytes;
}

static gdn_status describe_device(uint32_t device, gdn_device_info *info)
{
    gdn_vk_variants variants;
    gdn_status status = gdn_vk_variants_of(device, &variants);
    if (!status)
        describe_traits(&gdn_vk_catalogue_get()->traits[device], variants.n, info);
    return status;
}

static void describe_variant(const gdn_vk_variant *v, gdn_implementation_info *info)
{
    info->exact = v->exact;
    (void)snprintf(info->name, sizeof info->name, "%s", v->name);
    (void)snprintf(info->reason, sizeof info->reason, "%s", v->reason);
}

static gdn_status describe_implementation(uint32_t device, uint32_t index, gdn_implementation_info *info)
{
    gdn_vk_variants variants;
    gdn_status status = gdn_vk_variants_of(device, &variants);
    if (!status)
        describe_variant(&variants.list[index], info);
    return status;
}

static gdn_status describe_context(const gdn_context *ctx, gdn_device_info *device, gdn_implementation_info *implementation)
{
    const gdn_vk_device *dev = ctx->state;
    if (device)
        describe_traits(&dev->traits, dev->variants.n, device);
    if (implementation)
        describe_variant(&dev->variant, implementation);
    return GDN_OK;
}

/* ---- Context ---------------------------------------------------------------------------------------- */

static gdn_status find_variant(const gdn_vk_device *dev, const char *name, uint32_t *index)
{
    char have[256] = "";
    for (*index = 0; name && *index < dev->variants.n; ++*index) {
        const size_t used = strlen(have);
        if (!strcmp(dev->variants.list[*index].name, name))
            return GDN_OK;
        (void)snprintf(have + used, sizeof have - used, "%s%s", *index ? ", " : "", dev->variants.list[*index].name);
    }
    if (name)
        return gdn_fail(GDN_NOT_FOUND, "desc->implementation is \"%.64s\"; %s has %s", name, dev->traits.name, have);
    return GDN_OK;
}

static gdn_status open_vulkan(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation)
{
    gdn_status status;
    gdn_vk_device *dev = gdn_context_alloc(ctx, sizeof *dev, 64);
    if (!dev)
        return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a vulkan context of %zu bytes", sizeof *dev);
    memset(dev, 0, sizeof *dev);
    ctx->state = dev;
    if ((status = gdn_vk_device_open(dev, ctx, desc->device, desc->native)))
        return status;
    /* A device that core has not chosen from our list has a list of its own. */
    if (desc->native) {
        if ((status = gdn_vk_probe(dev, &dev->variants)) || (status = find_variant(dev, desc->implementation, &implementation)))
            return status;
    } else if ((status = gdn_vk_variants_of(desc->device, &dev->variants))) {
        return status;
    }
    dev->variant = dev->variants.list[implementation];
    return GDN_OK;
}

static void close_vulkan(gdn_context *ctx)
{
    gdn_vk_device *dev = ctx->state;
    if (!dev)
        return;
    gdn_vk_device_close(dev);
    gdn_context_free(ctx, dev);
    ctx->state = NULL;
}

/* ---- Running ---------------------------------------------------------------------------------------- */

/* What is the same for every kernel, which then says its part. */
static void begin_plan(const gdn_vk_device *dev, gdn_capability *c)
{
    c->supported = 1; /* unless the kernel says otherwise */
    c->exact     = dev->variant.exact;
    (void)snprintf(c->reason, sizeof c->reason, "%s", dev->variant.reason);
}

#define GDN_KERNEL(stem, number, title)                                                                                \
    static gdn_status plan_##stem(const gdn_context *ctx, const gdn_##stem##_problem *p, gdn_plan *plan)              \
    {                                                                                                                  \
        begin_plan(ctx->state, &plan->capability);                                                                     \
        gdn_vk_plan_##stem(ctx->state, p, plan);                                                                  \
        return GDN_OK;                                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    static gdn_status run_##stem(gdn_context *ctx, const gdn_##stem##_problem *p, const gdn_plan *plan,               \
                                 gdn_stream stream)                                                                    \
    {                                                                                                                  \
        return gdn_vk_run_##stem(ctx->state, p, plan, stream);                                                    \
    }
#include "core/kernels.def"
#undef GDN_KERNEL

static gdn_status synchronize(gdn_context *ctx, gdn_stream stream)
{
    if (stream)
        return gdn_fail(GDN_INVALID_ARGUMENT, "stream is %p; a command buffer is submitted by its owner, so wait for it with a fence "
                        "of your own and then call gdn_poll(); NULL is allowed", stream);
    gdn_status status = gdn_vk_wait(ctx->state);
    return status ? status : gdn_vk_take_report(ctx->state);
}

static gdn_status poll_vulkan(gdn_context *ctx)
{
    return gdn_vk_take_report(ctx->state);
}

static gdn_status timeline(gdn_context *ctx, void **semaphore, uint64_t *value)
{
    const gdn_vk_device *dev = ctx->state;
    *semaphore = (void *)dev->timeline;
    *value     = dev->submitted;
    return GDN_OK;
}

const gdn_backend gdn_backend_vulkan = {
    .id = GDN_BACKEND_VULKAN, .name = "vulkan",
    .device_count = device_count, .describe_device = describe_device, .describe_implementation = describe_implementation,
    .describe_context = describe_context,
    .open = open_vulkan, .close = close_vulkan, .host_memory = 0, .data_is_address = 0,
    .synchronize = synchronize, .poll = poll_vulkan, .timeline = timeline,
    .buffer_create = gdn_vk_buffer_create, .buffer_destroy = gdn_vk_buffer_destroy,
    .buffer_write = gdn_vk_buffer_write, .buffer_read = gdn_vk_buffer_read,
#define GDN_KERNEL(stem, number, title) .stem = { plan_##stem, run_##stem },
#include "core/kernels.def"
#undef GDN_KERNEL
};
