/* The dense kernels: choice of the instruction set, and distribution of work to threads. See dense.h. */
#include "runtime/dense/dense.h"

#include <stdatomic.h>
#include <string.h>

#include "numerics/elementary.h"
#include "numerics/float_env.h"
#include "runtime/dense/dense_internal.h"
#include "runtime/base/error.h"
#include "runtime/dense/rope.h"
#include "simd/features.h"
#include "system/system.h"

/* A thread's remaining items: the first in the low 32 bits, the end in the high ones. In its own cache line. */
typedef struct range {
    _Alignas(64) _Atomic uint64_t left;
} range;

struct rt_dense {
    const rt_kernels *kernels;
    rt_threads *threads;
    int32_t n_threads;
    unsigned char *panels; /* RT_PANEL_BYTES for each thread */
    range *ranges;         /* one for each phase and thread  */
};

_Static_assert(RT_PANEL_BYTES % 64 == 0 && RT_PHASES * sizeof(range) == RT_THREAD_BYTES - RT_PANEL_BYTES, "one piece");

static int always(void) { return 1; }

static const struct {
    const rt_kernels *kernels;
    int (*present)(void);
} tables[] = {
/* best first */
#ifdef GDN_ARCH_X86
    { &rt_kernels_avx512_vnni, gdn_simd_has_avx512_vnni },
    { &rt_kernels_avx512, gdn_simd_has_avx512 },
    { &rt_kernels_avx2, gdn_simd_has_avx2 },
#endif
#ifdef GDN_ARCH_ARM64
    { &rt_kernels_neon, always },
#endif
    { &rt_kernels_scalar, always },
};

gdn_status rt_dense_create(const char *isa, rt_threads *threads, rt_dense **dense)
{
    const rt_kernels *kernels = NULL;
    char present[128] = "";
    *dense = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (!tables[i].present()) continue;
        strcat(present, present[0] ? ", " : "");
        strcat(present, tables[i].kernels->isa);
        if (!kernels && (!isa || !strcmp(isa, tables[i].kernels->isa))) kernels = tables[i].kernels;
    }
    if (!kernels) return rt_fail(GDN_UNSUPPORTED, "isa is \"%s\"; this processor has %s", isa, present);
    const int32_t n_threads = rt_threads_count(threads);
    void *panels;
    rt_dense *d = rt_calloc_with(sizeof *d, (uint64_t)n_threads, RT_THREAD_BYTES, "decoded weights", &panels);
    if (!d) return GDN_OUT_OF_MEMORY;
    *d = (rt_dense){ kernels, threads, n_threads, panels,
                     (range *)(void *)((unsigned char *)panels + (int64_t)n_threads * RT_PANEL_BYTES) };
    *dense = d;
    return GDN_OK;
}

void rt_dense_destroy(rt_dense *d) { rt_free(d); }

uint64_t rt_dense_bytes(int32_t n_threads) { return (uint64_t)n_threads * RT_THREAD_BYTES; }

const char *rt_dense_isa(const rt_dense *d) { return d->kernels->isa; }
const rt_kernels *rt_dense_kernels(const rt_dense *d) { return d->kernels; }
int32_t rt_dense_threads(const rt_dense *d) { return d->n_threads; }
void *rt_dense_panel(const rt_dense *d, int32_t slot) { return d->panels + (int64_t)slot * RT_PANEL_BYTES; }

/* ---- Work distribution. A slot identifies a thread during a call. ----
 *
 * Each thread has a range of consecutive items and takes them in order, so that it reads contiguous weights and the
 * processor prefetches them. A thread without items steals the last item of another's range. All threads thus end at
 * about the same time, even if some were busy elsewhere.
 *
 * A call may have phases: the items of the next phase begin when all items of the current one are done. All phases run
 * in one parallel region. A thread without items waits only for items that other threads have already begun, never for
 * a thread that has not started. */

typedef struct job {
    const rt_dense *d;
    const rt_phase *phases;
    int32_t n_phases;
    const void *arg;
    int32_t n_slots;
    _Atomic int64_t n_done[RT_PHASES];
} job;

static void set_range(range *r, int64_t first, int64_t end)
{
    atomic_store_explicit(&r->left, (uint64_t)first | (uint64_t)end << 32, memory_order_relaxed);
}

/* Takes the first remaining item, or the last one; -1: none. */
static int64_t take(range *r, int last)
{
    uint64_t left = atomic_load_explicit(&r->left, memory_order_relaxed), then;
    do {
        if ((uint32_t)left >= left >> 32) return -1;
        then = last ? left - (UINT64_C(1) << 32) : left + 1;
    } while (!atomic_compare_exchange_weak_explicit(&r->left, &left, then, memory_order_relaxed, memory_order_relaxed));
    return last ? (int64_t)(then >> 32) : (int64_t)(uint32_t)left;
}

static void wait_for(const _Atomic int64_t *n_done, int64_t n)
{
    enum { SPINS = 2000 }; /* tens of microseconds; longer: a thread lost its processor */
    for (int spins = 0; atomic_load_explicit(n_done, memory_order_acquire) < n; spins++)
        if (spins >= SPINS) gdn_thread_yield();
}

static void work(void *user, int32_t slot)
{
    job *j = user;
    const gdn_float_env caller = gdn_float_env_enter();
    for (int32_t phase = 0; phase < j->n_phases; phase++) {
        range *ranges = &j->d->ranges[(int64_t)phase * j->d->n_threads];
        int64_t n_done = 0;
        if (phase) wait_for(&j->n_done[phase - 1], j->phases[phase - 1].n_items);
        for (int32_t k = 0; k < j->n_slots; k++) { /* its own range, then those of others */
            range *r = &ranges[(slot + k) % j->n_slots];
            for (int64_t i; (i = take(r, k > 0)) >= 0; n_done++) j->phases[phase].fn(j->d, j->arg, i, slot);
        }
        atomic_fetch_add_explicit(&j->n_done[phase], n_done, memory_order_acq_rel);
    }
    gdn_float_env_leave(caller);
}

void rt_share_phases(const rt_dense *d, const rt_phase *phases, int32_t n_phases, const void *arg, int64_t cost)
{
    enum { WORTH_WAKING = 5000 }; /* ns; a parallel region costs about 1000 ns with awake threads */
    int64_t most = 0;
    for (int32_t phase = 0; phase < n_phases; phase++)
        most = phases[phase].n_items > most ? phases[phase].n_items : most;
    const int alone = d->n_threads == 1 || most <= 1 || cost < WORTH_WAKING;
    job j = { d, phases, n_phases, arg, alone ? 1 : most < d->n_threads ? (int32_t)most : d->n_threads, { 0 } };
    for (int32_t phase = 0; phase < n_phases; phase++)
        for (int32_t slot = 0; slot < j.n_slots; slot++)
            set_range(&d->ranges[phase * d->n_threads + slot], phases[phase].n_items * slot / j.n_slots,
                      phases[phase].n_items * (slot + 1) / j.n_slots);
    if (alone) work(&j, 0);
    else rt_parallel_for(d->threads, j.n_slots, work, &j);
}

void rt_share(const rt_dense *d, rt_item_fn *fn, const void *arg, int64_t n_items, int64_t cost)
{
    const rt_phase one = { fn, n_items };
    rt_share_phases(d, &one, 1, arg, cost);
}

/* Elements of a work item of rows. */
enum { ROWS_ELEMENTS = 4096 };

static int64_t rows_per_item(int64_t m) { return m < ROWS_ELEMENTS ? ROWS_ELEMENTS / (m < 1 ? 1 : m) : 1; }
static int64_t items_of(int64_t n, int64_t per_item) { return (n + per_item - 1) / per_item; }

/* ---- Matrix products ---- */

typedef struct products {
    const rt_product *list;
    int32_t n_products, n_columns, n;
    const float *x;
    int64_t x_stride;
    rt_x_group *xq;
    int32_t per_item; /* outputs per work item */
} products;

uint64_t rt_matmul_scratch(int32_t n_rows, int32_t n_columns)
{
    return (uint64_t)n_rows * (uint64_t)rt_groups(n_columns) * sizeof(rt_x_group);
}

static void quantize_row(const rt_dense *d, const void *arg, int64_t row, int32_t slot)
{
    const products *p = arg;
    (void)slot;
    d->kernels->quantize(p->x + row * p->x_stride, p->n_columns, p->xq + row, p->n);
}

static void product_outputs(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const products *p = arg;
    const rt_product *one = p->list;
    for (int64_t n; item >= (n = items_of(one->w->n_rows, p->per_item)); one++) item -= n;
    const rt_weight *w = one->w;
    const int32_t first = (int32_t)item * p->per_item, left = w->n_rows - first;
    rt_product_args a = {
        rt_weight_matrix(w, one->matrix),  w->row_bytes, w->type,      w->n_columns, p->n, p->x, p->x_stride,
        rt_is_quantised(w) ? p->xq : NULL, one->y,       one->y_stride
    };
    d->kernels->product(&a, first, first + (left < p->per_item ? left : p->per_item), rt_dense_panel(d, slot));
}

void rt_matmul_many(rt_dense *d, const rt_product *list, int32_t n_products, const float *x, int64_t x_stride,
                    int32_t n, void *scratch)
{
    enum { BYTES = 32 * 1024, TILE = 16 }; /* bytes of weights in an item; outputs per tile */
    products p = { list, n_products, 0, n, x, x_stride, scratch, TILE };
    int64_t bytes = 0, outputs = 0, n_items = 0;
    int quantised = 0;
    for (int32_t i = 0; i < n_products; i++) {
        const rt_weight *w = list[i].w;
        p.n_columns = w->n_columns;
        quantised |= rt_is_quantised(w);
        outputs += w->n_rows;
        bytes += w->n_rows * w->row_bytes;
    }
    if (n < 1 || !outputs) return;
    if (quantised) rt_share(d, quantize_row, &p, n, (int64_t)n * p.n_columns / 4);
    /* items large enough for memory pages, and small enough to balance threads */
    const int64_t by_bytes = BYTES * outputs / (bytes ? bytes : 1), by_threads = outputs / (4 * (int64_t)d->n_threads);
    const int64_t per_item = by_bytes < by_threads ? by_bytes : by_threads;
    p.per_item = per_item < TILE ? TILE : (int32_t)(per_item / TILE * TILE);
    for (int32_t i = 0; i < n_products; i++) n_items += items_of(list[i].w->n_rows, p.per_item);
    rt_share(d, product_outputs, &p, n_items, bytes / 16 * n);
}

void rt_matmul(rt_dense *d, const rt_weight *w, int32_t matrix, const float *x, int64_t x_stride, int32_t n, float *y,
               int64_t y_stride, void *scratch)
{
    const rt_product one = { w, matrix, y, y_stride };
    rt_matmul_many(d, &one, 1, x, x_stride, n, scratch);
}

/* ---- Rows ---- */

typedef enum row_kind { RMS_NORM, SIGMOID_GATE } row_kind;

typedef struct strided {
    const float *at;
    int64_t stride;
} strided;

typedef struct row_args {
    row_kind kind;
    int32_t n, m;
    strided x, gate; /* gate.at NULL: none */
    float *y;
    int64_t y_stride;
    const float *w;
    float eps;
} row_args;

static void rows_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const row_args *a = arg;
    const int64_t per = rows_per_item(a->m), last = (item + 1) * per < a->n ? (item + 1) * per : a->n;
    (void)slot;
    for (int64_t r = item * per; r < last; r++) {
        const float *x = a->x.at + r * a->x.stride, *gate = a->gate.at ? a->gate.at + r * a->gate.stride : NULL;
        float *y = a->y + r * a->y_stride;
        if (a->kind == RMS_NORM) d->kernels->rms_norm(x, a->w, a->eps, gate, a->m, y);
        else d->kernels->sigmoid_gate(x, gate, a->m, y);
    }
}

static void share_rows(const rt_dense *d, row_args a)
{
    rt_share(d, rows_item, &a, items_of(a.n, rows_per_item(a.m)), (int64_t)a.n * a.m);
}

void rt_rms_norm(rt_dense *d, const float *x, int64_t x_stride, const float *w, float eps, int32_t n, int32_t m,
                 float *y, int64_t y_stride)
{
    rt_rms_norm_silu_gate(d, x, x_stride, w, eps, NULL, 0, n, m, y, y_stride);
}

void rt_rms_norm_silu_gate(rt_dense *d, const float *x, int64_t x_stride, const float *w, float eps, const float *gate,
                           int64_t gate_stride, int32_t n, int32_t m, float *y, int64_t y_stride)
{
    share_rows(d,
               (row_args){ RMS_NORM, n, m, { x, x_stride }, { gate, gate_stride }, y, y_stride, .w = w, .eps = eps });
}

void rt_sigmoid_gate(rt_dense *d, const float *x, int64_t x_stride, const float *gate, int64_t gate_stride, int32_t n,
                     int32_t m, float *y, int64_t y_stride)
{
    share_rows(d, (row_args){ SIGMOID_GATE, n, m, { x, x_stride }, { gate, gate_stride }, y, y_stride });
}

/* ---- Long vectors ---- */

typedef struct vector_args {
    const float *a, *b;
    float *y;
    int64_t n;
} vector_args; /* b NULL: y += a */

enum { PIECE = 8192 };

static void vector_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const vector_args *v = arg;
    const int64_t at = item * PIECE, n = v->n - at < PIECE ? v->n - at : PIECE;
    (void)slot;
    if (v->b) d->kernels->swiglu(v->a + at, v->b + at, v->y + at, n);
    else d->kernels->add(v->a + at, v->y + at, n);
}

void rt_add(rt_dense *d, const float *x, float *y, int64_t n)
{
    const vector_args v = { x, NULL, y, n };
    rt_share(d, vector_item, &v, items_of(n, PIECE), n / 4);
}

void rt_swiglu(rt_dense *d, const float *a, const float *b, float *y, int64_t n)
{
    const vector_args v = { a, b, y, n };
    rt_share(d, vector_item, &v, items_of(n, PIECE), n);
}

static void softmax_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const vector_args *v = arg;
    (void)item, (void)slot;
    d->kernels->softmax(v->y, (int32_t)v->n);
}

void rt_softmax(rt_dense *d, float *x, int32_t n)
{
    const vector_args v = { NULL, NULL, x, n };
    rt_share(d, softmax_item, &v, 1, 0);
}

/* ---- Rotary embedding ---- */

typedef struct rope_args {
    const rt_rope *rope;
    const int32_t *position;
    float *x;
    int64_t x_stride, head_stride;
    int32_t n_heads;
} rope_args;

static void rope_item(const rt_dense *d, const void *arg, int64_t row, int32_t slot)
{
    const rope_args *a = arg;
    float made[RT_ROPE_MAX];
    const int32_t half = rt_rope_half(a->rope);
    const float *cosines = rt_rope_angles(a->rope, a->position[row], made);
    (void)slot;
    for (int32_t h = 0; h < a->n_heads; h++)
        d->kernels->rope(a->x + row * a->x_stride + h * a->head_stride, cosines, cosines + half, half);
}

void rt_rope_apply(rt_dense *d, const rt_rope *rope, const int32_t *position, float *x, int64_t x_stride,
                   int64_t head_stride, int32_t n, int32_t n_heads)
{
    const rope_args a = { rope, position, x, x_stride, head_stride, n_heads };
    rt_share(d, rope_item, &a, n, (int64_t)n * n_heads * rt_rope_half(rope) / 2);
}
