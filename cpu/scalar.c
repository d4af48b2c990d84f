/* The scalar implementation: the reference, with its items distributed to threads. It runs on every processor. */
#include "cpu/cpu.h"
#include "reference/reference.h"

#define GDN_AT_LEVEL(stem, table, level)                                                                               \
    static void run_##stem##level(const void *call, const gdn_plan *plan, int64_t first, int64_t last, void *scratch)  \
    {                                                                                                                  \
        (void)plan;                                                                                                    \
        for (int64_t item = first; item < last; item++) gdn_ref_##stem##level(call, item, scratch);                    \
    }                                                                                                                  \
    const gdn_cpu_kernel gdn_cpu_##stem##table = { plan_##stem, run_##stem##level };

#define SCRATCH_gated_delta_net gdn_ref_scratch_bytes(call)
#define SCRATCH_ssm_conv        0
#define SCRATCH_set_rows        0

#define GDN_SCALAR(stem)                                                                                               \
    static void plan_##stem(const void *call, int32_t n_threads, gdn_plan *plan)                                       \
    {                                                                                                                  \
        (void)n_threads;                                                                                               \
        plan->n_items = gdn_ref_##stem##_items(call);                                                                  \
        plan->variant = GDN_VARIANT_REFERENCE;                                                                         \
        plan->cpu.scratch_bytes = SCRATCH_##stem;                                                                      \
    }                                                                                                                  \
    GDN_AT_LEVEL(stem, _scalar, )                                                                                      \
    GDN_AT_LEVEL(stem, _flush, _flush)
GDN_SCALAR(gated_delta_net)
GDN_SCALAR(ssm_conv)
GDN_SCALAR(set_rows)
