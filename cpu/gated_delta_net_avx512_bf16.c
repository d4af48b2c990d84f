/* gated_delta_net for AVX-512 with VNNI and BF16: one token's states of BF16 are stored by an instruction that rounds
 * them. All else is that of avx512_vnni. */
#include "cpu/cpu.h"

static void plan(const void *call, int32_t n_threads, gdn_plan *of_call)
{
    gdn_cpu_gated_delta_net_avx512_vnni.plan(call, n_threads, of_call);
    of_call->cpu.converts_bf16 = true;
}

static void run(const void *call, const gdn_plan *of_call, int64_t first, int64_t last, void *scratch)
{
    gdn_cpu_gated_delta_net_avx512_vnni.run(call, of_call, first, last, scratch);
}

const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx512_bf16 = { plan, run };
