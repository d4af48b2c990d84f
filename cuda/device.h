/* The CUDA backend's internal interface: from the driver library to a context that can launch kernels.
 *
 *   loader.c     libcuda.so.1, its functions, the process's list of devices
 *   device.c     opening a context: the device's primary one, or the caller's; errors of the driver
 *   queue.c      streams, bounded waits, launches, what the device reports
 *   memory.c     buffers and copies
 *   digits.c     how tensor cores multiply digits exactly
 *   kernels.c    the embedded image and its kernels
 *   dispatch_<kernel>.c, backend.c */
#ifndef GDN_CUDA_DEVICE_H
#define GDN_CUDA_DEVICE_H

#include "core/backend.h"
#include "cuda/driver.h"
#include "cuda/shape.h"
#include "gdn/cuda.h"
#include "gpu/context.h"
#include "gpu/plan.h"

_Static_assert(sizeof(void *) == 8, "a CUdeviceptr travels in gdn_span.data, which takes 64-bit pointers");

/* The device kernels: GDN_CUDA_<name> is gdn_cuda_<name>() of the .cu files. */
// clang-format off
#define GDN_CUDA_KERNELS(X)                                                                       \
    X(delta_decode_4) X(delta_decode_4_channel)                                                   \
    X(delta_rows_4) X(delta_rows_4_channel) X(delta_rows_general) X(delta_rows_general_channel)   \
    X(delta_tiles_4) X(delta_tiles_4_channel) X(delta_tiles_4_wide) X(delta_tiles_4_wide_channel) \
    X(chunked_prepare) X(chunked_128) X(chunked_256)                                              \
    X(chunked_prepare_f16) X(chunked_128_f16) X(chunked_256_f16)                                  \
    X(conv_4) X(conv_general) X(conv_tree)                                                        \
    X(rows_clear) X(rows_enter) X(rows_write)                                                     \
    X(probe_arithmetic) X(digits_s8) X(digits_f16)
// clang-format on
typedef enum gdn_cuda_kernel {
#define X(name) GDN_CUDA_##name,
    GDN_CUDA_KERNELS(X)
#undef X
        GDN_CUDA_KERNEL_COUNT
} gdn_cuda_kernel;

/* The CUDA release whose nvcc compiled the image, as 1000 * major + 10 * minor. The build defines it. */
#ifndef GDN_CUDA_TOOLKIT
#error "GDN_CUDA_TOOLKIT has to be defined: cuda/sources.cmake asks nvcc"
#endif

typedef struct gdn_cuda_traits {
    CUdevice device;
    gdn_gpu_about about;
    int major, minor;    /* compute capability */
    int multiprocessors; /* kernels are chosen for so many; GDN_CUDA_MULTIPROCESSORS may say another number */
} gdn_cuda_traits;

/* What tensor cores take the digits of the chunked form as. */
typedef enum gdn_cuda_digits { GDN_CUDA_DIGITS_S8, GDN_CUDA_DIGITS_F16, GDN_CUDA_DIGITS_NONE } gdn_cuda_digits;

typedef struct gdn_cuda_device {
    gdn_gpu_context gpu;
    const gdn_cuda_driver *cu;
    gdn_cuda_traits traits;
    CUcontext context;
    int own_context; /* the primary one, retained */
    CUstream stream; /* our own; it and the legacy default stream wait for each other */
    CUmodule module; /* the image, and its kernels */
    CUfunction kernels[GDN_CUDA_KERNEL_COUNT];
    int dependent_launch;   /* 1: a kernel's blocks may start while the kernel before it runs, and wait there */
    gdn_cuda_digits digits; /* NONE: no sums are exact that may be used */
    uint32_t *bad;          /* GDN_BAD_WORDS words of host memory that kernels set */
    CUdeviceptr bad_address;
    _Atomic int32_t lost; /* the CUresult with which the CUDA context was lost, else 0; gdn_poll() reads it
                             on any thread */
} gdn_cuda_device;

/* ---- loader.c ---- */
enum { GDN_CUDA_MAX_DEVICES = 64 };
typedef struct gdn_cuda_catalogue {
    gdn_cuda_driver cu;
    int loaded; /* the driver is present and initialized, with or without devices */
    uint32_t n;
    gdn_cuda_traits traits[GDN_CUDA_MAX_DEVICES];
} gdn_cuda_catalogue;
/* Makes the list of devices if there is none; for gdn_gpu_driver. */
gdn_status gdn_cuda_count(uint32_t *n);
/* The process's devices. They stay as they are once gdn_cuda_count() has succeeded. */
const gdn_cuda_catalogue *gdn_cuda_catalogue_get(void);
gdn_status gdn_cuda_read_traits(const gdn_cuda_driver *cu, CUdevice device, gdn_cuda_traits *traits);

/* ---- device.c ---- */
/* For gdn_gpu_driver: device is a gdn_cuda_device, native a gdn_cuda_desc or NULL. */
gdn_status gdn_cuda_device_open(void *device, const gdn_context *ctx, uint32_t index, const void *native);
void gdn_cuda_device_close(void *device);
/* Makes a status and text of a CUresult: "cuMemAlloc returned CUDA_ERROR_...". dev may be NULL; records a lost device.
 * */
gdn_status gdn_cuda_fail(gdn_cuda_device *dev, const gdn_cuda_driver *cu, CUresult result, const char *call);
/* enter makes the context current, and permits what a capture of this thread would forbid. leave undoes both. */
gdn_status gdn_cuda_enter(void *device, gdn_gpu_scope *scope);
void gdn_cuda_leave(void *device, const gdn_gpu_scope *scope);

/* ---- queue.c: within enter and leave ---- */
/* The CUstream of a gdn_stream; NULL becomes our own. GDN_INVALID_ARGUMENT if it is not a stream of the context. */
gdn_status gdn_cuda_stream(gdn_cuda_device *dev, gdn_stream stream, CUstream *out);
gdn_status gdn_cuda_wait(gdn_cuda_device *dev, CUstream stream);
gdn_status gdn_cuda_launch(gdn_cuda_device *dev, gdn_cuda_kernel kernel, CUstream stream, const uint32_t blocks[3],
                           uint32_t threads, const void *params);
gdn_status gdn_cuda_take_report(void *device);
enum { GDN_CUDA_MAX_BLOCKS = INT32_MAX, GDN_CUDA_MAX_BLOCKS_YZ = 65535 };

/* ---- kernels.c ---- */
/* Both within enter and leave; at close none of the kernels may still be running. */
gdn_status gdn_cuda_kernels_open(gdn_cuda_device *dev);
void gdn_cuda_kernels_close(gdn_cuda_device *dev);
const char *gdn_cuda_kernel_name(int32_t device_kernel); /* of a plan, a gdn_cuda_kernel: "delta_rows_4" */

/* ---- digits.c ---- */
/* Probes products of digits and chooses dev->digits, within enter and leave. Reads GDN_CUDA_DIGITS. */
gdn_status gdn_cuda_digits_open(gdn_cuda_device *dev);

/* ---- memory.c ---- */
gdn_status gdn_cuda_memory_open(gdn_cuda_device *dev);
void gdn_cuda_memory_close(gdn_cuda_device *dev);
gdn_status gdn_cuda_allocate(void *device, uint64_t bytes, gdn_gpu_buffer *buffer);
int gdn_cuda_release(void *device, gdn_gpu_buffer *buffer);
gdn_status gdn_cuda_write(void *device, const gdn_span *span, uint64_t offset, const void *source, uint64_t bytes);
gdn_status gdn_cuda_read(void *device, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes);

/* ---- queue.c, for gpu/plan.h ---- */
gdn_gpu_device gdn_cuda_gpu(const gdn_cuda_device *dev);

/* ---- dispatch_<kernel>.c ---- */
void gdn_cuda_plan_gated_delta_net(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_cuda_run_gated_delta_net(void *device, const gdn_problem *problem, const gdn_plan *plan,
                                        gdn_stream stream);
void gdn_cuda_plan_ssm_conv(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_cuda_run_ssm_conv(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream);
void gdn_cuda_plan_set_rows(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan);
gdn_status gdn_cuda_run_set_rows(void *device, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream);

#endif
