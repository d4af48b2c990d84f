/* gated_delta_net by rows, in groups, for calls with a log. Such a call writes few states or none, so it is bound by
 * arithmetic.
 *
 * A group of GROUP_ROWS value rows is read once and stays in the L1 cache for all tokens of the call. An element needs
 * four operations per token; the order saves everything else:
 *   - ROWS_ALONG rows are processed together, so that one load of k or q serves them all.
 *   - v_sums() does the horizontal part of the tree for all rows of a group at once. Its result has a lane for each
 *     row, which is the order of d and out.
 * States that are written are copied from the cache. If writing them is most of the work, gated_delta_net_rows.inc.h
 * distributes it better.
 *
 * Log entries are replayed while a part of the rows is in registers, on its way into the L1 cache.
 *
 * Each token prefetches a part of the next rows, spread over its work. The first prefetch is into the L2 cache, which
 * can wait for more lines at once; a later one is into L1. */
#ifndef GDN_CPU_GATED_DELTA_NET_GROUPS_INC_H
#define GDN_CPU_GATED_DELTA_NET_GROUPS_INC_H

#include "cpu/gated_delta_net_log.inc.h"
#include "cpu/gated_delta_net_rows.inc.h"

enum {
    GROUP_ROWS = GDN_VL,
    ROWS_ALONG = GDN_VL == 8 ? 2 : 4, /* rows that are processed together: four if there are 32 registers */
    GROUP_STEPS = 4,                  /* steps of 32 keys that are in registers together while a state is loaded */
    GROUP_AHEAD = 2 * GROUP_ROWS      /* prefetch distance in rows */
};

/* The rows of a group. If fewer are left than a group has, the last row fills the rest; results of these copies are not
 * stored. */
typedef struct row_group {
    int32_t r, n_rows; /* of those of the item                */
    float *state;      /* scratch, [row][n]                   */
    vf kv;             /* dot of the rows and the next k */
    float d[GROUP_ROWS];
} row_group;

/* What the next item reads first: rows of its tokens and log entries. Each token prefetches a part of one row of each.
 * */
typedef struct group_next {
    ahead_rows rows[AHEAD_ROWS + 3];
    int32_t n, n_groups;
} group_next;

static group_next group_next_of(const head_view *x, const chunk *c)
{
    const head_view *next = x->next;
    group_next to = { .n_groups = (x->n_columns + GROUP_ROWS - 1) / GROUP_ROWS };
    if (!next) return to;
    to.n = min_i32(chunk_ahead(c, x, 0, 1, to.rows), x->channel ? 5 : 4); /* without its state, prefetched by groups */
    if (next->n_replay) {
        const log_walk log = log_walk_of(next);
        to.rows[to.n++] = (ahead_rows){ (const char *)(log.first + log.k), 4 * log.step, 4 * (int64_t)x->n, log.count };
        to.rows[to.n++] =
            (ahead_rows){ (const char *)(log.first + log.d), 4 * log.step, 4 * (int64_t)next->n_columns, log.count };
    }
    if (next->log_row >= 0)
        to.rows[to.n++] = (ahead_rows){ (const char *)log_deltas(next, 0), x->p->log.stride_slot,
                                        4 * (int64_t)next->n_columns, next->n_tokens };
    for (int32_t i = 0; i < to.n; i++) to.rows[i].bytes = (to.rows[i].bytes / to.n_groups + 63) / 64 * 64; /* a part */
    return to;
}

GDN_INLINE void group_next_ahead(const group_next *next, int32_t t, int32_t group)
{
    for (int32_t i = 0; i < next->n; i++) {
        const ahead_rows *row = &next->rows[i];
        if (t < row->count) prefetch_bytes(row->at + t * row->step + group * row->bytes, 0, row->bytes);
    }
}

/* One pass along rows [m, m + ROWS_ALONG) of a group. */
typedef struct group_walk {
    const rows_block *b;
    const log_walk *log; /* load the state and replay these entries; NULL = update the state */
    const row_group *g;
    const float *q, *k, *a, *read;
    float decay;
    int32_t m;
} group_walk;

/* The compile-time constants of a pass. */
typedef struct group_form {
    int32_t n; /* keys */
    bool channel;
    bool next; /* read the next token's kv too */
} group_form;

/* Sums over some of the keys, for each of the ROWS_ALONG rows. */
typedef struct group_sums {
    vf q[ROWS_ALONG], k[ROWS_ALONG];
} group_sums;

GDN_INLINE group_sums group_sums_zero(void)
{
    group_sums sum;
    for (int m = 0; m < ROWS_ALONG; m++) sum.q[m] = sum.k[m] = v_zero();
    return sum;
}

GDN_INLINE group_sums group_sums_add(group_sums a, group_sums b)
{
    for (int m = 0; m < ROWS_ALONG; m++) {
        a.q[m] = v_add(a.q[m], b.q[m]);
        a.k[m] = v_add(a.k[m], b.k[m]);
    }
    return a;
}

/* 1: load state and replay the log, and 3: read kv. Processes the keys whose products make the partial sums of vector
 * j. Vectors beyond n are left out and not multiplied by zeros: p + 0 * 0 is +0 where p is -0. */
GDN_INLINE group_sums group_load_part(const group_walk *x, group_form form, int j)
{
    const log_walk w = *x->log;
    group_sums sum = group_sums_zero();
    int64_t row[ROWS_ALONG];
    float *state = x->g->state + x->m * form.n;
    for (int m = 0; m < ROWS_ALONG; m++) row[m] = x->g->r + min_i32(x->m + m, x->g->n_rows - 1);
#pragma GCC unroll 8
    for (int32_t i0 = j * GDN_VL; i0 < form.n; i0 += 32 * GROUP_STEPS) {
        vf s[GROUP_STEPS][ROWS_ALONG];
        int32_t key[GROUP_STEPS]; /* clamped: the last keys fill the rest */
#pragma GCC unroll 4
        for (int step = 0; step < GROUP_STEPS; step++) {
            key[step] = min_i32(i0 + 32 * step, form.n - GDN_VL);
            for (int m = 0; m < ROWS_ALONG; m++)
                s[step][m] = v_load_typed(x->b->from + row[m] * x->b->from_pitch, GDN_F32, key[step], GDN_VL);
        }
        const float *entry = w.first;
        for (int32_t column = 0; column < w.count; column++, entry = log_next(&w, entry)) {
            vf d[ROWS_ALONG];
            const vf decay = v_set1(entry[w.a]);
            for (int m = 0; m < ROWS_ALONG; m++) d[m] = v_set1(entry[w.d + row[m]]);
#pragma GCC unroll 4
            for (int step = 0; step < GROUP_STEPS; step++) {
                const vf k = v_load(entry + w.k + key[step]),
                         a = form.channel ? v_load(entry + w.a + key[step]) : decay;
                for (int m = 0; m < ROWS_ALONG; m++) s[step][m] = v_fma(k, d[m], v_mul(a, s[step][m]));
            }
        }
#pragma GCC unroll 4
        for (int step = 0; step < GROUP_STEPS; step++) {
            const int32_t i = i0 + 32 * step;
            if (i >= form.n) continue;
            for (int m = 0; m < ROWS_ALONG; m++) {
                v_store(state + m * form.n + i, s[step][m]);
                if (form.next) sum.k[m] = v_fma(s[step][m], v_load(x->read + i), sum.k[m]);
            }
        }
    }
    return sum;
}

/* 5: update, with 6: the sums of the output and 3: the next token's kv. */
GDN_INLINE group_sums group_update_part(const group_walk *x, group_form form, int j)
{
    const vf decay = v_set1(x->decay);
    group_sums sum = group_sums_zero();
    float *state = x->g->state + x->m * form.n;
    vf d[ROWS_ALONG];
    for (int m = 0; m < ROWS_ALONG; m++) d[m] = v_set1(x->g->d[x->m + m]);
#pragma GCC unroll 8
    for (int32_t i = j * GDN_VL; i < form.n; i += 32) {
        const vf a = form.channel ? v_load(x->a + i) : decay, k = v_load(x->k + i), q = v_load(x->q + i);
        const vf read = form.next ? v_load(x->read + i) : k;
        for (int m = 0; m < ROWS_ALONG; m++) {
            float *at = state + m * form.n + i;
            const vf s = v_fma(k, d[m], v_mul(a, v_load(at)));
            v_store(at, s);
            sum.q[m] = v_fma(s, q, sum.q[m]);
            if (form.next) sum.k[m] = v_fma(s, read, sum.k[m]);
        }
    }
    return sum;
}

/* A pass with the tree over the vectors of partial sums. Each tree step runs as soon as both of its terms exist. */
GDN_INLINE group_sums group_walk_run(const group_walk *x, group_form form)
{
#define GROUP_PART(j) (x->log ? group_load_part(x, form, (j)) : group_update_part(x, form, (j)))
#define GROUP_TWO(j)  group_sums_add(GROUP_PART(j), GROUP_PART((j) + PARTS / 2))
    if (PARTS == 2) return GROUP_TWO(0);
    const group_sums even = GROUP_TWO(0);
    if (PARTS == 4) return group_sums_add(even, GROUP_TWO(1));
    const group_sums all_even = group_sums_add(even, GROUP_TWO(2)), odd = GROUP_TWO(1);
    return group_sums_add(all_even, group_sums_add(odd, GROUP_TWO(3)));
#undef GROUP_TWO
#undef GROUP_PART
}

/* Stores rows [m, m + ROWS_ALONG) of a group to a state that is kept. */
GDN_INLINE void group_keep(const rows_block *b, const row_group *g, int32_t m, int32_t n, char *to, bool stream)
{
    const int32_t last = min_i32(m + ROWS_ALONG, g->n_rows);
    for (; m < last; m++) {
        float *const row = (float *)(void *)(to + (g->r + m) * b->to_pitch);
        const float *const s = g->state + m * n;
        if (stream)
#pragma GCC unroll 8
            for (int32_t i = 0; i < n; i += GDN_VL) v_stream(row + i, v_load(s + i));
        else
#pragma GCC unroll 8
            for (int32_t i = 0; i < n; i += GDN_VL) v_store(row + i, v_load(s + i));
    }
}

/* 1: load state, replay the log, commit. */
GDN_INLINE void group_load(const rows_block *b, const log_walk *log, row_group *g, group_form form)
{
    vf part_k[GROUP_ROWS];
    group_walk x = { .b = b, .log = log, .g = g, .read = b->c->ak };
    for (; x.m < GROUP_ROWS; x.m += ROWS_ALONG) {
        const group_sums sum = group_walk_run(&x, form);
        for (int m = 0; m < ROWS_ALONG; m++) part_k[x.m + m] = sum.k[m];
        if (b->commit) group_keep(b, g, x.m, form.n, b->commit, b->commit_streams);
    }
    if (form.next) g->kv = v_sums(part_k);
}

/* Prefetches a part of some rows that are loaded after this group. */
GDN_INLINE void group_ahead(const char *row, int64_t pitch, int32_t n)
{
    const char *const far = row + (GROUP_AHEAD - GROUP_ROWS) * pitch;
    for (int32_t i = 0; i < n; i += 64)
        for (int m = 0; m < ROWS_ALONG; m++) {
            v_prefetch_l2(far + m * pitch + i);
            v_prefetch(row + m * pitch + i);
        }
}

GDN_INLINE void group_token(const rows_block *b, const group_next *next, row_group *g, int32_t t, group_form form)
{
    const chunk *c = b->c;
    const int64_t row = (int64_t)t * b->pitch;
    const vf d = delta(c, t, g->r, g->kv); /* 4: delta d */
    vf part_q[GROUP_ROWS], part_k[GROUP_ROWS];
    group_walk x = { .b = b,
                     .g = g,
                     .q = c->q + row,
                     .k = c->k + row,
                     .a = c->a + row,
                     .read = c->ak + row + b->pitch,
                     .decay = c->decay[t] };
    v_store(g->d, d);
    group_next_ahead(next, t, g->r / GROUP_ROWS);
    const char *ahead = b->from + (g->r + GROUP_ROWS) * b->from_pitch + t * b->ahead;
    if (b->log_d[t]) v_store_some(b->log_d[t] + g->r, d, g->n_rows);
    for (; x.m < GROUP_ROWS; x.m += ROWS_ALONG) {
        group_ahead(ahead, b->from_pitch, b->ahead);
        ahead += ROWS_ALONG * b->from_pitch;
        const group_sums sum = group_walk_run(&x, form);
        for (int m = 0; m < ROWS_ALONG; m++) {
            part_q[x.m + m] = sum.q[m];
            part_k[x.m + m] = sum.k[m];
        }
        if (b->to[t]) group_keep(b, g, x.m, form.n, b->to[t], b->stream[t]); /* 7: snapshot */
    }
    if (form.next) g->kv = v_sums(part_k);
    v_store(c->out + (int64_t)t * c->group + g->r, v_sums(part_q));
}

/* Runs all tokens for all rows, group by group. */
GDN_INLINE void groups_run(const rows_block *b, const log_walk *log, const group_next *next, float *state, int32_t n,
                           bool channel)
{
    const int32_t last = b->c->n_tokens - 1;
    const group_form form = { .n = n, .channel = channel, .next = true }, at_last = { .n = n, .channel = channel };
    row_group g = { .state = state };
    for (; g.r < b->n_rows; g.r += GROUP_ROWS) {
        g.n_rows = min_i32(GROUP_ROWS, b->n_rows - g.r);
        if (last < 0) group_load(b, log, &g, at_last);
        else group_load(b, log, &g, form);
        for (int32_t t = 0; t < last; t++) group_token(b, next, &g, t, form);
        if (last >= 0) group_token(b, next, &g, last, at_last);
    }
}

/* Runs all tokens of a sequence, which fit one chunk. One compiled version for each group_form; n is a constant for
 * common sizes. */
static void groups(const head_view *x, const chunk *c, float *state)
{
    static const float zeros[256];
    const log_walk log = log_walk_of(x);
    const group_next next = group_next_of(x, c);
    rows_block b = rows_block_of(x, c);
    if (!b.from) b.from = (const char *)zeros, b.from_pitch = 0;
    if (x->channel && x->n == 128) groups_run(&b, &log, &next, state, 128, true);
    else if (x->n == 128) groups_run(&b, &log, &next, state, 128, false);
    else groups_run(&b, &log, &next, state, x->n, x->channel);
}

#endif
