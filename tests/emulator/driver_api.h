/* The prototypes of the driver interface's functions that the fake has, in types of our own. */
#ifndef GDN_SIMT_DRIVER_API_H
#define GDN_SIMT_DRIVER_API_H

#include "tests/emulator/driver.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Results ---- */
simt_result cuGetErrorName(simt_result result, const char **name);

/* ---- Devices ---- */
simt_result cuInit(unsigned flags);
simt_result cuDriverGetVersion(int *version);
simt_result cuDeviceGetCount(int *count);
simt_result cuDeviceGet(simt_device *device, int ordinal);
simt_result cuDeviceGetName(char *name, int size, simt_device device);
simt_result cuDeviceTotalMem_v2(size_t *bytes, simt_device device);
simt_result cuDeviceGetAttribute(int *value, int attribute, simt_device device);

/* ---- Contexts ---- */
simt_result cuDevicePrimaryCtxRetain(simt_context **out, simt_device device);
simt_result cuDevicePrimaryCtxRelease_v2(simt_device device);
simt_result cuDevicePrimaryCtxReset_v2(simt_device device);
simt_result cuCtxCreate_v2(simt_context **out, unsigned flags, simt_device device);
simt_result cuCtxDestroy_v2(simt_context *context);
simt_result cuCtxPushCurrent_v2(simt_context *context);
simt_result cuCtxPopCurrent_v2(simt_context **out);
simt_result cuCtxSetCurrent(simt_context *context);
simt_result cuCtxGetCurrent(simt_context **out);
simt_result cuCtxGetDevice(simt_device *device);
simt_result cuCtxSynchronize(void);
simt_result cuGreenCtxCreate(simt_green **out, void *resources, simt_device device, unsigned flags);
simt_result cuGreenCtxDestroy(simt_green *green);
simt_result cuCtxFromGreenCtx(simt_context **out, simt_green *green);

/* ---- Memory ---- */
simt_result cuMemAlloc_v2(simt_ptr *out, size_t bytes);
simt_result cuMemFree_v2(simt_ptr at);
simt_result cuMemAllocHost_v2(void **out, size_t bytes);
simt_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
simt_result cuMemFreeHost(void *at);
simt_result cuMemHostGetDevicePointer_v2(simt_ptr *out, void *at, unsigned flags);
simt_result cuPointerGetAttribute(void *value, int attribute, simt_ptr at);

/* ---- Copies ---- */
simt_result cuMemcpyHtoDAsync_v2(simt_ptr to, const void *from, size_t bytes, simt_stream *stream);
simt_result cuMemcpyDtoHAsync_v2(void *to, simt_ptr from, size_t bytes, simt_stream *stream);
simt_result cuMemcpyDtoDAsync_v2(simt_ptr to, simt_ptr from, size_t bytes, simt_stream *stream);
simt_result cuMemsetD32_v2(simt_ptr to, unsigned value, size_t n);

/* ---- Streams ---- */
simt_result cuStreamCreate(simt_stream **out, unsigned flags);
simt_result cuStreamDestroy_v2(simt_stream *stream);
simt_result cuStreamSynchronize(simt_stream *stream);
simt_result cuStreamQuery(simt_stream *stream);
simt_result cuStreamGetCtx(simt_stream *stream, simt_context **out);
simt_result cuStreamGetCtx_v2(simt_stream *stream, simt_context **out, simt_green **green);
simt_result cuGreenCtxStreamCreate(simt_stream **out, simt_green *green, unsigned flags, int priority);

/* ---- Modules and launches ---- */
simt_result cuModuleLoadData(simt_module **out, const void *image);
simt_result cuModuleUnload(simt_module *module);
simt_result cuModuleGetFunction(simt_function **out, simt_module *module, const char *name);
simt_result cuLaunchKernel(simt_function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared, simt_stream *stream, void **params,
                           void **extra);

simt_result cuLaunchKernelEx(const simt_launch_config *config, simt_function *function, void **params, void **extra);
simt_result cuFuncGetAttribute(int *value, int attribute, simt_function *function);

/* ---- Capture and graphs ---- */
simt_result cuStreamBeginCapture_v2(simt_stream *stream, int mode);
simt_result cuStreamEndCapture(simt_stream *stream, simt_graph **out);
simt_result cuStreamIsCapturing(simt_stream *stream, int *status);
simt_result cuThreadExchangeStreamCaptureMode(int *mode);
simt_result cuGraphInstantiateWithFlags(simt_graph_exec **out, simt_graph *graph, unsigned long long flags);
simt_result cuGraphLaunch(simt_graph_exec *exec, simt_stream *stream);
simt_result cuGraphDestroy(simt_graph *graph);
simt_result cuGraphExecDestroy(simt_graph_exec *exec);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
