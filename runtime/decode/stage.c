/* Memory that the host and a backend share. See stage.h. */
#include "runtime/decode/stage.h"

#include <string.h>

#include "runtime/base/error.h"

gdn_status rt_stage_create(gdn_context *ctx, int shared, uint64_t bytes, const char *what, uint64_t *transfers,
                           rt_stage *stage)
{
    memset(stage, 0, sizeof *stage);
    const uint64_t rounded = bytes ? (bytes + 63) / 64 * 64 : 64;
    const gdn_status status = gdn_buffer_create(ctx, rounded, &stage->span);
    if (status) return rt_fail_gdn(status, what);
    stage->ctx = ctx;
    stage->bytes = rounded;
    stage->shared = shared;
    stage->transfers = transfers;
    stage->host = shared ? (char *)stage->span.data + stage->span.offset : rt_calloc(rounded, 1, what);
    if (!stage->host) {
        rt_stage_destroy(stage);
        return GDN_OUT_OF_MEMORY;
    }
    return GDN_OK;
}

void rt_stage_destroy(rt_stage *stage)
{
    if (!stage->ctx) return;
    gdn_buffer_destroy(stage->ctx, &stage->span);
    if (!stage->shared) rt_free(stage->host);
    memset(stage, 0, sizeof *stage);
}

/* True if there is something to copy; counts the copy. */
static int moves(rt_stage *stage, uint64_t bytes)
{
    if (stage->shared || !bytes) return 0;
    ++*stage->transfers;
    return 1;
}

gdn_status rt_stage_push(rt_stage *stage, uint64_t bytes)
{
    const gdn_status status =
        moves(stage, bytes) ? gdn_buffer_write(stage->ctx, &stage->span, 0, stage->host, bytes) : GDN_OK;
    return status ? rt_fail_gdn(status, "copying to the device") : GDN_OK;
}

gdn_status rt_stage_pull(rt_stage *stage, uint64_t bytes)
{
    const gdn_status status =
        moves(stage, bytes) ? gdn_buffer_read(stage->ctx, &stage->span, 0, stage->host, bytes) : GDN_OK;
    return status ? rt_fail_gdn(status, "copying from the device") : GDN_OK;
}
