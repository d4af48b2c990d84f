/* The shaders, compiled to SPIR-V by glslc at build time (vulkan/sources.cmake). See device.h.
 *
 * A variant per capability and not a specialization constant, because a module may only be given to a device that has
 * every capability it declares, used or not: binary64, 16-bit storage, subgroup shuffles. */
#include <string.h>

#include "vulkan/device.h"

#define CODE(name)                            \
    static const uint32_t code_##name[] =
CODE(gated_delta_net_fma_shared_32)
#include "gated_delta_net_fma_shared_32.inc"
;
CODE(gated_delta_net_fma_shared_16)
#include "gated_delta_net_fma_shared_16.inc"
;
CODE(gated_delta_net_fma_subgroup_32)
#include "gated_delta_net_fma_subgroup_32.inc"
;
CODE(gated_delta_net_fma_subgroup_16)
#include "gated_delta_net_fma_subgroup_16.inc"
;
CODE(gated_delta_net_soft_shared_32)
#include "gated_delta_net_soft_shared_32.inc"
;
CODE(gated_delta_net_soft_shared_16)
#include "gated_delta_net_soft_shared_16.inc"
;
CODE(gated_delta_net_soft_subgroup_32)
#include "gated_delta_net_soft_subgroup_32.inc"
;
CODE(gated_delta_net_soft_subgroup_16)
#include "gated_delta_net_soft_subgroup_16.inc"
;
CODE(gated_delta_net_general_fma_shared_32)
#include "gated_delta_net_general_fma_shared_32.inc"
;
CODE(gated_delta_net_general_fma_shared_16)
#include "gated_delta_net_general_fma_shared_16.inc"
;
CODE(gated_delta_net_general_fma_subgroup_32)
#include "gated_delta_net_general_fma_subgroup_32.inc"
;
CODE(gated_delta_net_general_fma_subgroup_16)
#include "gated_delta_net_general_fma_subgroup_16.inc"
;
CODE(gated_delta_net_general_soft_shared_32)
#include "gated_delta_net_general_soft_shared_32.inc"
;
CODE(gated_delta_net_general_soft_shared_16)
#include "gated_delta_net_general_soft_shared_16.inc"
;
CODE(gated_delta_net_general_soft_subgroup_32)
#include "gated_delta_net_general_soft_subgroup_32.inc"
;
CODE(gated_delta_net_general_soft_subgroup_16)
#include "gated_delta_net_general_soft_subgroup_16.inc"
;
CODE(ssm_conv_fma_32)
#include "ssm_conv_fma_32.inc"
;
CODE(ssm_conv_fma_16)
#include "ssm_conv_fma_16.inc"
;
CODE(ssm_conv_soft_32)
#include "ssm_conv_soft_32.inc"
;
CODE(ssm_conv_soft_16)
#include "ssm_conv_soft_16.inc"
;
CODE(set_rows_fma_32)
#include "set_rows_fma_32.inc"
;
CODE(set_rows_fma_16)
#include "set_rows_fma_16.inc"
;
CODE(set_rows_soft_32)
#include "set_rows_soft_32.inc"
;
CODE(set_rows_soft_16)
#include "set_rows_soft_16.inc"
;
CODE(probe_fma)
#include "probe_fma.inc"
;
CODE(probe_soft)
#include "probe_soft.inc"
;

#define WORDS(name) { code_##name, sizeof code_##name / sizeof code_##name[0] }

#define STORAGES(name) { WORDS(name##_32), WORDS(name##_16) }
#define EXCHANGES(name) { STORAGES(name##_shared), STORAGES(name##_subgroup) }
#define FMAS(name) { EXCHANGES(name##_fma), EXCHANGES(name##_soft) }

gdn_vk_code gdn_vk_shader(int kernel, int general, int soft_fma, int subgroup, int storage16)
{
    static const gdn_vk_code gated_delta_net[2][2][2][2] = { FMAS(gated_delta_net), FMAS(gated_delta_net_general) };
    static const gdn_vk_code set_rows[2][2] = { STORAGES(set_rows_fma), STORAGES(set_rows_soft) };
    static const gdn_vk_code ssm_conv[2][2] = { STORAGES(ssm_conv_fma), STORAGES(ssm_conv_soft) };
    static const gdn_vk_code probe[2] = { WORDS(probe_fma), WORDS(probe_soft) };
    switch (kernel) {
    case GDN_KERNEL_gated_delta_net: return gated_delta_net[general][soft_fma][subgroup][storage16];
    case GDN_KERNEL_ssm_conv: return ssm_conv[soft_fma][storage16];
    case GDN_KERNEL_set_rows: return set_rows[soft_fma][storage16];
    default: return probe[soft_fma];
    }
}

/* ---- Float controls --------------------------------------------------------------------------------- */

/* GLSL cannot ask for them, and a module that does cannot be given to a device that lacks them. So the three
 * declarations are put into the words: capabilities behind the first capability, execution modes behind the entry
 * point. Layout of SPIR-V: a header of 5 words, then instructions of (words << 16 | opcode). */
enum { OP_ENTRY_POINT = 15, OP_EXECUTION_MODE = 16, OP_CAPABILITY = 17 };

size_t gdn_vk_add_float_controls(const gdn_vk_traits *t, gdn_vk_code code, uint32_t *to)
{
    const struct {
        int      wanted;
        uint32_t capability, mode;
    } controls[] = {
        { t->denorm_preserve, 4464, 4459 },  /* DenormPreserve           */
        { t->inf_nan_preserve, 4466, 4461 }, /* SignedZeroInfNanPreserve */
        { t->round_to_even, 4467, 4462 },    /* RoundingModeRTE          */
    };
    size_t   n = 5, words;
    int      declared = 0;
    memcpy(to, code.words, n * sizeof *to);
    for (size_t i = 5; i < code.n; i += words) {
        const uint32_t opcode = code.words[i] & 0xffff;
        words = code.words[i] >> 16;
        memcpy(to + n, code.words + i, words * sizeof *to);
        n += words;
        for (size_t c = 0; c < sizeof controls / sizeof controls[0]; c++) {
            if (controls[c].wanted && opcode == OP_CAPABILITY && !declared) {
                to[n++] = 2u << 16 | OP_CAPABILITY;
                to[n++] = controls[c].capability;
            }
            if (controls[c].wanted && opcode == OP_ENTRY_POINT) {
                to[n++] = 4u << 16 | OP_EXECUTION_MODE;
                to[n++] = code.words[i + 2]; /* the entry point's id */
                to[n++] = controls[c].mode;
                to[n++] = 32; /* bits */
            }
        }
        declared |= opcode == OP_CAPABILITY;
    }
    return n;
}
