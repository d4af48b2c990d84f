/* The dense kernels around the recurrent ones: matrix products, norms, rotary embedding, attention, activations, MoE.
 *
 * They follow the numerical contract of docs/reference/numerics.md and docs/design/runtime.md. A row's bits depend on
 * that row alone, not on the rest of the batch, the number of threads or the instruction set. Each function has a
 * scalar version, which is the specification, and vector versions with the same bits.
 *
 * Rows are packed F32 unless a stride is given; strides are in elements. Sizes are not checked: callers have done so.
 */
#ifndef GDN_RUNTIME_DENSE_H
#define GDN_RUNTIME_DENSE_H

#include "runtime/base/parallel.h"
#include "runtime/files/weights.h"

typedef struct rt_dense rt_dense; /* kernel table of one instruction set, and the threads */

/* isa: NULL selects the best of this machine; otherwise the name of a kernel table that it can run ("avx512", "avx2",
 * "scalar", ...). */
gdn_status rt_dense_create(const char *isa, rt_threads *threads, rt_dense **dense);
void rt_dense_destroy(rt_dense *dense);
/* Bytes of scratch that a dense object of so many threads has. */
uint64_t rt_dense_bytes(int32_t n_threads);
const char *rt_dense_isa(const rt_dense *dense);

/* Bytes of scratch that rt_matmul needs for n_rows rows of n_columns inputs, for any weight type. The scratch must be
 * aligned to 64. */
uint64_t rt_matmul_scratch(int32_t n_rows, int32_t n_columns);

/* y[r][o] = sum_i W[o][i] x[r][i] for r < n, o < W.n_rows; x has row stride x_stride, y y_stride. Parallel over
 * outputs. Each block of W is decoded once for all rows of a tile.
 *
 * F32, F16, BF16 weights: dot32 of the row (numerics.md), W converted to F32 exactly.
 *
 * Quantised weights: x is quantised once, in blocks of 32, with d = max|x| / 127 and q = round to nearest even
 * (x * (1/d)). The sequence of operations is that of set_rows to Q8_0 (numerics.md), with two differences. d is not
 * rounded to F16. d is NaN if the block has an infinity or a NaN, so that every output of its row is NaN. Then, with 16
 * partial sums:
 *       p[0..15] = +0
 *       for block b = 0, 1, ..:   t = sum over the block of q * w, an exact integer
 *                                 p[b % 16] = fma(t, dw * d, p[b % 16])
 *                                 p[b % 16] = fma(-m, d * (sum of c * q), p[b % 16])   types with minima
 *       for h = 8, 4, 2, 1:       p[l] = p[l] + p[l + h]     for l < h
 *
 * - A block has 32 elements for every type. dw is its scale (the type's d times the block's own scale, exact), w its
 *   integers. weights.h and quant_blocks.h define dw, w and m, and which types have minima (m).
 * - Q2_K, Q3_K, Q6_K, IQ1_M, IQ2_XS and IQ2_S have two scales per block, of 16 elements each. The integer t includes
 *   them; it stays below 2^24. c is 1, but in Q2_K the two minima of 16 elements, as integers.
 * - IQ1, IQ2 and IQ3_XXS count in eighths and quarters of d, MXFP4 in halves, so that w are integers.
 * - Blocks are padded with zeros to a multiple of 16. There is one partial sum per block index modulo 16, so that a
 *   vector's lanes can hold one block each and need no sum across lanes, for any vector width. */
void rt_matmul(rt_dense *d, const rt_weight *w, int32_t matrix, const float *x, int64_t x_stride, int32_t n, float *y,
               int64_t y_stride, void *scratch);

/* Several products of the same x, which is quantised once, in one parallel region. All weights have the same n_columns.
 */
typedef struct rt_product {
    const rt_weight *w;
    int32_t matrix;
    float *y;
    int64_t y_stride;
} rt_product;
void rt_matmul_many(rt_dense *d, const rt_product *products, int32_t n_products, const float *x, int64_t x_stride,
                    int32_t n, void *scratch);

/* RMS norm: y = (x * rsqrt(fma(dot32(x, x), 1 / m, eps))) * w, rows of m elements. y may be x. */
void rt_rms_norm(rt_dense *d, const float *x, int64_t x_stride, const float *w, float eps, int32_t n, int32_t m,
                 float *y, int64_t y_stride);
/* rt_rms_norm, then times silu(gate): the gated norm after gated_delta_net. y may be x or gate. */
void rt_rms_norm_silu_gate(rt_dense *d, const float *x, int64_t x_stride, const float *w, float eps, const float *gate,
                           int64_t gate_stride, int32_t n, int32_t m, float *y, int64_t y_stride);
/* In this order: y += x; y = silu(a) * b; y = x * sigmoid(gate). n elements, or n rows of m. y may be any input. */
void rt_add(rt_dense *d, const float *x, float *y, int64_t n);
void rt_swiglu(rt_dense *d, const float *a, const float *b, float *y, int64_t n);
void rt_sigmoid_gate(rt_dense *d, const float *x, int64_t x_stride, const float *gate, int64_t gate_stride, int32_t n,
                     int32_t m, float *y, int64_t y_stride);

/* Rotary embedding, in place. Rotates the first n_rot elements of every head in pairs (i, j = i + n_rot / 2) by the
 * angle position[r] * base^(-2 i / n_rot):
 *
 *     x[i]' = fma(-x[j], sin, x[i] * cos);  x[j]' = fma(x[i], sin, x[j] * cos)
 *
 * cos and sin are computed in float64 and rounded. Positions below n_positions come from a table; others are computed
 * in the call. rope.h creates the object. x: n rows of n_heads heads; row stride x_stride, head stride head_stride. */
typedef struct rt_rope rt_rope;
void rt_rope_destroy(rt_rope *rope);
void rt_rope_apply(rt_dense *d, const rt_rope *rope, const int32_t *position, float *x, int64_t x_stride,
                   int64_t head_stride, int32_t n, int32_t n_heads);

/* Causal attention of query rows over the cells of a cache. Head h uses kv head
 * h / (n_heads / n_heads_kv):
 *
 *     s_p = scale * dot32(q_h, k_p);  m = max s_p, which ignores NaN;  w_p = exp(s_p - m)
 *     z = sum of w_p with 32 partials (p mod 32) and dot32's tree
 *     out_d = (sum_p w_p v_p[d], by fma in the order of p from +0) * (1 / z)
 *
 * p runs over the n_cells[r] logical positions of row r. cell[r][p] is the slot of its k and v, each a row of
 * n_heads_kv * head_dim elements of `type` (RT_F32, RT_F16, RT_BF16, RT_Q8_0). An element of Q8_0 is its block's scale
 * times its byte, which is exact; head_dim is a multiple of 32 then. Consecutive rows with the same list (those of one
 * sequence) and heads that share a kv head are computed together, up to 32 at a time. A cell is then read once for all
 * of them. Parallel over rows and kv heads, or over cells and elements. */
typedef struct rt_attention_args {
    const float *q; /* [n][q_stride]: n_heads heads, head_stride apart                   */
    int64_t q_stride, q_head_stride;
    const unsigned char *k, *v; /* KV cache                                                          */
    int32_t type;
    int32_t n, n_heads, n_heads_kv, head_dim;
    float scale;
    const int32_t *const *cell; /* [n]                                                               */
    const int32_t *n_cells;     /* [n]                                                               */
    float *out;                 /* [n][n_heads * head_dim]                                           */
    float *scratch;             /* rt_attention_scratch floats, aligned to 64                        */
} rt_attention_args;
uint64_t rt_attention_scratch(int32_t n_threads, int32_t n_heads, int32_t n_heads_kv, int32_t max_cells);
void rt_attention(rt_dense *d, const rt_attention_args *args);

/* MoE routing. p: router logits of n rows. Softmax in place, then the n_used largest per row (rt_top_k), with weights
 * p / (sum of the n_used, added in order from +0) * scale. */
void rt_choose_experts(rt_dense *d, float *p, int32_t n, int32_t n_experts, int32_t n_used, float scale,
                       int32_t *expert, float *weight);

/* The MoE feed forward of a layer for n rows x of m elements; expert e uses matrix e of the stacks gate, up and down.
 *   x[r][u] = down(silu(gate x[r]) * (up x[r])) of expert[r][u], products as rt_matmul's, silu and * as rt_swiglu's
 *   y[r]    = sum over u < n_used of weight[r][u] * x[r][u], one after another from +0, without fma; then, with a
 *             shared expert, + sigmoid(shared_gate[r]) * shared(x[r])
 * A row's bits do not depend on the experts of other rows. The rows of an expert are computed together; the shared
 * expert is computed as one more expert, with all rows. One parallel region with phases: gates and ups of all experts,
 * then downs. scratch: rt_experts_scratch bytes, aligned to 64. y may not be x. */
typedef struct rt_experts_args {
    int32_t n, m, n_experts, n_used;
    const float *x;                                         /* [n][m]                                             */
    const rt_weight *gate, *up, *down;                      /* stacks of n_experts matrices                       */
    const int32_t *expert;                                  /* [n][n_used], below n_experts, distinct in a row    */
    const float *weight;                                    /* [n][n_used]                                        */
    const rt_weight *gate_shared, *up_shared, *down_shared; /* NULL: no shared expert                    */
    const float *shared_gate;                               /* [n], logits                                        */
    float *y;                                               /* [n][m]                                             */
    void *scratch;
} rt_experts_args;
uint64_t rt_experts_scratch(const rt_experts_args *args); /* depends on n, m, n_experts, n_used and the weights only */
void rt_experts(rt_dense *d, const rt_experts_args *args);

/* Softmax of a row (m, z and 1 / z as in attention), in place. */
void rt_softmax(rt_dense *d, float *x, int32_t n);
/* Indices of the k largest, k <= n, in descending order; ties go to the lower index, NaN sorts last. */
void rt_top_k(const float *x, int32_t n, int32_t k, int32_t *index);

#endif
