/* gated_delta_net for AVX2 with VNNI: the chunked form has products of its own, the recurrence is that of avx2. */
#include "simd/avx2.h"

#include "cpu/chunked.inc.h"
#include "cpu/cpu.h"

GDN_CHUNKED_KERNEL(avx2_vnni, avx2);
