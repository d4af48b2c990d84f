/* set_rows for AVX-512. */
#include "simd/avx512.h"

#include "cpu/set_rows.inc.h"

const gdn_cpu_kernel gdn_cpu_set_rows_avx512 = { set_rows_plan, set_rows_run };
