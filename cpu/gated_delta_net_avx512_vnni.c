/* gated_delta_net for AVX-512 with VNNI: the chunked form has products of its own, the recurrence is that of avx512. */
#include "simd/avx512.h"

#include "cpu/chunked.inc.h"
#include "cpu/cpu.h"

static void plan(const void *call, int32_t n_threads, gdn_plan *of_call)
{
    const gdn_gated_delta_net_call *p = call;
    if (p->digits) chunked_plan(p, of_call);
    else gdn_cpu_gated_delta_net_avx512.plan(call, n_threads, of_call);
}

static void run(const void *call, const gdn_plan *of_call, int64_t first, int64_t last, void *scratch)
{
    const gdn_gated_delta_net_call *p = call;
    if (p->digits) chunked_run(p, first, last, scratch);
    else gdn_cpu_gated_delta_net_avx512.run(call, of_call, first, last, scratch);
}

const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx512_vnni = { plan, run };
