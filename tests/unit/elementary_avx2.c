#include "simd/avx2.h"

#include "simd/elementary.inc.h"

#define GDN_ELEMENTARY_TABLE gdn_elementary_avx2
#include "tests/unit/elementary_table.inc.h"
