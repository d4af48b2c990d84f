/* Attention of one row on a vector unit, for heads that share k and v: a cell's k and v are read once for all of them.
 * A head's v sums are kept in registers for COLUMNS elements at a time. */
#include <string.h>

#include "runtime/vector.inc.h"

enum {
    COLUMNS = 8 * GDN_VL,
    HEADS   = 16, /* at a time                       */
    AHEAD   = 4   /* cells that prefetches run ahead */
};

GDN_INLINE float dot_cell(const float *q, const unsigned char *k, int type, int32_t n)
{
    vf      p[SUMS];
    int32_t i = 0;
    zero32(p);
    for (; i + 32 <= n; i += 32) {
        UNROLLED
        for (int s = 0; s < SUMS; s++)
            p[s] = v_fma(v_load_typed(k, type, i + s * GDN_VL, GDN_VL), v_load(q + i + s * GDN_VL), p[s]);
    }
    for (int s = 0; s < SUMS; s++) {
        const int m = lanes_of(n - i, s);
        if (!m) break;
        const vf t = v_fma(v_load_typed(k, type, i + s * GDN_VL, m), v_load_n(q + i + s * GDN_VL, m), p[s]);
        p[s] = v_sel(vm_first_n(m), t, p[s]);
    }
    return sum32(p);
}

GDN_INLINE void prefetch(const unsigned char *p, int64_t bytes)
{
    for (int64_t b = 0; b < bytes; b += 64) v_prefetch(p + b);
}

/* out[0 .. m) of one head, m <= COLUMNS, goes on with n cells; v points at the first of these elements of cell 0. */
GDN_INLINE void weigh(const unsigned char *v, int64_t row_bytes, int type, const int32_t *cell, const float *w,
                      int32_t n, float *out, int m)
{
    enum { VECTORS = COLUMNS / GDN_VL };
    vf acc[VECTORS];
    UNROLLED
    for (int c = 0; c < VECTORS; c++)
        acc[c] = lanes_of(m, c) ? v_load_some(out + c * GDN_VL, lanes_of(m, c)) : v_zero();
    for (int32_t p = 0; p < n; p++) {
        const unsigned char *at = v + cell[p] * row_bytes;
        const vf             f  = v_set1(w[p]);
        UNROLLED
        for (int c = 0; c < VECTORS; c++) {
            const int lanes = lanes_of(m, c);
            if (lanes) acc[c] = v_fma(f, v_load_typed(at, type, c * GDN_VL, lanes), acc[c]);
        }
    }
    UNROLLED
    for (int c = 0; c < VECTORS; c++)
        if (lanes_of(m, c)) v_store_some(out + c * GDN_VL, acc[c], lanes_of(m, c));
}

GDN_INLINE void attention_typed(const rt_attention_args *a, int type, int32_t row, int32_t head, int32_t n_heads,
                            float *scratch)
{
    enum { CHUNK = 32 }; /* cells whose v stays in the first-level cache from one head to the next */
    const int32_t        n = a->n_cells[row], *cell = a->cell[row], dim = a->head_dim;
    const int64_t        size = type == RT_F32 ? 4 : 2, head_bytes = dim * size, row_bytes = a->n_heads_kv * head_bytes;
    const int64_t        kv_head = head / (a->n_heads / a->n_heads_kv) * head_bytes, stride = rt_cells_padded(n);
    const unsigned char *k = a->k + kv_head, *v = a->v + kv_head;
    const float         *q = a->q + row * a->q_stride + head * a->q_head_stride;
    float               *out = a->out + ((int64_t)row * a->n_heads + head) * dim;
    for (int32_t p = 0; p < n; p++) {
        const unsigned char *at = k + cell[p] * row_bytes;
        if (p + AHEAD < n) prefetch(k + cell[p + AHEAD] * row_bytes, head_bytes);
        for (int32_t h = 0; h < n_heads; h++)
            scratch[h * stride + p] = a->scale * dot_cell(q + h * a->q_head_stride, at, type, dim);
    }
    float inverse[HEADS];
    for (int32_t h = 0; h < n_heads; h++) inverse[h] = exponentials(scratch + h * stride, n);
    memset(out, 0, sizeof *out * (size_t)(n_heads * dim));
    for (int32_t from = 0; from < n; from += CHUNK) {
        const int32_t count = n - from < CHUNK ? n - from : CHUNK;
        for (int32_t p = from + count; p < from + 2 * count && p < n; p++)
            prefetch(v + cell[p] * row_bytes, head_bytes);
        for (int32_t h = 0; h < n_heads; h++) {
            int32_t d = 0;
            for (; d + COLUMNS <= dim; d += COLUMNS)
                weigh(v + d * size, row_bytes, type, cell + from, scratch + h * stride + from, count, out + h * dim + d,
                      COLUMNS);
            if (d < dim)
                weigh(v + d * size, row_bytes, type, cell + from, scratch + h * stride + from, count, out + h * dim + d,
                      dim - d);
        }
    }
    for (int32_t h = 0; h < n_heads; h++)
        FOR_LANES(d, lanes, dim, {
            v_store_some(out + h * dim + d, v_mul(v_load_some(out + h * dim + d, lanes), v_set1(inverse[h])), lanes);
        });
}

/* Groups of more heads than HEADS go in pieces. */
static void attention(const rt_attention_args *a, int32_t row, int32_t head, int32_t n_heads, float *scratch)
{
    for (int32_t done = 0; done < n_heads; done += HEADS) {
        const int32_t h = head + done, n = n_heads - done < HEADS ? n_heads - done : HEADS;
        if (a->type == RT_F32) attention_typed(a, RT_F32, row, h, n, scratch);
        else if (a->type == RT_F16) attention_typed(a, RT_F16, row, h, n, scratch);
        else attention_typed(a, RT_BF16, row, h, n, scratch);
    }
}
