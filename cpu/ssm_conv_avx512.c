/* ssm_conv for AVX-512. */
#include "simd/avx512.h"

static inline void v_load4(const float *p, vf r[4])
{
    const vi lo = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    const vi hi = _mm512_add_epi32(lo, _mm512_set1_epi32(2));
    const vf a = v_load(p), b = v_load(p + 16), c = v_load(p + 32), d = v_load(p + 48);
    const vf r01_ab = _mm512_permutex2var_ps(a, lo, b), r01_cd = _mm512_permutex2var_ps(c, lo, d);
    const vf r23_ab = _mm512_permutex2var_ps(a, hi, b), r23_cd = _mm512_permutex2var_ps(c, hi, d);
    r[0] = _mm512_shuffle_f32x4(r01_ab, r01_cd, 0x44);
    r[1] = _mm512_shuffle_f32x4(r01_ab, r01_cd, 0xee);
    r[2] = _mm512_shuffle_f32x4(r23_ab, r23_cd, 0x44);
    r[3] = _mm512_shuffle_f32x4(r23_ab, r23_cd, 0xee);
}

#include "cpu/ssm_conv.inc.h"

const gdn_cpu_ssm_conv gdn_cpu_ssm_conv_avx512 = { conv_plan, conv_run };
