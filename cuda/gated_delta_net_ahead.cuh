// gated_delta_net, tiles, for heads of 64 and 128 without a log, with states of F32: as gated_delta_net_tiles.cuh,
// whose numbers it gives, but ordered so that as little as possible stands in the chain from token to token, which is
// what a prefill waits for.
//
// Between one token's kv and the next one's are kv's tree, delta and the update of the state. While the tree's
// exchanges are under way, the state is decayed, the output sums of the token before are made, and the next token's key
// is loaded. Tokens are taken in pairs, whose keys take turns in registers.
//
// Elements of F32 are copied to shared memory as they are, without registers, 32 neighbours by a warp, to 32 banks; on
// sm_75, which has no such copies, the compiler makes loads and stores of them. A row of 16-bit elements is copied to
// the first half of its place, and spread from there by the warp that has copied it, once it has come: 32 neighbours
// again, from 16 banks to 32. The same warp normalises its rows.
#ifndef GDN_CUDA_GATED_DELTA_NET_AHEAD_CUH
#define GDN_CUDA_GATED_DELTA_NET_AHEAD_CUH

#include "cuda/gated_delta_net_tiles.cuh"

// Tokens in shared memory, as a Tile has them.
template <class X> struct Strip {
    static constexpr int TOKENS = X::CHANNEL ? 8 : 16;
    static constexpr int QUADS = 8 * X::NB; // of a row
    // Behind the last key there is room for one that is loaded, and that nobody looks at.
    float4 k[TOKENS + 1][QUADS], q[TOKENS][QUADS], decay[TOKENS][X::CHANNEL ? QUADS : 1];
    float  v[TOKENS][X::COLUMNS];
    float  beta[TOKENS];
};

// Of the eight lanes that have a column, which lie in pairs.
GDN_INLINE float exchange_lanes(float x, int h)
{
    return exchange(x, 2 * h);
}

// Of a row, where key 32 m + lane lies: element e of the quad of lane l is key l + 8 e.
template <class X> GDN_INLINE float *element_of(float4 *row, int m, int lane)
{
    return (float *)(row + 8 * m + lane % 8) + lane / 8;
}

GDN_INLINE void copy_async(void *to, const char *from)
{
    __pipeline_memcpy_async(to, from, 4);
}

// Elements of 16 bits as they are copied, at the beginning of a row of floats.
GDN_INLINE unsigned short *halves_of(void *row)
{
    return (unsigned short *)row;
}

// This lane's elements of a row of k, q or g on their way, `from` in memory: of F32, or of 16 bits, four side by side.
template <class X> GDN_INLINE void copy_row(float4 *row, const char *from, int dtype, int lane)
{
    if (type_of<X>(dtype) == GDN_GPU_F32) {
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            copy_async(element_of<X>(row, m, lane), from + 128 * m);
    } else if (lane < 8 * X::NB) {
        __pipeline_memcpy_async(halves_of(row) + 4 * lane, from, 8);
    }
}
// Where they lie in a row.
template <class X> GDN_INLINE int bytes_of_lane(int dtype, int lane)
{
    return (type_of<X>(dtype) == GDN_GPU_F32 ? 4 : 8) * lane;
}

// A row of 16-bit elements that has come: key 32 m + lane, and to where such an element of F32 would lie.
template <class X> GDN_INLINE void take_halves(float4 *row, int lane, uint32_t (&x)[X::NB])
{
#pragma unroll
    for (int m = 0; m < X::NB; m++)
        x[m] = halves_of(row)[32 * m + lane];
}
template <class X> GDN_INLINE void spread_halves(float4 *row, int lane, const uint32_t (&x)[X::NB], int dtype)
{
    if (dtype == GDN_GPU_F16) {
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            *element_of<X>(row, m, lane) = from_f16(x[m]);
    } else {
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            *element_of<X>(row, m, lane) = from_bf16(x[m]);
    }
}

// A strip on its way from memory to shared memory. Each warp has tokens of its own. Pointers are to the next strip.
template <class X> struct Copying {
    static constexpr int TOKENS = Strip<X>::TOKENS, EACH = TOKENS / GDN_CUDA_DELTA_WARPS;
    static constexpr int N_V = TOKENS * X::COLUMNS / (32 * GDN_CUDA_DELTA_WARPS), V_TOKENS = TOKENS / N_V;
    const char *k_at, *q_at, *v_at, *g_at, *beta_at;
    bool has_v; // this thread has a column
    // Where types are known per launch: beta and the gate of one token, as they lie in memory; of raw gates, what a
    // head's tokens share.
    float beta, g, rate, bias[X::CHANNEL ? X::NB : 1];
    static_assert(TOKENS % GDN_CUDA_DELTA_WARPS == 0 && TOKENS % N_V == 0, "each thread has as much");
    static_assert(32 % X::COLUMNS == 0, "a row of v is a warp's");

    __device__ __forceinline__ void begin(const gdn_gpu_gated_delta_net &p, const Item &w)
    {
        const int me = (int)threadIdx.x, lane = me % 32, first = me / 32 * EACH;
        const int column = w.j - Lanes<true>::eight(me) * X::C + me % X::COLUMNS;
        const int own = me % TOKENS;
        has_v = column < p.head_dim_v;
        k_at = token_at(p.k, w, w.kappa) + (uint64_t)(first * p.k.token + bytes_of_lane<X>(p.k_dtype, lane));
        q_at = token_at(p.q, w, w.kappa) + (uint64_t)(first * p.q.token + bytes_of_lane<X>(p.q_dtype, lane));
        v_at = token_at(p.v, w, w.h) +
               (uint64_t)(me / X::COLUMNS * p.v.token + element_bytes(type_of<X>(p.v_dtype)) * column);
        g_at = token_at(p.g, w, w.h) +
               (uint64_t)(X::CHANNEL ? first * p.g.token + bytes_of_lane<X>(p.g_dtype, lane) : own * p.g.token);
        beta_at = token_at(p.beta, w, w.h) + (uint64_t)(own * p.beta.token);
        beta = g = 0.0f;
        rate = read_rate<X>(p, w);
        const uint64_t biases = (uint64_t)p.dt_bias.base + (uint64_t)(w.h * p.dt_bias.head);
#pragma unroll
        for (int m = 0; m < (X::CHANNEL ? X::NB : 1); m++)
            bias[m] =
                X::TYPED && p.dt_bias.base
                    ? read_raw(biases + (uint64_t)((X::CHANNEL ? 32 * m + lane : 0) * element_bytes(p.dt_bias_dtype)),
                               p.dt_bias_dtype)
                    : 0.0f;
    }
    // Behind the loads of the state.
    __device__ __forceinline__ void widen_gates(const gdn_gpu_gated_delta_net &p)
    {
        rate = gate_rate<X>(p, rate);
#pragma unroll
        for (int m = 0; m < (X::CHANNEL ? X::NB : 1); m++)
            bias[m] = X::TYPED && p.dt_bias.base ? widen(gdn_bits(bias[m]), p.dt_bias_dtype) : 0.0f;
    }

    // Row u of those that this warp has, whose k, q and g lie there.
    __device__ __forceinline__ void copy_rows(const gdn_gpu_gated_delta_net &p, const char *k, const char *q_row,
                                              const char *gates, int u, Strip<X> &strip)
    {
        const int lane = (int)threadIdx.x % 32, t = (int)threadIdx.x / 32 * EACH + u;
        copy_row<X>(strip.k[t], k, p.k_dtype, lane);
        copy_row<X>(strip.q[t], q_row, p.q_dtype, lane);
        if (X::CHANNEL)
            copy_row<X>(strip.decay[t], gates, p.g_dtype, lane);
    }
    // This thread's column of row t, which lies there; of 16 bits, two neighbours at once.
    __device__ __forceinline__ void copy_v(const gdn_gpu_gated_delta_net &p, const char *v, int t,
                                           Strip<X> &strip)
    {
        const int column = (int)threadIdx.x % X::COLUMNS;
        if (type_of<X>(p.v_dtype) == GDN_GPU_F32)
            copy_async(&strip.v[t][column], v);
        else if (column % 2 == 0)
            copy_async(halves_of(strip.v[t]) + column, v);
    }
    __device__ __forceinline__ void copy_gates(const gdn_gpu_gated_delta_net &p, int t, Strip<X> &strip)
    {
        if (X::TYPED) {
            beta = read_raw((uint64_t)beta_at, p.beta_dtype);
            if (!X::CHANNEL)
                g = read_raw((uint64_t)g_at, p.g_dtype);
            return;
        }
        copy_async(&strip.beta[t], beta_at);
        if (!X::CHANNEL)
            copy_async(&strip.decay[t][0].x, g_at);
    }

    __device__ __forceinline__ void start(const gdn_gpu_gated_delta_net &p, const Item &w, int t0, Strip<X> &strip)
    {
        const int me = (int)threadIdx.x, left = w.T - t0;
        const char *k = k_at, *q = q_at, *gates = g_at, *v = v_at;
        if (left >= TOKENS) {
#pragma unroll
            for (int u = 0; u < EACH; u++) {
                copy_rows(p, k, q, gates, u, strip);
                k += p.k.token, q += p.q.token, gates += X::CHANNEL ? p.g.token : 0;
            }
            if (has_v)
#pragma unroll
                for (int u = 0; u < N_V; u++, v += V_TOKENS * p.v.token)
                    copy_v(p, v, me / X::COLUMNS + u * V_TOKENS, strip);
            if (me < TOKENS)
                copy_gates(p, me, strip);
        } else { // what nobody waits for, in the fewest instructions
#pragma unroll 1
            for (int u = 0; u < EACH; u++) {
                if (me / 32 * EACH + u < left)
                    copy_rows(p, k, q, gates, u, strip);
                k += p.k.token, q += p.q.token, gates += X::CHANNEL ? p.g.token : 0;
            }
#pragma unroll 1
            for (int u = 0; u < N_V; u++, v += V_TOKENS * p.v.token)
                if (has_v && me / X::COLUMNS + u * V_TOKENS < left)
                    copy_v(p, v, me / X::COLUMNS + u * V_TOKENS, strip);
            if (me < left)
                copy_gates(p, me, strip);
        }
        __pipeline_commit();
        k_at += TOKENS * p.k.token;
        q_at += TOKENS * p.q.token;
        v_at += TOKENS * p.v.token;
        g_at += TOKENS * p.g.token;
        beta_at += TOKENS * p.beta.token;
    }

    // Elements of 16 bits, of what this warp has copied, to their places. All of a row is taken before any is written.
    __device__ __forceinline__ void spread(const gdn_gpu_gated_delta_net &p, int first, int lane, Strip<X> &strip)
    {
        const bool of_k = p.k_dtype != GDN_GPU_F32, of_q = p.q_dtype != GDN_GPU_F32, of_v = p.v_dtype != GDN_GPU_F32;
        const bool of_g = X::CHANNEL && p.g_dtype != GDN_GPU_F32;
        uint32_t k[EACH][X::NB], q[EACH][X::NB], gates[X::CHANNEL ? EACH : 1][X::NB], v[N_V];
        const int row = (int)threadIdx.x / X::COLUMNS, column = (int)threadIdx.x % X::COLUMNS;
        __syncwarp(); // the copies of all lanes have come
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            if (of_k)
                take_halves<X>(strip.k[first + u], lane, k[u]);
            if (of_q)
                take_halves<X>(strip.q[first + u], lane, q[u]);
            if (of_g)
                take_halves<X>(strip.decay[first + u], lane, gates[X::CHANNEL ? u : 0]);
        }
#pragma unroll
        for (int u = 0; u < N_V; u++)
            if (of_v)
                v[u] = halves_of(strip.v[row + u * V_TOKENS])[column];
        __syncwarp();
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            if (of_k)
                spread_halves<X>(strip.k[first + u], lane, k[u], p.k_dtype);
            if (of_q)
                spread_halves<X>(strip.q[first + u], lane, q[u], p.q_dtype);
            if (of_g)
                spread_halves<X>(strip.decay[first + u], lane, gates[X::CHANNEL ? u : 0], p.g_dtype);
        }
#pragma unroll
        for (int u = 0; u < N_V; u++)
            if (of_v)
                strip.v[row + u * V_TOKENS][column] = from_half(v[u], p.v_dtype);
    }

    // 0: prepare, q and k, of this warp's tokens: eight lanes have a row, as in prepare_keys().
    __device__ __forceinline__ void normalise(const gdn_gpu_gated_delta_net &p, int first, int lane,
                                              Strip<X> &strip)
    {
        const int l = lane % 8;
        __syncwarp();
#pragma unroll
        for (int r = lane / 8; r < 2 * EACH; r += 4)
            normalise_row<X>(p, r < EACH ? strip.k[first + r] : strip.q[first + r - EACH], l);
    }

    // The strip is there for this thread. 0: prepare and 2: decay, of what its warp has copied itself; of tokens that
    // are not there these are numbers that nobody reads.
    __device__ __forceinline__ void finish(const gdn_gpu_gated_delta_net &p, Strip<X> &strip)
    {
        const int me = (int)threadIdx.x, lane = me % 32, first = me / 32 * EACH;
        __pipeline_wait_prior(0);
        if (X::TYPED && (p.k_dtype | p.q_dtype | p.v_dtype | (X::CHANNEL ? p.g_dtype : 0)) != GDN_GPU_F32)
            spread(p, first, lane, strip);
        if (normalises<X>(p))
            normalise(p, first, lane, strip);
        if (X::TYPED && me < TOKENS)
            strip.beta[me] = delta_factor<X>(p, widen(gdn_bits(beta), p.beta_dtype));
        if (!X::CHANNEL && me < TOKENS)
            strip.decay[me][0].x = decay_of<X>(
                p, X::TYPED ? widen(gdn_bits(g), p.g_dtype) : strip.decay[me][0].x, rate, bias[0]);
#pragma unroll
        for (int u = 0; X::CHANNEL && u < EACH; u++)
#pragma unroll
            for (int m = 0; m < X::NB; m++) {
                float *at = element_of<X>(strip.decay[first + u], m, lane);
                *at = decay_of<X>(p, *at, rate, bias[X::CHANNEL ? m : 0]);
            }
    }
};

// Step h of 4, 2, 1 for all columns of `kv`, which every lane gets.
template <int C> GDN_INLINE void fold_columns(float (&kv)[C], int h)
{
#pragma unroll
    for (int c = 0; c < C; c++)
        kv[c] = __fadd_rn(kv[c], exchange_lanes(kv[c], h));
}

// And for those of `o`, of which lane l gets column C l / 8: it keeps half of them at each step, while there are
// several.
template <int C> GDN_INLINE void fold_outputs(float (&o)[C], int l, int h)
{
    const int n = C * h / 8; // that are kept
    const bool upper = n && (l & h) != 0;
    if (!n)
        o[0] = __fadd_rn(o[0], exchange_lanes(o[0], h));
#pragma unroll
    for (int c = 0; c < n; c++)
        o[c] = __fadd_rn(upper ? o[n + c] : o[c], exchange_lanes(upper ? o[c] : o[n + c], h));
}

// What goes from token to token.
template <class X> struct Running {
    float4 S[X::NB][X::C];
    float4 q[X::NB];     // of the token before, whose output sums are still to be made
    char  *out_at;       // where that token's outputs go
    int    out_type;
    bool   writes;       // this lane has one of them, and there is a token before
};

template <class X>
GDN_INLINE void load_row(const float4 (&row)[Strip<X>::QUADS], int l, int first, int end, float4 (&x)[X::NB])
{
#pragma unroll
    for (int m = first; m < end; m++)
        x[m] = row[8 * m + l];
}

// 3: read kv
template <class X>
GDN_INLINE void read_kv(const Item &w, const float4 (&k)[X::NB], const float4 (&decay)[X::CHANNEL ? X::NB : 1],
                        const float4 (&S)[X::NB][X::C], float (&kv)[X::C])
{
    float4 sum[X::C];
#pragma unroll
    for (int c = 0; c < X::C; c++)
        sum[c] = zero4();
#pragma unroll
    for (int m = 0; m < X::NB; m++) {
        const float4 with = X::CHANNEL ? mul4(decay[X::CHANNEL ? m : 0], k[m]) : k[m];
#pragma unroll
        for (int c = 0; c < X::C; c++)
            sum[c] = sum_step<X>(S[m][c], with, sum[c], 32 * m + w.l, 8, w.n_keys);
    }
#pragma unroll
    for (int c = 0; c < X::C; c++)
        kv[c] = fold_lane(sum[c]);
}

// 4: delta
template <class X>
GDN_INLINE void deltas_of(const float (&v)[X::C], float beta, const float4 (&decay)[X::CHANNEL ? X::NB : 1],
                          const float (&kv)[X::C], float (&d)[X::C])
{
#pragma unroll
    for (int c = 0; c < X::C; c++) {
        const float read = X::CHANNEL ? kv[c] : __fmul_rn(decay[0].x, kv[c]);
        d[c] = __fmul_rn(beta, __fsub_rn(v[c], read));
    }
}

template <class X>
GDN_INLINE void decays_in(const Strip<X> &strip, int u, int l, float4 (&decay)[X::CHANNEL ? X::NB : 1])
{
    if (!X::CHANNEL)
        decay[0] = all4(strip.decay[u][0].x);
    else
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            decay[X::CHANNEL ? m : 0] = strip.decay[u][X::CHANNEL ? 8 * m + l : 0];
}

// The sums of 6, of the newest token, whose q is in registers.
template <class X> GDN_INLINE void output_sums(const Item &w, const Running<X> &at, float (&o)[X::C])
{
    float4 sum[X::C];
#pragma unroll
    for (int c = 0; c < X::C; c++)
        sum[c] = zero4();
#pragma unroll
    for (int m = 0; m < X::NB; m++)
#pragma unroll
        for (int c = 0; c < X::C; c++)
            sum[c] = sum_step<X>(at.S[m][c], at.q[m], sum[c], 32 * m + w.l, 8, w.n_keys);
#pragma unroll
    for (int c = 0; c < X::C; c++)
        o[c] = fold_lane(sum[c]);
}

// 2 to 6, of token u of the strip, whose key is k; the next one's is loaded. The output is that of the token before.
template <class X>
GDN_INLINE void take_token(const gdn_gpu_gated_delta_net &p, const Item &w, const Strip<X> &strip, int u, bool writes,
                           const float4 (&k)[X::NB], float4 (&next)[X::NB], Running<X> &at)
{
    float4 decay[X::CHANNEL ? X::NB : 1];
    decays_in<X>(strip, u, w.l, decay);
    const float *v_at = &strip.v[u][Lanes<true>::eight((int)threadIdx.x) * X::C], beta = strip.beta[u];
    float v[X::C];
#pragma unroll
    for (int c = 0; c < X::C; c++)
        v[c] = v_at[c];
    float kv[X::C];
    read_kv<X>(w, k, decay, at.S, kv); // 3
    fold_columns(kv, 4);
    load_row<X>(strip.k[u + 1], w.l, 0, X::NB / 2, next);
    float o[X::C]; // 6, of the token before
    output_sums<X>(w, at, o);
    fold_columns(kv, 2);
    fold_outputs(o, w.l, 4);
#pragma unroll
    for (int m = 0; m < X::NB; m++)
#pragma unroll
        for (int c = 0; c < X::C; c++)
            at.S[m][c] = mul4(at.S[m][c], decay[X::CHANNEL ? m : 0]);
    load_row<X>(strip.k[u + 1], w.l, X::NB / 2, X::NB, next);
    fold_columns(kv, 1);
    fold_outputs(o, w.l, 2);
    load_row<X>(strip.q[u], w.l, 0, X::NB, at.q);
    fold_outputs(o, w.l, 1);
    if (writes)
        store_element(at.out_at, __fmul_rn(p.scale, o[0]), at.out_type);
    at.out_at += p.result.token;
    float d[X::C];
    deltas_of<X>(v, beta, decay, kv, d); // 4
#pragma unroll
    for (int m = 0; m < X::NB; m++) // 5: update
#pragma unroll
        for (int c = 0; c < X::C; c++)
            at.S[m][c] = fma4(k[m], all4(d[c]), at.S[m][c]);
}

// Two strips, in shared memory.
template <class X>
GDN_INLINE void gated_delta_net_ahead(const gdn_gpu_gated_delta_net &p, Strip<X> *strips, Share share)
{
    static_assert(!X::LOG && !X::HALF && !X::GENERAL, "what the others are for");
    Item w;
    if (!find_item<X, true>(p, w, share))
        return; // the whole block
    w.T = __shfl_sync(GDN_FULL_WARP, w.T, 0); // it is the same anyway; so the compiler knows that warps stay together
    const int mine = X::C * w.l / 8; // the column whose output this lane has
    const bool writes = w.l % (8 / X::C) == 0 && mine < w.columns;
    Running<X> at;
    at.writes = false;
    at.out_type = type_of<X>(p.result_dtype);
    at.out_at = token_at(p.result, w, w.h) +
                ((int64_t)element_bytes(at.out_type) * (w.j + mine) - (int64_t)p.result.token);
#pragma unroll
    for (int m = 0; m < X::NB; m++)
        at.q[m] = zero4();

    Copying<X> next;
    next.begin(p, w);
    next.start(p, w, 0, strips[0]);
    load_elements<X>(p, w, at.S); // 1
    next.widen_gates(p);
    next.finish(p, strips[0]);
    __syncthreads();

    int kept = next_kept(p, w, 0); // the next token whose state may be kept
    for (int t0 = 0, turn = 0; t0 < w.T; t0 += Strip<X>::TOKENS, turn ^= 1) {
        const Strip<X> &strip = strips[turn];
        const bool more = t0 + Strip<X>::TOKENS < w.T;
        const int n = more ? Strip<X>::TOKENS : w.T - t0;
        if (more)
            next.start(p, w, t0 + Strip<X>::TOKENS, strips[turn ^ 1]);
        float4 k[2][X::NB];
        load_row<X>(strip.k[0], w.l, 0, X::NB, k[0]);
        const int pairs = (kept - t0 < n ? kept - t0 : n) & -2; // of tokens whose state nobody keeps
        int u = 0;
#pragma unroll 1
        for (; u < pairs; u += 2) {
            take_token<X>(p, w, strip, u, at.writes, k[0], k[1], at);
            take_token<X>(p, w, strip, u + 1, writes, k[1], k[0], at);
            at.writes = writes;
        }
#pragma unroll 1
        for (; u < n; u++) {
            load_row<X>(strip.k[u], w.l, 0, X::NB, k[0]);
            take_token<X>(p, w, strip, u, at.writes, k[0], k[1], at);
            at.writes = writes;
            // 7: snapshot, r tokens before the newest, and checkpoint
            if (t0 + u < kept)
                continue;
            keep_state<X>(p, w, kept, at.S);
            kept = next_kept(p, w, kept + 1);
        }
        if (more)
            next.finish(p, strips[turn ^ 1]);
        __syncthreads();
    }
    float o[X::C];
    output_sums<X>(w, at, o);
#pragma unroll
    for (int h = 4; h; h /= 2)
        fold_outputs(o, w.l, h);
    if (writes)
        store_element(at.out_at, __fmul_rn(p.scale, o[0]), at.out_type);
}

#endif
