// gated_delta_net, its operands and maps: maps simdgroups to heads, and computes addresses.
#ifndef GDN_METAL_GATED_DELTA_NET_H
#define GDN_METAL_GATED_DELTA_NET_H

#include "metal/kernel.h"
#include "call/gated_delta_net.h"

struct DeltaBuffers {
    device const uchar *q;
    device const uchar *k;
    device const uchar *v;
    device const uchar *g;
    device const uchar *beta;
    device const uchar *ssm_a;
    device const uchar *dt_bias;
    device uchar *result;
    device const uchar *state;
    device uchar *state_out;
    device const uchar *seq_start;
    device const uchar *state_src;
    device const uchar *state_dst;
    device const uchar *position;
    device const uchar *checkpoints_dst;
    device const uchar *read_key;
    device uchar *log;
    device const uchar *log_row;
    device const uchar *base_position;
    device const uchar *commit;
    device const uchar *parent;
    device atomic_uint *bad;
};

#define CALL constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b,
#define PASS p, b,
#include "call/sequence.h"
#undef CALL
#undef PASS

// This simdgroup's part of the work, as far as it does not change from token to token.
struct Item {
    gdn_sequence seq;
    int h, kappa;  // value head, key head
    int l;         // lane of the eight
    int j, values; // first value channel of the eight lanes, how many of the C exist
};

// Fills the item. False if there is nothing to do: padding, no tokens and no commit, no value channels, or a bad map,
// which is reported. The result is uniform in a simdgroup.
template <int C>
GDN_INLINE bool find_item(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, uint group, uint me,
                          thread Item &at)
{
    const int block = int(group % uint(p.blocks)), row = int(group / uint(p.blocks));
    at.seq = gdn_sequence_of(p, b, row / p.n_heads_v);
    at.h = row % p.n_heads_v;
    if (at.seq.bad >= 0) {
        report(b.bad, at.seq.bad);
        return false;
    }
    (void)reported(b.bad, GDN_BAD_COMMIT, at.seq.commit);
    if (at.seq.src != GDN_SKIP && !is_tree(b.parent, (p.has & GDN_HAS_PARENT) != 0, at.seq.first, at.seq.T, b.bad))
        return false;
    at.kappa = gdn_key_head(p, b, at.h);
    at.l = int(me & 7u);
    at.j = block * (GDN_METAL_DELTA_THREADS / 8 * C) + int(me / 8u) * C;
    const int left = p.head_dim_v - at.j;
    at.values = left < 0 ? 0 : left < C ? left : C;
    return gdn_has_work(at.seq) && at.j / (4 * C) * (4 * C) < p.head_dim_v;
}

// The offset of the sequence's first token.
GDN_INLINE int64_t token_at(constant gdn_token_view &view, thread const Item &at, int head)
{
    return head * view.stride_head + (view.stride_seq ? at.seq.s * view.stride_seq : at.seq.first * view.stride_token);
}

GDN_INLINE int64_t state_at(constant gdn_pool_view &pool, int entry, int n_slots, int head)
{
    return entry / n_slots * pool.stride_row + entry % n_slots * pool.stride_slot + head * pool.stride_head;
}

// Elements i .. i + 3 of a row of q, k or g; those beyond the head are 0.
template <bool GENERAL> GDN_INLINE float4 read_row(device const uchar *row, int dtype, int i, int n_keys)
{
    if (!GENERAL && dtype == GDN_F32) return read_float4(row + 4 * i);
    const int bytes = element_bytes(dtype);
    device const uchar *at = row + bytes * i;
    float4 x = float4(0.0f);
    if (!GENERAL || i < n_keys) x.x = read_element(at, dtype);
    if (!GENERAL || i + 1 < n_keys) x.y = read_element(at + bytes, dtype);
    if (!GENERAL || i + 2 < n_keys) x.z = read_element(at + 2 * bytes, dtype);
    if (!GENERAL || i + 3 < n_keys) x.w = read_element(at + 3 * bytes, dtype);
    return x;
}

GDN_INLINE bool has_raw_gate(constant gdn_gated_delta_net_call &p) { return p.gate_input >= GDN_G_RAW; }

// The factor of a head's raw gate.
GDN_INLINE float gate_rate(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, int h)
{
    if (!(p.has & GDN_HAS_SSM_A)) return 1.0f; // a bounded gate without A_log
    const float rate = read_element(b.ssm_a + h * p.ssm_a.stride_head, p.ssm_a.dtype);
    return p.gate_input == GDN_G_RAW_A_LOG ? -gdn_expf(rate) : p.gate_input == GDN_G_BOUNDED ? gdn_expf(rate) : rate;
}
GDN_INLINE float raw_gate(constant gdn_gated_delta_net_call &p, float g, float rate, float bias)
{
    return p.gate_input == GDN_G_BOUNDED ? gdn_bounded_gate(g, rate, bias, p.lower_bound) : gdn_raw_gate(g, rate, bias);
}
// Raw gates and exps, of a head (in x) or of four channels.
template <bool CHANNEL>
GDN_INLINE float4 raw_gates(constant gdn_gated_delta_net_call &p, float4 g, float rate, float4 bias)
{
    g.x = raw_gate(p, g.x, rate, bias.x);
    if (CHANNEL) {
        g.y = raw_gate(p, g.y, rate, bias.y);
        g.z = raw_gate(p, g.z, rate, bias.z);
        g.w = raw_gate(p, g.w, rate, bias.w);
    }
    return g;
}
template <bool CHANNEL> GDN_INLINE float4 gate_exps(float4 g) { return CHANNEL ? exp4(g) : float4(gdn_expf(g.x)); }

// 0, beta
GDN_INLINE float delta_factor(constant gdn_gated_delta_net_call &p, float beta)
{
    return p.beta_factor * (p.beta_input == GDN_BETA_LOGIT ? gdn_sigmoid(beta) : beta);
}

// 5: update, the product rounded first. For four keys of a value channel.
GDN_INLINE float4 update(float4 S, float4 k, float d, float4 decay) { return fma(k, float4(d), decay * S); }

// 7: round, if the token that gives the sequence `length` tokens is one after which the state is rounded.
template <int NB, int C, bool STATE16>
GDN_INLINE void round_state(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, int length,
                            thread float4 (&S)[NB][C])
{
    if (!STATE16 || !gdn_rounds_at(p, b, length)) return;
#pragma unroll
    for (int m = 0; m < NB; m++)
#pragma unroll
        for (int c = 0; c < C; c++) {
            const float4 x = S[m][c];
            if (p.state.dtype == GDN_F16)
                S[m][c] = four(nearest_f16(x.x), nearest_f16(x.y), nearest_f16(x.z), nearest_f16(x.w));
            else S[m][c] = four(nearest_bf16(x.x), nearest_bf16(x.y), nearest_bf16(x.z), nearest_bf16(x.w));
        }
}

#endif
