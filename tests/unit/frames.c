/* Calls for tests/unit/frames.py, which looks at the stack in their loops: `frames CALL` makes one, on one thread of
 * the best instruction set. */
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

static gdn_span workspace(void) { return (gdn_span){ .data = memory + (1 << 17), .bytes = 4 << 17 }; }

static gdn_pool pool(int n, int32_t n_rows, int32_t n_slots)
{
    const gdn_tensor t = floats(n, GDN_F32);
    return (gdn_pool){ .data = t.data, .bytes = t.bytes, .n_rows = n_rows, .n_slots = n_slots };
}

static gdn_status delta(gdn_context *ctx, int n_tokens, int keys, int32_t layout, int with_tree)
{
    static const int32_t parent[] = { GDN_NONE, 0, 0 };
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    gdn_replay_log log = GDN_INIT(gdn_replay_log);
    gdn_token_tree tree = GDN_INIT(gdn_token_tree);
    a.n_seqs = a.n_heads_k = a.n_heads_v = 1;
    a.n_tokens = n_tokens;
    a.head_dim_k = a.head_dim_v = keys;
    a.state_layout = layout;
    a.scale = 1;
    a.q = floats(n_tokens * keys, GDN_F32);
    a.k = floats(n_tokens * keys, GDN_F32);
    a.v = floats(n_tokens * keys, GDN_F32);
    a.g = floats(n_tokens, GDN_F32);
    a.beta = floats(n_tokens, GDN_F32);
    a.out = floats(n_tokens * keys, GDN_F32);
    a.state = pool(keys * keys, 1, 1);
    a.workspace = workspace();
    if (with_tree) {
        log.entries = pool(MOST * (2 * keys + 1), 1, MOST);
        tree.parent = (gdn_span){ .data = (void *)(uintptr_t)parent, .bytes = sizeof parent };
        a.log = &log;
        a.tree = &tree;
        a.n_snapshots = 0;
    }
    return gdn_gated_delta_net(ctx, &a, NULL);
}

static gdn_status conv(gdn_context *ctx)
{
    gdn_ssm_conv_args a = GDN_INIT(gdn_ssm_conv_args);
    a.n_seqs = a.n_tokens = 1;
    a.n_channels = ROW;
    a.kernel_width = 4;
    a.x = floats(ROW, GDN_F32);
    a.weight = floats(4 * ROW, GDN_F32);
    a.out = floats(ROW, GDN_F32);
    a.history = pool(3 * ROW, 1, 3);
    a.workspace = workspace();
    return gdn_ssm_conv(ctx, &a, NULL);
}

static gdn_status rows(gdn_context *ctx)
{
    gdn_set_rows_args a = GDN_INIT(gdn_set_rows_args);
    a.n_columns = ROW;
    a.n_rows = a.n_rows_dst = 1;
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
    if (!strcmp(name, "tree")) return delta(ctx, 3, 128, GDN_STATE_VK, 1);
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
