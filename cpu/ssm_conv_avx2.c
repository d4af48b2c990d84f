/* ssm_conv for AVX2. */
#include "simd/avx2.h"

#include "cpu/ssm_conv.inc.h"

const gdn_cpu_kernel gdn_cpu_ssm_conv_avx2 = { ssm_conv_plan, ssm_conv_run };
