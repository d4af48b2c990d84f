/* The cases of test_accuracy.c: golden files, and random ones with the formulas in binary64 as their
 * yardstick. Part of test_accuracy.c. */

typedef struct any_case {
    char name[32];
    int is_conv;
    delta_case delta;
    conv_case conv;
    gdng_file file;   /* what the pointers of a golden case point into */
    void *memory[10]; /* and those of a random one */
    int n_memory;
} any_case;

static any_case cases[64];
static int case_count;

static int n_cases(void) { return case_count; }

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
    char path[1024];
    any_case *c = new_case(name);
    (void)snprintf(path, sizeof path, "%s/%s.bin", folder, name);
    if (gdng_load(&c->file, path)) {
        REQUIRE(0, "%s: %s", path, c->file.error);
        case_count--;
        return NULL;
    }
    return c;
}

static const float *need(any_case *c, const char *name)
{
    const float *data = gdng_f32(gdng_find(&c->file, name));
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

/* What the files of gated_delta_net have in common. NULL: there is no such file. *p: its sizes and switches. */
static any_case *load_golden_delta(const char *folder, const char *name, const char *g, const char *beta,
                                   const int32_t **p)
{
    any_case *c = load(folder, name);
    if (!c) return NULL;
    const int32_t *n = *p = gdng_i32(gdng_find(&c->file, "params"));
    delta_case *d = &c->delta;
    *d = (delta_case)FIELDS(.B = n[0], .T = n[1], .Hk = n[2], .Hv = n[3], .Sk = n[4], .Sv = n[5],
                            .bound_out = GOLDEN_BOUND, .bound_state = GOLDEN_BOUND);
    d->q = need(c, "q"), d->k = need(c, "k"), d->v = need(c, "v"), d->g = need(c, g), d->beta = need(c, beta);
    d->state_in = gdng_f32(gdng_find(&c->file, "state_in"));
    d->out = golden_yardstick(c, "out_ref64", "out_ref32", out_size(d));
    d->state = golden_yardstick(c, "state_out_ref64", "state_out_ref32", state_size(d));
    return c;
}

static void make_golden_delta(const char *folder, const char *name)
{
    const int32_t *p;
    any_case *c = load_golden_delta(folder, name, "g", "beta", &p);
    if (c) c->delta.channel = p[6];
}

/* With a call for each of the two things that ssm_a may hold. */
static void make_golden_forms(const char *folder, const char *name, int g_form)
{
    const int32_t *p;
    any_case *c = load_golden_delta(folder, name, "a", "b", &p);
    if (!c) return;
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
    if (!c) return;
    const int32_t *p = gdng_i32(gdng_find(&c->file, "params"));
    conv_case *d = &c->conv;
    c->is_conv = 1;
    *d = (conv_case){ .B = p[0], .T = p[1], .C = p[2], .kc = p[3], .silu = p[4], .bound = GOLDEN_BOUND };
    d->x = need(c, "x"), d->weight = need(c, "weight"), d->history_out = need(c, "history_out");
    d->bias = gdng_f32(gdng_find(&c->file, "bias"));
    d->history = gdng_f32(gdng_find(&c->file, "history"));
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

static void normalize(float *x, size_t rows, int n)
{
    for (size_t r = 0; r < rows; r++, x += n) {
        double sum = 1e-6;
        for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
        for (int i = 0; i < n; i++) x[i] = (float)((double)x[i] / sqrt(sum));
    }
}

/* The bounds of the random cases are about three times what the first release measured on x86-64, where all
 * implementations have the same bits and so the same errors. They grow with the number of tokens that the
 * state remembers, about 1 / -g of them, and not with the length of the sequence. */
static void make_random_delta(const char *name, int T, int Hk, int Hv, int Sk, int Sv, int channel, double g_low,
                              double g_high, int with_state, double bound_out, double bound_state)
{
    any_case *c = new_case(name);
    delta_case *d = &c->delta;
    *d = (delta_case)FIELDS(.B = 1, .T = T, .Hk = Hk, .Hv = Hv, .Sk = Sk, .Sv = Sv, .channel = channel,
                            .bound_out = bound_out, .bound_state = bound_state);
    const size_t tokens = (size_t)T;
    float *q = random_floats(c, tokens * (size_t)(Hk * Sk), -1, 1),
          *k = random_floats(c, tokens * (size_t)(Hk * Sk), -1, 1);
    normalize(q, tokens * (size_t)Hk, Sk);
    normalize(k, tokens * (size_t)Hk, Sk);
    d->q = q, d->k = k;
    d->v = random_floats(c, out_size(d), -1, 1);
    d->g = random_floats(c, tokens * (size_t)(Hv * (channel ? Sk : 1)), g_low, g_high);
    d->beta = random_floats(c, tokens * (size_t)Hv, 0, 1);
    if (with_state) d->state_in = random_floats(c, state_size(d), -1, 1);
    double *out = keep(c, out_size(d), 8), *state = keep(c, state_size(d), 8);
    delta_formula(d, out, state);
    d->out = (yardstick){ .values = out, .n = out_size(d) };
    d->state = (yardstick){ .values = state, .n = state_size(d) };
}

static void make_random_conv(const char *name, int T, int C, int kc, int silu, double size, double bound)
{
    any_case *c = new_case(name);
    conv_case *d = &c->conv;
    c->is_conv = 1;
    *d = (conv_case){ .B = 1, .T = T, .C = C, .kc = kc, .silu = silu, .bound = bound };
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
    /*                name              T  Hk Hv   Sk  Sv ch    g       state    out    state */
    make_random_delta("random_t1", 1, 1, 1, 16, 16, 0, -1.0, 0.0, 1, 1e-6, 1e-6);
    make_random_delta("random_t1_s256", 1, 1, 2, 256, 40, 0, -1.0, 0.0, 1, 1e-6, 1e-6);
    make_random_delta("random_r3", 20, 2, 6, 33, 21, 0, -0.5, 0.0, 1, 1e-6, 1e-6);
    make_random_delta("random_no_gate", 300, 1, 1, 64, 32, 0, 0.0, 0.0, 0, 1e-6, 1e-6);
    make_random_delta("random_s128", 300, 1, 1, 128, 32, 0, -0.1, 0.0, 1, 1e-6, 1e-6);
    make_random_delta("random_long", 4096, 1, 1, 128, 16, 0, -0.012, -0.008, 0, 1e-6, 1e-6);
    make_random_delta("random_longer", 4096, 1, 1, 64, 16, 0, -0.0012, -0.0008, 1, 1e-6, 1e-6);
    make_random_delta("random_kda", 100, 1, 2, 64, 32, 1, -2.0, 0.0, 1, 1e-6, 1e-6);
    make_random_delta("random_kda_long", 2048, 1, 1, 64, 16, 1, -0.012, -0.008, 0, 1e-6, 1e-6);
    make_random_conv("conv_k16", 50, 37, 16, 1, 1.0, 1e-6);
    make_random_conv("conv_k4_large", 33, 100, 4, 1, 30.0, 1e-6);
    make_random_conv("conv_k2", 1, 19, 2, 0, 1.0, 1e-6);
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
        gdng_free(&cases[i].file);
        while (cases[i].n_memory > 0) free(cases[i].memory[--cases[i].n_memory]);
    }
}
