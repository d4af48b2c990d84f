/* What gdn.h says of gdn_capability.workspace_bytes: it never shrinks where a call grows. Shapes are drawn, each is
 * grown in one or several of its sizes, and the two are compared. For contexts of any backend; nothing runs. */
#ifndef GDN_TEST_WORKSPACES_H
#define GDN_TEST_WORKSPACES_H

#include "gdn/gdn.h"
#include "tests/harness.h"

/* A size: mostly small, sometimes large. */
static int32_t workspaces_size(void)
{
    static const int32_t limits[] = { 3, 20, 70, 300, 5000, 100000 };
    return 1 + draw_below(limits[draw_below(6)]);
}

/* A larger one, or the same. */
static int64_t workspaces_more(int64_t n) { return draw_below(2) ? n : n + workspaces_size(); }

/* How many of n pairs of calls break the rule; they are printed. *n_needed counts the calls that need a workspace. */
static int workspaces_that_shrink(gdn_context *ctx, int n, int *n_needed)
{
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        gdn_capability small = { .size = sizeof small }, large = small;
        gdn_status status;
        const char *name = "gated_delta_net";
        if (i % 3 == 0) {
            gdn_gated_delta_net_args a =
                FIELDS(.size = sizeof a, .n_seqs = workspaces_size(), .n_heads_k = 1 << draw_below(5),
                       .head_dim_k = 16 + draw_below(241), .head_dim_v = 16 + draw_below(241), .gate = draw_below(2),
                       .state_layout = draw_below(2), .scale = 1, .state.n_slots = 1 + draw_below(4));
            a.n_snapshots = a.state.n_slots;
            a.n_heads_v = a.n_heads_k * (1 + draw_below(3));
            if (draw_below(2)) /* as models have them */
                a.head_dim_k = a.head_dim_v = 64 << draw_below(3);
            a.state.n_rows = a.n_seqs;
            a.n_tokens = draw_below(4) ? a.n_seqs * (1 + draw_below(40)) : workspaces_size();
            a.q.dtype = draw_below(3), a.k.dtype = draw_below(3), a.v.dtype = draw_below(3);
            status = gdn_gated_delta_net_query(ctx, &a, &small);
            a.n_tokens = (int32_t)workspaces_more(a.n_tokens);
            a.n_seqs = (int32_t)workspaces_more(a.n_seqs);
            a.state.n_rows = (int32_t)workspaces_more(a.state.n_rows);
            status = status ? status : gdn_gated_delta_net_query(ctx, &a, &large);
        } else if (i % 3 == 1) {
            name = "ssm_conv";
            gdn_ssm_conv_args a =
                FIELDS(.size = sizeof a, .n_seqs = workspaces_size(), .n_tokens = workspaces_size(),
                       .n_channels = workspaces_size(), .kernel_width = 1 + draw_below(16), .history.n_rows = 1);
            a.history.n_slots = a.kernel_width - 1;
            status = gdn_ssm_conv_query(ctx, &a, &small);
            a.n_tokens = (int32_t)workspaces_more(a.n_tokens);
            a.n_seqs = (int32_t)workspaces_more(a.n_seqs);
            a.history.n_rows = (int32_t)workspaces_more(a.history.n_rows);
            status = status ? status : gdn_ssm_conv_query(ctx, &a, &large);
        } else {
            name = "set_rows";
            const int32_t batches = workspaces_size() % 50 + 1;
            gdn_set_rows_args a =
                FIELDS(.size = sizeof a, .n_columns = 32 * workspaces_size(), .n_rows = workspaces_size(),
                       .n_rows_dst = workspaces_size(), .n_batch = { batches, 1 + draw_below(4) });
            a.index_batch[0] = draw_below(2) ? batches : 1, a.index_batch[1] = 1;
            a.dst.dtype = draw_below(4), a.index.dtype = GDN_I32 + draw_below(2);
            status = gdn_set_rows_query(ctx, &a, &small);
            a.n_rows = workspaces_more(a.n_rows);
            a.n_rows_dst = workspaces_more(a.n_rows_dst);
            a.n_batch[0] *= 1 + draw_below(3);
            if (a.index_batch[0] > 1) a.index_batch[0] = a.n_batch[0];
            status = status ? status : gdn_set_rows_query(ctx, &a, &large);
        }
        *n_needed += large.workspace_bytes > 0;
        if (status || (large.supported && small.workspace_bytes > large.workspace_bytes)) {
            wrong++;
            (void)printf("%s of %s: %llu bytes for a call, %llu for a larger one %s\n", name, large.implementation,
                         (unsigned long long)small.workspace_bytes, (unsigned long long)large.workspace_bytes,
                         status ? gdn_last_error() : "");
        }
    }
    return wrong;
}

#endif
