/* The Vulkan backend where `gdn check` does not reach: a program's own device and command buffers, threads, the
 * pipeline cache, and everything that can go wrong. Needs a Vulkan device; lavapipe will do.
 *
 *     test_vulkan                      all tests; exit status 77 (skipped) where there is no device
 *     test_vulkan long-sequences       calls that go round loops very often
 *     test_vulkan missing-loader       as on a machine without Vulkan
 *     test_vulkan write-spirv FOLDER   the shaders as devices with all float controls get them, for spirv-val
 *     test_vulkan validation-bait      mistakes that a validation layer has to notice; nothing is submitted */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

/* ---- A program's device and command buffer ------------------------------------------------------------- */

typedef struct program {
    gdn_vulkan_device own; /* opened with the library's own code, and then handed to it as a stranger's */
    gdn_vulkan_desc native;
    int locks, unlocks;
} program;

static void lock(void *user) { ((program *)user)->locks++; }
static void unlock(void *user) { ((program *)user)->unlocks++; }

static gdn_context *open_program(program *p, uint32_t features)
{
    gdn_context *ctx = NULL;
    memset(p, 0, sizeof *p);
    REQUIRE(gdn_vulkan_device_open(&p->own, NULL, 0, NULL) == GDN_OK);
    p->native = (gdn_vulkan_desc)FIELDS(.size = sizeof p->native, .features = features,
                                        .get_instance_proc_addr = (gdn_vulkan_function)p->own.vk.GetInstanceProcAddr,
                                        .instance = gdn_vulkan_catalogue_get()->instance,
                                        .physical_device = p->own.traits.physical, .device = p->own.device,
                                        .queue = p->own.queue, .queue_family = p->own.queue_family, .lock_queue = lock,
                                        .unlock_queue = unlock, .lock_user = p);
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_VULKAN, .native = &p->native };
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
    return ctx;
}

static void test_programs_device(void)
{
    program p;
    step_on on;
    gdn_context *ctx = open_program(&p, GDN_VULKAN_FLOAT64 | GDN_VULKAN_STORAGE_16 | GDN_VULKAN_FULL_SUBGROUPS);
    gdn_implementation_info info = { .size = sizeof info };
    gdn_device_info device = { .size = sizeof device };
    REQUIRE(gdn_context_describe(ctx, &device, &info) == GDN_OK && (info.levels >> GDN_EXACT & 1) &&
            !strcmp(device.name, p.own.traits.about.name));
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK &&
            gdn_synchronize(ctx, NULL) == GDN_OK);
    REQUIRE(step_same(&on, &wanted) && p.locks > 0 && p.locks == p.unlocks);

    /* A submission of the program's that waits on the device for what was queued, and nothing else that waits. */
    void *semaphore;
    uint64_t queued = 0, before = 0;
    REQUIRE(gdn_vulkan_timeline(ctx, &semaphore, &before) == GDN_OK && semaphore && before);
    REQUIRE(step_run(&on, NULL) == GDN_OK && gdn_vulkan_timeline(ctx, &semaphore, &queued) == GDN_OK &&
            queued == before + 1);
    const uint64_t done = p.own.submitted + 1;
    const VkSemaphore waited = semaphore;
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkTimelineSemaphoreSubmitInfo values =
        FIELDS(.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, .waitSemaphoreValueCount = 1,
               .pWaitSemaphoreValues = &queued, .signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &done);
    const VkSubmitInfo submit =
        FIELDS(.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values, .waitSemaphoreCount = 1,
               .pWaitSemaphores = &waited, .pWaitDstStageMask = &stages, .signalSemaphoreCount = 1,
               .pSignalSemaphores = &p.own.timeline);
    REQUIRE(p.own.vk.QueueSubmit(p.own.queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS);
    p.own.submitted = done;
    uint64_t reached = 0;
    REQUIRE(gdn_vulkan_wait(&p.own) == GDN_OK);
    suite_move(&on);
    REQUIRE(p.own.vk.GetSemaphoreCounterValue(p.own.device, waited, &reached) == VK_SUCCESS && reached == queued);
    REQUIRE(step_same(&on, &wanted_twice));
    gdn_context *cpu = NULL;
    gdn_context_desc plain = { .size = sizeof plain };
    REQUIRE(gdn_context_create(&plain, &cpu) == GDN_OK &&
            gdn_vulkan_timeline(cpu, &semaphore, &queued) == GDN_UNSUPPORTED && !semaphore);
    REQUIRE(gdn_vulkan_timeline(ctx, &semaphore, NULL) == GDN_INVALID_ARGUMENT);
    gdn_context_destroy(cpu);

    /* A buffer of the program's, which the library cannot map: through the staging buffer, larger than that. */
    gdn_vulkan_buffer foreign;
    const uint64_t bytes = 3 * (uint64_t)GDN_VULKAN_STAGING_BYTES + 20;
    unsigned char *data = malloc(bytes), *back = malloc(bytes);
    REQUIRE(data && back && gdn_vulkan_allocate(&p.own, bytes, 0, &foreign) == GDN_OK);
    for (uint64_t i = 0; i < bytes; i++) data[i] = (unsigned char)(i * 2654435761u >> 13);
    const gdn_span span = { .data = (void *)foreign.buffer, .bytes = bytes };
    REQUIRE(gdn_buffer_write(ctx, &span, 0, data, bytes) == GDN_OK &&
            gdn_buffer_read(ctx, &span, 0, back, bytes) == GDN_OK);
    REQUIRE(!memcmp(data, back, bytes));
    gdn_vulkan_release(&p.own, &foreign);
    free(data), free(back);
    step_close(&on);
    gdn_vulkan_device_close(&p.own);
}

/* Recorded once, submitted twice by the program: two steps, and nothing submitted by the library. */
static void test_command_buffer(void)
{
    program p;
    step_on on;
    VkCommandBuffer commands;
    const VkCommandBufferBeginInfo again = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO };
    gdn_context *ctx = open_program(&p, GDN_VULKAN_FLOAT64 | GDN_VULKAN_STORAGE_16);
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK);
    REQUIRE(gdn_vulkan_begin(&p.own, &commands) == GDN_OK); /* a command buffer, begun again for more than one use */
    REQUIRE(p.own.vk.EndCommandBuffer(commands) == VK_SUCCESS &&
            p.own.vk.BeginCommandBuffer(commands, &again) == VK_SUCCESS);
    const int before = p.locks;
    REQUIRE(step_run(&on, commands) == GDN_OK);
    REQUIRE(p.own.vk.EndCommandBuffer(commands) == VK_SUCCESS);
    REQUIRE(gdn_synchronize(ctx, commands) == GDN_INVALID_ARGUMENT && p.locks == before);
    for (int i = 0; i < 2; i++) {
        const VkSubmitInfo submit =
            FIELDS(.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands);
        VkCommandBuffer empty; /* whose timeline value says when the queue has come this far */
        REQUIRE(p.own.vk.QueueSubmit(p.own.queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS);
        p.own.ring_next = 1 + (uint32_t)i;
        REQUIRE(gdn_vulkan_begin(&p.own, &empty) == GDN_OK && gdn_vulkan_submit(&p.own, empty) == GDN_OK &&
                gdn_vulkan_wait(&p.own) == GDN_OK);
        REQUIRE(step_same(&on, i ? &wanted_twice : &wanted));
    }
    REQUIRE(gdn_poll(ctx) == GDN_OK);

    /* Maps are read when the commands run, and what is wrong with them is reported by gdn_poll(). */
    const int32_t bad = SEQS;
    const VkSubmitInfo submit =
        FIELDS(.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands);
    VkCommandBuffer empty;
    REQUIRE(gdn_buffer_write(ctx, &on.args.state_src, 0, &bad, sizeof bad) == GDN_OK);
    REQUIRE(p.own.vk.QueueSubmit(p.own.queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS);
    REQUIRE(gdn_vulkan_begin(&p.own, &empty) == GDN_OK && gdn_vulkan_submit(&p.own, empty) == GDN_OK &&
            gdn_vulkan_wait(&p.own) == GDN_OK);
    FAILS(gdn_poll(ctx), GDN_BAD_MAP, "state_src");
    REQUIRE(gdn_poll(ctx) == GDN_OK);
    step_close(&on);
    gdn_vulkan_device_close(&p.own);
}

static void test_missing_features(void)
{
    program p;
    gdn_context *ctx = open_program(&p, 0);
    gdn_implementation_info info = { .size = sizeof info };
    gdn_gated_delta_net_args a = start.args;
    gdn_capability c = { .size = sizeof c };
    a.q.dtype = a.k.dtype = GDN_F16;
    REQUIRE(gdn_gated_delta_net_query(ctx, &a, &c) == GDN_OK && !c.supported &&
            strstr(c.reason, "storageBuffer16BitAccess"));
    REQUIRE(gdn_context_describe(ctx, NULL, &info) == GDN_OK && ((info.levels >> GDN_EXACT & 1) || info.reason[0]));
    gdn_context_destroy(ctx);
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_VULKAN, .native = &p.native };
    gdn_vulkan_desc wrong[] = { p.native, p.native, p.native };
    wrong[0].queue = NULL;
    wrong[1].unlock_queue = NULL;
    wrong[2].features = 1u << 20;
    suite_refuses_natives(
        desc, (suite_native[]){ { &wrong[0], "queue" }, { &wrong[1], "unlock_queue" }, { &wrong[2], "features" } }, 3);
    desc.implementation = "no-such";
    suite_refuses(&desc, GDN_NOT_FOUND, "no-such");
    gdn_vulkan_device_close(&p.own);

    /* Lanes talk by shuffles only where whole subgroups were promised; either way the bits are the reference's. */
    for (int whole = 0; whole < 2; whole++) {
        step_on on;
        ctx = open_program(&p, GDN_VULKAN_FLOAT64 | GDN_VULKAN_STORAGE_16 | (whole ? GDN_VULKAN_FULL_SUBGROUPS : 0));
        REQUIRE(step_put(&on, ctx, &start) == GDN_OK && step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
        REQUIRE(gdn_gated_delta_net_query(ctx, &on.args, &c) == GDN_OK);
        const int shuffles =
            whole && p.own.traits.shuffle && p.own.traits.full_subgroups && p.own.traits.subgroup_size >= 8;
        REQUIRE(strstr(c.implementation, shuffles ? "/subgroup" : "/shared"));
        step_close(&on);
        gdn_vulkan_device_close(&p.own);
    }
}

static void test_device_name(void)
{
    gdn_context *ctx = NULL;
    gdn_vulkan_desc native = { .size = sizeof native, .device_name = gdn_vulkan_catalogue_get()->traits[0].about.name };
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_VULKAN, .device = 1000, .native = &native };
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
    gdn_context_destroy(ctx);
    native.device_name = "no such device";
    FAILS(gdn_context_create(&desc, &ctx), GDN_NOT_FOUND, "no such device");
}

/* More calls are queued than there are command buffers. So each buffer is used again while others of this context and
 * of the other thread's are in flight. */
static void test_two_threads(void) { suite_two_threads(GDN_BACKEND_VULKAN, 3 * GDN_VULKAN_RING + 1); }

/* ---- Pipelines, and their cache ---------------------------------------------------------------------------------- */

/* Pipelines of ever other shapes: those of our own queue are bounded, a caller's stay. */
static void test_pipelines(void)
{
    enum { OTHERS = 40 }; /* more than a device keeps */
    VkPipeline recorded, own, again;
    gdn_context *ctx = sound_context();
    gdn_vulkan_device *dev = ctx->state;
    const int before = fault.pipelines;
    uint32_t constants[GDN_VULKAN_CONSTANTS] = { 64 }; /* the last one means nothing to this kernel */
    const uint32_t last = GDN_VULKAN_CONSTANTS - 1;
    REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, (gdn_stream)ctx, &recorded) == GDN_OK);
    constants[last] = 1;
    REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, NULL, &own) == GDN_OK);
    for (uint32_t i = 0; i < OTHERS; i++) {
        constants[last] = 2 + i;
        REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, NULL, &again) == GDN_OK);
    }
    REQUIRE(fault.pipelines - before == 2 + OTHERS);
    constants[last] = 0;
    REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, NULL, &again) == GDN_OK);
    REQUIRE(again == recorded && fault.pipelines - before == 2 + OTHERS);
    constants[last] = 1; /* was used longest ago, and is made anew */
    REQUIRE(gdn_vulkan_pipeline_get(dev, GDN_VULKAN_set_rows, 0, constants, NULL, &again) == GDN_OK);
    REQUIRE(fault.pipelines - before == 3 + OTHERS);
    gdn_context_destroy(ctx);
}

typedef struct saved {
    unsigned char data[1 << 20];
    uint64_t bytes;
    int saves, used, refused;
} saved;

static uint64_t cache_load(void *user, void *data, uint64_t capacity)
{
    const saved *s = user;
    if (capacity) memcpy(data, s->data, capacity < s->bytes ? capacity : s->bytes);
    return s->bytes;
}

static void cache_save(void *user, const void *data, uint64_t bytes)
{
    saved *s = user;
    s->saves++;
    s->bytes = bytes <= sizeof s->data ? bytes : 0;
    memcpy(s->data, data, s->bytes);
}

static void listen(void *user, int32_t level, const char *message)
{
    saved *s = user;
    (void)level;
    s->used += strstr(message, "cache is used") != NULL;
    s->refused += strstr(message, "not used") != NULL;
}

static void run_with_cache(saved *s)
{
    gdn_context *ctx = NULL;
    step_on on;
    gdn_vulkan_desc native =
        FIELDS(.size = sizeof native, .cache_load = cache_load, .cache_save = cache_save, .cache_user = s);
    gdn_context_desc desc =
        FIELDS(.size = sizeof desc, .backend = GDN_BACKEND_VULKAN, .native = &native, .log = listen, .log_user = s);
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK && step_put(&on, ctx, &start) == GDN_OK &&
            step_run(&on, NULL) == GDN_OK);
    REQUIRE(step_same(&on, &wanted));
    step_close(&on);
}

static void test_cache(void)
{
    static saved s;
    run_with_cache(&s);
    REQUIRE(s.saves == 1 && s.bytes > 64 && !s.used && !s.refused);
    run_with_cache(&s);
    REQUIRE(s.saves == 2 && s.used == 1 && !s.refused);
    for (int i = 0; i < 2; i++) { /* damaged data, then another device's */
        s.data[i ? 30 : s.bytes - 1] ^= 1;
        run_with_cache(&s);
        REQUIRE(s.used == 1 && s.refused == 1 + i);
    }
    s.bytes -= 5; /* cut off */
    run_with_cache(&s);
    REQUIRE(s.used == 1 && s.refused == 3);
}

/* ---- What can go wrong ----------------------------------------------------------------------------------- */

static void test_device_loss(void)
{
    static const VkResult lost = VK_ERROR_DEVICE_LOST;
    for (int where = 0; where < 3; where++) {
        step_on on;
        gdn_context *ctx = faulty_step(&on);
        VkResult *const at[] = { &fault.submit, &fault.wait, &fault.counter };
        REQUIRE(step_run(&on, NULL) == GDN_OK &&
                gdn_synchronize(ctx, NULL) == GDN_OK); /* so that nothing is really running */
        *at[where] = lost;
        if (where == 0) REQUIRE(step_run(&on, NULL) == GDN_DEVICE_LOST);
        REQUIRE(gdn_synchronize(ctx, NULL) == GDN_DEVICE_LOST);
        fault = (faults){ 0 };
        suite_lost(&on);
        REQUIRE(fault.submissions == 0);
    }
}

static void test_out_of_memory(void)
{
    gdn_context *ctx = NULL;
    gdn_span span = { 0 };
    step_on on;
    for (int n = 0; n < 6; n++) { /* the n-th allocation of a context's creation fails */
        fault = (faults){ .allocate = VK_ERROR_OUT_OF_DEVICE_MEMORY, .allocate_after = n };
        gdn_status status = faulty_context(&ctx, 0);
        REQUIRE(n < 4 ? status == GDN_OUT_OF_MEMORY && !ctx : status == GDN_OK);
        REQUIRE(n >= 4 || fault.frees == n); /* nothing is left behind */
        gdn_context_destroy(ctx);
    }
    ctx = sound_context();
    fault.allocate = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    REQUIRE(gdn_buffer_create(ctx, 4096, &span) == GDN_OUT_OF_MEMORY && !span.data &&
            strstr(gdn_last_error(), "vkAllocateMemory"));
    fault.allocate = VK_SUCCESS;
    REQUIRE(gdn_buffer_create(ctx, UINT64_C(1) << 46, &span) == GDN_OUT_OF_MEMORY ||
            gdn_buffer_create(ctx, UINT64_C(1) << 46, &span) == GDN_INTERNAL);
    REQUIRE(step_put(&on, ctx, &start) == GDN_OK);
    fault.pipeline = VK_ERROR_OUT_OF_HOST_MEMORY;
    FAILS(step_run(&on, NULL), GDN_OUT_OF_MEMORY, "vkCreateComputePipelines");
    fault.pipeline = VK_SUCCESS;
    fault.submit = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    REQUIRE(step_run(&on, NULL) == GDN_OUT_OF_MEMORY);
    fault.submit = VK_SUCCESS; /* and the context is as good as before */
    REQUIRE(step_run(&on, NULL) == GDN_OK && step_same(&on, &wanted));
    step_close(&on);
}

static void test_bounded_waits(void)
{
    gdn_context *ctx = NULL;
    step_on on;
    const uint64_t timeout = UINT64_C(20000000000000);
    fault = (faults){ 0 };
    REQUIRE(faulty_context(&ctx, timeout) == GDN_OK && step_put(&on, ctx, &start) == GDN_OK);
    fault.wait = VK_TIMEOUT;
    int queued = 0;
    gdn_status status = GDN_OK;
    while (queued <= GDN_VULKAN_RING && (status = step_run(&on, NULL)) == GDN_OK) queued++;
    REQUIRE(status == GDN_TIMEOUT && queued > 0); /* no command buffer is free */
    FAILS(gdn_synchronize(ctx, NULL), GDN_TIMEOUT, "20000000000000 ns");
    fault.wait = VK_SUCCESS;
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK && fault.longest_wait == timeout);
    step_close(&on);
    REQUIRE(fault.longest_wait == timeout);

    /* The default, of hardware and of a device that is software. */
    ctx = faulty_step(&on);
    REQUIRE(step_run(&on, NULL) == GDN_OK);
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK);
    const int software = ((const gdn_vulkan_device *)ctx->state)->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    REQUIRE(fault.longest_wait == (software ? UINT64_C(3600000000000) : UINT64_C(10000000000)));
    step_close(&on);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL empty_loader(VkInstance instance, const char *name)
{
    (void)instance, (void)name;
    return NULL;
}

static void test_broken_loader(void)
{
    gdn_context *ctx = NULL;
    gdn_vulkan_desc native = { .size = sizeof native, .get_instance_proc_addr = (gdn_vulkan_function)empty_loader };
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_VULKAN, .native = &native };
    suite_refuses(&desc, GDN_UNAVAILABLE, "1.2 is needed");
    fault = (faults){ .no_device_function = 1 };
    REQUIRE(faulty_context(&ctx, 0) == GDN_UNAVAILABLE && !ctx && strstr(gdn_last_error(), "vkCmdDispatch"));
}

/* Calls after the first of their shape create nothing. */
static int host_allocations;
static void *count_alloc(void *user, uint64_t bytes, uint64_t alignment)
{
    (void)user;
    host_allocations++;
    return aligned_alloc((size_t)alignment, (size_t)((bytes + alignment - 1) / alignment * alignment));
}
static void count_free(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static void test_no_allocation(void)
{
    gdn_context *ctx = NULL;
    step_on on;
    fault = (faults){ 0 };
    gdn_vulkan_desc native = { .size = sizeof native, .get_instance_proc_addr = faulty_loader() };
    gdn_context_desc desc = FIELDS(.size = sizeof desc, .backend = GDN_BACKEND_VULKAN, .native = &native,
                                   .alloc = count_alloc, .free = count_free);
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK && step_put(&on, ctx, &start) == GDN_OK &&
            step_run(&on, NULL) == GDN_OK);
    const int creations = fault.creations, allocations = host_allocations;
    for (int i = 0; i < 50; i++) REQUIRE(step_run(&on, NULL) == GDN_OK);
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK && fault.creations == creations && host_allocations == allocations &&
            allocations > 0);
    step_close(&on);
}

/* A driver whose compiler takes subtractions for additions in gated_delta_net, and in nothing else: calls there are
 * refused, and those that only record are reported by the next gdn_synchronize(). First of all tests: a process does
 * not ask twice. */
static void test_self_test(void)
{
    gdn_context *ctx = NULL;
    step_on on;
    if (!suite_asks()) return;
    ctx = faulty_step(&on);
    compile_wrongly(ctx->state);
    for (int i = 0; i < 2; i++)
        REQUIRE(step_run(&on, NULL) == GDN_UNSUPPORTED && strstr(gdn_last_error(), "self-test") &&
                strstr(gdn_last_error(), "gated_delta_net (") && strstr(gdn_last_error(), "shader 0, constants"));
    REQUIRE(fault.wrong_shaders > 0 && step_same(&on, &start)); /* and the call did nothing */

    /* The pipeline is there now, and the answer is wrong still; a recording does not wait for it. */
    VkCommandBuffer commands;
    gdn_vulkan_device *own = ctx->state;
    REQUIRE(gdn_vulkan_begin(own, &commands) == GDN_OK);
    const int submissions = fault.submissions;
    REQUIRE(step_run(&on, commands) == GDN_OK && fault.submissions == submissions && gdn_poll(ctx) == GDN_OK);
    REQUIRE(own->vk.EndCommandBuffer(commands) == VK_SUCCESS);
    FAILS(gdn_synchronize(ctx, NULL), GDN_UNSUPPORTED, "self-test");
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK); /* reported once */
    step_close(&on);
    fault = (faults){ 0 };
}

/* ---- The shaders ------------------------------------------------------------------------------------------ */

/* Every float instruction that could be contracted says that it must not be: some optimizers drop that. */
static int contractible(gdn_vulkan_code code)
{
    enum { OP_DECORATE = 71, NO_CONTRACTION = 42, FIRST = 129 /* OpFAdd */, LAST = 136 /* OpFDiv */, OP_FNEGATE = 127 };
    const uint32_t bound = code.words[3];
    unsigned char *exact = calloc(bound, 1);
    int found = 0;
    for (size_t i = 5; exact && i < code.n; i += code.words[i] >> 16) {
        const uint32_t op = code.words[i] & 0xffff;
        if (op == OP_DECORATE && code.words[i + 2] == NO_CONTRACTION) exact[code.words[i + 1]] = 1;
        const int of_floats = op == 129 || op == 131 || op == 133 || op == 136; /* OpFAdd, OpFSub, OpFMul, OpFDiv */
        found += op >= FIRST && op <= LAST && of_floats && !exact[code.words[i + 2]];
    }
    free(exact);
    return found;
}

static void test_shaders(void)
{
    for (gdn_vulkan_kernel kernel = 0; kernel < GDN_VULKAN_KERNEL_COUNT; kernel++)
        for (int variant = 0; variant < 16; variant++) {
            const int n =
                contractible(gdn_vulkan_shader(kernel, variant >> 3, variant & 1, variant >> 1 & 1, variant >> 2 & 1));
            if (n)
                (void)printf("%s, variant %d: %d instructions without NoContraction\n", gdn_vulkan_kernel_name(kernel),
                             variant, n);
            REQUIRE(n == 0);
        }
}

static int write_spirv(const char *folder)
{
    const gdn_vulkan_traits all =
        FIELDS(.denorm_preserve = 1, .denorm_flush = 1, .denorm_alone = 1, .inf_nan_preserve = 1, .round_to_even = 1);
    for (gdn_vulkan_kernel kernel = 0; kernel < GDN_VULKAN_KERNEL_COUNT; kernel++)
        for (int variant = 0; variant < 32; variant++) {
            const gdn_vulkan_code code =
                gdn_vulkan_shader(kernel, variant >> 3 & 1, variant & 1, variant >> 1 & 1, variant >> 2 & 1);
            uint32_t *words = malloc((code.n + GDN_VULKAN_CONTROL_WORDS) * sizeof *words);
            char path[512];
            (void)snprintf(path, sizeof path, "%s/%s_%d_controls.spv", folder, gdn_vulkan_kernel_name(kernel), variant);
            FILE *file = fopen(path, "wb");
            if (!words || !file) return 1;
            const size_t n = gdn_vulkan_fit(&all, variant >> 4 ? GDN_EXACT_FTZ : GDN_EXACT, code, words);
            const int good = fwrite(words, sizeof *words, n, file) == n;
            free(words);
            if (fclose(file) || !good) return 1;
        }
    return 0;
}

/* A size that is not a multiple of 4, and a read behind a write without a barrier. */
static int validation_bait(void)
{
    static gdn_vulkan_device dev;
    gdn_vulkan_buffer a, b;
    VkCommandBuffer commands;
    if (gdn_vulkan_device_open(&dev, NULL, 0, NULL) || gdn_vulkan_allocate(&dev, 4096, 0, &a) ||
        gdn_vulkan_allocate(&dev, 4096, 0, &b) || gdn_vulkan_begin(&dev, &commands))
        return 1;
    const VkBufferCopy all = { .size = 4096 };
    dev.vk.CmdFillBuffer(commands, a.buffer, 0, 4096, 0);
    dev.vk.CmdCopyBuffer(commands, a.buffer, b.buffer, 1, &all);
    dev.vk.CmdFillBuffer(commands, b.buffer, 0, 7, 0);
    (void)dev.vk.EndCommandBuffer(commands);
    gdn_vulkan_release(&dev, &a);
    gdn_vulkan_release(&dev, &b);
    gdn_vulkan_device_close(&dev);
    return 0;
}

/* ---- No Vulkan on the machine ------------------------------------------------------------------------------ */

static int hide_loader, n_hidden;

/* In place of the C library's, for this program and for the library's objects in it. */
void *dlopen(const char *name, int flags)
{
    static void *(*real)(const char *, int);
    if (!real) {
        void *symbol = dlsym(RTLD_NEXT, "dlopen");
        memcpy(&real, &symbol, sizeof real);
    }
    const int hidden = hide_loader && name && strstr(name, "libvulkan");
    n_hidden += hidden;
    return hidden ? NULL : real(name, flags);
}

static int missing_loader(void)
{
    gdn_context *ctx = NULL;
    gdn_backend_info info = { .size = sizeof info };
    gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_VULKAN };
    hide_loader = 1;
    REQUIRE(gdn_backend_describe(GDN_BACKEND_VULKAN, &info) == GDN_OK && info.built && !info.available &&
            strstr(info.reason, "no Vulkan loader"));
    const int once = n_hidden;
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_UNAVAILABLE && !ctx && strstr(gdn_last_error(), "no Vulkan loader"));
    REQUIRE(once && n_hidden == 2 * once); /* a call tries once, so its status and its text are of the same failure */
    step_init(&start, 1);                  /* everything else works */
    step_reference(&start, 1);

    /* No failure is kept: the next try may succeed, where this machine has a device. */
    hide_loader = 0;
    NEED(!setenv("GDN_VULKAN_REGISTERS", "many", 1));
    const gdn_status status = gdn_context_create(&desc, &ctx);
    if (status == GDN_UNAVAILABLE) return test_summary();
    REQUIRE(status == GDN_INVALID_ARGUMENT && !ctx && strstr(gdn_last_error(), "GDN_VULKAN_REGISTERS"));
    NEED(!unsetenv("GDN_VULKAN_REGISTERS"));
    REQUIRE(gdn_context_create(&desc, &ctx) == GDN_OK);
    REQUIRE(gdn_backend_describe(GDN_BACKEND_VULKAN, &info) == GDN_OK && info.available && !info.reason[0]);
    gdn_context_destroy(ctx);
    return test_summary();
}

/* The barriers around their dispatches are watched, too. */
static void test_bad_maps(void)
{
    gdn_context *ctx = sound_context();
    device_bad_maps(ctx);
    REQUIRE(fault.dispatches > 40 && fault.hazards == 0);
    gdn_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    static const suite_test tests[] = {
        { "self-test", test_self_test, 0 },
        { "shaders", test_shaders, 0 },
        { "program's device", test_programs_device, 0 },
        { "command buffer", test_command_buffer, 0 },
        { "missing features", test_missing_features, 0 },
        { "device name", test_device_name, 0 },
        { "two threads", test_two_threads, 0 },
        { "pipeline cache", test_cache, 0 },
        { "device loss", test_device_loss, 0 },
        { "out of memory", test_out_of_memory, 0 },
        { "bounded waits", test_bounded_waits, 0 },
        { "broken loader", test_broken_loader, 0 },
        { "no allocation", test_no_allocation, 0 },
        { "bad maps", test_bad_maps, 0 },
        { "limits", test_limits, 0 },
        { "parameters", test_parameters, 0 },
        { "levels", test_levels, 0 },
        { "pipelines", test_pipelines, 0 },
    };
    if (argc == 2 && !strcmp(argv[1], "missing-loader")) return missing_loader();
    if (argc == 3 && !strcmp(argv[1], "write-spirv")) return write_spirv(argv[2]);
    if (argc == 2 && !strcmp(argv[1], "validation-bait")) return validation_bait();
    uint32_t n = 0;
    if (gdn_vulkan_count(&n)) {
        (void)printf("skipped: %s\n", gdn_last_error());
        return 77;
    }
    if (argc == 2 && !strcmp(argv[1], "long-sequences")) return long_sequences();
    suite_init();
    return suite_run(tests, sizeof tests / sizeof tests[0], NULL, NULL);
}
