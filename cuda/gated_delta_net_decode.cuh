// gated_delta_net for one token per sequence: decode, for heads of 128 keys and states [value][key]. Entries of the log
// are replayed before the token. gpu/delta_rows.h has the mapping of a head to lanes, and the steps.
//
// Such a call waits for memory, and its instructions follow each other. So maps are loaded in one round trip, and the
// state, the token and the log entries together in a second one. A thread block has the log entries in shared memory,
// and computes the gates per key channel once.
#ifndef GDN_CUDA_GATED_DELTA_NET_DECODE_CUH
#define GDN_CUDA_GATED_DELTA_NET_DECODE_CUH

#include "cuda/gated_delta_net.cuh"

// What the warps of a thread block share.
template <bool CHANNEL> struct alignas(16) Block {
    static constexpr int ENTRIES = 16; // of the log
    typedef float Row[32 * GDN_CUDA_DELTA_WARPS];
    Row gates; // the token's decays per key channel
    Row k[ENTRIES], decays[CHANNEL ? ENTRIES : 1];
    float decay[ENTRIES]; // without CHANNEL
    float delta[ENTRIES][GDN_CUDA_DELTA_VALUES(4)];
};
GDN_INLINE float4 quad_of(const float *row, int m, int l) { return *(const float4 *)(row + 32 * m + 4 * l); }

// A sequence of another number of tokens, or of too many entries. A function of its own, so that it does not take
// registers from decode.
template <class X> GDN_SLOW_PATH void take_rows(const gdn_gated_delta_net_call &p, int first_value, int values)
{
    for (int j = 0; j < values; j += X::VALUES) rows_of<X>(p, { Share::ALL, first_value + j });
}

// 1: loads the state of the sequence, or zeros.
template <class X>
GDN_INLINE void load_lines(const gdn_gated_delta_net_call &p, const Item &w, float4 (&S)[X::NB][X::C])
{
#pragma unroll
    for (int m = 0; m < X::NB; m++)
#pragma unroll
        for (int c = 0; c < X::C; c++) S[m][c] = zero4();
    if (w.seq.src < 0) return;
    const char *from =
        p.state.data + state_at(p.state, w.seq.src, w.h) + (uint64_t)(w.j * p.state.stride_line + X::BYTES * 4 * w.l);
#pragma unroll
    for (int c = 0; c < X::C; c++, from += p.state.stride_line)
#pragma unroll
        for (int m = 0; m < X::NB; m++) S[m][c] = load_quad<X>(from + X::BYTES * 32 * m);
}

// 1: copies the log entries that are replayed. A warp copies a row of an entry at a time.
template <class X>
GDN_INLINE void copy_entries(const gdn_gated_delta_net_call &p, const Item &w, int n, Block<X::CHANNEL> &block)
{
    constexpr int QUADS = X::VALUES / 4; // of an entry's deltas for this thread block
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const Entries first = entries_from(p, w.seq.base_position);
    Item all = w; // the first value channel of the thread block
    all.j = w.j - Lanes<8>::group((int)threadIdx.x) * X::C;
#pragma unroll
    for (int u = 0; u < Block<X::CHANNEL>::ENTRIES; u += GDN_CUDA_DELTA_WARPS) {
        const int i = u + warp;
        if (i >= n) continue;
        char *entry = entry_of(PASS w, first, i);
        copy_later(&block.k[i][4 * lane], log_key(PASS w, entry) + 16 * lane);
        if (X::CHANNEL) copy_later(&block.decays[X::CHANNEL ? i : 0][4 * lane], log_decay(PASS w, entry) + 16 * lane);
        else if (lane == 0) block.decay[i] = load_float(log_decay(PASS w, entry));
    }
    for (int i = (int)threadIdx.x / QUADS; i < n; i += 32 * GDN_CUDA_DELTA_WARPS / QUADS) {
        const int quad = (int)threadIdx.x % QUADS;
        copy_later(&block.delta[i][4 * quad], log_delta(PASS all, entry_of(PASS w, first, i)) + 16 * quad);
    }
}

// 1: replays entries, counted from the base position.
template <class X>
GDN_INLINE void replay_entries(const gdn_gated_delta_net_call &p, const Item &w, int from, int to,
                               const Block<X::CHANNEL> &block, float4 (&S)[X::NB][X::C])
{
    const int value = Lanes<8>::group((int)threadIdx.x) * X::C;
#pragma unroll 1
    for (int i = from; i < to; i++) {
        float delta[X::C];
        load_values<X>((const char *)&block.delta[i][value], X::C, delta);
#pragma unroll
        for (int m = 0; m < X::NB; m++) {
            const float4 k = quad_of(block.k[i], m, w.l),
                         decay = X::CHANNEL ? quad_of(block.decays[X::CHANNEL ? i : 0], m, w.l) : all4(block.decay[i]);
#pragma unroll
            for (int c = 0; c < X::C; c++) S[m][c] = update(S[m][c], k, delta[c], decay);
        }
        round_state(PASS w.seq.base_position + i + 1, S);
    }
}

template <class X>
GDN_INLINE void gated_delta_net_decode(const gdn_gated_delta_net_call &p, int first_value, Block<X::CHANNEL> &block)
{
    static_assert(X::NB == GDN_CUDA_DELTA_WARPS && !X::GENERAL && !X::TREE, "a key for each thread");
    typedef Shape<4, X::C, false, false, false, X::STATE16> Plain; // loads no gates per key channel
    // What does not depend on the other maps.
    Item w;
    w.seq.s = (int)blockIdx.x;
    w.seq.T = 1;
    w.seq.position = map_at(p.position, w.seq.s, 0);
    const int entry = gdn_snapshot_of(PASS w.seq, 0);
    w.h = (int)blockIdx.y;
    const int key = (int)threadIdx.x; // of a gate per key channel
    const float raw_rate = read_rate(PASS w);
    uint32_t raw_bias = 0;
    if (p.dt_bias.data)
        raw_bias = read_bits((uint64_t)p.dt_bias.data + (uint64_t)(w.h * p.dt_bias.stride_head) +
                                 (uint64_t)(X::CHANNEL ? key * element_bytes(p.dt_bias.dtype) : 0),
                             p.dt_bias.dtype);
    if (!find_item<X>(p, w, { Share::ALL, first_value })) return; // the whole block
    const int entries = w.seq.position - w.seq.base_position;
    if (w.seq.T != 1 || (X::LOG && entries > Block<X::CHANNEL>::ENTRIES)) {
        take_rows<Shape<4, 1, X::CHANNEL, false, false, X::STATE16>>(p, first_value, X::VALUES);
        return;
    }
    const int dst = reported<X>(p, X(), GDN_BAD_STATE_DST, entry);
    // 1: the token, the entries and the state. A large state is last, because converting the token takes a while; of a
    // small one there are few sequences, and it comes from further away.
    constexpr bool STATE_FIRST = X::C == 1;
    float4 S[X::NB][X::C];
    if (STATE_FIRST) load_lines<X>(p, w, S);
    const int mine = value_of_lane<X::C>(w.l);
    const int group = (int)threadIdx.x & 24; // the first of the eight lanes
    Cursor at = { p.q.data + token_at(p.q, w, w.kappa),
                  p.k.data + token_at(p.k, w, w.kappa),
                  p.v.data + token_at(p.v, w, w.h) + (uint64_t)((w.j + mine) * element_bytes(p.v.dtype)),
                  p.g.data + token_at(p.g, w, w.h) + (uint64_t)(X::CHANNEL ? key * element_bytes(p.g.dtype) : 0),
                  p.beta.data + token_at(p.beta, w, w.h),
                  p.result.data + token_at(p.result, w, w.h) +
                      (uint64_t)((w.j + mine) * element_bytes(p.result.dtype)) };
    Token<Plain> x;
    load_token<Plain>(p, w, mine, at, x);
    if (X::LOG && entries > 0) copy_entries<X>(p, w, entries, block);
    if (!STATE_FIRST) load_lines<X>(p, w, S);
    float4 decay[1];
    const float4 bias[1] = { all4(p.dt_bias.data ? widen(raw_bias, p.dt_bias.dtype) : 0.0f) };
    convert_token<Plain>(p, w.l, gate_rate(p, raw_rate), bias, x, decay); // 0, 2
    if (X::CHANNEL) block.gates[key] = decay[0].x;
    if (X::LOG) copies_done();
    if (X::CHANNEL || X::LOG) __syncthreads();
    widen_state<X>(p, true, S);
    if (X::LOG) {
        replay_entries<X>(p, w, 0, w.seq.kept - w.seq.base_position, block, S);
        if (w.seq.commit >= 0) store_lines<X>(p, w, state_out_at(PASS w, w.seq.commit), S);
        if (X::STATE16) replay_entries<X>(p, w, w.seq.kept - w.seq.base_position, entries, block, S);
    }

    // 3: read kv
    float4 sum[X::C];
#pragma unroll
    for (int c = 0; c < X::C; c++) sum[c] = zero4();
#pragma unroll
    for (int m = 0; m < X::NB; m++) {
        const float4 with = X::CHANNEL ? mul4(quad_of(block.gates, m, w.l), x.k[m]) : x.k[m];
#pragma unroll
        for (int c = 0; c < X::C; c++) sum[c] = fma4(S[m][c], with, sum[c]);
    }
    float kv = fold<X::C>(sum, w.l);
    if (!X::CHANNEL) kv = __fmul_rn(decay[0].x, kv);

    // 4: delta
    const float d = __fmul_rn(x.beta, __fsub_rn(x.v, kv));
    float delta[X::C];
#pragma unroll
    for (int c = 0; c < X::C; c++) {
        delta[c] = __shfl_sync(GDN_FULL_WARP, d, group + lane_of_value<X::C>(c));
        sum[c] = zero4();
    }

    // 5: update, 6: output
#pragma unroll
    for (int m = 0; m < X::NB; m++) {
        const float4 by = X::CHANNEL ? quad_of(block.gates, m, w.l) : decay[0];
#pragma unroll
        for (int c = 0; c < X::C; c++) {
            S[m][c] = update(S[m][c], x.k[m], delta[c], by);
            sum[c] = fma4(S[m][c], x.q[m], sum[c]);
        }
    }
    const float o = __fmul_rn(p.scale, fold<X::C>(sum, w.l));
    if (w.l == lane_of_value<X::C>(mine)) store_element(at.out, o, p.result.dtype);

    // 7: snapshot, checkpoint, log. Storing rounds.
    if (dst >= 0) store_lines<X>(p, w, state_out_at(PASS w, dst), S);
    if (p.checkpoints_interval) {
        const int there = checkpoint_of(PASS w, 0);
        if (there >= 0) store_lines<X>(p, w, state_out_at(PASS w, there), S);
    }
    if (X::LOG) {
        log_token(PASS w, 0, x.k, decay[0].x, delta);
        if (X::CHANNEL && w.seq.row >= 0 && first_value == 0)
            store_float(log_decay(PASS w, log_at(PASS w, w.seq.position)) + 4 * key, decay[0].x);
    }
}

#endif
