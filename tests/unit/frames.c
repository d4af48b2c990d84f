/* Calls for frames.py, which looks at the stack in their loops: `frames NAME` makes one, on one thread. */
#include <stdio.h>
#include <string.h>

#include "gdn/gdn.h"

enum { N = 128, MOST = 40 };
static _Alignas(64) float memory[1 << 18];
static float *room = memory;

static float *floats(int n)
{
    float *at = room;
    room += (n + 15) / 16 * 16;
    return at;
}

static gdn_status delta(gdn_context *ctx, int n_tokens)
{
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    a.n_seqs = a.n_heads_k = a.n_heads_v = 1;
    a.n_tokens = n_tokens;
    a.head_dim_k = a.head_dim_v = N;
    a.scale = 1;
    a.q.data = floats(n_tokens * N), a.k.data = floats(n_tokens * N), a.v.data = floats(n_tokens * N);
    a.g.data = floats(n_tokens), a.beta.data = floats(n_tokens), a.out.data = floats(n_tokens * N);
    a.state.data = floats(N * N);
    a.state.n_rows = a.state.n_slots = 1;
    a.workspace.data = memory + (1 << 17);
    return gdn_gated_delta_net(ctx, &a, NULL);
}

static gdn_status conv(gdn_context *ctx)
{
    gdn_ssm_conv_args a = GDN_INIT(gdn_ssm_conv_args);
    a.n_seqs = a.n_tokens = a.history.n_rows = 1;
    a.n_channels = N;
    a.kernel_width = 4;
    a.history.n_slots = 3;
    a.x.data = floats(N), a.weight.data = floats(4 * N), a.out.data = floats(N), a.history.data = floats(3 * N);
    a.workspace.data = memory + (1 << 17);
    return gdn_ssm_conv(ctx, &a, NULL);
}

static gdn_status rows(gdn_context *ctx)
{
    gdn_set_rows_args a = GDN_INIT(gdn_set_rows_args);
    a.n_columns = N;
    a.n_rows = a.n_rows_dst = 1;
    a.src.data = floats(N), a.dst.data = floats(N), a.index.data = floats(1);
    a.dst.dtype = GDN_F16;
    a.index.dtype = GDN_I32;
    a.workspace.data = memory + (1 << 17);
    return gdn_set_rows(ctx, &a, NULL);
}

int main(int argc, char **argv)
{
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_CPU, .n_threads = 1 };
    gdn_context *ctx = NULL;
    gdn_status status = argc == 2 ? gdn_context_create(&desc, &ctx) : GDN_INVALID_ARGUMENT;
    if (!status)
        status = !strcmp(argv[1], "decode")    ? delta(ctx, 1)
                 : !strcmp(argv[1], "prefill") ? delta(ctx, MOST)
                 : !strcmp(argv[1], "conv")    ? conv(ctx)
                                               : rows(ctx);
    if (ctx) gdn_context_destroy(ctx);
    if (status) (void)fprintf(stderr, "frames: %s\n", gdn_last_error());
    return status != GDN_OK;
}
