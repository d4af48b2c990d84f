/* set_rows for NEON. */
#include "simd/neon.h"

#include "cpu/set_rows.inc.h"

const gdn_cpu_kernel gdn_cpu_set_rows_neon = { set_rows_plan, set_rows_run };
