/* What a device says of itself is asked for and respected: the size of its subgroups, how much an allocation may have.
 */
#include <stdlib.h>
#include <string.h>

#include "support.h"

static void test_subgroup_size(void)
{
    step_on on;
    gdn_context *ctx = sound_context();
    const gdn_vulkan_traits traits = ((const gdn_vulkan_device *)ctx->state)->traits;
    const int shuffles = ((const gdn_vulkan_device *)ctx->state)->gpu.implementation.subgroup;
    fault.sized = fault.pipelines = 0;
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
    REQUIRE(fault.pipelines == 1 && fault.sized == (shuffles && traits.required_size));
    REQUIRE(!fault.sized || (fault.required_size == traits.subgroup_size && traits.subgroup_size >= 8));
    step_close(&on);

    /* None can be asked for, or none that is large enough: the device's own size is taken as before. */
    for (int i = 0; i < 2; i++) {
        ctx = context_with((faults){ .no_required_size = i == 0, .min_subgroup = i == 1 ? 1u << 16 : 0 });
        REQUIRE(!((const gdn_vulkan_device *)ctx->state)->traits.required_size);
        REQUIRE(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
        REQUIRE(fault.pipelines > 0 && fault.sized == 0);
        step_close(&on);
    }

    /* Smaller ones than the eight lanes are passed over. */
    ctx = context_with((faults){ .min_subgroup = 2 });
    const gdn_vulkan_traits small = ((const gdn_vulkan_device *)ctx->state)->traits;
    REQUIRE(!small.required_size || small.subgroup_size == 8);
    gdn_context_destroy(ctx);
}

static void test_allocation_size(void)
{
    gdn_span span = { 0 };
    gdn_context *ctx = context_with((faults){ .max_allocation = UINT64_C(1) << 24 });
    REQUIRE(gdn_buffer_create(ctx, fault.max_allocation, &span) == GDN_OK);
    gdn_buffer_destroy(ctx, &span);
    const int before = fault.creations;
    FAILS(gdn_buffer_create(ctx, fault.max_allocation + 1, &span), GDN_OUT_OF_MEMORY, "16777217 bytes",
          "at most 16777216", "maxMemoryAllocationSize");
    REQUIRE(!span.data && fault.creations == before);
    gdn_context_destroy(ctx);
}

/* How many of a module's instructions are this one; -1 where the words do not end where the last instruction does.
 * `of`: 0, or the fifth word, of OpExtInst the number in its set. */
static int count_of(const uint32_t *words, size_t n, uint32_t opcode, uint32_t of)
{
    size_t i = 5;
    int found = 0;
    for (; i < n && words[i] >> 16; i += words[i] >> 16)
        found += (words[i] & 0xffff) == opcode && (!of || words[i + 4] == of);
    return i == n ? found : -1;
}

/* The words with OpFmaKHR taken back and without what declares it: has to be the module as it was. */
static size_t without_fma(const uint32_t *words, size_t n, uint32_t set, uint32_t *to)
{
    size_t m = 5;
    memcpy(to, words, 5 * sizeof *to);
    for (size_t i = 5, length; i < n; i += length) {
        const uint32_t opcode = words[i] & 0xffff;
        length = words[i] >> 16;
        if ((opcode == 17 && words[i + 1] == 6030) || (opcode == 10 && !memcmp(words + i + 1, "SPV_KHR_fma", 12)))
            continue;
        if (opcode != 4427) {
            memcpy(to + m, words + i, length * sizeof *to);
            m += length;
            continue;
        }
        const uint32_t fma[8] = { 8u << 16 | 12, words[i + 1], words[i + 2], set, 50,
                                  words[i + 3],  words[i + 4], words[i + 5] };
        memcpy(to + m, fma, sizeof fma);
        m += 8;
    }
    return m;
}

/* Shaders as a device with VK_KHR_shader_fma gets them: each fma is OpFmaKHR, declared once, in its place among the
 * declarations, and nothing else is different. Debian's spirv-val does not know the instruction, but it has validated
 * the module that is left when it is taken back. */
static void test_shader_fma(void)
{
    const gdn_vulkan_traits with = { .shader_fma = 1 }, without = { .shader_fma = 0 };
    int fused = 0;
    for (gdn_vulkan_kernel kernel = 0; kernel < GDN_VULKAN_KERNEL_COUNT; kernel++)
        for (int variant = 0; variant < 16; variant++) {
            const gdn_vulkan_code code =
                gdn_vulkan_shader(kernel, variant >> 3, variant & 1, variant >> 1 & 1, variant >> 2 & 1);
            uint32_t *const words = malloc(2 * (code.n + GDN_VULKAN_CONTROL_WORDS) * sizeof *words);
            uint32_t *const back = words + code.n + GDN_VULKAN_CONTROL_WORDS;
            REQUIRE(gdn_vulkan_fit(&without, GDN_EXACT, code, words) == code.n &&
                    !memcmp(words, code.words, code.n * sizeof *words));
            const int before = count_of(code.words, code.n, 12, 50);
            const size_t n = gdn_vulkan_fit(&with, GDN_EXACT, code, words);
            REQUIRE(count_of(words, n, 12, 50) == 0 && before >= 0 && count_of(words, n, 4427, 0) == before);
            uint32_t set = 0;
            size_t place = 5, order = 0; /* capabilities, then the extension, then everything else */
            for (size_t i = 5; i < n; i += words[i] >> 16) {
                const uint32_t opcode = words[i] & 0xffff;
                if (opcode == 11) set = words[i + 1];
                order |= opcode == 17 && i != place;
                place += opcode == 17 ? words[i] >> 16 : 0;
            }
            REQUIRE(!order && words[place] == (4u << 16 | 10) && !memcmp(words + place + 1, "SPV_KHR_fma", 12));
            REQUIRE(without_fma(words, n, set, back) == code.n && !memcmp(back, code.words, code.n * sizeof *back));
            fused += before > 0;
            free(words);
        }
    REQUIRE(fused > 8);
}

void test_limits(void)
{
    test_shader_fma();
    test_subgroup_size();
    test_allocation_size();
    fault = (faults){ 0 };
}
