/* The threads of the OpenMP runtime that the process has loaded. It is found by name: libgdn does not link with one. */
#include <stdatomic.h>
#include <string.h>

#include "core/status.h"
#include "core/structs.h"
#include "system/system.h"

#ifndef GOMP_PARALLEL /* a test of the other interface hides it */
#define GOMP_PARALLEL "GOMP_parallel"
#endif

/* GNU's interface, which LLVM's and Intel's runtimes have too on Linux: `body` runs once on each thread of a team of at
 * most n_threads. */
typedef void (*gomp_parallel_fn)(void (*body)(void *), void *data, unsigned n_threads, unsigned flags);

/* LLVM's own interface, the only one of its runtime on macOS. */
typedef struct kmpc_place {
    int32_t reserved[4];
    const char *source;
} kmpc_place;
typedef void (*kmpc_body_fn)(int32_t *thread, int32_t *bound, void *data);
typedef void (*kmpc_fork_call_fn)(kmpc_place *place, int32_t n_arguments, kmpc_body_fn body, ...);
typedef int32_t (*kmpc_global_thread_num_fn)(kmpc_place *place);
typedef void (*kmpc_push_num_threads_fn)(kmpc_place *place, int32_t thread, int32_t n_threads);

static _Atomic(void *) kmpc_global_thread_num, kmpc_push_num_threads; /* the addresses of these functions */
static _Atomic(int64_t) process;                                      /* that has searched for a runtime first */

typedef struct job {
    gdn_task_fn task;
    void *arg;
    int32_t n;
    _Atomic int32_t next; /* first task that no thread has taken */
} job;

/* A runtime may start fewer threads than asked for: one within another parallel region. */
static void take_tasks(void *data)
{
    job *j = data;
    for (int32_t i; (i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->n;) j->task(j->arg, i);
}

/* In a forked child GNU's runtime waits for threads that are not there. */
static int forked(void) { return gdn_process_id() != atomic_load_explicit(&process, memory_order_relaxed); }

/* An object pointer can hold a function's where there are dynamic libraries; ISO C has no cast for it. */
static void run_gomp(void *user, int32_t n, gdn_task_fn task, void *arg)
{
    job j = { .task = task, .arg = arg, .n = n };
    gomp_parallel_fn parallel;
    memcpy(&parallel, &user, sizeof parallel);
    if (forked()) take_tasks(&j);
    else parallel(take_tasks, &j, (unsigned)n, 0);
}

static void kmpc_body(int32_t *thread, int32_t *bound, void *data)
{
    (void)thread, (void)bound;
    take_tasks(data);
}

static void run_kmpc(void *user, int32_t n, gdn_task_fn task, void *arg)
{
    job j = { .task = task, .arg = arg, .n = n };
    kmpc_place place = { .reserved = { 0, 2 }, .source = ";unknown;unknown;0;0;;" };
    kmpc_fork_call_fn fork_call;
    kmpc_global_thread_num_fn thread_num;
    kmpc_push_num_threads_fn push_num_threads;
    void *const thread_num_at = atomic_load(&kmpc_global_thread_num), *const push_at =
                                                                          atomic_load(&kmpc_push_num_threads);
    memcpy(&fork_call, &user, sizeof fork_call);
    memcpy(&thread_num, &thread_num_at, sizeof thread_num);
    memcpy(&push_num_threads, &push_at, sizeof push_num_threads);
    if (forked()) {
        take_tasks(&j);
        return;
    }
    push_num_threads(&place, thread_num(&place), n);
    fork_call(&place, 1, kmpc_body, &j);
}

gdn_status gdn_openmp_threads(gdn_context_desc *desc)
{
    const gdn_status status = gdn_struct_check("desc", desc, GDN_FIRST_SIZE(gdn_context_desc));
    if (status) return status;
    int64_t none = 0;
    (void)atomic_compare_exchange_strong(&process, &none, gdn_process_id());
    void *gomp_parallel = gdn_program_find(GOMP_PARALLEL);
    if (gomp_parallel) {
        desc->parallel_for = run_gomp;
        desc->parallel_user = gomp_parallel;
        return GDN_OK;
    }
    void *fork_call = gdn_program_find("__kmpc_fork_call"), *thread_num = gdn_program_find("__kmpc_global_thread_num");
    void *push = gdn_program_find("__kmpc_push_num_threads");
    if (!fork_call || !thread_num || !push)
        return gdn_fail(GDN_UNAVAILABLE,
                        "no OpenMP runtime in this process: neither GOMP_parallel nor __kmpc_fork_call "
                        "is visible; load the runtime before, with RTLD_GLOBAL");
    atomic_store(&kmpc_global_thread_num, thread_num);
    atomic_store(&kmpc_push_num_threads, push);
    desc->parallel_for = run_kmpc;
    desc->parallel_user = fork_call;
    return GDN_OK;
}
