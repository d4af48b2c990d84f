// gated_delta_net, prefill: copies tokens to shared memory in stages, double buffered.
// gated_delta_net_ahead.cuh computes with them.
//
// Without MIXED_IO only exp(g) has to be computed. The computing warps then copy the stages asynchronously, without
// registers: a warp copies 32 adjacent elements to 32 banks. sm_75 has no such copies; the compiler uses loads and
// stores there. With MIXED_IO a thread block has producer warps: gated_delta_net_prepare.cuh.
#ifndef GDN_CUDA_GATED_DELTA_NET_STAGES_CUH
#define GDN_CUDA_GATED_DELTA_NET_STAGES_CUH

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
    float out[X::MIXED_IO ? TOKENS : 1][X::VALUES];

    // Swizzle against bank conflicts. Eight producer lanes of a row store the quads 4 l + e at once. Unswizzled, these
    // would be in two of the eight groups of banks. Four consumer lanes load adjacent quads.
    static __device__ __forceinline__ int place(int quad) { return X::MIXED_IO ? quad ^ quad >> 3 : quad; }
};

// The barrier of a thread block. Producers and consumers reach it at different instructions, but __syncthreads() must
// be the same instruction for all threads. So MIXED_IO kernels use barrier 1; __syncthreads() uses barrier 0.
template <class X> GDN_INLINE void meet()
{
    if (X::MIXED_IO) __barrier_sync_count(1, 32 * GDN_CUDA_PREPARED_WARPS);
    else __syncthreads();
}

// A warp copies a row in NB turns of eight quads, which are 32 banks. element(): this lane's element. key(): its key;
// eight neighbouring lanes have adjacent keys.
template <class X> struct Turn {
    static __device__ __forceinline__ float *element(Quad *row, int turn, int lane)
    {
        return &row[8 * turn + lane % 8].of[lane / 8];
    }
    static __device__ __forceinline__ int key(int turn, int lane)
    {
        const int i = lane / 8;
        return 8 * turn + 32 * (i % X::NB) + 16 * (i / X::NB) + lane % 8;
    }
};

GDN_INLINE void copy_async(void *to, const char *from) { __pipeline_memcpy_async(to, from, 4); }

// Starts the copy of this lane's elements of a row of k, q or g; each turn is eight keys after the last.
template <class X> GDN_INLINE void copy_row(Quad *row, const char *from, int lane)
{
#pragma unroll
    for (int m = 0; m < X::NB; m++) copy_async(Turn<X>::element(row, m, lane), from + 32 * m);
}

// Copies stages from global to shared memory, without MIXED_IO. Each warp copies its own tokens. The pointers are to
// the next stage.
template <class X> struct Copying {
    static constexpr int TOKENS = Stage<X>::TOKENS, EACH = TOKENS / GDN_CUDA_DELTA_WARPS;
    static constexpr int N_V = TOKENS * X::VALUES / (32 * GDN_CUDA_DELTA_WARPS), V_TOKENS = TOKENS / N_V;
    const char *k_at, *q_at, *v_at, *g_at, *beta_at;
    bool has_v; // this thread's value channel exists
    static_assert(TOKENS % GDN_CUDA_DELTA_WARPS == 0 && TOKENS % N_V == 0, "each thread has as much");
    static_assert(32 % X::VALUES == 0, "a row of v is a warp's");

    __device__ __forceinline__ void begin(const gdn_gpu_gated_delta_net &p, const Item &w)
    {
        const int me = (int)threadIdx.x, lane = me % 32, first = me / 32 * EACH;
        const int value = w.j - Lanes<16>::group(me) * (2 * X::C) + me % X::VALUES;
        const int own = me % TOKENS, of_lane = 4 * Turn<X>::key(0, lane);
        has_v = value < p.head_dim_v;
        k_at = token_at(p.k, w, w.kappa) + (uint64_t)(first * p.k.token + of_lane);
        q_at = token_at(p.q, w, w.kappa) + (uint64_t)(first * p.q.token + of_lane);
        v_at = token_at(p.v, w, w.h) + (uint64_t)(me / X::VALUES * p.v.token + 4 * value);
        g_at = token_at(p.g, w, w.h) + (uint64_t)(X::CHANNEL ? first * p.g.token + of_lane : own * p.g.token);
        beta_at = token_at(p.beta, w, w.h) + (uint64_t)(own * p.beta.token);
    }

    // Copies row u of this warp's rows, given the addresses of its k, q and g.
    __device__ __forceinline__ void copy_rows(const char *k, const char *q_row, const char *gates, int u,
                                              Stage<X> &stage)
    {
        const int lane = (int)threadIdx.x % 32, t = (int)threadIdx.x / 32 * EACH + u;
        copy_row<X>(stage.k[t], k, lane);
        copy_row<X>(stage.q[t], q_row, lane);
        if (X::CHANNEL) copy_row<X>(stage.decays[X::CHANNEL ? t : 0], gates, lane);
    }
    __device__ __forceinline__ void copy_gates(int t, Stage<X> &stage)
    {
        copy_async(&stage.factors[t].beta, beta_at);
        if (!X::CHANNEL) copy_async(&stage.factors[t].decay, g_at);
    }

    __device__ __forceinline__ void start(const gdn_gpu_gated_delta_net &p, const Item &w, int t0, Stage<X> &stage)
    {
        const int me = (int)threadIdx.x, left = w.T - t0, value = me % X::VALUES;
        const char *k = k_at, *q = q_at, *gates = g_at, *v = v_at;
        if (left >= TOKENS) {
#pragma unroll
            for (int u = 0; u < EACH; u++) {
                copy_rows(k, q, gates, u, stage);
                k += p.k.token, q += p.q.token, gates += X::CHANNEL ? p.g.token : 0;
            }
            if (has_v)
#pragma unroll
                for (int u = 0; u < N_V; u++, v += V_TOKENS * p.v.token)
                    copy_async(&stage.v[me / X::VALUES + u * V_TOKENS][value], v);
            if (me < TOKENS) copy_gates(me, stage);
        } else { // the last stage, which nothing waits for: the fewest instructions
#pragma unroll 1
            for (int u = 0; u < EACH; u++) {
                if (me / 32 * EACH + u < left) copy_rows(k, q, gates, u, stage);
                k += p.k.token, q += p.q.token, gates += X::CHANNEL ? p.g.token : 0;
            }
#pragma unroll 1
            for (int u = 0; u < N_V; u++, v += V_TOKENS * p.v.token)
                if (has_v && me / X::VALUES + u * V_TOKENS < left)
                    copy_async(&stage.v[me / X::VALUES + u * V_TOKENS][value], v);
            if (me < left) copy_gates(me, stage);
        }
        __pipeline_commit();
        k_at += TOKENS * p.k.token;
        q_at += TOKENS * p.q.token;
        v_at += TOKENS * p.v.token;
        g_at += TOKENS * p.g.token;
        beta_at += TOKENS * p.beta.token;
    }

    // Waits for this thread's copies. 2: decay, of the gates that its warp has copied. Tokens beyond the end give
    // numbers that nothing reads.
    __device__ __forceinline__ void finish(const gdn_gpu_gated_delta_net &p, Stage<X> &stage)
    {
        const int me = (int)threadIdx.x, lane = me % 32, first = me / 32 * EACH;
        __pipeline_wait_prior(0);
        if (!X::CHANNEL && me < TOKENS) stage.factors[me].decay = decay_of<X>(p, stage.factors[me].decay, 0.0f, 0.0f);
#pragma unroll
        for (int u = 0; X::CHANNEL && u < EACH; u++)
#pragma unroll
            for (int m = 0; m < X::NB; m++) {
                float *at = Turn<X>::element(stage.decays[X::CHANNEL ? first + u : 0], m, lane);
                *at = decay_of<X>(p, *at, 0.0f, 0.0f);
            }
    }
};

#endif
