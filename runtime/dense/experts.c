/* Mixture of experts: routing, and the experts' products. See dense.h.
 *
 * A pair is a row and one of its experts. Pairs are sorted by expert. The pairs of an expert (a group) are thus
 * contiguous in all intermediate arrays, and the expert's weights are read once for all of them. The shared expert is
 * the last group, with all rows. */
#include <string.h>

#include "numerics/elementary.h"
#include "runtime/dense/dense_internal.h"

/* ---- Routing ---- */

typedef struct choice_args {
    float *p;
    int32_t n_experts, n_used;
    float scale;
    int32_t *expert;
    float *weight;
} choice_args;

static void choose_item(const rt_dense *d, const void *arg, int64_t row, int32_t slot)
{
    const choice_args *a = arg;
    float *p = a->p + row * a->n_experts, *weight = a->weight + row * a->n_used, sum = 0;
    int32_t *pick = a->expert + row * a->n_used;
    (void)slot;
    rt_dense_kernels(d)->softmax(p, a->n_experts);
    rt_top_k(p, a->n_experts, a->n_used, pick);
    for (int32_t u = 0; u < a->n_used; u++) sum += p[pick[u]];
    for (int32_t u = 0; u < a->n_used; u++) weight[u] = p[pick[u]] / sum * a->scale;
}

void rt_choose_experts(rt_dense *d, float *p, int32_t n, int32_t n_experts, int32_t n_used, float scale,
                       int32_t *expert, float *weight)
{
    const choice_args a = { p, n_experts, n_used, scale, expert, weight };
    rt_share(d, choose_item, &a, n, (int64_t)n * n_experts * 4);
}

/* ---- The experts ---- */

enum {
    TILE = 16,         /* outputs per tile                                           */
    BYTES = 32 * 1024, /* bytes of weights per work item                             */
    PIECE = 512        /* row elements per work item, so that threads share a row    */
};

/* An expert with pairs: pairs [first, first + n). The shared expert is the last, with number n_experts. */
typedef struct group {
    int32_t expert, first, n;
} group;

typedef struct mixture {
    const rt_experts_args *a;
    int has_shared, quantise_x, copy_x, quantise_ff;
    int32_t n_groups, n_pairs;     /* n_pairs includes those of the shared expert               */
    int32_t per_item[2], items[2]; /* outputs per work item; work items of an expert, by phase: */
    int32_t shared_per_item[2];    /* gate and up; down                                         */
    group *group;                  /* [n_groups]                                                */
    int32_t *pair;                 /* [n][n_used]: number of the pair                           */
    int32_t *row;                  /* [pairs]: row of x, and which of its experts               */
    rt_x_group *xq, *ffq;          /* [pairs] in groups: of an expert's n rows, [group][n]      */
    float *x, *ff, *up, *out;      /* [pairs][m], [pairs][the expert's width] twice, [pairs][m] */
    int32_t width;                 /* of a row of ff and up, the largest of all experts         */
} mixture;

static int has_shared(const rt_experts_args *a) { return a->down_shared && a->down_shared->data; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* True if any of the weights (which may be NULL) is quantised, or is not. */
static int any(const rt_weight *const *w, int n, int quantised)
{
    for (int i = 0; i < n; i++)
        if (w[i] && w[i]->data && rt_is_quantised(w[i]) == quantised) return 1;
    return 0;
}

/* Assigns the arrays in the scratch memory and returns its bytes; memory NULL: bytes only. */
static uint64_t place(mixture *t, const rt_experts_args *a, unsigned char *memory)
{
    const rt_weight *const into[] = { a->gate, a->up, a->gate_shared, a->up_shared };
    const rt_weight *const out_of[] = { a->down, a->down_shared };
    memset(t, 0, sizeof *t);
    t->a = a;
    t->has_shared = has_shared(a);
    t->quantise_x = any(into, 4, 1);
    t->copy_x = any(into, 4, 0);
    t->quantise_ff = any(out_of, 2, 1);
    t->n_pairs = a->n * (a->n_used + t->has_shared);
    t->width = (int32_t)larger(a->gate->n_rows, t->has_shared ? a->gate_shared->n_rows : 0);
    const uint64_t pairs = (uint64_t)t->n_pairs, width = (uint64_t)t->width, m = (uint64_t)a->m;
    const struct {
        void *at;
        uint64_t bytes;
    } parts[] = {
        { &t->xq, t->quantise_x ? pairs * (uint64_t)rt_groups(a->m) * sizeof *t->xq : 0 },
        { &t->ffq, t->quantise_ff ? pairs * (uint64_t)rt_groups(t->width) * sizeof *t->ffq : 0 },
        { &t->x, t->copy_x ? pairs * m * 4 : 0 },
        { &t->ff, pairs * width * 4 },
        { &t->up, pairs * width * 4 },
        { &t->out, pairs * m * 4 },
        { &t->pair, pairs * 4 },
        { &t->row, pairs * 4 },
        { &t->group, ((uint64_t)a->n_experts + 2) * sizeof *t->group },
    };
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (memory) {
            unsigned char *here = memory + at;
            memcpy(parts[i].at, &here, sizeof here);
        }
        at += (parts[i].bytes + 127) / 64 * 64;
    }
    return at;
}

uint64_t rt_experts_scratch(const rt_experts_args *args)
{
    mixture t;
    return place(&t, args, NULL);
}

/* Sorts the pairs by expert and fills t->group with the experts that have any. */
static void sort_pairs(mixture *t)
{
    const rt_experts_args *a = t->a;
    group *g = t->group;
    int32_t n = 0, first = 0;
    for (int32_t e = 0; e <= a->n_experts; e++) g[e] = (group){ e, 0, 0 };
    for (int32_t i = 0; i < a->n * a->n_used; i++) g[a->expert[i]].n++;
    for (int32_t e = 0; e < a->n_experts; e++) {
        g[e].first = first;
        first += g[e].n;
    }
    for (int32_t i = 0; i < a->n * a->n_used; i++) {
        t->pair[i] = g[a->expert[i]].first++;
        t->row[t->pair[i]] = i / a->n_used;
    }
    for (int32_t e = 0; e < a->n_experts; e++)
        if (g[e].n) g[n++] = (group){ e, g[e].first - g[e].n, g[e].n };
    t->n_groups = n;
    if (t->has_shared) g[t->n_groups++] = (group){ a->n_experts, first, a->n };
    for (int32_t r = 0; t->has_shared && r < a->n; r++) t->row[first + r] = r;
}

static int is_shared(const mixture *t, const group *g) { return g->expert == t->a->n_experts; }

/* The group of a pair. */
static const group *group_of(const mixture *t, int32_t pair)
{
    int32_t low = 0, high = t->n_groups - 1;
    while (low < high) {
        const int32_t middle = (low + high + 1) / 2;
        if (t->group[middle].first <= pair) low = middle;
        else high = middle - 1;
    }
    return &t->group[low];
}

/* Item: a pair. Copies or quantises its row of x for the expert's products. */
static void input_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const mixture *t = arg;
    const int32_t pair = (int32_t)item, m = t->a->m;
    const float *x = t->a->x + (int64_t)t->row[pair] * m;
    const group *g = group_of(t, pair);
    (void)slot;
    if (t->quantise_x)
        rt_dense_kernels(d)->quantize(x, m, t->xq + (int64_t)g->first * rt_groups(m) + (pair - g->first), g->n);
    if (t->copy_x) memcpy(t->x + (int64_t)pair * m, x, 4 * (size_t)m);
}

/* The part of a work item: outputs [first, last) of a group's matrices. */
typedef struct part {
    const group *g;
    int shared;
    int32_t matrix, first, last;
} part;

/* Multiplies a part of one of a group's matrices with all its rows. x, xq and y are the arrays of all pairs. */
static void multiply(const rt_dense *d, const part *p, const rt_weight *w, const float *x, int32_t x_stride,
                     const rt_x_group *xq, float *y, int32_t y_stride, int32_t slot)
{
    const group *g = p->g;
    const rt_product_args product = { rt_weight_matrix(w, p->matrix),
                                      w->row_bytes,
                                      w->type,
                                      w->n_columns,
                                      g->n,
                                      rt_is_quantised(w) ? NULL : x + (int64_t)g->first * x_stride,
                                      x_stride,
                                      rt_is_quantised(w) ? xq + (int64_t)g->first * rt_groups(x_stride) : NULL,
                                      y + (int64_t)g->first * y_stride,
                                      y_stride };
    rt_dense_kernels(d)->product(&product, p->first, p->last, rt_dense_panel(d, slot));
}

/* The part of a work item. phase 0: gate and up; 1: down. */
static part part_of(const mixture *t, int phase, int64_t item)
{
    const int32_t n = t->n_groups - t->has_shared;
    int64_t g = item / t->items[phase], i = item % t->items[phase], per = t->per_item[phase];
    if (g >= n) {
        i = item - (int64_t)n * t->items[phase];
        g = n;
        per = t->shared_per_item[phase];
    }
    const int shared = is_shared(t, &t->group[g]);
    const rt_experts_args *a = t->a;
    const rt_weight *w = phase ? (shared ? a->down_shared : a->down) : shared ? a->gate_shared : a->gate;
    const int32_t first = (int32_t)(i * per), last = w->n_rows - first < per ? w->n_rows : (int32_t)(first + per);
    return (part){ &t->group[g], shared, shared ? 0 : t->group[g].expert, first, last };
}

static void gate_up_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const mixture *t = arg;
    const rt_experts_args *a = t->a;
    const part p = part_of(t, 0, item);
    multiply(d, &p, p.shared ? a->gate_shared : a->gate, t->x, a->m, t->xq, t->ff, t->width, slot);
    multiply(d, &p, p.shared ? a->up_shared : a->up, t->x, a->m, t->xq, t->up, t->width, slot);
    for (int32_t r = 0; r < p.g->n; r++) {
        const int64_t at = (int64_t)(p.g->first + r) * t->width + p.first;
        rt_dense_kernels(d)->swiglu(t->ff + at, t->up + at, t->ff + at, p.last - p.first);
    }
}

/* Item: a pair. Quantises silu(gate) * up for down. */
static void between_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const mixture *t = arg;
    const int32_t pair = (int32_t)item;
    const group *g = group_of(t, pair);
    const rt_weight *w = is_shared(t, g) ? t->a->down_shared : t->a->down;
    (void)slot;
    rt_dense_kernels(d)->quantize(t->ff + (int64_t)pair * t->width, w->n_columns,
                                  t->ffq + (int64_t)g->first * rt_groups(t->width) + (pair - g->first), g->n);
}

static void down_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const mixture *t = arg;
    const rt_experts_args *a = t->a;
    const part p = part_of(t, 1, item);
    multiply(d, &p, p.shared ? a->down_shared : a->down, t->ff, t->width, t->ffq, t->out, a->m, slot);
}

/* Item: a piece of a row. Sums the experts' outputs by weight. */
static void mix_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const mixture *t = arg;
    const rt_experts_args *a = t->a;
    const int64_t pieces = (a->m + PIECE - 1) / PIECE, row = item / pieces, first = item % pieces * PIECE;
    const int64_t n = a->m - first < PIECE ? a->m - first : PIECE;
    float *y = a->y + row * a->m + first;
    (void)d, (void)slot;
    memset(y, 0, sizeof *y * (size_t)n);
    for (int32_t u = 0; u < a->n_used; u++) {
        const float w = a->weight[row * a->n_used + u];
        const float *x = t->out + (int64_t)t->pair[row * a->n_used + u] * a->m + first;
        for (int64_t i = 0; i < n; i++) y[i] += w * x[i];
    }
    if (!t->has_shared) return;
    const float *x = t->out + ((int64_t)a->n * a->n_used + row) * a->m + first, w = gdn_sigmoid(a->shared_gate[row]);
    for (int64_t i = 0; i < n; i++) y[i] += w * x[i];
}

/* Outputs per work item of matrices like w, n_times of them together: whole tiles, about BYTES of weights, and small
 * enough that threads can share one expert. */
static int32_t outputs_of_item(const rt_weight *w, int n_times, int32_t n_threads)
{
    const int64_t by_bytes = BYTES / (n_times * w->row_bytes), by_threads = w->n_rows / n_threads;
    return (int32_t)(larger(by_bytes < by_threads ? by_bytes : by_threads, TILE) / TILE * TILE);
}

void rt_experts(rt_dense *d, const rt_experts_args *a)
{
    mixture t;
    if (a->n < 1) return;
    (void)place(&t, a, a->scratch);
    sort_pairs(&t);
    const int32_t n_threads = rt_dense_threads(d), n = t.n_groups - t.has_shared;
    const rt_weight *own[] = { a->gate, a->down }, *shared[] = { a->gate_shared, a->down_shared };
    int64_t n_items[2], bytes = 0;
    for (int phase = 0; phase < 2; phase++) {
        const int n_times = phase ? 1 : 2;
        t.per_item[phase] = outputs_of_item(own[phase], n_times, n_threads);
        t.items[phase] = (own[phase]->n_rows + t.per_item[phase] - 1) / t.per_item[phase];
        n_items[phase] = (int64_t)n * t.items[phase];
        bytes += n_times * own[phase]->n_rows * own[phase]->row_bytes * a->n_used;
        if (!t.has_shared) continue;
        t.shared_per_item[phase] = outputs_of_item(shared[phase], n_times, n_threads);
        n_items[phase] += (shared[phase]->n_rows + t.shared_per_item[phase] - 1) / t.shared_per_item[phase];
        bytes += n_times * shared[phase]->n_rows * shared[phase]->row_bytes;
    }
    const rt_phase phases[RT_PHASES] = {
        { input_item, t.n_pairs },
        { gate_up_item, n_items[0] },
        { between_item, t.quantise_ff ? t.n_pairs : 0 },
        { down_item, n_items[1] },
        { mix_item, a->n * (int64_t)((a->m + PIECE - 1) / PIECE) },
    };
    rt_share_phases(d, phases, RT_PHASES, &t, bytes / 16 * a->n);
}
