/* The CPU backend: one table of kernels per instruction set, filled by what kernel.c.in makes, and a
 * driver (cpu/backend.c) that hands ranges of items to threads.
 *
 * A kernel cuts a problem into items that do not depend on each other (a sequence and head, a block of
 * value columns, a range of channels); which thread takes which item changes no bit. */
#ifndef GDN_CPU_CPU_H
#define GDN_CPU_CPU_H

#include "core/plan.h"
#include "core/problem.h"

/* How an instruction set runs a kernel, whose problem is gdn_<stem>_problem. plan fills n_items, grain, scratch_bytes,
 * cut and form. run computes items [first, last); scratch is plan->scratch_bytes of 64-byte aligned memory of this
 * thread. The driver has set round-to-nearest, and that subnormals are kept or flushed. */
typedef struct gdn_cpu_kernel {
    void (*plan)(const void *problem, int32_t n_threads, gdn_plan *plan);
    void (*run)(const void *problem, const gdn_plan *plan, int64_t first, int64_t last, void *scratch);
} gdn_cpu_kernel;

#define GDN_KERNEL(stem, number, title, last, end)                                                                     \
    extern const gdn_cpu_kernel gdn_cpu_##stem##_scalar, gdn_cpu_##stem##_flush, gdn_cpu_##stem##_avx2,                \
        gdn_cpu_##stem##_avx512, gdn_cpu_##stem##_neon;
#include "core/kernels.def"
#undef GDN_KERNEL

/* The kernels of an instruction set (cpu/tables.c). Only those of the architecture that is built for are linked. */
typedef struct gdn_cpu_table {
    const char *name;
    int (*present)(void);
    const gdn_cpu_kernel *kernels[GDN_KERNEL_COUNT];
    /* At GDN_EXACT_FTZ: this very table, in a mode of the processor that flushes; one that flushes in software, in the
     * usual mode; NULL: not at that level. */
    const struct gdn_cpu_table *flush;
} gdn_cpu_table;

/* The tables that this processor can run, best first; index beyond the end gives NULL. */
const gdn_cpu_table *gdn_cpu_table_of(uint32_t index);

#endif
