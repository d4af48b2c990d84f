/* The kernel tables behind dense.h, one per instruction set. A kernel does the work of one thread; dense.c splits calls
 * into work items. dense.h has the formulas and the order of summation. */
#ifndef GDN_RUNTIME_DENSE_INTERNAL_H
#define GDN_RUNTIME_DENSE_INTERNAL_H

#include "runtime/dense/dense.h"

enum {
    RT_GROUP = 512, /* elements of a group: 16 blocks, one per partial sum          */
    RT_BLOCKS = RT_GROUP / 32
};

/* A group of quantised inputs. The instruction set chooses the order of q and of the blocks: its `quantize` writes the
 * group and its `product` reads it. Elements beyond the end of the row are zeros. */
typedef struct rt_x_group {
    int8_t q[RT_GROUP];
    float d[RT_BLOCKS];          /* scale                                                */
    float ds[RT_BLOCKS];         /* d * sum, rounded                                     */
    int32_t sum[RT_BLOCKS];      /* sum of q                                             */
    int32_t half[2 * RT_BLOCKS]; /* sums of q over 16 elements, as Q6_K's scales need    */
} rt_x_group;

/* Outputs of one matrix for all n rows. Quantised inputs: group g of row r is xq[g * n + r]. */
typedef struct rt_product_args {
    const unsigned char *w; /* first row of the matrix                              */
    int64_t row_bytes;
    int32_t type, n_columns, n;
    const float *x;
    int64_t x_stride;
    const rt_x_group *xq;
    float *y;
    int64_t y_stride;
} rt_product_args;

/* A tile of attention: queries that share a sequence's cells and a kv head. Query j is head j % group
 * of those that share the kv head, in row j / group of the tile's rows. */
typedef struct rt_attention_tile {
    const rt_attention_args *args;
    int32_t row, kv_head, group, n_queries;
    int32_t n_cells; /* largest n_cells of the rows                               */
    float *score;    /* [n_queries][stride], room for n_cells rounded up to 32    */
    float *inverse;  /* [n_queries]                                               */
    int64_t stride;
} rt_attention_tile;

enum { RT_Q8_0_BYTES = 34 }; /* of a block: its scale in F16, then 32 signed bytes */

/* Bytes of a kv head's keys or values in a cell. */
static inline int64_t rt_attention_head_bytes(const rt_attention_args *a)
{
    if (a->type == RT_Q8_0) return a->head_dim / 32 * (int64_t)RT_Q8_0_BYTES;
    return a->head_dim * (int64_t)(a->type == RT_F32 ? 4 : 2);
}

static inline const float *rt_attention_query(const rt_attention_tile *t, int32_t j)
{
    const rt_attention_args *a = t->args;
    return a->q + (t->row + j / t->group) * a->q_stride + (t->kv_head * t->group + j % t->group) * a->q_head_stride;
}
static inline float *rt_attention_out(const rt_attention_tile *t, int32_t j)
{
    const rt_attention_args *a = t->args;
    return a->out +
           ((int64_t)(t->row + j / t->group) * a->n_heads + t->kv_head * t->group + j % t->group) * a->head_dim;
}
static inline int32_t rt_attention_cells(const rt_attention_tile *t, int32_t j)
{
    return t->args->n_cells[t->row + j / t->group];
}

typedef struct rt_attention_kernels {
    /* scores of all queries for cells [first, last) */
    void (*scores)(const rt_attention_tile *t, int32_t first, int32_t last);
    /* output elements [first, last) of all queries: sum of score * v over the query's cells, times its inverse */
    void (*weigh)(const rt_attention_tile *t, int32_t first, int32_t last);
} rt_attention_kernels;

extern const rt_attention_kernels rt_attention_avx2, rt_attention_avx512, rt_attention_neon;

typedef struct rt_kernels {
    const char *isa;
    /* quantises a row of n elements; group g is written to out[g * stride] */
    void (*quantize)(const float *x, int32_t n, rt_x_group *out, int64_t stride);
    /* outputs [first, last); panel: RT_PANEL_BYTES of scratch of this thread */
    void (*product)(const rt_product_args *a, int32_t first, int32_t last, void *panel);
    /* one row of m elements; gate may be NULL */
    void (*rms_norm)(const float *x, const float *w, float eps, const float *gate, int32_t m, float *y);
    void (*add)(const float *x, float *y, int64_t n);
    void (*swiglu)(const float *a, const float *b, float *y, int64_t n);
    void (*sigmoid_gate)(const float *x, const float *gate, int32_t m, float *y);
    /* one head; half = n_rot / 2 */
    void (*rope)(float *x, const float *cosine, const float *sine, int32_t half);
    void (*softmax)(float *x, int32_t n);
    /* x = exp(x - max x); returns 1 / sum */
    float (*exponentials)(float *x, int32_t n);
    const rt_attention_kernels *attention;
} rt_kernels;

extern const rt_kernels rt_kernels_scalar, rt_kernels_avx2, rt_kernels_avx512, rt_kernels_neon;
/* The AVX-512 table with the integer dot products of AVX512_VNNI. */
extern const rt_kernels rt_kernels_avx512_vnni;

/* Scalar versions, for tables without their own. */
void rt_scalar_quantize(const float *x, int32_t n, rt_x_group *out, int64_t stride);
void rt_scalar_product(const rt_product_args *a, int32_t first, int32_t last, void *panel);

static inline int rt_is_quantised(const rt_weight *w)
{
    return w->type != RT_F32 && w->type != RT_F16 && w->type != RT_BF16;
}
static inline int32_t rt_groups(int32_t n_columns) { return n_columns / RT_GROUP + (n_columns % RT_GROUP != 0); }
static inline int64_t rt_cells_padded(int64_t n_cells) { return (n_cells + 31) / 32 * 32; }

/* Runs fn once for every item in [0, n_items), on the calling thread and the pool. cost: estimated nanoseconds of all
 * items together. slot: number of the thread during this call, below rt_dense_threads(). */
typedef void rt_item_fn(const rt_dense *d, const void *arg, int64_t item, int32_t slot);
void rt_share(const rt_dense *d, rt_item_fn *fn, const void *arg, int64_t n_items, int64_t cost);
/* The same for up to RT_PHASES phases: all items of a phase are done before the next begins. */
typedef struct rt_phase {
    rt_item_fn *fn;
    int64_t n_items;
} rt_phase;
void rt_share_phases(const rt_dense *d, const rt_phase *phases, int32_t n_phases, const void *arg, int64_t cost);
const rt_kernels *rt_dense_kernels(const rt_dense *d);
int32_t rt_dense_threads(const rt_dense *d);
void *rt_dense_panel(const rt_dense *d, int32_t slot); /* RT_PANEL_BYTES of scratch of that thread */

/* Most phases of a call; bytes of scratch for weight rows, which are decoded once for many rows of x; all scratch of a
 * thread. */
enum { RT_PHASES = 5, RT_PANEL_BYTES = 256 * 1024, RT_THREAD_BYTES = RT_PANEL_BYTES + 64 * RT_PHASES };

#endif
