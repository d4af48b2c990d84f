/* gated_delta_net for a tree of tokens: the order "columns", where a token's parent need not be the token before it.
 *
 * Scratch holds a block of value channels twice: the state at the sequence's position, after the replayed log entries,
 * and the current state. A token that follows the token before it continues with the current state. Any other token
 * computes it from the first, by replaying its ancestors with some keys in registers at a time. The ancestors' keys and
 * decays have been converted for this item, and their deltas are in the log, where this item has written them.
 *
 * Scratch keeps keys and decays of the first TREE_KEPT tokens of a sequence, and those of a chunk. Others are converted
 * again for each replay. So scratch does not grow with the length of a call. */
#ifndef GDN_CPU_GATED_DELTA_NET_TREE_INC_H
#define GDN_CPU_GATED_DELTA_NET_TREE_INC_H

#include "cpu/gated_delta_net_columns.inc.h"

enum {
    TREE_KEPT = 256, /* a multiple of CHUNK_TOKENS */
    TREE_PATH = 16   /* ancestors that are replayed in one pass */
};

/* Keys and decays of tokens in scratch. */
typedef struct tree_rows {
    float *k, *a; /* [row][pitch], [row][a_pitch]                                    */
    int32_t a_pitch;
    int32_t n_kept; /* rows of the first tokens; after them a chunk's, then TREE_PATH  */
} tree_rows;

static int32_t tree_kept(const gdn_gated_delta_net_call *p)
{
    return min_i32(round_up(min_i32(p->n_tokens, TREE_KEPT), CHUNK_TOKENS), TREE_KEPT);
}

static int32_t tree_decays(const gdn_gated_delta_net_call *p, int32_t pitch)
{
    return p->gate == GDN_GATE_CHANNEL ? pitch : 1;
}

/* Floats of scratch: q and ak of a chunk, v, the rows, and the two states. */
static int64_t tree_scratch(const gdn_gated_delta_net_call *p, int32_t group)
{
    const int32_t pitch = pitch_of(p), rows = tree_kept(p) + CHUNK_TOKENS + TREE_PATH;
    return 2 * CHUNK_TOKENS * (int64_t)pitch + CHUNK_TOKENS * (int64_t)group +
           rows * (int64_t)(pitch + tree_decays(p, pitch)) + 16 + 2 * (int64_t)round_up(p->head_dim_k, 32) * group;
}

/* 0 and 2: converts a token's key into a row, and with GATE_CHANNEL computes its decays. */
static void tree_row(const head_view *x, const tree_rows *rows, int32_t t, int32_t row)
{
    const gdn_gated_delta_net_call *p = x->p;
    float *const a = rows->a + (int64_t)row * rows->a_pitch;
    prepare_key(x, &p->k, t, rows->k + (int64_t)row * x->pitch);
    const char *g = gdn_token_at(&p->g, x->q.s, x->q.first, t, x->h);
    for (int32_t i = 0; x->channel && i < x->n; i += GDN_VL) {
        vf decay;
        channel_decays(x, g, i, &decay, 1);
        v_store(a + i, decay);
    }
}

/* The same, including the decay per head, which otherwise is in a chunk. */
static void tree_row_again(const head_view *x, const tree_rows *rows, int32_t t, int32_t row)
{
    float beta;
    tree_row(x, rows, t, row);
    if (!x->channel) compute_factors(x, t, 1, false, rows->a + (int64_t)row * rows->a_pitch, &beta);
}

/* The row of token t of the chunk that begins with token `first`. */
static int32_t tree_row_of(const tree_rows *rows, int32_t first, int32_t t)
{
    return first < rows->n_kept ? t : rows->n_kept + t - first;
}

/* 0 and 2: converts a chunk. ak has room for the rows with which the state is read. */
static void tree_fill(const head_view *x, const tree_rows *rows, chunk *c, int32_t first, float *ak)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t row = tree_row_of(rows, first, first);
    c->first = first;
    c->n_tokens = min_i32(x->n_tokens - first, CHUNK_TOKENS);
    c->more = false;
    c->k = rows->k + (int64_t)row * x->pitch;
    c->a = rows->a + (int64_t)row * rows->a_pitch;
    c->ak = x->channel || x->reads ? ak : c->k;
    for (int32_t t = 0; t < c->n_tokens; t++) {
        const int64_t at = (int64_t)t * x->pitch;
        prepare_key(x, &p->q, first + t, c->q + at);
        tree_row(x, rows, first + t, row + t);
        if (x->reads)
            load_as_f32(ak + at, gdn_token_at(&p->read_key, x->q.s, x->q.first, first + t, x->key_head),
                        p->read_key.dtype, 0, x->n);
        for (int32_t i = 0; x->channel && i < x->n; i += GDN_VL)
            v_store(ak + at + i, v_mul(v_load(c->a + at + i), v_load(read_key_of(c, x) + at + i)));
        load_as_f32(c->v + (int64_t)t * c->group, gdn_token_at(&p->v, x->q.s, x->q.first, first + t, x->h), p->v.dtype,
                    x->j0, x->n_columns);
    }
    compute_factors(x, first, c->n_tokens, false, c->decay, c->beta);
    if (!x->channel) memcpy(c->a, c->decay, 4 * (size_t)c->n_tokens);
}

/* Tokens to replay. */
typedef struct tree_path {
    int32_t n, length; /* length: of the sequence before the first of them */
    const float *k[TREE_PATH], *a[TREE_PATH], *d[TREE_PATH];
} tree_path;

/* Replays the path on the block in `from`, and stores the result as the block's state. */
static void tree_replay(const head_view *x, const columns_block *b, const float *from, const tree_path *path)
{
    enum { KEYS = GDN_VL == 8 ? 4 : 8 };
    const int64_t pitch = (int64_t)b->width * GDN_VL;
    for (int32_t i0 = 0; i0 < x->n; i0 += KEYS)
        for (int32_t w = 0; w < b->width; w++) {
            const int32_t lanes = min_i32(GDN_VL, b->n_columns - w * GDN_VL);
            int32_t i[KEYS]; /* clamped: the last key fills the rest */
            vf s[KEYS];
            for (int m = 0; m < KEYS; m++) {
                i[m] = min_i32(i0 + m, x->n - 1);
                s[m] = v_load(from + pass_place(x->n, i[m]) * pitch + w * GDN_VL);
            }
            for (int32_t at = 0; at < path->n; at++) {
                const float *const key = path->k[at], *const decay = path->a[at];
                const vf d = v_load_some(path->d[at] + b->j + w * GDN_VL, lanes);
                for (int m = 0; m < KEYS; m++)
                    s[m] = v_fma(v_set1(key[i[m]]), d, v_mul(v_set1(decay[x->channel ? i[m] : 0]), s[m]));
                if (!rounds_at(x, path->length + at + 1)) continue;
                for (int m = 0; m < KEYS; m++) s[m] = v_round_typed(s[m], x->type);
            }
            for (int m = 0; m < KEYS; m++) v_store(b->state + pass_place(x->n, i[m]) * pitch + w * GDN_VL, s[m]);
        }
}

/* 1: computes the state after token `parent`, which may be GDN_NONE. base: the state at the sequence's position. */
static void tree_follow(const head_view *x, const tree_rows *rows, const chunk *c, const columns_block *b,
                        const float *base, int32_t parent)
{
    const gdn_gated_delta_net_call *p = x->p;
    int32_t left = gdn_depth_of(p, x->q.first, parent), length = x->q.position;
    if (!left) memcpy(b->state, base, 4 * (size_t)round_up(x->n, 32) * (size_t)(b->width * GDN_VL));
    while (left > 0) {
        tree_path path = { .n = min_i32(left, TREE_PATH), .length = length };
        left -= path.n;
        length += path.n;
        int32_t t = gdn_ancestor_of(p, x->q.first, parent, left);
        for (int32_t at = path.n - 1; at >= 0; at--, t = gdn_parent_of(p, x->q.first, t)) {
            int32_t row = t;
            if (t >= rows->n_kept && t >= c->first) row = tree_row_of(rows, c->first, t);
            else if (t >= rows->n_kept) tree_row_again(x, rows, t, row = rows->n_kept + CHUNK_TOKENS + at);
            path.k[at] = rows->k + (int64_t)row * x->pitch;
            path.a[at] = rows->a + (int64_t)row * rows->a_pitch;
            path.d[at] = log_deltas(x, t);
        }
        tree_replay(x, b, base, &path);
        base = b->state;
    }
}

/* Runs a chunk of tokens for one block of value channels. */
GDN_INLINE void tree_tokens(const head_view *x, const tree_rows *rows, const chunk *c, const columns_block *b,
                            float *base)
{
    const gdn_gated_delta_net_call *p = x->p;
    const vf scale = v_set1(p->scale);
    dots sum;
    bool have = false;   /* sum.k is the dot of the state and the token's key */
    if (c->first == 0) { /* 1: load state, replay the log, commit */
        columns_block at_position = *b;
        at_position.state = base;
        columns_begin(x, &at_position);
    }
    for (int32_t t = 0; t < c->n_tokens; t++) {
        const int32_t token = c->first + t, parent = gdn_parent_of(p, x->q.first, token);
        const int64_t row = (int64_t)t * x->pitch;
        delta_pass pass = { .from = b->state,
                            .to = b->state,
                            .n = x->n,
                            .q = c->q + row,
                            .k = c->k + row,
                            .a = c->a + row,
                            .read = c->ak + row,
                            .decay = c->decay[t] };
        if (!token || parent != token - 1) tree_follow(x, rows, c, b, base, parent);
        if (!have) sum = columns_read(&pass, b->width); /* 3: read kv */
        for (int32_t w = 0; w < b->width; w++) {
            const vf v = v_load(c->v + t * c->group + b->j + w * GDN_VL);
            pass.d[w] = v_mul(v_set1(c->beta[t]), v_sub(v, v_mul(v_set1(c->decay[t]), sum.k[w]))); /* 4: delta d */
            v_store_some(log_deltas(x, token) + b->j + w * GDN_VL, pass.d[w],
                         min_i32(GDN_VL, b->n_columns - w * GDN_VL));
        }
        have = t + 1 < c->n_tokens && gdn_parent_of(p, x->q.first, token + 1) == token;
        if (have) pass.read += x->pitch; /* 5: the update, with 6: the sums of the output and 3 */
        const bool rounds = x->type != GDN_F32 && rounds_at(x, gdn_length_at(p, &x->q, token));
        if (have || rounds) sum = columns_next_typed(&pass, rounds ? x->type : GDN_F32, b->width, x->channel);
        else sum = columns_last(&pass, b->width, x->channel);
        char *const out = gdn_token_at(&p->result, x->q.s, x->q.first, token, x->h);
        for (int32_t w = 0; w < b->width; w++)
            v_store_typed(out, p->result.dtype, x->j0 + b->j + w * GDN_VL, v_mul(scale, sum.q[w]),
                          min_i32(GDN_VL, b->n_columns - w * GDN_VL));
    }
}

/* Runs all tokens of a sequence, which has at least one. */
static void tree(const head_view *x, int32_t group, float *scratch)
{
    const int32_t n_keys = round_up(x->n, 32);
    chunk c = { .group = group };
    tree_rows rows = { .a_pitch = tree_decays(x->p, x->pitch), .n_kept = tree_kept(x->p) };
    const int64_t n_rows = rows.n_kept + CHUNK_TOKENS + TREE_PATH;
    c.q = scratch;
    float *const ak = c.q + CHUNK_TOKENS * (int64_t)x->pitch;
    c.v = ak + CHUNK_TOKENS * (int64_t)x->pitch;
    rows.k = c.v + CHUNK_TOKENS * (int64_t)group;
    float *const base = rows.k + n_rows * x->pitch, *const state = base + (int64_t)n_keys * group;
    rows.a = state + (int64_t)n_keys * group;
    for (int32_t first = 0; first < x->n_tokens; first += CHUNK_TOKENS) {
        tree_fill(x, &rows, &c, first, ak);
        chunk_log(&c, x);
        for (int32_t j = 0; j < x->n_columns;) {
            const int32_t width = x->n_columns - j >= COLUMN_VECTORS * GDN_VL ? COLUMN_VECTORS : 1;
            const int32_t n_columns = min_i32(width * GDN_VL, x->n_columns - j);
            const columns_block b = { j, n_columns, width, state + (int64_t)j * n_keys };
            tree_tokens(x, &rows, &c, &b, base + (int64_t)j * n_keys);
            j += n_columns;
        }
    }
}

#endif
