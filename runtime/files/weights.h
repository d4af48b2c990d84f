/* Weights in their file format: GGUF element types, and views of matrices. */
#ifndef GDN_RUNTIME_WEIGHTS_H
#define GDN_RUNTIME_WEIGHTS_H

#include <stdint.h>

/* ggml's numbers of the element types that the runtime supports, as in GGUF files. */
typedef enum rt_type {
    RT_F32 = 0,
    RT_F16 = 1,
    RT_Q4_0 = 2,
    RT_Q4_1 = 3,
    RT_Q5_0 = 6,
    RT_Q5_1 = 7,
    RT_Q8_0 = 8,
    RT_Q2_K = 10,
    RT_Q3_K = 11,
    RT_Q4_K = 12,
    RT_Q5_K = 13,
    RT_Q6_K = 14,
    RT_IQ2_XXS = 16,
    RT_IQ2_XS = 17,
    RT_IQ3_XXS = 18,
    RT_IQ1_S = 19,
    RT_IQ4_NL = 20,
    RT_IQ3_S = 21,
    RT_IQ2_S = 22,
    RT_IQ4_XS = 23,
    RT_IQ1_M = 29,
    RT_BF16 = 30,
    RT_MXFP4 = 39
} rt_type;

typedef struct rt_type_info {
    const char *name; /* "Q4_K"                                             */
    int32_t block;    /* elements per block                                 */
    int32_t block_bytes;
} rt_type_info;

/* NULL: not one of the types above. */
const rt_type_info *rt_type_describe(int32_t type);

/* Names of all types, separated by commas, for error texts. */
const char *rt_type_names(void);

/* A matrix of n_rows rows of n_columns elements. Each row is whole blocks; row r begins at data + r * row_bytes. y = W
 * x has n_rows outputs; GGUF stores it as ne = { n_columns, n_rows }. A stack of matrices (experts) is n_matrices of
 * them. data may be aligned to 2 bytes only. */
typedef struct rt_weight {
    const unsigned char *data; /* NULL: the model has no such tensor                 */
    int32_t type;              /* rt_type                                            */
    int32_t n_columns;
    int32_t n_rows;
    int32_t n_matrices;
    int64_t row_bytes;
    int64_t matrix_bytes; /* from one matrix to the next; 0: packed              */
} rt_weight;

static inline const unsigned char *rt_weight_matrix(const rt_weight *w, int32_t i)
{
    return w->data + i * (w->matrix_bytes ? w->matrix_bytes : w->n_rows * w->row_bytes);
}

/* Converts row r (counted over all matrices, which are packed) to n_columns F32 elements. Each is rounded once; F16 and
 * BF16 are exact.
 */
void rt_weight_row(const rt_weight *w, int64_t row, float *out);

/* 32 elements of a quantised row. Element i is d * factor[i / 16] * w[i] - m * min[i / 16]; all but the difference is
 * exact. d includes the block's own scale, if any. factor: scales per 16 elements; 1 in types without them
 * (rt_type_factors). m is 0 in types without minima (rt_type_minima). min is 1 except in Q2_K. */
typedef struct rt_weight_block {
    int8_t w[32];
    int32_t factor[2], min[2];
    float d, m;
} rt_weight_block;

static inline int rt_type_factors(int32_t type)
{
    return type == RT_Q6_K || type == RT_Q2_K || type == RT_Q3_K || type == RT_IQ2_XS || type == RT_IQ2_S ||
           type == RT_IQ1_M;
}

static inline int rt_type_minima(int32_t type)
{
    return type == RT_Q4_K || type == RT_Q5_K || type == RT_Q2_K || type == RT_Q4_1 || type == RT_Q5_1;
}

/* Reads elements [32 b, 32 b + 32) of the row that begins at `row`, of a quantised type. */
void rt_weight_block_read(int32_t type, const unsigned char *row, int32_t b, rt_weight_block *out);

#endif
