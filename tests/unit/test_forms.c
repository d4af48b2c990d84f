/* The forms of gated_delta_net: what a call does to q, k, g and beta before the recurrence, and to out behind it. Are
 * they the functions that frameworks have, and how far from them is binary32?
 *
 * Devices are compared with the bits of the reference. Here the reference and the CPU are compared with the formulas in
 * binary64: formula_step(), and with libm below what is before and after it. Inputs are exact in their types, so that
 * every difference is rounding, and how much of that there can be follows from the same numbers, element by element. As
 * controls, each result is also held against the formulas of other forms, and of the same form with v off by 2^-12: all
 * have to be out of bounds.
 *
 * The bound. An operation of binary32 is off by u = 2^-24 of its result at most. To first order in u, and 1% more:
 *   sum of n products    (n / 32 + 5) u of the sum of their magnitudes: a chain of n / 32 fma, then a tree of five
 *                        additions. That sum is at most the product of the lengths (Cauchy and Schwarz)
 *   norm                 no cancellation; eps is one addition more; the root halves; the root and the product: 2 u
 *   exp, softplus, sigmoid   0.69, 1.6 and 2 ulps, as numerics-elementary.md in docs promises; an ulp is at most 2 u
 *   state                a column's error is one vector E. A step maps it to (I - beta k k^T) Diag(a) E, of length at
 *                        most max(1, |1 - beta |k|^2|) max(a) |E|, with a read key r (1 + |beta k| |r|) max(a) |E|, and
 *                        adds its own roundings, which step() lists
 *   out                  |q| |E|, and the roundings of its own sum; in 16 bits, half a unit of its last place
 * A state of 16 bits is rounded behind each token's output, by half a unit of its last place. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gdn/gdn.h"
#include "tests/harness.h"
#include "tests/unit/targets.h"

enum { MAX_KEYS = 256 };
enum { Q, K, V, G, BETA, SSM_A, DT_BIAS, STATE, READ, OPERANDS };

typedef struct form {
    const char *name;
    int T, Hk, Hv, Sk, Sv, channel, layout;
    int norm;
    double eps, length; /* rows of q and k are about this long */
    int g_form, has_bias;
    double g[2], a[2]; /* elements of g lie between these, and ssm_a or its logarithm */
    int beta_form;
    double factor;
    int types[OPERANDS], out; /* zero: F32 */
    int reads;                /* the state is read with a key of its own */
    double v_off;             /* only the formula's: v is larger by this part of it */
} form;

/* n elements of a type, and their exact values. */
typedef struct operand {
    void *bytes;
    double *x;
    size_t n;
} operand;

typedef struct result { /* of the formula: values, and how far from them binary32 may be */
    double *out, *out_bound, *state, *state_bound;
} result;

static double worst;

static void *allocate(size_t n, size_t bytes)
{
    void *memory = calloc(n, bytes);
    NEED(memory);
    return memory;
}

/* ---- Operands ------------------------------------------------------------------------------------------------ */

static double uniform(const double range[2]) { return range[0] + (range[1] - range[0]) * draw_unit(); }

static double element(const void *bytes, int type, size_t i)
{
    uint32_t b = 0;
    float x;
    if (type == GDN_F16) {
        const uint32_t h = ((const uint16_t *)bytes)[i], exponent = h >> 10 & 31, fraction = h & 1023;
        const double magnitude = exponent ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24);
        return h >> 15 ? -magnitude : magnitude;
    }
    b = type == GDN_F32 ? ((const uint32_t *)bytes)[i] : (uint32_t)((const uint16_t *)bytes)[i] << 16;
    memcpy(&x, &b, 4);
    return x;
}

/* x, or a value of the type beside it. */
static void set_element(operand *o, int type, size_t i, double x)
{
    const float near = (float)x;
    uint32_t b;
    int exponent;
    memcpy(&b, &near, 4);
    if (type == GDN_F16) {
        const double m = frexp(fabs(x), &exponent);
        b = exponent < -13 ? 0 : (x < 0) << 15 | (uint32_t)(exponent + 14) << 10 | ((uint32_t)(m * 2048) - 1024);
    }
    if (type == GDN_F32) ((uint32_t *)o->bytes)[i] = b;
    else ((uint16_t *)o->bytes)[i] = (uint16_t)(type == GDN_F16 ? b : b >> 16);
    o->x[i] = element(o->bytes, type, i);
}

static int gates(const form *f) { return f->channel ? f->Sk : 1; }

static void make_operands(const form *f, operand *in)
{
    const int keys = f->T * f->Hk, heads = f->T * f->Hv;
    const int rows[OPERANDS] = { keys, keys, heads, heads, heads, f->Hv, f->Hv, f->Hv * f->Sv, keys };
    const int columns[OPERANDS] = { f->Sk, f->Sk, f->Sv, gates(f), 1, 1, gates(f), f->Sk, f->Sk };
    static const double unit[2] = { -1, 1 }, bias[2] = { -2, 2 }, lengths[2] = { 0.25, 1 };
    static const double beta[2][2] = { { 0, 1 }, { -4, 4 } }; /* plain, logit */
    const double *const ranges[OPERANDS] = { unit, unit, unit, f->g, beta[f->beta_form], f->a, bias, unit, unit };
    test_seed = 1;
    for (int o = 0; o < OPERANDS; o++) {
        in[o].n = (size_t)rows[o] * (size_t)columns[o];
        in[o].bytes = allocate(in[o].n, 4);
        in[o].x = allocate(in[o].n, 8);
        for (int r = 0; r < rows[o]; r++) {
            const double length = o <= K ? f->length : 1;
            const double times = o > K && o != READ ? 1 : length * uniform(lengths) * sqrt(3.0 / f->Sk);
            for (int i = 0; i < columns[o]; i++) {
                const double x = times * uniform(ranges[o]);
                const int rate = o == SSM_A && f->g_form == GDN_G_RAW;
                set_element(&in[o], f->types[o], (size_t)(r * columns[o] + i), rate ? -exp(x) : x);
            }
        }
    }
}

static void free_operands(operand *in)
{
    for (int o = 0; o < OPERANDS; o++) {
        free(in[o].bytes);
        free(in[o].x);
    }
}

/* ---- The formulas, in binary64; errors in units of u ----------------------------------------------------------- */

#define UNIT (1.01 * 0x1p-24)

typedef struct token { /* of a head; off_: relative errors of each element */
    double q[MAX_KEYS], k[MAX_KEYS], r[MAX_KEYS], a[MAX_KEYS], beta;
    double off_key, off_read, off_a, off_beta;
} token;

static double length_of(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static double sum_off(const form *f) { return (f->Sk + 31) / 32 + 5; }

static void normalise(const form *f, const double *row, double *x)
{
    const double length = length_of(row, f->Sk);
    for (int i = 0; i < f->Sk; i++)
        x[i] = f->norm == GDN_NORM_ADD     ? row[i] / sqrt(length * length + f->eps)
               : f->norm == GDN_NORM_CLAMP ? row[i] / fmax(length, f->eps)
                                           : row[i];
}

#define LOWER_BOUND (-5.0f)

/* Mamba's gate: exp(A softplus(x + bias)), A = -exp(A_log). */
static double decay(const form *f, const operand *in, double x, int h, int i, double *off)
{
    *off = f->g_form == GDN_G_LINEAR ? 0 : 2 * 0.69;
    if (f->g_form == GDN_G_LINEAR) return x;
    if (f->g_form == GDN_G_LOG) return exp(x);
    const double z = f->has_bias ? x + in[DT_BIAS].x[h * gates(f) + i] : x;
    if (f->g_form == GDN_G_BOUNDED) { /* lower_bound * sigmoid(exp(A_log) * (x + bias)): FLA's safe gate */
        const double u = exp(in[SSM_A].x[h]) * z, s = LOWER_BOUND / (1 + exp(-u));
        /* Of s: sigmoid's slope is a quarter at most; u has the roundings of exp(A_log), z and the product. */
        *off += fabs(LOWER_BOUND * u) / 4 * (2 * 0.69 + 2) + fabs(s) * (2 * 2 + 1);
        return exp(s);
    }
    const double A = f->g_form == GDN_G_RAW_A_LOG ? -exp(in[SSM_A].x[h]) : in[SSM_A].x[h];
    const double y = A * (z > 20 ? z : log1p(exp(z)));
    /* Of y: z is rounded, and softplus' slope is 1 at most; softplus itself, exp(A_log), their product. */
    *off += fabs(A * z) + fabs(y) * (2 * 1.6 + 2 * 0.69 + 1);
    return exp(y);
}

static void prepare(const form *f, const operand *in, int t, int h, token *x)
{
    const int key = (t * f->Hk + h / (f->Hv / f->Hk)) * f->Sk, head = t * f->Hv + h;
    const double b = in[BETA].x[head];
    normalise(f, in[Q].x + key, x->q);
    normalise(f, in[K].x + key, x->k);
    x->off_key = f->norm ? (sum_off(f) + 1) / 2 + 2 : 0;
    memcpy(x->r, f->reads ? in[READ].x + key : x->k, sizeof(double) * (size_t)f->Sk);
    x->off_read = f->reads ? 0 : x->off_key;
    x->off_a = 0;
    for (int i = 0; i < f->Sk; i++) {
        double off;
        const int gate = f->channel ? i : 0;
        x->a[i] = decay(f, in, in[G].x[head * gates(f) + gate], h, gate, &off);
        x->off_a = fmax(x->off_a, off);
    }
    x->beta = (f->factor != 0 ? f->factor : 1) * (f->beta_form == GDN_BETA_LOGIT ? 1 / (1 + exp(-b)) : b);
    x->off_beta = f->beta_form == GDN_BETA_LOGIT ? 2 * 2 + 1 : 1;
}

/* The gated delta net as equation 10 of its paper (arXiv 2412.06464) and the channel-gated form of Kimi Linear's
 * (2510.26692) have it. */
typedef struct formula_result {
    double kv, d, out; /* what was read for the key, the change that is written, the token's output */
} formula_result;

/* S = (I - beta k r^T) Diag(a) S + beta k v and out = S^T q / sqrt(n), for one column S of the state, of n keys. r is
 * k, or a key to read with; a has the decay of each key. */
static inline formula_result formula_step(int n, const double *q, const double *k, const double *r, const double *a,
                                          double beta, double v, double *S)
{
    formula_result x = { 0, 0, 0 };
    for (int i = 0; i < n; i++) x.kv += r[i] * (S[i] *= a[i]);
    x.d = beta * (v - x.kv);
    for (int i = 0; i < n; i++) x.out += (S[i] += k[i] * x.d) * q[i] / sqrt(n);
    return x;
}

/* One token for one column, of which E is the error. */
static void step(const form *f, const token *x, double v, double *S, double *E, double *o, double *o_bound)
{
    const double before = length_of(S, f->Sk), k = length_of(x->k, f->Sk), read = length_of(x->r, f->Sk);
    const double scale = 1 / sqrt(f->Sk);
    const formula_result by = formula_step(f->Sk, x->q, x->k, x->r, x->a, x->beta, v, S);
    double most = 0;
    for (int i = 0; i < f->Sk; i++) most = fmax(most, x->a[i]);
    *o = by.out;
    const double after = length_of(S, f->Sk);
    /* kv: its sum, r, a, and a product with a. d: kv, the difference, beta, the product. S: d, k, the product with a,
     * the fma */
    const double kv_off = most * read * before * (sum_off(f) + x->off_read + x->off_a + 1);
    const double d_off = fabs(x->beta) * (kv_off + fabs(v - by.kv)) + fabs(by.d) * (x->off_beta + 1);
    const double S_off = k * (d_off + fabs(by.d) * x->off_key) + most * before * (x->off_a + 1) + after;
    const double grows = f->reads ? 1 + fabs(x->beta) * k * read : fmax(1, fabs(1 - x->beta * k * k));
    *E = grows * most * *E + UNIT * S_off;
    /* The sum and q; scale and the product with it */
    *o_bound = scale * length_of(x->q, f->Sk) * (*E + UNIT * after * (sum_off(f) + x->off_key)) + UNIT * 2 * fabs(*o);
    if (f->out == GDN_F16) *o_bound += fmax(0x1p-11 * fabs(*o), 0x1p-25);
    if (f->out == GDN_BF16) *o_bound += 0x1p-8 * fabs(*o);
    if (f->types[STATE] == GDN_F16) *E += 0x1p-11 * after + 0x1p-25 * sqrt(f->Sk); /* behind the output */
    if (f->types[STATE] == GDN_BF16) *E += 0x1p-8 * after;
}

static void formula(const form *f, const operand *in, result *r)
{
    double E[MAX_KEYS];
    token *x = allocate(1, sizeof *x);
    memcpy(r->state, in[STATE].x, in[STATE].n * 8);
    for (int h = 0; h < f->Hv; h++) {
        for (int j = 0; j < f->Sv; j++) E[j] = 0;
        for (int t = 0; t < f->T; t++) {
            prepare(f, in, t, h, x);
            for (int j = 0; j < f->Sv; j++) {
                const int at = (t * f->Hv + h) * f->Sv + j;
                const double v = in[V].x[at] * (1 + f->v_off);
                step(f, x, v, r->state + (h * f->Sv + j) * f->Sk, &E[j], &r->out[at], &r->out_bound[at]);
            }
        }
        for (int j = 0; j < f->Sv; j++)
            for (int i = 0; i < f->Sk; i++) r->state_bound[(h * f->Sv + j) * f->Sk + i] = E[j];
    }
    free(x);
}

static result make_result(const form *f)
{
    const size_t n_out = (size_t)(f->T * f->Hv * f->Sv), n_state = (size_t)(f->Hv * f->Sv * f->Sk);
    return (result){ allocate(n_out, 8), allocate(n_out, 8), allocate(n_state, 8), allocate(n_state, 8) };
}

static void free_result(const result *r) { free(r->out), free(r->out_bound), free(r->state), free(r->state_bound); }

/* ---- The library's --------------------------------------------------------------------------------------------- */

/* Where element i of column j of head h lies; operands and results have them as GDN_STATE_VK has. */
static int state_at(const form *f, int h, int j, int i)
{
    return f->layout == GDN_STATE_VK ? (h * f->Sv + j) * f->Sk + i : (h * f->Sk + i) * f->Sv + j;
}

static gdn_status run(gdn_context *ctx, const form *f, const operand *in, void *out, void *state)
{
    gdn_gated_delta_net_args a =
        FIELDS(.size = sizeof a, .n_seqs = 1, .n_tokens = f->T, .n_heads_k = f->Hk, .n_heads_v = f->Hv,
               .head_dim_k = f->Sk, .head_dim_v = f->Sv, .head_map = GDN_HEADS_GROUPED, .state_layout = f->layout,
               .gate = f->channel ? GDN_GATE_CHANNEL : GDN_GATE_SCALAR, .n_snapshots = 1,
               .scale = (float)(1.0 / sqrt((double)f->Sk)), .out = { .data = out, .dtype = f->out },
               .state = { .data = state, .dtype = f->types[STATE], .n_rows = 1, .n_slots = 1 });
    const size_t unit = f->types[STATE] == GDN_F32 ? 4 : 2;
    gdn_delta_inputs inputs = GDN_INIT(gdn_delta_inputs);
    inputs.qk_norm = f->norm, inputs.qk_norm_eps = (float)f->eps;
    inputs.gate_input = f->g_form, inputs.beta_input = f->beta_form;
    if (f->factor != 0) inputs.beta_factor = (float)f->factor;
    a.inputs = &inputs;
    gdn_tensor *const operands[] = { &a.q, &a.k, &a.v, &a.g, &a.beta, &inputs.ssm_a, &inputs.dt_bias };
    inputs.lower_bound = f->g_form == GDN_G_BOUNDED ? LOWER_BOUND : 0;
    const int raw = f->g_form >= GDN_G_RAW;
    for (int o = Q; o < STATE; o++)
        if (o < SSM_A || (raw && (o == SSM_A || f->has_bias)))
            *operands[o] = (gdn_tensor){ .data = in[o].bytes, .dtype = f->types[o] };
    if (f->reads) inputs.read_key = (gdn_tensor){ .data = in[READ].bytes, .dtype = f->types[READ] };
    for (int h = 0; h < f->Hv; h++)
        for (int j = 0; j < f->Sv; j++)
            for (int i = 0; i < f->Sk; i++)
                memcpy((char *)state + unit * (size_t)state_at(f, h, j, i),
                       (const char *)in[STATE].bytes + unit * (size_t)((h * f->Sv + j) * f->Sk + i), unit);
    gdn_capability can = { .size = sizeof can };
    gdn_status status = gdn_gated_delta_net_query(ctx, &a, &can);
    if (!status && can.workspace_bytes) status = gdn_buffer_create(ctx, can.workspace_bytes, &a.workspace);
    if (!status) status = gdn_gated_delta_net(ctx, &a, NULL);
    gdn_buffer_destroy(ctx, &a.workspace);
    return status;
}

/* ---- Judging --------------------------------------------------------------------------------------------------- */

static double larger(double off, double e) { return e == e ? fmax(off, e) : INFINITY; }

/* The largest errors of out and of the state, in parts of their bounds. */
static void measure(const form *f, const result *r, const void *out, const void *state, double off[2])
{
    off[0] = off[1] = 0;
    for (int i = 0; i < f->T * f->Hv * f->Sv; i++)
        off[0] = larger(off[0], fabs(element(out, f->out, (size_t)i) - r->out[i]) / r->out_bound[i]);
    for (int h = 0; h < f->Hv; h++)
        for (int j = 0; j < f->Sv; j++)
            for (int i = 0; i < f->Sk; i++) {
                const int at = (h * f->Sv + j) * f->Sk + i;
                const double got = element(state, f->types[STATE], (size_t)state_at(f, h, j, i));
                off[1] = larger(off[1], fabs(got - r->state[at]) / r->state_bound[at]);
            }
}

/* Another form that is near: number n of them, or NULL where it is no other than f. */
static const char *another(const form *f, int n, form *other)
{
    static const int near[] = { GDN_G_LINEAR, GDN_G_LOG, GDN_G_RAW_A_LOG, GDN_G_RAW, GDN_G_RAW_A_LOG };
    const int raw = f->g_form >= GDN_G_RAW;
    *other = *f;
    switch (n) {
    case 0: other->norm = f->norm == GDN_NORM_ADD ? GDN_NORM_CLAMP : GDN_NORM_ADD; return "another norm";
    case 1: other->eps = 1.25 * f->eps; return f->norm && f->eps > 0 ? "eps" : NULL;
    case 2: other->g_form = near[f->g_form]; return "another gate";
    case 3: other->has_bias = !f->has_bias; return raw ? "with and without dt_bias" : NULL;
    case 4: other->beta_form = !f->beta_form; return "another beta";
    case 5: other->factor = f->factor == 2 ? 1 : 2; return "another factor of beta";
    case 6: other->reads = !f->reads; return "the other key to read with";
    default: other->v_off = 0x1p-12; return f->out == GDN_F32 && f->types[STATE] == GDN_F32 ? "another v" : NULL;
    }
}

static void judge(gdn_context *ctx, const char *target, const form *f)
{
    result r = make_result(f), not_so = make_result(f);
    operand in[OPERANDS];
    void *out = allocate((size_t)(f->T * f->Hv * f->Sv), 4);
    void *state = allocate((size_t)(f->Hv * f->Sv * f->Sk), 4);
    double off[2];
    form other;
    make_operands(f, in);
    NEED(!run(ctx, f, in, out, state), "%s %s", target, f->name);
    formula(f, in, &r);
    measure(f, &r, out, state, off);
    REQUIRE(off[0] <= 1 && off[1] <= 1, "%s %s: out %.3g, state %.3g of their bounds", target, f->name, off[0], off[1]);
    worst = fmax(worst, fmax(off[0], off[1]));
    for (int n = 0; n < 8; n++) {
        const char *what = another(f, n, &other);
        if (!what) continue;
        formula(&other, in, &not_so);
        measure(f, &(result){ not_so.out, r.out_bound, not_so.state, r.state_bound }, out, state, off);
        REQUIRE(off[0] > 1 && off[1] > 1, "%s %s: %s is within the bound: out %.3g, state %.3g of it", target, f->name,
                what, off[0], off[1]);
    }
    free_operands(in);
    free(out), free(state);
    free_result(&r);
    free_result(&not_so);
}

#define ADD     .norm = GDN_NORM_ADD
#define CLAMP   .norm = GDN_NORM_CLAMP
#define VK      .layout = GDN_STATE_VK
#define KV      .layout = GDN_STATE_KV
#define RAW     .g_form = GDN_G_RAW, .g = { -3, 3 }, .a = { -3, 0 }
#define A_LOG   .g_form = GDN_G_RAW_A_LOG, .g = { -3, 3 }, .a = { -3, 0 }
#define BOUNDED .g_form = GDN_G_BOUNDED, .g = { -3, 3 }, .a = { -1, 1 }
#define LINEAR  .g_form = GDN_G_LINEAR, .g = { 0.5, 1 }
#define LOG     .g_form = GDN_G_LOG, .g = { -0.5, 0 }
#define LOGIT   .beta_form = GDN_BETA_LOGIT
#define BIAS    .has_bias = 1
#define TYPES(token, gate, head, result)                                                                               \
    .types = { token, token, token, gate, gate, head, head }, .out = result /* q k v, g beta, ssm_a dt_bias, out */

static const form forms[] = {
    /* Rows about as long as eps, where it clamps, or as its root, where it is added: so that it is of weight */
    { "add", 1, 1, 2, 128, 32, 0, VK, ADD, 1e-6, 2e-3, LOG },
    { "add_40", 40, 2, 4, 33, 21, 0, KV, ADD, 0.5, 1, LOG },
    { "clamp", 1, 2, 2, 128, 40, 0, KV, CLAMP, 1e-6, 1.5e-6, LOG },
    { "clamp_40", 40, 1, 3, 64, 16, 0, VK, CLAMP, 0.5, 1, LOG },
    /* Gates; for frameworks, softplus is the identity beyond 20 */
    { "raw", 5, 1, 2, 64, 32, 0, VK, RAW, BIAS, .length = 1 },
    { "raw_bare", 7, 1, 2, 48, 16, 0, KV, RAW, .length = 1 },
    { "raw_large", 6, 1, 4, 32, 16, 0, VK, .g_form = GDN_G_RAW, .g = { 16, 24 }, .a = { -6, -4 }, BIAS, .length = 1 },
    { "a_log", 12, 2, 4, 64, 32, 0, VK, A_LOG, BIAS, .length = 1 },
    { "linear", 40, 1, 2, 256, 16, 0, VK, LINEAR, .length = 1 },
    { "kda_log", 20, 1, 2, 64, 32, 1, VK, LOG, .length = 1 },
    { "kda_linear", 20, 1, 2, 40, 32, 1, KV, LINEAR, .length = 1 },
    { "kda_raw", 20, 2, 2, 64, 32, 1, VK, RAW, BIAS, .length = 1 },
    { "kda_a_log", 1, 1, 2, 128, 32, 1, VK, A_LOG, BIAS, .length = 1 },
    { "kda_bare", 9, 1, 2, 17, 16, 1, KV, A_LOG, .length = 1 },
    { "bounded", 12, 1, 2, 64, 32, 0, VK, BOUNDED, BIAS, .length = 1 },
    { "kda_bounded", 20, 2, 2, 64, 32, 1, KV, BOUNDED, BIAS, .length = 1 },
    { "kda_bounded_bare", 1, 1, 2, 128, 32, 1, VK, BOUNDED, .length = 1 },
    /* beta, and its factor */
    { "logit", 10, 1, 2, 64, 32, 0, VK, LOG, LOGIT, .length = 1 },
    { "logit_twice", 10, 1, 2, 64, 32, 0, KV, LOG, LOGIT, .factor = 2, .length = 1 },
    { "negative", 10, 1, 2, 64, 32, 0, VK, LOG, .factor = -0.75, .length = 1 },
    /* A key to read with: Comba, and GDN-2, whose factors of v and k are the caller's */
    { "comba", 12, 1, 2, 128, 32, 0, VK, ADD, 1e-6, 2e-3, A_LOG, BIAS, LOGIT, .reads = 1 },
    { "gdn2", 8, 2, 4, 64, 32, 1, KV, LOG, .length = 1, .reads = 1, .types = { [READ] = GDN_BF16 } },
    { "gdn2_1", 1, 1, 2, 33, 16, 1, VK, LOG, .length = 1, .reads = 1 },
    /* All of it, as models have it; types */
    { "qwen3_next", 40, 2, 4, 128, 32, 0, VK, ADD, 1e-6, 2e-3, RAW, BIAS, LOGIT,
      TYPES(GDN_BF16, GDN_BF16, GDN_F32, GDN_BF16) },
    { "kimi", 24, 2, 2, 128, 32, 1, KV, CLAMP, 0.5, 1, A_LOG, BIAS, LOGIT, .factor = 2,
      TYPES(GDN_F16, GDN_F16, GDN_F16, GDN_F16) },
    { "out_f16", 1, 1, 2, 64, 64, 0, VK, LOG, .length = 1, TYPES(GDN_F32, GDN_F32, GDN_F32, GDN_F16) },
    { "out_bf16", 3, 1, 2, 64, 64, 1, VK, RAW, .length = 1, TYPES(GDN_F16, GDN_F32, GDN_BF16, GDN_BF16) },
    { "state_f16", 1, 1, 2, 64, 32, 0, VK, LOG, .length = 1, .types = { [STATE] = GDN_F16 } },
    { "state_bf16", 5, 1, 2, 64, 32, 1, KV, LOG, .length = 1, .types = { [STATE] = GDN_BF16 } },
    /* Many tokens, of which the state remembers about a hundred */
    { "long", 2048, 1, 1, 128, 16, 0, VK, .g_form = GDN_G_LOG, .g = { -0.012, -0.008 }, .length = 1 },
    { "kda_long", 2048, 1, 1, 64, 16, 1, KV, .g_form = GDN_G_LOG, .g = { -0.012, -0.008 }, .length = 1 },
};

static void judge_target(gdn_context_desc *desc, const char *name)
{
    gdn_context *ctx = NULL;
    NEED(!gdn_context_create(desc, &ctx), "%s", name);
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) judge(ctx, name, &forms[f]);
    gdn_context_destroy(ctx);
}

int main(void)
{
    REQUIRE(each_target(ON_HOST, judge_target) >= 2);
    printf("the largest error is %.1f%% of its bound\n", 100 * worst);
    return test_summary();
}
