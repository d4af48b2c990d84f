/* The runtime's thread pool: a libgdn team in the runtime's memory. See parallel.h. */
#include "runtime/base/parallel.h"

#include <stdlib.h>

#include "runtime/base/error.h"
#include "threads/team.h"

enum { MAX_THREADS = 1024 };

struct rt_threads {
    gdn_team *team;
    int32_t n;
};

int32_t rt_threads_wanted(int32_t n_threads)
{
    const int32_t n = n_threads ? n_threads : gdn_team_default_threads(getenv("GDN_NUM_THREADS"));
    return n < MAX_THREADS ? n : MAX_THREADS;
}

gdn_status rt_threads_create(int32_t n_threads, rt_threads **threads)
{
    *threads = NULL;
    if (n_threads < 0 || n_threads > MAX_THREADS)
        return rt_fail(GDN_INVALID_ARGUMENT, "the number of threads is %d; 0 (all processors) to %d are allowed",
                       (int)n_threads, (int)MAX_THREADS);
    const int32_t n = rt_threads_wanted(n_threads);
    void *memory;
    rt_threads *t = rt_calloc_with(sizeof *t, 1, gdn_team_bytes(n), "threads", &memory);
    if (!t) return GDN_OUT_OF_MEMORY;
    *t = (rt_threads){ gdn_team_start(memory, n), n }; /* it may have fewer than n threads */
    *threads = t;
    return GDN_OK;
}

void rt_threads_destroy(rt_threads *t)
{
    if (!t) return;
    gdn_team_stop(t->team);
    rt_free(t);
}

int32_t rt_threads_count(const rt_threads *t) { return t->n; }

void rt_parallel_for(void *threads, int32_t n, gdn_task_fn task, void *arg)
{
    const rt_threads *t = threads;
    gdn_team_run(t->team, n, task, arg);
}
