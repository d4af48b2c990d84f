/* Threads that a caller might bring: implementations of gdn_parallel_for_fn for the check. */
#ifndef GDN_CHECK_EXECUTOR_H
#define GDN_CHECK_EXECUTOR_H

#include "gdn/gdn.h"

/* user = an int: how many threads, the calling one included; the others are new ones, and gone when it returns. Tasks
 * are handed out in a scattered order. The threads run in the floating-point mode of the caller, and a task that
 * changes the mode is noticed. */
void check_threads_run(void *user, int32_t n, gdn_task_fn task, void *arg);

/* user = unused. All tasks on the calling thread, the last one first. */
void check_reverse_run(void *user, int32_t n, gdn_task_fn task, void *arg);

/* How often a task left its thread in another floating-point mode, since the last call. */
int check_executor_mode_changes(void);

#endif
