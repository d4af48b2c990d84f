/* Rules that are broken without any map: the host refuses such a call, with the reference's text, on every device. */
#include <string.h>

#include "tests/device/suite.h"

enum { PLENTY = 1 << 16 };

/* The text with which the call is refused. Of the device it has to be the reference's: the host checks it. */
static void refused(gdn_context *ctx, int number, char *text, size_t room)
{
    gdn_span memory = { 0 }, workspace = { 0 };
    NEED(!gdn_buffer_create(ctx, PLENTY, &memory) && !gdn_buffer_create(ctx, PLENTY, &workspace));
    gdn_replay_log log = GDN_INIT(gdn_replay_log);
    gdn_state_rounding rounding = GDN_INIT(gdn_state_rounding);
    gdn_token_tree tree = GDN_INIT(gdn_token_tree);
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    gdn_ssm_conv_args c = GDN_INIT(gdn_ssm_conv_args);
    gdn_status status;
    if (number == 2) { /* a history that is shorter than a tree */
        c.n_seqs = c.history.n_rows = 2;
        c.n_tokens = 18;
        c.n_channels = 8;
        c.kernel_width = 4;
        c.history.n_slots = 5;
        c.x.data = c.weight.data = memory.data;
        c.out.data = (char *)memory.data + PLENTY / 4;
        c.history.data = (char *)memory.data + PLENTY / 2;
        c.tree = &tree;
        c.workspace = workspace;
        status = gdn_ssm_conv(ctx, &c, NULL);
    } else {
        a.n_seqs = a.state.n_rows = log.entries.n_rows = 2;
        a.n_tokens = 18;
        a.n_heads_k = a.n_heads_v = 1;
        a.head_dim_k = a.head_dim_v = 16;
        a.scale = 1;
        a.q.data = a.k.data = a.v.data = a.g.data = a.beta.data = memory.data;
        a.out.data = (char *)memory.data + PLENTY / 4;
        a.state.data = (char *)memory.data + PLENTY / 2;
        log.entries.data = (char *)memory.data + 3 * PLENTY / 4;
        log.entries.n_slots = number ? 16 : 4; /* 0: a log that is shorter than a sequence */
        a.log = &log;
        a.workspace = workspace;
        if (number) { /* 1: a snapshot between two roundings */
            a.state.dtype = GDN_BF16;
            rounding.interval = 4;
            a.rounding = &rounding;
        } else {
            a.n_snapshots = 0;
        }
        status = gdn_gated_delta_net(ctx, &a, NULL);
    }
    (void)snprintf(text, room, "%d: %s", (int)status, gdn_last_error());
    REQUIRE(status == GDN_INVALID_ARGUMENT && !gdn_synchronize(ctx, NULL));
    gdn_buffer_destroy(ctx, &memory);
    gdn_buffer_destroy(ctx, &workspace);
}

void device_rules(gdn_context *device)
{
    static const char *const names[] = { "log.entries.n_slots is 4", "rounding.interval is 4", "history.n_slots is 5" };
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    gdn_context *reference = NULL;
    NEED(!gdn_context_create(&desc, &reference));
    for (int i = 0; i < 3; i++) {
        char got[512], expected[512];
        refused(reference, i, expected, sizeof expected);
        refused(device, i, got, sizeof got);
        if (strcmp(got, expected) != 0) (void)printf("device: %s\nreference: %s\n", got, expected);
        REQUIRE(!strcmp(got, expected) && strstr(got, names[i]));
    }
    gdn_context_destroy(reference);
}
