/* set_rows for AVX-512. */
#include "simd/avx512.h"

static inline vf v_inverse(vf a)
{
    return _mm512_div_ps(v_set1(1.0f), a);
}

static inline void v_store_i8(int8_t *p, const vf *y)
{
    for (int m = 0; m < 2; m++) {
        const vi q =
            _mm512_maskz_cvt_roundps_epi32(vm_not(v_unord(y[m])), y[m], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm_storeu_si128((__m128i *)(void *)(p + 16 * m), _mm512_cvtepi32_epi8(q));
    }
}

#include "cpu/set_rows.inc.h"

const gdn_cpu_set_rows gdn_cpu_set_rows_avx512 = { rows_plan, rows_run };
