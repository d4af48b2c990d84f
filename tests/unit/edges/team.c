/* threads/team.c itself: claims of tasks under a forced schedule, many callers, calls from within a task, signals and
 * the environment. The source is included, so that the schedule can be forced at a claim. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static void before_addition(const volatile void *target);
#undef atomic_fetch_add
#define atomic_fetch_add(p, d) (before_addition(p), atomic_fetch_add_explicit(p, d, memory_order_seq_cst))
#include "threads/team.c"

#include <string.h>

#include "tests/harness.h"

static gdn_team *new_team(int32_t n_threads)
{
    void *memory = aligned_alloc(64, (size_t)(gdn_team_bytes(n_threads) + 63) / 64 * 64);
    NEED(memory);
    return gdn_team_start(memory, n_threads);
}

static void end_team(gdn_team *team)
{
    gdn_team_stop(team);
    free(team);
}

/* ---- A member is held up before its claim, for any number of jobs ------------------------------------------------ */

enum { OPEN, HELD, RELEASED, RAN, JOBS_MEANWHILE = 1 << 17 };

static _Atomic(const gdn_team *) held_team; /* where additions to the word wait; NULL = nowhere */
static atomic_int phase, is_last_job, old_runs, new_runs[2];
static _Thread_local int is_caller;

static void wait_for(int wanted)
{
    while (atomic_load(&phase) < wanted) (void)sched_yield();
}

static void before_addition(const volatile void *target)
{
    const gdn_team *t = atomic_load(&held_team);
    if (!t || target != &t->word) return;
    if (!is_caller) { /* it has seen a task of the first job */
        int was = OPEN;
        if (atomic_compare_exchange_strong(&phase, &was, HELD)) wait_for(RELEASED);
    } else if (!atomic_load(&is_last_job)) {
        wait_for(HELD);
    } else if (atomic_load(&phase) == HELD) { /* the last job is published, and none of it claimed */
        atomic_store(&phase, RELEASED);
        wait_for(RAN);
    }
}

static void old_task(void *arg, int32_t i)
{
    (void)i;
    NEED(!strcmp(arg, "old"));
    atomic_fetch_add_explicit(&old_runs, 1, memory_order_seq_cst);
    if (!is_caller) atomic_store(&phase, RAN);
}

static void new_task(void *arg, int32_t i)
{
    NEED(!strcmp(arg, "new"));
    atomic_fetch_add_explicit(&new_runs[i], 1, memory_order_seq_cst);
    if (!is_caller) atomic_store(&phase, RAN);
}

static void nothing(void *arg, int32_t i) { (void)arg, (void)i; }

/* 0 where there are no threads to try it with. */
static int late_claim(void)
{
    char first[] = "old", last[] = "new";
    gdn_team *t = new_team(2);
    if (!t->n_members) {
        end_team(t);
        return 0;
    }
    is_caller = 1;
    atomic_store(&held_team, t); /* before the member can see a task */
    gdn_team_run(t, 2, old_task, first);
    memset(first, 0, sizeof first);          /* the old job is over */
    for (int i = 0; i < JOBS_MEANWHILE; i++) /* among them all numbers of 16 bits */
        gdn_team_run(t, 2, nothing, NULL);
    atomic_store(&is_last_job, 1);
    gdn_team_run(t, 2, new_task, last);
    NEED(atomic_load(&old_runs) == 2);
    NEED(atomic_load(&new_runs[0]) == 1 && atomic_load(&new_runs[1]) == 1);
    atomic_store(&held_team, NULL);
    end_team(t);
    return 1;
}

/* ---- A member that is slow with a task: the caller goes to sleep, and is woken
 * --------------------------------------- */

static atomic_int member_began, member_ended;

static void slow_task(void *team, int32_t i)
{
    gdn_team *t = team;
    (void)i;
    if (is_caller) { /* the other task is for a member */
        while (!atomic_load(&member_began)) (void)sched_yield();
        return;
    }
    atomic_store(&member_began, 1);
    while (!atomic_load(&t->caller_waits)) (void)sched_yield();
    for (int k = 0; k < 30; k++) (void)sched_yield();
    atomic_store(&member_ended, 1);
}

static void slow_member(void)
{
    gdn_team *t = new_team(2);
    for (int i = 0; i < 5 && t->n_members; i++) {
        atomic_store(&member_began, 0);
        atomic_store(&member_ended, 0);
        gdn_team_run(t, 2, slow_task, t);
        NEED(atomic_load(&member_ended));
    }
    end_team(t);
}

/* ---- Many callers, and callers within tasks ------------------------------------------------------------------------
 */

enum { CALLERS = 6, JOBS = 2000, TASKS = 9 };

typedef struct job {
    gdn_team *team;
    int depth;
    int runs[TASKS]; /* not atomic: each is one task's, and ThreadSanitizer sees whether the team orders them */
    int inner[TASKS];
} job;

static void count_run(void *arg, int32_t i)
{
    job *j = arg;
    j->runs[i]++;
    if (j->depth) {
        job inner = { .team = j->team, .depth = j->depth - 1 };
        gdn_team_run(j->team, TASKS, count_run, &inner);
        for (int k = 0; k < TASKS; k++) j->inner[i] += inner.runs[k] == 1;
    }
}

static void *call_again_and_again(void *team)
{
    for (int i = 0; i < JOBS; i++) {
        job j = { .team = team, .depth = i % 40 ? 0 : 2 };
        const int n = 1 + i % TASKS;
        gdn_team_run(team, n, count_run, &j);
        for (int k = 0; k < TASKS; k++) {
            NEED(j.runs[k] == (k < n));
            NEED(j.inner[k] == (j.depth && k < n ? TASKS : 0));
        }
    }
    return NULL;
}

static void many_callers(int32_t n_threads)
{
    gdn_team *t = new_team(n_threads);
    pthread_t caller[CALLERS];
    (void)call_again_and_again(t);
    for (int i = 0; i < CALLERS; i++) NEED(!pthread_create(&caller[i], NULL, call_again_and_again, t));
    for (int i = 0; i < CALLERS; i++) NEED(!pthread_join(caller[i], NULL));
    (void)call_again_and_again(t);
    end_team(t);
}

/* ---- What members are to the program --------------------------------------------------------------------------------
 */

static atomic_int n_signals;

static void on_signal(int number)
{
    (void)number;
    n_signals++;
}

static atomic_int n_seen;

static void be_seen(void *arg, int32_t i)
{
    static _Thread_local int seen;
    (void)arg, (void)i;
    if (!is_caller && !seen) {
        seen = 1;
        atomic_fetch_add(&n_seen, 1);
    }
    (void)sched_yield();
}

/* A signal for the process that the caller blocks stays pending: no member takes it, though each has run since. */
static void signals(void)
{
    gdn_team *t = new_team(4);
    sigset_t set, before, pending;
    NEED(signal(SIGUSR1, on_signal) != SIG_ERR);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    NEED(!pthread_sigmask(SIG_BLOCK, &set, &before));
    NEED(!sigismember(&before, SIGINT)); /* start gave back what it found */
    NEED(!kill(getpid(), SIGUSR1));
    while (atomic_load(&n_seen) < t->n_members) gdn_team_run(t, 40, be_seen, NULL);
    NEED(!sigpending(&pending) && sigismember(&pending, SIGUSR1) && !n_signals);
    NEED(!pthread_sigmask(SIG_SETMASK, &before, NULL));
    NEED(n_signals == 1);
    end_team(t);
}

static void environment(void)
{
    static const char *const ignored[] = { "", "0", "-1", "4097", "99999999999999999999", "3x", "x", " 3", "3 " };
    (void)unsetenv("GDN_NUM_THREADS");
    const int32_t here = gdn_team_default_threads(getenv("GDN_NUM_THREADS"));
    NEED(here >= 1);
    (void)setenv("GDN_NUM_THREADS", "7", 1);
    NEED(gdn_team_default_threads(getenv("GDN_NUM_THREADS")) == 7);
    (void)setenv("GDN_NUM_THREADS", "4096", 1);
    NEED(gdn_team_default_threads(getenv("GDN_NUM_THREADS")) == 4096);
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        (void)setenv("GDN_NUM_THREADS", ignored[i], 1);
        NEED(gdn_team_default_threads(getenv("GDN_NUM_THREADS")) == here);
    }
}

/* ---- Processors ------------------------------------------------------------------------------------------------- */

static cpu_set_t seen_set;
static _Thread_local int looked;
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;

static void see_processors(void *arg, int32_t i)
{
    cpu_set_t set;
    (void)arg, (void)i;
    if (!looked && !is_caller) {
        looked = 1;
        NEED(!sched_getaffinity(0, sizeof set, &set));
        (void)pthread_mutex_lock(&seen_lock);
        CPU_OR(&seen_set, &seen_set, &set);
        (void)pthread_mutex_unlock(&seen_lock);
        atomic_fetch_add(&n_seen, 1);
    }
    (void)sched_yield();
}

/* The processors of a team's members, where the calling thread is bound to one. */
static int members_of(int32_t n_threads)
{
    gdn_team *t = new_team(n_threads);
    CPU_ZERO(&seen_set);
    atomic_store(&n_seen, 0);
    while (atomic_load(&n_seen) < t->n_members) gdn_team_run(t, 40, see_processors, NULL);
    end_team(t);
    return CPU_COUNT(&seen_set);
}

static void *stay(void *go_on)
{
    while (atomic_load((atomic_int *)go_on)) (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return NULL;
}

/* All threads of the process, also those that a sanitizer has started. */
static void bind_process(const cpu_set_t *set)
{
    DIR *threads = opendir("/proc/self/task");
    NEED(threads);
    for (const struct dirent *one; (one = readdir(threads));)
        if (one->d_name[0] != '.') NEED(!sched_setaffinity((pid_t)strtol(one->d_name, NULL, 10), sizeof *set, set));
    (void)closedir(threads);
}

/* A thread that is bound to one processor creates a team: its members use those of the process. Where the whole process
 * is bound, there is one. Returns the processors of the process. */
static int bound_caller(void)
{
    cpu_set_t all, one;
    pthread_t other;
    atomic_int go_on = 1;
    (void)unsetenv("GDN_NUM_THREADS");
    NEED(!sched_getaffinity(0, sizeof all, &all));
    const int n = CPU_COUNT(&all);
    int first = 0;
    while (!CPU_ISSET(first, &all)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    is_caller = 1;
    NEED(!pthread_create(&other, NULL, stay, &go_on)); /* with all processors */
    NEED(!sched_setaffinity(0, sizeof one, &one));
    REQUIRE(gdn_team_default_threads(NULL) == n && gdn_processors_of_thread().n == 1);
    if (n > 1) REQUIRE(members_of(2) == n && members_of(5) == n);
    atomic_store(&go_on, 0);
    NEED(!pthread_join(other, NULL));
    bind_process(&one);
    REQUIRE(gdn_team_default_threads(NULL) == 1 && members_of(3) == 1);
    bind_process(&all);
    REQUIRE(gdn_team_default_threads(NULL) == n);
    return n;
}

int main(void)
{
    const int late = late_claim();
    slow_member();
    for (int i = 0; i < 100; i++) /* ended before, while and after members first look */
        end_team(new_team(1 + i % 5));
    many_callers(1);
    many_callers(2);
    many_callers(5);
    signals();
    environment();
    const int n_processors = bound_caller();
    gdn_team *many = new_team(64); /* as many as are asked for, however few processors there are */
    NEED(many->n_members == 63);
    end_team(many);
    (void)printf("a late claim %s, %d callers, signals, environment, %d processors\n",
                 late ? "held up" : "not tried: no threads", CALLERS, n_processors);
    return test_summary();
}
