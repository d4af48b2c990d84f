/* Reads memory at full speed: each thread sums its part of a piece as several streams of 8-byte words, which compilers
 * vectorise. See reading.h. */
#include "bench/reading.h"

#include <string.h>

enum { STREAMS = 4, WORDS = 32 };

typedef struct job {
    const reading_piece *pieces;
    int32_t n, n_parts;
    _Atomic uint64_t sum; /* unused result, so that the compiler keeps the work */
} job;

#ifdef GDN_ARCH_X86
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static uint64_t
sum_of(const unsigned char *data, int64_t bytes)
{
    const int64_t words = bytes / 8 / STREAMS;
    uint64_t sum[WORDS] = { 0 };
    for (int64_t i = 0; i + WORDS <= words; i += WORDS)
        for (int s = 0; s < STREAMS; s++) {
            const unsigned char *at = data + 8 * (s * words + i);
            uint64_t w[WORDS];
            for (int ahead = 0; ahead < 8 * WORDS; ahead += 64) __builtin_prefetch(at + 2048 + ahead);
            memcpy(w, at, sizeof w);
            for (int k = 0; k < WORDS; k++) sum[k] += w[k];
        }
    for (int k = 1; k < WORDS; k++) sum[0] += sum[k];
    return sum[0];
}

static void read_part(void *arg, int32_t part)
{
    job *j = arg;
    uint64_t sum = 0;
    for (int32_t i = 0; i < j->n; i++) {
        const int64_t each = j->pieces[i].bytes / j->n_parts / 64 * 64;
        sum += sum_of(j->pieces[i].data + part * each, each);
    }
    j->sum += sum;
}

void reading_run(rt_threads *threads, const reading_piece *pieces, int32_t n)
{
    job j = { pieces, n, rt_threads_count(threads), 0 };
    rt_parallel_for(threads, j.n_parts, read_part, &j);
}
