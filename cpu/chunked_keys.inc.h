/* What a chunk of the chunked form has of its key head: rows, keys as lanes, their products, and the matrix of the
 * update.
 *
 * Names are those of docs/reference/numerics-chunked.md. Included by chunked.inc.h. */
#ifndef GDN_CPU_CHUNKED_KEYS_INC_H
#define GDN_CPU_CHUNKED_KEYS_INC_H

#include "cpu/chunked_lines.inc.h"
#include "cpu/gated_delta_net_item.inc.h"

enum { QUADS = GDN_CHUNK / 4, TOKENS = GDN_CHUNK, MAX_KEYS = 256 };
enum { TILE_TOKENS = TILE_ROWS / 2 }; /* each has two rows: r and q */
enum { LEAST_OF_TILES = 8 };          /* tokens; a tile has 16 */

/* Rows of lines as the product instruction takes them. */
typedef struct rows_of {
    int32_t *word;
    int8_t *bytes; /* of tiles: [row][digit][n]   */
    float *factor; /* left(): with the 2^-8 of 2 digits */
    int32_t (*sum)[GDN_MOST_DIGITS];
} rows_of;

/* What a chunk has of its key head, and of one value head. Tokens count from the chunk's first. */
typedef struct chunk32 {
    int32_t from;        /* its position; -1: none is prepared               */
    int32_t n, n_logged; /* its tokens, of which the first are in the log    */
    bool complete;       /* KT is prepared too                               */
    float *k, *q, *r;    /* [token][n]; r may be k                           */
    rows_of RQ;          /* of a token two: r and q. Tiles of tokens have word[digit][part][quad][row] */
    rows_of KT;          /* of keys, word[digit][part][quad of tokens][key] */
    int8_t *bytes;       /* of GDN_VL rows, [row][digit][n]                  */
    int8_t *K;           /* [2][n / 4][digit][16 tokens][4]                  */
    float K_factor[TOKENS];
    float *RK, *QK; /* [token][token]: products without decays          */
    float A[TOKENS][TOKENS], P[TOKENS][TOKENS];
    float g[TOKENS], beta[TOKENS], gam[TOKENS], decay_to_end[TOKENS];
    int32_t G_high[TOKENS], G_low[TOKENS]; /* G is 2^16 high + low, and low below 2^16 */
    char *entry[TOKENS];                   /* of the log, if there is one            */
    const float *key[TOKENS];              /* there, or in k                         */
    float *d;                              /* [token][head_dim_v]: deltas of a value head */
    const float *delta[TOKENS];            /* in d, or in the log */
} chunk32;

static int64_t digits_row_words(int32_t n, int32_t digits) { return (int64_t)digits * GDN_QUAD_PARTS * (n / 4); }

/* ---- Products ---- */

/* dot() of r_t and q_t of `tokens` tokens from t on, 1 or TILE_TOKENS: those of token t + i in dot[2 i], dot[2 i + 1].
 */
GDN_INLINE void token_dots(const chunk32 *c, const int tokens, const int digits, int32_t n, int32_t t,
                           const int8_t *lane, int64_t ahead, vf *dot)
{
    const int32_t *const word = c->RQ.word + 2 * (t - c->n_logged) * digits_row_words(n, digits);
    const int32_t(*const sum)[GDN_MOST_DIGITS] = (const int32_t(*)[GDN_MOST_DIGITS])c->RQ.sum + 2 * t;
    if (tokens == 1) (digits == 2 ? dots_2 : dots_3)(lane, ahead, n / 4, word, 2, sum, dot);
    else (digits == 2 ? dots_tile_2 : dots_tile_3)(lane, 0, n / 4, word, TILE_ROWS, sum, dot);
}

/* Whether the products of the chunk's tokens are those of tiles. */
GDN_INLINE bool by_tiles(const chunk32 *c) { return GDN_TILES && c->n - c->n_logged >= LEAST_OF_TILES; }

/* dot() of r_t and q_t of the chunk's tokens, in groups of 16, with a group: [2][token][lane]. */
GDN_INLINE void group_dots(const chunk32 *c, const int digits, int32_t n, const int8_t *lane,
                           float (*dot)[TOKENS][GROUP])
{
    const int64_t step = (int64_t)digits * n;
    for (int32_t t = c->n_logged / GROUP * GROUP; t < c->n; t += GROUP)
        for (int q = 0; q < 2; q++)
            tile_dots(digits, c->RQ.bytes + (2 * t + q) * step, 2 * step, n, lane, n, &dot[q][t]);
}

/* ---- Rows ---- */

/* Products of the rows of `tokens` tokens from t on with GDN_VL keys from u on, whose digits are at `lane`. */
GDN_INLINE void multiply_rows(const chunk32 *c, const int tokens, const int digits, int32_t n, int32_t t, int32_t u,
                              const int8_t *lane, float (*dots)[TOKENS][GROUP])
{
    const vf factor = v_load(c->K_factor + u);
    vf dot[2 * TILE_TOKENS];
    if (!by_tiles(c)) token_dots(c, tokens, digits, n, t, lane, 0, dot);
    for (int i = 0; by_tiles(c) && i < 2 * tokens; i++) dot[i] = v_load(dots[i % 2][t + i / 2]);
    for (int i = 0; i < tokens; i++) {
        const float *const row = c->RQ.factor + 2 * (t + i);
        v_store(c->RK + (t + i) * TOKENS + u, v_mul(v_mul(dot[2 * i], factor), v_set1(row[0])));
        v_store(c->QK + (t + i) * TOKENS + u, v_mul(v_mul(dot[2 * i + 1], factor), v_set1(row[1])));
    }
}

/* Products of rows with keys, without decays. */
GDN_INLINE void multiply_keys(const chunk32 *c, int32_t n, const int digits)
{
    float dots[2][TOKENS][GROUP] __attribute__((aligned(64)));
    if (by_tiles(c)) tiles_begin(tile_depth(n));
    for (int32_t u = 0; u < c->n; u += GDN_VL) {
        const int8_t *const lane = c->K + ((int64_t)(u / GROUP) * (n / 4) * digits * GROUP + u % GROUP) * 4;
        if (by_tiles(c)) group_dots(c, digits, n, lane, dots);
        int32_t t = c->n_logged;
        if (t < u) t += (u - t) / TILE_TOKENS * TILE_TOKENS; /* the tiles are those of all lanes */
        for (; t + TILE_TOKENS <= c->n; t += TILE_TOKENS) multiply_rows(c, TILE_TOKENS, digits, n, t, u, lane, dots);
        for (; t < c->n; t++) multiply_rows(c, 1, digits, n, t, u, lane, dots);
    }
}

/* Row r (which = 0) or q (1) of token t, row `from` of the VL that make_rows() has made. */
GDN_INLINE void put_row(const chunk32 *c, int which, int32_t t, int32_t n, const int digits, int32_t from, float factor)
{
    const int32_t of_tiles = t - c->n_logged, in_tile = of_tiles % TILE_TOKENS, row = 2 * t + which;
    const bool tile = of_tiles - in_tile + TILE_TOKENS <= c->n - c->n_logged;
    const int8_t *const bytes = c->bytes + (int64_t)from * digits * n;
    int32_t *to = c->RQ.word + 2 * (of_tiles - (tile ? in_tile : 0)) * digits_row_words(n, digits) +
                  (tile ? 2 * in_tile : 0) + which;
    for (int a = 0; a < digits; a++) {
        int32_t word[GDN_QUAD_PARTS * MAX_KEYS / 4];
        c->RQ.sum[row][a] = quad_sum(bytes + a * n, n);
        quad_words(word, bytes + a * n, n);
        for (int32_t i = 0; i < GDN_QUAD_PARTS * n / 4; i++, to += tile ? TILE_ROWS : 2) *to = word[i];
    }
    if (by_tiles(c)) memcpy(c->RQ.bytes + (int64_t)row * digits * n, bytes, (size_t)(digits * n));
    c->RQ.factor[row] = gdn_left_factor(factor, digits);
}

/* Keys, queries and read keys of the chunk as rows, keys as lanes, and the products of rows with keys. */
GDN_INLINE void prepare_keys(const head_view *x, chunk32 *c, const int digits)
{
    const gdn_gated_delta_net_call *p = x->p;
    const int32_t n = x->n, logged = c->n_logged, new = c->n - logged, rows = c->n + new *(1 + x->reads);
    const int32_t of_call = c->from - x->q.position; /* token 0 of the chunk, in the call */
    const float *row[3 * TOKENS];                    /* keys, queries, read keys */
    for (int32_t t = 0; t < c->n; t++) {
        float *const k = c->k + (int64_t)t * n, *const q = c->q + (int64_t)t * n, *const r = c->r + (int64_t)t * n;
        c->key[t] = t < logged ? (const float *)(const void *)(c->entry[t] + 4 * gdn_log_key(p, x->key_head)) : k;
        row[t] = c->key[t];
        if (t < logged) continue;
        prepare_key(x, &p->k, of_call + t, k);
        prepare_key(x, &p->q, of_call + t, q);
        row[c->n + t - logged] = q;
        if (!x->reads) continue;
        row[c->n + new + t - logged] = r;
        load_as_f32(r, gdn_token_at(&p->read_key, x->q.s, x->q.first, of_call + t, x->key_head), p->read_key.dtype, 0,
                    n);
    }
    for (int32_t i = 0; i < rows; i += GDN_VL) {
        const int32_t count = min_i32(rows - i, GDN_VL);
        float factor[GDN_VL];
        make_rows(row + i, count, n, digits, c->bytes, factor);
        if (i < c->n) {
            rows_to_lanes(c->bytes, min_i32(c->n - i, GDN_VL), n, digits,
                          c->K + ((int64_t)(i / GROUP) * (n / 4) * digits * GROUP + i % GROUP) * 4);
            v_store(c->K_factor + i, v_load(factor));
        }
        for (int32_t r = 0; r < count; r++) {
            const int32_t of_new = i + r - c->n; /* queries, then read keys */
            if (i + r < logged || (of_new < 0 && x->reads)) continue;
            put_row(c, of_new >= 0 && of_new < new, of_new < 0 ? i + r : logged + of_new % new, n, digits, r,
                    factor[r]);
        }
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
        for (int32_t t = 0; t < TOKENS; t++) most = vi_larger(v_bits(v_abs(v_load(c->key[t] + i))), most);
        lane_lines(most, digits, &scale, &factor, &bad);
        for (int32_t t = 0; t < TOKENS; t += 4) {
            vi d[4][GDN_MOST_DIGITS], of[4], word[GDN_QUAD_PARTS];
            for (int u = 0; u < 4; u++) split(lane_integer(v_load(c->key[t + u] + i), scale, bad), digits, d[u]);
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
                    memcpy(c->KT.bytes + ((int64_t)(i + l) * digits + a) * TOKENS + t, lane + l, 4);
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

#endif
