// The replay log of gated_delta_net, in both forms: what a sequence repeats before its first token, in the registers
// that hold its state, and what each of its tokens leaves. Only kernels whose shape is LOG know of it. STEP is how far
// apart the four keys are that a lane has of each 32: 1 in rows, 8 in tiles.
#ifndef GDN_CUDA_GATED_DELTA_NET_LOG_CUH
#define GDN_CUDA_GATED_DELTA_NET_LOG_CUH

#include "cuda/gated_delta_net_half.cuh"

// Elements i, i + STEP, ... of a row of the log; those beyond the head are 0. Columns that are repeated are none that
// the call writes, but they lie side by side with such.
template <class X, int STEP> GDN_INLINE float4 load_keys(const char *row, int i, int n_keys)
{
    if (!X::GENERAL && STEP == 1)
        return load_float4(row + 4 * (uint64_t)i);
    float4 x = zero4();
    if (!X::GENERAL || i < n_keys)
        x.x = load_float(row + 4 * (uint64_t)i);
    if (!X::GENERAL || i + STEP < n_keys)
        x.y = load_float(row + 4 * (uint64_t)(i + STEP));
    if (!X::GENERAL || i + 2 * STEP < n_keys)
        x.z = load_float(row + 4 * (uint64_t)(i + 2 * STEP));
    if (!X::GENERAL || i + 3 * STEP < n_keys)
        x.w = load_float(row + 4 * (uint64_t)(i + 3 * STEP));
    return x;
}
template <class X, int STEP> GDN_INLINE void store_keys(char *row, int i, int n_keys, float4 x)
{
    if (!X::GENERAL && STEP == 1) {
        store_float4(row + 4 * (uint64_t)i, x);
        return;
    }
    if (!X::GENERAL || i < n_keys)
        store_float(row + 4 * (uint64_t)i, x.x);
    if (!X::GENERAL || i + STEP < n_keys)
        store_float(row + 4 * (uint64_t)(i + STEP), x.y);
    if (!X::GENERAL || i + 2 * STEP < n_keys)
        store_float(row + 4 * (uint64_t)(i + 2 * STEP), x.z);
    if (!X::GENERAL || i + 3 * STEP < n_keys)
        store_float(row + 4 * (uint64_t)(i + 3 * STEP), x.w);
}

// The entry of a position, and in an entry: the key of this warp's key head, the deltas of the eight lanes' columns,
// and the decays of the head.
GDN_INLINE char *log_at(const gdn_gpu_gated_delta_net &p, const Item &w, int position)
{
    return p.log.base + (uint64_t)(w.row * p.log.row + position % p.log_columns * p.log.line);
}
GDN_INLINE char *log_key(const gdn_gpu_gated_delta_net &p, const Item &w, char *entry)
{
    return entry + 4 * (uint64_t)((int64_t)w.kappa * p.head_dim_k);
}
GDN_INLINE char *log_delta(const gdn_gpu_gated_delta_net &p, const Item &w, char *entry)
{
    return entry + 4 * (uint64_t)((int64_t)p.n_heads_k * p.head_dim_k + (int64_t)w.h * p.head_dim_v + w.j);
}
template <class X> GDN_INLINE char *log_decay(const gdn_gpu_gated_delta_net &p, const Item &w, char *entry)
{
    return entry + 4 * (uint64_t)((int64_t)p.n_heads_k * p.head_dim_k + (int64_t)p.n_heads_v * p.head_dim_v +
                                  (int64_t)w.h * (X::CHANNEL ? p.head_dim_k : 1));
}

// What a lane needs of one entry.
template <class X> struct Logged {
    float4 k[X::NB], decay[X::CHANNEL ? X::NB : 1];
    float  delta[X::C];
};

template <class X, int STEP>
GDN_INLINE void load_logged(const gdn_gpu_gated_delta_net &p, const Item &w, int position, Logged<X> &x)
{
    constexpr int FIRST = STEP == 1 ? 4 : 1; // where the keys of lane 1 begin
    char *entry = log_at(p, w, position);
#pragma unroll
    for (int m = 0; m < X::NB; m++)
        x.k[m] = load_keys<X, STEP>(log_key(p, w, entry), 32 * m + FIRST * w.l, w.n_keys);
    if (!X::CHANNEL)
        x.decay[0] = all4(load_float(log_decay<X>(p, w, entry)));
    else
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            x.decay[X::CHANNEL ? m : 0] =
                load_keys<X, STEP>(log_decay<X>(p, w, entry), 32 * m + FIRST * w.l, w.n_keys);
    load_columns<X>(log_delta(p, w, entry), w.columns, x.delta);
}

// 1: repeat the log, from a position to another. The loads of the next entry are issued before the arithmetic of this
// one, but for shapes that have no registers for two.
template <class X, int STEP>
GDN_INLINE void repeat_log(const gdn_gpu_gated_delta_net &p, const Item &w, int from, int to,
                           float4 (&S)[X::NB][X::C])
{
    constexpr bool AHEAD = !X::GENERAL || (!X::CHANNEL && !X::HALF);
    if (from >= to)
        return;
    Logged<X> next;
    if (AHEAD)
        load_logged<X, STEP>(p, w, from, next);
#pragma unroll 1
    for (int at = from; at < to; at++) {
        if (!AHEAD)
            load_logged<X, STEP>(p, w, at, next);
        const Logged<X> x = next;
        if (AHEAD && at + 1 < to)
            load_logged<X, STEP>(p, w, at + 1, next);
#pragma unroll
        for (int m = 0; m < X::NB; m++)
#pragma unroll
            for (int c = 0; c < X::C; c++)
                S[m][c] = update(S[m][c], x.k[m], x.delta[c], x.decay[X::CHANNEL ? m : 0]);
        round_state<X>(p, at + 1, S);
    }
}

// 7: log what token t did to the eight lanes' columns. What its head has in common goes with column 0, and of that the
// key with the first value head that has it.
template <class X, int STEP>
GDN_INLINE void log_token(const gdn_gpu_gated_delta_net &p, const Item &w, int t, const float4 (&k)[X::NB],
                          const float4 (&decay)[X::CHANNEL ? X::NB : 1], const float (&delta)[X::C])
{
    constexpr int FIRST = STEP == 1 ? 4 : 1;
    if (w.row < 0)
        return;
    char *entry = log_at(p, w, w.position + t);
    if (w.l == 0)
        store_columns<X>(log_delta(p, w, entry), w.columns, delta);
    if (w.j)
        return;
    if (!X::CHANNEL) {
        if (w.l == 0)
            store_float(log_decay<X>(p, w, entry), decay[0].x);
    } else if (STEP != 1) { // rows have log_gates()
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            store_keys<X, STEP>(log_decay<X>(p, w, entry), 32 * m + FIRST * w.l, w.n_keys,
                                decay[X::CHANNEL ? m : 0]);
    }
    if (p.head_map ? w.h >= p.n_heads_k : w.h % (p.n_heads_v / p.n_heads_k) != 0)
        return;
#pragma unroll
    for (int m = 0; m < X::NB; m++)
        store_keys<X, STEP>(log_key(p, w, entry), 32 * m + FIRST * w.l, w.n_keys, k[m]);
}

#endif
