// gated_delta_net in the kernels of CUDA and Metal: the arithmetic of a token's steps. Eight lanes share C value
// channels, as gpu/delta_rows.h describes.
#ifndef GDN_GPU_DELTA_STEP_H
#define GDN_GPU_DELTA_STEP_H

#include "gpu/delta_item.h"

// 1 if the call has all that a model's layer needs: raw gates, logits, normalised q and k. Code specialised for it
// (ALL) has no branches. So the independent chains of exp, softplus and square root overlap.
template <class X> GDN_INLINE bool does_all(CONSTANT gdn_gated_delta_net_call &p)
{
    constexpr bool KNOWS = !(X::CHANNEL && X::C < 4); // kernels with few channels lack registers for both paths
    return KNOWS && p.qk_norm && p.beta_input == GDN_BETA_LOGIT && p.gate_input != GDN_G_LOG &&
           p.gate_input != GDN_G_LINEAR && p.gate_input != GDN_G_BOUNDED;
}

// 0: prepare, beta
template <bool ALL = false> GDN_INLINE float delta_factor(CONSTANT gdn_gated_delta_net_call &p, float x)
{
    return gdn_mul(p.beta_factor, ALL || p.beta_input == GDN_BETA_LOGIT ? gdn_sigmoid(x) : x);
}

// read_rate() and read_bias() load what the raw gates of a head's tokens share, without conversion; 0 for other
// parametrisations.
FUNCTION float read_rate(CALL THREAD const Item &at)
{
    if (!HAS(ssm_a, GDN_HAS_SSM_A)) return 0.0f;
    return read_raw(DATA(ssm_a) + (uint64_t)(at.h * p.ssm_a.stride_head), p.ssm_a.dtype);
}
FUNCTION float4 read_bias(CALL THREAD const Item &at, int i)
{
    if (!HAS(dt_bias, GDN_HAS_BIAS)) return zero4();
    const ConstBytes row = DATA(dt_bias) + (uint64_t)(at.h * p.dt_bias.stride_head);
    return X::CHANNEL ? read_row<X>(row, p.dt_bias.dtype, i, at.n_keys)
                      : make_float4(read_raw(row, p.dt_bias.dtype), 0.0f, 0.0f, 0.0f);
}

// gate_rate() and gate_bias() convert them to F32. Kernels call them after all loads are issued.
GDN_INLINE float gate_rate(CONSTANT gdn_gated_delta_net_call &p, float raw)
{
    return gdn_gate_rate(p.gate_input, HAS(ssm_a, GDN_HAS_SSM_A) ? widen_raw(raw, p.ssm_a.dtype) : 0.0f);
}
template <class X> GDN_INLINE float4 gate_bias(CONSTANT gdn_gated_delta_net_call &p, float4 raw)
{
    if (!HAS(dt_bias, GDN_HAS_BIAS)) return zero4();
    return X::CHANNEL ? widen_row<X>(raw, p.dt_bias.dtype) : all4(widen_raw(raw.x, p.dt_bias.dtype));
}

// 2: decay, of one element of g or of four. ALL: gates are raw, with A_log or its exponential.
template <bool ALL = false>
GDN_INLINE float decay_of(CONSTANT gdn_gated_delta_net_call &p, float g, float rate, float bias)
{
    return gdn_decay(ALL ? GDN_G_RAW : p.gate_input, g, rate, bias, p.lower_bound);
}
template <bool ALL = false>
GDN_INLINE float4 decay_of(CONSTANT gdn_gated_delta_net_call &p, float4 g, float rate, float4 bias)
{
    return make_float4(decay_of<ALL>(p, g.x, rate, bias.x), decay_of<ALL>(p, g.y, rate, bias.y),
                       decay_of<ALL>(p, g.z, rate, bias.z), decay_of<ALL>(p, g.w, rate, bias.w));
}

// One step of four partial sums. Sums of keys that do not exist are left unchanged: fma(0, 0, -0) would be +0.
template <class X> GDN_INLINE float4 sum_step(float4 x, float4 y, float4 sum, int i, int n_keys)
{
    const float4 next = fma4(x, y, sum);
    if (!X::GENERAL) return next;
    return make_float4(i < n_keys ? next.x : sum.x, i + 1 < n_keys ? next.y : sum.y, i + 2 < n_keys ? next.z : sum.z,
                       i + 3 < n_keys ? next.w : sum.w);
}

// 3: the keys of block m, for all value channels.
template <class X>
GDN_INLINE void read_step(THREAD const Item &w, int m, float4 key, THREAD const float4 (&decay)[X::CHANNEL ? X::NB : 1],
                          THREAD const float4 (&S)[X::NB][X::C], THREAD float4 (&sum)[X::C])
{
    const float4 with = X::CHANNEL ? mul4(decay[X::CHANNEL ? m : 0], key) : key;
#pragma unroll
    for (int c = 0; c < X::C; c++) sum[c] = sum_step<X>(S[m][c], with, sum[c], 32 * m + 4 * w.l, w.n_keys);
}

// value_of_lane(): the channel whose sum fold() leaves in lane l. lane_of_value(): the first lane with that of c.
template <int C> GDN_INLINE int value_of_lane(int l) { return C == 4 ? l >> 1 : C == 2 ? l >> 2 : 0; }
template <int C> GDN_INLINE int lane_of_value(int c) { return 8 / C * c; }

// The dot32 tree over the channels' partial sums. Where a step pairs lanes and there are several channels, each lane
// continues with half of them.
template <int C> GDN_INLINE float fold(THREAD const float4 (&partial)[C], int l)
{
    const bool upper = (l & 4) != 0, right = (l & 2) != 0;
    float4 a, b, c;
    if (C == 4) { // h = 16, h = 8
        a = add4(upper ? partial[C / 2] : partial[0], exchange4(upper ? partial[0] : partial[C / 2], 4));
        b = add4(upper ? partial[C - 1] : partial[C / 4], exchange4(upper ? partial[C / 4] : partial[C - 1], 4));
        c = add4(right ? b : a, exchange4(right ? a : b, 2));
    } else {
        a = add4(upper ? partial[C - 1] : partial[0], exchange4(upper ? partial[0] : partial[C - 1], 4));
        c = add4(a, exchange4(a, 2));
    }
    const float4 s = add4(c, exchange4(c, 1));            // h = 4
    return gdn_add(gdn_add(s.x, s.z), gdn_add(s.y, s.w)); // h = 2, 1
}

// 5: update, S' = fma(k, d, a S), the product rounded first.
GDN_INLINE float4 update(float4 state, float4 k, float d, float4 a) { return fma4(k, all4(d), mul4(a, state)); }

#endif
