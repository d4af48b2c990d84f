// gated_delta_net. Eight lanes share C value channels of a head and keep this part of the state in registers for all
// tokens of the call; a simdgroup has 4 C channels. Lane l of the eight has the keys i = 32 m + 4 l + e, e = 0 .. 3,
// which are the residues 4l .. 4l+3 of dot32. So 32 keys of a row are one access of 128 bytes. The tree's steps h = 16,
// 8, 4 are exchanges with the lanes l^4, l^2, l^1; h = 2, 1 stay within a lane. The addition commutes, so either of the
// two lanes may add.
//
// The number of snapshots, all maps, types and parametrisations are arguments, not constants of the pipeline. With one
// snapshot they cost only the test of snapshot_of(). Branches on parametrisations are uniform in a call.
//
// Steps, numbered as in docs/reference/kernels/gated_delta_net.md and in every other version:
//   0 prepare   1 load state, replay the log, commit   2 decay   3 read kv   4 delta   5 update   6 output
//   7 round, snapshot, checkpoint, log
//
// Only the general kernels support a read key, and load it at its use: the others lack the registers.
#include "metal/gated_delta_net_log.h"

// One step of four partial sums. Sums of keys that do not exist are left unchanged: fma(0, 0, -0) would be +0.
template <bool GENERAL> GDN_INLINE float4 sum_step(float4 x, float4 y, float4 sum, int i, int n_keys)
{
    const float4 next = fma(x, y, sum);
    if (!GENERAL) return next;
    return four(i < n_keys ? next.x : sum.x, i + 1 < n_keys ? next.y : sum.y, i + 2 < n_keys ? next.z : sum.z,
                i + 3 < n_keys ? next.w : sum.w);
}

// value_of_lane(): the channel whose sum fold() leaves in lane l. lane_of_value(): the first lane with that of c.
template <int C> GDN_INLINE int value_of_lane(int l) { return C == 4 ? l >> 1 : l >> 2; }
template <int C> GDN_INLINE int lane_of_value(int c) { return 8 / C * c; }

// The dot32 tree over the channels' partial sums. Where a step pairs lanes and there are several channels, each lane
// continues with half of them.
template <int C> GDN_INLINE float fold(thread const float4 (&partial)[C], int l)
{
    const bool upper = (l & 4) != 0, right = (l & 2) != 0;
    float4 c;
    if (C == 4) { // h = 16, h = 8
        const float4 a =
            (upper ? partial[C / 2] : partial[0]) + simd_shuffle_xor(upper ? partial[0] : partial[C / 2], 4);
        const float4 b =
            (upper ? partial[C - 1] : partial[C / 4]) + simd_shuffle_xor(upper ? partial[C / 4] : partial[C - 1], 4);
        c = (right ? b : a) + simd_shuffle_xor(right ? a : b, 2);
    } else {
        const float4 a =
            (upper ? partial[C - 1] : partial[0]) + simd_shuffle_xor(upper ? partial[0] : partial[C - 1], 4);
        c = a + simd_shuffle_xor(a, 2);
    }
    const float4 s = c + simd_shuffle_xor(c, 1); // h = 4
    return (s.x + s.z) + (s.y + s.w);            // h = 2, 1
}

// A token's operands for a lane, without q.
template <int NB, bool CHANNEL> struct Token {
    float4 k[NB], g[CHANNEL ? NB : 1]; // per head: g[0].x
    float v, beta;
};

// v is at this lane's value channel, if `there`.
template <int NB, bool CHANNEL, bool GENERAL>
GDN_INLINE void load_token(constant gdn_gated_delta_net_call &p, device const uchar *k_at, device const uchar *v_at,
                           device const uchar *g_at, device const uchar *beta_at, bool there, int l,
                           thread Token<NB, CHANNEL> &token)
{
    token.v = there ? read_element(v_at, p.v.dtype) : 0.0f;
    token.beta = read_element(beta_at, p.beta.dtype);
#pragma unroll
    for (int m = 0; m < NB; m++) token.k[m] = read_row<GENERAL>(k_at, p.k.dtype, 32 * m + 4 * l, p.head_dim_k);
    if (!CHANNEL) token.g[0] = float4(read_element(g_at, p.g.dtype));
#pragma unroll
    for (int m = 0; CHANNEL && m < NB; m++)
        token.g[CHANNEL ? m : 0] = read_row<GENERAL>(g_at, p.g.dtype, 32 * m + 4 * l, p.head_dim_k);
}

// 0, q and k: the norm factor of a row, of which lane l of the eight has x. Keys that do not exist are 0, and do not
// change a sum of squares. All eight lanes get the result.
template <int NB>
GDN_INLINE float norm_factor(constant gdn_gated_delta_net_call &p, thread const float4 (&x)[NB], int l)
{
    float4 squares[1];
    squares[0] = float4(0.0f);
#pragma unroll
    for (int m = 0; m < NB; m++) squares[0] = fma(x[m], x[m], squares[0]);
    return gdn_norm_factor(fold<1>(squares, l), p.norm_add, p.norm_most);
}

// 2: converts elements of g, of a head or of channels i .. i + 3, to decays, in place. With CHANNEL the bias is loaded
// for every token, because the state needs the registers.
template <int NB, bool CHANNEL, bool GENERAL>
GDN_INLINE void make_decay(constant gdn_gated_delta_net_call &p, device const uchar *bias_at, float rate, float bias,
                           int l, thread float4 (&g)[CHANNEL ? NB : 1])
{
    const int n = CHANNEL ? NB : 1;
    if (has_raw_gate(p)) {
#pragma unroll
        for (int m = 0; m < n; m++) {
            float4 b = float4(bias);
            if (CHANNEL && (p.has & GDN_HAS_BIAS))
                b = read_row<GENERAL>(bias_at, p.dt_bias.dtype, 32 * m + 4 * l, p.head_dim_k);
            g[m] = raw_gates<CHANNEL>(p, g[m], rate, b);
        }
    }
    if (p.gate_input != GDN_G_LINEAR) {
#pragma unroll
        for (int m = 0; m < n; m++) g[m] = gate_exps<CHANNEL>(g[m]);
    }
}

// 1: load state, of an entry of a pool that `view` describes, or zeros. S[m][c] has value channel j + c
template <int NB, int C, bool GENERAL, bool STATE16>
GDN_INLINE void load_state(constant gdn_gated_delta_net_call &p, thread const Item &w, device const uchar *pool,
                           constant gdn_pool_view &view, int entry, int n_slots, thread float4 (&S)[NB][C])
{
    pool += entry < 0 ? 0 : state_at(view, entry, n_slots, w.h);
    const int bytes = STATE16 ? 2 : 4, dtype = STATE16 ? p.state.dtype : GDN_F32;
    const int64_t along = p.state_layout == GDN_STATE_KV ? view.stride_line : bytes,
                  across = p.state_layout == GDN_STATE_KV ? bytes : view.stride_line;
    const int n_keys = p.head_dim_k;
#pragma unroll
    for (int m = 0; m < NB; m++) {
        const int i = 32 * m + 4 * w.l;
#pragma unroll
        for (int c = 0; c < C; c++) {
            float4 x = float4(0.0f);
            if (entry >= 0 && c < w.values && (!GENERAL || i < n_keys)) {
                device const uchar *at = pool + i * along + (w.j + c) * across;
                if (!GENERAL && !STATE16 && p.state_layout != GDN_STATE_KV) {
                    x = read_float4(at);
                } else {
                    x.x = read_element(at, dtype);
                    if (!GENERAL || i + 1 < n_keys) x.y = read_element(at + along, dtype);
                    if (!GENERAL || i + 2 < n_keys) x.z = read_element(at + 2 * along, dtype);
                    if (!GENERAL || i + 3 < n_keys) x.w = read_element(at + 3 * along, dtype);
                }
            }
            S[m][c] = x;
        }
    }
}

// 7: snapshot
template <int NB, int C, bool GENERAL, bool STATE16>
GDN_INLINE void store_state(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, thread const Item &w,
                            int dst, thread const float4 (&S)[NB][C])
{
    device uchar *pool = b.state_out + state_at(p.state_out, dst, p.state_out.n_slots, w.h);
    const int bytes = STATE16 ? 2 : 4, dtype = STATE16 ? p.state.dtype : GDN_F32;
    const int64_t along = p.state_layout == GDN_STATE_KV ? p.state_out.stride_line : bytes,
                  across = p.state_layout == GDN_STATE_KV ? bytes : p.state_out.stride_line;
    const int n_keys = p.head_dim_k;
#pragma unroll
    for (int m = 0; m < NB; m++) {
        const int i = 32 * m + 4 * w.l;
#pragma unroll
        for (int c = 0; c < C; c++) {
            if (c >= w.values || (GENERAL && i >= n_keys)) continue;
            device uchar *at = pool + i * along + (w.j + c) * across;
            if (!GENERAL && !STATE16 && p.state_layout != GDN_STATE_KV) {
                write_float4(at, S[m][c]);
                continue;
            }
            write_element(at, S[m][c].x, dtype);
            if (!GENERAL || i + 1 < n_keys) write_element(at + along, S[m][c].y, dtype);
            if (!GENERAL || i + 2 < n_keys) write_element(at + 2 * along, S[m][c].z, dtype);
            if (!GENERAL || i + 3 < n_keys) write_element(at + 3 * along, S[m][c].w, dtype);
        }
    }
}

// What the tokens of a sequence share when a branch is replayed: the first token's addresses, and the raw gate.
struct FirstToken {
    device const uchar *k;
    device const uchar *v;
    device const uchar *g;
    device const uchar *beta;
    device const uchar *bias;
    float rate, shift;
    int mine;
    ushort eight;
};

// 1, for a token of a tree that does not follow the token before it: restores the state of its parent. It starts from
// the state at the sequence's position, which it loads from the commit or replays from the log. Then it replays the
// parent's path. Deltas come from the log, through the lane that has written them; keys and decays are computed again.
// Returns the number of tokens on the path.
template <int NB, int C, bool CHANNEL, bool GENERAL, bool STATE16>
GDN_INLINE int follow(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, thread const Item &w,
                      device const uchar *source, thread const FirstToken &first, int parent, thread float4 (&S)[NB][C])
{
    if (w.seq.commit >= 0)
        load_state<NB, C, GENERAL, STATE16>(p, w, b.state_out, p.state_out, w.seq.commit, p.state_out.n_slots, S);
    else load_state<NB, C, GENERAL, STATE16>(p, w, source, p.state, w.seq.src, p.state.n_slots, S);
    replay_log_entries<NB, C, CHANNEL, GENERAL, STATE16>(p, b, w, w.seq.commit >= 0 ? w.seq.kept : w.seq.base_position,
                                                         w.seq.position, S);
    const int depth = gdn_depth_of(p, b, w.seq.first, parent);
    for (int left = depth; left-- > 0;) {
        const int t = gdn_ancestor_of(p, b, w.seq.first, parent, left);
        Token<NB, CHANNEL> x;
        load_token<NB, CHANNEL, GENERAL>(p, first.k + t * p.k.stride_token, first.v + t * p.v.stride_token,
                                         first.g + t * p.g.stride_token, first.beta + t * p.beta.stride_token,
                                         first.mine < w.values, w.l, x);
        if (p.qk_norm) {
            const float factor = norm_factor<NB>(p, x.k, w.l);
#pragma unroll
            for (int m = 0; m < NB; m++) x.k[m] = x.k[m] * float4(factor);
        }
        make_decay<NB, CHANNEL, GENERAL>(p, first.bias, first.rate, first.shift, w.l, x.g);
        device const uchar *entry = log_at(p, b, w, w.seq.position + t);
#pragma unroll
        for (int c = 0; c < C; c++) {
            const float own = w.l == 0 && c < w.values ? read_float(entry + log_delta(p, b, w) + 4 * c) : 0.0f;
            const float delta = simd_shuffle(own, first.eight);
#pragma unroll
            for (int m = 0; m < NB; m++) S[m][c] = update(S[m][c], x.k[m], delta, x.g[CHANNEL ? m : 0]);
        }
        round_state<NB, C, STATE16>(p, b, w.seq.position + depth - left, S);
    }
    return depth;
}

// NB is exact unless GENERAL: then it is the most blocks of 32 keys, and head_dim_k is arbitrary. STATE16: 16-bit
// states; with it TREE tells what the call may have, otherwise what it has.
template <int NB, int C, bool CHANNEL, bool GENERAL, bool TREE, bool STATE16>
GDN_INLINE void gated_delta_net(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, uint group, uint me)
{
    const bool tree = TREE && (!STATE16 || (p.has & GDN_HAS_TREE));
    Item w;
    if (!find_item<C>(p, b, group, me, w)) return; // the whole simdgroup
    const int n_keys = p.head_dim_k, mine = value_of_lane<C>(w.l);
    const ushort eight = ushort(me & 24u); // the first of the eight lanes
    device const uchar *q_at = b.q + token_at(p.q, w, w.kappa);
    device const uchar *k_at = b.k + token_at(p.k, w, w.kappa);
    device const uchar *read_at = b.read_key + token_at(p.read_key, w, w.kappa);
    device const uchar *v_at = b.v + token_at(p.v, w, w.h) + (w.j + mine) * element_bytes(p.v.dtype);
    device const uchar *g_at = b.g + token_at(p.g, w, w.h);
    device const uchar *beta_at = b.beta + token_at(p.beta, w, w.h);
    device uchar *out_at = b.result + token_at(p.result, w, w.h) + (w.j + mine) * element_bytes(p.result.dtype);

    // A raw gate's constants of the head.
    device const uchar *bias_at = b.dt_bias + w.h * p.dt_bias.stride_head;
    float rate = 0.0f, bias = 0.0f;
    if (has_raw_gate(p) && w.seq.T > 0) { // without tokens ssm_a may be absent
        rate = gate_rate(p, b, w.h);
        if (!CHANNEL && (p.has & GDN_HAS_BIAS)) bias = read_element(bias_at, p.dt_bias.dtype);
    }

    float4 S[NB][C];
    device const uchar *source = b.state;
    if (p.has & GDN_HAS_ONE_POOL) source = b.state_out + p.pool_offset;
    load_state<NB, C, GENERAL, STATE16>(p, w, source, p.state, w.seq.src, p.state.n_slots, S); // 1
    for (int part = 0; part < (STATE16 ? 2 : 1); part++) {
        replay_log_entries<NB, C, CHANNEL, GENERAL, STATE16>(p, b, w, part ? w.seq.kept : w.seq.base_position,
                                                             part ? w.seq.position : w.seq.kept, S);
        if (part == 0 && w.seq.commit >= 0) store_state<NB, C, GENERAL, STATE16>(p, b, w, w.seq.commit, S);
    }

    const FirstToken first = { k_at, v_at, g_at, beta_at, bias_at, rate, bias, mine, eight };
    Token<NB, CHANNEL> token;
    if (w.seq.T > 0) load_token<NB, CHANNEL, GENERAL>(p, k_at, v_at, g_at, beta_at, mine < w.values, w.l, token);
    int depth = 0; // of a tree: the tokens on this token's branch, with itself
    for (int t = 0; t < w.seq.T; t++) {
        if (tree) {
            const int parent = gdn_parent_of(p, b, w.seq.first, t);
            if (parent != t - 1)
                depth = follow<NB, C, CHANNEL, GENERAL, STATE16>(p, b, w, source, first, parent, S); // 1
            depth++;
        }
        thread float4(&k)[NB] = token.k;
        thread float4(&decay)[CHANNEL ? NB : 1] = token.g;

        // 0: prepare. q is loaded here, two passes over the state before its use
        float4 q[NB];
#pragma unroll
        for (int m = 0; m < NB; m++) q[m] = read_row<GENERAL>(q_at, p.q.dtype, 32 * m + 4 * w.l, n_keys);
        if (p.qk_norm) {
            const float k_norm = norm_factor<NB>(p, k, w.l), q_norm = norm_factor<NB>(p, q, w.l);
#pragma unroll
            for (int m = 0; m < NB; m++) {
                k[m] = k[m] * float4(k_norm);
                q[m] = q[m] * float4(q_norm);
            }
        }
        const float beta = delta_factor(p, token.beta);

        // 2: decay
        make_decay<NB, CHANNEL, GENERAL>(p, bias_at, rate, bias, w.l, decay);

        // 3: read kv
        float4 sum[C];
#pragma unroll
        for (int c = 0; c < C; c++) sum[c] = float4(0.0f);
#pragma unroll
        for (int m = 0; m < NB; m++) {
            float4 key = k[m];
            if (GENERAL && (p.has & GDN_HAS_READ_KEY))
                key = read_row<GENERAL>(read_at, p.read_key.dtype, 32 * m + 4 * w.l, n_keys);
            const float4 with = CHANNEL ? decay[CHANNEL ? m : 0] * key : key;
#pragma unroll
            for (int c = 0; c < C; c++) sum[c] = sum_step<GENERAL>(S[m][c], with, sum[c], 32 * m + 4 * w.l, n_keys);
        }
        float kv = fold<C>(sum, w.l);
        if (!CHANNEL) kv = decay[0].x * kv;

        // 4: delta
        const float d = beta * (token.v - kv);
        float delta[C];
#pragma unroll
        for (int c = 0; c < C; c++) delta[c] = simd_shuffle(d, ushort(eight + lane_of_value<C>(c)));
        log_token<NB, C, CHANNEL, GENERAL>(p, b, w, t, k, decay, delta); // 7

        // 5, and 6: output
#pragma unroll
        for (int c = 0; c < C; c++) sum[c] = float4(0.0f);
#pragma unroll
        for (int m = 0; m < NB; m++) {
#pragma unroll
            for (int c = 0; c < C; c++) {
                S[m][c] = update(S[m][c], k[m], delta[c], decay[CHANNEL ? m : 0]);
                sum[c] = sum_step<GENERAL>(S[m][c], q[m], sum[c], 32 * m + 4 * w.l, n_keys);
            }
        }

        // Prefetch the next token into the registers that this one no longer needs. Its loads overlap the output sum
        // and the stores of states. Its q is loaded when the token begins.
        q_at += p.q.stride_token;
        k_at += p.k.stride_token;
        read_at += p.read_key.stride_token;
        v_at += p.v.stride_token;
        g_at += p.g.stride_token;
        beta_at += p.beta.stride_token;
        if (t + 1 < w.seq.T)
            load_token<NB, CHANNEL, GENERAL>(p, k_at, v_at, g_at, beta_at, mine < w.values, w.l, token);

        const float o = p.scale * fold<C>(sum, w.l);
        if (w.l == lane_of_value<C>(mine) && mine < w.values) write_element(out_at, o, p.result.dtype);

        // 7: round; snapshot, r tokens before the newest, and checkpoint
        round_state<NB, C, STATE16>(p, b, w.seq.position + (tree ? depth : t + 1), S);
        for (int kept = 0; kept < (p.checkpoints_interval ? 2 : 1); kept++) {
            const int dst = kept ? reported(b.bad, GDN_BAD_STATE_CHECKPOINT, gdn_checkpoint_of(p, b, w.seq.s, t))
                                 : reported(b.bad, GDN_BAD_STATE_DST, gdn_snapshot_of(p, b, w.seq, t));
            if (dst >= 0) store_state<NB, C, GENERAL, STATE16>(p, b, w, dst, S);
        }
        out_at += p.result.stride_token;
    }
}

// ---- Kernels: gdn_metal_delta_<size>[_channel][_what].
//   size   4: heads of 128 keys (NB = 4 blocks). general: any head.
//   what   channel: a gate per key channel. tree: the tokens may be a tree. state16: 16-bit states.
// All take a log; an operand that a call does not have is bound to any buffer.
// In the order of the regions in core/gated_delta_net.c.
#define GDN_DELTA_OPERANDS                                                                                             \
    constant gdn_gated_delta_net_call &p [[buffer(0)]], device const uchar *q [[buffer(1)]],                           \
        device const uchar *k [[buffer(2)]], device const uchar *v [[buffer(3)]], device const uchar *g [[buffer(4)]], \
        device const uchar *beta [[buffer(5)]], device const uchar *ssm_a [[buffer(6)]],                               \
        device const uchar *dt_bias [[buffer(7)]], device uchar *result [[buffer(8)]],                                 \
        device const uchar *state [[buffer(9)]], device uchar *state_out [[buffer(10)]],                               \
        device const uchar *seq_start [[buffer(11)]], device const uchar *state_src [[buffer(12)]],                    \
        device const uchar *state_dst [[buffer(13)]], device const uchar *position [[buffer(14)]],                     \
        device const uchar *checkpoints_dst [[buffer(15)]], device const uchar *read_key [[buffer(16)]],               \
        device uchar *log [[buffer(17)]], device const uchar *log_row [[buffer(18)]],                                  \
        device const uchar *base_position [[buffer(19)]], device const uchar *commit [[buffer(20)]],                   \
        device const uchar *parent [[buffer(21)]], device atomic_uint *bad [[buffer(22)]], GDN_THREAD
#define GDN_DELTA_BUFFERS                                                                                              \
    const DeltaBuffers b = { q,                                                                                        \
                             k,                                                                                        \
                             v,                                                                                        \
                             g,                                                                                        \
                             beta,                                                                                     \
                             ssm_a,                                                                                    \
                             dt_bias,                                                                                  \
                             result,                                                                                   \
                             state,                                                                                    \
                             state_out,                                                                                \
                             seq_start,                                                                                \
                             state_src,                                                                                \
                             state_dst,                                                                                \
                             position,                                                                                 \
                             checkpoints_dst,                                                                          \
                             read_key,                                                                                 \
                             log,                                                                                      \
                             log_row,                                                                                  \
                             base_position,                                                                            \
                             commit,                                                                                   \
                             parent,                                                                                   \
                             bad };
#define GDN_DELTA(name, ...)                                                                                           \
    GDN_KERNEL(name, GDN_DELTA_OPERANDS)                                                                               \
    {                                                                                                                  \
        GDN_DELTA_BUFFERS                                                                                              \
        gated_delta_net<__VA_ARGS__>(p, b, group.x, me);                                                               \
    }

//        name, NB, C, CHANNEL, GENERAL, TREE, STATE16
GDN_DELTA(gdn_metal_delta_4, 4, 4, false, false, false, false)
GDN_DELTA(gdn_metal_delta_4_channel, 4, 4, true, false, false, false)
GDN_DELTA(gdn_metal_delta_general, 8, 2, false, true, false, false)
GDN_DELTA(gdn_metal_delta_general_channel, 8, 2, true, true, false, false)
GDN_DELTA(gdn_metal_delta_general_tree, 8, 2, false, true, true, false)
GDN_DELTA(gdn_metal_delta_general_channel_tree, 8, 2, true, true, true, false)
GDN_DELTA(gdn_metal_delta_4_state16, 4, 4, false, false, false, true)
GDN_DELTA(gdn_metal_delta_4_channel_state16, 4, 4, true, false, false, true)
GDN_DELTA(gdn_metal_delta_general_state16, 8, 2, false, true, true, true)
GDN_DELTA(gdn_metal_delta_general_channel_state16, 8, 2, true, true, true, true)
