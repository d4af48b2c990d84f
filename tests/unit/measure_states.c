/* How exact is a recurrent state that is kept in 16 bits? docs/reference/numerics-states.md has the results and what
 * they mean.
 *
 *   measure_states [--tokens N] [--case NAME] [--form NAME]   a table: random sequences, forms of the state, errors
 *   measure_states --check                                    a short run, held against what the page says of the forms
 *   measure_states --forms                                    their names
 *   measure_states --run FORM before|after WINDOW             one form over a model's operands, standard input to
 * output
 *
 * The recurrence is that of gated_delta_net, with the operations of docs/reference/numerics.md for a gate per head; a
 * form says what happens to a column of the state behind each token. The yardstick is the same recurrence in binary64,
 * from the same binary32 operands. An error is the root of the mean square of the difference, over that of the
 * yardstick: of the state after the last token, and of the outputs of the second half of the tokens, once read from the
 * state before it was rounded and once after.
 *
 * --run reads int32 n_tokens, n_heads, head_dim_k, head_dim_v, then F32 q and k [n_tokens][n_heads][head_dim_k],
 * v [..][head_dim_v], g and beta [n_tokens][n_heads], and writes out [n_tokens][n_heads][head_dim_v], F32; before each
 * WINDOW tokens the state is made zero (0: never). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/convert.h"
#include "numerics/dot32.h"
#include "tests/harness.h"
#include "tests/unit/formula.h"

enum { MAX_DIM = 256 };

/* ---- Forms of the state ------------------------------------------------------------------------------- */

enum type { EXACT, F32, F16, BF16, I16 };

/* I16: a whole number in 16 bits times a power of two that the elements of a column share.
 * stochastic: up with the probability that makes the mean right, by a hash of position, head, row and column.
 * lazy: the state is c * M, c an F32 per head that takes the decay, M what is rounded.
 * diffuse: what rounding takes from an element is added to the column's next one before that is rounded.
 * every: rounded after each token with which the number of tokens becomes a multiple of it; between them F32, which
 * takes a log of the tokens since, or calls that end nowhere else. */
typedef struct form {
    const char *name;
    enum type type;
    int stochastic, lazy, diffuse, every;
} form;

static const form forms[] = {
    { "exact", EXACT, 0, 0, 0, 1 },
    { "f32", F32, 0, 0, 0, 1 },
    { "f16", F16, 0, 0, 0, 1 },
    { "f16-stochastic", F16, 1, 0, 0, 1 },
    { "f16-lazy", F16, 0, 1, 0, 1 },
    { "f16-lazy-stochastic", F16, 1, 1, 0, 1 },
    { "f16-diffuse", F16, 0, 0, 1, 1 },
    { "f16-every-4", F16, 0, 0, 0, 4 },
    { "f16-every-16", F16, 0, 0, 0, 16 },
    { "f16-every-64", F16, 0, 0, 0, 64 },
    { "f16-stochastic-16", F16, 1, 0, 0, 16 },
    { "f16-lazy-16", F16, 0, 1, 0, 16 },
    { "bf16", BF16, 0, 0, 0, 1 },
    { "bf16-stochastic", BF16, 1, 0, 0, 1 },
    { "bf16-lazy", BF16, 0, 1, 0, 1 },
    { "bf16-lazy-stochastic", BF16, 1, 1, 0, 1 },
    { "bf16-diffuse", BF16, 0, 0, 1, 1 },
    { "bf16-every-4", BF16, 0, 0, 0, 4 },
    { "bf16-every-16", BF16, 0, 0, 0, 16 },
    { "bf16-every-64", BF16, 0, 0, 0, 64 },
    { "bf16-stochastic-16", BF16, 1, 0, 0, 16 },
    { "bf16-lazy-16", BF16, 0, 1, 0, 16 },
    { "int16", I16, 0, 0, 0, 1 },
    { "int16-stochastic", I16, 1, 0, 0, 1 },
    { "int16-lazy", I16, 0, 1, 0, 1 },
    { "int16-every-16", I16, 0, 0, 0, 16 },
};
enum { FORMS = sizeof forms / sizeof *forms };

static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* The bits that decide which way an element goes: a function of what it is, not of when it is computed. */
static uint32_t chance(int32_t position, int32_t h, int32_t i, int32_t j)
{
    return mix((uint32_t)position + mix((uint32_t)(h << 16 | i << 8 | j)));
}

/* x to a multiple of 2^exponent: the nearest, or by chance. */
static float to_grid(float x, int exponent, const form *f, uint32_t r)
{
    const float steps = ldexpf(x, -exponent);
    return ldexpf(f->stochastic ? floorf(steps + (float)(r >> 8) * 0x1p-24f) : rintf(steps), exponent);
}

/* By chance in the bits: what is cut off, plus a number drawn from its range, carries or does not. */
static float chance_bits(float x, uint32_t r, int cut)
{
    const uint32_t range = (1u << cut) - 1, b = gdn_bits(x);
    return (b & ~GDN_SIGN_BIT) >= GDN_INF_BITS ? x : gdn_from_bits((b + (r & range)) & ~range);
}

static float rounded(float x, const form *f, uint32_t r)
{
    if (f->type == BF16) return f->stochastic ? chance_bits(x, r, 16) : gdn_from_bf16(gdn_to_bf16(x));
    if (!f->stochastic) return gdn_from_f16(gdn_to_f16(x));
    return fabsf(x) < 0x1p-14f ? to_grid(x, -24, f, r) : gdn_from_f16(gdn_to_f16(chance_bits(x, r, 13)));
}

static void round_column(const form *f, float *S, int32_t n, int32_t position, int32_t h, int32_t j)
{
    float left = 0;
    int exponent = 0;
    if (f->type == F32) return;
    if (f->type == I16) {
        float most = 0;
        for (int32_t i = 0; i < n; i++) most = fmaxf(most, fabsf(S[i]));
        exponent = most > 0 ? ilogbf(most) - 14 : 0;        /* the largest has 15 bits, ... */
        if (ldexpf(most, -exponent) > 32767.0f) exponent++; /* ... and does not become 2^15 */
    }
    for (int32_t i = 0; i < n; i++) {
        const uint32_t r = f->stochastic ? chance(position, h, i, j) : 0;
        const float x = S[i] + left;
        S[i] = f->type == I16 ? to_grid(x, exponent, f, r) : rounded(x, f, r);
        left = f->diffuse ? x - S[i] : 0;
    }
}

/* ---- The recurrence ----------------------------------------------------------------------------------- */

typedef struct operands {
    int32_t n_tokens, n_heads, dk, dv;
    const float *q, *k, *v, *g, *beta;
} operands;

/* Column j of head h over all tokens. before, after: outputs read before and after the state is rounded. */
static void exact_column(const operands *o, int32_t h, int32_t j, int32_t window, double *S, double *out)
{
    for (int32_t t = 0; t < o->n_tokens; t++) {
        const int64_t at = (int64_t)t * o->n_heads + h;
        double q[MAX_DIM], k[MAX_DIM], a[MAX_DIM];
        for (int32_t i = 0; i < o->dk; i++) {
            q[i] = (double)o->q[at * o->dk + i], k[i] = (double)o->k[at * o->dk + i], a[i] = exp((double)o->g[at]);
            if (!t || (window && t % window == 0)) S[i] = 0;
        }
        out[t] = formula_step(o->dk, q, k, k, a, (double)o->beta[at], (double)o->v[at * o->dv + j], S).out;
    }
}

static void column(const form *f, const operands *o, int32_t h, int32_t j, int32_t window, float *S, float *before,
                   float *after)
{
    const float scale = (float)(1 / sqrt((double)o->dk));
    const int32_t n = o->dk;
    float c = 1; /* the state is c * S, c being 1 unless the form is lazy */
    for (int32_t t = 0; t < o->n_tokens; t++) {
        const int64_t at = (int64_t)t * o->n_heads + h;
        const float *q = o->q + at * n, *k = o->k + at * n;
        float a = gdn_expf(o->g[at]);
        if (!t || (window && t % window == 0)) {
            memset(S, 0, (size_t)n * sizeof *S);
            c = 1;
        }
        if (f->lazy) { /* into c, as long as that leaves M room */
            c = c * a;
            a = c < 0x1p-6f ? c : 1;
            c = c < 0x1p-6f ? 1 : c;
        }
        const float kv = c * (a * gdn_dot32(S, k, n));
        const float d = o->beta[at] * (o->v[at * o->dv + j] - kv);
        const float dc = f->lazy ? d / c : d;
        for (int32_t i = 0; i < n; i++) S[i] = fmaf(k[i], dc, a * S[i]);
        before[t] = scale * (c * gdn_dot32(S, q, n));
        after[t] = before[t];
        if ((t + 1) % f->every == 0 && f->type != F32) {
            round_column(f, S, n, t, h, j);
            after[t] = scale * (c * gdn_dot32(S, q, n));
        }
    }
    for (int32_t i = 0; i < n; i++) S[i] = c * S[i];
}

/* ---- Random sequences --------------------------------------------------------------------------------- */

enum { DK = 128 };

/* decay: the same g for every token, or 0: as models make them. hold: writes end after this many tokens (beta = 0).
 * beta: from 0 up to it. alike: how much of a key is one vector that all keys of the head share. */
typedef struct sequence {
    const char *name, *what;
    double decay, beta, alike;
    int32_t heads, columns, hold;
} sequence;

static const sequence sequences[] = {
    { "decay-1e-4", "g = -1e-4, beta in (0, 1)", -1e-4, 1, 0, 2, 8, 0 },
    { "decay-1e-3", "g = -1e-3, beta in (0, 1)", -1e-3, 1, 0, 2, 8, 0 },
    { "decay-1e-2", "g = -1e-2, beta in (0, 1)", -1e-2, 1, 0, 2, 8, 0 },
    { "layer", "g = -A softplus(x + b) over 16 heads, beta in (0, 1)", 0, 1, 0, 16, 1, 0 },
    { "alike", "as layer, and keys that share a half of themselves", 0, 1, 1, 16, 1, 0 },
    { "faint", "g = -1e-4, beta in (0, 0.01)", -1e-4, 0.01, 0, 2, 8, 0 },
    { "hold", "g = -1e-4, beta in (0, 1) for 1024 tokens, then 0", -1e-4, 1, 0, 2, 8, 1024 },
};
enum { SEQUENCES = sizeof sequences / sizeof *sequences };

static double uniform(uint64_t *state) { return ((double)(test_random(state) >> 11) + 0.5) * 0x1p-53; } /* in (0, 1) */

static double normal(uint64_t *state)
{
    const double length = sqrt(-2 * log(uniform(state)));
    return length * cos(6.283185307179586 * uniform(state));
}

static void *allocate(size_t n, size_t bytes)
{
    void *memory = calloc(n ? n : 1, bytes);
    NEED(memory);
    return memory;
}

/* A vector of length 1, of which `shared` is a part. */
static void draw_key(uint64_t *state, const double *shared, double alike, float *x)
{
    double drawn[DK], sum = 0;
    for (int i = 0; i < DK; i++) {
        drawn[i] = normal(state) + (shared ? alike * shared[i] : 0);
        sum += drawn[i] * drawn[i];
    }
    for (int i = 0; i < DK; i++) x[i] = (float)(drawn[i] / sqrt(sum));
}

static operands draw_operands(const sequence *s, int32_t n_tokens)
{
    const size_t rows = (size_t)n_tokens * (size_t)s->heads, columns = (size_t)s->columns;
    float *const q = allocate(rows * DK, sizeof *q), *const k = allocate(rows * DK, sizeof *k);
    float *const v = allocate(rows * columns, sizeof *v), *const g = allocate(rows, sizeof *g);
    float *const beta = allocate(rows, sizeof *beta);
    for (int32_t h = 0; h < s->heads; h++) {
        uint64_t state = (uint64_t)h + 1;
        double shared[DK];
        const double rate = 16 * uniform(&state);                        /* A, in (0, 16) */
        const double step = exp(log(1e-3) + log(100) * uniform(&state)); /* softplus(b), in (1e-3, 0.1) */
        for (int i = 0; i < DK; i++) shared[i] = normal(&state);
        for (int32_t t = 0; t < n_tokens; t++) {
            const size_t at = (size_t)t * (size_t)s->heads + (size_t)h;
            draw_key(&state, s->alike > 0 ? shared : NULL, s->alike, q + at * DK);
            draw_key(&state, s->alike > 0 ? shared : NULL, s->alike, k + at * DK);
            for (size_t j = 0; j < columns; j++) v[at * columns + j] = (float)normal(&state);
            const double x = normal(&state), b = log(expm1(step));
            g[at] = (float)(s->decay < 0 ? s->decay : -rate * log1p(exp(x + b)));
            beta[at] = s->hold && t >= s->hold ? 0 : (float)(s->beta * uniform(&state));
        }
    }
    return (operands){ n_tokens, s->heads, DK, s->columns, q, k, v, g, beta };
}

static void release(const operands *o)
{
    free((void *)(uintptr_t)o->q);
    free((void *)(uintptr_t)o->k);
    free((void *)(uintptr_t)o->v);
    free((void *)(uintptr_t)o->g);
    free((void *)(uintptr_t)o->beta);
}

/* ---- Errors ------------------------------------------------------------------------------------------- */

typedef struct error {
    double off, square;
} error;

static void add(error *e, double x, double exact)
{
    e->off += (x - exact) * (x - exact);
    e->square += exact * exact;
}

static double relative(error e) { return e.square > 0 ? sqrt(e.off / e.square) : 0; }

typedef struct errors {
    error state, before, after;
} errors;

static void measure(const operands *o, const int *wanted, errors *e)
{
    double *const out = allocate((size_t)o->n_tokens, sizeof *out);
    float *const before = allocate((size_t)o->n_tokens, sizeof *before), *const after = allocate((size_t)o->n_tokens,
                                                                                                 sizeof *after);
    for (int32_t h = 0; h < o->n_heads; h++)
        for (int32_t j = 0; j < o->dv; j++) {
            double S[MAX_DIM];
            exact_column(o, h, j, 0, S, out);
            for (int f = 0; f < FORMS; f++) {
                float x[MAX_DIM];
                if (!wanted[f]) continue;
                column(&forms[f], o, h, j, 0, x, before, after);
                for (int32_t i = 0; i < o->dk; i++) add(&e[f].state, (double)x[i], S[i]);
                for (int32_t t = o->n_tokens / 2; t < o->n_tokens; t++) {
                    add(&e[f].before, (double)before[t], out[t]);
                    add(&e[f].after, (double)after[t], out[t]);
                }
            }
        }
    free(out);
    free(before);
    free(after);
}

static int find_form(const char *name)
{
    for (int f = 0; f < FORMS; f++)
        if (!strcmp(forms[f].name, name)) return f;
    return -1;
}

static void table(int32_t n_tokens, const char *only_case, const int *wanted)
{
    for (int s = 0; s < SEQUENCES; s++) {
        errors e[FORMS] = { 0 };
        if (only_case && strcmp(only_case, sequences[s].name) != 0) continue;
        const operands o = draw_operands(&sequences[s], n_tokens);
        measure(&o, wanted, e);
        release(&o);
        (void)printf("%s: %s; %d tokens\n%-22s %10s %12s %12s\n", sequences[s].name, sequences[s].what, (int)n_tokens,
                     "", "state", "out before", "out after");
        for (int f = 0; f < FORMS; f++)
            if (wanted[f])
                (void)printf("%-22s %10.2e %12.2e %12.2e\n", forms[f].name, relative(e[f].state), relative(e[f].before),
                             relative(e[f].after));
        (void)fflush(stdout);
    }
}

/* ---- What the page says, held against a short run -------------------------------------------------------- */

static double state_error(const errors *e, const char *name) { return relative(e[find_form(name)].state); }

static void check_errors(void)
{
    static const char *const judged[] = { "f32", "f16", "f16-lazy", "f16-every-64", "bf16", "bf16-lazy", "int16" };
    int wanted[FORMS] = { 0 };
    for (size_t m = 0; m < sizeof judged / sizeof *judged; m++) wanted[find_form(judged[m])] = 1;
    for (int s = 0; s < SEQUENCES; s++) {
        sequence shorter = sequences[s];
        errors e[FORMS] = { 0 };
        const int holds = shorter.hold != 0;
        shorter.heads = shorter.heads < 4 ? 1 : 4;
        shorter.columns = 1;
        shorter.hold = holds ? 128 : 0;
        const operands o = draw_operands(&shorter, 768);
        measure(&o, wanted, e);
        release(&o);
        const double f16 = state_error(e, "f16"), ratio = state_error(e, "bf16") / f16;
        REQUIRE(state_error(e, "f32") < 5e-5, "F32 is close to binary64: %g", state_error(e, "f32"));
        REQUIRE(f16 > 5e-5 && f16 < 0.1, "F16 loses what 11 bits lose: %g", f16);
        if (holds) {
            REQUIRE(state_error(e, "bf16") > 0.03, "BF16 stagnates");
            REQUIRE(state_error(e, "bf16-lazy") < 0.02, "lazy BF16 does not");
        } else {
            REQUIRE(ratio > 5 && ratio < 12, "BF16 has 3 bits less: %g", ratio);
            REQUIRE(state_error(e, "f16-every-64") < 0.8 * f16, "rounding seldom loses less");
            REQUIRE(state_error(e, "f16-lazy") < 1.5 * f16, "a decay in c costs nothing");
            REQUIRE(state_error(e, "int16") < 0.5 * f16, "a shared exponent leaves more bits");
        }
    }
}

/* Rounding gives what the type can hold, the nearest of it, and by chance the right mean. */
static void check_rounding(void)
{
    uint64_t state = 1;
    for (int n = 0; n < 2000; n++) {
        const float x = (float)(normal(&state) * exp(20 * uniform(&state) - 15));
        for (int f = 0; f < FORMS; f++) {
            if (forms[f].type != F16 && forms[f].type != BF16) continue;
            const float y = rounded(x, &forms[f], mix((uint32_t)n)), half = gdn_from_f16(gdn_to_f16(y));
            const float brain = gdn_from_bf16(gdn_to_bf16(y)), held = forms[f].type == F16 ? half : brain;
            const float most = forms[f].type == F16 ? fmaxf(fabsf(x) * 0x1p-10f, 0x1p-24f) : fabsf(x) * 0x1p-7f;
            REQUIRE(!(fabsf(x) < 65000.0f) || gdn_bits(held) == gdn_bits(y), "a value that 16 bits hold: %g",
                    (double)x);
            REQUIRE(!(fabsf(x) < 65000.0f) || fabsf(y - x) <= most, "next to the value: %g", (double)x);
        }
    }
    static const float values[] = { 1.0003f, -0.7001f, 3e-7f, 1e-5f, -300.1f };
    for (size_t m = 0; m < sizeof values / sizeof *values; m++)
        for (int f = 0; f < FORMS; f++) {
            const float x = values[m], step = (float)ldexp(1, ilogbf(x) - (forms[f].type == F16 ? 10 : 7));
            const float grid = forms[f].type == F16 && step < 0x1p-24f ? 0x1p-24f : step;
            double sum = 0;
            if (!forms[f].stochastic || (forms[f].type != F16 && forms[f].type != BF16)) continue;
            for (int n = 0; n < 4096; n++) sum += (double)rounded(x, &forms[f], chance(n, 1, 2, 3));
            REQUIRE(fabs(sum / 4096 - (double)x) < 0.04 * (double)grid, "%s: %g", "the mean of rounding by chance",
                    (double)x);
        }
}

/* ---- A model's operands ----------------------------------------------------------------------------------- */

static int take(void *to, size_t bytes)
{
    if (fread(to, 1, bytes, stdin) == bytes) return 1;
    (void)fprintf(stderr, "measure_states: the operands end early\n");
    return 0;
}

static int run(const form *f, int after, int32_t window)
{
    int32_t size[4];
    if (!take(size, sizeof size)) return 2;
    for (int m = 0; m < 4; m++)
        if (size[m] < 1 || (m > 1 && size[m] > MAX_DIM)) {
            (void)fprintf(stderr, "measure_states: a size of %d\n", (int)size[m]);
            return 2;
        }
    const size_t rows = (size_t)size[0] * (size_t)size[1], dk = (size_t)size[2], dv = (size_t)size[3];
    const size_t n[5] = { rows * dk, rows * dk, rows * dv, rows, rows };
    float *x[5];
    for (int m = 0; m < 5; m++) x[m] = allocate(n[m], sizeof **x);
    float *const out = allocate(rows * dv, sizeof *out), *const a = allocate((size_t)size[0], sizeof *a);
    float *const b = allocate((size_t)size[0], sizeof *b);
    double *const d = allocate((size_t)size[0], sizeof *d);
    int ok = 1;
    for (int m = 0; ok && m < 5; m++) ok = take(x[m], n[m] * sizeof **x);
    const operands o = { size[0], size[1], size[2], size[3], x[0], x[1], x[2], x[3], x[4] };
    for (int32_t h = 0; ok && h < size[1]; h++)
        for (int32_t j = 0; j < size[3]; j++) {
            double S[MAX_DIM];
            float column_of_state[MAX_DIM];
            if (f->type == EXACT) exact_column(&o, h, j, window, S, d);
            else column(f, &o, h, j, window, column_of_state, a, b);
            for (int32_t t = 0; t < size[0]; t++)
                out[((size_t)t * (size_t)size[1] + (size_t)h) * dv + (size_t)j] =
                    f->type == EXACT ? (float)d[t] : (after ? b : a)[t];
        }
    ok = ok && fwrite(out, sizeof *out, rows * dv, stdout) == rows * dv;
    release(&o);
    free(out);
    free(a);
    free(b);
    free(d);
    return ok ? 0 : 2;
}

static int find_sequence(const char *name)
{
    for (int s = 0; s < SEQUENCES; s++)
        if (!strcmp(sequences[s].name, name)) return s;
    return -1;
}

/* A whole number of at least `least`, or -1. */
static int32_t number(const char *text, long least)
{
    char *end;
    const long x = strtol(text, &end, 10);
    return *text && !*end && x >= least && x <= 1 << 24 ? (int32_t)x : -1;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: measure_states [--tokens N] [--case NAME] [--form NAME] | --check | --forms |\n"
                          "       --run FORM before|after WINDOW; see the top of tests/unit/measure_states.c\n");
    return 2;
}

int main(int argc, char **argv)
{
    int32_t n_tokens = 4096;
    const char *only_case = NULL;
    int wanted[FORMS], only = -1;
    if (argc == 5 && !strcmp(argv[1], "--run")) {
        const int f = find_form(argv[2]), after = !strcmp(argv[3], "after"), window = number(argv[4], 0);
        return f < 0 || window < 0 || (!after && strcmp(argv[3], "before") != 0) ? usage()
                                                                                 : run(&forms[f], after, window);
    }
    if (argc == 2 && !strcmp(argv[1], "--check")) {
        check_rounding();
        check_errors();
        return test_summary();
    }
    if (argc == 2 && !strcmp(argv[1], "--forms")) {
        for (int f = 0; f < FORMS; f++) (void)printf("%s\n", forms[f].name);
        return 0;
    }
    for (int i = 1; i < argc; i += 2) {
        const char *const value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--tokens") && (n_tokens = number(value, 2)) > 0) continue;
        if (!strcmp(argv[i], "--case") && find_sequence(only_case = value) >= 0) continue;
        if (!strcmp(argv[i], "--form") && (only = find_form(value)) >= 0) continue;
        return usage();
    }
    for (int f = 0; f < FORMS; f++) wanted[f] = forms[f].type != EXACT && (only < 0 || only == f);
    table(n_tokens, only_case, wanted);
    return 0;
}
