/* Plans SSM_CONV with the nodes around it in llama.cpp. Before it are GET_ROWS of the cache and CONCAT with the new
 * columns. After it are CPY of the newest columns into the cache, and SILU. Any of them may be missing.
 *
 * ggml's operator:  sx [width - 1 + T, channels, B], time contiguous   weights [width, channels]
 *                   result: [channels, T, B] */
#include "engine.h"

static bool wanted(const struct ggml_tensor *t) { return t->flags & GGML_TENSOR_FLAG_OUTPUT; }

/* Index of SILU if it is the only user and, except for renaming nodes, the next node; otherwise i. */
static int with_silu(const engine *e, const struct ggml_cgraph *graph, int i)
{
    const struct ggml_tensor *node = graph->nodes[i];
    if (wanted(node) || uses_of(graph, node) != 1) return i;
    int j = i + 1;
    while (j < graph->n_nodes && renames(graph->nodes[j])) j++;
    if (j == graph->n_nodes || e->instead[j]) return i;
    const struct ggml_tensor *next = graph->nodes[j];
    const bool silu =
        next->op == GGML_OP_UNARY && ggml_get_unary_op(next) == GGML_UNARY_OP_SILU && next->src[0] == node;
    return silu && next->flags & GGML_TENSOR_FLAG_COMPUTE && ggml_is_contiguous(next) ? j : i;
}

/* True if a view is a whole number of columns of the input that goes only to a cache. */
static bool copy_of_columns(const engine *e, const struct ggml_cgraph *graph, int from, const struct ggml_tensor *view,
                            int place, conv_call *c, int *node)
{
    const struct ggml_tensor *sx = view->src[0];
    const int64_t columns = c->width - 1;
    if (wanted(view) || uses_of(graph, view) != 1 || view->op != GGML_OP_VIEW || view->view_src != sx) return false;
    if (view->ne[0] != columns || view->ne[1] != c->n_channels || view->ne[2] != c->n_seqs || view->ne[3] != 1)
        return false;
    if (view->nb[0] != 4 || view->nb[1] != sx->nb[1] || view->nb[2] != sx->nb[2] || view->view_offs % 4) return false;
    const int64_t first = (int64_t)view->view_offs / 4, row = columns * c->n_channels;
    const int j = user_after(graph, from + 1, view);
    const struct ggml_tensor *copy = j < 0 ? NULL : graph->nodes[j];
    if (!copy || copy->op != GGML_OP_CPY || copy->src[0] != view || e->instead[j] || first + columns > sx->ne[0])
        return false;
    const struct ggml_tensor *to = copy->src[1];
    if (!(copy->flags & GGML_TENSOR_FLAG_COMPUTE) || to->type != GGML_TYPE_F32 || !to->data) return false;
    if (ggml_nelements(to) != row * c->n_seqs || c->n_copies == MAX_COPIES) return false;
    size_t stride;
    if (ggml_is_contiguous(to)) stride = (size_t)row * 4;
    else if (to->ne[0] == row && to->ne[1] == c->n_seqs && to->nb[0] == 4) stride = to->nb[1];
    else if (to->ne[0] == columns && to->ne[1] == c->n_channels && to->ne[2] == c->n_seqs && to->nb[0] == 4 &&
             to->nb[1] == (size_t)columns * 4)
        stride = to->nb[2];
    else return false;
    if (touched_between(e, graph, j < place ? j : place, j < place ? place : j, range_of(to), true)) return false;
    c->copies[c->n_copies++] = (column_copy){ .first = first, .data = to->data, .stride = stride };
    *node = j;
    return true;
}

/* True if all other users of its input (CONCAT, node `from`) are copies that the convolution can perform. */
static bool find_copies(const engine *e, const struct ggml_cgraph *graph, int from, int i, int place, conv_call *c,
                        int *nodes)
{
    const struct ggml_tensor *sx = graph->nodes[from];
    int left = uses_of(graph, sx);
    if (left < 1 || wanted(sx)) return false;
    for (int j = from; left > 0; left--) {
        j = user_after(graph, j + 1, sx);
        if (j < 0) return false;
        if (j != i && !copy_of_columns(e, graph, j, graph->nodes[j], place, c, &nodes[c->n_copies])) return false;
    }
    return true;
}

/* The range that the copies write. */
static range range_of_copies(const conv_call *c)
{
    range all = { 0 };
    for (int k = 0; k < c->n_copies; k++) {
        const char *low = c->copies[k].data;
        const char *high =
            low + (size_t)(c->n_seqs - 1) * c->copies[k].stride + (size_t)((c->width - 1) * c->n_channels) * 4;
        if (!k || low < all.low) all.low = low;
        if (!k || high > all.high) all.high = high;
    }
    return all;
}

/* True if node `place`, which writes to `out`, can read history and x from the sources of CONCAT, node `from`. *gather:
 * the node that gathers the history, if it can be skipped too, or -1. Skipped copies are already marked. */
static bool reads_stay(const engine *e, const struct ggml_cgraph *graph, int from, int place, range out, conv_call *c,
                       int *gather)
{
    const struct ggml_tensor *sx = graph->nodes[from], *history = sx->src[0], *x = sx->src[1];
    const range written = range_of_copies(c);
    const size_t row_bytes = (size_t)((c->width - 1) * c->n_channels) * 4;
    if (history->type != GGML_TYPE_F32 || x->type != GGML_TYPE_F32 || history->ne[0] != c->width - 1 ||
        !history->data || !x->data)
        return false;
    if (ranges_meet(range_of(x), out) || touched_between(e, graph, from, place, range_of(x), false) ||
        ranges_meet(written, range_of(x)))
        return false;
    c->x = x->data;
    c->x_direct = x->nb[1] == 4 && x->nb[0] && (c->n_seqs == 1 || x->nb[2]);
    for (int k = 0; k < 3; k++) c->x_stride[k] = x->nb[2 - k], c->history_stride[k] = history->nb[2 - k];

    *gather = ggml_is_contiguous(history) ? gathered(e, graph, from, history, c->n_seqs, row_bytes) : -1;
    if (*gather >= 0) {
        const struct ggml_tensor *rows = graph->nodes[*gather];
        bool stay = !ranges_meet(range_of(rows->src[0]), out);
        c->history = rows->src[0]->data;
        c->row = rows->src[1]->data;
        for (int64_t s = 0; s < c->n_seqs && stay; s++) {
            const char *row = c->history + (size_t)c->row[s] * row_bytes;
            stay = !touched_between(e, graph, *gather, place, (range){ row, row + row_bytes }, false);
        }
        if (stay) {
            c->history_stride[0] = row_bytes;
            return true;
        }
    }
    /* Otherwise read the gathered history. Other threads write results and copies while a thread still reads it. */
    *gather = -1;
    c->history = history->data;
    c->row = NULL;
    return !touched_between(e, graph, from, place, range_of(history), false) && !ranges_meet(range_of(history), out) &&
           !ranges_meet(range_of(history), written);
}

/* Skips CONCAT, its gathering node and the copies after it. staged: CONCAT's node becomes a call that writes libgdn's
 * layout, if the allocator reuses memory that the convolution would read. false: impossible, and nothing changed. */
static bool without_concat(engine *e, const struct ggml_cgraph *graph, int i, int place, bool staged, call *new)
{
    struct ggml_tensor *sx = graph->nodes[i]->src[0];
    const int from = sx->op == GGML_OP_CONCAT ? index_before(graph, i, sx) : -1;
    conv_call c = new->as.conv;
    int nodes[MAX_COPIES], gather = -1;
    const range out = staged ? range_of(sx) : range_of(graph->nodes[place]);
    if (from < 0 || e->instead[from] || ggml_get_op_params_i32(sx, 0) != 0) return false;
    if (staged && (!ggml_is_contiguous(sx) || ranges_meet(out, range_of(graph->nodes[place])))) return false;
    if (staged) place = from;
    if (!find_copies(e, graph, from, i, place, &c, nodes) || planned_in(e, range_of_copies(&c))) return false;
    for (int k = 0; k < c.n_copies; k++) e->instead[nodes[k]] = GONE;
    if (!reads_stay(e, graph, from, place, out, &c, &gather)) {
        for (int k = 0; k < c.n_copies; k++) e->instead[nodes[k]] = NULL;
        return false;
    }
    if (gather >= 0) {
        e->instead[gather] = GONE;
        new->apart[1] = range_of(graph->nodes[gather]->src[0]);
    }
    new->apart[0] = range_of_copies(&c);
    new->as.conv = c;
    if (staged) {
        new->kind = CALL_STAGE;
        new->as.conv.out = sx->data;
        plan_place(e, new, sx, from);
    } else {
        e->instead[from] = GONE;
    }
    return true;
}

void plan_conv(engine *e, const struct ggml_cgraph *graph, int i)
{
    const struct ggml_tensor *node = graph->nodes[i], *sx = node->src[0], *weight = node->src[1];
    call *new = &e->calls[e->n_calls];
    conv_call *c = &new->as.conv;
    memset(new, 0, sizeof *new);
    new->kind = CALL_CONV;
    *c = (conv_call){
        .width = weight->ne[0], .n_tokens = node->ne[1], .n_channels = node->ne[0], .n_seqs = node->ne[2]
    };
    if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE) || sx->type != GGML_TYPE_F32 || weight->type != GGML_TYPE_F32) return;
    if (c->width < 2 || c->width > 16 || weight->nb[0] != 4 || weight->nb[1] % 4 || sx->nb[0] != 4 ||
        !ggml_is_contiguous(node))
        return;
    if (sx->ne[0] != c->width - 1 + c->n_tokens || c->n_channels > INT32_MAX || c->n_tokens * c->n_seqs > INT32_MAX / 2)
        return;
    if (!sx->data || !weight->data || !node->data) return;
    if (conv_block(c) < 16) return; /* too many sequences for a thread's memory */
    const int place = with_silu(e, graph, i);
    c->silu = place != i;
    c->weight = weight->data;
    c->weight_stride = weight->nb[1];
    c->out = graph->nodes[place]->data;
    c->out_stride[0] = node->nb[2];
    c->out_stride[1] = node->nb[1];
    if (c->silu) e->instead[i] = GONE;
    if (!without_concat(e, graph, i, place, false, new)) {
        const conv_call bare = *c;
        const bool turned = without_concat(e, graph, i, place, true, new); /* [history, x] has contiguous channels */
        const size_t column = turned ? (size_t)c->n_channels * 4 : 4, channel = turned ? 4 : sx->nb[1];
        if (turned) {
            new = &e->calls[e->n_calls];
            memset(new, 0, sizeof *new);
            new->kind = CALL_CONV;
            c = &new->as.conv;
            *c = bare;
        }
        c->x_direct = turned;
        c->history = sx->data;
        c->x = (const char *)sx->data + (size_t)(c->width - 1) * column;
        for (int k = 0; k < 3; k++)
            c->history_stride[k] = c->x_stride[k] = k == 0 ? sx->nb[2] : k == 1 ? channel : column;
    }
    c->block = conv_block(c);
    plan_place(e, new, graph->nodes[place], place);
}
