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
static void keep(const gdn_ssm_conv_call *p, const gdn_conv_sequence *q, int32_t row, int32_t at, int32_t c)
{
    const int32_t dtype = p->history_out.dtype;
    char *const to = gdn_history_at(&p->history_out, row, at);
    const char *from = NULL;
    if (at >= q->position) move(to, dtype, gdn_token_at(&p->x, q->s, q->first, at - q->position, 0), p->x.dtype, c);
    else if (q->src >= 0) from = gdn_history_at(&p->history, q->src, at);
    else memset(to + c * bytes_of(dtype), 0, (size_t)bytes_of(dtype));
    if (from && from != to) /* a row that is written in place already has it */
        move(to, dtype, from, p->history.dtype, c);
}

static void channel(const gdn_ssm_conv_call *p, const gdn_conv_sequence *q, int32_t c)
{
    const int32_t kw = p->kernel_width;
    float past[MAX_WIDTH]; /* past[m]: the input m + 1 positions before the sequence's first token */

    /* 1: history. All reads come before the first write, because a call may write the row that it reads */
    for (int32_t m = 0; m < kw - 1; m++) {
        const int32_t at = q->position - 1 - m;
        past[m] = q->src >= 0 && at >= 0
                      ? gdn_load_element(gdn_history_at(&p->history, q->src, at), p->history.dtype, c)
                      : 0.0f;
    }

    for (int32_t t = 0; t < q->T; t++) {
        int32_t line[MAX_WIDTH]; /* the token, its parent, ...; before the first of the branch -1, -2, ... */
        line[0] = t;
        for (int32_t m = 1; m < kw; m++)
            line[m] = line[m - 1] >= 0 ? gdn_conv_parent_of(p, q->first, line[m - 1]) : line[m - 1] - 1;
        /* 2: taps, oldest first */
        float u = p->bias ? gdn_load_element(gdn_memory(p->bias), p->bias_dtype, c) : 0.0f;
        for (int32_t j = 0; j < kw; j++) {
            const int32_t from = line[kw - 1 - j];
            const float x = from >= 0 ? gdn_load_element(gdn_token_at(&p->x, q->s, q->first, from, 0), p->x.dtype, c)
                                      : past[-1 - from];
            const float w = gdn_load_element(
                gdn_memory(p->weight) + c * p->weight_stride_channel + j * p->weight_stride_tap, p->weight_dtype, 0);
            u = gdn_fma(w, x, u);
        }
        /* 3: activation, 4: output */
        const float y = p->silu ? gdn_silu(u) : u;
        gdn_store_elements(gdn_token_at(&p->result, q->s, q->first, t, 0) + c * bytes_of(p->result.dtype),
                           p->result.dtype, &y, 1);
    }

    /* 5: keep history */
    const int32_t n = gdn_conv_checkpoints(p, *q);
    for (int32_t i = 0; i < n; i++) {
        const int32_t row = gdn_conv_checkpoint_of(p, q->s, i);
        const gdn_conv_kept kept = gdn_conv_kept_by_checkpoint(p, *q, i);
        for (int32_t at = kept.from; row >= 0 && at < kept.end; at++) keep(p, q, row, at, c);
    }
    const gdn_conv_kept kept = gdn_conv_kept_newest(p, *q);
    for (int32_t at = kept.from; at < kept.end; at++) keep(p, q, q->dst, at, c);
}

static int32_t blocks(const gdn_ssm_conv_call *p) { return p->n_channels / BLOCK + (p->n_channels % BLOCK != 0); }

int64_t GDN_REF(ssm_conv_items)(const gdn_ssm_conv_call *p) { return (int64_t)p->n_seqs * blocks(p); }

void GDN_REF(ssm_conv)(const gdn_ssm_conv_call *p, int64_t item, void *scratch)
{
    (void)scratch;
    const int32_t s = (int32_t)(item / blocks(p)), first = (int32_t)(item % blocks(p)) * BLOCK;
    const int32_t last = p->n_channels - first < BLOCK ? p->n_channels : first + BLOCK;
    const gdn_conv_sequence q = gdn_conv_sequence_of(p, s);
    for (int32_t c = first; gdn_conv_has_work(q) && c < last; c++) channel(p, &q, c);
}
