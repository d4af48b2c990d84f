/* Judging runs: one case on a target against the reference, and trials of families. */
#ifndef GDN_CHECK_TRIAL_H
#define GDN_CHECK_TRIAL_H

#include "compare.h"
#include "specs.h"
#include "target.h"

/* Settings of a call that must not change its bits. */
typedef struct check_setting {
    int placement, use_offset, executor, environment;
} check_setting;

/* Thread counts to choose from. */
typedef struct check_threads {
    int n, value[16];
} check_threads;

void check_setting_random(check_setting *setting, const check_threads *threads, check_rng *rng);
/* An empty case with these settings. */
void check_case_begin(check_case *c, const check_kernel *kernel, const check_setting *setting);

/* A call of a trial: its specification, its memory, its result. */
typedef struct check_call {
    union {
        check_spec spec;
        delta_spec delta;
        conv_spec conv;
        rows_spec rows;
    };
    check_case c;
    check_result result;
} check_call;

/* A trial of a family: several calls that have to agree. */
typedef struct check_trial {
    check_target *target, *reference;
    const check_threads *threads;
    check_setting setting; /* of the next calls; families may change it */
    int number;            /* of this trial */
    check_outcome outcome; /* CHECK_RAN unless something happened; then the rest is of no use */
    check_text text;
    check_call *call[6];
    int n_calls;
} check_trial;

/* A call that check_trial_end() frees, empty. */
check_call *check_trial_call(check_trial *trial);
void check_trial_end(check_trial *trial);
/* By its specification; what was there is freed. */
void check_call_build(check_trial *trial, const check_kernel *kernel, check_call *call, check_rng *rng);
/* Built, and then run by check_trial_run(). */
int check_call_run(check_trial *trial, const check_kernel *kernel, check_call *call, check_rng *rng, const char *what);
void check_call_end(check_call *call); /* what is left is its specification */

/* Run c on the target and on the reference and compare. 1 if result holds the results. `what` names the
 * call in the report. After a failure or a skip it does nothing and returns 0. */
int check_trial_run(check_trial *trial, const check_case *c, check_result *result, const char *what);
void check_trial_fail(check_trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "%s failed: GDN_TIMEOUT: ..." */
void check_trial_error(check_trial *trial, gdn_status status, const char *what);
void check_trial_skip(check_trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* n elements of two results that have to be the same, of a type, or F32. `format` names them in the report. */
int check_trial_same_of(check_trial *trial, int32_t dtype, const void *expected, const void *actual, int64_t n,
                        const char *format, ...) __attribute__((format(printf, 6, 7)));
int check_trial_same(check_trial *trial, const void *expected, const void *actual, int64_t n, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Parts of two calls' results that have to be the same; 1 where they are (same.c). out of n tokens of sequence s, from
 * t on, against those of s2 from t2 on; */
int delta_same_tokens(check_trial *trial, const check_call *a, int s, int t, const check_call *b, int s2, int t2, int n,
                      const char *what);
int conv_same_tokens(check_trial *trial, const check_call *a, int s, int t, const check_call *b, int s2, int t2, int n,
                     const char *what);
/* a state in a slot of the pool that is written; and a column of a row of the history that is. */
int delta_same_state(check_trial *trial, const check_call *a, int entry, const check_call *b, int entry2,
                     const char *what);
int conv_same_slot(check_trial *trial, const check_call *a, int row, int64_t position, const check_call *b, int row2,
                   int64_t position2, const char *what);

/* Families in files of their own: the log, trees, and rows beyond 2^31 elements (far_rows.c). */
void check_log(check_trial *trial, check_rng *rng);
void check_state16(check_trial *trial, check_rng *rng);
void check_chunked(check_trial *trial, check_rng *rng);
void check_state_trees(check_trial *trial, check_rng *rng);
void check_history_trees(check_trial *trial, check_rng *rng);
void check_far_states(check_trial *trial, check_rng *rng);
void check_far_histories(check_trial *trial, check_rng *rng);
void check_far_rows(check_trial *trial, check_rng *rng);

#endif
