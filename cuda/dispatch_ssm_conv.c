/* ssm_conv: from a problem to one launch or two. The kernels say how the work is cut. */
#include <stdio.h>

#include "core/status.h"
#include "cuda/device.h"

typedef gdn_ssm_conv_problem problem_t;

enum { CHUNK = 64, SHORT = 16 }; /* tokens of a piece; sequences of so many on average are not cut */

static uint64_t blocks(const problem_t *p)
{
    return ((uint64_t)p->n_channels + GDN_CUDA_CONV_THREADS - 1) / GDN_CUDA_CONV_THREADS;
}

static int in_pieces(const problem_t *p)
{
    return (int64_t)p->n_tokens > SHORT * (int64_t)p->n_seqs;
}

static uint64_t pieces(const problem_t *p)
{
    return ((uint64_t)p->n_tokens + CHUNK - 1) / CHUNK;
}

void gdn_cuda_plan_ssm_conv(const gdn_cuda_device *dev, const problem_t *p, gdn_plan *plan)
{
    gdn_capability *c = &plan->capability;
    (void)dev;
    (void)snprintf(c->implementation, sizeof c->implementation, "fma/%s", in_pieces(p) ? "pieces" : "sequences");
    if ((uint64_t)p->n_seqs * blocks(p) > GDN_CUDA_MAX_BLOCKS || pieces(p) * blocks(p) > GDN_CUDA_MAX_BLOCKS) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "the call has 2^31 thread blocks or more (tokens or sequences x blocks of channels)");
    }
}

static gdn_cuda_tokens tokens(const gdn_token_view *view)
{
    return (gdn_cuda_tokens){ gdn_cuda_address(&view->at), view->stride_seq, view->stride_token, 0 };
}

static gdn_cuda_pool pool(const gdn_state_view *view)
{
    return (gdn_cuda_pool){ gdn_cuda_address(&view->at), view->stride_row, 0, 0, view->stride_line };
}

gdn_status gdn_cuda_run_ssm_conv(gdn_cuda_device *dev, const problem_t *p, const gdn_plan *plan, CUstream stream)
{
    (void)plan;
    const int cut = in_pieces(p);
    gdn_cuda_ssm_conv params = {
        .x = tokens(&p->x), .result = tokens(&p->out), .history_in = pool(&p->history_in), .history_out = pool(&p->history_out),
        .weight = gdn_cuda_address(&p->weight), .bias = gdn_cuda_address(&p->bias),
        .weight_channel = p->weight_stride_channel, .weight_tap = p->weight_stride_tap,
        .seq_start = gdn_cuda_address(&p->seq_start), .position = gdn_cuda_address(&p->position),
        .history_src = gdn_cuda_address(&p->history_src), .history_dst = gdn_cuda_address(&p->history_dst),
        .bad = dev->bad_address, .n_seqs = p->n_seqs, .n_tokens = p->n_tokens, .n_channels = p->n_channels,
        .n_columns = p->n_columns, .rows_in = p->history_in.at.data ? p->history_in.n_rows : 0, /* a kernel of width 1 has rows of no columns */
        .rows_out = p->history_out.at.data ? p->history_out.n_rows : 0, .kernel_width = p->kernel_width,
        .silu = !!(p->flags & GDN_CONV_SILU), .part = cut ? GDN_CUDA_CONV_PIECES : GDN_CUDA_CONV_WHOLE,
        .blocks = (int32_t)blocks(p), .chunk = CHUNK, .even_tokens = p->n_tokens / p->n_seqs,
    };
    const gdn_cuda_kernel kernel = p->kernel_width == 4 ? GDN_CUDA_conv_4 : GDN_CUDA_conv_any;
    params.same_pool   = params.history_in.base == params.history_out.base;
    params.wide_weight = params.weight_tap == 4 && (params.weight | (uint64_t)params.weight_channel) % 16 == 0;
    gdn_status status = gdn_cuda_launch(dev, kernel, stream, blocks(p) * (cut ? pieces(p) : (uint64_t)p->n_seqs), GDN_CUDA_CONV_THREADS, &params);
    /* Pieces look only at the sequences that they meet. The launch behind them looks at each, and so also finds the bad values
     * of those that none met; without a history and without maps there is nothing for it to do. */
    const int maps = params.seq_start || params.position || params.history_src || params.history_dst;
    if (status || !cut || (!params.rows_out && !maps))
        return status;
    params.part = GDN_CUDA_CONV_HISTORY;
    if (!params.rows_out)
        params.blocks = 1; /* there are only maps to look at */
    return gdn_cuda_launch(dev, kernel, stream, (uint64_t)params.blocks * (uint64_t)p->n_seqs, GDN_CUDA_CONV_THREADS, &params);
}
