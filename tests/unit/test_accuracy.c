/* Accuracy: are the kernels the functions that were published, and how far from them is binary32?
 *
 *   test_accuracy [GOLDEN_DIR [--verbose]]
 *
 * Bits are judged against the reference elsewhere; here the reference is judged too. The yardstick is in binary64: the
 * results of other implementations in tests/golden/, and for convolutions the formula, too. test_forms.c has the
 * formulas of gated_delta_net. An error is the largest difference, relative to the largest magnitude of the yardstick's
 * tensor. Every case has a bound and a control: the same call with its input off by 2^-12, which must break the bound.
 *
 * Golden files of forms have q, k and the gates as a layer's projections leave them, and the call prepares them. Their
 * bound is that of the others, because preparing costs little. In u = 2^-24, the norms of k and q take 4 u each, and
 * sigmoid 2 ulps or 4 u at most. g takes about 6 u of itself, of which exp(g) keeps |g| exp(g) <= 0.37, or 2.2 u. The
 * decays of many tokens together take no more, since they are the exp of a sum. The worst of all these at one element
 * would be 14 u, 8e-7. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/convert.h"
#include "tests/golden/golden.h"
#include "tests/harness.h"
#include "tests/unit/targets.h"
#include "check/case.h"
#include "check/kernel.h"

/* What README.md of the golden files promises of a binary32 kernel; about three times the error of the random
 * convolutions. */
#define BOUND 1e-6
/* What ggml's tests ask of its backends: the mean squared error over the mean square. */
#define NMSE_BOUND 1e-7
#define PERTURBED  (1.0f + 0x1p-12f)
/* In 16 bits that would be rounded away. */
#define PERTURBED_BF16 (1.0f + 0x1p-6f)

static int verbose;
static double worst;

/* Yardstick element i: golden files hold binary64, and binary32 for large tensors. Results of type BF16 may be off by
 * one rounding, half a unit in the last place of 8 bits, before the bound applies. */
typedef struct yardstick {
    const double *values;
    const gdng_tensor *golden;
    size_t n;
    int bf16;
} yardstick;

static double at(const yardstick *y, size_t i) { return y->values ? y->values[i] : gdng_at(y->golden, i); }

typedef struct errors {
    double relative, nmse;
} errors;

static errors measure(const float *x, const yardstick *y)
{
    double largest = 0, off = 0, squares = 0, off_squares = 0;
    for (size_t i = 0; i < y->n; i++) {
        const double want = at(y, i), rounding = y->bf16 && want != 0 ? ldexp(1, ilogb(want) - 8) : 0;
        const double far = fabs((double)x[i] - want) - rounding, e = far < 0 ? 0 : far;
        largest = fmax(largest, fabs(want));
        off = e > off || !(e == e) ? (e == e ? e : INFINITY) : off;
        squares += want * want;
        off_squares += e * e;
    }
    return (errors){ largest > 0 ? off / largest : off, squares > 0 ? off_squares / squares : off_squares };
}

static void require_close(const char *target, const char *name, const char *tensor, const float *x, const yardstick *y)
{
    const errors e = measure(x, y);
    worst = fmax(worst, e.relative / BOUND);
    REQUIRE(e.relative <= BOUND && e.nmse < NMSE_BOUND, "%s %s %s: error %.2e of %.0e, NMSE %.1e", target, name, tensor,
            e.relative, BOUND, e.nmse);
    if (verbose)
        printf("%-22s %-18s %-6s error %.2e of %.0e, NMSE %.1e\n", target, name, tensor, e.relative, BOUND, e.nmse);
}

static void require_far(const char *target, const char *name, const char *tensor, const float *x, const yardstick *y)
{
    const errors e = measure(x, y);
    REQUIRE(e.relative > BOUND, "%s %s %s with another input: error %.2e of %.0e", target, name, tensor, e.relative,
            BOUND);
}

/* ---- Running a kernel anywhere -------------------------------------------------------------------------- */

/* An operand or map: what it holds, NULL for one that is absent, where to put what it holds afterwards, its type. */
typedef struct part {
    const char *name;
    const void *data;
    size_t bytes;
    void *result;
    int32_t dtype;
} part;

/* 1 if it ran. */
static int run_kernel(gdn_context *ctx, const check_kernel *kernel, check_args *args, const part *parts, int n)
{
    gdn_span span[12] = { { 0 } }, *workspace = check_workspace(kernel, args);
    gdn_capability cap = { .size = sizeof cap };
    for (int i = 0; i < n; i++) {
        const check_operand *o = kernel->operand;
        while (strcmp(o->name, parts[i].name)) o++;
        if (!parts[i].data) continue;
        NEED(!gdn_buffer_create(ctx, parts[i].bytes, &span[i]));
        NEED(!gdn_buffer_write(ctx, &span[i], 0, parts[i].data, parts[i].bytes));
        if (o->n_axes == CHECK_MAP) *check_span(args, o) = span[i];
        else
            check_set_tensor(
                args, o->field,
                &(gdn_tensor){
                    .data = span[i].data, .offset = span[i].offset, .bytes = span[i].bytes, .dtype = parts[i].dtype });
    }
    gdn_status status = kernel->query(ctx, args, &cap);
    if (!status && cap.workspace_bytes) status = gdn_buffer_create(ctx, cap.workspace_bytes, workspace);
    if (!status) status = kernel->run(ctx, args, NULL);
    if (!status) status = gdn_synchronize(ctx, NULL);
    for (int i = 0; i < n; i++) {
        if (span[i].data && parts[i].result) NEED(!gdn_buffer_read(ctx, &span[i], 0, parts[i].result, parts[i].bytes));
        gdn_buffer_destroy(ctx, &span[i]);
    }
    gdn_buffer_destroy(ctx, workspace);
    return status == GDN_OK;
}

/* ---- gated_delta_net ------------------------------------------------------------------------------------- */

typedef struct delta_case {
    int B, T, Hk, Hv, Sk, Sv, channel;
    const float *q, *k, *v, *g, *beta;
    const float *state_in; /* [B][Hv][Sk][Sv], or NULL = zero */
    /* With forms, the call normalises q and k, and g and beta are the projections a and b. */
    int forms, g_form;
    const float *ssm_a, *dt_bias; /* [Hv]; ssm_a as g_form wants it */
    int32_t type;                 /* of q, k, v, g, beta and out; values of BF16 are exact in it */
    yardstick out, state;
} delta_case;

static size_t state_size(const delta_case *c) { return (size_t)c->B * (size_t)c->Hv * (size_t)c->Sk * (size_t)c->Sv; }

static size_t out_size(const delta_case *c) { return (size_t)c->B * (size_t)c->T * (size_t)c->Hv * (size_t)c->Sv; }

/* x in the type, rounded to nearest where that is BF16. */
static void *in_type(const float *x, size_t n, int32_t type)
{
    void *copy = check_alloc(4 * (uint64_t)n);
    for (size_t i = 0; i < n && type == GDN_BF16; i++) ((uint16_t *)copy)[i] = gdn_to_bf16(x[i]);
    if (type == GDN_F32) memcpy(copy, x, n * 4);
    return copy;
}

/* n elements of the type at x become binary32 in place. */
static void widen(float *x, size_t n, int32_t type)
{
    for (size_t i = n; i-- > 0 && type == GDN_BF16;) {
        uint16_t half;
        memcpy(&half, (const char *)x + 2 * i, 2);
        x[i] = gdn_from_bf16(half);
    }
}

/* 1 if it ran. v_factor perturbs; head_map is the right one or not. */
static int run_delta(gdn_context *ctx, const delta_case *c, float v_factor, int head_map, float *out, float *state)
{
    const size_t tokens = (size_t)c->B * (size_t)c->T, n_q = tokens * (size_t)(c->Hk * c->Sk);
    const size_t n_v = out_size(c), n_beta = tokens * (size_t)c->Hv, n_g = n_beta * (size_t)(c->channel ? c->Sk : 1);
    const size_t element = c->type == GDN_BF16 ? 2 : 4, n_heads = (size_t)c->Hv;
    const gdn_gated_delta_net_args call =
        FIELDS(.size = sizeof call, .n_seqs = c->B, .n_tokens = c->B * c->T, .n_heads_k = c->Hk, .n_heads_v = c->Hv,
               .head_dim_k = c->Sk, .head_dim_v = c->Sv, .head_map = head_map,
               .gate = c->channel ? GDN_GATE_CHANNEL : GDN_GATE_SCALAR, .state_layout = GDN_STATE_KV, .n_snapshots = 1,
               .scale = (float)(1.0 / sqrt((double)c->Sk)), .state = { .n_rows = c->B, .n_slots = 1 });
    check_args a = { .gated_delta_net = { .args = call } };
    if (c->forms)
        a.gated_delta_net.inputs =
            (gdn_delta_inputs)FIELDS(.size = sizeof(gdn_delta_inputs), .qk_norm = GDN_NORM_ADD, .qk_norm_eps = 1e-6f,
                                     .gate_input = c->g_form, .beta_input = GDN_BETA_LOGIT, .beta_factor = 1);
    float *scaled = check_alloc(4 * (uint64_t)n_v), *start = check_alloc(4 * (uint64_t)state_size(c));
    for (size_t i = 0; i < n_v; i++) scaled[i] = c->v[i] * v_factor;
    /* A slot that holds NaN, for GDN_NONE must not look at it. */
    for (size_t i = 0; i < state_size(c); i++) start[i] = c->state_in ? c->state_in[i] : NAN;
    int32_t *none = check_alloc(4 * (uint64_t)c->B);
    for (int b = 0; b < c->B; b++) none[b] = c->state_in ? b : GDN_NONE;
    void *q = in_type(c->q, n_q, c->type), *k = in_type(c->k, n_q, c->type), *v = in_type(scaled, n_v, c->type);
    void *g = in_type(c->g, n_g, c->type), *beta = in_type(c->beta, n_beta, c->type);
    const part parts[] = {
        { "q", q, n_q * element, NULL, c->type },
        { "k", k, n_q * element, NULL, c->type },
        { "v", v, n_v * element, NULL, c->type },
        { "beta", beta, n_beta * element, NULL, c->type },
        { "g", g, n_g * element, NULL, c->type },
        { "inputs.ssm_a", c->ssm_a, n_heads * 4, NULL, GDN_F32 },
        { "inputs.dt_bias", c->dt_bias, n_heads * 4, NULL, GDN_F32 },
        { "out", v, n_v * element, out, c->type },
        { "state", start, state_size(c) * 4, state, GDN_F32 },
        { "state_src", none, (size_t)c->B * 4, NULL, GDN_I32 },
    };
    const int ran = run_kernel(ctx, &check_kernel_gated_delta_net, &a, parts, sizeof parts / sizeof parts[0]);
    widen(out, n_v, c->type);
    void *const memory[] = { q, k, v, g, beta, scaled, start, none };
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) free(memory[i]);
    return ran;
}

static void delta_judge(gdn_context *ctx, const char *target, const char *name, const delta_case *c)
{
    float *out = check_alloc(4 * (uint64_t)out_size(c)), *state = check_alloc(4 * (uint64_t)state_size(c));
    const int ran = run_delta(ctx, c, 1.0f, GDN_HEADS_GROUPED, out, state);
    REQUIRE(ran, "%s %s", target, name);
    if (ran) {
        require_close(target, name, "out", out, &c->out);
        require_close(target, name, "state", state, &c->state);
        if (run_delta(ctx, c, c->type == GDN_BF16 ? PERTURBED_BF16 : PERTURBED, GDN_HEADS_GROUPED, out, state)) {
            require_far(target, name, "out", out, &c->out);
            require_far(target, name, "state", state, &c->state);
        }
        if (c->Hk > 1 && c->Hk < c->Hv && run_delta(ctx, c, 1.0f, GDN_HEADS_TILED, out, state))
            require_far(target, name, "out", out, &c->out);
    }
    free(out);
    free(state);
}

/* ---- ssm_conv ----------------------------------------------------------------------------------------------- */

typedef struct conv_case {
    int B, T, C, kc, silu;
    const float *x, *weight, *bias, *history; /* history [B][kc - 1][C], oldest first; NULL = zero */
    yardstick out;
    const float *history_out; /* likewise, after the call */
} conv_case;

/* With history: the first token is at a position where the ring has gone round. */
static int first_position(const conv_case *c) { return c->history ? 3 * (c->kc + 1) + 1 : 0; }

static int run_conv(gdn_context *ctx, const conv_case *c, float x_factor, int reversed, float *out, float *ring)
{
    const int W = c->kc + 1, P = first_position(c); /* two columns more than the kernel looks back */
    const size_t n = (size_t)c->B * (size_t)c->T * (size_t)c->C, n_ring = (size_t)c->B * (size_t)W * (size_t)c->C;
    const gdn_ssm_conv_args call =
        FIELDS(.size = sizeof call, .n_seqs = c->B, .n_tokens = c->B * c->T, .n_channels = c->C, .kernel_width = c->kc,
               .activation = c->silu ? GDN_ACTIVATION_SILU : GDN_ACTIVATION_NONE,
               .history = { .n_rows = c->B, .n_slots = W });
    check_args a = { .ssm_conv = { .args = call } };
    float *x = check_alloc(4 * (uint64_t)n);
    for (size_t i = 0; i < n; i++) x[i] = c->x[i] * x_factor;
    for (size_t i = 0; i < n_ring; i++) ring[i] = NAN; /* columns that the call has no business to read */
    for (int b = 0; b < c->B && c->history; b++)
        for (int j = 0; j < c->kc - 1; j++) {
            const int p = P - (c->kc - 1) + (reversed ? c->kc - 2 - j : j);
            memcpy(ring + (size_t)(b * W + p % W) * (size_t)c->C,
                   c->history + (size_t)(b * (c->kc - 1) + j) * (size_t)c->C, (size_t)c->C * 4);
        }
    int32_t *position = check_alloc(4 * (uint64_t)c->B);
    for (int b = 0; b < c->B; b++) position[b] = P;
    const part parts[] = {
        { "x", x, n * 4, NULL, GDN_F32 },
        { "weight", c->weight, (size_t)(c->C * c->kc) * 4, NULL, GDN_F32 },
        { "bias", c->bias, (size_t)c->C * 4, NULL, GDN_F32 },
        { "out", x, n * 4, out, GDN_F32 },
        { "history", ring, n_ring * 4, ring, GDN_F32 },
        { "position", position, (size_t)c->B * 4, NULL, GDN_I32 },
    };
    const int ran = run_kernel(ctx, &check_kernel_ssm_conv, &a, parts, sizeof parts / sizeof parts[0]);
    free(x);
    free(position);
    return ran;
}

static void conv_judge(gdn_context *ctx, const char *target, const char *name, const conv_case *c)
{
    const int W = c->kc + 1, P = first_position(c);
    float *out = check_alloc(4 * (uint64_t)(c->B * c->T * c->C));
    float *ring = check_alloc(4 * (uint64_t)(c->B * W * c->C));
    const int ran = run_conv(ctx, c, 1.0f, 0, out, ring);
    REQUIRE(ran, "%s %s", target, name);
    if (ran) {
        require_close(target, name, "out", out, &c->out);
        /* The history is a copy, so equal in bits. What lies before position 0 is zero and not kept. */
        for (int b = 0; b < c->B && c->history_out; b++)
            for (int j = 0; j < c->kc - 1; j++) {
                const int p = P + c->T - (c->kc - 1) + j;
                const float *want = c->history_out + (size_t)(b * (c->kc - 1) + j) * (size_t)c->C;
                REQUIRE(p < 0 || !memcmp(ring + (size_t)(b * W + p % W) * (size_t)c->C, want, (size_t)c->C * 4),
                        "%s %s: the history at position %d of sequence %d", target, name, p, b);
            }
        if (run_conv(ctx, c, PERTURBED, 0, out, ring)) require_far(target, name, "out", out, &c->out);
        if (c->history && c->kc > 2 && run_conv(ctx, c, 1.0f, 1, out, ring))
            require_far(target, name, "out", out, &c->out);
    }
    free(out);
    free(ring);
}

/* ---- Cases: golden files, and random convolutions ----------------------------------------------------------- */

typedef struct any_case {
    char name[32];
    int is_conv;
    delta_case delta;
    conv_case conv;
    gdng_file file;  /* what the pointers of a golden case point into */
    void *memory[4]; /* and those of a random one */
    int n_memory;
} any_case;

static any_case cases[64];
static int case_count;

static any_case *new_case(const char *name)
{
    any_case *c = &cases[case_count++];
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

static void *keep(any_case *c, size_t n, size_t bytes) { return c->memory[c->n_memory++] = check_alloc(n * bytes); }

/* ---- Golden files ------------------------------------------------------------------------------------------- */

static const char *const golden_delta[] = { "gdn_t1_s16_r2",  "gdn_t3_b2",     "gdn_t7_s32",    "gdn_t64_s16",
                                            "gdn_t3_s64",     "gdn_t4_s128",   "gdn_t5_s32x48", "gdn_t200_slow",
                                            "gdn_t7_fast_r3", "kda_t12_s16_r2" };
static const char *const golden_forms[] = { "forms_t1",      "forms_t1_zero", "forms_t5_b2",   "forms_t5_zero",
                                            "forms_t5_bf16", "forms_t70",     "forms_t70_zero" };
static const char *const golden_conv[] = { "conv_k4_t1",  "conv_k4_t5", "conv_k4_t5_lin",
                                           "conv_k4_t37", "conv_k3_t1", "conv_k3_t5" };

static any_case *load(const char *folder, const char *name)
{
    char file[64];
    any_case *c = new_case(name);
    (void)snprintf(file, sizeof file, "%s.bin", name);
    gdng_load(&c->file, folder, file);
    return c;
}

static const float *need(any_case *c, const char *name)
{
    const float *data = gdng_data(&c->file, name, GDNG_F32);
    NEED(data, "%s has no float32 tensor %s", c->name, name);
    return data;
}

static yardstick golden_yardstick(any_case *c, const char *name64, const char *name32, size_t n)
{
    const gdng_tensor *t = gdng_find(&c->file, name64);
    t = t ? t : gdng_find(&c->file, name32);
    NEED(t && t->count == n, "%s has no %s of %zu elements", c->name, name64, n);
    return (yardstick){ .golden = t, .n = n };
}

/* What the files of gated_delta_net have in common. *p: its sizes and switches. */
static any_case *load_golden_delta(const char *folder, const char *name, const char *g, const char *beta,
                                   const int32_t **p)
{
    any_case *c = load(folder, name);
    const int32_t *n = *p = gdng_data(&c->file, "params", GDNG_I32);
    delta_case *d = &c->delta;
    *d = (delta_case)FIELDS(.B = n[0], .T = n[1], .Hk = n[2], .Hv = n[3], .Sk = n[4], .Sv = n[5]);
    d->q = need(c, "q"), d->k = need(c, "k"), d->v = need(c, "v"), d->g = need(c, g), d->beta = need(c, beta);
    d->state_in = gdng_data(&c->file, "state_in", GDNG_F32);
    d->out = golden_yardstick(c, "out_ref64", "out_ref32", out_size(d));
    d->state = golden_yardstick(c, "state_out_ref64", "state_out_ref32", state_size(d));
    return c;
}

static void make_golden_delta(const char *folder, const char *name)
{
    const int32_t *p;
    any_case *c = load_golden_delta(folder, name, "g", "beta", &p);
    c->delta.channel = p[6];
}

/* With a call for each of the two things that ssm_a may hold. */
static void make_golden_forms(const char *folder, const char *name, int g_form)
{
    const int32_t *p;
    any_case *c = load_golden_delta(folder, name, "a", "b", &p);
    delta_case *d = &c->delta;
    d->forms = 1, d->g_form = g_form, d->type = p[7] ? GDN_BF16 : GDN_F32;
    d->ssm_a = need(c, "A_log"), d->dt_bias = need(c, "dt_bias");
    if (g_form == GDN_G_RAW) {
        float *rate = keep(c, (size_t)d->Hv, 4);
        for (int h = 0; h < d->Hv; h++) rate[h] = (float)-exp((double)d->ssm_a[h]);
        d->ssm_a = rate;
        (void)snprintf(c->name, sizeof c->name, "%s, rate", name);
    }
    d->out.bf16 = d->type == GDN_BF16;
}

static void make_golden_conv(const char *folder, const char *name)
{
    any_case *c = load(folder, name);
    const int32_t *p = gdng_data(&c->file, "params", GDNG_I32);
    conv_case *d = &c->conv;
    c->is_conv = 1;
    *d = (conv_case){ .B = p[0], .T = p[1], .C = p[2], .kc = p[3], .silu = p[4] };
    d->x = need(c, "x"), d->weight = need(c, "weight"), d->history_out = need(c, "history_out");
    d->bias = gdng_data(&c->file, "bias", GDNG_F32);
    d->history = gdng_data(&c->file, "history", GDNG_F32);
    d->out = golden_yardstick(c, "out_ref64", "out_ref32", (size_t)(d->B * d->T * d->C));
}

/* ---- Random cases --------------------------------------------------------------------------------------------- */

static double uniform(double low, double high) { return low + (high - low) * draw_unit(); }

static float *random_floats(any_case *c, size_t n, double low, double high)
{
    float *x = keep(c, n, 4);
    for (size_t i = 0; i < n; i++) x[i] = (float)uniform(low, high);
    return x;
}

static void make_random_conv(const char *name, int T, int C, int kc, int silu, double size)
{
    any_case *c = new_case(name);
    conv_case *d = &c->conv;
    c->is_conv = 1;
    *d = (conv_case){ .B = 1, .T = T, .C = C, .kc = kc, .silu = silu };
    const int past = kc - 1;
    /* One signal per channel: the past and then this call's tokens. */
    float *signal = random_floats(c, (size_t)((past + T) * C), -size, size);
    float *weight = random_floats(c, (size_t)(C * kc), -1, 1), *bias = random_floats(c, (size_t)C, -1, 1);
    double *out = keep(c, (size_t)(T * C), 8);
    for (int t = 0; t < T; t++)
        for (int ch = 0; ch < C; ch++) {
            double u = bias[ch];
            for (int tap = 0; tap < kc; tap++) u += (double)weight[ch * kc + tap] * (double)signal[(t + tap) * C + ch];
            out[t * C + ch] = silu ? u / (1 + exp(-u)) : u;
        }
    d->history = signal, d->x = signal + past * C, d->weight = weight, d->bias = bias;
    d->history_out = signal + T * C;
    d->out = (yardstick){ .values = out, .n = (size_t)(T * C) };
}

static void make_cases(const char *golden)
{
    for (size_t i = 0; i < sizeof golden_delta / sizeof golden_delta[0]; i++)
        make_golden_delta(golden, golden_delta[i]);
    for (size_t i = 0; i < sizeof golden_forms / sizeof golden_forms[0]; i++) {
        make_golden_forms(golden, golden_forms[i], GDN_G_RAW_A_LOG);
        make_golden_forms(golden, golden_forms[i], GDN_G_RAW);
    }
    for (size_t i = 0; i < sizeof golden_conv / sizeof golden_conv[0]; i++) make_golden_conv(golden, golden_conv[i]);
    make_random_conv("conv_k16", 50, 37, 16, 1, 1.0);
    make_random_conv("conv_k4_large", 33, 100, 4, 1, 30.0);
    make_random_conv("conv_k2", 1, 19, 2, 0, 1.0);
}

static void judge_cases(gdn_context *ctx, const char *target)
{
    for (int i = 0; i < case_count; i++) {
        if (cases[i].is_conv) conv_judge(ctx, target, cases[i].name, &cases[i].conv);
        else delta_judge(ctx, target, cases[i].name, &cases[i].delta);
    }
}

static void free_cases(void)
{
    for (int i = 0; i < case_count; i++) {
        free(cases[i].file.block);
        while (cases[i].n_memory > 0) free(cases[i].memory[--cases[i].n_memory]);
    }
}

/* ---- Targets ------------------------------------------------------------------------------------------------ */

static void judge_target(gdn_context_desc *desc, const char *name)
{
    gdn_context *ctx = NULL;
    const gdn_status status = gdn_context_create(desc, &ctx);
    REQUIRE(!status, "%s", name);
    if (!status) judge_cases(ctx, name);
    gdn_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    verbose = argc > 2 && !strcmp(argv[2], "--verbose");
    make_cases(argc > 1 ? argv[1] : "tests/golden");
    const int n_targets = each_target(ON_ALL, judge_target);
    printf("%d cases on %d implementations: the largest error is %.0f%% of its bound\n", case_count, n_targets,
           100 * worst);
    free_cases();
    return test_summary();
}
