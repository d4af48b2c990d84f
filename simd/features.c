#define _GNU_SOURCE /* syscall() */
#include "simd/features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

/* Linux gives the memory of tiles to a process that asks for it. */
static int may_use_tiles(void)
{
#ifdef SYS_arch_prctl
    enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILES = 18 /* XFEATURE_XTILEDATA */ };
    return syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
#else
    return 0;
#endif
}

int gdn_simd_has_avx512_amx(void)
{
    const unsigned wanted = 1u << 24 | 1u << 25; /* AMX-TILE and AMX-INT8 */
    unsigned a, b, c, d;
    return gdn_simd_has_avx512_vnni() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
           may_use_tiles();
}
#else
int gdn_simd_has_fma(void) { return 0; }
int gdn_simd_has_avx2(void) { return 0; }
int gdn_simd_has_avx2_vnni(void) { return 0; }
int gdn_simd_has_avx512(void) { return 0; }
int gdn_simd_has_avx512_vnni(void) { return 0; }
int gdn_simd_has_avx512_amx(void) { return 0; }
#endif
