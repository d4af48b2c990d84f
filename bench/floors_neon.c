/* The host's floors with NEON; see floors.h. Compiled with that instruction set's flags. */
#include "simd/neon.h"

#define FLOOR_ACCUMULATORS 24
#include "bench/floors.inc.h"

const floor_isa floor_isa_neon = { "neon", GDN_VL, isa_stream, isa_scatter, isa_fma, isa_together };
