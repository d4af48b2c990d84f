// gated_delta_net, prefill with producer warps.
//
// Half of a thread block's warps are consumers: they compute. The other half are producers. They convert, normalise and
// gate the next stage, and round and store the outputs of the previous one. So conversions
// stay out of the dependency chain from token to token, and the consumers do not wait for exchanges, exp and softplus
// of the producers. A producer prefetches a stage into registers while the consumers process the stage before it.
#ifndef GDN_CUDA_GATED_DELTA_NET_PRODUCERS_CUH
#define GDN_CUDA_GATED_DELTA_NET_PRODUCERS_CUH

#include "cuda/gated_delta_net.cuh"

// Four of a lane's 2 NB keys of a row, which it loads at once. Its i-th key is 32 (i % NB) + 16 (i / NB) + l.
struct alignas(16) Quad {
    float of[4];
};

// A token's scalars. With CHANNEL the decays are in Stage::decays instead.
struct alignas(8) Factors {
    float beta, decay;
};

// A stage: tokens in shared memory.
template <class X> struct Stage {
    static constexpr int TOKENS = X::CHANNEL ? 8 : 16;
    static constexpr int QUADS = 8 * X::NB; // of a row
    typedef Quad Row[QUADS];                // a consumer lane loads the quads at place(16 n + l)
    // The extra row of k is loaded as the key after the last token, but not used.
    Row k[TOKENS + 1], q[TOKENS], decays[X::CHANNEL ? TOKENS : 1];
    Factors factors[TOKENS];
    float v[TOKENS][X::VALUES];
    // Output sums, one token late: out[u] is of token u - 1; out[0] is of the previous stage's last token.
    float out[TOKENS][X::VALUES];

    // Swizzle against bank conflicts. Eight producer lanes of a row store the quads 4 l + e at once. Unswizzled, these
    // would be in two of the eight groups of banks. Four consumer lanes load adjacent quads.
    static __device__ __forceinline__ int place(int quad) { return quad ^ quad >> 3; }
};

// The barrier of a thread block. Producers and consumers reach it at different instructions, but __syncthreads() must
// be the same instruction for all threads. So they use barrier 1; __syncthreads() uses barrier 0.
GDN_INLINE void meet() { __barrier_sync_count(1, 32 * GDN_CUDA_TILES_WARPS); }

// Store a row to shared memory, where elements 32 m + 4 l + e (block m, e = 0 .. 3) go to place_of(row, l, e)[m].
template <class X> GDN_INLINE float *place_of(Quad *row, int l, int e)
{
    static_assert(X::NB == 4, "a row has a quad for each of the 32 residues");
    return row[Stage<X>::place(4 * l + e)].of;
}
GDN_INLINE float part(float4 x, int e) { return e == 0 ? x.x : e == 1 ? x.y : e == 2 ? x.z : x.w; }
template <class X> GDN_INLINE void store_block(Quad *row, int m, int l, float4 x)
{
#pragma unroll
    for (int e = 0; e < 4; e++) place_of<X>(row, l, e)[m] = part(x, e);
}
template <class X> GDN_INLINE void store_row(Quad *row, int l, const float4 (&x)[X::NB])
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        float *at = place_of<X>(row, l, e);
        *(float4 *)at = make_float4(part(x[0], e), part(x[1], e), part(x[2], e), part(x[3], e));
    }
}

// A producer thread's part of the next stage, unconverted. Eight lanes have a row of k, one of q, or both. One warp has
// the gates per head, another one the betas.
template <class X> struct Producer {
    static constexpr int THREADS = 32 * GDN_CUDA_DELTA_WARPS, TOKENS = Stage<X>::TOKENS, QUADS = Stage<X>::QUADS;
    static constexpr int N_ROWS = 2 * TOKENS * 8 / THREADS, N_V = TOKENS * X::VALUES / THREADS;
    static constexpr int N_G = X::CHANNEL ? TOKENS * QUADS / THREADS : 1; // four gates of a row at a time
    float4 rows[N_ROWS][X::NB], g[N_G];
    float v[N_V], factor; // factor: the gate of a token, or its beta
    float rate;           // of raw gates
    float4 bias;          // of raw gates; all of a thread's gates have the same keys, so they share it
    int value;            // value channel of v and of the outputs
    static_assert(TOKENS <= 32 && N_ROWS >= 1 && THREADS % X::VALUES == 0 && THREADS % QUADS == 0, "whole shares");

    static __device__ __forceinline__ int me() { return (int)threadIdx.x - THREADS; }
    static __device__ __forceinline__ bool has_gate() { return !X::CHANNEL && me() < TOKENS; }
    static __device__ __forceinline__ bool has_beta() { return me() >= 32 && me() < 32 + TOKENS; }
    // This thread's row n: whether it is of k or of q, and the token in the stage.
    static __device__ __forceinline__ bool of_k(int n) { return N_ROWS == 2 ? n == 0 : me() < THREADS / 2; }
    static __device__ __forceinline__ int token_of_row() { return N_ROWS == 2 ? me() / 8 : me() / 8 % TOKENS; }
    // The tokens of its n-th gates, and of its n-th element of v and output.
    static __device__ __forceinline__ int token_of_gates(int n) { return me() / QUADS + THREADS / QUADS * n; }
    static __device__ __forceinline__ int token_of_v(int n) { return me() / X::VALUES + THREADS / X::VALUES * n; }
    static __device__ __forceinline__ int key_of_gates() { return 4 * (me() % QUADS); }
    // A clamped token index: tokens beyond the end load the last one, and nothing reads the result.
    static __device__ __forceinline__ int64_t token(const Item &w, int t) { return t < w.seq.T ? t : w.seq.T - 1; }

    __device__ __forceinline__ void begin(const gdn_gated_delta_net_call &p, const Item &w, int first_value)
    {
        value = first_value + me() % X::VALUES;
        factor = 0.0f; // of threads that have neither a gate nor a beta
        rate = read_rate(PASS w);
        bias = read_bias(PASS w, key_of_gates());
    }
    __device__ __forceinline__ void widen_gates(const gdn_gated_delta_net_call &p)
    {
        rate = gate_rate(p, rate);
        bias = gate_bias<X>(p, bias);
    }

    __device__ __forceinline__ void load(const gdn_gated_delta_net_call &p, const Item &w, int t0)
    {
        const int l = me() % 8;
        const int64_t t = token(w, t0 + token_of_row());
#pragma unroll
        for (int n = 0; n < N_ROWS; n++) {
            const char *row = of_k(n) ? p.k.data + token_at(p.k, w, w.kappa) + t * p.k.stride_token
                                      : p.q.data + token_at(p.q, w, w.kappa) + t * p.q.stride_token;
            const int dtype = of_k(n) ? p.k.dtype : p.q.dtype;
#pragma unroll
            for (int m = 0; m < X::NB; m++) rows[n][m] = read_row<X>(row, dtype, 32 * m + 4 * l, w.n_keys);
        }
#pragma unroll
        for (int n = 0; X::CHANNEL && n < N_G; n++)
            g[n] = read_row<X>(p.g.data + token_at(p.g, w, w.h) + token(w, t0 + token_of_gates(n)) * p.g.stride_token,
                               p.g.dtype, key_of_gates(), w.n_keys);
#pragma unroll
        for (int n = 0; n < N_V; n++) {
            const char *row = p.v.data + token_at(p.v, w, w.h) + token(w, t0 + token_of_v(n)) * p.v.stride_token;
            v[n] =
                value < p.head_dim_v ? read_raw(row + (uint64_t)(element_bytes(p.v.dtype) * value), p.v.dtype) : 0.0f;
        }
        if (has_gate())
            factor = read_raw(p.g.data + token_at(p.g, w, w.h) + token(w, t0 + me()) * p.g.stride_token, p.g.dtype);
        if (has_beta())
            factor = read_raw(p.beta.data + token_at(p.beta, w, w.h) + token(w, t0 + me() - 32) * p.beta.stride_token,
                              p.beta.dtype);
    }

    // 0: prepare, q and k
    __device__ __forceinline__ void normalise(const gdn_gated_delta_net_call &p)
    {
        float4 squares[N_ROWS];
#pragma unroll
        for (int n = 0; n < N_ROWS; n++) {
            squares[n] = zero4();
#pragma unroll
            for (int m = 0; m < X::NB; m++) squares[n] = fma4(rows[n][m], rows[n][m], squares[n]);
        }
        const int l = me() % 8;
        const float mine = gdn_norm_factor(fold<N_ROWS>(squares, l), p.norm_add, p.norm_most);
        const float other = N_ROWS > 1 ? exchange(mine, 4) : mine;
#pragma unroll
        for (int n = 0; n < N_ROWS; n++)
#pragma unroll
            for (int m = 0; m < X::NB; m++)
                rows[n][m] = mul4(rows[n][m], all4(value_of_lane<N_ROWS>(l) == n ? mine : other));
    }

    // 0: prepare, and 2: decay. Converts the loaded values and stores them to the stage.
    __device__ __forceinline__ void finish(const gdn_gated_delta_net_call &p, Stage<X> &stage)
    {
#pragma unroll
        for (int n = 0; n < N_ROWS; n++) widen_rows<X>(rows[n], of_k(n) ? p.k.dtype : p.q.dtype);
        if (p.qk_norm) normalise(p);
#pragma unroll
        for (int n = 0; n < N_ROWS; n++)
            store_row<X>(of_k(n) ? stage.k[token_of_row()] : stage.q[token_of_row()], me() % 8, rows[n]);
#pragma unroll
        for (int n = 0; X::CHANNEL && n < N_G; n++)
            store_block<X>(stage.decays[X::CHANNEL ? token_of_gates(n) : 0], key_of_gates() / 32,
                           key_of_gates() % 32 / 4, decay_of(p, widen_row<X>(g[n], p.g.dtype), rate, bias));
#pragma unroll
        for (int n = 0; n < N_V; n++) stage.v[token_of_v(n)][me() % X::VALUES] = widen_raw(v[n], p.v.dtype);
        if (has_gate()) stage.factors[me()].decay = decay_of(p, widen_raw(factor, p.g.dtype), rate, bias.x);
        if (has_beta()) stage.factors[me() - 32].beta = delta_factor(p, widen_raw(factor, p.beta.dtype));
    }

    // 6: output, of the tokens whose sums are in the stage that begins with token t0
    __device__ __forceinline__ void store_outputs(const gdn_gated_delta_net_call &p, const Item &w, int t0,
                                                  const Stage<X> &stage)
    {
#pragma unroll
        for (int n = 0; n < N_V; n++) {
            const int t = t0 - 1 + token_of_v(n);
            if (value < p.head_dim_v && t >= 0 && t + 1 < w.seq.T)
                store_element(p.result.data + token_at(p.result, w, w.h) + t * (int64_t)p.result.stride_token +
                                  element_bytes(p.result.dtype) * (int64_t)value,
                              __fmul_rn(p.scale, stage.out[token_of_v(n)][me() % X::VALUES]), p.result.dtype);
        }
    }
};

// The producer warps' loop. Stage n, counted from 0, is complete at barrier n + 1; the consumers have processed it at
// barrier n + 2.
template <class X>
GDN_INLINE void produce_stages(const gdn_gated_delta_net_call &p, const Item &w, int first_value, Stage<X> *stages)
{
    constexpr int TOKENS = Stage<X>::TOKENS;
    Producer<X> next;
    next.begin(p, w, first_value);
    next.load(p, w, 0);
    next.widen_gates(p);
    int t0 = 0, turn = 0;
#pragma unroll 1
    for (;; turn ^= 1) {
        next.finish(p, stages[turn]);
        if (t0 >= 2 * TOKENS) next.store_outputs(p, w, t0 - 2 * TOKENS, stages[turn]);
        t0 += TOKENS;
        if (t0 >= w.seq.T) break;
        next.load(p, w, t0);
        meet();
    }
    meet();
    if (t0 > TOKENS) next.store_outputs(p, w, t0 - 2 * TOKENS, stages[turn ^ 1]);
    meet();
    next.store_outputs(p, w, t0 - TOKENS, stages[turn]);
}

#endif
