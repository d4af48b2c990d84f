/* The longest calls that are allowed on Mesa's driver for CPUs, which ends loops without an error: bits are the CPU
 * backend's. Longer ones are refused, or reported as a bad map. On GPUs nothing is refused, and bits are the same. */
#include "check/compare.h"
#include "check/target.h"
#include "support.h"
#include "tests/device/placed.h"

enum { TREE = 77, LEAVES = 30 };
static int parent[TREE]; /* a long branch that ends in many leaves */

enum { ALLOWED, REFUSED, REPORTED }; /* on a driver for CPUs */

static void try(gdn_context *ctx, check_target *device, check_target *host, const char *what,
                const check_kernel *kernel, const check_spec *spec, int outcome, const char *says)
{
    static check_result got, want;
    const int before = test_failed;
    check_text text = { .used = 0 };
    check_case c;
    placed_case(&c, kernel, spec);
    check_target_run(device, &c, &got);
    if (outcome == REFUSED) {
        REQUIRE(got.outcome == CHECK_SKIPPED && strstr(got.text, says), "%s", got.text);
        placed p; /* the call itself is refused, too, for operands with any alignment */
        placed_open(&p, ctx, kernel, spec);
        FAILS(placed_run(&p, NULL), GDN_UNSUPPORTED, "n_tokens is ", "allowed");
        placed_close(&p);
    } else if (outcome == REPORTED) {
        REQUIRE(got.status == GDN_BAD_MAP && strstr(got.text, says), "%s", got.text);
    } else {
        check_target_run(host, &c, &want);
        REQUIRE(got.outcome == CHECK_RAN && want.outcome == CHECK_RAN, "%s; %s", got.text, want.text);
        if (got.outcome == CHECK_RAN && want.outcome == CHECK_RAN)
            REQUIRE(!check_compare(&c, want.image, got.image, &text), "%s", text.at);
    }
    check_case_free(&c);
    check_result_free(&got);
    check_result_free(&want);
    (void)printf("%-55s %s\n", what, test_failed == before ? "ok" : "FAILED");
}

/* A call of gated_delta_net with two sequences, the second of `second` tokens. */
static delta_spec two(delta_spec spec, int second)
{
    spec.seq[1].length = second;
    spec.map_start = 1;
    return spec;
}

#define NORM .call.inputs.qk_norm = GDN_NORM_ADD, .call.inputs.qk_norm_eps = 1e-6f

/* Gates per channel, raw, norms, and a checkpoint. */
static delta_spec full(int length)
{
    delta_spec spec = DELTA(1, length, .dim_k = 33, .dim_v = 16, .gate = GDN_GATE_CHANNEL, NORM, .n_slots = 2,
                            .n_slots_out = 2, .interval = 1, .n_checkpoints = 1, .call.inputs.gate_input = GDN_G_RAW,
                            .values[DELTA_A] = CHECK_GATE_MODEL);
    spec.seq[0].checkpoint[0] = 1;
    return spec;
}

/* The same tokens and leaves in both sequences, which replay a log of `slots` entries. */
static delta_spec tree_of(int slots)
{
    delta_spec spec = DELTA(2, TREE, .dim_k = 33, .dim_v = 16, .n_snapshots = 0, .log_rows = 2, .log_slots = slots,
                            .tree = 1, .map_parent = 1, .map_commit = 1, NORM);
    for (int t = 0; t < TREE; t++) parent[t] = t < TREE - LEAVES ? t - 1 : TREE - LEAVES - 1;
    for (int s = 0; s < 2; s++) {
        spec.seq[s].parent = parent;
        spec.seq[s].log_row = s;
        spec.seq[s].commit = s ? GDN_NONE : 0;
    }
    return spec;
}

int long_sequences(void)
{
    gdn_context *ctx = suite_open(GDN_BACKEND_VULKAN, NULL, 0);
    check_target *const device = check_target_adopt(ctx), *const host =
                                                              check_target_open(GDN_BACKEND_CPU, 0, 0, GDN_EXACT);
    const int cpu = ((const gdn_vulkan_device *)ctx->state)->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    NEED(device && host);
#define DELTA_CALL(what, spec, outcome, says)                                                                          \
    try(ctx, device, host, what, &check_kernel_gated_delta_net, &(check_spec){ .gated_delta_net = spec },              \
        cpu ? outcome : ALLOWED, says)
#define CONV_CALL(what, spec, outcome, says)                                                                           \
    try(ctx, device, host, what, &check_kernel_ssm_conv, &(check_spec){ .ssm_conv = spec }, cpu ? outcome : ALLOWED,   \
        says)
#define PLAIN   .dim_k = 32, .dim_v = 16
#define STATE16 .dim_k = 128, .dim_v = 16, .dtype_state = GDN_F16, .state_interval = 1, .n_snapshots = 1

    DELTA_CALL("as many tokens as a sequence may have", DELTA(1, 13054, PLAIN), ALLOWED, "");
    DELTA_CALL("one token more", DELTA(1, 13055, PLAIN), REFUSED,
               "n_tokens is 13055 with n_seqs = 1 and log.entries.n_slots = 0; at most 13054 tokens a sequence are "
               "allowed");
    DELTA_CALL("one token more, beside a sequence that ends before", two(DELTA(2, 3, PLAIN), 13055), REPORTED,
               "seq_start");
    DELTA_CALL("everything but a log, in blocks of keys", full(1330), ALLOWED, "");
    DELTA_CALL("one token more in blocks of keys", full(1331), REFUSED, "at most 1330 tokens");
    DELTA_CALL("states of 16 bits, as many tokens as may be", two(DELTA(2, 5, STATE16), 13054), ALLOWED, "");
    DELTA_CALL("states of 16 bits, one token more", DELTA(1, 13055, STATE16), REFUSED, "at most 13054 tokens");
    DELTA_CALL("trees of a long branch that ends in many", tree_of(TREE + 3), ALLOWED, "");
    DELTA_CALL("a tree with a log that takes too long to replay", tree_of(20000), REFUSED, "n_slots = 20000; at most");
    CONV_CALL("a long convolution", CONV(2, 70000, .n_channels = 2, .width = 4), ALLOWED, "");
    CONV_CALL("too many slots of a history", CONV(2, 100, .n_channels = 2, .width = 4, .n_slots = 70000), REFUSED,
              "n_tokens is 200 with history.n_slots = 70000 and checkpoints.n = 0, up to 70000 loop iterations; at "
              "most 65279 are allowed");
    check_target_close(device);
    check_target_close(host);
    return test_summary();
}
