/* gated_delta_net for AVX-512 with VNNI and AMX: the chunked form multiplies tiles, the recurrence is that of avx512.
 */
#include "simd/avx512.h"

#include "cpu/chunked.inc.h"
#include "cpu/cpu.h"

GDN_CHUNKED_KERNEL(avx512_amx, avx512);
