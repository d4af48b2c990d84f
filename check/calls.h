/* A call with all its parts in one object, which can be copied, compared and built member by member. A part whose size
 * is 0 is not used. */
#ifndef GDN_CHECK_CALLS_H
#define GDN_CHECK_CALLS_H

#include "gdn/gdn.h"

typedef struct delta_call {
    gdn_gated_delta_net_args args; /* its pointers to parts are not used */
    gdn_delta_inputs inputs;
    gdn_replay_log log;
    gdn_checkpoints checkpoints;
    gdn_token_tree tree;
    gdn_state_rounding rounding;
    gdn_chunked_form chunked;
} delta_call;

typedef struct conv_call {
    gdn_ssm_conv_args args; /* its pointers to parts are not used */
    gdn_checkpoints checkpoints;
    gdn_token_tree tree;
} conv_call;

/* A pool as a tensor, without its sizes. */
static inline gdn_tensor pool_tensor(const gdn_pool *p)
{
    return (gdn_tensor){ .data = p->data,
                         .offset = p->offset,
                         .bytes = p->bytes,
                         .dtype = p->dtype,
                         .stride = { p->stride[0], p->stride[1], p->stride[2], p->stride[3] } };
}

/* The arguments that point to the parts of *c. They live as long as *c does. */
static inline gdn_gated_delta_net_args delta_args_of(const delta_call *c)
{
    gdn_gated_delta_net_args a = c->args;
    a.inputs = c->inputs.size ? &c->inputs : NULL;
    a.log = c->log.size ? &c->log : NULL;
    a.checkpoints = c->checkpoints.size ? &c->checkpoints : NULL;
    a.tree = c->tree.size ? &c->tree : NULL;
    a.rounding = c->rounding.size ? &c->rounding : NULL;
    a.chunked = c->chunked.size ? &c->chunked : NULL;
    return a;
}

static inline gdn_ssm_conv_args conv_args_of(const conv_call *c)
{
    gdn_ssm_conv_args a = c->args;
    a.checkpoints = c->checkpoints.size ? &c->checkpoints : NULL;
    a.tree = c->tree.size ? &c->tree : NULL;
    return a;
}

static inline gdn_status delta_run(gdn_context *ctx, const delta_call *c, gdn_stream stream)
{
    const gdn_gated_delta_net_args a = delta_args_of(c);
    return gdn_gated_delta_net(ctx, &a, stream);
}

static inline gdn_status delta_query(const gdn_context *ctx, const delta_call *c, gdn_capability *can)
{
    const gdn_gated_delta_net_args a = delta_args_of(c);
    return gdn_gated_delta_net_query(ctx, &a, can);
}

static inline gdn_status conv_run(gdn_context *ctx, const conv_call *c, gdn_stream stream)
{
    const gdn_ssm_conv_args a = conv_args_of(c);
    return gdn_ssm_conv(ctx, &a, stream);
}

static inline gdn_status conv_query(const gdn_context *ctx, const conv_call *c, gdn_capability *can)
{
    const gdn_ssm_conv_args a = conv_args_of(c);
    return gdn_ssm_conv_query(ctx, &a, can);
}

#endif
