/* gated_delta_net by rows: vector lanes are the keys of a value row.
 *
 * A row stays in registers for all tokens of the call. It is read once, and each token writes one snapshot of it. Two
 * rows are processed together, so that one has work while the other waits for its sums. Rows are independent, so the
 * processor overlaps them further.
 *
 * Prefetches:
 *   one token       rows are needed evenly and in order. They are prefetched 16 rows ahead (DECODE_AHEAD), into the L2
 *                   cache, which can wait for more lines at once than L1.
 *   several tokens  the processor's prefetchers stop, because a row takes long. Each token prefetches a part of a
 *                   row to come; a whole row at once is slower. */
#ifndef GDN_CPU_GATED_DELTA_NET_ROWS_INC_H
#define GDN_CPU_GATED_DELTA_NET_ROWS_INC_H

#include "cpu/gated_delta_net_log.inc.h"

enum {
    ROWS_MAX_TOKENS = 16,                 /* the longest sequence for which "rows" is not slower than "columns" */
    ROWS_TOGETHER = GDN_VL == 16 ? 2 : 1, /* two only if there are 32 wide registers */
    AHEAD = 4                             /* prefetch distance in rows */
};

static bool rows_serves(const gdn_gated_delta_net_call *p, int32_t n_tokens)
{
    return p->state_layout == GDN_STATE_VK && p->head_dim_k % GDN_VL == 0 && n_tokens <= ROWS_MAX_TOKENS &&
           !(p->rounding_interval && p->log.n_slots);
}

/* The rows of an item. */
typedef struct rows_block {
    const chunk *c;
    const char *from;             /* the state to read; NULL = zero */
    int64_t from_pitch, to_pitch; /* bytes */
    int64_t pitch;                /* of rows of floats in scratch */
    int type;                     /* of the states' elements */
    bool channel;
    int32_t n, n_rows;
    int32_t ahead;                /* bytes of a row to come that a token prefetches */
    char *to[ROWS_MAX_TOKENS];    /* address for the state after each token; NULL = not kept */
    bool stream[ROWS_MAX_TOKENS]; /* the stores bypass the caches */
    char *commit;                 /* address for the state before the first token, or NULL */
    bool commit_streams;
    float *log_d[ROWS_MAX_TOKENS]; /* address for a token's logged deltas, or NULL */
} rows_block;

static rows_block rows_block_of(const head_view *x, const chunk *c)
{
    char *snapshot[ROWS_MAX_TOKENS];
    const bool stream = snapshots_of(x, 0, c->n_tokens, snapshot);
    rows_block b = {
        .c = c, .n = x->n, .n_rows = x->n_columns, .pitch = x->pitch, .type = x->type, .channel = x->channel
    };
    b.from_pitch = x->p->state.stride_line;
    b.to_pitch = x->p->state_out.stride_line;
    b.from = x->source ? x->source + x->j0 * b.from_pitch : NULL;
    b.commit = x->commit ? x->commit + x->j0 * b.to_pitch : NULL;
    b.commit_streams = commit_streams(x);
    for (int32_t t = 0; t < c->n_tokens; t++) {
        b.to[t] = snapshot[t] ? snapshot[t] + x->j0 * b.to_pitch : NULL;
        b.stream[t] = stream && snapshot[t] != x->source;
        b.log_d[t] = log_deltas(x, t);
    }
    b.ahead = b.from && c->n_tokens ? round_up(x->size * x->n, 64 * c->n_tokens) / c->n_tokens : 0;
    return b;
}

/* One token for rows [r, r + count), whose state is s. kv: its dot with k, on return with the next k. */
GDN_INLINE void rows_token(rows_block *b, int32_t r, int32_t t, int32_t n, int count, bool channel, int type, bool next,
                           vf s[][256 / GDN_VL], float *kv)
{
    const int64_t row = (int64_t)t * b->pitch;
    const float *q = b->c->q + row, *k = b->c->k + row, *a = b->c->a + row, *read = b->c->ak + row + b->pitch;
    const float *v = b->c->v + (int64_t)t * b->c->group + r;
    float *out = b->c->out + (int64_t)t * b->c->group + r;
    const float decay = b->c->decay[t], beta = b->c->beta[t];
    char *to = b->to[t] ? b->to[t] + r * b->to_pitch : NULL;
    vf part_q[ROWS_TOGETHER][PARTS], part_k[ROWS_TOGETHER][PARTS], d[ROWS_TOGETHER];
    for (int32_t i = t * b->ahead; i < (t + 1) * b->ahead; i += 64)
        for (int m = 0; m < count; m++) v_prefetch(b->from + (r + AHEAD + m) * b->from_pitch + i);
    for (int m = 0; m < count; m++) {
        d[m] = v_set1(beta * (v[m] - decay * kv[m])); /* 4: delta d */
        for (int j = 0; j < PARTS; j++) part_q[m][j] = part_k[m][j] = v_zero();
    }
#pragma GCC unroll 8
    for (int32_t i0 = 0; i0 < n; i0 += 32) {
        for (int j = 0; j < PARTS; j++) {
            const int32_t i = i0 + j * GDN_VL;
            if (i >= n) continue;
            for (int m = 0; m < count; m++) {
                vf x = v_mul(channel ? v_load(a + i) : v_set1(decay), s[m][i / GDN_VL]);
                s[m][i / GDN_VL] = x = v_fma(v_load(k + i), d[m], x);              /* 5: update     */
                part_q[m][j] = v_fma(x, v_load(q + i), part_q[m][j]);              /* 6: output     */
                if (next) s[m][i / GDN_VL] = x = v_round_typed(x, type);           /* 7: round      */
                if (next) part_k[m][j] = v_fma(x, v_load(read + i), part_k[m][j]); /* 3: the next kv */
            }
        }
    }
    const bool stream = b->stream[t];
    for (int m = 0; to && stream && m < count; m++) /* 7: snapshot */
#pragma GCC unroll 32
        for (int32_t i = 0; i < n; i += GDN_VL) v_stream_typed(to + m * b->to_pitch, type, i, s[m][i / GDN_VL]);
    for (int m = 0; to && !stream && m < count; m++)
#pragma GCC unroll 32
        for (int32_t i = 0; i < n; i += GDN_VL) v_store_typed(to + m * b->to_pitch, type, i, s[m][i / GDN_VL], GDN_VL);
    for (int m = 0; m < count; m++) {
        out[m] = parts_sum(part_q[m]);
        if (next) kv[m] = parts_sum(part_k[m]);
    }
}

/* All tokens for rows [r, r + count). Vectors beyond n are left out and not multiplied by zeros: p + 0 * 0
 * is +0 where p is -0. */
GDN_INLINE void rows_tokens(rows_block *b, int32_t r, int32_t n, int count, bool channel, int type)
{
    const int32_t last = b->c->n_tokens - 1;
    vf s[ROWS_TOGETHER][256 / GDN_VL], part[ROWS_TOGETHER][PARTS];
    float kv[ROWS_TOGETHER];
    for (int m = 0; m < count; m++)
        for (int j = 0; j < PARTS; j++) part[m][j] = v_zero();
    for (int m = 0; m < count; m++) {
        const char *from = b->from ? b->from + (r + m) * b->from_pitch : NULL;
#pragma GCC unroll 8
        for (int32_t i0 = 0; i0 < n; i0 += 32) {
            for (int j = 0; j < PARTS; j++) {
                const int32_t i = i0 + j * GDN_VL;
                if (i >= n) continue;
                s[m][i / GDN_VL] = from ? v_load_typed(from, type, i, GDN_VL) : v_zero(); /* 1: load state */
                part[m][j] = v_fma(s[m][i / GDN_VL], v_load(b->c->ak + i), part[m][j]);   /* 3: read kv    */
            }
        }
    }
    for (int m = 0; m < count; m++) kv[m] = parts_sum(part[m]);
    for (int32_t t = 0; t < last; t++) rows_token(b, r, t, n, count, channel, type, true, s, kv);
    rows_token(b, r, last, n, count, channel, type, false, s, kv);
}

/* Row r alone: the last of an odd number. It is rare, so one version serves all cases. */
static __attribute__((noinline)) void rows_rest(rows_block *b, int32_t r)
{
    rows_tokens(b, r, b->n, 1, b->channel, b->type);
}

GDN_INLINE void rows_block_run(rows_block *b, int32_t n_rows, int32_t n, bool channel, int type)
{
    int32_t r = 0;
    for (; r + ROWS_TOGETHER <= n_rows; r += ROWS_TOGETHER) rows_tokens(b, r, n, ROWS_TOGETHER, channel, type);
    if (r < n_rows) rows_rest(b, r);
}

/* One compiled version for each case; n is a constant for common sizes. */
#define ROWS_VERSIONS(name, type)                                                                                      \
    static void name(rows_block *b)                                                                                    \
    {                                                                                                                  \
        if (b->n == 128 && b->channel) rows_block_run(b, b->n_rows, 128, 1, type);                                     \
        else if (b->n == 128) rows_block_run(b, b->n_rows, 128, 0, type);                                              \
        else rows_block_run(b, b->n_rows, b->n, b->channel, type);                                                     \
    }
ROWS_VERSIONS(rows_block_general, GDN_F32)
ROWS_VERSIONS(rows_block_f16, GDN_F16)
ROWS_VERSIONS(rows_block_bf16, GDN_BF16)
#undef ROWS_VERSIONS

/* Runs all tokens of a sequence, which fit one chunk. */
GDN_INLINE void rows(const head_view *x, const chunk *c)
{
    rows_block b = rows_block_of(x, c);
    if (x->type == GDN_F16) rows_block_f16(&b);
    else if (x->type == GDN_BF16) rows_block_bf16(&b);
    else rows_block_general(&b);
}

/* ---- One token of a head of 128 keys ----
 *
 * k and q stay in registers for all rows, so that only loads of the state are left. Loads of k and q from the L1 cache
 * would slow the loads of the state down. A token's operands are used in place where possible. A copy would be read
 * back while its stores still wait behind those of the previous head. A read key has no registers left: such calls use
 * the code above. */
enum { DECODE_KEYS = 128, DECODE_VECTORS = DECODE_KEYS / GDN_VL, DECODE_AHEAD = 16 };

static bool rows_decode_serves(const head_view *x)
{
    return x->n_tokens == 1 && x->n == DECODE_KEYS && x->source && !x->p->log.n_slots && !x->reads;
}

/* The rows of an item. */
typedef struct rows_decode_block {
    const char *q, *k, *g, *from;
    const float *v;
    char *to; /* address for the state, or NULL */
    float *out;
    int64_t from_pitch, to_pitch; /* bytes */
    int32_t n_rows;
    float decay, beta, scale;
} rows_decode_block;

/* 0: normalises q or k in registers. */
GDN_INLINE void rows_decode_norm(const gdn_gated_delta_net_call *p, vf x[DECODE_VECTORS])
{
    vf part[PARTS];
    for (int j = 0; j < PARTS; j++) part[j] = v_zero();
#pragma GCC unroll 32
    for (int i = 0; i < DECODE_VECTORS; i++) part[i % PARTS] = v_fma(x[i], x[i], part[i % PARTS]);
    const vf factor = v_set1(gdn_norm_factor(parts_sum(part), p->norm_add, p->norm_most));
#pragma GCC unroll 32
    for (int i = 0; i < DECODE_VECTORS; i++) x[i] = v_mul(x[i], factor);
}

/* The operands of the token that all rows use. */
typedef struct rows_decode_token {
    vf k[DECODE_VECTORS], q[DECODE_VECTORS], a[DECODE_VECTORS]; /* a: of a gate per channel */
} rows_decode_token;

/* 0 and 2. Runs once per head, and is long, so the versions of the rows' loop share it. */
static __attribute__((noinline)) void rows_decode_ready(const head_view *x, const rows_decode_block *b,
                                                        rows_decode_token *token)
{
    vf k[DECODE_VECTORS], q[DECODE_VECTORS];
#pragma GCC unroll 32
    for (int i = 0; i < DECODE_VECTORS; i++) {
        k[i] = v_load_typed(b->k, x->p->k.dtype, i * GDN_VL, GDN_VL);
        q[i] = v_load_typed(b->q, x->p->q.dtype, i * GDN_VL, GDN_VL);
    }
    if (x->p->qk_norm) {
        rows_decode_norm(x->p, k);
        rows_decode_norm(x->p, q);
    }
#pragma GCC unroll 32
    for (int i = 0; i < DECODE_VECTORS; i++) {
        token->k[i] = k[i];
        token->q[i] = q[i];
    }
    for (int i = 0; x->channel && i < DECODE_VECTORS; i += GDN_GROUP)
        channel_decays(x, b->g, i * GDN_VL, token->a + i, GDN_GROUP); /* 2: decay */
}

GDN_INLINE void rows_decode_run(const head_view *x, const rows_decode_block *block, bool channel, bool stream, int type,
                                bool converts)
{
    const int size = type == GDN_F32 ? 4 : 2;
    rows_decode_block b = *block;
    rows_decode_token token;
    vf k[DECODE_VECTORS], q[DECODE_VECTORS], a[DECODE_VECTORS], ak[DECODE_VECTORS], s[DECODE_VECTORS];
    rows_decode_ready(x, block, &token);
#pragma GCC unroll 32
    for (int i = 0; i < DECODE_VECTORS; i++) {
        k[i] = token.k[i];
        q[i] = token.q[i];
        a[i] = channel ? token.a[i] : v_set1(b.decay);
        ak[i] = channel ? v_mul(a[i], k[i]) : k[i];
    }
    for (int32_t r = 0; r < b.n_rows; r++, b.from += b.from_pitch) {
        vf part_q[PARTS], part_k[PARTS];
        for (int j = 0; j < PARTS; j++) part_q[j] = part_k[j] = v_zero();
#pragma GCC unroll 32
        for (int i = 0; i < DECODE_VECTORS; i++) {
            if (i * size * GDN_VL % 64 == 0) v_prefetch_l2(b.from + DECODE_AHEAD * b.from_pitch + i * size * GDN_VL);
            s[i] = v_load_typed(b.from, type, i * GDN_VL, GDN_VL);     /* 1: load state */
            part_k[i % PARTS] = v_fma(s[i], ak[i], part_k[i % PARTS]); /* 3: read kv    */
        }
        const vf d = v_set1(b.beta * (b.v[r] - b.decay * parts_sum(part_k))); /* 4: delta d */
#pragma GCC unroll 32
        for (int i = 0; i < DECODE_VECTORS; i++) {
            s[i] = v_fma(k[i], d, v_mul(a[i], s[i]));                 /* 5: update     */
            part_q[i % PARTS] = v_fma(s[i], q[i], part_q[i % PARTS]); /* 6: output     */
            if (!b.to) continue;
            if (converts) v_convert_bf16((uint16_t *)(void *)b.to + i * GDN_VL, s[i], stream); /* 7: snapshot   */
            else if (stream) v_stream_typed(b.to, type, i * GDN_VL, s[i]);
            else v_store_typed(b.to, type, i * GDN_VL, s[i], GDN_VL);
        }
        b.out[r] = b.scale * parts_sum(part_q);
        if (b.to) b.to += b.to_pitch;
    }
}

#define ROWS_DECODE(name, type, converts)                                                                              \
    GDN_INLINE void name(const head_view *x, const rows_decode_block *b, bool stream)                                  \
    {                                                                                                                  \
        if (x->channel && stream) rows_decode_run(x, b, 1, 1, type, converts);                                         \
        else if (x->channel) rows_decode_run(x, b, 1, 0, type, converts);                                              \
        else if (stream) rows_decode_run(x, b, 0, 1, type, converts);                                                  \
        else rows_decode_run(x, b, 0, 0, type, converts);                                                              \
    }
ROWS_DECODE(rows_decode_f32, GDN_F32, 0)
ROWS_DECODE(rows_decode_f16, GDN_F16, 0)
ROWS_DECODE(rows_decode_bf16, GDN_BF16, 0)
ROWS_DECODE(rows_decode_bf16_converted, GDN_BF16, GDN_BF16_INSTRUCTION)
#undef ROWS_DECODE

/* The chunk is scratch, for values and outputs that are not F32. */
static void rows_decode(const head_view *x, const chunk *c)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t key_head = gdn_key_head(p, x->h);
    const char *values = gdn_token_at(&p->v, x->q.s, x->q.first, 0, x->h);
    char *snapshot;
    const bool stream = snapshots_of(x, 0, 1, &snapshot);
    rows_decode_block b = { .n_rows = x->n_columns, .scale = p->scale };
    b.q = gdn_token_at(&p->q, x->q.s, x->q.first, 0, key_head);
    b.k = gdn_token_at(&p->k, x->q.s, x->q.first, 0, key_head);
    b.g = gdn_token_at(&p->g, x->q.s, x->q.first, 0, x->h);
    compute_factors(x, 0, 1, false, &b.decay, &b.beta);
    char *out = gdn_token_at(&p->result, x->q.s, x->q.first, 0, x->h);
    b.out = p->result.dtype == GDN_F32 ? (float *)(void *)out + x->j0 : c->out;
    b.from_pitch = p->state.stride_line;
    b.to_pitch = p->state_out.stride_line;
    b.from = x->source + x->j0 * b.from_pitch;
    b.to = snapshot ? snapshot + x->j0 * b.to_pitch : NULL;
    if (p->v.dtype == GDN_F32) b.v = (const float *)(const void *)values + x->j0;
    else load_as_f32(c->v, values, p->v.dtype, x->j0, x->n_columns), b.v = c->v;
    if (x->type == GDN_F16) rows_decode_f16(x, &b, stream);
    else if (x->type == GDN_BF16 && GDN_BF16_INSTRUCTION && x->converts_bf16) rows_decode_bf16_converted(x, &b, stream);
    else if (x->type == GDN_BF16) rows_decode_bf16(x, &b, stream);
    else rows_decode_f32(x, &b, stream);
    for (int32_t j = 0; p->result.dtype != GDN_F32 && j < x->n_columns; j += GDN_VL)
        v_store_typed(out, p->result.dtype, x->j0 + j, v_load(c->out + j), min_i32(x->n_columns - j, GDN_VL));
}

#endif
