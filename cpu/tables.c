/* The kernels of each instruction set, best set first. */
#include "cpu/cpu.h"
#include "simd/features.h"

static int always(void) { return 1; }

/* The scalar implementation at GDN_EXACT_FTZ. */
static const gdn_cpu_table in_software = {
    "scalar",
    always,
    {
        [GDN_KERNEL_gated_delta_net] = &gdn_cpu_gated_delta_net_flush,
        [GDN_KERNEL_ssm_conv] = &gdn_cpu_ssm_conv_flush,
        [GDN_KERNEL_set_rows] = &gdn_cpu_set_rows_flush,
    },
};

/* A set for x86-64, whose processors flush in hardware. BF16, VNNI and AMX have kernels for gated_delta_net alone. AMX
 * comes behind VNNI until a processor has shown that it is faster. */
#define GDN_X86(index, name, of_delta, rest)                                                                           \
    {                                                                                                                  \
        name, gdn_simd_has_##of_delta,                                                                                 \
            {                                                                                                          \
                [GDN_KERNEL_gated_delta_net] = &gdn_cpu_gated_delta_net_##of_delta,                                    \
                [GDN_KERNEL_ssm_conv] = &gdn_cpu_ssm_conv_##rest,                                                      \
                [GDN_KERNEL_set_rows] = &gdn_cpu_set_rows_##rest,                                                      \
            },                                                                                                         \
            .flush = &tables[index],                                                                                   \
    }

static const gdn_cpu_table tables[] = {
#if defined(__x86_64__)
    GDN_X86(0, "avx512_bf16", avx512_bf16, avx512),
    GDN_X86(1, "avx512_vnni", avx512_vnni, avx512),
    GDN_X86(2, "avx512_amx", avx512_amx, avx512),
    GDN_X86(3, "avx512", avx512, avx512),
    GDN_X86(4, "avx2_vnni", avx2_vnni, avx2),
    GDN_X86(5, "avx2", avx2, avx2),
#elif defined(__aarch64__)
    {
        "neon",
        always,
        {
            [GDN_KERNEL_gated_delta_net] = &gdn_cpu_gated_delta_net_neon,
            [GDN_KERNEL_ssm_conv] = &gdn_cpu_ssm_conv_neon,
            [GDN_KERNEL_set_rows] = &gdn_cpu_set_rows_neon,
        },
        .flush = NULL, /* NEON's flushing mode follows another rule */
    },
#endif
    {
        "scalar",
        always,
        {
            [GDN_KERNEL_gated_delta_net] = &gdn_cpu_gated_delta_net_scalar,
            [GDN_KERNEL_ssm_conv] = &gdn_cpu_ssm_conv_scalar,
            [GDN_KERNEL_set_rows] = &gdn_cpu_set_rows_scalar,
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
