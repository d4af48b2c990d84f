/* Lists, contexts and buffers of all devices. See context.h. */
#include "gpu/context.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/calls.h"
#include "core/status.h"
#include "gpu/probe.h"

static const gdn_gpu_driver *driver_of(const gdn_backend *backend) { return backend->own; }

/* ---- Implementations ---------------------------------------------------------------------------------- */

static int has_level(const gdn_gpu_implementation *v, uint32_t level) { return (int)(v->levels >> level & 1); }

void gdn_gpu_add_implementation(gdn_gpu_implementations *v, const char *name, int soft_fma, int subgroup,
                                uint32_t levels, const char *reason)
{
    gdn_gpu_implementation *to = &v->list[v->n++];
    *to = (gdn_gpu_implementation){ .soft_fma = soft_fma, .subgroup = subgroup, .levels = levels };
    to->exact = has_level(to, GDN_EXACT);
    (void)snprintf(to->name, sizeof to->name, "%s", name);
    (void)snprintf(to->reason, sizeof to->reason, "%s", reason);
}

/* A driver runs in the default floating-point mode, and so do threads that it starts: some compute on the host, all
 * compile shaders there. */
static gdn_status enter(const gdn_gpu_driver *driver, void *device, gdn_gpu_scope *scope)
{
    scope->caller = gdn_float_env_enter();
    const gdn_status status = driver->enter ? driver->enter(device, scope) : GDN_OK;
    if (status) gdn_float_env_leave(scope->caller);
    return status;
}

static void leave(const gdn_gpu_driver *driver, void *device, const gdn_gpu_scope *scope)
{
    if (driver->leave) driver->leave(device, scope);
    gdn_float_env_leave(scope->caller);
}

typedef struct probe_t {
    const gdn_gpu_driver *driver;
    void *device;
    char *host;
    gdn_span memory;
} probe_t;

static gdn_status run_probe(void *user)
{
    const probe_t *x = user;
    gdn_status status;
    if ((status = x->driver->write(x->device, &x->memory, 0, x->host, GDN_PROBE_BYTES)) ||
        (status = x->driver->probe_kernel(x->device, x->memory.data)))
        return status;
    return x->driver->read(x->device, &x->memory, GDN_PROBE_IN_BYTES, x->host + GDN_PROBE_IN_BYTES,
                           GDN_PROBE_BYTES - GDN_PROBE_IN_BYTES);
}

/* Probes the only implementation of a device. */
static gdn_status probe_only(const gdn_gpu_driver *driver, void *device, gdn_gpu_implementations *variants)
{
    char reason[GDN_REASON_MAX] = "";
    int flushes = 0;
    gdn_gpu_buffer buffer = { 0 };
    probe_t x = { .driver = driver, .device = device, .host = malloc(GDN_PROBE_BYTES) };
    if (!x.host) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for the probe of %d bytes", GDN_PROBE_BYTES);
    gdn_status status = driver->allocate(device, GDN_PROBE_BYTES, &buffer);
    if (!status) {
        x.memory = (gdn_span){ .data = buffer.data, .bytes = GDN_PROBE_BYTES };
        status = gdn_gpu_probe_arithmetic(x.host, run_probe, &x, reason, driver->may_flush ? &flushes : NULL);
        if (status != GDN_TIMEOUT) (void)driver->release(device, &buffer); /* else it is still running */
    }
    if (!status)
        gdn_gpu_add_implementation(variants, driver->only, 0, 0,
                                   !reason[0] ? 1u << GDN_EXACT
                                   : flushes  ? 1u << GDN_EXACT_FTZ
                                              : 0,
                                   reason);
    free(x.host);
    return status;
}

static gdn_status probe(const gdn_gpu_driver *driver, void *device, gdn_gpu_implementations *variants)
{
    gdn_gpu_scope scope;
    gdn_status status = enter(driver, device, &scope);
    if (status) return status;
    status = driver->probe ? driver->probe(device, variants) : probe_only(driver, device, variants);
    leave(driver, device, &scope);
    return status;
}

static gdn_status probe_of(const gdn_gpu_driver *driver, uint32_t index, gdn_gpu_implementations *variants)
{
    void *device = calloc(1, driver->device_bytes);
    if (!device)
        return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a device of %zu bytes, to be probed", driver->device_bytes);
    gdn_status status = driver->open(device, NULL, index, NULL);
    if (!status) status = probe(driver, device, variants);
    driver->close(device);
    free(device);
    return status;
}

/* The implementations of a device in the list. A process remembers the result of a probe. The lock is not held during a
 * probe, so threads that open other devices do not wait. Two threads that open one device at the same time both probe
 * it. */
static gdn_status variants_of(const gdn_gpu_driver *driver, uint32_t index, gdn_gpu_implementations *variants)
{
    static gdn_mutex lock = GDN_MUTEX_INIT;
    gdn_mutex_lock(&lock);
    *variants = driver->known[index];
    gdn_mutex_unlock(&lock);
    if (variants->n) return GDN_OK;
    const gdn_float_env caller = gdn_float_env_enter();
    const gdn_status status = probe_of(driver, index, variants);
    gdn_float_env_leave(caller);
    if (status) return status;
    gdn_mutex_lock(&lock);
    driver->known[index] = *variants;
    gdn_mutex_unlock(&lock);
    return GDN_OK;
}

static void describe_device(const gdn_gpu_about *about, const gdn_gpu_implementations *variants, gdn_device_info *info)
{
    (void)snprintf(info->name, sizeof info->name, "%s", about->name);
    info->memory_bytes = about->memory_bytes;
    info->emulated = about->emulated;
    info->n_implementations = variants->n;
}

static void describe_device_implementation(const gdn_gpu_implementation *v, gdn_implementation_info *info)
{
    info->levels = v->levels;
    (void)snprintf(info->name, sizeof info->name, "%s", v->name);
    (void)snprintf(info->reason, sizeof info->reason, "%s", v->reason);
}

/* ---- Lists ------------------------------------------------------------------------------------------ */

/* A process's list of devices holds objects of a driver, which cannot be unloaded safely. So the module of this code,
 * libgdn.so or what it is linked into, stays loaded after dlclose(), and the next dlopen() finds the list. */
static void stay_loaded(void)
{
    static _Atomic int done;
    if (!atomic_exchange(&done, 1)) gdn_module_stay((const void *)(uintptr_t)gdn_gpu_count_devices);
}

gdn_status gdn_gpu_count_devices(const gdn_backend *backend, uint32_t *n)
{
    const gdn_float_env caller = gdn_float_env_enter();
    const gdn_status status = driver_of(backend)->count(n);
    gdn_float_env_leave(caller);
    if (!status) stay_loaded();
    return status;
}

gdn_status gdn_gpu_describe_device(const gdn_backend *backend, uint32_t device, gdn_device_info *info)
{
    const gdn_gpu_driver *driver = driver_of(backend);
    gdn_gpu_implementations variants = { .n = 1 };
    gdn_status status = driver->only ? GDN_OK : variants_of(driver, device, &variants);
    if (status) return status;
    describe_device(driver->about(device), &variants, info);
    return GDN_OK;
}

gdn_status gdn_gpu_describe_implementation(const gdn_backend *backend, uint32_t device, uint32_t index,
                                           gdn_implementation_info *info)
{
    gdn_gpu_implementations variants;
    gdn_status status = variants_of(driver_of(backend), device, &variants);
    if (!status) describe_device_implementation(&variants.list[index], info);
    return status;
}

gdn_status gdn_gpu_describe_context(const gdn_context *ctx, gdn_device_info *device,
                                    gdn_implementation_info *implementation)
{
    const gdn_gpu_context *dev = ctx->state;
    if (device) describe_device(dev->about, &dev->implementations, device);
    if (implementation) describe_device_implementation(&dev->implementation, implementation);
    return GDN_OK;
}

/* ---- Contexts --------------------------------------------------------------------------------------- */

/* The index of the implementation `name`. NULL: the best that has the level, as in core's search; 0 if none has it. */
static gdn_status find_device_implementation(const gdn_context *ctx, const char *name, uint32_t *index)
{
    const gdn_gpu_context *dev = ctx->state;
    char have[256] = "";
    if (!name) {
        *index = 0;
        for (uint32_t i = dev->implementations.n; i--;)
            if (has_level(&dev->implementations.list[i], dev->level)) *index = i;
        return GDN_OK;
    }
    for (*index = 0; *index < dev->implementations.n; ++*index) {
        const size_t used = strlen(have);
        if (!strcmp(dev->implementations.list[*index].name, name)) return GDN_OK;
        (void)snprintf(have + used, sizeof have - used, "%s%s", *index ? ", " : "",
                       dev->implementations.list[*index].name);
    }
    if (driver_of(ctx->backend)->only)
        return gdn_fail(GDN_NOT_FOUND, "desc->implementation is \"%.64s\"; the %s backend has %s", name,
                        ctx->backend->name, have);
    return gdn_fail(GDN_NOT_FOUND, "desc->implementation is \"%.64s\"; %s has %s", name, dev->about->name, have);
}

static gdn_status open_device(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation)
{
    const gdn_gpu_driver *driver = driver_of(ctx->backend);
    gdn_status status;
    gdn_gpu_context *dev = gdn_context_alloc(ctx, driver->device_bytes, 64);
    if (!dev)
        return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a %s context of %zu bytes", ctx->backend->name,
                        driver->device_bytes);
    memset(dev, 0, driver->device_bytes);
    dev->level = desc->level;
    ctx->state = dev;
    if ((status = driver->open(dev, ctx, desc->device, desc->native))) return status;
    /* A device that the caller brings is not in the list; it is probed here. */
    if (desc->native) {
        if ((status = probe(driver, dev, &dev->implementations)) ||
            (status = find_device_implementation(ctx, desc->implementation, &implementation)))
            return status;
    } else if ((status = variants_of(driver, desc->device, &dev->implementations))) {
        return status;
    }
    dev->implementation = dev->implementations.list[implementation];
    if (desc->level == GDN_EXACT_FTZ) {
        if (!has_level(&dev->implementation, GDN_EXACT_FTZ)) return gdn_no_level(dev->about->name);
        dev->implementation.exact = 1;
        dev->implementation.reason[0] = 0;
    }
    if ((status = gdn_gpu_self_test_open(ctx))) return status;
    return driver->makes_all ? gdn_gpu_self_test_all(ctx) : GDN_OK;
}

gdn_status gdn_gpu_open(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation)
{
    const gdn_float_env caller = gdn_float_env_enter();
    const gdn_status status = open_device(ctx, desc, implementation);
    gdn_float_env_leave(caller);
    return status;
}

void gdn_gpu_close(gdn_context *ctx)
{
    gdn_gpu_context *dev = ctx->state;
    if (!dev) return;
    const gdn_float_env caller = gdn_float_env_enter();
    driver_of(ctx->backend)->close(dev);
    gdn_float_env_leave(caller);
    while (dev->buffers) { /* the driver has freed their memory, where it could */
        gdn_gpu_buffer *b = dev->buffers;
        dev->buffers = b->next;
        gdn_context_free(ctx, b);
    }
    gdn_context_free(ctx, ctx->state);
    ctx->state = NULL;
}

void gdn_gpu_name_plan(const gdn_context *ctx, const gdn_plan *plan, char name[GDN_NAME_MAX])
{
    const gdn_gpu_context *dev = ctx->state;
    (void)snprintf(name, GDN_NAME_MAX, "%.40s/%s", dev->implementation.name, gdn_variant_name(plan->variant));
}

static void explain_blocks(const gdn_gpu_driver *driver, gdn_kernel kernel, char reason[GDN_REASON_MAX])
{
    switch (kernel) {
    case GDN_KERNEL_gated_delta_net:
        (void)snprintf(reason, GDN_REASON_MAX, "the call has %s (sequences x heads x blocks of value channels)",
                       driver->limit);
        break;
    case GDN_KERNEL_ssm_conv:
        (void)snprintf(reason, GDN_REASON_MAX, "the call has %s (tokens or sequences x blocks of channels)",
                       driver->limit);
        break;
    case GDN_KERNEL_set_rows:
        (void)snprintf(reason, GDN_REASON_MAX, "the call has %s (batches x rows x %u columns)", driver->limit,
                       (unsigned)driver->rows_piece);
        break;
    }
}

void gdn_gpu_describe_plan(const gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan,
                           gdn_capability *capability)
{
    const gdn_gpu_context *dev = ctx->state;
    const gdn_gpu_driver *driver = driver_of(ctx->backend);
    capability->exact = dev->implementation.exact;
    capability->emulated = dev->about->emulated;
    gdn_gpu_name_plan(ctx, plan, capability->implementation);
    (void)snprintf(capability->reason, sizeof capability->reason, "%s", dev->implementation.reason);
    if (plan->refused == GDN_REFUSED_FORM)
        (void)snprintf(capability->reason, sizeof capability->reason,
                       "chunked is given; the %s backend has the recurrence only", ctx->backend->name);
    else if (plan->refused == GDN_REFUSED_BLOCKS) explain_blocks(driver, problem->kernel, capability->reason);
    else if (plan->refused) driver->explain(dev, problem, plan, capability->reason);
}

/* ---- Buffers for programs ---------------------------------------------------------------------------- */

gdn_status gdn_gpu_buffer_create(gdn_context *ctx, uint64_t bytes, gdn_span *span)
{
    const gdn_gpu_driver *driver = driver_of(ctx->backend);
    gdn_gpu_context *dev = ctx->state;
    gdn_gpu_buffer *b = gdn_context_alloc(ctx, driver->buffer_bytes, 64);
    if (!b)
        return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for the record of a buffer of %llu bytes",
                        (unsigned long long)bytes);
    memset(b, 0, driver->buffer_bytes);
    gdn_gpu_scope scope;
    gdn_status status = enter(driver, dev, &scope);
    if (!status) {
        status = driver->allocate(dev, bytes, b);
        leave(driver, dev, &scope);
    }
    if (status) {
        gdn_context_free(ctx, b);
        return status;
    }
    b->next = dev->buffers;
    dev->buffers = b;
    *span = (gdn_span){ .data = b->data, .bytes = bytes };
    return GDN_OK;
}

gdn_status gdn_gpu_no_buffer(gdn_status status, uint64_t bytes)
{
    char why[GDN_REASON_MAX];
    (void)snprintf(why, sizeof why, "%.*s", GDN_REASON_MAX - 1, gdn_last_error());
    return gdn_fail(status, "no buffer of %llu bytes: %s", (unsigned long long)bytes, why);
}

gdn_status gdn_gpu_buffer_destroy(gdn_context *ctx, const gdn_span *span)
{
    const gdn_gpu_driver *driver = driver_of(ctx->backend);
    gdn_gpu_context *dev = ctx->state;
    for (gdn_gpu_buffer **at = &dev->buffers; *at; at = &(*at)->next) {
        gdn_gpu_buffer *b = *at, *next = b->next;
        if (b->data != span->data) continue;
        gdn_gpu_scope scope;
        if (!enter(driver, dev, &scope)) { /* else the memory is freed with the lost context */
            const int released = driver->release(dev, b);
            leave(driver, dev, &scope);
            if (!released) return GDN_OK; /* still in use: gdn_context_destroy() tries again */
        }
        *at = next;
        gdn_context_free(ctx, b);
        return GDN_OK;
    }
    return gdn_no_such_buffer(span);
}

gdn_status gdn_gpu_buffer_write(gdn_context *ctx, const gdn_span *span, uint64_t offset, const void *source,
                                uint64_t bytes)
{
    const gdn_gpu_driver *driver = driver_of(ctx->backend);
    gdn_gpu_scope scope;
    gdn_status status = enter(driver, ctx->state, &scope);
    if (status) return status;
    status = driver->write(ctx->state, span, offset, source, bytes);
    leave(driver, ctx->state, &scope);
    return status;
}

gdn_status gdn_gpu_buffer_read(gdn_context *ctx, const gdn_span *span, uint64_t offset, void *target, uint64_t bytes)
{
    const gdn_gpu_driver *driver = driver_of(ctx->backend);
    gdn_gpu_scope scope;
    gdn_status status = enter(driver, ctx->state, &scope);
    if (status) return status;
    status = driver->read(ctx->state, span, offset, target, bytes);
    leave(driver, ctx->state, &scope);
    return status;
}

/* ---- Calls ------------------------------------------------------------------------------------------ */

void gdn_gpu_plan(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    driver_of(ctx->backend)->plan[problem->kernel](ctx, problem, plan);
}

gdn_status gdn_gpu_run(gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream)
{
    const gdn_gpu_driver *driver = driver_of(ctx->backend);
    gdn_gpu_scope scope;
    gdn_status status = driver->makes_all ? GDN_OK : gdn_gpu_self_test_plan(ctx, problem->kernel, plan, stream != NULL);
    if (status || (status = enter(driver, ctx->state, &scope))) return status;
    status = driver->run[problem->kernel](ctx->state, problem, plan, stream);
    leave(driver, ctx->state, &scope);
    return status;
}

gdn_status gdn_gpu_synchronize(gdn_context *ctx, gdn_stream stream)
{
    const gdn_gpu_driver *driver = driver_of(ctx->backend);
    gdn_gpu_scope scope;
    gdn_status status = enter(driver, ctx->state, &scope);
    if (status) return status;
    if (!(status = driver->wait(ctx->state, stream))) status = driver->take_report(ctx->state);
    leave(driver, ctx->state, &scope);
    return status ? status : gdn_gpu_self_test_later(ctx);
}

gdn_status gdn_gpu_poll(gdn_context *ctx)
{
    const gdn_gpu_driver *driver = driver_of(ctx->backend);
    gdn_gpu_scope scope;
    gdn_status status = enter(driver, ctx->state, &scope);
    if (status) return status;
    status = driver->take_report(ctx->state);
    leave(driver, ctx->state, &scope);
    return status;
}

/* ---- Waiting ---------------------------------------------------------------------------------------- */

gdn_status gdn_gpu_timed_out(const gdn_gpu_context *dev)
{
    return gdn_fail(GDN_TIMEOUT, "the device %s was not done after %llu ns (desc->timeout_ns)", dev->about->name,
                    (unsigned long long)dev->timeout_ns);
}

gdn_status gdn_gpu_wait_for(const gdn_gpu_context *dev, int (*is_done)(void *user, gdn_status *status), void *user)
{
    const int64_t begin = gdn_now();
    gdn_status status = GDN_OK;
    while (!is_done(user, &status)) {
        if (status) return status;
        const uint64_t waited = (uint64_t)(gdn_now() - begin);
        if (waited >= dev->timeout_ns) return gdn_gpu_timed_out(dev);
        if (waited > 200000) /* for longer waits, pauses add at most 2% */
            gdn_sleep((int64_t)(waited / 50 < 1000000 ? waited / 50 : 1000000));
    }
    return GDN_OK;
}
