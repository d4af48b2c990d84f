/* Stream capture and graphs. A graph is its work in the order of capture, one of the orders that are allowed. */
#include "tests/emulator/driver_api.h"
#include "tests/emulator/driver_internal.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local int thread_mode; /* 0 global, 1 thread-local, 2 relaxed */

/* A global capture forbids unsafe calls to every thread, a thread-local one to its own, a relaxed one to none. A thread
 * that is relaxed itself may always make them. */
simt_result simt_unsafe_call(void)
{
    if (thread_mode == 2) return SIMT_SUCCESS;
    for (simt_handle *h = simt_handles(SIMT_STREAM); h; h = h->next) {
        simt_capture *capture = ((simt_stream *)(void *)h)->capture;
        if (!capture || capture->mode == 2) continue;
        const int own = capture->thread == simt_this_thread();
        if (own || (capture->mode == 0 && thread_mode == 0)) {
            capture->invalid = 1;
            return SIMT_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return SIMT_SUCCESS;
}

static simt_result drop(simt_graph *graph, enum simt_kind kind)
{
    if (!simt_is(graph, kind)) return SIMT_INVALID_VALUE;
    simt_free_list(graph->first);
    simt_drop_handle(graph);
    return SIMT_SUCCESS;
}

static simt_work *copy_of(const simt_work *work)
{
    const size_t params = work->kind == SIMT_KERNEL ? work->kernel->param_bytes : 0;
    simt_work *copy = simt_new_work(work->kind, params);
    if (!copy) return NULL;
    memcpy(copy, work, sizeof *copy + params);
    copy->next = NULL;
    return copy;
}

simt_result cuStreamBeginCapture_v2(simt_stream *stream, int mode)
{
    ENTER_CONTEXT();
    stream = simt_find_stream(context, stream);
    if (!stream) LEAVE(SIMT_INVALID_HANDLE);
    if (mode < 0 || mode > 2) LEAVE(SIMT_INVALID_VALUE);
    if (stream->legacy) LEAVE(SIMT_STREAM_CAPTURE_UNSUPPORTED);
    if (stream->capture) LEAVE(SIMT_ILLEGAL_STATE);
    simt_capture *capture = calloc(1, sizeof *capture);
    if (!capture) LEAVE(SIMT_OUT_OF_MEMORY);
    capture->mode = mode;
    capture->thread = simt_this_thread();
    capture->last = &capture->first;
    stream->capture = capture;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuStreamEndCapture(simt_stream *stream, simt_graph **out)
{
    ENTER_CONTEXT();
    stream = simt_find_stream(context, stream);
    if (!stream) LEAVE(SIMT_INVALID_HANDLE);
    if (!out) LEAVE(SIMT_INVALID_VALUE);
    *out = NULL;
    simt_capture *capture = stream->capture;
    if (!capture) LEAVE(SIMT_ILLEGAL_STATE);
    if (capture->mode != 2 && capture->thread != simt_this_thread()) LEAVE(SIMT_STREAM_CAPTURE_WRONG_THREAD);
    simt_result result = capture->invalid ? SIMT_STREAM_CAPTURE_INVALIDATED : SIMT_SUCCESS;
    stream->capture = NULL;
    simt_graph *graph = result ? NULL : simt_new_handle(SIMT_GRAPH, sizeof *graph, context);
    if (graph) {
        graph->first = capture->first;
        *out = graph;
    } else {
        simt_free_list(capture->first);
        if (!result) result = SIMT_OUT_OF_MEMORY;
    }
    free(capture);
    LEAVE(result);
}

simt_result cuStreamIsCapturing(simt_stream *stream, int *status)
{
    ENTER_CONTEXT();
    if (!status) LEAVE(SIMT_INVALID_VALUE);
    stream = simt_find_stream(context, stream);
    if (!stream) LEAVE(SIMT_INVALID_HANDLE);
    *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuThreadExchangeStreamCaptureMode(int *mode)
{
    ENTER();
    if (!mode || *mode < 0 || *mode > 2) LEAVE(SIMT_INVALID_VALUE);
    const int old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuGraphInstantiateWithFlags(simt_graph_exec **out, simt_graph *graph, unsigned long long flags)
{
    ENTER_CONTEXT();
    if (!out || flags > 15 || !simt_is(graph, SIMT_GRAPH)) LEAVE(SIMT_INVALID_VALUE);
    simt_graph_exec *exec = simt_new_handle(SIMT_GRAPH_EXEC, sizeof *exec, context);
    if (!exec) LEAVE(SIMT_OUT_OF_MEMORY);
    simt_work **last = &exec->first;
    for (const simt_work *work = graph->first; work; work = work->next, last = &(*last)->next)
        if (!(*last = copy_of(work))) {
            (void)drop(exec, SIMT_GRAPH_EXEC);
            LEAVE(SIMT_OUT_OF_MEMORY);
        }
    *out = exec;
    LEAVE(SIMT_SUCCESS);
}

simt_result cuGraphLaunch(simt_graph_exec *exec, simt_stream *stream)
{
    ENTER_CONTEXT();
    if (!simt_is(exec, SIMT_GRAPH_EXEC)) LEAVE(SIMT_INVALID_VALUE);
    stream = simt_find_stream(context, stream);
    if (!stream) LEAVE(SIMT_INVALID_HANDLE);
    for (const simt_work *work = exec->first; work; work = work->next) {
        const simt_result result = simt_submit(stream, copy_of(work));
        if (result) LEAVE(result);
    }
    LEAVE(SIMT_SUCCESS);
}

simt_result cuGraphDestroy(simt_graph *graph)
{
    ENTER();
    LEAVE(drop(graph, SIMT_GRAPH));
}

simt_result cuGraphExecDestroy(simt_graph_exec *exec)
{
    ENTER();
    LEAVE(drop(exec, SIMT_GRAPH_EXEC));
}
