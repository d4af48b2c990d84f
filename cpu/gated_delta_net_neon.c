/* gated_delta_net for NEON. */
#include "simd/neon.h"

#include "cpu/gated_delta_net.inc.h"

const gdn_cpu_kernel gdn_cpu_gated_delta_net_neon = { gated_delta_net_plan, gated_delta_net_run };
