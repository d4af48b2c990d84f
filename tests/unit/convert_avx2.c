#include "simd/avx2.h"
#define CONVERT_TABLE convert_avx2
#include "tests/unit/convert.inc.h"
