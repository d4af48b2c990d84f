/* Judging runs. See trial.h. */
#include "trial.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digests.h"
#include "environment.h"

void check_setting_random(check_setting *setting, const check_threads *threads, check_rng *rng)
{
    const int kind = check_between(rng, 0, 9);
    const uint64_t drawn = check_next(rng);
    int n = threads->value[drawn % (uint64_t)threads->n];
    /* Mostly few: more threads than cores are slow. What is drawn next is the same for any list of threads. */
    if (drawn % 8 > 1 && !check_one_in(rng, 4)) n = threads->value[check_between(rng, 0, 1) % threads->n];
    setting->placement = check_between(rng, CHECK_CANARIES, CHECK_GUARD_BEFORE);
    setting->use_offset = check_between(rng, 0, 1);
    if (kind > 1 && kind < 6) /* OpenMP's threads burn their time waiting for the next call */
        n = threads->value[0];
    setting->executor = CHECK_EXECUTOR(kind < 6   ? CHECK_THREADS_LIBRARY
                                       : kind < 9 ? CHECK_THREADS_POOL
                                                  : CHECK_THREADS_REVERSE,
                                       n);
    setting->environment = check_one_in(rng, 4) ? check_between(rng, 0, CHECK_ENV_COUNT - 1) : CHECK_ENV_DEFAULT;
}

void check_case_begin(check_case *c, const check_kernel *kernel, const check_setting *setting)
{
    check_case_init(c, kernel);
    c->placement = setting->placement;
    c->use_offset = setting->use_offset;
    c->executor = setting->executor;
    c->environment = setting->environment;
}

static void conclude(check_trial *trial, check_outcome outcome, const char *format, va_list args)
{
    char text[600];
    if (trial->outcome == CHECK_FAILED || trial->outcome == CHECK_ERROR) return;
    trial->outcome = outcome;
    vsnprintf(text, sizeof text, format, args);
    check_say(&trial->text, outcome == CHECK_SKIPPED ? "%s" : "  %s\n", text);
}

void check_trial_fail(check_trial *trial, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    conclude(trial, CHECK_FAILED, format, args);
    va_end(args);
}

void check_trial_error(check_trial *trial, gdn_status status, const char *what)
{
    if (trial->outcome == CHECK_FAILED || trial->outcome == CHECK_ERROR) return;
    trial->outcome = CHECK_ERROR;
    check_say(&trial->text, "  %s failed: %s: %s\n", what, gdn_status_name(status), gdn_last_error());
}

void check_trial_skip(check_trial *trial, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    conclude(trial, CHECK_SKIPPED, format, args);
    va_end(args);
}

int check_trial_run(check_trial *trial, const check_case *c, check_result *result, const char *what)
{
    check_text found = { "", 0 };
    uint64_t digest;
    check_outcome outcome;
    if (trial->outcome != CHECK_RAN) return 0;
    if (check_known(trial->reference, c, &digest, &outcome, &found))
        outcome = check_judge_known(trial->target, trial->reference, c, digest, result, &found);
    if (outcome == CHECK_SKIPPED) check_trial_skip(trial, "%s", found.at);
    else if (outcome == CHECK_FAILED) {
        trial->outcome = CHECK_FAILED;
        check_say(&trial->text, "  %s differs from the reference:\n%s", what, found.at);
    } else if (outcome == CHECK_ERROR) {
        trial->outcome = CHECK_ERROR;
        check_say(&trial->text, "  %s:\n%s", what, found.at);
    }
    return outcome == CHECK_RAN;
}

void check_call_end(check_call *call)
{
    check_case_free(&call->c);
    check_result_free(&call->result);
}

check_call *check_trial_call(check_trial *trial)
{
    return trial->call[trial->n_calls++] = check_alloc(sizeof(check_call));
}

void check_trial_end(check_trial *trial)
{
    while (trial->n_calls) {
        check_call *call = trial->call[--trial->n_calls];
        check_call_end(call);
        free(call);
    }
}

void check_call_build(check_trial *trial, const check_kernel *kernel, check_call *call, check_rng *rng)
{
    check_call_end(call);
    check_case_begin(&call->c, kernel, &trial->setting);
    kernel->build(&call->c, &call->spec, rng);
}

int check_call_run(check_trial *trial, const check_kernel *kernel, check_call *call, check_rng *rng, const char *what)
{
    check_call_build(trial, kernel, call, rng);
    return check_trial_run(trial, &call->c, &call->result, what);
}

static int same(check_trial *trial, int32_t dtype, const void *expected, const void *actual, int64_t n,
                const char *format, va_list args)
{
    const unsigned char *a = expected, *b = actual;
    const int64_t bytes = (int64_t)check_unit_bytes(dtype);
    int64_t differ = 0, first = -1;
    if (trial->outcome != CHECK_RAN || !memcmp(a, b, (size_t)(bytes * n))) return trial->outcome == CHECK_RAN;
    for (int64_t i = 0; i < n; i++)
        if (!check_same(a + bytes * i, b + bytes * i, dtype)) {
            if (!differ++) first = i;
        }
    if (!differ) return 1;
    char where[200];
    vsnprintf(where, sizeof where, format, args);
    trial->outcome = CHECK_FAILED;
    check_say(&trial->text, "  %s: %lld of %lld differ; first [%lld]: ", where, (long long)differ, (long long)n,
              (long long)first);
    check_say_value(&trial->text, a + bytes * first, dtype);
    check_say(&trial->text, " against ");
    check_say_value(&trial->text, b + bytes * first, dtype);
    check_say(&trial->text, "\n");
    return 0;
}

int check_trial_same_of(check_trial *trial, int32_t dtype, const void *expected, const void *actual, int64_t n,
                        const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int as_expected = same(trial, dtype, expected, actual, n, format, args);
    va_end(args);
    return as_expected;
}

int check_trial_same(check_trial *trial, const void *expected, const void *actual, int64_t n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int as_expected = same(trial, GDN_F32, expected, actual, n, format, args);
    va_end(args);
    return as_expected;
}
