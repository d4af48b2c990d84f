/* The CPU backend: one table of kernels per instruction set (<stem>_<isa>.c), and a driver (cpu/backend.c) that
 * distributes items to threads.
 *
 * A kernel divides a problem into independent items: a sequence and head, a block of value channels, a range of
 * channels. The assignment of items to threads does not affect results. */
#ifndef GDN_CPU_CPU_H
#define GDN_CPU_CPU_H

#include "core/plan.h"
#include "core/problem.h"

/* A kernel for one instruction set. call is the kernel's block (call/<kernel>.h). plan fills n_items, grain,
 * scratch_bytes, cut and variant. run computes items [first, last); scratch is plan->cpu.scratch_bytes of 64-byte
 * aligned memory of this thread. The driver has set round-to-nearest, and the level's treatment of subnormals. */
typedef struct gdn_cpu_kernel {
    void (*plan)(const void *call, int32_t n_threads, gdn_plan *plan);
    void (*run)(const void *call, const gdn_plan *plan, int64_t first, int64_t last, void *scratch);
} gdn_cpu_kernel;

extern const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx512_bf16;
extern const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx512_vnni;
extern const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx512_amx;
extern const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx512;
extern const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx2_vnni;
extern const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx2;
extern const gdn_cpu_kernel gdn_cpu_gated_delta_net_neon;
extern const gdn_cpu_kernel gdn_cpu_gated_delta_net_scalar;
extern const gdn_cpu_kernel gdn_cpu_gated_delta_net_flush;
extern const gdn_cpu_kernel gdn_cpu_ssm_conv_avx512;
extern const gdn_cpu_kernel gdn_cpu_ssm_conv_avx2;
extern const gdn_cpu_kernel gdn_cpu_ssm_conv_neon;
extern const gdn_cpu_kernel gdn_cpu_ssm_conv_scalar;
extern const gdn_cpu_kernel gdn_cpu_ssm_conv_flush;
extern const gdn_cpu_kernel gdn_cpu_set_rows_avx512;
extern const gdn_cpu_kernel gdn_cpu_set_rows_avx2;
extern const gdn_cpu_kernel gdn_cpu_set_rows_neon;
extern const gdn_cpu_kernel gdn_cpu_set_rows_scalar;
extern const gdn_cpu_kernel gdn_cpu_set_rows_flush;

/* The kernels of an instruction set (cpu/tables.c). Only those of the target architecture are linked. */
typedef struct gdn_cpu_table {
    const char *name;
    int (*present)(void);
    const gdn_cpu_kernel *kernels[GDN_KERNEL_COUNT];
    /* The table for GDN_EXACT_FTZ. This table itself: it runs in the processor's mode that flushes. Another table: it
     * flushes in software, in the usual mode. NULL: the instruction set does not have the level. */
    const struct gdn_cpu_table *flush;
} gdn_cpu_table;

/* The tables that this processor can run, best first; index beyond the end gives NULL. */
const gdn_cpu_table *gdn_cpu_table_of(uint32_t index);

#endif
