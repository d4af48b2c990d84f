/* ggml's threads as libgdn's parallel-for.
 *
 * All threads of the application enter a custom node together. The first one makes the call of libgdn, the others stand
 * by in team_help() and take tasks, until the first one closes the team. Nothing is started and nobody sleeps: between
 * two nodes the threads wait for each other in ggml anyway. */
#ifndef GDN_GGML_TEAM_H
#define GDN_GGML_TEAM_H

#include <gdn/gdn.h>
#include <stdatomic.h>
#include <stdint.h>

/* One node's meeting of the threads; zeros before it. */
typedef struct team {
    _Atomic uint64_t word; /* which job it is, how many tasks it has, how many were taken: see team.c */
    _Atomic int32_t done;  /* tasks of the job that have returned */
    gdn_task_fn task;
    void *arg;
} team;

/* Where a context finds the team of the node that is being computed. */
typedef struct team_seat {
    team *now;
} team_seat;

/* A gdn_parallel_for_fn whose user is a team_seat. */
void team_run(void *seat, int32_t n, gdn_task_fn task, void *arg);
/* Every thread but the first: run tasks until the team is closed. */
void team_help(team *t);
/* The first thread, when no more jobs come. */
void team_close(team *t);

#endif
