/* The kernels behind dense.h: one table per instruction set. Each works on what one thread does; dense.c deals the
 * work out. Formulas and orders of summation: dense.h. */
#ifndef GDN_RUNTIME_DENSE_INTERNAL_H
#define GDN_RUNTIME_DENSE_INTERNAL_H

#include "runtime/dense.h"

enum {
    RT_GROUP  = 512, /* elements of a group: 16 blocks, one per partial sum          */
    RT_BLOCKS = RT_GROUP / 32
};

/* A group of quantised inputs. In which order q and the lanes stand is up to the instruction set, whose `quantize`
 * writes them and whose `product` reads them. Elements beyond the row's end are zeros. */
typedef struct rt_x_group {
    int8_t  q[RT_GROUP];
    float   d[RT_BLOCKS];        /* scale                                                */
    float   ds[RT_BLOCKS];       /* d * sum, rounded                                     */
    int32_t sum[RT_BLOCKS];      /* of q                                                 */
    int32_t half[2 * RT_BLOCKS]; /* of q, over 16 elements, the grain of Q6_K's scales   */
} rt_x_group;

/* Outputs of one matrix for all n rows. Quantised inputs: group g of row r is xq[g * n + r]. */
typedef struct rt_product_args {
    const unsigned char *w;      /* first row of the matrix                              */
    int64_t              row_bytes;
    int32_t              type, n_columns, n;
    const float         *x;
    int64_t              x_stride;
    const rt_x_group    *xq;
    float               *y;
    int64_t              y_stride;
} rt_product_args;

typedef struct rt_kernels {
    const char *isa;
    /* a row of n elements; group g goes to out[g * stride] */
    void (*quantize)(const float *x, int32_t n, rt_x_group *out, int64_t stride);
    /* outputs [first, last); panel: rt_panel_bytes of this thread's own */
    void (*product)(const rt_product_args *a, int32_t first, int32_t last, void *panel);
    /* one row of m; gate may be NULL */
    void (*rms_norm)(const float *x, const float *w, float eps, const float *gate, int32_t m, float *y);
    void (*add)(const float *x, float *y, int64_t n);
    void (*swiglu)(const float *a, const float *b, float *y, int64_t n);
    void (*sigmoid_gate)(const float *x, const float *gate, int32_t m, float *y);
    /* one head; half = n_rot / 2 */
    void (*rope)(float *x, const float *cosine, const float *sine, int32_t half);
    void (*softmax)(float *x, int32_t n);
    /* heads [head, head + n_heads) of a row, which have the same kv head; scratch: n_heads * rt_cells_padded floats */
    void (*attention)(const rt_attention_args *a, int32_t row, int32_t head, int32_t n_heads, float *scratch);
} rt_kernels;

extern const rt_kernels rt_kernels_scalar, rt_kernels_avx2, rt_kernels_avx512, rt_kernels_neon;
/* The same with the integer dot products of AVX512_VNNI. */
extern const rt_kernels rt_kernels_avx512_vnni;

/* The scalar ones, for a table that has none of its own. */
void rt_scalar_quantize(const float *x, int32_t n, rt_x_group *out, int64_t stride);
void rt_scalar_product(const rt_product_args *a, int32_t first, int32_t last, void *panel);

static inline int32_t rt_groups(int32_t n_columns) { return n_columns / RT_GROUP + (n_columns % RT_GROUP != 0); }
static inline int64_t rt_cells_padded(int64_t n_cells) { return (n_cells + 31) / 32 * 32; }

/* Rows of weights that are decoded once and then used for many rows of x; and with it all memory of a thread. */
enum { RT_PANEL_BYTES = 256 * 1024, RT_THREAD_BYTES = RT_PANEL_BYTES + 64 };

#endif
