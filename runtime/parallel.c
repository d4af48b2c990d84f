/* A team of POSIX threads. See parallel.h.
 *
 * A forward pass is hundreds of short parallel regions per token. A team whose caller waits for every member at the end
 * of each (OpenMP) stands still whenever the system has given one of the processors to another program. Here tasks are
 * handed out one by one, the caller takes its share, and it waits only for tasks that a member has begun: members that
 * come late find nothing to do and hold nobody up.
 *
 * All of it is one word: generation | n | next. A member that can replace it by (generation | n | next + 1) owns task
 * `next` of that job, and the job's other fields are what it read before, as they change only when all n are done. */
#define _GNU_SOURCE /* processors that may be used */
#include "runtime/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "runtime/error.h"

enum { MAX_THREADS = 1024, INDEX_BITS = 24, SPINS = 4000 }; /* of about 10 to 40 ns: longer than between two regions */

struct rt_threads {
    _Atomic uint64_t word;
    _Atomic(gdn_task_fn) task;
    _Atomic(void *)  arg;
    _Atomic int32_t  n_done;
    _Atomic int32_t  n_asleep, quit;
    uint32_t         generation;
    int32_t          n, n_started; /* threads with the caller; threads that were started */
    pthread_mutex_t  lock;         /* for sleeping alone                                 */
    pthread_cond_t   work;
    pthread_t       *thread;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint32_t generation_of(uint64_t word) { return (uint32_t)(word >> (2 * INDEX_BITS)); }
static int32_t  count_of(uint64_t word) { return (int32_t)(word >> INDEX_BITS & ((1 << INDEX_BITS) - 1)); }
static int32_t  next_of(uint64_t word) { return (int32_t)(word & ((1 << INDEX_BITS) - 1)); }

/* Tasks of the present job, as long as there are any. */
static void take_tasks(rt_threads *t)
{
    uint64_t word = atomic_load(&t->word);
    while (next_of(word) < count_of(word)) {
        const gdn_task_fn task = atomic_load(&t->task);
        void *const       arg  = atomic_load(&t->arg);
        if (!atomic_compare_exchange_weak(&t->word, &word, word + 1))
            continue;
        task(arg, next_of(word));
        atomic_fetch_add(&t->n_done, 1);
        word = atomic_load(&t->word);
    }
}

static void sleep_until(rt_threads *t, uint32_t seen)
{
    (void)pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->n_asleep, 1); /* before looking: who publishes a job looks here after it */
    while (generation_of(atomic_load(&t->word)) == seen && !atomic_load(&t->quit))
        (void)pthread_cond_wait(&t->work, &t->lock);
    atomic_fetch_sub(&t->n_asleep, 1);
    (void)pthread_mutex_unlock(&t->lock);
}

static void *member(void *threads)
{
    rt_threads *t    = threads;
    uint32_t    seen = 0;
    while (!atomic_load(&t->quit)) {
        for (int spin = 0; spin < SPINS && generation_of(atomic_load(&t->word)) == seen; spin++)
            relax();
        if (generation_of(atomic_load(&t->word)) == seen)
            sleep_until(t, seen);
        seen = generation_of(atomic_load(&t->word));
        take_tasks(t);
    }
    return NULL;
}

static void wake(rt_threads *t)
{
    if (!atomic_load(&t->n_asleep))
        return;
    (void)pthread_mutex_lock(&t->lock);
    (void)pthread_cond_broadcast(&t->work);
    (void)pthread_mutex_unlock(&t->lock);
}

/* Processors that this process may use. */
static int32_t processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n < MAX_THREADS ? n : MAX_THREADS;
}

gdn_status rt_threads_create(int32_t n_threads, rt_threads **threads)
{
    *threads = NULL;
    if (n_threads < 0 || n_threads > MAX_THREADS)
        return rt_fail(GDN_INVALID_ARGUMENT, "the number of threads is %d; 0 (all processors) to %d are allowed", (int)n_threads,
                       (int)MAX_THREADS);
    rt_threads *t = rt_calloc(1, sizeof *t, "threads");
    if (!t)
        return GDN_OUT_OF_MEMORY;
    t->n      = n_threads ? n_threads : processors();
    t->thread = rt_calloc((uint64_t)t->n, sizeof *t->thread, "threads");
    if (!t->thread) {
        rt_free(t);
        return GDN_OUT_OF_MEMORY;
    }
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_cond_init(&t->work, NULL);
    while (t->n_started < t->n - 1 && !pthread_create(&t->thread[t->n_started], NULL, member, t))
        t->n_started++; /* fewer than were asked for will do */
    *threads = t;
    return GDN_OK;
}

void rt_threads_destroy(rt_threads *t)
{
    if (!t)
        return;
    atomic_store(&t->quit, 1);
    (void)pthread_mutex_lock(&t->lock);
    (void)pthread_cond_broadcast(&t->work);
    (void)pthread_mutex_unlock(&t->lock);
    for (int32_t i = 0; i < t->n_started; i++)
        (void)pthread_join(t->thread[i], NULL);
    (void)pthread_cond_destroy(&t->work);
    (void)pthread_mutex_destroy(&t->lock);
    rt_free(t->thread);
    rt_free(t);
}

int32_t rt_threads_count(const rt_threads *t) { return t->n; }

void rt_parallel_for(void *threads, int32_t n, gdn_task_fn task, void *arg)
{
    rt_threads *t = threads;
    if (n < 2 || !t->n_started || n >= 1 << INDEX_BITS) {
        for (int32_t i = 0; i < n; i++)
            task(arg, i);
        return;
    }
    atomic_store(&t->task, task);
    atomic_store(&t->arg, arg);
    atomic_store(&t->n_done, 0);
    t->generation = (t->generation + 1) & 0xffff;
    atomic_store(&t->word, (uint64_t)t->generation << (2 * INDEX_BITS) | (uint64_t)n << INDEX_BITS);
    wake(t);
    take_tasks(t);
    while (atomic_load(&t->n_done) < n) /* those that members have begun */
        relax();
}
