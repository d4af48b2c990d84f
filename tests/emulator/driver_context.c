/* Contexts: the primary one, others, and which is current to a thread. */
#include "tests/emulator/driver_api.h"
#include "tests/emulator/driver_internal.h"

#include <stdlib.h>

#define MAX_DEVICES 8
#define MAX_DEPTH   32
static simt_context *primary[MAX_DEVICES];
static _Thread_local struct {
    simt_context *stack[MAX_DEPTH];
    unsigned depth;
} mine;

simt_context *simt_current_context(void)
{
    if (!mine.depth) return NULL;
    simt_context *context = mine.stack[mine.depth - 1];
    return simt_is(context, SIMT_CONTEXT) ? context : NULL; /* it may have been destroyed since */
}

static simt_context *create(simt_device device)
{
    simt_context *context = simt_new_handle(SIMT_CONTEXT, sizeof *context, NULL);
    if (!context) return NULL;
    context->device = device;
    context->legacy = simt_new_stream(context, 0);
    if (!context->legacy) {
        simt_drop_handle(context);
        return NULL;
    }
    context->legacy->legacy = 1;
    return context;
}

/* A context takes all with it that was made in it. */
static void destroy(simt_context *context)
{
    simt_drain_context(context);
    static const enum simt_kind kinds[] = { SIMT_GREEN, SIMT_GRAPH_EXEC, SIMT_GRAPH, SIMT_FUNCTION, SIMT_MODULE };
    for (simt_handle *h = simt_handles(SIMT_STREAM), *next; h; h = next) {
        next = h->next;
        if (h->context == context) simt_stream_gone((simt_stream *)(void *)h);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (simt_handle *h = simt_handles(kinds[i]), *next; h; h = next) {
            next = h->next;
            if (h->context != context) continue;
            if (kinds[i] == SIMT_GRAPH || kinds[i] == SIMT_GRAPH_EXEC) simt_free_list(((simt_graph *)(void *)h)->first);
            simt_drop_handle(h);
        }
    simt_context_memory_gone(context);
    simt_drop_handle(context);
}

static simt_result push(simt_context *context)
{
    if (mine.depth == MAX_DEPTH) return SIMT_INVALID_VALUE;
    mine.stack[mine.depth++] = context;
    return SIMT_SUCCESS;
}

static int is_device(simt_device device)
{
    return device >= 0 && device < simt_settings.devices && device < MAX_DEVICES;
}

simt_result cuDevicePrimaryCtxRetain(simt_context **out, simt_device device)
{
    ENTER();
    if (!out) LEAVE(SIMT_INVALID_VALUE);
    if (!is_device(device)) LEAVE(SIMT_INVALID_DEVICE);
    if (!primary[device]) {
        primary[device] = create(device);
        if (!primary[device]) LEAVE(SIMT_OUT_OF_MEMORY);
        primary[device]->primary = 1;
    }
    primary[device]->retained++;
    *out = primary[device];
    LEAVE(SIMT_SUCCESS);
}

static simt_result release(simt_device device, int all)
{
    if (!is_device(device)) return SIMT_INVALID_DEVICE;
    if (!primary[device]) return all ? SIMT_SUCCESS : SIMT_INVALID_CONTEXT;
    if (all || --primary[device]->retained == 0) {
        destroy(primary[device]);
        primary[device] = NULL;
    }
    return SIMT_SUCCESS;
}

simt_result cuDevicePrimaryCtxRelease_v2(simt_device device)
{
    ENTER();
    LEAVE(release(device, 0));
}

simt_result cuDevicePrimaryCtxReset_v2(simt_device device)
{
    ENTER();
    LEAVE(release(device, 1));
}

simt_result cuCtxCreate_v2(simt_context **out, unsigned flags, simt_device device)
{
    ENTER();
    if (!out || flags & ~0xffu) LEAVE(SIMT_INVALID_VALUE);
    if (!is_device(device)) LEAVE(SIMT_INVALID_DEVICE);
    simt_context *context = create(device);
    if (!context) LEAVE(SIMT_OUT_OF_MEMORY);
    const simt_result result = push(context);
    if (result) destroy(context);
    else *out = context;
    LEAVE(result);
}

simt_result cuCtxDestroy_v2(simt_context *context)
{
    ENTER();
    if (!simt_is(context, SIMT_CONTEXT) || context->primary) LEAVE(SIMT_INVALID_CONTEXT);
    if (mine.depth && mine.stack[mine.depth - 1] == context) mine.depth--;
    destroy(context);
    LEAVE(SIMT_SUCCESS);
}

simt_result cuCtxPushCurrent_v2(simt_context *context)
{
    ENTER();
    if (!simt_is(context, SIMT_CONTEXT)) LEAVE(SIMT_INVALID_CONTEXT);
    LEAVE(push(context));
}

simt_result cuCtxPopCurrent_v2(simt_context **out)
{
    ENTER();
    if (!mine.depth) LEAVE(SIMT_INVALID_CONTEXT);
    mine.depth--;
    if (out) *out = mine.stack[mine.depth];
    LEAVE(SIMT_SUCCESS);
}

simt_result cuCtxSetCurrent(simt_context *context)
{
    ENTER();
    if (context && !simt_is(context, SIMT_CONTEXT)) LEAVE(SIMT_INVALID_CONTEXT);
    if (mine.depth) mine.depth--;
    LEAVE(context ? push(context) : SIMT_SUCCESS);
}

simt_result cuCtxGetCurrent(simt_context **out)
{
    ENTER();
    GIVE(out, simt_current_context());
}

simt_result cuCtxGetDevice(simt_device *device)
{
    ENTER_CONTEXT();
    GIVE(device, context->device);
}

simt_result cuCtxSynchronize(void)
{
    ENTER_CONTEXT();
    for (simt_handle *h = simt_handles(SIMT_STREAM); h; h = h->next) {
        simt_stream *stream = (simt_stream *)(void *)h;
        if (h->context == context && stream->capture) {
            stream->capture->invalid = 1;
            LEAVE(SIMT_STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    if (simt_settings.hang) LEAVE(SIMT_LAUNCH_TIMEOUT);
    simt_drain_context(context);
    LEAVE(context->error);
}

/* ---- Green contexts: here without multiprocessors of their own ---- */
simt_result cuGreenCtxCreate(simt_green **out, void *resources, simt_device device, unsigned flags)
{
    simt_context *whole = NULL;
    (void)resources;
    const simt_result retained = cuDevicePrimaryCtxRetain(&whole, device);
    if (retained) return retained;
    ENTER();
    if (!out || flags > 1) LEAVE(SIMT_INVALID_VALUE);
    simt_context *context = create(device);
    simt_green *green = context ? simt_new_handle(SIMT_GREEN, sizeof *green, context) : NULL;
    if (!green) LEAVE(SIMT_OUT_OF_MEMORY);
    context->whole = whole;
    context->green = green;
    *out = green;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuGreenCtxDestroy(simt_green *green)
{
    ENTER();
    if (!simt_is(green, SIMT_GREEN)) LEAVE(SIMT_INVALID_HANDLE);
    const simt_device device = green->handle.context->device;
    destroy(green->handle.context);
    LEAVE(release(device, 0));
}

simt_result cuCtxFromGreenCtx(simt_context **out, simt_green *green)
{
    ENTER();
    if (!simt_is(green, SIMT_GREEN)) LEAVE(SIMT_INVALID_HANDLE);
    GIVE(out, green->handle.context);
}
