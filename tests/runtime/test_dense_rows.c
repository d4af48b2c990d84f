/* Norms, activations, rotation, softmax and top-k: every instruction set and number of threads
 * against scalar by bits, also in a caller's floating-point mode, special values, canaries, and accuracy against
 * float64. */
#include <fenv.h>

#include "dense_test.h"
#include "runtime/dense/rope.h"

typedef enum dense_kernel { RMS_NORM, RMS_GATE, ADD, SWIGLU, SIGMOID_GATE, ROPE, SOFTMAX, KERNELS } dense_kernel;

/* One call of a kernel: fills out[0 .. n_out) from what a case prepared. */
typedef struct rows_case {
    dense_kernel kernel;
    int32_t n, m, mode, in_place;
    int64_t x_stride, gate_stride, y_stride, head_stride;
    float eps;
    float *x, *w, *gate;
    int32_t *position;
    rt_rope *rope;
} rows_case;

static const rt_rope_scaling plain = { RT_ROPE_PLAIN };
static const char *const names[] = { "rms_norm", "rms_norm_silu_gate", "add", "swiglu", "sigmoid_gate", "rope",
                                     "softmax" };

static int is_inner(const rows_case *c)
{
    return c->in_place || c->kernel == ROPE || c->kernel == SOFTMAX || c->kernel == ADD;
}
static int64_t y_size(const rows_case *c) { return c->n * (is_inner(c) ? c->x_stride : c->y_stride); }

/* The result, with everything around it. In place, a copy of x is worked on. */
static float *run(rt_dense *d, const rows_case *c)
{
    const int inner = is_inner(c);
    const int64_t size = y_size(c);
    float *y = floats(size);
    const float *x = inner ? y : c->x;
    const int64_t xs = c->x_stride, ys = inner ? xs : c->y_stride;
    if (inner) memcpy(y, c->x, 4 * (size_t)size);
    switch (c->kernel) {
    case RMS_NORM: rt_rms_norm(d, x, xs, c->w, c->eps, c->n, c->m, y, ys); break;
    case RMS_GATE: rt_rms_norm_silu_gate(d, x, xs, c->w, c->eps, c->gate, c->gate_stride, c->n, c->m, y, ys); break;
    case ADD: rt_add(d, c->gate, y, c->m); break;
    case SWIGLU: rt_swiglu(d, x, c->gate, y, c->m); break;
    case SIGMOID_GATE: rt_sigmoid_gate(d, x, xs, c->gate, c->gate_stride, c->n, c->m, y, ys); break;
    case ROPE: rt_rope_apply(d, c->rope, c->position, y, xs, c->head_stride, c->n, c->mode); break;
    case SOFTMAX: rt_softmax(d, y, c->m); break;
    case KERNELS: break; /* their number */
    }
    REQUIRE(canaries_live(y, size), "%s, n %d, m %d", names[c->kernel], (int)c->n, (int)c->m);
    for (int64_t i = 0; i < size && !inner; i++)
        REQUIRE((bits_of(y[i]) == CANARY_BITS) == (i % ys >= c->m), "%s: [%d] is missing, or between rows",
                names[c->kernel], (int)i);
    return y;
}

static rows_case random_case(dense_kernel kernel, int special)
{
    rows_case c = { .kernel = kernel, .n = random_int(1, 12), .m = random_int(1, random_bits() % 4 ? 100 : 1000) };
    const int flat = kernel == ADD || kernel == SWIGLU || kernel == SOFTMAX;
    if (flat) c.n = 1, c.m = random_int(1, random_bits() % 4 ? 200 : 40000);
    c.in_place = random_bits() % 2;
    c.x_stride = c.m + (flat ? 0 : random_int(0, 5));
    c.gate_stride = c.m + (flat ? 0 : random_int(0, 5));
    c.y_stride = c.m + (flat ? 0 : random_int(0, 5));
    c.eps = random_bits() % 2 ? 1e-6f : 1e-5f;
    if (kernel == ROPE) {
        const int32_t half = random_int(1, 40), n_heads = random_int(1, 4);
        c.mode = n_heads;
        c.head_stride = 2 * half + random_int(0, 9);
        c.x_stride = n_heads * c.head_stride + random_int(0, 9);
        if (rt_rope_create(2 * half, 10000.0f, &plain, 50, &c.rope)) exit(1);
    }
    const int64_t widest = c.n * (c.x_stride + c.gate_stride + c.y_stride);
    c.x = floats(widest), c.w = floats(widest), c.gate = floats(widest);
    c.position = calloc((size_t)c.n, sizeof *c.position);
    const float scale = random_bits() % 3 ? 2.0f : 100.0f;
    random_floats(c.x, widest, scale);
    random_floats(c.w, widest, 2);
    random_floats(c.gate, widest, scale);
    if (special) {
        sprinkle(c.x, widest, special);
        sprinkle(c.w, widest, special);
        sprinkle(c.gate, widest, special);
    }
    if (random_bits() % 8 == 0) memset(c.x, 0, 4 * (size_t)widest);
    for (int32_t r = 0; r < c.n; r++) c.position[r] = random_int(-5, 100); /* also beyond the table */
    return c;
}

static void free_case(rows_case *c)
{
    release(c->x), release(c->w), release(c->gate);
    free(c->position);
    rt_rope_destroy(c->rope);
}

static void check_random_rows(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        rows_case c = random_case(round % KERNELS, round % 4 == 3 ? 30 : 0);
        float *want = run(dense_of(SCALAR, 1), &c);
        for (int i = SCALAR; i < ISAS; i++) {
            rt_dense *d = dense_of(i, random_int(1, MOST_THREADS));
            if (!d) continue;
            (void)fesetround(round % 3 ? FE_TONEAREST : FE_UPWARD); /* the caller's; no kernel's */
            float *y = run(d, &c);
            (void)fesetround(FE_TONEAREST);
            const int64_t at = differs(want, y, y_size(&c));
            REQUIRE(at < 0, "%s, %s, n %d, m %d: [%d] is %a, scalar has %a", names[c.kernel], rt_dense_isa(d), (int)c.n,
                    (int)c.m, (int)at, (double)y[at], (double)want[at]);
            release(y);
        }
        release(want);
        free_case(&c);
    }
}

/* ---- Against float64 ---- */

static void check_near(const char *what, float got, double exact, double relative, double absolute)
{
    REQUIRE(fabs((double)got - exact) <= relative * fabs(exact) + absolute, "%s: %.9g, exactly %.9g", what, (double)got,
            exact);
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static void check_accuracy(rt_dense *d)
{
    enum { M = 300 };
    float x[M], w[M], gate[M], y[M];
    double ss = 0;
    random_floats(x, M, 3), random_floats(w, M, 2), random_floats(gate, M, 6);
    for (int i = 0; i < M; i++) ss += (double)x[i] * (double)x[i];
    rt_rms_norm(d, x, M, w, 1e-3f, 1, M, y, M);
    for (int i = 0; i < M; i++)
        check_near("rms_norm", y[i], (double)x[i] / sqrt(ss / M + (double)1e-3f) * (double)w[i], 1e-6, 0);
    rt_rms_norm_silu_gate(d, x, M, w, 1e-3f, gate, M, 1, M, y, M);
    for (int i = 0; i < M; i++)
        check_near("gated", y[i],
                   (double)x[i] / sqrt(ss / M + (double)1e-3f) * (double)w[i] * (double)gate[i] *
                       logistic((double)gate[i]),
                   2e-6, 0);
    rt_swiglu(d, gate, x, y, M);
    for (int i = 0; i < M; i++)
        check_near("swiglu", y[i], (double)gate[i] * logistic((double)gate[i]) * (double)x[i], 1e-6, 0);
    rt_sigmoid_gate(d, x, M, gate, M, 1, M, y, M);
    for (int i = 0; i < M; i++) check_near("sigmoid_gate", y[i], (double)x[i] * logistic((double)gate[i]), 1e-6, 0);
    double sum = 0;
    for (int i = 0; i < M; i++) sum += exp((double)x[i]);
    memcpy(y, x, sizeof y);
    rt_softmax(d, y, M);
    for (int i = 0; i < M; i++) check_near("softmax", y[i], exp((double)x[i]) / sum, 2e-6, 0);

    rt_rope *rope;
    const int32_t position = 77;
    if (rt_rope_create(64, 1e7f, &plain, 60, &rope)) exit(1);
    memcpy(y, x, sizeof y);
    rt_rope_apply(d, rope, &position, y, M, 100, 1, 3);
    for (int h = 0; h < 3; h++)
        for (int i = 0; i < 100; i++) {
            const int pair = i % 32 + 100 * h;
            const double angle = 77 * pow(1e7, -2.0 * (i % 32) / 64), a = (double)x[pair], b = (double)x[pair + 32];
            check_near("rope", y[100 * h + i],
                       i < 32   ? a * cos(angle) - b * sin(angle)
                       : i < 64 ? b * cos(angle) + a * sin(angle)
                                : (double)x[100 * h + i],
                       0, 1e-6);
        }
    rt_rope_destroy(rope);
    REQUIRE(rt_rope_create(63, 1e4f, &plain, 1, &rope) == GDN_INVALID_ARGUMENT && strstr(rt_last_error(), "63"), "%s",
            rt_last_error());
#define ROPE(says, base, change)                                                                                       \
    do {                                                                                                               \
        rt_rope_scaling s = { RT_ROPE_YARN, 4, 0, 1, 32, 1, 100 };                                                     \
        s change;                                                                                                      \
        FAILS(rt_rope_create(64, base, &s, 1, &rope), GDN_INVALID_ARGUMENT, says);                                     \
    } while (0)
    ROPE("the rotary base is nan; above 0 to 1e30", NAN, .kind = RT_ROPE_PLAIN);
    ROPE("the rotary base is 0; above 0 to 1e30", 0, .kind = RT_ROPE_PLAIN);
    ROPE("the rotary base is 1; with YaRN, above 1", 1, .kind = RT_ROPE_YARN);
    ROPE("attn_factor is -1; 0 to 1e6", 1e4f, .attn_factor = -1);
    ROPE("the rotary factor is 0; 1e-6 to 1e6", 1e4f, .factor = 0);
    ROPE("ext_factor is 0; above 0 to 1", 1e4f, .ext_factor = 0);
    ROPE("beta_fast is 32 and beta_slow 33", 1e4f, .beta_slow = 33);
    ROPE("YaRN's original context is 0; 1 and more", 1e4f, .n_original = 0);
#undef ROPE
}

/* ---- top_k against a simple selection ---- */

static void check_top_k(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        const int32_t n = random_int(1, 300), k = random_bits() % 3 ? random_int(1, n) : random_bits() % 2 ? 1 : n;
        float x[300];
        int32_t index[300], taken[300] = { 0 };
        for (int32_t i = 0; i < n; i++) x[i] = (float)random_int(-20, 20); /* many are equal */
        if (round % 3 == 2) sprinkle(x, n, 4);
        rt_top_k(x, n, k, index);
        for (int32_t j = 0; j < k; j++) {
            int32_t best = -1;
            for (int32_t i = 0; i < n; i++)
                if (!taken[i] && (best < 0 || x[i] > x[best] || (x[best] != x[best] && x[i] == x[i]))) best = i;
            taken[best] = 1;
            REQUIRE(index[j] == best, "top_k %d of %d: [%d] is %d, not %d", (int)k, (int)n, (int)j, (int)index[j],
                    (int)best);
        }
    }
}

/* Every item is done exactly once, for any number of threads, also if threads start late. */
static void check_shares(void)
{
    static const int32_t numbers[] = { 1, 2, 3, 5, 16, 40 };
    for (int i = 0; i < 6; i++)
        for (int64_t n = 1 << 14; n < 1 << 19; n = n * 3 + 7) {
            rt_threads *t = threads_of(numbers[i]);
            rt_dense *d;
            NEED(!rt_dense_create(NULL, t, &d));
            float *x = floats(n), *y = floats(n);
            int64_t wrong = 0;
            for (int64_t k = 0; k < n; k++) x[k] = 1, y[k] = (float)(k % 1000);
            for (int round = 0; round < 5; round++) rt_add(d, x, y, n);
            for (int64_t k = 0; k < n; k++) wrong += y[k] != (float)(k % 1000 + 5);
            REQUIRE(!wrong && canaries_live(y, n), "%d threads: %d of %d elements are not those of five additions",
                    (int)numbers[i], (int)wrong, (int)n);
            release(x), release(y);
            rt_dense_destroy(d);
            rt_threads_destroy(t);
        }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 2 ? atoi(argv[2]) : 400;
    check_accuracy(dense_of(BEST, 2));
    check_accuracy(dense_of(SCALAR, 2));
    check_shares();
    check_random_rows(4 * rounds);
    check_top_k(rounds);
    return test_summary();
}
