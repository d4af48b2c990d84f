/* The host's rooflines: splits work over threads, and selects the instruction set. */
#define _GNU_SOURCE /* cpu_set_t */
#include "bench/roofline.h"

#include <math.h>
#include <stdlib.h>

#include "system/system.h"
#include "threads/team.h"

const char *const roofline_variant_name[ROOFLINE_VARIANTS] = { "plain", "prefetch", "far prefetch", "non-temporal" };

/* ---- Plain C, for processors without a vector file ------------------------------------------------------- */

static _Thread_local volatile float sink; /* stores unused results, so that the compiler keeps the work */

static void scalar_move(int variant, roofline_access access, int32_t *p, int64_t n)
{
    uint32_t sum = 0;
    (void)variant;
    for (int64_t i = 0; i < n; i++) {
        if (access == ROOFLINE_READ) sum += (uint32_t)p[i];
        else ((volatile int32_t *)p)[i] = access == ROOFLINE_UPDATE ? p[i] : 0x3c003c00;
    }
    sink = (float)sum;
}

static int64_t scalar_fma(int64_t n)
{
    float acc[8] = { 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f };
    for (int64_t i = 0; i < n; i += 8)
        for (int k = 0; k < 8; k++) acc[k] = fmaf(acc[k], 0.999f, 0.001f);
    for (int k = 0; k < 8; k++) sink = acc[k];
    return (n + 7) / 8 * 8;
}

static const roofline_set *host(void)
{
    static const roofline_set scalar = { "scalar", 1, scalar_move, scalar_fma };
#if defined(GDN_ARCH_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &roofline_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &roofline_avx2;
#elif defined(GDN_ARCH_ARM64)
    return &roofline_neon;
#endif
    return &scalar;
}

const char *roofline_isa(void) { return host()->name; }
int roofline_lanes(void) { return host()->lanes; }

/* ---- Threads ---------------------------------------------------------------------------------------------- */

static gdn_team *team; /* threads of rooflines and kernels; NULL = none, as with OpenMP */

gdn_parallel_for_fn roofline_threads(int threads, void **user)
{
#if !defined(_OPENMP)
    static int team_threads;
    if (threads > 1 && threads != team_threads) {
        if (team) gdn_team_stop(team);
        gdn_aligned_free(team);
        void *memory = gdn_aligned_alloc(64, gdn_team_bytes(threads));
        team = memory ? gdn_team_start(memory, threads) : NULL;
        team_threads = memory ? threads : 0;
    }
#endif
    *user = team;
    return threads > 1 && team ? gdn_team_run : NULL;
}

/* Runs the task on as many threads as the kernels have. */
static void on_threads(int threads, gdn_task_fn task, void *arg)
{
    if (team && threads > 1) {
        gdn_team_run(team, threads, task, arg);
        return;
    }
#if defined(_OPENMP)
#pragma omp parallel for num_threads(threads) schedule(static, 1)
#endif
    for (int t = 0; t < threads; t++) task(arg, t);
}

static void nothing(void *arg, int32_t t) { (void)arg, (void)t; }

int roofline_processors(int threads)
{
    void *user;
    (void)roofline_threads(threads, &user);
    on_threads(threads, nothing, NULL); /* OpenMP starts and binds its threads then */
    return gdn_processors_of_process().n;
}

typedef struct roofline_work {
    int threads, variant, n_pieces;
    const roofline_piece *pieces;
    int64_t n;
    _Atomic int64_t done;
} roofline_work;

/* Begin of thread t's share of n words, a multiple of a cache line. */
static int64_t share(int64_t n, int t, int threads) { return t == threads ? n : n * t / threads / 16 * 16; }

static void move_task(void *arg, int32_t t)
{
    const roofline_work *w = arg;
    for (int i = 0; i < w->n_pieces; i++) {
        const roofline_piece *p = &w->pieces[i];
        const int64_t first = share(p->bytes / 4, t, w->threads), last = share(p->bytes / 4, t + 1, w->threads);
        host()->move(w->variant, p->access, (int32_t *)p->data + first, last - first);
    }
}

void roofline_move(int threads, int variant, const roofline_piece *pieces, int n)
{
    roofline_work w = { .threads = threads, .variant = variant, .n_pieces = n, .pieces = pieces };
    on_threads(threads, move_task, &w);
}

static void fma_task(void *arg, int32_t t)
{
    roofline_work *w = arg;
    (void)t;
    w->done = host()->fma(w->n);
}

int64_t roofline_fma(int threads, int64_t n)
{
    roofline_work w = { .n = n };
    on_threads(threads, fma_task, &w);
    return w.done;
}
