/* Queues, command buffers, encoders. See fake.h. */
#include "tests/device/metal/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/core.h"
#include "tests/emulator/metal_registry.h"

typedef struct fake_size { /* MTLSize */
    unsigned long width, height, depth;
} fake_size;

enum work_kind { DISPATCH, BARRIER };
typedef struct fake_work {
    struct fake_work *next;
    enum work_kind kind;
    fake_pipeline *pipeline;
    fake_buffer *buffers[SIMT_METAL_BUFFERS];
    unsigned long offsets[SIMT_METAL_BUFFERS];
    fake_size groups, threads;
} fake_work;

typedef struct fake_queue {
    fake_object object;
    void *device;
    struct fake_commands *first, **last; /* committed, not done */
} fake_queue;

typedef struct fake_commands {
    fake_object object;
    fake_queue *queue;
    struct fake_commands *next;
    unsigned long status, asked;
    int encoding; /* an encoder is open */
    fake_work *first, **last;
    void *error;
} fake_commands;

typedef struct fake_encoder {
    fake_object object;
    fake_commands *commands;
    int open;
    fake_pipeline *pipeline;
    fake_buffer *buffers[SIMT_METAL_BUFFERS];
    unsigned long offsets[SIMT_METAL_BUFFERS];
} fake_encoder;

/* ---- Running ---- */
static const char *run_dispatch(const fake_work *w)
{
    const simt_metal_kernel *kernel = w->pipeline->kernel;
    simt_metal_arguments arguments = { { NULL } };
    for (unsigned i = 0; i < kernel->n_buffers; i++) arguments.buffers[i] = w->buffers[i]->at + w->offsets[i];
    const simt_grid grid = {
        .name = kernel->kernel.name,
        .grid = { (unsigned)w->groups.width, (unsigned)w->groups.height, (unsigned)w->groups.depth },
        .block = { (unsigned)w->threads.width, (unsigned)w->threads.height, (unsigned)w->threads.depth },
        .fn = kernel->kernel.run,
        .arg = &arguments,
        .arg_bytes = sizeof arguments,
        /* FTZ, DAZ */
        .mode = (fake_setting("flush") ? 0x8000u : 0) | (fake_setting("flush") == 1 ? 0x40u : 0)
    };
    if (simt_run_grid(&grid)) return simt_error();
    size_t wrong;
    if (simt_has_mistake(grid.name, &wrong)) ((char *)arguments.buffers[wrong])[0] ^= 1;
    return fake_damaged();
}

/* Up to the next barrier, backwards: the device is free to. */
static const fake_work *run_group(const fake_work *first, const char **wrong)
{
    const fake_work *end = first, *list[64];
    int n = 0;
    while (end && end->kind != BARRIER && n < 64) {
        list[n++] = end;
        end = end->next;
    }
    while (n && !*wrong) *wrong = run_dispatch(list[--n]);
    return end && end->kind == BARRIER ? end->next : end;
}

static void run_commands(fake_commands *c)
{
    const char *wrong = fake_setting("break") ? "the device stopped (a test says so)" : NULL;
    for (const fake_work *w = c->first; w && !wrong;) w = run_group(w, &wrong);
    c->status = wrong ? 5 : 4;
    if (wrong) {
        if (!fake_setting("break")) fake_complain("%s", wrong);
        c->error = fake_new_error(wrong);
    }
}

/* The queue's command buffers in order, up to `last`. */
static void run_until(fake_queue *q, const fake_commands *last)
{
    while (q->first && last->status < 4) {
        fake_commands *c = q->first;
        q->first = c->next;
        if (!q->first) q->last = &q->first;
        run_commands(c);
        objc_release(c);
    }
}

/* ---- MTLCommandBuffer ---- */
static fake_work *add(fake_commands *c, enum work_kind kind)
{
    fake_work *w = calloc(1, sizeof *w);
    if (!w) abort();
    w->kind = kind;
    *c->last = w;
    c->last = &w->next;
    return w;
}

static const fake_class compute_class;
static void *commands_compute(fake_commands *c, void *s)
{
    (void)s;
    if (c->encoding || c->status > 1) {
        (void)fprintf(stderr, "metal: an encoder is made while another is open, or after commit\n");
        abort();
    }
    fake_encoder *e = fake_new(&compute_class);
    e->commands = objc_retain(c);
    e->open = c->encoding = 1;
    return fake_autorelease(e);
}
static void *commands_error(fake_commands *c, void *s) { return (void)s, c->error; }

static void commands_commit(fake_commands *c, void *s)
{
    (void)s;
    if (c->encoding || c->status > 1) {
        (void)fprintf(stderr, "metal: commit with an open encoder, or twice\n");
        abort();
    }
    fake_lock();
    c->status = 2;
    *c->queue->last = objc_retain(c);
    c->queue->last = &c->next;
    fake_unlock();
}

static unsigned long commands_status(fake_commands *c, void *s)
{
    (void)s;
    fake_lock();
    if ((c->status == 2 || c->status == 3) && !fake_setting("hang")) {
        if (c->asked++) run_until(c->queue, c);
        else c->status = 3;
    }
    const unsigned long status = c->status;
    fake_unlock();
    return status;
}

static void commands_wait(fake_commands *c, void *s)
{
    (void)s;
    if (c->status < 2) fake_complain("waitUntilCompleted before commit");
    fake_lock();
    run_until(c->queue, c);
    fake_unlock();
}

static void release_bound(fake_buffer *const buffers[SIMT_METAL_BUFFERS], fake_pipeline *pipeline)
{
    for (int i = 0; i < SIMT_METAL_BUFFERS; i++)
        if (buffers[i]) objc_release(buffers[i]);
    if (pipeline) objc_release(pipeline);
}

static void commands_dealloc(fake_object *self)
{
    fake_commands *c = (fake_commands *)self;
    while (c->first) {
        fake_work *w = c->first;
        c->first = w->next;
        release_bound(w->buffers, w->pipeline);
        free(w);
    }
    if (c->error) objc_release(c->error);
    objc_release(c->queue);
}

static const fake_method commands_methods[] = {
    METHOD("computeCommandEncoder", commands_compute),
    METHOD("commit", commands_commit),
    METHOD("status", commands_status),
    METHOD("error", commands_error),
    METHOD("waitUntilCompleted", commands_wait),
    { NULL, NULL },
};
static const fake_class commands_class = { NULL, "MTLCommandBuffer", commands_methods, sizeof(fake_commands),
                                           commands_dealloc };

/* ---- MTLCommandQueue ---- */
static void *queue_commands(fake_queue *q, void *s)
{
    fake_commands *c = fake_new(&commands_class);
    (void)s;
    c->queue = objc_retain(q);
    c->last = &c->first;
    return fake_autorelease(c);
}
static void *queue_device(fake_queue *q, void *s) { return (void)s, q->device; }
static void queue_dealloc(fake_object *self) { objc_release(((fake_queue *)self)->device); }
static const fake_method queue_methods[] = { METHOD("commandBuffer", queue_commands),
                                             METHOD("device", queue_device),
                                             { NULL, NULL } };
const fake_class fake_queue_class = { NULL, "MTLCommandQueue", queue_methods, sizeof(fake_queue), queue_dealloc };

void *fake_new_queue(void *device)
{
    fake_queue *q = fake_new(&fake_queue_class);
    q->device = objc_retain(device);
    q->last = &q->first;
    return q;
}

/* ---- Encoders ---- */
static void check_open(const fake_encoder *e)
{
    if (e->open) return;
    (void)fprintf(stderr, "metal: an encoder is used after endEncoding\n");
    abort();
}

static void put(fake_encoder *e, unsigned long index, fake_buffer *buffer, unsigned long offset)
{
    if (index >= SIMT_METAL_BUFFERS || !buffer || buffer->object.isa != &fake_buffer_class || offset >= buffer->bytes) {
        fake_complain("buffer %lu: no such index, no buffer, or an offset of %lu beyond its end", index, offset);
        return;
    }
    if (e->buffers[index]) objc_release(e->buffers[index]);
    e->buffers[index] = objc_retain(buffer);
    e->offsets[index] = offset;
}

static void encoder_buffer(fake_encoder *e, void *s, fake_buffer *buffer, unsigned long offset, unsigned long index)
{
    (void)s;
    check_open(e);
    put(e, index, buffer, offset);
}

static void encoder_bytes(fake_encoder *e, void *s, const void *bytes, unsigned long length, unsigned long index)
{
    (void)s;
    check_open(e);
    if (!length || length > 4096) {
        fake_complain("setBytes: of %lu bytes; 1 to 4096 are allowed", length);
        return;
    }
    fake_buffer *b = fake_new_buffer(length, 0);
    memcpy(b->at, bytes, length);
    put(e, index, b, 0);
    objc_release(b);
}

static void encoder_pipeline(fake_encoder *e, void *s, fake_pipeline *pipeline)
{
    (void)s;
    check_open(e);
    if (e->pipeline) objc_release(e->pipeline);
    e->pipeline = objc_retain(pipeline);
}

static void encoder_dispatch(fake_encoder *e, void *s, fake_size groups, fake_size threads)
{
    const unsigned long n = threads.width * threads.height * threads.depth;
    (void)s;
    check_open(e);
    if (!e->pipeline || !groups.width || !groups.height || !groups.depth || !n ||
        n > (unsigned long)fake_setting("threads")) {
        fake_complain("a dispatch without a pipeline, of no threadgroups, or of %lu threads", n);
        return;
    }
    const simt_metal_kernel *kernel = e->pipeline->kernel;
    for (unsigned i = 0; i < kernel->n_buffers; i++)
        if (!e->buffers[i]) {
            fake_complain("%s: buffer %u is not set", kernel->kernel.name, i);
            return;
        }
    if (e->buffers[0]->bytes - e->offsets[0] != kernel->params_bytes) {
        fake_complain("%s: buffer 0 has %zu bytes; it takes %zu", kernel->kernel.name, e->buffers[0]->bytes,
                      kernel->params_bytes);
        return;
    }
    fake_work *w = add(e->commands, DISPATCH);
    w->pipeline = objc_retain(e->pipeline);
    w->groups = groups;
    w->threads = threads;
    for (unsigned i = 0; i < kernel->n_buffers; i++) {
        w->buffers[i] = objc_retain(e->buffers[i]);
        w->offsets[i] = e->offsets[i];
    }
}

static void encoder_barrier(fake_encoder *e, void *s, unsigned long scope)
{
    (void)s;
    check_open(e);
    if (scope != 1) fake_complain("a barrier of scope %lu", scope);
    (void)add(e->commands, BARRIER);
}

static void encoder_end(fake_encoder *e, void *s)
{
    (void)s;
    check_open(e);
    e->open = e->commands->encoding = 0;
    (void)add(e->commands, BARRIER); /* encoders run one after another */
}

static void encoder_dealloc(fake_object *self)
{
    fake_encoder *e = (fake_encoder *)self;
    if (e->open) fake_complain("an encoder goes without endEncoding");
    release_bound(e->buffers, e->pipeline);
    objc_release(e->commands);
}

static const fake_method compute_methods[] = {
    METHOD("setComputePipelineState:", encoder_pipeline),
    METHOD("setBytes:length:atIndex:", encoder_bytes),
    METHOD("setBuffer:offset:atIndex:", encoder_buffer),
    METHOD("dispatchThreadgroups:threadsPerThreadgroup:", encoder_dispatch),
    METHOD("memoryBarrierWithScope:", encoder_barrier),
    METHOD("endEncoding", encoder_end),
    { NULL, NULL },
};
static const fake_class compute_class = { NULL, "MTLComputeCommandEncoder", compute_methods, sizeof(fake_encoder),
                                          encoder_dealloc };
