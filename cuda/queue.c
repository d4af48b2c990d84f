/* Streams: resolving a call's stream, bounded waits, launches, and what the device reports. See device.h. */
#include "core/status.h"
#include "cuda/device.h"

gdn_gpu_device gdn_cuda_gpu(const gdn_cuda_device *dev)
{
    return (gdn_gpu_device){ .most_blocks = GDN_CUDA_MAX_BLOCKS,
                             .most_slots = UINT64_MAX,
                             .addresses = 1,
                             .chunked = 1,
                             .bad = dev->bad_address };
}

/* 1 for a stream of a green context of the gdn_context's primary context. A green context has some of the primary
 * context's multiprocessors, and shares its memory and kernels. Its streams report another context; newer drivers also
 * report the primary one. */
static int is_green_of(const gdn_cuda_device *dev, CUstream stream)
{
    CUcontext whole = NULL;
    CUgreenCtx green = NULL;
    return dev->cu->StreamGetCtx_v2 && dev->cu->StreamGetCtx_v2(stream, &whole, &green) == CUDA_SUCCESS && green &&
           whole == dev->context;
}

gdn_status gdn_cuda_stream(gdn_cuda_device *dev, gdn_stream stream, CUstream *out)
{
    CUcontext context = NULL;
    *out = stream ? (CUstream)stream : dev->stream;
    if (!stream) return GDN_OK;
    const CUresult result = dev->cu->StreamGetCtx(*out, &context);
    if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE ||
        result == CUDA_ERROR_INVALID_CONTEXT)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "stream is %p, which is no CUDA stream (cuStreamGetCtx returned %d); NULL and streams of the "
                        "context's CUDA context are allowed",
                        stream, (int)result);
    if (result != CUDA_SUCCESS) return gdn_cuda_fail(dev, dev->cu, result, "cuStreamGetCtx");
    if (context != dev->context && !is_green_of(dev, *out))
        return gdn_fail(GDN_INVALID_ARGUMENT, "stream is %p, of the CUDA context %p; this gdn_context runs in %p%s",
                        stream, (void *)context, (void *)dev->context,
                        dev->cu->StreamGetCtx_v2 ? ""
                                                 : ", and streams of its green contexts need a driver of CUDA 12.5");
    return GDN_OK;
}

typedef struct wait_t {
    gdn_cuda_device *dev;
    CUstream stream;
} wait_t;

static int is_done(void *user, gdn_status *status)
{
    const wait_t *x = user;
    const CUresult result = x->dev->cu->StreamQuery(x->stream);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        *status = gdn_cuda_fail(x->dev, x->dev->cu, result, "cuStreamQuery");
    return result == CUDA_SUCCESS;
}

gdn_status gdn_cuda_wait(gdn_cuda_device *dev, CUstream stream)
{
    int capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    wait_t x = { dev, stream };
    CUresult result = stream == dev->stream ? CUDA_SUCCESS : dev->cu->StreamIsCapturing(stream, &capturing);
    if (result != CUDA_SUCCESS) return gdn_cuda_fail(dev, dev->cu, result, "cuStreamIsCapturing");
    if (capturing != CU_STREAM_CAPTURE_STATUS_NONE)
        return gdn_fail(GDN_INVALID_ARGUMENT, "stream is %p, which is being captured; there is nothing yet to wait for",
                        (void *)stream);
    return gdn_gpu_wait_for(&dev->gpu, is_done, &x);
}

gdn_status gdn_cuda_launch(gdn_cuda_device *dev, gdn_cuda_kernel kernel, CUstream stream, const uint32_t blocks[3],
                           uint32_t threads, const void *params)
{
    void *list[] = { (void *)(uintptr_t)params }; /* the driver only reads it */
    const char *call = "cuLaunchKernel";
    CUresult result;
    if (dev->dependent_launch) {
        CUlaunchAttribute dependent = { .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.on = 1 };
        const CUlaunchConfig config = { .grid = { blocks[0], blocks[1], blocks[2] },
                                        .block = { threads, 1, 1 },
                                        .stream = stream,
                                        .attributes = &dependent,
                                        .n_attributes = 1 };
        call = "cuLaunchKernelEx";
        result = dev->cu->LaunchKernelEx(&config, dev->kernels[kernel], list, NULL);
    } else {
        result = dev->cu->LaunchKernel(dev->kernels[kernel], blocks[0], blocks[1], blocks[2], threads, 1, 1, 0, stream,
                                       list, NULL);
    }
    return result == CUDA_SUCCESS ? GDN_OK : gdn_cuda_fail(dev, dev->cu, result, call);
}

gdn_status gdn_cuda_take_report(void *device)
{
    gdn_cuda_device *dev = device;
    /* A fault affects the whole CUDA context, so any stream reports it. */
    const CUresult result = dev->cu->StreamQuery(dev->stream);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        return gdn_cuda_fail(dev, dev->cu, result, "cuStreamQuery");
    return gdn_gpu_take_bad_maps(dev->bad, GDN_OK);
}
