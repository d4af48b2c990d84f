/* The Vulkan backend's entry in core's table. See device.h. */
#include "core/backend.h"
#include "core/status.h"
#include "vulkan/device.h"

/* ---- What gpu/context.c asks for ---------------------------------------------------------------------- */

static gdn_gpu_variants known[GDN_VULKAN_MAX_DEVICES];

static uint32_t count(const char **reason)
{
    const gdn_vulkan_catalogue *c = gdn_vulkan_catalogue_get();
    *reason = c->reason;
    return c->n;
}

static const gdn_gpu_about *about(uint32_t index)
{
    return &gdn_vulkan_catalogue_get()->traits[index].about;
}

static gdn_status allocate(void *device, uint64_t bytes, gdn_gpu_buffer *buffer)
{
    gdn_vulkan_buffer *b = (gdn_vulkan_buffer *)buffer;
    const gdn_status status = gdn_vulkan_allocate(device, bytes, GDN_VULKAN_MEMORY_DEVICE, b);
    b->record.data = (void *)b->buffer;
    return status ? gdn_gpu_no_buffer(status, bytes) : GDN_OK;
}

static int release(void *device, gdn_gpu_buffer *buffer)
{
    gdn_vulkan_device *dev = device;
    if (gdn_vulkan_wait(dev) && !dev->lost)
        return 0;
    gdn_vulkan_release(dev, (gdn_vulkan_buffer *)buffer);
    return 1;
}

static uint64_t identity(const void *device)
{
    return gdn_vulkan_identity(device);
}

static const gdn_gpu_driver driver = {
    .identity = identity,
    .known = known, .device_bytes = sizeof(gdn_vulkan_device), .buffer_bytes = sizeof(gdn_vulkan_buffer),
    .count = count, .about = about, .open = gdn_vulkan_device_open, .close = gdn_vulkan_device_close,
    .probe = gdn_vulkan_probe, .allocate = allocate, .release = release,
};

/* ---- Running ---------------------------------------------------------------------------------------- */

#define GDN_KERNEL(stem, number, title, last, end) GDN_GPU_RUN(vulkan, stem)
#include "core/kernels.def"
#undef GDN_KERNEL

static gdn_status synchronize(gdn_context *ctx, gdn_stream stream)
{
    if (stream)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "stream is %p; a command buffer is submitted by its owner, so wait for it with a fence "
                        "of your own and then call gdn_poll(); NULL is allowed",
                        stream);
    gdn_status status = gdn_vulkan_wait(ctx->state);
    if (!status) status = gdn_vulkan_take_report(ctx->state);
    return status ? status : gdn_gpu_answers_later(ctx);
}

static gdn_status poll_vulkan(gdn_context *ctx)
{
    return gdn_vulkan_take_report(ctx->state);
}

static gdn_status timeline(gdn_context *ctx, void **semaphore, uint64_t *value)
{
    const gdn_vulkan_device *dev = ctx->state;
    *semaphore = (void *)dev->timeline;
    *value     = dev->submitted;
    return GDN_OK;
}

const gdn_backend gdn_backend_vulkan = {
    GDN_GPU_BACKEND(GDN_BACKEND_VULKAN, "vulkan", &driver), .host_memory = 0, .data_is_address = 0,
    .synchronize = synchronize, .poll = poll_vulkan, .timeline = timeline,
    .buffer_write = gdn_vulkan_buffer_write, .buffer_read = gdn_vulkan_buffer_read,
#define GDN_KERNEL(stem, number, title, last, end) .stem = { gdn_vulkan_plan_##stem, run_##stem },
#include "core/kernels.def"
#undef GDN_KERNEL
};
