/* gdn check: compares every implementation of every backend with the reference, bit for bit.
 *
 * Each kernel has random cases, a fixed list, and families of trials that compare several calls with each
 * other. A case runs once on the reference and then on every target; a trial once per target. The name of
 * a case and the seed say all about it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/cli/commands.h"
#include "digests.h"
#include "tools/cli/progress.h"
#include "report.h"
#include "cases.h"
#include "tools/cli/target.h"
#include "trial.h"
#include "write_calls.h"

enum { N_KERNELS = CHECK_KERNEL_COUNT, DEFAULT_CASES = 2000, QUICK_SHARE = 8, COMMAND_MAX = 600 };

static struct {
    cli_names backend, implementation, kernel;
    const char *only, *level_name, *record, *expect, *calls;
    int64_t device, cases, max_reports;
    uint64_t seed;
    cli_list threads;
    int quick, stop, list, json, verbose, digest;
} options;

static const cli_option option_table[] = {
    { "backend", CLI_NAMES, &options.backend, "NAMES",
      "only these backends (a,b); an error where one is not available" },
    { "device", CLI_INT, &options.device, "N", "only this device of each backend" },
    { "impl", CLI_NAMES, &options.implementation, "NAMES",
      "only these implementations, e.g. avx2,scalar. Those that say\n"
      "themselves that they are not exact run only when named" },
    { "level", CLI_STRING, &options.level_name, "NAME",
      "exact, where subnormal numbers are kept (the default), or\n"
      "exact_ftz, where arithmetic flushes them to zero" },
    { "kernel", CLI_NAMES, &options.kernel, "NAMES", "only these kernels (a,b)" },
    { "seed", CLI_UINT64, &options.seed, "N", "seed of the random cases (default 1)" },
    { "cases", CLI_INT, &options.cases, "N", "random cases per kernel (default 2000, quick 250)" },
    { "case", CLI_STRING, &options.only, "NAME",
      "only this case: a number for a random one, a name from --list,\n"
      "random/N, splits/N, ..., or the beginning of names with a *" },
    { "threads", CLI_LIST, &options.threads, "LIST", "thread counts to choose from (default 1,2,3,4,5,6,7,8)" },
    { "max-reports", CLI_INT, &options.max_reports, "N",
      "mismatches and errors to describe (default 5); all are counted" },
    { "quick", CLI_FLAG, &options.quick, NULL,
      "an eighth of the random cases and trials, a quarter of the fixed list" },
    { "stop", CLI_FLAG, &options.stop, NULL, "leave after the first case with a mismatch or an error" },
    { "list", CLI_FLAG, &options.list, NULL, "print the names of the fixed cases and of the families, and leave" },
    { "verbose", CLI_FLAG, &options.verbose, NULL,
      "print the command that runs a case alone before it runs, so\n"
      "that a crash or a call that hangs has a name" },
    { "json", CLI_FLAG, &options.json, NULL, "print one JSON object instead of text" },
    { "digest", CLI_FLAG, &options.digest, NULL,
      "print a digest of all results of the fixed and the random\n"
      "cases, 16 digits: the same on every machine and for every\n"
      "implementation. Families are not in it, such as splits/N" },
    { "calls", CLI_STRING, &options.calls, "FILE",
      "write the smaller calls, and the memory before and after them\n"
      "as the reference makes it, for tests/oracle/oracle.py" },
    { "record", CLI_STRING, &options.record, "FILE", NULL }, /* what the reference makes: see digests.h */
    { "expect", CLI_STRING, &options.expect, "FILE", NULL }, /* what a run with --record has written    */
    { NULL, CLI_FLAG, NULL, NULL, NULL }
};
static const cli_command command = { "gdn check", "compare every implementation with the reference, bit for bit",
                                     option_table,
                                     "Exit status: 0 all passed, 1 a mismatch, an error or nothing ran, 2 "
                                     "wrong command line or a backend is missing." };

static uint32_t level;

static check_target *reference, *targets[CHECK_MAX_TARGETS];
static check_report report;
static check_threads threads;
static progress_bar bar;
static int64_t n_reported; /* mismatches and errors */

/* Does --case ask for this one? */
static int is_wanted(const char *name)
{
    const char *only = options.only;
    if (!only) return 1;
    const size_t length = strlen(only);
    if (length && only[length - 1] == '*') return !strncmp(name, only, length - 1);
    if (length && strspn(only, "0123456789") == length) return !strncmp(name, "random/", 7) && !strcmp(name + 7, only);
    return !strcmp(name, only);
}

/* With --stop, nothing is run behind the first failure. */
static int is_over(void) { return options.stop && n_reported; }

/* A quick run leaves out whole cases of the fixed list by number, so that every group keeps some. */
static int is_due(int number) { return options.only || !options.quick || number % 4 == 0; }

static void print_repeat(char *text, size_t bytes, const check_kernel *kernel, const char *name,
                         const check_target_info *info)
{
    int n = snprintf(text, bytes, "gdn check --kernel %s --seed %llu --case %s", kernel->name,
                     (unsigned long long)options.seed, name);
    if (level != GDN_EXACT && n < (int)bytes)
        n += snprintf(text + n, bytes - (size_t)n, " --level %s", target_level_names[level]);
    if (info->backend.backend != GDN_BACKEND_REFERENCE && n < (int)bytes) /* any target runs the reference first */
        n += snprintf(text + n, bytes - (size_t)n, " --backend %s --device %u --impl %s", info->backend.name,
                      (unsigned)info->device.device, info->implementation.name);
    for (int i = 0; i < options.threads.n && n < (int)bytes - 16; i++)
        n += snprintf(text + n, bytes - (size_t)n, "%s%d", i ? "," : " --threads ", options.threads.value[i]);
}

/* On standard error, which is not buffered: the last line is the case that crashed. */
static void say_running(const check_kernel *kernel, const char *name, const check_target_info *info)
{
    char repeat[COMMAND_MAX];
    if (!options.verbose) return;
    print_repeat(repeat, sizeof repeat, kernel, name, info);
    (void)fprintf(stderr, "running: %s\n", repeat);
}

static void describe_failure(const check_kernel *kernel, check_outcome outcome, const char *name,
                             const check_target_info *info, const check_text *text)
{
    if (n_reported++ >= options.max_reports) return;
    progress_clear(&bar);
    FILE *out = options.json ? stderr : stdout;
    fprintf(out, "%s %s %s on %s, device %u (%s), %s\n%s", outcome == CHECK_ERROR ? "ERROR" : "MISMATCH", kernel->name,
            name, info->backend.name, (unsigned)info->device.device, info->device.name, info->implementation.name,
            text->at);
    char repeat[COMMAND_MAX];
    print_repeat(repeat, sizeof repeat, kernel, name, info);
    fprintf(out, "  to repeat: %s\n\n", repeat);
    fflush(out);
}

static void count(int k, int t, check_outcome outcome, const char *name, const check_text *text)
{
    check_tally *tally = &report.tally[k][t];
    if (outcome == CHECK_RAN) tally->passed++;
    else if (outcome == CHECK_SKIPPED) check_tally_skip(tally, text->at);
    else {
        outcome == CHECK_ERROR ? tally->errors++ : tally->failed++;
        describe_failure(check_kernels[k], outcome, name, &report.target[t], text);
    }
}

static check_rng case_rng(const check_kernel *kernel, const char *name)
{
    return (check_rng){ check_mix_text(check_mix_text(options.seed, kernel->name), name) };
}

/* fixed: NULL for a random case. */
static void run_case(int k, const char *name, const check_list *fixed)
{
    static check_result result;
    check_rng rng = case_rng(check_kernels[k], name);
    check_setting setting;
    check_spec spec;
    check_case c;
    check_text text = { "", 0 };
    check_outcome unexpected;
    uint64_t digest;
    check_setting_random(&setting, &threads, &rng);
    check_case_begin(&c, check_kernels[k], &setting);
    if (fixed && fixed->executor >= 0) c.executor = fixed->executor;
    if (fixed && fixed->environment >= 0) c.environment = fixed->environment;
    if (fixed) spec = fixed->spec;
    else check_kernels[k]->random(&spec, &rng);
    check_kernels[k]->build(&c, &spec, &rng);
    say_running(check_kernels[k], name, check_target_describe(reference));
    check_calls_name(name);
    const int known = check_known(reference, &c, &digest, &unexpected, &text);
    for (int t = 0; t < report.n_targets && !is_over(); t++) {
        check_outcome outcome = unexpected;
        progress_step(&bar, name);
        if (known) {
            say_running(check_kernels[k], name, &report.target[t]);
            text = (check_text){ "", 0 };
            outcome = check_judge_known(targets[t], reference, &c, digest, &result, &text);
            if (outcome == CHECK_RAN) check_report_digest(&report, t, result.digest);
        }
        count(k, t, outcome, name, &text);
    }
    check_case_free(&c);
}

static void run_trial(int k, const char *name, const check_family *family, int number)
{
    for (int t = 0; t < report.n_targets && !is_over(); t++) {
        check_rng rng = case_rng(check_kernels[k], name);
        check_trial trial = { .target = targets[t], .reference = reference, .threads = &threads, .number = number };
        progress_step(&bar, name);
        check_setting_random(&trial.setting, &threads, &rng);
        say_running(check_kernels[k], name, &report.target[t]);
        check_calls_name(name);
        family->run(&trial, &rng);
        count(k, t, trial.outcome, name, &trial.text);
        check_trial_end(&trial);
    }
}

/* The cases are walked twice: to count them, and to run them. */
static int64_t n_visited;
static int counting;

/* A fixed case, a random one (fixed is NULL), or a trial of a family. */
static void visit(int k, const char *name, const check_list *fixed, const check_family *family, int number)
{
    if (counting) {
        n_visited++;
        report.n_of_digest += !family;
    } else if (is_over()) return;
    else if (family) run_trial(k, name, family, number);
    else run_case(k, name, fixed);
}

/* Where the walk is in a fixed list. */
typedef struct position {
    int kernel, number;
} position;

static void visit_fixed(void *user, const check_list *fixed)
{
    position *at = user;
    if (is_due(at->number++) && is_wanted(fixed->name)) visit(at->kernel, fixed->name, fixed, NULL, 0);
}

static void walk_kernel(int k)
{
    char name[96];
    const int64_t n_random = (options.cases >= 0 ? options.cases
                              : options.quick    ? DEFAULT_CASES / QUICK_SHARE
                                                 : DEFAULT_CASES);
    const int alone = options.only && strspn(options.only, "0123456789") == strlen(options.only);
    if (alone || (options.only && !strncmp(options.only, "random/", 7) &&
                  !strchr(options.only, '*'))) { /* beyond --cases, too */
        snprintf(name, sizeof name, "%s%s", alone ? "random/" : "", options.only);
        visit(k, name, NULL, NULL, 0);
        return;
    }
    check_list_cases(check_kernels[k], visit_fixed, &(position){ .kernel = k });
    for (int64_t i = 0; i < n_random; i++) {
        snprintf(name, sizeof name, "random/%lld", (long long)i);
        if (is_wanted(name)) visit(k, name, NULL, NULL, 0);
    }
    for (const check_family *f = check_kernels[k]->families; f->name; f++) {
        const int n = options.only || !options.quick ? f->n : (f->n + QUICK_SHARE - 1) / QUICK_SHARE;
        for (int i = 0; i < n; i++) {
            snprintf(name, sizeof name, "%s/%d", f->name, i);
            if (is_wanted(name)) visit(k, name, NULL, f, i);
        }
    }
}

static void walk(void)
{
    for (int k = 0; k < N_KERNELS; k++)
        if (cli_has_name(&options.kernel, check_kernels[k]->name)) walk_kernel(k);
}

static void print_fixed(void *user, const check_list *fixed)
{
    printf("%s %s\n", ((const check_kernel *)user)->name, fixed->name);
}

static void print_list(void)
{
    for (int k = 0; k < N_KERNELS; k++) {
        if (!cli_has_name(&options.kernel, check_kernels[k]->name)) continue;
        check_list_cases(check_kernels[k], print_fixed, (void *)(uintptr_t)check_kernels[k]);
        for (const check_family *f = check_kernels[k]->families; f->name; f++)
            printf("%s %s/0..%d\n", check_kernels[k]->name, f->name, f->n - 1);
    }
}

static const char *kernel_name(int i) { return check_kernels[i]->name; }

static const char *backend_name(int i)
{
    static gdn_backend_info info;
    info.size = sizeof info;
    return gdn_backend_describe((uint32_t)i, &info) ? "" : info.name;
}

static const char *implementation_name(int i) { return report.target[i].implementation.name; }

static int open_device(uint32_t backend, uint32_t device)
{
    gdn_device_info info = { .size = sizeof info };
    if (gdn_device_describe(backend, device, &info))
        return cli_error(&command, "device %u of %s: %s", (unsigned)device, backend_name((int)backend),
                         gdn_last_error());
    for (uint32_t i = 0; i < info.n_implementations; i++) {
        gdn_implementation_info implementation = { .size = sizeof implementation };
        if (gdn_implementation_describe(backend, device, i, &implementation))
            return cli_error(&command, "%s", gdn_last_error());
        if (!cli_has_name(&options.implementation, implementation.name)) continue;
        if (!(implementation.levels >> level & 1) &&
            (level != GDN_EXACT || !options.implementation.text[0])) { /* it would fail, and rightly */
            if (!implementation.reason[0])
                (void)snprintf(implementation.reason, sizeof implementation.reason, "it has no level %s",
                               target_level_names[level]);
            if (report.n_inexact < CHECK_MAX_TARGETS)
                report.inexact[report.n_inexact++] = (check_inexact){ info, implementation };
            continue;
        }
        if (report.n_targets == CHECK_MAX_TARGETS)
            return cli_error(&command, "more than %d implementations; choose with --backend", CHECK_MAX_TARGETS);
        check_target *t = check_target_open(backend, device, i, level);
        if (!t)
            return cli_error(&command, "%s %s cannot be opened: %s", backend_name((int)backend), implementation.name,
                             gdn_last_error());
        report.target[report.n_targets] = *check_target_describe(t);
        targets[report.n_targets++] = t;
    }
    return 0;
}

static int open_targets(void)
{
    reference = check_target_open(GDN_BACKEND_REFERENCE, 0, 0, level);
    if (!reference) return cli_error(&command, "there is no reference to compare with: %s", gdn_last_error());
    for (uint32_t b = 0; b < GDN_BACKEND_COUNT; b++) {
        gdn_backend_info info = { .size = sizeof info };
        if (b == GDN_BACKEND_REFERENCE || gdn_backend_describe(b, &info) || !cli_has_name(&options.backend, info.name))
            continue;
        if (!info.available) {
            if (options.backend.text[0])
                return cli_error(&command, "backend '%s' is not available: %s", info.name, info.reason);
            report.unavailable[report.n_unavailable++] = info;
            continue;
        }
        for (uint32_t d = 0; d < info.n_devices; d++) {
            if (options.device >= 0 && options.device != d) continue;
            const int status = open_device(b, d);
            if (status) return status;
        }
    }
    const char *wrong = cli_unknown_name(&options.implementation, implementation_name, report.n_targets);
    if (wrong) return cli_error(&command, "there is no implementation '%s' to check; 'gdn info' lists them", wrong);
    if (!report.n_targets && report.n_inexact)
        return cli_error(&command,
                         "no implementation here is exact; name one with --impl to check it all the same, e.g. %s (%s)",
                         report.inexact[0].implementation.name, report.inexact[0].implementation.reason);
    if (!report.n_targets) return cli_error(&command, "no device is left to check; 'gdn info' lists them");
    return 0;
}

static int check_options(void)
{
    const char *wrong;
    if ((wrong = cli_unknown_name(&options.kernel, kernel_name, N_KERNELS)))
        return cli_error(&command, "there is no kernel '%s'", wrong);
    if ((wrong = cli_unknown_name(&options.backend, backend_name, GDN_BACKEND_COUNT)))
        return cli_error(&command, "there is no backend '%s'", wrong);
    if (options.backend.text[0] && cli_has_name(&options.backend, backend_name(GDN_BACKEND_REFERENCE)))
        return cli_error(&command, "the reference is what the other backends are compared with");
    if (options.digest && options.stop)
        return cli_error(&command, "--digest and --stop are given: a digest is of all the cases");
    if (options.calls && options.expect)
        return cli_error(&command, "--calls and --expect are given: calls whose digest a file has are not computed");
    char message[128];
    if (!target_level(options.level_name, &level, message, sizeof message)) return cli_error(&command, "%s", message);
    if (options.calls && level != GDN_EXACT) return cli_error(&command, "--calls needs --level exact");
    for (int i = 0; i < options.threads.n; i++)
        if (options.threads.value[i] > 64)
            return cli_error(&command, "--threads: at most 64, not %d", options.threads.value[i]);
    threads.n = options.threads.n ? options.threads.n : 8;
    for (int i = 0; i < threads.n; i++) threads.value[i] = options.threads.n ? options.threads.value[i] : i + 1;
    return 0;
}

static int conclude(void)
{
    const check_tally sum = check_report_sum(&report);
    int failed = sum.failed + sum.errors > 0;
    char missing[128] = "";
    report.has_digest = options.digest && check_report_has_digest(&report, missing, sizeof missing);
    if (options.json) failed |= !check_report_json(&report);
    else {
        if (n_reported > options.max_reports)
            printf("%lld more failures are not described; see --max-reports\n",
                   (long long)(n_reported - options.max_reports));
        check_report_text(&report);
    }
    if (sum.passed + sum.failed + sum.errors == 0) {
        fprintf(stderr, "gdn check: nothing was run%s\n", sum.skipped ? ": everything was skipped" : "");
        failed = 1;
    }
    if (missing[0]) fprintf(stderr, "gdn check: no digest: %s\n", missing);
    return failed || missing[0];
}

int gdn_check_main(int argc, char **argv)
{
    char message[256];
    memset(&options, 0, sizeof options);
    options.seed = 1;
    options.cases = options.device = -1;
    options.max_reports = 5;
    const int cli = cli_parse(&command, argc, argv);
    if (cli != CLI_RUN) return cli_exit_code(cli);
    int status = check_options();
    if (!status && options.list) print_list();
    if (status || options.list) return status;
    status = open_targets();
    if (!status && ((options.calls && !check_calls_begin(options.calls, message, sizeof message)) ||
                    (options.record && !check_digests_record(options.record, level, message, sizeof message)) ||
                    (options.expect && !check_digests_expect(options.expect, level, message, sizeof message))))
        status = cli_error(&command, "%s", message);
    if (!status) {
        report.seed = options.seed;
        report.level = target_level_names[level];
        report.n_kernels = 0;
        if (!options.json)
            printf("seed %llu%s%s\n", (unsigned long long)options.seed, level == GDN_EXACT ? "" : ", level ",
                   level == GDN_EXACT ? "" : target_level_names[level]);
        fflush(stdout);
        counting = 1;
        walk();
        counting = 0;
        progress_begin(&bar, n_visited * report.n_targets);
        walk();
        progress_end(&bar);
        for (int k = 0; k < N_KERNELS; k++) /* only kernels that were asked for are reported */
            if (cli_has_name(&options.kernel, check_kernels[k]->name)) {
                memmove(report.tally[report.n_kernels], report.tally[k], sizeof report.tally[0]);
                report.kernel[report.n_kernels++] = check_kernels[k]->name;
            }
        status = conclude();
    }
    for (int t = 0; t < report.n_targets; t++) check_target_close(targets[t]);
    check_target_close(reference);
    int64_t n_of_file;
    if (!check_digests_close(&n_of_file)) status = cli_error(&command, "%s cannot be written", options.record);
    if (!check_calls_end()) status = cli_error(&command, "%s cannot be written", options.calls);
    if (options.expect && !n_of_file && !status)
        status = cli_error(&command, "%s has none of these calls", options.expect);
    return status;
}
