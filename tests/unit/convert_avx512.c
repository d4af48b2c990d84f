#include "simd/avx512.h"
#define CONVERT_TABLE convert_avx512
#include "tests/unit/convert.inc.h"
