/* gated_delta_net on the CPU, an item: a head of a sequence and a group of its value channels, with its tokens in
 * chunks. The operands of a chunk's tokens are converted (to aligned floats) once for all blocks of channels of the
 * group. The loop orders share this file; it is included after one simd/<isa>.h. */
#ifndef GDN_CPU_GATED_DELTA_NET_ITEM_INC_H
#define GDN_CPU_GATED_DELTA_NET_ITEM_INC_H

#include <stdbool.h>
#include <string.h>

#include "core/problem.h"
#include "numerics/convert.h"
#include "numerics/prepare.h"
#include "simd/elementary.inc.h"
#include "simd/typed.inc.h"

enum { PARTS = 32 / GDN_VL }; /* registers for the 32 partial sums of a dot product */
enum { CHUNK_TOKENS = 32 };   /* q, k, v and out of a chunk fit the L2 cache: 64 KiB for 128 x 128 */

/* One head of one sequence, and the value channels of it that the item computes. */
typedef struct head_view {
    const gdn_gated_delta_net_call *p;
    gdn_sequence q;
    int32_t h, key_head, n_tokens;
    int32_t j0, n_columns;
    int32_t type, size; /* of the states' elements: GDN_F32 ..., and bytes                */
    const char *source; /* the head's state in the slot to read; NULL = start from zero  */
    int32_t n;          /* head_dim_k                                                     */
    int32_t pitch;      /* of rows of n floats in scratch                                 */
    bool channel;
    bool converts_bf16;           /* as gdn_plan                                                        */
    bool reads;                   /* the state is read with a key of its own                            */
    float rate;                   /* of a raw gate                                                      */
    const char *bias;             /* of a raw gate, one or n elements; NULL = 0                         */
    int32_t n_replay;             /* log entries that are replayed: those before `position`          */
    int32_t n_commit;             /* of these, the entries before the state that is committed        */
    char *commit;                 /* the head's state in the slot of the commit; or NULL             */
    const struct head_view *next; /* the next item, or NULL */
} head_view;

/* The converted operands of some tokens. */
typedef struct chunk {
    int32_t first, n_tokens;   /* within the sequence                                                    */
    bool more;                 /* k, a and ak have one row more, of the token after the chunk            */
    float *q, *k;              /* [token][pitch]                                                         */
    float *a;                  /* exp(g) per channel; GATE_CHANNEL only                                  */
    float *ak;                 /* what the state is read with: a * r, r of read_key_of(); GATE_SCALAR: r */
    float *v, *out;            /* [token][group]: out before the multiplication by scale; not for columns */
    float *kv;                 /* [group]: dot of the state and the next chunk's first key               */
    int32_t group;             /* value channels per item, a multiple of 16                              */
    float decay[CHUNK_TOKENS]; /* exp(g) per head; GATE_CHANNEL: 1, so that decay * kv is exactly kv */
    float beta[CHUNK_TOKENS];
} chunk;

static inline int32_t min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t round_up(int32_t a, int32_t unit) { return (a + unit - 1) / unit * unit; }
static inline int32_t pitch_of(const gdn_gated_delta_net_call *p) { return round_up(p->head_dim_k, 16); }

static inline void load_as_f32(float *dst, const char *src, int32_t dtype, int32_t first, int32_t n)
{
    int32_t i = 0;
    const float *f = (const float *)(const void *)src + first;
    for (; dtype == GDN_F32 && i + GDN_VL <= n; i += GDN_VL) v_store(dst + i, v_load(f + i));
    for (; i < n; i += GDN_VL) v_store(dst + i, v_load_typed(src, dtype, first + i, min_i32(n - i, GDN_VL)));
}

static inline void copy_row(float *dst, const float *src, int32_t pitch)
{
    for (int32_t i = 0; i < pitch; i += GDN_VL) v_store(dst + i, v_load(src + i));
}

/* The tree over partial sums. */
GDN_INLINE float parts_sum(vf part[PARTS])
{
    for (int h = PARTS / 2; h > 0; h /= 2)
        for (int j = 0; j < h; j++) part[j] = v_add(part[j], part[j + h]);
    return v_sum(part[0]);
}

/* Partial sums of the squares of a row, one for each lane of a vector. */
GDN_INLINE vf row_squares(const float *row, int32_t n)
{
    vf part[PARTS];
    for (int j = 0; j < PARTS; j++) part[j] = v_zero();
    for (int32_t i0 = 0; i0 < n; i0 += 32)
        for (int j = 0; j < PARTS && i0 + j * GDN_VL < n; j++) {
            const vf x = v_load(row + i0 + j * GDN_VL);
            part[j] = v_fma(x, x, part[j]);
        }
    for (int h = PARTS / 2; h > 0; h /= 2)
        for (int j = 0; j < h; j++) part[j] = v_add(part[j], part[j + h]);
    return part[0];
}

/* 0: normalises rows of q or k, x->pitch floats apart, if the call has a norm. Lanes beyond n hold zeros, which do not
 * change a sum of squares. GDN_VL rows are processed together: their sums and factors are one vector, instead of a
 * chain of latencies for each row. */
static inline void rows_norm(const head_view *x, float *row, int32_t n_rows)
{
    const gdn_gated_delta_net_call *p = x->p;
    if (!p->qk_norm) return;
    for (int32_t count; n_rows > 0; n_rows -= count, row += (int64_t)count * x->pitch) {
        vf sum[GDN_VL];
        float factor[GDN_VL];
        count = min_i32(n_rows, GDN_VL);
        for (int32_t t = 0; t < GDN_VL; t++)
            sum[t] = t < count ? row_squares(row + (int64_t)t * x->pitch, x->n) : v_zero();
        const vf r = v_rsqrt(v_add(v_sums(sum), v_set1(p->norm_add))); /* gdn_norm_factor() */
        v_store(factor, v_smaller(v_set1(p->norm_most), r));
        for (int32_t t = 0; t < count; t++)
            for (int32_t i = 0; i < x->n; i += GDN_VL) {
                float *const at = row + (int64_t)t * x->pitch + i;
                v_store(at, v_mul(v_load(at), v_set1(factor[t])));
            }
    }
}

/* 0: converts q or k of token t to a row of x->pitch floats. */
static inline void prepare_key(const head_view *x, const gdn_token_view *view, int32_t t, float *row)
{
    load_as_f32(row, gdn_token_at(view, x->q.s, x->q.first, t, x->key_head), view->dtype, 0, x->n);
    rows_norm(x, row, 1);
}

/* 2: logarithms of decays from elements of g; not of GDN_G_LINEAR. */
GDN_INLINE vf decay_log_of(const head_view *x, vf g, vf bias)
{
    if (x->p->gate_input == GDN_G_LOG) return g;
    g = v_add(g, bias);
    if (x->p->gate_input == GDN_G_BOUNDED)
        return v_mul(v_set1(x->p->lower_bound), v_sigmoid(v_mul(v_set1(x->rate), g)));
    return v_mul(v_set1(x->rate), v_softplus(g));
}

/* 2: decays from elements of g. */
GDN_INLINE vf decay_of(const head_view *x, vf g, vf bias)
{
    return x->p->gate_input == GDN_G_LINEAR ? g : v_exp(decay_log_of(x, g, bias));
}

/* The same for count vectors of channels from i on of a token, whose row of g is given. If fewer channels are left,
 * there is one vector. Several vectors overlap the long latency of one. */
GDN_INLINE void channel_decays(const head_view *x, const char *g, int32_t i, vf *a, int count)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t n = min_i32(x->n - i, GDN_VL);
    for (int m = 0; m < count; m++) a[m] = v_load_typed(g, p->g.dtype, i + m * GDN_VL, n);
    if (p->gate_input == GDN_G_LINEAR) return;
    if (p->gate_input != GDN_G_LOG) {
        for (int m = 0; m < count; m++)
            a[m] = v_add(a[m], x->bias ? v_load_typed(x->bias, p->dt_bias.dtype, i + m * GDN_VL, n) : v_zero());
        if (p->gate_input == GDN_G_BOUNDED) {
            for (int m = 0; m < count; m++)
                a[m] = v_mul(v_set1(p->lower_bound), v_sigmoid(v_mul(v_set1(x->rate), a[m])));
        } else {
            v_softplus_n(a, count);
            for (int m = 0; m < count; m++) a[m] = v_mul(v_set1(x->rate), a[m]);
        }
    }
    v_exp_n(a, count);
}

/* 0 and 2: computes decay, or its logarithm, and beta of n_tokens tokens from token t on, at most CHUNK_TOKENS, in
 * place of the raw values. Several are processed at a time, to overlap their latencies. */
static inline void compute_factors(const head_view *x, int32_t t, int32_t n_tokens, bool logs, float *decay,
                                   float *beta)
{
    const gdn_gated_delta_net_call *p = x->p;
    const vf factor = v_set1(p->beta_factor),
             bias = v_set1(x->bias && !x->channel ? gdn_load_element(x->bias, p->dt_bias.dtype, 0) : 0);
    for (int32_t i0 = 0; i0 < n_tokens; i0 += GDN_VL) {
        float g[GDN_VL] = { 0 }, b[GDN_VL] = { 0 };
        const int32_t n = min_i32(n_tokens - i0, GDN_VL);
        for (int32_t i = 0; i < n; i++) {
            b[i] = gdn_load_element(gdn_token_at(&p->beta, x->q.s, x->q.first, t + i0 + i, x->h), p->beta.dtype, 0);
            if (!x->channel)
                g[i] = gdn_load_element(gdn_token_at(&p->g, x->q.s, x->q.first, t + i0 + i, x->h), p->g.dtype, 0);
        }
        const vf given = v_load(b);
        v_store_n(beta + i0, v_mul(factor, p->beta_input == GDN_BETA_LOGIT ? v_sigmoid(given) : given), n);
        v_store_n(decay + i0,
                  x->channel ? v_set1(1.0f)
                  : logs     ? decay_log_of(x, v_load(g), bias)
                             : decay_of(x, v_load(g), bias),
                  n);
    }
}

/* What a raw gate has of the head. */
static inline void set_raw_gate(head_view *x)
{
    const gdn_gated_delta_net_call *p = x->p;
    if (p->gate_input < GDN_G_RAW) return;
    const float a = p->ssm_a.data ? gdn_load_element(gdn_token_at(&p->ssm_a, 0, 0, 0, x->h), p->ssm_a.dtype, 0) : 0;
    x->rate = gdn_gate_rate(p->gate_input, a);
    x->bias = p->dt_bias.data ? gdn_token_at(&p->dt_bias, 0, 0, 0, x->h) : NULL;
}

/* The rows with which the state is read: the tokens' keys, or read keys, which become ak in place. */
static inline float *read_key_of(const chunk *c, const head_view *x) { return x->reads ? c->ak : c->k; }

GDN_INLINE void channel_store(const chunk *c, const float *r, int64_t at, vf a)
{
    v_store(c->a + at, a);
    v_store(c->ak + at, v_mul(a, v_load(r + at)));
}

/* Computes a and ak of token t, as row `row` of the chunk, where r has been converted. */
static inline void chunk_fill_channels(const chunk *c, const head_view *x, int32_t t, int64_t row)
{
    const char *g = gdn_token_at(&x->p->g, x->q.s, x->q.first, t, x->h);
    const float *r = read_key_of(c, x);
    int32_t i = 0;
    vf a[GDN_GROUP];
    for (; i + GDN_GROUP * GDN_VL <= x->n; i += GDN_GROUP * GDN_VL) {
        channel_decays(x, g, i, a, GDN_GROUP);
        for (int m = 0; m < GDN_GROUP; m++) channel_store(c, r, row + i + m * GDN_VL, a[m]);
    }
    for (; i < x->n; i += GDN_VL) {
        channel_decays(x, g, i, a, 1);
        channel_store(c, r, row + i, a[0]);
    }
}

/* 0 and 2, for a whole chunk: converts q, k and v to aligned floats, and computes the factors. Rows of tokens are far
 * apart in memory. Copied one after another, their cache misses overlap. */
static inline void chunk_fill(chunk *c, const head_view *x, int32_t first)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int64_t after = (int64_t)CHUNK_TOKENS * x->pitch; /* the row after a full chunk's last */
    c->first = first;
    c->n_tokens = min_i32(x->n_tokens - first, CHUNK_TOKENS);
    c->more = first + c->n_tokens < x->n_tokens;
    if (first > 0) { /* the previous chunk has converted the first row */
        copy_row(c->k, c->k + after, x->pitch);
        if (x->channel) copy_row(c->a, c->a + after, x->pitch);
        if (c->ak != c->k) copy_row(c->ak, c->ak + after, x->pitch);
    }
    for (int32_t t = 0; t < c->n_tokens; t++) {
        const int64_t row = (int64_t)t * x->pitch;
        load_as_f32(c->q + row, gdn_token_at(&p->q, x->q.s, x->q.first, first + t, x->key_head), p->q.dtype, 0, x->n);
        load_as_f32(c->v + (int64_t)t * c->group, gdn_token_at(&p->v, x->q.s, x->q.first, first + t, x->h), p->v.dtype,
                    x->j0, x->n_columns);
    }
    const int32_t begin = first > 0, end = c->n_tokens + c->more; /* the keys to convert */
    for (int32_t t = begin; t < end; t++)
        load_as_f32(c->k + (int64_t)t * x->pitch, gdn_token_at(&p->k, x->q.s, x->q.first, first + t, x->key_head),
                    p->k.dtype, 0, x->n);
    rows_norm(x, c->q, c->n_tokens);
    rows_norm(x, c->k + begin * x->pitch, end - begin);
    for (int32_t t = begin; x->reads && t < end; t++)
        load_as_f32(c->ak + (int64_t)t * x->pitch,
                    gdn_token_at(&p->read_key, x->q.s, x->q.first, first + t, x->key_head), p->read_key.dtype, 0, x->n);
    for (int32_t t = begin; x->channel && t < end; t++) chunk_fill_channels(c, x, first + t, (int64_t)t * x->pitch);
    compute_factors(x, first, c->n_tokens, false, c->decay, c->beta);
}

GDN_INLINE void prefetch_bytes(const char *row, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i += 64) v_prefetch(row + i);
}

/* Rows to prefetch: `count` of them, `step` bytes apart. */
typedef struct ahead_rows {
    const char *at;
    int64_t step, bytes;
    int32_t count;
} ahead_rows;

/* Finds what is read and written next, for block `turn` of n_turns blocks of value channels: the tokens of the next
 * chunk. After the last chunk these are the tokens of the next item's first chunk, and the state of its block. Token t
 * of this chunk prefetches row t of each, so that loads overlap with work. Returns the number of rows. */
enum { AHEAD_ROWS = 6 };
static inline int32_t chunk_ahead(const chunk *c, const head_view *x, int32_t turn, int32_t n_turns, ahead_rows *rows)
{
    const gdn_gated_delta_net_call *p = x->p;
    const gdn_token_view *const view[] = { &p->q, &p->k, &p->v, &p->result, &p->g };
    const head_view *to = c->more ? x : x->next;
    const int32_t first = c->more ? c->first + c->n_tokens : 0, n_views = x->channel ? 5 : 4;
    int32_t count = 0;
    if (!to) return 0;
    for (int32_t i = turn; i<n_views; i += n_turns> 1 ? n_turns : 1) {
        const int64_t size = view[i]->dtype == GDN_F32 ? 4 : 2;
        const bool values = i == 2 || i == 3;
        if (!view[i]->data) continue; /* no outputs */
        const char *at = gdn_token_at(view[i], to->q.s, to->q.first, first, i < 2 ? to->key_head : to->h);
        rows[count++] =
            (ahead_rows){ at + (values ? size * to->j0 : 0), view[i]->stride_token,
                          size * (values ? to->n_columns : to->n), min_i32(to->n_tokens - first, CHUNK_TOKENS) };
    }
    if (!c->more && to->source && p->state_layout == GDN_STATE_VK) {
        const int32_t n = to->n_columns / (n_turns > 1 ? n_turns : 1);
        const char *lines = to->source + (to->j0 + turn * n) * p->state.stride_line;
        rows[count++] = (ahead_rows){ lines, p->state.stride_line, to->size * (int64_t)to->n, n };
    }
    return count;
}

/* 6: stores the outputs of a chunk; c->out holds their sums. */
static inline void chunk_output(const chunk *c, const head_view *x)
{
    const vf scale = v_set1(x->p->scale);
    for (int32_t t = 0; t < c->n_tokens; t++) {
        char *out = gdn_token_at(&x->p->result, x->q.s, x->q.first, c->first + t, x->h);
        for (int32_t j = 0; j < x->n_columns; j += GDN_VL)
            v_store_typed(out, x->p->result.dtype, x->j0 + j, v_mul(scale, v_load(c->out + (int64_t)t * c->group + j)),
                          min_i32(x->n_columns - j, GDN_VL));
    }
}

/* The address for the snapshot after token t, or NULL. */
static inline char *snapshot_of(const head_view *x, int32_t t)
{
    const int32_t entry = gdn_snapshot_of(x->p, x->q, t);
    return entry < 0 ? NULL : gdn_state_at(&x->p->state_out, entry, x->h);
}

/* The address for the checkpoint after token t, or NULL. */
static inline char *checkpoint_of(const head_view *x, int32_t t)
{
    const int32_t entry = gdn_checkpoint_of(x->p, x->q.s, t);
    return entry < 0 ? NULL : gdn_state_at(&x->p->state_out, entry, x->h);
}

/* The first token in [t, t + n) whose state is a checkpoint; or t + n. */
static inline int32_t next_checkpoint(const head_view *x, int32_t t, int32_t n)
{
    const int32_t interval = x->p->checkpoints_interval;
    if (!interval) return t + n;
    const int32_t more = interval - 1 - (x->q.position + t) % interval; /* tokens before that one */
    return more < n ? t + more : t + n;
}

/* The addresses for the states after tokens [t, t + n): the snapshot, or else the checkpoint. Returns true if the
 * stores should bypass the caches. That holds for whole cache lines that are not in a cache: they need not be fetched
 * first. The slot that is read is in a cache. */
static inline bool snapshots_of(const head_view *x, int32_t t, int32_t n, char **snapshot)
{
    const uint64_t line = (uint64_t)x->size * (uint64_t)(x->p->state_layout == GDN_STATE_KV ? x->p->head_dim_v : x->n);
    bool elsewhere = false, whole = (line | (uint64_t)x->p->state_out.stride_line) % 64 == 0;
    for (int32_t i = 0; i < n; i++) {
        snapshot[i] = snapshot_of(x, t + i);
        if (!snapshot[i]) snapshot[i] = checkpoint_of(x, t + i);
        elsewhere |= snapshot[i] && snapshot[i] != x->source;
        whole &= (uintptr_t)snapshot[i] % 64 == 0;
    }
    return elsewhere && whole;
}

/* Copies the item's part of checkpoints that coincide with snapshots, for the n tokens of a sequence. The snapshots
 * have been written. */
static inline void copy_checkpoints(const head_view *x, int32_t n)
{
    const bool kv = x->p->state_layout == GDN_STATE_KV;
    const int64_t pitch = x->p->state_out.stride_line, n_lines = kv ? x->n : x->n_columns;
    const size_t bytes = (size_t)x->size * (size_t)(kv ? x->n_columns : x->n);
    for (int32_t t = next_checkpoint(x, 0, n); t < n; t = next_checkpoint(x, t + 1, n - t - 1)) {
        const char *snapshot = snapshot_of(x, t);
        char *checkpoint = checkpoint_of(x, t);
        const int64_t at = kv ? x->j0 * (int64_t)x->size : x->j0 * pitch;
        for (int64_t i = 0; snapshot && checkpoint && i < n_lines; i++)
            memcpy(checkpoint + at + i * pitch, snapshot + at + i * pitch, bytes);
    }
}

/* 7: true if a 16-bit state is rounded after the token that gives the sequence this length. */
static inline bool rounds_at(const head_view *x, int32_t length) { return gdn_rounds_at(x->p, length); }

/* 4: the delta d of GDN_VL value channels from j on; kv is the dot of the state and k. */
GDN_INLINE vf delta(const chunk *c, int32_t t, int32_t j, vf kv)
{
    const vf v = v_load(c->v + t * c->group + j);
    return v_mul(v_set1(c->beta[t]), v_sub(v, v_mul(v_set1(c->decay[t]), kv)));
}

#endif
