/* ssm_conv, scalar: the specification. One channel at a time.
 *
 * Steps, numbered as in docs/reference/kernels/ssm_conv.md and in every other version:
 *   1 history   2 taps   3 activation   4 output   5 keep history */
#include "reference/reference.h"

#include <math.h>
#include <string.h>

#include "numerics/convert.h"
#include "numerics/elementary.h"

enum { MAX_WIDTH = 16, BLOCK = 64 }; /* taps; channels of an item */

static char *history_at(const gdn_state_view *view, int32_t row, int32_t column)
{
    return view->at.base + row * view->stride_row + column * view->stride_line;
}

static int64_t bytes_of(int32_t dtype) { return dtype == GDN_F32 ? 4 : 2; }

/* Copies element c of a row to another row: the bits for equal types, else the value rounded once. */
static void move(char *to, int32_t to_dtype, const char *from, int32_t from_dtype, int32_t c)
{
    const float x = gdn_load_element(from, from_dtype, c);
    if (to_dtype == from_dtype)
        memcpy(to + c * bytes_of(to_dtype), from + c * bytes_of(from_dtype), (size_t)bytes_of(to_dtype));
    else gdn_store_elements(to + c * bytes_of(to_dtype), to_dtype, &x, 1);
}

/* Stores the input at position `at` as a conv state entry of row `row` of history_out. From `position` on it is a token
 * of this call. Before, it is the entry of the row that is read, or zero without one. */
static void keep(const gdn_ssm_conv_problem *p, int32_t s, int32_t position, int32_t src, int32_t row, int32_t at,
                 int32_t c)
{
    const int32_t first = gdn_seq_first(&p->seq_start, p->n_seqs, p->n_tokens, s), column = at % p->n_slots;
    const int32_t dtype = p->history_out.dtype;
    char *const to = history_at(&p->history_out, row, column);
    const char *from = NULL;
    if (at >= position) move(to, dtype, gdn_token_at(&p->x, s, first, at - position, 0), p->x.dtype, c);
    else if (src >= 0) from = history_at(&p->history_in, src, column);
    else memset(to + c * bytes_of(dtype), 0, (size_t)bytes_of(dtype));
    if (from && from != to) /* a row that is written in place already has it */
        move(to, dtype, from, p->history_in.dtype, c);
}

static void channel(const gdn_ssm_conv_problem *p, int32_t s, int32_t c)
{
    const int32_t first = gdn_seq_first(&p->seq_start, p->n_seqs, p->n_tokens, s);
    const int32_t T = gdn_seq_first(&p->seq_start, p->n_seqs, p->n_tokens, s + 1) - first;
    const int32_t position = gdn_map_at(&p->position, s, 0);
    const int32_t W = p->n_slots;
    const int32_t src = W ? gdn_map_at(&p->history_src, s, s) : GDN_NONE;
    const int32_t dst = W ? gdn_map_at(&p->history_dst, s, s) : GDN_NONE;
    const int32_t kw = p->kernel_width;
    float past[MAX_WIDTH]; /* past[m]: the input m + 1 positions before the sequence's first token */

    /* 1: history. All reads come before the first write, because a call may write the row that it reads */
    for (int32_t m = 0; m < kw - 1; m++)
        past[m] =
            src >= 0 && position - 1 - m >= 0
                ? gdn_load_element(history_at(&p->history_in, src, (position - 1 - m) % W), p->history_in.dtype, c)
                : 0.0f;

    for (int32_t t = 0; t < T; t++) {
        int32_t line[MAX_WIDTH]; /* the token, its parent, ...; before the first of the branch -1, -2, ... */
        line[0] = t;
        for (int32_t m = 1; m < kw; m++)
            line[m] = line[m - 1] >= 0 ? gdn_parent_at(&p->parent, first, line[m - 1]) : line[m - 1] - 1;
        /* 2: taps, oldest first */
        float u = p->bias.base ? gdn_load_element(p->bias.base, p->bias_dtype, c) : 0.0f;
        for (int32_t j = 0; j < kw; j++) {
            const int32_t from = line[kw - 1 - j];
            const float x =
                from >= 0 ? gdn_load_element(gdn_token_at(&p->x, s, first, from, 0), p->x.dtype, c) : past[-1 - from];
            const float w = gdn_load_element(p->weight.base + c * p->weight_stride_channel + j * p->weight_stride_tap,
                                             p->weight_dtype, 0);
            u = gdn_fma(w, x, u);
        }
        /* 3: activation, 4: output */
        const float y = p->silu ? gdn_silu(u) : u;
        gdn_store_elements(gdn_token_at(&p->out, s, first, t, 0) + c * bytes_of(p->out.dtype), p->out.dtype, &y, 1);
    }

    /* 5: keep history: checkpoints, with the positions that the next token reads; and the newest W positions. The older
     * of these are copied only if the row changes */
    for (int32_t t = 0; t < T; t++) {
        const int32_t row = gdn_checkpoint_at(&p->checkpoints, s, position, t), length = position + t + 1;
        for (int32_t at = length > kw - 1 ? length - (kw - 1) : 0; row >= 0 && at < length; at++)
            keep(p, s, position, src, row, at, c);
    }
    const int32_t end = position + T;
    for (int32_t at = end > W ? end - W : 0; dst >= 0 && at < end; at++) keep(p, s, position, src, dst, at, c);
}

static int32_t blocks(const gdn_ssm_conv_problem *p) { return p->n_channels / BLOCK + (p->n_channels % BLOCK != 0); }

int64_t GDN_REF(ssm_conv_items)(const gdn_ssm_conv_problem *p) { return (int64_t)p->n_seqs * blocks(p); }

void GDN_REF(ssm_conv)(const gdn_ssm_conv_problem *p, int64_t item)
{
    const int32_t s = (int32_t)(item / blocks(p)), first = (int32_t)(item % blocks(p)) * BLOCK;
    const int32_t last = p->n_channels - first < BLOCK ? p->n_channels : first + BLOCK;
    if (gdn_map_at(&p->history_src, s, s) == GDN_SKIP || !gdn_seq_length(&p->seq_start, p->n_seqs, p->n_tokens, s))
        return; /* padding, or no tokens: another sequence may write the source */
    for (int32_t c = first; c < last; c++) channel(p, s, c);
}
