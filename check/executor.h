/* Threads that a caller might bring: implementations of gdn_parallel_for_fn for the check. */
#ifndef GDN_CHECK_EXECUTOR_H
#define GDN_CHECK_EXECUTOR_H

#include "gdn/gdn.h"

typedef struct check_pool check_pool;

/* A pool of n threads, the calling one included; NULL when threads cannot be made. */
check_pool *check_pool_create(int n);
void check_pool_destroy(check_pool *pool);

/* user = the pool. Tasks are handed out in a scattered order. The workers run in the floating-point mode of
 * the caller, and a task that changes the mode is noticed. */
void check_pool_run(void *user, int32_t n, gdn_task_fn task, void *arg);

/* user = unused. All tasks on the calling thread, the last one first. */
void check_reverse_run(void *user, int32_t n, gdn_task_fn task, void *arg);

/* How often a task left its thread in another floating-point mode, since the last call. */
int check_executor_mode_changes(void);

#endif
