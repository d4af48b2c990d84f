/* The thread pool of the runtime. libgdn uses it too, as its parallel_for, so that there is one pool. Results do not
 * depend on it: tasks are independent. */
#ifndef GDN_RUNTIME_PARALLEL_H
#define GDN_RUNTIME_PARALLEL_H

#include "gdn/gdn.h"

typedef struct rt_threads rt_threads;

/* Creates a pool. n_threads 0 = GDN_NUM_THREADS of the environment, or one thread per processor of this process. */
int32_t rt_threads_wanted(int32_t n_threads); /* that number of threads */
gdn_status rt_threads_create(int32_t n_threads, rt_threads **threads);
void rt_threads_destroy(rt_threads *threads);
int32_t rt_threads_count(const rt_threads *threads);

/* Runs task(arg, i) for every i in [0, n), on the pool and the calling thread, and returns when all are done. The type
 * is gdn_parallel_for_fn with user = the rt_threads; see gdn_team_run in threads/team.h. */
void rt_parallel_for(void *threads, int32_t n, gdn_task_fn task, void *arg);

#endif
