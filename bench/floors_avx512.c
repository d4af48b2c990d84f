/* The host's floors with AVX-512; see floors.h. Compiled with that instruction set's flags. */
#include "simd/avx512.h"

#define FLOOR_ACCUMULATORS 24
#include "bench/floors.inc.h"

const floor_isa floor_isa_avx512 = { "avx512", GDN_VL, isa_stream, isa_scatter, isa_fma, isa_together };
