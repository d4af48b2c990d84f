/* The self-test: runs device kernels on self-test vectors. See answers.h. */
#include "gpu/answers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "core/kernels.h"
#include "core/status.h"
#include "gpu/context.h"

/* Pipelines of any context of this process that have passed. A device and its driver compile the same code to the same
 * pipeline, and programs create many contexts. If the list is full, a pipeline is tested again. */
enum { MOST_PROVEN = 2048 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint32_t n;
    uint64_t pipeline[MOST_PROVEN];
} proven;

static int is_proven(uint64_t pipeline)
{
    int found = 0;
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < proven.n && !found; i++) found = proven.pipeline[i] == pipeline;
    (void)pthread_mutex_unlock(&lock);
    return found;
}

static void prove(uint64_t pipeline)
{
    if (is_proven(pipeline)) return;
    (void)pthread_mutex_lock(&lock);
    if (proven.n < MOST_PROVEN) proven.pipeline[proven.n++] = pipeline;
    (void)pthread_mutex_unlock(&lock);
}

static void remember(gdn_gpu_answers *answers, uint64_t pipeline)
{
    answers->right[answers->n_right++ % GDN_ANSWERS_KNOWN] = pipeline;
}

static int is_right(const gdn_gpu_answers *answers, uint64_t pipeline)
{
    const uint32_t n = answers->n_right < GDN_ANSWERS_KNOWN ? answers->n_right : GDN_ANSWERS_KNOWN;
    for (uint32_t i = 0; i < n; i++)
        if (answers->right[i] == pipeline) return 1;
    return 0;
}

/* ---- Which pipeline ---- */

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < n; i++) h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* A hash of the implementation, the device and the driver. */
static uint64_t implementation_of(const gdn_context *ctx)
{
    const gdn_gpu_context *dev = ctx->state;
    const gdn_gpu_driver *driver = ctx->backend->own;
    const uint64_t device = driver->identity(dev);
    uint64_t h = mix(UINT64_C(0xcbf29ce484222325), ctx->backend->name, strlen(ctx->backend->name));
    h = mix(h, dev->about->name, strlen(dev->about->name));
    h = mix(h, dev->variant.name, strlen(dev->variant.name));
    h = mix(h, &dev->level, sizeof dev->level);
    return mix(h, &device, sizeof device);
}

/* The pipeline that a plan runs on. A kernel that runs as one of two parts of a call (plan->cut) is another pipeline on
 * some backends, and another path through the same pipeline on others. */
static gdn_gpu_pipeline pipeline_of(const gdn_context *ctx, gdn_kernel kernel, const gdn_plan *plan)
{
    const int32_t of[4] = { (int32_t)kernel, plan->variant, plan->cut != 0, plan->table_slots != 0 };
    const uint64_t h = mix(implementation_of(ctx), of, sizeof of);
    return (gdn_gpu_pipeline){ kernel, mix(h, plan->constants, sizeof plan->constants) };
}

static const char *kernel_name(gdn_kernel kernel)
{
    static const char *const names[GDN_KERNEL_COUNT] = {
#define GDN_KERNEL(stem, number, title) [GDN_KERNEL_##stem] = #stem,
#include "core/kernels.def"
#undef GDN_KERNEL
    };
    return names[kernel];
}

static void name_pipeline(const gdn_context *ctx, gdn_kernel kernel, const gdn_plan *plan, char *text, size_t bytes)
{
    const gdn_gpu_driver *driver = ctx->backend->own;
    const uint32_t *constants = plan->constants;
    char implementation[GDN_NAME_MAX];
    gdn_gpu_name_plan(ctx, plan, implementation);
    if (!driver->pipeline_name)
        (void)snprintf(text, bytes, "%s (%s, shader %d, constants %u %u %u %u)", kernel_name(kernel), implementation,
                       (int)plan->variant, (unsigned)constants[0], (unsigned)constants[1], (unsigned)constants[2],
                       (unsigned)constants[3]);
    else if (plan->variant < 0) /* a kernel without variants */
        (void)snprintf(text, bytes, "%s (%s)", kernel_name(kernel), implementation);
    else
        (void)snprintf(text, bytes, "%s (%s, kernel %s)", kernel_name(kernel), implementation,
                       driver->pipeline_name(plan->variant));
}

/* ---- A call ---- */

typedef union problem_t {
#define GDN_KERNEL(stem, number, title) gdn_##stem##_problem stem;
#include "core/kernels.def"
#undef GDN_KERNEL
} problem_t;

/* Makes a call and its plan from the call's number, over memory of the context. */
static gdn_status plan_call(const gdn_context *ctx, int number, void *data, gdn_gpu_answer_call *call, problem_t *p,
                            gdn_plan *plan)
{
    gdn_status status = GDN_OK;
    gdn_gpu_answer_call_of(number, data, call);
    switch (call->kernel) {
#define GDN_KERNEL(stem, number, title)                                                                                \
    case GDN_KERNEL_##stem:                                                                                            \
        status = gdn_##stem##_prepare(ctx, &call->args.stem, plan, &p->stem);                                          \
        break;
#include "core/kernels.def"
#undef GDN_KERNEL
    }
    return status;
}

typedef struct asked_t {
    gdn_gpu_answer_call call;
    problem_t p;
    gdn_plan plan;
    unsigned char *host; /* of GDN_ANSWER_BYTES, 64-byte aligned */
} asked_t;

/* The reference's result of the call, in host memory, as a digest. Every call writes something. */
static gdn_status expected_of(int number, unsigned char *host, uint64_t *digest)
{
    gdn_context reference = { .backend = &gdn_backend_reference };
    asked_t *x = malloc(sizeof *x);
    if (!x) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a known answer's call of %zu bytes", sizeof *x);
    gdn_gpu_answer_call_of(number, host, &x->call);
    gdn_gpu_answer_fill(&x->call, host); /* first: the reference reads maps when it plans */
    const uint64_t before = gdn_gpu_answer_digest(&x->call, host);
    gdn_status status = plan_call(&reference, number, host, &x->call, &x->p, &x->plan);
    if (!status) status = gdn_backend_reference.run(&reference, x->call.kernel, &x->p, &x->plan, NULL);
    *digest = gdn_gpu_answer_digest(&x->call, host);
    if (!status && *digest == before)
        status = gdn_fail(GDN_INTERNAL, "known answer %d: the reference writes nothing", number);
    free(x);
    return status;
}

/* Runs the planned call on the device and compares the result. */
static gdn_status judge(gdn_context *ctx, const gdn_span *memory, int number, const asked_t *x)
{
    const gdn_gpu_answer_call *call = &x->call;
    unsigned char *host = x->host;
    uint64_t expected = 0;
    gdn_status status = expected_of(number, host, &expected);
    if (status) return status;
    gdn_gpu_answer_fill(call, host);
    if (!(status = ctx->backend->buffer_write(ctx, memory, 0, host, call->bytes)) &&
        !(status = ctx->backend->run(ctx, call->kernel, &x->p, &x->plan, NULL)) &&
        !(status = ctx->backend->buffer_read(ctx, memory, call->written, host + call->written,
                                             call->bytes - call->written))) {
        const uint64_t got = gdn_gpu_answer_digest(call, host);
        char name[256];
        name_pipeline(ctx, call->kernel, &x->plan, name, sizeof name);
        if (got != expected)
            status =
                gdn_fail(GDN_UNSUPPORTED,
                         "%s computes wrong results in %s: known answer %d comes out as %016llx and not as %016llx. "
                         "The driver, or the compiler in it, is at fault; GDN_KNOWN_ANSWERS=off in the environment "
                         "goes on all the same",
                         ((const gdn_gpu_context *)ctx->state)->about->name, name, number, (unsigned long long)got,
                         (unsigned long long)expected);
    }
    return status;
}

static int count_calls(gdn_gpu_answer_call *call)
{
    int n = 0;
#define GDN_KERNEL(stem, number, title) n += gdn_gpu_answers_##stem(-1, call);
#include "core/kernels.def"
#undef GDN_KERNEL
    return n;
}

/* Finds the pipeline of each call, once for a context: later memory of the context has the same alignment. */
static void plan_all(gdn_context *ctx, void *data, asked_t *x)
{
    gdn_gpu_answers *answers = &((gdn_gpu_context *)ctx->state)->answers;
    for (int number = 0; !answers->planned && number < GDN_ANSWERS; number++) {
        const gdn_status status = plan_call(ctx, number, data, &x->call, &x->p, &x->plan);
        answers->known[number] = !status ? pipeline_of(ctx, x->call.kernel, &x->plan).id : 0;
        answers->kind[number] = (unsigned char)x->call.kind;
    }
    answers->planned = 1;
}

/* 1 if no call with a smaller number has the same kind and pipeline. */
static int is_first(const gdn_gpu_answers *answers, int number)
{
    for (int i = 0; i < number; i++)
        if (answers->known[i] == answers->known[number] && answers->kind[i] == answers->kind[number]) return 0;
    return 1;
}

static gdn_status ask_call(gdn_context *ctx, const gdn_span *memory, int number, asked_t *x)
{
    const gdn_status status = plan_call(ctx, number, memory->data, &x->call, &x->p, &x->plan);
    return status ? status : judge(ctx, memory, number, x);
}

/* Runs the calls of this pipeline. */
static gdn_status ask_one(gdn_context *ctx, const gdn_gpu_pipeline *pipeline, const gdn_span *memory, asked_t *x)
{
    gdn_gpu_answers *answers = &((gdn_gpu_context *)ctx->state)->answers;
    int asked = 0;
    plan_all(ctx, memory->data, x);
    for (int number = 0; number < GDN_ANSWERS; number++) {
        if (answers->known[number] != pipeline->id || !is_first(answers, number)) continue;
        const gdn_status status = ask_call(ctx, memory, number, x);
        if (status) return status;
        asked++;
    }
    if (!asked)
        gdn_context_log(ctx, GDN_LOG_WARNING, "%s: no known answer for a pipeline of %s", ctx->backend->name,
                        kernel_name(pipeline->kernel));
    remember(answers, pipeline->id);
    prove(pipeline->id);
    return GDN_OK;
}

/* Runs the calls of every pipeline. */
static gdn_status ask_all(gdn_context *ctx, const gdn_span *memory, asked_t *x)
{
    gdn_gpu_answers *answers = &((gdn_gpu_context *)ctx->state)->answers;
    plan_all(ctx, memory->data, x);
    for (int number = 0; number < GDN_ANSWERS; number++) {
        if (!answers->known[number] || !is_first(answers, number)) continue;
        const gdn_status status = ask_call(ctx, memory, number, x);
        if (status) return status;
        remember(answers, answers->known[number]);
    }
    return GDN_OK;
}

/* ---- Running the self-test ---- */

/* Tests one pipeline, or all if it is NULL, in a buffer made for it. An error of the test takes precedence over one of
 * freeing the buffer. */
static gdn_status with_memory(gdn_context *ctx, const gdn_gpu_pipeline *pipeline)
{
    gdn_gpu_answers *answers = &((gdn_gpu_context *)ctx->state)->answers;
    gdn_span memory = { 0 };
    asked_t *x = malloc(sizeof *x + GDN_ANSWER_BYTES + 64);
    if (!x) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a known answer's call of %zu bytes", sizeof *x);
    if (count_calls(&x->call) != GDN_ANSWERS) {
        free(x);
        return gdn_fail(GDN_INTERNAL, "GDN_ANSWERS is %d, and the kernels have another number", (int)GDN_ANSWERS);
    }
    x->host = (unsigned char *)(((uintptr_t)(x + 1) + 63) / 64 * 64);
    gdn_status status = ctx->backend->buffer_create(ctx, GDN_ANSWER_BYTES, &memory);
    if (!status) {
        char text[1024] = "";
        answers->busy = 1;
        status = pipeline ? ask_one(ctx, pipeline, &memory, x) : ask_all(ctx, &memory, x);
        answers->busy = 0;
        if (status) (void)snprintf(text, sizeof text, "%s", gdn_last_error());
        (void)ctx->backend->buffer_destroy(ctx, &memory);
        if (status) status = gdn_fail(status, "%s", text);
    }
    free(x);
    return status;
}

gdn_status gdn_gpu_answers_open(gdn_gpu_answers *answers)
{
    int on;
    const gdn_status status = gdn_environment_known_answers(&on);
    answers->off = !on;
    return status;
}

gdn_status gdn_gpu_answers_all(gdn_context *ctx)
{
    const gdn_gpu_context *dev = ctx->state;
    if (dev->answers.off || !dev->variant.exact) return GDN_OK;
    const uint64_t all = implementation_of(ctx);
    if (is_proven(all)) return GDN_OK;
    const gdn_status status = with_memory(ctx, NULL);
    if (!status) prove(all);
    return status;
}

gdn_status gdn_gpu_answers_ask(gdn_context *ctx, gdn_kernel kernel, const gdn_plan *plan, int recording)
{
    gdn_gpu_context *dev = ctx->state;
    gdn_gpu_answers *answers = &dev->answers;
    if (answers->off || answers->busy || !dev->variant.exact) return GDN_OK;
    const gdn_gpu_pipeline pipeline = pipeline_of(ctx, kernel, plan);
    if (is_right(answers, pipeline.id)) return GDN_OK;
    if (is_proven(pipeline.id)) {
        remember(answers, pipeline.id);
        return GDN_OK;
    }
    if (!recording) return with_memory(ctx, &pipeline);
    for (uint32_t i = 0; i < answers->n_later; i++)
        if (answers->later[i].id == pipeline.id) return GDN_OK;
    if (answers->n_later == GDN_ANSWERS_LATER)
        return gdn_fail(GDN_UNSUPPORTED,
                        "%d kernels are recorded that have not been asked for their known answers; gdn_synchronize() "
                        "with stream NULL asks them, and then others can be recorded",
                        GDN_ANSWERS_LATER);
    answers->later[answers->n_later++] = pipeline;
    return GDN_OK;
}

gdn_status gdn_gpu_answers_later(gdn_context *ctx)
{
    gdn_gpu_answers *answers = &((gdn_gpu_context *)ctx->state)->answers;
    while (answers->n_later) {
        const uint32_t last = answers->n_later - 1;
        const gdn_gpu_pipeline pipeline = answers->later[last];
        const gdn_status status = is_right(answers, pipeline.id) ? GDN_OK : with_memory(ctx, &pipeline);
        if (status && status != GDN_UNSUPPORTED) return status; /* the pipeline stays in the list */
        answers->n_later = last;
        if (status) return status;
    }
    return GDN_OK;
}
