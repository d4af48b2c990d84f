/* The probe: runs the shaders' arithmetic on hard operands (gpu/probe.h).
 * What comes out decides which implementations a device has, which is the best, and whether they are exact. */
#include "core/status.h"
#include "gpu/probe.h"
#include "vulkan/device.h"

typedef struct probe_t {
    gdn_vulkan_device *dev;
    gdn_vulkan_buffer  memory;
    int            soft_fma;
} probe_t;

/* Run one probe shader. A status only where the device fails. */
static gdn_status run(void *user)
{
    const probe_t *x = user;
    gdn_vulkan_device *dev = x->dev;
    const uint32_t constants[GDN_VULKAN_CONSTANTS] = { 32, 0, 0, 0 };
    const gdn_gpu_probe params = { .operands = x->memory.address,
                                   .results = x->memory.address + GDN_PROBE_IN_BYTES,
                                   .n = GDN_PROBE_OPERANDS };
    const gdn_place workspace = { .data = (void *)x->memory.buffer, .offset = GDN_PROBE_BYTES };
    gdn_vulkan_dispatch dispatch = { .n_items = (GDN_PROBE_OPERANDS + constants[0] - 1) / constants[0] };
    gdn_status status =
        gdn_vulkan_pipeline_make(dev, GDN_VULKAN_probe, 0, x->soft_fma, 0, constants, &dispatch.pipeline);
    if (status)
        return status;
    if (!(status = gdn_vulkan_run(dev, &workspace, &params, sizeof params, 0, &dispatch, 1, NULL)))
        status = gdn_vulkan_wait(dev);
    if (status != GDN_TIMEOUT) /* else it is still running */
        dev->vk.DestroyPipeline(dev->device, dispatch.pipeline, NULL);
    return status;
}

gdn_status gdn_vulkan_probe(void *device, gdn_gpu_variants *v)
{
    gdn_vulkan_device *dev = device;
    char hard[GDN_REASON_MAX] = "", soft[GDN_REASON_MAX] = "";
    probe_t x = { .dev = dev };
    gdn_status status = gdn_vulkan_allocate(dev, GDN_PROBE_BYTES + GDN_VULKAN_PARAMS_BYTES, GDN_VULKAN_MEMORY_HOST,
                                            &x.memory);
    *v = (gdn_gpu_variants){ 0 };
    if (status)
        return status;
    status = gdn_gpu_probe_arithmetic(x.memory.mapped, run, &x, hard, NULL);
    x.soft_fma = 1;
    if (!status && dev->traits.float64)
        status = gdn_gpu_probe_arithmetic(x.memory.mapped, run, &x, soft, NULL);
    if (status != GDN_TIMEOUT)
        gdn_vulkan_release(dev, &x.memory);
    if (status)
        return status;

    /* Lanes talk through subgroup shuffles where eight of them fit in a subgroup and no subgroup can be partly empty,
     * which nobody promises unless whole ones can be asked for; else through shared memory. */
    const int sub = dev->traits.shuffle && dev->traits.full_subgroups && dev->traits.subgroup_size >= 8;
    if (!hard[0] || !dev->traits.float64 || soft[0]) {
        if (sub)
            gdn_gpu_add_variant(v, hard[0] ? "plain-fma" : "fma", 0, 1, hard);
        gdn_gpu_add_variant(v, hard[0] ? "plain-fma-shared" : "fma-shared", 0, 0, hard);
        if (!hard[0] && dev->traits.float64 && !soft[0])
            gdn_gpu_add_variant(v, "soft-fma", 1, sub, soft);
    } else {
        if (sub)
            gdn_gpu_add_variant(v, "soft-fma", 1, 1, soft);
        gdn_gpu_add_variant(v, sub ? "soft-fma-shared" : "soft-fma", 1, 0, soft);
        gdn_gpu_add_variant(v, "plain-fma", 0, sub, hard);
    }
    return GDN_OK;
}
