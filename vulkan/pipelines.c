/* Pipelines: created when a call first needs them. See device.h.
 *
 * A pipeline that a command buffer of the caller uses is kept until the device is closed. Of the others, which only our
 * own queue uses, a device keeps the MOST_OWN most recently used. A program whose shapes change with every call would
 * grow otherwise, by megabytes for each pipeline on lavapipe. */
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "vulkan/device.h"

struct gdn_vulkan_pipeline {
    gdn_vulkan_pipeline *next;
    gdn_vulkan_kernel kernel;
    int general;
    uint32_t constants[GDN_VULKAN_CONSTANTS];
    VkPipeline pipeline;
    int recorded;      /* 1: in a command buffer of the caller */
    uint64_t last_use; /* number of the call                   */
};

enum { MOST_OWN = 32 };

/* ---- The cache, as the caller keeps it ---------------------------------------------------------------- */

/* Precedes the driver's data. It is checked because some drivers do not reject foreign or damaged data. */
typedef struct cache_header {
    char magic[8];
    uint64_t bytes, hash; /* of what follows */
    uint8_t cache_uuid[VK_UUID_SIZE], device_uuid[VK_UUID_SIZE], driver_uuid[VK_UUID_SIZE];
    uint32_t vendor, id, driver_version, library;
} cache_header;

static uint64_t hash_of(const unsigned char *data, uint64_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (uint64_t i = 0; i < n; i++) h = (h ^ data[i]) * UINT64_C(0x100000001b3);
    return h;
}

static cache_header header_of(const gdn_vulkan_device *dev, const unsigned char *data, uint64_t bytes)
{
    const gdn_vulkan_traits *t = &dev->traits;
    cache_header h = { .bytes = bytes,
                       .hash = hash_of(data, bytes),
                       .vendor = t->vendor,
                       .id = t->id,
                       .driver_version = t->driver_version,
                       .library = gdn_version() };
    memcpy(h.magic, "gdnvkpc1", 8);
    memcpy(h.cache_uuid, t->cache_uuid, VK_UUID_SIZE);
    memcpy(h.device_uuid, t->device_uuid, VK_UUID_SIZE);
    memcpy(h.driver_uuid, t->driver_uuid, VK_UUID_SIZE);
    return h;
}

static void log_cache(const gdn_vulkan_device *dev, const char *what)
{
    if (dev->gpu.ctx) gdn_context_log(dev->gpu.ctx, GDN_LOG_INFO, "vulkan: the saved pipeline cache %s", what);
}

/* The caller's data if they fit this device, else NULL. *bytes: of the driver's part. */
static unsigned char *load_cache(const gdn_vulkan_device *dev, uint64_t *bytes)
{
    const uint64_t total = dev->cache_load ? dev->cache_load(dev->cache_user, NULL, 0) : 0;
    *bytes = 0;
    if (total <= sizeof(cache_header)) return NULL;
    unsigned char *data = gdn_vulkan_host_alloc(dev, total);
    if (!data) return NULL;
    cache_header h;
    if (dev->cache_load(dev->cache_user, data, total) == total) {
        memcpy(&h, data, sizeof h);
        const cache_header want = header_of(dev, data + sizeof h, total - sizeof h);
        if (!memcmp(&h, &want, sizeof h)) {
            *bytes = total - sizeof h;
            log_cache(dev, "is used");
            return data;
        }
    }
    log_cache(dev, "is of another device, driver or release, or damaged, and not used");
    gdn_vulkan_host_free(dev, data);
    return NULL;
}

static void save_cache(const gdn_vulkan_device *dev)
{
    size_t n = 0;
    if (!dev->cache_save || !dev->cache || !dev->pipelines || dev->lost ||
        dev->vk.GetPipelineCacheData(dev->device, dev->cache, &n, NULL) != VK_SUCCESS || !n)
        return;
    unsigned char *data = gdn_vulkan_host_alloc(dev, sizeof(cache_header) + n);
    if (data && dev->vk.GetPipelineCacheData(dev->device, dev->cache, &n, data + sizeof(cache_header)) == VK_SUCCESS) {
        const cache_header h = header_of(dev, data + sizeof h, n);
        memcpy(data, &h, sizeof h);
        dev->cache_save(dev->cache_user, data, sizeof h + n);
    }
    gdn_vulkan_host_free(dev, data);
}

gdn_status gdn_vulkan_pipelines_open(gdn_vulkan_device *dev)
{
    const VkPushConstantRange range = { VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(gdn_vulkan_push) };
    const VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    VkResult result = dev->vk.CreatePipelineLayout(dev->device, &layout, NULL, &dev->layout);
    if (result != VK_SUCCESS) {
        dev->layout = VK_NULL_HANDLE;
        return gdn_vulkan_fail(dev, result, "vkCreatePipelineLayout");
    }
    uint64_t bytes;
    unsigned char *saved = load_cache(dev, &bytes);
    const VkPipelineCacheCreateInfo cache = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = (size_t)bytes,
        .pInitialData = saved ? saved + sizeof(cache_header) : NULL,
    };
    result = dev->vk.CreatePipelineCache(dev->device, &cache, NULL, &dev->cache);
    gdn_vulkan_host_free(dev, saved);
    if (result != VK_SUCCESS) {
        dev->cache = VK_NULL_HANDLE;
        return gdn_vulkan_fail(dev, result, "vkCreatePipelineCache");
    }
    return GDN_OK;
}

void gdn_vulkan_pipelines_close(gdn_vulkan_device *dev)
{
    save_cache(dev);
    while (dev->pipelines) {
        gdn_vulkan_pipeline *p = dev->pipelines;
        dev->pipelines = p->next;
        dev->vk.DestroyPipeline(dev->device, p->pipeline, NULL);
        gdn_vulkan_host_free(dev, p);
    }
    if (dev->cache) dev->vk.DestroyPipelineCache(dev->device, dev->cache, NULL);
    if (dev->layout) dev->vk.DestroyPipelineLayout(dev->device, dev->layout, NULL);
    dev->cache = VK_NULL_HANDLE;
    dev->layout = VK_NULL_HANDLE;
}

/* ---- Pipelines ---------------------------------------------------------------------------------------- */

/* A hash of what affects a pipeline's code. A cache from the caller may be damaged in ways that the header does not
 * show. So a context with such a cache gets an identity of its own. */
uint64_t gdn_vulkan_identity(const gdn_vulkan_device *dev)
{
    const gdn_vulkan_traits *t = &dev->traits;
    const struct {
        uint64_t cached;
        uint32_t vendor, id, version, subgroup;
        int is[10];
    } of = { .cached = dev->cache_load ? (uint64_t)(uintptr_t)dev->device : 0,
             .vendor = t->vendor,
             .id = t->id,
             .version = t->driver_version,
             .subgroup = t->subgroup_size,
             .is = { t->full_subgroups, t->storage16, t->float64, t->denorm_preserve, t->denorm_flush, t->denorm_alone,
                     t->inf_nan_preserve, t->round_to_even, t->shader_fma, t->required_size } };
    uint64_t h = hash_of((const unsigned char *)&of, sizeof of);
    h ^= 3 * hash_of(t->device_uuid, VK_UUID_SIZE);
    return h ^ 5 * hash_of(t->driver_uuid, VK_UUID_SIZE);
}

static double seconds(void) { return 1e-9 * (double)gdn_now(); }

gdn_status gdn_vulkan_pipeline_make(gdn_vulkan_device *dev, gdn_vulkan_kernel kernel, int general,
                                    const gdn_gpu_implementation *of, uint32_t level,
                                    const uint32_t constants[GDN_VULKAN_CONSTANTS], VkPipeline *pipeline)
{
    enum { N = GDN_VULKAN_CONSTANTS + 1 };
    const gdn_vulkan_code code = gdn_vulkan_shader(kernel, general, of->soft_fma, of->subgroup, dev->traits.storage16);
    uint32_t *words = gdn_vulkan_host_alloc(dev, (code.n + GDN_VULKAN_CONTROL_WORDS) * sizeof *words);
    VkShaderModule module = VK_NULL_HANDLE;
    if (!words) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a shader of %zu words", code.n);
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .pCode = words,
        .codeSize = gdn_vulkan_fit(&dev->traits, level, code, words) * sizeof *words,
    };
    VkResult result = dev->vk.CreateShaderModule(dev->device, &module_info, NULL, &module);
    gdn_vulkan_host_free(dev, words);
    if (result != VK_SUCCESS) return gdn_vulkan_fail(dev, result, "vkCreateShaderModule");

    VkSpecializationMapEntry entries[N];
    uint32_t values[N];
    for (uint32_t i = 0; i < N; i++) {
        entries[i] = (VkSpecializationMapEntry){ i, i * (uint32_t)sizeof values[0], sizeof values[0] };
        values[i] = i < GDN_VULKAN_CONSTANTS ? constants[i] : level == GDN_EXACT_FTZ;
    }
    const VkSpecializationInfo specialization = { N, entries, sizeof values, values };
    const int whole = of->subgroup && dev->traits.full_subgroups && constants[0] % dev->traits.subgroup_size == 0;
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = dev->traits.subgroup_size,
    };
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .layout = dev->layout,
        .stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                   .pNext = whole && dev->traits.required_size ? &size : NULL,
                   .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                   .module = module,
                   .pName = "main",
                   .pSpecializationInfo = &specialization,
                   .flags = whole ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0 },
    };
    result = dev->vk.CreateComputePipelines(dev->device, dev->cache, 1, &info, NULL, pipeline);
    dev->vk.DestroyShaderModule(dev->device, module, NULL);
    return result == VK_SUCCESS ? GDN_OK : gdn_vulkan_fail(dev, result, "vkCreateComputePipelines");
}

/* Destroys the least recently used of our own pipelines if there are MOST_OWN. If the queue does not finish in time,
 * all are kept. */
static void make_room(gdn_vulkan_device *dev)
{
    gdn_vulkan_pipeline **oldest = NULL;
    int n_own = 0;
    for (gdn_vulkan_pipeline **at = &dev->pipelines; *at; at = &(*at)->next) {
        if ((*at)->recorded) continue;
        n_own++;
        if (!oldest || (*at)->last_use < (*oldest)->last_use) oldest = at;
    }
    if (n_own < MOST_OWN || gdn_vulkan_wait(dev)) return;
    gdn_vulkan_pipeline *p = *oldest;
    *oldest = p->next;
    dev->vk.DestroyPipeline(dev->device, p->pipeline, NULL);
    gdn_vulkan_host_free(dev, p);
}

gdn_status gdn_vulkan_pipeline_get(gdn_vulkan_device *dev, gdn_vulkan_kernel kernel, int general,
                                   const uint32_t constants[GDN_VULKAN_CONSTANTS], gdn_stream stream,
                                   VkPipeline *pipeline)
{
    dev->n_uses++;
    for (gdn_vulkan_pipeline *p = dev->pipelines; p; p = p->next)
        if (p->kernel == kernel && p->general == general && !memcmp(p->constants, constants, sizeof p->constants)) {
            p->last_use = dev->n_uses;
            p->recorded |= stream != NULL;
            *pipeline = p->pipeline;
            return GDN_OK;
        }
    make_room(dev);
    gdn_vulkan_pipeline *p = gdn_vulkan_host_alloc(dev, sizeof *p);
    if (!p) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for the record of a pipeline");
    *p = (gdn_vulkan_pipeline){
        .kernel = kernel, .general = general, .recorded = stream != NULL, .last_use = dev->n_uses
    };
    memcpy(p->constants, constants, sizeof p->constants);
    const double before = seconds();
    gdn_status status = gdn_vulkan_pipeline_make(dev, kernel, general, &dev->gpu.implementation, dev->gpu.level,
                                                 constants, &p->pipeline);
    if (status) {
        gdn_vulkan_host_free(dev, p);
        return status;
    }
    if (dev->gpu.ctx)
        gdn_context_log(dev->gpu.ctx, GDN_LOG_DEBUG, "vulkan: pipeline of %s, %u lanes (%u, %u, %u), made in %.3f s",
                        gdn_vulkan_kernel_name(kernel), (unsigned)constants[0], (unsigned)constants[1],
                        (unsigned)constants[2], (unsigned)constants[3], seconds() - before);
    p->next = dev->pipelines;
    dev->pipelines = p;
    *pipeline = p->pipeline;
    return GDN_OK;
}
