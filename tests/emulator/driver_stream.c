/* Streams: queues of work, and what it does when its time comes. By default work runs as late as possible, at a wait or
 * a query. So a host that does not wait reads garbage. */
#define _GNU_SOURCE
#include "tests/emulator/driver_api.h"
#include "tests/emulator/driver_internal.h"

#include <stdlib.h>
#include <string.h>

#define MAX_QUEUED 1024 /* as on a device, more makes the host wait */

/* ---- The queue ---- */
simt_stream *simt_new_stream(simt_context *context, unsigned flags)
{
    simt_stream *stream = simt_new_handle(SIMT_STREAM, sizeof *stream, context);
    if (!stream) return NULL;
    stream->flags = flags;
    stream->last = &stream->first;
    return stream;
}

/* In the context, or in a green part of it. */
static int runs_in(const simt_stream *stream, const simt_context *context)
{
    return stream->handle.context == context || stream->handle.context->whole == context;
}

/* CU_STREAM_PER_THREAD: a blocking stream, made when a thread first names it. */
static simt_stream *of_this_thread(simt_context *context)
{
    for (simt_handle *h = simt_handles(SIMT_STREAM); h; h = h->next)
        if (h->context == context && ((simt_stream *)(void *)h)->thread == simt_this_thread())
            return (simt_stream *)(void *)h;
    simt_stream *stream = simt_new_stream(context, 0);
    if (stream) stream->thread = simt_this_thread();
    return stream;
}

simt_stream *simt_find_stream(simt_context *context, simt_stream *stream)
{
    if (!stream || (uintptr_t)stream == 1) return context->legacy;
    if ((uintptr_t)stream == 2) return of_this_thread(context);
    return simt_is(stream, SIMT_STREAM) && runs_in(stream, context) ? stream : NULL;
}

simt_work *simt_new_work(enum simt_work_kind kind, size_t params)
{
    simt_work *work = calloc(1, sizeof *work + params);
    if (work) work->kind = kind;
    return work;
}

void simt_free_list(simt_work *work)
{
    for (simt_work *next; work; work = next) {
        next = work->next;
        free(work);
    }
}

/* An error that every later call in the context returns. */
static void fault(simt_context *context, simt_result result)
{
    if (!context->error) context->error = result;
    if (context->whole && !context->whole->error) context->whole->error = result;
}

static void run_kernel(simt_work *work)
{
    const simt_grid grid = { .name = work->kernel->name,
                             .grid = work->grid,
                             .block = work->block,
                             .fn = work->kernel->run,
                             .arg = work->params,
                             .arg_bytes = work->kernel->param_bytes };
    const int status = simt_run_grid(&grid);
    unsigned char *word;
    size_t at;
    if (!status && simt_has_mistake(grid.name, &at)) {
        memcpy(&word, work->params + at, sizeof word);
        word[0] ^= 1;
    }
    const char *damaged = simt_damaged();
    simt_launches++;
    if (status) simt_complain("%s", simt_error());
    else if (damaged) simt_complain("kernel %s: %s", grid.name, damaged);
    if (status || damaged) fault(work->context, status ? SIMT_LAUNCH_FAILED : SIMT_ILLEGAL_ADDRESS);
}

static void execute(simt_work *work)
{
    if (work->context->error) return; /* after a fault nothing is done any more */
    if (work->kind == SIMT_KERNEL) {
        run_kernel(work);
        return;
    }
    const unsigned which = work->kind == SIMT_SET ? 1 : work->value;
    if ((which & 1 && !simt_device_range(work->to, work->bytes)) ||
        (which & 2 && !simt_device_range(work->from, work->bytes))) {
        simt_complain("%zu bytes were to be copied or set, and their memory is freed before that", work->bytes);
        fault(work->context, SIMT_ILLEGAL_ADDRESS);
    } else if (work->kind == SIMT_COPY) {
        memmove(work->to, work->from, work->bytes);
    } else {
        for (size_t i = 0; i < work->bytes; i += 4) memcpy(work->to + i, &work->value, 4);
    }
}

int simt_run_next(simt_stream *stream)
{
    simt_work *work = stream->first;
    if (!work) return 0;
    stream->first = work->next;
    if (!stream->first) stream->last = &stream->first;
    stream->n--;
    execute(work);
    free(work);
    return 1;
}

void simt_drain(simt_stream *stream)
{
    while (simt_run_next(stream)) {
    }
}

void simt_drain_context(simt_context *context)
{
    for (simt_handle *h = simt_handles(SIMT_STREAM); h; h = h->next)
        if (runs_in((simt_stream *)(void *)h, context)) simt_drain((simt_stream *)(void *)h);
}

/* The legacy stream and blocking streams wait for each other. Running the others' work early is one of the orders that
 * a device may take. */
static simt_result order_with_legacy(simt_stream *stream)
{
    simt_context *context = stream->handle.context;
    if (stream->flags & 1) return SIMT_SUCCESS;
    if (!stream->legacy) {
        simt_drain(context->legacy);
        return SIMT_SUCCESS;
    }
    for (simt_handle *h = simt_handles(SIMT_STREAM); h; h = h->next) {
        simt_stream *other = (simt_stream *)(void *)h;
        if (h->context != context || other->flags & 1 || other == stream) continue;
        if (other->capture) {
            other->capture->invalid = 1;
            return SIMT_STREAM_CAPTURE_IMPLICIT;
        }
        if (!simt_settings.hang) simt_drain(other);
    }
    return SIMT_SUCCESS;
}

simt_result simt_submit(simt_stream *stream, simt_work *work)
{
    if (!work) return SIMT_OUT_OF_MEMORY;
    simt_context *context = stream->handle.context;
    work->context = context;
    simt_capture *capture = stream->capture;
    if (capture) {
        if (capture->invalid) {
            free(work);
            return SIMT_STREAM_CAPTURE_INVALIDATED;
        }
        *capture->last = work;
        capture->last = &work->next;
        return SIMT_SUCCESS;
    }
    const simt_result bad = order_with_legacy(stream);
    if (bad) {
        free(work);
        return bad;
    }
    *stream->last = work;
    stream->last = &work->next;
    stream->n++;
    if (simt_settings.hang) return SIMT_SUCCESS;
    if (stream->n > MAX_QUEUED) simt_run_next(stream);
    if (simt_settings.async == 1) simt_drain(stream);
    if (simt_settings.async == 2)
        for (simt_handle *h = simt_handles(SIMT_STREAM); h; h = h->next)
            for (unsigned n = (unsigned)(simt_random() >> 60) % 4; n; n--) simt_run_next((simt_stream *)(void *)h);
    return SIMT_SUCCESS;
}

/* ---- Streams ---- */
simt_result cuStreamCreate(simt_stream **out, unsigned flags)
{
    ENTER_CONTEXT();
    if (!out || flags > 1 || (context->whole && !flags)) LEAVE(SIMT_INVALID_VALUE); /* green ones do not block */
    *out = simt_new_stream(context, flags);
    LEAVE(*out ? SIMT_SUCCESS : SIMT_OUT_OF_MEMORY);
}

simt_result cuGreenCtxStreamCreate(simt_stream **out, simt_green *green, unsigned flags, int priority)
{
    ENTER();
    if (!out || flags != 1) LEAVE(SIMT_INVALID_VALUE);
    if (!simt_is(green, SIMT_GREEN)) LEAVE(SIMT_INVALID_HANDLE);
    (void)priority;
    *out = simt_new_stream(green->handle.context, flags);
    LEAVE(*out ? SIMT_SUCCESS : SIMT_OUT_OF_MEMORY);
}

void simt_stream_gone(simt_stream *stream)
{
    if (stream->capture) simt_free_list(stream->capture->first);
    free(stream->capture);
    simt_free_list(stream->first); /* where the device hangs */
    simt_drop_handle(stream);
}

/* Of a stream that the caller named; what a current context is does not matter then. */
static simt_result enter_stream(simt_stream **stream)
{
    simt_context *context = simt_current_context();
    if (!context) return SIMT_INVALID_CONTEXT;
    if (context->error) return context->error;
    *stream = simt_find_stream(context, *stream);
    return *stream ? SIMT_SUCCESS : SIMT_INVALID_HANDLE;
}

simt_result cuStreamDestroy_v2(simt_stream *stream)
{
    ENTER();
    if (!simt_is(stream, SIMT_STREAM) || stream->legacy || stream->thread) LEAVE(SIMT_INVALID_HANDLE);
    const simt_result error = stream->handle.context->error;
    if (!simt_settings.hang) simt_drain(stream); /* what is queued is still done */
    simt_stream_gone(stream);
    LEAVE(error);
}

/* As enter_stream(); a stream that is being captured has nothing to wait for, and asking ends the capture. */
static simt_result enter_uncaptured(simt_stream **stream)
{
    const simt_result bad = enter_stream(stream);
    if (bad || !(*stream)->capture) return bad;
    (*stream)->capture->invalid = 1;
    return SIMT_STREAM_CAPTURE_UNSUPPORTED;
}

simt_result cuStreamSynchronize(simt_stream *stream)
{
    ENTER();
    const simt_result bad = enter_uncaptured(&stream);
    if (bad) LEAVE(bad);
    const simt_result unordered = order_with_legacy(stream);
    if (unordered) LEAVE(unordered);
    if (simt_settings.hang && stream->n) LEAVE(SIMT_LAUNCH_TIMEOUT);
    simt_drain(stream);
    LEAVE(stream->handle.context->error);
}

simt_result cuStreamQuery(simt_stream *stream)
{
    ENTER();
    const simt_result bad = enter_uncaptured(&stream);
    if (bad) LEAVE(bad);
    if (stream->n) { /* one more piece has been done meanwhile */
        if (!simt_settings.hang) simt_run_next(stream);
        LEAVE(stream->handle.context->error ? stream->handle.context->error : SIMT_NOT_READY);
    }
    LEAVE(SIMT_SUCCESS);
}

/* As enter_stream(), but also of another context than the current one. */
static simt_result enter_any_stream(simt_stream **stream)
{
    const simt_context *context = simt_current_context();
    if (!context || context->error || !simt_is(*stream, SIMT_STREAM)) return enter_stream(stream);
    return SIMT_SUCCESS;
}

simt_result cuStreamGetCtx(simt_stream *stream, simt_context **out)
{
    ENTER();
    const simt_result bad = out ? enter_any_stream(&stream) : SIMT_INVALID_VALUE;
    if (bad) LEAVE(bad);
    *out = stream->handle.context;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuStreamGetCtx_v2(simt_stream *stream, simt_context **out, simt_green **green)
{
    ENTER();
    const simt_result bad = out && green ? enter_any_stream(&stream) : SIMT_INVALID_VALUE;
    if (bad) LEAVE(bad);
    simt_context *context = stream->handle.context;
    *out = context->whole ? context->whole : context;
    *green = context->green;
    LEAVE(SIMT_SUCCESS);
}
