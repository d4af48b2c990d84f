/* The part of the CUDA driver's interface that the backend uses, declared here so that the build needs no CUDA header.
 * Values are the driver's, which never change. Functions are looked up in libcuda.so.1 at run time. */
#ifndef GDN_CUDA_DRIVER_H
#define GDN_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUgreenCtx_st *CUgreenCtx;

/* X(name, value, the gdn_status that it becomes; GDN_INTERNAL where it is not here). 714 to 719 all break the context.
 */
#define GDN_CUDA_ERRORS(X)                                                                                             \
    X(INVALID_VALUE, 1, GDN_INTERNAL)                                                                                  \
    X(OUT_OF_MEMORY, 2, GDN_OUT_OF_MEMORY)                                                                             \
    X(NOT_INITIALIZED, 3, GDN_UNAVAILABLE)                                                                             \
    X(DEINITIALIZED, 4, GDN_DEVICE_LOST)                                                                               \
    X(STUB_LIBRARY, 34, GDN_UNAVAILABLE)                                                                               \
    X(DEVICE_UNAVAILABLE, 46, GDN_UNAVAILABLE)                                                                         \
    X(NO_DEVICE, 100, GDN_UNAVAILABLE)                                                                                 \
    X(INVALID_DEVICE, 101, GDN_NOT_FOUND)                                                                              \
    X(INVALID_IMAGE, 200, GDN_UNAVAILABLE)                                                                             \
    X(INVALID_CONTEXT, 201, GDN_INTERNAL)                                                                              \
    X(NO_BINARY_FOR_GPU, 209, GDN_UNAVAILABLE)                                                                         \
    X(ECC_UNCORRECTABLE, 214, GDN_DEVICE_LOST)                                                                         \
    X(INVALID_PTX, 218, GDN_UNAVAILABLE)                                                                               \
    X(NVLINK_UNCORRECTABLE, 220, GDN_DEVICE_LOST)                                                                      \
    X(JIT_COMPILER_NOT_FOUND, 221, GDN_UNAVAILABLE)                                                                    \
    X(UNSUPPORTED_PTX_VERSION, 222, GDN_UNAVAILABLE)                                                                   \
    X(JIT_COMPILATION_DISABLED, 223, GDN_UNAVAILABLE)                                                                  \
    X(CONTAINED, 226, GDN_DEVICE_LOST)                                                                                 \
    X(INVALID_HANDLE, 400, GDN_INTERNAL)                                                                               \
    X(NOT_READY, 600, GDN_INTERNAL)                                                                                    \
    X(ILLEGAL_ADDRESS, 700, GDN_DEVICE_LOST)                                                                           \
    X(LAUNCH_TIMEOUT, 702, GDN_DEVICE_LOST)                                                                            \
    X(CONTEXT_IS_DESTROYED, 709, GDN_DEVICE_LOST)                                                                      \
    X(ASSERT, 710, GDN_DEVICE_LOST)                                                                                    \
    X(HARDWARE_STACK_ERROR, 714, GDN_DEVICE_LOST)                                                                      \
    X(LAUNCH_FAILED, 719, GDN_DEVICE_LOST)                                                                             \
    X(TENSOR_MEMORY_LEAK, 721, GDN_DEVICE_LOST)                                                                        \
    X(NOT_SUPPORTED, 801, GDN_INTERNAL)                                                                                \
    X(SYSTEM_NOT_READY, 802, GDN_UNAVAILABLE)                                                                          \
    X(SYSTEM_DRIVER_MISMATCH, 803, GDN_UNAVAILABLE)                                                                    \
    X(COMPAT_NOT_SUPPORTED_ON_DEVICE, 804, GDN_UNAVAILABLE)                                                            \
    X(MPS_CONNECTION_FAILED, 805, GDN_UNAVAILABLE)                                                                     \
    X(MPS_RPC_FAILURE, 806, GDN_DEVICE_LOST)                                                                           \
    X(MPS_SERVER_NOT_READY, 807, GDN_UNAVAILABLE)                                                                      \
    X(MPS_MAX_CLIENTS_REACHED, 808, GDN_UNAVAILABLE)                                                                   \
    X(MPS_MAX_CONNECTIONS_REACHED, 809, GDN_UNAVAILABLE)                                                               \
    X(MPS_CLIENT_TERMINATED, 810, GDN_DEVICE_LOST)                                                                     \
    X(EXTERNAL_DEVICE, 911, GDN_DEVICE_LOST)                                                                           \
    X(UNKNOWN, 999, GDN_DEVICE_LOST)

enum {
    CUDA_SUCCESS = 0,
#define X(name, value, status) CUDA_ERROR_##name = value,
    GDN_CUDA_ERRORS(X)
#undef X
};

enum {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
};
enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum { CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2 };
enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2, CU_STREAM_CAPTURE_STATUS_NONE = 0 };

/* A launch with attributes, from CUDA 11.8 on. */
typedef struct CUlaunchAttribute {
    int id;
    int unused;
    union {
        int on;
        unsigned char bytes[64];
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned n_attributes;
} CUlaunchConfig;

enum { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6, CU_FUNC_ATTRIBUTE_PTX_VERSION = 5 };

/* X(name here, symbol, parameters): the newest version of each symbol that the driver of CUDA 11.4 has. */
#define GDN_CUDA_DRIVER_FUNCTIONS(X)                                                                                   \
    X(Init, "cuInit", (unsigned flags))                                                                                \
    X(GetErrorName, "cuGetErrorName", (CUresult error, const char **name))                                             \
    X(DriverGetVersion, "cuDriverGetVersion", (int *version))                                                          \
    X(DeviceGetCount, "cuDeviceGetCount", (int *count))                                                                \
    X(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                                      \
    X(DeviceGetName, "cuDeviceGetName", (char *name, int bytes, CUdevice device))                                      \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))                        \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                                        \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                      \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                                      \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                                      \
    X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                                      \
    X(CtxGetDevice, "cuCtxGetDevice", (CUdevice * device))                                                             \
    X(ModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void *image))                                      \
    X(ModuleUnload, "cuModuleUnload", (CUmodule module))                                                               \
    X(ModuleGetFunction, "cuModuleGetFunction", (CUfunction * function, CUmodule module, const char *name))            \
    X(LaunchKernel, "cuLaunchKernel",                                                                                  \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **params, void **extra))                         \
    X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                                             \
    X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                                          \
    X(StreamQuery, "cuStreamQuery", (CUstream stream))                                                                 \
    X(StreamGetCtx, "cuStreamGetCtx", (CUstream stream, CUcontext * context))                                          \
    X(StreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, int *status))                                        \
    X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *mode))                               \
    X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))                                                \
    X(MemFree, "cuMemFree_v2", (CUdeviceptr address))                                                                  \
    X(MemHostAlloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))                                   \
    X(MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (CUdeviceptr * address, void *memory, unsigned flags))  \
    X(MemFreeHost, "cuMemFreeHost", (void *memory))                                                                    \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))      \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t bytes, CUstream stream))

typedef struct gdn_cuda_driver {
#define X(name, symbol, parameters) CUresult(*name) parameters;
    GDN_CUDA_DRIVER_FUNCTIONS(X)
#undef X
    /* NULL if the driver is older: before CUDA 12.5; 11.8; present in all */
    CUresult (*StreamGetCtx_v2)(CUstream stream, CUcontext *context, CUgreenCtx *green);
    CUresult (*LaunchKernelEx)(const CUlaunchConfig *config, CUfunction function, void **params, void **extra);
    CUresult (*FuncGetAttribute)(int *value, int attribute, CUfunction function);
    int version;  /* of CUDA, as cuDriverGetVersion() has it: 1000 * major + 10 * minor */
    int emulated; /* it exports GDN_EMULATED_DRIVER */
} gdn_cuda_driver;

#endif
