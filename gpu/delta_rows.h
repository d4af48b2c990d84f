// gated_delta_net in the kernels of CUDA and Metal: the tokens of a sequence, one after another. CUDA's decode and
// prefill have kernels of their own. Their includer's names: gpu/names_delta.h.
//
// Eight lanes share C value channels. Lane l has the keys i = 32 m + 4 l + e, e = 0 .. 3, which are the residues
// 4l .. 4l+3 of dot32. So 32 keys of a row are one coalesced access of 128 bytes. The tree's steps h = 16, 8, 4 are
// exchanges with the lanes l^4, l^2, l^1; h = 2, 1 stay within a lane. The addition commutes, so either of the two
// lanes may add. All loads of a state are issued before the first is used; the first token is loaded after the state.
// The next token is loaded before the snapshot is stored.
//
// Steps, numbered as in docs/reference/kernels/gated_delta_net.md and in every other version:
//   0 prepare   1 load state, replay the log, commit; in a tree, follow a branch   2 decay   3 read kv   4 delta
//   5 update   6 output
//   7 round, snapshot, checkpoint, log
#ifndef GDN_GPU_DELTA_ROWS_H
#define GDN_GPU_DELTA_ROWS_H

#include "gpu/delta_item.h"
#include "gpu/delta_log.h"
#include "gpu/delta_state.h"
#include "gpu/delta_step.h"

// One token's operands for a lane, unconverted until convert_token(). With CHANNEL all 32 lanes of a warp need the
// decays of all key channels. Each eight lanes compute a quarter of them, for the keys of GATES blocks, and exchange
// them.
template <class X> struct Token {
    STATIC int GATES = X::CHANNEL ? (X::NB + 3) / 4 : 1;
    float4 q[X::NB], k[X::NB], g[GATES];
    float v, beta;
};

// The u-th of the lane's GATES blocks of 32 keys. Block m is the (m / 4)-th of the eight lanes from lane 8 (m % 4) on.
template <class X> GDN_INLINE int gate_block(THREAD const Item &w, int u)
{
    return (lane_of_warp<X>(w) / 8 + 4 * u) % X::NB;
}

// Addresses of the token to load next.
struct Cursor {
    ConstBytes q, k, v, g, beta;
    Bytes out;
};

// Loads a token and advances the cursor. q is not loaded for replayed tokens.
template <class X, bool WITH_Q = true>
GDN_INLINE void load_token(CONSTANT gdn_gated_delta_net_call &p, THREAD const Item &w, int mine, THREAD Cursor &at,
                           THREAD Token<X> &x)
{
#pragma unroll
    for (int m = 0; m < X::NB; m++) x.k[m] = read_row<X>(at.k, p.k.dtype, 32 * m + 4 * w.l, w.n_keys);
    x.v = mine < w.values ? read_raw(at.v, p.v.dtype) : 0.0f;
    x.beta = read_raw(at.beta, p.beta.dtype);
    if (!X::CHANNEL) x.g[0].x = read_raw(at.g, p.g.dtype);
    else
#pragma unroll
        for (int u = 0; u < Token<X>::GATES; u++)
            x.g[u] = read_row<X>(at.g, p.g.dtype, 32 * gate_block<X>(w, u) + 4 * w.l, w.n_keys);
#pragma unroll
    for (int m = 0; m < X::NB; m++)
        x.q[m] = WITH_Q ? read_row<X>(at.q, p.q.dtype, 32 * m + 4 * w.l, w.n_keys) : zero4();
    at.q += p.q.stride_token;
    at.k += p.k.stride_token;
    at.v += p.v.stride_token;
    at.g += p.g.stride_token;
    at.beta += p.beta.stride_token;
}

// Converts a loaded token to F32.
template <class X> GDN_INLINE void widen_token(CONSTANT gdn_gated_delta_net_call &p, THREAD Token<X> &x)
{
    widen_rows<X>(x.k, p.k.dtype);
    widen_rows<X>(x.q, p.q.dtype);
    if (X::CHANNEL) widen_rows<X>(x.g, p.g.dtype);
    else x.g[0].x = widen_raw(x.g[0].x, p.g.dtype);
    x.v = widen_raw(x.v, p.v.dtype);
    x.beta = widen_raw(x.beta, p.beta.dtype);
}

// 0: prepare. One tree computes both sums of squares: it takes k and q as two channels.
template <class X, bool ALL> GDN_INLINE void prepare(CONSTANT gdn_gated_delta_net_call &p, int l, THREAD Token<X> &x)
{
    x.beta = delta_factor<ALL>(p, x.beta);
    if (!ALL && !p.qk_norm) return;
    float4 sum[2] = { zero4(), zero4() }; // keys that do not exist are 0 and add nothing
#pragma unroll
    for (int m = 0; m < X::NB; m++) {
        sum[0] = fma4(x.k[m], x.k[m], sum[0]);
        sum[1] = fma4(x.q[m], x.q[m], sum[1]);
    }
    const float factor = gdn_norm_factor(fold<2>(sum, l), p.norm_add, p.norm_most), other = exchange(factor, 4);
    const bool of_q = value_of_lane<2>(l) == 1;
#pragma unroll
    for (int m = 0; m < X::NB; m++) {
        x.k[m] = mul4(x.k[m], all4(of_q ? other : factor));
        x.q[m] = mul4(x.q[m], all4(of_q ? factor : other));
    }
}

// Loads what the raw gates of a head's tokens share.
FUNCTION void read_raw_gates(CALL THREAD const Item &w, THREAD float &rate, THREAD float4 (&bias)[Token<X>::GATES])
{
    rate = read_rate(PASS w);
#pragma unroll
    for (int u = 0; u < Token<X>::GATES; u++) bias[u] = read_bias(PASS w, 32 * gate_block<X>(w, u) + 4 * w.l);
}

// 7: log the decays per key channel. The warp with value channel 0 stores them; each lane stores those it has computed.
FUNCTION void log_gates(CALL THREAD const Item &w, int t, THREAD const Token<X> &x)
{
    const int eighth = lane_of_warp<X>(w) / 8;
    if (!X::CHANNEL || w.seq.row < 0 || w.j != eighth * X::C || eighth >= X::NB) return;
    const Bytes row = log_decay(PASS w, log_at(PASS w, w.seq.position + t));
#pragma unroll
    for (int u = 0; u < Token<X>::GATES; u++) store_keys<X>(row, 32 * gate_block<X>(w, u) + 4 * w.l, w.n_keys, x.g[u]);
}

// 2: decay
template <class X, bool ALL>
GDN_INLINE void decays_of(CONSTANT gdn_gated_delta_net_call &p, int l, float rate,
                          THREAD const float4 (&bias)[Token<X>::GATES], THREAD Token<X> &x,
                          THREAD float4 (&decay)[X::CHANNEL ? X::NB : 1])
{
    if (!X::CHANNEL) {
        decay[0] = all4(decay_of<ALL>(p, x.g[0].x, rate, bias[0].x));
    } else {
#pragma unroll
        for (int u = 0; u < Token<X>::GATES; u++) x.g[u] = decay_of<ALL>(p, x.g[u], rate, bias[u]);
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            decay[X::CHANNEL ? m : 0] = of_lane4(x.g[X::CHANNEL ? m / 4 : 0], 8 * (m % 4) + l);
    }
}

// Steps 0 and 2 of a loaded token: converts it, normalises q and k, computes beta and the decays.
template <class X>
GDN_INLINE void convert_token(CONSTANT gdn_gated_delta_net_call &p, int l, float rate,
                              THREAD const float4 (&bias)[Token<X>::GATES], THREAD Token<X> &x,
                              THREAD float4 (&decay)[X::CHANNEL ? X::NB : 1])
{
    widen_token<X>(p, x);
    if (does_all<X>(p)) {
        decays_of<X, true>(p, l, rate, bias, x, decay);
        prepare<X, true>(p, l, x);
    } else {
        prepare<X, false>(p, l, x);
        decays_of<X, false>(p, l, rate, bias, x, decay);
    }
}

// The parents of the n-th 32 tokens of a sequence, one per lane of a warp. With them a path along a tree is followed by
// exchanges instead of dependent loads.
FUNCTION int parents_of(CALL THREAD const Item &w, int n)
{
    const int t = 32 * n + lane_of_warp<X>(w);
    return gdn_parent_of(PASS w.seq.first, t < w.seq.T ? t : w.seq.T - 1);
}

// The path from the root to token `end`, inclusive: a bit for each of its tokens among the n-th 32. `parents` holds the
// parents of the known-th 32; neither `end` nor the n-th 32 come after those.
FUNCTION uint32_t path_to(CALL THREAD const Item &w, int end, int parents, int known, int n)
{
    for (;;) {
        uint32_t path = 0;
        while (end >= 32 * known) {
            path |= 1u << (end & 31);
            end = of_lane(parents, end & 31);
        }
        if (known == n) return path;
        parents = parents_of(PASS w, --known);
    }
}

// 1, for token t of a tree that does not follow token t - 1: restores the state of its parent. It starts from the state
// at the sequence's position, which it loads from the commit or replays from the log. Then it replays the parent's
// path. The path's deltas are in the log, where a lane of the eight has written them; keys and decays are computed
// again. Returns the number of tokens on the path.
FUNCTION int follow(CALL Item w, int mine, int t, int parent, int parents, THREAD const Cursor &first, float rate,
                    THREAD const float4 (&bias)[Token<X>::GATES], THREAD float4 (&S)[X::NB][X::C])
{
    sync_warp();
    w.l = here(w.l); // recompute addresses here, so that no registers hold them
    if (w.seq.commit >= 0) {
        load_state<X>(p, w, DATA(state_out), p.state_out, w.seq.commit, S);
        w.seq.base_position = w.seq.kept;
    } else load_state<X>(p, w, SOURCE, p.state, w.seq.src, S);
    replay_log_entries(PASS w, w.seq.base_position, w.seq.position, S);
    int depth = 0;
#pragma unroll 1
    for (int n = 0; 32 * n <= parent; n++) {
#pragma unroll 1
        for (uint32_t path = path_to(PASS w, parent, parents, t / 32, n); path; path &= path - 1) {
            const int of = 32 * n + lowest_bit(path);
            Cursor at = { first.q + of * p.q.stride_token,       first.k + of * p.k.stride_token,
                          first.v + of * p.v.stride_token,       first.g + of * p.g.stride_token,
                          first.beta + of * p.beta.stride_token, first.out };
            Token<X> x;
            load_token<X, false>(p, w, mine, at, x);
            float delta[X::C];
            load_deltas(PASS w, log_at(PASS w, w.seq.position + of), delta);
            float4 decay[X::CHANNEL ? X::NB : 1];
            convert_token<X>(p, w.l, rate, bias, x, decay);
#pragma unroll
            for (int m = 0; m < X::NB; m++)
#pragma unroll
                for (int c = 0; c < X::C; c++) S[m][c] = update(S[m][c], x.k[m], delta[c], decay[X::CHANNEL ? m : 0]);
            round_state(PASS w.seq.position + ++depth, S);
        }
    }
    return depth;
}

// Only general kernels support a read key: the others lack the registers.
template <class X> GDN_INLINE bool has_read_key(CONSTANT gdn_gated_delta_net_call &p)
{
    return X::GENERAL && HAS(read_key, GDN_HAS_READ_KEY);
}

FUNCTION void gated_delta_net_rows(CALL THREAD const Item &w)
{
    if (w.j / (4 * X::C) * (4 * X::C) >= p.head_dim_v) return; // nothing to do for this warp
    const int mine = value_of_lane<X::C>(w.l);
    const int group = lane_of_warp<X>(w) & 24; // the first of the eight lanes
    Cursor at = { DATA(q) + token_at(p.q, w, w.kappa),
                  DATA(k) + token_at(p.k, w, w.kappa),
                  DATA(v) + token_at(p.v, w, w.h) + (uint64_t)((w.j + mine) * element_bytes(p.v.dtype)),
                  DATA(g) + token_at(p.g, w, w.h),
                  DATA(beta) + token_at(p.beta, w, w.h),
                  DATA(result) + token_at(p.result, w, w.h) +
                      (uint64_t)((w.j + mine) * element_bytes(p.result.dtype)) };

    const Cursor first = at; // for trees
    // LATE: load a token in its own iteration, because its registers serve the ancestors or the rounding of a state.
    // Otherwise it is prefetched while the token before it is computed.
    constexpr bool LATE = X::TREE || (X::GENERAL && X::STATE16);
    // Load the state first: the compiler makes its address computation wait for all earlier loads.
    float4 S[X::NB][X::C];
    load_state<X>(p, w, SOURCE, p.state, w.seq.src, S); // 1
    float rate = 0.0f;
    float4 bias[Token<X>::GATES];
    Token<X> x = Token<X>();
    // The replayed entries use the registers of the first token, so it is loaded after them.
#pragma unroll 1
    for (int part = 0; part < (X::STATE16 ? 2 : 1); part++) {
        replay_log_entries(PASS w, part ? w.seq.kept : w.seq.base_position, part ? w.seq.position : w.seq.kept, S);
        if (w.seq.T > 0 && !LATE && (part || !X::STATE16)) load_token<X>(p, w, mine, at, x);
        else x = Token<X>(); // it is not read, but compilers cannot prove that
        if (part == 0 && w.seq.commit >= 0) store_state(PASS w, w.seq.commit, S);
    }
    read_raw_gates(PASS w, rate, bias);
    rate = gate_rate(p, rate);
#pragma unroll
    for (int u = 0; u < Token<X>::GATES; u++) bias[u] = gate_bias<X>(p, bias[u]);

    int parents = GDN_NONE, depth = 0; // for trees: depth counts the tokens on this token's branch, with itself
    for (int t = 0; t < w.seq.T; t++) {
        if (has_tree<X>(p)) {
            if (t % 32 == 0) parents = parents_of(PASS w, t / 32);
            const int parent = of_lane(parents, t & 31);
            if (parent != t - 1) depth = follow(PASS w, mine, t, parent, parents, first, rate, bias, S); // 1
            depth++;
        }
        if (LATE) load_token<X>(p, w, mine, at, x);
        float4 decay[X::CHANNEL ? X::NB : 1];
        convert_token<X>(p, w.l, rate, bias, x, decay); // 0, 2

        // 3: read kv
        float4 sum[X::C];
#pragma unroll
        for (int c = 0; c < X::C; c++) sum[c] = zero4();
        if (has_read_key<X>(p)) {
            const ConstBytes row = read_key_at(PASS w, t);
            const int l = here(w.l);
#pragma unroll
            for (int m = 0; m < X::NB; m++) {
                const float4 key = read_row<X>(row, p.read_key.dtype, 32 * m + 4 * l, p.head_dim_k);
                read_step<X>(w, m, widen_row<X>(key, p.read_key.dtype), decay, S, sum);
            }
        } else {
#pragma unroll
            for (int m = 0; m < X::NB; m++) read_step<X>(w, m, x.k[m], decay, S, sum);
        }
        float kv = fold<X::C>(sum, w.l);
        if (!X::CHANNEL) kv = gdn_mul(decay[0].x, kv);

        // 4: delta
        const float d = gdn_mul(x.beta, gdn_sub(x.v, kv));
        float delta[X::C];
#pragma unroll
        for (int c = 0; c < X::C; c++) delta[c] = of_lane(d, group + lane_of_value<X::C>(c));
        log_token(PASS w, t, x.k, decay[0].x, delta); // 7, here because the next token overwrites the registers
        log_gates(PASS w, t, x);

        // 5: update, 6: output
#pragma unroll
        for (int c = 0; c < X::C; c++) sum[c] = zero4();
#pragma unroll
        for (int m = 0; m < X::NB; m++)
#pragma unroll
            for (int c = 0; c < X::C; c++) {
                S[m][c] = update(S[m][c], x.k[m], delta[c], decay[X::CHANNEL ? m : 0]);
                sum[c] = sum_step<X>(S[m][c], x.q[m], sum[c], 32 * m + 4 * w.l, w.n_keys);
            }
        if (t + 1 < w.seq.T && !LATE) load_token<X>(p, w, mine, at, x);
        const float o = gdn_mul(p.scale, fold<X::C>(sum, w.l));
        if (w.l == lane_of_value<X::C>(mine) && mine < w.values) store_element(at.out, o, p.result.dtype);
        at.out += p.result.stride_token;

        // 7: round; snapshot, r tokens before the newest, and checkpoint. Two stores: a loop over both spills registers
        round_state(PASS w.seq.position + (has_tree<X>(p) ? depth : t + 1), S);
        Item there = w;
        there.l = here(w.l);
        int dst = snapshot_of(PASS w, t);
        if (dst >= 0) store_state(PASS there, dst, S);
        dst = p.checkpoints_interval ? checkpoint_of(PASS w, t) : GDN_NONE;
        if (dst >= 0) store_state(PASS there, dst, S);
    }
}

#endif
