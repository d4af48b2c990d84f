/* gdn_dense_bench: matrix products of the runtime compared with the machine's roofline, measured in the same run.
 *
 *     gdn_dense_bench [isa [threads [MiB of weights [columns [type]]]]]
 *
 * columns: a multiple of 32, default 4096; types whose blocks do not divide it are skipped. type: for example "Q8_0".
 *
 * The weights are many matrices in turn, as in a forward pass, and exceed the caches. Few rows are bound by memory, so
 * the result is a share of summing the same bytes. Many rows are bound by arithmetic, so the result is products per
 * second. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/roofline.h"
#include "runtime/dense/dense.h"
#include "runtime/base/error.h"

enum { COLUMNS = 4096, ROWS = 1024, MOST = 512, MOST_TYPE = 255 };

static int32_t columns = COLUMNS;

/* One thread is timed by its CPU time, so that a busy machine matters less. */
static clockid_t the_clock = CLOCK_MONOTONIC;

static double now(void)
{
    struct timespec t;
    clock_gettime(the_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double best_of(double *times, int n)
{
    double best = times[0];
    for (int i = 1; i < n; i++) best = times[i] < best ? times[i] : best;
    return best;
}

static double read_seconds(int n_threads, unsigned char *data, int64_t bytes)
{
    const roofline_piece piece = { data, bytes, ROOFLINE_READ };
    double times[15];
    for (int i = 0; i < 15; i++) {
        const double begin = now();
        roofline_move(n_threads, i % ROOFLINE_STREAMING, &piece, 1);
        times[i] = now() - begin;
    }
    return best_of(times, 15);
}

/* ---- Products ---- */

static double product_seconds(rt_dense *d, rt_weight *w, int32_t n, const float *x, float *y, void *scratch)
{
    enum { ROUNDS = 9 };
    double times[ROUNDS];
    int32_t matrices = n <= 8 ? w->n_matrices : n <= 64 ? (w->n_matrices + 7) / 8 : 1;
    for (int i = 0; i < ROUNDS; i++) {
        const double begin = now();
        for (int32_t m = 0; m < matrices; m++) rt_matmul(d, w, m, x, columns, n, y, ROWS, scratch);
        times[i] = (now() - begin) / matrices;
    }
    return best_of(times, ROUNDS);
}

static void bench_type(rt_dense *d, int n_threads, int32_t type, int64_t bytes, unsigned char *random, const float *x,
                       float *y, void *scratch)
{
    const rt_type_info *info = rt_type_describe(type);
    const int64_t row = columns / info->block * info->block_bytes, matrix = row * ROWS;
    rt_weight w = { random, type, columns, ROWS, (int32_t)(bytes / matrix), row };
    if (w.n_matrices < 1) w.n_matrices = 1;
    const double reading = read_seconds(n_threads, random, matrix * w.n_matrices) / w.n_matrices;
    printf("%-7s reading %5.1f GB/s;", info->name, 1e-9 * (double)matrix / reading);
    const int32_t rows[] = { 1, 2, 4, 8, 64, 512 };
    double first = 0;
    for (int i = 0; i < 6; i++) {
        const double s = product_seconds(d, &w, rows[i], x, y, scratch);
        if (!i) first = s;
        if (rows[i] <= 8)
            printf(" n=%d %5.1f GB/s (%3.0f%%, x%.2f)", (int)rows[i], 1e-9 * (double)matrix / s, 100 * reading / s,
                   s / first);
        else printf(" n=%d %5.1f Gmac/s", (int)rows[i], 1e-9 * (double)rows[i] * ROWS * columns / s);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    const int64_t bytes = (int64_t)(argc > 3 ? atoi(argv[3]) : 256) << 20;
    rt_threads *threads;
    rt_dense *d;
    columns = argc > 4 ? atoi(argv[4]) : COLUMNS;
    if (columns < 32 || columns > COLUMNS || columns % 32) {
        printf("columns is %d; multiples of 32 up to %d are allowed\n", (int)columns, COLUMNS);
        return 1;
    }
    if (rt_threads_create(argc > 2 ? atoi(argv[2]) : 1, &threads) ||
        rt_dense_create(argc > 1 && argv[1][0] ? argv[1] : NULL, threads, &d)) {
        printf("%s\n", rt_last_error());
        return 1;
    }
    unsigned char *random = rt_calloc((uint64_t)bytes + (64 << 20), 1, "weights");
    float *x = rt_calloc((uint64_t)MOST * COLUMNS, 4, "inputs"), *y = rt_calloc((uint64_t)MOST * ROWS, 4, "outputs");
    void *scratch = rt_calloc(rt_matmul_scratch(MOST, COLUMNS), 1, "scratch");
    if (!random || !x || !y || !scratch) {
        printf("%s\n", rt_last_error());
        return 1;
    }
    /* bytes whose floats are normal numbers in every type */
    for (int64_t i = 0; i < bytes + (64 << 20); i++) random[i] = (unsigned char)(0x21 + (i * 0x9e3779b1u >> 13) % 16);
    for (int64_t i = 0; i < (int64_t)MOST * COLUMNS; i++) x[i] = (float)(i * 0x9e3779b1u % 1000003) * 1e-6f - 0.5f;
    void *user;
    (void)roofline_threads(rt_threads_count(threads), &user);
    if (rt_threads_count(threads) == 1) the_clock = CLOCK_PROCESS_CPUTIME_ID;
    printf("%s, %d threads, %d x %d, weights of %d MiB\n", rt_dense_isa(d), (int)rt_threads_count(threads), ROWS,
           (int)columns, (int)(bytes >> 20));
    for (int32_t type = 0; type <= MOST_TYPE; type++) {
        const rt_type_info *info = rt_type_describe(type);
        if (info && columns % info->block == 0 && (argc <= 5 || !strcmp(argv[5], info->name)))
            bench_type(d, rt_threads_count(threads), type, bytes, random, x, y, scratch);
    }
    rt_free(random);
    rt_free(x);
    rt_free(y);
    rt_free(scratch);
    rt_dense_destroy(d);
    rt_threads_destroy(threads);
    return 0;
}
