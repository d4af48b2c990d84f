/* ssm_conv: from a problem to one dispatch or two. The shader says how the work is cut. */
#include <stdio.h>

#include "core/status.h"
#include "vulkan/device.h"

typedef gdn_ssm_conv_problem problem_t;

_Static_assert(sizeof(gdn_vk_ssm_conv) <= GDN_VK_PARAMS_BYTES, "the parameter block fits");

enum { WHOLE, PIECES, HISTORY }; /* the shader's PART */
enum { CHUNK = 64, SHORT = 16 }; /* tokens of a piece; sequences of so many on average are not cut */

static uint32_t lanes(const gdn_vk_device *dev)
{
    return dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 8 : 64;
}

static uint64_t blocks(const gdn_vk_device *dev, const problem_t *p)
{
    return ((uint64_t)p->n_channels + lanes(dev) - 1) / lanes(dev);
}

static int in_pieces(const problem_t *p)
{
    return (int64_t)p->n_tokens > SHORT * (int64_t)p->n_seqs;
}

static uint64_t pieces(const problem_t *p)
{
    return ((uint64_t)p->n_tokens + CHUNK - 1) / CHUNK;
}

void gdn_vk_plan_ssm_conv(const gdn_vk_device *dev, const problem_t *p, gdn_plan *plan)
{
    gdn_capability *c = &plan->capability;
    uint32_t width, height;
    c->workspace_bytes = GDN_VK_PARAMS_BYTES;
    (void)snprintf(c->implementation, sizeof c->implementation, "%.40s/%s", dev->variant.name, in_pieces(p) ? "pieces" : "sequences");
    if (!gdn_vk_grid((uint64_t)p->n_seqs * blocks(dev, p), &width, &height) || !gdn_vk_grid(pieces(p) * blocks(dev, p), &width, &height)) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "the call has more than 2^32 workgroups (tokens or sequences x blocks of channels)");
    }
}

static gdn_vk_tokens tokens(const gdn_vk_device *dev, const gdn_token_view *view)
{
    return (gdn_vk_tokens){ gdn_vk_address(dev, &view->at), view->stride_seq, view->stride_token, 0 };
}

static gdn_vk_pool pool(const gdn_vk_device *dev, const gdn_state_view *view)
{
    return (gdn_vk_pool){ gdn_vk_address(dev, &view->at), view->stride_row, 0, 0, view->stride_line };
}

gdn_status gdn_vk_run_ssm_conv(gdn_vk_device *dev, const problem_t *p, const gdn_plan *plan, gdn_stream stream)
{
    (void)plan;
    gdn_vk_ssm_conv params = {
        .x = tokens(dev, &p->x), .result = tokens(dev, &p->out),
        .history_in = pool(dev, &p->history_in), .history_out = pool(dev, &p->history_out),
        .weight = gdn_vk_address(dev, &p->weight), .bias = gdn_vk_address(dev, &p->bias),
        .weight_channel = p->weight_stride_channel, .weight_tap = p->weight_stride_tap,
        .seq_start = gdn_vk_address(dev, &p->seq_start), .position = gdn_vk_address(dev, &p->position),
        .history_src = gdn_vk_address(dev, &p->history_src), .history_dst = gdn_vk_address(dev, &p->history_dst),
        .bad = dev->bad.address, .n_seqs = p->n_seqs, .n_tokens = p->n_tokens, .n_channels = p->n_channels,
        .n_columns = p->n_columns, .rows_in = p->history_in.at.data ? p->history_in.n_rows : 0, /* a kernel of width 1 has rows of no columns */
        .rows_out = p->history_out.at.data ? p->history_out.n_rows : 0, .blocks = (int32_t)blocks(dev, p), .chunk = CHUNK,
        .even_tokens = p->n_tokens / p->n_seqs,
    };
    params.same_pool = params.history_in.base == params.history_out.base;
    const int cut = in_pieces(p);
    const int part[2] = { cut ? PIECES : WHOLE, HISTORY };
    gdn_vk_dispatch dispatch[2] = {
        { .n_items = blocks(dev, p) * (cut ? pieces(p) : (uint64_t)p->n_seqs) },
        { .n_items = blocks(dev, p) * (uint64_t)p->n_seqs, .after_previous = 1 },
    };
    for (int i = 0; i < 1 + cut; i++) {
        const uint32_t constants[GDN_VK_CONSTANTS] = { lanes(dev), (uint32_t)p->kernel_width, !!(p->flags & GDN_CONV_SILU), (uint32_t)part[i] };
        gdn_status status = gdn_vk_pipeline_get(dev, GDN_KERNEL_ssm_conv, constants, &dispatch[i].pipeline);
        if (status)
            return status;
    }
    return gdn_vk_run(dev, &p->workspace, &params, sizeof params, 0, dispatch, 1 + cut, stream);
}
