/* The CUDA backend where `gdn check` does not reach: a program's context and streams, threads, and everything that can
 * go wrong. Runs on the emulator's driver, whose simt_* functions make things go wrong. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdlib.h>
#include <string.h>

#include "cuda/device.h"
#include "support.h"

gdn_context *open_cuda(simt_context *native, uint64_t timeout_ns)
{
    const gdn_cuda_desc mine = { .size = sizeof mine, .context = native };
    return suite_open(GDN_BACKEND_CUDA, native ? &mine : NULL, timeout_ns);
}

static void test_default(void) { suite_default(GDN_BACKEND_CUDA); }

/* ---- A program's context and streams ------------------------------------------------------------------- */

static void test_programs_context(void)
{
    simt_context *mine = NULL, *other = NULL, *current = NULL;
    simt_stream *stream = NULL, *foreign = NULL;
    step_on on;
    REQUIRE(cuInit(0) == SIMT_SUCCESS && cuCtxCreate_v2(&other, 0, 0) == SIMT_SUCCESS &&
            cuStreamCreate(&foreign, 1) == SIMT_SUCCESS);
    REQUIRE(cuCtxCreate_v2(&mine, 0, 0) == SIMT_SUCCESS && cuStreamCreate(&stream, 1) == SIMT_SUCCESS);
    REQUIRE(cuCtxSetCurrent(other) == SIMT_SUCCESS);
    gdn_context *ctx = step_open(&on, open_cuda(mine, 0));

    /* On a stream of the program's; nothing waits, and the program's current context stays. */
    const unsigned long long waits =
        simt_calls("cuStreamSynchronize") + simt_calls("cuCtxSynchronize") + simt_calls("cuStreamQuery");
    const unsigned long long memory =
        simt_calls("cuMemAlloc_v2") + simt_calls("cuMemHostAlloc") + simt_calls("cuMemcpyHtoDAsync_v2");
    REQUIRE(step_run(&on, stream) == GDN_OK);
    REQUIRE(waits == simt_calls("cuStreamSynchronize") + simt_calls("cuCtxSynchronize") + simt_calls("cuStreamQuery"));
    REQUIRE(memory == simt_calls("cuMemAlloc_v2") + simt_calls("cuMemHostAlloc") + simt_calls("cuMemcpyHtoDAsync_v2"));
    REQUIRE(simt_count("queued") == 1); /* it has not run yet */
    REQUIRE(cuCtxGetCurrent(&current) == SIMT_SUCCESS && current == other);
    REQUIRE(gdn_synchronize(ctx, stream) == GDN_OK && step_same(&on, &wanted));
    REQUIRE(simt_calls("cuStreamSynchronize") == 0 && simt_calls("cuCtxSynchronize") == 0);

    /* The legacy stream, CU_STREAM_LEGACY. */
    REQUIRE(step_run(&on, (gdn_stream)(uintptr_t)1) == GDN_OK &&
            gdn_synchronize(ctx, (gdn_stream)(uintptr_t)1) == GDN_OK);
    REQUIRE(step_same(&on, &wanted_twice));

    /* Bad streams: of another context, and none at all. */
    static int nothing[64];
    const unsigned long long launches = simt_calls("cuLaunchKernelEx");
    FAILS(step_run(&on, foreign), GDN_INVALID_ARGUMENT, "stream is");
    REQUIRE(gdn_synchronize(ctx, foreign) == GDN_INVALID_ARGUMENT);
    FAILS(step_run(&on, nothing), GDN_INVALID_ARGUMENT, "no CUDA stream");
    REQUIRE(gdn_synchronize(ctx, nothing) == GDN_INVALID_ARGUMENT);
    REQUIRE(launches == simt_calls("cuLaunchKernelEx") && gdn_poll(ctx) == GDN_OK);
    REQUIRE(cuCtxGetCurrent(&current) == SIMT_SUCCESS && current == other);

    step_close(&on);
    REQUIRE(cuCtxDestroy_v2(mine) == SIMT_SUCCESS && cuCtxDestroy_v2(other) == SIMT_SUCCESS);
}

static void test_bad_native(void)
{
    static int nothing[64];
    gdn_context *ctx = NULL;
    enum { SIZE = sizeof(gdn_cuda_desc) };
    const suite_native wrong[] = {
        { &(gdn_cuda_desc){ .size = SIZE, .flags = 1 }, "flags" },
        { &(gdn_cuda_desc){ .size = 4 }, "size" },
        { &(gdn_cuda_desc){ .size = SIZE, .context = nothing }, "no CUDA context" },
    };
    gdn_cuda_desc native = { .size = SIZE };
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_CUDA, .native = &native };
    suite_refuses_natives(desc, wrong, sizeof wrong / sizeof *wrong);
    suite_refuses_names(desc);
    desc.native = NULL;
    desc.implementation = "fma";
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
    gdn_context_destroy(ctx);
    native = (gdn_cuda_desc){ .size = sizeof native };
    desc.native = &native; /* nothing of the program's after all: the primary context */
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
    gdn_context_destroy(ctx);
}

/* ---- Failing calls --------------------------------------------------------------------------------------- */

static long alive(void)
{
    return (long)(simt_count("device blocks") + simt_count("host blocks") + simt_count("contexts") +
                  simt_count("streams") + simt_count("modules"));
}
static unsigned long calls_of(const char *function) { return (unsigned long)simt_calls(function); }
static void fail(const char *function, unsigned nth)
{
    REQUIRE(simt_fail_call(function, nth ? nth : 1u << 30, nth ? SIMT_OUT_OF_MEMORY : SIMT_SUCCESS, 1) == 0);
}

static void test_every_call_fails(void)
{
    static const suite_failing driver = { fail, calls_of, alive, 60, 1, "CUDA_ERROR_OUT_OF_MEMORY (2)" };
    static const suite_function functions[] = {
        { "cuDevicePrimaryCtxRetain", 0, 0 },
        { "cuCtxPushCurrent_v2", 0, 1 },
        { "cuStreamCreate", 0, 0 },
        { "cuMemHostAlloc", 0, 0 },
        { "cuMemHostGetDevicePointer_v2", 0, 0 },
        { "cuModuleLoadData", 0, 0 },
        { "cuModuleGetFunction", 0, 0 },
        { "cuMemAlloc_v2", 0, 0 },
        { "cuMemcpyHtoDAsync_v2", 0, 0 },
        { "cuMemcpyDtoHAsync_v2", 0, 0 },
        { "cuLaunchKernelEx", 0, 0 },
        { "cuStreamQuery", 0, 1 },
        { "cuThreadExchangeStreamCaptureMode", 1, 0 },
        { NULL, 0, 0 },
    };
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_CUDA };
    suite_every_failure(&desc, &driver, functions);
    gdn_context_destroy(open_cuda(NULL, 0)); /* and all is well afterwards */
}

static void test_out_of_memory(void)
{
    const long long blocks = simt_count("device blocks");
    suite_out_of_memory(open_cuda(NULL, 0), "CUDA_ERROR_OUT_OF_MEMORY");
    REQUIRE(simt_count("device blocks") == blocks);
}

/* A program that destroys its CUDA context too early. */
static void test_destroyed(void)
{
    step_on on;
    simt_context *mine = NULL;
    REQUIRE(cuCtxCreate_v2(&mine, 0, 0) == SIMT_SUCCESS);
    gdn_context *ctx = step_open(&on, open_cuda(mine, 0));
    REQUIRE(cuCtxDestroy_v2(mine) == SIMT_SUCCESS);
    REQUIRE(step_run(&on, NULL) == GDN_DEVICE_LOST && gdn_poll(ctx) == GDN_DEVICE_LOST);
    step_close(&on);
}

static uint64_t *timeout_of(gdn_context *ctx) { return &((gdn_cuda_device *)ctx->state)->gpu.timeout_ns; }

static void hang(int on) { REQUIRE(simt_control("hang", on) == 0); }

/* Only waits for what is never done have a short timeout: how long the emulator takes for the rest is not for a clock
 * to say. */
static void test_bounded_waits(void)
{
    step_on on;
    gdn_context *ctx = open_cuda(NULL, 0);
    REQUIRE(*timeout_of(ctx) == UINT64_C(3600000000000)); /* of a device that is software */
    REQUIRE(gdn_timeout_ns(ctx, 0) == UINT64_C(10000000000));
    gdn_context_destroy(ctx);
    ctx = open_cuda(NULL, UINT64_C(50000000000));
    REQUIRE(*timeout_of(ctx) == UINT64_C(50000000000));
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK);
    suite_hang_begins(&on, hang, timeout_of(ctx));
    gdn_span kept = on.span[5];
    gdn_buffer_destroy(ctx, &kept); /* still in use, so it stays */
    suite_hang_ends(&on, hang, timeout_of(ctx));
    REQUIRE(step_run(&on, NULL) == GDN_OK);
    hang(1);
    REQUIRE(step_run(&on, NULL) == GDN_OK);
    *timeout_of(ctx) = UINT64_C(30000000);
    gdn_context_destroy(ctx); /* leaves what is in use behind */
    hang(0);
}

/* ---- Others ------------------------------------------------------------------------------------------- */

/* Where q begins decides which kernel a call has, and a query without data cannot know it: both name one form. Calls
 * that come to `rows` where q is not aligned and to `tiles` where it is, with a log and without. */
static void test_name_of_form(void)
{
    static char memory[64]; /* nothing is read there: the calls are only asked about */
    static const struct {
        int n_seqs, state16, log;
    } calls[] = { { 1, 1, 0 }, { 3, 0, 0 }, { 3, 0, 1 } };
    gdn_context *ctx = open_cuda(NULL, 0);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (uint64_t offset = 0; offset < 6; offset += 2) {
            gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
            gdn_replay_log log = GDN_INIT(gdn_replay_log);
            gdn_capability without = GDN_INIT(gdn_capability), with = GDN_INIT(gdn_capability);
            a.n_seqs = a.state.n_rows = calls[i].n_seqs;
            a.scale = 1;
            a.n_tokens = 40;
            a.n_heads_k = 2;
            a.n_heads_v = 128;
            a.head_dim_k = a.head_dim_v = 128;
            a.q.dtype = a.k.dtype = GDN_BF16;
            a.state.dtype = calls[i].state16 ? GDN_BF16 : GDN_F32;
            if (calls[i].log) {
                log.entries.n_rows = 3;
                log.entries.n_slots = 16;
                a.log = &log;
            }
            REQUIRE(gdn_gated_delta_net_query(ctx, &a, &without) == GDN_OK && without.supported);
            a.q.data = memory;
            a.q.offset = offset;
            REQUIRE(gdn_gated_delta_net_query(ctx, &a, &with) == GDN_OK);
            REQUIRE(strcmp(without.implementation, with.implementation) == 0);
        }
    gdn_context_destroy(ctx);
}

/* Launches are dependent ones only where device and code can wait, and the environment does not forbid it. */
static void test_dependent_launches(void)
{
    static const struct {
        const char *setting; /* of the fake driver */
        int value, usual;
        const char *environment;
        int dependent;
    } cases[] = {
        { "ptx", 90, 90, "on", 1 },  { "ptx", 90, 90, NULL, 1 },     { "ptx", 80, 90, NULL, 0 },
        { "ptx", 90, 90, "off", 0 }, { "compute", 80, 90, NULL, 0 },
    };
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_CUDA };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        step_on on;
        if (cases[i].environment) REQUIRE(setenv("GDN_CUDA_DEPENDENT_LAUNCH", cases[i].environment, 1) == 0);
        REQUIRE(simt_control(cases[i].setting, cases[i].value) == 0);
        simt_context *own = NULL; /* its device is described anew */
        REQUIRE(cuCtxCreate_v2(&own, 0, 0) == SIMT_SUCCESS);
        gdn_context *ctx = step_open(&on, open_cuda(own, 0));
        const unsigned long long dependent = simt_calls("cuLaunchKernelEx"), plain = simt_calls("cuLaunchKernel");
        REQUIRE(step_run(&on, NULL) == GDN_OK && gdn_synchronize(ctx, NULL) == GDN_OK);
        REQUIRE((simt_calls("cuLaunchKernelEx") > dependent) == cases[i].dependent);
        REQUIRE((simt_calls("cuLaunchKernel") > plain) == !cases[i].dependent);
        step_close(&on);
        REQUIRE(cuCtxDestroy_v2(own) == SIMT_SUCCESS && simt_control(cases[i].setting, cases[i].usual) == 0);
        REQUIRE(unsetenv("GDN_CUDA_DEPENDENT_LAUNCH") == 0);
    }
    REQUIRE(setenv("GDN_CUDA_DEPENDENT_LAUNCH", "maybe", 1) == 0);
    suite_refuses(&desc, GDN_INVALID_ARGUMENT, "\"maybe\"; on and off are allowed");
    REQUIRE(unsetenv("GDN_CUDA_DEPENDENT_LAUNCH") == 0);
    static const char *const numbers[] = { "0", "1x", "1048577", "-1" };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        REQUIRE(setenv("GDN_CUDA_MULTIPROCESSORS", numbers[i], 1) == 0);
        suite_refuses(&desc, GDN_INVALID_ARGUMENT, "1 to 1048576 are allowed");
    }
    REQUIRE(unsetenv("GDN_CUDA_MULTIPROCESSORS") == 0);
}

/* What a device takes digits as: s8 or f16, whichever sums are exact, and neither if those that are allowed are not. */
static void test_digits(void)
{
    static const struct {
        int compute;
        const char *environment, *wrong; /* the kernel of the probe whose sums are wrong */
        gdn_cuda_digits digits;
    } cases[] = {
        { 90, NULL, NULL, GDN_CUDA_DIGITS_S8 },
        { 100, NULL, NULL, GDN_CUDA_DIGITS_S8 },
        { 103, NULL, NULL, GDN_CUDA_DIGITS_F16 },
        { 120, NULL, NULL, GDN_CUDA_DIGITS_S8 },
        { 90, "f16", NULL, GDN_CUDA_DIGITS_F16 },
        { 103, "s8", NULL, GDN_CUDA_DIGITS_S8 },
        { 90, NULL, "gdn_cuda_digits_s8", GDN_CUDA_DIGITS_F16 },
        { 90, NULL, "gdn_cuda_digits_f16", GDN_CUDA_DIGITS_S8 },
        { 103, NULL, "gdn_cuda_digits_f16", GDN_CUDA_DIGITS_S8 },
        { 90, "s8", "gdn_cuda_digits_s8", GDN_CUDA_DIGITS_NONE },
        { 90, "f16", "gdn_cuda_digits_f16", GDN_CUDA_DIGITS_NONE },
    };
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_CUDA };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
        gdn_chunked_form chunked = GDN_INIT(gdn_chunked_form);
        gdn_capability c = GDN_INIT(gdn_capability);
        simt_context *own = NULL; /* its device is described anew */
        if (cases[i].environment) REQUIRE(setenv("GDN_CUDA_DIGITS", cases[i].environment, 1) == 0);
        REQUIRE(simt_control("compute", cases[i].compute) == 0);
        simt_miscompile(cases[i].wrong, 0);
        REQUIRE(cuCtxCreate_v2(&own, 0, 0) == SIMT_SUCCESS);
        gdn_context *ctx = open_cuda(own, 0);
        REQUIRE(((gdn_cuda_device *)ctx->state)->digits == cases[i].digits);
        a.n_seqs = a.state.n_rows = a.n_heads_k = a.n_heads_v = 1;
        a.scale = 1;
        a.n_tokens = 3;
        a.head_dim_k = a.head_dim_v = 64;
        a.state.dtype = GDN_DIGITS3;
        a.chunked = &chunked;
        REQUIRE(gdn_gated_delta_net_query(ctx, &a, &c) == GDN_OK);
        REQUIRE(c.supported == (cases[i].digits != GDN_CUDA_DIGITS_NONE));
        REQUIRE(c.supported || strstr(c.reason, "sums of products of digits are wrong on this device"));
        gdn_context_destroy(ctx);
        REQUIRE(cuCtxDestroy_v2(own) == SIMT_SUCCESS && unsetenv("GDN_CUDA_DIGITS") == 0);
    }
    simt_miscompile(NULL, 0);
    REQUIRE(simt_control("compute", 90) == 0);
    REQUIRE(setenv("GDN_CUDA_DIGITS", "bf16", 1) == 0);
    suite_refuses(&desc, GDN_INVALID_ARGUMENT, "\"bf16\"; s8 and f16 are allowed");
    REQUIRE(unsetenv("GDN_CUDA_DIGITS") == 0);
}

static void test_two_threads(void) { suite_two_threads(GDN_BACKEND_CUDA, 1); }
static void test_bad_maps(void) { suite_bad_maps(GDN_BACKEND_CUDA); }

/* test_cuda [TEST] */
int main(int argc, char **argv)
{
    static const suite_test tests[] = {
        { "self-test", test_self_test, 0 },
        { "default", test_default, 0 },
        { "program's context", test_programs_context, 0 },
        { "bad native", test_bad_native, 0 },
        { "graph", test_graph, 0 },
        { "default stream", test_default_stream, 0 },
        { "green streams", test_green_streams, 0 },
        { "destroyed context", test_destroyed_context, 0 },
        { "too new an image", test_too_new_image, 0 },
        { "others' faults", test_faults_of_others, 0 },
        { "graph of everything", test_graph_of_everything, 0 },
        { "graph of layers", test_graph_of_layers, 0 },
        { "every call fails", test_every_call_fails, 0 },
        { "out of memory", test_out_of_memory, 0 },
        { "destroyed context", test_destroyed, 0 },
        { "bounded waits", test_bounded_waits, 0 },
        { "name of the form", test_name_of_form, 0 },
        { "dependent launches", test_dependent_launches, 0 },
        { "digits", test_digits, 0 },
        { "two threads", test_two_threads, 0 },
        { "bad maps", test_bad_maps, 0 },
    };
    (void)simt_control("quiet", 1);     /* misuse is what is tested here */
    REQUIRE(cuInit(0) == SIMT_SUCCESS); /* also where one test runs alone */
    suite_init();
    return suite_run(tests, sizeof tests / sizeof tests[0], NULL, argc == 2 ? argv[1] : NULL);
}
