/* gated_delta_net by columns: vector lanes are value channels, COLUMN_VECTORS vectors at a time, or one if fewer are
 * left.
 *
 * Scratch holds the state of a block of value channels packed as [key][channel]. It stays in the L1 cache for a chunk
 * of tokens. All 32 partial sums of a dot product are whole vectors, so the tree needs no shuffles. Keys are visited in
 * an order that makes partial sums of one tree step consecutive, so they are added while still in registers. */
#ifndef GDN_CPU_GATED_DELTA_NET_COLUMNS_INC_H
#define GDN_CPU_GATED_DELTA_NET_COLUMNS_INC_H

#include "cpu/gated_delta_net_log.inc.h"
#include "cpu/gated_delta_net_pass.inc.h"

/* 5: update, with 6: the sums of the output and 3: the next token's kv. */
GDN_INLINE dots columns_pass(const delta_pass *pass, delta_form form)
{
    const delta_pass x = *pass;
    dots part[FOLD];
    for (int32_t l = 0; l < FOLD; l++) {
        dots even = dots_add(pass_leaf(&x, form, l), pass_leaf(&x, form, l + 16), form.width);
        dots odd = dots_add(pass_leaf(&x, form, l + 8), pass_leaf(&x, form, l + 24), form.width);
        part[l] = dots_add(even, odd, form.width);
        if (form.ahead) v_prefetch(x.ahead + 64 * l);
    }
    for (int h = FOLD / 2; h > 0; h /= 2)
        for (int l = 0; l < h; l++) part[l] = dots_add(part[l], part[l + h], form.width);
    return part[0];
}

/* The passes that run once per block of value channels, compiled for any number of keys: the first, which only reads
 * kv, and the last, which has no next token. */
#define COLUMNS_READ(w)    .width = w, .packed = true, .next = true
#define COLUMNS_LAST(w, c) .width = w, .packed = true, .channel = c, .update = true
#define COLUMNS_ONCE(name, ...)                                                                                        \
    static dots name(const delta_pass *pass) { return columns_pass(pass, (delta_form){ __VA_ARGS__ }); }
COLUMNS_ONCE(columns_wide_read, COLUMNS_READ(COLUMN_VECTORS))
COLUMNS_ONCE(columns_wide_last, COLUMNS_LAST(COLUMN_VECTORS, false))
COLUMNS_ONCE(columns_wide_channel_last, COLUMNS_LAST(COLUMN_VECTORS, true))
COLUMNS_ONCE(columns_one_read, COLUMNS_READ(1))
COLUMNS_ONCE(columns_one_last, COLUMNS_LAST(1, false))
COLUMNS_ONCE(columns_one_channel_last, COLUMNS_LAST(1, true))
#undef COLUMNS_ONCE
#undef COLUMNS_LAST
#undef COLUMNS_READ

GDN_INLINE dots columns_read(const delta_pass *pass, int32_t width)
{
    return width < COLUMN_VECTORS ? columns_one_read(pass) : columns_wide_read(pass);
}

GDN_INLINE dots columns_last(const delta_pass *pass, int32_t width, bool channel)
{
    if (width < COLUMN_VECTORS) return channel ? columns_one_channel_last(pass) : columns_one_last(pass);
    return channel ? columns_wide_channel_last(pass) : columns_wide_last(pass);
}

/* A pass that rounds the state to a type, or not, and reads it with the next token's key. One for the usual number of
 * keys, one for any. For trees and for 16-bit states. */
#define COLUMNS_NEXT(name, type, w, keys, c)                                                                           \
    static dots name(const delta_pass *pass)                                                                           \
    {                                                                                                                  \
        return columns_pass(                                                                                           \
            pass,                                                                                                      \
            (delta_form){                                                                                              \
                .width = w, .n = keys, .packed = true, .channel = c, .update = true, .next = true, .round = type });   \
    }
#define COLUMNS_NEXTS(name, type)                                                                                      \
    COLUMNS_NEXT(name##_wide_128, type, COLUMN_VECTORS, 128, false)                                                    \
    COLUMNS_NEXT(name##_wide_channel_128, type, COLUMN_VECTORS, 128, true)                                             \
    COLUMNS_NEXT(name##_wide, type, COLUMN_VECTORS, 0, false)                                                          \
    COLUMNS_NEXT(name##_wide_channel, type, COLUMN_VECTORS, 0, true)                                                   \
    COLUMNS_NEXT(name##_one, type, 1, 0, false)                                                                        \
    COLUMNS_NEXT(name##_one_channel, type, 1, 0, true)
COLUMNS_NEXTS(columns_next, GDN_F32)
COLUMNS_NEXTS(columns_next_f16, GDN_F16)
COLUMNS_NEXTS(columns_next_bf16, GDN_BF16)
#undef COLUMNS_NEXTS
#undef COLUMNS_NEXT

GDN_INLINE dots columns_next_typed(const delta_pass *pass, int32_t type, int32_t width, bool channel)
{
#define COLUMNS_NEXT(name)                                                                                             \
    do {                                                                                                               \
        if (width < COLUMN_VECTORS) return channel ? name##_one_channel(pass) : name##_one(pass);                      \
        if (pass->n == 128) return channel ? name##_wide_channel_128(pass) : name##_wide_128(pass);                    \
        return channel ? name##_wide_channel(pass) : name##_wide(pass);                                                \
    } while (0)
    if (type == GDN_F16) COLUMNS_NEXT(columns_next_f16);
    if (type == GDN_BF16) COLUMNS_NEXT(columns_next_bf16);
    COLUMNS_NEXT(columns_next);
#undef COLUMNS_NEXT
}

/* Stores up to GDN_VL value channels or keys of a snapshot. */
GDN_INLINE void save_vector(char *to, int type, vf a, int32_t lanes, bool stream)
{
    if (lanes == GDN_VL && stream) v_stream_typed(to, type, 0, a);
    else v_store_typed(to, type, 0, a, lanes);
}

/* A block of value channels; state is its location in scratch, which holds it between chunks. */
typedef struct columns_block {
    int32_t j, n_columns, width;
    float *state;
} columns_block;

/* 1 and 7: copy a block of value channels between memory and scratch. In memory, line is a value channel (VK, which
 * needs a transpose) or a key (KV). */
GDN_INLINE void columns_load_typed(const head_view *x, const char *source, int type, const columns_block *b)
{
    const int64_t line = x->p->state.stride_line, pitch = (int64_t)b->width * GDN_VL, size = type == GDN_F32 ? 4 : 2;
    if (x->p->state_layout == GDN_STATE_KV) {
        for (int32_t i = 0; i < x->n; i++)
            for (int32_t w = 0; w < b->width; w++) {
                const int32_t lanes = min_i32(GDN_VL, b->n_columns - w * GDN_VL);
                const char *from = source + i * line + size * (x->j0 + b->j + w * GDN_VL);
                v_store(b->state + pass_place(x->n, i) * pitch + w * GDN_VL, v_load_typed(from, type, 0, lanes));
            }
        return;
    }
    for (int32_t w = 0; w < b->width; w++)
        for (int32_t i = 0; i < x->n; i += GDN_VL) {
            const int32_t rows = min_i32(GDN_VL, b->n_columns - w * GDN_VL), keys = min_i32(GDN_VL, x->n - i);
            const char *tile = source + (x->j0 + b->j + w * GDN_VL) * line + size * i;
            vf r[GDN_VL];
            for (int32_t m = 0; m < GDN_VL; m++)
                r[m] = m < rows ? v_load_typed(tile + m * line, type, 0, keys) : v_zero();
            v_transpose(r);
            for (int32_t m = 0; m < keys; m++) v_store(b->state + pass_place(x->n, i + m) * pitch + w * GDN_VL, r[m]);
        }
}

static void columns_load(const head_view *x, const char *source, const columns_block *b)
{
    if (x->type == GDN_F32) columns_load_typed(x, source, GDN_F32, b);
    else columns_load_typed(x, source, x->type, b);
}

/* Whole cache lines bypass the caches, see snapshots_of(). */
GDN_INLINE void columns_save_typed(const head_view *x, char *target, int type, const columns_block *b)
{
    const int64_t line = x->p->state_out.stride_line, pitch = (int64_t)b->width * GDN_VL,
                  size = type == GDN_F32 ? 4 : 2;
    const bool stream = GDN_VL == 16 && type == GDN_F32 && ((uintptr_t)target | (uintptr_t)line) % 64 == 0;
    if (x->p->state_layout == GDN_STATE_KV) {
        for (int32_t i = 0; i < x->n; i++)
            for (int32_t w = 0; w < b->width; w++) {
                const int32_t lanes = min_i32(GDN_VL, b->n_columns - w * GDN_VL);
                char *to = target + i * line + size * (x->j0 + b->j + w * GDN_VL);
                save_vector(to, type, v_load(b->state + pass_place(x->n, i) * pitch + w * GDN_VL), lanes, stream);
            }
        return;
    }
    for (int32_t w = 0; w < b->width; w++)
        for (int32_t i = 0; i < x->n; i += GDN_VL) {
            const int32_t rows = min_i32(GDN_VL, b->n_columns - w * GDN_VL), keys = min_i32(GDN_VL, x->n - i);
            char *tile = target + (x->j0 + b->j + w * GDN_VL) * line + size * i;
            vf r[GDN_VL];
            for (int32_t m = 0; m < GDN_VL; m++)
                r[m] = m < keys ? v_load(b->state + pass_place(x->n, i + m) * pitch + w * GDN_VL) : v_zero();
            v_transpose(r);
            for (int32_t m = 0; m < rows; m++) save_vector(tile + m * line, type, r[m], keys, stream);
        }
}

static void columns_save(const head_view *x, char *target, const columns_block *b)
{
    if (x->type == GDN_F32) columns_save_typed(x, target, GDN_F32, b);
    else columns_save_typed(x, target, x->type, b);
}

/* 1: replays the log entries [from, to) on a block in scratch, with some keys of it in registers at a time. */
static void columns_replay(const head_view *x, const columns_block *b, int32_t from, int32_t to)
{
    enum { KEYS = GDN_VL == 8 ? 4 : 8 };
    const log_walk log = log_walk_part(x, from, to);
    const int64_t pitch = (int64_t)b->width * GDN_VL;
    for (int32_t i0 = 0; i0 < x->n; i0 += KEYS)
        for (int32_t w = 0; w < b->width; w++) {
            const int32_t lanes = min_i32(GDN_VL, b->n_columns - w * GDN_VL);
            const float *entry = log.first;
            int32_t i[KEYS]; /* clamped: the last key fills the rest */
            vf s[KEYS];
            for (int m = 0; m < KEYS; m++) {
                i[m] = min_i32(i0 + m, x->n - 1);
                s[m] = v_load(b->state + pass_place(x->n, i[m]) * pitch + w * GDN_VL);
            }
            for (int32_t column = 0; column < log.count; column++, entry = log_next(&log, entry)) {
                const vf d = v_load_some(entry + log.d + b->j + w * GDN_VL, lanes);
                for (int m = 0; m < KEYS; m++) {
                    const vf k = v_set1(entry[log.k + i[m]]), a = v_set1(entry[log.a + (x->channel ? i[m] : 0)]);
                    s[m] = v_fma(k, d, v_mul(a, s[m]));
                }
                if (!rounds_at(x, log.length + column + 1)) continue;
                for (int m = 0; m < KEYS; m++) s[m] = v_round_typed(s[m], x->type);
            }
            for (int m = 0; m < KEYS; m++) v_store(b->state + pass_place(x->n, i[m]) * pitch + w * GDN_VL, s[m]);
        }
}

/* 1: load state, replay the log, commit. */
static void columns_begin(const head_view *x, const columns_block *b)
{
    if (x->source) columns_load(x, x->source, b);
    else memset(b->state, 0, 4 * (size_t)round_up(x->n, 32) * (size_t)(b->width * GDN_VL));
    if (x->n_commit) columns_replay(x, b, 0, x->n_commit);
    if (x->commit) columns_save(x, x->commit, b);
    if (x->n_commit < x->n_replay) columns_replay(x, b, x->n_commit, x->n_replay);
}

/* 7: stores the snapshot and the checkpoint after token t. */
static void columns_keep(const head_view *x, int32_t t, const columns_block *b)
{
    char *const to[] = { snapshot_of(x, t), checkpoint_of(x, t) };
    for (int i = 0; i < 2; i++)
        if (to[i]) columns_save(x, to[i], b);
}

/* Runs a chunk of tokens for one block of value channels. The loop over tokens is compiled together with the pass, so
 * that d and its sums stay in registers; a token depends on the previous one only through them. With 16-bit states the
 * pass is a function call, because it rounds only after some tokens. */
GDN_INLINE void columns_tokens(const head_view *x, const chunk *c, const columns_block *b, delta_form form, bool narrow)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t block = form.width * GDN_VL, j = b->j, group = c->group;
    const int32_t n_next = c->more ? c->n_tokens : c->n_tokens - 1; /* tokens that have a next token       */
    const int32_t snapshots = x->n_tokens - p->n_snapshots - c->first;
    const int32_t checkpoints = next_checkpoint(x, c->first, c->n_tokens) - c->first;
    const int32_t kept = min_i32(snapshots, checkpoints); /* the first token whose state is kept */
    const vf scale = v_set1(p->scale);
    const int64_t out_step = p->result.stride_token;
    char *out = NULL;
    if (c->n_tokens) /* without tokens it may be absent */
        out = gdn_token_at(&p->result, x->q.s, x->q.first, c->first, x->h) +
              (p->result.dtype == GDN_F32 ? 4 : 2) * (int64_t)(x->j0 + j);
    delta_pass pass = { .from = b->state, .to = b->state, .n = x->n, .q = c->q, .k = c->k, .a = c->a, .read = c->ak };
    dots sum;
    ahead_rows ahead[AHEAD_ROWS];
    const int32_t n_ahead = chunk_ahead(c, x, j / block, x->n_columns / block, ahead);
    /* 1: load state, replay the log, commit, and 3: read kv. For later chunks, the previous chunk has read it */
    if (c->first == 0) {
        columns_begin(x, b);
        if (!c->n_tokens) return;
        sum = columns_read(&pass, form.width);
    } else {
        for (int32_t w = 0; w < form.width; w++) sum.k[w] = v_load(c->kv + j + w * GDN_VL);
    }
    for (int32_t t = 0; t < c->n_tokens; t++, out += out_step) {
        for (int32_t w = 0; w < form.width; w++) {
            const vf v = v_load(c->v + t * group + j + w * GDN_VL);
            pass.d[w] = v_mul(v_set1(c->beta[t]), v_sub(v, v_mul(v_set1(c->decay[t]), sum.k[w]))); /* 4: delta d */
        }
        if (x->q.row >= 0)
            for (int32_t w = 0; w < form.width; w++)
                v_store_some(log_deltas(x, c->first + t) + j + w * GDN_VL, pass.d[w],
                             min_i32(GDN_VL, b->n_columns - w * GDN_VL));
        pass.decay = c->decay[t];
        pass.read += x->pitch;
        pass.ahead = n_ahead > 0 && t < ahead[0].count ? ahead[0].at + t * ahead[0].step : (const char *)pass.q;
        if (t < n_next && narrow)
            sum = columns_next_typed(&pass, rounds_at(x, x->q.position + c->first + t + 1) ? x->type : GDN_F32,
                                     form.width, x->channel);
        else if (t < n_next) sum = columns_pass(&pass, form);
        else sum = columns_last(&pass, form.width, x->channel);
        pass.q += x->pitch;
        pass.k += x->pitch;
        pass.a += x->pitch;
        for (int32_t i = 0; i < n_ahead; i++)
            if (t < ahead[i].count)
                prefetch_bytes(ahead[i].at + t * ahead[i].step, i == 0 && !narrow ? 64 * FOLD : 0, ahead[i].bytes);
        for (int32_t w = 0; w < form.width; w++) /* 6: the output */
            v_store_typed(out, p->result.dtype, w * GDN_VL, v_mul(scale, sum.q[w]),
                          min_i32(GDN_VL, b->n_columns - w * GDN_VL));
        if (t >= kept) columns_keep(x, c->first + t, b); /* 7 */
    }
    for (int32_t w = 0; c->more && w < form.width; w++) v_store(c->kv + j + w * GDN_VL, sum.k[w]);
}

/* One compiled version for each delta_form. Its constants are width, n and channel. */
static void columns_block_general(const head_view *x, const chunk *tokens, const columns_block *b)
{
#define COLUMNS_VERSION(w, keys, c)                                                                                    \
    columns_tokens(                                                                                                    \
        x, tokens, b,                                                                                                  \
        (delta_form){                                                                                                  \
            .width = w, .n = keys, .packed = true, .channel = c, .update = true, .next = true, .ahead = true },        \
        false)
#define COLUMNS_VERSIONS(w, keys)                                                                                      \
    do {                                                                                                               \
        if (x->channel) COLUMNS_VERSION(w, keys, true);                                                                \
        else COLUMNS_VERSION(w, keys, false);                                                                          \
    } while (0)
    if (x->type != GDN_F32 && b->width < COLUMN_VECTORS) columns_tokens(x, tokens, b, (delta_form){ .width = 1 }, true);
    else if (x->type != GDN_F32) columns_tokens(x, tokens, b, (delta_form){ .width = COLUMN_VECTORS }, true);
    else if (b->width < COLUMN_VECTORS) COLUMNS_VERSIONS(1, 0);
    else if (x->n == 64) COLUMNS_VERSIONS(COLUMN_VECTORS, 64);
    else if (x->n == 128) COLUMNS_VERSIONS(COLUMN_VECTORS, 128);
    else if (x->n == 256) COLUMNS_VERSIONS(COLUMN_VECTORS, 256);
    else COLUMNS_VERSIONS(COLUMN_VECTORS, 0);
#undef COLUMNS_VERSIONS
#undef COLUMNS_VERSION
}

/* Runs a chunk of tokens for all value channels of the item. */
GDN_INLINE void columns(const head_view *x, const chunk *c, float *state)
{
    for (int32_t j = 0; j < x->n_columns;) {
        const int32_t width = x->n_columns - j >= COLUMN_VECTORS * GDN_VL ? COLUMN_VECTORS : 1;
        const int32_t n_columns = min_i32(width * GDN_VL, x->n_columns - j);
        columns_block_general(x, c, &(columns_block){ j, n_columns, width, state + (int64_t)j * round_up(x->n, 32) });
        j += n_columns;
    }
}

#endif
