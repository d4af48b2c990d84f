// gated_delta_net for many tokens per sequence: prefill, bound by arithmetic and by the chain from token to token. See
// gated_delta_net.cuh for how a head is spread over lanes.
//
// Lane l of the eight has the keys i = 32 m + l + 8 e, e = 0 .. 3. The tree's steps h = 16 and 8 stay within a lane,
// and h = 4, 2, 1 exchange one number per column with the lanes l^4, l^2, l^1. The tree of a token's kv and that of the
// output of the token before run side by side, because each alone would be waiting most of the time.
//
// Tokens pass through shared memory in tiles, two in turns: while one is computed with, the loads of the next are on
// their way to registers. There k, q and decay lie in the order in which lanes read them, 16 bytes each, and steps 0
// and 2 are done once per block. Steps as in gated_delta_net.cu.
#ifndef GDN_CUDA_GATED_DELTA_NET_TILES_CUH
#define GDN_CUDA_GATED_DELTA_NET_TILES_CUH

#include "cuda/gated_delta_net_log.cuh"

template <class X> struct Tile {
    static constexpr int TOKENS = X::NB > 4 ? 4 : 8;
    static constexpr int QUADS = 8 * X::NB; // of a row
    float4 k[TOKENS][QUADS], q[TOKENS][QUADS], decay[TOKENS][X::CHANNEL ? QUADS : 1];
    float  v[TOKENS][X::COLUMNS];
    float  beta[TOKENS];
};

// A tile on its way from memory to shared memory: this thread's part of it, as it lies in memory.
template <class X> struct Staging {
    static constexpr int THREADS = 32 * GDN_CUDA_DELTA_WARPS;
    static constexpr int N_ROWS = Tile<X>::TOKENS * Tile<X>::QUADS / THREADS,
                         N_V = Tile<X>::TOKENS * X::COLUMNS / THREADS;
    float4 k[N_ROWS], q[N_ROWS], g[X::CHANNEL ? N_ROWS : 1];
    float  v[N_V], beta;
    float  rate; // of raw gates, as is the bias, which is one because all of a thread's quads have the same keys
    float4 bias;
    static_assert(THREADS % Tile<X>::QUADS == 0, "a thread's quads have the same keys");

    __device__ __forceinline__ void begin(const gdn_gpu_gated_delta_net &p, const Item &w)
    {
        rate = read_rate<X>(p, w);
        bias = read_bias<X>(p, w, 4 * ((int)threadIdx.x % Tile<X>::QUADS));
    }

    // Behind the loads of the first tile and the state.
    __device__ __forceinline__ void widen_gates(const gdn_gpu_gated_delta_net &p)
    {
        rate = gate_rate<X>(p, rate);
        bias = gate_bias<X>(p, bias);
    }

    __device__ __forceinline__ void load(const gdn_gpu_gated_delta_net &p, const Item &w, int t0)
    {
        const int me = (int)threadIdx.x, first_column = w.j - me / 8 * X::C;
        const char *k_at = token_at(p.k, w, w.kappa), *q_at = token_at(p.q, w, w.kappa), *g_at = token_at(p.g, w, w.h);
        const uint64_t v_at = (uint64_t)token_at(p.v, w, w.h), beta_at = (uint64_t)token_at(p.beta, w, w.h);
#pragma unroll
        for (int u = 0; u < N_ROWS; u++) {
            const int n = me + THREADS * u, t = t0 + n / Tile<X>::QUADS, i = 4 * (n % Tile<X>::QUADS);
            const bool there = t < w.T;
            k[u] = there ? read_row<X>(k_at + (uint64_t)(t * p.k.token), type_of<X>(p.k_dtype), i, w.n_keys) : zero4();
            q[u] = there ? read_row<X>(q_at + (uint64_t)(t * p.q.token), type_of<X>(p.q_dtype), i, w.n_keys) : zero4();
            if (X::CHANNEL)
                g[X::CHANNEL ? u : 0] =
                    there ? read_row<X>(g_at + (uint64_t)(t * p.g.token), type_of<X>(p.g_dtype), i, w.n_keys) : zero4();
        }
#pragma unroll
        for (int u = 0; u < N_V; u++) {
            const int n = me + THREADS * u, t = t0 + n / X::COLUMNS, column = first_column + n % X::COLUMNS;
            const int dtype = type_of<X>(p.v_dtype);
            v[u] = t < w.T && column < p.head_dim_v
                       ? read_raw(v_at + (uint64_t)(t * p.v.token + column * element_bytes(dtype)), dtype)
                       : 0.0f;
        }
        const bool mine = me < Tile<X>::TOKENS && t0 + me < w.T;
        beta = mine ? read_raw(beta_at + (uint64_t)((t0 + me) * p.beta.token), type_of<X>(p.beta_dtype)) : 0.0f;
        if (!X::CHANNEL)
            g[0].x =
                mine ? read_raw((uint64_t)g_at + (uint64_t)((t0 + me) * p.g.token), type_of<X>(p.g_dtype)) : 0.0f;
    }

    // Keys i .. i + 3 go to four lanes: key i is element e = i / 8 % 4 of lane i % 8.
    static __device__ __forceinline__ void scatter(float4 *row, int i, float4 x)
    {
        float *to = (float *)row + i / 32 * 32 + i % 8 * 4 + i / 8 % 4;
        to[0] = x.x, to[4] = x.y, to[8] = x.z, to[12] = x.w;
    }

    // 0: prepare (beta) and 2: decay, on the way
    __device__ __forceinline__ void store(const gdn_gpu_gated_delta_net &p, const Item &w, Tile<X> &tile) const
    {
        const int me = (int)threadIdx.x;
        // The general kernel has no registers to keep it in.
        const float4 head_bias =
            X::GENERAL && X::CHANNEL ? gate_bias<X>(p, read_bias<X>(p, w, 4 * (me % Tile<X>::QUADS))) : bias;
#pragma unroll
        for (int u = 0; u < N_ROWS; u++) {
            const int n = me + THREADS * u, t = n / Tile<X>::QUADS, i = 4 * (n % Tile<X>::QUADS);
            scatter(tile.k[t], i, widen_row<X>(k[u], p.k_dtype));
            scatter(tile.q[t], i, widen_row<X>(q[u], p.q_dtype));
            if (X::CHANNEL)
                scatter(tile.decay[t], i,
                        decay_of<X>(p, widen_row<X>(g[X::CHANNEL ? u : 0], p.g_dtype), rate, head_bias));
        }
#pragma unroll
        for (int u = 0; u < N_V; u++) {
            const int n = me + THREADS * u;
            tile.v[n / X::COLUMNS][n % X::COLUMNS] = widen_raw<X>(v[u], p.v_dtype);
        }
        if (me < Tile<X>::TOKENS) {
            tile.beta[me] = delta_factor<X>(p, widen_raw<X>(beta, p.beta_dtype));
            if (!X::CHANNEL)
                tile.decay[me][0].x = decay_of<X>(p, widen_raw<X>(g[0].x, p.g_dtype), rate, head_bias.x);
        }
    }
};

// h = 16, 8 of the tree
GDN_INLINE float fold_lane(float4 x)
{
    return __fadd_rn(__fadd_rn(x.x, x.z), __fadd_rn(x.y, x.w));
}

// 0: prepare, a row of q or k: of the eight lanes that have it, this is lane l. All lanes of a warp come here.
template <class X> GDN_INLINE void normalise_row(const gdn_gpu_gated_delta_net &p, float4 *row, int l)
{
    float4 x[X::NB], squares = zero4(); // keys that do not exist are zeros, and add nothing
#pragma unroll
    for (int m = 0; m < X::NB; m++) {
        x[m] = row[8 * m + l];
        squares = fma4(x[m], x[m], squares);
    }
    float sum = fold_lane(squares);
#pragma unroll
    for (int h = 4; h; h /= 2)
        sum = __fadd_rn(sum, exchange(sum, h));
    const float4 factor = all4(gdn_norm_factor(sum, p.norm_add, p.norm_most));
#pragma unroll
    for (int m = 0; m < X::NB; m++)
        row[8 * m + l] = mul4(x[m], factor);
}

// 0: prepare, q and k. Eight lanes have a row of a token; a warp has four rows, or none. All threads of a block come
// here.
template <class X> GDN_INLINE void prepare_keys(const gdn_gpu_gated_delta_net &p, Tile<X> &tile)
{
    constexpr int TOKENS = Tile<X>::TOKENS;
    static_assert(2 * TOKENS % 4 == 0 && 2 * TOKENS <= 4 * GDN_CUDA_DELTA_WARPS, "whole warps");
    if (!normalises<X>(p))
        return;
    const int n = (int)threadIdx.x / 8, l = (int)threadIdx.x & 7;
    if (n < 2 * TOKENS) {
        normalise_row<X>(p, n < TOKENS ? tile.k[n] : tile.q[n - TOKENS], l);
    }
    __syncthreads();
}

// h = 4, 2, 1 for all columns of `kv`, which every lane gets, and for those of `o`, of which lane l gets column l / 4.
static_assert(GDN_CUDA_DELTA_WARPS == 4, "tiles are cut for 128 threads");
GDN_INLINE float fold_lanes(float (&kv)[2], const float (&o)[2], int l)
{
    const bool upper = (l & 4) != 0;
    float mine = __fadd_rn(upper ? o[1] : o[0], exchange(upper ? o[0] : o[1], 4));
    kv[0] = __fadd_rn(kv[0], exchange(kv[0], 4));
    kv[1] = __fadd_rn(kv[1], exchange(kv[1], 4));
    mine  = __fadd_rn(mine, exchange(mine, 2));
    kv[0] = __fadd_rn(kv[0], exchange(kv[0], 2));
    kv[1] = __fadd_rn(kv[1], exchange(kv[1], 2));
    mine  = __fadd_rn(mine, exchange(mine, 1));
    kv[0] = __fadd_rn(kv[0], exchange(kv[0], 1));
    kv[1] = __fadd_rn(kv[1], exchange(kv[1], 1));
    return mine;
}

// 1: load state, element by element: 8 lanes have 32 bytes
template <class X> GDN_INLINE char *element_at(const gdn_gpu_pool &pool, bool key_major, char *head, int j, int i)
{
    return head + (uint64_t)(key_major ? i * pool.line + X::BYTES * j : j * pool.line + X::BYTES * i);
}

template <class X>
GDN_INLINE void load_elements(const gdn_gpu_gated_delta_net &p, const Item &w, float4 (&S)[X::NB][X::C])
{
    char *head = w.src < 0 ? p.state_in.base : state_at(p.state_in, w.src, p.slots_in, w.h);
#pragma unroll
    for (int m = 0; m < X::NB; m++)
#pragma unroll
        for (int c = 0; c < X::C; c++) {
            float x[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = 32 * m + w.l + 8 * e;
                const bool there = w.src >= 0 && c < w.columns && (!X::GENERAL || i < w.n_keys);
                x[e] = there ? load_number<X>(element_at<X>(p.state_in, p.key_major, head, w.j + c, i)) : 0.0f;
            }
            S[m][c] = make_float4(x[0], x[1], x[2], x[3]);
        }
    widen_state<X>(p, false, S);
}

// 7: snapshot
template <class X>
GDN_INLINE void store_elements(const gdn_gpu_gated_delta_net &p, const Item &w, int dst,
                               const float4 (&S)[X::NB][X::C])
{
    char *head = state_at(p.state_out, dst, p.slots_out, w.h);
#pragma unroll
    for (int m = 0; m < X::NB; m++)
#pragma unroll
        for (int c = 0; c < X::C; c++) {
            const float x[4] = { S[m][c].x, S[m][c].y, S[m][c].z, S[m][c].w };
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = 32 * m + w.l + 8 * e;
                if (c < w.columns && (!X::GENERAL || i < w.n_keys))
                    store_number<X>(p, element_at<X>(p.state_out, p.key_major, head, w.j + c, i), x[e]);
            }
        }
}

// 7: the state behind token t, where a snapshot or a checkpoint of it is wanted
template <class X, class Store>
GDN_INLINE void keep_state(const gdn_gpu_gated_delta_net &p, const Item &w, int t, Store store)
{
    Item there = w;
    there.l = here(w.l);
#pragma unroll 1
    for (int way = 0; way < (p.checkpoint_interval ? 2 : 1); way++) {
        const int dst = way ? checkpoint_of(p, w, t) : snapshot_of<X>(p, w, t);
        if (dst >= 0)
            store(there, dst);
    }
}

// tiles: two, in shared memory
template <class X> GDN_INLINE void gated_delta_net_tiles(const gdn_gpu_gated_delta_net &p, Tile<X> *tiles)
{
    static_assert(X::C == 2, "fold_lanes() is for two columns");
    Item w;
    if (!find_item<X>(p, w, { Share::ALL, (int)blockIdx.z * X::COLUMNS }))
        return; // the whole block
    const int mine = w.l / 4; // the column whose output this lane has
    const bool writes = w.l % 4 == 0 && mine < w.columns;
    const int out_type = type_of<X>(p.result_dtype);
    char *out_at = token_at(p.result, w, w.h) + (uint64_t)((w.j + mine) * element_bytes(out_type));

    Staging<X> next;
    next.begin(p, w);
    next.load(p, w, 0);
    float4 S[X::NB][X::C];
    load_elements<X>(p, w, S); // 1
#pragma unroll 1
    for (int part = 0; X::LOG && part < (X::HALF ? 2 : 1); part++) {
        repeat_log<X, 8>(p, w, part ? w.kept : w.stands, part ? w.position : w.kept, S);
        if (part == 0 && w.commit >= 0)
            store_elements<X>(p, w, w.commit, S);
    }
    next.widen_gates(p);
    next.store(p, w, tiles[0]);
    __syncthreads();
    prepare_keys<X>(p, tiles[0]);

    float before[2] = { 0.0f, 0.0f }; // the output sums of the token before, folded within the lane
    int kept = next_kept(p, w, 0);    // the next token whose state may be kept
    for (int t0 = 0, turn = 0; t0 < w.T; t0 += Tile<X>::TOKENS, turn ^= 1) {
        const Tile<X> &tile = tiles[turn];
        const bool more = t0 + Tile<X>::TOKENS < w.T;
        const int n = more ? Tile<X>::TOKENS : w.T - t0;
        if (more)
            next.load(p, w, t0 + Tile<X>::TOKENS);
        for (int u = 0; u < n; u++) {
            float4 k[X::NB], q[X::NB], decay[X::CHANNEL ? X::NB : 1];
#pragma unroll
            for (int m = 0; m < X::NB; m++)
                k[m] = tile.k[u][8 * m + w.l];
            if (!X::CHANNEL)
                decay[0] = all4(tile.decay[u][0].x);
            else
#pragma unroll
                for (int m = 0; m < X::NB; m++)
                    decay[X::CHANNEL ? m : 0] = tile.decay[u][X::CHANNEL ? 8 * m + w.l : 0];
            const float beta = tile.beta[u];
            const float *v = &tile.v[u][(int)threadIdx.x / 8 * X::C];

            // 3: read kv
            float4 sum[2] = { zero4(), zero4() };
#pragma unroll
            for (int m = 0; m < X::NB; m++) {
                const float4 with = X::CHANNEL ? mul4(decay[X::CHANNEL ? m : 0], k[m]) : k[m];
#pragma unroll
                for (int c = 0; c < 2; c++)
                    sum[c] = sum_step<X>(S[m][c], with, sum[c], 32 * m + w.l, 8, w.n_keys);
            }
#pragma unroll
            for (int m = 0; m < X::NB; m++)
                q[m] = tile.q[u][8 * m + w.l];
            float kv[2] = { fold_lane(sum[0]), fold_lane(sum[1]) };
            const float o = __fmul_rn(p.scale, fold_lanes(kv, before, w.l));
            if (t0 + u > 0) { // 6: output, of the token before
                if (writes)
                    store_element(out_at, o, out_type);
                out_at += p.result.token;
            }

            // 4: delta
            float d[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const float read = X::CHANNEL ? kv[c] : __fmul_rn(decay[0].x, kv[c]);
                d[c] = __fmul_rn(beta, __fsub_rn(v[c], read));
            }
            if (X::LOG)
                log_token<X, 8>(p, w, t0 + u, k, decay, d); // 7

            // 5: update, and the sums of 6
            sum[0] = sum[1] = zero4();
#pragma unroll
            for (int m = 0; m < X::NB; m++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    S[m][c] = update(S[m][c], k[m], d[c], decay[X::CHANNEL ? m : 0]);
                    sum[c] = sum_step<X>(S[m][c], q[m], sum[c], 32 * m + w.l, 8, w.n_keys);
                }
            before[0] = fold_lane(sum[0]);
            before[1] = fold_lane(sum[1]);

            // 7: round; snapshot, r tokens before the newest, and checkpoint
            round_state<X>(p, w.position + t0 + u + 1, S);
            if (t0 + u < kept)
                continue;
            keep_state<X>(p, w, kept, [&](const Item &there, int dst) { store_elements<X>(p, there, dst, S); });
            kept = next_kept(p, w, kept + 1);
        }
        if (more)
            next.store(p, w, tiles[turn ^ 1]);
        __syncthreads();
        if (more)
            prepare_keys<X>(p, tiles[turn ^ 1]);
    }
    float none[2] = { 0.0f, 0.0f };
    const float o = __fmul_rn(p.scale, fold_lanes(none, before, w.l));
    if (writes && (!X::LOG || w.T > 0)) // there may be a state to commit and no token
        store_element(out_at, o, out_type);
}

#endif
