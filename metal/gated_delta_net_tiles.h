// gated_delta_net for many tokens per sequence: prefill. Eight lanes share two value channels of a head and keep this
// part of the state in registers for all tokens of the call. A simdgroup has eight channels; a threadgroup is four
// simdgroups of one head.
//
// Lane l of the eight has the keys i = 32 m + l + 8 e, e = 0 .. 3. The tree's steps h = 16 and 8 stay within a lane.
// h = 4, 2, 1 exchange one number with the lanes l^4, l^2, l^1. One tree takes the sums of a token's kv and the output
// sums of the previous token. Each exchange leaves a lane half of the sums, so four sums take four exchanges.
//
// Tokens are staged in threadgroup memory in tiles, double buffered: while one is processed, the next is prefetched
// into registers. A tile has k, q and decay in the order in which lanes load them, 16 bytes each. Steps 0 and 2 run
// once per threadgroup. All its threads have the same tokens, and reach every barrier and every exchange. Steps as in
// gated_delta_net.metal.
#ifndef GDN_METAL_GATED_DELTA_NET_TILES_H
#define GDN_METAL_GATED_DELTA_NET_TILES_H

#include "metal/gated_delta_net.h"

enum { NB = 4 }; // blocks of 32 keys of a head

// A tile has so many tokens that each thread loads four keys of k, of q and of a gate per channel.
template <bool CHANNEL> struct Tile {
    enum {
        QUADS = 8 * NB, // of a row
        TOKENS = GDN_METAL_TILES_THREADS / QUADS,
        VALUES = GDN_METAL_TILES_THREADS / 8 * 2,
        V_ROWS = GDN_METAL_TILES_THREADS / VALUES, // tokens whose v the threads load at once
        N_V = (TOKENS + V_ROWS - 1) / V_ROWS
    };
    float4 k[TOKENS][QUADS], q[TOKENS][QUADS], decay[TOKENS][CHANNEL ? QUADS : 1]; // per head: decay[u][0].x
    float v[TOKENS][VALUES];
    float beta[TOKENS];
};

// Four elements as they are in memory. 16-bit ones are converted when they are stored to threadgroup memory, so that
// nothing waits for a load before that.
struct Raw4 {
    uint x, y, z, w;
};
GDN_INLINE uint read_raw(device const uchar *at, int dtype)
{
    return dtype == GDN_GPU_F32 ? gdn_bits(read_float(at)) : read_16bit(at);
}
GDN_INLINE Raw4 read_raw4(device const uchar *at, int dtype)
{
    Raw4 r;
    if (dtype == GDN_GPU_F32) {
        const float4 x = read_float4(at);
        r.x = gdn_bits(x.x);
        r.y = gdn_bits(x.y);
        r.z = gdn_bits(x.z);
        r.w = gdn_bits(x.w);
    } else {
        r.x = read_16bit(at);
        r.y = read_16bit(at + 2);
        r.z = read_16bit(at + 4);
        r.w = read_16bit(at + 6);
    }
    return r;
}
GDN_INLINE float widen(uint raw, int dtype)
{
    return dtype == GDN_GPU_F32 ? gdn_from_bits(raw) : from_16bit(raw, dtype);
}
GDN_INLINE float4 widen4(Raw4 raw, int dtype)
{
    return four(widen(raw.x, dtype), widen(raw.y, dtype), widen(raw.z, dtype), widen(raw.w, dtype));
}

// A prefetched tile: this thread's part of it, and the addresses of its part of the next tile.
template <bool CHANNEL> struct Staging {
    device const uchar *k_at;
    device const uchar *q_at;
    device const uchar *v_at;
    device const uchar *g_at;
    device const uchar *beta_at;
    Raw4 k, q, g; // per head: g.x
    uint v[Tile<CHANNEL>::N_V], beta;
    bool value; // this thread's value channel of v exists
};

template <bool CHANNEL>
GDN_INLINE void begin_tiles(constant gdn_gpu_gated_delta_net &p, thread const DeltaBuffers &b, thread const Item &w,
                            int me, thread Staging<CHANNEL> &next)
{
    const int quads = Tile<CHANNEL>::QUADS, values = Tile<CHANNEL>::VALUES;
    const int t = me / quads, i = 4 * (me % quads), j = w.j - me / 8 * 2 + me % values;
    next.k_at = b.k + token_at(p.k, w, w.kappa) + t * p.k.token + i * element_bytes(p.k_dtype);
    next.q_at = b.q + token_at(p.q, w, w.kappa) + t * p.q.token + i * element_bytes(p.q_dtype);
    next.g_at = b.g + token_at(p.g, w, w.h) + (CHANNEL ? t : me) * p.g.token;
    if (CHANNEL) next.g_at += i * element_bytes(p.g_dtype);
    next.v_at = b.v + token_at(p.v, w, w.h) + me / values * p.v.token + j * element_bytes(p.v_dtype);
    next.beta_at = b.beta + token_at(p.beta, w, w.h) + me * p.beta.token;
    next.value = j < p.head_dim_v;
}

// Loads a tile; `left` tokens of the sequence remain, from the tile's first on. Tokens that do not exist are 0.
template <bool CHANNEL>
GDN_INLINE void load_tile(constant gdn_gpu_gated_delta_net &p, int left, int me, thread Staging<CHANNEL> &next)
{
    const int tokens = Tile<CHANNEL>::TOKENS, rows = Tile<CHANNEL>::V_ROWS;
    const int most = left < tokens ? left : tokens;
    const Raw4 none = { 0u, 0u, 0u, 0u };
    const bool row = me / Tile<CHANNEL>::QUADS < most, mine = me < most;
    next.k = row ? read_raw4(next.k_at, p.k_dtype) : none;
    next.q = row ? read_raw4(next.q_at, p.q_dtype) : none;
    next.g = CHANNEL && row ? read_raw4(next.g_at, p.g_dtype) : none;
    if (!CHANNEL) next.g.x = mine ? read_raw(next.g_at, p.g_dtype) : 0u;
#pragma unroll
    for (int n = 0; n < Tile<CHANNEL>::N_V; n++) {
        const bool there = next.value && me / Tile<CHANNEL>::VALUES + rows * n < most;
        next.v[n] = there ? read_raw(next.v_at + rows * n * p.v.token, p.v_dtype) : 0u;
    }
    next.beta = mine ? read_raw(next.beta_at, p.beta_dtype) : 0u;
    next.k_at += tokens * p.k.token;
    next.q_at += tokens * p.q.token;
    next.v_at += tokens * p.v.token;
    next.g_at += tokens * p.g.token;
    next.beta_at += tokens * p.beta.token;
}

// Keys i .. i + 3 go to four lanes: key i is element e = i / 8 % 4 of lane i % 8.
GDN_INLINE void scatter(threadgroup float4 *row, int i, float4 x)
{
    threadgroup float *to = (threadgroup float *)row + i / 32 * 32 + i % 8 * 4 + i / 8 % 4;
    to[0] = x.x;
    to[4] = x.y;
    to[8] = x.z;
    to[12] = x.w;
}

// h = 16, 8 of the tree
GDN_INLINE float fold_lane(float4 x) { return (x.x + x.z) + (x.y + x.w); }

// h = 4, 2, 1 for the two channels of `kv` and of `o`: lane l gets channel l / 4's sum, of kv where l / 2 is even.
GDN_INLINE float fold_lanes(thread const float (&kv)[2], thread const float (&o)[2], int l)
{
    const bool upper = (l & 4) != 0, right = (l & 2) != 0;
    const float a = (upper ? kv[1] : kv[0]) + simd_shuffle_xor(upper ? kv[0] : kv[1], 4);
    const float b = (upper ? o[1] : o[0]) + simd_shuffle_xor(upper ? o[0] : o[1], 4);
    const float c = (right ? b : a) + simd_shuffle_xor(right ? a : b, 2);
    return c + simd_shuffle_xor(c, 1);
}

// 2, for a thread's part of a tile's gates
template <bool CHANNEL>
GDN_INLINE float4 tile_decay(constant gdn_gpu_gated_delta_net &p, float rate, float4 bias, float4 g)
{
    if (has_raw_gate(p)) g = raw_gates<CHANNEL>(p, g, rate, bias);
    return p.g_form == GDN_GPU_G_LINEAR ? g : gate_exps<CHANNEL>(g);
}

// 0: prepare (beta) and 2: decay, then stores the prefetched tile to threadgroup memory
template <bool CHANNEL>
GDN_INLINE void store_tile(constant gdn_gpu_gated_delta_net &p, float rate, float4 bias, int me,
                           thread const Staging<CHANNEL> &next, threadgroup Tile<CHANNEL> &tile)
{
    const int tokens = Tile<CHANNEL>::TOKENS, quads = Tile<CHANNEL>::QUADS, rows = Tile<CHANNEL>::V_ROWS,
              values = Tile<CHANNEL>::VALUES, t = me / quads, i = 4 * (me % quads);
    scatter(tile.k[t], i, widen4(next.k, p.k_dtype));
    scatter(tile.q[t], i, widen4(next.q, p.q_dtype));
    if (CHANNEL) scatter(tile.decay[t], i, tile_decay<CHANNEL>(p, rate, bias, widen4(next.g, p.g_dtype)));
#pragma unroll
    for (int n = 0; n < Tile<CHANNEL>::N_V; n++)
        if (me / values + rows * n < tokens) tile.v[me / values + rows * n][me % values] = widen(next.v[n], p.v_dtype);
    if (me >= tokens) return;
    tile.beta[me] = delta_factor(p, widen(next.beta, p.beta_dtype));
    if (!CHANNEL) tile.decay[me][0] = tile_decay<CHANNEL>(p, rate, bias, float4(widen(next.g.x, p.g_dtype)));
}

// 0: prepare, q and k. Eight lanes have a row of a token; a simdgroup has four rows, or none. All threads call it.
template <bool CHANNEL>
GDN_INLINE void prepare_keys(constant gdn_gpu_gated_delta_net &p, int me, threadgroup Tile<CHANNEL> &tile)
{
    const int tokens = Tile<CHANNEL>::TOKENS, n = me / 8, l = me % 8;
    static_assert(2 * Tile<CHANNEL>::TOKENS % 4 == 0, "whole simdgroups");
    if (!p.qk_norm) return;
    if (n < 2 * tokens) {
        threadgroup float4 *row = n < tokens ? tile.k[n] : tile.q[n - tokens];
        float4 x[NB], squares = float4(0.0f);
#pragma unroll
        for (int m = 0; m < NB; m++) {
            x[m] = row[8 * m + l];
            squares = fma(x[m], x[m], squares);
        }
        float sum = fold_lane(squares);
        sum = sum + simd_shuffle_xor(sum, 4);
        sum = sum + simd_shuffle_xor(sum, 2);
        sum = sum + simd_shuffle_xor(sum, 1);
        const float4 factor = float4(gdn_norm_factor(sum, p.norm_add, p.norm_most));
#pragma unroll
        for (int m = 0; m < NB; m++) row[8 * m + l] = x[m] * factor;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
}

// The offset of key 0 of value channel j + c, and the stride of keys. For 1 and 7, element by element; 8 lanes access
// 32 adjacent bytes.
struct ValueKeys {
    int64_t at, along;
};
GDN_INLINE ValueKeys keys_of(constant gdn_gpu_gated_delta_net &p, constant gdn_gpu_pool &pool, int j)
{
    ValueKeys x;
    x.at = p.key_major ? int64_t(4) * j : j * pool.line;
    x.along = p.key_major ? pool.line : 4;
    return x;
}

// 1: load state
GDN_INLINE void load_elements(constant gdn_gpu_gated_delta_net &p, thread const DeltaBuffers &b, thread const Item &w,
                              thread float4 (&S)[NB][2])
{
    device const uchar *pool = b.state_in;
    if (p.has & GDN_GPU_ONE_POOL) pool = b.state_out + p.pool_offset;
    pool += w.src < 0 ? 0 : state_at(p.state_in, w.src, p.slots_in, w.h);
#pragma unroll
    for (int m = 0; m < NB; m++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float4 x = float4(0.0f);
            if (w.src >= 0 && c < w.values) {
                const ValueKeys keys = keys_of(p, p.state_in, w.j + c);
                device const uchar *at = pool + keys.at + (32 * m + w.l) * keys.along;
                x.x = read_float(at);
                x.y = read_float(at + 8 * keys.along);
                x.z = read_float(at + 16 * keys.along);
                x.w = read_float(at + 24 * keys.along);
            }
            S[m][c] = x;
        }
}

// 7: snapshot
GDN_INLINE void store_elements(constant gdn_gpu_gated_delta_net &p, thread const DeltaBuffers &b, thread const Item &w,
                               int dst, thread const float4 (&S)[NB][2])
{
    device uchar *pool = b.state_out + state_at(p.state_out, dst, p.slots_out, w.h);
#pragma unroll
    for (int m = 0; m < NB; m++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            if (c >= w.values) continue;
            const ValueKeys keys = keys_of(p, p.state_out, w.j + c);
            device uchar *at = pool + keys.at + (32 * m + w.l) * keys.along;
            write_float(at, S[m][c].x);
            write_float(at + 8 * keys.along, S[m][c].y);
            write_float(at + 16 * keys.along, S[m][c].z);
            write_float(at + 24 * keys.along, S[m][c].w);
        }
}

// tiles: two tiles in threadgroup memory.
template <bool CHANNEL>
GDN_INLINE void gated_delta_net_tiles(constant gdn_gpu_gated_delta_net &p, thread const DeltaBuffers &b, uint group,
                                      uint thread_of_group, threadgroup Tile<CHANNEL> *tiles)
{
    const int tokens = Tile<CHANNEL>::TOKENS, me = int(thread_of_group);
    Item w;
    if (!find_item<2, GDN_METAL_TILES_THREADS, false>(p, b, group, thread_of_group, false, w))
        return;                                          // the whole threadgroup
    const int mine = w.l / 4;                            // the channel whose sum this lane has: of kv, or
    const bool writes = w.l % 4 == 2 && mine < w.values; // of the output, here
    const ushort eight = ushort(thread_of_group & 24u);  // the first of the eight lanes
    device uchar *out_at = b.result + token_at(p.result, w, w.h) + (w.j + mine) * element_bytes(p.result_dtype);
    Staging<CHANNEL> next;
    begin_tiles<CHANNEL>(p, b, w, me, next);
    load_tile<CHANNEL>(p, w.T, me, next);
    float4 S[NB][2];
    load_elements(p, b, w, S); // 1
    device const uchar *bias_at = b.dt_bias + w.h * p.dt_bias.head;
    const float rate = has_raw_gate(p) ? gate_rate(p, b, w.h) : 0.0f;
    float4 bias = float4(0.0f); // of this thread's channels; every tile has the same
    if (has_raw_gate(p) && (p.has & GDN_GPU_HAS_BIAS)) {
        const int i = 4 * (me % Tile<CHANNEL>::QUADS);
        bias = CHANNEL ? read_row<false>(bias_at, p.dt_bias_dtype, i, 32 * NB)
                       : float4(read_element(bias_at, p.dt_bias_dtype));
    }
    store_tile<CHANNEL>(p, rate, bias, me, next, tiles[0]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    prepare_keys<CHANNEL>(p, me, tiles[0]);

    float before[2] = { 0.0f, 0.0f }; // the output sums of the previous token, folded within the lane
    int kept = next_kept(p, b, w, 0); // the next token whose state may be kept
    for (int t0 = 0, turn = 0; t0 < w.T; t0 += tokens, turn ^= 1) {
        threadgroup Tile<CHANNEL> &tile = tiles[turn];
        const bool more = t0 + tokens < w.T;
        const int n = more ? tokens : w.T - t0;
        if (more) load_tile<CHANNEL>(p, w.T - t0 - tokens, me, next);
        for (int u = 0; u < n; u++) {
            float4 k[NB], q[NB], decay[CHANNEL ? NB : 1];
#pragma unroll
            for (int m = 0; m < NB; m++) k[m] = tile.k[u][8 * m + w.l];
            if (!CHANNEL) decay[0] = float4(tile.decay[u][0].x);
#pragma unroll
            for (int m = 0; CHANNEL && m < NB; m++) decay[CHANNEL ? m : 0] = tile.decay[u][CHANNEL ? 8 * m + w.l : 0];

            // 3: read kv
            float4 sum[2];
            sum[0] = float4(0.0f);
            sum[1] = float4(0.0f);
#pragma unroll
            for (int m = 0; m < NB; m++) {
                const float4 with = CHANNEL ? decay[CHANNEL ? m : 0] * k[m] : k[m];
                sum[0] = fma(S[m][0], with, sum[0]);
                sum[1] = fma(S[m][1], with, sum[1]);
            }
#pragma unroll
            for (int m = 0; m < NB; m++) q[m] = tile.q[u][8 * m + w.l];
            const float kv[2] = { fold_lane(sum[0]), fold_lane(sum[1]) };
            const float both = fold_lanes(kv, before, w.l);
            if (t0 + u > 0) { // 6: output, of the previous token
                if (writes) write_element(out_at, p.scale * both, p.result_dtype);
                out_at += p.result.token;
            }

            // 4: delta, in the lanes that have kv
            const float read = CHANNEL ? both : decay[0].x * both;
            const float d = tile.beta[u] * (tile.v[u][me / 8 * 2 + mine] - read);
            float delta[2];
            delta[0] = simd_shuffle(d, eight);
            delta[1] = simd_shuffle(d, ushort(eight + 4));

            // 5, and the sums of 6
            sum[0] = float4(0.0f);
            sum[1] = float4(0.0f);
#pragma unroll
            for (int m = 0; m < NB; m++) {
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    S[m][c] = update(S[m][c], k[m], delta[c], decay[CHANNEL ? m : 0]);
                    sum[c] = fma(S[m][c], q[m], sum[c]);
                }
            }
            before[0] = fold_lane(sum[0]);
            before[1] = fold_lane(sum[1]);

            // 7: snapshot, r tokens before the newest, and checkpoint
            if (t0 + u < kept) continue;
            for (int way = 0; way < (p.checkpoint_interval ? 2 : 1); way++) {
                const int dst = way ? checkpoint_of(p, b, w, kept) : snapshot_of<false>(p, b, w, kept);
                if (dst >= 0) store_elements(p, b, w, dst, S);
            }
            kept = next_kept(p, b, w, kept + 1);
        }
        if (more) store_tile<CHANNEL>(p, rate, bias, me, next, tiles[turn ^ 1]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (more) prepare_keys<CHANNEL>(p, me, tiles[turn ^ 1]);
    }
    const float none[2] = { 0.0f, 0.0f };
    const float o = p.scale * fold_lanes(none, before, w.l); // 6, of the last token
    if (writes) write_element(out_at, o, p.result_dtype);
}

#endif
