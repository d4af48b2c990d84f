/* A team of threads. See team.h.
 *
 * Threads claim tasks one by one. The caller runs its share and waits only for tasks that a member has begun. Members
 * that start late, because the system gave their processor to another program, find no task and delay no call.
 * A call does not need any particular member: it may sleep, or not exist in a forked child.
 *
 * Why no task is lost, run twice, or run for a caller that has returned: a claim depends on one word, n | next, and is
 * one atomic addition to `next`. The value that the addition returns decides. If next < n, this thread owns task `next`
 * of the job that is in the word at that moment; otherwise it owns nothing. Only then does it read the job's other
 * fields. They belong to that job: its caller returns, and a new job is written, only after all n tasks have been
 * counted as done, this one included. So values that a thread read before its claim do no harm, however long it was
 * delayed. There is no job number that could wrap around. */
#include "threads/team.h"

#include <limits.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "system/system.h"

#ifndef GDN_STACK_MIB /* of a thread; cpu/sources.cmake raises it for code that is not optimised */
#define GDN_STACK_MIB 1
#endif

enum {                      /* times in nanoseconds */
       SPIN = 100000,       /* longer than the time between two kernels of a layer                             */
       SPIN_LONG = 1000000, /* used if the last job came within this time: the next one probably will, too     */
       SPIN_CROWDED = 2000, /* with more threads than processors, where another thread needs this one          */
       TAKEN_AWAY = 300000, /* a spinning thread that did not run for so long has lost its processor to others */
       CAREFUL = 50000000,  /* after that, no long spins for this time                                         */
       STACK_BYTES = GDN_STACK_MIB << 20
};

struct gdn_team {
    alignas(64) _Atomic uint64_t word;   /* n << 32 | next; idle members watch it                        */
    alignas(64) _Atomic uint32_t n_done; /* tasks of the job that have returned                          */
    _Atomic int32_t caller_waits;        /* the caller sleeps, or is about to, until n_done is n         */
    alignas(64) gdn_task_fn task;        /* of the job, with arg; written by the caller that has `taken` */
    void *arg;
    alignas(64) _Atomic int32_t taken; /* 1: the members have a caller's job                           */
    _Atomic int32_t n_callers;
    alignas(64) _Atomic uint32_t bell; /* sleeping members wait for it to change                       */
    _Atomic int32_t n_asleep, n_alive, quit;
    int32_t n_members, spin;
    int32_t everywhere;        /* 1: members use the processors of the process, as the creator's are too few */
    gdn_processors processors; /* of the process                                             */
    int64_t pid;               /* of the process that started the members                      */
    int *here;                 /* 1; the system makes it 0 in a forked child. NULL: not supported      */
    gdn_sleepers sleepers;
    gdn_thread thread[];
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins until `is_over`, or for `ns` from `begin`. Returns 1 if the system has taken the processor away. */
static int spin(gdn_team *t, int (*is_over)(gdn_team *t), int64_t begin, int64_t ns)
{
    for (int64_t time = begin; time - begin < ns;) {
        for (int i = 0; i < 8; i++) {
            if (is_over(t)) return 0;
            relax();
        }
        const int64_t before = time;
        time = gdn_now();
        if (time - before > TAKEN_AWAY) return 1;
    }
    return 0;
}

/* ---- Tasks ------------------------------------------------------------------------------------------------ */

static uint32_t count_of(uint64_t word) { return (uint32_t)(word >> 32); }
static uint32_t next_of(uint64_t word) { return (uint32_t)word; }
static int has_task(uint64_t word) { return next_of(word) < count_of(word); }

/* Runs tasks of the current job until none are left. The test before the addition keeps `next` below n + threads, so it
 * cannot overflow. Acquires what the caller wrote before it published the job, and releases what a task has written. */
static void take_tasks(gdn_team *t)
{
    while (has_task(atomic_load_explicit(&t->word, memory_order_relaxed))) {
        const uint64_t claim = atomic_fetch_add(&t->word, 1);
        if (!has_task(claim)) return;
        t->task(t->arg, (int32_t)next_of(claim));
        if (atomic_fetch_add(&t->n_done, 1) + 1 == count_of(claim) && atomic_load(&t->caller_waits))
            gdn_wake(&t->sleepers, &t->n_done, 1);
    }
}

/* For members: 1 if there is a task, or the team ends. */
static int is_called(gdn_team *t) { return has_task(atomic_load(&t->word)) || atomic_load(&t->quit); }

/* For the job's caller: 1 if all its tasks have returned. */
static int is_done(gdn_team *t)
{
    return atomic_load(&t->n_done) == count_of(atomic_load_explicit(&t->word, memory_order_relaxed));
}

/* Waits until there is a task. A member spins longer if its last wait was short. It does not if the system has recently
 * taken its processor away. */
static void idle(gdn_team *t, int64_t *patience, int64_t *careful_until)
{
    const int64_t begin = gdn_now();
    const int was_taken_away = spin(t, is_called, begin, *patience);
    if (!is_called(t)) {
        atomic_fetch_add(&t->n_asleep, 1); /* before the test: a caller reads n_asleep after it publishes a job */
        const uint32_t seen = atomic_load(&t->bell);
        if (!is_called(t)) gdn_sleep_on(&t->sleepers, &t->bell, seen);
        atomic_fetch_sub(&t->n_asleep, 1);
    }
    const int64_t end = gdn_now();
    if (was_taken_away) *careful_until = end + CAREFUL;
    *patience = t->spin == SPIN && end - begin < SPIN_LONG && end >= *careful_until ? SPIN_LONG : t->spin;
}

static void *member(void *team)
{
    gdn_team *t = team;
    gdn_thread_name("gdn");
    if (t->everywhere) gdn_processors_use(&t->processors);
    int64_t patience = t->spin, careful_until = INT64_MIN;
    while (!atomic_load(&t->quit)) {
        take_tasks(t);
        idle(t, &patience, &careful_until);
    }
    atomic_fetch_sub(&t->n_alive, 1);
    return NULL;
}

/* 1 in a child that was forked from the process with the members; a fork does not copy threads. Two processes may have
 * the same pid, one after the other or in two namespaces; the page `here` distinguishes them. */
static int is_forked(const gdn_team *t) { return t->here ? !*t->here : t->pid != gdn_process_id(); }

static void run_here(int32_t n, gdn_task_fn task, void *arg)
{
    for (int32_t i = 0; i < n; i++) task(arg, i);
}

/* Publishes a job, runs a share of it, and waits for the rest. */
static void run_with_members(gdn_team *t, int32_t n, int32_t n_helpers, gdn_task_fn task, void *arg)
{
    t->task = task;
    t->arg = arg;
    atomic_store(&t->n_done, 0);
    atomic_store(&t->word, (uint64_t)(uint32_t)n << 32);
    if (atomic_load(&t->n_asleep)) {
        atomic_fetch_add(&t->bell, 1);
        gdn_wake(&t->sleepers, &t->bell, n_helpers < n - 1 ? n_helpers : n - 1);
    }
    take_tasks(t);
    (void)spin(t, is_done, gdn_now(), t->spin);
    if (is_done(t)) return;
    /* The system may have taken the processor from a member with a task; sleeping gives it this one. */
    atomic_store(&t->caller_waits, 1);
    for (uint32_t done; (done = atomic_load(&t->n_done)) < (uint32_t)n;) gdn_sleep_on(&t->sleepers, &t->n_done, done);
    atomic_store(&t->caller_waits, 0);
}

/* Callers count among the team's threads. With as many callers as threads, each runs its job alone: no member is free,
 * and members would take processors from callers. */
void gdn_team_run(void *team, int32_t n, gdn_task_fn task, void *arg)
{
    gdn_team *t = team;
    if (n < 2 || !t->n_members || is_forked(t)) {
        run_here(n, task, arg);
        return;
    }
    const int32_t n_helpers = t->n_members - atomic_fetch_add(&t->n_callers, 1);
    if (n_helpers > 0 && !atomic_exchange(&t->taken, 1)) {
        run_with_members(t, n, n_helpers, task, arg);
        atomic_store(&t->taken, 0);
    } else {
        run_here(n, task, arg);
    }
    atomic_fetch_sub(&t->n_callers, 1);
}

/* ---- Starting and stopping ---------------------------------------------------------------------------------- */

int32_t gdn_team_default_threads(const char *wanted)
{
    char *end = NULL;
    const long n = wanted && *wanted >= '0' && *wanted <= '9' ? strtol(wanted, &end, 10) : 0;
    if (n > 0 && n <= GDN_TEAM_MAX_THREADS && !*end) return (int32_t)n;
    const int32_t processors = gdn_processors_of_process().n;
    return processors < GDN_TEAM_MAX_THREADS ? processors : GDN_TEAM_MAX_THREADS;
}

uint64_t gdn_team_bytes(int32_t n_threads) { return sizeof(gdn_team) + (uint64_t)n_threads * sizeof(gdn_thread); }

static void start_members(gdn_team *t, int32_t n)
{
    for (; t->n_members < n; t->n_members++) {
        atomic_fetch_add(&t->n_alive, 1);
        if (!gdn_thread_start(&t->thread[t->n_members], STACK_BYTES, member, t)) {
            atomic_fetch_sub(&t->n_alive, 1);
            break;
        }
    }
}

gdn_team *gdn_team_start(void *memory, int32_t n_threads)
{
    const int32_t n_here = gdn_processors_of_thread().n;
    gdn_team *t = memory;
    *t = (gdn_team){ .pid = gdn_process_id(), .processors = gdn_processors_of_process() };
    t->everywhere = n_here < n_threads && n_here < t->processors.n;
    t->spin = n_threads <= t->processors.n ? SPIN : SPIN_CROWDED;
    gdn_sleepers_init(&t->sleepers);
    if (n_threads > 1) {
        t->here = gdn_fork_mark();
        start_members(t, n_threads - 1);
    }
    return t;
}

void gdn_team_stop(gdn_team *t)
{
    if (t->n_members && !is_forked(t) && t->pid == gdn_process_id()) {
        atomic_store(&t->quit, 1);
        /* Repeated, because the bell is a counter: one increment could wrap to the value that a member has seen. */
        for (int i = 0; atomic_load(&t->n_alive); i++) {
            atomic_fetch_add(&t->bell, 1);
            gdn_wake(&t->sleepers, &t->bell, INT_MAX);
            if (i < 100) gdn_thread_yield();
            else gdn_sleep(1000000);
        }
        for (int32_t i = 0; i < t->n_members; i++) gdn_thread_join(t->thread[i]);
        gdn_sleepers_destroy(&t->sleepers);
    }
    gdn_fork_mark_free(t->here);
}
