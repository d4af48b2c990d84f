/* test_elementary: functions of which the vector versions have a shorter way for groups of vectors with the usual
 * inputs, and inputs that all give the same. Included by test_elementary.c. */

/* A function with two ways, an input that asks for the longer one, and what all inputs lie beyond where they ask for it
 * themselves. Its result is no subnormal number: those take a processor fifty times as long. */
static const struct two_ways {
    const char *name;
    float longer, below, above;
} two_ways[] = {
    { "exp", 87.0f, -86.0f, 86.0f },
    { "silu", -81.0f, -80.0f, INFINITY },
    { "softplus", 21.0f, -20.0f, 20.0f },
};

static const struct two_ways *two_ways_of(const char *name)
{
    for (size_t i = 0; i < sizeof two_ways / sizeof two_ways[0]; i++)
        if (strcmp(two_ways[i].name, name) == 0) return &two_ways[i];
    return NULL;
}

/* Both branches have to give the same for every input. One input in EVERY is replaced by one that needs the longer
 * branch, so every group takes it. The replaced inputs follow in vectors that need it too. Neighbours that all need it
 * have taken it already. Many inputs are so small that the two branches differ in a constant only: of these, one block
 * in SELDOM is compared. */
static void compare_mixed(const struct two_ways *f, array_fn *fn, uint64_t index, const float *in, const float *want,
                          int n, bool neighbours, difference *d)
{
    enum { SELDOM = 16, EVERY = 32, REST = (BLOCK / EVERY + 2) / 3 * 4 };
    static _Thread_local _Alignas(64) float mixed[BLOCK], got[BLOCK], rest[REST], rest_got[REST];
    const float first = in[0], last = in[BLOCK - 1];
    const bool ask = (first < f->below && last < f->below) || (first > f->above && last > f->above),
               small = fabsf(first) < 0x1p-30f && fabsf(last) < 0x1p-30f;
    if (neighbours && (ask || (small && index / BLOCK % SELDOM))) return;
    for (int i = 0; i < BLOCK; i++) mixed[i] = i % EVERY ? in[i] : f->longer;
    for (int i = 0, of = 0; i < REST; i++) {
        rest[i] = i % 4 && of < BLOCK ? in[of] : f->longer;
        of += i % 4 ? EVERY : 0;
    }
    fn(mixed, got, BLOCK);
    fn(rest, rest_got, REST);
    for (int i = 0, of = 0; i < REST; i++)
        if (i % 4 && of < BLOCK) {
            got[of] = rest_got[i];
            of += EVERY;
        }
    compare(index, want, got, n, d);
}

/* Below these inputs the result is a constant: a clamp makes them one input, or a comparison with zero puts a NaN in
 * the result's place. But on the way there are subnormal numbers, which take a processor ten times as long: a third of
 * this test's time. */
static const struct constant {
    const char *name;
    float below;
} constants[] = {
    { "exp", -104.0f }, { "rsqrt", -0x1p-126f }, { "sigmoid", -110.0f }, { "silu", -110.0f }, { "softplus", -104.0f },
};

#if defined(__x86_64__)
enum { FLUSHES = true };
static gdn_float_env enter_flushing(void) { return gdn_float_env_enter_flushing(); }
#else
enum { FLUSHES = false };
static gdn_float_env enter_flushing(void) { return gdn_float_env_enter(); }
#endif

/* The constant, in the mode that flushes subnormal numbers or in the usual one. */
static float constant_of(const function *f, float below, bool flushing)
{
    float in[BLOCK], out[BLOCK];
    for (int i = 0; i < BLOCK; i++) in[i] = 2.0f * below;
    const gdn_float_env caller = flushing ? enter_flushing() : gdn_float_env_enter();
    f->expect[width](in, out);
    gdn_float_env_leave(caller);
    return out[0];
}

static void find_constant(work *w)
{
    w->below = -INFINITY;
    for (size_t i = 0; FLUSHES && i < sizeof constants / sizeof constants[0]; i++)
        if (strcmp(constants[i].name, w->f->name) == 0) {
            w->below = constants[i].below;
            w->constant = constant_of(w->f, w->below, false);
            w->flushed = constant_of(w->f, w->below, true);
        }
}

/* Neighbours below that bound. In the mode that flushes, which has no slow numbers, do the reference and every
 * instruction set give one constant for all of them? In the usual mode only the roundings after the clamp or before the
 * comparison differ. So it has one block in SELDOM, and the others get the reference's result there. */
static bool are_constant(const work *w, uint64_t index, const float *in, float *want)
{
    enum { SELDOM = 16 };
    static _Thread_local _Alignas(64) float flushed[BLOCK], got[BLOCK];
    if (!(in[0] < w->below && in[BLOCK - 1] < w->below) || index / BLOCK % SELDOM == 0) return false;
    for (int i = 0; i < BLOCK; i++) flushed[i] = w->flushed;
    const gdn_float_env caller = enter_flushing();
    w->f->expect[width](in, got);
    bool alike = memcmp(got, flushed, sizeof got) == 0;
    for (int k = 0; k < isa_count && alike; k++) {
        if (strcmp(isas[k].name, "scalar") == 0) continue;
        isas[k].fn[w->f_index](in, got, BLOCK);
        alike = memcmp(got, flushed, sizeof got) == 0;
    }
    gdn_float_env_leave(caller);
    for (int i = 0; i < BLOCK && alike; i++) want[i] = w->constant;
    return alike;
}

static void report(bool ok, const char *what, const char *function_name, const char *detail);

/* Each place of a group in turn has an input that the shorter way is not for. */
static void test_groups(int f_index)
{
    static const float odd[] = { -81.0f, 21.0f, -21.0f, 87.0f, -150.0f, INFINITY, -INFINITY, NAN };
    enum { ODD = sizeof odd / sizeof odd[0], N = 256 };
    static float in[BLOCK], want[BLOCK], got[BLOCK];
    const function *f = &functions[f_index];
    char text[200] = "one odd input in each place of a group";
    bool ok = true;
    for (int o = 0; o < ODD; o++) {
        for (int i = 0; i < BLOCK; i++) in[i] = i < N ? (float)(i % 29 - 14) * 0.37f : odd[o];
        f->expect[width](in, want);
        for (int place = 0; place < N; place++) {
            const float usual = in[place];
            in[place] = odd[o];
            for (int k = 0; k < isa_count; k++) {
                isas[k].fn[f_index](in, got, N);
                for (int i = 0; i < N; i++) {
                    const float expected = i == place ? want[N] : want[i];
                    if (same(got[i], expected)) continue;
                    if (ok)
                        snprintf(text, sizeof text, "%s, %a in place %d: f(%a) = %a, not %a", isas[k].name,
                                 (double)odd[o], place, (double)in[i], (double)got[i], (double)expected);
                    ok = false;
                }
            }
            in[place] = usual;
        }
    }
    report(ok, "groups", f->name, text);
}
