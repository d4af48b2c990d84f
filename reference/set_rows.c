/* set_rows, scalar: the specification. Rows in order, so that the later of two rows with one target wins.
 *
 * Steps, numbered as in docs/reference/kernels/set_rows.md and in every other version:
 *   1 target   2 load   3 convert and store */
#include "reference/reference.h"

#include <string.h>

#include "numerics/convert.h"

int64_t GDN_REF(set_rows_items)(const gdn_set_rows_call *p) { return (int64_t)p->n_batch[0] * p->n_batch[1]; }

void GDN_REF(set_rows)(const gdn_set_rows_call *p, int64_t item, void *scratch)
{
    (void)scratch;
    const int64_t b = item / p->n_batch[1], c = item % p->n_batch[1];
    for (int64_t i = 0; i < p->n_rows; i++) {
        /* 1: target */
        const int64_t row = gdn_index_at(p, b, c, i);
        if (row < 0) continue;
        const char *src = gdn_memory(p->src) + b * p->src_stride[0] + c * p->src_stride[1] + i * p->src_stride[2];
        char *dst = gdn_memory(p->dst) + b * p->dst_stride[0] + c * p->dst_stride[1] + row * p->dst_stride[2];

        /* Equal types: copy the bits. Otherwise convert pieces of one Q8_0 block. */
        if (p->src_dtype == p->dst_dtype) {
            memcpy(dst, src, (size_t)p->n_columns * (p->src_dtype == GDN_F32 ? 4 : 2));
            continue;
        }
        for (int64_t j = 0; j < p->n_columns; j += 32) {
            const int64_t n = p->n_columns - j < 32 ? p->n_columns - j : 32;
            float x[32];
            for (int64_t m = 0; m < n; m++) x[m] = gdn_load_element(src, p->src_dtype, j + m); /* 2: load */
            gdn_store_elements(p->dst_dtype == GDN_Q8_0 ? dst + j / 32 * 34
                                                        : dst + j * (p->dst_dtype == GDN_F32 ? 4 : 2),
                               p->dst_dtype, x, n); /* 3: convert and store */
        }
    }
}
