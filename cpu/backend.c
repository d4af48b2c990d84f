/* The CPU backend: a table of kernels for the context's instruction set, which threads run in parallel over items. */
#include <stdatomic.h>
#include <stdio.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "core/backend.h"
#include "core/calls.h"
#include "core/environment.h"
#include "core/status.h"
#include "cpu/cpu.h"
#include "numerics/float_env.h"
#include "simd/features.h"
#include "system/system.h"
#include "threads/team.h"

/* ---- Lists ---------------------------------------------------------------------------------------- */

static gdn_status describe_device(const gdn_backend *backend, uint32_t device, gdn_device_info *info)
{
    (void)backend, (void)device;
    gdn_simd_name(info->name, sizeof info->name);
    info->shared_memory = 1;
    info->memory_bytes = gdn_memory_total();
    while (gdn_cpu_table_of(info->n_implementations)) info->n_implementations++;
    return GDN_OK;
}

static gdn_status describe_implementation(const gdn_backend *backend, uint32_t device, uint32_t index,
                                          gdn_implementation_info *info)
{
    (void)backend, (void)device;
    const gdn_cpu_table *table = gdn_cpu_table_of(index);
    (void)snprintf(info->name, sizeof info->name, "%s", table->name);
    /* IEEE arithmetic with hardware fma, or the C library's; numerics/float_env.h keeps subnormals */
    info->levels = 1u << GDN_EXACT | (table->flush ? 1u << GDN_EXACT_FTZ : 0u);
    return GDN_OK;
}

/* ---- Context -------------------------------------------------------------------------------------- */

typedef struct cpu_state {
    const gdn_cpu_table *table; /* for the context's level */
    int flushes;                /* 1: runs in the processor's mode that flushes subnormals */
    int32_t n_threads;
    gdn_team *team; /* own threads; NULL if the caller or OpenMP provides them, or one is enough */
} cpu_state;

static int32_t default_threads(void)
{
    const char *wanted = gdn_environment("GDN_NUM_THREADS");
#if defined(_OPENMP)
    if (!wanted) return omp_get_max_threads(); /* honours OMP_NUM_THREADS and the affinity of the process */
#endif
    return gdn_team_default_threads(wanted);
}

/* Starts the threads at creation, because calls do not allocate. */
static gdn_status start_team(const gdn_context *ctx, cpu_state *state)
{
#if !defined(_OPENMP)
    if (state->n_threads > 1 && !ctx->desc.parallel_for) {
        const uint64_t bytes = gdn_team_bytes(state->n_threads);
        void *memory = gdn_context_alloc(ctx, bytes, 64);
        if (!memory)
            return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a team of %d threads, %llu bytes", (int)state->n_threads,
                            (unsigned long long)bytes);
        state->team = gdn_team_start(memory, state->n_threads);
        const int32_t n = gdn_team_default_threads(NULL);
        if (n < state->n_threads)
            gdn_context_log(ctx, GDN_LOG_WARNING, "cpu: n_threads is %d, and the process may use %d processors",
                            (int)state->n_threads, (int)n);
    }
#endif
    (void)ctx, (void)state;
    return GDN_OK;
}

static gdn_status open_cpu(gdn_context *ctx, const gdn_context_desc *desc, uint32_t implementation)
{
    if (desc->native)
        return gdn_fail(GDN_INVALID_ARGUMENT, "desc->native is %p; on the cpu backend it must be NULL", desc->native);
    cpu_state *state = gdn_context_alloc(ctx, sizeof *state, 64);
    if (!state) return gdn_fail(GDN_OUT_OF_MEMORY, "no memory for a cpu context of %zu bytes", sizeof *state);
    int32_t n_threads = desc->n_threads ? (int32_t)desc->n_threads : default_threads();
    if (n_threads > GDN_TEAM_MAX_THREADS) n_threads = GDN_TEAM_MAX_THREADS;
    const gdn_cpu_table *table = gdn_cpu_table_of(implementation);
    const int flush = desc->level == GDN_EXACT_FTZ; /* core has checked that the table has this level */
    *state = (cpu_state){ .table = flush ? table->flush : table,
                          .flushes = flush && table->flush == table,
                          .n_threads = n_threads };
    ctx->state = state;
    return start_team(ctx, state);
}

static void close_cpu(gdn_context *ctx)
{
    cpu_state *state = ctx->state;
    if (state && state->team) {
        gdn_team_stop(state->team);
        gdn_context_free(ctx, state->team);
    }
    gdn_context_free(ctx, state);
    ctx->state = NULL;
}

/* ---- Running -------------------------------------------------------------------------------------- */

/* Scratch of one thread in the workspace, rounded so that threads do not share cache lines. */
static uint64_t scratch_stride(const gdn_plan *plan) { return (plan->cpu.scratch_bytes + 63) / 64 * 64; }

/* The call's block. All members of the union have one address. */
static const void *block_of(const gdn_problem *problem) { return &problem->gated_delta_net; }

static void plan_cpu(const gdn_context *ctx, const gdn_problem *problem, gdn_plan *plan)
{
    const cpu_state *state = ctx->state;
    state->table->kernels[problem->kernel]->plan(block_of(problem), state->n_threads, plan);
    plan->workspace_bytes = scratch_stride(plan) * (uint64_t)state->n_threads;
}

static void describe_plan(const gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan,
                          gdn_capability *capability)
{
    const cpu_state *state = ctx->state;
    (void)problem;
    capability->exact = 1;
    (void)snprintf(capability->implementation, sizeof capability->implementation, "%s/%s", state->table->name,
                   gdn_variant_name(plan->variant));
}

typedef struct job {
    const gdn_cpu_kernel *kernel;
    const gdn_problem *problem;
    const gdn_plan *plan;
    int flushes;
    _Atomic int64_t next; /* first item that no thread has taken */
} job;

/* Enters the floating-point mode of the context's level. Each worker thread needs it. */
static gdn_float_env enter(const job *j)
{
#if defined(__x86_64__)
    if (j->flushes) return gdn_float_env_enter_flushing();
#endif
    (void)j;
    return gdn_float_env_enter();
}

/* One worker: takes items until none are left. The assignment of items to workers does not affect results. */
static void work(void *arg, int32_t worker)
{
    job *j = arg;
    char *const scratches = gdn_memory(j->problem->workspace);
    char *scratch = scratches ? scratches + (uint64_t)worker * scratch_stride(j->plan) : NULL;
    const int64_t n_items = j->plan->n_items, grain = j->plan->cpu.grain;
    const gdn_float_env caller = enter(j);
    for (;;) {
        const int64_t first = atomic_fetch_add_explicit(&j->next, grain, memory_order_relaxed);
        if (first >= n_items) break;
        j->kernel->run(block_of(j->problem), j->plan, first, n_items - first < grain ? n_items : first + grain,
                       scratch);
    }
    gdn_float_env_leave(caller);
}

/* Runs a call of any kernel with as many workers as have work, one of them on the calling thread. */
static gdn_status run_cpu(gdn_context *ctx, const gdn_problem *problem, const gdn_plan *plan, gdn_stream stream)
{
    const cpu_state *state = ctx->state;
    job j = {
        .kernel = state->table->kernels[problem->kernel], .problem = problem, .plan = plan, .flushes = state->flushes
    };
    const int64_t portions = (plan->n_items + plan->cpu.grain - 1) / plan->cpu.grain;
    const int32_t n = portions < state->n_threads ? (int32_t)portions : state->n_threads;
    gdn_status status = gdn_host_synchronize(ctx, stream); /* refuses a stream */
    if (status) return status;
    if (n <= 1) {
        work(&j, 0);
    } else if (ctx->desc.parallel_for) {
        ctx->desc.parallel_for(ctx->desc.parallel_user, n, work, &j);
    } else if (state->team) {
        gdn_team_run(state->team, n, work, &j);
    } else {
#if defined(_OPENMP)
#pragma omp parallel for num_threads(n) schedule(static, 1)
#endif
        for (int32_t i = 0; i < n; i++) work(&j, i);
    }
    return GDN_OK;
}

const gdn_backend gdn_backend_cpu = {
    .id = GDN_BACKEND_CPU,
    .name = "cpu",
    .describe_device = describe_device,
    .describe_implementation = describe_implementation,
    .open = open_cpu,
    .close = close_cpu,
    GDN_HOST_MEMORY,
    .plan = plan_cpu,
    .describe_plan = describe_plan,
    .run = run_cpu,
};
