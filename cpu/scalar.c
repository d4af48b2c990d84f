/* The scalar implementation: the reference, with its items distributed to threads. It runs on every processor. */
#include "cpu/cpu.h"
#include "reference/reference.h"

#define GDN_AT_LEVEL(stem, table, level)                                                                               \
    static void run_##stem##level(const void *call, const gdn_plan *plan, int64_t first, int64_t last, void *scratch)  \
    {                                                                                                                  \
        (void)plan, (void)scratch;                                                                                     \
        for (int64_t item = first; item < last; item++) gdn_ref_##stem##level(call, item);                             \
    }                                                                                                                  \
    const gdn_cpu_kernel gdn_cpu_##stem##table = { plan_##stem, run_##stem##level };

#define GDN_SCALAR(stem)                                                                                               \
    static void plan_##stem(const void *call, int32_t n_threads, gdn_plan *plan)                                       \
    {                                                                                                                  \
        (void)n_threads;                                                                                               \
        plan->n_items = gdn_ref_##stem##_items(call);                                                                  \
        plan->variant = GDN_VARIANT_REFERENCE;                                                                         \
    }                                                                                                                  \
    GDN_AT_LEVEL(stem, _scalar, )                                                                                      \
    GDN_AT_LEVEL(stem, _flush, _flush)
GDN_SCALAR(gated_delta_net)
GDN_SCALAR(ssm_conv)
GDN_SCALAR(set_rows)
