/* Buffers for programs, which are shared memory, and copies. See device.h. */
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
    const gdn_status status = gdn_metal_allocate(dev, BAD_BYTES, &dev->bad_buffer);
    if (status) return status;
    dev->bad = gdn_send(dev->rt, dev->bad_buffer, dev->rt->sel.contents);
    memset(dev->bad, 0, BAD_BYTES);
    return GDN_OK;
}

void gdn_metal_memory_close(gdn_metal_device *dev)
{
    for (gdn_gpu_buffer *b = dev->gpu.buffers; b; b = b->next) dev->rt->release(b->data);
    if (dev->bad_buffer) dev->rt->release(dev->bad_buffer);
    dev->bad_buffer = NULL;
}

/* ---- Copies ----------------------------------------------------------------------------------------- */

/* Finds the host address of the span's bytes, once nothing is queued that may use them. */
static gdn_status locate(gdn_metal_device *dev, const gdn_span *span, uint64_t offset, uint64_t bytes, char **at)
{
    const gdn_objc *rt = dev->rt;
    const uint64_t begin = span->offset + offset, length = gdn_number(rt, span->data, rt->sel.length);
    const unsigned long mode = gdn_number(rt, span->data, rt->sel.storageMode);
    if (begin > length || bytes > length - begin)
        return gdn_fail(GDN_INVALID_ARGUMENT, "bytes %llu to %llu of a buffer of %llu bytes", (unsigned long long)begin,
                        (unsigned long long)(begin + bytes), (unsigned long long)length);
    if (mode != GDN_MTL_STORAGE_SHARED)
        return gdn_fail(GDN_UNSUPPORTED,
                        "the buffer's storageMode is %lu; only 0 (shared) can be read and written here", mode);
    *at = (char *)gdn_send(rt, span->data, rt->sel.contents) + begin;
    return gdn_metal_wait(dev);
}

gdn_status gdn_metal_write(void *device, const gdn_span *span, uint64_t offset, const void *source, uint64_t bytes)
{
    char *at;
    const gdn_status status = locate(device, span, offset, bytes, &at);
    if (!status && bytes) memcpy(at, source, (size_t)bytes);
    return status;
}

gdn_status gdn_metal_read(void *device, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes)
{
    char *at;
    const gdn_status status = locate(device, span, offset, bytes, &at);
    if (!status && bytes) memcpy(target, at, (size_t)bytes);
    return status;
}
