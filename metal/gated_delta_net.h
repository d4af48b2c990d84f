// gated_delta_net, its operands and maps: maps simdgroups to heads, and computes addresses.
#ifndef GDN_METAL_GATED_DELTA_NET_H
#define GDN_METAL_GATED_DELTA_NET_H

#include "metal/kernel.h"

struct DeltaBuffers {
    device const uchar *q;
    device const uchar *k;
    device const uchar *v;
    device const uchar *g;
    device const uchar *beta;
    device const uchar *ssm_a;
    device const uchar *dt_bias;
    device uchar *result;
    device const uchar *state_in;
    device uchar *state_out;
    device const uchar *seq_start;
    device const uchar *state_src;
    device const uchar *state_dst;
    device const uchar *position;
    device const uchar *state_checkpoint;
    device uchar *log;
    device const uchar *log_row;
    device const uchar *base_position;
    device const uchar *commit;
    device const uchar *parent;
    device atomic_uint *bad;
    device const uchar *read_key;
};

// This simdgroup's part of the work, as far as it does not change from token to token.
struct Item {
    int s, h, kappa; // sequence, value head, key head
    int first, T;    // its tokens
    int src;         // pool entry with the initial state, or GDN_GPU_NONE
    int l;           // lane of the eight
    int j, values;   // first value channel of the eight lanes, how many of the C exist
    // With a log: position is that of the first token. row is the log's row, or GDN_GPU_NONE. commit is
    // the pool entry for the state that is committed, or GDN_GPU_NONE.
    int position, row, base_position, commit;
    int kept; // the position of the committed state: `position`, or with STATE16 the last rounding at or before it
};

// True if a 16-bit state is rounded after the token that gives the sequence `length` tokens.
template <bool STATE16> GDN_INLINE bool rounds_at(constant gdn_gpu_gated_delta_net &p, int length)
{
    return STATE16 && (p.state_interval == 1 || length % p.state_interval == 0);
}

// Loads and checks the log's maps, for a sequence with known tokens, source and position. Reports bad maps, and returns
// false for them. A bad commit only becomes GDN_GPU_NONE.
template <bool STATE16>
GDN_INLINE bool find_log(constant gdn_gpu_gated_delta_net &p, thread const DeltaBuffers &b, thread Item &at)
{
    const bool padding = at.src == GDN_GPU_SKIP;
    at.kept = STATE16 ? at.position - at.position % p.state_interval : at.position;
    if (p.log_entries == 0) {
        at.row = GDN_GPU_NONE;
        at.commit = GDN_GPU_NONE;
        at.base_position = at.position;
        return true;
    }
    at.row = map_at(b.log_row, (p.has & GDN_GPU_HAS_LOG_ROW) != 0, at.s, at.s);
    at.base_position = map_at(b.base_position, (p.has & GDN_GPU_HAS_BASE_POSITION) != 0, at.s, at.position);
    at.commit = map_at(b.commit, !padding && (p.has & GDN_GPU_HAS_COMMIT) != 0, at.s, GDN_GPU_NONE);
    if (at.row < GDN_GPU_NONE || at.row >= p.log_rows) {
        report(b.bad, GDN_GPU_BAD_LOG_ROW);
        return false;
    }
    bool fits = at.base_position >= 0 && at.base_position <= at.position;
    if (fits && !padding)
        fits = at.row < 0 ? at.base_position == at.position : at.position - at.base_position <= p.log_entries - at.T;
    if (STATE16 && !padding) fits = fits && rounds_at<STATE16>(p, at.base_position);
    if (!fits) {
        report(b.bad, GDN_GPU_BAD_STATE_POSITION);
        return false;
    }
    if (at.commit < GDN_GPU_NONE || at.commit >= p.entries_out) {
        report(b.bad, GDN_GPU_BAD_STATE_COMMIT);
        at.commit = GDN_GPU_NONE;
    }
    return true;
}

// A sequence's default entry. With a map it may overflow an int; it is then not used.
GDN_INLINE int entry_of(int s, int slots, int slot) { return int(uint(s) * uint(slots) + uint(slot)); }

// Fills the item. False if there is nothing to do: padding, no tokens and no commit, no value channels, or a bad map,
// which is reported. The result is uniform in a simdgroup.
template <int C, bool STATE16>
GDN_INLINE bool find_item(constant gdn_gpu_gated_delta_net &p, thread const DeltaBuffers &b, uint group, uint me,
                          bool tree, thread Item &at)
{
    const int block = int(group % uint(p.blocks)), row = int(group / uint(p.blocks));
    const bool ragged = (p.has & GDN_GPU_HAS_SEQ_START) != 0;
    at.s = row / p.n_heads_v;
    at.h = row % p.n_heads_v;
    at.first = map_at(b.seq_start, ragged, at.s, at.s * p.even_tokens);
    const int after = ragged ? read_int(b.seq_start + 4 * (int64_t(at.s) + 1)) : at.first + p.even_tokens;
    at.src = map_at(b.state_src, (p.has & GDN_GPU_HAS_SRC) != 0, at.s, entry_of(at.s, p.slots_in, 0));
    if (at.first < 0 || after < at.first || after > p.n_tokens) {
        report(b.bad, GDN_GPU_BAD_SEQ_START);
        return false;
    }
    if (at.src < GDN_GPU_SKIP || at.src >= p.entries_in) {
        report(b.bad, GDN_GPU_BAD_STATE_SRC);
        return false;
    }
    at.T = after - at.first;
    const int position = map_at(b.position, (p.has & GDN_GPU_HAS_POSITION) != 0, at.s, 0);
    if (position < 0 || position > 2147483647 - at.T) {
        report(b.bad, GDN_GPU_BAD_POSITION);
        return false;
    }
    at.position = position;
    if (!find_log<STATE16>(p, b, at)) return false;
    if (tree && at.src != GDN_GPU_SKIP) {
        if (at.T > 0 && at.row < 0) {
            report(b.bad, GDN_GPU_BAD_LOG_ROW);
            return false;
        }
        if (!is_tree(b.parent, (p.has & GDN_GPU_HAS_PARENT) != 0, at.first, at.T, b.bad)) return false;
    }
    at.kappa = p.head_map ? at.h % p.n_heads_k : at.h / (p.n_heads_v / p.n_heads_k);
    at.l = int(me & 7u);
    at.j = block * (GDN_METAL_DELTA_THREADS / 8 * C) + int(me / 8u) * C;
    const int left = p.head_dim_v - at.j;
    at.values = left < 0 ? 0 : left < C ? left : C;
    return at.src != GDN_GPU_SKIP && (at.T > 0 || at.commit >= 0) && at.j / (4 * C) * (4 * C) < p.head_dim_v;
}

// The offset of the sequence's first token.
GDN_INLINE int64_t token_at(constant gdn_gpu_tokens &view, thread const Item &at, int head)
{
    return head * view.head + (view.seq ? at.s * view.seq : at.first * view.token);
}

GDN_INLINE int64_t state_at(constant gdn_gpu_pool &pool, int entry, int n_slots, int head)
{
    return entry / n_slots * pool.row + entry % n_slots * pool.slot + head * pool.head;
}

// The entry for the snapshot after token t of the sequence, or GDN_GPU_NONE.
template <bool STATE16>
GDN_INLINE int snapshot_of(constant gdn_gpu_gated_delta_net &p, thread const DeltaBuffers &b, thread const Item &at,
                           int t)
{
    const int r = at.T - 1 - t;
    if (r >= p.n_snapshots) return GDN_GPU_NONE;
    const int dst = map_at(b.state_dst, (p.has & GDN_GPU_HAS_DST) != 0, int64_t(at.s) * p.n_snapshots + r,
                           entry_of(at.s, p.slots_out, r));
    if (dst >= GDN_GPU_NONE && dst < p.entries_out &&
        (!STATE16 || dst < 0 || rounds_at<STATE16>(p, at.position + t + 1)))
        return dst;
    report(b.bad, GDN_GPU_BAD_STATE_DST);
    return GDN_GPU_NONE;
}

// The entry for the checkpoint after token t, or GDN_GPU_NONE. It loads the position again, so that calls without
// checkpoints keep no register for it.
GDN_INLINE int checkpoint_of(constant gdn_gpu_gated_delta_net &p, thread const DeltaBuffers &b, thread const Item &at,
                             int t)
{
    const int position = map_at(b.position, (p.has & GDN_GPU_HAS_POSITION) != 0, at.s, 0), length = position + t + 1;
    if (length % p.checkpoint_interval) return GDN_GPU_NONE;
    const int i = length / p.checkpoint_interval - position / p.checkpoint_interval - 1;
    if (i >= p.n_checkpoints) return GDN_GPU_NONE;
    const int dst = read_int(b.state_checkpoint + 4 * (int64_t(at.s) * p.n_checkpoints + i));
    if (dst >= GDN_GPU_NONE && dst < p.entries_out) return dst;
    report(b.bad, GDN_GPU_BAD_STATE_CHECKPOINT);
    return GDN_GPU_NONE;
}

// Elements i .. i + 3 of a row of q, k or g; those beyond the head are 0.
template <bool GENERAL> GDN_INLINE float4 read_row(device const uchar *row, int dtype, int i, int n_keys)
{
    if (!GENERAL && dtype == GDN_GPU_F32) return read_float4(row + 4 * i);
    const int bytes = element_bytes(dtype);
    device const uchar *at = row + bytes * i;
    float4 x = float4(0.0f);
    if (!GENERAL || i < n_keys) x.x = read_element(at, dtype);
    if (!GENERAL || i + 1 < n_keys) x.y = read_element(at + bytes, dtype);
    if (!GENERAL || i + 2 < n_keys) x.z = read_element(at + 2 * bytes, dtype);
    if (!GENERAL || i + 3 < n_keys) x.w = read_element(at + 3 * bytes, dtype);
    return x;
}

// Properties of a call, for branches.
GDN_INLINE bool has_read_key(constant gdn_gpu_gated_delta_net &p) { return (p.has & GDN_GPU_HAS_READ_KEY) != 0; }
GDN_INLINE bool has_raw_gate(constant gdn_gpu_gated_delta_net &p) { return p.g_form >= GDN_GPU_G_RAW; }

// The factor of a head's raw gate.
GDN_INLINE float gate_rate(constant gdn_gpu_gated_delta_net &p, thread const DeltaBuffers &b, int h)
{
    if (!(p.has & GDN_GPU_HAS_SSM_A)) return 1.0f; // a bounded gate without A_log
    const float rate = read_element(b.ssm_a + h * p.ssm_a.head, p.ssm_a_dtype);
    return p.g_form == GDN_GPU_G_RAW_A_LOG ? -gdn_expf(rate) : p.g_form == GDN_GPU_G_BOUNDED ? gdn_expf(rate) : rate;
}
GDN_INLINE float raw_gate(constant gdn_gpu_gated_delta_net &p, float g, float rate, float bias)
{
    return p.g_form == GDN_GPU_G_BOUNDED ? gdn_bounded_gate(g, rate, bias, p.lower_bound) : gdn_raw_gate(g, rate, bias);
}
// Raw gates and exps, of a head (in x) or of four channels.
template <bool CHANNEL>
GDN_INLINE float4 raw_gates(constant gdn_gpu_gated_delta_net &p, float4 g, float rate, float4 bias)
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
GDN_INLINE float delta_factor(constant gdn_gpu_gated_delta_net &p, float beta)
{
    return p.beta_factor * (p.beta_form == GDN_GPU_BETA_LOGIT ? gdn_sigmoid(beta) : beta);
}

// 5: update, the product rounded first. For four keys of a value channel.
GDN_INLINE float4 update(float4 S, float4 k, float d, float4 decay) { return fma(k, float4(d), decay * S); }

// 7: round, if the token that gives the sequence `length` tokens is one after which the state is rounded.
template <int NB, int C, bool STATE16>
GDN_INLINE void round_state(constant gdn_gpu_gated_delta_net &p, int length, thread float4 (&S)[NB][C])
{
    if (!rounds_at<STATE16>(p, length)) return;
#pragma unroll
    for (int m = 0; m < NB; m++)
#pragma unroll
        for (int c = 0; c < C; c++) {
            const float4 x = S[m][c];
            if (p.state_dtype == GDN_GPU_F16)
                S[m][c] = four(nearest_f16(x.x), nearest_f16(x.y), nearest_f16(x.z), nearest_f16(x.w));
            else S[m][c] = four(nearest_bf16(x.x), nearest_bf16(x.y), nearest_bf16(x.z), nearest_bf16(x.w));
        }
}

#endif
