/* gated_delta_net on the CPU in the chunked form, with a gate per head. A gate per key channel runs the reference.
 *
 * Names are those of docs/reference/numerics-chunked.md. An item is a sequence and the value heads of a key head, or
 * some of their channels where threads are more than these: x->j0 to end_of(x).
 * Vector lanes are value channels, in groups of 16. The digits of a group's state, 64 bytes for 4 keys and a digit, are
 * multiplied by those of r_t and q_t, which are broadcast. The matrix of a chunk's keys has the same layout, with
 * tokens as lanes. Calls of a few tokens read the digits of a state where they lie.
 *
 * Where the processor has tiles (simd/tiles.h), they make the products of 8 tokens or more: 16 tokens, or 16 keys, with
 * the 16 lanes of a group, which are one vector. */
#ifndef GDN_CPU_CHUNKED_INC_H
#define GDN_CPU_CHUNKED_INC_H

#include "core/plan.h"
#include "cpu/chunked_keys.inc.h"
#include "reference/reference.h"

enum { SPAN = 4 };    /* vectors of channels of one token at a time */
enum { NARROW = 32 }; /* channels that an item has at least, since it prepares the keys for itself */
enum { HEADS = 4 };   /* value heads that share what a chunk has of its key head */

/* The state of a value head, in groups of channels. */
typedef struct state32 {
    const int8_t *digits; /* [group][n / 4][digit][16][4]: where they lie, or `own`                */
    const float *factor;  /* of channels                                                           */
    int64_t ahead;        /* from these digits to those of the head that is next, in bytes; or 0   */
    int8_t *own;          /* a head of digits with factors                                         */
    float *x;             /* F32 states: [group][key][16]                                          */
    bool changed;         /* is no longer what the source holds                                    */
} state32;

GDN_INLINE int32_t end_of(const head_view *x) { return x->j0 + x->n_columns; }

/* ---- A value head ---- */

/* The decays of sums of steps: 2^16 high + low, low of 16 bits. */
GDN_INLINE vf decays_of(vi high, vi low)
{
    const vi least = vi_set1(GDN_LEAST_STEPS / 65536);
    low = vi_sel(vi_lt(high, least), vi_set1(0), low);
    const vf rest = v_mul(v_from_int(low), v_set1(0x1p-30f));
    return v_exp(v_fma(v_from_int(vi_larger(high, least)), v_set1(0x1p-14f), rest));
}

/* The decays between tokens s.. and token t. */
GDN_INLINE vf decays_to(const chunk32 *c, int32_t t, int32_t s)
{
    const vi low = vi_sub(vi_set1(c->G_low[t]), vi_load(c->G_low + s));
    const vi high = vi_sub(vi_set1(c->G_high[t]), vi_load(c->G_high + s));
    return decays_of(vi_add(high, vi_sar(low, 16)), vi_and(low, vi_set1(65535)));
}

/* Gates, beta, A and P of a chunk. */
GDN_INLINE void prepare_gates(const head_view *x, chunk32 *c)
{
    const gdn_gated_delta_net_call *p = x->p;
    int32_t n_sound = 0; /* tokens before the first spoiled gate */
    int64_t G = 0;
    for (int32_t t = 0; t < c->n_logged; t++) memcpy(&c->g[t], c->entry[t] + 4 * gdn_log_decay(p, x->h), 4);
    if (c->n > c->n_logged)
        compute_factors(x, c->from + c->n_logged - x->q.position, c->n - c->n_logged, true, c->g + c->n_logged,
                        c->beta + c->n_logged);
    for (int32_t t = 0; t < c->n; t++) {
        G += gdn_gate_step(c->g[t]);
        c->G_high[t] = (int32_t)(G >> 16);
        c->G_low[t] = (int32_t)(G & 65535);
        if (n_sound == t && !gdn_gate_spoiled(c->g[t])) n_sound++;
    }
    for (int32_t t = min_i32(c->n_logged, c->n - 1) / GDN_VL * GDN_VL; t < c->n; t += GDN_VL)
        v_store(c->gam + t, decays_of(vi_load(c->G_high + t), vi_load(c->G_low + t)));
    for (int32_t t = n_sound; t < c->n; t++) c->gam[t] = NAN;
    for (int32_t t = c->n_logged; t < c->n; t++)
        for (int32_t s = 0; s <= t; s += GDN_VL) {
            const vf a = decays_to(c, t, s);
            v_store(c->A[t] + s, v_mul(v_mul(v_load(c->RK + t * TOKENS + s), v_set1(c->beta[t])), a));
            v_store(c->P[t] + s, v_mul(v_load(c->QK + t * TOKENS + s), a));
        }
    for (int32_t s = 0; c->n == TOKENS && s < TOKENS; s += GDN_VL)
        v_store(c->decay_to_end + s, decays_to(c, TOKENS - 1, s));
}

/* The digits of a state from channel j on. */
GDN_INLINE int64_t digits_at(int32_t n, const int digits, int32_t j)
{
    return ((int64_t)(j / GROUP) * (n / 4) * digits * GROUP + j % GROUP) * 4;
}

/* What token t has of the state: its delta and output without those of the chunk's tokens. */
GDN_INLINE void of_state(const head_view *x, const chunk32 *c, const state32 *S, int32_t t, int32_t j, vf dot_r,
                         vf dot_q, vf *delta, vf *out)
{
    const gdn_gated_delta_net_call *p = x->p;
    const char *const token = gdn_token_at(&p->v, x->q.s, x->q.first, c->from + t - x->q.position, x->h);
    const vf v = v_load_typed(token, p->v.dtype, j, GDN_VL), gam = v_set1(c->gam[t]), factor = v_load(S->factor + j);
    const vf row_r = v_mul(gam, v_set1(c->RQ.factor[2 * t])), row_q = v_mul(gam, v_set1(c->RQ.factor[2 * t + 1]));
    *delta = v_mul(v_set1(c->beta[t]), v_fnma(row_r, v_mul(dot_r, factor), v));
    *out = v_mul(row_q, v_mul(dot_q, factor));
}

GDN_INLINE void store_token(const head_view *x, const chunk32 *c, int32_t t, int32_t j, vf delta, vf out)
{
    const gdn_gated_delta_net_call *p = x->p;
    v_store(c->d + t * p->head_dim_v + j, delta);
    v_store_typed(gdn_token_at(&p->result, x->q.s, x->q.first, c->from + t - x->q.position, x->h), p->result.dtype, j,
                  v_mul(v_set1(p->scale), out), GDN_VL);
}

/* `tokens` tokens from t on, of GDN_VL channels from j on: their deltas and outputs. dots: of tiles. */
GDN_INLINE void tokens_of(const head_view *x, const chunk32 *c, const state32 *S, const int tokens, const int digits,
                          int32_t t, int32_t j, float (*dots)[TOKENS][GROUP])
{
    vf dot[2 * TILE_TOKENS], delta[TILE_TOKENS], out[TILE_TOKENS];
    if (!by_tiles(c)) token_dots(c, tokens, digits, x->n, t, S->digits + digits_at(x->n, digits, j), 0, dot);
    for (int i = 0; by_tiles(c) && i < 2 * tokens; i++) dot[i] = v_load(dots[i % 2][t + i / 2]);
    for (int i = 0; i < tokens; i++) of_state(x, c, S, t + i, j, dot[2 * i], dot[2 * i + 1], delta + i, out + i);
    for (int32_t s = 0; s < t; s++) {
        const vf d = v_load(c->delta[s] + j);
        for (int i = 0; i < tokens; i++) {
            delta[i] = v_fnma(v_set1(c->A[t + i][s]), d, delta[i]);
            out[i] = v_fma(v_set1(c->P[t + i][s]), d, out[i]);
        }
    }
    for (int i = 0; i < tokens; i++) {
        for (int s = 0; s < i; s++) delta[i] = v_fnma(v_set1(c->A[t + i][t + s]), delta[s], delta[i]);
        for (int s = 0; s <= i; s++) out[i] = v_fma(v_set1(c->P[t + i][t + s]), delta[s], out[i]);
        store_token(x, c, t + i, j, delta[i], out[i]);
    }
}

/* Token t, of several vectors of channels from j on. `next`: from a delta of the log to one that is read next. */
GDN_INLINE void token_of(const head_view *x, const chunk32 *c, const state32 *S, const int vectors, const int digits,
                         int32_t t, int32_t j, int64_t next)
{
    vf delta[SPAN], out[SPAN];
    for (int i = 0; i < vectors; i++) {
        const int32_t at = j + i * GDN_VL;
        vf dot[2];
        token_dots(c, 1, digits, x->n, t, S->digits + digits_at(x->n, digits, at), S->ahead, dot);
        of_state(x, c, S, t, at, dot[0], dot[1], delta + i, out + i);
    }
    for (int32_t s = 0; s < t; s++) {
        const vf a = v_set1(c->A[t][s]), b = v_set1(c->P[t][s]);
        for (int i = 0; i < vectors; i++) {
            const float *const at = c->delta[s] + j + i * GDN_VL;
            const vf d = v_load(at);
            v_prefetch_l2(at + next);
            delta[i] = v_fnma(a, d, delta[i]);
            out[i] = v_fma(b, d, out[i]);
        }
    }
    for (int i = 0; i < vectors; i++)
        store_token(x, c, t, j + i * GDN_VL, delta[i], v_fma(v_set1(c->P[t][t]), delta[i], out[i]));
}

/* The state after the chunk, of GDN_VL channels from j on, of their deltas. */
GDN_INLINE void update_of(const head_view *x, const chunk32 *c, state32 *S, const int digits, int32_t j)
{
    const int32_t n = x->n, group = j / GROUP, in_group = j % GROUP;
    const int64_t at = digits_at(n, digits, j);
    int8_t E[QUADS * GDN_MOST_DIGITS * 64] __attribute__((aligned(64)));
    float d[TOKENS][GDN_VL] __attribute__((aligned(64))), next[MAX_KEYS][GDN_VL] __attribute__((aligned(64)));
    float *const floats = S->x ? S->x + (int64_t)group * n * GROUP + in_group : NULL;
    float *const factors = (float *)(void *)(S->own + gdn_state_factors(n, x->p->head_dim_v, digits));
    const vf gam = v_set1(c->gam[TOKENS - 1]),
             factor = floats ? v_zero() : element_factor(v_load(S->factor + j), digits);
    float dots[GROUP][GROUP] __attribute__((aligned(64)));
    tiles_begin(tile_depth(TOKENS));
    vi most = vi_set1(0);
    for (int32_t s = 0; s < TOKENS; s++) {
        const vf e = v_mul(v_load(c->delta[s] + j), v_set1(c->decay_to_end[s]));
        most = vi_larger(v_bits(v_abs(e)), most);
        v_store(d[s], e);
    }
    const vf E_factor = make_lanes(d[0], TOKENS, GDN_VL, most, digits, E);
    most = vi_set1(0);
    for (int32_t i = 0; i < n; i += TILE_ROWS) {
        vf dot[TILE_ROWS];
        if (!GDN_TILES)
            (digits == 2 ? dots_tile_2 : dots_tile_3)(E, 0, QUADS, c->KT.word + i, n,
                                                      (const int32_t(*)[GDN_MOST_DIGITS])c->KT.sum + i, dot);
        else if (i % GROUP == 0)
            tile_dots(digits, c->KT.bytes + (int64_t)i * digits * TOKENS, digits * TOKENS, TOKENS, E, TOKENS, dots);
#pragma GCC unroll 8
        for (int r = 0; r < TILE_ROWS; r++) {
            if (GDN_TILES) dot[r] = v_load(dots[i % GROUP + r]);
            const vf before =
                floats ? v_load(floats + (int64_t)(i + r) * GROUP)
                       : element_of(S->digits + at + (int64_t)((i + r) / 4) * digits * 64, r % 4, digits, factor);
            const vf after = v_fma(v_set1(c->KT.factor[i + r]), v_mul(dot[r], E_factor), v_mul(before, gam));
            most = vi_larger(v_bits(v_abs(after)), most);
            v_store(floats ? floats + (int64_t)(i + r) * GROUP : next[i + r], after);
        }
    }
    if (!floats) v_store(factors + j, make_lanes(next[0], n, GDN_VL, most, digits, S->own + at));
}

/* ---- States ---- */

/* Between an F32 state and [group][key][16]. */
static void move_floats(const head_view *x, char *head, int64_t stride_line, float *to, bool store)
{
    const int32_t n = x->n, kv = x->p->state_layout == GDN_STATE_KV;
    for (int32_t j = x->j0; j < end_of(x); j += GDN_VL)
        for (int32_t i0 = 0; i0 < n; i0 += GDN_VL) {
            float *const at = to + ((int64_t)(j / GROUP) * n + i0) * GROUP + j % GROUP;
            vf row[GDN_VL];
            for (int l = 0; l < GDN_VL; l++)
                row[l] = store ? v_load(at + (int64_t)l * GROUP)
                         : kv  ? v_load((const float *)(const void *)(head + (i0 + l) * stride_line) + j)
                               : v_load((const float *)(const void *)(head + (j + l) * stride_line) + i0);
            if (!kv) v_transpose(row);
            for (int l = 0; l < GDN_VL; l++)
                v_store(!store ? at + (int64_t)l * GROUP
                        : kv   ? (float *)(void *)(head + (i0 + l) * stride_line) + j
                               : (float *)(void *)(head + (j + l) * stride_line) + i0,
                        row[l]);
        }
}

/* How many heads further the one is that comes next. */
GDN_INLINE int64_t next_heads(const head_view *x)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t last = p->n_heads_v - 1;
    if (p->head_map != GDN_HEADS_TILED) return x->h < last;
    if (x->h + p->n_heads_k <= last) return p->n_heads_k;
    return x->h < last ? x->key_head + 1 - x->h : 0;
}

static void load_state32(const head_view *x, state32 *S)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t n = x->n, digits = p->digits;
    const int64_t floats = (int64_t)n * p->head_dim_v, factors = gdn_state_factors(n, p->head_dim_v, digits);
    char *const source = x->q.src < 0 ? NULL : gdn_state_at(&p->state, x->q.src, x->h);
    S->digits = S->own;
    S->factor = (const float *)(const void *)(S->own + factors);
    S->ahead = 0;
    S->changed = !source;
    if (S->x) {
        if (source) move_floats(x, source, p->state.stride_line, S->x, false);
        else memset(S->x, 0, 4 * (size_t)floats);
    } else if (source) {
        S->digits = (const int8_t *)source;
        S->factor = (const float *)(const void *)(source + factors);
        S->ahead = next_heads(x) * p->state.stride_head;
    } else {
        memset(S->own, 0, (size_t)factors);
        for (int32_t j = 0; j < p->head_dim_v; j += GDN_VL)
            v_store((float *)(void *)(S->own + factors) + j, v_set1(GDN_FACTOR_OF_ZEROS));
    }
}

/* Stores the state to an entry, if that does not hold it. */
static void store_state32(const head_view *x, int32_t target, state32 *S)
{
    const gdn_gated_delta_net_call *p = x->p;
    if (target < 0) return;
    char *const to = gdn_state_at(&p->state_out, target, x->h);
    const char *const source = x->q.src < 0 ? NULL : gdn_state_at(&p->state, x->q.src, x->h);
    if (to == source && !S->changed) return;
    if (S->x) {
        move_floats(x, to, p->state_out.stride_line, S->x, true);
        return;
    }
    const int64_t factors = gdn_state_factors(x->n, p->head_dim_v, p->digits) + 4 * (int64_t)x->j0;
    const int64_t from = digits_at(x->n, p->digits, x->j0), bytes = digits_at(x->n, p->digits, x->n_columns);
    memcpy(to + from, S->digits + from, (size_t)bytes);
    memcpy(to + factors, S->factor + x->j0, 4 * (size_t)x->n_columns);
}

/* ---- The item ---- */

/* The digits of GDN_VL channels of an F32 state from j on. Returns their factors. */
GDN_INLINE vf float_lanes(const state32 *S, int32_t n, int32_t j, const int digits, int8_t *to)
{
    const float *const x = S->x + (int64_t)(j / GROUP) * n * GROUP + j % GROUP;
    vi most = vi_set1(0);
    for (int32_t i = 0; i < n; i++) most = vi_larger(v_bits(v_abs(v_load(x + (int64_t)i * GROUP))), most);
    return make_lanes(x, n, GROUP, most, digits, to);
}

/* Fetches what the next chunk reads for the channels from j on: their values, and a part of the keys and queries. */
GDN_INLINE void fetch_next(const head_view *x, const chunk32 *c, int32_t j, bool keys)
{
    const gdn_gated_delta_net_call *p = x->p;
    const gdn_token_view *const view[] = { &p->v, &p->k, &p->q };
    const int32_t t = c->from + TOKENS - x->q.position, tokens = min_i32(x->q.T - t, TOKENS);
    for (int i = 0; i < (keys ? 3 : 1) && tokens > 0; i++) {
        const char *at = gdn_token_at(view[i], x->q.s, x->q.first, t, i ? x->key_head : x->h);
        at += j * (view[i]->dtype == GDN_F32 ? 4 : 2);
        for (int32_t u = 0; u < tokens; u++) v_prefetch_l2(at + u * view[i]->stride_token);
    }
}

GDN_INLINE void chunk_of(const head_view *x, chunk32 *c, state32 *S, const int digits, bool update, bool first)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t n = x->n, n_v = p->head_dim_v, j0 = x->j0, end = end_of(x);
    const int32_t logged = c->n_logged, base = gdn_chunked_base(p, x->q);
    const int32_t tiles = by_tiles(c) ? c->n : logged + (c->n - logged) / TILE_TOKENS * TILE_TOKENS;
    const int64_t next = next_heads(x) * n_v;
    if (c->n == logged && !update) return;
    if (j0 < 0 || j0 % GROUP) __builtin_unreachable(); /* knowing it makes prompts 3% faster */
    prepare_gates(x, c);
    for (int32_t t = 0; t < c->n; t++)
        c->delta[t] =
            t < logged ? (const float *)(const void *)(c->entry[t] + 4 * gdn_log_delta(p, x->h)) : c->d + t * n_v;
    for (int32_t j = j0; j < end; j += GDN_VL) {
        float dots[2][TOKENS][GROUP] __attribute__((aligned(64)));
        int32_t t = logged;
        if (S->x && c->n > logged)
            v_store((float *)(void *)(S->own + gdn_state_factors(n, n_v, digits)) + j,
                    float_lanes(S, n, j, digits, S->own + digits_at(n, digits, j)));
        if (c->from + TOKENS < x->q.position + x->q.T && j % GROUP == 0) fetch_next(x, c, j, first);
        if (by_tiles(c)) {
            tiles_begin(tile_depth(n));
            group_dots(c, digits, n, S->digits + digits_at(n, digits, j), dots);
        }
        for (; t + TILE_TOKENS <= tiles; t += TILE_TOKENS) tokens_of(x, c, S, TILE_TOKENS, digits, t, j, dots);
        for (; t < tiles; t++) tokens_of(x, c, S, 1, digits, t, j, dots);
        if (update && tiles == c->n) update_of(x, c, S, digits, j);
    }
    for (int32_t t = tiles; t < c->n; t++) {
        int32_t j = j0;
        for (; j + SPAN * GDN_VL <= end; j += SPAN * GDN_VL) token_of(x, c, S, SPAN, digits, t, j, next);
        for (; j < end; j += GDN_VL) token_of(x, c, S, 1, digits, t, j, next);
    }
    for (int32_t j = j0; update && tiles < c->n && j < end; j += GDN_VL) update_of(x, c, S, digits, j);
    for (int32_t t = logged; x->q.row >= 0 && t < c->n; t++) {
        if (c->from + t < base) continue;
        memcpy(c->entry[t] + 4 * (gdn_log_delta(p, x->h) + j0), c->delta[t] + j0, 4 * (size_t)x->n_columns);
        if (!j0) memcpy(c->entry[t] + 4 * gdn_log_decay(p, x->h), &c->g[t], 4);
    }
    if (!update) return;
    S->digits = S->own;
    S->factor = (const float *)(const void *)(S->own + gdn_state_factors(n, n_v, digits));
    S->ahead = 0;
    S->changed = true;
}

/* The value heads h[0 .. heads) of a key head. */
GDN_INLINE void chunked_heads(head_view *x, chunk32 *c, state32 *S, const int32_t *h, int32_t heads, const int digits)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t end = x->q.position + x->q.T, target = gdn_chunked_target(p, x->q);
    for (int32_t i = 0; i < heads; i++) {
        x->h = h[i];
        load_state32(x, S + i);
    }
    for (int32_t from = x->q.base_position;; from += TOKENS) {
        for (int32_t i = 0; i < heads; i++) {
            x->h = h[i];
            if (from == x->q.kept) store_state32(x, x->q.commit, S + i);
            if (from > x->q.position) store_state32(x, gdn_checkpoint_of(p, x->q.s, from - x->q.position - 1), S + i);
            if (from == end - end % TOKENS) store_state32(x, target, S + i);
        }
        if (from == end) break;
        const int32_t n = min_i32(end - from, TOKENS), logged = from < x->q.position ? x->q.position - from : 0;
        /* The next state is for later tokens, or goes to memory. */
        const int32_t next = from + TOKENS;
        const bool update = n == TOKENS && (next < end || target >= 0 || (next == x->q.kept && x->q.commit >= 0) ||
                                            gdn_checkpoint_of(p, x->q.s, next - x->q.position - 1) >= 0);
        if (c->from != from) {
            c->from = from;
            c->n = n;
            c->n_logged = min_i32(logged, n);
            c->complete = false;
            for (int32_t t = 0; x->q.row >= 0 && t < n; t++) c->entry[t] = gdn_log_at(p, x->q.row, from + t);
            if (c->n > c->n_logged || update) prepare_keys(x, c, digits);
        }
        if (update && !c->complete) prepare_updates(x, c, digits);
        for (int32_t i = 0; i < heads; i++) {
            x->h = h[i];
            set_raw_gate(x);
            chunk_of(x, c, S + i, digits, update, i == 0);
        }
        if (n < TOKENS) break;
    }
}

/* The thread's scratch, and how much of it is taken. Without one its bytes are only counted. */
typedef struct arena {
    char *scratch;
    int64_t used;
} arena;

static void *take(arena *m, int64_t bytes)
{
    char *const at = m->scratch ? m->scratch + m->used : NULL;
    m->used += (bytes + 63) / 64 * 64;
    return at;
}

static void take_rows(arena *m, rows_of *rows, int64_t n_rows, int32_t n, int32_t digits)
{
    rows->word = take(m, 4 * n_rows * digits_row_words(n, digits));
    rows->bytes = GDN_TILES ? take(m, n_rows * digits * n) : NULL;
    rows->factor = take(m, 4 * n_rows);
    rows->sum = take(m, (int64_t)sizeof *rows->sum * n_rows);
}

/* The arrays of a call; returns their bytes. */
static int64_t chunked_scratch(const gdn_gated_delta_net_call *p, char *scratch, chunk32 *c, state32 *S)
{
    const int64_t n = p->head_dim_k, rows = 4 * TOKENS * n;
    const int32_t heads = min_i32(p->heads_per_key, HEADS);
    arena m = { scratch, 0 };
    c->from = -1;
    c->k = take(&m, rows);
    c->q = take(&m, rows);
    c->r = (p->has & GDN_HAS_READ_KEY) ? take(&m, rows) : c->k;
    c->bytes = take(&m, n * p->digits * GDN_VL);
    c->K = take(&m, n * p->digits * TOKENS);
    c->d = take(&m, 4 * TOKENS * (int64_t)p->head_dim_v);
    c->RK = take(&m, 4 * TOKENS * TOKENS);
    c->QK = take(&m, 4 * TOKENS * TOKENS);
    take_rows(&m, &c->RQ, 2 * TOKENS, p->head_dim_k, p->digits);
    take_rows(&m, &c->KT, n, TOKENS, p->digits);
    for (int32_t i = 0; i < heads; i++) {
        S[i].own = take(&m, gdn_state_factors(p->head_dim_k, p->head_dim_v, p->digits) + 4 * p->head_dim_v);
        S[i].x = p->state.dtype == GDN_F32 ? take(&m, 4 * n * p->head_dim_v) : NULL;
    }
    return m.used;
}

/* Whether items may share a sequence: none writes entries of the log that others read. */
static bool is_shared(const gdn_gated_delta_net_call *p, gdn_sequence q)
{
    return q.row < 0 || q.position == q.base_position || q.position + q.T - q.base_position <= p->log.n_slots;
}

static void chunked_item(const gdn_gated_delta_net_call *p, int32_t cut, int64_t item, void *scratch)
{
    const int32_t parts = p->head_dim_v / cut, part = (int32_t)(item % parts);
    item /= parts;
    head_view x = { .p = p,
                    .q = gdn_sequence_of(p, (int32_t)(item / p->n_heads_k)),
                    .key_head = (int32_t)(item % p->n_heads_k),
                    .j0 = part * cut,
                    .n_columns = cut,
                    .n = p->head_dim_k,
                    .pitch = p->head_dim_k,
                    .reads = p->has & GDN_HAS_READ_KEY };
    chunk32 keys, *const c = &keys;
    state32 S[HEADS];
    int32_t h[HEADS], heads = 0;
    if (!gdn_has_work(x.q)) return;
    if (!is_shared(p, x.q)) x.n_columns = part ? 0 : p->head_dim_v;
    if (!x.n_columns) return;
    (void)chunked_scratch(p, scratch, c, S);
    for (int32_t i = 0; i < p->heads_per_key; i++) {
        h[heads++] = p->head_map == GDN_HEADS_TILED ? x.key_head + i * p->n_heads_k : x.key_head * p->heads_per_key + i;
        if (heads < HEADS && i + 1 < p->heads_per_key) continue;
        if (p->digits == 2) chunked_heads(&x, c, S, h, heads, 2);
        else chunked_heads(&x, c, S, h, heads, 3);
        heads = 0;
    }
    for (int32_t t = 0; !part && x.q.row >= 0 && t < x.q.T; t++) { /* all heads have read the keys of the log */
        if (x.q.position + t < gdn_chunked_base(p, x.q)) continue;
        prepare_key(&x, &p->k, t, c->k);
        memcpy(gdn_log_at(p, x.q.row, x.q.position + t) + 4 * gdn_log_key(p, x.key_head), c->k, 4 * (size_t)x.n);
    }
}

static void chunked_plan(const gdn_gated_delta_net_call *p, int32_t n_threads, gdn_plan *plan)
{
    const bool channel = p->gate == GDN_GATE_CHANNEL;
    plan->n_items = gdn_ref_gated_delta_net_items(p);
    plan->cut = p->head_dim_v;
    for (; !channel && plan->n_items < n_threads && plan->cut % (2 * NARROW) == 0; plan->cut /= 2) plan->n_items *= 2;
    plan->variant = channel ? GDN_VARIANT_REFERENCE : GDN_VARIANT_CHUNKED;
    chunk32 c;
    state32 S[HEADS];
    plan->cpu.scratch_bytes = channel ? gdn_ref_scratch_bytes(p) : (uint64_t)chunked_scratch(p, NULL, &c, S);
}

static void chunked_run(const gdn_gated_delta_net_call *p, int32_t cut, int64_t first, int64_t last, void *scratch)
{
    for (int64_t item = first; item < last; item++)
        if (p->gate == GDN_GATE_CHANNEL) gdn_ref_gated_delta_net(p, item, scratch);
        else chunked_item(p, cut, item, scratch);
    tiles_end();
}

/* Of an instruction set whose recurrence is that of `rest`. */
#define GDN_CHUNKED_KERNEL(isa, rest)                                                                                  \
    static void plan(const void *call, int32_t n_threads, gdn_plan *of_call)                                           \
    {                                                                                                                  \
        const gdn_gated_delta_net_call *p = call;                                                                      \
        if (p->digits) chunked_plan(p, n_threads, of_call);                                                            \
        else gdn_cpu_gated_delta_net_##rest.plan(call, n_threads, of_call);                                            \
    }                                                                                                                  \
    static void run(const void *call, const gdn_plan *of_call, int64_t first, int64_t last, void *scratch)             \
    {                                                                                                                  \
        const gdn_gated_delta_net_call *p = call;                                                                      \
        if (p->digits) chunked_run(p, of_call->cut, first, last, scratch);                                             \
        else gdn_cpu_gated_delta_net_##rest.run(call, of_call, first, last, scratch);                                  \
    }                                                                                                                  \
    const gdn_cpu_kernel gdn_cpu_gated_delta_net_##isa = { plan, run }

#endif
