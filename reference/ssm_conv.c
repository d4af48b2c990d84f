/* ssm_conv, scalar: the specification. One channel at a time.
 *
 * Steps, numbered as in docs/kernels/ssm_conv.md and in every other version:
 *   1 history   2 taps   3 activation   4 output   5 keep history */
#include "reference/reference.h"

#include <math.h>
#include <string.h>

#include "numerics/elementary.h"

enum { MAX_WIDTH = 16, BLOCK = 64 }; /* taps; channels of an item */

static float *history_at(const gdn_state_view *view, int32_t row, int32_t column, int32_t c)
{
    return (float *)(void *)(view->at.base + row * view->stride_row + column * view->stride_line) + c;
}

static float load(const char *at)
{
    float x;
    memcpy(&x, at, 4);
    return x;
}

static void channel(const gdn_ssm_conv_problem *p, int32_t s, int32_t c)
{
    const int32_t first    = gdn_seq_first(&p->seq_start, p->n_seqs, p->n_tokens, s);
    const int32_t T        = gdn_seq_first(&p->seq_start, p->n_seqs, p->n_tokens, s + 1) - first;
    const int32_t position = gdn_map_at(&p->position, s, 0);
    const int32_t W        = p->n_columns;
    const int32_t src      = W ? gdn_map_at(&p->history_src, s, s) : GDN_NONE;
    const int32_t dst      = W ? gdn_map_at(&p->history_dst, s, s) : GDN_NONE;
    const int32_t kw       = p->kernel_width;
    const int     in_place = src == dst && p->history_in.at.base == p->history_out.at.base;
    float past[MAX_WIDTH]; /* past[m]: the input m + 1 positions before the sequence's first token */

    /* 1: history, read before anything is written, since a call may write where it read */
    for (int32_t m = 0; m < kw - 1; m++)
        past[m] = src >= 0 && position - 1 - m >= 0 ? load((char *)history_at(&p->history_in, src, (position - 1 - m) % W, c)) : 0.0f;

    for (int32_t t = 0; t < T; t++) {
        /* 2: taps, oldest first */
        float u = p->bias.base ? load(p->bias.base + 4 * (int64_t)c) : 0.0f;
        for (int32_t j = 0; j < kw; j++) {
            const int32_t from = t - (kw - 1) + j;
            const float   x    = from >= 0 ? load(gdn_token_at(&p->x, s, first, from, 0) + 4 * (int64_t)c) : past[-1 - from];
            u = fmaf(load(p->weight.base + c * p->weight_stride_channel + j * p->weight_stride_tap), x, u);
        }
        /* 3: activation, 4: output */
        const float y = p->flags & GDN_CONV_SILU ? gdn_silu(u) : u;
        memcpy(gdn_token_at(&p->out, s, first, t, 0) + 4 * (int64_t)c, &y, 4);
    }

    /* 5: keep history: the newest W positions; the older of them only move when the row changes */
    if (dst < 0)
        return;
    const int32_t end = position + T;
    for (int32_t at = end > W ? end - W : 0; at < end; at++) {
        float x = 0.0f;
        if (at >= position)
            x = load(gdn_token_at(&p->x, s, first, at - position, 0) + 4 * (int64_t)c);
        else if (in_place)
            continue;
        else if (src >= 0)
            x = load((char *)history_at(&p->history_in, src, at % W, c));
        memcpy(history_at(&p->history_out, dst, at % W, c), &x, 4);
    }
}

static int32_t blocks(const gdn_ssm_conv_problem *p)
{
    return p->n_channels / BLOCK + (p->n_channels % BLOCK != 0);
}

int64_t GDN_REF(ssm_conv_items)(const gdn_ssm_conv_problem *p)
{
    return (int64_t)p->n_seqs * blocks(p);
}

void GDN_REF(ssm_conv)(const gdn_ssm_conv_problem *p, int64_t item)
{
    const int32_t s = (int32_t)(item / blocks(p)), first = (int32_t)(item % blocks(p)) * BLOCK;
    const int32_t last = p->n_channels - first < BLOCK ? p->n_channels : first + BLOCK;
    if (gdn_map_at(&p->history_src, s, s) == GDN_SKIP || !gdn_seq_length(&p->seq_start, p->n_seqs, p->n_tokens, s))
        return; /* padding; without tokens even the source is another sequence's to write */
    for (int32_t c = first; c < last; c++)
        channel(p, s, c);
}
