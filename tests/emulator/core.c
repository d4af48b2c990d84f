/* Grids, blocks and the scheduler of a block's threads; barriers of the block. Warps are in warp.c. */
#define _GNU_SOURCE
#include "tests/emulator/check.h"
#include "tests/emulator/core_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

simt_thread *simt_self;
simt_block simt_current;
const simt_checker *simt_check;
int (*simt_region_of)(const void *at, simt_region *region);

static simt_thread threads[SIMT_MAX_THREADS];
static simt_warp warps[SIMT_MAX_WARPS];
static simt_fiber scheduler; /* the thread of the machine that runs the grid */
static const simt_grid *running;
static unsigned exited; /* threads of the block that have returned */
static int failed;
static char error_text[2048];

__attribute__((section("simt_shared"), used)) static unsigned keep[4]; /* where no kernel has shared memory */

const char *simt_error(void) { return error_text; }
simt_warp *simt_warps(void) { return warps; }

/* ---- What a thread does when it cannot go on ---- */
static simt_thread *pick(simt_warp *warp)
{
    const uint32_t mask = warp->runnable;
    unsigned lane;
    if (simt_seed()) { /* any of them */
        const unsigned turn = (unsigned)(simt_random() >> 40) % 32;
        const uint32_t turned = turn ? mask >> turn | mask << (32 - turn) : mask;
        lane = ((unsigned)__builtin_ctz(turned) + turn) % 32;
    } else {
        lane = (unsigned)__builtin_ctz(mask);
    }
    warp->runnable &= ~(1u << lane);
    return &warp->threads[lane];
}

/* Go on with another lane of the warp, or let the scheduler choose a warp. */
static void leave(int last)
{
    simt_thread *self = simt_self;
    simt_warp *warp = self->warp;
    if (warp->runnable && !(simt_seed() && simt_random() >> 59 == 0)) {
        simt_self = pick(warp);
        if (simt_self != self) simt_fiber_switch(&self->fiber, &simt_self->fiber, last);
    } else {
        simt_fiber_switch(&self->fiber, &scheduler, last);
    }
}

void simt_suspend(void) { leave(0); }

static void set_error(const char *format, va_list arguments)
{
    int n = snprintf(error_text, sizeof error_text, "kernel %s, block (%u, %u, %u): ", simt_current.kernel,
                     simt_current.index.x, simt_current.index.y, simt_current.index.z);
    if (simt_self)
        n += snprintf(error_text + n, sizeof error_text - (size_t)n, "thread (%u, %u, %u): ", simt_self->index.x,
                      simt_self->index.y, simt_self->index.z);
    vsnprintf(error_text + n, sizeof error_text - (size_t)n, format, arguments);
    failed = 1;
}

void simt_fault(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_error(format, arguments);
    va_end(arguments);
    if (!simt_self) { /* not within a kernel: nothing to end */
        fprintf(stderr, "simt: %s\n", error_text);
        abort();
    }
    simt_fiber_switch(&simt_self->fiber, &scheduler, 1);
    abort(); /* never switched to again */
}

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    simt_self = NULL;
    set_error(format, arguments);
    va_end(arguments);
}

/* ---- The block's barrier ---- */
static unsigned arrived; /* threads that are at it */
static simt_thread *first_there;

void simt_barrier(simt_site site)
{
    simt_thread *self = simt_self;
    self->op = SIMT_OP_BARRIER;
    self->site = site;
    if (++arrived == 1) first_there = self;
    if (!simt_same_site(first_there->site, site)) {
        char text[1024];
        simt_describe(text, sizeof text);
        simt_fault("not all threads are at the same barrier: %s", text);
    }
    const int complete = arrived == simt_current.n_threads;
    if (complete) {
        for (unsigned w = 0; w < simt_current.n_warps; w++) warps[w].runnable = warps[w].exists;
        arrived = 0;
        if (simt_check) simt_check->barrier();
    }
    if (complete && !simt_seed()) self->warp->runnable &= ~(1u << self->lane); /* the last to come goes on at once */
    else simt_suspend();
    self->op = SIMT_OP_NONE;
}

/* ---- Threads ---- */
static void thread_main(void)
{
    simt_fiber_entered(&simt_self->fiber);
    running->fn(running->arg);
    simt_thread *self = simt_self;
    self->warp->exited |= 1u << self->lane;
    exited++;
    simt_warp_exit(self);
    leave(1);
    abort();
}

static void resume(simt_warp *warp)
{
    simt_self = pick(warp);
    simt_fiber_switch(&scheduler, &simt_self->fiber, 0);
}

/* Run the threads until all have returned or none can go on. */
static void schedule(void)
{
    const unsigned n = simt_current.n_warps;
    while (!failed && exited < simt_current.n_threads) {
        int progress = 0;
        if (simt_seed()) {
            const unsigned first = (unsigned)(simt_random() >> 40) % n;
            for (unsigned i = 0; i < n && !failed; i++) {
                simt_warp *warp = &warps[(first + i) % n];
                unsigned turns = 1 + (unsigned)(simt_random() >> 40) % 48; /* sometimes not all of its lanes */
                while (warp->runnable && turns-- && !failed) {
                    resume(warp);
                    progress = 1;
                }
            }
        } else {
            for (unsigned w = 0; w < n; w++)
                while (warps[w].runnable && !failed) {
                    resume(&warps[w]);
                    progress = 1;
                }
        }
        if (!progress) {
            char text[1024];
            simt_describe(text, sizeof text);
            fail("threads wait for others that never come: %s", text);
        }
    }
}

static void run_block(void)
{
    const simt_dim3 size = running->block;
    const unsigned n = simt_current.n_threads;
    arrived = exited = 0;
    for (unsigned w = 0; w < simt_current.n_warps; w++) {
        const unsigned left = n - w * SIMT_LANES;
        warps[w] = (simt_warp){ .threads = &threads[w * SIMT_LANES], .number = w };
        warps[w].exists = warps[w].runnable = left >= 32 ? 0xffffffffu : (1u << left) - 1;
    }
    unsigned i = 0;
    for (unsigned z = 0; z < size.z; z++)
        for (unsigned y = 0; y < size.y; y++)
            for (unsigned x = 0; x < size.x; x++, i++) {
                simt_thread *thread = &threads[i];
                thread->index = (simt_dim3){ x, y, z };
                thread->number = i;
                thread->lane = i % SIMT_LANES;
                thread->warp = &warps[i / SIMT_LANES];
                thread->op = SIMT_OP_NONE;
                simt_fiber_start(&thread->fiber, i, thread_main);
            }
    simt_poison(__start_simt_shared, (size_t)(__stop_simt_shared - __start_simt_shared));
    if (simt_check) simt_check->block();
    schedule();
    simt_self = NULL;
}

/* ---- Grids ---- */
static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

int simt_run_grid(const simt_grid *grid)
{
    const uint64_t per_block = (uint64_t)grid->block.x * grid->block.y * grid->block.z;
    const uint64_t n = (uint64_t)grid->grid.x * grid->grid.y * grid->grid.z;
    if (!per_block || per_block > SIMT_MAX_THREADS || !n || simt_fibers_reserve((unsigned)per_block)) {
        snprintf(error_text, sizeof error_text, "kernel %s: a grid of %llu blocks of %llu threads cannot be run",
                 grid->name, (unsigned long long)n, (unsigned long long)per_block);
        return -1;
    }
    running = grid;
    failed = 0;
    error_text[0] = 0;
    simt_current = (simt_block){ .size = grid->block,
                                 .grid = grid->grid,
                                 .n_threads = (unsigned)per_block,
                                 .n_warps = (unsigned)((per_block + SIMT_LANES - 1) / SIMT_LANES),
                                 .kernel = grid->name };
    if (simt_check) simt_check->grid(grid->arg, grid->arg_bytes);
    uint64_t first = 0, step = 1; /* the blocks in another order: first + i * step modulo n */
    if (simt_seed() && n > 1) {
        first = simt_random() % n;
        do step = 1 + simt_random() % (n - 1);
        while (gcd(step, n) != 1);
    }
    const simt_float_mode mode = simt_float_default();
#if defined(__x86_64__)
    if (grid->mode) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | grid->mode);
#endif
    uint64_t at = first;
    for (uint64_t i = 0; i < n && !failed; i++, at = (at + step) % n) {
        simt_current.index.x = (unsigned)(at % grid->grid.x);
        simt_current.index.y = (unsigned)(at / grid->grid.x % grid->grid.y);
        simt_current.index.z = (unsigned)(at / grid->grid.x / grid->grid.y);
        run_block();
    }
    simt_float_restore(mode);
    running = NULL;
    simt_self = NULL;
    return failed ? -1 : 0;
}
