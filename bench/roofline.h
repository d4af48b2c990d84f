/* Rooflines: how long this machine needs at least for a call's memory traffic, or for its operations.
 *
 * Both are measured with the kernel's threads, on its operands, alternately with it, so that disturbances affect both.
 * The fastest way to move bytes depends on the machine, so the harness runs all variants and takes the fastest.
 *
 * The roofline of a CUDA device is a copy within its memory by the driver. It reads and writes half as many bytes each
 * as the kernel moves, and is launched and awaited like a kernel. It is not a strict bound: a device may read faster
 * than it writes. */
#ifndef GDN_BENCH_ROOFLINE_H
#define GDN_BENCH_ROOFLINE_H

#include <stdint.h>

#include "gdn/gdn.h"

/* What is done with memory. UPDATE reads and writes the same bytes, and leaves their values. */
typedef enum roofline_access { ROOFLINE_READ, ROOFLINE_WRITE, ROOFLINE_UPDATE } roofline_access;

typedef struct roofline_piece {
    void *data; /* at a multiple of 4 bytes */
    int64_t bytes;
    roofline_access access;
} roofline_piece;

/* Variants of moving bytes. PREFETCH prefetches into the L1 cache, FAR farther ahead into the L2 cache. STREAMING
 * stores without reading into the caches. */
enum { ROOFLINE_PLAIN, ROOFLINE_PREFETCH, ROOFLINE_FAR, ROOFLINE_STREAMING, ROOFLINE_VARIANTS };
extern const char *const roofline_variant_name[ROOFLINE_VARIANTS];

/* ---- The host ------------------------------------------------------------------------------------------- */

/* The parallel-for of the rooflines with this many threads, valid until the next call, so that a context runs its
 * kernels on the same threads. NULL: the rooflines use OpenMP, or one thread. */
gdn_parallel_for_fn roofline_threads(int threads, void **user);
/* How many processors this many threads can run on. */
int roofline_processors(int threads);

/* Moves the pieces, each split over the threads. */
void roofline_move(int threads, int variant, const roofline_piece *pieces, int n);
/* Does fused multiply-adds on independent accumulators on each thread. Returns the vector operations that one thread
 * did, at least n. */
int64_t roofline_fma(int threads, int64_t n);
const char *roofline_isa(void); /* name of the instruction set of both */
int roofline_lanes(void);       /* floats of a vector operation */

/* ---- A CUDA device ---------------------------------------------------------------------------------------- */

typedef struct roofline_copier roofline_copier;

int roofline_has_copy(void); /* 0: no driver, or it lacks a function */
/* Allocates for copies of `bytes` bytes, whose pieces fill rotate_bytes, and verifies two copies. Returns NULL, or an
 * error text valid until the next call; close the copier in any case. */
const char *roofline_copy_open(gdn_context *ctx, int64_t bytes, int64_t rotate_bytes, roofline_copier **copier);
const char *roofline_copy(roofline_copier *copier, int64_t bytes); /* copies the next piece, and waits for it */
void roofline_copy_close(roofline_copier *copier);

/* ---- Between roofline.c and the files of the instruction sets ------------------------------------------- */

typedef struct roofline_set {
    const char *name;
    int lanes;
    /* Of one thread. p, at a multiple of 4 bytes, has n words of 4 bytes. */
    void (*move)(int variant, roofline_access access, int32_t *p, int64_t n);
    int64_t (*fma)(int64_t n);
} roofline_set;

extern const roofline_set roofline_avx512, roofline_avx2, roofline_neon;

#endif
