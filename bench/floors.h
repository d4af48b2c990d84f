/* Floors: how fast this machine can do the unavoidable part of a kernel, measured and not assumed.
 *
 * A floor moves the bytes that the kernel must move, or does the number of vector operations that it must
 * do, and nothing else. It runs on the same threads, over the same rotated buffers and in the same
 * repetition as the kernel, so that a noisy neighbour hits both. There are several ways to move bytes
 * (plain, with prefetch, past the caches), and which is fastest differs by machine and pattern, so the
 * harness runs every variant and takes the fastest.
 *
 * The floor of a device with memory of its own is a copy: as many bytes as the kernel must read and write, half of them
 * read and half written, in one copy by the driver from device memory to device memory, launched and waited for as a
 * kernel is. It is between two pieces of memory that nobody else uses, in rotation as the operands are, because a copy
 * reads as much as it writes, and never in place, and few kernels do so. It is no bound: a device may read faster than
 * it writes, and an update in place may be faster than a copy. Of arithmetic a device has no floor.
 *
 * Another device that is to have floors provides one more floor_ops; see floor_ops_for(). */
#ifndef GDN_BENCH_FLOORS_H
#define GDN_BENCH_FLOORS_H

#include <stdint.h>

#include "gdn/gdn.h"

enum { FLOOR_MAX_IN = 8, FLOOR_MAX_OUT = 4, FLOOR_MAX_STREAMS = 6 };

/* Elementwise: every i in a block of n floats is read from every in, and in[0][i] is stored to every out, or 1 where
 * nothing is read. As bits: the kernels read the same memory in turn, and sums of operands of 16 bits taken for floats
 * once left values in a history that drove silu to where it is slow. in and out may be the same memory: that is an
 * update in place. Blocks lie `stride` bytes apart, each operand by its own. */
typedef struct floor_stream {
    int      n_in, n_out;
    int64_t  n, n_blocks;
    double   fmas; /* > 0, with one in and at most one out: see floor_isa.together; then what is read is stored */
    gdn_span in[FLOOR_MAX_IN], out[FLOOR_MAX_OUT];
    int64_t  in_stride[FLOOR_MAX_IN], out_stride[FLOOR_MAX_OUT];
} floor_stream;

/* Read n rows one after another, write the row that index[] names for each. */
typedef struct floor_scatter {
    int64_t  n, in_bytes, out_bytes; /* multiples of 32 */
    gdn_span in, out, index;         /* index: int32 */
} floor_scatter;

/* Ways to move bytes. Streaming stores go past the caches; blocked means that several outputs are written
 * one after another from a block that is in the first cache, which the last two do only for streams. */
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
/* Ways to read beside arithmetic: what is asked for far ahead goes to the second cache. */
enum { TOGETHER_PLAIN, TOGETHER_PREFETCH, TOGETHER_FAR, TOGETHER_VARIANTS };

typedef struct floor_copier floor_copier; /* what a device copies between, and how */

/* The host has all but open, copy and close; a device has these and no others. */
typedef struct floor_ops {
    const char *name;  /* instruction set, or "device copy" */
    const char *way;   /* of a device: what copies */
    int         lanes; /* floats per vector operation */
    void (*stream)(int threads, int variant, const floor_stream *streams, int n_streams);
    void (*scatter)(int threads, int variant, const floor_scatter *scatter);
    /* Fused multiply-adds of independent accumulators, on each thread; returns how many vector operations
     * one thread did, at least `n`. */
    int64_t (*fma)(int threads, int64_t n);
    /* For copies of `bytes` bytes, whose pieces together fill rotate_bytes: memory, and two copies whose result is
     * looked at. Returns NULL, or what is wrong, which stays until the next call; the copier is closed in any case. */
    const char *(*open)(gdn_context *ctx, int64_t bytes, int64_t rotate_bytes, floor_copier **copier);
    const char *(*copy)(floor_copier *copier, int64_t bytes); /* the next piece; returns when it has been copied */
    void (*close)(floor_copier *copier);
} floor_ops;

/* The parallel-for of the floors on so many threads, for a context to run its kernels on the same ones; until the next
 * call. NULL where the floors have no threads of their own: they are OpenMP's, or one is enough. */
gdn_parallel_for_fn floor_threads(int threads, void **user);

/* The floors of a device, or NULL where there are none: the CPU has, and CUDA. */
const floor_ops *floor_ops_for(const gdn_device_info *device);
const floor_ops *floor_ops_of_cuda(void); /* NULL: without a driver, or with one that lacks something */

/* ---- Between floors.c and the files of the instruction sets. --------------------------------------- */

/* One thread's share. Streams: elements [first, last) of one block, addresses resolved. */
typedef struct floor_isa {
    const char *name;
    int         lanes;
    void (*stream)(int variant, int n_in, int n_out, const float *const *in, float *const *out, int64_t first,
                   int64_t last);
    void (*scatter)(int variant, const char *in, int64_t in_bytes, char *out, int64_t out_bytes, const int32_t *index,
                    int64_t first, int64_t last);
    int64_t (*fma)(int64_t n);
    /* Read elements [first, last), write them to `out` unless it is NULL, and do `fmas` vector operations beside each
     * 64 bytes, which wait neither for memory nor for one another. */
    void (*together)(int variant, const float *in, float *out, int64_t first, int64_t last, double fmas);
} floor_isa;

extern const floor_isa floor_isa_avx512, floor_isa_avx2, floor_isa_neon, floor_isa_scalar;

#endif
