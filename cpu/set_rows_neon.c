/* set_rows for AArch64 Advanced SIMD. */
#include "simd/neon.h"

static inline vf v_inverse(vf a)
{
    return vdivq_f32(v_set1(1.0f), a);
}

/* The conversion itself makes 0 of a NaN. */
static inline void v_store_i8(int8_t *p, const vf *y)
{
    for (int m = 0; m < 8; m += 4) {
        const int16x8_t ab = vcombine_s16(vmovn_s32(v_to_int_rne(y[m])), vmovn_s32(v_to_int_rne(y[m + 1])));
        const int16x8_t cd = vcombine_s16(vmovn_s32(v_to_int_rne(y[m + 2])), vmovn_s32(v_to_int_rne(y[m + 3])));
        vst1q_s8(p + 4 * m, vcombine_s8(vmovn_s16(ab), vmovn_s16(cd)));
    }
}

#include "cpu/set_rows.inc.h"

const gdn_cpu_set_rows gdn_cpu_set_rows_neon = { rows_plan, rows_run };
