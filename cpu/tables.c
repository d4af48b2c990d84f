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

static const gdn_cpu_table tables[] = {
#if defined(__x86_64__)
    {
        "avx512",
        gdn_simd_has_avx512,
        {
            [GDN_KERNEL_gated_delta_net] = &gdn_cpu_gated_delta_net_avx512,
            [GDN_KERNEL_ssm_conv] = &gdn_cpu_ssm_conv_avx512,
            [GDN_KERNEL_set_rows] = &gdn_cpu_set_rows_avx512,
        },
        .flush = &tables[0],
    },
    {
        "avx2",
        gdn_simd_has_avx2,
        {
            [GDN_KERNEL_gated_delta_net] = &gdn_cpu_gated_delta_net_avx2,
            [GDN_KERNEL_ssm_conv] = &gdn_cpu_ssm_conv_avx2,
            [GDN_KERNEL_set_rows] = &gdn_cpu_set_rows_avx2,
        },
        .flush = &tables[1],
    },
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
