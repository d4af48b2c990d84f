/* set_rows cases: a specification from which the arguments and the memory of a call are built. */
#ifndef GDN_CHECK_SET_ROWS_H
#define GDN_CHECK_SET_ROWS_H

#include "case.h"
#include "values.h"

/* How the index is made: as a permutation, at random with duplicates and GDN_NONE, all the same row,
 * all GDN_NONE. */
enum { ROWS_PERMUTED, ROWS_RANDOM, ROWS_ONE, ROWS_NONE };

typedef struct rows_spec {
    int      n_columns, n_rows, n_rows_dst, n_batch[2], index_batch[2];
    int32_t  src_type, dst_type, index_type;
    int      index_style, first_row; /* row i of the call has the data and index of first_row + i */
    int      only_batch[2];          /* -1, or: batch 0 of the call has the data and index of this one */
    int      of_index_batch[2];      /* with only_batch: index_batch of the call that it is a part of  */
    int      values, strided;
    uint64_t seed;
} rows_spec;

void    rows_defaults(rows_spec *spec, int n_columns, int n_rows, int n_rows_dst);
void    rows_random(rows_spec *spec, check_rng *rng);
int64_t rows_index(const rows_spec *spec, int b, int c, int i);
unsigned char *rows_at(const check_case *c, unsigned char *const *image, int b0, int b1, int row);

#endif
