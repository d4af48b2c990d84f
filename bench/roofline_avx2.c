/* The host's rooflines with AVX2 and FMA; see roofline.h. Compiled with that instruction set's flags. */
#include "simd/avx2.h"

#define ROOFLINE_ACCUMULATORS 12
#include "bench/roofline.inc.h"

const roofline_set roofline_avx2 = { "avx2", GDN_VL, isa_move, isa_fma };
