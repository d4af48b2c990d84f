/* gdn bench: the command: lists the rows, selects the wanted ones, and measures them one after another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/peer.h"
#include "system/machine.h"
#include "system/system.h"
#include "tools/cli/cli.h"
#include "tools/cli/commands.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/target.h"

static const bench_kernel *const kernels[] = { &bench_gated_delta_net, &bench_ssm_conv, &bench_set_rows };
enum { N_KERNELS = sizeof kernels / sizeof kernels[0] };

static const char *backend, *implementation, *level_name, *filter, *json_path;
static int64_t device, rotate_mib, min_reps;
static uint32_t level;
static int quick, list, no_peer, peer_reuse_output;
static cli_list threads;
static double min_time, max_time = 10.0;

static const cli_option options[] = {
    { "backend", CLI_STRING, &backend, "NAME", "cpu (default), reference, cuda, vulkan, metal" },
    { "device", CLI_INT, &device, "N", "device of the backend, default 0" },
    { "impl", CLI_STRING, &implementation, "NAME", "implementation, default the best; 'gdn info' lists them" },
    { "level", CLI_STRING, &level_name, "NAME",
      "exact (default), or exact_ftz, the level that flushes subnormal\nnumbers to zero, which 'gdn info' says who "
      "has" },
    { "threads", CLI_LIST, &threads, "LIST",
      "numbers of threads of the CPU backend, default 1,2; at most\n"
      "one for each processor of the process" },
    { "filter", CLI_STRING, &filter, "SUBSTR", "only rows whose name contains SUBSTR" },
    { "quick", CLI_FLAG, &quick, NULL, "fewer rows and repetitions" },
    { "list", CLI_FLAG, &list, NULL, "print the names of the rows and measure nothing" },
    { "json", CLI_STRING, &json_path, "FILE",
      "write JSON in Google Benchmark's form to FILE;\n'-' writes it to stdout instead of the table" },
    { "min-time", CLI_DOUBLE, &min_time, "SECONDS", "least time spent in the kernel per row, default 0.3" },
    { "min-reps", CLI_INT, &min_reps, "N", "fewest repetitions per row, default 15" },
    { "max-time", CLI_DOUBLE, &max_time, "SECONDS", "ends a row early once it has 5 repetitions, default 10" },
    { "rotate-mib", CLI_INT, &rotate_mib, "N",
      "memory that the copies of a row's operands fill,\ndefault 256 or 4 x L3, the larger" },
    { "no-peer", CLI_FLAG, &no_peer, NULL, "do not measure ggml, where it is built in" },
    { "peer-reuse-output", CLI_FLAG, &peer_reuse_output, NULL,
      "let ggml write its results to the same memory each\ntime, as a graph allocator does, not in rotation" },
    { NULL, CLI_FLAG, NULL, NULL, NULL },
};
static const cli_command command = {
    "gdn bench",
    "time the kernels against the limits of this machine",
    options,
    "Every time is set against a roofline, the unavoidable part of the work. It is measured\n"
    "alternately with the kernel on the same memory and threads. On a CUDA device it is a copy\n"
    "of as many bytes within the device's memory. docs/benchmarks/README.md says what each\n"
    "number means.\n\n"
    "Exit status: 0 success, 1 failure, also if the output cannot be written, 2 wrong command line.",
};

static const bench_case *case_of(const bench_kernel *kernel, int index)
{
    return (const void *)((const char *)kernel->cases + (size_t)index * kernel->case_bytes);
}

static void row_name(char *name, size_t size, const bench_kernel *kernel, int index, int n_threads)
{
    const bench_case *c = case_of(kernel, index);
    if (c->seqs) snprintf(name, size, "%s/%s/seqs:%d/threads:%d", kernel->stem, c->name, c->seqs, n_threads);
    else snprintf(name, size, "%s/%s/threads:%d", kernel->stem, c->name, n_threads);
}

static int wanted(const bench_kernel *kernel, int index, const char *name)
{
    return (!quick || case_of(kernel, index)->quick) && (!filter || strstr(name, filter));
}

/* Sets the defaults of options that were not given. */
static void choose(bench_context *context, bench_limits *limits)
{
    const uint64_t memory = gdn_memory_total();
    context->cores = machine_processors();
    context->l3_bytes = machine_l3_bytes();
    context->huge_pages = pages_huge();
#if defined(GDN_HAVE_OPENMP)
    context->openmp = 1;
#endif
    context->rotate_bytes = (int64_t)256 << 20;
    if (context->rotate_bytes < 4 * context->l3_bytes) context->rotate_bytes = 4 * context->l3_bytes;
    if (memory && context->rotate_bytes > (int64_t)(memory / 4)) context->rotate_bytes = (int64_t)(memory / 4);
    if (rotate_mib > 0) context->rotate_bytes = rotate_mib << 20;
    if (!no_peer && peer_name()) snprintf(context->peer, sizeof context->peer, "%s", peer_name());

    if (backend && strcmp(backend, "cpu")) threads = (cli_list){ 1, { 1 } };
    if (threads.n == 0) {
        threads = (cli_list){ 1, { 1 } };
        if (roofline_processors(2) > 1) threads.value[threads.n++] = 2;
    }
    limits->min_seconds = min_time > 0 ? min_time : quick ? 0.05 : 0.3;
    limits->min_reps = (int)(min_reps > 0 ? min_reps : quick ? 5 : 15);
    limits->max_seconds = max_time;
}

/* Opens a context. A CPU context uses the threads of the rooflines, as two teams on the same processors would compete.
 */
static gdn_context *open_target(int n_threads, char *message, size_t message_bytes)
{
    gdn_context_desc desc = {
        .size = sizeof desc, .n_threads = (uint32_t)n_threads, .implementation = implementation, .level = level
    };
    if (!backend || !strcmp(backend, "cpu")) desc.parallel_for = roofline_threads(n_threads, &desc.parallel_user);
    return target_open(backend, device, &desc, message, message_bytes);
}

static int roofline_kind(uint32_t of)
{
    if (of == GDN_BACKEND_CUDA) return roofline_has_copy() ? ROOFLINE_COPY : ROOFLINE_NONE;
    return of == GDN_BACKEND_CPU || of == GDN_BACKEND_REFERENCE ? ROOFLINE_HOST : ROOFLINE_NONE;
}

/* Measures one row with its own context. */
static void run_row(const bench_kernel *kernel, int index, int n_threads, const bench_context *context,
                    const bench_limits *limits, bench_result *r)
{
    static char message[512];
    static bench_row row;
    *r = (bench_result){ .work.threads = n_threads,
                         .time = NAN,
                         .time_min = NAN,
                         .cpu_time = NAN,
                         .roofline_time = NAN,
                         .roofline_time_min = NAN,
                         .roofline_share_raw = NAN,
                         .roofline_spread = NAN,
                         .peer_time = NAN,
                         .peer_copy_time = NAN,
                         .peer_ratio = NAN,
                         .peer_copy_ratio = NAN,
                         .peer_nmse = NAN };
    snprintf(r->backend, sizeof r->backend, "%s", context->backend);
    row_name(r->name, sizeof r->name, kernel, index, n_threads);

    memset(&row, 0, sizeof row);
    row.ctx = open_target(n_threads, message, sizeof message);
    if (!row.ctx) {
        r->skipped = message;
        r->failed = 1;
        return;
    }
    row.device.size = sizeof row.device;
    row.implementation.size = sizeof row.implementation;
    row.capability.size = sizeof row.capability;
    gdn_context_describe(row.ctx, &row.device, &row.implementation);
    row.roofline = roofline_kind(row.device.backend);
    row.work.threads = n_threads;
    row.rotate_bytes = context->rotate_bytes;
    row.want_peer = context->peer[0] != 0;
    row.peer_reuses_output = peer_reuse_output;

    const gdn_status status = kernel->setup(&row, index);
    if (status != GDN_OK) r->skipped = gdn_last_error();
    else if (!row.capability.supported) r->skipped = row.capability.reason;
    else if (row.wrong) r->skipped = row.wrong;
    else bench_measure(&row, limits, r);
    r->failed |= (status != GDN_OK && status != GDN_UNSUPPORTED) || row.wrong;
    if (r->skipped) { /* the text may belong to the row or the context */
        char text[sizeof message];
        snprintf(text, sizeof text, "%s", r->skipped);
        memcpy(message, text, sizeof message);
        r->skipped = message;
    }
    gdn_context *ctx = row.ctx;
    bench_row_destroy(&row);
    gdn_context_destroy(ctx);
}

static char *copy_text(const char *text)
{
    char *copy = bench_alloc((int64_t)strlen(text) + 1);
    strcpy(copy, text);
    return copy;
}

/* Measures all wanted rows and returns their number. results has room for all rows. */
static int run_rows(bench_context *context, const bench_limits *limits, int n_wanted, bench_result *results)
{
    const int table = !json_path || strcmp(json_path, "-");
    progress_bar bar;
    int n = 0;
    progress_begin(&bar, n_wanted);
    if (table) bench_print_header(context);
    for (int k = 0; k < N_KERNELS; k++) {
        for (int i = 0; i < kernels[k]->n_cases; i++) {
            for (int t = 0; t < threads.n; t++) {
                char name[160];
                row_name(name, sizeof name, kernels[k], i, threads.value[t]);
                if (!wanted(kernels[k], i, name)) continue;
                progress_step(&bar, name);
                run_row(kernels[k], i, threads.value[t], context, limits, &results[n]);
                if (results[n].skipped) results[n].skipped = copy_text(results[n].skipped); /* kept for the JSON */
                progress_clear(&bar);
                if (table) bench_print_row(context, &results[n]);
                n++;
                if (output_flush()) { /* output failed: stop */
                    progress_end(&bar);
                    return n;
                }
            }
        }
    }
    progress_end(&bar);
    return n;
}

/* Counts the wanted rows; prints them with --list. */
static int count_rows(void)
{
    int n = 0;
    for (int k = 0; k < N_KERNELS; k++)
        for (int i = 0; i < kernels[k]->n_cases; i++)
            for (int t = 0; t < threads.n; t++) {
                char name[160];
                row_name(name, sizeof name, kernels[k], i, threads.value[t]);
                if (!wanted(kernels[k], i, name)) continue;
                if (list) puts(name);
                n++;
            }
    return n;
}

/* Checks that no two threads of a row share a processor. */
static int check_threads(const bench_context *context)
{
    for (int i = 0; (!backend || !strcmp(backend, "cpu")) && i < threads.n; i++) {
        const int n = roofline_processors(threads.value[i]);
        if (threads.value[i] <= n) continue;
        cli_error(&command,
                  "--threads has %d, and this process may run on %d of the machine's %d processors; at most %d is "
                  "allowed (taskset, containers and OMP_PROC_BIND restrict a process)",
                  threads.value[i], n, context->cores, n);
        return 0;
    }
    return 1;
}

/* Opens the target once, to check that it exists and to describe it. */
static int describe_target(bench_context *context)
{
    char message[512];
    gdn_device_info info = { .size = sizeof info };
    gdn_backend_info b = { .size = sizeof b };
    gdn_context *ctx = open_target(threads.value[0], message, sizeof message);
    if (!ctx) {
        cli_error(&command, "%s", message);
        return 0;
    }
    gdn_context_describe(ctx, &info, NULL);
    gdn_backend_describe(info.backend, &b);
    snprintf(context->backend, sizeof context->backend, "%s", b.name);
    snprintf(context->device, sizeof context->device, "%s", info.name);
    context->emulated = info.emulated;
    const int kind = roofline_kind(info.backend);
    snprintf(context->roofline, sizeof context->roofline, "%s",
             kind == ROOFLINE_HOST   ? roofline_isa()
             : kind == ROOFLINE_COPY ? "device copy"
                                     : "none");
    gdn_context_destroy(ctx);
    return 1;
}

int gdn_bench_main(int argc, char **argv)
{
    bench_context context = { .cores = 0 };
    bench_limits limits;
    const int parsed = cli_parse(&command, argc, argv);
    if (parsed != CLI_RUN) return cli_exit_code(parsed);
    choose(&context, &limits);

    char message[128];
    if (!target_level(level_name, &level, message, sizeof message)) return cli_error(&command, "%s", message);
    const int n_wanted = count_rows();
    if (n_wanted == 0) return cli_error(&command, "no row's name contains '%s'; see --list", filter ? filter : "");
    if (list) return 0;
    if (!check_threads(&context) || !describe_target(&context)) return 2;

    if (json_path && !bench_can_write(json_path)) return 1; /* before measuring */
    bench_result *results = bench_alloc(n_wanted * (int64_t)sizeof *results);
    const int n = run_rows(&context, &limits, n_wanted, results);
    int failed = 0;
    for (int i = 0; i < n; i++) failed += results[i].failed;
    if (json_path && !bench_write_json(json_path, &context, results, n)) failed++;
    for (int i = 0; i < n; i++) free((void *)(uintptr_t)results[i].skipped);
    free(results);
    return failed ? 1 : 0;
}
