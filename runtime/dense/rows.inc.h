/* Norms, activations, rotary embedding and softmax for one instruction set: dense_scalar.c with vectors. */
#include "runtime/dense/vector.inc.h"

static void rms_norm(const float *x, const float *w, float eps, const float *gate, int32_t m, float *y)
{
    const vf scale = v_set1(gdn_rsqrt(fmaf(dot32_self(x, m), gdn_reciprocal((float)m), eps)));
    if (gate)
        FOR_LANES(i, lanes, m, {
            const vf normed = v_mul(v_mul(v_load_some(x + i, lanes), scale), v_load_some(w + i, lanes));
            v_store_some(y + i, v_mul(normed, v_silu(v_load_some(gate + i, lanes))), lanes);
        });
    else
        FOR_LANES(i, lanes, m, {
            v_store_some(y + i, v_mul(v_mul(v_load_some(x + i, lanes), scale), v_load_some(w + i, lanes)), lanes);
        });
}

static void add(const float *x, float *y, int64_t n)
{
    FOR_LANES(i, lanes, n,
              { v_store_some(y + i, v_add(v_load_some(y + i, lanes), v_load_some(x + i, lanes)), lanes); });
}

static void swiglu(const float *a, const float *b, float *y, int64_t n)
{
    FOR_LANES(i, lanes, n,
              { v_store_some(y + i, v_mul(v_silu(v_load_some(a + i, lanes)), v_load_some(b + i, lanes)), lanes); });
}

static void sigmoid_gate(const float *x, const float *gate, int32_t m, float *y)
{
    FOR_LANES(i, lanes, m, {
        v_store_some(y + i, v_mul(v_load_some(x + i, lanes), v_sigmoid(v_load_some(gate + i, lanes))), lanes);
    });
}

static void rope(float *x, const float *cosine, const float *sine, int32_t half)
{
    FOR_LANES(i, lanes, half, {
        const vf a = v_load_some(x + i, lanes), b = v_load_some(x + i + half, lanes);
        const vf c = v_load_some(cosine + i, lanes), s = v_load_some(sine + i, lanes);
        v_store_some(x + i, v_fnma(b, s, v_mul(a, c)), lanes);
        v_store_some(x + i + half, v_fma(a, s, v_mul(b, c)), lanes);
    });
}

/* exp(x - max x) in place; returns 1 / sum. */
GDN_INLINE float exponentials(float *x, int32_t n)
{
    const float lowest = -__builtin_inff();
    vf largest = v_set1(lowest), p[SUMS];
    FOR_LANES(i, lanes, n, {
        const vf v = v_sel(vm_first_n(lanes), v_load_some(x + i, lanes), v_set1(lowest));
        largest = v_sel(v_gt(v, largest), v, largest);
    });
    const vf m = v_set1(v_hmax(largest));
    int32_t i = 0;
    zero32(p);
    for (; i + 32 <= n; i += 32) {
        UNROLLED
        for (int k = 0; k < SUMS; k++) {
            const vf e = v_exp(v_sub(v_load(x + i + k * GDN_VL), m));
            v_store(x + i + k * GDN_VL, e);
            p[k] = v_add(p[k], e);
        }
    }
    for (int k = 0; k < SUMS; k++) {
        const int lanes = lanes_of(n - i, k);
        if (!lanes) break;
        const vf e = v_exp(v_sub(v_load_n(x + i + k * GDN_VL, lanes), m));
        v_store_n(x + i + k * GDN_VL, e, lanes);
        p[k] = v_sel(vm_first_n(lanes), v_add(p[k], e), p[k]);
    }
    return gdn_reciprocal(sum32(p));
}

static void softmax(float *x, int32_t n)
{
    const vf inverse = v_set1(exponentials(x, n));
    FOR_LANES(i, lanes, n, { v_store_some(x + i, v_mul(v_load_some(x + i, lanes), inverse), lanes); });
}
