/* Memory: when it runs out at creation, nothing is left behind; and after creation, nothing is allocated.
 *
 * Two counters. The context's own allocator counts what the library asks of it and can be told to fail. On the GNU C
 * library this program also replaces malloc and its relatives. That counts what OpenMP and the C library do inside a
 * call. Sanitizers replace them themselves, so this part is left out there. */
#define _POSIX_C_SOURCE 200809L /* posix_memalign, strdup */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gdn/gdn.h"
#include "tests/harness.h"
#include "tests/sanitized.h"
#include "tests/unit/targets.h"

#if defined(__GLIBC__) && !defined(SANITIZED)
#define COUNTS_MALLOC 1
#define COUNTED       __attribute__((visibility("default"))) /* also in calls from shared libraries */
static atomic_long malloc_calls;                             /* of every thread */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

#define COUNTS(declaration, call)                                                                                      \
    COUNTED void *declaration                                                                                          \
    {                                                                                                                  \
        malloc_calls++;                                                                                                \
        return call;                                                                                                   \
    }
COUNTS(malloc(size_t bytes), __libc_malloc(bytes))
COUNTS(calloc(size_t n, size_t bytes), __libc_calloc(n, bytes))
COUNTS(realloc(void *memory, size_t bytes), __libc_realloc(memory, bytes))
COUNTS(aligned_alloc(size_t alignment, size_t bytes), __libc_memalign(alignment, bytes))

COUNTED int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    malloc_calls++;
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}
#endif

/* ---- The context's allocator -------------------------------------------------------------------------------- */

enum { MAX_BLOCKS = 64 };

typedef struct counting {
    long calls, frees;
    long fail_at; /* the call that gets no memory, from 0; -1 = none */
    int live, wrong;
    struct {
        void *at;
        uint64_t bytes;
    } block[MAX_BLOCKS];
} counting;

static void *count_alloc(void *user, uint64_t bytes, uint64_t alignment)
{
    counting *c = user;
    if (!bytes || !alignment || (alignment & (alignment - 1)) || c->live == MAX_BLOCKS) c->wrong++;
    if (c->calls++ == c->fail_at) return NULL;
    void *memory = aligned_alloc((size_t)alignment, (size_t)((bytes + alignment - 1) / alignment * alignment));
    if (!memory) return NULL;
    memset(memory, 0xdb, (size_t)bytes); /* contents are nothing to rely on */
    c->block[c->live].at = memory;
    c->block[c->live++].bytes = bytes;
    return memory;
}

/* Inlined, gcc 12 takes `memory` for the counter itself and warns. */
__attribute__((noinline)) static void count_free(void *user, void *memory)
{
    counting *c = user;
    c->frees++;
    for (int i = 0; i < c->live; i++)
        if (c->block[i].at == memory) {
            c->block[i] = c->block[--c->live];
            free(memory);
            return;
        }
    c->wrong++; /* NULL, twice, or not ours */
}

static void require_balance(const counting *c, const char *name, const char *when)
{
    REQUIRE(!c->wrong && !c->live, "%s, %s: %d blocks left, %d wrong calls, %ld allocations and %ld frees", name, when,
            c->live, c->wrong, c->calls, c->frees);
}

static void out_of_memory(gdn_context_desc *desc, const char *name)
{
    desc->n_threads = 2;
    long n = 0;
    for (;; n++) {
        counting c = { .fail_at = n };
        gdn_context *ctx = (gdn_context *)&c;
        desc->alloc = count_alloc;
        desc->free = count_free;
        desc->alloc_user = &c;
        const gdn_status status = gdn_context_create(desc, &ctx);
        NEED(n < 1000);
        if (status == GDN_OK) {
            REQUIRE(c.calls == n); /* enough for all of them */
            gdn_context_destroy(ctx);
            require_balance(&c, name, "created and destroyed");
            break;
        }
        REQUIRE(status == GDN_OUT_OF_MEMORY);
        REQUIRE(strstr(gdn_last_error(), "no memory for") && !ctx);
        require_balance(&c, name, "failed to create");
    }
    REQUIRE(n > 0); /* the context itself at least comes from the caller's allocator */
    printf("%s: %ld allocations at creation\n", name, n);

    counting c = { .fail_at = -1 };
    gdn_context *ctx = NULL;
    desc->alloc_user = &c;
    REQUIRE(!gdn_context_create(desc, &ctx));
    const long at_creation = c.calls;
    for (n = 0;; n++) {
        gdn_span span = { .data = &c, .bytes = 1 };
        c.fail_at = c.calls + n;
        const gdn_status status = gdn_buffer_create(ctx, 1000, &span);
        if (status == GDN_OK) {
            gdn_buffer_destroy(ctx, &span);
            break;
        }
        REQUIRE(status == GDN_OUT_OF_MEMORY);
        REQUIRE(strstr(gdn_last_error(), "1000 bytes") && c.live == at_creation);
        NEED(n < 1000);
    }
    gdn_context_destroy(ctx);
    require_balance(&c, name, "with buffers");
}

/* The allocator that is built in has no memory for this either. Not where a sanitizer would stop the program. */
static void too_large(gdn_context_desc *desc, const char *name)
{
    desc->n_threads = 2;
    gdn_context *ctx = NULL;
    gdn_span span = { 0 };
    desc->alloc = NULL;
    desc->free = NULL;
    REQUIRE(!gdn_context_create(desc, &ctx));
#ifndef SANITIZED
    REQUIRE(gdn_buffer_create(ctx, UINT64_C(1) << 46, &span) == GDN_OUT_OF_MEMORY, "%s has a buffer of 2^46 bytes",
            name);
    REQUIRE(strstr(gdn_last_error(), "70368744177664 bytes") && !span.data);
#endif
    (void)name, (void)span;
    gdn_context_destroy(ctx);
}

/* ---- Kernels -------------------------------------------------------------------------------------------------- */

/* One call of each kernel, large enough for two threads and for every loop order. */
enum { T = 40, H = 4, D = 64, C = 640, ROWS = 8 };

typedef struct operands {
    gdn_span q, v, g, out, state, weight, history, rows, index, map;
} operands;

static void delta_args(gdn_gated_delta_net_args *a, const operands *o, int n_tokens, int layout, int gate)
{
    *a = (gdn_gated_delta_net_args)FIELDS(.size = sizeof *a, .n_seqs = 2, .n_tokens = n_tokens, .n_heads_k = H,
                                          .n_heads_v = H, .head_dim_k = D, .head_dim_v = D, .state_layout = layout,
                                          .gate = gate, .n_snapshots = 2, .scale = 0.125f,
                                          .state = { .n_rows = 2, .n_slots = 2 });
    a->q.data = a->k.data = o->q.data;
    a->v.data = o->v.data;
    a->g.data = o->g.data;
    a->beta.data = o->g.data;
    a->out.data = o->out.data;
    a->state.data = o->state.data;
}

static gdn_status run_all(gdn_context *ctx, const operands *o, gdn_span *workspace)
{
    gdn_status status = GDN_OK;
    gdn_capability c = { .size = sizeof c };
    for (int v = 0; v < 8 && !status; v++) {
        gdn_gated_delta_net_args a;
        delta_args(&a, o, v & 4 ? 4 : T, v & 1, v >> 1 & 1);
        a.workspace = *workspace;
        if ((status = gdn_gated_delta_net_query(ctx, &a, &c)) == GDN_OK) status = gdn_gated_delta_net(ctx, &a, NULL);
    }
    for (int silu = 0; silu < 2 && !status; silu++) {
        gdn_ssm_conv_args a = FIELDS(.size = sizeof a, .n_seqs = 2, .n_tokens = T, .n_channels = C, .kernel_width = 4,
                                     .activation = silu, .history = { .n_rows = 2, .n_slots = 3 });
        a.x.data = o->q.data, a.weight.data = o->weight.data, a.out.data = o->out.data,
        a.history.data = o->history.data;
        a.workspace = *workspace;
        if ((status = gdn_ssm_conv_query(ctx, &a, &c)) == GDN_OK) status = gdn_ssm_conv(ctx, &a, NULL);
    }
    for (int32_t dtype = GDN_F32; dtype <= GDN_Q8_0 && !status; dtype++) {
        gdn_set_rows_args a = FIELDS(.size = sizeof a, .n_columns = C, .n_rows = ROWS, .n_rows_dst = ROWS,
                                     .n_batch = { 2, 2 }, .index_batch = { 1, 1 });
        a.src.data = o->q.data, a.dst.data = o->rows.data, a.index.data = o->index.data;
        a.dst.dtype = dtype, a.index.dtype = GDN_I32;
        a.workspace = *workspace;
        if ((status = gdn_set_rows_query(ctx, &a, &c)) == GDN_OK) status = gdn_set_rows(ctx, &a, NULL);
    }
    return status ? status : gdn_synchronize(ctx, NULL);
}

/* Refused calls make their text without memory too. */
static void refuse_all(gdn_context *ctx)
{
    gdn_gated_delta_net_args a = { .size = sizeof a, .n_seqs = -1 };
    gdn_ssm_conv_args b = { .size = sizeof b, .n_seqs = 1, .n_tokens = 1, .n_channels = 1, .kernel_width = 1 };
    gdn_set_rows_args c =
        FIELDS(.size = sizeof c, .n_columns = 1, .n_batch = { 1, 1 }, .index_batch = { 1, 1 }, .src.dtype = 77);
    REQUIRE(gdn_gated_delta_net(ctx, &a, NULL) == GDN_INVALID_ARGUMENT);
    REQUIRE(gdn_ssm_conv(ctx, &b, NULL) == GDN_INVALID_ARGUMENT);
    REQUIRE(gdn_set_rows(ctx, &c, NULL) == GDN_INVALID_ARGUMENT);
    REQUIRE(!gdn_poll(ctx));
}

#if defined(__clang__) && defined(GDN_HAVE_OPENMP)
/* LLVM's OpenMP runtime allocates whenever a team begins. That is not ours to count, so the tasks run here. */
static void in_order(void *user, int32_t n, gdn_task_fn task, void *arg)
{
    (void)user;
    for (int32_t i = 0; i < n; i++) task(arg, i);
}
#define PARALLEL_FOR in_order
#else
#define PARALLEL_FOR NULL
#endif

static void no_allocation(gdn_context_desc *desc, const char *name)
{
    desc->n_threads = 2;
    counting c = { .fail_at = -1 };
    gdn_context *ctx = NULL;
    operands o;
    gdn_span workspace;
    static const int32_t indices[ROWS] = { 3, 1, -1, 0, 2, 7, 6, 5 };
    desc->alloc = count_alloc;
    desc->free = count_free;
    desc->alloc_user = &c;
    desc->parallel_for = PARALLEL_FOR;
    REQUIRE(!gdn_context_create(desc, &ctx));
    gdn_span *const all[] = { &o.q, &o.v, &o.g, &o.out, &o.state, &o.weight, &o.history, &o.rows, &o.index, &o.map };
    const uint64_t bytes = 4 * (uint64_t)T * C * 4 + 4 * 2 * 2 * H * D * D; /* more than any of them needs */
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        REQUIRE(!gdn_buffer_create(ctx, bytes, all[i]));
        void *zeros = calloc(1, (size_t)bytes);
        REQUIRE(zeros);
        REQUIRE(!gdn_buffer_write(ctx, all[i], 0, zeros, bytes));
        free(zeros);
    }
    REQUIRE(!gdn_buffer_write(ctx, &o.index, 0, indices, sizeof indices));
    REQUIRE(!gdn_buffer_create(ctx, 4 << 20, &workspace));

    /* OpenMP makes its threads in the first calls. */
    REQUIRE(!run_all(ctx, &o, &workspace) && !run_all(ctx, &o, &workspace), "%s", name);
    gdn_device_info device = { .size = sizeof device };
    REQUIRE(!gdn_context_describe(ctx, &device, NULL));
    const long calls = c.calls, frees = c.frees;
#ifdef COUNTS_MALLOC
    const long mallocs = malloc_calls;
#endif
    REQUIRE(!run_all(ctx, &o, &workspace));
    refuse_all(ctx);
#ifdef COUNTS_MALLOC
    REQUIRE(!device.shared_memory ||
                malloc_calls == mallocs, /* what a driver does when it records is not ours to count */
            "%s: %ld calls of malloc and its relatives during kernel calls", name, malloc_calls - mallocs);
#endif
    REQUIRE(c.calls == calls && c.frees == frees, "%s: %ld calls of the context's allocator during kernel calls", name,
            c.calls - calls + c.frees - frees);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i += 2) gdn_buffer_destroy(ctx, all[i]);
    gdn_context_destroy(ctx); /* frees the other half, and the workspace */
    require_balance(&c, name, "after kernels");
}

/* ---- The tests ------------------------------------------------------------------------------------------------ */

/* The counters count: otherwise the tests above would pass whatever the library does. */
static void test_counters(void)
{
    counting c = { .fail_at = 1 };
    void *one = count_alloc(&c, 10, 64);
    REQUIRE(one);
    REQUIRE(!count_alloc(&c, 10, 64));
    count_free(&c, &c);
    REQUIRE(c.wrong == 1 && c.live == 1);
    count_free(&c, one);
    REQUIRE(c.live == 0);
#ifdef COUNTS_MALLOC
    const long before = malloc_calls;
    void *volatile kept[] = { malloc(1), calloc(1, 1), aligned_alloc(64, 64), NULL, strdup("inside the C library") };
    void *memory = NULL;
    REQUIRE(!posix_memalign(&memory, 64, 64));
    kept[3] = memory;
    kept[0] = realloc(kept[0], 100);
    REQUIRE(malloc_calls - before == 6);
    for (int i = 0; i < 5; i++) free(kept[i]);
#endif
}

int main(void)
{
    test_counters();
    each_target(ON_ALL, out_of_memory);
    each_target(ON_ALL, too_large);
    each_target(ON_ALL, no_allocation);
#ifndef COUNTS_MALLOC
    printf("malloc was not counted in this build, only the context's allocator\n");
#endif
    return test_summary();
}
