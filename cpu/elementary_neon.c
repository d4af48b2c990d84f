#include "cpu/simd_neon.h"

#include "cpu/elementary.inc.h"

#define GDN_ELEMENTARY_TABLE gdn_cpu_elementary_neon
#include "cpu/elementary_table.inc.h"
