/* gated_delta_net for AVX-512 with VNNI: the chunked form has products of its own, the recurrence is that of avx512. */
#include "simd/avx512.h"

#include "cpu/chunked.inc.h"
#include "cpu/cpu.h"

GDN_CHUNKED_KERNEL(avx512_vnni, avx512);
