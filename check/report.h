/* What came of it: counts per kernel and target, as text or JSON. */
#ifndef GDN_CHECK_REPORT_H
#define GDN_CHECK_REPORT_H

#include "target.h"

enum { CHECK_MAX_KERNELS = 16, CHECK_MAX_TARGETS = 64, CHECK_MAX_REASONS = 6 };

typedef struct check_tally {
    int64_t passed, failed, errors, skipped; /* errors: calls that returned a status, so that nothing was compared */
    struct {
        char text[GDN_REASON_MAX];
        int64_t n;
    } reason[CHECK_MAX_REASONS]; /* of skips; those that do not fit are counted with the last */
} check_tally;

/* An implementation that was left out because it says that it is not exact. */
typedef struct check_inexact {
    gdn_device_info device;
    gdn_implementation_info implementation;
} check_inexact;

typedef struct check_report {
    uint64_t seed;
    const char *level;
    int n_kernels, n_targets, n_unavailable, n_inexact;
    const char *kernel[CHECK_MAX_KERNELS];
    check_target_info target[CHECK_MAX_TARGETS];
    check_tally tally[CHECK_MAX_KERNELS][CHECK_MAX_TARGETS];
    gdn_backend_info unavailable[GDN_BACKEND_COUNT];
    check_inexact inexact[CHECK_MAX_TARGETS];
    uint64_t digest[CHECK_MAX_TARGETS];                /* of the results of the fixed and the random cases; all equal */
    int64_t n_digests[CHECK_MAX_TARGETS], n_of_digest; /* cases: in it, and that have to be */
    int has_digest;                                    /* to be reported */
} check_report;

void check_tally_skip(check_tally *tally, const char *reason);
check_tally check_report_sum(const check_report *report); /* without reasons */
/* The digest of a case's results on target t. */
void check_report_digest(check_report *report, int t, uint64_t digest);
/* 1 if all have made every case that has to be in the digest; or 0, with the reason in `message`. */
int check_report_has_digest(const check_report *report, char *message, uint64_t message_bytes);
void check_report_text(const check_report *report);
int check_report_json(const check_report *report); /* 0 when writing failed */

#endif
