/* The host's rooflines with NEON; see roofline.h. Compiled with that instruction set's flags. */
#include "simd/neon.h"

#define ROOFLINE_ACCUMULATORS 24
#include "bench/roofline.inc.h"

const roofline_set roofline_neon = { "neon", GDN_VL, isa_move, isa_fma };
