/* Output: a table, and JSON in the form of Google Benchmark with additional fields, which docs/benchmarks/README.md
 * describes. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/bench.h"
#include "system/files.h"
#include "system/machine.h"
#include "tools/cli/json.h"

enum { MOST_SPREAD = 15, MOST_SHARE = 105 }; /* percent */

/* A share of the roofline, or NAN if it cannot be trusted. A value slightly above 1 counts as 1: noise, or a roofline
 * that is not optimal. Further above 1 the roofline was disturbed, as it was where its times differ much from each
 * other. */
static double trusted_share(double raw, const bench_result *r)
{
    if (100 * r->roofline_spread > MOST_SPREAD || !(100 * raw <= MOST_SHARE)) return NAN;
    return raw > 1.0 ? 1.0 : raw;
}

static const char *time_text(char *text, size_t size, double seconds)
{
    if (isnan(seconds)) snprintf(text, size, "-");
    else if (seconds < 1e-2) snprintf(text, size, "%.1f us", seconds * 1e6);
    else snprintf(text, size, "%.1f ms", seconds * 1e3);
    return text;
}

/* A percentage or factor; "?" marks results from too few clean samples. */
static const char *percent_text(char *text, size_t size, double share, int reliable)
{
    if (isnan(share)) snprintf(text, size, "-");
    else snprintf(text, size, "%.0f%s", share * 100, reliable ? "%" : "%?");
    return text;
}

static const char *factor_text(char *text, size_t size, double ratio, int reliable)
{
    if (isnan(ratio)) snprintf(text, size, "-");
    else snprintf(text, size, "%.2f%s", ratio, reliable ? "x" : "x?");
    return text;
}

void bench_print_header(const bench_context *context)
{
    printf("%s: %s%s, %d cores, L3 %lld MiB, roofline by %s, %lld MiB in rotation%s\n", context->backend,
           context->device, context->emulated ? " (emulated, so that times say nothing of a device)" : "",
           context->cores, (long long)(context->l3_bytes >> 20), context->roofline,
           (long long)(context->rotate_bytes >> 20), context->huge_pages ? ", huge pages" : "");
    printf(
        "time: median of one call; roofline: median of the unavoidable part, measured alternately; share: median of\n"
        "roofline/time per repetition; best: the same of the minima, for noisy machines;\n"
        "reps: all - those that were interrupted; ?: too few were left alone; no share above %d%%, or where half of "
        "the\n"
        "roofline's times spread by more than %d%%",
        MOST_SHARE, MOST_SPREAD);
    if (context->peer[0]) printf("; op, graph: %s's time / ours", context->peer);
    printf("\n\n%-46s %10s %10s %10s %6s %6s %11s %9s", "benchmark", "time", "min", "roofline", "share", "best", "rate",
           "reps");
    if (context->peer[0]) printf(" %7s %7s", "op", "graph");
    printf("  %-16s %s\n", "implementation", "roofline by");
}

void bench_print_row(const bench_context *context, const bench_result *r)
{
    char t[8][32];
    if (r->skipped) {
        printf("%-46s skipped: %s\n", r->name, r->skipped);
        return;
    }
    const int arithmetic = r->roofline_by ? !strcmp(r->roofline_by, "arithmetic") : 0;
    snprintf(t[3], sizeof t[3], "%.1f %s", (arithmetic ? r->work.ops : r->work.bytes) / r->time * 1e-9,
             arithmetic ? "Gop/s" : "GB/s");
    if (r->interrupted) snprintf(t[7], sizeof t[7], "%d-%d", r->reps, r->interrupted);
    else snprintf(t[7], sizeof t[7], "%d", r->reps);
    printf("%-46s %10s %10s %10s %6s %6s %11s %9s", r->name, time_text(t[0], sizeof t[0], r->time),
           time_text(t[1], sizeof t[1], r->time_min), time_text(t[2], sizeof t[2], r->roofline_time),
           percent_text(t[4], sizeof t[4], trusted_share(r->roofline_share_raw, r), r->roofline_reliable),
           percent_text(t[5], sizeof t[5], trusted_share(r->roofline_time_min / r->time_min, r), 1), t[3], t[7]);
    if (context->peer[0])
        printf(" %7s %7s", factor_text(t[0], sizeof t[0], r->peer_ratio, r->peer_reliable),
               factor_text(t[1], sizeof t[1], r->peer_copy_ratio, r->peer_reliable));
    printf("  %-16s %s%s%s", r->implementation, r->roofline_by ? r->roofline_by : "-", r->roofline_by ? " " : "",
           r->roofline_variant ? r->roofline_variant : "");
    if (100 * r->roofline_spread > MOST_SPREAD) printf(", spread %.0f%%", 100 * r->roofline_spread);
    if (r->other_name)
        printf("; %s %s", r->other_name, factor_text(t[0], sizeof t[0], r->other_ratio, r->other_reliable));
    printf("\n");
}

static void write_context(json_writer *w, const bench_context *context)
{
    char date[64] = "", version[32];
    const time_t now = time(NULL);
    double load[3];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    snprintf(version, sizeof version, "%u.%u.%u", gdn_version() >> 16, gdn_version() >> 8 & 0xff, gdn_version() & 0xff);
    json_put_object(w, "context");
    json_put_string(w, "date", date);
    json_put_string(w, "executable", "gdn bench");
    json_put_int(w, "num_cpus", context->cores);
    json_put_array(w, "caches");
    if (context->l3_bytes) {
        json_put_object(w, NULL);
        json_put_string(w, "type", "Unified");
        json_put_int(w, "level", 3);
        json_put_int(w, "size", context->l3_bytes);
        json_close(w);
    }
    json_close(w);
    json_put_array(w, "load_avg");
    for (int i = 0, n = machine_load(load); i < n; i++) json_put_double(w, NULL, load[i]);
    json_close(w);
#if defined(NDEBUG)
    json_put_string(w, "library_build_type", "release");
#else
    json_put_string(w, "library_build_type", "debug");
#endif
    json_put_string(w, "library_version", version);
    json_put_string(w, "compiler", __VERSION__);
    json_put_string(w, "backend", context->backend);
    json_put_string(w, "device", context->device);
    json_put_bool(w, "emulated", context->emulated);
    json_put_string(w, "roofline", context->roofline);
    json_put_string(w, "peer", context->peer[0] ? context->peer : NULL);
    json_put_int(w, "rotate_bytes", context->rotate_bytes);
    json_put_bool(w, "huge_pages", context->huge_pages);
    json_put_bool(w, "openmp", context->openmp);
    json_close(w);
}

static void write_result(json_writer *w, const bench_result *r)
{
    json_put_object(w, NULL);
    json_put_string(w, "name", r->name);
    json_put_string(w, "run_name", r->name);
    json_put_string(w, "run_type", "iteration");
    json_put_int(w, "repetitions", 1);
    json_put_int(w, "repetition_index", 0);
    json_put_int(w, "threads", r->work.threads);
    if (r->skipped) {
        json_put_bool(w, "error_occurred", 1);
        json_put_string(w, "error_message", r->skipped);
    }
    json_put_int(w, "iterations", r->reps);
    json_put_int(w, "interrupted", r->interrupted);
    json_put_double(w, "real_time", r->time * 1e6);
    json_put_double(w, "cpu_time", r->cpu_time * 1e6);
    json_put_string(w, "time_unit", "us");
    json_put_double(w, "min_time", r->time_min * 1e6);
    json_put_double(w, "bytes_per_second", r->work.bytes / r->time);
    json_put_double(w, "ops_per_second", r->work.ops > 0 ? r->work.ops / r->time : NAN);
    json_put_double(w, "roofline_time", r->roofline_time * 1e6);
    json_put_string(w, "roofline_by", r->roofline_by);
    json_put_string(w, "roofline_variant", r->roofline_variant);
    json_put_double(w, "roofline_bytes", r->roofline_bytes ? (double)r->roofline_bytes : NAN);
    json_put_double(w, "roofline_share", r->roofline_reliable ? trusted_share(r->roofline_share_raw, r) : NAN);
    json_put_double(w, "roofline_share_raw", r->roofline_share_raw);
    json_put_double(w, "roofline_spread", r->roofline_spread);
    json_put_double(w, "roofline_min_time", r->roofline_time_min * 1e6);
    json_put_double(w, "roofline_share_best", trusted_share(r->roofline_time_min / r->time_min, r));
    json_put_double(w, "ggml_time", r->peer_time * 1e6);
    json_put_double(w, "ggml_copy_time", r->peer_copy_time * 1e6);
    json_put_double(w, "ggml_ratio", r->peer_reliable ? r->peer_ratio : NAN);
    json_put_double(w, "ggml_copy_ratio", r->peer_reliable ? r->peer_copy_ratio : NAN);
    json_put_double(w, "ggml_ratio_raw", r->peer_ratio);
    json_put_double(w, "ggml_copy_ratio_raw", r->peer_copy_ratio);
    json_put_double(w, "ggml_nmse", r->peer_nmse);
    if (r->other_name) {
        json_put_double(w, r->other_name, r->other_reliable ? r->other_ratio : NAN);
        json_put_double(w, "other_time", r->other_time * 1e6);
        json_put_double(w, "other_ratio_raw", r->other_ratio);
    }
    if (r->work.seqs) json_put_int(w, "sequences", r->work.seqs);
    json_put_int(w, "tokens", r->work.tokens);
    json_put_int(w, "copies", r->work.n_copies);
    json_put_string(w, "backend", r->backend);
    json_put_string(w, "implementation", r->implementation);
    json_put_bool(w, "exact", r->exact);
    json_close(w);
}

int bench_can_write(const char *path)
{
    FILE *out = strcmp(path, "-") != 0 ? file_open(path, "a") : NULL; /* keeps what is there */
    if (out) (void)fclose(out);
    else if (strcmp(path, "-") != 0) fprintf(stderr, "gdn bench: cannot write '%s': %s\n", path, strerror(errno));
    return out || !strcmp(path, "-");
}

int bench_write_json(const char *path, const bench_context *context, const bench_result *results, int n)
{
    json_writer w;
    const int to_stdout = !strcmp(path, "-");
    FILE *out = to_stdout ? stdout : file_open(path, "w");
    if (!out) {
        fprintf(stderr, "gdn bench: cannot write '%s': %s\n", path, strerror(errno));
        return 0;
    }
    json_open(&w, out);
    json_put_object(&w, NULL);
    write_context(&w, context);
    json_put_array(&w, "benchmarks");
    for (int i = 0; i < n; i++) write_result(&w, &results[i]);
    json_close(&w);
    json_close(&w);
    int good = json_finish(&w);
    if (!to_stdout && fclose(out) != 0) good = 0;
    if (!good) fprintf(stderr, "gdn bench: writing '%s' failed\n", path);
    return good;
}
