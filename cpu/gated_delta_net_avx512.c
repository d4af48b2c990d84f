/* gated_delta_net for AVX-512. */
#include "simd/avx512.h"
#include "cpu/gated_delta_net.inc.h"

const gdn_cpu_gated_delta_net gdn_cpu_gated_delta_net_avx512 = { plan, run };
