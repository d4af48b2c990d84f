/* The backends of this build, their devices and implementations; creating contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/environment.h"
#include "core/status.h"
#include "core/structs.h"

static const char *const backend_names[GDN_BACKEND_COUNT] = { "cpu", "reference", "cuda", "vulkan", "metal" };

/* The backends of this build, by number. Each has a line, guarded by its build option. */
static const gdn_backend *backend_of(uint32_t id)
{
    static const gdn_backend *const backends[GDN_BACKEND_COUNT] = {
        [GDN_BACKEND_CPU] = &gdn_backend_cpu,       [GDN_BACKEND_REFERENCE] = &gdn_backend_reference,
#ifdef GDN_HAVE_CUDA
        [GDN_BACKEND_CUDA] = &gdn_backend_cuda,
#endif
#ifdef GDN_HAVE_VULKAN
        [GDN_BACKEND_VULKAN] = &gdn_backend_vulkan,
#endif
#ifdef GDN_HAVE_METAL
        [GDN_BACKEND_METAL] = &gdn_backend_metal,
#endif
    };
    return id < GDN_BACKEND_COUNT ? backends[id] : NULL;
}

/* ---- Lists ---------------------------------------------------------------------------------------- */

gdn_status gdn_backend_describe(uint32_t backend, gdn_backend_info *info)
{
    gdn_status status = gdn_struct_check("info", info, GDN_FIRST_SIZE(gdn_backend_info));
    if (status) return status;
    if (backend >= GDN_BACKEND_COUNT)
        return gdn_fail(GDN_NOT_FOUND, "backend is %u; there are backends 0..%d", (unsigned)backend,
                        GDN_BACKEND_COUNT - 1);
    gdn_backend_info full = { .backend = backend };
    const gdn_backend *b = backend_of(backend);
    (void)snprintf(full.name, sizeof full.name, "%s", backend_names[backend]);
    if (b) {
        full.built = 1;
        full.available = !b->count_devices(b, &full.n_devices);
        if (!full.available) (void)snprintf(full.reason, sizeof full.reason, "%s", gdn_last_error());
    } else {
        (void)snprintf(full.reason, sizeof full.reason, "this build of libgdn has no %s backend", full.name);
    }
    gdn_struct_write(info, &full, sizeof full);
    return GDN_OK;
}

/* Finds the backend if it has at least device + 1 devices; otherwise returns an error status. */
static gdn_status find_device(uint32_t backend, uint32_t device, const gdn_backend **found)
{
    const gdn_backend *const b = backend_of(backend);
    char reason[GDN_REASON_MAX];
    uint32_t n = 0;
    gdn_status status;
    if (!b) {
        gdn_backend_info info = { .size = sizeof info };
        if ((status = gdn_backend_describe(backend, &info))) return status;
        return gdn_fail(GDN_UNAVAILABLE, "the %s backend is not available: %s", info.name, info.reason);
    }
    if ((status = b->count_devices(b, &n))) {
        (void)snprintf(reason, sizeof reason, "%s", gdn_last_error());
        return gdn_fail(status, "the %s backend is not available: %s", b->name, reason);
    }
    if (device >= n)
        return gdn_fail(GDN_NOT_FOUND, "device is %u; the %s backend has devices 0..%u", (unsigned)device, b->name,
                        (unsigned)n - 1);
    *found = b;
    return GDN_OK;
}

gdn_status gdn_device_describe(uint32_t backend, uint32_t device, gdn_device_info *info)
{
    const gdn_backend *b = NULL;
    gdn_status status = gdn_struct_check("info", info, GDN_FIRST_SIZE(gdn_device_info));
    if (status || (status = find_device(backend, device, &b))) return status;
    gdn_device_info full = { .backend = backend, .device = device };
    if ((status = b->describe_device(b, device, &full))) return status;
    gdn_struct_write(info, &full, sizeof full);
    return GDN_OK;
}

gdn_status gdn_implementation_describe(uint32_t backend, uint32_t device, uint32_t index, gdn_implementation_info *info)
{
    gdn_status status = gdn_struct_check("info", info, GDN_FIRST_SIZE(gdn_implementation_info));
    if (status) return status;
    gdn_device_info d = { .size = sizeof d };
    if ((status = gdn_device_describe(backend, device, &d))) return status;
    if (index >= d.n_implementations)
        return gdn_fail(GDN_NOT_FOUND, "index is %u; device %u of backend %u has implementations 0..%u",
                        (unsigned)index, (unsigned)device, (unsigned)backend, (unsigned)d.n_implementations - 1);
    gdn_implementation_info full = { 0 };
    const gdn_backend *b = backend_of(backend);
    if ((status = b->describe_implementation(b, device, index, &full))) return status;
    gdn_struct_write(info, &full, sizeof full);
    return GDN_OK;
}

/* ---- Contexts ------------------------------------------------------------------------------------- */

static void *default_alloc(void *user, uint64_t bytes, uint64_t alignment)
{
    (void)user;
    return gdn_aligned_alloc(alignment, bytes);
}

static void default_free(void *user, void *memory)
{
    (void)user;
    gdn_aligned_free(memory);
}

/* 1 if an implementation can run at a level. */
static int has_level(const gdn_implementation_info *info, uint32_t level)
{
    return level == GDN_EXACT || info->levels >> level & 1; /* at GDN_EXACT any implementation runs */
}

/* Index of the implementation called `name` on the device. NULL: the best one that has the level, at GDN_EXACT 0. */
static gdn_status find_implementation(const gdn_context_desc *desc, const gdn_backend *backend, uint32_t *index)
{
    gdn_device_info device = { .size = sizeof device };
    gdn_status status = gdn_device_describe(desc->backend, desc->device, &device);
    if (status) return status;
    *index = 0;
    if (!desc->implementation && desc->level == GDN_EXACT) return GDN_OK;
    char have[256] = "";
    for (uint32_t i = 0; i < device.n_implementations; i++) {
        gdn_implementation_info info = { .size = sizeof info };
        if ((status = gdn_implementation_describe(desc->backend, desc->device, i, &info))) return status;
        if (desc->implementation ? !strcmp(info.name, desc->implementation) : has_level(&info, desc->level)) {
            *index = i;
            return has_level(&info, desc->level) ? GDN_OK : gdn_no_level(info.name);
        }
        const size_t used = strlen(have);
        (void)snprintf(have + used, sizeof have - used, "%s%s", i ? ", " : "", info.name);
    }
    if (!desc->implementation) return gdn_no_level(device.name);
    return gdn_fail(GDN_NOT_FOUND, "desc->implementation is \"%.64s\"; device %u of the %s backend has %s",
                    desc->implementation, (unsigned)desc->device, backend->name, have);
}

/* Appends the variable's name to the error text, because the program's source does not name this implementation. */
static gdn_status from_environment(gdn_status status)
{
    char text[384];
    if (status != GDN_NOT_FOUND) return status;
    (void)snprintf(text, sizeof text, "%s", gdn_last_error());
    return gdn_fail(status, "GDN_IMPLEMENTATION in the environment sets desc->implementation: %s", text);
}

gdn_status gdn_context_create(const gdn_context_desc *caller, gdn_context **out)
{
    gdn_context_desc desc;
    const gdn_backend *backend = NULL;
    uint32_t implementation = 0;
    gdn_status status;

    if (!out) return gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL");
    *out = NULL;
    if ((status = gdn_struct_read("desc", caller, GDN_FIRST_SIZE(gdn_context_desc), sizeof desc, &desc))) return status;
    desc.size = (uint32_t)sizeof desc;
    if (!desc.alloc != !desc.free)
        return gdn_fail(GDN_INVALID_ARGUMENT, "desc->%s is NULL but desc->%s is not; give both or neither",
                        desc.alloc ? "free" : "alloc", desc.alloc ? "alloc" : "free");
    if (desc.n_threads > 4096)
        return gdn_fail(GDN_INVALID_ARGUMENT, "desc->n_threads is %u; 0 (one per core) to 4096 are allowed",
                        (unsigned)desc.n_threads);
    if (desc.level >= GDN_LEVEL_COUNT)
        return gdn_fail(GDN_INVALID_ARGUMENT, "desc->level is %u; GDN_EXACT (0) and GDN_EXACT_FTZ (1) are allowed",
                        (unsigned)desc.level);
    if (desc.reserved)
        return gdn_fail(GDN_INVALID_ARGUMENT, "desc->reserved is %u; it must be 0", (unsigned)desc.reserved);
    const char *asked_for = desc.implementation;
    if ((status = gdn_environment_read(&desc, backend_names))) return status;
    const int forced = desc.implementation != asked_for; /* by GDN_IMPLEMENTATION */
    /* The lists do not hold a device that the caller brings; its backend examines it in open. */
    backend = desc.native ? backend_of(desc.backend) : NULL;
    if ((!backend || !backend->describe_context) && ((status = find_device(desc.backend, desc.device, &backend)) ||
                                                     (status = find_implementation(&desc, backend, &implementation))))
        return forced ? from_environment(status) : status;
    if (!desc.alloc) {
        desc.alloc = default_alloc;
        desc.free = default_free;
    }

    gdn_context *ctx = desc.alloc(desc.alloc_user, sizeof *ctx, 64);
    if (!ctx) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a context of %zu bytes", sizeof *ctx);
    *ctx = (gdn_context){ .backend = backend, .desc = desc, .implementation = implementation };
    gdn_mutex_init(&ctx->host_buffers_lock);
    ctx->host_buffers_process = gdn_process_id();
    status = backend->open(ctx, &ctx->desc, implementation);
    /* The caller's strings and structs need not outlive this call. */
    ctx->desc.implementation = NULL;
    ctx->desc.native = NULL;
    if (status) {
        gdn_context_destroy(ctx);
        return forced ? from_environment(status) : status;
    }
    gdn_implementation_info info = { .size = sizeof info };
    if (gdn_context_describe(ctx, NULL, &info) == GDN_OK)
        gdn_context_log(ctx, GDN_LOG_INFO, "%s device %u, %s, %s", backend->name, (unsigned)desc.device, info.name,
                        !(info.levels >> desc.level & 1) ? info.reason
                        : desc.level == GDN_EXACT        ? "exact"
                                                         : "exact_ftz");
    *out = ctx;
    return GDN_OK;
}

gdn_status gdn_context_describe(const gdn_context *ctx, gdn_device_info *device, gdn_implementation_info *info)
{
    if (!ctx) return gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL");
    gdn_status status = GDN_OK;
    if ((device && (status = gdn_struct_check("device", device, GDN_FIRST_SIZE(gdn_device_info)))) ||
        (info && (status = gdn_struct_check("implementation", info, GDN_FIRST_SIZE(gdn_implementation_info)))))
        return status; /* write both or none */
    if (ctx->backend->describe_context) {
        gdn_device_info full_device = { .backend = ctx->backend->id, .device = ctx->desc.device };
        gdn_implementation_info full_info = { 0 };
        if ((status = ctx->backend->describe_context(ctx, &full_device, &full_info))) return status;
        if (device) gdn_struct_write(device, &full_device, sizeof full_device);
        if (info) gdn_struct_write(info, &full_info, sizeof full_info);
        return GDN_OK;
    }
    if (device) status = gdn_device_describe(ctx->backend->id, ctx->desc.device, device);
    if (!status && info)
        status = gdn_implementation_describe(ctx->backend->id, ctx->desc.device, ctx->implementation, info);
    return status;
}
