/* The host's rooflines with AVX-512; see roofline.h. Compiled with that instruction set's flags. */
#include "simd/avx512.h"

#define ROOFLINE_ACCUMULATORS 24
#include "bench/roofline.inc.h"

const roofline_set roofline_avx512 = { "avx512", GDN_VL, isa_move, isa_fma };
