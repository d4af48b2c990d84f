/* Streams and events: queues of work. By default work runs as late as it may, when somebody waits for it or asks about
 * it, so that a host that forgets to wait reads garbage. */
#define _GNU_SOURCE
#include "tests/emulator/driver_api.h"
#include "tests/emulator/driver_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

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

int simt_runs_in(const simt_stream *stream, const simt_context *context)
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
    return simt_is(stream, SIMT_STREAM) && simt_runs_in(stream, context) ? stream : NULL;
}

simt_work *simt_new_work(enum simt_work_kind kind, size_t params)
{
    simt_work *work = calloc(1, sizeof *work + params);
    if (work) work->kind = kind;
    return work;
}

static void event_done_with(simt_event *event)
{
    event->uses--;
    if (event->dead && !event->uses) free(event);
}

void simt_free_work(simt_work *work)
{
    if (work->event) event_done_with(work->event);
    free(work);
}

int simt_run_next(simt_stream *stream)
{
    simt_work *work = stream->first;
    if (!work) return 0;
    stream->first = work->next;
    if (!stream->first) stream->last = &stream->first;
    stream->n--;
    simt_execute(stream, work);
    simt_free_work(work);
    return 1;
}

void simt_drain(simt_stream *stream)
{
    while (simt_run_next(stream)) {
    }
}

void simt_drain_blocking(simt_context *context)
{
    for (simt_handle *h = simt_handles(SIMT_STREAM); h; h = h->next) {
        simt_stream *stream = (simt_stream *)(void *)h;
        if (h->context == context && !(stream->flags & 1)) simt_drain(stream);
    }
}

void simt_drain_context(simt_context *context)
{
    for (simt_handle *h = simt_handles(SIMT_STREAM); h; h = h->next)
        if (simt_runs_in((simt_stream *)(void *)h, context)) simt_drain((simt_stream *)(void *)h);
}

void simt_until(simt_event *event, unsigned long long ticket)
{
    while (event->done < ticket && simt_is(event->stream, SIMT_STREAM) && simt_run_next(event->stream)) {
    }
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
            simt_free_work(work);
            return SIMT_STREAM_CAPTURE_INVALIDATED;
        }
        *capture->last = work;
        capture->last = &work->next;
        stream->captured++;
        stream->unjoined = stream != capture->origin;
        return SIMT_SUCCESS;
    }
    const simt_result bad = order_with_legacy(stream);
    if (bad) {
        simt_free_work(work);
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
simt_result cuStreamCreateWithPriority(simt_stream **out, unsigned flags, int priority)
{
    ENTER_CONTEXT();
    if (!out || flags > 1 || (context->whole && !flags)) LEAVE(SIMT_INVALID_VALUE); /* green ones do not block */
    (void)priority;
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

simt_result cuStreamCreate(simt_stream **out, unsigned flags) { return cuStreamCreateWithPriority(out, flags, 0); }

void simt_stream_gone(simt_stream *stream)
{
    if (stream->capture && stream->capture->origin == stream) {
        for (simt_work *work = stream->capture->first, *next; work; work = next) {
            next = work->next;
            simt_free_work(work);
        }
        simt_capture *capture = stream->capture;
        for (simt_handle *h = simt_handles(SIMT_STREAM); h; h = h->next)
            if (((simt_stream *)(void *)h)->capture == capture) ((simt_stream *)(void *)h)->capture = NULL;
        free(capture);
    }
    while (stream->first) { /* where the device hangs */
        simt_work *next = stream->first->next;
        simt_free_work(stream->first);
        stream->first = next;
    }
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

simt_result cuStreamWaitEvent(simt_stream *stream, simt_event *event, unsigned flags)
{
    ENTER();
    const simt_result bad = enter_stream(&stream);
    if (bad) LEAVE(bad);
    if (!simt_is(event, SIMT_EVENT)) LEAVE(SIMT_INVALID_HANDLE);
    if (flags > 1) LEAVE(SIMT_INVALID_VALUE);
    if (event->capture) { /* the stream joins the capture, or the other stream is joined by it */
        if (stream->capture && stream->capture != event->capture) LEAVE(SIMT_STREAM_CAPTURE_MERGE);
        if (stream->legacy) LEAVE(SIMT_STREAM_CAPTURE_IMPLICIT);
        stream->capture = event->capture;
        if (simt_is(event->capture_stream, SIMT_STREAM) && event->capture_stream != stream) {
            if (event->capture_stream->captured == event->captured) event->capture_stream->unjoined = 0;
            stream->unjoined = stream != stream->capture->origin;
        }
        LEAVE(SIMT_SUCCESS);
    }
    if (stream->capture) {
        if (!event->issued) LEAVE(SIMT_SUCCESS);
        stream->capture->invalid = 1; /* on work outside of the capture */
        LEAVE(SIMT_STREAM_CAPTURE_ISOLATION);
    }
    simt_work *work = simt_new_work(SIMT_WAIT, 0);
    if (work) {
        work->event = event;
        work->ticket = event->issued;
        event->uses++;
    }
    LEAVE(simt_submit(stream, work));
}

simt_result cuLaunchHostFunc(simt_stream *stream, simt_host_fn fn, void *data)
{
    ENTER();
    const simt_result bad = fn ? enter_stream(&stream) : SIMT_INVALID_VALUE;
    if (bad) LEAVE(bad);
    simt_work *work = simt_new_work(SIMT_HOST, 0);
    if (work) {
        work->fn = fn;
        work->data = data;
    }
    LEAVE(simt_submit(stream, work));
}

/* ---- Events ---- */
simt_result cuEventCreate(simt_event **out, unsigned flags)
{
    ENTER_CONTEXT();
    if (!out || flags > 7 || (flags & 6) == 4) LEAVE(SIMT_INVALID_VALUE); /* interprocess needs: no timing */
    simt_event *event = simt_new_handle(SIMT_EVENT, sizeof *event, context);
    if (!event) LEAVE(SIMT_OUT_OF_MEMORY);
    event->flags = flags;
    *out = event;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuEventRecord(simt_event *event, simt_stream *stream)
{
    ENTER();
    const simt_result bad = enter_stream(&stream);
    if (bad) LEAVE(bad);
    if (!simt_is(event, SIMT_EVENT) || event->handle.context != stream->handle.context) LEAVE(SIMT_INVALID_HANDLE);
    if (stream->capture) {
        if (stream->capture->invalid) LEAVE(SIMT_STREAM_CAPTURE_INVALIDATED);
        event->capture = stream->capture;
        event->capture_stream = stream;
        event->captured = stream->captured;
        LEAVE(SIMT_SUCCESS);
    }
    simt_work *work = simt_new_work(SIMT_RECORD, 0);
    if (work) {
        event->capture = NULL;
        event->stream = stream;
        work->event = event;
        work->ticket = ++event->issued;
        event->uses++;
    }
    LEAVE(simt_submit(stream, work));
}

static simt_result enter_event(simt_event *event)
{
    if (!simt_is(event, SIMT_EVENT)) return SIMT_INVALID_HANDLE;
    if (event->handle.context->error) return event->handle.context->error;
    return event->capture ? SIMT_CAPTURED_EVENT : SIMT_SUCCESS;
}

simt_result cuEventQuery(simt_event *event)
{
    ENTER();
    const simt_result bad = enter_event(event);
    if (bad) LEAVE(bad);
    if (event->done == event->issued) LEAVE(SIMT_SUCCESS);
    if (!simt_settings.hang) simt_run_next(event->stream);
    LEAVE(event->handle.context->error ? event->handle.context->error : SIMT_NOT_READY);
}

simt_result cuEventSynchronize(simt_event *event)
{
    ENTER();
    const simt_result bad = enter_event(event);
    if (bad) LEAVE(bad);
    if (simt_settings.hang && event->done != event->issued) LEAVE(SIMT_LAUNCH_TIMEOUT);
    simt_until(event, event->issued);
    LEAVE(event->handle.context->error);
}

simt_result cuEventDestroy_v2(simt_event *event)
{
    ENTER();
    if (!simt_is(event, SIMT_EVENT)) LEAVE(SIMT_INVALID_HANDLE);
    const simt_result error = event->handle.context->error;
    simt_unlist_handle(event);
    event->dead = 1;
    if (!event->uses) free(event);
    LEAVE(error);
}

simt_result cuEventElapsedTime_v2(float *ms, simt_event *start, simt_event *end)
{
    ENTER();
    simt_result bad = ms ? enter_event(start) : SIMT_INVALID_VALUE;
    if (!bad) bad = enter_event(end);
    if (bad) LEAVE(bad);
    if ((start->flags | end->flags) & 2 || !start->issued || !end->issued) LEAVE(SIMT_INVALID_HANDLE);
    if (start->done != start->issued || end->done != end->issued) LEAVE(SIMT_NOT_READY);
    *ms = (float)((end->time - start->time) * 1e3);
    LEAVE(SIMT_SUCCESS);
}
