/* Reads memory as the runtime's matrix products read weights: their roofline. */
#ifndef GDN_BENCH_READING_H
#define GDN_BENCH_READING_H

#include "runtime/base/parallel.h"

typedef struct reading_piece {
    const unsigned char *data;
    int64_t bytes;
} reading_piece;

/* Sums n pieces of memory as integers, once, each piece split over the threads. */
void reading_run(rt_threads *threads, const reading_piece *pieces, int32_t n);

#endif
