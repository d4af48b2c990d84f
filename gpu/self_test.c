/* The self-test: runs device kernels on self-test vectors. See self_test.h. */
#include "gpu/self_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "core/kernels.h"
#include "core/status.h"
#include "gpu/context.h"

/* Pipelines of any context of this process that have passed. A device and its driver compile the same code to the same
 * pipeline, and programs create many contexts. If there are more, the first ones are tested again. */
enum { MOST_PROVEN = 2048 };
static gdn_mutex lock = GDN_MUTEX_INIT;
static struct {
    uint32_t n;
    uint64_t pipeline[MOST_PROVEN];
} proven;

static int is_proven(uint64_t pipeline)
{
    int found = 0;
    gdn_mutex_lock(&lock);
    for (uint32_t i = 0; i < proven.n && i < MOST_PROVEN && !found; i++) found = proven.pipeline[i] == pipeline;
    gdn_mutex_unlock(&lock);
    return found;
}

static void prove(uint64_t pipeline)
{
    gdn_mutex_lock(&lock);
    proven.pipeline[proven.n++ % MOST_PROVEN] = pipeline;
    gdn_mutex_unlock(&lock);
}

/* ---- Which pipeline ---- */

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < n; i++) h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* A hash of the implementation, the device and the driver. */
static uint64_t hash_implementation(const gdn_context *ctx)
{
    const gdn_gpu_context *dev = ctx->state;
    const gdn_gpu_driver *driver = ctx->backend->own;
    const uint64_t device = driver->identity(dev);
    uint64_t h = mix(UINT64_C(0xcbf29ce484222325), ctx->backend->name, strlen(ctx->backend->name));
    h = mix(h, dev->about->name, strlen(dev->about->name));
    h = mix(h, dev->implementation.name, strlen(dev->implementation.name));
    h = mix(h, &dev->level, sizeof dev->level);
    return mix(h, &device, sizeof device);
}

/* The pipeline that a plan runs on. A kernel that runs as one of two parts of a call (plan->cut) is another pipeline on
 * some backends, and another path through the same pipeline on others. */
static gdn_gpu_pipeline pipeline_of(const gdn_context *ctx, gdn_kernel kernel, const gdn_plan *plan)
{
    const int32_t of[4] = { (int32_t)kernel, plan->gpu.device_kernel, plan->cut != 0, plan->gpu.table_slots != 0 };
    const gdn_gpu_context *dev = ctx->state;
    const uint64_t h = mix(dev->self_test.implementation, of, sizeof of);
    return (gdn_gpu_pipeline){ kernel, mix(h, plan->gpu.constants, sizeof plan->gpu.constants) };
}

static const char *kernel_name(gdn_kernel kernel)
{
    static const char *const names[GDN_KERNEL_COUNT] = {
        [GDN_KERNEL_gated_delta_net] = "gated_delta_net",
        [GDN_KERNEL_ssm_conv] = "ssm_conv",
        [GDN_KERNEL_set_rows] = "set_rows",
    };
    return names[kernel];
}

static void name_pipeline(const gdn_context *ctx, gdn_kernel kernel, const gdn_plan *plan, char *text, size_t bytes)
{
    const gdn_gpu_driver *driver = ctx->backend->own;
    const uint32_t *constants = plan->gpu.constants;
    char implementation[GDN_NAME_MAX];
    gdn_gpu_name_plan(ctx, plan, implementation);
    if (!driver->pipeline_name)
        (void)snprintf(text, bytes, "%s (%s, shader %d, constants %u %u %u %u)", kernel_name(kernel), implementation,
                       (int)plan->gpu.device_kernel, (unsigned)constants[0], (unsigned)constants[1],
                       (unsigned)constants[2], (unsigned)constants[3]);
    else if (plan->gpu.device_kernel < 0) /* a kernel without variants */
        (void)snprintf(text, bytes, "%s (%s)", kernel_name(kernel), implementation);
    else
        (void)snprintf(text, bytes, "%s (%s, kernel %s)", kernel_name(kernel), implementation,
                       driver->pipeline_name(plan->gpu.device_kernel));
}

/* ---- A call ---- */

/* Makes a call and its plan from the call's number, over memory of the context. */
static gdn_status plan_call(const gdn_context *ctx, int number, void *data, gdn_gpu_test_call *call, gdn_problem *p,
                            gdn_plan *plan)
{
    static gdn_resolver *const resolve[GDN_KERNEL_COUNT] = {
        [GDN_KERNEL_gated_delta_net] = gdn_gated_delta_net_resolve,
        [GDN_KERNEL_ssm_conv] = gdn_ssm_conv_resolve,
        [GDN_KERNEL_set_rows] = gdn_set_rows_resolve,
    };
    gdn_gpu_test_call_of(number, data, call);
    return resolve[call->kernel](ctx, &call->args, plan, p);
}

typedef struct test_t {
    gdn_gpu_test_call call;
    gdn_problem p;
    gdn_plan plan;
    unsigned char *host; /* of GDN_SELF_TEST_BYTES, 64-byte aligned */
} test_t;

/* The reference's result of the call, in host memory, as a digest. Every call writes something. */
static gdn_status expected_of(int number, unsigned char *host, uint64_t *digest)
{
    gdn_context reference = { .backend = &gdn_backend_reference };
    test_t *x = malloc(sizeof *x);
    if (!x) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a self-test of %zu bytes", sizeof *x);
    gdn_gpu_test_call_of(number, host, &x->call);
    gdn_gpu_test_fill(&x->call, host); /* first: the reference reads maps when it plans */
    const uint64_t before = gdn_gpu_test_digest(&x->call, host);
    gdn_status status = plan_call(&reference, number, host, &x->call, &x->p, &x->plan);
    if (!status) status = gdn_backend_reference.run(&reference, &x->p, &x->plan, NULL);
    *digest = gdn_gpu_test_digest(&x->call, host);
    if (!status && *digest == before)
        status = gdn_fail(GDN_INTERNAL, "self-test %d: the reference writes nothing", number);
    free(x);
    return status;
}

/* Runs the planned call on the device and compares the result. */
static gdn_status judge(gdn_context *ctx, const gdn_span *memory, int number, const test_t *x)
{
    const gdn_gpu_test_call *call = &x->call;
    unsigned char *host = x->host;
    uint64_t expected = 0;
    gdn_status status = expected_of(number, host, &expected);
    if (status) return status;
    gdn_gpu_test_fill(call, host);
    if (!(status = ctx->backend->buffer_write(ctx, memory, 0, host, call->bytes)) &&
        !(status = ctx->backend->run(ctx, &x->p, &x->plan, NULL)) &&
        !(status = ctx->backend->buffer_read(ctx, memory, call->written, host + call->written,
                                             call->bytes - call->written))) {
        const uint64_t got = gdn_gpu_test_digest(call, host);
        char name[256];
        name_pipeline(ctx, call->kernel, &x->plan, name, sizeof name);
        if (got != expected)
            status =
                gdn_fail(GDN_UNSUPPORTED,
                         "%s computes wrong results in %s: self-test %d gives %016llx, the reference %016llx. "
                         "The driver, or the compiler in it, is at fault; GDN_KNOWN_ANSWERS=off in the environment "
                         "goes on all the same",
                         ((const gdn_gpu_context *)ctx->state)->about->name, name, number, (unsigned long long)got,
                         (unsigned long long)expected);
    }
    return status;
}

static int count_calls(gdn_gpu_test_call *call)
{
    return gdn_gpu_self_test_gated_delta_net(-1, call) + gdn_gpu_self_test_ssm_conv(-1, call) +
           gdn_gpu_self_test_set_rows(-1, call);
}

/* Finds the pipeline of each call, once for a context: later memory of the context has the same alignment. */
static void plan_all(gdn_context *ctx, void *data, test_t *x)
{
    gdn_gpu_self_test *self_test = &((gdn_gpu_context *)ctx->state)->self_test;
    for (int number = 0; !self_test->planned && number < GDN_SELF_TESTS; number++) {
        const gdn_status status = plan_call(ctx, number, data, &x->call, &x->p, &x->plan);
        self_test->known[number] = !status ? pipeline_of(ctx, x->call.kernel, &x->plan).id : 0;
        self_test->kind[number] = (unsigned char)x->call.kind;
    }
    self_test->planned = 1;
}

/* 1 if no call with a smaller number has the same kind and pipeline. */
static int is_first(const gdn_gpu_self_test *self_test, int number)
{
    for (int i = 0; i < number; i++)
        if (self_test->known[i] == self_test->known[number] && self_test->kind[i] == self_test->kind[number]) return 0;
    return 1;
}

static gdn_status test_call(gdn_context *ctx, const gdn_span *memory, int number, test_t *x)
{
    const gdn_status status = plan_call(ctx, number, memory->data, &x->call, &x->p, &x->plan);
    return status ? status : judge(ctx, memory, number, x);
}

/* Runs the calls of this pipeline. */
static gdn_status test_one(gdn_context *ctx, const gdn_gpu_pipeline *pipeline, const gdn_span *memory, test_t *x)
{
    gdn_gpu_self_test *self_test = &((gdn_gpu_context *)ctx->state)->self_test;
    int run = 0;
    plan_all(ctx, memory->data, x);
    for (int number = 0; number < GDN_SELF_TESTS; number++) {
        if (self_test->known[number] != pipeline->id || !is_first(self_test, number)) continue;
        const gdn_status status = test_call(ctx, memory, number, x);
        if (status) return status;
        run++;
    }
    if (!run)
        gdn_context_log(ctx, GDN_LOG_WARNING, "%s: no self-test for a pipeline of %s", ctx->backend->name,
                        kernel_name(pipeline->kernel));
    prove(pipeline->id);
    return GDN_OK;
}

/* Runs the calls of every pipeline. */
static gdn_status test_all(gdn_context *ctx, const gdn_span *memory, test_t *x)
{
    gdn_gpu_self_test *self_test = &((gdn_gpu_context *)ctx->state)->self_test;
    plan_all(ctx, memory->data, x);
    for (int number = 0; number < GDN_SELF_TESTS; number++) {
        if (!self_test->known[number] || !is_first(self_test, number)) continue;
        const gdn_status status = test_call(ctx, memory, number, x);
        if (status) return status;
    }
    return GDN_OK;
}

/* ---- Running the self-test ---- */

/* Tests one pipeline, or all if it is NULL, in a buffer made for it. An error of the test takes precedence over one of
 * freeing the buffer. */
static gdn_status with_memory(gdn_context *ctx, const gdn_gpu_pipeline *pipeline)
{
    gdn_gpu_self_test *self_test = &((gdn_gpu_context *)ctx->state)->self_test;
    gdn_span memory = { 0 };
    test_t *x = malloc(sizeof *x + GDN_SELF_TEST_BYTES + 64);
    if (!x) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a self-test of %zu bytes", sizeof *x);
    if (count_calls(&x->call) != GDN_SELF_TESTS) {
        free(x);
        return gdn_fail(GDN_INTERNAL, "GDN_SELF_TESTS is %d, and the kernels have another number", (int)GDN_SELF_TESTS);
    }
    x->host = (unsigned char *)(((uintptr_t)(x + 1) + 63) / 64 * 64);
    gdn_status status = ctx->backend->buffer_create(ctx, GDN_SELF_TEST_BYTES, &memory);
    if (!status) {
        char text[1024] = "";
        self_test->busy = 1;
        status = pipeline ? test_one(ctx, pipeline, &memory, x) : test_all(ctx, &memory, x);
        self_test->busy = 0;
        if (status) (void)snprintf(text, sizeof text, "%s", gdn_last_error());
        (void)ctx->backend->buffer_destroy(ctx, &memory);
        if (status) status = gdn_fail(status, "%s", text);
    }
    free(x);
    return status;
}

gdn_status gdn_gpu_self_test_open(const gdn_context *ctx)
{
    gdn_gpu_self_test *self_test = &((gdn_gpu_context *)ctx->state)->self_test;
    int on;
    const gdn_status status = gdn_environment_switch("GDN_KNOWN_ANSWERS", &on);
    self_test->off = !on;
    self_test->implementation = hash_implementation(ctx);
    return status;
}

gdn_status gdn_gpu_self_test_all(gdn_context *ctx)
{
    const gdn_gpu_context *dev = ctx->state;
    if (dev->self_test.off || !dev->implementation.exact) return GDN_OK;
    const uint64_t all = dev->self_test.implementation;
    if (is_proven(all)) return GDN_OK;
    const gdn_status status = with_memory(ctx, NULL);
    if (!status) prove(all);
    return status;
}

gdn_status gdn_gpu_self_test_plan(gdn_context *ctx, gdn_kernel kernel, const gdn_plan *plan, int recording)
{
    gdn_gpu_context *dev = ctx->state;
    gdn_gpu_self_test *self_test = &dev->self_test;
    if (self_test->off || self_test->busy || !dev->implementation.exact) return GDN_OK;
    const gdn_gpu_pipeline pipeline = pipeline_of(ctx, kernel, plan);
    if (is_proven(pipeline.id)) return GDN_OK;
    if (!recording) return with_memory(ctx, &pipeline);
    for (uint32_t i = 0; i < self_test->n_later; i++)
        if (self_test->later[i].id == pipeline.id) return GDN_OK;
    if (self_test->n_later == GDN_SELF_TESTS_LATER)
        return gdn_fail(
            GDN_UNSUPPORTED,
            "%d recorded kernels wait for their self-test; gdn_synchronize() with stream NULL runs it, and then "
            "others can be recorded",
            GDN_SELF_TESTS_LATER);
    self_test->later[self_test->n_later++] = pipeline;
    return GDN_OK;
}

gdn_status gdn_gpu_self_test_later(gdn_context *ctx)
{
    gdn_gpu_self_test *self_test = &((gdn_gpu_context *)ctx->state)->self_test;
    while (self_test->n_later) {
        const uint32_t last = self_test->n_later - 1;
        const gdn_gpu_pipeline pipeline = self_test->later[last];
        const gdn_status status = is_proven(pipeline.id) ? GDN_OK : with_memory(ctx, &pipeline);
        if (status && status != GDN_UNSUPPORTED) return status; /* the pipeline stays in the list */
        self_test->n_later = last;
        if (status) return status;
    }
    return GDN_OK;
}
