/* The shaders, compiled to SPIR-V by glslc at build time (vulkan/sources.cmake). See device.h.
 *
 * There is a variant per capability instead of a specialization constant: a device must have every capability that a
 * module declares, even if it is unused. These are binary64, 16-bit storage and subgroup shuffles. */
#include <string.h>

#include "vulkan/device.h"

/* The words of each variant as code_<name>, and the list of variants. vulkan/sources.cmake makes both. */
enum { GDN_VULKAN_EITHER = -1 }; /* there is no such choice */
#include "shaders.inc"

#define SHADER(name, kernel, general, soft_fma, subgroup, storage16)                                                   \
    { kernel, { general, soft_fma, subgroup, storage16 }, { code_##name, sizeof code_##name / sizeof code_##name[0] } },

gdn_vulkan_code gdn_vulkan_shader(gdn_vulkan_kernel kernel, int general, int soft_fma, int subgroup, int storage16)
{
    static const struct {
        gdn_vulkan_kernel kernel;
        int is[4];
        gdn_vulkan_code code;
    } shaders[] = { GDN_VULKAN_SHADERS(SHADER) };
    const int want[4] = { general, soft_fma, subgroup, storage16 };
    for (size_t i = 0; i < sizeof shaders / sizeof shaders[0]; i++) {
        int agree = shaders[i].kernel == kernel;
        for (int w = 0; w < 4; w++)
            agree = agree && (shaders[i].is[w] == want[w] || shaders[i].is[w] == GDN_VULKAN_EITHER);
        if (agree) return shaders[i].code;
    }
    return (gdn_vulkan_code){ NULL, 0 }; /* no kernel */
}

const char *gdn_vulkan_kernel_name(gdn_vulkan_kernel kernel)
{
    static const char *const names[GDN_VULKAN_KERNEL_COUNT] = { [GDN_VULKAN_gated_delta_net] = "gated_delta_net",
                                                                [GDN_VULKAN_ssm_conv] = "ssm_conv",
                                                                [GDN_VULKAN_set_rows] = "set_rows",
                                                                [GDN_VULKAN_probe] = "probe" };
    return names[kernel];
}

/* ---- Instructions that GLSL cannot express ------------------------------------------------------------- */

/* Not every glslc can express float controls and the fma of VK_KHR_shader_fma, and a device must support a module that
 * uses them. So they are inserted into the words: capabilities after the first capability, the extension's name after
 * the last, execution modes after the entry point. OpFmaKHR, which is always fused, replaces GLSL.std.450's Fma, which
 * need not be. Layout of SPIR-V: a header of 5 words, then instructions of (words << 16 | opcode). Opcodes are those of
 * SPV_KHR_fma 1. */
enum {
    OP_EXTENSION = 10,
    OP_EXT_INST = 12,
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_FMA = 4427,
    CAPABILITY_FLOAT64 = 10,
    CAPABILITY_FMA = 6030,
    GLSL_FMA = 50,
};

static size_t put_capability(uint32_t *to, uint32_t capability)
{
    to[0] = 2u << 16 | OP_CAPABILITY;
    to[1] = capability;
    return 2;
}

static size_t put_fma_extension(uint32_t *to)
{
    static const char name[12] = "SPV_KHR_fma";
    to[0] = 4u << 16 | OP_EXTENSION;
    memcpy(to + 1, name, sizeof name);
    return 4;
}

/* 1 for code of the software fma. It ignores binary64 subnormals, because they cannot occur: products of binary32
 * operands are multiples of 2^-298. */
static int has_binary64(gdn_vulkan_code code)
{
    for (size_t i = 5; (code.words[i] & 0xffff) == OP_CAPABILITY; i += 2)
        if (code.words[i + 1] == CAPABILITY_FLOAT64) return 1;
    return 0;
}

size_t gdn_vulkan_fit(const gdn_vulkan_traits *t, uint32_t level, gdn_vulkan_code code, uint32_t *to)
{
    const int flush = level == GDN_EXACT_FTZ, denorms = t->denorm_alone || !has_binary64(code);
    const struct {
        int wanted;
        uint32_t capability, mode;
    } controls[] = {
        { denorms && t->denorm_preserve && !flush, 4464, 4459 }, /* DenormPreserve           */
        { denorms && t->denorm_flush && flush, 4465, 4460 },     /* DenormFlushToZero        */
        { t->inf_nan_preserve, 4466, 4461 },                     /* SignedZeroInfNanPreserve */
        /* RoundingModeRTE. NVIDIA's driver rounds to even anyway. With this it keeps subnormals in sums and products
         * and flushes them in fma, which is neither level (seen: H100, R580). */
        { t->round_to_even && !flush, 4467, 4462 },
    };
    size_t n = 5, words;
    int declared = 0, named = 0;
    memcpy(to, code.words, n * sizeof *to);
    for (size_t i = 5; i < code.n; i += words) {
        const uint32_t opcode = code.words[i] & 0xffff;
        words = code.words[i] >> 16;
        if (t->shader_fma && opcode != OP_CAPABILITY && !named) {
            n += put_fma_extension(to + n);
            named = 1;
        }
        /* The only set of instructions that the shaders import is GLSL.std.450. */
        if (t->shader_fma && opcode == OP_EXT_INST && code.words[i + 4] == GLSL_FMA) {
            to[n++] = 6u << 16 | OP_FMA;
            to[n++] = code.words[i + 1]; /* type and result */
            to[n++] = code.words[i + 2];
            memcpy(to + n, code.words + i + 5, 3 * sizeof *to);
            n += 3;
            continue;
        }
        memcpy(to + n, code.words + i, words * sizeof *to);
        n += words;
        for (size_t c = 0; c < sizeof controls / sizeof controls[0]; c++) {
            if (controls[c].wanted && opcode == OP_CAPABILITY && !declared)
                n += put_capability(to + n, controls[c].capability);
            if (controls[c].wanted && opcode == OP_ENTRY_POINT) {
                to[n++] = 4u << 16 | OP_EXECUTION_MODE;
                to[n++] = code.words[i + 2]; /* the entry point's id */
                to[n++] = controls[c].mode;
                to[n++] = 32; /* bits */
            }
        }
        if (t->shader_fma && opcode == OP_CAPABILITY && !declared) n += put_capability(to + n, CAPABILITY_FMA);
        declared |= opcode == OP_CAPABILITY;
    }
    return n;
}
