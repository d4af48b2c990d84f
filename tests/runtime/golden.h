/* Golden files: named arrays of int32 or float, as scripts/models/golden.py writes them. */
#ifndef GDN_TEST_GOLDEN_H
#define GDN_TEST_GOLDEN_H

#include <stdint.h>

enum { GOLDEN_ARRAYS = 64 };
typedef struct golden_array {
    char name[33];
    int32_t kind, n_dims, dim[4]; /* kind 0: float, 1: int32; outermost dimension first */
    const void *data;
} golden_array;

typedef struct golden {
    unsigned char *bytes;
    golden_array a[GOLDEN_ARRAYS];
    int32_t n;
} golden;

/* The program ends where the file is not as it should be. */
void golden_read(const char *folder, const char *name, golden *g);
void golden_free(golden *g);
const golden_array *golden_find(const golden *g, const char *name); /* NULL: there is none */
double golden_range(const float *x, int64_t n);                     /* largest less smallest */
int32_t golden_largest(const float *x, int32_t n);                  /* where the first of the largest is */

#endif
