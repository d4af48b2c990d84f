/* gdn_buffer_*: the public functions, and their implementation for backends with host memory. */
#include <string.h>

#include "core/backend.h"
#include "core/status.h"

static gdn_status check_access(const gdn_context *ctx, const gdn_span *span, uint64_t offset, const void *host,
                               const char *host_name, uint64_t bytes)
{
    if (!ctx) return gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL");
    if (!span || !span->data) return gdn_fail(GDN_INVALID_ARGUMENT, "%s is NULL", span ? "span->data" : "span");
    if (!host && bytes) return gdn_fail(GDN_INVALID_ARGUMENT, "%s is NULL", host_name);
    if (bytes != (size_t)bytes)
        return gdn_fail(GDN_INVALID_ARGUMENT, "bytes is %llu, more than this process has addresses for",
                        (unsigned long long)bytes);
    if (span->bytes && (offset > span->bytes || bytes > span->bytes - offset))
        return gdn_fail(GDN_INVALID_ARGUMENT, "offset %llu and bytes %llu leave the span, which has %llu bytes",
                        (unsigned long long)offset, (unsigned long long)bytes, (unsigned long long)span->bytes);
    return GDN_OK;
}

gdn_status gdn_buffer_create(gdn_context *ctx, uint64_t bytes, gdn_span *span)
{
    if (!ctx) return gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL");
    if (!span) return gdn_fail(GDN_INVALID_ARGUMENT, "span is NULL");
    if (!bytes || bytes > (UINT64_C(1) << 46))
        return gdn_fail(GDN_INVALID_ARGUMENT, "bytes is %llu; 1 to 2^46 are allowed", (unsigned long long)bytes);
    return ctx->backend->buffer_create(ctx, bytes, span);
}

gdn_status gdn_buffer_destroy(gdn_context *ctx, gdn_span *span)
{
    if (!span || !span->data) return GDN_OK;
    if (!ctx) return gdn_fail(GDN_INVALID_ARGUMENT, "ctx is NULL");
    const gdn_status status = ctx->backend->buffer_destroy(ctx, span);
    if (!status) *span = (gdn_span){ 0 };
    return status;
}

gdn_status gdn_no_such_buffer(const gdn_span *span)
{
    return gdn_fail(
        GDN_INVALID_ARGUMENT,
        "span->data is %p, which gdn_buffer_create() has not made with this context, or is destroyed already",
        span->data);
}

gdn_status gdn_buffer_write(gdn_context *ctx, const gdn_span *span, uint64_t offset, const void *source, uint64_t bytes)
{
    gdn_status status = check_access(ctx, span, offset, source, "source", bytes);
    return status ? status : ctx->backend->buffer_write(ctx, span, offset, source, bytes);
}

gdn_status gdn_buffer_read(gdn_context *ctx, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes)
{
    gdn_status status = check_access(ctx, span, offset, target, "target", bytes);
    return status ? status : ctx->backend->buffer_read(ctx, span, offset, target, bytes);
}

/* ---- Host memory: calls have finished when they return, so synchronize has nothing to wait for. ----- */

gdn_status gdn_host_count_devices(const gdn_backend *backend, uint32_t *n)
{
    (void)backend;
    *n = 1;
    return GDN_OK;
}

gdn_status gdn_host_synchronize(gdn_context *ctx, gdn_stream stream)
{
    if (stream)
        return gdn_fail(GDN_INVALID_ARGUMENT, "stream is %p; on the %s backend it must be NULL", stream,
                        ctx->backend->name);
    return GDN_OK;
}

gdn_status gdn_host_poll(gdn_context *ctx)
{
    (void)ctx;
    return GDN_OK;
}

/* Precedes a buffer's bytes, in a list of the context. gdn_buffer_destroy() frees only buffers in the list. */
struct gdn_host_buffer {
    struct gdn_host_buffer *next;
};
enum { HEADER = 64 };

/* Takes the lock. A fork may copy it while another thread holds it, so a child makes a new one. The list itself is
 * valid at any time. */
static void lock_buffers(gdn_context *ctx)
{
    if (ctx->host_buffers_process != gdn_process_id()) {
        gdn_mutex_init(&ctx->host_buffers_lock);
        ctx->host_buffers_process = gdn_process_id();
    }
    gdn_mutex_lock(&ctx->host_buffers_lock);
}

static void *data_of(gdn_host_buffer *b) { return (char *)b + HEADER; }

gdn_status gdn_host_buffer_create(gdn_context *ctx, uint64_t bytes, gdn_span *span)
{
    gdn_host_buffer *b = gdn_context_alloc(ctx, HEADER + bytes, HEADER);
    if (!b) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a buffer of %llu bytes", (unsigned long long)bytes);
    lock_buffers(ctx);
    b->next = ctx->host_buffers;
    ctx->host_buffers = b;
    gdn_mutex_unlock(&ctx->host_buffers_lock);
    *span = (gdn_span){ .data = data_of(b), .bytes = bytes };
    return GDN_OK;
}

gdn_status gdn_host_buffer_destroy(gdn_context *ctx, const gdn_span *span)
{
    lock_buffers(ctx);
    gdn_host_buffer **at = &ctx->host_buffers, *found;
    while (*at && data_of(*at) != span->data) at = &(*at)->next;
    if ((found = *at)) *at = found->next;
    gdn_mutex_unlock(&ctx->host_buffers_lock);
    gdn_context_free(ctx, found);
    return found ? GDN_OK : gdn_no_such_buffer(span);
}

void gdn_host_buffers_free(gdn_context *ctx)
{
    for (gdn_host_buffer *b = ctx->host_buffers, *next; b; b = next) {
        next = b->next;
        gdn_context_free(ctx, b);
    }
    gdn_mutex_destroy(&ctx->host_buffers_lock);
}

gdn_status gdn_host_buffer_write(gdn_context *ctx, const gdn_span *span, uint64_t offset, const void *source,
                                 uint64_t bytes)
{
    (void)ctx;
    if (bytes) memcpy((char *)span->data + span->offset + offset, source, (size_t)bytes);
    return GDN_OK;
}

gdn_status gdn_host_buffer_read(gdn_context *ctx, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes)
{
    (void)ctx;
    if (bytes) memcpy(target, (const char *)span->data + span->offset + offset, (size_t)bytes);
    return GDN_OK;
}
