/* Mixtures of experts: the choice of experts, and their outputs. Compares the bits of every instruction set and number
 * of threads, also in a caller's floating-point mode, with one product at a time. Cases have experts without rows, all
 * rows on one expert, more rows than a panel needs, and different types of matrices. The shared expert is narrower or
 * wider than the others, or there is none. */
#include <fenv.h>

#include "dense_test.h"

typedef struct shape {
    int32_t n, m, n_experts, n_used, width, shared_width; /* shared_width 0: none */
    int32_t gate, up, down, gate_shared, up_shared, down_shared;
    int crowded, special;
} shape;

typedef struct layer {
    rt_weight gate, up, down, gate_shared, up_shared, down_shared;
    unsigned char *memory[6];
} layer;

static void make_layer(const shape *s, layer *l)
{
    memset(l, 0, sizeof *l);
    l->memory[0] = random_weights(&l->gate, s->gate, s->m, s->width, s->n_experts, s->special);
    l->memory[1] = random_weights(&l->up, s->up, s->m, s->width, s->n_experts, s->special);
    l->memory[2] = random_weights(&l->down, s->down, s->width, s->m, s->n_experts, s->special);
    if (!s->shared_width) return;
    l->memory[3] = random_weights(&l->gate_shared, s->gate_shared, s->m, s->shared_width, 1, 0);
    l->memory[4] = random_weights(&l->up_shared, s->up_shared, s->m, s->shared_width, 1, 0);
    l->memory[5] = random_weights(&l->down_shared, s->down_shared, s->shared_width, s->m, 1, 0);
}

static float *product(rt_dense *d, const rt_weight *w, int32_t matrix, const float *x)
{
    float *y = floats(w->n_rows);
    void *scratch = rt_calloc(1, rt_matmul_scratch(1, w->n_columns), "scratch");
    rt_matmul(d, w, matrix, x, w->n_columns, 1, y, w->n_rows, scratch);
    rt_free(scratch);
    return y;
}

/* What one expert makes of one row. */
static float *one_expert(rt_dense *d, const rt_weight *gate, const rt_weight *up, const rt_weight *down, int32_t matrix,
                         const float *x)
{
    float *a = product(d, gate, matrix, x), *b = product(d, up, matrix, x);
    rt_swiglu(d, a, b, a, gate->n_rows);
    float *y = product(d, down, matrix, a);
    release(a), release(b);
    return y;
}

static void by_loops(rt_dense *d, const shape *s, const layer *l, const float *x, const int32_t *expert,
                     const float *weight, const float *shared_gate, float *out)
{
    for (int32_t r = 0; r < s->n; r++) {
        float *y = out + (int64_t)r * s->m;
        for (int32_t i = 0; i < s->m; i++) y[i] = 0;
        for (int32_t u = 0; u < s->n_used; u++) {
            const int32_t e = expert[r * s->n_used + u];
            float *made = one_expert(d, &l->gate, &l->up, &l->down, e, x + (int64_t)r * s->m);
            for (int32_t i = 0; i < s->m; i++) y[i] += weight[r * s->n_used + u] * made[i];
            release(made);
        }
        if (!s->shared_width) continue;
        float *made = one_expert(d, &l->gate_shared, &l->up_shared, &l->down_shared, 0, x + (int64_t)r * s->m);
        float gate = 1;
        rt_sigmoid_gate(d, &gate, 1, shared_gate + r, 1, 1, 1, &gate, 1);
        for (int32_t i = 0; i < s->m; i++) y[i] += gate * made[i];
        release(made);
    }
}

/* A row's experts differ; crowded: all rows have the same ones, so that most experts have no row. */
static void choose_any(const shape *s, int32_t *expert, float *weight)
{
    for (int32_t r = 0; r < s->n; r++) {
        const int32_t first = r && s->crowded ? expert[0] : random_int(0, s->n_experts - 1);
        for (int32_t u = 0; u < s->n_used; u++) {
            expert[r * s->n_used + u] = (first + u) % s->n_experts;
            weight[r * s->n_used + u] = random_float();
        }
    }
}

static void check_shape(const shape *s)
{
    const int64_t size = (int64_t)s->n * s->m;
    layer l;
    float *x = floats(size), *want = floats(size), *share = floats(s->n), *weight = floats(s->n * s->n_used);
    int32_t *expert = malloc(4 * (size_t)(s->n * s->n_used));
    make_layer(s, &l);
    random_floats(x, size, 2), random_floats(share, s->n, 4);
    if (s->special) sprinkle(x, size, 400);
    choose_any(s, expert, weight);
    by_loops(dense_of(SCALAR, 1), s, &l, x, expert, weight, share, want);
    for (int i = SCALAR; i < ISAS; i++)
        for (int32_t n_threads = 1; n_threads <= MOST_THREADS; n_threads++) {
            rt_dense *d = dense_of(i, n_threads);
            if (!d) continue;
            float *y = floats(size);
            rt_experts_args a = {
                s->n,   s->m,           s->n_experts, s->n_used,      x,     &l.gate, &l.up, &l.down, expert,
                weight, &l.gate_shared, &l.up_shared, &l.down_shared, share, y,       NULL
            };
            const uint64_t bytes = rt_experts_scratch(&a);
            unsigned char *memory = rt_calloc(1, bytes + 64, "scratch");
            memset(memory, 0xa5, (size_t)bytes + 64);
            a.scratch = memory;
            (void)fesetround(n_threads % 2 ? FE_UPWARD : FE_TONEAREST);
            rt_experts(d, &a);
            (void)fesetround(FE_TONEAREST);
            int inside = 1;
            for (int k = 0; k < 64; k++) inside &= memory[bytes + (uint64_t)k] == 0xa5;
            const int64_t at = differs(want, y, size);
            REQUIRE(at < 0, "experts, %s, %d threads, %d rows, %d of %d, %d to %d: [%d] is %a, not %a", rt_dense_isa(d),
                    (int)n_threads, (int)s->n, (int)s->n_used, (int)s->n_experts, (int)s->m, (int)s->width, (int)at,
                    (double)y[at], (double)want[at]);
            REQUIRE(inside && canaries_live(y, size), "experts, %s: beyond the memory", rt_dense_isa(d));
            rt_free(memory);
            release(y);
        }
    for (int i = 0; i < 6; i++) free(l.memory[i]);
    free(expert);
    release(x), release(want), release(share), release(weight);
}

static int32_t any_type(int whole_blocks)
{
    static const int32_t types[] = { RT_Q8_0, RT_Q4_0, RT_F32, RT_F16, RT_BF16, RT_Q4_K, RT_Q6_K };
    return types[random_int(0, whole_blocks ? 6 : 4)];
}

static void check_random_shapes(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        const int k = round % 3 == 0; /* blocks of 256 */
        const int32_t step = k ? 256 : 32;
        shape s =
            FIELDS(.n = round % 5 == 4 ? random_int(10, 30) : random_int(1, 5), .m = step * random_int(1, k ? 2 : 9),
                   .n_experts = random_int(1, 12), .width = step * random_int(1, k ? 2 : 9), .crowded = round % 4 == 1,
                   .special = round % 8 == 7 ? 4000 : 0);
        s.shared_width = round % 2 ? 0 : step * random_int(1, k ? 2 : 5);
        s.n_used = random_int(1, s.n_experts < 5 ? s.n_experts : 5);
        s.gate = s.up = s.down = s.gate_shared = s.up_shared = s.down_shared = any_type(k);
        if (round % 4 == 3 || round % 4 == 2)
            s.up = any_type(k), s.down = any_type(k), s.gate_shared = any_type(k), s.down_shared = any_type(k);
        check_shape(&s);
    }
}

/* The experts' weights, in any mode of the caller's, against loops. */
static void check_choice(int rounds)
{
    rt_dense *scalar = dense_of(SCALAR, 1);
    for (int round = 0; round < rounds; round++) {
        const int32_t n = random_int(1, 9), n_experts = random_int(1, 70),
                      n_used = random_int(1, n_experts < 9 ? n_experts : 9);
        const float scale = random_float() + 2;
        const int64_t pairs = (int64_t)n * n_used, all = (int64_t)n * n_experts;
        float *logits = floats(all), *p = floats(all), *weight = floats(pairs), *want_weight = floats(pairs);
        int32_t *expert = calloc((size_t)pairs, sizeof *expert), *want = calloc((size_t)pairs, sizeof *want);
        random_floats(logits, all, 4);
        memcpy(p, logits, 4 * (size_t)all);
        for (int32_t r = 0; r < n; r++) {
            float sum = 0;
            float *row = p + (int64_t)r * n_experts;
            rt_softmax(scalar, row, n_experts);
            rt_top_k(row, n_experts, n_used, want + r * n_used);
            for (int32_t u = 0; u < n_used; u++) sum += row[want[r * n_used + u]];
            for (int32_t u = 0; u < n_used; u++) want_weight[r * n_used + u] = row[want[r * n_used + u]] / sum * scale;
        }
        for (int32_t n_threads = 1; n_threads <= MOST_THREADS; n_threads++) {
            memcpy(p, logits, 4 * (size_t)all);
            (void)fesetround(n_threads % 2 ? FE_UPWARD : FE_TONEAREST);
            rt_choose_experts(dense_of(BEST, n_threads), p, n, n_experts, n_used, scale, expert, weight);
            (void)fesetround(FE_TONEAREST);
            REQUIRE(!memcmp(expert, want, 4 * (size_t)pairs) && differs(weight, want_weight, pairs) < 0,
                    "the choice of %d of %d, %d threads", (int)n_used, (int)n_experts, (int)n_threads);
        }
        release(logits), release(p), release(weight), release(want_weight);
        free(expert), free(want);
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 2 ? atoi(argv[2]) : 70;
    check_choice(rounds);
    check_random_shapes(rounds * 3 / 5);
    return test_summary();
}
