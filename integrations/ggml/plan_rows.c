/* Plans SET_ROWS into the types that libgdn supports.
 *
 * ggml's operator:  src [columns, rows, n2, n3], index [rows, m2, m3] of I32 or I64, written to a view of the
 * destination */
#include "engine.h"

enum { WORTH = 64 * 1024 }; /* elements; below this, distributing the work costs more than it saves */

static int type_of(const struct ggml_tensor *t)
{
    switch (t->type) {
    case GGML_TYPE_F32: return GDN_F32;
    case GGML_TYPE_F16: return GDN_F16;
    case GGML_TYPE_BF16: return GDN_BF16;
    case GGML_TYPE_Q8_0: return GDN_Q8_0;
    case GGML_TYPE_I32: return GDN_I32;
    case GGML_TYPE_I64: return GDN_I64;
    default: return -1;
    }
}

void plan_rows(engine *e, const struct ggml_cgraph *graph, int i)
{
    const struct ggml_tensor *node = graph->nodes[i], *src = node->src[0], *index = node->src[1];
    call *c = &e->calls[e->n_calls];
    gdn_set_rows_args *a = &c->as.rows;
    if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE) || !(e->all || ggml_nelements(src) >= WORTH)) return;
    if (type_of(node) < 0 || type_of(src) < 0 || type_of(index) < 0 || !node->data || !src->data || !index->data)
        return;
    if (ranges_meet(range_of(src), range_of(node)) || index->nb[0] % (size_t)ggml_type_size(index->type)) return;
    memset(c, 0, sizeof *c);
    c->kind = CALL_ROWS;
    *a = (gdn_set_rows_args)GDN_INIT(gdn_set_rows_args);
    a->n_columns = src->ne[0];
    a->n_rows = src->ne[1];
    a->n_rows_dst = node->ne[1];
    a->n_batch[0] = src->ne[3];
    a->n_batch[1] = src->ne[2];
    a->index_batch[0] = index->ne[2];
    a->index_batch[1] = index->ne[1];
    a->src = (gdn_tensor){ .data = src->data,
                           .dtype = type_of(src),
                           .stride = { (int64_t)src->nb[3], (int64_t)src->nb[2], (int64_t)src->nb[1] } };
    a->dst = (gdn_tensor){ .data = node->data,
                           .dtype = type_of(node),
                           .stride = { (int64_t)node->nb[3], (int64_t)node->nb[2], (int64_t)node->nb[1] } };
    a->index = (gdn_tensor){ .data = index->data,
                             .dtype = type_of(index),
                             .stride = { (int64_t)index->nb[2], (int64_t)index->nb[1], (int64_t)index->nb[0] } };
    gdn_capability can = GDN_INIT(gdn_capability);
    if (gdn_set_rows_query(e->single, a, &can) || !can.supported) return;
    plan_place(e, c, node, i);
}
