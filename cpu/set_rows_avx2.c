/* set_rows for AVX2. */
#include "simd/avx2.h"

#include "cpu/set_rows.inc.h"

const gdn_cpu_kernel gdn_cpu_set_rows_avx2 = { set_rows_plan, set_rows_run };
