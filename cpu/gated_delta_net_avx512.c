/* gated_delta_net for AVX-512. */
#include "simd/avx512.h"

#include "cpu/gated_delta_net.inc.h"

const gdn_cpu_kernel gdn_cpu_gated_delta_net_avx512 = { gated_delta_net_plan, gated_delta_net_run };
