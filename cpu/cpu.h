/* The CPU backend: one table of kernels per instruction set, filled by the files <kernel>_<isa>.c, and a
 * driver (cpu/backend.c) that hands ranges of items to threads.
 *
 * A kernel cuts a problem into items that do not depend on each other (a sequence and head, a block of
 * value columns, a range of channels); which thread takes which item changes no bit. */
#ifndef GDN_CPU_CPU_H
#define GDN_CPU_CPU_H

#include "core/problem.h"

/* How an ISA wants to run a problem; decided from sizes and layout alone, without reading maps, so that a
 * query without data gives the same answer as the run. */
typedef struct gdn_cpu_plan {
    int64_t     n_items;
    int64_t     grain;         /* items that a thread should take at a time, >= 1             */
    uint64_t    scratch_bytes; /* workspace per thread; 0 = none. The driver aligns it to 64  */
    int32_t     path;          /* the kernel's own choice of loop order                       */
    const char *path_name;     /* for gdn_capability.implementation: "rows", "columns", ...   */
} gdn_cpu_plan;

typedef struct gdn_cpu_kernel {
    void (*plan)(const void *problem, int32_t n_threads, gdn_cpu_plan *plan);
    /* Compute items [first, last). scratch is plan->scratch_bytes of 64-byte aligned memory of this
     * thread. The driver has set round-to-nearest and kept subnormals. */
    void (*run)(const void *problem, const gdn_cpu_plan *plan, int64_t first, int64_t last, void *scratch);
} gdn_cpu_kernel;

typedef struct gdn_cpu_table {
    const char           *name;
    int                 (*present)(void);
    const gdn_cpu_kernel *kernel[GDN_KERNEL_COUNT];
} gdn_cpu_table;

/* The kernels of each instruction set, and the tables they make (cpu/tables.c). Only those of the
 * architecture that is built for are linked. */
#define GDN_KERNEL(stem, number, title)                                                                \
    extern const gdn_cpu_kernel gdn_cpu_##stem##_scalar, gdn_cpu_##stem##_avx2, gdn_cpu_##stem##_avx512, \
        gdn_cpu_##stem##_neon;
#include "core/kernels.def"
#undef GDN_KERNEL

/* The tables that this processor can run, best first; index beyond the end gives NULL. */
const gdn_cpu_table *gdn_cpu_table_of(uint32_t index);

#endif
