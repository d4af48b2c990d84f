/* What a context offers to backends, and what callers ask of one. backends/ creates them. */
#include <stdarg.h>
#include <stdio.h>

#include "core/backend.h"
#include "core/status.h"
#include "gdn/vulkan.h"

void *gdn_context_alloc(const gdn_context *ctx, uint64_t bytes, uint64_t alignment)
{
    return ctx->desc.alloc(ctx->desc.alloc_user, bytes, alignment);
}

void gdn_context_free(const gdn_context *ctx, void *memory)
{
    if (memory) ctx->desc.free(ctx->desc.alloc_user, memory);
}

void gdn_context_log(const gdn_context *ctx, int32_t level, const char *format, ...)
{
    char line[512];
    va_list list;
    if (!ctx->desc.log) return;
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    ctx->desc.log(ctx->desc.log_user, level, line);
}

gdn_status gdn_no_level(const char *what)
{
    return gdn_fail(GDN_UNSUPPORTED,
                    "desc->level is GDN_EXACT_FTZ; %.128s does not flush subnormal numbers by that level's rule, and "
                    "can be opened at GDN_EXACT",
                    what);
}

uint64_t gdn_timeout_ns(const gdn_context *ctx, int software)
{
    const uint64_t second = UINT64_C(1000000000);
    return ctx && ctx->desc.timeout_ns ? ctx->desc.timeout_ns : software ? 3600 * second : 10 * second;
}

void gdn_context_destroy(gdn_context *ctx)
{
    if (!ctx) return;
    ctx->backend->close(ctx);
    gdn_host_buffers_free(ctx);
    gdn_context_free(ctx, ctx);
}

gdn_status gdn_synchronize(gdn_context *ctx, gdn_stream stream)
{
    if (!ctx) return gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL");
    return ctx->backend->synchronize(ctx, stream);
}

gdn_status gdn_poll(gdn_context *ctx)
{
    if (!ctx) return gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL");
    return ctx->backend->poll(ctx);
}

/* In this file and not in vulkan/, because every build has the function. */
gdn_status gdn_vulkan_timeline(gdn_context *ctx, void **semaphore, uint64_t *value)
{
    if (!ctx || !semaphore || !value)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s is NULL", !ctx ? "ctx" : !semaphore ? "semaphore" : "value");
    *semaphore = NULL;
    *value = 0;
    if (!ctx->backend->timeline)
        return gdn_fail(GDN_UNSUPPORTED, "the %s backend has no timeline semaphore", ctx->backend->name);
    return ctx->backend->timeline(ctx, semaphore, value);
}
