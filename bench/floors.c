/* The host's floors (rooflines): splits work over threads, and selects the instruction set. */
#include "bench/floors.h"

#include <stdlib.h>

#include "threads/team.h"

const char *const floor_variant_name[FLOOR_VARIANTS] = { "plain",        "prefetch", "far prefetch",
                                                         "non-temporal", "blocked",  "blocked non-temporal" };

enum { BLOCK = 2048 }; /* floats of a blocked stream: 8 KiB */

static const floor_isa *host_isa(void)
{
#if defined(GDN_ARCH_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &floor_isa_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &floor_isa_avx2;
#elif defined(GDN_ARCH_ARM64)
    return &floor_isa_neon;
#endif
    return &floor_isa_scalar;
}

/* Begin of thread t's share of n elements, a multiple of 64. */
static int64_t cut(int64_t n, int t, int threads) { return t == threads ? n : n * t / threads / 64 * 64; }

/* Runs the pieces of a stream's blocks that are in this thread's share. */
static void stream_share(const floor_isa *isa, int variant, const floor_stream *s, int t, int threads)
{
    const int64_t first = cut(s->n * s->n_blocks, t, threads), last = cut(s->n * s->n_blocks, t + 1, threads);
    for (int64_t begin = first; begin < last;) {
        const int64_t block = begin / s->n, from = begin % s->n;
        const int64_t to = last - begin < s->n - from ? from + (last - begin) : s->n;
        const float *in[FLOOR_MAX_IN];
        float *out[FLOOR_MAX_OUT];
        for (int r = 0; r < s->n_in; r++)
            in[r] =
                (const float *)(const void *)((const char *)s->in[r].data + s->in[r].offset + block * s->in_stride[r]);
        for (int w = 0; w < s->n_out; w++)
            out[w] = (float *)(void *)((char *)s->out[w].data + s->out[w].offset + block * s->out_stride[w]);
        begin += to - from;
        if (s->fmas > 0) {
            isa->together(variant, in[0], s->n_out ? out[0] : NULL, from, to, s->fmas);
            continue;
        }
        if (variant < FLOOR_BLOCKED) {
            isa->stream(variant, s->n_in, s->n_out, in, out, from, to);
            continue;
        }
        for (int64_t i = from; i < to; i += BLOCK)
            for (int w = 0; w < s->n_out; w++)
                isa->stream(variant == FLOOR_BLOCKED ? FLOOR_PLAIN : FLOOR_STREAMING, s->n_in, 1, in, &out[w], i,
                            to - i < BLOCK ? to : i + BLOCK);
    }
}

static gdn_team *team; /* threads of floors and kernels; NULL = none, as with OpenMP */

gdn_parallel_for_fn floor_threads(int threads, void **user)
{
#if !defined(_OPENMP)
    static int team_threads;
    if (threads > 1 && threads != team_threads) {
        if (team) gdn_team_stop(team);
        free(team);
        void *memory = aligned_alloc(64, (gdn_team_bytes(threads) + 63) / 64 * 64);
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

typedef struct floor_work {
    const floor_isa *isa;
    int threads, variant, n_streams;
    const floor_stream *streams;
    const floor_scatter *scatter;
    int64_t n;
    _Atomic int64_t done;
} floor_work;

static void stream_task(void *arg, int32_t t)
{
    const floor_work *w = arg;
    for (int i = 0; i < w->n_streams; i++) stream_share(w->isa, w->variant, &w->streams[i], t, w->threads);
}

static void host_stream(int threads, int variant, const floor_stream *streams, int n_streams)
{
    floor_work w = {
        .isa = host_isa(), .threads = threads, .variant = variant, .n_streams = n_streams, .streams = streams
    };
    on_threads(threads, stream_task, &w);
}

static void scatter_task(void *arg, int32_t t)
{
    const floor_work *w = arg;
    const floor_scatter *s = w->scatter;
    const char *in = (const char *)s->in.data + s->in.offset;
    char *out = (char *)s->out.data + s->out.offset;
    const int32_t *index = (const int32_t *)(const void *)((const char *)s->index.data + s->index.offset);
    w->isa->scatter(w->variant, in, s->in_bytes, out, s->out_bytes, index, s->n * t / w->threads,
                    s->n * (t + 1) / w->threads);
}

static void host_scatter(int threads, int variant, const floor_scatter *s)
{
    floor_work w = { .isa = host_isa(), .threads = threads, .variant = variant, .scatter = s };
    on_threads(threads, scatter_task, &w);
}

static void fma_task(void *arg, int32_t t)
{
    floor_work *w = arg;
    (void)t;
    w->done = w->isa->fma(w->n);
}

static int64_t host_fma(int threads, int64_t n)
{
    floor_work w = { .isa = host_isa(), .n = n };
    on_threads(threads, fma_task, &w);
    return w.done;
}

const floor_ops *floor_ops_for(const gdn_device_info *device)
{
    static floor_ops host = { .stream = host_stream, .scatter = host_scatter, .fma = host_fma };
    if (device->backend == GDN_BACKEND_CUDA) return floor_ops_of_cuda();
    if (!device->shared_memory || (device->backend != GDN_BACKEND_CPU && device->backend != GDN_BACKEND_REFERENCE))
        return NULL;
    host.name = host_isa()->name;
    host.lanes = host_isa()->lanes;
    return &host;
}
