/* Attention for one instruction set: scores of a tile of queries, and sums of v weighted by them. A query is one head
 * of one row. The queries of a tile share k and v: a loaded part of a cell serves several from a register, and all from
 * the L1 cache. dense.h defines the order of the sums. */
#include <string.h>

#include "runtime/dense/vector.inc.h"

enum {
    PAIRS = GDN_VL == 16 ? 8 : 4,  /* queries x cells with partial sums in registers                      */
    PASSES = SUMS / 2,             /* passes over a pair's partial sums, two vectors at a time            */
    CELLS = GDN_VL,                /* cells whose sums across lanes are computed together                 */
    TOGETHER = PAIRS / 2,          /* queries that share a cell; with fewer, more cells                   */
    WEIGHED = GDN_VL == 8 ? 2 : 4, /* queries that share a loaded vector of v                             */
    COLUMNS = 4 * GDN_VL,          /* elements of v with WEIGHED queries; twice with one                  */
    V_BYTES = 16384                /* bytes of v that stay in the L1 cache from query to query            */
};

/* What a tile reads of a cache: its kv head's elements in its rows' cells. */
typedef struct cells {
    const unsigned char *at;
    int64_t row_bytes, head_bytes;
    const int32_t *cell;
} cells;

GDN_INLINE cells cells_of(const rt_attention_tile *t, const unsigned char *cache)
{
    const rt_attention_args *a = t->args;
    const int64_t bytes = rt_attention_head_bytes(a);
    return (cells){ cache + t->kv_head * bytes, a->n_heads_kv * bytes, bytes, a->cell[t->row] };
}

GDN_INLINE const unsigned char *cell_at(const cells *c, int32_t p) { return c->at + c->cell[p] * c->row_bytes; }

GDN_INLINE void prefetch_cells(const cells *c, int32_t first, int32_t last)
{
    for (int32_t p = first; p < last; p++)
        for (int64_t b = 0; b < c->head_bytes; b += 64) v_prefetch(cell_at(c, p) + b);
}

/* Elements [i, i + lanes) of a head in a cell. Blocks of Q8_0 are whole, so that lanes is GDN_VL. */
GDN_INLINE vf load_elements(const unsigned char *head, int type, int32_t i, int lanes)
{
    if (type != RT_Q8_0) return v_load_typed(head, type, i, lanes);
    const uint32_t at = (uint32_t)i;
    const unsigned char *block = head + at / 32 * RT_Q8_0_BYTES;
    return v_mul(v_set1_f16(block), v_load_i8((const int8_t *)block + 2 + at % 32));
}

/* ---- Scores ---- */

/* Adds elements [i, i + 32) to the sums of a pass; k has n of them. */
GDN_INLINE void dots_step(int type, int n_queries, int n_cells, const float *const *q, const unsigned char *const *k,
                          int32_t i, int n, int pass, vf p[PAIRS][2])
{
    UNROLLED
    for (int s = 0; s < 2; s++) { /* the two vectors that are added first */
        const int at = (pass + s * PASSES) * GDN_VL, lanes = lanes_of(n - at, 0);
        if (!lanes) continue;
        vf in[PAIRS];
        UNROLLED
        for (int c = 0; c < n_cells; c++) in[c] = load_elements(k[c], type, i + at, lanes);
        UNROLLED
        for (int y = 0; y < n_queries; y++) {
            const vf with = v_load(q[y] + at);
            UNROLLED
            for (int c = 0; c < n_cells; c++) p[y * n_cells + c][s] = v_fma(in[c], with, p[y * n_cells + c][s]);
        }
    }
}

/* dot32 of n_queries queries and n_cells cells, without the sum across a vector's lanes, in sum[y * CELLS + c]. If dim
 * is not a multiple of 32, tail[y] is a copy of a query's last elements, padded with -0. k loads as +0 there, so the
 * product is -0, which changes no sum, not even the sign of zero. */
GDN_INLINE void dots(int type, int n_queries, int n_cells, const float *const *q, const float (*tail)[32],
                     const unsigned char *const *k, int32_t dim, vf *sum)
{
    vf part[PASSES][PAIRS];
    UNROLLED
    for (int pass = 0; pass < PASSES; pass++) {
        vf p[PAIRS][2];
        const float *from[PAIRS];
        int32_t i = 0;
        UNROLLED
        for (int t = 0; t < n_queries * n_cells; t++) p[t][0] = p[t][1] = v_zero();
        for (; i + 32 <= dim; i += 32) {
            UNROLLED
            for (int y = 0; y < n_queries; y++) from[y] = q[y] + i;
            dots_step(type, n_queries, n_cells, from, k, i, 32, pass, p);
        }
        if (i < dim) {
            UNROLLED
            for (int y = 0; y < n_queries; y++) from[y] = tail[y];
            dots_step(type, n_queries, n_cells, from, k, i, dim - i, pass, p);
        }
        UNROLLED
        for (int t = 0; t < n_queries * n_cells; t++) part[pass][t] = v_add(p[t][0], p[t][1]);
    }
    UNROLLED
    for (int h = PASSES / 2; h; h /= 2) {
        UNROLLED
        for (int pass = 0; pass < h; pass++) {
            UNROLLED
            for (int t = 0; t < n_queries * n_cells; t++) part[pass][t] = v_add(part[pass][t], part[pass + h][t]);
        }
    }
    UNROLLED
    for (int t = 0; t < n_queries * n_cells; t++) sum[t / n_cells * CELLS + t % n_cells] = part[0][t];
}

/* Scores of queries j .. j + n_queries for cells [p, p + n), n <= CELLS. */
GDN_INLINE void scores_of(const rt_attention_tile *t, int type, int n_queries, int32_t j, int32_t p, int32_t n)
{
    enum { MOST = TOGETHER };
    const rt_attention_args *a = t->args;
    const cells at = cells_of(t, a->k);
    const int n_cells = PAIRS / n_queries;
    const int32_t dim = a->head_dim, whole = dim / 32 * 32;
    const unsigned char *k[CELLS];
    const float *q[MOST];
    float tail[MOST][32];
    vf sum[MOST * CELLS];
    for (int32_t c = 0; c < CELLS; c++) k[c] = cell_at(&at, p + (c < n ? c : n - 1));
    UNROLLED
    for (int y = 0; y < n_queries; y++) {
        q[y] = rt_attention_query(t, j + y);
        if (whole < dim) {
            for (int i = 0; i < 32; i++) tail[y][i] = -0.0f;
            memcpy(tail[y], q[y] + whole, 4 * (size_t)(dim - whole));
        }
    }
    for (int32_t c = n / n_cells * n_cells; c < CELLS; c++) { /* unused results */
        UNROLLED
        for (int y = 0; y < n_queries; y++) sum[y * CELLS + c] = v_zero();
    }
    for (int32_t c = 0; c < n; c += n_cells) {
        if (!j && p + c + CELLS < t->n_cells) { /* the first queries prefetch for all */
            const int32_t first = p + c + CELLS, last = first + n_cells;
            prefetch_cells(&at, first, last < t->n_cells ? last : t->n_cells);
        }
        dots(type, n_queries, n_cells, q, (const float(*)[32])tail, k + c, dim, sum + c);
    }
    UNROLLED
    for (int y = 0; y < n_queries; y++)
        v_store_some(t->score + (j + y) * t->stride + p, v_mul(v_set1(a->scale), v_sums(sum + y * CELLS)), n);
}

GDN_INLINE void scores_typed(const rt_attention_tile *t, int type, int32_t first, int32_t last)
{
    for (int32_t p = first; p < last; p += CELLS) {
        const int32_t n = last - p < CELLS ? last - p : CELLS;
        int32_t j = 0;
        for (; j + TOGETHER <= t->n_queries; j += TOGETHER) scores_of(t, type, TOGETHER, j, p, n);
        if (TOGETHER > 2)
            for (; j + 2 <= t->n_queries; j += 2) scores_of(t, type, 2, j, p, n);
        for (; j < t->n_queries; j++) scores_of(t, type, 1, j, p, n);
    }
}

static void scores(const rt_attention_tile *t, int32_t first, int32_t last)
{
    if (t->args->type == RT_F32) scores_typed(t, RT_F32, first, last);
    else if (t->args->type == RT_F16) scores_typed(t, RT_F16, first, last);
    else if (t->args->type == RT_Q8_0) scores_typed(t, RT_Q8_0, first, last);
    else scores_typed(t, RT_BF16, first, last);
}

/* ---- Sums of v ---- */

/* Adds cells [from, to) to elements [column, column + m) of the sums of queries j .. j + n_queries. */
GDN_INLINE void weigh_tile(const rt_attention_tile *t, int type, int n_queries, int n_vectors, int32_t j,
                           int32_t column, int m, int32_t from, int32_t to)
{
    const cells at = cells_of(t, t->args->v);
    float *out[WEIGHED];
    const float *w[WEIGHED];
    vf acc[WEIGHED][2 * COLUMNS / GDN_VL];
    UNROLLED
    for (int y = 0; y < n_queries; y++) {
        out[y] = rt_attention_out(t, j + y) + column;
        w[y] = t->score + (j + y) * t->stride;
        UNROLLED
        for (int c = 0; c < n_vectors; c++)
            acc[y][c] = lanes_of(m, c) ? v_load_some(out[y] + c * GDN_VL, lanes_of(m, c)) : v_zero();
    }
    for (int32_t p = from; p < to; p++) {
        const unsigned char *v = cell_at(&at, p);
        vf f[WEIGHED];
        UNROLLED
        for (int y = 0; y < n_queries; y++) f[y] = v_set1(w[y][p]);
        UNROLLED
        for (int c = 0; c < n_vectors; c++) {
            const int lanes = lanes_of(m, c);
            if (!lanes) continue;
            const vf in = load_elements(v, type, column + c * GDN_VL, lanes);
            UNROLLED
            for (int y = 0; y < n_queries; y++) acc[y][c] = v_fma(f[y], in, acc[y][c]);
        }
    }
    UNROLLED
    for (int y = 0; y < n_queries; y++) {
        UNROLLED
        for (int c = 0; c < n_vectors; c++)
            if (lanes_of(m, c)) v_store_some(out[y] + c * GDN_VL, acc[y][c], lanes_of(m, c));
    }
}

GDN_INLINE void weigh_columns(const rt_attention_tile *t, int type, int n_queries, int32_t j, int32_t first,
                              int32_t last, int32_t from, int32_t to)
{
    enum { ALONE = 2 * COLUMNS };
    const int wide = n_queries == 1 ? ALONE : COLUMNS;
    int32_t c = first;
    for (; c + wide <= last; c += wide) weigh_tile(t, type, n_queries, wide / GDN_VL, j, c, wide, from, to);
    for (; c + COLUMNS / 2 <= last; c += COLUMNS / 2)
        weigh_tile(t, type, n_queries, COLUMNS / 2 / GDN_VL, j, c, COLUMNS / 2, from, to);
    if (c < last) weigh_tile(t, type, n_queries, COLUMNS / 2 / GDN_VL, j, c, last - c, from, to);
}

/* Rows of a tile may have different numbers of cells; queries process their common cells together. */
GDN_INLINE void weigh_queries(const rt_attention_tile *t, int type, int n_queries, int32_t j, int32_t first,
                              int32_t last, int32_t from, int32_t to)
{
    int32_t common = to;
    for (int y = 0; y < n_queries; y++) {
        const int32_t n = rt_attention_cells(t, j + y);
        common = n < common ? n : common;
    }
    if (from < common) weigh_columns(t, type, n_queries, j, first, last, from, common);
    if (n_queries == 1) return;
    common = common > from ? common : from;
    for (int y = 0; y < n_queries; y++) {
        const int32_t n = rt_attention_cells(t, j + y), end = n < to ? n : to;
        if (common < end) weigh_columns(t, type, 1, j + y, first, last, common, end);
    }
}

GDN_INLINE void weigh_typed(const rt_attention_tile *t, int type, int32_t first, int32_t last)
{
    const cells at = cells_of(t, t->args->v);
    const int64_t bytes = at.head_bytes * (last - first) / t->args->head_dim, fit = V_BYTES / bytes;
    const int32_t step = fit < 8 ? 8 : fit > 64 ? 64 : (int32_t)fit;
    for (int32_t j = 0; j < t->n_queries; j++)
        memset(rt_attention_out(t, j) + first, 0, sizeof(float) * (size_t)(last - first));
    for (int32_t from = 0; from < t->n_cells; from += step) {
        const int32_t to = t->n_cells - from < step ? t->n_cells : from + step;
        int32_t j = 0;
        for (int32_t p = to; p < to + step && p < t->n_cells; p++)
            for (int64_t b = 0; b < bytes; b += 64)
                v_prefetch(cell_at(&at, p) + first * at.head_bytes / t->args->head_dim + b);
        for (; j + WEIGHED <= t->n_queries; j += WEIGHED) weigh_queries(t, type, WEIGHED, j, first, last, from, to);
        if (WEIGHED > 2)
            for (; j + 2 <= t->n_queries; j += 2) weigh_queries(t, type, 2, j, first, last, from, to);
        for (; j < t->n_queries; j++) weigh_queries(t, type, 1, j, first, last, from, to);
    }
    for (int32_t j = 0; j < t->n_queries; j++) {
        float *out = rt_attention_out(t, j) + first;
        const vf inverse = v_set1(t->inverse[j]);
        FOR_LANES(d, lanes, last - first,
                  { v_store_some(out + d, v_mul(v_load_some(out + d, lanes), inverse), lanes); });
    }
}

static void weigh(const rt_attention_tile *t, int32_t first, int32_t last)
{
    if (t->args->type == RT_F32) weigh_typed(t, RT_F32, first, last);
    else if (t->args->type == RT_F16) weigh_typed(t, RT_F16, first, last);
    else if (t->args->type == RT_Q8_0) weigh_typed(t, RT_Q8_0, first, last);
    else weigh_typed(t, RT_BF16, first, last);
}
