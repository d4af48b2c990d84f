/* Levels of the contract: which of them devices have that keep subnormal numbers, flush them, or do what a shader says,
 * and what contexts compute there. Such devices are Mesa's driver for CPUs with flush.c behind it. */
#include "flush.h"
#include "gpu/probe.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { KEEPS = 1u << GDN_EXACT, FLUSHES = 1u << GDN_EXACT_FTZ };

static step tiny, wanted_tiny[GDN_LEVEL_COUNT];

/* ---- The software fma ---- */

/* It flushes by itself at GDN_EXACT_FTZ, whatever the device makes of conversions from and to binary64. */
typedef struct fma_probe {
    gdn_vulkan_device *dev;
    gdn_vulkan_buffer memory;
    uint32_t level;
    int right; /* results of fma that are right at GDN_EXACT_FTZ */
} fma_probe;

static gdn_status run_probe(void *user)
{
    fma_probe *x = user;
    gdn_vulkan_device *dev = x->dev;
    const uint32_t constants[GDN_VULKAN_CONSTANTS] = { 32, 0, 0, 0 };
    const gdn_gpu_implementation soft = { .soft_fma = 1 };
    const gdn_gpu_probe params = FIELDS(.operands = x->memory.address,
                                        .results = x->memory.address + GDN_PROBE_IN_BYTES, .n = GDN_PROBE_OPERANDS);
    const gdn_region workspace = { .data = (void *)x->memory.buffer, .offset = GDN_PROBE_BYTES };
    gdn_vulkan_dispatch dispatch = { .n_items = (GDN_PROBE_OPERANDS + constants[0] - 1) / constants[0] };
    REQUIRE(gdn_vulkan_pipeline_make(dev, GDN_VULKAN_probe, 0, &soft, x->level, constants, &dispatch.pipeline) ==
                GDN_OK &&
            gdn_vulkan_run(dev, &workspace, &params, sizeof params, 0, &dispatch, 1, NULL) == GDN_OK &&
            gdn_vulkan_wait(dev) == GDN_OK);
    dev->vk.DestroyPipeline(dev->device, dispatch.pipeline, NULL);
    const float *in = x->memory.mapped;
    const uint32_t *out = (const uint32_t *)(const void *)((const char *)x->memory.mapped + GDN_PROBE_IN_BYTES);
    for (int i = 0; i < GDN_PROBE_OPERANDS; i++, in += 3, out += GDN_GPU_PROBE_RESULTS) {
        uint32_t want[GDN_GPU_PROBE_RESULTS];
        gdn_gpu_probe_flushed(in[0], in[1], in[2], want);
        const int nans = (want[0] & 0x7fffffffu) > 0x7f800000u && (out[0] & 0x7fffffffu) > 0x7f800000u;
        x->right += nans || want[0] == out[0];
    }
    return GDN_OK;
}

static void test_software_fma(void)
{
    static gdn_vulkan_device dev;
    if (!gdn_vulkan_catalogue_get()->traits[0].float64) return;
    REQUIRE(gdn_vulkan_device_open(&dev, NULL, 0, NULL) == GDN_OK);
    for (uint32_t level = 0; level < GDN_LEVEL_COUNT; level++) {
        fma_probe x = { .dev = &dev, .level = level };
        char reason[GDN_REASON_MAX];
        REQUIRE(gdn_vulkan_allocate(&dev, GDN_PROBE_BYTES + GDN_VULKAN_PARAMS_BYTES, GDN_VULKAN_MEMORY_HOST,
                                    &x.memory) == GDN_OK);
        REQUIRE(gdn_gpu_probe_arithmetic(x.memory.mapped, run_probe, &x, reason, NULL) == GDN_OK);
        REQUIRE(level == GDN_EXACT_FTZ ? x.right == GDN_PROBE_OPERANDS
                                       : x.right < GDN_PROBE_OPERANDS || !dev.traits.denorm_preserve);
        gdn_vulkan_release(&dev, &x.memory);
    }
    gdn_vulkan_device_close(&dev);
}

/* ---- Devices ---- */

#ifdef GDN_TEST_CAN_FLUSH
static gdn_status open_at(uint32_t level, gdn_context **ctx)
{
    const gdn_vulkan_desc native = { .size = sizeof native, .get_instance_proc_addr = faulty_loader() };
    const gdn_context_desc desc =
        FIELDS(.size = sizeof desc, .backend = GDN_BACKEND_VULKAN, .native = &native, .level = level);
    *ctx = NULL;
    return gdn_context_create(&desc, ctx);
}

/* A pipeline runs its self-test at each level: what was right at the other says nothing. */
static void test_self_test_there(void)
{
    gdn_context *ctx;
    step_on on;
    if (!suite_asks()) return;
    gdn_test_flush(GDN_TEST_FLUSH_BOTH);
    REQUIRE(open_at(GDN_EXACT_FTZ, &ctx) == GDN_OK && step_put(&on, ctx, &tiny) == GDN_OK);
    compile_wrongly(ctx->state);
    FAILS(step_run(&on, NULL), GDN_UNSUPPORTED, "self-test");
    step_close(&on);
    fault = (faults){ 0 };
}

static void look(uint32_t levels, uint32_t level)
{
    gdn_context *ctx;
    step_on on;
    gdn_implementation_info info = { .size = sizeof info };
    const int has = (int)(levels >> level & 1);
    const gdn_status status = open_at(level, &ctx);
    if (level != GDN_EXACT && !has) {
        REQUIRE(status == GDN_UNSUPPORTED && !ctx && strstr(gdn_last_error(), "GDN_EXACT_FTZ"));
        return;
    }
    REQUIRE(status == GDN_OK && gdn_context_describe(ctx, NULL, &info) == GDN_OK);
    REQUIRE(info.levels == levels && (info.reason[0] == 0) == has);
    REQUIRE(!strncmp(info.name, levels ? "soft-fma" : "plain-fma", levels ? 8 : 9));
    REQUIRE(has || levels != FLUSHES || strstr(info.reason, "as it is at GDN_EXACT_FTZ"));
    REQUIRE(step_put(&on, ctx, &tiny) == GDN_OK && step_run(&on, NULL) == GDN_OK &&
            gdn_synchronize(ctx, NULL) == GDN_OK);
    REQUIRE(step_same(&on, &wanted_tiny[level]) == has);
    step_close(&on);
}

static void test_devices(void)
{
    static const struct {
        unsigned flush; /* whatever it is asked */
        uint32_t levels;
        faults of;
    } devices[] = {
        { 0, KEEPS, { 0 } },
        { GDN_TEST_FLUSH_BOTH, FLUSHES, { 0 } },
        { GDN_TEST_FLUSH_OPERANDS, 0, { 0 } },
        { GDN_TEST_FLUSH_RESULTS, 0, { 0 } },
        { 0, KEEPS | FLUSHES, { .can_flush = 1, .flushes_asked = 1 } },
        { 0, KEEPS, { .can_flush = 1 } }, /* it says that it can be asked, and keeps them all the same */
        { GDN_TEST_FLUSH_BOTH, FLUSHES, { .can_flush = 1 } },
        { GDN_TEST_FLUSH_BOTH, FLUSHES, { .flushes_unasked = 1 } }, /* as NVIDIA's driver */
        /* Binary64 would have to be declared as well, and so nothing is. */
        { 0, KEEPS, { .can_flush = 1, .flushes_asked = 1, .not_alone = 1 } },
    };
    test_self_test_there();
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        for (uint32_t level = 0; level < GDN_LEVEL_COUNT; level++) {
            const int before = test_failed;
            if (devices[i].of.can_flush && getenv("VK_INSTANCE_LAYERS")) continue; /* a layer knows that it cannot */
            fault = devices[i].of;
            gdn_test_flush(devices[i].flush);
            look(devices[i].levels, level);
            if (test_failed != before) (void)printf("device %d at level %u\n", (int)i, (unsigned)level);
        }
    gdn_test_flush(0);
    fault = (faults){ 0 };
}

/* Is this the driver that flush.c knows, whose fma rounds twice? */
static int is_known(void)
{
    const gdn_vulkan_traits *const t = &gdn_vulkan_catalogue_get()->traits[0];
    return t->type == VK_PHYSICAL_DEVICE_TYPE_CPU && strstr(t->about.name, "llvmpipe") && t->float64;
}
#endif

void test_levels(void)
{
    tiny = start;
    for (int i = 0; i < N_STATE; i++) tiny.state[i] *= 0x1p-124f;
    for (int i = 0; i < N_Q; i++) tiny.v[i] *= 0x1p-124f;
    for (uint32_t level = 0; level < GDN_LEVEL_COUNT; level++) {
        wanted_tiny[level] = tiny;
        step_reference_at(&wanted_tiny[level], 1, level);
    }
    REQUIRE(memcmp(wanted_tiny[GDN_EXACT].out, wanted_tiny[GDN_EXACT_FTZ].out, sizeof tiny.out));
    test_software_fma();
#ifdef GDN_TEST_CAN_FLUSH
    if (is_known()) test_devices();
#endif
}
