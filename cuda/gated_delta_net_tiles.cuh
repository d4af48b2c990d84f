// gated_delta_net for many tokens per sequence: prefill, for heads of 128 and F32 states, without a log. It is bound by
// arithmetic and by the dependency chain from token to token, so the code keeps that chain short.
//
// Mapping. Sixteen lanes share 2 C value channels. Lane l has the keys l and l + 16 of each 32, which are two of
// dot32's partial sums. Of dot32's five steps h = 16 stays within a lane; h = 8, 4, 2, 1 exchange with the lanes l^8,
// l^4, l^2, l^1. With eight lanes each would load twice as many keys from shared memory, and lanes that load the same
// address do not make a warp faster. With 32 lanes there would be more exchanges.
//
// Exchanges. Each step halves the channels of which a lane has sums, while there are several. Register c of a lane has
// channel c ^ number(l). So two lanes that differ in a step's bit exchange the upper half of their registers and keep
// the lower half, without selects. In the end each lane has the kv of one channel. It computes that channel's delta,
// and gets the other deltas with one exchange each.
//
// Overlap. While exchanges are in flight, the code decays the state, computes the output sums of the previous token and
// loads the next token's key. Tokens are processed in pairs, so that two sets of registers hold the keys alternately.
// gated_delta_net_producers.cuh converts tokens to shared memory, a stage at a time.
#ifndef GDN_CUDA_GATED_DELTA_NET_TILES_CUH
#define GDN_CUDA_GATED_DELTA_NET_TILES_CUH

#include "cuda/gated_delta_net_producers.cuh"

// A group of LANES lanes shares N value channels. At the end of the tree OF_ONE lanes have the sum of one channel,
// whose number among the N is number(l).
template <class X> struct Group {
    static constexpr int LANES = 16, N = 2 * X::C, OF_ONE = LANES / N;
    static __device__ __forceinline__ int number(int l) { return l / OF_ONE; }
};

// A lane's keys of a row.
template <class X> struct Lane {
    Quad quads[X::NB / 2];
    __device__ __forceinline__ float key(int i) const { return quads[i / 4].of[i % 4]; }
};
template <class X> using State = float[2 * X::NB][Group<X>::N]; // [i][c]: key(i), value channel c ^ number(l)

template <class X> GDN_INLINE Lane<X> load_lane(const typename Stage<X>::Row &row, int l)
{
    Lane<X> lane;
#pragma unroll
    for (int n = 0; n < X::NB / 2; n++) lane.quads[n] = row[Stage<X>::place(16 * n + l)];
    return lane;
}

// Calls each(i, c, address) for every element of this lane in a head's state.
template <class X, class Each>
GDN_INLINE void each_element(const gdn_pool_view &pool, bool key_major, char *head, const Item &w, Each each)
{
#pragma unroll
    for (int i = 0; i < 2 * X::NB; i++)
#pragma unroll
        for (int c = 0; c < Group<X>::N; c++) {
            const int key = 32 * (i % X::NB) + 16 * (i / X::NB) + w.l, value = c ^ Group<X>::number(w.l);
            const int j = w.j + value;
            if (value < w.values)
                each(i, c,
                     head + (uint64_t)(key_major ? key * pool.stride_line + 4 * j : j * pool.stride_line + 4 * key));
        }
}

// Operations on a lane's value channels, two at a time: x = x f, z = z + x f and x = x + y.
GDN_INLINE void take_pair(float2 pair, float &x, float &y) { x = pair.x, y = pair.y; }
template <int N> GDN_INLINE void mul_values(float (&x)[N], float f)
{
#pragma unroll
    for (int c = 0; c < N; c += 2) take_pair(mul2(make_float2(x[c], x[c + 1]), make_float2(f, f)), x[c], x[c + 1]);
}
template <int N> GDN_INLINE void fma_values(float (&z)[N], const float (&x)[N], float f)
{
#pragma unroll
    for (int c = 0; c < N; c += 2)
        take_pair(fma2(make_float2(x[c], x[c + 1]), make_float2(f, f), make_float2(z[c], z[c + 1])), z[c], z[c + 1]);
}
template <int N> GDN_INLINE void add_values(float (&x)[N], const float (&y)[N])
{
#pragma unroll
    for (int c = 0; c < N; c += 2)
        take_pair(add2(make_float2(x[c], x[c + 1]), make_float2(y[c], y[c + 1])), x[c], x[c + 1]);
}

// The mask of an exchange with lane l ^ h of the sixteen.
GDN_INLINE int mask_of(int h) { return 2 * h; }

// Step h = 8, 4, 2 or 1 of the tree. It halves the channels of which a lane has sums, until one is left.
template <int N> GDN_INLINE void fold_values(float (&sum)[N], int h, int mask)
{
    const int n = N * h / 16; // channels after this step
    if (!n) sum[0] = __fadd_rn(sum[0], exchange(sum[0], mask));
#pragma unroll
    for (int c = 0; c < n; c++) sum[c] = __fadd_rn(sum[c], exchange(sum[n + c], mask));
}

// Registers that pass from token to token.
template <class X> struct Running {
    State<X> S;
    Lane<X> q; // of the previous token, whose output sums are computed with the current one
};

// A lane's part of dot(with, S) for its channels, including step h = 16.
template <class X> GDN_INLINE void sums_of(const Lane<X> &with, const State<X> &S, float (&sum)[Group<X>::N])
{
    float upper[Group<X>::N] = {};
#pragma unroll
    for (int c = 0; c < Group<X>::N; c++) sum[c] = 0.0f;
#pragma unroll
    for (int i = 0; i < X::NB; i++) {
        fma_values(sum, S[i], with.key(i));
        fma_values(upper, S[X::NB + i], with.key(X::NB + i));
    }
    add_values(sum, upper);
}

// 2 to 6, of token u of the stage, whose key is k. Loads the next key. The output is that of the previous token.
template <class X>
GDN_INLINE void take_token(const Item &w, Stage<X> &stage, int u, bool writes, const Lane<X> &k, Lane<X> &next,
                           Running<X> &at)
{
    constexpr int N = Group<X>::N;
    const Factors factors = stage.factors[u];
    const int value = Lanes<16>::group((int)threadIdx.x) * N + Group<X>::number(w.l);
    const float v = stage.v[u][value];
    Lane<X> decay, with = k;
    if (X::CHANNEL) {
        decay = load_lane<X>(stage.decays[u], w.l);
#pragma unroll
        for (int i = 0; i < 2 * X::NB; i++) with.quads[i / 4].of[i % 4] = __fmul_rn(decay.key(i), k.key(i));
    }
    next = load_lane<X>(stage.k[u + 1], w.l);
    const Lane<X> q = load_lane<X>(stage.q[u], w.l);
    float kv[N], o[N];
    sums_of<X>(with, at.S, kv); // 3
    fold_values(kv, 8, mask_of(8));
    sums_of<X>(at.q, at.S, o); // 6, of the previous token
    fold_values(kv, 4, mask_of(4));
    fold_values(o, 8, mask_of(8));
#pragma unroll
    for (int i = 0; i < 2 * X::NB; i++) mul_values(at.S[i], X::CHANNEL ? decay.key(i) : factors.decay);
    fold_values(kv, 2, mask_of(2));
    fold_values(o, 4, mask_of(4));
    fold_values(kv, 1, mask_of(1));
    fold_values(o, 2, mask_of(2));
    const float read = X::CHANNEL ? kv[0] : __fmul_rn(factors.decay, kv[0]); // 4
    float d[N] = { __fmul_rn(factors.beta, __fsub_rn(v, read)) };
#pragma unroll
    for (int c = 1; c < N; c++) d[c] = exchange(d[0], mask_of(Group<X>::OF_ONE * c));
    fold_values(o, 1, mask_of(1));
    if (writes) stage.out[u][value] = o[0];
    at.q = q;
#pragma unroll
    for (int i = 0; i < 2 * X::NB; i++) fma_values(at.S[i], d, k.key(i)); // 5: update
}

// 7: stores the state after token t, as a snapshot and as a checkpoint, if the maps have entries for them
template <class X, class Store>
GDN_INLINE void keep_state(const gdn_gated_delta_net_call &p, const Item &w, int t, Store store)
{
    Item there = w;
    there.l = here(w.l);
#pragma unroll 1
    for (int way = 0; way < (p.checkpoints_interval ? 2 : 1); way++) {
        const int dst = way ? checkpoint_of(PASS w, t) : snapshot_of(PASS w, t);
        if (dst >= 0) store(there, dst);
    }
}

// A sequence of many tokens; from here on what the consumer warps do. `stages`: two stages in shared memory. The call
// may have a log, but this sequence has no log row and no commit.
template <class X>
GDN_INLINE void gated_delta_net_tiles(const gdn_gated_delta_net_call &p, Stage<X> *stages, Share share)
{
    static_assert(!X::TREE && !X::STATE16 && !X::GENERAL, "what the others are for");
    Item w;
    if (!find_item<X, Group<X>::LANES>(p, w, share)) return; // the whole block
    if ((int)threadIdx.x >= 32 * GDN_CUDA_DELTA_WARPS) {
        produce_stages<X>(p, w, share.value, stages);
        return;
    }
    w.seq.T =
        __shfl_sync(GDN_FULL_WARP, w.seq.T, 0); // unchanged; shows the compiler that the loop is uniform in a warp
    const int mine = Group<X>::number(w.l);     // the value channel whose output this lane has
    const bool writes = w.l % Group<X>::OF_ONE == 0;
    Running<X> at;
    at.q = {};

#pragma unroll
    for (int i = 0; i < 2 * X::NB; i++)
#pragma unroll
        for (int c = 0; c < Group<X>::N; c++) at.S[i][c] = 0.0f;
    if (w.seq.src >= 0) // 1
        each_element<X>(p.state, p.state_layout == GDN_STATE_KV, p.state.data + state_at(p.state, w.seq.src, w.h), w,
                        [&](int i, int c, const char *from) { at.S[i][c] = load_float(from); });
    meet();

    int kept = gdn_next_kept(PASS w.seq, 0); // the next token whose state may be kept
    for (int t0 = 0, turn = 0; t0 < w.seq.T; t0 += Stage<X>::TOKENS, turn ^= 1) {
        Stage<X> &stage = stages[turn];
        const bool more = t0 + Stage<X>::TOKENS < w.seq.T;
        const int n = more ? Stage<X>::TOKENS : w.seq.T - t0;
        Lane<X> k[2];
        k[0] = load_lane<X>(stage.k[0], w.l);
        const int pairs = (kept - t0 < n ? kept - t0 : n) & -2; // tokens before the next state that may be kept
        int u = 0;
#pragma unroll 1
        for (; u < pairs; u += 2) {
            take_token<X>(w, stage, u, writes, k[0], k[1], at);
            take_token<X>(w, stage, u + 1, writes, k[1], k[0], at);
        }
#pragma unroll 1
        for (; u < n; u++) {
            k[0] = load_lane<X>(stage.k[u], w.l);
            take_token<X>(w, stage, u, writes, k[0], k[1], at);
            // 7: snapshot, r tokens before the newest, and checkpoint
            if (t0 + u < kept) continue;
            keep_state<X>(p, w, kept, [&](const Item &there, int dst) {
                each_element<X>(p.state_out, p.state_layout == GDN_STATE_KV, state_out_at(PASS w, dst), there,
                                [&](int i, int c, char *to) { store_float(to, at.S[i][c]); });
            });
            kept = gdn_next_kept(PASS w.seq, kept + 1);
        }
        meet();
    }
    float o[Group<X>::N];
    sums_of<X>(at.q, at.S, o);
#pragma unroll
    for (int h = 8; h; h /= 2) fold_values(o, h, mask_of(h));
    if (!writes || mine >= w.values) return;
    char *last = p.result.data + token_at(p.result, w, w.h) + (w.seq.T - 1) * (int64_t)p.result.stride_token;
    store_element(last + element_bytes(p.result.dtype) * (int64_t)(w.j + mine), __fmul_rn(p.scale, o[0]),
                  p.result.dtype);
}

#endif
