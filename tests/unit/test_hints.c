/* Warnings for arguments that are valid and rarely meant (core/hints.c): each is logged once in a context, and no call
 * that means what it says has one. */
#include <string.h>

#include "gdn/gdn.h"
#include "tests/harness.h"

enum { N = 1 << 16, CALLS = 4 };
static _Alignas(64) float memory[4][N];
static _Alignas(64) char workspace[1 << 20];
static int32_t map[4][2] = { { 4, 4 }, { 4, 4 }, { 0, 2 }, { GDN_NONE, GDN_NONE } };
#define MAP(i) ((gdn_span){ .data = map[i], .bytes = sizeof map[i] })

static char said[1024];
static void listen(void *user, int32_t level, const char *message)
{
    (void)user;
    if (level != GDN_LOG_WARNING) return;
    (void)strncat(said, message, sizeof said - strlen(said) - 1);
    (void)strncat(said, "\n", sizeof said - strlen(said) - 1);
}

/* Call `number` with the slip, or without it. */
static gdn_status call(gdn_context *ctx, int number, int slip)
{
    gdn_checkpoints kept = GDN_INIT(gdn_checkpoints);
    gdn_replay_log log = GDN_INIT(gdn_replay_log);
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    gdn_ssm_conv_args c = GDN_INIT(gdn_ssm_conv_args);
    c.n_seqs = c.history.n_rows = 2;
    c.n_tokens = 4;
    c.n_channels = 8;
    c.kernel_width = 4;
    c.history.n_slots = 3;
    c.x.data = c.weight.data = memory[0];
    c.out.data = memory[1];
    c.history.data = memory[2];
    if (!slip) c.position = MAP(0);
    c.workspace = (gdn_span){ .data = workspace, .bytes = sizeof workspace };
    if (number == 3) return gdn_ssm_conv(ctx, &c, NULL);
    a.n_seqs = a.state.n_rows = 2;
    a.n_tokens = 4;
    a.n_heads_k = a.n_heads_v = 1;
    a.head_dim_k = a.head_dim_v = 16;
    a.scale = 1;
    a.q.data = a.k.data = a.v.data = a.g.data = a.beta.data = memory[0];
    a.out.data = memory[1];
    a.state.data = memory[2];
    a.workspace = c.workspace;
    if (number == 0) {
        kept.interval = 4;
        kept.n = 1;
        kept.dst = MAP(3);
        a.checkpoints = &kept;
        if (!slip) a.position = MAP(0);
    } else if (number == 1) {
        a.state.n_slots = 2;
        a.n_snapshots = slip ? 1 : 2;
    } else {
        log.entries = (gdn_pool){ .data = memory[3], .n_rows = 2, .n_slots = 8 };
        a.log = &log;
        a.n_snapshots = 0;
        a.position = MAP(0);
        if (!slip) log.base_position = MAP(1), log.commit = MAP(2);
        if (!slip) a.state.n_slots = 2;
    }
    return gdn_gated_delta_net(ctx, &a, NULL);
}

int main(void)
{
    static const char *const text[CALLS] = { "checkpoints is given and position is absent",
                                             "n_snapshots is 1 and state_dst is absent",
                                             "writes no state and replays no log entry",
                                             "history is given and position is absent" };
    const gdn_context_desc desc = { .size = sizeof desc, .n_threads = 1, .log = listen };
    gdn_context *ctx = NULL;
    NEED(!gdn_context_create(&desc, &ctx));
    for (int slip = 0; slip < 2; slip++)
        for (int i = 0; i < CALLS; i++) {
            said[0] = 0;
            REQUIRE(!call(ctx, i, slip), "call %d: %s", i, gdn_last_error());
            REQUIRE(slip ? strstr(said, text[i]) != NULL : !said[0], "call %d with %d slips: '%s'", i, slip, said);
            REQUIRE(!strchr(said, '\n') || !strchr(said, '\n')[1]); /* one line */
            said[0] = 0;
            REQUIRE(!call(ctx, i, slip) && !said[0]);
        }
    gdn_context_destroy(ctx);
    return test_summary();
}
