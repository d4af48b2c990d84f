/* The self-test. Each corruption is applied to random cases until it has taken effect a few times, and each
 * time the comparison must say so. Corruptions of results change the images that came back; corruptions of
 * calls make the target compute something else than the reference did, as a wrong kernel would. */
#include "selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "environment.h"
#include "tools/cli/json.h"
#include "suite.h"
#include "trial.h"

enum { WANTED = 8, ATTEMPTS = 400 };

static struct {
    check_target *reference, *target;
    uint64_t seed;
    int json;
    int passed, failed;
} self;

static void verdict(const char *kernel, const char *name, int good, const char *how)
{
    good ? self.passed++ : self.failed++;
    if (!self.json)
        printf("%-6s %-16s %s%s%s\n", good ? "ok" : "FAILED", kernel, name, good ? "" : ": ", good ? "" : how);
}

/* ---- corruptions of results: 1 if one was made -------------------------------------------------------------- */

typedef int (*corrupt_fn)(const check_case *c, unsigned char *const *image, check_rng *rng);

static int pick_memory(const check_case *c, int written, check_rng *rng)
{
    for (int attempt = 0; attempt < 50; attempt++) {
        const int m = check_between(rng, 0, c->n_memories - 1);
        if (c->memory[m].body && (!written || c->memory[m].n_ranges)) return m;
    }
    return -1;
}

static const check_view *view_of(const check_case *c, int memory)
{
    for (int i = 0; i < c->n_views; i++)
        if (c->view[i].memory == memory) return &c->view[i];
    return NULL;
}

/* A part of a memory that the call may write, and which memory that is; NULL: none was met. */
static const uint64_t *pick_range(const check_case *c, check_rng *rng, int *m)
{
    *m = pick_memory(c, 1, rng);
    return *m < 0 ? NULL : c->memory[*m].range[check_between(rng, 0, c->memory[*m].n_ranges - 1)];
}

static int flip_bit(const check_case *c, unsigned char *const *image, check_rng *rng)
{
    int m;
    const uint64_t *range = pick_range(c, rng, &m);
    if (!range) return 0;
    const check_view *v = view_of(c, m);
    const uint64_t unit = check_unit_bytes(v->dtype),
                   at = range[0] + unit * (check_next(rng) % ((range[1] - range[0]) / unit));
    if (v->dtype != GDN_Q8_0 && check_is_nan(image[m] + at, v->dtype)) return 0; /* another NaN would be as good */
    if (v->dtype == GDN_Q8_0) {
        image[m][at + 2 + check_next(rng) % 32] ^= (unsigned char)(1u << check_next(rng) % 8);
        return 1;
    }
    image[m][at + check_next(rng) % unit] ^= (unsigned char)(1u << check_next(rng) % 8);
    return 1;
}

static int write_gap(const check_case *c, unsigned char *const *image, check_rng *rng)
{
    const int m = pick_memory(c, 0, rng);
    for (int attempt = 0; m >= 0 && attempt < 60; attempt++) {
        const uint64_t at = c->memory[m].before + check_next(rng) % c->memory[m].body;
        if (check_is_gap(c, m, at)) {
            image[m][at] ^= (unsigned char)(1u << check_next(rng) % 8);
            return 1;
        }
    }
    return 0;
}

static int write_canary_before(const check_case *c, unsigned char *const *image, check_rng *rng)
{
    const int m = pick_memory(c, 0, rng);
    if (m < 0 || !c->memory[m].before) return 0;
    image[m][c->memory[m].before - 1 - check_next(rng) % 64] ^= 0x10;
    return 1;
}

static int write_canary_after(const check_case *c, unsigned char *const *image, check_rng *rng)
{
    const int m = pick_memory(c, 0, rng);
    if (m < 0 || c->memory[m].bytes == c->memory[m].before + c->memory[m].body) return 0;
    image[m][c->memory[m].before + c->memory[m].body + check_next(rng) % 64] ^= 0x10;
    return 1;
}

static int write_input(const check_case *c, unsigned char *const *image, check_rng *rng)
{
    const int m = pick_memory(c, 0, rng);
    if (m < 0 || c->memory[m].written) return 0;
    image[m][c->memory[m].before + check_next(rng) % c->memory[m].body] ^= 1;
    return 1;
}

/* A row of out, a line of a snapshot, a row of dst is what it was before the call. */
static int drop_write(const check_case *c, unsigned char *const *image, check_rng *rng)
{
    int m;
    const uint64_t *range = pick_range(c, rng, &m);
    if (!range) return 0;
    const check_memory *memory = &c->memory[m];
    if (!memcmp(image[m] + range[0], memory->image + range[0], range[1] - range[0]))
        return 0; /* it computed what was there */
    memcpy(image[m] + range[0], memory->image + range[0], range[1] - range[0]);
    return 1;
}

typedef uint32_t (*change_fn)(uint32_t bits);
static uint32_t other_zero(uint32_t bits) { return bits & 0x7FFFFFFF ? bits : bits ^ 0x80000000; }
static uint32_t nan_for_infinity(uint32_t bits) { return (bits & 0x7FFFFFFF) == 0x7F800000 ? 0x7FC00000 : bits; }
static uint32_t flushed(uint32_t bits) { return bits & 0x7F800000 ? bits : bits & 0x80000000; }
static uint32_t other_nan(uint32_t bits) { return (bits & 0x7FFFFFFF) > 0x7F800000 ? 0xFFC12345 : bits; }

/* The first F32 result of a memory that `change` makes another one of. */
static int change_result(const check_case *c, unsigned char *const *image, check_rng *rng, change_fn change)
{
    const int m = pick_memory(c, 1, rng);
    if (m < 0 || view_of(c, m)->dtype != GDN_F32) return 0;
    for (int i = 0; i < c->memory[m].n_ranges; i++)
        for (uint64_t at = c->memory[m].range[i][0]; at < c->memory[m].range[i][1]; at += 4) {
            uint32_t bits;
            memcpy(&bits, image[m] + at, 4);
            if (change(bits) != bits) {
                bits = change(bits);
                memcpy(image[m] + at, &bits, 4);
                return 1;
            }
        }
    return 0;
}

static const struct result_corruption {
    const char *name;
    corrupt_fn corrupt; /* or NULL: one result by `change` */
    int noticed;        /* by the comparison                           */
    int confined;       /* and by the check of what may change at all  */
    change_fn change;
} result_corruptions[] = {
    { "a bit of a result is flipped", flip_bit, 1, 0 },
    { "a byte in a gap or a canary beside it is written", write_gap, 1, 1 },
    { "a byte before an operand is written", write_canary_before, 1, 1 },
    { "a byte after an operand is written", write_canary_after, 1, 1 },
    { "a byte of an input is written", write_input, 1, 1 },
    { "a row, snapshot or column is not written", drop_write, 1, 0 },
    { "-0 instead of +0, or the other way", NULL, 1, 0, other_zero },
    { "NaN instead of infinity", NULL, 1, 0, nan_for_infinity },
    { "a subnormal result is flushed to zero", NULL, 1, 0, flushed },
    { "another NaN (which is allowed)", NULL, 0, 0, other_nan },
};

static void begin_random(check_case *c, const check_suite *suite, check_rng *rng)
{
    static const check_threads two = { 2, { 1, 2 } };
    check_setting setting;
    check_setting_random(&setting, &two, rng);
    setting.environment = 0;
    check_case_begin(c, suite->kernel, &setting);
    check_random(suite, c, rng);
}

/* The memories of a case, each with what is in image. */
static void copy_images(const check_case *c, unsigned char *const *image, unsigned char **copy)
{
    for (int m = 0; m < c->n_memories; m++) {
        copy[m] = check_alloc(c->memory[m].bytes);
        memcpy(copy[m], image[m], c->memory[m].bytes);
    }
}

static void free_images(const check_case *c, unsigned char **copy)
{
    for (int m = 0; m < c->n_memories; m++) free(copy[m]);
}

static void corrupt_results(const check_suite *suite)
{
    const char *kernel = suite->kernel->name;
    enum { N = sizeof result_corruptions / sizeof result_corruptions[0] };
    int made[N] = { 0 }, missed[N] = { 0 }, clean = 0, dirty = 0;
    check_result expected, result;
    memset(&expected, 0, sizeof expected);
    memset(&result, 0, sizeof result);
    for (int i = 0; i < ATTEMPTS; i++) {
        check_rng rng = { check_mix(check_mix_text(self.seed, kernel), (uint64_t)i) };
        check_case c;
        check_text text = { "", 0 };
        begin_random(&c, suite, &rng);
        if (!check_expect(self.reference, &c, NULL, &expected, &text) ||
            check_judge(self.target, &c, &expected, &result, &text) != CHECK_RAN)
            dirty++;
        else {
            clean++;
            for (int n = 0; n < N; n++) {
                const struct result_corruption *of = &result_corruptions[n];
                unsigned char *saved[CHECK_MAX_MEMORIES];
                if (made[n] >= WANTED) continue;
                copy_images(&c, result.image, saved);
                if (of->corrupt ? of->corrupt(&c, saved, &rng) : change_result(&c, saved, &rng, of->change)) {
                    made[n]++;
                    const int noticed = check_compare(&c, expected.image, saved, &text) != 0,
                              by_digest = check_digest(&c, saved) != check_digest(&c, expected.image);
                    if (noticed != of->noticed || by_digest != noticed) missed[n]++;
                    else if (of->confined && !check_confined(&c, saved, &text)) missed[n]++;
                }
                free_images(&c, saved);
            }
        }
        check_case_free(&c);
    }
    verdict(kernel, "results that are left alone pass", clean && !dirty, "some did not, or none ran");
    for (int n = 0; n < N; n++)
        verdict(kernel, result_corruptions[n].name, made[n] && !missed[n], made[n] ? "not noticed" : "never happened");
    check_result_free(&expected);
    check_result_free(&result);
}

/* ---- corruptions of calls: 1 if the target is to run it ----------------------------------------------------- */

typedef int (*mislead_fn)(check_case *c);

/* Entry i of a map, or of the first batch of set_rows' index. */
static unsigned char *entry_at(const check_case *c, const check_view *v, int64_t i)
{
    return c->memory[v->memory].image + c->memory[v->memory].before + v->first + i * v->stride[v->rank == 1 ? 0 : 2];
}

static int64_t get_entry(const check_case *c, const check_view *v, int64_t i)
{
    return check_load_index(entry_at(c, v, i), v->dtype);
}

static void put_entry(check_case *c, const check_view *v, int64_t i, int64_t value)
{
    check_store_index(entry_at(c, v, i), v->dtype, value);
}

static int replace_entries(check_case *c, const char *map, int64_t from, int64_t to)
{
    const check_view *v = check_find(c, map);
    int n = 0;
    for (int64_t i = 0; v && i < v->extent[v->rank == 1 ? 0 : 2]; i++)
        if (get_entry(c, v, i) == from) {
            put_entry(c, v, i, to);
            n++;
        }
    return n;
}

static int not_rolled_back(check_case *c)
{
    const check_view *v = check_find(c, "position");
    for (int64_t i = 0; v && i < v->extent[0]; i++)
        if (get_entry(c, v, i) < INT32_MAX - 100) put_entry(c, v, i, get_entry(c, v, i) + 1);
    return v != NULL;
}

static int oldest_snapshot_first(check_case *c)
{
    const check_view *v = check_find(c, "state_dst");
    for (int64_t i = 0; v && i < v->extent[0] / 2; i++) {
        const int64_t a = get_entry(c, v, i), b = get_entry(c, v, v->extent[0] - 1 - i);
        put_entry(c, v, i, b);
        put_entry(c, v, v->extent[0] - 1 - i, a);
    }
    return v && v->extent[0] > 1;
}

static int other_head_map(check_case *c)
{
    gdn_gated_delta_net_args *a = &c->args.gated_delta_net.args;
    if (c->kernel != &check_kernel_gated_delta_net || a->n_heads_k == 1 || a->n_heads_v == a->n_heads_k)
        return 0; /* both maps are the same */
    a->head_map ^= 1;
    return 1;
}

static int other_flags(check_case *c)
{
    if (c->kernel != &check_kernel_ssm_conv) return 0;
    c->args.ssm_conv.args.activation ^= GDN_ACTIVATION_SILU;
    return 1;
}

static int first_row_wins(check_case *c)
{
    const check_view *v = check_find(c, "index");
    int n = 0;
    for (int64_t i = 1; v && i < v->extent[2]; i++)
        for (int64_t j = 0; j < i; j++)
            if (get_entry(c, v, i) >= 0 && get_entry(c, v, i) == get_entry(c, v, j)) {
                put_entry(c, v, i, GDN_NONE);
                n++;
                break;
            }
    return n;
}

static const struct call_corruption {
    const char *kernel, *name; /* NULL: both kernels that have a pool */
    mislead_fn mislead;        /* or NULL: entries of these maps are replaced */
    const char *maps[2];
    int64_t from, to;
} call_corruptions[] = {
    { NULL, "GDN_NONE as a source is taken for row 0", NULL, { "state_src", "history_src" }, GDN_NONE, 0 },
    { NULL, "GDN_NONE as a target is taken for row 0", NULL, { "state_dst", "history_dst" }, GDN_NONE, 0 },
    { NULL, "GDN_SKIP is taken for GDN_NONE", NULL, { "state_src", "history_src" }, GDN_SKIP, GDN_NONE },
    { "gated_delta_net", "snapshots go where others belong", oldest_snapshot_first },
    { "gated_delta_net", "heads are mapped the other way", other_head_map },
    { "ssm_conv", "the convolution is not rolled back", not_rolled_back },
    { "ssm_conv", "SiLU is done or not against the flag", other_flags },
    { "set_rows", "the first of two rows with one target wins", first_row_wins },
    { "set_rows", "GDN_NONE is taken for row 0", NULL, { "index", "" }, GDN_NONE, 0 },
};

static int mislead(const struct call_corruption *of, check_case *c)
{
    if (of->mislead) return of->mislead(c);
    return replace_entries(c, of->maps[0], of->from, of->to) + replace_entries(c, of->maps[1], of->from, of->to);
}

/* Run c misled, and compare with what the true c gives. The misleading maps are put back before. */
static int is_noticed(check_case *c, const check_result *expected, const struct call_corruption *of, int *ran)
{
    unsigned char *truth[CHECK_MAX_MEMORIES];
    check_result result;
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_args args = c->args;
    memset(&result, 0, sizeof result);
    check_initial(c, image);
    copy_images(c, image, truth);
    *ran = 0;
    int noticed = 0;
    if (mislead(of, c)) {
        check_target_run(self.target, c, &result);
        *ran = result.outcome == CHECK_RAN; /* maps that broke a rule are refused */
        for (int m = 0; *ran && m < c->n_memories; m++)
            if (!c->memory[m].written) memcpy(result.image[m], truth[m], c->memory[m].bytes);
    }
    for (int m = 0; m < c->n_memories; m++) memcpy(c->memory[m].image, truth[m], c->memory[m].bytes);
    free_images(c, truth);
    c->args = args;
    if (*ran) noticed = check_compare(c, expected->image, result.image, NULL) != 0;
    check_result_free(&result);
    return noticed;
}

static void corrupt_calls(const check_suite *suite)
{
    const char *kernel = suite->kernel->name;
    check_result expected;
    memset(&expected, 0, sizeof expected);
    for (size_t n = 0; n < sizeof call_corruptions / sizeof call_corruptions[0]; n++) {
        int noticed = 0, made = 0;
        const char *of = call_corruptions[n].kernel;
        if (of ? strcmp(of, kernel) != 0 : strcmp(kernel, "set_rows") == 0) continue;
        for (int i = 0; i < ATTEMPTS && noticed < WANTED; i++) {
            check_rng rng = { check_mix(check_mix_text(self.seed, kernel), 7000u + (uint64_t)i) };
            check_case c;
            check_text text = { "", 0 };
            int ran = 0;
            begin_random(&c, suite, &rng);
            if (check_expect(self.reference, &c, NULL, &expected, &text)) {
                noticed += is_noticed(&c, &expected, &call_corruptions[n], &ran);
                made += ran;
            }
            check_case_free(&c);
        }
        /* A wrong source or target may happen to make no difference, but not nearly always. */
        verdict(kernel, call_corruptions[n].name, noticed >= WANTED && 4 * noticed >= made, "noticed too rarely");
    }
    check_result_free(&expected);
}

/* ---- a caller's floating-point mode that is not restored ------------------------------------------------------ */

static gdn_status (*true_run)(gdn_context *ctx, const void *args, gdn_stream stream);

static gdn_status run_and_leave_flushing(gdn_context *ctx, const void *args, gdn_stream stream)
{
    const gdn_status status = true_run(ctx, args, stream);
    check_environment_enter(CHECK_ENV_FLUSH);
    return status;
}

static void leave_mode(const check_suite *suite)
{
    check_kernel wrong = *suite->kernel;
    check_rng rng = { self.seed };
    check_result result;
    check_case c;
    memset(&result, 0, sizeof result);
    begin_random(&c, suite, &rng);
    true_run = wrong.run;
    wrong.run = run_and_leave_flushing;
    c.kernel = &wrong;
    const uint64_t mode = check_environment_get();
    if (check_environment_enter(CHECK_ENV_FLUSH), check_environment_get() != mode) { /* the machine has such a mode */
        check_environment_put(mode);
        check_target_run(self.target, &c, &result);
        verdict(wrong.name, "the caller's floating-point mode is not restored", result.outcome == CHECK_FAILED,
                "not noticed");
    }
    check_environment_put(mode);
    check_result_free(&result);
    check_case_free(&c);
}

/* ---- comparisons of trials ----------------------------------------------------------------------------------------
 */

static void trials(void)
{
    static const float a[3] = { 1, 2, 3 }, b[3] = { 1, 2, 3.0000002f };
    check_trial same = { .target = self.target, .reference = self.reference }, other = same;
    check_trial_same(&same, a, a, 3, "the same");
    check_trial_same(&other, a, b, 3, "another");
    verdict("trials", "equal rows pass and others do not", same.outcome == CHECK_RAN && other.outcome == CHECK_FAILED,
            "no");
}

/* A call that does not return in time, as on a machine that is too busy: an error that says so, and no difference. */
static void time_out(const check_suite *suite)
{
    const char *kernel = suite->kernel->name;
    check_result expected, result;
    check_trial trial = { .target = self.target, .reference = self.reference };
    check_rng rng = { check_mix_text(self.seed, kernel) };
    check_case c;
    check_text text = { "", 0 };
    memset(&expected, 0, sizeof expected);
    memset(&result, 0, sizeof result);
    begin_random(&c, suite, &rng);
    c.kernel = check_crash_timeout(suite->kernel);
    const int expectable = check_expect(self.reference, &c, NULL, &expected, &text);
    verdict(kernel, "a call that times out is an error",
            expectable && check_judge(self.target, &c, &expected, &result, &text) == CHECK_ERROR &&
                strstr(text.at, "the call failed: GDN_TIMEOUT") && !strstr(text.at, "differ") &&
                !strstr(text.at, "expected"),
            text.at);
    verdict(kernel, "so it is in a trial",
            !check_trial_run(&trial, &c, &result, "a call") && trial.outcome == CHECK_ERROR &&
                strstr(trial.text.at, "the call failed: GDN_TIMEOUT") && !strstr(trial.text.at, "differ"),
            trial.text.at);
    check_case_free(&c);
    check_result_free(&expected);
    check_result_free(&result);
}

int check_self_test(check_target *reference, check_target *target, uint64_t seed, int json)
{
    self.reference = reference;
    self.target = target;
    self.seed = seed;
    self.json = json;
    for (int k = 0; k < CHECK_KERNEL_COUNT; k++) {
        corrupt_results(check_suites[k]);
        corrupt_calls(check_suites[k]);
        leave_mode(check_suites[k]);
        time_out(check_suites[k]);
    }
    trials();
    if (json) {
        json_writer w;
        json_open(&w, stdout);
        json_object(&w, NULL);
        json_int(&w, "cases", self.passed + self.failed);
        json_int(&w, "mismatches", self.failed);
        json_int(&w, "skipped", 0);
        json_uint(&w, "seed", seed);
        json_array(&w, "backends");
        json_close(&w);
        json_close(&w);
        if (!json_finish(&w)) return 1;
    } else printf("%d passed, %d failed\n", self.passed, self.failed);
    return self.failed || !self.passed;
}
