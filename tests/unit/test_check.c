/* How check judges results that are wrong, and calls that return an error. */
#include <string.h>

#include "check/digests.h"
#include "tests/harness.h"

static const check_kernel *true_kernel;

static gdn_status time_out(gdn_context *ctx, const void *args, gdn_stream stream)
{
    gdn_device_info info = { .size = sizeof info };
    if (gdn_context_describe(ctx, &info, NULL) || info.backend != GDN_BACKEND_REFERENCE) return GDN_TIMEOUT;
    return true_kernel->run(ctx, args, stream);
}

/* Writes one byte before the first element of the first result, too. */
static gdn_status write_before(gdn_context *ctx, const void *args, gdn_stream stream)
{
    const check_operand *out = true_kernel->operand;
    while (!out->written) out++;
    const gdn_tensor *t = check_tensor(args, out);
    gdn_device_info info = { .size = sizeof info };
    const gdn_status status = true_kernel->run(ctx, args, stream);
    if (!gdn_context_describe(ctx, &info, NULL) && info.backend != GDN_BACKEND_REFERENCE)
        ((unsigned char *)t->data)[(int64_t)t->offset - 1] ^= 1;
    return status;
}

static check_outcome judge(gdn_status (*run)(gdn_context *, const void *, gdn_stream), check_text *text)
{
    static check_result result;
    check_target *reference = check_target_open(GDN_BACKEND_REFERENCE, 0, 0, GDN_EXACT),
                 *cpu = check_target_open(GDN_BACKEND_CPU, 0, 0, GDN_EXACT);
    check_outcome outcome = CHECK_SKIPPED;
    check_rng rng = { .state = 3 };
    check_spec spec;
    check_case c;
    uint64_t digest;
    NEED(reference && cpu);
    true_kernel = &check_kernel_set_rows;
    check_kernel wrong = *true_kernel;
    wrong.run = run;
    check_case_init(&c, &wrong);
    spec.set_rows = ROWS(.args.n_columns = 8, .args.n_rows = 3, .args.n_rows_dst = 4);
    true_kernel->build(&c, &spec, &rng);
    if (check_known(reference, &c, &digest, &outcome, text))
        outcome = check_judge_known(cpu, reference, &c, digest, &result, text);
    check_result_free(&result);
    check_case_free(&c);
    check_target_close(cpu);
    check_target_close(reference);
    return outcome;
}

int main(void)
{
    check_text text = { "", 0 };
    REQUIRE(judge(check_kernel_set_rows.run, &text) == CHECK_RAN, "%s", text.at);
    REQUIRE(judge(time_out, &text) == CHECK_ERROR && strstr(text.at, "the call failed: GDN_TIMEOUT"), "%s", text.at);
    text = (check_text){ "", 0 };
    REQUIRE(judge(write_before, &text) == CHECK_FAILED &&
                strstr(text.at, "dst: 1 differs; first canary, 1 bytes before the first element"),
            "%s", text.at);
    return test_summary();
}
