/* What came of it. See report.h. */
#include "report.h"

#include <stdio.h>
#include <string.h>

#include "rng.h"
#include "tools/cli/json.h"

void check_tally_skip(check_tally *tally, const char *reason)
{
    int i = 0;
    while (i < CHECK_MAX_REASONS - 1 && tally->reason[i].n &&
           strncmp(tally->reason[i].text, reason, GDN_REASON_MAX - 1))
        i++;
    if (!tally->reason[i].n++) snprintf(tally->reason[i].text, sizeof tally->reason[i].text, "%s", reason);
    tally->skipped++;
}

static void add(check_tally *sum, const check_tally *tally)
{
    sum->passed += tally->passed;
    sum->failed += tally->failed;
    sum->errors += tally->errors;
    sum->skipped += tally->skipped;
}

check_tally check_report_sum(const check_report *report)
{
    check_tally sum;
    memset(&sum, 0, sizeof sum);
    for (int k = 0; k < report->n_kernels; k++)
        for (int t = 0; t < report->n_targets; t++) add(&sum, &report->tally[k][t]);
    return sum;
}

void check_report_digest(check_report *report, int t, uint64_t digest)
{
    report->digest[t] = check_mix(report->digest[t], digest);
    report->n_digests[t]++;
}

int check_report_has_digest(const check_report *report, char *message, uint64_t message_bytes)
{
    for (int t = 0; t < report->n_targets; t++)
        if (report->n_digests[t] < report->n_of_digest) {
            (void)snprintf(message, message_bytes, "%s has not passed %lld of the %lld cases that are in it",
                           report->target[t].implementation.name,
                           (long long)(report->n_of_digest - report->n_digests[t]), (long long)report->n_of_digest);
            return 0;
        }
    if (!report->n_of_digest) (void)snprintf(message, message_bytes, "no fixed or random case is chosen");
    return report->n_of_digest > 0;
}

void check_report_text(const check_report *report)
{
    for (int i = 0; i < report->n_unavailable; i++)
        printf("%-16s not available: %s\n", report->unavailable[i].name, report->unavailable[i].reason);
    for (int i = 0; i < report->n_inexact; i++)
        printf("%-16s left out on %s, not exact: %s\n", report->inexact[i].implementation.name,
               report->inexact[i].device.name, report->inexact[i].implementation.reason);
    for (int t = 0; t < report->n_targets; t++)
        for (int k = 0; k < report->n_kernels; k++) {
            const check_target_info *info = &report->target[t];
            const check_tally *tally = &report->tally[k][t];
            printf("%-16s %-16s %s%s%s  %lld passed, %lld failed, %lld skipped\n", info->implementation.name,
                   report->kernel[k], info->device.name, info->device.emulated ? " (emulated)" : "",
                   (info->implementation.levels >> GDN_EXACT & 1) ? "" : " (not exact)", (long long)tally->passed,
                   (long long)(tally->failed + tally->errors), (long long)tally->skipped);
            if (tally->errors)
                printf("                 %lld of the failed are calls that returned an error\n",
                       (long long)tally->errors);
            for (int r = 0; r < CHECK_MAX_REASONS && tally->reason[r].n; r++)
                printf("                 skipped %lld: %s\n", (long long)tally->reason[r].n, tally->reason[r].text);
        }
    const check_tally sum = check_report_sum(report);
    if (sum.skipped) printf("%lld skipped\n", (long long)sum.skipped);
    if (report->has_digest) printf("digest %016llx\n", (unsigned long long)report->digest[0]);
    printf("%lld passed, %lld failed\n", (long long)sum.passed, (long long)(sum.failed + sum.errors));
}

static void write_counts(json_writer *w, const check_tally *tally)
{
    json_put_int(w, "cases", tally->passed + tally->failed + tally->errors);
    json_put_int(w, "mismatches", tally->failed);
    json_put_int(w, "errors", tally->errors);
    json_put_int(w, "skipped", tally->skipped);
}

static void write_kernel(json_writer *w, const char *name, const check_tally *tally)
{
    json_put_object(w, NULL);
    json_put_string(w, "kernel", name);
    write_counts(w, tally);
    json_put_array(w, "skip_reasons");
    for (int r = 0; r < CHECK_MAX_REASONS && tally->reason[r].n; r++) {
        json_put_object(w, NULL);
        json_put_string(w, "reason", tally->reason[r].text);
        json_put_int(w, "cases", tally->reason[r].n);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

static void write_target(json_writer *w, const check_report *report, int t)
{
    const check_target_info *info = &report->target[t];
    check_tally all;
    memset(&all, 0, sizeof all);
    for (int k = 0; k < report->n_kernels; k++) add(&all, &report->tally[k][t]);
    json_put_object(w, NULL);
    json_put_string(w, "backend", info->backend.name);
    json_put_string(w, "device", info->device.name);
    json_put_uint(w, "device_index", info->device.device);
    json_put_string(w, "implementation", info->implementation.name);
    json_put_bool(w, "exact", (info->implementation.levels >> GDN_EXACT & 1));
    json_put_bool(w, "emulated", info->device.emulated);
    write_counts(w, &all);
    json_put_array(w, "kernels");
    for (int k = 0; k < report->n_kernels; k++) write_kernel(w, report->kernel[k], &report->tally[k][t]);
    json_close(w);
    json_close(w);
}

int check_report_json(const check_report *report)
{
    const check_tally sum = check_report_sum(report);
    json_writer w;
    json_open(&w, stdout);
    json_put_object(&w, NULL);
    write_counts(&w, &sum);
    json_put_uint(&w, "seed", report->seed);
    json_put_string(&w, "level", report->level);
    if (report->has_digest) {
        char digest[17];
        (void)snprintf(digest, sizeof digest, "%016llx", (unsigned long long)report->digest[0]);
        json_put_string(&w, "digest", digest);
    }
    json_put_array(&w, "backends");
    for (int t = 0; t < report->n_targets; t++) write_target(&w, report, t);
    json_close(&w);
    json_put_array(&w, "unavailable");
    for (int i = 0; i < report->n_unavailable; i++) {
        json_put_object(&w, NULL);
        json_put_string(&w, "backend", report->unavailable[i].name);
        json_put_string(&w, "reason", report->unavailable[i].reason);
        json_close(&w);
    }
    json_close(&w);
    json_put_array(&w, "left_out");
    for (int i = 0; i < report->n_inexact; i++) {
        json_put_object(&w, NULL);
        json_put_string(&w, "device", report->inexact[i].device.name);
        json_put_string(&w, "implementation", report->inexact[i].implementation.name);
        json_put_string(&w, "reason", report->inexact[i].implementation.reason);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    return json_finish(&w);
}
