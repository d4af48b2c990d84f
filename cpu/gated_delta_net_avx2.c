/* gated_delta_net for AVX2. */
#include "simd/avx2.h"

#include "cpu/gated_delta_net.inc.h"

const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx2 = { gated_delta_net_plan, gated_delta_net_run };
