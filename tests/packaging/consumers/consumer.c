/* A user's program: it sees the installed library only. One decode step whose result is known without rounding: the
 * state starts at zero, k = q = e0, g = 0, beta = 1/2, so out = v / 2. Exit 0 = right. */
#include <stdio.h>
#include <string.h>

#include <gdn/gdn.h>

enum { HEAD_DIM = 16 };

static int run(gdn_context *ctx)
{
    float q[HEAD_DIM] = { 1.0f }, k[HEAD_DIM] = { 1.0f }, v[HEAD_DIM], out[HEAD_DIM], g = 0.0f, beta = 0.5f;
    float state[HEAD_DIM * HEAD_DIM] = { 0.0f };
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    gdn_capability capability;
    gdn_status status;
    int i;

    for (i = 0; i < HEAD_DIM; i++) v[i] = (float)(i - 5);
    a.n_seqs = a.n_tokens = a.state.n_rows = a.n_heads_k = a.n_heads_v = 1;
    a.head_dim_k = a.head_dim_v = HEAD_DIM;
    a.scale = 1.0f;
    a.q.data = q;
    a.k.data = k;
    a.v.data = v;
    a.g.data = &g;
    a.beta.data = &beta;
    a.out.data = out;
    a.state.data = state;

    memset(&capability, 0, sizeof capability);
    capability.size = (uint32_t)sizeof capability;
    status = gdn_gated_delta_net_query(ctx, &a, &capability);
    if (status == GDN_OK && capability.workspace_bytes != 0)
        status = gdn_buffer_create(ctx, capability.workspace_bytes, &a.workspace);
    if (status == GDN_OK) status = gdn_gated_delta_net(ctx, &a, NULL);
    if (a.workspace.data != NULL) gdn_buffer_destroy(ctx, &a.workspace);
    if (status != GDN_OK) {
        fprintf(stderr, "gdn_gated_delta_net: %s: %s\n", gdn_status_name(status), gdn_last_error());
        return 1;
    }
    for (i = 0; i < HEAD_DIM; i++) {
        if (out[i] != 0.5f * v[i]) {
            fprintf(stderr, "out[%d] is %g, not %g\n", i, (double)out[i], 0.5 * (double)v[i]);
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    gdn_context_desc desc;
    gdn_context *ctx = NULL;
    int status;

    if (gdn_abi_version() != GDN_ABI_VERSION) return fputs("header and library do not fit\n", stderr), 1;
    memset(&desc, 0, sizeof desc);
    desc.size = (uint32_t)sizeof desc;
    if (gdn_context_create(&desc, &ctx) != GDN_OK) {
        fprintf(stderr, "gdn_context_create: %s\n", gdn_last_error());
        return 1;
    }
    status = run(ctx);
    gdn_context_destroy(ctx);
    if (status == 0) puts("ok");
    return status;
}
