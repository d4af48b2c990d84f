#include "simd/features.h"

#if defined(__x86_64__)
#include <cpuid.h>

int gdn_simd_has_fma(void)
{
    __builtin_cpu_init(); /* repeated calls do nothing */
    return __builtin_cpu_supports("fma") != 0;
}

/* __builtin_cpu_supports() also checks which registers the system saves. It may not know F16C. */
int gdn_simd_has_avx2(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           (c & bit_F16C);
}

int gdn_simd_has_avx2_vnni(void)
{
    unsigned a, b, c, d;
    return gdn_simd_has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4); /* AVX-VNNI */
}

int gdn_simd_has_avx512(void)
{
    return gdn_simd_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

int gdn_simd_has_avx512_vnni(void) { return gdn_simd_has_avx512() && __builtin_cpu_supports("avx512vnni"); }
#else
int gdn_simd_has_fma(void) { return 0; }
int gdn_simd_has_avx2(void) { return 0; }
int gdn_simd_has_avx2_vnni(void) { return 0; }
int gdn_simd_has_avx512(void) { return 0; }
int gdn_simd_has_avx512_vnni(void) { return 0; }
#endif
