// gated_delta_net, prefill: tokens on their way to shared memory, a strip of them at a time, two
// strips in turns. gated_delta_net_ahead.cuh computes with them.
//
// Where nothing is to be done to them but exp(g), the warps that compute copy them, asynchronously and without
// registers: 32 neighbours by a warp, to 32 banks. On sm_75, which has no such copies, the compiler makes loads and
// stores of them. Otherwise a block has other warps for it: gated_delta_net_prepare.cuh.
#ifndef GDN_CUDA_GATED_DELTA_NET_STRIPS_CUH
#define GDN_CUDA_GATED_DELTA_NET_STRIPS_CUH

#include "cuda/gated_delta_net.cuh"

// Of the 2 NB keys of a row that a lane has, four that it loads at once. The i-th is key 32 (i % NB) + 16 (i / NB) + l.
struct alignas(16) Quad {
    float of[4];
};

// Of a token; the decay is elsewhere where there is a gate per channel.
struct alignas(8) Factors {
    float beta, decay;
};

// Tokens in shared memory.
template <class X> struct Strip {
    static constexpr int TOKENS = X::CHANNEL ? 8 : 16;
    static constexpr int QUADS = 8 * X::NB; // of a row
    typedef Quad Row[QUADS];     // a lane that computes takes the quads 16 n + l, which lie at place(16 n + l)
    // Behind the last key there is room for one that is loaded, and that nobody looks at.
    Row     k[TOKENS + 1], q[TOKENS], decays[X::CHANNEL ? TOKENS : 1];
    Factors factors[TOKENS];
    float   v[TOKENS][X::COLUMNS];
    // Of prepared ones the sums of the token before, the first those of the strip before's last token.
    float   out[X::TYPED ? TOKENS : 1][X::COLUMNS];

    // Eight lanes that prepare a row store quads 4 l + e at once, which in the order of their numbers would be in two
    // of eight parts of the banks. Four that compute take neighbours.
    static __device__ __forceinline__ int place(int quad) { return X::TYPED ? quad ^ quad >> 3 : quad; }
};

// Where all warps of a block meet. Two kinds of them come from different places, and __syncthreads() has to be one
// place in the program for all; barrier 0 is its.
template <class X> GDN_INLINE void meet()
{
    if (X::TYPED)
        __barrier_sync_count(1, 32 * GDN_CUDA_PREPARED_WARPS);
    else
        __syncthreads();
}

// A warp copies a row in NB turns, of which each takes eight quads, 32 banks: this lane's element, and its key, which
// lies beside those of the seven lanes next to it.
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

GDN_INLINE void copy_async(void *to, const char *from)
{
    __pipeline_memcpy_async(to, from, 4);
}

// This lane's elements of a row of k, q or g on their way, `from` in memory: eight keys further from turn to turn.
template <class X> GDN_INLINE void copy_row(Quad *row, const char *from, int lane)
{
#pragma unroll
    for (int m = 0; m < X::NB; m++)
        copy_async(Turn<X>::element(row, m, lane), from + 32 * m);
}

// A strip on its way from memory to shared memory. Each warp has tokens of its own. Pointers are to the next strip.
template <class X> struct Copying {
    static constexpr int TOKENS = Strip<X>::TOKENS, EACH = TOKENS / GDN_CUDA_DELTA_WARPS;
    static constexpr int N_V = TOKENS * X::COLUMNS / (32 * GDN_CUDA_DELTA_WARPS), V_TOKENS = TOKENS / N_V;
    const char *k_at, *q_at, *v_at, *g_at, *beta_at;
    bool has_v; // this thread has a column
    static_assert(!X::TYPED, "what is prepared takes another way");
    static_assert(TOKENS % GDN_CUDA_DELTA_WARPS == 0 && TOKENS % N_V == 0, "each thread has as much");
    static_assert(32 % X::COLUMNS == 0, "a row of v is a warp's");

    __device__ __forceinline__ void begin(const gdn_gpu_gated_delta_net &p, const Item &w)
    {
        const int me = (int)threadIdx.x, lane = me % 32, first = me / 32 * EACH;
        const int column = w.j - Lanes<16>::group(me) * (2 * X::C) + me % X::COLUMNS;
        const int own = me % TOKENS, of_lane = 4 * Turn<X>::key(0, lane);
        has_v = column < p.head_dim_v;
        k_at = token_at(p.k, w, w.kappa) + (uint64_t)(first * p.k.token + of_lane);
        q_at = token_at(p.q, w, w.kappa) + (uint64_t)(first * p.q.token + of_lane);
        v_at = token_at(p.v, w, w.h) + (uint64_t)(me / X::COLUMNS * p.v.token + 4 * column);
        g_at = token_at(p.g, w, w.h) + (uint64_t)(X::CHANNEL ? first * p.g.token + of_lane : own * p.g.token);
        beta_at = token_at(p.beta, w, w.h) + (uint64_t)(own * p.beta.token);
    }

    // Row u of those that this warp has, whose k, q and g lie there.
    __device__ __forceinline__ void copy_rows(const char *k, const char *q_row, const char *gates, int u,
                                              Strip<X> &strip)
    {
        const int lane = (int)threadIdx.x % 32, t = (int)threadIdx.x / 32 * EACH + u;
        copy_row<X>(strip.k[t], k, lane);
        copy_row<X>(strip.q[t], q_row, lane);
        if (X::CHANNEL)
            copy_row<X>(strip.decays[X::CHANNEL ? t : 0], gates, lane);
    }
    __device__ __forceinline__ void copy_gates(int t, Strip<X> &strip)
    {
        copy_async(&strip.factors[t].beta, beta_at);
        if (!X::CHANNEL)
            copy_async(&strip.factors[t].decay, g_at);
    }

    __device__ __forceinline__ void start(const gdn_gpu_gated_delta_net &p, const Item &w, int t0, Strip<X> &strip)
    {
        const int me = (int)threadIdx.x, left = w.T - t0, column = me % X::COLUMNS;
        const char *k = k_at, *q = q_at, *gates = g_at, *v = v_at;
        if (left >= TOKENS) {
#pragma unroll
            for (int u = 0; u < EACH; u++) {
                copy_rows(k, q, gates, u, strip);
                k += p.k.token, q += p.q.token, gates += X::CHANNEL ? p.g.token : 0;
            }
            if (has_v)
#pragma unroll
                for (int u = 0; u < N_V; u++, v += V_TOKENS * p.v.token)
                    copy_async(&strip.v[me / X::COLUMNS + u * V_TOKENS][column], v);
            if (me < TOKENS)
                copy_gates(me, strip);
        } else { // what nobody waits for, in the fewest instructions
#pragma unroll 1
            for (int u = 0; u < EACH; u++) {
                if (me / 32 * EACH + u < left)
                    copy_rows(k, q, gates, u, strip);
                k += p.k.token, q += p.q.token, gates += X::CHANNEL ? p.g.token : 0;
            }
#pragma unroll 1
            for (int u = 0; u < N_V; u++, v += V_TOKENS * p.v.token)
                if (has_v && me / X::COLUMNS + u * V_TOKENS < left)
                    copy_async(&strip.v[me / X::COLUMNS + u * V_TOKENS][column], v);
            if (me < left)
                copy_gates(me, strip);
        }
        __pipeline_commit();
        k_at += TOKENS * p.k.token;
        q_at += TOKENS * p.q.token;
        v_at += TOKENS * p.v.token;
        g_at += TOKENS * p.g.token;
        beta_at += TOKENS * p.beta.token;
    }

    // The strip is there for this thread. 2: decay, of what its warp has copied itself; of tokens that are not there
    // these are numbers that nobody reads.
    __device__ __forceinline__ void finish(const gdn_gpu_gated_delta_net &p, Strip<X> &strip)
    {
        const int me = (int)threadIdx.x, lane = me % 32, first = me / 32 * EACH;
        __pipeline_wait_prior(0);
        if (!X::CHANNEL && me < TOKENS)
            strip.factors[me].decay = decay_of<X>(p, strip.factors[me].decay, 0.0f, 0.0f);
#pragma unroll
        for (int u = 0; X::CHANNEL && u < EACH; u++)
#pragma unroll
            for (int m = 0; m < X::NB; m++) {
                float *at = Turn<X>::element(strip.decays[X::CHANNEL ? first + u : 0], m, lane);
                *at = decay_of<X>(p, *at, 0.0f, 0.0f);
            }
    }
};

// What comes to warps that compute where others prepare: all that Copying has them do is done for them.
struct Awaiting {
    template <class... Any> __device__ __forceinline__ void begin(const Any &...) {}
    template <class... Any> __device__ __forceinline__ void start(const Any &...) {}
    template <class... Any> __device__ __forceinline__ void finish(const Any &...) {}
};
template <class X, bool PREPARED> struct Way {
    typedef Copying<X> Of;
};
template <class X> struct Way<X, true> {
    typedef Awaiting Of;
};
template <class X> using Coming = typename Way<X, X::TYPED>::Of;

#endif
