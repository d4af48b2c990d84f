/* ssm_conv: from a problem to one dispatch or two. The kernels say how the work is cut. */
#include <stdio.h>

#include "core/status.h"
#include "metal/device.h"

typedef gdn_ssm_conv_problem problem_t;

enum { CHUNK = 64, SHORT = 16 }; /* tokens of a piece; sequences of so many on average are not cut */

static uint64_t blocks(const problem_t *p)
{
    return ((uint64_t)p->n_channels + GDN_METAL_CONV_THREADS - 1) / GDN_METAL_CONV_THREADS;
}

static int in_pieces(const problem_t *p)
{
    return (int64_t)p->n_tokens > SHORT * (int64_t)p->n_seqs;
}

static uint64_t pieces(const problem_t *p)
{
    return ((uint64_t)p->n_tokens + CHUNK - 1) / CHUNK;
}

void gdn_metal_plan_ssm_conv(const gdn_metal_device *dev, const problem_t *p, gdn_plan *plan)
{
    gdn_capability *c = &plan->capability;
    (void)dev;
    (void)snprintf(c->implementation, sizeof c->implementation, "fma/%s", in_pieces(p) ? "pieces" : "sequences");
    if ((uint64_t)p->n_seqs * blocks(p) > GDN_METAL_MAX_GROUPS || pieces(p) * blocks(p) > GDN_METAL_MAX_GROUPS) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "the call has 2^31 threadgroups or more (tokens or sequences x blocks of channels)");
    }
}

static gdn_metal_tokens tokens(const gdn_token_view *view)
{
    return (gdn_metal_tokens){ view->stride_seq, view->stride_token, 0 };
}

static gdn_metal_pool pool(const gdn_state_view *view)
{
    return (gdn_metal_pool){ view->stride_row, 0, 0, view->stride_line };
}

gdn_status gdn_metal_run_ssm_conv(gdn_metal_device *dev, const problem_t *p, const gdn_plan *plan, gdn_stream stream)
{
    (void)plan;
    const int cut = in_pieces(p);
    gdn_metal_ssm_conv params = {
        .x = tokens(&p->x), .result = tokens(&p->out), .history_in = pool(&p->history_in), .history_out = pool(&p->history_out),
        .weight_channel = p->weight_stride_channel, .weight_tap = p->weight_stride_tap,
        .n_seqs = p->n_seqs, .n_tokens = p->n_tokens, .n_channels = p->n_channels,
        .n_columns = p->n_columns, .rows_in = p->history_in.at.data ? p->history_in.n_rows : 0, /* a kernel of width 1 has rows of no columns */
        .rows_out = p->history_out.at.data ? p->history_out.n_rows : 0, .kernel_width = p->kernel_width,
        .silu = !!(p->flags & GDN_CONV_SILU), .part = cut ? GDN_METAL_CONV_PIECES : GDN_METAL_CONV_WHOLE,
        .blocks = (int32_t)blocks(p), .chunk = CHUNK, .even_tokens = p->n_tokens / p->n_seqs,
        .has = (p->seq_start.data ? GDN_METAL_HAS_SEQ_START : 0) | (p->history_src.data ? GDN_METAL_HAS_SRC : 0) |
               (p->history_dst.data ? GDN_METAL_HAS_DST : 0) | (p->position.data ? GDN_METAL_HAS_POSITION : 0) |
               (p->bias.data ? GDN_METAL_HAS_BIAS : 0),
    };
    params.has |= gdn_metal_one_pool(&p->history_in.at, &p->history_out.at, &params.pool_offset);
    params.same_pool = (params.has & GDN_METAL_ONE_POOL) && !params.pool_offset;
    const gdn_place bad = { .data = dev->bad_buffer };
    const gdn_place *const operands[] = { &p->x.at, &p->weight, &p->bias, &p->out.at, &p->history_in.at, &p->history_out.at, &p->seq_start,
                                          &p->position, &p->history_src, &p->history_dst, &bad };
    gdn_metal_ssm_conv history = params;
    history.part = GDN_METAL_CONV_HISTORY;
    gdn_metal_dispatch dispatch[2] = { { .kernel = p->kernel_width == 4 ? GDN_METAL_conv_4 : GDN_METAL_conv_any, .params = &params,
                                         .params_bytes = sizeof params, .groups = blocks(p) * (cut ? pieces(p) : (uint64_t)p->n_seqs),
                                         .threads = GDN_METAL_CONV_THREADS, .n_bindings = sizeof operands / sizeof operands[0] } };
    for (uint32_t i = 0; i < dispatch[0].n_bindings; i++)
        dispatch[0].bindings[i] = gdn_metal_bind(operands[i]);
    dispatch[1] = dispatch[0];
    dispatch[1].params = &history;
    dispatch[1].groups = blocks(p) * (uint64_t)p->n_seqs;
    return gdn_metal_run(dev, dispatch, 1 + cut, stream);
}
