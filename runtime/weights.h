/* Weights as files hold them: the element types of GGUF and views of matrices. */
#ifndef GDN_RUNTIME_WEIGHTS_H
#define GDN_RUNTIME_WEIGHTS_H

#include <stdint.h>

/* ggml's type numbers, as they stand in GGUF files; those that the runtime can multiply with. */
typedef enum rt_type {
    RT_F32  = 0,
    RT_F16  = 1,
    RT_Q4_0 = 2,
    RT_Q8_0 = 8,
    RT_Q4_K = 12,
    RT_Q5_K = 13,
    RT_Q6_K = 14,
    RT_BF16 = 30
} rt_type;

typedef struct rt_type_info {
    const char *name;          /* "Q4_K"                                             */
    int32_t     block;         /* elements per block                                 */
    int32_t     block_bytes;
} rt_type_info;

/* NULL for a type that is not in the list above. */
const rt_type_info *rt_type_describe(int32_t type);

/* A matrix of n_rows rows of n_columns elements, each row whole blocks, rows packed: row r begins at
 * data + r * row_bytes. y = W x has n_rows outputs; GGUF writes it as ne = { n_columns, n_rows }.
 * A stack of matrices (experts) is n_matrices of them, packed. data need not be aligned beyond 2 bytes. */
typedef struct rt_weight {
    const unsigned char *data; /* NULL: the model has no such tensor                 */
    int32_t              type; /* rt_type                                            */
    int32_t              n_columns;
    int32_t              n_rows;
    int32_t              n_matrices;
    int64_t              row_bytes;
} rt_weight;

/* Elements [0, n_columns) of row r (counted over all matrices) as F32. Each is rounded once; F16, BF16 exact. */
void rt_weight_row(const rt_weight *w, int64_t row, float *out);

/* 32 elements of a quantised row: element i is d * factor[i / 16] * w[i] - m. d takes in the block's own scale as far
 * as that is exact: F16 times 6 bits. Only Q6_K has factors other than 1, only Q4_K and Q5_K have minima. */
typedef struct rt_weight_block {
    int8_t  w[32];
    int32_t factor[2];
    float   d, m;
} rt_weight_block;

/* Elements [32 b, 32 b + 32) of a row that begins at `row`, of a quantised type. */
void rt_weight_block_read(int32_t type, const unsigned char *row, int32_t b, rt_weight_block *out);

#endif
