/* Plans a graph: replaces nodes that libgdn computes by custom nodes, and skips the nodes around them that gather
 * states and copy them back. ggml's CPU backend computes the result.
 *
 * Each computation of a graph is planned anew, since row numbers and addresses change; a pass over the nodes is cheap.
 * A node is skipped only if
 * - all users of its result are replaced: ggml counts the uses of a tensor in the whole graph, and all were found;
 * - it is not an output;
 * - no node in between touches memory that is then read later or written earlier than in ggml's order. ggml's allocator
 *   reuses memory as soon as its last user is done, so addresses are compared. */
#include "engine.h"

#include <stdlib.h>

struct ggml_tensor gdn_ggml_gone;

enum { WINDOW = 512 }; /* how many nodes to search for a user or origin of a tensor */

range range_of(const struct ggml_tensor *t)
{
    const char *low = t->data;
    return (range){ low, low ? low + ggml_nbytes(t) : low };
}

bool ranges_meet(range a, range b) { return a.low < b.high && b.low < a.high; }

bool renames(const struct ggml_tensor *node)
{
    return node->op == GGML_OP_NONE || node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE ||
           node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE;
}

int uses_of(const struct ggml_cgraph *graph, const struct ggml_tensor *t)
{
    if (!graph->use_counts || !graph->visited_hash_set.size) return -1;
    const size_t place = ggml_hash_find(&graph->visited_hash_set, t);
    if (place == GGML_HASHSET_FULL || !ggml_bitset_get(graph->visited_hash_set.used, place)) return -1;
    return graph->use_counts[place];
}

int index_before(const struct ggml_cgraph *graph, int i, const struct ggml_tensor *t)
{
    for (int j = i - 1; j >= 0 && j >= i - WINDOW; j--)
        if (graph->nodes[j] == t) return j;
    return -1;
}

int user_after(const struct ggml_cgraph *graph, int from, const struct ggml_tensor *t)
{
    for (int j = from; j < graph->n_nodes && j < from + WINDOW; j++)
        for (int s = 0; s < GGML_MAX_SRC; s++)
            if (graph->nodes[j]->src[s] == t) return j;
    return -1;
}

bool touched_between(const engine *e, const struct ggml_cgraph *graph, int from, int to, range r, bool reads)
{
    for (int j = from + 1; j < to; j++) {
        const struct ggml_tensor *node = graph->nodes[j];
        if (renames(node) || ggml_is_empty(node) || e->instead[j] == GONE) continue;
        if (ranges_meet(range_of(node), r)) return true;
        for (int s = 0; reads && s < GGML_MAX_SRC; s++)
            if (node->src[s] && ranges_meet(range_of(node->src[s]), r)) return true;
    }
    return false;
}

bool planned_in(const engine *e, range r)
{
    for (int k = 0; k < e->n_calls; k++)
        if (ranges_meet(e->calls[k].apart[0], r) || ranges_meet(e->calls[k].apart[1], r)) return true;
    return false;
}

int gathered(const engine *e, const struct ggml_cgraph *graph, int i, const struct ggml_tensor *t, int64_t n_rows,
             size_t row_bytes)
{
    while (t->op == GGML_OP_RESHAPE && !(t->flags & GGML_TENSOR_FLAG_OUTPUT) && uses_of(graph, t) == 1) t = t->src[0];
    if (t->op != GGML_OP_GET_ROWS || t->flags & GGML_TENSOR_FLAG_OUTPUT || uses_of(graph, t) != 1) return -1;
    const struct ggml_tensor *from = t->src[0], *rows = t->src[1], *root = rows->view_src ? rows->view_src : rows;
    if (from->type != GGML_TYPE_F32 || rows->type != GGML_TYPE_I32 || root->op != GGML_OP_NONE || !rows->data ||
        !from->data)
        return -1;
    if ((size_t)from->ne[0] * 4 != row_bytes || from->nb[0] != 4 || from->nb[1] != row_bytes ||
        from->ne[2] * from->ne[3] != 1)
        return -1;
    if (rows->ne[0] != n_rows || rows->nb[0] != 4 || ggml_nelements(rows) != n_rows || from->ne[1] > INT32_MAX)
        return -1;
    for (int64_t r = 0; r < n_rows; r++)
        if (((const int32_t *)rows->data)[r] < 0 || ((const int32_t *)rows->data)[r] >= from->ne[1]) return -1;
    const int j = index_before(graph, i, t);
    return j < 0 || e->instead[j] || planned_in(e, range_of(from)) ? -1 : j;
}

void plan_place(engine *e, call *c, const struct ggml_tensor *node, int i)
{
    const struct ggml_custom_op_params custom = { .fun = engine_call, .n_tasks = GGML_N_TASKS_MAX, .userdata = c };
    c->node = *node;
    c->node.op = GGML_OP_CUSTOM;
    c->owner = e;
    memset(c->node.op_params, 0, sizeof c->node.op_params);
    memcpy(c->node.op_params, &custom, sizeof custom);
    e->instead[i] = &c->node;
    e->n_calls++;
}

bool plan_reserve(engine *e, const struct ggml_cgraph *graph)
{
    if (graph->n_nodes > e->cap_nodes) {
        free(e->nodes);
        free(e->instead);
        e->nodes = malloc(sizeof *e->nodes * ((size_t)graph->n_nodes + 1));
        e->instead = malloc(sizeof *e->instead * (size_t)graph->n_nodes);
        e->cap_nodes = e->nodes && e->instead ? graph->n_nodes : 0;
    }
    return e->nodes && e->instead && e->cap_nodes >= graph->n_nodes;
}

static bool reserve(engine *e, const struct ggml_cgraph *graph)
{
    int n_calls = 0;
    int64_t n_maps = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct ggml_tensor *node = graph->nodes[i];
        n_calls += node->op == GGML_OP_GATED_DELTA_NET || node->op == GGML_OP_SET_ROWS;
        n_calls += node->op == GGML_OP_SSM_CONV ? 2 : 0;
        if (node->op == GGML_OP_GATED_DELTA_NET) /* its state indices: initial states, and a destination per snapshot */
            n_maps += node->src[2]->ne[3] * (1 + (int64_t)ggml_get_op_params_i32(node, 0));
    }
    if (!n_calls) return false;
    if (n_calls > e->cap_calls) {
        free(e->calls);
        e->calls = malloc(sizeof(call) * (size_t)n_calls);
        e->cap_calls = e->calls ? n_calls : 0;
    }
    if (n_maps > e->cap_maps) {
        free(e->maps);
        e->maps = malloc(sizeof *e->maps * (size_t)n_maps);
        e->cap_maps = e->maps ? n_maps : 0;
    }
    e->n_calls = 0;
    e->n_maps = 0;
    return e->cap_calls >= n_calls && e->cap_maps >= n_maps && plan_reserve(e, graph);
}

bool plan_graph(engine *e, const struct ggml_cgraph *graph, int *n_nodes)
{
    if (e->off || !reserve(e, graph)) return false; /* without memory for a plan, ggml computes everything */
    memset(e->instead, 0, sizeof *e->instead * (size_t)graph->n_nodes);
    /* Plan gated_delta_net first: this removes gathering nodes between a convolution's input and the convolution. */
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->op == GGML_OP_GATED_DELTA_NET) plan_gdn(e, graph, i);
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i]->op == GGML_OP_SSM_CONV) plan_conv(e, graph, i);
        if (graph->nodes[i]->op == GGML_OP_SET_ROWS) plan_rows(e, graph, i);
    }
    if (!e->n_calls) return false;
    *n_nodes = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        if (e->instead[i] != GONE) e->nodes[++*n_nodes] = e->instead[i] ? e->instead[i] : graph->nodes[i];
    return true;
}
