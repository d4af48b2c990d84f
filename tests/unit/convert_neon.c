#include "simd/neon.h"
#define CONVERT_TABLE convert_neon
#include "tests/unit/convert.inc.h"
