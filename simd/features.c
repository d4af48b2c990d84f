#include "simd/features.h"

#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>
#include <stdint.h>
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

enum { KNOWN = 1, FMA = 2, AVX2 = 4, AVX2_VNNI = 8, AVX512 = 16, AVX512_VNNI = 32, AMX = 64, AVX512_BF16 = 128 };

/* Which registers the system saves, where it says so. */
static uint32_t saved(void)
{
    enum { OSXSAVE = 1 << 27 };
    uint32_t a = 0, b, c = 0, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

static unsigned look(void)
{
    enum { YMM = 6, ZMM = 0xE6 };                              /* of the registers that are saved */
    const uint32_t fma = 1u << 12 | 1u << 28, f16c = 1u << 29; /* leaf 1: c, with AVX       */
    const uint32_t avx2 = 1u << 5, avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* 7: b; F, DQ, BW, VL     */
    const uint32_t avx512_vnni = 1u << 11, amx = 1u << 24 | 1u << 25, vnni = 1u << 4,
                   bf16 = 1u << 5; /* 7: c; 7: d; 7, 1: a, a   */
    const uint32_t registers = saved();
    uint32_t a = 0, b = 0, c = 0, d = 0, first;
    if ((registers & YMM) != YMM || !__get_cpuid(1, &a, &b, &first, &d) || (first & fma) != fma) return KNOWN;
    unsigned found = KNOWN | FMA;
    if (!(first & f16c) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & avx2)) return found;
    found |= AVX2;
    if ((registers & ZMM) == ZMM && (b & avx512) == avx512)
        found |= AVX512 | (c & avx512_vnni ? AVX512_VNNI : 0) | ((d & amx) == amx ? AMX : 0);
    if (a < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d)) return found;
    if (a & vnni) found |= AVX2_VNNI;
    if ((a & bf16) && (found & AVX512)) found |= AVX512_BF16;
    return found;
}

/* __builtin_cpu_supports() needs a part of the compiler's library, which says in zig's that no processor has anything.
 * To ask the processor takes long in a virtual machine, so the answer is kept. */
static int has(unsigned what)
{
    static atomic_uint known;
    unsigned found = atomic_load_explicit(&known, memory_order_relaxed);
    if (!found) atomic_store_explicit(&known, found = look(), memory_order_relaxed);
    return (found & what) == what;
}

int gdn_simd_has_fma(void) { return has(FMA); }
int gdn_simd_has_avx2(void) { return has(AVX2); }
int gdn_simd_has_avx2_vnni(void) { return has(AVX2_VNNI); }
int gdn_simd_has_avx512(void) { return has(AVX512); }
int gdn_simd_has_avx512_vnni(void) { return has(AVX512_VNNI); }
int gdn_simd_has_avx512_bf16(void) { return has(AVX512_VNNI | AVX512_BF16); }

int gdn_simd_has_avx512_amx(void) { return has(AVX512_VNNI | AMX) && gdn_processor_tiles(); }
#else
void gdn_simd_name(char *name, size_t size) { (void)snprintf(name, size, "host processor"); }
int gdn_simd_has_fma(void) { return 0; }
int gdn_simd_has_avx2(void) { return 0; }
int gdn_simd_has_avx2_vnni(void) { return 0; }
int gdn_simd_has_avx512(void) { return 0; }
int gdn_simd_has_avx512_vnni(void) { return 0; }
int gdn_simd_has_avx512_bf16(void) { return 0; }
int gdn_simd_has_avx512_amx(void) { return 0; }
#endif
