/* The Metal backend where `gdn check` does not reach: a program's device, queue, command buffers and encoders, other
 * buffers, and everything that can go wrong. Runs on the fake Metal, whose metal_fake_* functions make things go wrong.
 */
#include <string.h>

#include "gdn/metal.h"
#include "metal/device.h"
#include "tests/device/suite.h"
#include "tests/device/metal/fake.h"
#include "tests/emulator/registry.h"

static const gdn_objc *rt;

static gdn_context *open_metal(gdn_id device, gdn_id queue, uint64_t timeout_ns)
{
    const gdn_metal_desc mine = { .size = sizeof mine, .device = device, .queue = queue };
    return suite_open(GDN_BACKEND_METAL, device || queue ? &mine : NULL, timeout_ns);
}

static gdn_id selector(const char *name) { return rt->selector(name); }

static void test_default(void)
{
    suite_default(GDN_BACKEND_METAL);
    step_on on;
    gdn_context *ctx = step_open(&on, open_metal(NULL, NULL, 0));
    const unsigned long asked = metal_fake_calls("status"), made = metal_fake_calls("newBufferWithLength:options:");
    REQUIRE(step_run(&on, NULL) == GDN_OK); /* nothing waits or allocates */
    REQUIRE(asked == metal_fake_calls("status") && made == metal_fake_calls("newBufferWithLength:options:"));
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK && step_same(&on, &wanted));
    step_close(&on);
}

/* A compiler that makes a mistake in a kernel is found out before a call gets its results from there, or, where that
 * call only records, by the next gdn_synchronize(). First of all tests: a process does not ask twice. */
static void test_self_test(void)
{
    enum { OUT = 8 }; /* the buffer with the output of gated_delta_net */
    step_on on;
    if (!suite_asks()) return;
    void *pool = rt->pool_push();
    gdn_context *ctx = open_metal(NULL, NULL, 0);
    simt_miscompile("gdn_metal_delta_general", OUT);
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK);
    for (int i = 0; i < 2; i++)
        REQUIRE(step_run(&on, NULL) == GDN_UNSUPPORTED && strstr(gdn_last_error(), "kernel delta_general") &&
                strstr(gdn_last_error(), "self-test"));
    REQUIRE(step_same(&on, &start)); /* and the call did nothing */
    simt_miscompile(NULL, 0);
    REQUIRE(step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
    step_close(&on);

    /* On another device, whose kernels have not run yet: into a command buffer of the program's. */
    const gdn_id device = metal_fake_other_device(), queue = gdn_send(rt, device, rt->sel.newCommandQueue);
    ctx = open_metal(NULL, queue, 0);
    simt_miscompile("gdn_metal_delta_general", OUT);
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK);
    gdn_id commands = gdn_send(rt, queue, rt->sel.commandBuffer);
    const unsigned long commits = metal_fake_calls("commit");
    REQUIRE(step_run(&on, commands) == GDN_OK && step_run(&on, commands) == GDN_OK);
    REQUIRE(commits == metal_fake_calls("commit"));
    gdn_tell(rt, commands, rt->sel.commit);
    gdn_tell(rt, commands, selector("waitUntilCompleted"));
    REQUIRE(gdn_poll(ctx) == GDN_OK); /* which never waits */
    FAILS(gdn_synchronize(ctx, NULL), GDN_UNSUPPORTED, "kernel delta_general");
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK); /* reported once */
    simt_miscompile(NULL, 0);
    step_close(&on);
    rt->release(queue);
    rt->release(device);
    rt->pool_pop(pool);
}

/* ---- A program's objects ------------------------------------------------------------------------------ */

static void test_programs_objects(void)
{
    step_on on;
    void *pool = rt->pool_push();
    const gdn_id device = metal_fake_other_device(), queue = gdn_send(rt, device, rt->sel.newCommandQueue);
    gdn_context *ctx = step_open(&on, open_metal(NULL, queue, 0));

    /* A command buffer: an encoder of the library's own; it neither commits nor waits. */
    gdn_id commands = gdn_send(rt, queue, rt->sel.commandBuffer);
    const unsigned long commits = metal_fake_calls("commit");
    REQUIRE(step_run(&on, commands) == GDN_OK && commits == metal_fake_calls("commit"));
    REQUIRE(gdn_number(rt, commands, rt->sel.status) == 0);
    gdn_tell(rt, commands, rt->sel.commit);
    gdn_tell(rt, commands, selector("waitUntilCompleted"));
    REQUIRE(gdn_poll(ctx) == GDN_OK && step_same(&on, &wanted));

    /* An encoder, which stays open, with a call that needs the one before it. */
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK);
    commands = gdn_send(rt, queue, rt->sel.commandBuffer);
    const gdn_id encoder = gdn_send(rt, commands, rt->sel.computeCommandEncoder);
    const unsigned long ends = metal_fake_calls("endEncoding");
    REQUIRE(step_run(&on, encoder) == GDN_OK && step_run(&on, encoder) == GDN_OK);
    REQUIRE(ends == metal_fake_calls("endEncoding"));
    gdn_tell(rt, encoder, rt->sel.endEncoding);
    gdn_tell(rt, commands, rt->sel.commit);
    gdn_tell(rt, commands, selector("waitUntilCompleted"));
    REQUIRE(gdn_poll(ctx) == GDN_OK && step_same(&on, &wanted_twice));

    /* What is neither, or is committed already. */
    FAILS(step_run(&on, commands), GDN_INVALID_ARGUMENT, "committed already");
    FAILS(step_run(&on, queue), GDN_INVALID_ARGUMENT, "no MTLCommandBuffer");
    FAILS(gdn_synchronize(ctx, commands), GDN_INVALID_ARGUMENT, "waitUntilCompleted");
    step_close(&on);

    /* Only the device. */
    ctx = open_metal(device, NULL, 0);
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
    step_close(&on);
    rt->release(queue);
    rt->release(device);
    rt->pool_pop(pool);
}

static void test_bad_native(void)
{
    void *pool = rt->pool_push();
    const gdn_id device = metal_fake_other_device(), other = metal_fake_other_device(),
                 queue = gdn_send(rt, device, rt->sel.newCommandQueue);
    const gdn_id none = gdn_send_p(rt, rt->get_class("NSString"), rt->sel.stringWithUTF8String, "none");
    enum { SIZE = sizeof(gdn_metal_desc) };
    const suite_native wrong[] = {
        { &(gdn_metal_desc){ .size = SIZE, .flags = 1 }, "flags" },
        { &(gdn_metal_desc){ .size = 4 }, "size" },
        { &(gdn_metal_desc){ .size = SIZE, .device = none }, "no MTLDevice" },
        { &(gdn_metal_desc){ .size = SIZE, .queue = none }, "no MTLCommandQueue" },
        { &(gdn_metal_desc){ .size = SIZE, .device = other, .queue = queue }, "of the device" },
    };
    const gdn_metal_desc native = { .size = SIZE };
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_METAL, .native = &native };
    suite_refuses_natives(desc, wrong, sizeof wrong / sizeof *wrong);
    suite_refuses_names(desc);
    rt->release(queue);
    rt->release(device);
    rt->release(other);
    rt->pool_pop(pool);
}

static void test_devices_that_will_not_do(void)
{
    static const struct {
        const char *what, *says;
        long value, restore;
        gdn_status status;
    } cases[] = {
        { "family", "family Apple6", 1005, 1009, GDN_UNSUPPORTED },
        { "width", "simdgroups of 64", 64, 32, GDN_UNSUPPORTED },
        { "threads", "threadgroups of up to 32", 32, 1024, GDN_UNSUPPORTED },
        { "compile", "does not compile", 0, 1, GDN_UNAVAILABLE },
    };
    const gdn_id device = metal_fake_other_device();
    const gdn_metal_desc native = { .size = sizeof native, .device = device };
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_METAL, .native = &native };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        metal_fake_set(cases[i].what, cases[i].value);
        suite_refuses(&desc, cases[i].status, cases[i].says);
        metal_fake_set(cases[i].what, cases[i].restore);
    }
    rt->release(device);
}

/* The options turn fast math off, on new systems and on old ones; the fake compiles nothing where they or the source do
 * not. */
static void test_exact_source(void)
{
    const gdn_id device = metal_fake_other_device();
    for (int old = 0; old < 2; old++) {
        const char *const selectors[] = { "setMathMode:", "setFastMathEnabled:" };
        const unsigned long now = metal_fake_calls(selectors[old]), never = metal_fake_calls(selectors[!old]);
        metal_fake_set("old", old);
        gdn_context_destroy(open_metal(device, NULL, 0));
        metal_fake_set("old", 0);
        REQUIRE(metal_fake_calls(selectors[old]) == now + 1 && metal_fake_calls(selectors[!old]) == never);
    }
    rt->release(device);
}

/* One that flushes subnormal numbers is not exact at the usual level. It is at the other, where it flushes by the rule.
 */
static void test_levels(void)
{
#if defined(__x86_64__)
    static const struct {
        long flush;
        uint32_t levels;
        const char *reason;
    } devices[] = { { 0, 1u << GDN_EXACT, "" },
                    { 1, 1u << GDN_EXACT_FTZ, "as it is at GDN_EXACT_FTZ" },
                    { 2, 0, "differ from IEEE arithmetic" } };
    const gdn_id device = metal_fake_other_device();
    const gdn_metal_desc native = { .size = sizeof native, .device = device };
    gdn_implementation_info info = { .size = sizeof info };
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        for (uint32_t level = 0; level < GDN_LEVEL_COUNT; level++) {
            const gdn_context_desc desc =
                FIELDS(.size = sizeof desc, .backend = GDN_BACKEND_METAL, .native = &native, .level = level);
            const int has = (int)(devices[i].levels >> level & 1);
            gdn_context *ctx = NULL;
            metal_fake_set("flush", devices[i].flush);
            const gdn_status status = gdn_context_create(&desc, &ctx);
            if (level == GDN_EXACT_FTZ && !has) {
                REQUIRE(status == GDN_UNSUPPORTED && strstr(gdn_last_error(), "GDN_EXACT_FTZ"));
            } else {
                REQUIRE(status == GDN_OK && gdn_context_describe(ctx, NULL, &info) == GDN_OK &&
                        info.levels == devices[i].levels && strstr(info.reason, has ? "" : devices[i].reason));
            }
            gdn_context_destroy(ctx);
            metal_fake_set("flush", 0);
        }
    rt->release(device);
#endif
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

/* Buffers that the host cannot read, and places beyond a buffer. */
static void test_other_buffers(void)
{
    static unsigned char bytes[64];
    const gdn_id device = metal_fake_other_device();
    gdn_context *ctx = open_metal(device, NULL, 0);
    for (unsigned long mode = 0; mode < 3; mode++) {
        const gdn_id buffer = gdn_send_nn(rt, device, rt->sel.newBuffer, 64, mode << 4);
        const gdn_span span = { .data = buffer, .bytes = 64 }, beyond = { .data = buffer, .offset = 32 };
        if (mode == GDN_MTL_STORAGE_SHARED) REQUIRE(gdn_buffer_write(ctx, &span, 0, bytes, 64) == GDN_OK);
        else FAILS(gdn_buffer_write(ctx, &span, 0, bytes, 64), GDN_UNSUPPORTED, "only 0 (shared)");
        FAILS(gdn_buffer_read(ctx, &beyond, 0, bytes, 64), GDN_INVALID_ARGUMENT, "of a buffer of");
        rt->release(buffer);
    }
    gdn_context_destroy(ctx);
    rt->release(device);
}

static void test_out_of_memory(void) { suite_out_of_memory(open_metal(NULL, NULL, 0), ""); }

/* Whatever may return nil does. */
static void test_every_message_fails(void)
{
    static const suite_failing driver = { metal_fake_fail, metal_fake_calls, metal_fake_alive, 20, 0, " " };
    static const suite_function messages[] = {
        { "newCommandQueue", 0, 0 },
        { "new", 0, 0 },
        { "stringWithUTF8String:", 0, 0 },
        { "newLibraryWithSource:options:error:", 0, 0 },
        { "newFunctionWithName:", 0, 0 },
        { "newComputePipelineStateWithFunction:error:", 0, 0 },
        { "newBufferWithLength:options:", 0, 0 },
        { "commandBuffer", 0, 0 },
        { "computeCommandEncoder", 0, 0 },
        { NULL, 0, 0 },
    };
    const gdn_id device = metal_fake_other_device();
    const gdn_metal_desc native = { .size = sizeof native, .device = device };
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_METAL, .native = &native };
    suite_every_failure(&desc, &driver, messages);
    rt->release(device);
}

static void test_lost(void)
{
    step_on on;
    for (int when = 0; when < 3; when++) {
        gdn_context *ctx = step_open(&on, open_metal(NULL, NULL, 0));
        metal_fake_set("break", 1);
        REQUIRE(step_run(&on, NULL) == GDN_OK);
        float x;
        const gdn_status first = when == 0   ? gdn_synchronize(ctx, NULL)
                                 : when == 1 ? gdn_buffer_read(ctx, &on.span[5], 0, &x, sizeof x)
                                             : (gdn_poll(ctx), gdn_poll(ctx));
        REQUIRE(first == GDN_DEVICE_LOST && strstr(gdn_last_error(), "the device stopped"));
        metal_fake_set("break", 0); /* the library remembers */
        suite_lost(&on);
    }
}

static uint64_t *timeout_of(gdn_context *ctx) { return &((gdn_metal_device *)ctx->state)->gpu.timeout_ns; }

static void hang(int on) { metal_fake_set("hang", on); }

/* Only waits for what is never done have a short timeout: how long the emulator takes for the rest is not for a clock
 * to say. */
static void test_bounded_waits(void)
{
    step_on on;
    gdn_context *ctx = open_metal(NULL, NULL, 0);
    REQUIRE(*timeout_of(ctx) == UINT64_C(3600000000000)); /* of a device that is software */
    gdn_context_destroy(ctx);
    ctx = open_metal(NULL, NULL, UINT64_C(50000000000));
    REQUIRE(*timeout_of(ctx) == UINT64_C(50000000000));
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK);
    suite_hang_begins(&on, hang, timeout_of(ctx));
    suite_hang_ends(&on, hang, timeout_of(ctx));
    hang(1);
    *timeout_of(ctx) = UINT64_C(30000000);
    int queued = 0;
    gdn_status status = GDN_OK;
    while (queued < 100 && !(status = step_run(&on, NULL))) /* the ring is full */
        queued++;
    REQUIRE(queued == GDN_METAL_RING && status == GDN_TIMEOUT);
    step_close(&on); /* Metal keeps what is in use */
    hang(0);
    ctx = open_metal(NULL, NULL, 0);
    gdn_context_destroy(ctx);
}

/* ---- Others ------------------------------------------------------------------------------------------- */

/* More calls are in flight than the ring holds, and none of them is lost. */
static void test_two_threads(void) { suite_two_threads(GDN_BACKEND_METAL, GDN_METAL_RING + 1); }
static void test_bad_maps(void) { suite_bad_maps(GDN_BACKEND_METAL); }

/* Nothing stays behind, and the fake has nothing to complain about. */
static void look(const suite_test *test, int after)
{
    static long alive, complaints;
    if (after && !test->leaves && metal_fake_alive() != alive)
        (void)printf("    %ld objects more are alive\n", metal_fake_alive() - alive);
    REQUIRE(!after || test->leaves || metal_fake_alive() == alive);
    REQUIRE(!after || metal_fake_complaints() == complaints);
    alive = metal_fake_alive();
    complaints = metal_fake_complaints();
}

/* test_metal [TEST] */
int main(int argc, char **argv)
{
    static const suite_test tests[] = {
        { "self-test", test_self_test, 0 },
        { "default", test_default, 0 },
        { "program's objects", test_programs_objects, 0 },
        { "bad native", test_bad_native, 0 },
        { "will not do", test_devices_that_will_not_do, 0 },
        { "exact source", test_exact_source, 0 },
        { "levels", test_levels, 0 },
        { "other buffers", test_other_buffers, 0 },
        { "out of memory", test_out_of_memory, 0 },
        { "every message fails", test_every_message_fails, 0 },
        { "lost device", test_lost, 0 },
        { "two threads", test_two_threads, 0 },
        { "bad maps", test_bad_maps, 0 },
        { "bounded waits", test_bounded_waits, 1 },
    };
    suite_init();
    rt = &gdn_metal_catalogue_get()->rt;
    uint32_t n = 0;
    NEED(!gdn_metal_count(&n), "no device: %s", gdn_last_error());
    gdn_context_destroy(open_metal(NULL, NULL, 0)); /* what a process makes once */
    return suite_run(tests, sizeof tests / sizeof tests[0], look, argc == 2 ? argv[1] : NULL);
}
