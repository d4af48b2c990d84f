/* Plans GATED_DELTA_NET with the nodes around it in llama.cpp: before it GET_ROWS of the cache, after it CPY of new
 * states and snapshots into the cache. If both can be skipped, states are updated in the cache itself.
 *
 * ggml's operator:  q, k [S, Hk, T, B]   v [S, Hv, T, B]   g [1 or S, Hv, T, B]   beta [1, Hv, T, B]
 *                   state [S, S, Hv, B], keys contiguous   K = op_params[0]
 *                   result: [S, Hv, T, B], then for each snapshot r < K, newest first, [S, S, Hv, B] */
#include "engine.h"

#include <math.h>

/* State elements times tokens. Below this the work takes a few microseconds, and distributing it costs more than it
 * saves: measured on the shipped model, with 16 Ki per sequence and layer. */
enum { WORTH = 32 * 1024 };

/* Destination of snapshot r of sequence b: data + r * by_snapshot + b * by_sequence. data NULL: not written. */
typedef struct target {
    char *data;
    size_t by_snapshot, by_sequence;
} target;

/* The copies after the operator. */
typedef struct copies {
    int n, nodes[MAX_COPIES];
    target to[MAX_COPIES];           /* by snapshot; by_snapshot is unused */
    const struct ggml_tensor *cache; /* the destination of all copies */
} copies;

typedef struct shape {
    int64_t dim, heads_k, heads_v, tokens, seqs,
        slots; /* slots: of the result; the newest min(slots, tokens) are written */
    bool kda;
} shape;

static bool rows_fit(const struct ggml_tensor *t, const shape *s, int64_t heads)
{
    return t->type == GGML_TYPE_F32 && t->ne[0] == s->dim && t->ne[1] == heads && t->ne[2] == s->tokens &&
           t->ne[3] == s->seqs && t->nb[0] == 4 && t->nb[1] && t->nb[2] && t->nb[3] && t->nb[1] % 4 == 0 &&
           t->nb[2] % 4 == 0 && t->nb[3] % 4 == 0;
}

static gdn_tensor tokens_of(const struct ggml_tensor *t)
{
    return (gdn_tensor){ .data = t->data, .stride = { (int64_t)t->nb[3], (int64_t)t->nb[2], (int64_t)t->nb[1] } };
}

/* Describes a node as arguments. false: libgdn does not support its form. */
static bool describe(const struct ggml_tensor *node, shape *s, gdn_gated_delta_net_args *a)
{
    struct ggml_tensor *const *src = node->src;
    *s = (shape){ .dim = src[2]->ne[0],
                  .heads_k = src[0]->ne[1],
                  .heads_v = src[2]->ne[1],
                  .tokens = src[2]->ne[2],
                  .seqs = src[2]->ne[3],
                  .slots = ggml_get_op_params_i32(node, 0),
                  .kda = src[3]->ne[0] != 1 };
    if (s->dim < 16 || s->dim > 256 || s->heads_v % s->heads_k || s->tokens * s->seqs > INT32_MAX) return false;
    if (!rows_fit(src[0], s, s->heads_k) || !rows_fit(src[1], s, s->heads_k) || !rows_fit(src[2], s, s->heads_v))
        return false;
    if (!ggml_is_contiguous(src[3]) || !ggml_is_contiguous(src[4]) || !ggml_is_contiguous(src[5])) return false;
    for (int i = 0; i < 6; i++)
        if (!src[i]->data) return false;

    *a = (gdn_gated_delta_net_args)GDN_INIT(gdn_gated_delta_net_args);
    a->n_seqs = (int32_t)s->seqs;
    a->n_tokens = (int32_t)(s->seqs * s->tokens);
    a->n_heads_k = (int32_t)s->heads_k;
    a->n_heads_v = (int32_t)s->heads_v;
    a->head_dim_k = a->head_dim_v = (int32_t)s->dim;
    a->head_map = GDN_HEADS_TILED;
    a->gate = s->kda ? GDN_GATE_CHANNEL : GDN_GATE_SCALAR;
    a->state_layout = GDN_STATE_VK;
    a->scale = (float)(1.0 / sqrt((double)s->dim));
    a->q = tokens_of(src[0]);
    a->k = tokens_of(src[1]);
    a->v = tokens_of(src[2]);
    a->g = tokens_of(src[3]);
    a->beta = tokens_of(src[4]);
    a->out = (gdn_tensor){ .data = node->data };
    return true;
}

/* The destination of a copy of `rows` rows of `row` floats, `seqs` of them per snapshot. */
static bool rows_of_copy(const struct ggml_tensor *to, int64_t row, int64_t rows, int64_t seqs, target *t)
{
    if (to->type != GGML_TYPE_F32 || ggml_nelements(to) != row * rows || !to->data) return false;
    *t = (target){ .data = to->data, .by_sequence = (size_t)row * 4, .by_snapshot = (size_t)(row * seqs) * 4 };
    if (ggml_is_contiguous(to)) return true;
    if (to->ne[0] != row || to->nb[0] != 4 || to->ne[3] != 1) return false;
    *t = (target){ .data = to->data, .by_sequence = to->nb[1], .by_snapshot = to->nb[2] };
    return to->ne[1] == seqs;
}

/* Adds a view of node i's result beyond its attention part, if it is a copy of whole snapshots into a cache; otherwise
 * false. */
static bool copy_of_states(const engine *e, const struct ggml_cgraph *graph, int i, const struct ggml_tensor *view,
                           const shape *s, copies *c)
{
    const size_t first = (size_t)(s->dim * s->heads_v * s->tokens * s->seqs) * 4;
    const int64_t row = s->dim * s->dim * s->heads_v, rows = ggml_nelements(view) / row;
    const size_t slot = (size_t)(row * s->seqs) * 4;
    if (view->view_offs < first || (view->view_offs - first) % slot || !ggml_is_contiguous(view)) return false;
    if (rows * row != ggml_nelements(view) || rows % s->seqs || uses_of(graph, view) != 1 ||
        view->flags & GGML_TENSOR_FLAG_OUTPUT)
        return false;
    const int64_t from = (int64_t)((view->view_offs - first) / slot), n = rows / s->seqs;
    const int j = user_after(graph, i + 1, view);
    const struct ggml_tensor *copy = j < 0 ? NULL : graph->nodes[j];
    target t;
    if (!copy || copy->op != GGML_OP_CPY || copy->src[0] != view || e->instead[j]) return false;
    if (!(copy->flags & GGML_TENSOR_FLAG_COMPUTE)) return false;
    if (!rows_of_copy(copy->src[1], row, rows, s->seqs, &t) || from + n > s->slots || from + n > s->tokens)
        return false;
    const struct ggml_tensor *cache = copy->src[1]->view_src ? copy->src[1]->view_src : copy->src[1];
    if ((c->cache && c->cache != cache) || c->n == MAX_COPIES || from + n > MAX_COPIES) return false;
    if (touched_between(e, graph, i, j, range_of(copy->src[1]), true)) return false;
    for (int64_t r = from; r < from + n; r++) {
        if (c->to[r].data) return false;
        c->to[r] = t;
        c->to[r].data = t.data + (size_t)(r - from) * t.by_snapshot;
    }
    c->cache = cache;
    c->nodes[c->n++] = j;
    return true;
}

/* Finds all copies after node i; false if other users read the states. */
static bool find_copies(const engine *e, const struct ggml_cgraph *graph, int i, const shape *s, copies *c)
{
    const struct ggml_tensor *node = graph->nodes[i];
    const size_t attention = (size_t)(s->dim * s->heads_v * s->tokens * s->seqs) * 4;
    int left = uses_of(graph, node);
    *c = (copies){ 0 };
    if (left < 1 || node->flags & GGML_TENSOR_FLAG_OUTPUT) return false;
    for (int j = i; left > 0; left--) {
        j = user_after(graph, j + 1, node);
        if (j < 0) return false;
        const struct ggml_tensor *view = graph->nodes[j];
        if (view->op != GGML_OP_VIEW || view->src[0] != node) return false;
        if (view->view_offs + ggml_nbytes(view) > attention && !copy_of_states(e, graph, i, view, s, c)) return false;
    }
    return c->n > 0;
}

/* Number of the row at `at` among n_rows rows of row_bytes bytes from `base`; -1: none. */
static int64_t row_number(const char *base, size_t row_bytes, int64_t n_rows, const char *at)
{
    const int64_t offset = at - base;
    if (offset < 0 || offset % (int64_t)row_bytes || offset / (int64_t)row_bytes >= n_rows) return -1;
    return offset / (int64_t)row_bytes;
}

/* Writes new states to the cache: sets state_dst to its rows. */
static bool into_cache(gdn_gated_delta_net_args *a, const shape *s, const copies *c, int32_t *dst, int64_t n_dst)
{
    const size_t row_bytes = (size_t)(s->dim * s->dim * s->heads_v) * 4;
    int64_t n_rows = (int64_t)(ggml_nbytes(c->cache) / row_bytes);
    if (n_rows > INT32_MAX) return false;
    for (int64_t b = 0; b < s->seqs; b++)
        for (int64_t r = 0; r < n_dst; r++) {
            int64_t row = GDN_NONE;
            if (c->to[r].data) {
                row = row_number(c->cache->data, row_bytes, n_rows, c->to[r].data + (size_t)b * c->to[r].by_sequence);
                if (row < 0) return false;
            }
            dst[b * n_dst + r] = (int32_t)row;
        }
    a->state_out = (gdn_pool){ .data = c->cache->data, .n_rows = (int32_t)n_rows, .n_slots = 1 };
    return true;
}

/* True if one sequence would write what another one reads. */
static bool crosses(const int32_t *src, const int32_t *dst, int64_t seqs, int64_t n_dst)
{
    for (int64_t b = 0; b < seqs; b++)
        for (int64_t other = 0; other < seqs; other++)
            for (int64_t r = 0; other != b && r < n_dst; r++)
                if (dst[other * n_dst + r] == src[b]) return true;
    return false;
}

/* Reads initial states directly from the source of GET_ROWS, node `gather`. */
static bool from_cache(const engine *e, const struct ggml_cgraph *graph, int i, int gather, gdn_gated_delta_net_args *a,
                       const shape *s, const struct ggml_tensor *cache, int32_t *src, const int32_t *dst, int64_t n_dst)
{
    const struct ggml_tensor *states = graph->nodes[gather]->src[0];
    const size_t row_bytes = states->nb[1];
    const int32_t *rows = graph->nodes[gather]->src[1]->data;
    int64_t first = 0;
    for (int64_t b = 0; b < s->seqs; b++) {
        const char *row = (const char *)states->data + (size_t)rows[b] * row_bytes;
        if (touched_between(e, graph, gather, i, (range){ row, row + row_bytes }, false)) return false;
    }
    const bool same = cache && ranges_meet(range_of(states), range_of(cache)); /* the cache that is written */
    if (same) first = row_number(cache->data, row_bytes, a->state_out.n_rows, states->data);
    if (first < 0) return false;
    for (int64_t b = 0; b < s->seqs; b++) src[b] = (int32_t)(first + rows[b]);
    if (same && crosses(src, dst, s->seqs, n_dst)) return false;
    if (same) {
        a->state = a->state_out;
        a->state_out = (gdn_pool){ 0 };
    } else {
        a->state = (gdn_pool){ .data = states->data, .n_rows = (int32_t)states->ne[1], .n_slots = 1 };
    }
    a->state_src.data = src;
    return true;
}

void plan_gdn(engine *e, const struct ggml_cgraph *graph, int i)
{
    const struct ggml_tensor *node = graph->nodes[i], *cache = NULL;
    call *c = &e->calls[e->n_calls];
    gdn_gated_delta_net_args *a = &c->as.gdn;
    shape s;
    copies behind;
    memset(c, 0, sizeof *c);
    c->kind = CALL_GDN;
    if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE) || !describe(node, &s, a)) return;

    if (!e->all && s.dim * s.dim * s.heads_v * s.tokens * s.seqs < WORTH) return;
    const int64_t row = s.dim * s.dim * s.heads_v, n_dst = s.slots < s.tokens ? s.slots : s.tokens;
    int32_t *src = e->maps + e->n_maps, *dst = src + s.seqs;
    const int gather = gathered(e, graph, i, node->src[5], s.seqs, (size_t)row * 4);
    a->n_snapshots = (int32_t)n_dst;
    a->state_dst.data = dst;
    if (find_copies(e, graph, i, &s, &behind) && !planned_in(e, range_of(behind.cache)) &&
        (gather >= 0 || !ranges_meet(range_of(node->src[5]), range_of(behind.cache))) &&
        into_cache(a, &s, &behind, dst, n_dst))
        cache = behind.cache;
    const bool in = gather >= 0 && from_cache(e, graph, i, gather, a, &s, cache, src, dst, n_dst);
    if (!in && cache && ranges_meet(range_of(node->src[5]), range_of(cache))) cache = NULL;
    if (!cache) { /* after the attention part, as ggml's operator */
        a->state_out = (gdn_pool){ .data = (char *)node->data + (size_t)(s.dim * s.heads_v * s.tokens * s.seqs) * 4,
                                   .n_rows = (int32_t)(n_dst * s.seqs),
                                   .n_slots = 1 };
        for (int64_t b = 0; b < s.seqs; b++)
            for (int64_t r = 0; r < n_dst; r++) dst[b * n_dst + r] = (int32_t)(r * s.seqs + b);
    }
    if (!in) a->state = (gdn_pool){ .data = node->src[5]->data, .n_rows = (int32_t)s.seqs, .n_slots = 1 };
    gdn_capability can = GDN_INIT(gdn_capability);
    if (gdn_gated_delta_net_query(e->single, a, &can) || !can.supported) return;
    for (int k = 0; cache && k < behind.n; k++) e->instead[behind.nodes[k]] = GONE;
    if (in) e->instead[gather] = GONE;
    if (cache) c->apart[0] = range_of(cache);
    if (in) c->apart[1] = range_of(graph->nodes[gather]->src[0]);
    e->n_maps += s.seqs * (1 + n_dst);
    plan_place(e, c, node, i);
}
