/* Threads that a caller might bring. See executor.h. */
#include "executor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "environment.h"

/* What include/gdn/base.h says of a task, and a third for the thread itself; sanitizers take more. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK_BYTES = 0 };
#elif defined(__has_feature)
enum { STACK_BYTES = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 0 : 128 << 10 };
#else
enum { STACK_BYTES = 128 << 10 };
#endif

struct check_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t *thread;
    int n_threads; /* without the caller */
    int leaving;
    uint64_t round; /* counts calls, so that a worker takes part in each once */
    int busy;       /* workers that have not finished this round */
    /* of the round */
    gdn_task_fn task;
    void *arg;
    int32_t n, step;
    uint64_t mode;
    atomic_int next;
};

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

static void take_tasks(check_pool *pool)
{
    for (;;) {
        const int i = atomic_fetch_add(&pool->next, 1);
        if (i >= pool->n) return;
        run_one(pool->task, pool->arg, (int32_t)((int64_t)i * pool->step % pool->n));
    }
}

static void *worker(void *user)
{
    check_pool *pool = user;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->leaving && pool->round == seen) pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->leaving) break;
        seen = pool->round;
        const uint64_t mode = pool->mode;
        pthread_mutex_unlock(&pool->lock);
        const uint64_t mine = check_environment_get();
        check_environment_put(mode);
        take_tasks(pool);
        check_environment_put(mine);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

void check_pool_destroy(check_pool *pool)
{
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->leaving = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_threads; i++) pthread_join(pool->thread[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->thread);
    free(pool);
}

check_pool *check_pool_create(int n)
{
    check_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (STACK_BYTES) pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pool->thread = calloc((size_t)(n > 1 ? n - 1 : 1), sizeof pool->thread[0]);
    for (int i = 0; pool->thread && i < n - 1; i++, pool->n_threads++)
        if (pthread_create(&pool->thread[i], &attributes, worker, pool)) break;
    pthread_attr_destroy(&attributes);
    if (!pool->thread || pool->n_threads != n - 1) {
        check_pool_destroy(pool);
        return NULL;
    }
    return pool;
}

void check_pool_run(void *user, int32_t n, gdn_task_fn task, void *arg)
{
    check_pool *pool = user;
    if (n < 1) return;
    pthread_mutex_lock(&pool->lock);
    pool->task = task;
    pool->arg = arg;
    pool->n = n;
    pool->step = scattering_step(n);
    pool->mode = check_environment_get();
    atomic_store(&pool->next, 0);
    pool->busy = pool->n_threads;
    pool->round++;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    take_tasks(pool);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void check_reverse_run(void *user, int32_t n, gdn_task_fn task, void *arg)
{
    (void)user;
    while (n-- > 0) run_one(task, arg, n);
}
