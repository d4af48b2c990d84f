/* Buffers for programs, and copies, all on the context's own stream. See device.h. */
#include <string.h>

#include "core/status.h"
#include "cuda/device.h"

enum { BAD_BYTES = 256 };

/* Allocates host memory for what kernels report. The host reads it at any time without a copy, and it outlives a lost
 * context. */
gdn_status gdn_cuda_memory_open(gdn_cuda_device *dev)
{
    void *bad = NULL;
    CUresult result = dev->cu->MemHostAlloc(&bad, BAD_BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result != CUDA_SUCCESS) return gdn_cuda_fail(dev, dev->cu, result, "cuMemHostAlloc");
    dev->bad = bad;
    memset(bad, 0, BAD_BYTES);
    result = dev->cu->MemHostGetDevicePointer(&dev->bad_address, bad, 0);
    return result == CUDA_SUCCESS ? GDN_OK : gdn_cuda_fail(dev, dev->cu, result, "cuMemHostGetDevicePointer");
}

void gdn_cuda_memory_close(gdn_cuda_device *dev)
{
    while (dev->gpu.buffers) {
        gdn_gpu_buffer *b = dev->gpu.buffers;
        dev->gpu.buffers = b->next;
        (void)dev->cu->MemFree((CUdeviceptr)(uintptr_t)b->data);
        gdn_context_free(dev->gpu.ctx, b);
    }
    if (dev->bad) (void)dev->cu->MemFreeHost(dev->bad);
    dev->bad = NULL;
}

/* For pageable memory: the driver has read the source when the copy returns, but the device memory is written only when
 * the stream is done. */
gdn_status gdn_cuda_copy_in(gdn_cuda_device *dev, CUdeviceptr to, const void *from, uint64_t bytes)
{
    gdn_status status = gdn_cuda_wait(dev, dev->stream);
    if (status || !bytes) return status;
    const CUresult result = dev->cu->MemcpyHtoDAsync(to, from, (size_t)bytes, dev->stream);
    return result == CUDA_SUCCESS ? gdn_cuda_wait(dev, dev->stream)
                                  : gdn_cuda_fail(dev, dev->cu, result, "cuMemcpyHtoDAsync");
}

gdn_status gdn_cuda_copy_out(gdn_cuda_device *dev, void *to, CUdeviceptr from, uint64_t bytes)
{
    gdn_status status = gdn_cuda_wait(dev, dev->stream); /* bounded; the copy itself would wait without bound */
    if (status || !bytes) return status;
    const CUresult result = dev->cu->MemcpyDtoHAsync(to, from, (size_t)bytes, dev->stream);
    return result == CUDA_SUCCESS ? gdn_cuda_wait(dev, dev->stream)
                                  : gdn_cuda_fail(dev, dev->cu, result, "cuMemcpyDtoHAsync");
}

/* ---- Buffers for programs --------------------------------------------------------------------------- */

gdn_status gdn_cuda_allocate(void *device, uint64_t bytes, gdn_gpu_buffer *b)
{
    gdn_cuda_device *dev = device;
    gdn_cuda_scope scope;
    CUdeviceptr address = 0;
    gdn_status status = gdn_cuda_enter(dev, &scope);
    if (status) return status;
    const CUresult result = dev->cu->MemAlloc(&address, (size_t)bytes);
    if (result != CUDA_SUCCESS) status = gdn_gpu_no_buffer(gdn_cuda_fail(dev, dev->cu, result, "cuMemAlloc"), bytes);
    b->data = (void *)(uintptr_t)address;
    gdn_cuda_leave(dev, &scope);
    return status;
}

int gdn_cuda_release(void *device, gdn_gpu_buffer *b)
{
    gdn_cuda_device *dev = device;
    gdn_cuda_scope scope;
    if (gdn_cuda_enter(dev, &scope)) return 1; /* the memory of a lost context is freed with it */
    const gdn_status status = gdn_cuda_wait(dev, dev->stream);
    if (!status) (void)dev->cu->MemFree((CUdeviceptr)(uintptr_t)b->data);
    gdn_cuda_leave(dev, &scope);
    return !status || dev->lost;
}

gdn_status gdn_cuda_buffer_write(gdn_context *ctx, const gdn_span *span, uint64_t offset, const void *source,
                                 uint64_t bytes)
{
    gdn_cuda_device *dev = ctx->state;
    gdn_cuda_scope scope;
    gdn_status status = gdn_cuda_enter(dev, &scope);
    if (status) return status;
    status = gdn_cuda_copy_in(dev, (uint64_t)(uintptr_t)span->data + span->offset + offset, source, bytes);
    gdn_cuda_leave(dev, &scope);
    return status;
}

gdn_status gdn_cuda_buffer_read(gdn_context *ctx, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes)
{
    gdn_cuda_device *dev = ctx->state;
    gdn_cuda_scope scope;
    gdn_status status = gdn_cuda_enter(dev, &scope);
    if (status) return status;
    status = gdn_cuda_copy_out(dev, target, (uint64_t)(uintptr_t)span->data + span->offset + offset, bytes);
    gdn_cuda_leave(dev, &scope);
    return status;
}
