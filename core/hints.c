/* Warnings for arguments that are valid and rarely what the caller means. See calls.h. */
#include <stdatomic.h>

#include "core/calls.h"

static void hint(gdn_context *ctx, uint32_t number, int is_so, const char *text)
{
    const uint32_t bit = 1u << number;
    if (is_so && !(atomic_fetch_or(&ctx->hints, bit) & bit)) gdn_context_log(ctx, GDN_LOG_WARNING, "%s", text);
}

void gdn_hint(gdn_context *ctx, const gdn_problem *problem)
{
    if (problem->kernel == GDN_KERNEL_gated_delta_net) {
        const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
        hint(ctx, 0, p->checkpoints_n && !(p->has & GDN_HAS_POSITION),
             "gated_delta_net: checkpoints is given and position is absent; each sequence starts at position 0");
        hint(ctx, 1, p->state_out.n_slots > 1 && p->n_snapshots == 1 && !(p->has & GDN_HAS_DST) && !p->checkpoints_n,
             "gated_delta_net: state_out.n_slots is above 1, n_snapshots is 1 and state_dst is absent; the call writes "
             "slot 0 of each row only");
        hint(ctx, 2,
             p->log.n_slots && p->n_tokens && !p->n_snapshots && !p->checkpoints_n &&
                 !(p->has & (GDN_HAS_BASE_POSITION | GDN_HAS_COMMIT)),
             "gated_delta_net: log is given, log.base_position and log.commit are absent and n_snapshots is 0; the "
             "call writes no state and replays no log entry");
    } else if (problem->kernel == GDN_KERNEL_ssm_conv) {
        const gdn_ssm_conv_call *p = &problem->ssm_conv;
        hint(ctx, 3, p->history.n_entries && p->n_tokens && !(p->has & GDN_HAS_POSITION),
             "ssm_conv: history is given and position is absent; each sequence starts at position 0 and its history is "
             "not read");
    }
}
