/* Threads that a caller might bring. See executor.h. */
#include "executor.h"

#include <stdatomic.h>

#include "environment.h"
#include "system/system.h"

/* What include/gdn/base.h says of a task, and a third for the thread itself; sanitizers take more. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK_BYTES = 0 };
#elif defined(__has_feature)
enum { STACK_BYTES = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 0 : 128 << 10 };
#else
enum { STACK_BYTES = 128 << 10 };
#endif

enum { MAX_THREADS = 64 };

/* A call's tasks. */
typedef struct job {
    gdn_task_fn task;
    void *arg;
    int32_t n, step;
    uint64_t mode;
    atomic_int next;
} job;

static atomic_int mode_changes;

int check_executor_mode_changes(void) { return atomic_exchange(&mode_changes, 0); }

static void run_one(gdn_task_fn task, void *arg, int32_t i)
{
    const uint64_t before = check_environment_get();
    task(arg, i);
    if (check_environment_get() != before) atomic_fetch_add(&mode_changes, 1);
}

/* A step that visits all of 0 .. n - 1 in another order. */
static int32_t scattering_step(int32_t n)
{
    for (int32_t step = n / 2 + 1; step < n; step++) {
        int32_t a = n, b = step;
        while (b) {
            const int32_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return step;
    }
    return 1;
}

static void take_tasks(job *j)
{
    for (;;) {
        const int i = atomic_fetch_add(&j->next, 1);
        if (i >= j->n) return;
        run_one(j->task, j->arg, (int32_t)((int64_t)i * j->step % j->n));
    }
}

static void *worker(void *user)
{
    job *j = user;
    check_environment_put(j->mode);
    take_tasks(j);
    return NULL;
}

void check_threads_run(void *user, int32_t n, gdn_task_fn task, void *arg)
{
    const int n_threads = *(const int *)user < MAX_THREADS ? *(const int *)user : MAX_THREADS;
    job j = { .task = task, .arg = arg, .n = n, .step = scattering_step(n), .mode = check_environment_get() };
    gdn_thread thread[MAX_THREADS];
    int started = 0;
    while (started < n_threads - 1 && started < n - 1 && gdn_thread_start(&thread[started], STACK_BYTES, worker, &j))
        started++;
    take_tasks(&j);
    while (started) gdn_thread_join(thread[--started]);
}

void check_reverse_run(void *user, int32_t n, gdn_task_fn task, void *arg)
{
    (void)user;
    while (n-- > 0) run_one(task, arg, n);
}
