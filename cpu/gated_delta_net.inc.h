/* gated_delta_net on the CPU: what all instruction sets share. A file gated_delta_net_<isa>.c includes the
 * vector vocabulary of its instruction set, then this file, and puts plan and run into its table entry.
 *
 * The arithmetic is that of reference/gated_delta_net.c, in one of three loop orders. All read a state once,
 * update it in cache or registers token by token, and write only the snapshots that were asked for:
 *
 *   rows     lanes run along the keys; for few tokens where keys are contiguous (STATE_VK). A row stays in
 *            registers, and memory is the limit: decode, and the verification of drafts.
 *   lines    lanes run across value columns; the same for states whose values are contiguous (STATE_KV).
 *   columns  lanes run across value columns of a state packed in L1; fma is the limit: prefill. Serves every
 *            size and both layouts.
 *
 * In each, one pass over the state per token does everything: it decays and updates an element, and takes
 * its product with this token's q and with the next token's k while it is in a register.
 *
 * An item is a sequence, a head and a group of value columns. Inside it, tokens go in chunks: what the tokens
 * of a chunk bring is made ready (float, aligned) once for all blocks of columns of the group. */
#include <stdbool.h>
#include <string.h>

#include "cpu/cpu.h"
#include "simd/elementary.inc.h"
#include "simd/typed.inc.h"
#include "numerics/elementary.h"


enum {
    CHUNK_TOKENS = 32,    /* q, k, v and out of a chunk: 64 KiB for 128 x 128, to stay in the L2 cache  */
    ROWS_MAX_TOKENS = 16, /* the longest sequence for which "rows" is not slower than "columns"         */
    LINES_MAX_TOKENS = 6, /* and "lines"                                                                */
    RUN_BYTES = 1 << 20,  /* of states, in a run of items where memory is the limit                    */
    MIN_GROUP = 32        /* value columns: a smaller item costs more in tokens made ready than it wins */
};

/* One head of one sequence, and the value columns of it that the item computes. */
typedef struct head_view {
    const gdn_gated_delta_net_problem *p;
    int32_t      s, h, key_head, first, n_tokens;
    int32_t      j0, n_columns;
    const float *source; /* the head's matrix in the slot to read; NULL = start from zero */
    int32_t      n;      /* head_dim_k                                                     */
    int32_t      pitch;  /* of rows of n floats in scratch                                 */
    bool         channel;
    const struct head_view *next; /* the item to come, or NULL */
} head_view;

/* Tokens made ready. */
typedef struct chunk {
    int32_t first, n_tokens; /* within the sequence                                                    */
    bool    more;            /* k, a and ak have one row more, of the token after the chunk            */
    float  *q, *k;           /* [token][pitch]                                                         */
    float  *a;               /* exp(g) per channel; GATE_CHANNEL only                                  */
    float  *ak;              /* what the state is read with: a * k; GATE_SCALAR: k itself              */
    float  *v, *out;         /* [token][group]: out is what scale is still to be applied to; not for columns */
    float  *kv;              /* [group]: what the state holds under the next chunk's first key         */
    int32_t group;           /* value columns per item, a multiple of 16                               */
    float   decay[CHUNK_TOKENS]; /* exp(g) per head; GATE_CHANNEL: 1, so that decay * kv is exactly kv */
    float   beta[CHUNK_TOKENS];
} chunk;

static int32_t min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t round_up(int32_t a, int32_t unit) { return (a + unit - 1) / unit * unit; }
static int32_t pitch_of(const gdn_gated_delta_net_problem *p) { return round_up(p->head_dim_k, 16); }

static void make_ready(float *dst, const char *src, int32_t dtype, int32_t first, int32_t n)
{
    int32_t      i = 0;
    const float *f = (const float *)(const void *)src + first;
    for (; dtype == GDN_F32 && i + GDN_VL <= n; i += GDN_VL) v_store(dst + i, v_load(f + i));
    for (; i < n; i += GDN_VL) v_store(dst + i, v_load_typed(src, dtype, first + i, min_i32(n - i, GDN_VL)));
}

static void copy_ready(float *dst, const float *src, int32_t pitch)
{
    for (int32_t i = 0; i < pitch; i += GDN_VL) v_store(dst + i, v_load(src + i));
}

/* k and, with a gate per channel, a and ak of a token, as row `row` of the chunk. */
static void chunk_fill_key(const chunk *c, const head_view *x, int32_t t, int64_t row)
{
    const gdn_gated_delta_net_problem *p = x->p;
    make_ready(c->k + row, gdn_token_at(&p->k, x->s, x->first, t, x->key_head), p->k.dtype, 0, x->n);
    if (!x->channel) return;
    const char *g = gdn_token_at(&p->g, x->s, x->first, t, x->h);
    for (int32_t i = 0; i < x->n; i += GDN_VL) {
        const vf a = v_exp(v_load_typed(g, GDN_F32, i, min_i32(x->n - i, GDN_VL)));
        v_store(c->a + row + i, a);
        v_store(c->ak + row + i, v_mul(a, v_load(c->k + row + i)));
    }
}

/* 2: the decay gate, for a whole chunk; and q, k and v as aligned floats. Rows of tokens lie far apart in
 * memory: copied one after another, they are waited for together and not one by one. */
static void chunk_fill(chunk *c, const head_view *x, int32_t first)
{
    const gdn_gated_delta_net_problem *p = x->p;
    const int64_t after = (int64_t)CHUNK_TOKENS * x->pitch; /* the row after a full chunk's last */
    c->first = first;
    c->n_tokens = min_i32(x->n_tokens - first, CHUNK_TOKENS);
    c->more = first + c->n_tokens < x->n_tokens;
    if (first > 0) { /* the chunk before has made it ready */
        copy_ready(c->k, c->k + after, x->pitch);
        if (x->channel) copy_ready(c->a, c->a + after, x->pitch);
        if (x->channel) copy_ready(c->ak, c->ak + after, x->pitch);
    }
    for (int32_t t = 0; t < c->n_tokens; t++) {
        const int64_t row = (int64_t)t * x->pitch;
        make_ready(c->q + row, gdn_token_at(&p->q, x->s, x->first, first + t, x->key_head), p->q.dtype, 0, x->n);
        if (t > 0 || first == 0) chunk_fill_key(c, x, first + t, row);
        make_ready(c->v + (int64_t)t * c->group, gdn_token_at(&p->v, x->s, x->first, first + t, x->h), p->v.dtype,
                   x->j0, x->n_columns);
        c->beta[t] = *(const float *)(const void *)gdn_token_at(&p->beta, x->s, x->first, first + t, x->h);
        c->decay[t] = 1.0f;
        if (!x->channel)
            c->decay[t] = gdn_expf(*(const float *)(const void *)gdn_token_at(&p->g, x->s, x->first, first + t, x->h));
    }
    if (c->more) chunk_fill_key(c, x, first + c->n_tokens, after);
}

GDN_INLINE void prefetch_bytes(const char *row, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i += 64) v_prefetch(row + i);
}

/* `count` rows, `step` bytes apart. */
typedef struct ahead_rows {
    const char *at;
    int64_t     step, bytes;
    int32_t     count;
} ahead_rows;

/* What will be read and written next, for one of n_turns blocks of columns: the tokens of the next chunk or, where this
 * is the last, those of the next item's first chunk and the states of its block of columns. Row t of each is asked for
 * with token t of this chunk, so that they come in while there is work to do. Returns how many rows there are. */
enum { AHEAD_ROWS = 6 };
static int32_t chunk_ahead(const chunk *c, const head_view *x, int32_t turn, int32_t n_turns, ahead_rows *rows)
{
    const gdn_gated_delta_net_problem *p = x->p;
    const gdn_token_view *const view[] = {&p->q, &p->k, &p->v, &p->out, &p->g};
    const head_view *to = c->more ? x : x->next;
    const int32_t    first = c->more ? c->first + c->n_tokens : 0, n_views = x->channel ? 5 : 4;
    int32_t          count = 0;
    if (!to) return 0;
    for (int32_t i = turn; i < n_views; i += n_turns > 1 ? n_turns : 1) {
        const int64_t size = view[i]->dtype == GDN_F32 ? 4 : 2;
        const bool    values = i == 2 || i == 3;
        const char   *at = gdn_token_at(view[i], to->s, to->first, first, i < 2 ? to->key_head : to->h);
        rows[count++] = (ahead_rows){at + (values ? size * to->j0 : 0), view[i]->stride_token,
                                     size * (values ? to->n_columns : to->n), min_i32(to->n_tokens - first, CHUNK_TOKENS)};
    }
    if (!c->more && to->source && p->state_layout == GDN_STATE_VK) {
        const int32_t n = to->n_columns / (n_turns > 1 ? n_turns : 1);
        const float  *lines = to->source + (to->j0 + turn * n) * (p->state_in.stride_line / 4);
        rows[count++] = (ahead_rows){(const char *)lines, p->state_in.stride_line, 4 * (int64_t)to->n, n};
    }
    return count;
}

/* 6: the outputs of a chunk, of which c->out holds the sums. */
static void chunk_output(const chunk *c, const head_view *x)
{
    const vf scale = v_set1(x->p->scale);
    for (int32_t t = 0; t < c->n_tokens; t++) {
        float *out = (float *)(void *)gdn_token_at(&x->p->out, x->s, x->first, c->first + t, x->h) + x->j0;
        for (int32_t j = 0; j < x->n_columns; j += GDN_VL) {
            const vf o = v_mul(scale, v_load(c->out + (int64_t)t * c->group + j));
            if (x->n_columns - j >= GDN_VL) v_store(out + j, o);
            else v_store_n(out + j, o, x->n_columns - j);
        }
    }
}

/* Where the state after token t goes, or NULL. */
static float *snapshot_of(const head_view *x, int32_t t)
{
    const int32_t r = x->n_tokens - 1 - t;
    if (r >= x->p->n_snapshots) return NULL;
    const int32_t entry = gdn_state_dst_at(x->p, x->s, r);
    return entry < 0 ? NULL : (float *)(void *)gdn_state_at(&x->p->state_out, entry, x->h);
}

/* The same for tokens [t, t + n). Says whether to write them past the caches: lines that are written whole
 * and are not in cache anyway, as those of the slot that is read are, need not be fetched first. */
static bool snapshots_of(const head_view *x, int32_t t, int32_t n, float **snapshot)
{
    const uint64_t line = 4 * (uint64_t)(x->p->state_layout == GDN_STATE_KV ? x->p->head_dim_v : x->n);
    bool           elsewhere = false, whole = (line | (uint64_t)x->p->state_out.stride_line) % 64 == 0;
    for (int32_t i = 0; i < n; i++) {
        snapshot[i] = snapshot_of(x, t + i);
        elsewhere |= snapshot[i] && snapshot[i] != x->source;
        whole &= (uintptr_t)snapshot[i] % 64 == 0;
    }
    return elsewhere && whole;
}

/* 4: the delta d of GDN_VL value columns from j on, given what the state holds under k. */
GDN_INLINE vf delta(const chunk *c, int32_t t, int32_t j, vf kv)
{
    const vf v = v_load(c->v + t * c->group + j);
    return v_mul(v_set1(c->beta[t]), v_sub(v, v_mul(v_set1(c->decay[t]), kv)));
}

#include "cpu/gated_delta_net_rows.inc.h"
#include "cpu/gated_delta_net_columns.inc.h"
#include "cpu/gated_delta_net_lines.inc.h"

/* ---- Items ------------------------------------------------------------------------------------------ */

/* Columns per item: a whole head, or less of it where that leaves threads without work. */
static int32_t group_of(const gdn_gated_delta_net_problem *p, int32_t n_threads)
{
    const int64_t heads = (int64_t)p->n_seqs * p->n_heads_v;
    int32_t       group = round_up(p->head_dim_v, MIN_GROUP);
    while (group > MIN_GROUP && heads * ((p->head_dim_v + group - 1) / group) < 4 * (int64_t)n_threads)
        group = round_up(group / 2, MIN_GROUP);
    return group;
}

/* How many neighbours a thread takes at once. Where memory is the limit, what prefetchers fetch beyond the end of a
 * run is taken from the thread that works there, so runs are long, as far as every thread still gets one. Elsewhere an
 * item fetches what the next of its run begins with. */
static int64_t run_of_items(const gdn_gated_delta_net_problem *p, int32_t group, int64_t n_items, int32_t n_threads,
                            bool memory)
{
    const int64_t share = (n_items + n_threads - 1) / n_threads;
    int64_t       run = memory ? RUN_BYTES / (4 * (int64_t)p->head_dim_k * group) : 1;
    if (run < share / 8) run = share / 8;
    if (run > share || n_threads == 1) run = share;
    return run > 1 ? run : 1;
}

static void plan(const gdn_gated_delta_net_problem *p, int32_t n_threads, gdn_plan *plan)
{
    const int32_t group = group_of(p, n_threads), pitch = pitch_of(p);
    const int32_t n_tokens = p->n_seqs ? (int32_t)(((int64_t)p->n_tokens + p->n_seqs - 1) / p->n_seqs) : 0;
    const bool    rows = rows_serves(p, n_tokens), lines = lines_serves(p, n_tokens);
    const int64_t tokens = min_i32(p->n_tokens, CHUNK_TOKENS), keys = tokens + 1;
    const int64_t for_columns = (int64_t)round_up(p->head_dim_k, 32) * group, for_lines = lines_scratch(pitch, group);
    const int64_t state = for_columns > for_lines ? for_columns : for_lines;

    plan->n_items = (int64_t)p->n_seqs * p->n_heads_v * ((p->head_dim_v + group - 1) / group);
    plan->grain = run_of_items(p, group, plan->n_items, n_threads, rows || lines);
    plan->scratch_bytes = 4 * (uint64_t)((tokens + keys * (p->gate == GDN_GATE_CHANNEL ? 3 : 1)) * pitch + (2 * tokens + 1) * group + state);
    plan->cut = group;
    plan->form = rows ? "rows" : lines ? "lines" : "columns";
}

/* False where there is nothing to do. */
static bool view_item(const gdn_gated_delta_net_problem *p, int32_t group, int64_t item, head_view *x)
{
    const int32_t n_groups = (p->head_dim_v + group - 1) / group;
    const int32_t s = (int32_t)(item / n_groups / p->n_heads_v);
    const int32_t source = gdn_state_src_at(p, s);
    *x = (head_view){.p = p, .s = s, .h = (int32_t)(item / n_groups % p->n_heads_v)};
    x->n_tokens = gdn_seq_length(&p->seq_start, p->n_seqs, p->n_tokens, s);
    if (x->n_tokens == 0 || source == GDN_SKIP) return false;
    x->key_head = gdn_key_head(p, x->h);
    x->first = gdn_seq_first(&p->seq_start, p->n_seqs, p->n_tokens, s);
    x->j0 = (int32_t)(item % n_groups) * group;
    x->n_columns = min_i32(group, p->head_dim_v - x->j0);
    x->source = source < 0 ? NULL : (const float *)(const void *)gdn_state_at(&p->state_in, source, x->h);
    x->n = p->head_dim_k;
    x->pitch = pitch_of(p);
    x->channel = p->gate == GDN_GATE_CHANNEL;
    return true;
}

static void run_item(const head_view *view, int32_t group, float *scratch)
{
    const gdn_gated_delta_net_problem *p = view->p;
    const head_view x = *view;
    chunk           c;
    const int32_t n_tokens = min_i32(p->n_tokens, CHUNK_TOKENS), n_keys = n_tokens + 1;
    c.group = group;
    c.q = scratch;
    c.k = c.q + n_tokens * x.pitch;
    c.a = c.k + n_keys * x.pitch;
    c.ak = x.channel ? c.a + n_keys * x.pitch : c.k;
    c.v = c.ak + n_keys * x.pitch;
    c.out = c.v + n_tokens * group;
    c.kv = c.out + n_tokens * group;
    float *state = c.kv + group;

    const bool by_rows = rows_serves(p, x.n_tokens), by_lines = lines_serves(p, x.n_tokens);
    if (by_rows && rows_decode_serves(&x)) {
        rows_decode(&x, c.v);
        return;
    }
    for (int32_t first = 0; first < x.n_tokens; first += CHUNK_TOKENS) {
        chunk_fill(&c, &x, first);
        if (by_rows) rows(&x, &c);
        else if (by_lines) lines(&x, &c, state);
        else columns(&x, &c, state);
        if (by_rows || by_lines) chunk_output(&c, &x);
    }
}

static void run(const gdn_gated_delta_net_problem *p, const gdn_plan *plan, int64_t first, int64_t last, void *scratch)
{
    head_view view[2];
    bool      any = view_item(p, plan->cut, first, &view[first & 1]);
    for (int64_t item = first; item < last; item++) {
        head_view *x = &view[item & 1], *next = &view[(item + 1) & 1];
        const bool any_next = item + 1 < last && view_item(p, plan->cut, item + 1, next);
        x->next = any_next ? next : NULL;
        if (any) run_item(x, plan->cut, scratch);
        any = any_next;
    }
    v_fence(); /* for v_stream() */
}
