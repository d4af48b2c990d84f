#include "cpu/simd_avx2.h"

#include "cpu/elementary.inc.h"

#define GDN_ELEMENTARY_TABLE gdn_cpu_elementary_avx2
#include "cpu/elementary_table.inc.h"
