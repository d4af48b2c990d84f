/* The Vulkan backend's entry in core's table. See device.h. */
#include <stdio.h>

#include "core/backend.h"
#include "core/status.h"
#include "vulkan/device.h"

/* ---- The functions for gpu/context.c ------------------------------------------------------------------ */

static gdn_gpu_implementations known[GDN_VULKAN_MAX_DEVICES];

static const gdn_gpu_about *about(uint32_t index) { return &gdn_vulkan_catalogue_get()->traits[index].about; }

static gdn_status allocate(void *device, uint64_t bytes, gdn_gpu_buffer *buffer)
{
    gdn_vulkan_device *dev = device;
    gdn_vulkan_buffer *b = (gdn_vulkan_buffer *)buffer;
    const gdn_status status = dev->lost ? gdn_vulkan_wait(dev) /* reports it */
                                        : gdn_vulkan_allocate(dev, bytes, GDN_VULKAN_MEMORY_DEVICE, b);
    b->record.data = (void *)b->buffer;
    return status ? gdn_gpu_no_buffer(status, bytes) : GDN_OK;
}

static int release(void *device, gdn_gpu_buffer *buffer)
{
    gdn_vulkan_device *dev = device;
    if (gdn_vulkan_wait(dev) && !dev->lost) return 0;
    gdn_vulkan_release(dev, (gdn_vulkan_buffer *)buffer);
    return 1;
}

static uint64_t identity(const void *device) { return gdn_vulkan_identity(device); }

static void explain(const void *device, const gdn_problem *problem, const gdn_plan *plan, char reason[GDN_REASON_MAX])
{
    const gdn_vulkan_device *dev = device;
    const char *name = dev->traits.about.name;
    const gdn_kernel kernel = problem->kernel;
    const gdn_gated_delta_net_call *delta = &problem->gated_delta_net;
    const gdn_ssm_conv_call *conv = &problem->ssm_conv;
    if (plan->refused == GDN_REFUSED_TYPES)
        (void)snprintf(reason, GDN_REASON_MAX, "%s need storageBuffer16BitAccess, which %.100s does not have",
                       kernel == GDN_KERNEL_set_rows ? "F16, BF16 and Q8_0" : "F16 and BF16", name);
    else if (kernel == GDN_KERNEL_gated_delta_net)
        (void)snprintf(reason, GDN_REASON_MAX,
                       "n_tokens is %d with n_seqs = %d and log.entries.n_slots = %d; at most %d tokens a sequence are "
                       "allowed on the CPU device %.30s",
                       (int)delta->n_tokens, (int)delta->n_seqs, (int)delta->log.n_slots,
                       (int)gdn_vulkan_most_tokens(dev, delta, plan->gpu.device_kernel), name);
    else if (kernel == GDN_KERNEL_ssm_conv)
        (void)snprintf(
            reason, GDN_REASON_MAX,
            "n_tokens is %d with history.n_slots = %d and checkpoints.n = %d, up to %lld loop iterations; at "
            "most %d are allowed on the CPU device %.20s",
            (int)conv->n_tokens, (int)conv->history.n_slots, (int)conv->checkpoints_n,
            (long long)gdn_vulkan_conv_iterations(conv, plan), GDN_VULKAN_CPU_ITERATIONS, name);
}

static gdn_status wait_for(void *device, gdn_stream stream)
{
    if (stream)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "stream is %p; a command buffer is submitted by its owner, so wait for it with a fence "
                        "of your own and then call gdn_poll(); NULL is allowed",
                        stream);
    return gdn_vulkan_wait(device);
}

static const gdn_gpu_driver driver = {
    .limit = "more than 65535 x 65535 workgroups",
    .rows_piece = GDN_VULKAN_ROWS_PIECE,
    .explain = explain,
    .identity = identity,
    .known = known,
    .device_bytes = sizeof(gdn_vulkan_device),
    .buffer_bytes = sizeof(gdn_vulkan_buffer),
    .count = gdn_vulkan_count,
    .about = about,
    .open = gdn_vulkan_device_open,
    .close = gdn_vulkan_device_close,
    .probe = gdn_vulkan_probe,
    .allocate = allocate,
    .release = release,
    .write = gdn_vulkan_write,
    .read = gdn_vulkan_read,
    .plan = { gdn_vulkan_plan_gated_delta_net, gdn_vulkan_plan_ssm_conv, gdn_vulkan_plan_set_rows },
    .run = { gdn_vulkan_run_gated_delta_net, gdn_vulkan_run_ssm_conv, gdn_vulkan_run_set_rows },
    .wait = wait_for,
    .take_report = gdn_vulkan_take_report,
};

static gdn_status timeline(gdn_context *ctx, void **semaphore, uint64_t *value)
{
    const gdn_vulkan_device *dev = ctx->state;
    *semaphore = (void *)dev->timeline;
    *value = dev->submitted;
    return GDN_OK;
}

static uint64_t address(const gdn_context *ctx, const void *data) { return gdn_vulkan_address(ctx->state, data); }

const gdn_backend gdn_backend_vulkan = {
    GDN_GPU_BACKEND(GDN_BACKEND_VULKAN, "vulkan", &driver),
    .timeline = timeline,
    .address = address,
};
