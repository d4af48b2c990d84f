/* gated_delta_net by lines: the counterpart of "rows" for states with contiguous values.
 *
 * Vector lanes are value channels. kv must be complete before an update can begin. So one pass reads the item's state,
 * and then each token makes a pass, which finds the state in the L2 cache. A pass reads whole lines (keys) of the
 * state, in a few streams of ascending addresses: lines l, l + 32, l + 64, ... for partial sum l. Scratch holds the 32
 * partial sums of all value channels. Narrower blocks would fit the L1 cache, but are slower: memory is inefficient for
 * short pieces of lines. */
#ifndef GDN_CPU_GATED_DELTA_NET_LINES_INC_H
#define GDN_CPU_GATED_DELTA_NET_LINES_INC_H

#include "cpu/gated_delta_net_log.inc.h"
#include "cpu/gated_delta_net_pass.inc.h"

enum { LINES_MAX_TOKENS = 6 }; /* the longest sequence for which "lines" is not slower than "columns" */

static bool lines_serves(const gdn_gated_delta_net_call *p, int32_t n_tokens)
{
    return p->state_layout == GDN_STATE_KV && p->head_dim_v % GDN_VL == 0 && n_tokens <= LINES_MAX_TOKENS &&
           !p->rounding_interval;
}

/* Floats of scratch: the state, and per value channel 32 partial sums of two dot products, and d. */
static int64_t lines_scratch(int32_t pitch, int32_t group) { return (int64_t)(pitch + 2 * 32 + 1) * group; }

/* One pass over all value channels of the item. */
typedef struct lines_pass {
    delta_pass x;           /* of the first column */
    const float *d;         /* [column]            */
    float *part_q, *part_k; /* [32][columns]       */
    int32_t n_columns;
    const char *ahead; /* the next item's state, to prefetch into the L2 cache, or NULL */
    int64_t ahead_pitch;
} lines_pass;

/* The partial sums l of some value channels. */
GDN_INLINE void lines_leaf(const lines_pass *pass, delta_form form, int32_t l, int32_t j)
{
    delta_pass x = pass->x;
    x.from += j;
    x.to += j;
    for (int w = 0; form.update && w < form.width; w++) x.d[w] = v_load(pass->d + j + w * GDN_VL);
    const dots sum = pass_leaf(&x, form, l);
    const int64_t at = (int64_t)l * pass->n_columns + j;
    for (int w = 0; w < form.width; w++) {
        if (form.update) v_store(pass->part_q + at + w * GDN_VL, sum.q[w]);
        if (form.next) v_store(pass->part_k + at + w * GDN_VL, sum.k[w]);
    }
}

/* Of the next item's state what the pass reads of its own in a leaf: memory would idle in a pass that works in the L2
 * cache. */
GDN_INLINE void lines_ahead(const lines_pass *pass, delta_form form, int32_t l, int32_t j)
{
    for (int32_t i = l; i < pass->x.n; i += 32)
        for (int32_t w = 0; w < form.width * GDN_VL; w += 16)
            v_prefetch_l2(pass->ahead + i * pass->ahead_pitch + 4 * (j + w));
}

/* 5: update, with 6: the sums of the output and 3: the next token's kv, and 7: the snapshot. */
GDN_INLINE void lines_pass_run(const lines_pass *p, delta_form form)
{
    const lines_pass pass = *p;
    delta_form one = form;
    one.width = 1;
    for (int32_t l = 0; l < 32; l++) {
        int32_t j = 0;
        for (; j + form.width * GDN_VL <= pass.n_columns; j += form.width * GDN_VL) {
            if (form.update && pass.ahead) lines_ahead(&pass, form, l, j);
            lines_leaf(&pass, form, l, j);
        }
        for (; j < pass.n_columns; j += GDN_VL) lines_leaf(&pass, one, l, j);
    }
}

/* One compiled version for each case: all tokens but the last, the last, and the last with stores past the caches. */
GDN_INLINE void lines_versions(const lines_pass *pass, int n, bool channel, bool next, bool stream)
{
#define LINES_VERSION(c, ...)                                                                                          \
    lines_pass_run(pass, (delta_form){ .width = COLUMN_VECTORS, .n = n, .channel = c, .update = true, __VA_ARGS__ })
    if (channel && next) LINES_VERSION(true, .next = true);
    else if (channel && stream) LINES_VERSION(true, .stream = true);
    else if (channel) LINES_VERSION(true, .stream = false);
    else if (next) LINES_VERSION(false, .next = true);
    else if (stream) LINES_VERSION(false, .stream = true);
    else LINES_VERSION(false, .stream = false);
#undef LINES_VERSION
}

static void lines_update(const lines_pass *pass, bool channel, bool next, bool stream)
{
    if (pass->x.n == 128) lines_versions(pass, 128, channel, next, stream);
    else lines_versions(pass, 0, channel, next, stream);
}

/* 3: read kv, for the first token. */
static void lines_read(const lines_pass *pass)
{
    if (pass->x.n == 128) lines_pass_run(pass, (delta_form){ .width = COLUMN_VECTORS, .n = 128, .next = true });
    else lines_pass_run(pass, (delta_form){ .width = COLUMN_VECTORS, .next = true });
}

/* The tree over partial sums, for GDN_VL value channels. */
static vf lines_sum(const float *part, int32_t n_columns)
{
    vf p[16];
    for (int l = 0; l < 16; l++) p[l] = v_add(v_load(part + l * n_columns), v_load(part + (l + 16) * n_columns));
    for (int h = 8; h > 0; h /= 2)
        for (int l = 0; l < h; l++) p[l] = v_add(p[l], p[l + h]);
    return p[0];
}

/* 1: replays the log on the state that x reads, writes the result to `hold`, and commits. A part of a line (key) stays
 * in registers for all log entries. */
static void lines_replay(const head_view *x, const delta_pass *state, float *hold)
{
    enum { VECTORS = 4 };
    const log_walk log = log_walk_of(x);
    const int64_t to_pitch = x->p->state_out.stride_line / 4;
    const int32_t n_columns = x->n_columns;
    float *const commit = x->commit ? (float *)(void *)x->commit + x->j0 : NULL;
    for (int32_t i = 0; i < x->n; i++)
        for (int32_t j = 0; j < n_columns; j += VECTORS * GDN_VL) {
            const int32_t n = min_i32(VECTORS, (n_columns - j) / GDN_VL); /* the other vectors are not stored */
            const float *entry = log.first;
            vf s[VECTORS];
            for (int w = 0; w < VECTORS; w++)
                s[w] = v_load(state->from + i * state->from_pitch + j + (w < n ? w : 0) * GDN_VL);
            for (int32_t column = 0; column < log.count; column++, entry = log_next(&log, entry)) {
                const vf k = v_set1(entry[log.k + i]), a = v_set1(entry[log.a + (x->channel ? i : 0)]);
                for (int w = 0; w < VECTORS; w++)
                    s[w] = v_fma(k, v_load(entry + log.d + j + (w < n ? w : 0) * GDN_VL), v_mul(a, s[w]));
            }
            for (int w = 0; w < n; w++) {
                v_store(hold + (int64_t)i * n_columns + j + w * GDN_VL, s[w]);
                if (commit) v_store(commit + i * to_pitch + j + w * GDN_VL, s[w]);
            }
        }
}

/* Runs all tokens of a sequence, which fit one chunk. A token reads the state where the previous token wrote it. */
static void lines(const head_view *x, const chunk *c, float *scratch)
{
    const int32_t n_columns = x->n_columns;
    float *hold = scratch, *d = hold + (int64_t)x->pitch * n_columns;
    char *snapshot[LINES_MAX_TOKENS];
    lines_pass pass = { .d = d, .part_q = d + n_columns, .n_columns = n_columns };
    const bool whole = snapshots_of(x, 0, c->n_tokens, snapshot) && (x->j0 | n_columns) % 16 == 0;
    pass.part_k = pass.part_q + 32 * (int64_t)n_columns;

    /* 1: load state */
    pass.x = (delta_pass){ .from = hold, .from_pitch = n_columns, .to = hold, .n = x->n, .read = c->ak };
    if (x->source) {
        pass.x.from = (const float *)(const void *)x->source + x->j0;
        pass.x.from_pitch = x->p->state.stride_line / 4;
    } else {
        memset(hold, 0, sizeof *hold * (size_t)x->n * (size_t)n_columns);
    }
    if (x->n_replay || x->commit) { /* source and hold may be the same: each line is read before it is written */
        lines_replay(x, &pass.x, hold);
        pass.x.from = hold;
        pass.x.from_pitch = n_columns;
    }
    if (!c->n_tokens) return;
    lines_read(&pass);
    for (int32_t t = 0; t < c->n_tokens; t++) {
        const int64_t row = (int64_t)t * x->pitch, at = (int64_t)t * c->group;
        for (int32_t j = 0; j < n_columns; j += GDN_VL)
            v_store(d + j, delta(c, t, j, lines_sum(pass.part_k + j, n_columns)));
        if (x->q.row >= 0) memcpy(log_deltas(x, t), d, sizeof *d * (size_t)n_columns);
        pass.x.q = c->q + row;
        pass.x.k = c->k + row;
        pass.x.a = c->a + row;
        pass.x.read = c->ak + row + x->pitch;
        pass.x.decay = c->decay[t];
        if (t + 1 == c->n_tokens && x->next && x->next->source) {
            pass.ahead = x->next->source + 4 * (int64_t)x->next->j0;
            pass.ahead_pitch = x->p->state.stride_line;
        }
        pass.x.to = snapshot[t] ? (float *)(void *)snapshot[t] + x->j0 : hold; /* 7: the snapshot is the state itself */
        pass.x.to_pitch = snapshot[t] ? x->p->state_out.stride_line / 4 : n_columns;
        lines_update(&pass, x->channel, t + 1 < c->n_tokens, whole && snapshot[t] && snapshot[t] != x->source);
        for (int32_t j = 0; j < n_columns; j += GDN_VL) v_store(c->out + at + j, lines_sum(pass.part_q + j, n_columns));
        pass.x.from = pass.x.to;
        pass.x.from_pitch = pass.x.to_pitch;
    }
}

#endif
