/* The core of the SIMT emulator: grids, blocks, warps and what their threads do together, without a language.
 *
 * A block's threads are fibers (fiber.h) of the calling thread of the machine; blocks run one after another. The
 * shims (cuda_shim.h) put a language's names on top. One grid runs at a time in a process: the caller holds a lock.
 *
 * A kernel that breaks a rule that hardware does not check (a barrier that not all threads reach, a shuffle from a
 * lane that takes no part, ...) ends the grid, and simt_error() says what happened and where. */
#ifndef GDN_SIMT_CORE_H
#define GDN_SIMT_CORE_H

#include "tests/emulator/fiber.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMT_LANES       32u
#define SIMT_MAX_THREADS 1024u
#define SIMT_MAX_WARPS   (SIMT_MAX_THREADS / SIMT_LANES)

typedef struct simt_dim3 {
    unsigned x, y, z;
} simt_dim3;

/* A place in a kernel's source, for messages, and to tell one barrier from another. */
typedef struct simt_site {
    const char *file;
    int line;
} simt_site;

/* What a thread waits in: the block's barrier, or what lanes of a warp do together. */
enum simt_op {
    SIMT_OP_NONE,
    SIMT_OP_BARRIER,
    SIMT_OP_SYNC,
    SIMT_OP_SHUFFLE,
    SIMT_OP_BALLOT,
    SIMT_OP_MMA,
    SIMT_OP_MMA_F16
};

/* What a lane has of a product of matrices: of signed bytes, 16 x 32 by 32 x 8 (mma.m16n8k32), or of binary16,
 * 16 x 16 by 16 x 8 (mma.m16n8k16). The value of SIMT_OP_MMA and SIMT_OP_MMA_F16 is its address. */
typedef struct simt_mma {
    union {
        int32_t s32[4];
        float f32[4];
    } c; /* rows lane / 4 and 8 more, columns 2 (lane % 4) and the next; the product is added */
    uint32_t a[4], b[2];
} simt_mma;

typedef struct simt_thread {
    simt_dim3 index; /* in its block */
    unsigned number; /* x + X * (y + Y * z) */
    unsigned lane;
    struct simt_warp *warp;
    /* What it waits in, and its operands. */
    enum simt_op op;
    uint32_t mask;
    unsigned source; /* shuffle: the lane it reads */
    uint64_t value, result;
    simt_site site;
    simt_fiber fiber;
} simt_thread;

typedef struct simt_warp {
    simt_thread *threads; /* its lane 0 */
    unsigned number;
    uint32_t exists, runnable, exited;
    uint32_t waiting; /* in what lanes do together */
} simt_warp;

typedef struct simt_block {
    simt_dim3 index, size, grid;
    unsigned n_threads, n_warps;
    const char *kernel;
} simt_block;

extern simt_thread *simt_self; /* the thread that runs, NULL outside of kernels */
extern simt_block simt_current;

typedef struct simt_grid {
    const char *name;
    simt_dim3 grid, block;
    void (*fn)(const void *arg);
    const void *arg;
    size_t arg_bytes;
    unsigned mode; /* x86: bits of MXCSR besides those of IEEE's arithmetic, for a device that flushes; else 0 */
} simt_grid;

/* Run a grid to its end. 0, or -1: the grid was not valid or broke a rule, and simt_error() has the text. */
int simt_run_grid(const simt_grid *grid);
const char *simt_error(void);

/* The order of threads, warps and blocks, and what uninitialised memory contains, follow from the seed. 0: threads in
 * order, and NaN. The default is the number in the environment's GDN_SIMT_SEED. */
void simt_set_seed(uint64_t seed);
uint64_t simt_seed(void);
uint64_t simt_random(void);
void simt_poison(void *at, size_t bytes); /* fill with garbage */

/* Shared memory: a section of the library, poisoned when a block starts. The linker defines these. */
extern char __start_simt_shared[] __attribute__((visibility("hidden")));
extern char __stop_simt_shared[] __attribute__((visibility("hidden")));

/* ---- Called by kernels, through a shim ---- */
void simt_barrier(simt_site site); /* all threads of the block */
uint64_t simt_lanes(enum simt_op op, uint32_t mask, uint64_t value, unsigned source, simt_site site);
void simt_fault(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
#endif
