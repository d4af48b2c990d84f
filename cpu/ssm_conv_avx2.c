/* ssm_conv for AVX2. */
#include "simd/avx2.h"

static inline void v_load4(const float *p, vf r[4])
{
    vf g[4]; /* groups i and i + 4 */
    for (int i = 0; i < 4; i++)
        g[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4 * i)), _mm_loadu_ps(p + 4 * i + 16), 1);
    const vf ab01 = _mm256_unpacklo_ps(g[0], g[1]), ab23 = _mm256_unpackhi_ps(g[0], g[1]);
    const vf cd01 = _mm256_unpacklo_ps(g[2], g[3]), cd23 = _mm256_unpackhi_ps(g[2], g[3]);
    r[0] = _mm256_shuffle_ps(ab01, cd01, 0x44);
    r[1] = _mm256_shuffle_ps(ab01, cd01, 0xee);
    r[2] = _mm256_shuffle_ps(ab23, cd23, 0x44);
    r[3] = _mm256_shuffle_ps(ab23, cd23, 0xee);
}

#include "cpu/ssm_conv.inc.h"

const gdn_cpu_ssm_conv gdn_cpu_ssm_conv_avx2 = { conv_plan, conv_run };
