#include "cpu/simd_avx512.h"

#include "cpu/elementary.inc.h"

#define GDN_ELEMENTARY_TABLE gdn_cpu_elementary_avx512
#include "cpu/elementary_table.inc.h"
