/* Products with F32, F16 and BF16 weights for one instruction set: dot32 of each output and row. They are computed in
 * tiles of outputs and rows, so that a loaded weight serves several rows. */
#include "runtime/dense/vector.inc.h"

/* Tile sizes: the partial sums fill the registers. */
enum {
    ROWS = GDN_VL == 16 ? 4 : 2,
    OUTPUTS = GDN_VL == 16 ? 3 : 1,       /* with ROWS rows */
    SINGLE_OUTPUTS = GDN_VL == 16 ? 4 : 2 /* with one row */
};

GDN_INLINE void float_tile(const rt_product_args *a, int type, int n_outputs, int n_rows, int32_t o, int32_t r)
{
    const unsigned char *w = a->w + o * a->row_bytes;
    const float *x = a->x + r * a->x_stride;
    const int32_t n = a->n_columns;
    const int float_bytes = type == RT_F32 ? 4 : 2;
    vf p[SINGLE_OUTPUTS * ROWS][SUMS];
    int32_t i = 0;
    UNROLLED
    for (int t = 0; t < n_outputs * n_rows; t++) zero32(p[t]);
    for (; i + 32 <= n; i += 32) {
        UNROLLED
        for (int t = 0; t < n_outputs; t++) /* prefetch the weights of the next tile */
            prefetch_far(w + (t + n_outputs) * a->row_bytes + i * float_bytes, 32 * float_bytes);
        UNROLLED
        for (int s = 0; s < SUMS; s++) {
            vf in[ROWS];
            UNROLLED
            for (int y = 0; y < n_rows; y++) in[y] = v_load(x + y * a->x_stride + i + s * GDN_VL);
            UNROLLED
            for (int t = 0; t < n_outputs; t++) {
                const vf weights = v_load_typed(w + t * a->row_bytes, type, i + s * GDN_VL, GDN_VL);
                UNROLLED
                for (int y = 0; y < n_rows; y++) p[t * n_rows + y][s] = v_fma(weights, in[y], p[t * n_rows + y][s]);
            }
        }
    }
    if (i < n) {
        UNROLLED
        for (int s = 0; s < SUMS; s++) {
            const int m = lanes_of(n - i, s);
            if (!m) break;
            UNROLLED
            for (int t = 0; t < n_outputs; t++) {
                const vf weights = v_load_typed(w + t * a->row_bytes, type, i + s * GDN_VL, m);
                UNROLLED
                for (int y = 0; y < n_rows; y++) {
                    vf *sum = &p[t * n_rows + y][s];
                    *sum = v_sel(vm_first_n(m), v_fma(weights, v_load_n(x + y * a->x_stride + i + s * GDN_VL, m), *sum),
                                 *sum);
                }
            }
        }
    }
    UNROLLED
    for (int t = 0; t < n_outputs; t++) {
        UNROLLED
        for (int y = 0; y < n_rows; y++) a->y[(r + y) * a->y_stride + o + t] = sum32(p[t * n_rows + y]);
    }
}

GDN_INLINE void float_product(const rt_product_args *a, int type, int32_t first, int32_t last)
{
    int32_t r = 0;
    for (; r + ROWS <= a->n; r += ROWS) {
        int32_t o = first;
        for (; o + OUTPUTS <= last; o += OUTPUTS) float_tile(a, type, OUTPUTS, ROWS, o, r);
        if (OUTPUTS > 1)
            for (; o < last; o++) float_tile(a, type, 1, ROWS, o, r);
    }
    for (; r < a->n; r++) {
        int32_t o = first;
        for (; o + SINGLE_OUTPUTS <= last; o += SINGLE_OUTPUTS) float_tile(a, type, SINGLE_OUTPUTS, 1, o, r);
        for (; o < last; o++) float_tile(a, type, 1, 1, o, r);
    }
}

static void product_of_floats(const rt_product_args *a, int32_t first, int32_t last)
{
    if (a->type == RT_F32) float_product(a, RT_F32, first, last);
    else if (a->type == RT_F16) float_product(a, RT_F16, first, last);
    else float_product(a, RT_BF16, first, last);
}
