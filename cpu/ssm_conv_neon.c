/* ssm_conv for AArch64 Advanced SIMD. */
#include "simd/neon.h"

static inline void v_load4(const float *p, vf r[4])
{
    const float32x4x4_t g = vld4q_f32(p);
    for (int j = 0; j < 4; j++) r[j] = g.val[j];
}

#include "cpu/ssm_conv.inc.h"

const gdn_cpu_ssm_conv gdn_cpu_ssm_conv_neon = { conv_plan, conv_run };
