/* Entry points by name, as cuGetProcAddress finds them. */
#include "tests/emulator/driver_internal.h"

#include <stdlib.h>
#include <string.h>

SIMT_EXPORT simt_result cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags);
SIMT_EXPORT simt_result cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags,
                                            int *status);

/* name for cuGetProcAddress, the version of CUDA that brought this form; the exported symbol has the same name */
// clang-format off
#define PLAIN(X)                                                                                                      \
    X(cuInit, 2000) X(cuDriverGetVersion, 2020) X(cuGetErrorName, 6000) X(cuGetErrorString, 6000)                     \
    X(cuDeviceGetCount, 2000) X(cuDeviceGet, 2000) X(cuDeviceGetName, 2000) X(cuDeviceGetAttribute, 2000)             \
    X(cuDevicePrimaryCtxRetain, 7000) X(cuCtxSetCurrent, 4000) X(cuCtxGetCurrent, 4000) X(cuCtxGetDevice, 2000)       \
    X(cuCtxSynchronize, 2000) X(cuModuleLoadData, 2000) X(cuModuleUnload, 2000) X(cuModuleGetFunction, 2000)          \
    X(cuFuncSetAttribute, 9000) X(cuLaunchKernel, 4000) X(cuLaunchKernelEx, 11060) X(cuLaunchHostFunc, 10000)         \
    X(cuMemHostAlloc, 2020) X(cuMemFreeHost, 2000) X(cuStreamCreate, 2000) X(cuStreamCreateWithPriority, 5050)        \
    X(cuStreamSynchronize, 2000) X(cuStreamQuery, 2000) X(cuStreamWaitEvent, 3020) X(cuStreamGetCtx, 9020)            \
    X(cuStreamEndCapture, 10000) X(cuStreamIsCapturing, 10000) X(cuThreadExchangeStreamCaptureMode, 10010)            \
    X(cuGraphInstantiateWithFlags, 11040) X(cuGraphLaunch, 10000) X(cuGraphDestroy, 10000)                            \
    X(cuGraphExecDestroy, 10000) X(cuEventCreate, 2000) X(cuEventRecord, 2000) X(cuEventQuery, 2000)                  \
    X(cuEventSynchronize, 2000) X(cuCtxGetId, 12000) X(cuGreenCtxCreate, 12040) X(cuGreenCtxDestroy, 12040)           \
    X(cuCtxFromGreenCtx, 12040) X(cuGreenCtxStreamCreate, 12050) X(cuPointerGetAttribute, 4000)

/* as before; the exported symbol has another name */
#define OTHERS(X)                                                                                                     \
    X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2) X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2)  \
    X(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2) X(cuCtxCreate, 3020, cuCtxCreate_v2)                \
    X(cuCtxCreate, 11040, cuCtxCreate_v3) X(cuCtxCreate, 12050, cuCtxCreate_v4) X(cuCtxDestroy, 4000, cuCtxDestroy_v2)\
    X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2) X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2)                       \
    X(cuMemAlloc, 3020, cuMemAlloc_v2) X(cuMemFree, 3020, cuMemFree_v2) X(cuMemAllocHost, 3020, cuMemAllocHost_v2)    \
    X(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2) X(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2)           \
    X(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2) X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2)                           \
    X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2)                 \
    X(cuMemsetD32, 3020, cuMemsetD32_v2)                                                                              \
    X(cuStreamDestroy, 4000, cuStreamDestroy_v2) X(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2)              \
    X(cuGraphInstantiate, 12000, cuGraphInstantiateWithFlags) X(cuEventDestroy, 4000, cuEventDestroy_v2)              \
    X(cuEventElapsedTime, 12080, cuEventElapsedTime_v2) X(cuStreamGetCtx, 12050, cuStreamGetCtx_v2)

#define SAME(symbol, version) X(symbol, version, symbol)
#define FUNCTIONS PLAIN(SAME) OTHERS(X)

/* Only their addresses are needed, so their types do not matter here. */
#define X(base, version, symbol) extern void symbol(void);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
FUNCTIONS
#pragma GCC diagnostic pop
// clang-format on

#undef X
typedef void (*any_function)(void);
static const struct {
    const char *base;
    int version;
    any_function function;
} functions[] = {
#define X(base, version, symbol) { #base, version, symbol },
    FUNCTIONS
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
