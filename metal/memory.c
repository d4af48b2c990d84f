/* Buffers for programs, which are shared memory, and copies. Copies of a caller's private buffers go through the
 * staging buffer. See device.h. */
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "metal/device.h"

enum { BAD_BYTES = 256 };

gdn_status gdn_metal_allocate(gdn_metal_device *dev, uint64_t bytes, gdn_id *buffer)
{
    const unsigned long most = gdn_number(dev->rt, dev->device, dev->rt->sel.maxBufferLength);
    *buffer = bytes > most ? NULL
                           : gdn_send_nn(dev->rt, dev->device, dev->rt->sel.newBuffer, (unsigned long)bytes,
                                         GDN_MTL_STORAGE_SHARED << 4);
    if (!*buffer)
        return gdn_fail(
            GDN_OUT_OF_MEMORY,
            "no buffer of %llu bytes on %s: newBufferWithLength:options: has none; at most %lu bytes are allowed",
            (unsigned long long)bytes, dev->about.name, most);
    return GDN_OK;
}

gdn_status gdn_metal_memory_open(gdn_metal_device *dev)
{
    gdn_status status;
    if ((status = gdn_metal_allocate(dev, GDN_METAL_STAGING_BYTES, &dev->staging)) ||
        (status = gdn_metal_allocate(dev, BAD_BYTES, &dev->bad_buffer)))
        return status;
    dev->bad = gdn_send(dev->rt, dev->bad_buffer, dev->rt->sel.contents);
    memset(dev->bad, 0, BAD_BYTES);
    return GDN_OK;
}

void gdn_metal_memory_close(gdn_metal_device *dev)
{
    for (gdn_gpu_buffer *b = dev->gpu.buffers; b; b = b->next) dev->rt->release(b->data);
    if (dev->staging) dev->rt->release(dev->staging);
    if (dev->bad_buffer) dev->rt->release(dev->bad_buffer);
    dev->staging = dev->bad_buffer = NULL;
}

/* ---- Copies ----------------------------------------------------------------------------------------- */

/* Finds the host address of the span's bytes. NULL: the device must copy them. */
static gdn_status locate(gdn_metal_device *dev, const gdn_span *span, uint64_t offset, uint64_t bytes, char **at)
{
    const gdn_objc *rt = dev->rt;
    const uint64_t begin = span->offset + offset, length = gdn_number(rt, span->data, rt->sel.length);
    const unsigned long mode = gdn_number(rt, span->data, rt->sel.storageMode);
    *at = NULL;
    if (begin > length || bytes > length - begin)
        return gdn_fail(GDN_INVALID_ARGUMENT, "bytes %llu to %llu of a buffer of %llu bytes", (unsigned long long)begin,
                        (unsigned long long)(begin + bytes), (unsigned long long)length);
    if (mode == GDN_MTL_STORAGE_SHARED) *at = (char *)gdn_send(rt, span->data, rt->sel.contents) + begin;
    else if (mode != GDN_MTL_STORAGE_PRIVATE)
        return gdn_fail(GDN_UNSUPPORTED, "the buffer's storageMode is %lu; 0 (shared) and 2 (private) are allowed",
                        mode);
    else if (begin % 4 || bytes % 4)
        return gdn_fail(GDN_UNSUPPORTED, "bytes %llu to %llu of a private buffer; both must be multiples of 4",
                        (unsigned long long)begin, (unsigned long long)(begin + bytes));
    return GDN_OK;
}

static gdn_status copy_piece(gdn_metal_device *dev, gdn_id from, uint64_t from_at, gdn_id to, uint64_t to_at,
                             uint64_t bytes)
{
    const gdn_objc *rt = dev->rt;
    gdn_id commands;
    const gdn_status status = gdn_metal_begin(dev, &commands);
    if (status) return status;
    const gdn_id encoder = gdn_send(rt, commands, rt->sel.blitCommandEncoder);
    if (!encoder) return gdn_metal_fail(dev, GDN_OUT_OF_MEMORY, "blitCommandEncoder", NULL);
    gdn_tell_copy(rt, encoder, rt->sel.copy, from, from_at, to, to_at, bytes);
    gdn_tell(rt, encoder, rt->sel.endEncoding);
    gdn_metal_submit(dev, commands);
    return gdn_metal_wait(dev);
}

static uint64_t piece_of(uint64_t left) { return left < GDN_METAL_STAGING_BYTES ? left : GDN_METAL_STAGING_BYTES; }

gdn_status gdn_metal_write(void *device, const gdn_span *span, uint64_t offset, const void *source, uint64_t bytes)
{
    gdn_metal_device *dev = device;
    char *at;
    gdn_status status = gdn_metal_wait(dev); /* nothing queued may still read what is overwritten, here or in staging */
    if (status || (status = locate(dev, span, offset, bytes, &at))) return status;
    if (at && bytes) memcpy(at, source, (size_t)bytes);
    for (uint64_t done = 0; !at && !status && done < bytes; done += piece_of(bytes - done)) {
        memcpy(gdn_send(dev->rt, dev->staging, dev->rt->sel.contents), (const char *)source + done,
               (size_t)piece_of(bytes - done));
        status = copy_piece(dev, dev->staging, 0, span->data, span->offset + offset + done, piece_of(bytes - done));
    }
    return status;
}

gdn_status gdn_metal_read(void *device, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes)
{
    gdn_metal_device *dev = device;
    char *at;
    gdn_status status = gdn_metal_wait(dev);
    if (status || (status = locate(dev, span, offset, bytes, &at))) return status;
    if (at && bytes) memcpy(target, at, (size_t)bytes);
    for (uint64_t done = 0; !at && !status && done < bytes; done += piece_of(bytes - done)) {
        status = copy_piece(dev, span->data, span->offset + offset + done, dev->staging, 0, piece_of(bytes - done));
        if (!status)
            memcpy((char *)target + done, gdn_send(dev->rt, dev->staging, dev->rt->sel.contents),
                   (size_t)piece_of(bytes - done));
    }
    return status;
}
