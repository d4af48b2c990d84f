/* Entry points by name, as cuGetProcAddress finds them. */
#include "tests/simt/driver_internal.h"

#include <stdlib.h>
#include <string.h>

SIMT_EXPORT simt_result cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags);
SIMT_EXPORT simt_result cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags,
                                            int *status);

/* name for cuGetProcAddress, the version of CUDA that brought this form, the exported symbol */
#define FUNCTIONS(X)                                                                                                   \
    X(cuInit, 2000, cuInit) X(cuDriverGetVersion, 2020, cuDriverGetVersion)                                            \
    X(cuGetErrorName, 6000, cuGetErrorName) X(cuGetErrorString, 6000, cuGetErrorString)                                \
    X(cuDeviceGetCount, 2000, cuDeviceGetCount) X(cuDeviceGet, 2000, cuDeviceGet)                                      \
    X(cuDeviceGetName, 2000, cuDeviceGetName) X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute)                      \
    X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2)                                                                     \
    X(cuDeviceGetUuid, 9020, cuDeviceGetUuid) X(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2)                            \
    X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain)                                                        \
    X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2)                                                  \
    X(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2)                                                      \
    X(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState)                                                    \
    X(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2)                                                \
    X(cuCtxCreate, 3020, cuCtxCreate_v2) X(cuCtxCreate, 11040, cuCtxCreate_v3) X(cuCtxCreate, 12050, cuCtxCreate_v4)   \
    X(cuCtxDestroy, 4000, cuCtxDestroy_v2) X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2)                              \
    X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2) X(cuCtxSetCurrent, 4000, cuCtxSetCurrent)                             \
    X(cuCtxGetCurrent, 4000, cuCtxGetCurrent) X(cuCtxGetDevice, 2000, cuCtxGetDevice)                                  \
    X(cuCtxGetFlags, 7000, cuCtxGetFlags) X(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion)                              \
    X(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange) X(cuCtxSynchronize, 2000, cuCtxSynchronize)      \
    X(cuModuleLoadData, 2000, cuModuleLoadData) X(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx)                        \
    X(cuModuleLoadFatBinary, 2000, cuModuleLoadFatBinary) X(cuModuleUnload, 2000, cuModuleUnload)                      \
    X(cuModuleGetFunction, 2000, cuModuleGetFunction) X(cuModuleGetLoadingMode, 11070, cuModuleGetLoadingMode)         \
    X(cuLibraryLoadData, 12000, cuLibraryLoadData) X(cuLibraryUnload, 12000, cuLibraryUnload)                          \
    X(cuLibraryGetModule, 12000, cuLibraryGetModule) X(cuLibraryGetKernel, 12000, cuLibraryGetKernel)                  \
    X(cuKernelGetFunction, 12000, cuKernelGetFunction)                                                                 \
    X(cuFuncSetAttribute, 9000, cuFuncSetAttribute) X(cuFuncGetAttribute, 2020, cuFuncGetAttribute)                    \
    X(cuFuncSetCacheConfig, 3000, cuFuncSetCacheConfig)                                                                \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor)                  \
    X(cuLaunchKernel, 4000, cuLaunchKernel) X(cuLaunchKernelEx, 11060, cuLaunchKernelEx)                               \
    X(cuLaunchHostFunc, 10000, cuLaunchHostFunc)                                                                       \
    X(cuMemAlloc, 3020, cuMemAlloc_v2) X(cuMemFree, 3020, cuMemFree_v2) X(cuMemAllocAsync, 11020, cuMemAllocAsync)     \
    X(cuMemFreeAsync, 11020, cuMemFreeAsync) X(cuMemAllocHost, 3020, cuMemAllocHost_v2)                                \
    X(cuMemHostAlloc, 2020, cuMemHostAlloc) X(cuMemFreeHost, 2000, cuMemFreeHost)                                      \
    X(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2) X(cuMemGetInfo, 3020, cuMemGetInfo_v2)            \
    X(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2)                                                             \
    X(cuPointerGetAttribute, 4000, cuPointerGetAttribute) X(cuPointerGetAttributes, 7000, cuPointerGetAttributes)      \
    X(cuMemcpy, 4000, cuMemcpy) X(cuMemcpyAsync, 4000, cuMemcpyAsync)                                                  \
    X(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2) X(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2)                                      \
    X(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2) X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2)                            \
    X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2)                  \
    X(cuMemsetD8, 3020, cuMemsetD8_v2) X(cuMemsetD16, 3020, cuMemsetD16_v2) X(cuMemsetD32, 3020, cuMemsetD32_v2)       \
    X(cuMemsetD8Async, 3020, cuMemsetD8Async) X(cuMemsetD16Async, 3020, cuMemsetD16Async)                              \
    X(cuMemsetD32Async, 3020, cuMemsetD32Async)                                                                        \
    X(cuStreamCreate, 2000, cuStreamCreate) X(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority)            \
    X(cuStreamDestroy, 4000, cuStreamDestroy_v2) X(cuStreamSynchronize, 2000, cuStreamSynchronize)                     \
    X(cuStreamQuery, 2000, cuStreamQuery) X(cuStreamWaitEvent, 3020, cuStreamWaitEvent)                                \
    X(cuStreamGetCtx, 9020, cuStreamGetCtx) X(cuStreamGetFlags, 5050, cuStreamGetFlags)                                \
    X(cuStreamGetPriority, 5050, cuStreamGetPriority)                                                                  \
    X(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2) X(cuStreamEndCapture, 10000, cuStreamEndCapture)           \
    X(cuStreamIsCapturing, 10000, cuStreamIsCapturing)                                                                 \
    X(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode)                                     \
    X(cuGraphGetNodes, 10000, cuGraphGetNodes) X(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags)      \
    X(cuGraphInstantiate, 12000, cuGraphInstantiateWithFlags) X(cuGraphLaunch, 10000, cuGraphLaunch)                   \
    X(cuGraphUpload, 11010, cuGraphUpload) X(cuGraphDestroy, 10000, cuGraphDestroy)                                    \
    X(cuGraphExecDestroy, 10000, cuGraphExecDestroy)                                                                   \
    X(cuEventCreate, 2000, cuEventCreate) X(cuEventRecord, 2000, cuEventRecord)                                        \
    X(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags) X(cuEventQuery, 2000, cuEventQuery)                       \
    X(cuEventSynchronize, 2000, cuEventSynchronize) X(cuEventDestroy, 4000, cuEventDestroy_v2)                         \
    X(cuEventElapsedTime, 2000, cuEventElapsedTime) X(cuEventElapsedTime, 12080, cuEventElapsedTime_v2)

/* Only their addresses are needed, so their types do not matter here. */
#define X(base, version, symbol) extern void symbol(void);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
FUNCTIONS(X)
#pragma GCC diagnostic pop
#undef X
typedef void (*any_function)(void);
static const struct { const char *base; int version; any_function function; } functions[] = {
#define X(base, version, symbol) { #base, version, symbol },
    FUNCTIONS(X)
#undef X
    { "cuGetProcAddress", 11030, (any_function)cuGetProcAddress },
    { "cuGetProcAddress", 12000, (any_function)cuGetProcAddress_v2 },
};

/* The newest form that a program built for this version knows. GDN_SIMT_HIDE names a function that is not there. */
static simt_result find(const char *name, void **out, int version, int *status)
{
    if (!name || !out) return SIMT_INVALID_VALUE;
    *out = NULL;
    const char *hidden = getenv("GDN_SIMT_HIDE");
    int best = 0, known = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].base, name) != 0 || (hidden && strcmp(hidden, name) == 0)) continue;
        if (functions[i].version > simt_settings.driver) continue; /* an old driver */
        known = 1;
        if (functions[i].version > version || functions[i].version <= best) continue;
        best = functions[i].version;
        memcpy(out, &functions[i].function, sizeof *out);
    }
    if (status) *status = *out ? 0 : known ? 2 : 1;
    return *out || status ? SIMT_SUCCESS : SIMT_NOT_FOUND;
}

simt_result cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags)
{
    const simt_result entered = simt_enter(__func__, 0);
    if (entered) LEAVE(entered);
    LEAVE(flags > 3 ? SIMT_INVALID_VALUE : find(name, out, version, NULL));
}

simt_result cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *status)
{
    const simt_result entered = simt_enter(__func__, 0);
    if (entered) LEAVE(entered);
    LEAVE(flags > 3 ? SIMT_INVALID_VALUE : find(name, out, version, status));
}
