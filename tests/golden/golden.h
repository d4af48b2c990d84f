/* Reads the golden files of this folder (container "GDNG", described in README.md). C11, no dependencies.
 *
 *     gdng_file f;
 *     if (gdng_load(&f, "tests/golden/gdn_t7_s32.bin") != 0) { puts(f.error); return 1; }
 *     const gdng_tensor *q = gdng_find(&f, "q");            // NULL: the file has no such tensor
 *     const float *data = gdng_f32(q);                      // NULL: q is NULL or not float32
 *     ...
 *     gdng_free(&f);
 *
 * gdng_load checks every length, offset and size against the file before it is used; only the content of padding is not
 * looked at. Tensors point into the one block that gdng_free releases. Concurrent reading of a loaded file is safe.
 */
#ifndef GDNG_GOLDEN_H
#define GDNG_GOLDEN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GDNG_F32 = 0, GDNG_F64 = 1, GDNG_I32 = 2, GDNG_U8 = 3 };
enum { GDNG_MAX_TENSORS = 16, GDNG_FILE_HEADER = 16, GDNG_TENSOR_HEADER = 80, GDNG_MAX_BYTES = 64 * 1024 * 1024 };

typedef struct {
    char name[32];    /* NUL-terminated */
    uint32_t dtype;   /* GDNG_F32 ... */
    uint32_t ndim;    /* 1 to 4 */
    uint64_t dims[4]; /* outermost first, none is 0; 1 from ndim on */
    uint64_t count;   /* elements: the product of dims */
    const void *data; /* contiguous, last dimension fastest, aligned to 8 bytes */
} gdng_tensor;

typedef struct {
    void *block; /* the whole file */
    uint32_t n_tensors;
    gdng_tensor tensors[GDNG_MAX_TENSORS];
    const char *error; /* why gdng_load failed */
} gdng_file;

static inline uint32_t gdng_u32_(const unsigned char *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline uint64_t gdng_u64_(const unsigned char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* The tensor called `name`, or NULL. */
static inline const gdng_tensor *gdng_find(const gdng_file *f, const char *name)
{
    for (uint32_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

/* Parses the tensor at p, with `left` bytes to the end of the file. Returns the bytes it takes, or 0 and f->error. */
static inline size_t gdng_parse_tensor_(gdng_file *f, const unsigned char *p, size_t left)
{
    static const uint64_t element[] = { [GDNG_F32] = 4, [GDNG_F64] = 8, [GDNG_I32] = 4, [GDNG_U8] = 1 };
    gdng_tensor t;

    if (left < GDNG_TENSOR_HEADER) {
        f->error = "tensor header is cut off";
        return 0;
    }
    memcpy(t.name, p, sizeof t.name);
    t.dtype = gdng_u32_(p + 32);
    t.ndim = gdng_u32_(p + 36);
    if (t.name[0] == '\0' || memchr(t.name, '\0', sizeof t.name) == NULL || gdng_find(f, t.name) != NULL) {
        f->error = "tensor name is empty, unterminated or not unique";
        return 0;
    }
    if (t.dtype > GDNG_U8 || t.ndim < 1 || t.ndim > 4) {
        f->error = "unknown dtype, or not 1 to 4 dimensions";
        return 0;
    }

    left -= GDNG_TENSOR_HEADER;
    t.count = 1;
    for (uint32_t d = 0; d < 4; d++) {
        t.dims[d] = gdng_u64_(p + 40 + 8 * d);
        if (t.dims[d] == 0 || (d >= t.ndim && t.dims[d] != 1)) {
            f->error = "a dimension is 0, or one past the last is not 1";
            return 0;
        }
        if (t.dims[d] > left / t.count) { /* count <= left, so nothing overflows */
            f->error = "tensor is larger than the file";
            return 0;
        }
        t.count *= t.dims[d];
    }

    const uint64_t bytes = t.count * element[t.dtype]; /* at most 8 * GDNG_MAX_BYTES */
    const uint64_t padded = (bytes + 7) / 8 * 8;
    if (gdng_u64_(p + 72) != bytes || padded > left) {
        f->error = "tensor data has the wrong size or is cut off";
        return 0;
    }
    t.data = p + GDNG_TENSOR_HEADER;
    f->tensors[f->n_tensors++] = t;
    return GDNG_TENSOR_HEADER + (size_t)padded;
}

static inline int gdng_parse_(gdng_file *f, size_t size)
{
    const unsigned char *p = (const unsigned char *)f->block;
    const uint16_t one = 1;
    unsigned char low;

    memcpy(&low, &one, 1);
    if (low != 1) {
        f->error = "this reader needs a little-endian machine";
        return -1;
    }
    if (size < GDNG_FILE_HEADER || memcmp(p, "GDNG", 4) != 0 || gdng_u32_(p + 4) != 1 || gdng_u32_(p + 12) != 0) {
        f->error = "not a GDNG file of version 1";
        return -1;
    }
    const uint32_t n_tensors = gdng_u32_(p + 8);
    if (n_tensors > GDNG_MAX_TENSORS) {
        f->error = "more than GDNG_MAX_TENSORS tensors";
        return -1;
    }

    size_t at = GDNG_FILE_HEADER;
    for (uint32_t i = 0; i < n_tensors; i++) {
        const size_t taken = gdng_parse_tensor_(f, p + at, size - at);
        if (taken == 0) return -1;
        at += taken;
    }
    if (at != size) {
        f->error = "bytes after the last tensor";
        return -1;
    }
    return 0;
}

static inline void gdng_free(gdng_file *f)
{
    free(f->block);
    memset(f, 0, sizeof *f);
}

/* Loads the file at `path` into *f. Returns 0, or -1 with f->error set and nothing to free. */
static inline int gdng_load(gdng_file *f, const char *path)
{
    FILE *in = NULL;
    const char *error = NULL;
    long size = 0;

    memset(f, 0, sizeof *f);
    if ((in = fopen(path, "rb")) == NULL || fseek(in, 0, SEEK_END) != 0 || (size = ftell(in)) < 0 ||
        fseek(in, 0, SEEK_SET) != 0) {
        error = "cannot open the file";
        goto done;
    }
    if (size == 0 || size > GDNG_MAX_BYTES) {
        error = "file is empty or larger than GDNG_MAX_BYTES";
        goto done;
    }
    if ((f->block = malloc((size_t)size)) == NULL) {
        error = "out of memory";
        goto done;
    }
    if (fread(f->block, 1, (size_t)size, in) != (size_t)size) error = "cannot read the file";
    else if (gdng_parse_(f, (size_t)size) != 0) error = f->error;

done:
    if (in != NULL) fclose(in);
    if (error != NULL) gdng_free(f);
    f->error = error;
    return error == NULL ? 0 : -1;
}

/* The elements of t, or NULL if t is NULL or of another type. */
static inline const float *gdng_f32(const gdng_tensor *t)
{
    return t != NULL && t->dtype == GDNG_F32 ? (const float *)t->data : NULL;
}

static inline const int32_t *gdng_i32(const gdng_tensor *t)
{
    return t != NULL && t->dtype == GDNG_I32 ? (const int32_t *)t->data : NULL;
}

/* Element i < t->count of a tensor of any type, as a double: for comparing with _ref64 and _ref32 alike. */
static inline double gdng_at(const gdng_tensor *t, uint64_t i)
{
    switch (t->dtype) {
    case GDNG_F32: return (double)((const float *)t->data)[i];
    case GDNG_F64: return ((const double *)t->data)[i];
    case GDNG_I32: return (double)((const int32_t *)t->data)[i];
    default: return (double)((const unsigned char *)t->data)[i];
    }
}

#endif /* GDNG_GOLDEN_H */
