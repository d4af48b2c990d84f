#include "simd/avx512.h"

#include "simd/elementary.inc.h"

#define GDN_ELEMENTARY_TABLE gdn_elementary_avx512
#include "tests/unit/elementary_table.inc.h"
