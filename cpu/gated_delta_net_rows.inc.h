/* gated_delta_net by rows: lanes run along the keys of a value row. Part of gated_delta_net.inc.h.
 *
 * A row stays in registers for all tokens of the call: it is read once, and each token writes one snapshot
 * of it. Two rows go together, so that one has work while the other waits for its sums; beyond that, rows
 * are independent and the processor overlaps them. Memory is then asked for evenly and in order, which is
 * what its prefetchers follow best (prefetching by instructions was measured to be slower: it can only keep
 * as many lines in flight as the L1 cache has miss buffers). */

enum {
    PARTS = 32 / GDN_VL, /* registers for the 32 partial sums of a dot product */
    ROWS_TOGETHER = 2
};

static bool rows_serves(const gdn_gated_delta_net_problem *p, int32_t n_tokens)
{
    return p->state_layout == GDN_STATE_VK && p->head_dim_k % GDN_VL == 0 && n_tokens <= ROWS_MAX_TOKENS;
}

/* The rows of an item. */
typedef struct rows_block {
    const chunk *c;
    const float *from; /* the state to read; NULL = zero */
    int64_t      from_pitch, to_pitch, pitch;
    int32_t      n;
    float       *to[ROWS_MAX_TOKENS]; /* where the state after each token goes; NULL = nowhere */
} rows_block;

/* The tree over partial sums. */
GDN_INLINE float parts_sum(vf part[PARTS])
{
    for (int h = PARTS / 2; h > 0; h /= 2)
        for (int j = 0; j < h; j++) part[j] = v_add(part[j], part[j + h]);
    return v_sum(part[0]);
}

/* One token for rows [r, r + count), whose state is s. kv: what it holds under k, then under the next k. */
GDN_INLINE void rows_token(rows_block *b, int32_t r, int32_t t, int32_t n, int count, bool channel, bool stream,
                           bool next, vf s[][256 / GDN_VL], float *kv)
{
    const int64_t row = (int64_t)t * b->pitch;
    const float  *q = b->c->q + row, *k = b->c->k + row, *a = b->c->a + row, *read = b->c->ak + row + b->pitch;
    const float  *v = b->c->v + (int64_t)t * b->c->group + r;
    float        *out = b->c->out + (int64_t)t * b->c->group + r;
    const float   decay = b->c->decay[t], beta = b->c->beta[t];
    float        *to = b->to[t] ? b->to[t] + r * b->to_pitch : NULL;
    vf            part_q[ROWS_TOGETHER][PARTS], part_k[ROWS_TOGETHER][PARTS], d[ROWS_TOGETHER];
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
                s[m][i / GDN_VL] = x = v_fma(v_load(k + i), d[m], x);            /* 5: update     */
                part_q[m][j] = v_fma(x, v_load(q + i), part_q[m][j]);            /* 6: output     */
                if (next) part_k[m][j] = v_fma(x, v_load(read + i), part_k[m][j]); /* 3: the next kv */
            }
        }
    }
    for (int m = 0; to && m < count; m++) { /* 7: snapshot */
#pragma GCC unroll 32
        for (int32_t i = 0; i < n; i += GDN_VL) {
            if (stream) v_stream(to + m * b->to_pitch + i, s[m][i / GDN_VL]);
            else v_store(to + m * b->to_pitch + i, s[m][i / GDN_VL]);
        }
    }
    for (int m = 0; m < count; m++) {
        out[m] = parts_sum(part_q[m]);
        if (next) kv[m] = parts_sum(part_k[m]);
    }
}

/* All tokens for rows [r, r + count). Vectors beyond n are left out and not multiplied by zeros: p + 0 * 0
 * is +0 where p is -0. */
GDN_INLINE void rows_tokens(rows_block *b, int32_t r, int32_t n, int count, bool channel, bool stream)
{
    const int32_t last = b->c->n_tokens - 1;
    vf            s[ROWS_TOGETHER][256 / GDN_VL], part[ROWS_TOGETHER][PARTS];
    float         kv[ROWS_TOGETHER];
    for (int m = 0; m < count; m++)
        for (int j = 0; j < PARTS; j++) part[m][j] = v_zero();
    for (int m = 0; m < count; m++) {
        const float *from = b->from ? b->from + (r + m) * b->from_pitch : NULL;
#pragma GCC unroll 8
        for (int32_t i0 = 0; i0 < n; i0 += 32) {
            for (int j = 0; j < PARTS; j++) {
                const int32_t i = i0 + j * GDN_VL;
                if (i >= n) continue;
                s[m][i / GDN_VL] = from ? v_load(from + i) : v_zero();                          /* 1: load state */
                part[m][j] = v_fma(s[m][i / GDN_VL], v_load(b->c->ak + i), part[m][j]);         /* 3: read kv    */
            }
        }
    }
    for (int m = 0; m < count; m++) kv[m] = parts_sum(part[m]);
    for (int32_t t = 0; t < last; t++) rows_token(b, r, t, n, count, channel, stream, true, s, kv);
    rows_token(b, r, last, n, count, channel, stream, false, s, kv);
}

GDN_INLINE void rows_block_run(rows_block *b, int32_t n_rows, int32_t n, bool channel, bool stream)
{
    int32_t r = 0;
    for (; r + ROWS_TOGETHER <= n_rows; r += ROWS_TOGETHER) rows_tokens(b, r, n, ROWS_TOGETHER, channel, stream);
    for (; r < n_rows; r++) rows_tokens(b, r, b->n, 1, channel, stream);
}

/* One compiled version for each form; n as a constant where it is a common one. */
static void rows_block_any(rows_block *b, int32_t n_rows, bool channel, bool stream)
{
    switch ((b->n == 128) * 4 + channel * 2 + stream) {
    case 0: rows_block_run(b, n_rows, b->n, 0, 0); break;
    case 1: rows_block_run(b, n_rows, b->n, 0, 1); break;
    case 2: rows_block_run(b, n_rows, b->n, 1, 0); break;
    case 3: rows_block_run(b, n_rows, b->n, 1, 1); break;
    case 4: rows_block_run(b, n_rows, 128, 0, 0); break;
    case 5: rows_block_run(b, n_rows, 128, 0, 1); break;
    case 6: rows_block_run(b, n_rows, 128, 1, 0); break;
    case 7: rows_block_run(b, n_rows, 128, 1, 1); break;
    default: break;
    }
}

/* All tokens of a sequence, which fit one chunk. */
static void rows(const head_view *x, const chunk *c)
{
    float     *snapshot[ROWS_MAX_TOKENS];
    const bool stream = snapshots_of(x, 0, c->n_tokens, snapshot);
    rows_block b = {.c = c, .n = x->n, .pitch = x->pitch};
    b.from_pitch = x->p->state_in.stride_line / 4;
    b.to_pitch = x->p->state_out.stride_line / 4;
    b.from = x->source ? x->source + x->j0 * b.from_pitch : NULL;
    for (int32_t t = 0; t < c->n_tokens; t++) b.to[t] = snapshot[t] ? snapshot[t] + x->j0 * b.to_pitch : NULL;
    rows_block_any(&b, x->n_columns, x->channel, stream);
}
