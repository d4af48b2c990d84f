/* ggml's threads as libgdn's parallel_for. All threads of the application enter a custom node together. The first makes
 * the call of libgdn; the others run its tasks in team_help() until the first closes the team. No thread is started,
 * and none sleeps: ggml's threads wait for each other between nodes anyway. */
#ifndef GDN_GGML_TEAM_H
#define GDN_GGML_TEAM_H

#include <gdn/gdn.h>
#include <stdatomic.h>
#include <stdint.h>

/* The team of one node; zeros before it. */
typedef struct team {
    _Atomic uint64_t word; /* job number, number of tasks, number taken: see team.c */
    _Atomic int32_t done;  /* finished tasks of the job */
    gdn_task_fn task;
    void *arg;
} team;

/* Pointer to the team of the current node, for a context. */
typedef struct team_seat {
    team *now;
} team_seat;

/* A gdn_parallel_for_fn; `seat` is its user. */
void team_run(void *seat, int32_t n, gdn_task_fn task, void *arg);
/* For every thread but the first: runs tasks until the team is closed. */
void team_help(team *t);
/* For the first thread: closes the team when there are no more jobs. */
void team_close(team *t);

#endif
