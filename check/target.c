/* Targets. See target.h. */
#define _DEFAULT_SOURCE
#include "target.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"
#include "executor.h"
#include "system/machine.h"

enum { MAX_CONTEXTS = 24 };

typedef struct context_entry {
    int executor;
    gdn_context *ctx;
    int n_threads;
} context_entry;

/* Where a memory of a case lies on the target. Kept from case to case and replaced when it is too small. */
typedef struct place {
    gdn_span span; /* from gdn_buffer_create() */
    uint64_t bytes;
    unsigned char *guarded; /* mapped pages between two that must not be touched */
    uint64_t guarded_bytes;
} place;

struct check_target {
    check_target_info info;
    uint32_t level;
    int adopted; /* the first context is the caller's */
    context_entry entry[MAX_CONTEXTS];
    int n_entries;
    place place[CHECK_MAX_MEMORIES];
    gdn_span workspace;
    uint64_t workspace_bytes;
    unsigned char *scratch; /* host side of the workspace */
};

enum { WORKSPACE_CANARY = 64 };

static check_target *new_target(void)
{
    check_target *t = check_alloc(sizeof *t);
    t->info.backend.size = sizeof t->info.backend;
    t->info.device.size = sizeof t->info.device;
    t->info.implementation.size = sizeof t->info.implementation;
    return t;
}

check_target *check_target_open(uint32_t backend, uint32_t device, uint32_t implementation, uint32_t level)
{
    check_target *t = new_target();
    t->level = level;
    if (gdn_backend_describe(backend, &t->info.backend) || gdn_device_describe(backend, device, &t->info.device) ||
        gdn_implementation_describe(backend, device, implementation, &t->info.implementation) ||
        !check_target_context(t, 0) || gdn_context_describe(t->entry[0].ctx, NULL, &t->info.implementation)) {
        check_target_close(t);
        return NULL;
    }
    return t;
}

check_target *check_target_adopt(gdn_context *ctx)
{
    check_target *t = new_target();
    t->adopted = t->n_entries = 1;
    t->entry[0].ctx = ctx;
    if (gdn_context_describe(ctx, &t->info.device, &t->info.implementation) ||
        gdn_backend_describe(t->info.device.backend, &t->info.backend)) {
        check_target_close(t);
        return NULL;
    }
    return t;
}

const check_target_info *check_target_describe(const check_target *t) { return &t->info; }

gdn_context *check_target_context(check_target *t, int executor)
{
    if (!t->info.device.shared_memory) executor = 0; /* threads are the host's business */
    for (int i = 0; i < t->n_entries; i++)
        if (t->entry[i].executor == executor) return t->entry[i].ctx;
    if (t->n_entries == MAX_CONTEXTS) return t->entry[0].ctx;
    context_entry *e = &t->entry[t->n_entries];
    gdn_context_desc desc = { sizeof desc };
    *e = (context_entry){ .executor = executor, .n_threads = executor & 255 };
    desc.backend = t->info.backend.backend;
    desc.device = t->info.device.device;
    desc.implementation = t->info.implementation.name;
    desc.n_threads = (uint32_t)e->n_threads;
    desc.level = t->level;
    if (executor >> 8 == CHECK_THREADS_POOL) desc.parallel_for = check_threads_run;
    desc.parallel_user = &e->n_threads;
    if (executor >> 8 == CHECK_THREADS_REVERSE) desc.parallel_for = check_reverse_run;
    if (gdn_context_create(&desc, &e->ctx)) return NULL;
    t->n_entries++;
    return e->ctx;
}

static void free_guarded(place *p)
{
    const uint64_t page = pages_size();
    if (p->guarded) pages_free(p->guarded - page, p->guarded_bytes + 2 * page);
    p->guarded = NULL;
}

void check_target_close(check_target *t)
{
    if (!t) return;
    for (int m = 0; m < CHECK_MAX_MEMORIES; m++) {
        if (t->place[m].span.data) gdn_buffer_destroy(t->entry[0].ctx, &t->place[m].span);
        free_guarded(&t->place[m]);
    }
    if (t->workspace.data) gdn_buffer_destroy(t->entry[0].ctx, &t->workspace);
    free(t->scratch);
    for (int i = t->adopted; i < t->n_entries; i++) gdn_context_destroy(t->entry[i].ctx);
    free(t);
}

void check_result_free(check_result *result)
{
    for (int m = 0; m < CHECK_MAX_MEMORIES; m++) free(result->image[m]);
    memset(result, 0, sizeof *result);
}

static void conclude(check_result *r, check_outcome outcome, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void conclude(check_result *r, check_outcome outcome, const char *format, ...)
{
    va_list args;
    r->outcome = outcome;
    va_start(args, format);
    vsnprintf(r->text, sizeof r->text, format, args);
    va_end(args);
}

/* "What failed: GDN_TIMEOUT: the device ... was not done after ..." */
static void conclude_error(check_result *r, gdn_status status, const char *what)
{
    r->status = status;
    conclude(r, CHECK_ERROR, "%s failed: %s: %s", what, gdn_status_name(status), gdn_last_error());
}

/* A buffer of at least `bytes` bytes at *span, whose size is kept in *have. Contents are lost. It is of the first
 * context, whose device the others share, since the context that made a buffer has to destroy it. */
static gdn_status grow_buffer(const check_target *t, gdn_span *span, uint64_t *have, uint64_t bytes)
{
    if (span->data && *have >= bytes) return GDN_OK;
    gdn_context *ctx = t->entry[0].ctx;
    gdn_buffer_destroy(ctx, span);
    *have = bytes + bytes / 2 + 4096;
    memset(span, 0, sizeof *span);
    return gdn_buffer_create(ctx, *have, span);
}

static int grow_guarded(place *p, uint64_t bytes)
{
    const uint64_t page = pages_size();
    if (p->guarded && p->guarded_bytes >= bytes) return 1;
    free_guarded(p);
    p->guarded_bytes = (bytes + bytes / 2 + page) / page * page;
    unsigned char *base = pages_reserve(p->guarded_bytes + 2 * page);
    if (!base) return 0;
    p->guarded = base + page;
    return pages_open(p->guarded, p->guarded_bytes);
}

/* Put memory m of the case where its placement says. *where: its first byte. */
static gdn_status put_memory(check_target *t, gdn_context *ctx, const check_case *c, int m, gdn_span *where)
{
    const check_memory *memory = &c->memory[m];
    place *p = &t->place[m];
    if (c->placement != CHECK_CANARIES && t->info.device.shared_memory) {
        if (!grow_guarded(p, memory->bytes)) return GDN_OUT_OF_MEMORY;
        unsigned char *at =
            c->placement == CHECK_GUARD_AFTER ? p->guarded + p->guarded_bytes - memory->bytes : p->guarded;
        memcpy(at, memory->image, memory->bytes);
        *where = (gdn_span){ at, 0, memory->bytes };
        return GDN_OK;
    }
    gdn_status status = grow_buffer(t, &p->span, &p->bytes, memory->bytes);
    if (!status) status = gdn_buffer_write(ctx, &p->span, 0, memory->image, memory->bytes);
    *where = p->span;
    return status;
}

static gdn_status get_memory(check_target *t, gdn_context *ctx, const check_case *c, int m, const gdn_span *where,
                             check_result *r)
{
    const uint64_t bytes = c->memory[m].bytes;
    if (r->room[m] < bytes + 1) {
        free(r->image[m]);
        r->room[m] = bytes + bytes / 2 + 1;
        r->image[m] = check_alloc(r->room[m]);
    }
    if (c->placement != CHECK_CANARIES && t->info.device.shared_memory) {
        memcpy(r->image[m], where->data, bytes);
        return GDN_OK;
    }
    return gdn_buffer_read(ctx, &t->place[m].span, 0, r->image[m], bytes);
}

gdn_status check_target_workspace(check_target *t, gdn_context *ctx, uint64_t bytes, gdn_span *span)
{
    const uint64_t had = t->workspace_bytes;
    memset(span, 0, sizeof *span);
    gdn_status status;
    if (!bytes) return GDN_OK;
    if ((status = grow_buffer(t, &t->workspace, &t->workspace_bytes, bytes + 2 * WORKSPACE_CANARY))) return status;
    if (!t->scratch || had != t->workspace_bytes) {
        free(t->scratch);
        t->scratch = check_alloc(t->workspace_bytes);
    }
    check_poison(t->scratch, bytes + 2 * WORKSPACE_CANARY, 0);
    if ((status = gdn_buffer_write(ctx, &t->workspace, 0, t->scratch, bytes + 2 * WORKSPACE_CANARY))) return status;
    *span = (gdn_span){ t->workspace.data, t->workspace.offset + WORKSPACE_CANARY, bytes };
    return GDN_OK;
}

static gdn_status workspace_overrun(check_target *t, gdn_context *ctx, uint64_t bytes, int *overrun)
{
    gdn_status status;
    *overrun = 0;
    if (!bytes) return GDN_OK;
    if ((status = gdn_buffer_read(ctx, &t->workspace, 0, t->scratch, bytes + 2 * WORKSPACE_CANARY))) return status;
    for (uint64_t i = 0; i < 2 * WORKSPACE_CANARY; i++) {
        const uint64_t at = i < WORKSPACE_CANARY ? i : i + bytes;
        *overrun |= t->scratch[at] != (unsigned char)(at & 1 ? CHECK_POISON >> 8 : CHECK_POISON & 0xFF);
    }
    return GDN_OK;
}

void check_target_run(check_target *t, const check_case *c, check_result *r)
{
    gdn_context *ctx = check_target_context(t, c->executor);
    gdn_span where[CHECK_MAX_MEMORIES], workspace;
    gdn_capability without = { .size = sizeof without }, with = { .size = sizeof with };
    check_args args = c->args;
    gdn_status status;

    r->outcome = CHECK_RAN;
    r->status = GDN_OK;
    r->text[0] = 0;
    if (!ctx) {
        conclude(r, CHECK_ERROR, "no context with executor %#x: %s", (unsigned)c->executor, gdn_last_error());
        return;
    }
    for (int m = 0; m < c->n_memories; m++)
        if ((status = put_memory(t, ctx, c, m, &where[m]))) {
            conclude_error(r, status, "bringing the operands to the device");
            return;
        }

    check_bind(c, where, c->use_offset || !t->info.device.shared_memory, &args);
    /* Data and maps may be absent from a query. Without seq_start it takes all sequences to be equally long,
     * so that stays where tensors have a sequence axis, whose strides then say something else. */
    check_args dataless = args;
    int by_seq = 0;
    for (int i = 0; i < c->n_views; i++)
        by_seq |=
            c->view[i].given[0] && c->view[i].axis[0] && !strcmp(c->view[i].axis[0], "seq") && c->view[i].rank > 1;
    for (int i = 0; i < c->n_views; i++) {
        if (c->view[i].is_span) {
            if (!by_seq || strcmp(c->view[i].name, "seq_start"))
                memset((char *)&dataless + c->view[i].field, 0, sizeof(gdn_span));
        } else if (!check_is_known_by_data(c->view[i].name)) {
            gdn_tensor *tensor = (gdn_tensor *)(void *)((char *)&dataless + c->view[i].field);
            tensor->data = NULL;
            tensor->offset = 0;
            tensor->bytes = 0;
        }
    }
    if ((status = c->kernel->query(ctx, &args, &with))) {
        conclude_error(r, status, "the query");
        return;
    }
    if ((status = c->kernel->query(ctx, &dataless, &without)) || memcmp(&with, &without, sizeof with)) {
        conclude(r, CHECK_FAILED,
                 "the query depends on whether data are given: without, %s; workspace %llu and %llu; %s and %s; %s",
                 gdn_status_name(status), (unsigned long long)with.workspace_bytes,
                 (unsigned long long)without.workspace_bytes, with.implementation, without.implementation,
                 status ? gdn_last_error() : "");
        return;
    }
    if (!with.supported) {
        conclude(r, CHECK_SKIPPED, "%s", with.reason[0] ? with.reason : "not supported, and no reason given");
        return;
    }
    if ((status = check_target_workspace(t, ctx, with.workspace_bytes, &workspace))) {
        conclude_error(r, status, "making a workspace");
        return;
    }
    *check_workspace(c->kernel, &args) = workspace;

    check_executor_mode_changes();
    const uint64_t old = check_environment_enter(c->environment);
    const uint64_t entered = check_environment_get();
    status = c->kernel->run(ctx, &args, NULL);
    const uint64_t left = check_environment_get();
    check_environment_put(old);
    if (status) {
        conclude_error(r, status, "the call");
        return;
    }
    if ((status = gdn_synchronize(ctx, NULL)) || (status = gdn_poll(ctx))) {
        conclude_error(r, status, "waiting for the call");
        if (status != GDN_BAD_MAP) return;
    }
    for (int m = 0; m < c->n_memories; m++)
        if ((status = get_memory(t, ctx, c, m, &where[m], r))) {
            conclude_error(r, status, "reading the results");
            return;
        }
    if (r->outcome != CHECK_RAN) return;
    int overrun;
    if ((status = workspace_overrun(t, ctx, with.workspace_bytes, &overrun)))
        conclude_error(r, status, "reading the workspace");
    else if (overrun)
        conclude(r, CHECK_FAILED, "bytes outside the %llu bytes of workspace were written",
                 (unsigned long long)with.workspace_bytes);
    else if (left != entered)
        conclude(r, CHECK_FAILED, "the caller's floating-point mode was %#llx (%s) and is %#llx afterwards",
                 (unsigned long long)entered, check_environment_name(c->environment), (unsigned long long)left);
    else if (check_executor_mode_changes())
        conclude(r, CHECK_FAILED, "a task left its thread in another floating-point mode");
}
