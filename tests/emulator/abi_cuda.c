/* Compiled where NVIDIA's cuda.h is installed: the fake's numbers and layouts are that header's. */
#include <cuda.h>
#include <stddef.h>

#include "tests/emulator/driver.h"

#define CUDA_ERROR_SUCCESS CUDA_SUCCESS
#define X(name, value)     _Static_assert(CUDA_ERROR_##name == value, #name);
SIMT_RESULTS(X)
#undef X

_Static_assert(sizeof(simt_ptr) == sizeof(CUdeviceptr) && sizeof(simt_device) == sizeof(CUdevice), "CUdeviceptr");

#define VALUE(name, number) _Static_assert(name == number, #name)
VALUE(CU_STREAM_NON_BLOCKING, 1);
VALUE(CU_STREAM_CAPTURE_MODE_RELAXED, 2);
VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2);
VALUE(CU_POINTER_ATTRIBUTE_CONTEXT, 1);
VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16);
VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6);
VALUE(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5);
_Static_assert(sizeof(simt_launch_config) == sizeof(CUlaunchConfig) &&
                   offsetof(simt_launch_config, attributes) == offsetof(CUlaunchConfig, attrs) &&
                   sizeof(struct simt_launch_attribute) == sizeof(CUlaunchAttribute) &&
                   offsetof(struct simt_launch_attribute, value) == offsetof(CUlaunchAttribute, value),
               "CUlaunchConfig");
VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75);
VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76);
