/* Reads golden files (container "GDNG", described in README.md), on little-endian machines. What is no such file ends
 * the program. Tensors point into the file's block, which is freed with free(). */
#ifndef GDNG_GOLDEN_H
#define GDNG_GOLDEN_H

#include <stdint.h>
#include <string.h>

#include "tests/harness.h"

enum { GDNG_F32 = 0, GDNG_F64 = 1, GDNG_I32 = 2, GDNG_U8 = 3 };
enum { GDNG_MAX_TENSORS = 64, GDNG_FILE_HEADER = 16, GDNG_TENSOR_HEADER = 80 };

typedef struct {
    char name[32]; /* NUL-terminated */
    uint32_t dtype, ndim;
    int64_t dims[4];
    uint64_t bytes;   /* until here as in the file */
    uint64_t count;   /* elements */
    const void *data; /* contiguous, last dimension fastest, aligned to 8 bytes */
} gdng_tensor;

typedef struct {
    unsigned char *block; /* the whole file */
    uint32_t n_tensors;
    gdng_tensor tensors[GDNG_MAX_TENSORS];
} gdng_file;

static inline void gdng_load(gdng_file *f, const char *folder, const char *name)
{
    static const uint64_t element[] = { [GDNG_F32] = 4, [GDNG_F64] = 8, [GDNG_I32] = 4, [GDNG_U8] = 1 };
    size_t n, at = GDNG_FILE_HEADER;
    f->block = test_file(folder, name, &n);
    NEED(n >= at && !memcmp(f->block, "GDNG\1\0\0", 8), "%s is no golden file of version 1", name);
    memcpy(&f->n_tensors, f->block + 8, 4);
    NEED(f->n_tensors <= GDNG_MAX_TENSORS);
    for (gdng_tensor *t = f->tensors; t < f->tensors + f->n_tensors; t++) {
        NEED(at + GDNG_TENSOR_HEADER <= n, "%s is cut off", name);
        memcpy(t, f->block + at, GDNG_TENSOR_HEADER);
        at += GDNG_TENSOR_HEADER;
        t->count = (uint64_t)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]);
        NEED(t->dtype <= GDNG_U8 && t->bytes == t->count * element[t->dtype] && t->bytes <= n - at, "%s: a bad tensor",
             name);
        t->data = f->block + at;
        at += (size_t)(t->bytes + 7) / 8 * 8;
    }
    NEED(at == n, "%s has bytes after its last tensor, or too few", name);
}

/* The tensor called `name`, or NULL. */
static inline const gdng_tensor *gdng_find(const gdng_file *f, const char *name)
{
    for (uint32_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

/* The elements of a tensor, or NULL if it is not there or of another type. */
static inline const void *gdng_data(const gdng_file *f, const char *name, uint32_t dtype)
{
    const gdng_tensor *t = gdng_find(f, name);
    return t && t->dtype == dtype ? t->data : NULL;
}

/* Element i < t->count of a tensor of float32 or float64: for comparing with _ref64 and _ref32 alike. */
static inline double gdng_at(const gdng_tensor *t, uint64_t i)
{
    return t->dtype == GDNG_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

#endif /* GDNG_GOLDEN_H */
