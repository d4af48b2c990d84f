/* Compiled where NVIDIA's cuda.h is installed: the fake's numbers and layouts are that header's. */
#include <cuda.h>

#include "tests/emulator/driver.h"

#define CUDA_ERROR_SUCCESS   CUDA_SUCCESS
#define X(name, value, text) _Static_assert(CUDA_ERROR_##name == value, text);
SIMT_RESULTS(X)
#undef X

#define SAME(ours, theirs) _Static_assert(offsetof(simt_launch_config, ours) == offsetof(CUlaunchConfig, theirs), #ours)
SAME(grid_x, gridDimX);
SAME(grid_y, gridDimY);
SAME(grid_z, gridDimZ);
SAME(block_x, blockDimX);
SAME(block_y, blockDimY);
SAME(block_z, blockDimZ);
SAME(shared_bytes, sharedMemBytes);
SAME(stream, hStream);
SAME(attributes, attrs);
SAME(n_attributes, numAttrs);
_Static_assert(sizeof(simt_launch_config) == sizeof(CUlaunchConfig), "CUlaunchConfig");
_Static_assert(sizeof(simt_ptr) == sizeof(CUdeviceptr) && sizeof(simt_device) == sizeof(CUdevice), "CUdeviceptr");

#define VALUE(name, number) _Static_assert(name == number, #name)
VALUE(CU_STREAM_NON_BLOCKING, 1);
VALUE(CU_EVENT_DISABLE_TIMING, 2);
VALUE(CU_STREAM_CAPTURE_MODE_RELAXED, 2);
VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2);
VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8);
VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16);
VALUE(CU_POINTER_ATTRIBUTE_CONTEXT, 1);
VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75);
VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76);
VALUE(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2);
_Static_assert((size_t)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT == 1 && CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT == 2, "extra");
