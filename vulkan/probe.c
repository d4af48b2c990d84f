/* The probe: runs the shaders' arithmetic on hard operands (gpu/probe.h). Its result decides which implementations a
 * device has, which is the best, and at which levels they are exact. */
#include <string.h>

#include "core/status.h"
#include "gpu/probe.h"
#include "vulkan/device.h"

typedef struct probe_t {
    gdn_vulkan_device *dev;
    gdn_vulkan_buffer memory;
    gdn_gpu_implementation of;
    uint32_t level;
} probe_t;

/* Runs one probe shader. Returns an error only if the device fails. */
static gdn_status run(void *user)
{
    const probe_t *x = user;
    gdn_vulkan_device *dev = x->dev;
    const uint32_t constants[GDN_VULKAN_CONSTANTS] = { 32, 0, 0, 0 };
    const gdn_gpu_probe params = { .operands = x->memory.address,
                                   .results = x->memory.address + GDN_PROBE_IN_BYTES,
                                   .n = GDN_PROBE_OPERANDS };
    const gdn_region workspace = { .data = (void *)x->memory.buffer, .offset = GDN_PROBE_BYTES };
    gdn_vulkan_dispatch dispatch = { .n_items = (GDN_PROBE_OPERANDS + constants[0] - 1) / constants[0] };
    gdn_status status =
        gdn_vulkan_pipeline_make(dev, GDN_VULKAN_probe, 0, &x->of, x->level, constants, &dispatch.pipeline);
    if (status) return status;
    if (!(status = gdn_vulkan_run(dev, &workspace, &params, sizeof params, 0, &dispatch, 1, NULL)))
        status = gdn_vulkan_wait(dev);
    if (status != GDN_TIMEOUT) /* else it is still running */
        dev->vk.DestroyPipeline(dev->device, dispatch.pipeline, NULL);
    return status;
}

/* The result for one implementation of fma: at which levels it is right, and why it is not at GDN_EXACT. */
typedef struct found_t {
    uint32_t levels;
    char reason[GDN_REASON_MAX];
} found_t;

/* Probes one implementation of fma. GDN_EXACT_FTZ needs a second run if its shaders differ. They differ if the device
 * can be set to flush or to round to even, and with the software fma, which flushes its operands and result itself.
 * Otherwise the first run decides both levels. A device that keeps subnormals and cannot be set to flush is not run
 * again. */
static gdn_status ask(probe_t *x, int soft_fma, found_t *found)
{
    const gdn_vulkan_traits *t = &x->dev->traits;
    void *const memory = x->memory.mapped;
    char reason[GDN_REASON_MAX] = "";
    int flushes = 0;
    x->of.soft_fma = soft_fma;
    x->level = GDN_EXACT;
    gdn_status status = gdn_gpu_probe_arithmetic(memory, run, x, found->reason, &flushes);
    if (status) return status;
    found->levels = !found->reason[0] ? 1u << GDN_EXACT : 0;
    x->level = GDN_EXACT_FTZ;
    if (t->denorm_flush || (found->reason[0] && (soft_fma || t->round_to_even)))
        status = gdn_gpu_probe_arithmetic(memory, run, x, reason, &flushes);
    found->levels |= flushes ? 1u << GDN_EXACT_FTZ : 0;
    if (flushes && found->reason[0] && reason[0]) memcpy(found->reason, reason, sizeof reason);
    return status;
}

gdn_status gdn_vulkan_probe(void *device, gdn_gpu_implementations *v)
{
    gdn_vulkan_device *dev = device;
    found_t hard = { 0 }, soft = { 0 };
    probe_t x = { .dev = dev };
    gdn_status status =
        gdn_vulkan_allocate(dev, GDN_PROBE_BYTES + GDN_VULKAN_PARAMS_BYTES, GDN_VULKAN_MEMORY_HOST, &x.memory);
    *v = (gdn_gpu_implementations){ 0 };
    if (status) return status;
    status = ask(&x, 0, &hard);
    if (!status && dev->traits.float64) status = ask(&x, 1, &soft);
    if (status != GDN_TIMEOUT) gdn_vulkan_release(dev, &x.memory);
    if (status) return status;

    /* Lanes exchange through subgroup shuffles if eight of them fit in a subgroup and no subgroup can be partly empty.
     * Only full subgroups guarantee that. Otherwise lanes exchange through shared memory. */
    const int sub = dev->traits.shuffle && dev->traits.full_subgroups && dev->traits.subgroup_size >= 8;
    /* Best first. A context without a name gets the first one at GDN_EXACT, so no implementation that is right at
     * GDN_EXACT may come after one that is not. At GDN_EXACT_FTZ a context gets the first one that has that level. */
    const int soft_keeps = soft.levels >> GDN_EXACT & 1, hard_keeps = hard.levels >> GDN_EXACT & 1;
    if (!soft.levels || (hard.levels && hard_keeps >= soft_keeps)) {
        if (sub) gdn_gpu_add_implementation(v, hard.levels ? "fma" : "plain-fma", 0, 1, hard.levels, hard.reason);
        gdn_gpu_add_implementation(v, hard.levels ? "fma-shared" : "plain-fma-shared", 0, 0, hard.levels, hard.reason);
        if (soft.levels) gdn_gpu_add_implementation(v, "soft-fma", 1, sub, soft.levels, soft.reason);
    } else {
        if (sub) gdn_gpu_add_implementation(v, "soft-fma", 1, 1, soft.levels, soft.reason);
        gdn_gpu_add_implementation(v, sub ? "soft-fma-shared" : "soft-fma", 1, 0, soft.levels, soft.reason);
        gdn_gpu_add_implementation(v, hard.levels ? "fma" : "plain-fma", 0, sub, hard.levels, hard.reason);
    }
    return GDN_OK;
}
