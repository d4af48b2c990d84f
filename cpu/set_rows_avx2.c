/* set_rows for AVX2. */
#include "simd/avx2.h"

static inline vf v_inverse(vf a)
{
    return _mm256_div_ps(v_set1(1.0f), a);
}

static inline void v_store_i8(int8_t *p, const vf *y)
{
    vi q[4];
    for (int m = 0; m < 4; m++) q[m] = v_to_int_rne(v_sel(v_unord(y[m]), v_zero(), y[m]));
    const __m256i ab = _mm256_packs_epi32(q[0], q[1]), cd = _mm256_packs_epi32(q[2], q[3]);
    /* Packing works within halves: 4 bytes each of a0 b0 c0 d0 a1 b1 c1 d1. */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order));
}

#include "cpu/set_rows.inc.h"

const gdn_cpu_set_rows gdn_cpu_set_rows_avx2 = { rows_plan, rows_run };
