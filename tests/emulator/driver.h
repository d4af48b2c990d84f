/* What the fake libcuda.so.1 and its clients share. The driver interface's types have names of our own, with the
 * layouts and values of CUDA 13's cuda.h; abi_cuda.c compares them where that header is installed. The fake's own
 * functions inject faults and look inside. */
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
typedef struct simt_green simt_green; /* CUgreenCtx */
typedef struct simt_graph simt_graph, simt_graph_exec;

typedef struct simt_launch_config {
    unsigned grid[3], block[3], shared;
    simt_stream *stream;
    const struct simt_launch_attribute {
        int id, unused;
        unsigned char value[64];
    } * attributes;
    unsigned n_attributes;
} simt_launch_config; /* CUlaunchConfig */

/* The results that are given: name, value. */
// clang-format off
#define SIMT_RESULTS(X) \
    X(SUCCESS, 0) X(INVALID_VALUE, 1) X(OUT_OF_MEMORY, 2) X(NOT_INITIALIZED, 3) X(NO_DEVICE, 100) \
    X(INVALID_DEVICE, 101) X(INVALID_IMAGE, 200) X(INVALID_CONTEXT, 201) X(ECC_UNCORRECTABLE, 214) \
    X(NVLINK_UNCORRECTABLE, 220) X(UNSUPPORTED_PTX_VERSION, 222) X(CONTAINED, 226) X(INVALID_HANDLE, 400) \
    X(ILLEGAL_STATE, 401) X(NOT_FOUND, 500) X(NOT_READY, 600) X(ILLEGAL_ADDRESS, 700) \
    X(LAUNCH_OUT_OF_RESOURCES, 701) X(LAUNCH_TIMEOUT, 702) X(LAUNCH_FAILED, 719) X(TENSOR_MEMORY_LEAK, 721) \
    X(NOT_SUPPORTED, 801) X(MPS_RPC_FAILURE, 806) X(STREAM_CAPTURE_UNSUPPORTED, 900) \
    X(STREAM_CAPTURE_INVALIDATED, 901) X(STREAM_CAPTURE_IMPLICIT, 906) X(STREAM_CAPTURE_WRONG_THREAD, 908) \
    X(UNKNOWN, 999)
// clang-format on

enum {
#define X(name, value) SIMT_##name = value,
    SIMT_RESULTS(X)
#undef X
};

SIMT_EXPORT extern const int gdn_emulated_driver; /* by which libgdn knows that this is not NVIDIA's driver */

/* ---- The fake's own: to steer it ----
 *
 * simt_control(name, value) returns 0, or -1 where there is no such name. The environment's GDN_SIMT_CONTROL, read at
 * cuInit, does the same: "devices=0,driver=11020".
 *   seed      order of threads and contents of uninitialised memory (also GDN_SIMT_SEED); 0: in order, NaN
 *   async     when queued work runs: 0 as late as possible, at a wait or a query (default); 1 at once;
 *             2 anywhere between, by the seed
 *   devices   how many there are (1)              driver    its version (13000)
 *   compute   capability, 10 * major + minor (90) memory    bytes of device memory (8 GiB)
 *   cut       bytes that a copy within device memory leaves out at its end (0)
 *   hang      1: nothing is ever done: queries say NOT_READY, waits LAUNCH_TIMEOUT
 *   lose      a result that every context keeps from now on, such as 719
 *   quiet     1: nothing is written to stderr
 *   unwritten 1: a kernel of a CHECKED library may read uninitialised shared memory */
SIMT_EXPORT int simt_control(const char *name, long long value);

/* The nth call from now (1: the next) of a function of the interface, by its exported name, does nothing but return
 * `result`. times: how many of its calls fail from there, 0: all. GDN_SIMT_FAIL="cuMemAlloc_v2:3:2" is the same,
 * once. */
SIMT_EXPORT int simt_fail_call(const char *function, unsigned nth, simt_result result, unsigned times);

/* Calls so far of a function, by its exported name. */
SIMT_EXPORT unsigned long long simt_calls(const char *function);

/* What is alive: "device blocks", "host blocks", "contexts", "streams", "modules", "graphs", "graph execs", "queued";
 * and "launches" since the start. */
SIMT_EXPORT long long simt_count(const char *what);

/* Bytes that kernels of a CHECKED library (README.md) read and write in a piece of device memory, from now on. There
 * can be several pieces, 0 .. SIMT_WATCHED - 1; 0 bytes: that one is not watched any more. Not counted are copies and
 * what the driver fills. -1: no such piece, kernels are not checked, or there is no memory for the counts. */
enum { SIMT_WATCHED = 4 };
typedef struct simt_traffic {
    unsigned long long read, written;             /* each byte as often as a thread does it */
    unsigned long long bytes_read, bytes_written; /* different bytes                        */
    unsigned most_reads, most_writes;             /* of one byte                            */
    unsigned long long first;                     /* number of the first access, among those of watched pieces */
} simt_traffic;
SIMT_EXPORT int simt_watch(unsigned which, simt_ptr at, size_t bytes);
SIMT_EXPORT int simt_traffic_of(unsigned which, simt_traffic *traffic);

/* What the last fault of a kernel, or misuse of the interface, was; "" where there was none. */
SIMT_EXPORT const char *simt_last_fault(void);

#ifdef __cplusplus
}
#endif
#endif
