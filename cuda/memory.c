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
    for (gdn_gpu_buffer *b = dev->gpu.buffers; b; b = b->next) (void)dev->cu->MemFree((CUdeviceptr)(uintptr_t)b->data);
    if (dev->bad) (void)dev->cu->MemFreeHost(dev->bad);
    dev->bad = NULL;
}

gdn_status gdn_cuda_allocate(void *device, uint64_t bytes, gdn_gpu_buffer *b)
{
    gdn_cuda_device *dev = device;
    CUdeviceptr address = 0;
    const CUresult result = dev->cu->MemAlloc(&address, (size_t)bytes);
    b->data = (void *)(uintptr_t)address;
    return result == CUDA_SUCCESS ? GDN_OK
                                  : gdn_gpu_no_buffer(gdn_cuda_fail(dev, dev->cu, result, "cuMemAlloc"), bytes);
}

int gdn_cuda_release(void *device, gdn_gpu_buffer *b)
{
    gdn_cuda_device *dev = device;
    const gdn_status status = gdn_cuda_wait(dev, dev->stream);
    if (!status) (void)dev->cu->MemFree((CUdeviceptr)(uintptr_t)b->data);
    return !status || dev->lost;
}

/* For pageable memory: the driver has read the source when the copy returns, but the device memory is written only when
 * the stream is done. The wait before a copy is bounded; the copy itself would wait without bound. */
gdn_status gdn_cuda_write(void *device, const gdn_span *span, uint64_t offset, const void *source, uint64_t bytes)
{
    gdn_cuda_device *dev = device;
    const CUdeviceptr to = (uint64_t)(uintptr_t)span->data + span->offset + offset;
    const gdn_status status = gdn_cuda_wait(dev, dev->stream);
    if (status || !bytes) return status;
    const CUresult result = dev->cu->MemcpyHtoDAsync(to, source, (size_t)bytes, dev->stream);
    return result == CUDA_SUCCESS ? gdn_cuda_wait(dev, dev->stream)
                                  : gdn_cuda_fail(dev, dev->cu, result, "cuMemcpyHtoDAsync");
}

gdn_status gdn_cuda_read(void *device, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes)
{
    gdn_cuda_device *dev = device;
    const CUdeviceptr from = (uint64_t)(uintptr_t)span->data + span->offset + offset;
    const gdn_status status = gdn_cuda_wait(dev, dev->stream);
    if (status || !bytes) return status;
    const CUresult result = dev->cu->MemcpyDtoHAsync(target, from, (size_t)bytes, dev->stream);
    return result == CUDA_SUCCESS ? gdn_cuda_wait(dev, dev->stream)
                                  : gdn_cuda_fail(dev, dev->cu, result, "cuMemcpyDtoHAsync");
}
