/* Runs libgdn's tasks on ggml's threads; see team.h. The word of a team is   job : 16   n : 24   taken : 24   bits, or
 * CLOSED. A thread takes a task by a compare-and-swap of the whole word, so the task belongs to the current job, which
 * cannot end before the task returns. `task` and `arg` are therefore read only after taking one. */
#include "team.h"

#include <sched.h>

#define CLOSED (~(uint64_t)0)
enum { FIELD = 24, MOST_TASKS = (1 << FIELD) - 2, SPINS = 4096 };

static uint64_t n_of(uint64_t word) { return word >> FIELD & ((1u << FIELD) - 1); }

static uint64_t taken_of(uint64_t word) { return word & ((1u << FIELD) - 1); }

static void pause_a_little(int *spins)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
    if (++*spins >= SPINS) { /* more threads than processors: let another thread run */
        *spins = 0;
        sched_yield();
    }
}

/* Runs one task of the current job; 0: there is none. */
static int take_one(team *t)
{
    uint64_t word = atomic_load_explicit(&t->word, memory_order_acquire);
    while (word != CLOSED && taken_of(word) < n_of(word)) {
        if (atomic_compare_exchange_weak_explicit(&t->word, &word, word + 1, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            t->task(t->arg, (int32_t)taken_of(word));
            atomic_fetch_add_explicit(&t->done, 1, memory_order_release);
            return 1;
        }
    }
    return 0;
}

void team_run(void *seat, int32_t n, gdn_task_fn task, void *arg)
{
    team *t = ((team_seat *)seat)->now;
    if (n < 2 || n > MOST_TASKS) {
        for (int32_t i = 0; i < n; i++) task(arg, i);
        return;
    }
    const uint64_t job = (atomic_load_explicit(&t->word, memory_order_relaxed) >> 2 * FIELD) + 1;
    t->task = task;
    t->arg = arg;
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    atomic_store_explicit(&t->word, (job & 0x7fff) << 2 * FIELD | (uint64_t)n << FIELD, memory_order_release);
    while (take_one(t)) {
    }
    for (int spins = 0; atomic_load_explicit(&t->done, memory_order_acquire) < n;) pause_a_little(&spins);
}

void team_help(team *t)
{
    for (int spins = 0; atomic_load_explicit(&t->word, memory_order_acquire) != CLOSED;)
        if (!take_one(t)) pause_a_little(&spins);
}

void team_close(team *t) { atomic_store_explicit(&t->word, CLOSED, memory_order_release); }
