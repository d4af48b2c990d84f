/* The vector vocabulary over AArch64 Advanced SIMD. Names and meanings: avx512.h. */
#ifndef GDN_SIMD_H
#define GDN_SIMD_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define GDN_VL 4

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vm; /* all bits of a lane set or clear */

/* --- masks --- */
static inline vm vm_first_n(int n)
{
    static const int32_t lane[4] = { 0, 1, 2, 3 };
    return vcgtq_s32(vdupq_n_s32(n), vld1q_s32(lane));
}
static inline vm vm_and(vm a, vm b) { return vandq_u32(a, b); }
static inline vm vm_or(vm a, vm b) { return vorrq_u32(a, b); }
static inline vm vm_not(vm a) { return vmvnq_u32(a); }
static inline int vm_any(vm a) { return vmaxvq_u32(a) != 0; }

/* --- memory --- */
static inline vf v_load(const float *p) { return vld1q_f32(p); }
static inline void v_store(float *p, vf a) { vst1q_f32(p, a); }
static inline vf v_load_n(const float *p, int n)
{
    vf a = vdupq_n_f32(0.0f);
    switch (n) {
    case 4: return vld1q_f32(p);
    case 3: a = vld1q_lane_f32(p + 2, a, 2); /* fall through */
    case 2: a = vld1q_lane_f32(p + 1, a, 1); /* fall through */
    case 1: a = vld1q_lane_f32(p, a, 0);     /* fall through */
    default: return a;
    }
}
static inline void v_store_n(float *p, vf a, int n)
{
    switch (n) {
    case 4: vst1q_f32(p, a); break;
    case 3: vst1q_lane_f32(p + 2, a, 2); /* fall through */
    case 2: vst1q_lane_f32(p + 1, a, 1); /* fall through */
    case 1: vst1q_lane_f32(p, a, 0);     /* fall through */
    default: break;
    }
}
/* No intrinsic generates stnp, and plain stores need no fence of their own. */
static inline void v_stream(float *p, vf a) { vst1q_f32(p, a); }
static inline void v_fence(void) {}
static inline void v_prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }
static inline void v_prefetch_l2(const void *p) { __builtin_prefetch(p, 0, 2); }
static inline void v_prefetchw(const void *p) { __builtin_prefetch(p, 1, 3); }
static inline vi vi_load(const int32_t *p) { return vld1q_s32(p); }
static inline void vi_store(int32_t *p, vi a) { vst1q_s32(p, a); }

/* --- float lanes --- */
static inline vf v_set1(float a) { return vdupq_n_f32(a); }
static inline vf v_zero(void) { return vdupq_n_f32(0.0f); }
static inline vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf v_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
static inline vf v_neg(vf a) { return vnegq_f32(a); }
static inline vf v_abs(vf a) { return vabsq_f32(a); }
static inline vm v_lt(vf a, vf b) { return vcltq_f32(a, b); }
static inline vm v_le(vf a, vf b) { return vcleq_f32(a, b); }
static inline vm v_gt(vf a, vf b) { return vcgtq_f32(a, b); }
static inline vm v_ngt(vf a, vf b) { return vmvnq_u32(vcgtq_f32(a, b)); }
static inline vm v_ge(vf a, vf b) { return vcgeq_f32(a, b); }
static inline vm v_eq(vf a, vf b) { return vceqq_f32(a, b); }
static inline vm v_unord(vf a) { return vmvnq_u32(vceqq_f32(a, a)); }
static inline vf v_sel(vm m, vf iftrue, vf iffalse) { return vbslq_f32(m, iftrue, iffalse); }
/* Not fmax and fmin, which give NaN if either operand is NaN. */
static inline vf v_larger(vf a, vf b) { return v_sel(v_gt(a, b), a, b); }
static inline vf v_smaller(vf a, vf b) { return v_sel(v_lt(a, b), a, b); }

/* --- int32 lanes; shift counts are constants --- */
static inline vi vi_set1(int32_t a) { return vdupq_n_s32(a); }
static inline vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
static inline vi vi_sub(vi a, vi b) { return vsubq_s32(a, b); }
static inline vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
static inline vi vi_or(vi a, vi b) { return vorrq_s32(a, b); }
static inline vi vi_xor(vi a, vi b) { return veorq_s32(a, b); }
static inline vi vi_add_halves(vi a, vi b)
{
    return vreinterpretq_s32_s16(vaddq_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
}
static inline vi vi_larger(vi a, vi b) { return vmaxq_s32(a, b); }
static inline vi vi_merge(vi bits, vi a, vi b) { return vbslq_s32(vreinterpretq_u32_s32(bits), a, b); }
#define vi_shl(a, count) vshlq_n_s32((a), (count))
#define vi_shr(a, count) vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), (count)))
#define vi_sar(a, count) vshrq_n_s32((a), (count))
static inline vm vi_eq(vi a, vi b) { return vceqq_s32(a, b); }
static inline vm vi_lt(vi a, vi b) { return vcltq_s32(a, b); }
static inline vm vi_gt(vi a, vi b) { return vcgtq_s32(a, b); }
static inline vi vi_sel(vm m, vi iftrue, vi iffalse) { return vbslq_s32(m, iftrue, iffalse); }

/* --- between the two --- */
static inline vi v_bits(vf a) { return vreinterpretq_s32_f32(a); }
static inline vf v_from_bits(vi a) { return vreinterpretq_f32_s32(a); }
static inline vf v_from_int(vi a) { return vcvtq_f32_s32(a); }
static inline vi v_to_int(vf a) { return vcvtq_s32_f32(a); }
static inline vi v_to_int_rne(vf a) { return vcvtnq_s32_f32(a); }

/* --- 16-bit floats --- */
static inline uint16x4_t gdn_load_u16_n(const uint16_t *p, int n)
{
    uint16_t t[4] = { 0 };
    for (int i = 0; i < n; i++) t[i] = p[i];
    return vld1_u16(t);
}
static inline void gdn_store_u16_n(uint16_t *p, uint16x4_t h, int n)
{
    uint16_t t[4];
    vst1_u16(t, h);
    for (int i = 0; i < n; i++) p[i] = t[i];
}
static inline vf gdn_v_from_f16(uint16x4_t h) { return vcvt_f32_f16(vreinterpret_f16_u16(h)); }
static inline vf gdn_v_from_bf16(uint16x4_t h) { return vreinterpretq_f32_u32(vshll_n_u16(h, 16)); }
static inline vf v_load_f16(const uint16_t *p) { return gdn_v_from_f16(vld1_u16(p)); }
static inline vf v_load_f16_n(const uint16_t *p, int n) { return gdn_v_from_f16(gdn_load_u16_n(p, n)); }
static inline vf v_load_bf16(const uint16_t *p) { return gdn_v_from_bf16(vld1_u16(p)); }
static inline vf v_load_bf16_n(const uint16_t *p, int n) { return gdn_v_from_bf16(gdn_load_u16_n(p, n)); }
static inline uint16x4_t gdn_v_to_f16(vf a) { return vreinterpret_u16_f16(vcvt_f16_f32(a)); }
static inline uint16x4_t gdn_v_to_bf16(vf a)
{
    vi b = v_bits(a);
    vi odd = vi_and(vi_shr(b, 16), vi_set1(1));
    vi rounded = vi_shr(vi_add(vi_add(b, vi_set1(0x7fff)), odd), 16);
    vi quiet = vi_or(vi_shr(b, 16), vi_set1(0x40));
    return vmovn_u32(vreinterpretq_u32_s32(vi_sel(v_unord(a), quiet, rounded)));
}
static inline vf v_round_f16(vf a) { return vcvt_f32_f16(vcvt_f16_f32(a)); }
static inline vf v_round_bf16(vf a)
{
    const vi b = v_bits(a), odd = vi_and(vi_shr(b, 16), vi_set1(1));
    const vi sum = vi_add(vi_add(b, vi_set1(0x7fff)), odd);
    return v_sel(v_unord(a), a, v_from_bits(vi_and(sum, vi_set1((int32_t)0xffff0000))));
}
static inline void v_store_f16(uint16_t *p, vf a) { vst1_u16(p, gdn_v_to_f16(a)); }
static inline void v_store_f16_n(uint16_t *p, vf a, int n) { gdn_store_u16_n(p, gdn_v_to_f16(a), n); }
static inline void v_stream_f16(uint16_t *p, vf a) { vst1_u16(p, gdn_v_to_f16(a)); }
static inline void v_stream_bf16(uint16_t *p, vf a) { vst1_u16(p, gdn_v_to_bf16(a)); }
static inline void v_stream_f16_pair(uint16_t *p, vf a, vf b)
{
    vst1q_u16(p, vcombine_u16(gdn_v_to_f16(a), gdn_v_to_f16(b)));
}
static inline void v_stream_bf16_pair(uint16_t *p, vf a, vf b)
{
    vst1q_u16(p, vcombine_u16(gdn_v_to_bf16(a), gdn_v_to_bf16(b)));
}
static inline void v_store_bf16(uint16_t *p, vf a) { vst1_u16(p, gdn_v_to_bf16(a)); }
static inline void v_store_bf16_n(uint16_t *p, vf a, int n) { gdn_store_u16_n(p, gdn_v_to_bf16(a), n); }

/* Halves: the first elements and the last ones, because widening and narrowing them costs no more. */
static inline vf v_load_bf16_half(const uint16_t *p, int half) { return v_load_bf16(p + half * GDN_VL); }
static inline vf v_deal(vf a, vf b, int half) { return half ? b : a; }
static inline void v_store_bf16_halves(uint16_t *p, vf first, vf last)
{
    vst1q_u16(p, vcombine_u16(gdn_v_to_bf16(first), gdn_v_to_bf16(last)));
}
static inline void v_stream_bf16_halves(uint16_t *p, vf first, vf last) { v_store_bf16_halves(p, first, last); }

/* --- across lanes --- */
/* Not vaddvq_f32: it adds neighbours first, which is a different order. */
static inline float v_sum(vf a)
{
    float32x2_t s2 = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}

static inline vf v_sums(const vf x[GDN_VL])
{
    vf s2[2];
    for (int i = 0; i < 2; i++) {
        const float64x2_t a = vreinterpretq_f64_f32(x[2 * i]), b = vreinterpretq_f64_f32(x[2 * i + 1]);
        s2[i] = vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(a, b)), vreinterpretq_f32_f64(vzip2q_f64(a, b)));
    }
    return vpaddq_f32(s2[0], s2[1]);
}

static inline float v_hmax(vf a) { return vmaxvq_f32(v_sel(v_unord(a), v_set1(-__builtin_inff()), a)); }

static inline void v_transpose(vf r[GDN_VL])
{
    float32x4_t ab0 = vtrn1q_f32(r[0], r[1]), ab1 = vtrn2q_f32(r[0], r[1]);
    float32x4_t cd0 = vtrn1q_f32(r[2], r[3]), cd1 = vtrn2q_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(ab0), vget_low_f32(cd0));
    r[1] = vcombine_f32(vget_low_f32(ab1), vget_low_f32(cd1));
    r[2] = vcombine_f32(vget_high_f32(ab0), vget_high_f32(cd0));
    r[3] = vcombine_f32(vget_high_f32(ab1), vget_high_f32(cd1));
}

static inline void v_load4(const float *p, vf r[4])
{
    const float32x4x4_t g = vld4q_f32(p);
    for (int j = 0; j < 4; j++) r[j] = g.val[j];
}

static inline void v_load4_f16(const uint16_t *p, vf r[4])
{
    const uint16x4x4_t g = vld4_u16(p);
    for (int j = 0; j < 4; j++) r[j] = gdn_v_from_f16(g.val[j]);
}
static inline void v_load4_bf16(const uint16_t *p, vf r[4])
{
    const uint16x4x4_t g = vld4_u16(p);
    for (int j = 0; j < 4; j++) r[j] = gdn_v_from_bf16(g.val[j]);
}
static inline void v_load4_bf16_half(const uint16_t *p, int half, vf r[4]) { v_load4_bf16(p + 4 * half * GDN_VL, r); }

static inline vf v_set1_f16(const void *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return gdn_v_from_f16(vdup_n_u16(h));
}
static inline vf v_load_i8(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, 4);
    return v_from_int(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))))));
}
/* The conversion itself turns a NaN into 0. */
static inline void v_store_i8(int8_t *p, const vf *y)
{
    for (int m = 0; m < 8; m += 4) {
        const int16x8_t ab = vcombine_s16(vmovn_s32(v_to_int_rne(y[m])), vmovn_s32(v_to_int_rne(y[m + 1])));
        const int16x8_t cd = vcombine_s16(vmovn_s32(v_to_int_rne(y[m + 2])), vmovn_s32(v_to_int_rne(y[m + 3])));
        vst1q_s8(p + 4 * m, vcombine_s8(vmovn_s16(ab), vmovn_s16(cd)));
    }
}

/* --- quads of signed bytes: a word of a lane has 4 --- */
#define GDN_QUAD_PARTS 1
#define GDN_QUAD_BIAS  0
typedef int8x16_t vquad;
static inline vquad quad_load(const int8_t *p) { return vld1q_s8(p); }
static inline vi quad_dot(vi sum, vquad l, const int32_t *word, int64_t step)
{
    const int8x16_t w = vreinterpretq_s8_s32(vdupq_n_s32(*word));
    (void)step;
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(sum, l, w);
#else
    const int16x8_t low = vmull_s8(vget_low_s8(l), vget_low_s8(w)), high = vmull_high_s8(l, w);
    return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
}
#endif
