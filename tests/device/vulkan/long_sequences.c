/* Calls with more loop iterations than Mesa's driver for CPUs lets an invocation do; it stops without an error
 * (vulkan/rounds.c). Sequences at the bound have the CPU backend's bits. Longer ones are refused, or reported as a bad
 * map. On GPUs nothing is refused, and the bits are the same. */
#include "check/compare.h"
#include "check/target.h"
#include "check/values.h"
#include "support.h"
#include "tests/device/placed.h"

enum { VALUES = 16, CHANNELS = 2, MOST = 6, KERNEL = 4, LEAVES = 30 };

typedef struct long_call {
    const char *what;
    int n_seqs;
    int32_t lengths[MOST];
    int32_t keys;
    int checkpoints;      /* with an interval of 1 */
    int full;             /* gates per channel, raw, norms; a snapshot and a checkpoint of each token */
    int tree;             /* a branch, and at its end LEAVES tokens that all follow the same one */
    int columns;          /* of the log or the history, besides the usual */
    int32_t state, every; /* type of states, and after how many tokens they are rounded */
    int refused;          /* on a device that ends loops */
    int reported;         /* there, as a bad map */
} long_call;

/* An operand in a memory of its own, or a map, where the type is GDN_I32. */
static void *add(check_case *c, const char *name, size_t field, int32_t dtype, int64_t n, check_values values)
{
    check_view v = { .name = name, .field = field, .is_span = dtype == GDN_I32 };
    const check_memory *m = &c->memory[check_add_operand(c, &v, dtype, 1, &n, NULL, 0, 1, NULL)->memory];
    if (dtype != GDN_I32) check_fill(m->image + m->before, dtype, n, values, field);
    return m->image + m->before;
}

#define FILL(type, member, dtype, n, values) (void)add(c, #member, offsetof(type, member), dtype, n, CHECK_##values)
#define MAP(type, member, n)                 add(c, #member, offsetof(type, member), GDN_I32, n, CHECK_ZEROS)

/* ---- gated_delta_net ---- */

static void delta(check_case *c, const long_call *call)
{
    delta_call *const a = &c->args.gated_delta_net;
    const int64_t n = call->n_seqs, keys = call->keys;
    int32_t T = 0, longest = 0;
    check_case_init(c, &check_kernel_gated_delta_net);
    *a = (delta_call){ .args = GDN_INIT(gdn_gated_delta_net_args) };
    int32_t *const begins = MAP(delta_call, args.seq_start, n + 1);
    begins[0] = 0;
    for (int s = 0; s < n; s++) {
        begins[s + 1] = T += call->lengths[s];
        longest = call->lengths[s] > longest ? call->lengths[s] : longest;
    }
    a->args.n_seqs = a->args.state.n_rows = call->n_seqs;
    a->args.n_heads_k = a->args.n_heads_v = 1;
    a->args.scale = 0.125f;
    a->args.n_tokens = T;
    a->args.head_dim_k = call->keys;
    a->args.head_dim_v = VALUES;
    a->args.state.n_slots = call->full ? 2 * T + 1 : 3;
    a->args.gate = call->full ? GDN_GATE_CHANNEL : GDN_GATE_SCALAR;
    FILL(delta_call, args.q, GDN_F32, T * keys, SMALL);
    FILL(delta_call, args.k, GDN_F32, T * keys, SMALL);
    FILL(delta_call, args.v, GDN_F32, T * (int64_t)VALUES, NORMAL);
    FILL(delta_call, args.g, GDN_F32, call->full ? T * keys : T, GATE_SLOW);
    FILL(delta_call, args.beta, GDN_F32, T, UNIT);
    FILL(delta_call, args.state, call->state, n * a->args.state.n_slots * keys * VALUES, NORMAL);
    FILL(delta_call, args.out, GDN_F32, T * (int64_t)VALUES, ZEROS);
    if (call->every) a->rounding = (gdn_state_rounding){ .size = sizeof a->rounding, .interval = call->every };
    if (call->full || call->checkpoints || call->tree || call->every > 1) {
        int32_t *const position = MAP(delta_call, args.position, n);
        for (int s = 0; s < n; s++) position[s] = call->tree ? 3 : 0;
    }
    if (call->full ||
        call->checkpoints) { /* the plain form keeps the first token's state, and those around its bound */
        a->checkpoints = (gdn_checkpoints){ .size = sizeof a->checkpoints, .interval = 1, .n = longest };
        int32_t *const entry = MAP(delta_call, checkpoints.dst, n * longest);
        for (int64_t i = 0; i < n * longest; i++)
            entry[i] = call->full ? 1 + (int32_t)i
                       : i % longest == 16358 || i % longest == 20000
                           ? 3 * (int32_t)(i / longest) + (i % longest == 20000 ? 2 : 1)
                           : GDN_NONE;
    }
    if (call->full || call->tree) {
        a->inputs = (gdn_delta_inputs)GDN_INIT(gdn_delta_inputs);
        a->inputs.qk_norm = GDN_NORM_ADD;
        a->inputs.qk_norm_eps = 1e-6f;
    }
    if (call->full) { /* of one sequence */
        a->args.n_snapshots = T;
        int32_t *const entry = MAP(delta_call, args.state_dst, T);
        for (int32_t i = 0; i < T; i++) entry[i] = 1 + T + i;
        a->inputs.gate_input = GDN_G_RAW;
        FILL(delta_call, inputs.ssm_a, GDN_F32, 1, GATE_SLOW);
    }
    if (!call->tree && call->every <= 1) return;
    const int32_t rows = call->tree ? call->n_seqs : 1, slots = call->tree ? longest + call->columns : 1;
    a->log = (gdn_replay_log){ .size = sizeof a->log, .entries = { .n_rows = rows, .n_slots = slots } };
    FILL(delta_call, log.entries, GDN_F32, rows * slots * (keys + VALUES + 1), UNIT);
    if (!call->tree) { /* a log in which no sequence has a row */
        int32_t *const row = MAP(delta_call, log.row, n);
        for (int s = 0; s < n; s++) row[s] = GDN_NONE;
        return;
    }
    a->args.n_snapshots = 0;
    a->tree.size = sizeof a->tree;
    int32_t *const base_position = MAP(delta_call, log.base_position, n), *const commit =
                                                                              MAP(delta_call, log.commit, n);
    int32_t *const parent = MAP(delta_call, tree.parent, T);
    for (int32_t s = 0; s < n; s++) {
        const int32_t last = call->lengths[s] - LEAVES;
        base_position[s] = call->columns ? 0 : 3;
        commit[s] = s % 2 ? GDN_NONE : 3 * s + 1;
        for (int32_t i = 0; i < call->lengths[s]; i++) parent[begins[s] + i] = i < last ? i - 1 : last - 1;
    }
}

/* ---- ssm_conv: sequences of 40 tokens, of lengths[1] tokens as many as there are, and of lengths[0] ---- */

static void conv(check_case *c, const long_call *call)
{
    conv_call *const a = &c->args.ssm_conv;
    const int64_t n = call->n_seqs;
    check_case_init(c, &check_kernel_ssm_conv);
    *a = (conv_call){ .args = FIELDS(.size = sizeof a->args, .n_seqs = call->n_seqs, .n_channels = CHANNELS,
                                     .kernel_width = KERNEL, .activation = GDN_ACTIVATION_SILU) };
    a->args.history.n_rows = call->n_seqs;
    a->args.history.n_slots = KERNEL - 1 + call->columns;
    int32_t *const begins = MAP(conv_call, args.seq_start, n + 1), *const position = MAP(conv_call, args.position, n);
    begins[0] = 0;
    for (int32_t s = 0; s < n; s++) {
        begins[s + 1] = begins[s] + (s == 0 ? 40 : s == n - 1 ? call->lengths[0] : call->lengths[1]);
        position[s] = s % 3 * 2;
    }
    a->args.n_tokens = begins[n];
    FILL(conv_call, args.x, GDN_F32, begins[n] * (int64_t)CHANNELS, NORMAL);
    FILL(conv_call, args.weight, GDN_F32, CHANNELS * KERNEL, NORMAL);
    FILL(conv_call, args.history, GDN_F32, n * a->args.history.n_slots * CHANNELS, NORMAL);
    FILL(conv_call, args.out, GDN_F32, begins[n] * (int64_t)CHANNELS, ZEROS);
    if (!call->checkpoints) return;
    a->checkpoints = (gdn_checkpoints){ .size = sizeof a->checkpoints, .interval = 1, .n = call->lengths[0] };
    int32_t *const row = MAP(conv_call, checkpoints.dst, n * call->lengths[0]);
    for (int64_t i = 0; i < n * call->lengths[0]; i++) row[i] = GDN_NONE;
}

/* ---- set_rows: many rows, half of them written again ---- */

static void rows(check_case *c, const long_call *call)
{
    (void)call;
    placed_case(c, &check_kernel_set_rows,
                &(check_spec){ .set_rows = ROWS(.args.n_columns = 2, .args.n_rows = 600000, .args.n_rows_dst = 300000,
                                                .index_type = GDN_I32) });
}

/* ---- Calling ---- */

static const struct {
    void (*build)(check_case *c, const long_call *call);
    long_call call;
} calls[] = {
    { delta, { "as many tokens as a sequence may have", 1, { 65439 }, 32, .checkpoints = 0 } },
    { delta, { "one token more", 1, { 65440 }, 32, .refused = 1 } },
    { delta, { "one token more, beside sequences that end before", 4, { 3, 65440, 0, 66000 }, 32, .reported = 1 } },
    { delta, { "as many with checkpoints", 1, { 16359 }, 32, .checkpoints = 1 } },
    { delta, { "one token more with checkpoints", 4, { 16360, 0, 2, 40000 }, 32, .checkpoints = 1, .reported = 1 } },
    { delta, { "everything but a log, in blocks of keys", 1, { 1500 }, 33, .full = 1 } },
    { delta, { "trees of a long branch that ends in many", 2, { 80, 95 }, 33, .tree = 1, .columns = 3 } },
    { delta, { "states of 16 bits, as many tokens as may be", 2, { 13086, 5 }, 128, .state = GDN_F16 } },
    { delta, { "states of 16 bits, one token more", 1, { 13087 }, 128, .state = GDN_F16, .refused = 1 } },
    { delta, { "a log that takes too long to repeat", 1, { 16 }, 33, .tree = 1, .columns = 20000, .refused = 1 } },
    { delta, { "a tree that is too deep", 2, { 4000, 35 }, 33, .tree = 1, .refused = 1 } },
    { conv, { "a long convolution", 3, { 70000, 5 }, .columns = 0 } },
    { conv, { "a long convolution beside many short ones", 5000, { 70000, 1 }, .columns = 2 } },
    { conv, { "more sequences without tokens than loops have rounds", 70000, { 1200000, 0 }, .columns = 0 } },
    { conv, { "a history of too many columns", 2, { 100, 0 }, .columns = 70000, .refused = 1 } },
    { conv, { "too many checkpoints on the way", 2, { 20000, 0 }, .checkpoints = 1, .refused = 1 } },
    { rows, { "many rows, half of them written again", .n_seqs = 0 } },
};

int long_sequences(void)
{
    static check_result got, want;
    gdn_context *ctx = suite_open(GDN_BACKEND_VULKAN, NULL, 0);
    check_target *const device = check_target_adopt(ctx), *const host =
                                                              check_target_open(GDN_BACKEND_CPU, 0, 0, GDN_EXACT);
    const int ends = gdn_vulkan_ends_loops(ctx->state);
    NEED(device && host);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const long_call *const call = &calls[i].call;
        const int before = test_failed;
        check_case c;
        calls[i].build(&c, call);
        check_target_run(device, &c, &got);
        if (ends && call->refused) {
            REQUIRE(got.outcome == CHECK_SKIPPED && strstr(got.text, "n_tokens is"), "%s", got.text);
        } else if (ends && call->reported) {
            REQUIRE(got.status == GDN_BAD_MAP && strstr(got.text, "seq_start"), "%s", got.text);
        } else {
            check_text text = { .used = 0 };
            check_target_run(host, &c, &want);
            REQUIRE(got.outcome == CHECK_RAN && want.outcome == CHECK_RAN, "%s; %s", got.text, want.text);
            REQUIRE(!check_compare(&c, want.image, got.image, &text), "%s", text.at);
        }
        check_case_free(&c);
        (void)printf("%-55s %s\n", call->what, test_failed == before ? "ok" : "FAILED");
    }
    check_result_free(&got);
    check_result_free(&want);
    check_target_close(device);
    check_target_close(host);
    return test_summary();
}
