/* See suite.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/device/suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

step start, wanted, wanted_twice;

/* ---- The list ------------------------------------------------------------------------------------------ */

void suite_init(void)
{
    step_init(&start, 7);
    wanted = wanted_twice = start;
    step_reference(&wanted, 1);
    step_reference(&wanted_twice, 2);
}

int suite_run(const suite_test *tests, size_t n, void (*look)(const suite_test *test, int after), const char *only)
{
    int runs = 0;
    test_stops = only != NULL;
    for (size_t i = 0; i < n; i++) {
        const int before = test_failed;
        if (only && strcmp(tests[i].name, only)) continue;
        runs++;
        if (look) look(&tests[i], 0);
        tests[i].run();
        if (look) look(&tests[i], 1);
        (void)printf("%-20s %s\n", tests[i].name, test_failed == before ? "ok" : "FAILED");
    }
    if (!runs) (void)printf("nothing was run: there is no test '%s'\n", only);
    return test_summary();
}

/* ---- Contexts ------------------------------------------------------------------------------------------ */

gdn_context *suite_open(int32_t backend, const void *native, uint64_t timeout_ns)
{
    gdn_context *ctx = NULL;
    const gdn_context_desc desc =
        FIELDS(.size = sizeof desc, .backend = backend, .native = native, .timeout_ns = timeout_ns);
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
    return ctx;
}

int suite_asks(void)
{
    const char *value = getenv("GDN_KNOWN_ANSWERS");
    return !value || strcmp(value, "off") != 0;
}

void suite_refuses(const gdn_context_desc *desc, gdn_status status, const char *says)
{
    gdn_context *ctx = NULL;
    REQUIRE(gdn_context_create(desc, &ctx) == status && strstr(gdn_last_error(), says) && !ctx);
}

void suite_refuses_natives(gdn_context_desc desc, const suite_native *wrong, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        desc.native = wrong[i].native;
        suite_refuses(&desc, GDN_INVALID_ARGUMENT, wrong[i].says);
    }
}

void suite_refuses_names(gdn_context_desc desc)
{
    desc.device = 7;
    suite_refuses(&desc, GDN_NOT_FOUND, "device is 7");
    desc.device = 0;
    desc.implementation = "quick";
    suite_refuses(&desc, GDN_NOT_FOUND, "quick");
    desc.native = NULL;
    suite_refuses(&desc, GDN_NOT_FOUND, "quick");
}

gdn_status suite_try(const gdn_context_desc *desc, gdn_context **ctx, step_on *on, int *same)
{
    *same = 0;
    gdn_status status = gdn_context_create(desc, ctx);
    REQUIRE(!status == !!*ctx);
    if (!status && !(status = step_put(on, *ctx, &start)) && !(status = step_run(on, NULL)) &&
        !(status = gdn_synchronize(*ctx, NULL)))
        *same = step_same(on, &wanted);
    return status;
}

/* ---- Tests --------------------------------------------------------------------------------------------- */

/* Moves the step's states, after two steps, to the host and back into a device that has those of the beginning. */
void suite_move(const step_on *on)
{
    static float host[sizeof start.state / sizeof(float)];
    static unsigned char kept[sizeof host + 4096];
    gdn_record_item item = GDN_RECORD_ITEM;
    gdn_record record = GDN_INIT(gdn_record);
    step_on again;
    uint64_t bytes;
    item.name = "state";
    item.extent[4] = sizeof start.state / sizeof(float);
    item.memory.data = on->args.state.data;
    item.memory.offset = on->args.state.offset;
    record.items = &item;
    record.n_items = 1;
    record.number[0] = 2;
    REQUIRE(gdn_record_bytes(on->ctx, &record, &bytes) == GDN_OK && bytes <= sizeof kept);
    REQUIRE(gdn_record_write(on->ctx, &record, kept, bytes) == GDN_OK);

    gdn_context *reference = suite_open(GDN_BACKEND_REFERENCE, NULL, 0);
    item.memory.data = host;
    item.memory.offset = 0;
    REQUIRE(gdn_record_read(reference, &record, kept, bytes) == GDN_OK && record.number[0] == 2);
    REQUIRE(!memcmp(host, wanted_twice.state, sizeof host));

    REQUIRE(step_put(&again, on->ctx, &start) == GDN_OK);
    item.memory.data = again.args.state.data;
    item.memory.offset = again.args.state.offset;
    REQUIRE(gdn_record_read(on->ctx, &record, kept, bytes) == GDN_OK);
    memset(host, 0, sizeof host);
    REQUIRE(gdn_record_write(on->ctx, &record, kept, bytes) == GDN_OK);
    item.memory.data = host;
    item.memory.offset = 0;
    REQUIRE(gdn_record_read(reference, &record, kept, bytes) == GDN_OK &&
            !memcmp(host, wanted_twice.state, sizeof host));
    step_drop(&again);
    gdn_context_destroy(reference);
}

void suite_default(int32_t backend)
{
    step_on on;
    gdn_context *ctx = suite_open(backend, NULL, 0);
    gdn_device_info device = { .size = sizeof device };
    gdn_implementation_info info = { .size = sizeof info };
    REQUIRE(gdn_context_describe(ctx, &device, &info) == GDN_OK && device.emulated && !device.shared_memory &&
            (info.levels >> GDN_EXACT & 1));
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK &&
            gdn_synchronize(ctx, NULL) == GDN_OK);
    REQUIRE(step_same(&on, &wanted));
    REQUIRE(step_run(&on, NULL) == GDN_OK &&
            step_same(&on, &wanted_twice)); /* reading waits for the context's own stream */
    gdn_capability c = { .size = sizeof c };
    REQUIRE(gdn_gated_delta_net_query(ctx, &on.args, &c) == GDN_OK && c.emulated && c.exact && !c.workspace_bytes);
    suite_move(&on);
    step_close(&on);
}

typedef struct worker {
    pthread_t thread;
    int32_t backend;
    int queued, good;
    const step *expected;
} worker;

/* gdn_poll() on another thread than the context's. */
typedef struct poller {
    pthread_t thread;
    gdn_context *ctx;
    atomic_int leave;
    int good;
} poller;

static void *poll_until_told(void *of)
{
    poller *p = of;
    p->good = 1;
    do p->good &= gdn_poll(p->ctx) == GDN_OK && !sched_yield();
    while (!atomic_load(&p->leave));
    return NULL;
}

static void *work(void *of)
{
    worker *mine = of;
    step_on on;
    gdn_context *ctx = suite_open(mine->backend, NULL, 0);
    poller p = { .ctx = ctx };
    mine->good = pthread_create(&p.thread, NULL, poll_until_told, &p) == 0;
    for (int i = 0; i < 20; i++) {
        mine->good &= step_put(&on, ctx, &start) == GDN_OK;
        for (int n = 0; n < mine->queued; n++) mine->good &= step_run(&on, NULL) == GDN_OK;
        mine->good &= step_same(&on, mine->expected);
        step_drop(&on);
    }
    atomic_store(&p.leave, 1);
    mine->good &= pthread_join(p.thread, NULL) == 0 && p.good;
    gdn_context_destroy(ctx);
    return NULL;
}

void suite_two_threads(int32_t backend, int queued)
{
    static step expected;
    worker w[2];
    expected = start;
    step_reference(&expected, queued);
    for (int i = 0; i < 2; i++) {
        w[i] = (worker){ .backend = backend, .queued = queued, .expected = &expected };
        REQUIRE(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
    }
    for (int i = 0; i < 2; i++) REQUIRE(pthread_join(w[i].thread, NULL) == 0 && w[i].good);
}

void suite_bad_maps(int32_t backend)
{
    gdn_context *ctx = suite_open(backend, NULL, 0);
    device_bad_maps(ctx);
    gdn_context_destroy(ctx);
}

void suite_out_of_memory(gdn_context *ctx, const char *text)
{
    gdn_span span = { 0 };
    FAILS(gdn_buffer_create(ctx, UINT64_C(1) << 40, &span), GDN_OUT_OF_MEMORY, "no buffer of 1099511627776 bytes",
          text);
    REQUIRE(!span.data);
    REQUIRE(gdn_buffer_create(ctx, 1000, &span) == GDN_OK); /* and is given back with the context */
    gdn_context_destroy(ctx);
}

void suite_every_failure(const gdn_context_desc *desc, const suite_failing *driver, const suite_function *functions)
{
    int failed = 0;
    for (const suite_function *f = functions; f->name; f++)
        for (unsigned nth = 1, reached = 1; reached && nth < 60; nth++) {
            const long before = driver->alive();
            const unsigned long calls = driver->calls(f->name);
            gdn_context *ctx = NULL;
            step_on on = { 0 };
            int same;
            driver->fail(f->name, nth);
            const gdn_status status = suite_try(desc, &ctx, &on, &same);
            const int in_use = driver->calls(f->name) >= calls + nth; /* and not only in what follows */
            if (in_use && !f->optional) {
                failed++;
                REQUIRE((status || (driver->reads_fail && !same)) && strstr(gdn_last_error(), driver->text),
                        "failure %u of %s", nth, f->name);
            } else REQUIRE(!status && same);
            if (ctx) step_drop(&on);
            gdn_context_destroy(ctx);
            reached = driver->calls(f->name) >= calls + nth;
            driver->fail(f->name, 0);
            REQUIRE(driver->alive() == before || f->leaves, "%ld more after failure %u of %s", driver->alive() - before,
                    nth, f->name);
        }
    REQUIRE(failed >= driver->at_least, "%d", failed);
}

void suite_lost(step_on *on)
{
    gdn_context *ctx = on->ctx;
    gdn_span span = { 0 };
    const float x = 0.0f;
    FAILS(step_run(on, NULL), GDN_DEVICE_LOST, "can only be destroyed");
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_DEVICE_LOST && gdn_poll(ctx) == GDN_DEVICE_LOST);
    REQUIRE(gdn_buffer_create(ctx, 64, &span) == GDN_DEVICE_LOST);
    REQUIRE(gdn_buffer_write(ctx, &on->span[5], 0, &x, sizeof x) == GDN_DEVICE_LOST);
    step_close(on);
}

void suite_hang_begins(step_on *on, void (*hang)(int on), uint64_t *timeout_ns)
{
    float x = 0.0f;
    hang(1);
    *timeout_ns = UINT64_C(30000000);
    REQUIRE(step_run(on, NULL) == GDN_OK && gdn_poll(on->ctx) == GDN_OK);
    FAILS(gdn_synchronize(on->ctx, NULL), GDN_TIMEOUT, "30000000 ns");
    REQUIRE(gdn_buffer_read(on->ctx, &on->span[5], 0, &x, sizeof x) == GDN_TIMEOUT);
    REQUIRE(gdn_buffer_write(on->ctx, &on->span[5], 0, &x, sizeof x) == GDN_TIMEOUT);
}

void suite_hang_ends(step_on *on, void (*hang)(int on), uint64_t *timeout_ns)
{
    hang(0);
    *timeout_ns = UINT64_C(50000000000000); /* how long the emulator takes is not for a clock to say */
    REQUIRE(gdn_synchronize(on->ctx, NULL) == GDN_OK && step_same(on, &wanted));
}
