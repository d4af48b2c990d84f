/* Copies and memsets in streams. */
#include "tests/emulator/driver_api.h"
#include "tests/emulator/driver_internal.h"

#include <stdlib.h>
#include <string.h>

enum { TO_DEVICE = 1, FROM_DEVICE = 2 }; /* which addresses are device memory */

static char *address(simt_ptr at) { return (char *)(uintptr_t)at; }

static simt_result check(const char *to, const char *from, size_t bytes, unsigned which)
{
    if (!bytes) return SIMT_SUCCESS;
    if (!to || !from) return SIMT_INVALID_VALUE;
    if (which & TO_DEVICE && !simt_device_range(to, bytes)) return SIMT_INVALID_VALUE;
    if (which & FROM_DEVICE && !simt_device_range(from, bytes)) return SIMT_INVALID_VALUE;
    return SIMT_SUCCESS;
}

static simt_result later(simt_context *context, simt_stream *named, char *to, const char *from, size_t bytes,
                         unsigned which)
{
    simt_stream *stream = simt_find_stream(context, named);
    if (!stream) return SIMT_INVALID_HANDLE;
    const simt_result bad = check(to, from, bytes, which);
    if (bad || !bytes) return bad;
    const int pageable_source = !(which & FROM_DEVICE) && !simt_is_pinned(from, bytes) && !stream->capture;
    const int pageable_target = !(which & TO_DEVICE) && !simt_is_pinned(to, bytes) && !stream->capture;
    simt_work *work = simt_new_work(SIMT_COPY, pageable_source ? bytes : 0);
    if (work) {
        work->to = to;
        work->from = from;
        work->bytes = bytes;
        work->value = which;
        if (pageable_source) { /* it is staged, and the caller may overwrite it at once */
            memcpy(work->params, from, bytes);
            work->from = (const char *)work->params;
        }
    }
    const simt_result result = simt_submit(stream, work);
    if (result || !pageable_target) return result;
    if (simt_settings.hang) return SIMT_LAUNCH_TIMEOUT;
    simt_drain(stream); /* to pageable memory nothing is asynchronous */
    return context->error;
}

simt_result cuMemcpyHtoDAsync_v2(simt_ptr to, const void *from, size_t bytes, simt_stream *stream)
{
    ENTER_CONTEXT();
    LEAVE(later(context, stream, address(to), from, bytes, TO_DEVICE));
}

simt_result cuMemcpyDtoHAsync_v2(void *to, simt_ptr from, size_t bytes, simt_stream *stream)
{
    ENTER_CONTEXT();
    LEAVE(later(context, stream, to, address(from), bytes, FROM_DEVICE));
}

simt_result cuMemcpyDtoDAsync_v2(simt_ptr to, simt_ptr from, size_t bytes, simt_stream *stream)
{
    ENTER_CONTEXT();
    if (bytes > (size_t)simt_settings.cut) bytes -= (size_t)simt_settings.cut;
    LEAVE(later(context, stream, address(to), address(from), bytes, TO_DEVICE | FROM_DEVICE));
}

simt_result cuMemsetD32_v2(simt_ptr to, unsigned value, size_t n)
{
    ENTER_CONTEXT();
    if (to % sizeof value || n > (size_t)-1 / 8) LEAVE(SIMT_INVALID_VALUE);
    const simt_result bad = check(address(to), address(to), n * sizeof value, TO_DEVICE);
    if (bad || !n) LEAVE(bad);
    const simt_result unsafe = simt_unsafe_call();
    if (unsafe) LEAVE(unsafe);
    simt_work *work = simt_new_work(SIMT_SET, 0);
    if (work) {
        work->to = address(to);
        work->bytes = n * sizeof value;
        work->value = value;
    }
    LEAVE(simt_submit(simt_find_stream(context, NULL), work)); /* asynchronous to the host */
}
