// gated_delta_net: code that decode (gated_delta_net.cu) and prefill (gated_delta_net_tiles.cuh) share. It maps warps
// to heads, and loads rows and states. The rest is shared with Metal: gpu/delta_*.h.
#ifndef GDN_CUDA_GATED_DELTA_NET_CUH
#define GDN_CUDA_GATED_DELTA_NET_CUH

#include "cuda/kernel.cuh"
#include "call/gated_delta_net.h"
#include "numerics/prepare.h"

#define FUNCTION        template <class X> GDN_INLINE
#define CALL            const gdn_gated_delta_net_call &p, X,
#define PASS            p, X(),
#define SOURCE          p.state.data
#define DELTA_VALUES(C) GDN_CUDA_DELTA_VALUES(C)
#define LOAD_ABSENT     true
#define GOOD_TREE(seq)  is_tree(p.parent, seq.first, seq.T, p.bad)
#include "gpu/delta_item.h"

// Which sequences a thread block processes, and its first value channel of the head. TILES: sequences of more than
// GDN_CUDA_FEW_TOKENS tokens that neither have a log row nor commit. ROWS: the others.
struct Share {
    enum { ALL, TILES, ROWS } of;
    int value;
};

// LANES lanes share value channels. lane() is a thread's number among them, group() the number of its lane group in the
// block. With 16 lanes, two threads whose numbers differ only in the lowest bit have the same keys of different
// channels. If all such pairs of a warp load the same 16 bytes of shared memory, devices of compute capability 7.0 to
// 7.5 need two requests instead of four.
template <int LANES> struct Lanes {
    static __device__ __forceinline__ constexpr int lane(int thread)
    {
        return LANES == 16 ? thread / 2 % 16 : thread % LANES;
    }
    static __device__ __forceinline__ constexpr int group(int thread)
    {
        return LANES == 16 ? thread / 32 * 2 + thread % 2 : thread / LANES;
    }
};

// Fills the item. False, for the whole block, if there is nothing to do: a sequence of another share, padding, no
// tokens and no commit, or a bad map, which is reported. Each eight of the LANES have X::C value channels, side by
// side.
template <class X, int LANES = 8> GDN_INLINE bool find_item(const gdn_gated_delta_net_call &p, Item &at, Share share)
{
    if (!find_sequence(PASS int(blockIdx.x), int(blockIdx.y), at)) return false;
    const bool many = at.seq.T > GDN_CUDA_FEW_TOKENS && at.seq.row < 0 && at.seq.commit < 0;
    if (share.of != Share::ALL && (share.of == Share::TILES) != many) return false;
    constexpr int values = X::C * LANES / 8;
    at.l = Lanes<LANES>::lane((int)threadIdx.x);
    take_values(p, at, share.value + Lanes<LANES>::group((int)threadIdx.x) * values, values);
    return gdn_has_work(at.seq);
}

// read_raw() loads an element's bits; widen_raw() converts them to F32.
GDN_INLINE float read_raw(uint64_t at, int dtype) { return gdn_from_bits(read_bits(at, dtype)); }
GDN_INLINE float read_raw(const char *at, int dtype) { return read_raw((uint64_t)at, dtype); }
GDN_INLINE float widen_raw(float raw, int dtype) { return widen(gdn_bits(raw), dtype); }

// Loads elements i .. i + 3 of a row of q, k, g or dt_bias without conversion; those beyond the head are 0. Two 16-bit
// elements share a word, except in general kernels, where each has its own.
template <class X> GDN_INLINE float4 read_row(const char *at, int dtype, int i, int n_keys)
{
    const uint64_t row = (uint64_t)at; // as an address: pointers take more registers here
    if (!X::GENERAL) { // two loads into different registers: into the same ones, one would wait for the other
        const uint2 *const from = (const uint2 *)(row + (uint64_t)(i * element_bytes(dtype)));
        const uint2 x = __ldg(from);
        uint2 rest = make_uint2(0, 0);
        if (dtype == GDN_F32) rest = __ldg(from + 1);
        return make_float4(gdn_from_bits(x.x), gdn_from_bits(x.y), gdn_from_bits(rest.x), gdn_from_bits(rest.y));
    }
    const uint64_t bytes = (uint64_t)element_bytes(dtype);
    float4 x = zero4();
    if (i < n_keys) x.x = read_raw(row + bytes * (uint64_t)i, dtype);
    if (i + 1 < n_keys) x.y = read_raw(row + bytes * (uint64_t)(i + 1), dtype);
    if (i + 2 < n_keys) x.z = read_raw(row + bytes * (uint64_t)(i + 2), dtype);
    if (i + 3 < n_keys) x.w = read_raw(row + bytes * (uint64_t)(i + 3), dtype);
    return x;
}

// Converts the result of read_row() to F32.
template <class X> GDN_INLINE float4 widen_row(float4 raw, int dtype)
{
    if (dtype == GDN_F32) return raw;
    const uint32_t x = gdn_bits(raw.x), y = gdn_bits(raw.y);
    if (!X::GENERAL)
        return make_float4(from_16bit(x & 0xffffu, dtype), from_16bit(x >> 16, dtype), from_16bit(y & 0xffffu, dtype),
                           from_16bit(y >> 16, dtype));
    return make_float4(from_16bit(x, dtype), from_16bit(y, dtype), from_16bit(gdn_bits(raw.z), dtype),
                       from_16bit(gdn_bits(raw.w), dtype));
}

// Converts all of a row. here() hides the second comparison from the compiler, which would make a jump table of both.
template <class X, int N> GDN_INLINE void widen_rows(float4 (&x)[N], int dtype)
{
    if (dtype == GDN_F32) return;
    if (here(dtype) == GDN_F16) {
#pragma unroll
        for (int n = 0; n < N; n++) x[n] = widen_row<X>(x[n], GDN_F16);
    } else {
#pragma unroll
        for (int n = 0; n < N; n++) x[n] = widen_row<X>(x[n], GDN_BF16);
    }
}

// Load one element of a state, or four adjacent ones, without conversion; load_quad() has two 16-bit ones per word.
template <class X> GDN_INLINE float load_number(const char *at, int)
{
    return X::STATE16 ? gdn_from_bits(load_16bit(at)) : load_float(at);
}
template <class X> GDN_INLINE float4 load_quad(const char *at, int = GDN_NONE)
{
    if (!X::STATE16) return load_float4(at);
    const uint2 x = load_pair(at);
    return make_float4(gdn_from_bits(x.x), gdn_from_bits(x.y), 0.0f, 0.0f);
}

template <bool F16> GDN_INLINE float widen_number(uint32_t bits) { return F16 ? from_f16(bits) : from_bf16(bits); }

// 1: converts a loaded state to F32, after all its loads are issued. `pairs`: load_quad() loaded it.
template <class X, bool F16> GDN_INLINE void widen_all(bool pairs, float4 (&S)[X::NB][X::C])
{
#pragma unroll
    for (int m = 0; m < X::NB; m++)
#pragma unroll
        for (int c = 0; c < X::C; c++) {
            const uint32_t x = gdn_bits(S[m][c].x), y = gdn_bits(S[m][c].y);
            const uint32_t z = gdn_bits(S[m][c].z), w = gdn_bits(S[m][c].w);
            S[m][c] = make_float4(widen_number<F16>(pairs ? x & 0xffffu : x), widen_number<F16>(pairs ? x >> 16 : y),
                                  widen_number<F16>(pairs ? y & 0xffffu : z), widen_number<F16>(pairs ? y >> 16 : w));
        }
}
template <class X> GDN_INLINE void widen_state(const gdn_gated_delta_net_call &p, bool pairs, float4 (&S)[X::NB][X::C])
{
    if (X::STATE16 && p.state.dtype == GDN_F16) widen_all<X, true>(pairs, S);
    else if (X::STATE16) widen_all<X, false>(pairs, S);
}

#include "gpu/delta_step.h"
#include "gpu/delta_state.h"
#include "gpu/delta_log.h"

// ---- What gpu/delta_rows.h needs.
template <class X> GDN_INLINE int lane_of_warp(const Item &) { return (int)threadIdx.x & 31; }
template <class T> GDN_INLINE T of_lane(T x, int lane) { return __shfl_sync(GDN_FULL_WARP, x, lane); }
GDN_INLINE int lowest_bit(uint32_t x) { return __ffs((int)x) - 1; }
GDN_INLINE void sync_warp() { __syncwarp(); }
FUNCTION void load_deltas(CALL const Item &w, char *entry, float (&delta)[X::C])
{
    load_values<X>(log_delta(PASS w, entry), w.values, delta);
}

// The address is recomputed at each use, so that no register holds it.
FUNCTION const char *read_key_at(CALL const Item &, int t)
{
    Item w;
    w.seq.s = here((int)blockIdx.x);
    w.h = here((int)blockIdx.y);
    w.seq.first = gdn_first_of(PASS w.seq.s);
    return p.read_key.data + token_at(p.read_key, w, gdn_key_head(PASS w.h)) + (uint64_t)(t * p.read_key.stride_token);
}
#include "gpu/delta_rows.h"

template <class X> GDN_INLINE void rows_of(const gdn_gated_delta_net_call &p, Share share)
{
    Item w;
    if (find_item<X>(p, w, share)) gated_delta_net_rows(PASS w);
}

#endif
