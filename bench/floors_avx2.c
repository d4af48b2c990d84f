/* The host's floors with AVX2 and FMA; see floors.h. Compiled with that instruction set's flags. */
#include "simd/avx2.h"

#define FLOOR_ACCUMULATORS 12
#include "bench/floors.inc.h"

const floor_isa floor_isa_avx2 = { "avx2", GDN_VL, isa_stream, isa_scatter, isa_fma, isa_together };
