/* The kernels of each instruction set, made from the registry, best set first. A new instruction set needs a line here
 * and its flags in simd/sources.cmake. */
#include "cpu/cpu.h"
#include "simd/features.h"

static int always(void) { return 1; }

/* The scalar implementation at GDN_EXACT_FTZ. */
static const gdn_cpu_table in_software = {
    "scalar",
    always,
    {
#define GDN_KERNEL(stem, number, title) [number] = &gdn_cpu_##stem##_flush,
#include "core/kernels.def"
#undef GDN_KERNEL
    },
};

static const gdn_cpu_table tables[] = {
#if defined(__x86_64__)
    {
        "avx512",
        gdn_simd_has_avx512,
        {
#define GDN_KERNEL(stem, number, title) [number] = &gdn_cpu_##stem##_avx512,
#include "core/kernels.def"
#undef GDN_KERNEL
        },
        .flush = &tables[0],
    },
    {
        "avx2",
        gdn_simd_has_avx2,
        {
#define GDN_KERNEL(stem, number, title) [number] = &gdn_cpu_##stem##_avx2,
#include "core/kernels.def"
#undef GDN_KERNEL
        },
        .flush = &tables[1],
    },
#elif defined(__aarch64__)
    {
        "neon",
        always,
        {
#define GDN_KERNEL(stem, number, title) [number] = &gdn_cpu_##stem##_neon,
#include "core/kernels.def"
#undef GDN_KERNEL
        },
        .flush = NULL, /* NEON's flushing mode follows another rule */
    },
#endif
    {
        "scalar",
        always,
        {
#define GDN_KERNEL(stem, number, title) [number] = &gdn_cpu_##stem##_scalar,
#include "core/kernels.def"
#undef GDN_KERNEL
        },
        .flush = &in_software,
    },
};

const gdn_cpu_table *gdn_cpu_table_of(uint32_t index)
{
    for (uint32_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (tables[i].present() && index-- == 0) return &tables[i];
    return NULL;
}
