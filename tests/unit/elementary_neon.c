#include "simd/neon.h"

#include "simd/elementary.inc.h"

#define GDN_ELEMENTARY_TABLE gdn_elementary_neon
#include "tests/unit/elementary_table.inc.h"
