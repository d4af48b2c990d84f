/* The dense kernels in scalar C: the specification for all instruction sets. */
#include <math.h>
#include <string.h>

#include "numerics/convert.h"
#include "numerics/dot32.h"
#include "runtime/dense/dense_internal.h"

/* ---- Sums ---- */

/* p[l] += p[l + h] for h = n/2 .. 1 */
static float tree(float *p, int32_t n)
{
    for (int32_t h = n / 2; h; h /= 2)
        for (int32_t l = 0; l < h; l++) p[l] = p[l] + p[l + h];
    return p[0];
}

/* Element i of a row of F32, F16, BF16, or of Q8_0: scale times byte, which is exact. */
static float element(const unsigned char *row, int32_t type, int64_t i)
{
    const unsigned char *block = row + i / 32 * RT_Q8_0_BYTES;
    if (type != RT_Q8_0) return gdn_load_element(row, type, i);
    return gdn_load_f16(block) * (float)(int8_t)block[2 + i % 32];
}

/* dot32 with the second operand in its stored type. */
static float dot32_typed(const float *x, const unsigned char *row, int32_t type, int32_t n)
{
    float p[32] = { 0 };
    for (int32_t i = 0; i < n; i++) p[i % 32] = fmaf(element(row, type, i), x[i], p[i % 32]);
    return tree(p, 32);
}

/* ---- Matrix products; q and blocks of a group are in the order of the elements ---- */

static void quantize_block(const float *x, rt_x_group *g, int32_t b)
{
    uint32_t largest = 0; /* as bits: infinity sorts above all numbers, NaN above infinity */
    for (int i = 0; i < 32; i++) {
        const uint32_t magnitude = gdn_bits(x[i]) & ~GDN_SIGN_BIT;
        largest = magnitude > largest ? magnitude : largest;
    }
    const float d = gdn_q8_0_step(gdn_from_bits(largest)), inverse = gdn_q8_0_inverse(d);
    g->half[2 * b] = g->half[2 * b + 1] = 0;
    for (int i = 0; i < 32; i++) {
        const int8_t q = (int8_t)gdn_q8_0_value(x[i], inverse);
        g->q[32 * b + i] = q;
        g->half[2 * b + i / 16] += q;
    }
    g->sum[b] = g->half[2 * b] + g->half[2 * b + 1];
    g->d[b] = d;
    g->ds[b] = d * (float)g->sum[b];
}

void rt_scalar_quantize(const float *x, int32_t n, rt_x_group *out, int64_t stride)
{
    for (int32_t g = 0; g < rt_groups(n); g++) {
        memset(&out[g * stride], 0, sizeof *out);
        for (int32_t b = 0; b < RT_BLOCKS && g * RT_GROUP + 32 * b < n; b++)
            quantize_block(x + g * RT_GROUP + 32 * b, &out[g * stride], b);
    }
}

static void product_quantised(const rt_product_args *a, int32_t o)
{
    for (int32_t r = 0; r < a->n; r++) {
        float p[RT_BLOCKS] = { 0 };
        for (int32_t b = 0; b < rt_groups(a->n_columns) * RT_BLOCKS; b++) {
            const rt_x_group *x = &a->xq[(int64_t)(b / RT_BLOCKS) * a->n + r];
            const int32_t l = b % RT_BLOCKS;
            rt_weight_block w = { .d = 0 };
            if (32 * b < a->n_columns) rt_weight_block_read(a->type, a->w + o * a->row_bytes, b, &w);
            int32_t t[2] = { 0, 0 };
            for (int i = 0; i < 32; i++) t[i / 16] += w.w[i] * x->q[32 * l + i];
            p[l] = fmaf((float)(t[0] * w.factor[0] + t[1] * w.factor[1]), w.d * x->d[l], p[l]);
            if (rt_type_minima(a->type))
                p[l] = fmaf(-w.m, x->d[l] * (float)(w.min[0] * x->half[2 * l] + w.min[1] * x->half[2 * l + 1]), p[l]);
        }
        a->y[r * a->y_stride + o] = tree(p, RT_BLOCKS);
    }
}

void rt_scalar_product(const rt_product_args *a, int32_t first, int32_t last, void *panel)
{
    (void)panel;
    for (int32_t o = first; o < last; o++) {
        if (a->xq) product_quantised(a, o);
        else
            for (int32_t r = 0; r < a->n; r++)
                a->y[r * a->y_stride + o] =
                    dot32_typed(a->x + r * a->x_stride, a->w + o * a->row_bytes, a->type, a->n_columns);
    }
}

/* ---- Rows ---- */

static void rms_norm(const float *x, const float *w, float eps, const float *gate, int32_t m, float *y)
{
    const float scale = gdn_rsqrt(fmaf(gdn_dot32(x, x, m), gdn_reciprocal((float)m), eps));
    for (int32_t i = 0; i < m; i++) {
        const float normed = x[i] * scale * w[i];
        y[i] = gate ? normed * gdn_silu(gate[i]) : normed;
    }
}

static void add(const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = y[i] + x[i];
}

static void swiglu(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = gdn_silu(a[i]) * b[i];
}

static void sigmoid_gate(const float *x, const float *gate, int32_t m, float *y)
{
    for (int32_t i = 0; i < m; i++) y[i] = x[i] * gdn_sigmoid(gate[i]);
}

static void rope(float *x, const float *cosine, const float *sine, int32_t half)
{
    for (int32_t i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        x[i] = fmaf(-b, sine[i], a * cosine[i]);
        x[i + half] = fmaf(a, sine[i], b * cosine[i]);
    }
}

/* exp(x - max x) in place; returns 1 / sum. */
static float exponentials(float *x, int32_t n)
{
    float m = -gdn_from_bits(GDN_INF_BITS), p[32] = { 0 };
    for (int32_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    for (int32_t i = 0; i < n; i++) {
        x[i] = gdn_expf(x[i] - m);
        p[i % 32] = p[i % 32] + x[i];
    }
    return gdn_reciprocal(tree(p, 32));
}

static void softmax(float *x, int32_t n)
{
    const float inverse = exponentials(x, n);
    for (int32_t i = 0; i < n; i++) x[i] = x[i] * inverse;
}

/* ---- Attention ---- */

static const unsigned char *cell_of(const rt_attention_tile *t, const unsigned char *cache, int32_t p)
{
    const rt_attention_args *a = t->args;
    const int64_t head = rt_attention_head_bytes(a);
    return cache + a->cell[t->row][p] * (a->n_heads_kv * head) + t->kv_head * head;
}

static void scores(const rt_attention_tile *t, int32_t first, int32_t last)
{
    const rt_attention_args *a = t->args;
    for (int32_t j = 0; j < t->n_queries; j++)
        for (int32_t p = first; p < last; p++)
            t->score[j * t->stride + p] =
                a->scale * dot32_typed(rt_attention_query(t, j), cell_of(t, a->k, p), a->type, a->head_dim);
}

static void weigh(const rt_attention_tile *t, int32_t first, int32_t last)
{
    const rt_attention_args *a = t->args;
    for (int32_t j = 0; j < t->n_queries; j++)
        for (int32_t d = first; d < last; d++) {
            float sum = 0;
            for (int32_t p = 0; p < rt_attention_cells(t, j); p++)
                sum = fmaf(t->score[j * t->stride + p], element(cell_of(t, a->v, p), a->type, d), sum);
            rt_attention_out(t, j)[d] = sum * t->inverse[j];
        }
}

static const rt_attention_kernels attention = { scores, weigh };

const rt_kernels rt_kernels_scalar = {
    "scalar", rt_scalar_quantize, rt_scalar_product, rms_norm, add, swiglu, sigmoid_gate, rope,
    softmax,  exponentials,       &attention,
};
