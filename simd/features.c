#include "simd/features.h"

#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <string.h>

#include "system/system.h"

void gdn_simd_name(char *name, size_t size)
{
    unsigned part[12] = { 0 };
    char text[sizeof part + 1] = "";
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002 + i, &part[4 * i], &part[4 * i + 1], &part[4 * i + 2], &part[4 * i + 3])) break;
    memcpy(text, part, sizeof part);
    const char *begin = text;
    while (*begin == ' ') begin++;
    (void)snprintf(name, size, "%s", *begin ? begin : "x86-64 processor");
}

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

int gdn_simd_has_avx512_amx(void)
{
    const unsigned wanted = 1u << 24 | 1u << 25; /* AMX-TILE and AMX-INT8 */
    unsigned a, b, c, d;
    return gdn_simd_has_avx512_vnni() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
           gdn_processor_tiles();
}
#else
void gdn_simd_name(char *name, size_t size) { (void)snprintf(name, size, "host processor"); }
int gdn_simd_has_fma(void) { return 0; }
int gdn_simd_has_avx2(void) { return 0; }
int gdn_simd_has_avx2_vnni(void) { return 0; }
int gdn_simd_has_avx512(void) { return 0; }
int gdn_simd_has_avx512_vnni(void) { return 0; }
int gdn_simd_has_avx512_amx(void) { return 0; }
#endif
