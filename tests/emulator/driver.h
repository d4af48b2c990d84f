/* What the fake libcuda.so.1 and its clients share: the driver interface's types in names of our own, with the layouts
 * and values of CUDA 13's cuda.h (abi_cuda.c compares them where that header is installed), and the fake's own
 * functions to inject faults and to look inside. */
#ifndef GDN_SIMT_DRIVER_H
#define GDN_SIMT_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMT_EXPORT __attribute__((visibility("default")))

typedef int simt_result;             /* CUresult */
typedef int simt_device;             /* CUdevice */
typedef unsigned long long simt_ptr; /* CUdeviceptr: here an address of the host */
typedef struct simt_context simt_context;
typedef struct simt_module simt_module;
typedef struct simt_function simt_function;
typedef struct simt_stream simt_stream;
typedef struct simt_event simt_event;
typedef struct simt_green simt_green; /* CUgreenCtx */
typedef struct simt_graph simt_graph;
typedef struct simt_graph_exec simt_graph_exec;
typedef void (*simt_host_fn)(void *data);

typedef struct simt_launch_config { /* CUlaunchConfig */
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    simt_stream *stream;
    const void *attributes;
    unsigned n_attributes;
} simt_launch_config;

/* name, value, what cuGetErrorString says */
#define SIMT_RESULTS(X)                                                                                                \
    X(SUCCESS, 0, "no error")                                                                                          \
    X(INVALID_VALUE, 1, "invalid argument")                                                                            \
    X(OUT_OF_MEMORY, 2, "out of memory")                                                                               \
    X(NOT_INITIALIZED, 3, "initialization error")                                                                      \
    X(DEINITIALIZED, 4, "driver shutting down")                                                                        \
    X(STUB_LIBRARY, 34, "CUDA driver is a stub library")                                                               \
    X(NO_DEVICE, 100, "no CUDA-capable device is detected")                                                            \
    X(INVALID_DEVICE, 101, "invalid device ordinal")                                                                   \
    X(INVALID_IMAGE, 200, "device kernel image is invalid")                                                            \
    X(INVALID_CONTEXT, 201, "invalid device context")                                                                  \
    X(NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")                              \
    X(ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                                                   \
    X(NVLINK_UNCORRECTABLE, 220, "uncorrectable NVLink error detected during the execution")                           \
    X(UNSUPPORTED_PTX_VERSION, 222, "the provided PTX was compiled with an unsupported toolchain.")                    \
    X(CONTAINED, 226, "Invalid access of peer GPU memory over nvlink or a hardware error")                             \
    X(UNSUPPORTED_LIMIT, 215, "limit is not supported on this architecture")                                           \
    X(INVALID_HANDLE, 400, "invalid resource handle")                                                                  \
    X(ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")                                    \
    X(NOT_FOUND, 500, "named symbol not found")                                                                        \
    X(NOT_READY, 600, "device not ready")                                                                              \
    X(ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                                                \
    X(LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")                                         \
    X(LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                                                  \
    X(CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                                               \
    X(LAUNCH_FAILED, 719, "unspecified launch failure")                                                                \
    X(TENSOR_MEMORY_LEAK, 721, "tensor memory not completely freed")                                                   \
    X(NOT_PERMITTED, 800, "operation not permitted")                                                                   \
    X(NOT_SUPPORTED, 801, "operation not supported")                                                                   \
    X(MPS_RPC_FAILURE, 806, "MPS client failed to communicate with the MPS server")                                    \
    X(STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")                             \
    X(STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture")                      \
    X(STREAM_CAPTURE_MERGE, 902, "operation would result in a merge of separate capture sequences")                    \
    X(STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the same stream as it began")                           \
    X(STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                                              \
    X(STREAM_CAPTURE_ISOLATION, 905, "dependency created on uncaptured work in another stream")                        \
    X(STREAM_CAPTURE_IMPLICIT, 906, "operation would make the legacy stream depend on a capturing blocking stream")    \
    X(CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capturing stream")                  \
    X(STREAM_CAPTURE_WRONG_THREAD, 908, "attempt to terminate a thread-local capture sequence from another thread")    \
    X(UNKNOWN, 999, "unknown error")

enum {
#define X(name, value, text) SIMT_##name = value,
    SIMT_RESULTS(X)
#undef X
};

SIMT_EXPORT extern const int gdn_emulated_driver; /* by which libgdn knows that this is not NVIDIA's driver */

/* ---- The fake's own: to steer it ----
 *
 * simt_control(name, value) returns 0, or -1 where there is no such name. The environment's GDN_SIMT_CONTROL, read at
 * cuInit, does the same: "devices=0,driver=11020".
 *   seed      order of threads and contents of uninitialised memory (also GDN_SIMT_SEED); 0: in order, NaN
 *   async     when queued work runs: 0 as late as possible, that is when somebody waits or asks (default); 1 at once;
 *             2 anywhere between, by the seed
 *   devices   how many there are (1)              driver    its version (13000)
 *   compute   capability, 10 * major + minor (90) memory    bytes of device memory (8 GiB)
 *   multiprocessors  as the device says (4); blocks run one after another all the same
 *   cut       bytes that a copy within device memory leaves out at its end (0)
 *   hang      1: nothing is ever done: queries say NOT_READY, waits LAUNCH_TIMEOUT
 *   lose      a result that every context keeps from now on, such as 719
 *   quiet     1: nothing is written to stderr
 *   unwritten 1: a kernel of a CHECKED library may read shared memory that nobody has written
 *   reset     forget injected failures and counts, and set all of the above to their defaults */
SIMT_EXPORT int simt_control(const char *name, long long value);

/* The nth call from now (1: the next) of a function of the interface, by its exported name, does nothing but return
 * `result`. times: how many of its calls fail from there, 0: all. GDN_SIMT_FAIL="cuMemAlloc_v2:3:2" is the same,
 * once. */
SIMT_EXPORT int simt_fail_call(const char *function, unsigned nth, simt_result result, unsigned times);

/* From now on the driver's compiler is said to make a mistake in a kernel: each of its launches leaves the lowest bit
 * of one word wrong, the word whose address lies that many bytes into the kernel's parameters. NULL: in none. */
SIMT_EXPORT void simt_miscompile(const char *kernel, size_t at);

/* Calls so far of a function, by its exported name; NULL: of all. */
SIMT_EXPORT unsigned long long simt_calls(const char *function);

/* What is alive: "device bytes", "device blocks", "host blocks", "contexts", "streams", "events", "modules", "graphs",
 * "graph execs", "queued"; and "launches" since the start. -1: no such name. */
SIMT_EXPORT long long simt_count(const char *what);

/* Bytes that kernels of a CHECKED library (README.md) read and write in a piece of device memory, from now on. There
 * can be several pieces, 0 .. SIMT_WATCHED - 1; 0 bytes: that one is not watched any more. Not counted are copies and
 * what the driver fills. -1: no such piece, kernels are not checked, or there is no memory for the counts. */
enum { SIMT_WATCHED = 4 };
typedef struct simt_traffic {
    unsigned long long read, written;             /* each byte as often as a thread does it */
    unsigned long long bytes_read, bytes_written; /* different bytes                        */
    unsigned most_reads, most_writes;             /* of one byte                            */
    unsigned long long first; /* how many accesses of watched pieces there had been with the first one */
} simt_traffic;
SIMT_EXPORT int simt_watch(unsigned which, simt_ptr at, size_t bytes);
SIMT_EXPORT int simt_traffic_of(unsigned which, simt_traffic *traffic);

/* What the last fault of a kernel, or misuse of the interface, was; "" where there was none. */
SIMT_EXPORT const char *simt_last_fault(void);

#ifdef __cplusplus
}
#endif
#endif
