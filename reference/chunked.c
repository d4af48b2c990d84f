/* The chunked form of gated_delta_net, scalar: the specification. Names are those of
 * docs/reference/numerics-chunked.md, where chunks, lines and digits are explained. An item is a sequence and the value
 * heads of a key head: all of them read a key's entries of the log before one is written. */
#include "reference/chunked.h"

#include <math.h>
#include <string.h>

#include "numerics/chunked.h"
#include "reference/operands.h"

typedef const gdn_gated_delta_net_call call_t;

/* A vector as a row or a column of a product. */
typedef struct digits_t {
    float factor;
    int8_t digit[GDN_MOST_DIGITS][MAX_DIM];
} digits_t;

/* A chunk of one value head, and the state before it. Tokens count from the chunk's first. */
typedef struct gdn_ref_chunk {
    int32_t n, n_logged; /* its tokens, of which the first are in the log */
    int32_t gates;       /* of a token: 1, or head_dim_k                  */
    float k[GDN_CHUNK][MAX_DIM], d[GDN_CHUNK][MAX_DIM];
    float g[GDN_CHUNK][MAX_DIM];     /* logarithms of decays             */
    float step[GDN_CHUNK][MAX_DIM];  /* decays of single steps           */
    int64_t G[GDN_CHUNK][MAX_DIM];   /* sums of steps                    */
    float gam[GDN_CHUNK][MAX_DIM];   /* decays since the chunk's start   */
    digits_t K[GDN_CHUNK];           /* lines of keys                    */
    digits_t K_end[GDN_CHUNK_BLOCK]; /* gate per channel: of the first block's keys, decayed to its end */
    float (*S)[MAX_DIM];             /* the state, [value channel][key]  */
    digits_t *S_line;                /* its lines                        */
    digits_t *KT;                    /* lines of a key channel over the tokens */
} chunk_t;

/* The chunk, and behind it the arrays that its last pointers name. */
static uint64_t lay_out(call_t *p, chunk_t *w)
{
    char *const end = (char *)(w + 1);
    const size_t state = sizeof *w->S * (size_t)p->head_dim_v, lines = sizeof *w->S_line * (size_t)p->head_dim_v;
    w->S = (float(*)[MAX_DIM])(void *)end;
    w->S_line = (digits_t *)(void *)(end + state);
    w->KT = w->S_line + p->head_dim_v;
    return sizeof *w + state + lines + sizeof *w->KT * (size_t)p->head_dim_k;
}

uint64_t GDN_REF(chunked_bytes)(const gdn_gated_delta_net_call *p)
{
    chunk_t w;
    return lay_out(p, &w);
}

static digits_t line_of(const float *x, int32_t n, int32_t digits)
{
    digits_t line;
    uint32_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t bits = gdn_bits(x[i]) & ~GDN_SIGN_BIT;
        if (bits > most) most = bits;
    }
    const gdn_line of = gdn_line_of(most, digits);
    line.factor = of.factor;
    for (int32_t i = 0; i < n; i++)
        for (int32_t a = 0; a < digits; a++) line.digit[a][i] = gdn_digit(gdn_line_integer(x[i], of), a, digits);
    return line;
}

static float dot(const digits_t *a, const digits_t *b, int32_t n, int32_t digits)
{
    GDN_DIGIT_SUM g[GDN_MOST_DIGITS] = { 0 };
    for (int32_t x = 0; x < digits; x++)
        for (int32_t y = 0; x + y < digits; y++)
            for (int32_t i = 0; i < n; i++) g[x + y] += (GDN_DIGIT_SUM)(a->digit[x][i] * b->digit[y][i]);
    return gdn_digit_dot(g, digits);
}

/* fl(dot(a, b) * factor_b) */
static float column_dot(const digits_t *a, const digits_t *b, int32_t n, int32_t digits)
{
    return gdn_mul(dot(a, b, n, digits), b->factor);
}

static float left_factor(call_t *p, const digits_t *line) { return gdn_left_factor(line->factor, p->digits); }

static float product(call_t *p, const digits_t *a, const digits_t *b)
{
    return gdn_mul(column_dot(a, b, p->head_dim_k, p->digits), left_factor(p, a));
}

/* The decay of key i between tokens s and t. */
static float between(const chunk_t *w, int32_t s, int32_t t, int32_t i)
{
    return gdn_decay_of_steps(w->G[t][i] - w->G[s][i]);
}

/* ---- The state ---- */

/* Element i of value channel j from a line. */
static float line_element(call_t *p, const digits_t *line, int32_t i)
{
    int32_t n = 0;
    for (int32_t a = 0; a < p->digits; a++) n = n * 256 + line->digit[a][i];
    return gdn_line_element(n, line->factor, p->digits);
}

static void load_state(call_t *p, const gdn_sequence *q, int32_t h, chunk_t *w)
{
    const int32_t n = p->head_dim_k, of_digits = p->state.dtype != GDN_F32;
    char *const head = q->src < 0 ? NULL : gdn_state_at(&p->state, q->src, h);
    for (int32_t j = 0; j < p->head_dim_v; j++) {
        digits_t *const line = &w->S_line[j];
        memset(w->S[j], 0, sizeof w->S[j]);
        if (of_digits) *line = line_of(w->S[j], n, p->digits);
        for (int32_t i = 0; head && !of_digits && i < n; i++)
            w->S[j][i] = gdn_load_element(column_element(p, &p->state, head, i, j), GDN_F32, 0);
        if (!head || !of_digits) continue;
        memcpy(&line->factor, head + gdn_state_factors(n, p->head_dim_v, p->digits) + 4 * j, 4);
        for (int32_t i = 0; i < n; i++) {
            for (int32_t a = 0; a < p->digits; a++)
                line->digit[a][i] = (int8_t)head[gdn_state_digit(n, p->digits, i, j, a)];
            w->S[j][i] = line_element(p, line, i);
        }
    }
}

static void store_state(call_t *p, int32_t target, int32_t h, const chunk_t *w)
{
    const int32_t n = p->head_dim_k;
    if (target < 0) return;
    char *const head = gdn_state_at(&p->state_out, target, h);
    for (int32_t j = 0; j < p->head_dim_v; j++) {
        const digits_t *const line = &w->S_line[j];
        if (p->state_out.dtype != GDN_F32)
            memcpy(head + gdn_state_factors(n, p->head_dim_v, p->digits) + 4 * j, &line->factor, 4);
        for (int32_t i = 0; i < n; i++) {
            if (p->state_out.dtype == GDN_F32) memcpy(column_element(p, &p->state_out, head, i, j), &w->S[j][i], 4);
            else
                for (int32_t a = 0; a < p->digits; a++)
                    head[gdn_state_digit(n, p->digits, i, j, a)] = (char)line->digit[a][i];
        }
    }
}

/* The state after a whole chunk. */
static void next_state(call_t *p, chunk_t *w)
{
    const int32_t last = GDN_CHUNK - 1, channel = w->gates > 1;
    float x[GDN_CHUNK];
    for (int32_t i = 0; i < p->head_dim_k; i++) {
        for (int32_t s = 0; s < GDN_CHUNK; s++)
            x[s] = channel ? gdn_mul(w->k[s][i], between(w, s, last, i)) : w->k[s][i];
        w->KT[i] = line_of(x, GDN_CHUNK, p->digits);
    }
    for (int32_t j = 0; j < p->head_dim_v; j++) {
        for (int32_t s = 0; s < GDN_CHUNK; s++)
            x[s] = channel ? w->d[s][j] : gdn_mul(w->d[s][j], between(w, s, last, 0));
        const digits_t E = line_of(x, GDN_CHUNK, p->digits);
        for (int32_t i = 0; i < p->head_dim_k; i++)
            w->S[j][i] = gdn_fma(left_factor(p, &w->KT[i]), column_dot(&w->KT[i], &E, GDN_CHUNK, p->digits),
                                 gdn_mul(w->S[j][i], w->gam[last][channel ? i : 0]));
        if (p->state.dtype == GDN_F32) continue;
        w->S_line[j] = line_of(w->S[j], p->head_dim_k, p->digits);
        for (int32_t i = 0; i < p->head_dim_k; i++) w->S[j][i] = line_element(p, &w->S_line[j], i);
    }
}

/* ---- A chunk ---- */

/* k, g and, of tokens in the log, d of the chunk's tokens, whose first has position `from`. */
static void load_tokens(call_t *p, const gdn_sequence *q, int32_t h, int32_t from, chunk_t *w)
{
    const int32_t kappa = gdn_key_head(p, h);
    for (int32_t t = 0; t < w->n; t++) {
        if (t < w->n_logged) {
            const char *entry = gdn_log_at(p, q->row, from + t);
            memcpy(w->k[t], entry + 4 * gdn_log_key(p, kappa), 4 * (size_t)p->head_dim_k);
            memcpy(w->d[t], entry + 4 * gdn_log_delta(p, h), 4 * (size_t)p->head_dim_v);
            memcpy(w->g[t], entry + 4 * gdn_log_decay(p, h), 4 * (size_t)w->gates);
            continue;
        }
        const int32_t of_call = from + t - q->position;
        load_key(p, &p->k, gdn_token_at(&p->k, q->s, q->first, of_call, kappa), w->k[t]);
        for (int32_t i = 0; i < w->gates; i++)
            w->g[t][i] = gate(p, gdn_decay_log, gdn_token_at(&p->g, q->s, q->first, of_call, h), h, i);
    }
}

/* Steps and lines of the chunk's tokens. */
static void prepare(call_t *p, chunk_t *w)
{
    float x[MAX_DIM];
    for (int32_t t = 0; t < w->n; t++) {
        for (int32_t i = 0; i < w->gates; i++) {
            const int64_t step = gdn_gate_step(w->g[t][i]);
            w->G[t][i] = step + (t ? w->G[t - 1][i] : 0);
            w->step[t][i] = gdn_decay_of_steps(step);
            w->gam[t][i] = gdn_decay_of_steps(w->G[t][i]);
            if (gdn_gate_spoiled(w->g[t][i]) || (t && isnan(w->gam[t - 1][i]))) w->gam[t][i] = NAN;
        }
        w->K[t] = line_of(w->k[t], p->head_dim_k, p->digits);
    }
    for (int32_t s = 0; w->gates > 1 && w->n > GDN_CHUNK_BLOCK && s < GDN_CHUNK_BLOCK; s++) {
        for (int32_t i = 0; i < p->head_dim_k; i++) x[i] = gdn_mul(w->k[s][i], between(w, s, GDN_CHUNK_BLOCK - 1, i));
        w->K_end[s] = line_of(x, p->head_dim_k, p->digits);
    }
}

/* The products of row x of token t, its query or read key, with the keys of tokens 0 to `last`, decayed to t: P, or
 * with a beta A. */
static void decayed_products(call_t *p, const chunk_t *w, const float *x, int32_t t, int32_t last, const float *beta,
                             float out[GDN_CHUNK])
{
    const int32_t n = p->head_dim_k, block = t / GDN_CHUNK_BLOCK;
    const digits_t line = line_of(x, n, p->digits);
    float decayed[MAX_DIM] = { 0 };
    digits_t later = line; /* of the row, decayed from the end of the first block */
    if (w->gates > 1 && block) {
        for (int32_t i = 0; i < n; i++) decayed[i] = gdn_mul(x[i], between(w, GDN_CHUNK_BLOCK - 1, t, i));
        later = line_of(decayed, n, p->digits);
    }
    for (int32_t s = 0; s <= last; s++) {
        if (w->gates == 1) out[s] = product(p, &line, &w->K[s]);
        else if (s / GDN_CHUNK_BLOCK < block) out[s] = product(p, &later, &w->K_end[s]);
        else {
            for (int32_t i = 0; i < n; i++) {
                decayed[i] = w->k[s][i];
                for (int32_t u = s + 1; u <= t; u++) decayed[i] = gdn_mul(decayed[i], w->step[u][i]);
            }
            out[s] = gdn_dot32(x, decayed, n);
        }
        if (beta) out[s] = gdn_mul(out[s], *beta);
        if (w->gates == 1) out[s] = gdn_mul(out[s], between(w, s, t, 0));
    }
}

/* The line of a row for its products with the state, and the row's factor, decayed. */
static digits_t decayed_row(call_t *p, const chunk_t *w, const float *x, int32_t t, float *factor)
{
    float decayed[MAX_DIM] = { 0 };
    const int32_t channel = w->gates > 1;
    for (int32_t i = 0; i < p->head_dim_k; i++) decayed[i] = channel ? gdn_mul(x[i], w->gam[t][i]) : x[i];
    const digits_t line = line_of(decayed, p->head_dim_k, p->digits);
    *factor = channel ? left_factor(p, &line) : gdn_mul(w->gam[t][0], left_factor(p, &line));
    return line;
}

/* Token t of the chunk, token of_call of the call: its delta and its output. */
static void token(call_t *p, const gdn_sequence *q, int32_t h, int32_t t, int32_t of_call, chunk_t *w)
{
    const int32_t kappa = gdn_key_head(p, h), n = p->head_dim_k, s = q->s, first = q->first;
    const gdn_token_view *const read_key = (p->has & GDN_HAS_READ_KEY) ? &p->read_key : &p->k;
    float query[MAX_DIM], r[MAX_DIM], A[GDN_CHUNK], P[GDN_CHUNK], factor_R, factor_Q;
    load_key(p, &p->q, gdn_token_at(&p->q, s, first, of_call, kappa), query);
    load_key(p, read_key, gdn_token_at(read_key, s, first, of_call, kappa), r);
    const float beta = delta_factor(p, gdn_token_at(&p->beta, s, first, of_call, h));
    decayed_products(p, w, r, t, t - 1, &beta, A);
    decayed_products(p, w, query, t, t, NULL, P);
    const digits_t R = decayed_row(p, w, r, t, &factor_R), Q = decayed_row(p, w, query, t, &factor_Q);
    for (int32_t j = 0; j < p->head_dim_v; j++) {
        const float v = gdn_load_element(gdn_token_at(&p->v, s, first, of_call, h), p->v.dtype, j);
        float x = gdn_mul(beta, gdn_fma(-factor_R, column_dot(&R, &w->S_line[j], n, p->digits), v));
        float o = gdn_mul(factor_Q, column_dot(&Q, &w->S_line[j], n, p->digits));
        for (int32_t u = 0; u < t; u++) x = gdn_fma(-A[u], w->d[u][j], x);
        w->d[t][j] = x;
        for (int32_t u = 0; u <= t; u++) o = gdn_fma(P[u], w->d[u][j], o);
        o = gdn_mul(p->scale, o);
        gdn_store_elements(gdn_token_at(&p->result, s, first, of_call, h) +
                               (p->result.dtype == GDN_F32 ? 4 : 2) * (int64_t)j,
                           p->result.dtype, &o, 1);
    }
}

/* The chunk whose first token has position `from`. */
static void chunk(call_t *p, const gdn_sequence *q, int32_t h, int32_t from, chunk_t *w)
{
    load_tokens(p, q, h, from, w);
    prepare(p, w);
    for (int32_t j = 0; p->state.dtype == GDN_F32 && w->n > w->n_logged && j < p->head_dim_v; j++)
        w->S_line[j] = line_of(w->S[j], p->head_dim_k, p->digits);
    for (int32_t t = w->n_logged; t < w->n; t++) {
        token(p, q, h, t, from + t - q->position, w);
        if (q->row < 0 || from + t < gdn_chunked_base(p, *q)) continue;
        char *const entry = gdn_log_at(p, q->row, from + t);
        memcpy(entry + 4 * gdn_log_delta(p, h), w->d[t], 4 * (size_t)p->head_dim_v);
        memcpy(entry + 4 * gdn_log_decay(p, h), w->g[t], 4 * (size_t)w->gates);
    }
}

static void value_head(call_t *p, const gdn_sequence *q, int32_t h, chunk_t *w)
{
    const int32_t end = q->position + q->T;
    w->gates = p->gate == GDN_GATE_CHANNEL ? p->head_dim_k : 1;
    load_state(p, q, h, w);
    for (int32_t from = q->base_position;; from += GDN_CHUNK) {
        if (from == q->kept) store_state(p, q->commit, h, w);
        if (from > q->position) store_state(p, gdn_checkpoint_of(p, q->s, from - q->position - 1), h, w);
        if (from == end - end % GDN_CHUNK) store_state(p, gdn_chunked_target(p, *q), h, w);
        w->n = end - from < GDN_CHUNK ? end - from : GDN_CHUNK;
        w->n_logged = from < q->position ? q->position - from : 0;
        if (w->n_logged > w->n) w->n_logged = w->n;
        chunk(p, q, h, from, w);
        if (w->n < GDN_CHUNK) break;
        next_state(p, w);
    }
}

/* The keys of the call's tokens that the log keeps. */
static void log_keys(call_t *p, const gdn_sequence *q, int32_t kappa)
{
    float k[MAX_DIM];
    for (int32_t t = 0; q->row >= 0 && t < q->T; t++) {
        if (q->position + t < gdn_chunked_base(p, *q)) continue;
        load_key(p, &p->k, gdn_token_at(&p->k, q->s, q->first, t, kappa), k);
        memcpy(gdn_log_at(p, q->row, q->position + t) + 4 * gdn_log_key(p, kappa), k, 4 * (size_t)p->head_dim_k);
    }
}

void GDN_REF(chunked)(const gdn_gated_delta_net_call *p, int64_t item, void *scratch)
{
    const int32_t kappa = (int32_t)(item % p->n_heads_k);
    const gdn_sequence q = gdn_sequence_of(p, (int32_t)(item / p->n_heads_k));
    if (!gdn_has_work(q)) return;
    (void)lay_out(p, scratch);
    for (int32_t h = 0; h < p->n_heads_v; h++)
        if (gdn_key_head(p, h) == kappa) value_head(p, &q, h, scratch);
    log_keys(p, &q, kappa);
}
