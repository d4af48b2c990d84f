/* gated_delta_net on the CPU in the chunked form, with a gate per head. A gate per key channel runs the reference.
 *
 * Names are those of docs/reference/numerics-chunked.md. An item is a sequence and the value heads of a key head.
 * Vector lanes are value channels, in groups of 16. The digits of a group's state, 64 bytes for 4 keys and a digit, are
 * multiplied by those of r_t and q_t, which are broadcast. The matrix of a chunk's keys has the same layout, with
 * tokens as lanes. Calls of a few tokens read the digits of a state where they lie.
 *
 * Where the processor has tiles (simd/tiles.h), they make the products of 8 tokens or more: 16 tokens, or 16 keys, with
 * the 16 lanes of a group, which are one vector. */
#ifndef GDN_CPU_CHUNKED_INC_H
#define GDN_CPU_CHUNKED_INC_H

#include "core/plan.h"
#include "cpu/chunked_lines.inc.h"
#include "cpu/gated_delta_net_item.inc.h"
#include "reference/reference.h"

enum { QUADS = GDN_CHUNK / 4, TOKENS = GDN_CHUNK, MAX_KEYS = 256 };
/* Rows of products at a time, of tokens (each has two: r and q) and of keys: what registers hold. */
enum { TILE_TOKENS = GDN_VL == 8 ? 2 : 4, TILE_KEYS = 4 };
enum { LEAST_OF_TILES = 8 }; /* tokens; a tile has 16 */

/* Rows of lines as the product instruction takes them: word[digit][part][quad], a quad of elements each. */
typedef struct rows_of {
    int32_t *word;
    float *factor; /* left(): with the 2^-8 of 2 digits */
    int32_t (*sum)[GDN_MOST_DIGITS];
} rows_of;

/* What a chunk has of its key head, and of one value head. Tokens count from the chunk's first. */
typedef struct chunk32 {
    int32_t from;        /* its position; -1: none is prepared               */
    int32_t n, n_logged; /* its tokens, of which the first are in the log    */
    bool complete;       /* KT is prepared too                               */
    float *k, *q, *r;    /* [token][n]; r may be k                           */
    rows_of Q, R, KT;    /* KT: of keys, word[digit][part][quad of tokens][key] */
    int8_t *bytes;       /* of one row, [digit][n]                           */
    int8_t *K;           /* [2][n / 4][digit][16 tokens][4]                  */
    int8_t *KT_rows;     /* of tiles: KT as [key][digit][token]              */
    float K_factor[TOKENS];
    float *RK, *QK; /* [token][token]: products without decays          */
    float A[TOKENS][TOKENS], P[TOKENS][TOKENS];
    float g[TOKENS], beta[TOKENS], gam[TOKENS], decay_to_end[TOKENS];
    int64_t G[TOKENS];
} chunk32;

/* The state of a value head, in groups of channels. */
typedef struct state32 {
    const int8_t *digits; /* [group][n / 4][digit][16][4]: where they lie, or `own`                */
    const float *factor;  /* of channels                                                           */
    int8_t *own;          /* a head of digits with factors                                         */
    float *x;             /* F32 states: [group][key][16]                                          */
    bool changed;         /* is no longer what the source holds                                    */
} state32;

static int64_t digits_row_words(int32_t n, int32_t digits) { return (int64_t)digits * GDN_QUAD_PARTS * (n / 4); }

/* ---- Products ---- */

/* dot() of r_t and q_t of `tokens` tokens from t on: those of token t + i in dot[2 i] and dot[2 i + 1]. */
GDN_INLINE void token_dots(const chunk32 *c, const int tokens, const int digits, int32_t n, int32_t t,
                           const int8_t *lane, vf *dot)
{
    const int64_t size = digits_row_words(n, digits);
    const int32_t *word[2 * TILE_TOKENS];
    const int32_t(*sum[2 * TILE_TOKENS])[GDN_MOST_DIGITS];
    for (int i = 0; i < tokens; i++) {
        word[2 * i] = c->R.word + (t + i) * size;
        word[2 * i + 1] = c->Q.word + (t + i) * size;
        sum[2 * i] = (const int32_t(*)[GDN_MOST_DIGITS]) & c->R.sum[t + i];
        sum[2 * i + 1] = (const int32_t(*)[GDN_MOST_DIGITS]) & c->Q.sum[t + i];
    }
    dots_of(2 * tokens, digits, lane, n / 4, word, n / 4, GDN_QUAD_PARTS * (n / 4), 1, sum, dot);
}

/* Whether the products of the chunk's tokens are those of tiles. */
GDN_INLINE bool by_tiles(const chunk32 *c) { return GDN_TILES && c->n - c->n_logged >= LEAST_OF_TILES; }

/* dot() of r_t and q_t of the chunk's tokens, in groups of 16, with a group: [2][token][lane]. */
GDN_INLINE void group_dots(const chunk32 *c, const int digits, int32_t n, const int8_t *lane,
                           float (*dot)[TOKENS][GROUP])
{
    const int64_t words = digits_row_words(n, digits);
    for (int32_t t = c->n_logged / GROUP * GROUP; t < c->n; t += GROUP) {
        tile_dots(digits, (const int8_t *)(c->R.word + t * words), 4 * words, n, lane, n, &dot[0][t]);
        tile_dots(digits, (const int8_t *)(c->Q.word + t * words), 4 * words, n, lane, n, &dot[1][t]);
    }
}

/* ---- A key head ---- */

/* Products of rows with keys, without decays. */
GDN_INLINE void multiply_keys(const chunk32 *c, int32_t n, const int digits)
{
    float dots[2][TOKENS][GROUP] __attribute__((aligned(64)));
    if (by_tiles(c)) tiles_begin(tile_depth(n));
    for (int32_t u = 0; u < c->n; u += GDN_VL) {
        const int8_t *const lane = c->K + ((int64_t)(u / GROUP) * (n / 4) * digits * GROUP + u % GROUP) * 4;
        const vf factor = v_load(c->K_factor + u);
        if (by_tiles(c)) group_dots(c, digits, n, lane, dots);
        for (int32_t t = c->n_logged > u ? c->n_logged : u; t < c->n; t++) {
            vf dot[2];
            if (by_tiles(c)) dot[0] = v_load(dots[0][t]), dot[1] = v_load(dots[1][t]);
            else token_dots(c, 1, digits, n, t, lane, dot);
            v_store(c->RK + t * TOKENS + u, v_mul(v_mul(dot[0], factor), v_set1(c->R.factor[t])));
            v_store(c->QK + t * TOKENS + u, v_mul(v_mul(dot[1], factor), v_set1(c->Q.factor[t])));
        }
    }
}

/* Keys, queries and read keys of the chunk as rows, keys as lanes, and the products of rows with keys. */
GDN_INLINE void prepare_keys(const head_view *x, chunk32 *c, const int digits)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t n = x->n, s = x->q.s, first = x->q.first;
    const int64_t size = digits_row_words(n, digits);
    const int32_t of_call = c->from - x->q.position; /* token 0 of the chunk, in the call */
    for (int32_t t = 0; t < c->n; t++) {
        float *const k = c->k + (int64_t)t * n;
        if (t < c->n_logged) {
            memcpy(k, gdn_log_at(p, x->q.row, c->from + t) + 4 * gdn_log_key(p, x->key_head), 4 * (size_t)n);
            continue;
        }
        prepare_key(x, &p->k, of_call + t, k);
        prepare_key(x, &p->q, of_call + t, c->q + (int64_t)t * n);
        if (x->reads)
            load_as_f32(c->r + (int64_t)t * n, gdn_token_at(&p->read_key, s, first, of_call + t, x->key_head),
                        p->read_key.dtype, 0, n);
    }
    for (int32_t t = 0; t < c->n; t++) {
        float factor;
        make_row(c->k + (int64_t)t * n, n, digits, c->bytes, c->R.word + t * size, &factor, c->R.sum[t]);
        c->K_factor[t] = digits == 2 ? factor * 256 : factor;
        c->R.factor[t] = factor;
        for (int a = 0; a < digits; a++)
            for (int32_t i = 0; i < n / 4; i++)
                memcpy(c->K + ((((int64_t)(t / GROUP) * (n / 4) + i) * digits + a) * GROUP + t % GROUP) * 4,
                       c->bytes + a * n + 4 * i, 4);
        if (t < c->n_logged) continue;
        if (x->reads)
            make_row(c->r + (int64_t)t * n, n, digits, c->bytes, c->R.word + t * size, &c->R.factor[t], c->R.sum[t]);
        make_row(c->q + (int64_t)t * n, n, digits, c->bytes, c->Q.word + t * size, &c->Q.factor[t], c->Q.sum[t]);
    }
    multiply_keys(c, n, digits);
}

/* KT of a whole chunk. */
GDN_INLINE void prepare_updates(const head_view *x, chunk32 *c, const int digits)
{
    const int32_t n = x->n;
    for (int32_t i = 0; i < n; i += GDN_VL) {
        vi most = vi_set1(0), sums[GDN_MOST_DIGITS] = { vi_set1(0), vi_set1(0), vi_set1(0) };
        vf scale, factor;
        vm bad;
        for (int32_t t = 0; t < TOKENS; t++) most = larger_bits(v_bits(v_abs(v_load(c->k + (int64_t)t * n + i))), most);
        lane_lines(most, digits, &scale, &factor, &bad);
        for (int32_t t = 0; t < TOKENS; t += 4) {
            vi d[4][GDN_MOST_DIGITS], of[4], word[GDN_QUAD_PARTS];
            for (int u = 0; u < 4; u++)
                split(lane_integer(v_load(c->k + (int64_t)(t + u) * n + i), scale, bad), digits, d[u]);
            for (int a = 0; a < digits; a++) {
                for (int u = 0; u < 4; u++) {
                    of[u] = low_byte(d[u][a]);
                    if (GDN_QUAD_BIAS) sums[a] = vi_add(sums[a], of[u]);
                }
                quad_pack(of, word);
                for (int part = 0; part < GDN_QUAD_PARTS; part++)
                    vi_store(c->KT.word + ((int64_t)(a * GDN_QUAD_PARTS + part) * QUADS + t / 4) * n + i, word[part]);
                if (!GDN_TILES) continue;
                int32_t lane[GDN_VL];
                vi_store(lane, word[0]);
                for (int l = 0; l < GDN_VL; l++)
                    memcpy(c->KT_rows + ((int64_t)(i + l) * digits + a) * TOKENS + t, lane + l, 4);
            }
        }
        v_store(c->KT.factor + i, digits == 2 ? v_mul(factor, v_set1(0x1p-8f)) : factor);
        for (int a = 0; GDN_QUAD_BIAS && a < digits; a++) {
            int32_t lane[GDN_VL];
            vi_store(lane, sums[a]);
            for (int l = 0; l < GDN_VL; l++) c->KT.sum[i + l][a] = lane[l];
        }
    }
    c->complete = true;
}

/* ---- A value head ---- */

/* The decays between tokens 0 to `last` and token t. */
GDN_INLINE void decays_to(const chunk32 *c, int32_t t, int32_t last, float *decay)
{
    int32_t high[TOKENS], low[TOKENS];
    for (int32_t s = 0; s < TOKENS; s++) {
        int64_t d = s <= last ? c->G[t] - c->G[s] : 0;
        if (d < GDN_LEAST_STEPS) d = GDN_LEAST_STEPS;
        high[s] = (int32_t)(d >> 16);
        low[s] = (int32_t)(d & 65535);
    }
    for (int32_t s = 0; s <= last; s += GDN_VL) {
        const vf rest = v_mul(v_from_int(vi_load(low + s)), v_set1(0x1p-30f));
        v_store(decay + s, v_exp(v_fma(v_from_int(vi_load(high + s)), v_set1(0x1p-14f), rest)));
    }
}

/* Gates, beta, A and P of a chunk. */
GDN_INLINE void prepare_gates(const head_view *x, chunk32 *c)
{
    const gdn_gated_delta_net_call *p = x->p;
    float decay[TOKENS];
    bool spoiled = false;
    for (int32_t t = 0; t < c->n_logged; t++)
        memcpy(&c->g[t], gdn_log_at(p, x->q.row, c->from + t) + 4 * gdn_log_decay(p, x->h), 4);
    if (c->n > c->n_logged)
        compute_factors(x, c->from + c->n_logged - x->q.position, c->n - c->n_logged, true, c->g + c->n_logged,
                        c->beta + c->n_logged);
    for (int32_t t = 0; t < c->n; t++) {
        c->G[t] = gdn_gate_step(c->g[t]) + (t ? c->G[t - 1] : 0);
        spoiled |= gdn_gate_spoiled(c->g[t]) != 0;
        c->gam[t] = spoiled ? NAN : gdn_decay_of_steps(c->G[t]);
    }
    for (int32_t t = c->n_logged; t < c->n; t++) {
        decays_to(c, t, t, decay);
        for (int32_t s = 0; s <= t; s += GDN_VL) {
            const vf a = v_load(decay + s);
            v_store(c->A[t] + s, v_mul(v_mul(v_load(c->RK + t * TOKENS + s), v_set1(c->beta[t])), a));
            v_store(c->P[t] + s, v_mul(v_load(c->QK + t * TOKENS + s), a));
        }
    }
    if (c->n == TOKENS) decays_to(c, TOKENS - 1, TOKENS - 1, c->decay_to_end);
}

/* `tokens` tokens from t on, of GDN_VL channels from j on, whose digits are at `lane`: their deltas and outputs. dots:
 * of tiles. */
GDN_INLINE void tokens_of(const head_view *x, const chunk32 *c, const int tokens, const int digits, int32_t t,
                          int32_t j, const int8_t *lane, vf factor, float (*dots)[TOKENS][GROUP], float (*d)[GDN_VL])
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t of_call = c->from + t - x->q.position;
    vf dot[2 * TILE_TOKENS], delta[TILE_TOKENS], out[TILE_TOKENS];
    if (!by_tiles(c)) token_dots(c, tokens, digits, x->n, t, lane, dot);
    for (int i = 0; by_tiles(c) && i < 2 * tokens; i++) dot[i] = v_load(dots[i % 2][t + i / 2]);
    for (int i = 0; i < tokens; i++) {
        const vf v = v_load_typed(gdn_token_at(&p->v, x->q.s, x->q.first, of_call + i, x->h), p->v.dtype, j, GDN_VL);
        const vf row_r = v_mul(v_set1(c->gam[t + i]), v_set1(c->R.factor[t + i]));
        const vf row_q = v_mul(v_set1(c->gam[t + i]), v_set1(c->Q.factor[t + i]));
        delta[i] = v_mul(v_set1(c->beta[t + i]), v_fnma(row_r, v_mul(dot[2 * i], factor), v));
        out[i] = v_mul(row_q, v_mul(dot[2 * i + 1], factor));
    }
    for (int32_t s = 0; s < t; s++)
        for (int i = 0; i < tokens; i++) {
            delta[i] = v_fnma(v_set1(c->A[t + i][s]), v_load(d[s]), delta[i]);
            out[i] = v_fma(v_set1(c->P[t + i][s]), v_load(d[s]), out[i]);
        }
    for (int i = 0; i < tokens; i++) {
        for (int s = 0; s < i; s++) delta[i] = v_fnma(v_set1(c->A[t + i][t + s]), delta[s], delta[i]);
        for (int s = 0; s <= i; s++) out[i] = v_fma(v_set1(c->P[t + i][t + s]), delta[s], out[i]);
        v_store(d[t + i], delta[i]);
        v_store_typed(gdn_token_at(&p->result, x->q.s, x->q.first, of_call + i, x->h), p->result.dtype, j,
                      v_mul(v_set1(p->scale), out[i]), GDN_VL);
    }
}

/* The state after the chunk, of GDN_VL channels from j on, of their deltas. */
GDN_INLINE void update_of(const head_view *x, const chunk32 *c, state32 *S, const int digits, int32_t j,
                          float (*d)[GDN_VL])
{
    const int32_t n = x->n, group = j / GROUP, in_group = j % GROUP;
    const int64_t part = (int64_t)QUADS * n, at = ((int64_t)group * (n / 4) * digits * GROUP + in_group) * 4;
    int8_t E[QUADS * GDN_MOST_DIGITS * 64] __attribute__((aligned(64)));
    float next[MAX_KEYS][GDN_VL] __attribute__((aligned(64)));
    float *const floats = S->x ? S->x + (int64_t)group * n * GROUP + in_group : NULL;
    float *const factors = (float *)(void *)(S->own + gdn_state_factors(n, x->p->head_dim_v, digits));
    const vf gam = v_set1(c->gam[TOKENS - 1]), factor = floats ? v_zero() : v_load(S->factor + j);
    float dots[GROUP][GROUP] __attribute__((aligned(64)));
    tiles_begin(tile_depth(TOKENS));
    for (int32_t s = 0; s < TOKENS; s++) v_store(d[s], v_mul(v_load(d[s]), v_set1(c->decay_to_end[s])));
    const vf E_factor = make_lanes(d[0], TOKENS, GDN_VL, digits, E);
    for (int32_t i = 0; i < n; i += TILE_KEYS) {
        const int32_t *word[TILE_KEYS];
        const int32_t(*sum[TILE_KEYS])[GDN_MOST_DIGITS];
        vf dot[TILE_KEYS];
        for (int r = 0; r < TILE_KEYS; r++) {
            word[r] = c->KT.word + i + r;
            sum[r] = (const int32_t(*)[GDN_MOST_DIGITS]) & c->KT.sum[i + r];
        }
        if (!GDN_TILES) dots_of(TILE_KEYS, digits, E, QUADS, word, part, GDN_QUAD_PARTS * part, n, sum, dot);
        else if (i % GROUP == 0)
            tile_dots(digits, c->KT_rows + (int64_t)i * digits * TOKENS, digits * TOKENS, TOKENS, E, TOKENS, dots);
        for (int r = 0; GDN_TILES && r < TILE_KEYS; r++) dot[r] = v_load(dots[i % GROUP + r]);
        for (int r = 0; r < TILE_KEYS; r++) {
            const vf before = floats ? v_load(floats + (int64_t)(i + r) * GROUP)
                                     : element_of(S->digits + at + (int64_t)(i / 4) * digits * 64, r, digits, factor);
            const vf after = v_fma(v_set1(c->KT.factor[i + r]), v_mul(dot[r], E_factor), v_mul(before, gam));
            v_store(floats ? floats + (int64_t)(i + r) * GROUP : next[i + r], after);
        }
    }
    if (!floats) v_store(factors + j, make_lanes(next[0], n, GDN_VL, digits, S->own + at));
}

/* ---- States ---- */

/* Between an F32 state and [group][key][16]. */
static void move_floats(const head_view *x, char *head, int64_t stride_line, float *to, bool store)
{
    const int32_t n = x->n, kv = x->p->state_layout == GDN_STATE_KV;
    for (int32_t j = 0; j < x->p->head_dim_v; j += GDN_VL)
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

static void load_state32(const head_view *x, state32 *S)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t n = x->n, digits = p->digits;
    const int64_t floats = (int64_t)n * p->head_dim_v, factors = gdn_state_factors(n, p->head_dim_v, digits);
    char *const source = x->q.src < 0 ? NULL : gdn_state_at(&p->state, x->q.src, x->h);
    S->digits = S->own;
    S->factor = (const float *)(const void *)(S->own + factors);
    S->changed = !source;
    if (S->x) {
        if (source) move_floats(x, source, p->state.stride_line, S->x, false);
        else memset(S->x, 0, 4 * (size_t)floats);
    } else if (source) {
        S->digits = (const int8_t *)source;
        S->factor = (const float *)(const void *)(source + factors);
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
    const int64_t factors = gdn_state_factors(x->n, p->head_dim_v, p->digits);
    memcpy(to, S->digits, (size_t)factors);
    memcpy(to + factors, S->factor, 4 * (size_t)p->head_dim_v);
}

/* ---- The item ---- */

GDN_INLINE void chunk_of(const head_view *x, chunk32 *c, state32 *S, const int digits, bool update)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t n = x->n, base = gdn_chunked_base(p, x->q);
    if (c->n > c->n_logged || update) prepare_gates(x, c);
    for (int32_t j = 0; j < p->head_dim_v && (c->n > c->n_logged || update); j += GDN_VL) {
        const int64_t at = ((int64_t)(j / GROUP) * (n / 4) * digits * GROUP + j % GROUP) * 4;
        float d[TOKENS][GDN_VL] __attribute__((aligned(64))), dots[2][TOKENS][GROUP] __attribute__((aligned(64)));
        vf factor = v_zero();
        if (c->n > c->n_logged)
            factor =
                S->x ? make_lanes(S->x + (int64_t)(j / GROUP) * n * GROUP + j % GROUP, n, GROUP, digits, S->own + at)
                     : v_load(S->factor + j);
        for (int32_t t = 0; t < c->n_logged; t++)
            v_store(d[t], v_load((const float *)(const void *)(gdn_log_at(p, x->q.row, c->from + t) +
                                                               4 * (gdn_log_delta(p, x->h) + j))));
        if (by_tiles(c)) {
            tiles_begin(tile_depth(n));
            group_dots(c, digits, n, S->digits + at, dots);
        }
        int32_t t = c->n_logged;
        for (; t + TILE_TOKENS <= c->n; t += TILE_TOKENS)
            tokens_of(x, c, TILE_TOKENS, digits, t, j, S->digits + at, factor, dots, d);
        for (; t < c->n; t++) tokens_of(x, c, 1, digits, t, j, S->digits + at, factor, dots, d);
        for (t = c->n_logged; x->q.row >= 0 && t < c->n; t++)
            if (c->from + t >= base)
                v_store((float *)(void *)(gdn_log_at(p, x->q.row, c->from + t) + 4 * (gdn_log_delta(p, x->h) + j)),
                        v_load(d[t]));
        if (update) update_of(x, c, S, digits, j, d);
    }
    for (int32_t t = c->n_logged; x->q.row >= 0 && t < c->n; t++)
        if (c->from + t >= base) memcpy(gdn_log_at(p, x->q.row, c->from + t) + 4 * gdn_log_decay(p, x->h), &c->g[t], 4);
    if (!update) return;
    S->digits = S->own;
    S->factor = (const float *)(const void *)(S->own + gdn_state_factors(n, p->head_dim_v, digits));
    S->changed = true;
}

GDN_INLINE void chunked_head(const head_view *x, chunk32 *c, state32 *S, const int digits)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t end = x->q.position + x->q.T, target = gdn_chunked_target(p, x->q);
    load_state32(x, S);
    for (int32_t from = x->q.base_position;; from += TOKENS) {
        if (from == x->q.kept) store_state32(x, x->q.commit, S);
        if (from > x->q.position) store_state32(x, gdn_checkpoint_of(p, x->q.s, from - x->q.position - 1), S);
        if (from == end - end % TOKENS) store_state32(x, target, S);
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
            if (c->n > c->n_logged || update) prepare_keys(x, c, digits);
        }
        if (update && !c->complete) prepare_updates(x, c, digits);
        chunk_of(x, c, S, digits, update);
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

static void take_rows(arena *m, rows_of *rows, int64_t n_rows, int64_t words)
{
    rows->word = take(m, 4 * n_rows * words);
    rows->factor = take(m, 4 * n_rows);
    rows->sum = take(m, (int64_t)sizeof *rows->sum * n_rows);
}

/* The arrays of a call; returns their bytes. */
static int64_t chunked_scratch(const gdn_gated_delta_net_call *p, char *scratch, chunk32 *c, state32 *S)
{
    const int64_t n = p->head_dim_k, rows = 4 * TOKENS * n, words = digits_row_words(p->head_dim_k, p->digits);
    arena m = { scratch, 0 };
    *c = (chunk32){ .from = -1 };
    c->k = take(&m, rows);
    c->q = take(&m, rows);
    c->r = (p->has & GDN_HAS_READ_KEY) ? take(&m, rows) : c->k;
    c->bytes = take(&m, n * p->digits);
    c->K = take(&m, n * p->digits * TOKENS);
    c->KT_rows = GDN_TILES ? take(&m, n * p->digits * TOKENS) : NULL;
    c->RK = take(&m, 4 * TOKENS * TOKENS);
    c->QK = take(&m, 4 * TOKENS * TOKENS);
    take_rows(&m, &c->Q, TOKENS, words);
    take_rows(&m, &c->R, TOKENS, words);
    take_rows(&m, &c->KT, n, digits_row_words(TOKENS, p->digits));
    S->own = take(&m, gdn_state_factors(p->head_dim_k, p->head_dim_v, p->digits) + 4 * p->head_dim_v);
    S->x = p->state.dtype == GDN_F32 ? take(&m, 4 * n * p->head_dim_v) : NULL;
    return m.used;
}

static void chunked_item(const gdn_gated_delta_net_call *p, int64_t item, void *scratch)
{
    head_view x = { .p = p,
                    .q = gdn_sequence_of(p, (int32_t)(item / p->n_heads_k)),
                    .key_head = (int32_t)(item % p->n_heads_k),
                    .n = p->head_dim_k,
                    .pitch = p->head_dim_k,
                    .reads = p->has & GDN_HAS_READ_KEY };
    chunk32 keys, *const c = &keys;
    state32 S;
    if (!gdn_has_work(x.q)) return;
    (void)chunked_scratch(p, scratch, c, &S);
    for (x.h = 0; x.h < p->n_heads_v; x.h++) {
        if (gdn_key_head(p, x.h) != x.key_head) continue;
        set_raw_gate(&x);
        if (p->digits == 2) chunked_head(&x, c, &S, 2);
        else chunked_head(&x, c, &S, 3);
    }
    for (int32_t t = 0; x.q.row >= 0 && t < x.q.T; t++) { /* all heads have read the keys of the log */
        if (x.q.position + t < gdn_chunked_base(p, x.q)) continue;
        prepare_key(&x, &p->k, t, c->k);
        memcpy(gdn_log_at(p, x.q.row, x.q.position + t) + 4 * gdn_log_key(p, x.key_head), c->k, 4 * (size_t)x.n);
    }
}

static void chunked_plan(const gdn_gated_delta_net_call *p, gdn_plan *plan)
{
    const bool channel = p->gate == GDN_GATE_CHANNEL;
    plan->n_items = gdn_ref_gated_delta_net_items(p);
    plan->variant = channel ? GDN_VARIANT_REFERENCE : GDN_VARIANT_CHUNKED;
    chunk32 c;
    state32 S;
    plan->cpu.scratch_bytes = channel ? gdn_ref_scratch_bytes(p) : (uint64_t)chunked_scratch(p, NULL, &c, &S);
}

static void chunked_run(const gdn_gated_delta_net_call *p, int64_t first, int64_t last, void *scratch)
{
    for (int64_t item = first; item < last; item++)
        if (p->gate == GDN_GATE_CHANNEL) gdn_ref_gated_delta_net(p, item, scratch);
        else chunked_item(p, item, scratch);
    tiles_end();
}

/* Of an instruction set whose recurrence is that of `rest`. */
#define GDN_CHUNKED_KERNEL(isa, rest)                                                                                  \
    static void plan(const void *call, int32_t n_threads, gdn_plan *of_call)                                           \
    {                                                                                                                  \
        const gdn_gated_delta_net_call *p = call;                                                                      \
        if (p->digits) chunked_plan(p, of_call);                                                                       \
        else gdn_cpu_gated_delta_net_##rest.plan(call, n_threads, of_call);                                            \
    }                                                                                                                  \
    static void run(const void *call, const gdn_plan *of_call, int64_t first, int64_t last, void *scratch)             \
    {                                                                                                                  \
        const gdn_gated_delta_net_call *p = call;                                                                      \
        if (p->digits) chunked_run(p, first, last, scratch);                                                           \
        else gdn_cpu_gated_delta_net_##rest.run(call, of_call, first, last, scratch);                                  \
    }                                                                                                                  \
    const gdn_cpu_kernel gdn_cpu_gated_delta_net_##isa = { plan, run }

#endif
