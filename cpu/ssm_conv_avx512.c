/* ssm_conv for AVX-512. */
#include "simd/avx512.h"

#include "cpu/ssm_conv.inc.h"

const gdn_cpu_kernel gdn_cpu_ssm_conv_avx512 = { ssm_conv_plan, ssm_conv_run };
