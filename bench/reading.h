/* Reading memory, as the runtime's products read weights: what their floor is. */
#ifndef GDN_BENCH_READING_H
#define GDN_BENCH_READING_H

#include "runtime/parallel.h"

typedef struct reading_piece {
    const unsigned char *data;
    int64_t bytes;
} reading_piece;

/* Sum n pieces of memory as integers, each of them shared out among the threads, once. */
void reading_run(rt_threads *threads, const reading_piece *pieces, int32_t n);

#endif
