/* ssm_conv for NEON. */
#include "simd/neon.h"

#include "cpu/ssm_conv.inc.h"

const gdn_cpu_kernel gdn_cpu_ssm_conv_neon = { ssm_conv_plan, ssm_conv_run };
