/* The sequences of numerics/elementary.h over the vector vocabulary, step by step: same names, same
 * order, same bits. Included after one simd/<isa>.h; compiled with -ffp-contract=off. */
#ifndef GDN_SIMD_ELEMENTARY_INC_H
#define GDN_SIMD_ELEMENTARY_INC_H

#include "numerics/elementary.h" /* the constants */

static inline vi gdn_vi_bits(uint32_t b) { return vi_set1((int32_t)b); }
static inline vf gdn_v_bits(uint32_t b) { return v_from_bits(gdn_vi_bits(b)); }

static inline vf v_exp(vf x)
{
    /* [1] clamp */
    x = v_smaller(v_set1(89.0f), x);
    x = v_larger(v_set1(-104.0f), x);
    /* [2] reduce */
    vf t = v_fma(x, v_set1(GDN_LOG2E), v_set1(GDN_ROUND_MAGIC));
    t = v_larger(v_set1(GDN_ROUND_MAGIC - 149.0f), t);
    vf n = v_sub(t, v_set1(GDN_ROUND_MAGIC));
    vf h = v_fnma(n, v_set1(GDN_LN2_HI), x);
    vf r = v_fnma(n, v_set1(GDN_LN2_LO), h);
    vf c = v_fnma(n, v_set1(GDN_LN2_LO), v_sub(h, r));
    /* [3] polynomial */
    vf q = v_set1(GDN_EXP_C6);
    q = v_fma(q, r, v_set1(GDN_EXP_C5));
    q = v_fma(q, r, v_set1(GDN_EXP_C4));
    q = v_fma(q, r, v_set1(GDN_EXP_C3));
    q = v_fma(q, r, v_set1(GDN_EXP_C2));
    vf u = v_fma(v_mul(r, r), q, c);
    /* [4] s + w */
    vf s = v_sel(v_lt(x, v_set1(GDN_EXP_SUBNORMAL)), v_set1(1.0f), v_add(v_set1(1.0f), r));
    vf l = v_sub(r, v_sub(s, v_set1(1.0f)));
    vf w = v_add(l, u);
    /* [5] scale */
    vi n_bits = vi_shl(v_bits(t), 23);
    vi half = vi_and(vi_sar(n_bits, 1), gdn_vi_bits(GDN_EXPONENT_MASK));
    vf scale1 = v_from_bits(vi_add(gdn_vi_bits(0x3f800000u), half));
    vf scale2 = v_from_bits(vi_add(gdn_vi_bits(0x3f800000u), vi_sub(n_bits, half)));
    return v_fma(v_mul(w, scale1), scale2, v_mul(v_mul(s, scale1), scale2));
}

static inline vf v_log1p(vf x)
{
    /* [1] reduce */
    vi k_bits =
        vi_and(vi_sub(v_bits(v_add(v_set1(1.0f), x)), gdn_vi_bits(0x3f400000u)), gdn_vi_bits(GDN_EXPONENT_MASK));
    vf x_scaled = v_from_bits(vi_sub(v_bits(x), k_bits));
    vf four_scaled = v_from_bits(vi_sub(gdn_vi_bits(0x40800000u), k_bits));
    vf f = v_add(x_scaled, v_fma(v_set1(0.25f), four_scaled, v_set1(-1.0f)));
    /* [2] polynomial */
    vf q = v_set1(GDN_LOG_C10);
    q = v_fma(q, f, v_set1(GDN_LOG_C9));
    q = v_fma(q, f, v_set1(GDN_LOG_C8));
    q = v_fma(q, f, v_set1(GDN_LOG_C7));
    q = v_fma(q, f, v_set1(GDN_LOG_C6));
    q = v_fma(q, f, v_set1(GDN_LOG_C5));
    q = v_fma(q, f, v_set1(GDN_LOG_C4));
    q = v_fma(q, f, v_set1(GDN_LOG_C3));
    q = v_fma(q, f, v_set1(GDN_LOG_C2));
    /* [3] k ln2 + f + f^2 q */
    vf k = v_from_int(k_bits);
    vf h = v_mul(k, v_set1(GDN_LN2_HI * 0x1p-23f));
    vf s = v_add(h, f);
    vf l = v_sub(f, v_sub(s, h));
    vf u = v_fma(v_mul(f, f), q, v_fma(k, v_set1(GDN_LN2_LO * 0x1p-23f), l));
    vf result = v_add(s, u);
    /* [4] ends of the domain, sign */
    vf below = v_sel(v_eq(x, v_set1(-1.0f)), v_neg(gdn_v_bits(GDN_INF_BITS)), gdn_v_bits(GDN_NAN_BITS));
    result = v_sel(v_gt(x, v_set1(-1.0f)), result, below);
    result = v_sel(v_eq(x, gdn_v_bits(GDN_INF_BITS)), x, result);
    return v_from_bits(vi_or(v_bits(result), vi_and(v_bits(x), gdn_vi_bits(GDN_SIGN_BIT))));
}

static inline vf v_reciprocal(vf x)
{
    /* [1] split */
    vf a = v_abs(x);
    vf pre = v_sel(v_lt(a, v_set1(GDN_MIN_NORMAL)), v_set1(0x1p24f), v_set1(1.0f));
    vi b = v_bits(v_mul(a, pre));
    vi e_bits = vi_and(b, gdn_vi_bits(GDN_INF_BITS));
    vf m = v_from_bits(vi_or(vi_and(b, gdn_vi_bits(0x007fffffu)), gdn_vi_bits(0x40000000u)));
    /* [2] y = 1/m */
    vf y = v_from_bits(vi_sub(gdn_vi_bits(GDN_RECIPROCAL_SEED), v_bits(m)));
    vf e = v_fnma(m, y, v_set1(1.0f));
    e = v_fma(e, e, e);
    y = v_fma(y, e, y);
    e = v_fnma(m, y, v_set1(1.0f));
    y = v_fma(y, e, y);
    /* [3] one ulp up, or 22 bits */
    vi up = vi_add(v_bits(y), vi_set1(1));
    vi shortened = vi_and(vi_add(up, vi_set1(1)), vi_set1(~3));
    y = v_from_bits(vi_sel(vi_lt(e_bits, gdn_vi_bits(0x7e800000u)), up, shortened));
    /* [4] residual, scale, round */
    e = v_fnma(m, y, v_set1(1.0f));
    e = v_fma(e, e, e);
    y = v_mul(y, v_from_bits(vi_sub(gdn_vi_bits(GDN_INF_BITS), e_bits)));
    y = v_mul(v_fma(y, e, y), pre);
    /* [5] zero, sign, NaN */
    y = v_sel(v_eq(a, v_zero()), gdn_v_bits(GDN_INF_BITS), y);
    y = v_from_bits(vi_or(v_bits(y), vi_and(v_bits(x), gdn_vi_bits(GDN_SIGN_BIT))));
    return v_sel(v_unord(x), x, y);
}

static inline vf v_rsqrt(vf x)
{
    /* [1] lift subnormals */
    vf pre = v_sel(v_lt(x, v_set1(GDN_MIN_NORMAL)), v_set1(0x1p24f), v_set1(1.0f));
    vf post = v_sel(v_lt(x, v_set1(GDN_MIN_NORMAL)), v_set1(0x1p12f), v_set1(1.0f));
    vf b = v_mul(x, pre);
    /* [2] y = 1/sqrt(b) */
    vf y = v_from_bits(vi_sub(gdn_vi_bits(GDN_RSQRT_SEED), vi_shr(v_bits(b), 1)));
    vf h = v_mul(b, y);
    vf e = v_fnma(h, y, v_set1(1.0f));
    y = v_fma(y, v_mul(v_fma(e, v_set1(0.375f), v_set1(0.5f)), e), y);
    h = v_mul(b, y);
    e = v_fnma(h, y, v_set1(1.0f));
    y = v_fma(v_mul(v_set1(0.5f), y), e, y);
    /* [3] residual in twice the precision */
    h = v_mul(b, y);
    vf l = v_fma(b, y, v_neg(h));
    e = v_fnma(l, y, v_fnma(h, y, v_set1(1.0f)));
    vf g = v_fma(v_mul(v_set1(0.375f), e), e, v_mul(v_set1(0.5f), e));
    y = v_mul(v_fma(y, g, y), post);
    /* [4] ends of the domain */
    vf signed_inf = v_from_bits(vi_or(gdn_vi_bits(GDN_INF_BITS), vi_and(v_bits(x), gdn_vi_bits(GDN_SIGN_BIT))));
    y = v_sel(v_gt(x, v_zero()), y, gdn_v_bits(GDN_NAN_BITS));
    y = v_sel(v_eq(x, v_zero()), signed_inf, y);
    return v_sel(v_eq(x, gdn_v_bits(GDN_INF_BITS)), v_zero(), y);
}

enum {
    GDN_GROUP_MAX = 8,
    GDN_GROUP = GDN_VL == 8 ? 4 : 8 /* vectors that kernels pass at once: AVX2 has half as many registers */
};
#define GDN_EACH for (int i = 0; i < n; i++)

/* The functions below take n vectors at once and do each step for all of them before the next, which hides latency. n
 * is a constant, at most GDN_GROUP_MAX. */

/* 1 if the squares of all lanes, added up over each m vectors, are at most `most`; 0 if a lane is NaN. */
static inline __attribute__((always_inline)) int gdn_v_within(const vf *x, float most, int m, int n)
{
    vm inside = v_le(v_zero(), v_zero());
    for (int i = 0; i < n; i += m) {
        vf sum = v_mul(x[i], x[i]);
        for (int j = 1; j < m && i + j < n; j++) sum = v_fma(x[i + j], x[i + j], sum);
        inside = vm_and(inside, v_le(sum, v_set1(most)));
    }
    return !vm_any(vm_not(inside));
}

/* v_exp() if 2^n and the result are normal numbers: nothing is clamped, and one scaling is exact. The rounding constant
 * includes 127, so that a shift alone makes 2^n. x / ln 2 is never halfway between two integers. */
static inline __attribute__((always_inline)) void gdn_v_exp_usual(vf *x, int n)
{
    vf t[GDN_GROUP_MAX], q[GDN_GROUP_MAX], r[GDN_GROUP_MAX], c[GDN_GROUP_MAX];
    /* [2] reduce */
    GDN_EACH t[i] = v_fma(x[i], v_set1(GDN_LOG2E), v_set1(GDN_ROUND_MAGIC + 127.0f));
    GDN_EACH q[i] = v_sub(t[i], v_set1(GDN_ROUND_MAGIC + 127.0f));
    GDN_EACH c[i] = v_fnma(q[i], v_set1(GDN_LN2_HI), x[i]);
    GDN_EACH r[i] = v_fnma(q[i], v_set1(GDN_LN2_LO), c[i]);
    GDN_EACH c[i] = v_fnma(q[i], v_set1(GDN_LN2_LO), v_sub(c[i], r[i]));
    /* [3] polynomial */
    GDN_EACH q[i] = v_fma(v_set1(GDN_EXP_C6), r[i], v_set1(GDN_EXP_C5));
    GDN_EACH q[i] = v_fma(q[i], r[i], v_set1(GDN_EXP_C4));
    GDN_EACH q[i] = v_fma(q[i], r[i], v_set1(GDN_EXP_C3));
    GDN_EACH q[i] = v_fma(q[i], r[i], v_set1(GDN_EXP_C2));
    GDN_EACH q[i] = v_fma(v_mul(r[i], r[i]), q[i], c[i]);
    /* [4] s + w */
    GDN_EACH c[i] = v_add(v_set1(1.0f), r[i]);
    GDN_EACH q[i] = v_add(v_sub(r[i], v_sub(c[i], v_set1(1.0f))), q[i]);
    /* [5] scale */
    GDN_EACH x[i] = v_mul(v_add(c[i], q[i]), v_from_bits(vi_shl(v_bits(t[i]), 23)));
}

/* v_log1p() of positive numbers. */
static inline __attribute__((always_inline)) void gdn_v_log1p_usual(vf *x, int n)
{
    vf f[GDN_GROUP_MAX], q[GDN_GROUP_MAX], k[GDN_GROUP_MAX];
    /* [1] reduce */
    GDN_EACH
    {
        const vi k_bits =
            vi_and(vi_sub(v_bits(v_add(v_set1(1.0f), x[i])), gdn_vi_bits(0x3f400000u)), gdn_vi_bits(GDN_EXPONENT_MASK));
        const vf four_scaled = v_from_bits(vi_sub(gdn_vi_bits(0x40800000u), k_bits));
        f[i] = v_add(v_from_bits(vi_sub(v_bits(x[i]), k_bits)), v_fma(v_set1(0.25f), four_scaled, v_set1(-1.0f)));
        k[i] = v_from_int(k_bits);
    }
    /* [2] polynomial */
    GDN_EACH q[i] = v_fma(v_set1(GDN_LOG_C10), f[i], v_set1(GDN_LOG_C9));
    GDN_EACH q[i] = v_fma(q[i], f[i], v_set1(GDN_LOG_C8));
    GDN_EACH q[i] = v_fma(q[i], f[i], v_set1(GDN_LOG_C7));
    GDN_EACH q[i] = v_fma(q[i], f[i], v_set1(GDN_LOG_C6));
    GDN_EACH q[i] = v_fma(q[i], f[i], v_set1(GDN_LOG_C5));
    GDN_EACH q[i] = v_fma(q[i], f[i], v_set1(GDN_LOG_C4));
    GDN_EACH q[i] = v_fma(q[i], f[i], v_set1(GDN_LOG_C3));
    GDN_EACH q[i] = v_fma(q[i], f[i], v_set1(GDN_LOG_C2));
    /* [3] k ln2 + f + f^2 q */
    GDN_EACH
    {
        const vf h = v_mul(k[i], v_set1(GDN_LN2_HI * 0x1p-23f)), s = v_add(h, f[i]), l = v_sub(f[i], v_sub(s, h));
        const vf small = v_fma(k[i], v_set1(GDN_LN2_LO * 0x1p-23f), l);
        x[i] = v_add(s, v_fma(v_mul(f[i], f[i]), q[i], small));
    }
}

/* exp of n vectors. It is a third shorter if no x is far from zero. */
static inline __attribute__((always_inline)) void v_exp_n(vf *x, int n)
{
    if (gdn_v_within(x, 86.0f * 86.0f, 8, n)) gdn_v_exp_usual(x, n);
    else GDN_EACH x[i] = v_exp(x[i]);
}

/* The first two steps of both versions: t = the rounded sum of -x / ln 2 and `magic`, p = exp(r) - 1 for the remainder
 * r. */
static inline __attribute__((always_inline)) void gdn_v_expm1(const vf *x, float magic, vf *t, vf *p, int n)
{
    vf r[GDN_GROUP_MAX];
    /* [1] reduce */
    GDN_EACH t[i] = v_fma(x[i], v_set1(-GDN_LOG2E), v_set1(magic));
    GDN_EACH p[i] = v_sub(t[i], v_set1(magic));
    GDN_EACH r[i] = v_fma(p[i], v_set1(GDN_LN2_HI), x[i]);
    GDN_EACH r[i] = v_fma(p[i], v_set1(GDN_LN2_LO), r[i]);
    /* [2] polynomial */
    GDN_EACH p[i] = v_fnma(v_set1(GDN_EXP_C6), r[i], v_set1(GDN_EXP_C5));
    GDN_EACH p[i] = v_fnma(p[i], r[i], v_set1(GDN_EXP_C4));
    GDN_EACH p[i] = v_fnma(p[i], r[i], v_set1(GDN_EXP_C3));
    GDN_EACH p[i] = v_fnma(p[i], r[i], v_set1(GDN_EXP_C2));
    GDN_EACH p[i] = v_fnma(p[i], r[i], v_set1(1.0f));
    GDN_EACH p[i] = v_mul(p[i], r[i]);
}

/* num / (1 + exp(-x)) into x. */
static inline __attribute__((always_inline)) void gdn_v_logistic(vf *x, const vf *num, int n)
{
    vf t[GDN_GROUP_MAX], p[GDN_GROUP_MAX], d[GDN_GROUP_MAX], q[GDN_GROUP_MAX];
    vf scale1[GDN_GROUP_MAX], minus_scale2[GDN_GROUP_MAX];
    gdn_v_expm1(x, GDN_ROUND_MAGIC, t, p, n);
    /* [3] denominator */
    GDN_EACH
    {
        const vi n_bits = vi_shl(v_bits(t[i]), 23);
        const vi half = vi_and(vi_sar(n_bits, 1), gdn_vi_bits(GDN_EXPONENT_MASK));
        scale1[i] = v_from_bits(vi_add(gdn_vi_bits(0x3f800000u), vi_sub(n_bits, half)));
        minus_scale2[i] = v_from_bits(vi_sub(gdn_vi_bits(0xbf800000u), half));
    }
    GDN_EACH d[i] = v_sub(v_fma(p[i], scale1[i], minus_scale2[i]), scale1[i]); /* -d */
    /* [4] and [5] quotient, correctly rounded */
    GDN_EACH q[i] = v_mul(v_div(num[i], d[i]), minus_scale2[i]);
    /* [6] large x; with v_ngt the selection becomes a mask of the product */
    GDN_EACH x[i] = v_sel(v_ngt(x[i], v_set1(18.0f)), q[i], num[i]);
}

/* The same if no x is below -80, which is usual. Besides the division it has a third fewer operations: 2^n, d and the
 * quotient are normal numbers, so the scaling needs no second half. The rounding constant includes 127, so that a shift
 * alone makes 2^n. Lanes above 18, where 2^n may not be normal, are not selected. */
static inline __attribute__((always_inline)) void gdn_v_logistic_usual(vf *x, const vf *num, int n)
{
    vf t[GDN_GROUP_MAX], p[GDN_GROUP_MAX], d[GDN_GROUP_MAX];
    gdn_v_expm1(x, GDN_ROUND_MAGIC + 127.0f, t, p, n);
    /* [3] denominator */
    GDN_EACH t[i] = v_from_bits(vi_shl(v_bits(t[i]), 23));
    GDN_EACH d[i] = v_add(v_fnma(p[i], t[i], v_set1(1.0f)), t[i]);
    /* [4], [5] and [6] */
    GDN_EACH x[i] = v_sel(v_ngt(x[i], v_set1(18.0f)), v_div(num[i], d[i]), num[i]);
}

static inline vf v_sigmoid(vf x)
{
    const vf one = v_set1(1.0f);
    x = v_larger(v_set1(-110.0f), x);
    gdn_v_logistic(&x, &one, 1);
    return x;
}

static inline __attribute__((always_inline)) void v_silu_n(vf *x, int n)
{
    vf num[GDN_GROUP_MAX], least = v_set1(-80.0f);
    GDN_EACH least = v_smaller(x[i], least); /* ignores NaN, as the comparison below does */
    if (!vm_any(v_lt(least, v_set1(-80.0f)))) {
        GDN_EACH num[i] = x[i];
        gdn_v_logistic_usual(x, num, n);
        return;
    }
    GDN_EACH num[i] = x[i] = v_larger(v_set1(-110.0f), x[i]);
    gdn_v_logistic(x, num, n);
}
static inline vf v_silu(vf x)
{
    v_silu_n(&x, 1);
    return x;
}

static inline vf v_softplus(vf x)
{
    vf y = v_log1p(v_exp(x));
    return v_sel(v_gt(x, v_set1(20.0f)), x, y);
}

/* softplus of n vectors. It is a third shorter if no x is above 20 or far below. */
static inline __attribute__((always_inline)) void v_softplus_n(vf *x, int n)
{
    if (gdn_v_within(x, 20.0f * 20.0f, 2, n)) {
        gdn_v_exp_usual(x, n);
        gdn_v_log1p_usual(x, n);
        return;
    }
    GDN_EACH x[i] = v_softplus(x[i]);
}
#undef GDN_EACH

#endif
