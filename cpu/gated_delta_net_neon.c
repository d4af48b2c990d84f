/* gated_delta_net for NEON. */
#include "simd/neon.h"
#include "cpu/gated_delta_net.inc.h"

const gdn_cpu_gated_delta_net gdn_cpu_gated_delta_net_neon = { plan, run };
