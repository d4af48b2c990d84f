/* Threads through OpenMP; without it everything runs on the caller. See parallel.h. */
#include "runtime/parallel.h"

#include <stddef.h>
#ifdef GDN_HAVE_OPENMP
#include <omp.h>
#endif

#include "runtime/error.h"

struct rt_threads { int32_t n; };

enum { MAX_THREADS = 1024 };

gdn_status rt_threads_create(int32_t n_threads, rt_threads **threads)
{
    *threads = NULL;
    if (n_threads < 0 || n_threads > MAX_THREADS)
        return rt_fail(GDN_INVALID_ARGUMENT, "the number of threads is %d; 0 (all processors) to %d are allowed",
                       (int)n_threads, (int)MAX_THREADS);
    rt_threads *t = rt_calloc(1, sizeof *t, "threads");
    if (!t)
        return GDN_OUT_OF_MEMORY;
#ifdef GDN_HAVE_OPENMP
    t->n = n_threads ? n_threads : omp_get_num_procs();
#else
    t->n = 1;
#endif
    *threads = t;
    return GDN_OK;
}

void rt_threads_destroy(rt_threads *threads) { rt_free(threads); }

int32_t rt_threads_count(const rt_threads *threads) { return threads->n; }

void rt_parallel_for(void *threads, int32_t n, gdn_task_fn task, void *arg)
{
    const rt_threads *t = threads;
    (void)t;
#ifdef GDN_HAVE_OPENMP
    if (n > 1 && t->n > 1) {
        /* Dynamic: tasks differ in length, and another program may hold one of the processors. Always all threads, also
         * for few tasks: libgomp ends those that a smaller team leaves out, and starts them again for a larger one. Its
         * threads spin between regions before they sleep, so that waking them is cheap while a model runs. */
        #pragma omp parallel for schedule(dynamic, 1) num_threads(t->n)
        for (int32_t i = 0; i < n; i++)
            task(arg, i);
        return;
    }
#endif
    for (int32_t i = 0; i < n; i++)
        task(arg, i);
}
