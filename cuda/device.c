/* Opening and closing: a device's primary context, or the caller's own; errors of the driver. See device.h. */
#include "core/environment.h"
#include "core/status.h"
#include "core/structs.h"
#include "cuda/device.h"

static gdn_status status_of(CUresult result)
{
    if (result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED) return GDN_DEVICE_LOST;
#define X(name, value, status)                                                                                         \
    if (result == value) return status;
    GDN_CUDA_ERRORS(X)
#undef X
    return GDN_INTERNAL;
}

static const char *name_of(const gdn_cuda_driver *cu, CUresult result)
{
    const char *name = NULL;
    return cu->GetErrorName && cu->GetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "an error";
}

gdn_status gdn_cuda_fail(gdn_cuda_device *dev, const gdn_cuda_driver *cu, CUresult result, const char *call)
{
    const gdn_status status = status_of(result);
    const int lost = status == GDN_DEVICE_LOST && dev;
    if (lost && !dev->lost) dev->lost = (int32_t)result;
    return gdn_fail(status, "%s returned %s (%d)%s%s%s", call, name_of(cu, result), (int)result, dev ? " on " : "",
                    dev ? dev->traits.about.name : "",
                    lost ? ": its CUDA context is lost, by this call or by work of anybody's that was queued before"
                         : "");
}

gdn_status gdn_cuda_enter(void *device, gdn_gpu_scope *scope)
{
    gdn_cuda_device *dev = device;
    if (dev->lost)
        return gdn_fail(GDN_DEVICE_LOST, "the context on %s was lost; it can only be destroyed. The error was %s (%d)",
                        dev->traits.about.name, name_of(dev->cu, (CUresult)dev->lost), (int)dev->lost);
    CUresult result = dev->cu->CtxPushCurrent(dev->context);
    if (result == CUDA_ERROR_INVALID_CONTEXT) /* its owner has destroyed it */
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result != CUDA_SUCCESS) return gdn_cuda_fail(dev, dev->cu, result, "cuCtxPushCurrent");
    scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (dev->cu->ThreadExchangeStreamCaptureMode(&scope->mode) != CUDA_SUCCESS) scope->mode = -1;
    return GDN_OK;
}

void gdn_cuda_leave(void *device, const gdn_gpu_scope *scope)
{
    gdn_cuda_device *dev = device;
    CUcontext context;
    int mode = scope->mode;
    if (mode >= 0) (void)dev->cu->ThreadExchangeStreamCaptureMode(&mode);
    (void)dev->cu->CtxPopCurrent(&context);
}

static gdn_status open_primary(gdn_cuda_device *dev, const gdn_cuda_catalogue *c, uint32_t index)
{
    if (index >= c->n)
        return gdn_fail(GDN_NOT_FOUND, "device is %u; the cuda backend has devices 0..%u", (unsigned)index,
                        (unsigned)c->n - 1);
    dev->traits = c->traits[index];
    CUresult result = dev->cu->DevicePrimaryCtxRetain(&dev->context, dev->traits.device);
    if (result != CUDA_SUCCESS) {
        dev->context = NULL;
        return gdn_cuda_fail(dev, dev->cu, result, "cuDevicePrimaryCtxRetain");
    }
    dev->own_context = 1;
    return GDN_OK;
}

static gdn_status open_callers(gdn_cuda_device *dev, CUcontext context)
{
    CUdevice device = 0;
    CUcontext popped;
    CUresult result = dev->cu->CtxPushCurrent(context);
    if (result != CUDA_SUCCESS)
        return gdn_fail(GDN_INVALID_ARGUMENT,
                        "native->context is %p, which is no CUDA context: cuCtxPushCurrent returned %d",
                        (void *)context, (int)result);
    result = dev->cu->CtxGetDevice(&device);
    (void)dev->cu->CtxPopCurrent(&popped);
    if (result != CUDA_SUCCESS) return gdn_cuda_fail(NULL, dev->cu, result, "cuCtxGetDevice");
    dev->context = context;
    return gdn_cuda_read_traits(dev->cu, device, &dev->traits);
}

/* Opens the context's own stream: a blocking one, so that it and the legacy default stream wait for each other. A
 * program that works on the default stream, as PyTorch does, then needs no synchronization with it. Streams of a green
 * context do not wait for others, and a driver may refuse a blocking one. */
static gdn_status open_stream(gdn_cuda_device *dev)
{
    CUresult result = dev->cu->StreamCreate(&dev->stream, CU_STREAM_DEFAULT);
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED)
        result = dev->cu->StreamCreate(&dev->stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS) return GDN_OK;
    dev->stream = NULL;
    return gdn_cuda_fail(dev, dev->cu, result, "cuStreamCreate");
}

gdn_status gdn_cuda_device_open(void *device, const gdn_context *ctx, uint32_t index, const void *callers)
{
    gdn_cuda_device *dev = device;
    const gdn_cuda_catalogue *c = gdn_cuda_catalogue_get();
    gdn_cuda_desc native = { 0 };
    gdn_gpu_scope scope;
    gdn_status status;
    uint32_t n;
    dev->cu = &c->cu;
    dev->gpu.ctx = ctx;
    if (callers && (status = gdn_struct_read("native", callers, GDN_FIRST_SIZE(gdn_cuda_desc), sizeof native, &native)))
        return status;
    if (native.flags)
        return gdn_fail(GDN_INVALID_ARGUMENT, "native->flags is %#x; it must be 0", (unsigned)native.flags);
    if ((status = gdn_cuda_count(&n)) && !(native.context && c->loaded)) return status;
    if ((status = native.context ? open_callers(dev, native.context) : open_primary(dev, c, index)) ||
        (status = gdn_environment_switch("GDN_CUDA_DEPENDENT_LAUNCH", &dev->dependent_launch)) ||
        (status = gdn_environment_number("GDN_CUDA_MULTIPROCESSORS", 1, 1 << 20, &dev->traits.multiprocessors)) ||
        (status = gdn_cuda_enter(dev, &scope)))
        return status;
    dev->gpu.about = &dev->traits.about;
    dev->gpu.timeout_ns = gdn_timeout_ns(ctx, dev->traits.about.emulated);
    status = open_stream(dev);
    if (!status && !(status = gdn_cuda_memory_open(dev)) && !(status = gdn_cuda_kernels_open(dev)))
        status = gdn_cuda_digits_open(dev);
    gdn_cuda_leave(dev, &scope);
    return status;
}

/* If the device does not finish in time, its objects are not freed: that would wait without bound. The objects of a
 * lost context are freed with it. */
void gdn_cuda_device_close(void *device)
{
    gdn_cuda_device *dev = device;
    gdn_gpu_scope scope;
    if (dev->context && gdn_cuda_enter(dev, &scope) == GDN_OK) {
        if (!dev->stream || gdn_cuda_wait(dev, dev->stream) == GDN_OK) {
            gdn_cuda_memory_close(dev);
            gdn_cuda_kernels_close(dev);
            if (dev->stream) (void)dev->cu->StreamDestroy(dev->stream);
        } else if (dev->gpu.ctx && !dev->lost) {
            gdn_context_log(dev->gpu.ctx, GDN_LOG_ERROR,
                            "cuda: the device did not finish in time; its objects are left behind");
        }
        gdn_cuda_leave(dev, &scope);
    }
    if (dev->own_context) (void)dev->cu->DevicePrimaryCtxRelease(dev->traits.device);
    dev->context = NULL;
    dev->own_context = 0;
}
