/* A team of threads that run tasks: the parallel-for of libgdn's CPU backend, and of the runtime.
 *
 * A team is in memory of its owner and allocates nothing itself. Results never depend on the number of members. If the
 * system gives fewer threads than requested, or none, the caller runs their tasks. */
#ifndef GDN_THREADS_TEAM_H
#define GDN_THREADS_TEAM_H

#include "gdn/gdn.h"

typedef struct gdn_team gdn_team;

enum { GDN_TEAM_MAX_THREADS = 4096 };

/* The number of threads if the program does not set it. `wanted` is GDN_NUM_THREADS of the environment, or NULL. If it
 * is a number from 1 to GDN_TEAM_MAX_THREADS, that is the result; otherwise the processors that this process may use.
 * */
int32_t gdn_team_default_threads(const char *wanted);

/* The size of a team of n_threads threads, including the caller. Its memory must be aligned to 64. */
uint64_t gdn_team_bytes(int32_t n_threads);

/* Starts a team in `memory`. It has at most n_threads - 1 members. It has fewer if the system gives no more threads, or
 * if they would be several times as many as the processors. Members run on the processors of the calling thread, or on
 * those of the process where the calling thread has fewer than n_threads. Cannot fail. */
gdn_team *gdn_team_start(void *memory, int32_t n_threads);

/* End and join the members; no code of theirs runs afterwards, and the memory is its owner's again. No task may be
 * running. In a forked child, which has no members, there is nothing to join. */
void gdn_team_stop(gdn_team *team);

/* Run task(arg, i) for every i in [0, n), on the calling thread too, and return when all have returned. Its type is
 * gdn_parallel_for_fn with user = the team. May be called by several threads at once, and from within a task: a caller
 * that finds the members at work runs its tasks itself. A task has 1 MiB of stack on a member. */
void gdn_team_run(void *team, int32_t n, gdn_task_fn task, void *arg);

#endif
