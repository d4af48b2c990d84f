/* Calls for tests/frames.py, which looks at the stack in their loops: `frames CALL` makes one, on one thread of the
 * best instruction set. */
#include <stdio.h>
#include <string.h>

#include "gdn/gdn.h"

enum { ROW = 128, MOST = 40 };

static _Alignas(64) float memory[1 << 18];
static float *room = memory;

static gdn_tensor floats(int n, int32_t dtype)
{
    float *at = room;
    room += (n + 15) / 16 * 16;
    return (gdn_tensor){ .data = at, .bytes = 4 * (uint64_t)n, .dtype = dtype };
}

static gdn_span workspace(void)
{
    return (gdn_span){ .data = memory + (1 << 17), .bytes = 4 << 17 };
}

static gdn_status delta(gdn_context *ctx, int n_tokens, int keys, int32_t layout, uint32_t flags)
{
    static const int32_t parent[] = { GDN_NONE, 0, 0 };
    gdn_gated_delta_net_args a = { .size = sizeof a,
                                   .n_seqs = 1,
                                   .n_tokens = n_tokens,
                                   .n_heads_k = 1,
                                   .n_heads_v = 1,
                                   .head_dim_k = keys,
                                   .head_dim_v = keys,
                                   .n_rows = 1,
                                   .n_slots = 1,
                                   .n_snapshots = flags ? 0 : 1,
                                   .scale = 1,
                                   .state_layout = layout,
                                   .flags = flags };
    a.q = floats(n_tokens * keys, GDN_F32);
    a.k = floats(n_tokens * keys, GDN_F32);
    a.v = floats(n_tokens * keys, GDN_F32);
    a.g = floats(n_tokens, GDN_F32);
    a.beta = floats(n_tokens, GDN_F32);
    a.out = floats(n_tokens * keys, GDN_F32);
    a.state = floats(keys * keys, GDN_F32);
    a.workspace = workspace();
    if (flags) {
        a.n_log_rows = 1;
        a.n_log_columns = MOST;
        a.log = floats(MOST * (2 * keys + 1), GDN_F32);
        a.parent = (gdn_span){ .data = (void *)(uintptr_t)parent, .bytes = sizeof parent };
        a.log_row = (gdn_span){ .data = floats(1, GDN_F32).data, .bytes = 4 };
    }
    return gdn_gated_delta_net(ctx, &a, NULL);
}

static gdn_status conv(gdn_context *ctx)
{
    gdn_ssm_conv_args a = { .size = sizeof a, .n_seqs = 1, .n_tokens = 1, .n_channels = ROW, .kernel_width = 4,
                            .n_columns = 3, .n_rows = 1 };
    a.x = floats(ROW, GDN_F32);
    a.weight = floats(4 * ROW, GDN_F32);
    a.out = floats(ROW, GDN_F32);
    a.history = floats(3 * ROW, GDN_F32);
    a.workspace = workspace();
    return gdn_ssm_conv(ctx, &a, NULL);
}

static gdn_status rows(gdn_context *ctx)
{
    gdn_set_rows_args a = { .size = sizeof a, .n_columns = ROW, .n_rows = 1, .n_rows_dst = 1 };
    a.src = floats(ROW, GDN_F32);
    a.dst = floats(ROW, GDN_F16);
    a.index = floats(1, GDN_I32);
    a.workspace = workspace();
    return gdn_set_rows(ctx, &a, NULL);
}

static gdn_status call(gdn_context *ctx, const char *name)
{
    if (!strcmp(name, "rows")) return delta(ctx, 1, 16, GDN_STATE_VK, 0);
    if (!strcmp(name, "decode")) return delta(ctx, 1, 128, GDN_STATE_VK, 0);
    if (!strcmp(name, "lines")) return delta(ctx, 2, 16, GDN_STATE_KV, 0);
    if (!strcmp(name, "columns")) return delta(ctx, MOST, 128, GDN_STATE_VK, 0);
    if (!strcmp(name, "tree")) return delta(ctx, 3, 128, GDN_STATE_VK, GDN_DELTA_TREE);
    return !strcmp(name, "ssm_conv") ? conv(ctx) : rows(ctx);
}

int main(int argc, char **argv)
{
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_CPU, .n_threads = 1 };
    gdn_context *ctx;
    gdn_status status = argc == 2 ? gdn_context_create(&desc, &ctx) : GDN_INVALID_ARGUMENT;
    if (!status) {
        status = call(ctx, argv[1]);
        gdn_context_destroy(ctx);
    }
    if (status) (void)fprintf(stderr, "frames: %s\n", gdn_last_error());
    return status != GDN_OK;
}
