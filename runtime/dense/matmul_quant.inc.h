/* Matrix products with quantised weights, for one instruction set. Include after runtime/quant_<isa>.h, which decodes
 * the blocks of each type and defines:
 *   wv                     vector of bytes; WV of them hold 64 bytes
 *   group                  512 weights, decoded
 *   wv_load(p), wv_store(p, a)
 *   blocks_to_units(base, stride, n, w)   16 blocks of 32 bytes, brought into the order below
 *   decode_<type>(from, n, g)          a group of 512 weights, as unsigned bytes (Q8_0: see Q8_SIGNED);
 *                                      zeros replace blocks beyond the n of the row
 *   STEPWISE, STEP_ROWS    whether dot products use dot1() or dot4(); rows that are computed together
 *   dot1(sum, w, x)        4 bytes per lane: sum + w * x, exact
 *   dot4(type, w, x)       4 x 4 bytes per lane: the sum of w[k] * x[k], exact
 *   KEEP_REGISTER          the constraint of a vector register
 *   unite(acc, t)          accumulators of both units to lanes of blocks
 *   pack_i8(p, q)          32 integers to bytes
 *
 * The order of a group: lanes of a result are blocks, so that integers of a vector are summed across lanes only once
 * per 16 bytes. Blocks 2j make unit 0 and blocks 2j + 1 unit 1, since a byte of the K types holds nibbles of two
 * blocks. Byte i of block 2j + u is at this index:
 *
 *     256 u  +  64 (i / 4 % 4)  +  32 (j % 2)  +  16 (i / 16)  +  4 (j / 2)  +  i % 4
 *
 * The 4 dot products of a unit thus leave the sum over 16 bytes of a block in a lane. unite() adds the two halves, and
 * puts block 2j + u in lane 8 u + 4 (j % 2) + j / 2. */
#include <string.h>

#include "runtime/dense/quant_blocks_x86.h"
#include "runtime/dense/vector.inc.h"

enum {
    LANES = RT_BLOCKS / GDN_VL, /* vectors of lanes                                   */
    UNIT = 4 * WV,              /* vectors of bytes in a unit                         */
    TILE = 2,                   /* outputs that share a loaded input, with many rows  */
    TILE_ROWS = 8,
    BLOCK_OUTPUTS = 32
};

/* True for types with scales of 16 elements; with minima. */
GDN_INLINE int has_factors(int type) { return type == RT_Q6_K || (type & RT_BLOCKWISE && type & RT_FACTORS); }
GDN_INLINE int has_minima(int type)
{
    return type == RT_Q4_K || type == RT_Q5_K || (type & RT_BLOCKWISE && type & RT_MINIMA);
}

GDN_INLINE int group_bytes(const rt_product_args *a, int type)
{
    return type & RT_BLOCKWISE ? (int)(a->row_bytes * RT_GROUP / a->n_columns)
           : type == RT_Q8_0   ? 16 * 34
           : type == RT_Q4_0   ? 16 * 18
           : type == RT_Q4_K   ? 2 * 144
           : type == RT_Q5_K   ? 2 * 176
                               : 2 * 210;
}

/* True if 8 blocks make a super-block; rows have whole ones. */
GDN_INLINE int is_super(int type) { return type == RT_Q4_K || type == RT_Q5_K || type == RT_Q6_K; }

/* ---- Types without a decoder in registers: decoded block by block into memory, in the order of blocks ---- */

typedef struct blocks {
    int8_t w[RT_GROUP]; /* with an offset of 128 unless Q8_SIGNED                                  */
    float d[RT_BLOCKS]; /* in the order of lanes                                                   */
    float m[RT_BLOCKS];
    int32_t factor[2 * RT_BLOCKS]; /* in the order of accumulators; the minima's factors are 16 bits higher */
} blocks;

/* Decodes block 8 s + j of a group; `at` is the first byte of its super-block, or of the block. */
GDN_INLINE void read_one(int type, const unsigned char *at, int s, int j, blocks *out)
{
    rt_weight_block one = { .factor = { 1, 1 }, .min = { 1, 1 } };
    const __m256i w = rt_weights_32(type, at, j);
    const int lane = 8 * (j % 2) + 4 * (j / 2 % 2) + j / 4 + 2 * s;
    rt_read_block(type, at, j, &one);
    _mm256_storeu_si256((__m256i *)(void *)(out->w + 256 * s + 32 * j),
                        Q8_SIGNED ? w : _mm256_xor_si256(w, _mm256_set1_epi8(-128)));
    out->d[lane] = one.d;
    if (rt_type_minima(type)) out->m[lane] = one.m;
    for (int h = 0; h < 2 && rt_type_factors(type); h++)
        out->factor[16 * (j % 2) + 8 * (j / 2 % 2) + 4 * h + j / 4 + 2 * s] =
            rt_type_minima(type) ? one.factor[h] | one.min[h] << 16 : one.factor[h];
}

GDN_INLINE void read_blocks(int type, int block, int bytes, const unsigned char *from, int n, blocks *out)
{
    for (int s = 0; s < n / 8; s++) {
        UNROLLED
        for (int j = 0; j < 8; j++)
            read_one(type, block == 32 ? from + (8 * s + j) * bytes : from + s * bytes, s, j, out);
    }
    if (block == 32) /* the remaining blocks */
        for (int b = n / 8 * 8; b < n; b++) read_one(type, from + b * bytes, b / 8, b % 8, out);
}

static void __attribute__((noinline)) read_any(int32_t type, const unsigned char *from, int n, blocks *out)
{
    switch (type) {
    case RT_Q4_1: read_blocks(RT_Q4_1, 32, 20, from, n, out); return;
    case RT_Q5_0: read_blocks(RT_Q5_0, 32, 22, from, n, out); return;
    case RT_Q5_1: read_blocks(RT_Q5_1, 32, 24, from, n, out); return;
    case RT_Q2_K: read_blocks(RT_Q2_K, 256, 84, from, n, out); return;
    case RT_Q3_K: read_blocks(RT_Q3_K, 256, 110, from, n, out); return;
    case RT_IQ1_S: read_blocks(RT_IQ1_S, 256, 50, from, n, out); return;
    case RT_IQ1_M: read_blocks(RT_IQ1_M, 256, 56, from, n, out); return;
    case RT_IQ2_XXS: read_blocks(RT_IQ2_XXS, 256, 66, from, n, out); return;
    case RT_IQ2_XS: read_blocks(RT_IQ2_XS, 256, 74, from, n, out); return;
    case RT_IQ2_S: read_blocks(RT_IQ2_S, 256, 82, from, n, out); return;
    case RT_IQ3_XXS: read_blocks(RT_IQ3_XXS, 256, 98, from, n, out); return;
    case RT_IQ3_S: read_blocks(RT_IQ3_S, 256, 110, from, n, out); return;
    case RT_IQ4_NL: read_blocks(RT_IQ4_NL, 32, 18, from, n, out); return;
    case RT_IQ4_XS: read_blocks(RT_IQ4_XS, 256, 136, from, n, out); return;
    default: read_blocks(RT_MXFP4, 32, 17, from, n, out); return;
    }
}

GDN_INLINE void decode_blockwise(int32_t actual, int type, const unsigned char *from, int n, group *g)
{
    blocks b;
    if (n < RT_BLOCKS) memset(&b, 0, sizeof b);
    read_any(actual, from, n, &b);
    blocks_to_units((const unsigned char *)b.w, 32, RT_BLOCKS, g->w);
    UNROLLED
    for (int l = 0; l < LANES; l++) {
        g->d[l] = v_load(b.d + l * GDN_VL);
        if (has_minima(type)) g->m[l] = v_load(b.m + l * GDN_VL);
    }
    if (has_factors(type)) {
        UNROLLED
        for (int ua = 0; ua < 2 * WV; ua++) g->factor[ua / WV][ua % WV] = vi_load(b.factor + ua * (16 / WV));
    }
}

/* Decodes a group. n: number of its blocks in the row, a constant 16 except in a row's last group. */
GDN_INLINE void decode(int32_t actual, int type, const unsigned char *from, int n, group *g)
{
    if (type & RT_BLOCKWISE) decode_blockwise(actual, type, from, n, g);
    else if (type == RT_Q8_0) decode_q8_0(from, n, g);
    else if (type == RT_Q4_0) decode_q4_0(from, n, g);
    else if (type == RT_Q4_K) decode_k4_k5(from, 0, n, g);
    else if (type == RT_Q5_K) decode_k4_k5(from, 1, n, g);
    else decode_q6_k(from, n, g);
}

/* Makes the compiler load it once, not as a memory operand of several instructions. */
#define KEEP(vector) __asm__("" : "+" KEEP_REGISTER(vector))

/* Integer dot products of n_outputs outputs and n_rows rows, into accumulators. STEPWISE: interleaves the steps of
 * different outputs and rows, to hide their latency. */
GDN_INLINE void dot_group(int type, const group *g, int n_outputs, const rt_x_group *x, int n_rows,
                          vi acc[TILE * STEP_ROWS][2][WV])
{
    UNROLLED
    for (int ua = 0; ua < 2 * WV; ua++) {
        const int u = ua / WV, a = ua % WV;
        if (STEPWISE) {
            UNROLLED
            for (int c = 0; c < n_outputs * n_rows; c++) acc[c][u][a] = vi_set1(0);
            UNROLLED
            for (int k = 0; k < 4; k++) {
                UNROLLED
                for (int y = 0; y < n_rows; y++) {
                    wv in = wv_load(x[y].q + 256 * u + 64 * k + 64 / WV * a);
                    if (n_outputs > 1) KEEP(in);
                    UNROLLED
                    for (int o = 0; o < n_outputs; o++)
                        acc[o * n_rows + y][u][a] = dot1(acc[o * n_rows + y][u][a], g[o].w[u][k * WV + a], in);
                }
            }
        } else {
            UNROLLED
            for (int y = 0; y < n_rows; y++) {
                wv in[4], w[4];
                UNROLLED
                for (int k = 0; k < 4; k++) in[k] = wv_load(x[y].q + 256 * u + 64 * k + 64 / WV * a);
                UNROLLED
                for (int o = 0; o < n_outputs; o++) {
                    UNROLLED
                    for (int k = 0; k < 4; k++) w[k] = g[o].w[u][k * WV + a];
                    acc[o * n_rows + y][u][a] = dot4(type, w, in);
                }
            }
        }
    }
}

/* Adds a group to the sums of n_outputs outputs and n_rows rows; p is [n_rows][TILE], from output 0 of these on. */
GDN_INLINE void add_group(int type, const group *g, int n_outputs, const rt_x_group *x, int n_rows, vf p[][TILE][LANES])
{
    vi acc[TILE * STEP_ROWS][2][WV], t[TILE * STEP_ROWS][LANES];
    vi less[TILE * STEP_ROWS][2][WV], less_of[TILE * STEP_ROWS][LANES]; /* Q2_K: sums of inputs times the minima's
                                                                           factors */
    dot_group(type, g, n_outputs, x, n_rows, acc);
    UNROLLED
    for (int c = 0; c < n_outputs * n_rows; c++) {
        const int o = c / n_rows, y = c % n_rows;
        if (has_factors(type)) { /* scales of 16; weights have an offset of 32 or 128 */
            UNROLLED
            for (int ua = 0; ua < 2 * WV; ua++) {
                const vi sum = vi_load(x[y].half + ua * (16 / WV));
                vi *dot = &acc[c][ua / WV][ua % WV], factor = g[o].factor[ua / WV][ua % WV];
                if (type == RT_Q6_K) *dot = vi_sub(*dot, vi_shl(sum, 5));
                else if (!Q8_SIGNED) *dot = vi_sub(*dot, vi_shl(sum, 7));
                if (has_minima(type)) {
                    less[c][ua / WV][ua % WV] = vi_mul(sum, vi_shr(factor, 16));
                    factor = vi_and(factor, vi_set1(0xffff));
                }
                *dot = vi_mul(*dot, factor);
            }
            if (has_minima(type)) unite(less[c], less_of[c]);
        }
        unite(acc[c], t[c]);
    }
    UNROLLED
    for (int c = 0; c < n_outputs * n_rows; c++) {
        const int o = c / n_rows, y = c % n_rows;
        UNROLLED
        for (int l = 0; l < LANES; l++) {
            vi dot = t[c][l];
            vf sum = p[y][o][l];
            if (rt_signed_bytes(type) && !Q8_SIGNED && !has_factors(type))
                dot = vi_sub(dot, vi_shl(vi_load(x[y].sum + l * GDN_VL), 7));
            if (type == RT_Q4_0) dot = vi_sub(dot, vi_shl(vi_load(x[y].sum + l * GDN_VL), 3));
            const vf d = v_load(x[y].d + l * GDN_VL);
            sum = v_fma(v_from_int(dot), v_mul(g[o].d[l], d), sum);
            if (has_minima(type) && has_factors(type))
                sum = v_fnma(g[o].m[l], v_mul(d, v_from_int(less_of[c][l])), sum);
            else if (has_minima(type)) sum = v_fnma(g[o].m[l], v_load(x[y].ds + l * GDN_VL), sum);
            p[y][o][l] = sum;
        }
    }
}

/* The same for a tile of rows, STEP_ROWS / n_outputs at a time. */
GDN_INLINE void add_rows(int type, const group *g, int n_outputs, const rt_x_group *x, int n_rows, vf p[][TILE][LANES])
{
    enum { FEW = STEP_ROWS / TILE };
    int y = 0;
    if (n_outputs == 1)
        for (; y + STEP_ROWS <= n_rows; y += STEP_ROWS) add_group(type, g, n_outputs, x + y, STEP_ROWS, p + y);
    if (FEW > 1)
        for (; y + FEW <= n_rows; y += FEW) add_group(type, g, n_outputs, x + y, FEW, p + y);
    for (; y < n_rows; y++) add_group(type, g, n_outputs, x + y, 1, p + y);
}

/* p[l] = p[l] + p[l + h] for blocks l, h = 8 .. 1 */
GDN_INLINE float sum16(const vf p[LANES])
{
    float t[RT_BLOCKS];
    UNROLLED
    for (int l = 0; l < LANES; l++) v_store(t + l * GDN_VL, p[l]);
    float s[4]; /* one per quarter: blocks with the same b % 4 */
    UNROLLED
    for (int c = 0; c < 4; c++) s[c] = (t[4 * c] + t[4 * c + 2]) + (t[4 * c + 1] + t[4 * c + 3]);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* Sums of a block of outputs and a tile of rows, sized for the L1 cache. */
typedef struct sums {
    vf p[BLOCK_OUTPUTS / TILE][TILE_ROWS][TILE][LANES];
} sums;

/* Number of input groups that fit into the L1 cache, for a tile of n_rows. */
GDN_INLINE int segment(int n_rows) { return n_rows < 4 ? INT32_MAX : 32 / n_rows; }

GDN_INLINE void zero_sums(sums *s, int32_t n_outputs, int n_rows)
{
    for (int32_t o = 0; o < (n_outputs + TILE - 1) / TILE; o++)
        for (int y = 0; y < n_rows; y++)
            for (int t = 0; t < TILE; t++)
                for (int l = 0; l < LANES; l++) s->p[o][y][t][l] = v_zero();
}

/* The tree of sum16 for VL outputs at once: transposes lanes and outputs. */
GDN_INLINE void store_sums_of(const sums *s, int32_t o, int y, float *out)
{
    vf t[RT_BLOCKS];
    UNROLLED
    for (int l = 0; l < LANES; l++) {
        UNROLLED
        for (int k = 0; k < GDN_VL; k++) t[l * GDN_VL + k] = s->p[(o + k) / TILE][y][(o + k) % TILE][l];
        v_transpose(t + l * GDN_VL);
    }
    vf c[4]; /* one per quarter: blocks with the same b % 4 */
    UNROLLED
    for (int k = 0; k < 4; k++) c[k] = v_add(v_add(t[4 * k], t[4 * k + 2]), v_add(t[4 * k + 1], t[4 * k + 3]));
    v_store(out, v_add(v_add(c[0], c[1]), v_add(c[2], c[3])));
}

GDN_INLINE void store_sums(const rt_product_args *a, const sums *s, int32_t first, int32_t n_outputs, int32_t row,
                           int n_rows)
{
    for (int y = 0; y < n_rows; y++) {
        float *out = a->y + (row + y) * a->y_stride + first;
        int32_t o = 0;
        for (; o + GDN_VL <= n_outputs; o += GDN_VL) store_sums_of(s, o, y, out + o);
        for (; o < n_outputs; o++) out[o] = sum16(s->p[o / TILE][y][o % TILE]);
    }
}

/* Decodes group i of a row. The last one may have fewer blocks; common numbers are passed as constants, so that the
 * compiler removes loads and sums of absent blocks. */
GDN_INLINE void decode_group(const rt_product_args *a, int type, const unsigned char *row, int32_t i, group *g)
{
    const unsigned char *from = row + (int64_t)i * group_bytes(a, type);
    const int n = a->n_columns % RT_GROUP / 32, whole = i < a->n_columns / RT_GROUP;
    if (type & RT_BLOCKWISE) decode(a->type, type, from, whole ? RT_BLOCKS : n, g);
    else if (whole) decode(a->type, type, from, RT_BLOCKS, g);
    else if (n == 8 || is_super(type)) decode(a->type, type, from, 8, g);
    else if (n == 4) decode(a->type, type, from, 4, g);
    else if (n == 12) decode(a->type, type, from, 12, g);
    else decode(a->type, type, from, n, g);
}

/* Few rows: weights are decoded into registers, once for all rows. */
GDN_INLINE void few_rows(const rt_product_args *a, int type, int32_t first, int32_t n_outputs, int32_t row, int n_rows,
                         sums *s)
{
    const int n_groups = rt_groups(a->n_columns), step = segment(n_rows), bytes = group_bytes(a, type);
    zero_sums(s, n_outputs, n_rows);
    for (int from = 0, to; from < n_groups; from = to) {
        to = n_groups - from <= step ? n_groups : from + step;
        const int64_t ahead = (FAR_AHEAD + (to - from) * bytes - 1) / ((to - from) * bytes) * a->row_bytes;
        for (int32_t o = 0; o < n_outputs; o++) {
            const unsigned char *w = a->w + (first + o) * a->row_bytes;
            for (int i = from; i < to; i++) {
                const rt_x_group *x = a->xq + (int64_t)i * a->n + row;
                group g;
                prefetch_far(w + ahead + (int64_t)i * bytes, bytes); /* harmless past the end */
                decode_group(a, type, w, i, &g);
                add_rows(type, &g, 1, x, n_rows, (vf(*)[TILE][LANES]) & s->p[o / TILE][0][o % TILE]);
            }
        }
    }
    store_sums(a, s, first, n_outputs, row, n_rows);
}

/* Many rows: a block of outputs is decoded into the panel, [outputs / TILE][group][TILE], which stays in the L2 cache
 * for all tiles of rows. */
GDN_INLINE void many_rows(const rt_product_args *a, int type, const group *panel, int32_t first, int32_t n_outputs,
                          int32_t row, int n_rows, sums *s)
{
    const int n_groups = rt_groups(a->n_columns), step = segment(n_rows);
    zero_sums(s, n_outputs, n_rows);
    for (int from = 0, to; from < n_groups; from = to) {
        to = n_groups - from <= step ? n_groups : from + step;
        for (int32_t o = 0; o < (n_outputs + TILE - 1) / TILE; o++) {
            for (int i = from; i < to; i++) {
                const rt_x_group *x = a->xq + (int64_t)i * a->n + row;
                group g[TILE];
                memcpy(g, panel + ((int64_t)o * n_groups + i) * TILE, sizeof g);
                add_rows(type, g, TILE, x, n_rows, s->p[o]);
            }
        }
    }
    store_sums(a, s, first, n_outputs, row, n_rows);
}

GDN_INLINE void quant_product(const rt_product_args *a, int type, int32_t first, int32_t last, void *memory)
{
    const int n_groups = rt_groups(a->n_columns);
    const int fit = (int)(RT_PANEL_BYTES / sizeof(group)) / n_groups / TILE * TILE;
    const int panels = a->n > TILE_ROWS && fit >= TILE;
    const int most = panels && fit < BLOCK_OUTPUTS ? fit : BLOCK_OUTPUTS;
    group *panel = memory;
    sums s;
    for (int32_t from = first; from < last; from += most) {
        const int32_t count = last - from < most ? last - from : most;
        for (int32_t o = 0; o < count && panels; o++) {
            const int32_t even =
                o == count - 1 && count % TILE ? TILE - 1 : 0; /* a single last output is stored twice */
            for (int i = 0; i < n_groups; i++)
                for (int32_t t = 0; t <= even; t++)
                    decode_group(a, type, a->w + (from + o) * a->row_bytes, i,
                                 &panel[((int64_t)(o / TILE) * n_groups + i) * TILE + (o + t) % TILE]);
        }
        for (int32_t r = 0; r < a->n; r += TILE_ROWS) {
            const int n_rows = a->n - r < TILE_ROWS ? a->n - r : TILE_ROWS;
            if (panels) many_rows(a, type, panel, from, count, r, n_rows, &s);
            else few_rows(a, type, from, count, r, n_rows, &s);
        }
    }
}

/* One function per type, to keep each short. */
#define PRODUCT(name, type)                                                                                            \
    static void product_##name(const rt_product_args *a, int32_t first, int32_t last, void *panel)                     \
    {                                                                                                                  \
        quant_product(a, type, first, last, panel);                                                                    \
    }
PRODUCT(q8_0, RT_Q8_0)
PRODUCT(q4_0, RT_Q4_0)
PRODUCT(q4_k, RT_Q4_K)
PRODUCT(q5_k, RT_Q5_K)
PRODUCT(q6_k, RT_Q6_K)
PRODUCT(blockwise, RT_BLOCKWISE)
PRODUCT(minima, RT_BLOCKWISE | RT_MINIMA)
PRODUCT(factors, RT_BLOCKWISE | RT_FACTORS)
PRODUCT(both, RT_BLOCKWISE | RT_FACTORS | RT_MINIMA)
#undef PRODUCT

static void product(const rt_product_args *a, int32_t first, int32_t last, void *panel)
{
    if (!a->xq) product_of_floats(a, first, last);
    else if (a->type == RT_Q8_0) product_q8_0(a, first, last, panel);
    else if (a->type == RT_Q4_0) product_q4_0(a, first, last, panel);
    else if (a->type == RT_Q4_K) product_q4_k(a, first, last, panel);
    else if (a->type == RT_Q5_K) product_q5_k(a, first, last, panel);
    else if (a->type == RT_Q6_K) product_q6_k(a, first, last, panel);
    else if (rt_type_factors(a->type) && rt_type_minima(a->type)) product_both(a, first, last, panel);
    else if (rt_type_factors(a->type)) product_factors(a, first, last, panel);
    else if (rt_type_minima(a->type)) product_minima(a, first, last, panel);
    else product_blockwise(a, first, last, panel);
}

/* ---- Inputs ---- */

/* Scales of a group's blocks in order, and their inverses. */
GDN_INLINE void block_scales(const float *x, float d[RT_BLOCKS], float id[RT_BLOCKS])
{
    for (int first = 0; first < RT_BLOCKS; first += GDN_VL) {
        vf largest[GDN_VL];
        UNROLLED
        for (int b = 0; b < GDN_VL; b++) { /* as integers: infinity sorts above all numbers, NaN above infinity */
            vi m = vi_set1(0);
            UNROLLED
            for (int k = 0; k < SUMS; k++) {
                const vi bits = v_bits(v_abs(v_load(x + 32 * (first + b) + k * GDN_VL)));
                m = vi_sel(vi_gt(bits, m), bits, m);
            }
            largest[b] = v_from_bits(m);
        }
        v_transpose(largest);
        UNROLLED
        for (int b = 1; b < GDN_VL; b++) {
            const vi m = v_bits(largest[0]), other = v_bits(largest[b]);
            largest[0] = v_from_bits(vi_sel(vi_gt(other, m), other, m));
        }
        const vf amax = largest[0], c = v_set1(0x1.020408p-7f), inf = v_set1(__builtin_inff());
        const vf q0 = v_mul(amax, c);
        vf scale = v_fma(v_fma(v_set1(-127.0f), q0, amax), c, q0);
        scale = v_sel(v_lt(amax, inf), scale, amax);
        const vm usable = vm_and(v_ge(scale, v_set1(0x1p-100f)), v_lt(scale, inf));
        v_store(d + first, scale);
        v_store(id + first, v_sel(usable, v_reciprocal(scale), v_zero()));
    }
}

static void quantize_group(const float *x, rt_x_group *out)
{
    float d[RT_BLOCKS], id[RT_BLOCKS];
    int8_t q[RT_GROUP];
    wv ordered[2][UNIT], ones[4];
    vi acc[2][WV], t[LANES];
    block_scales(x, d, id);
    for (int b = 0; b < RT_BLOCKS; b++) {
        vi values[SUMS];
        UNROLLED
        for (int k = 0; k < SUMS; k++) {
            const vf y = v_mul(v_load(x + 32 * b + k * GDN_VL), v_set1(id[b]));
            values[k] = v_to_int_rne(v_sel(v_unord(y), v_zero(), y));
        }
        pack_i8(q + 32 * b, values);
    }
    blocks_to_units((const unsigned char *)q, 32, RT_BLOCKS, ordered);
    for (int k = 0; k < 4; k++) ones[k] = wv_ones();
    for (int u = 0; u < 2; u++) {
        for (int a = 0; a < WV; a++) {
            wv in[4];
            for (int k = 0; k < 4; k++) {
                in[k] = ordered[u][k * WV + a];
                wv_store(out->q + 256 * u + 64 * k + 64 / WV * a, in[k]);
            }
            acc[u][a] = dot4(RT_Q4_0, ones, in);
            vi_store(out->half + 16 * u + 16 / WV * a, acc[u][a]);
        }
    }
    unite(acc, t);
    for (int lane = 0; lane < RT_BLOCKS; lane++) out->d[lane] = d[lane % 4 * 4 + lane / 4 % 2 * 2 + lane / 8];
    for (int l = 0; l < LANES; l++) {
        vi_store(out->sum + l * GDN_VL, t[l]);
        v_store(out->ds + l * GDN_VL, v_mul(v_load(out->d + l * GDN_VL), v_from_int(t[l])));
    }
}

static void quantize(const float *x, int32_t n, rt_x_group *out, int64_t stride)
{
    int32_t i = 0;
    for (; i + RT_GROUP <= n; i += RT_GROUP, out += stride) quantize_group(x + i, out);
    if (i < n) {
        float padded[RT_GROUP] = { 0 };
        memcpy(padded, x + i, sizeof *x * (size_t)(n - i));
        quantize_group(padded, out);
    }
}
