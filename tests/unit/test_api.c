/* The public interface: what every function accepts and refuses. Here: versions, lists, contexts and buffers.
 * test_api_args.c has the bad arguments of the kernels, test_api_calls.c the calls that are allowed. */
#define _POSIX_C_SOURCE 200809L /* setenv, where <stdlib.h> has it */
#include "test_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/structs.h"
#include "gdn/vulkan.h"
#include "system/libc.h"
#include "system/system.h"

/* ---- Status and versions --------------------------------------------------------------------------------- */

static void statuses(void)
{
    /* The numbers are part of the interface, so they are written out here once more. */
    static const struct {
        gdn_status status;
        int value;
        const char *name;
    } all[] = {
        { GDN_OK, 0, "GDN_OK" },
        { GDN_INVALID_ARGUMENT, 1, "GDN_INVALID_ARGUMENT" },
        { GDN_UNSUPPORTED, 2, "GDN_UNSUPPORTED" },
        { GDN_OUT_OF_MEMORY, 3, "GDN_OUT_OF_MEMORY" },
        { GDN_NOT_FOUND, 4, "GDN_NOT_FOUND" },
        { GDN_UNAVAILABLE, 5, "GDN_UNAVAILABLE" },
        { GDN_DEVICE_LOST, 6, "GDN_DEVICE_LOST" },
        { GDN_TIMEOUT, 7, "GDN_TIMEOUT" },
        { GDN_BAD_MAP, 8, "GDN_BAD_MAP" },
        { GDN_INTERNAL, 9, "GDN_INTERNAL" },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        REQUIRE(all[i].status == all[i].value && !strcmp(gdn_status_name(all[i].status), all[i].name));
    }
    const gdn_status others[] = { -1, 10, 11, 1000, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        REQUIRE(!strcmp(gdn_status_name(others[i]), "unknown status"));
}

static void versions(void)
{
    REQUIRE(gdn_version() == (GDN_VERSION_MAJOR << 16 | GDN_VERSION_MINOR << 8 | GDN_VERSION_PATCH));
    REQUIRE(gdn_abi_version() == GDN_ABI_VERSION);
}

static void *first_error_of_a_thread(void *arg)
{
    *(int *)arg = gdn_last_error() && !gdn_last_error()[0];
    (void)gdn_buffer_create(NULL, 1, NULL);
    return NULL;
}

static void last_error(void)
{
    gdn_thread thread;
    int empty = 0;
    (void)gdn_poll(NULL);
    char mine[256];
    (void)snprintf(mine, sizeof mine, "%s", gdn_last_error());
    NEED(gdn_thread_start(&thread, 0, first_error_of_a_thread, &empty));
    gdn_thread_join(thread);
    REQUIRE(empty);                           /* nothing has failed there yet */
    REQUIRE(!strcmp(gdn_last_error(), mine)); /* and its failure is not ours  */
    /* A success leaves the text alone. */
    gdn_backend_info info = { .size = sizeof info };
    REQUIRE(!gdn_backend_describe(GDN_BACKEND_CPU, &info) && !strcmp(gdn_last_error(), mine));
}

/* ---- Lists ------------------------------------------------------------------------------------------------- */

static void backends(void)
{
    static const char *const names[] = { "cpu", "reference", "cuda", "vulkan", "metal" };
    REQUIRE(GDN_BACKEND_COUNT == 5);
    for (uint32_t b = 0; b < GDN_BACKEND_COUNT; b++) {
        gdn_backend_info info;
        memset(&info, 0xab, sizeof info);
        info.size = sizeof info;
        REQUIRE(!gdn_backend_describe(b, &info));
        REQUIRE(info.size == sizeof info && info.backend == b && info.reserved == 0 && !strcmp(info.name, names[b]));
        REQUIRE(info.available == (info.n_devices > 0));
        REQUIRE(info.built || !info.available);
        REQUIRE((info.reason[0] == 0) == info.available); /* a reason exactly where there is nothing */
        if (b == GDN_BACKEND_CPU || b == GDN_BACKEND_REFERENCE) {
            REQUIRE(info.built == 1 && info.n_devices == 1);
        }
    }
    gdn_backend_info info = { .size = sizeof info };
    FAILS(gdn_backend_describe(GDN_BACKEND_COUNT, &info), GDN_NOT_FOUND, "backend is 5", "0..4");
    FAILS(gdn_backend_describe(UINT32_MAX, &info), GDN_NOT_FOUND, "backend is 4294967295");
}

static void devices(void)
{
    for (uint32_t b = 0; b < GDN_BACKEND_COUNT; b++) {
        gdn_backend_info backend = { .size = sizeof backend };
        gdn_device_info device = { .size = sizeof device };
        gdn_implementation_info info = { .size = sizeof info };
        REQUIRE(!gdn_backend_describe(b, &backend));
        if (!backend.available) {
            FAILS(gdn_device_describe(b, 0, &device), GDN_UNAVAILABLE, backend.name, backend.reason);
            FAILS(gdn_implementation_describe(b, 0, 0, &info), GDN_UNAVAILABLE, backend.name);
            continue;
        }
        for (uint32_t d = 0; d < backend.n_devices; d++) {
            memset(&device, 0xab, sizeof device);
            device.size = sizeof device;
            REQUIRE(!gdn_device_describe(b, d, &device));
            REQUIRE(device.backend == b && device.device == d && device.n_implementations > 0);
            REQUIRE(device.name[0] && memchr(device.name, 0, sizeof device.name));
            for (uint32_t i = 0; i < device.n_implementations; i++) {
                memset(&info, 0xab, sizeof info);
                info.size = sizeof info;
                REQUIRE(!gdn_implementation_describe(b, d, i, &info));
                REQUIRE(info.name[0] && memchr(info.name, 0, sizeof info.name));
                REQUIRE((info.reason[0] == 0) ==
                        (info.levels >> GDN_EXACT & 1)); /* a reason exactly where it lacks that */
            }
            FAILS(gdn_implementation_describe(b, d, device.n_implementations, &info), GDN_NOT_FOUND, "index is ");
            FAILS(gdn_implementation_describe(b, d, UINT32_MAX, &info), GDN_NOT_FOUND, "index is 4294967295");
        }
        char text[32];
        (void)snprintf(text, sizeof text, "device is %u", (unsigned)backend.n_devices);
        FAILS(gdn_device_describe(b, backend.n_devices, &device), GDN_NOT_FOUND, text, backend.name);
        FAILS(gdn_implementation_describe(b, UINT32_MAX, 0, &info), GDN_NOT_FOUND, "device is 4294967295");
    }
    gdn_device_info device = { .size = sizeof device };
    FAILS(gdn_device_describe(99, 0, &device), GDN_NOT_FOUND, "backend is 99");
    /* The CPU's last implementation is the portable one, and both host backends share memory. */
    gdn_implementation_info info = { .size = sizeof info };
    REQUIRE(!gdn_device_describe(GDN_BACKEND_CPU, 0, &device) && device.shared_memory == 1 && device.emulated == 0);
    REQUIRE(!gdn_implementation_describe(GDN_BACKEND_CPU, 0, device.n_implementations - 1, &info));
    REQUIRE(!strcmp(info.name, "scalar") && info.levels >> GDN_EXACT & 1);
}

/* Structs that the library fills, at sizes that are older, newer or wrong. */
static void described_sizes(void)
{
    _Alignas(16) unsigned char grown[1024];
    gdn_context *ctx = api_target_list[0].ctx;
    gdn_device_info device = { .size = sizeof device };
    gdn_implementation_info info = { .size = sizeof info };
#define DESCRIBED(type, call)                                                                                          \
    do {                                                                                                               \
        const uint32_t wrong[] = { 0, 3, 4, (uint32_t)GDN_FIRST_SIZE(type) - 1, 65537, UINT32_MAX };                   \
        for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {                                                  \
            unsigned char before[sizeof grown];                                                                        \
            memset(grown, 0xab, sizeof grown);                                                                         \
            memcpy(grown, &wrong[w], 4);                                                                               \
            memcpy(before, grown, sizeof grown);                                                                       \
            void *at = grown;                                                                                          \
            FAILS(call, GDN_INVALID_ARGUMENT, "->size is ");                                                           \
            REQUIRE(!memcmp(grown, before, sizeof grown));                                                             \
        }                                                                                                              \
        const uint32_t newer = sizeof(type) + 40;                                                                      \
        memset(grown, 0xab, sizeof grown);                                                                             \
        memcpy(grown, &newer, 4);                                                                                      \
        void *at = grown;                                                                                              \
        REQUIRE(call == GDN_OK);                                                                                       \
        REQUIRE(!memcmp(grown, &newer, 4));                                                                            \
        for (size_t i = sizeof(type); i < newer; i++) REQUIRE(grown[i] == 0); /* what we do not know is nothing */     \
        REQUIRE(grown[newer] == 0xab);                                                                                 \
        at = NULL;                                                                                                     \
        FAILS(call, GDN_INVALID_ARGUMENT, " is NULL");                                                                 \
    } while (0)
    DESCRIBED(gdn_backend_info, gdn_backend_describe(GDN_BACKEND_CPU, at));
    DESCRIBED(gdn_device_info, gdn_device_describe(GDN_BACKEND_CPU, 0, at));
    DESCRIBED(gdn_implementation_info, gdn_implementation_describe(GDN_BACKEND_CPU, 0, 0, at));
    on_delta.reset();
    DESCRIBED(gdn_capability, delta_query(ctx, &delta_args, at));

    /* gdn_context_describe: either may be NULL, and a failure of one writes none of the two. */
    REQUIRE(!gdn_context_describe(ctx, NULL, NULL));
    REQUIRE(!gdn_context_describe(ctx, &device, NULL));
    REQUIRE(!gdn_context_describe(ctx, NULL, &info));
    REQUIRE(device.backend == GDN_BACKEND_REFERENCE && !strcmp(info.name, "scalar"));
    FAILS(gdn_context_describe(NULL, &device, &info), GDN_INVALID_ARGUMENT, "ctx is NULL");
    gdn_device_info pattern, written;
    memset(&pattern, 0xab, sizeof pattern);
    pattern.size = sizeof pattern;
    written = pattern;
    info.size = 8;
    FAILS(gdn_context_describe(ctx, &written, &info), GDN_INVALID_ARGUMENT, "->size is 8");
    REQUIRE(!memcmp(&written, &pattern, sizeof pattern));
}

/* Growth, as a later release will see it: this library knows a member that an older caller does not have. */
static void growth(void)
{
    struct old {
        uint32_t size, a;
    };
    struct {
        struct old old;
        uint32_t behind[2]; /* which the library must not take for members */
    } caller = { { sizeof caller.old, 1 }, { 5, 6 } };
    struct now {
        uint32_t size, a, b, c;
    } copy, full = { 99, 2, 3, 4 };
    REQUIRE(!gdn_struct_read("s", &caller, sizeof caller.old, sizeof copy, &copy) && copy.a == 1);
    REQUIRE(copy.b == 0 && copy.c == 0); /* zero is the default */
    struct {
        struct old old;
        uint32_t canary;
    } target = { { sizeof target.old, 0 }, 7 };
    gdn_struct_write(&target, &full, sizeof full);
    REQUIRE(target.old.size == sizeof target.old); /* the caller's own */
    REQUIRE(target.old.a == 2 && target.canary == 7);
    caller.old.size = 4;
    FAILS(gdn_struct_read("s", &caller, sizeof caller.old, sizeof copy, &copy), GDN_INVALID_ARGUMENT, "s->size is 4",
          "at least 8");
}

/* ---- Contexts ---------------------------------------------------------------------------------------------- */

typedef struct listener {
    int lines, errors;
    char last[256];
} listener;

static void listen(void *user, int32_t level, const char *message)
{
    listener *l = user;
    l->lines++;
    l->errors += level < GDN_LOG_ERROR || level > GDN_LOG_DEBUG || strchr(message, '\n') != NULL || !message[0];
    (void)snprintf(l->last, sizeof l->last, "%s", message);
}

static void *one_alloc(void *user, uint64_t bytes, uint64_t alignment)
{
    (void)user, (void)bytes, (void)alignment;
    return NULL;
}

static void one_free(void *user, void *memory) { (void)user, (void)memory; }

static void contexts(void)
{
    gdn_context *ctx = NULL;
    gdn_context_desc desc = { .size = sizeof desc };
    gdn_device_info device = { .size = sizeof device };
    gdn_implementation_info best = { .size = sizeof best }, info = { .size = sizeof info };

    /* All zeros: the CPU with its best instruction set. */
    REQUIRE(!gdn_context_create(&desc, &ctx) && ctx);
    REQUIRE(!gdn_context_describe(ctx, &device, &info) && device.backend == GDN_BACKEND_CPU);
    REQUIRE(!gdn_implementation_describe(GDN_BACKEND_CPU, 0, 0, &best) && !strcmp(info.name, best.name));
    REQUIRE(!gdn_synchronize(ctx, NULL));
    REQUIRE(!gdn_poll(ctx));
    FAILS(gdn_synchronize(ctx, &desc), GDN_INVALID_ARGUMENT, "stream is ", "must be NULL");
    FAILS(gdn_synchronize(NULL, NULL), GDN_INVALID_ARGUMENT, "ctx is NULL");
    FAILS(gdn_poll(NULL), GDN_INVALID_ARGUMENT, "ctx is NULL");
    void *semaphore = &desc;
    uint64_t value = 1;
    FAILS(gdn_vulkan_timeline(ctx, &semaphore, &value), GDN_UNSUPPORTED, "the cpu backend has no timeline semaphore");
    REQUIRE(!semaphore && !value);
    FAILS(gdn_vulkan_timeline(NULL, &semaphore, &value), GDN_INVALID_ARGUMENT, "ctx is NULL");
    FAILS(gdn_vulkan_timeline(ctx, NULL, &value), GDN_INVALID_ARGUMENT, "semaphore is NULL");
    FAILS(gdn_vulkan_timeline(ctx, &semaphore, NULL), GDN_INVALID_ARGUMENT, "value is NULL");
    gdn_context_destroy(ctx);
    gdn_context_destroy(NULL);

    FAILS(gdn_context_create(&desc, NULL), GDN_INVALID_ARGUMENT, "ctx is NULL");
#define CREATE(change, status, ...)                                                                                    \
    do {                                                                                                               \
        gdn_context_desc e = { .size = sizeof e };                                                                     \
        ctx = (gdn_context *)&device; /* is set to NULL */                                                             \
        change;                                                                                                        \
        FAILS(gdn_context_create(&e, &ctx), status, __VA_ARGS__);                                                      \
        REQUIRE(!ctx);                                                                                                 \
    } while (0)
    ctx = (gdn_context *)&device;
    FAILS(gdn_context_create(NULL, &ctx), GDN_INVALID_ARGUMENT, "desc is NULL");
    REQUIRE(!ctx);
    CREATE(e.size = 0, GDN_INVALID_ARGUMENT, "desc->size is 0");
    CREATE(e.size = (uint32_t)offsetof(gdn_context_desc, level) - 1, GDN_INVALID_ARGUMENT, "desc->size is", "at least");
    CREATE(e.backend = 5, GDN_NOT_FOUND, "backend is 5");
    CREATE(e.device = 1, GDN_NOT_FOUND, "device is 1", "cpu");
    CREATE(e.implementation = "avx1024", GDN_NOT_FOUND, "avx1024", "scalar");
    CREATE(e.implementation = "", GDN_NOT_FOUND, "\"\"");
    CREATE(e.n_threads = 4097, GDN_INVALID_ARGUMENT, "n_threads is 4097", "4096");
    CREATE(e.alloc = one_alloc, GDN_INVALID_ARGUMENT, "desc->free is NULL", "both");
    CREATE(e.free = one_free, GDN_INVALID_ARGUMENT, "desc->alloc is NULL", "both");
    CREATE(e.level = 2, GDN_INVALID_ARGUMENT, "desc->level is 2", "GDN_EXACT (0)", "GDN_EXACT_FTZ (1)");
    CREATE(e.reserved = 1, GDN_INVALID_ARGUMENT, "desc->reserved is 1");
    CREATE(e.native = &device, GDN_INVALID_ARGUMENT, "desc->native", "must be NULL");
    CREATE((e.native = &device, e.backend = 1), GDN_INVALID_ARGUMENT, "desc->native", "must be NULL");
    CREATE((e.alloc = one_alloc, e.free = one_free), GDN_OUT_OF_MEMORY, "no memory");
    for (uint32_t b = 0; b < GDN_BACKEND_COUNT; b++) {
        gdn_backend_info backend = { .size = sizeof backend };
        REQUIRE(!gdn_backend_describe(b, &backend));
        if (!backend.available) CREATE(e.backend = b, GDN_UNAVAILABLE, backend.name, backend.reason);
    }

    /* A newer caller whose new members are zero, and one that wants something. */
    struct {
        gdn_context_desc old;
        uint64_t more;
    } newer = { .old = { .size = sizeof newer } };
    REQUIRE(!gdn_context_create(&newer.old, &ctx));
    gdn_context_destroy(ctx);
    newer.more = 1;
    FAILS(gdn_context_create(&newer.old, &ctx), GDN_INVALID_ARGUMENT, "desc has a member at byte");
    REQUIRE(!ctx);
}

/* Which subnormal numbers a multiplication of the convolution keeps, at each level and of every implementation; one
 * that has no such level is refused. */
static void levels(void)
{
    static const float least = 0x1p-126f, subnormal = 0x1p-127f, half = 0.5f, one = 1;
    const struct {
        const float *weight, *x;
        float at[GDN_LEVEL_COUNT];
    } tests[] = { { &one, &least, { 0x1p-126f, 0x1p-126f } },
                  { &half, &least, { 0x1p-127f, 0 } }, /* the result is subnormal */
                  { &one, &subnormal, { 0x1p-127f, 0 } } /* an operand is */ };
    const uint32_t backend[] = { GDN_BACKEND_CPU, GDN_BACKEND_REFERENCE };
    gdn_implementation_info info = { .size = sizeof info };
    int n_flushing = 0;
    for (int b = 0; b < 2; b++)
        for (uint32_t i = 0; gdn_implementation_describe(backend[b], 0, i, &info) == GDN_OK; i++)
            for (uint32_t level = 0; level < GDN_LEVEL_COUNT; level++) {
                gdn_context_desc desc =
                    FIELDS(.size = sizeof desc, .backend = backend[b], .implementation = info.name, .level = level);
                gdn_context *ctx = NULL;
                REQUIRE(info.levels & 1u << GDN_EXACT);
                if (!(info.levels >> level & 1)) {
                    FAILS(gdn_context_create(&desc, &ctx), GDN_UNSUPPORTED, "GDN_EXACT_FTZ", info.name,
                          "can be opened at GDN_EXACT");
                    continue;
                }
                REQUIRE(!gdn_context_create(&desc, &ctx));
                n_flushing += level == GDN_EXACT_FTZ;
                for (size_t t = 0; t < sizeof tests / sizeof tests[0]; t++) {
                    float weight = *tests[t].weight, x = *tests[t].x, out = 1, history = 0;
                    gdn_ssm_conv_args a = FIELDS(.size = sizeof a, .n_seqs = 1, .n_tokens = 1, .n_channels = 1,
                                                 .kernel_width = 1, .history.n_rows = 1);
                    a.x.data = &x, a.weight.data = &weight, a.history.data = &history, a.out.data = &out;
                    REQUIRE(!gdn_ssm_conv(ctx, &a, NULL) && !memcmp(&out, &tests[t].at[level], 4));
                }
                gdn_context_destroy(ctx);
            }
    REQUIRE(n_flushing >= 2); /* the reference, and "scalar" */

    /* Where none is named, the best that has the level. */
    gdn_context_desc desc = { .size = sizeof desc, .level = GDN_EXACT_FTZ };
    gdn_context *ctx = NULL;
    REQUIRE(!gdn_context_create(&desc, &ctx));
    REQUIRE(!gdn_context_describe(ctx, NULL, &info) && (info.levels >> GDN_EXACT & 1) &&
            info.levels >> GDN_EXACT_FTZ & 1);
    gdn_context_destroy(ctx);
}

static void implementations(void)
{
    gdn_implementation_info info = { .size = sizeof info }, chosen = { .size = sizeof chosen };
    const uint32_t backend[] = { GDN_BACKEND_CPU, GDN_BACKEND_REFERENCE };
    for (int b = 0; b < 2; b++)
        for (uint32_t i = 0; gdn_implementation_describe(backend[b], 0, i, &info) == GDN_OK; i++) {
            listener l = { 0 };
            char name[GDN_NAME_MAX];
            (void)snprintf(name, sizeof name, "%s", info.name);
            gdn_context_desc desc = FIELDS(.size = sizeof desc, .backend = backend[b], .implementation = name,
                                           .log = listen, .log_user = &l, .n_threads = 4096);
            gdn_context *ctx = NULL;
            REQUIRE(!gdn_context_create(&desc, &ctx));
            memset(name, 'x', sizeof name); /* the string need not outlive the call */
            REQUIRE(!gdn_context_describe(ctx, NULL, &chosen) && !strcmp(chosen.name, info.name));
            gdn_context_destroy(ctx);
            REQUIRE(l.lines > 0 && l.errors == 0 && strstr(l.last, info.name));
        }
}

/* ---- Buffers ----------------------------------------------------------------------------------------------- */

static void buffers(void)
{
    for (int i = 0; i < api_target_count; i++) {
        gdn_context *ctx = api_target_list[i].ctx;
        const uint64_t sizes[] = { 1, 63, 64, 4097 };
        for (int n = 0; n < 4; n++) {
            unsigned char in[4097], out[4097];
            gdn_span span = { 0 };
            REQUIRE(!gdn_buffer_create(ctx, sizes[n], &span) && span.bytes == sizes[n] && span.offset == 0);
            REQUIRE((uintptr_t)span.data % 64 == 0);
            for (size_t k = 0; k < sizeof in; k++) in[k] = (unsigned char)(k * 7 + n);
            memset(out, 0, sizeof out);
            REQUIRE(!gdn_buffer_write(ctx, &span, 0, in, sizes[n]));
            REQUIRE(!gdn_buffer_read(ctx, &span, 0, out, sizes[n]) && !memcmp(in, out, (size_t)sizes[n]));
            REQUIRE(!gdn_buffer_read(ctx, &span, sizes[n] - 1, out, 1) && out[0] == in[sizes[n] - 1]);
            REQUIRE(!gdn_buffer_read(ctx, &span, sizes[n], NULL, 0)); /* nothing, at the end */
            REQUIRE(!gdn_buffer_write(ctx, &span, sizes[n], NULL, 0));
            /* Beyond the end, also where offset + bytes wraps around; and nothing is copied. */
            const uint64_t bad[][2] = {
                { 0, sizes[n] + 1 }, { sizes[n], 1 }, { 1, sizes[n] }, { UINT64_MAX, 1 }, { 1, UINT64_MAX }
            };
            for (int k = 0; k < 5; k++) {
                memset(out, 0xab, sizeof out);
                FAILS(gdn_buffer_read(ctx, &span, bad[k][0], out, bad[k][1]), GDN_INVALID_ARGUMENT, "leave the span");
                FAILS(gdn_buffer_write(ctx, &span, bad[k][0], out, bad[k][1]), GDN_INVALID_ARGUMENT, "leave the span");
                REQUIRE(out[0] == 0xab);
            }
            REQUIRE(!gdn_buffer_read(ctx, &span, 0, out, sizes[n]) && !memcmp(in, out, (size_t)sizes[n]));
            FAILS(gdn_buffer_write(ctx, &span, 0, NULL, 1), GDN_INVALID_ARGUMENT, "source is NULL");
            FAILS(gdn_buffer_read(ctx, &span, 0, NULL, 1), GDN_INVALID_ARGUMENT, "target is NULL");
            FAILS(gdn_buffer_write(NULL, &span, 0, in, 1), GDN_INVALID_ARGUMENT, "ctx is NULL");
            FAILS(gdn_buffer_read(NULL, &span, 0, out, 1), GDN_INVALID_ARGUMENT, "ctx is NULL");
            FAILS(gdn_buffer_write(ctx, NULL, 0, in, 1), GDN_INVALID_ARGUMENT, "span is NULL");
            gdn_buffer_destroy(ctx, &span);
            REQUIRE(!span.data && span.bytes == 0);
            FAILS(gdn_buffer_read(ctx, &span, 0, out, 1), GDN_INVALID_ARGUMENT, "span->data is NULL");
            gdn_buffer_destroy(ctx, &span); /* twice is harmless */
        }
        gdn_span span = { 0 };
        /* A call that fails leaves the span alone, and frees nothing that is not its own. */
        gdn_span kept = { .data = &kept, .offset = 3, .bytes = 7 };
        FAILS(gdn_buffer_create(ctx, 0, &kept), GDN_INVALID_ARGUMENT, "bytes is 0");
        FAILS(gdn_buffer_destroy(ctx, &kept), GDN_INVALID_ARGUMENT, "span->data is", "gdn_buffer_create()");
        REQUIRE(kept.data == &kept && kept.offset == 3 && kept.bytes == 7);
        gdn_span twice;
        REQUIRE(!gdn_buffer_create(ctx, 64, &twice));
        kept = twice;
        FAILS(gdn_buffer_destroy(NULL, &twice), GDN_INVALID_ARGUMENT, "ctx is NULL");
        REQUIRE(!gdn_buffer_destroy(ctx, &twice));
        REQUIRE(!twice.data && gdn_buffer_destroy(ctx, &twice) == GDN_OK && gdn_buffer_destroy(ctx, NULL) == GDN_OK);
        FAILS(gdn_buffer_destroy(ctx, &kept), GDN_INVALID_ARGUMENT, "destroyed already");
        FAILS(gdn_buffer_create(ctx, 0, &span), GDN_INVALID_ARGUMENT, "bytes is 0", "2^46");
        FAILS(gdn_buffer_create(ctx, (UINT64_C(1) << 46) + 1, &span), GDN_INVALID_ARGUMENT, "bytes is 70368744177665");
        FAILS(gdn_buffer_create(ctx, UINT64_MAX, &span), GDN_INVALID_ARGUMENT, "bytes is 18446744073709551615");
        FAILS(gdn_buffer_create(ctx, 64, NULL), GDN_INVALID_ARGUMENT, "span is NULL");
        FAILS(gdn_buffer_create(NULL, 64, &span), GDN_INVALID_ARGUMENT, "ctx is NULL");
        gdn_buffer_destroy(ctx, NULL);
        gdn_buffer_destroy(NULL, &span);
        /* A span of the caller's own, with an offset. */
        char own[16] = "0123456789abcde", got[4] = "";
        const gdn_span at = { .data = own, .offset = 4, .bytes = 8 };
        REQUIRE(!gdn_buffer_read(ctx, &at, 2, got, 3) && !strcmp(got, "678"));
        REQUIRE(!gdn_buffer_write(ctx, &at, 0, "xyz", 3) && !strcmp(own, "0123xyz789abcde"));
    }
}

/* ---- The environment -------------------------------------------------------------------------------------- */

static void count_line(void *user, int32_t level, const char *message)
{
    (void)level, (void)message;
    ++*(int *)user;
}

/* What a context of the backend is with the variable set, or the status; what it writes to standard error goes to
 * `said`. */
static gdn_status create_with(const char *variable, const char *value, gdn_context_desc desc,
                              gdn_implementation_info *info, char said[512])
{
    FILE *file = tmpfile();
    REQUIRE(file);
    const int before = dup(STDERR_FILENO);
    (void)fflush(stderr);
    REQUIRE(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    REQUIRE(!setenv(variable, value, 1));
    gdn_context *ctx;
    gdn_status status = gdn_context_create(&desc, &ctx);
    REQUIRE(!unsetenv(variable)); /* read at creation, and never again */
    info->size = sizeof *info;
    if (!status) status = gdn_context_describe(ctx, NULL, info);
    gdn_context_destroy(ctx);
    (void)fflush(stderr);
    REQUIRE(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    rewind(file);
    said[fread(said, 1, 511, file)] = 0;
    (void)fclose(file);
    return status;
}

static void environment(void)
{
    gdn_implementation_info info;
    char said[512];
    gdn_context_desc cpu = { .size = sizeof cpu }, other = { .size = sizeof other, .backend = GDN_BACKEND_REFERENCE };
    char *saved[2] = { getenv("GDN_LOG"), getenv("GDN_IMPLEMENTATION") };
    for (int i = 0; i < 2; i++) saved[i] = saved[i] ? strdup(saved[i]) : NULL;
    (void)unsetenv("GDN_LOG"), (void)unsetenv("GDN_IMPLEMENTATION");

#define NAMED(value, desc, text)                                                                                       \
    REQUIRE(!create_with("GDN_IMPLEMENTATION", value, desc, &info, said));                                             \
    REQUIRE(!strcmp(info.name, text))
    gdn_implementation_info best = { .size = sizeof best };
    REQUIRE(!gdn_implementation_describe(GDN_BACKEND_CPU, 0, 0, &best));
    NAMED("scalar", cpu, "scalar");
    NAMED("cpu:scalar", cpu, "scalar");
    NAMED("", cpu, best.name);
    NAMED("cuda:sse9", cpu, best.name); /* another backend's matter */
    NAMED("cpu:sse9", other, "scalar");
    for (uint32_t i = 0; gdn_implementation_describe(GDN_BACKEND_CPU, 0, i, &best) == GDN_OK; i++) {
        gdn_context_desc asked = cpu;
        asked.implementation = best.name; /* what the program says comes first */
        NAMED("sse9", asked, best.name);
    }
    FAILS(create_with("GDN_IMPLEMENTATION", "sse9", cpu, &info, said), GDN_NOT_FOUND,
          "GDN_IMPLEMENTATION in the environment", "sse9", "device 0 of the cpu backend has", "scalar");
    FAILS(create_with("GDN_IMPLEMENTATION", "cpu:", cpu, &info, said), GDN_NOT_FOUND, "GDN_IMPLEMENTATION");
    FAILS(create_with("GDN_IMPLEMENTATION", "cp:scalar", cpu, &info, said), GDN_NOT_FOUND, "\"cp:scalar\"",
          "before the colon");
    FAILS(create_with("GDN_IMPLEMENTATION", "opencl:scalar", cpu, &info, said), GDN_NOT_FOUND, "before the colon");

    /* A context says what it is at level info. */
    static const struct {
        const char *value;
        int lines;
    } levels[] = { { "error", 0 }, { "warning", 0 }, { "info", 1 }, { "debug", 1 } };
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        REQUIRE(!create_with("GDN_LOG", levels[i].value, cpu, &info, said));
        REQUIRE((strstr(said, "gdn: info: cpu device 0, ") != NULL) == levels[i].lines);
        REQUIRE((said[0] != 0) == levels[i].lines);
    }
    REQUIRE(!create_with("GDN_LOG", "", cpu, &info, said) && !strcmp(said, ""));
    FAILS(create_with("GDN_LOG", "loud", cpu, &info, said), GDN_INVALID_ARGUMENT,
          "GDN_LOG in the environment is \"loud\"", "debug");
    cpu.log = count_line; /* the caller's own comes first, whatever the variable says */
    int lines = 0;
    cpu.log_user = &lines;
    REQUIRE(!create_with("GDN_KNOWN_ANSWERS", "off", cpu, &info, said));
    FAILS(create_with("GDN_KNOWN_ANSWERS", "maybe", cpu, &info, said), GDN_INVALID_ARGUMENT,
          "GDN_KNOWN_ANSWERS in the environment is \"maybe\"; on and off are allowed");
    REQUIRE(!create_with("GDN_LOG", "debug", cpu, &info, said));
    REQUIRE(!strcmp(said, "") && lines > 0);

    for (int i = 0; i < 2; i++) {
        if (saved[i]) (void)setenv(i ? "GDN_IMPLEMENTATION" : "GDN_LOG", saved[i], 1);
        free(saved[i]);
    }
}

const char *api_only;
int api_ran;

/* test_api [NAME]: all tests, or one. */
int main(int argc, char **argv)
{
    api_only = argc > 1 ? argv[1] : NULL;
    api_open_targets();
    RUN(statuses);
    RUN(versions);
    RUN(last_error);
    RUN(backends);
    RUN(devices);
    RUN(described_sizes);
    RUN(growth);
    RUN(contexts);
    RUN(levels);
    RUN(implementations);
    RUN(buffers);
    RUN(environment);
    RUN(test_api_arguments);
    test_api_calls();
    RUN(test_api_checkpoints);
    RUN(test_api_logs);
    RUN(test_api_trees);
    RUN(test_api_state16);
    RUN(test_api_chunked);
    RUN(test_api_structs);
    api_close_targets();
    REQUIRE(api_ran, "there is no test '%s'", api_only);
    return test_summary();
}
