/* Products with quantised weights on a vector unit. Included after runtime/quant_<isa>.h, which knows how the blocks of
 * each type are decoded, and defines
 *   wv                     vector of bytes; WV of them hold 64 bytes
 *   group                  512 weights, decoded
 *   wv_load(p), wv_store(p, a)
 *   blocks_to_units(base, stride, w)   16 blocks of 32 bytes, brought into the order below
 *   decode_<type>(from, g)             a group of 512 weights, as unsigned bytes (Q8_0: see Q8_SIGNED)
 *   dot4(type, w, x)       4 x 4 bytes per lane: the sum of w[k] * x[k], exact; w and x are WV apart
 *   unite(acc, t)          accumulators of both units to lanes of blocks
 *   pack_i8(p, q)          32 integers to bytes
 *
 * The order of a group. Lanes of a result are blocks, so that integers are never summed across lanes of one vector
 * other than once per 16 bytes: blocks 2j make unit 0 and blocks 2j + 1 unit 1, since the nibbles of the K types hold
 * two blocks. Byte i of block 2j + u stands at
 *     256 u  +  64 (i / 4 % 4)  +  32 (j % 2)  +  16 (i / 16)  +  4 (j / 2)  +  i % 4
 * so that the 4 dot products of a unit leave in a lane the sum over 16 bytes of a block; unite() adds the two halves,
 * and gives lane 8 u + 4 (j % 2) + j / 2 to block 2j + u. */
#include <string.h>

#include "runtime/vector.inc.h"

enum { LANES = RT_BLOCKS / GDN_VL, UNIT = 4 * WV }; /* vectors of lanes; vectors of bytes in a unit */

INLINE int group_bytes(int type)
{
    return type == RT_Q8_0 ? 16 * 34 : type == RT_Q4_0 ? 16 * 18 : type == RT_Q4_K ? 2 * 144 : type == RT_Q5_K ? 2 * 176 : 2 * 210;
}

INLINE void decode(int type, const unsigned char *from, group *g)
{
    if (type == RT_Q8_0) decode_q8_0(from, g);
    else if (type == RT_Q4_0) decode_q4_0(from, g);
    else if (type == RT_Q4_K) decode_k4_k5(from, 0, g);
    else if (type == RT_Q5_K) decode_k4_k5(from, 1, g);
    else decode_q6_k(from, g);
}

/* A row's last group, where it is not full: its blocks, then zeros. */
static void copy_tail(int type, const unsigned char *from, int32_t n_columns, unsigned char padded[16 * 34])
{
    const int    bytes = group_bytes(type);
    const size_t there = (size_t)(n_columns % RT_GROUP / 32 * bytes / 16);
    memcpy(padded, from, there);
    memset(padded + there, 0, (size_t)bytes - there);
}

/* p of one output and row goes on with a group. */
INLINE void add_group(int type, const group *g, const rt_x_group *x, vf p[LANES])
{
    vi acc[2][WV], t[LANES];
    UNROLLED
    for (int u = 0; u < 2; u++) {
        UNROLLED
        for (int a = 0; a < WV; a++) {
            wv in[4], w[4];
            UNROLLED
            for (int k = 0; k < 4; k++) {
                in[k] = wv_load(x->q + 256 * u + 64 * k + 64 / WV * a);
                w[k]  = g->w[u][k * WV + a];
            }
            acc[u][a] = dot4(type, w, in);
            if (type == RT_Q6_K) { /* weights are 32 too large; scales of 16 */
                const vi sum = vi_load(x->half + 16 * u + 16 / WV * a);
                acc[u][a] = vi_mul(vi_sub(acc[u][a], vi_shl(sum, 5)), g->factor[u][a]);
            }
        }
    }
    unite(acc, t);
    UNROLLED
    for (int l = 0; l < LANES; l++) {
        if (type == RT_Q8_0 && !Q8_SIGNED) t[l] = vi_sub(t[l], vi_shl(vi_load(x->sum + l * GDN_VL), 7));
        if (type == RT_Q4_0) t[l] = vi_sub(t[l], vi_shl(vi_load(x->sum + l * GDN_VL), 3));
        p[l] = v_fma(v_from_int(t[l]), v_mul(g->d[l], v_load(x->d + l * GDN_VL)), p[l]);
        if (type == RT_Q4_K || type == RT_Q5_K) p[l] = v_fnma(g->m[l], v_load(x->ds + l * GDN_VL), p[l]);
    }
}

/* p[l] = p[l] + p[l + h] for blocks l, h = 8 .. 1 */
INLINE float sum16(const vf p[LANES])
{
    float t[RT_BLOCKS];
    UNROLLED
    for (int l = 0; l < LANES; l++) v_store(t + l * GDN_VL, p[l]);
    float s[4]; /* one for each quarter: blocks b with the same b % 4 */
    UNROLLED
    for (int c = 0; c < 4; c++) s[c] = (t[4 * c] + t[4 * c + 2]) + (t[4 * c + 1] + t[4 * c + 3]);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

INLINE void zero16(vf p[LANES])
{
    UNROLLED
    for (int l = 0; l < LANES; l++) p[l] = v_zero();
}

/* One output for n_rows rows, decoding as it goes. */
INLINE void quant_row(const rt_product_args *a, int type, int n_rows, int32_t o, int32_t r)
{
    const unsigned char *w = a->w + o * a->row_bytes;
    const rt_x_group    *x = a->xq + r;
    const int            whole = a->n_columns / RT_GROUP;
    vf                   p[8][LANES];
    group                g;
    UNROLLED
    for (int y = 0; y < n_rows; y++) zero16(p[y]);
    for (int i = 0; i < whole; i++, w += group_bytes(type), x += a->n) {
        decode(type, w, &g);
        UNROLLED
        for (int y = 0; y < n_rows; y++) add_group(type, &g, x + y, p[y]);
    }
    if (a->n_columns % RT_GROUP) {
        unsigned char padded[16 * 34];
        copy_tail(type, w, a->n_columns, padded);
        decode(type, padded, &g);
        UNROLLED
        for (int y = 0; y < n_rows; y++) add_group(type, &g, x + y, p[y]);
    }
    UNROLLED
    for (int y = 0; y < n_rows; y++) a->y[(r + y) * a->y_stride + o] = sum16(p[y]);
}

/* n_outputs decoded outputs, n_groups apart, for n_rows rows. */
INLINE void panel_tile(const rt_product_args *a, int type, const group *panel, int n_groups, int n_outputs, int n_rows, int32_t o,
                       int32_t r)
{
    const rt_x_group *x = a->xq + r;
    vf                p[8][LANES];
    UNROLLED
    for (int t = 0; t < n_outputs * n_rows; t++) zero16(p[t]);
    for (int i = 0; i < n_groups; i++, x += a->n) {
        UNROLLED
        for (int y = 0; y < n_rows; y++) {
            UNROLLED
            for (int t = 0; t < n_outputs; t++) add_group(type, panel + t * n_groups + i, x + y, p[t * n_rows + y]);
        }
    }
    UNROLLED
    for (int t = 0; t < n_outputs; t++) {
        UNROLLED
        for (int y = 0; y < n_rows; y++) a->y[(r + y) * a->y_stride + o + t] = sum16(p[t * n_rows + y]);
    }
}

INLINE void decode_row(const rt_product_args *a, int type, int32_t o, int n_groups, group *out)
{
    const unsigned char *w = a->w + o * a->row_bytes;
    for (int i = 0; i < n_groups; i++, w += group_bytes(type)) {
        if (32 * 16 * (i + 1) <= a->n_columns) {
            decode(type, w, &out[i]);
        } else {
            unsigned char padded[16 * 34];
            copy_tail(type, w, a->n_columns, padded);
            decode(type, padded, &out[i]);
        }
    }
}

/* Many rows: some outputs are decoded into the panel, which then stays in the second-level cache for all rows. */
INLINE void quant_panels(const rt_product_args *a, int type, int32_t first, int32_t last, group *panel, int n_groups)
{
    const int32_t fit = (int32_t)(RT_PANEL_BYTES / sizeof(group)) / n_groups, most = fit / 2 * 2;
    for (int32_t from = first; from < last; from += most) {
        const int32_t count = last - from < most ? last - from : most;
        for (int32_t o = 0; o < count; o++) decode_row(a, type, from + o, n_groups, panel + o * n_groups);
        int32_t r = 0;
        for (; r + 4 <= a->n; r += 4) {
            int32_t o = 0;
            for (; o + 2 <= count; o += 2) panel_tile(a, type, panel + o * n_groups, n_groups, 2, 4, from + o, r);
            for (; o < count; o++) panel_tile(a, type, panel + o * n_groups, n_groups, 1, 4, from + o, r);
        }
        for (; r < a->n; r++)
            for (int32_t o = 0; o < count; o++) panel_tile(a, type, panel + o * n_groups, n_groups, 1, 1, from + o, r);
    }
}

INLINE void quant_product(const rt_product_args *a, int type, int32_t first, int32_t last, void *panel)
{
    const int n_groups = rt_groups(a->n_columns);
    if (a->n > 8 && 2 * n_groups * sizeof(group) <= RT_PANEL_BYTES) {
        quant_panels(a, type, first, last, panel, n_groups);
        return;
    }
    int32_t r = 0;
    for (; r + 8 <= a->n; r += 8)
        for (int32_t o = first; o < last; o++) quant_row(a, type, 8, o, r);
    if (r + 4 <= a->n) {
        for (int32_t o = first; o < last; o++) quant_row(a, type, 4, o, r);
        r += 4;
    }
    const int left = a->n - r;
    for (int32_t o = first; o < last && left == 3; o++) quant_row(a, type, 3, o, r);
    for (int32_t o = first; o < last && left == 2; o++) quant_row(a, type, 2, o, r);
    for (int32_t o = first; o < last && left == 1; o++) quant_row(a, type, 1, o, r);
}

/* A function for each type, so that none is longer than it needs to be. */
static void product_q8_0(const rt_product_args *a, int32_t first, int32_t last, void *panel) { quant_product(a, RT_Q8_0, first, last, panel); }
static void product_q4_0(const rt_product_args *a, int32_t first, int32_t last, void *panel) { quant_product(a, RT_Q4_0, first, last, panel); }
static void product_q4_k(const rt_product_args *a, int32_t first, int32_t last, void *panel) { quant_product(a, RT_Q4_K, first, last, panel); }
static void product_q5_k(const rt_product_args *a, int32_t first, int32_t last, void *panel) { quant_product(a, RT_Q5_K, first, last, panel); }
static void product_q6_k(const rt_product_args *a, int32_t first, int32_t last, void *panel) { quant_product(a, RT_Q6_K, first, last, panel); }

static void product(const rt_product_args *a, int32_t first, int32_t last, void *panel)
{
    if (a->type == RT_Q8_0) product_q8_0(a, first, last, panel);
    else if (a->type == RT_Q4_0) product_q4_0(a, first, last, panel);
    else if (a->type == RT_Q4_K) product_q4_k(a, first, last, panel);
    else if (a->type == RT_Q5_K) product_q5_k(a, first, last, panel);
    else if (a->type == RT_Q6_K) product_q6_k(a, first, last, panel);
    else product_of_floats(a, first, last);
}

/* ---- Inputs ---- */

/* Scales of a group in the order of its blocks, and their inverses. */
INLINE void block_scales(const float *x, float d[RT_BLOCKS], float id[RT_BLOCKS])
{
    for (int first = 0; first < RT_BLOCKS; first += GDN_VL) {
        vf largest[GDN_VL];
        UNROLLED
        for (int b = 0; b < GDN_VL; b++) { /* as integers, where infinity is above all numbers and NaN above infinity */
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
    float  d[RT_BLOCKS], id[RT_BLOCKS];
    int8_t q[RT_GROUP];
    wv     ordered[2][UNIT], ones[4];
    vi     acc[2][WV], t[LANES];
    block_scales(x, d, id);
    for (int b = 0; b < RT_BLOCKS; b++) {
        vi values[SUMS];
        UNROLLED
        for (int k = 0; k < SUMS; k++) {
            const vf y = v_mul(v_load(x + 32 * b + k * GDN_VL), v_set1(id[b]));
            values[k]  = v_to_int_rne(v_sel(v_unord(y), v_zero(), y));
        }
        pack_i8(q + 32 * b, values);
    }
    blocks_to_units((const unsigned char *)q, 32, ordered);
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
