/* Floors (rooflines): measured lower bounds for the time of a kernel's unavoidable work on this machine.
 *
 * A floor moves the bytes that the kernel must move, or does the vector operations that it must do, and nothing else.
 * It uses the same threads, the same rotating buffers and the same repetitions as the kernel, so that disturbances
 * affect both. The fastest way to move bytes (plain, with prefetch, with streaming stores) depends on machine and
 * pattern, so the harness runs all variants and takes the fastest.
 *
 * The floor of a device with its own memory is a copy from device memory to device memory by the driver. It moves as
 * many bytes as the kernel must read and write, half of them read and half written, and is launched and awaited like a
 * kernel. Source and destination are separate memory, rotating like the operands. It is not a strict bound: a device
 * may read faster than it writes, and an in-place update may be faster than a copy. Devices have no arithmetic floor.
 *
 * To add floors for another device, provide a floor_ops; see floor_ops_for(). */
#ifndef GDN_BENCH_FLOORS_H
#define GDN_BENCH_FLOORS_H

#include <stdint.h>

#include "gdn/gdn.h"

enum { FLOOR_MAX_IN = 8, FLOOR_MAX_OUT = 4, FLOOR_MAX_STREAMS = 6 };

/* Elementwise: reads element i of a block of n floats from every in, and stores in[0][i] (1 without inputs) to every
 * out. It moves bits and adds no values, since 16-bit operands read as floats would give arbitrary values. in and out
 * may be the same memory: an in-place update. Blocks are `stride` bytes apart, per operand. */
typedef struct floor_stream {
    int n_in, n_out;
    int64_t n, n_blocks;
    double fmas; /* > 0, with one in and at most one out: see floor_isa.together; the read values are stored */
    gdn_span in[FLOOR_MAX_IN], out[FLOOR_MAX_OUT];
    int64_t in_stride[FLOOR_MAX_IN], out_stride[FLOOR_MAX_OUT];
} floor_stream;

/* Reads n rows in order, and writes each to the row that index[] names. */
typedef struct floor_scatter {
    int64_t n, in_bytes, out_bytes; /* multiples of 32 */
    gdn_span in, out, index;        /* index: int32 */
} floor_scatter;

/* Variants of moving bytes. Streaming stores bypass the caches. Blocked variants write several outputs one after
 * another from a block in the L1 cache; the last two do that for streams only. */
enum {
    FLOOR_PLAIN,
    FLOOR_PREFETCH,
    FLOOR_FAR,
    FLOOR_STREAMING,
    FLOOR_BLOCKED,
    FLOOR_BLOCKED_STREAMING,
    FLOOR_VARIANTS
};
extern const char *const floor_variant_name[FLOOR_VARIANTS];
/* Variants of reading during arithmetic; FAR prefetches farther ahead, into the L2 cache. */
enum { TOGETHER_PLAIN, TOGETHER_PREFETCH, TOGETHER_FAR, TOGETHER_VARIANTS };

typedef struct floor_copier floor_copier; /* the buffers of a device's copies */

/* The operations of a floor. The host has all but open, copy and close; a device has only these three. */
typedef struct floor_ops {
    const char *name; /* instruction set, or "device copy" */
    const char *way;  /* of a device: how it copies */
    int lanes;        /* floats per vector operation */
    void (*stream)(int threads, int variant, const floor_stream *streams, int n_streams);
    void (*scatter)(int threads, int variant, const floor_scatter *scatter);
    /* Does fused multiply-adds on independent accumulators on each thread. Returns the vector operations that one
     * thread did, at least `n`. */
    int64_t (*fma)(int threads, int64_t n);
    /* open allocates for copies of `bytes` bytes, whose pieces fill rotate_bytes, and verifies two copies. It returns
     * NULL, or an error text valid until the next call; close the copier in any case. */
    const char *(*open)(gdn_context *ctx, int64_t bytes, int64_t rotate_bytes, floor_copier **copier);
    const char *(*copy)(floor_copier *copier, int64_t bytes); /* copies the next piece, and waits for it */
    void (*close)(floor_copier *copier);
} floor_ops;

/* The parallel-for of the floors with this many threads, valid until the next call, so that a context runs its kernels
 * on the same threads. NULL: the floors use OpenMP, or one thread. */
gdn_parallel_for_fn floor_threads(int threads, void **user);

/* The floors of a device; NULL: none. The CPU and CUDA have floors. */
const floor_ops *floor_ops_for(const gdn_device_info *device);
const floor_ops *floor_ops_of_cuda(void); /* NULL: no driver, or it lacks a function */

/* ---- Between floors.c and the files of the instruction sets --------------------------------------- */

/* The kernels of one instruction set, for one thread. Streams: elements [first, last) of one block, with addresses. */
typedef struct floor_isa {
    const char *name;
    int lanes;
    void (*stream)(int variant, int n_in, int n_out, const float *const *in, float *const *out, int64_t first,
                   int64_t last);
    void (*scatter)(int variant, const char *in, int64_t in_bytes, char *out, int64_t out_bytes, const int32_t *index,
                    int64_t first, int64_t last);
    int64_t (*fma)(int64_t n);
    /* Reads elements [first, last), writes them to `out` unless NULL, and does `fmas` independent vector operations per
     * 64 bytes. */
    void (*together)(int variant, const float *in, float *out, int64_t first, int64_t last, double fmas);
} floor_isa;

extern const floor_isa floor_isa_avx512, floor_isa_avx2, floor_isa_neon, floor_isa_scalar;

#endif
