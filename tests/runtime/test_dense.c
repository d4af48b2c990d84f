/* Matrix products: every instruction set and number of threads against scalar by bits, rows against the batch,
 * and accuracy against float64. */
#include "dense_test.h"

static const int32_t types[] = { RT_F32,    RT_F16,   RT_BF16,    RT_Q8_0,  RT_Q4_0,   RT_Q4_K,   RT_Q5_K,  RT_Q6_K,
                                 RT_Q4_1,   RT_Q5_0,  RT_Q5_1,    RT_Q2_K,  RT_Q3_K,   RT_IQ1_S,  RT_IQ1_M, RT_IQ2_XXS,
                                 RT_IQ2_XS, RT_IQ2_S, RT_IQ3_XXS, RT_IQ3_S, RT_IQ4_NL, RT_IQ4_XS, RT_MXFP4 };
enum { TYPES = sizeof types / sizeof types[0], FIRST = 8 /* the floats, and those with decoders in registers */ };

static int quantised(int32_t type) { return rt_type_describe(type)->block > 1; }

typedef struct shape {
    int32_t type, n_columns, n_rows, n, x_stride, y_stride, matrix;
} shape;

static float *multiply(rt_dense *d, const shape *s, const rt_weight *w, const float *x)
{
    const int64_t size = (int64_t)s->n * s->y_stride;
    float *y = floats(size);
    void *scratch = rt_calloc(1, rt_matmul_scratch(s->n, s->n_columns), "scratch");
    rt_matmul(d, w, s->matrix, x, s->x_stride, s->n, y, s->y_stride, scratch);
    REQUIRE(canaries_live(y, size), "type %d, %d x %d, n %d", (int)s->type, (int)s->n_rows, (int)s->n_columns,
            (int)s->n);
    int written = 1, kept = 1;
    for (int64_t i = 0; i < size; i++)
        if (i % s->y_stride < s->n_rows) written &= bits_of(y[i]) != CANARY_BITS;
        else kept &= bits_of(y[i]) == CANARY_BITS;
    REQUIRE(written && kept, "%s, type %d, %d x %d, n %d: outputs missing, or written between rows", rt_dense_isa(d),
            (int)s->type, (int)s->n_rows, (int)s->n_columns, (int)s->n);
    rt_free(scratch);
    return y;
}

/* One row at a time gives the row of the batch. */
static void check_rows(rt_dense *d, const shape *s, const rt_weight *w, const float *x, const float *y)
{
    shape one = *s;
    one.n = 1;
    for (int32_t r = 0; r < s->n; r++) {
        float *alone = multiply(d, &one, w, x + (int64_t)r * s->x_stride);
        REQUIRE(differs(alone, y + (int64_t)r * s->y_stride, s->n_rows) < 0,
                "%s, type %d, row %d of %d differs when alone", rt_dense_isa(d), (int)s->type, (int)r, (int)s->n);
        release(alone);
    }
}

static void check_shape(const shape *s, int special)
{
    rt_weight w;
    unsigned char *memory = random_weights(&w, s->type, s->n_columns, s->n_rows, s->matrix + 1, special);
    float *x = floats((int64_t)s->n * s->x_stride);
    random_floats(x, (int64_t)s->n * s->x_stride, 3.0f);
    if (special) sprinkle(x, (int64_t)s->n * s->x_stride, special);
    float *want = multiply(dense_of(SCALAR, 1), s, &w, x);
    for (int i = SCALAR + 1; i < ISAS; i++)
        for (int32_t n_threads = 1; n_threads <= MOST_THREADS; n_threads += random_int(1, 3)) {
            rt_dense *d = dense_of(i, n_threads);
            if (!d) continue;
            float *y = multiply(d, s, &w, x);
            const int64_t at = differs(want, y, (int64_t)s->n * s->y_stride);
            REQUIRE(at < 0, "%s, %d threads, type %s, %d x %d, n %d: [%d][%d] is %a, scalar has %a", isas[i],
                    (int)n_threads, rt_type_describe(s->type)->name, (int)s->n_rows, (int)s->n_columns, (int)s->n,
                    (int)(at / s->y_stride), (int)(at % s->y_stride), (double)y[at], (double)want[at]);
            if (n_threads == 1) check_rows(d, s, &w, x, y);
            release(y);
        }
    release(want);
    release(x);
    free(memory);
}

static void check_random_shapes(int n)
{
    for (int i = 0; i < n + n * 3 / 4; i++) {
        const int32_t type = i < n ? types[i % FIRST] : types[FIRST + i % (TYPES - FIRST)],
                      block = rt_type_describe(type)->block;
        const int32_t rows = random_int(1, 70), most = block == 256 ? 5 : block == 32 ? 40 : 1100;
        const int32_t n_columns = block * random_int(1, most),
                      batch = i % 5 == 4 ? random_int(10, 40) : random_int(1, 9);
        const shape s = {
            type, n_columns, rows, batch, n_columns + random_int(0, 7), rows + random_int(0, 5), random_int(0, 2)
        };
        check_shape(&s, i % 3 == 2 ? 4000 : i % 11 == 10 ? 50 : 0);
    }
}

/* Long enough that threads get their shares, and one too long for the panel of decoded weights. */
static void check_large(void)
{
    for (int i = 0; i < TYPES; i++) {
        const shape s = { types[i], 1280, 700, 3, 1280, 700, 0 };
        check_shape(&s, 0);
    }
    const shape shapes[] = { { RT_Q8_0, 1024, 333, 19, 1024, 340, 1 },
                             { RT_Q4_K, 512 * 180, 3, 9, 512 * 180, 3, 0 },
                             { RT_Q6_K, 512 * 180 + 256, 2, 9, 512 * 181, 3, 0 } };
    for (int i = 0; i < 3; i++) check_shape(&shapes[i], 0);
}

/* Against float64. Quantised inputs are within half a step of 1/127 of their block's largest. */
static void check_accuracy(void)
{
    rt_dense *d = dense_of(BEST, 2);
    for (int i = 0; i < TYPES; i++) {
        const shape s = { types[i], 2048, 40, 5, 2048, 40, i % 3 };
        rt_weight w;
        unsigned char *memory = random_weights(&w, s.type, s.n_columns, s.n_rows, 3, 0);
        float *x = floats(s.n * s.x_stride), *row = floats(s.n_columns);
        random_floats(x, s.n * s.x_stride, 2.0f);
        float *y = multiply(d, &s, &w, x);
        for (int32_t o = 0; o < s.n_rows; o++) {
            rt_weight_row(&w, s.matrix * s.n_rows + o, row);
            for (int32_t r = 0; r < s.n; r++) {
                double exact = 0, size = 0, square = 0;
                for (int32_t c = 0; c < s.n_columns; c++) {
                    const double p = (double)row[c] * (double)x[r * s.x_stride + c];
                    exact += p;
                    size += fabs(p);
                    square += (double)row[c] * (double)row[c];
                }
                /* errors of x are independent: their sum has a deviation of step / sqrt(12) * sqrt(sum w^2); six of
                 * them */
                const double allowed =
                    size * 3e-6 + (quantised(s.type) ? 6 * 2.0 / 127 / sqrt(12.0) * sqrt(square) : 0);
                const double got = (double)y[r * s.y_stride + o];
                REQUIRE(fabs(got - exact) <= allowed, "type %s: %.9g, exactly %.9g, allowed %.3g",
                        rt_type_describe(s.type)->name, got, exact, allowed);
            }
        }
        release(row);
        release(x);
        release(y);
        free(memory);
    }
}

/* Inputs where the quantised product is known: whole numbers up to 127 are kept exactly. */
static void check_exact(void)
{
    for (int i = SCALAR; i < ISAS; i++) {
        rt_dense *d = dense_of(i, 1);
        if (!d) continue;
        unsigned char w[3][34];
        float x[2][32], y[2][4], scratch[2 * 512];
        memset(w, 0, sizeof w);
        w[0][1] = 0x3c, w[1][1] = 0x3c, w[2][1] = 0x3c; /* 1.0 */
        for (int c = 0; c < 32; c++) {
            w[0][2 + c] = (unsigned char)(signed char)(c - 16);
            w[1][2 + c] = 0x80;
            w[2][2 + c] = 127;
            x[0][c] = c ? (float)(3 * c - 50) : -127.0f;
            x[1][c] = -127.0f;
        }
        const rt_weight m = { w[0], RT_Q8_0, 32, 3, 1, 34 };
        rt_matmul(d, &m, 0, x[0], 32, 2, y[0], 4, scratch);
        double want = 0;
        for (int c = 0; c < 32; c++) want += (double)(c - 16) * (double)x[0][c];
        REQUIRE((double)y[0][0] == want, "%s: %g, not %g", rt_dense_isa(d), (double)y[0][0], want);
        REQUIRE(y[1][1] == 128.0f * 127 * 32, "%s: %g", rt_dense_isa(d), (double)y[1][1]);
        REQUIRE(y[1][2] == -127.0f * 127 * 32, "%s: %g", rt_dense_isa(d), (double)y[1][2]);
        /* what inputs that are no numbers, or nothing, do */
        for (int k = 0; k < 4; k++) {
            memset(x[0], 0, sizeof x[0]);
            x[0][5] = k == 0 ? NAN : k == 1 ? INFINITY : k == 2 ? -INFINITY : 0x1p-140f;
            rt_matmul(d, &m, 0, x[0], 32, 1, y[0], 4, scratch);
            REQUIRE(k == 3 ? bits_of(y[0][0]) == 0 : y[0][0] != y[0][0], "%s, case %d: %g", rt_dense_isa(d), k,
                    (double)y[0][0]);
        }
    }
}

/* Several products of one x are the products one by one. */
static void check_many(void)
{
    for (int32_t n_threads = 1; n_threads <= 3; n_threads++) {
        rt_dense *d = dense_of(BEST, n_threads);
        rt_weight w[TYPES];
        rt_product list[TYPES];
        unsigned char *memory[TYPES];
        shape s = { 0, 768, 0, 3, 768, 0, 1 };
        float *x = floats(3 * 768);
        void *scratch = rt_calloc(1, rt_matmul_scratch(3, 768), "scratch");
        random_floats(x, 3 * 768, 1);
        for (int i = 0; i < TYPES; i++) {
            const int32_t rows = random_int(1, 300);
            memory[i] = random_weights(&w[i], types[i], 768, rows, 2, 0);
            list[i] = (rt_product){ &w[i], 1, floats(3 * (rows + 3)), rows + 3 };
        }
        rt_matmul_many(d, list, TYPES, x, 768, 3, scratch);
        for (int i = 0; i < TYPES; i++) {
            s.type = types[i], s.n_rows = w[i].n_rows, s.y_stride = w[i].n_rows + 3;
            float *y = multiply(d, &s, &w[i], x);
            REQUIRE(differs(y, list[i].y, 3 * (int64_t)s.y_stride) < 0, "type %d", (int)types[i]);
            release(y);
            release(list[i].y);
            free(memory[i]);
        }
        rt_free(scratch);
        release(x);
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 2 ? atoi(argv[2]) : 400;
    check_exact();
    check_accuracy();
    check_many();
    check_large();
    check_random_shapes(rounds);
    rt_dense *d;
    rt_threads *t = threads_of(1);
    REQUIRE(rt_dense_create("z80", t, &d) == GDN_UNSUPPORTED && !d && strstr(rt_last_error(), "z80") &&
            strstr(rt_last_error(), "scalar"));
    rt_threads_destroy(t);
    return test_summary();
}
