/* Attention. Compares the bits of every instruction set and number of threads with plain loops, which share only the
 * exponential and the reading of elements. Rows are of one sequence or of several, with lists of cells in order or as a
 * ring, and see any number of cells. Long rows, which threads share, special values and canaries are covered, and
 * accuracy against float64. */
#include "dense_test.h"

#include "numerics/convert.h"
#include "numerics/elementary.h"

/* ---- The contract of dense.h, as loops ---- */

static float tree(float p[32])
{
    for (int h = 16; h; h /= 2)
        for (int l = 0; l < h; l++) p[l] = p[l] + p[l + h];
    return p[0];
}

static float element(const rt_attention_args *a, const unsigned char *cache, int32_t cell, int32_t kv_head, int32_t i)
{
    const int64_t at = ((int64_t)cell * a->n_heads_kv + kv_head) * a->head_dim + i;
    if (a->type != RT_Q8_0) return gdn_load_element(cache, a->type, at);
    const unsigned char *block = cache + at / 32 * 34; /* a scale in F16 and 32 bytes */
    return gdn_load_f16(block) * (float)(int8_t)block[2 + at % 32];
}

static void by_loops(const rt_attention_args *a, int32_t row, int32_t head, float *out)
{
    const int32_t n = a->n_cells[row], *cell = a->cell[row], kv_head = head / (a->n_heads / a->n_heads_kv);
    const float *q = a->q + row * a->q_stride + head * a->q_head_stride;
    float *w = malloc(4 * (size_t)(n + 1)), most = -INFINITY, sums[32] = { 0 };
    for (int32_t p = 0; p < n; p++) {
        float dot[32] = { 0 };
        for (int32_t i = 0; i < a->head_dim; i++)
            dot[i % 32] = fmaf(element(a, a->k, cell[p], kv_head, i), q[i], dot[i % 32]);
        w[p] = a->scale * tree(dot);
        if (w[p] > most) most = w[p];
    }
    for (int32_t p = 0; p < n; p++) {
        w[p] = gdn_expf(w[p] - most);
        sums[p % 32] += w[p];
    }
    const float inverse = gdn_reciprocal(tree(sums));
    for (int32_t i = 0; i < a->head_dim; i++) {
        float sum = 0;
        for (int32_t p = 0; p < n; p++) sum = fmaf(w[p], element(a, a->v, cell[p], kv_head, i), sum);
        out[i] = sum * inverse;
    }
    free(w);
}

/* The same in float64, of finite values: element i. */
static double exactly(const rt_attention_args *a, int32_t row, int32_t head, int32_t i)
{
    const int32_t n = a->n_cells[row], *cell = a->cell[row], kv_head = head / (a->n_heads / a->n_heads_kv);
    const float *q = a->q + row * a->q_stride + head * a->q_head_stride;
    double sum = 0, out = 0, most = -1e300;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t p = 0; p < n; p++) {
            double s = 0;
            for (int32_t c = 0; c < a->head_dim; c++) s += (double)q[c] * (double)element(a, a->k, cell[p], kv_head, c);
            s *= (double)a->scale;
            if (!pass) most = s > most ? s : most;
            sum += pass ? exp(s - most) : 0;
            out += pass ? exp(s - most) * (double)element(a, a->v, cell[p], kv_head, i) : 0;
        }
    return out / sum;
}

/* ---- Calls ---- */

enum { MOST_ROWS = 48 };

typedef struct shape {
    int32_t type, n, n_kv, group, dim, total, n_sequences;
    int special;
} shape;

/* One after another from somewhere, around the end; or anywhere. */
static int32_t *list_of(int32_t n, int32_t total)
{
    int32_t *list = malloc(4 * (size_t)(n + 1));
    const int32_t from = random_int(0, total - 1), anywhere = random_int(0, 1);
    for (int32_t p = 0; p < n; p++) list[p] = anywhere ? random_int(0, total - 1) : (from + p) % total;
    return list;
}

/* Rows of each sequence together, as a step has them: the last few positions, each row seeing one cell more; or any
 * number. */
static void make_rows(const shape *s, int32_t **lists, const int32_t **cell, int32_t *n_cells)
{
    for (int32_t q = 0; q < s->n_sequences; q++) lists[q] = list_of(s->total, s->total);
    int32_t seen = random_int(1, s->total), any = random_int(0, 3);
    for (int32_t r = 0; r < s->n; r++) {
        const int32_t of = (int32_t)((int64_t)r * s->n_sequences / s->n);
        cell[r] = lists[of];
        if (any == 1 || (r && cell[r] != cell[r - 1])) seen = random_int(any == 1 ? 0 : 1, s->total);
        n_cells[r] = seen;
        seen += any != 2 && seen < s->total;
    }
}

/* Any bytes, -128 too; scales of either sign below 2^-6, subnormal ones too. */
static void make_blocks(unsigned char *x, int64_t n, int special)
{
    for (int64_t b = 0; b < n; b++, x += 34) {
        uint16_t scale = (uint16_t)(random_bits() & 0xa3ffu);
        if (special && random_bits() % 16 == 0) scale = random_bits() % 2 ? 0x7c00 : 0x7fff;
        memcpy(x, &scale, 2);
        for (int i = 2; i < 34; i++) x[i] = (unsigned char)random_bits();
    }
}

static void make_cache(const shape *s, float *x, int64_t n, int special)
{
    random_floats(x, n, 1);
    if (s->type == RT_Q8_0) {
        make_blocks((unsigned char *)x, n / 32, special);
        return;
    }
    for (int64_t i = 0; i < n && s->type != RT_F32; i++) /* any two halves are below 1 as F16, finite as BF16 */
        ((uint16_t *)(void *)x)[i] =
            (uint16_t)(s->type == RT_F16 ? random_bits() & 0xbbffu : (random_bits() & 0x80ffu) | 0x3f00u);
    if (special && s->type == RT_F32) sprinkle(x, n, 500);
}

static void check_call(rt_dense *d, rt_attention_args *a, const float *want, int32_t n_threads)
{
    const int64_t size = (int64_t)a->n * a->n_heads * a->head_dim;
    int32_t most = 0;
    for (int32_t r = 0; r < a->n; r++) most = a->n_cells[r] > most ? a->n_cells[r] : most;
    const int64_t scratch = (int64_t)rt_attention_scratch(n_threads, a->n_heads, a->n_heads_kv, most);
    a->out = floats(size);
    a->scratch = floats(scratch);
    rt_attention(d, a);
    const int64_t at = differs(want, a->out, size);
    REQUIRE(at < 0, "attention, %s, %d threads, type %d, %d rows, dim %d, %d heads of %d, %d cells: [%d] is %a, not %a",
            rt_dense_isa(d), (int)n_threads, (int)a->type, (int)a->n, (int)a->head_dim, (int)a->n_heads,
            (int)a->n_heads_kv, (int)most, (int)at, (double)a->out[at], (double)want[at]);
    REQUIRE(canaries_live(a->out, size) && canaries_live(a->scratch, scratch), "attention, %s", rt_dense_isa(d));
    release(a->out);
    release(a->scratch);
}

static void check_shape(const shape *s)
{
    const int32_t n_heads = s->n_kv * s->group;
    const int64_t head_stride = s->dim + random_int(0, 9), stride = n_heads * head_stride + random_int(0, 9);
    const int64_t elements = (int64_t)s->total * s->n_kv * s->dim, size = (int64_t)s->n * n_heads * s->dim;
    float *q = floats(s->n * stride), *k = floats(elements), *v = floats(elements), *want = floats(size);
    int32_t n_cells[MOST_ROWS], *lists[MOST_ROWS];
    const int32_t *cell[MOST_ROWS];
    random_floats(q, s->n * stride, 3);
    if (s->special) sprinkle(q, s->n * stride, 500);
    make_cache(s, k, elements, 0);
    make_cache(s, v, elements, s->special);
    make_rows(s, lists, cell, n_cells);
    rt_attention_args a =
        FIELDS(.q = q, .q_stride = stride, .q_head_stride = head_stride, .k = (unsigned char *)k,
               .v = (unsigned char *)v, .type = s->type, .n = s->n, .n_heads = n_heads, .n_heads_kv = s->n_kv,
               .head_dim = s->dim, .scale = 1 / sqrtf((float)s->dim), .cell = cell, .n_cells = n_cells);
    for (int32_t r = 0; r < s->n; r++)
        for (int32_t h = 0; h < n_heads; h++) by_loops(&a, r, h, want + ((int64_t)r * n_heads + h) * s->dim);
    for (int i = SCALAR; i < ISAS; i++)
        for (int32_t n_threads = 1; n_threads <= (i == SCALAR ? 2 : MOST_THREADS); n_threads++)
            if (dense_of(i, n_threads)) check_call(dense_of(i, n_threads), &a, want, n_threads);
    const int32_t r = s->n - 1, h = n_heads - 1;
    for (int32_t i = 0; i < s->dim && !s->special && n_cells[r] && s->total < 1000; i += 29) {
        const double exact = exactly(&a, r, h, i), is = (double)want[((int64_t)r * n_heads + h) * s->dim + i];
        REQUIRE(fabs(is - exact) <= 1e-5 + 1e-5 * fabs(exact), "attention: %g, exactly %g", is, exact);
    }
    for (int32_t i = 0; i < s->n_sequences; i++) free(lists[i]);
    release(q), release(k), release(v), release(want);
}

static void check_random_shapes(int rounds)
{
    static const int32_t types[] = { RT_F32, RT_F16, RT_BF16, RT_Q8_0 };
    for (int round = 0; round < rounds; round++) {
        const int many = random_bits() % 8 == 0, wide = random_bits() % 8 == 0;
        shape s =
            FIELDS(.type = types[round % 4], .n = many ? random_int(6, MOST_ROWS) : random_int(1, 5),
                   .n_kv = random_int(1, 3),
                   .group = many   ? random_int(1, 3)
                            : wide ? random_int(17, 40)
                                   : random_int(1, 6),
                   .dim = random_bits() % 2 || round % 4 == 3 ? 32 * random_int(1, 8) : random_int(1, 150),
                   .total = random_int(1, many || wide || random_bits() % 4 ? 80 : 500), .special = round % 7 == 6);
        s.n_sequences = random_int(1, s.n < 4 ? s.n : 4);
        check_shape(&s);
    }
}

/* More cells than a tile of one thread's own has. */
static void check_long(void)
{
    static const shape shapes[] = { { RT_F16, 1, 2, 4, 32, 4500, 1, 0 },
                                    { RT_F32, 5, 1, 3, 37, 4133, 2, 0 },
                                    { RT_BF16, 9, 1, 4, 16, 4321, 1, 0 },
                                    { RT_Q8_0, 2, 2, 2, 96, 4200, 1, 0 } };
    for (int i = 0; i < 4; i++) check_shape(&shapes[i]);
}

int main(int argc, char **argv)
{
    check_random_shapes(argc > 2 ? atoi(argv[2]) : 160);
    check_long();
    return test_summary();
}
