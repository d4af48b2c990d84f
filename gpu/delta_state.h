// gated_delta_net in the kernels of CUDA and Metal: loads, rounds and stores states, of F32, F16 or BF16. load_quad()
// and load_number() need not convert: widen_state() does, after all loads are issued.
#ifndef GDN_GPU_DELTA_STATE_H
#define GDN_GPU_DELTA_STATE_H

#include "gpu/delta_item.h"

// Stores four adjacent elements of a state.
template <int DTYPE> GDN_INLINE void store_quad(Bytes at, float4 x)
{
    if (DTYPE == GDN_F32) store_float4(at, x);
    else if (DTYPE == GDN_F16) store_pair(at, to_f16_pair(x.x, x.y), to_f16_pair(x.z, x.w));
    else store_pair(at, to_bf16_pair(x.x, x.y), to_bf16_pair(x.z, x.w));
}

// Load and store the C adjacent value channels of a lane group: deltas, or with STATE those of a state for one key.
template <class X, bool STATE = false>
GDN_INLINE void load_values(ConstBytes at, int values, THREAD float (&x)[X::C], int dtype = GDN_F32)
{
    constexpr bool BITS16 = STATE && X::STATE16;
    if (!BITS16 && !X::GENERAL && X::C == 4 && values == 4) {
        const float4 four = load_float4(at);
        x[0] = four.x, x[X::C / 4] = four.y, x[X::C / 2] = four.z, x[X::C - 1] = four.w;
    } else {
#pragma unroll
        for (int c = 0; c < X::C; c++)
            x[c] = c >= values ? 0.0f
                   : BITS16    ? load_number<X>(at + 2 * (uint64_t)c, dtype)
                               : load_float(at + 4 * (uint64_t)c);
    }
}
template <class X, int DTYPE> GDN_INLINE void store_values(Bytes at, int values, THREAD const float (&x)[X::C])
{
    if (!X::GENERAL && X::C == 4 && values == 4) {
        store_quad<DTYPE>(at, make_float4(x[0], x[X::C / 4], x[X::C / 2], x[X::C - 1]));
    } else {
#pragma unroll
        for (int c = 0; c < X::C; c++)
            if (c < values) store_element(at + element_bytes(DTYPE) * c, x[c], DTYPE);
    }
}

// The offset of an element in a head's state. by_key: GDN_STATE_KV
template <class X> GDN_INLINE uint64_t element_at(CONSTANT gdn_pool_view &pool, bool by_key, int i, int j)
{
    return (uint64_t)((by_key ? i : j) * pool.stride_line + X::BYTES * (by_key ? j : i));
}

// 1: load state, of an entry of a pool, or zeros. S[m][c] has value channel j + c
template <class X>
GDN_INLINE void load_state(CONSTANT gdn_gated_delta_net_call &p, THREAD const Item &w, ConstBytes at,
                           CONSTANT gdn_pool_view &pool, int entry, THREAD float4 (&S)[X::NB][X::C])
{
    if (entry >= 0) at += state_at(pool, entry, w.h);
    const int dtype = p.state.dtype;
    if (!X::GENERAL && entry >= 0 && p.state_layout != GDN_STATE_KV) {
        // With LOAD_ABSENT loads are unconditional, so that they issue back to back. A channel that does not exist
        // loads the first channel of these lanes, or else of the warp; its values are never stored. The index stays
        // within the warp, because another warp may be storing its channels.
        const int spare = w.j < p.head_dim_v ? w.j : w.j / (4 * X::C) * (4 * X::C);
#pragma unroll
        for (int c = 0; c < X::C; c++) {
            const int j = w.j + c < p.head_dim_v ? w.j + c : spare;
#pragma unroll
            for (int m = 0; m < X::NB; m++)
                S[m][c] =
                    LOAD_ABSENT || c < w.values
                        ? load_quad<X>(at + (uint64_t)(j * pool.stride_line + X::BYTES * (32 * m + 4 * w.l)), dtype)
                        : zero4();
        }
        widen_state<X>(p, true, S);
        return;
    }
    const bool by_key = p.state_layout == GDN_STATE_KV;
#pragma unroll
    for (int m = 0; m < X::NB; m++) {
        const int i = 32 * m + 4 * w.l;
        float x[4][X::C] = {};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (entry < 0 || (X::GENERAL && i + e >= w.n_keys)) continue;
            if (!X::GENERAL) {
                load_values<X, true>(at + (uint64_t)((i + e) * pool.stride_line + X::BYTES * w.j), w.values, x[e],
                                     dtype);
            } else {
#pragma unroll
                for (int c = 0; c < X::C; c++)
                    if (c < w.values) x[e][c] = load_number<X>(at + element_at<X>(pool, by_key, i + e, w.j + c), dtype);
            }
        }
#pragma unroll
        for (int c = 0; c < X::C; c++) S[m][c] = make_float4(x[0][c], x[1][c], x[2][c], x[3][c]);
    }
    widen_state<X>(p, false, S);
}

// 7: snapshot. The type of 16-bit states is tested once per state. store_lines(): of heads of 128 keys,
// [value][key].
template <class X, int DTYPE>
GDN_INLINE void store_lines_as(CONSTANT gdn_gated_delta_net_call &p, THREAD const Item &w, Bytes head,
                               THREAD const float4 (&S)[X::NB][X::C])
{
    Bytes to = head + (uint64_t)(w.j * p.state_out.stride_line + X::BYTES * 4 * w.l);
#pragma unroll
    for (int c = 0; c < X::C; c++, to += p.state_out.stride_line)
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            if (c < w.values) store_quad<DTYPE>(to + X::BYTES * 32 * m, S[m][c]);
}
template <class X>
GDN_INLINE void store_lines(CONSTANT gdn_gated_delta_net_call &p, THREAD const Item &w, Bytes head,
                            THREAD const float4 (&S)[X::NB][X::C])
{
    if (X::STATE16 && p.state.dtype == GDN_F16) store_lines_as<X, GDN_F16>(p, w, head, S);
    else store_lines_as<X, X::STATE16 ? GDN_BF16 : GDN_F32>(p, w, head, S);
}

template <class X, int DTYPE>
GDN_INLINE void store_elements_as(CONSTANT gdn_gated_delta_net_call &p, THREAD const Item &w, Bytes head,
                                  THREAD const float4 (&S)[X::NB][X::C])
{
    const bool by_key = p.state_layout == GDN_STATE_KV;
#pragma unroll
    for (int m = 0; m < X::NB; m++) {
        const int i = 32 * m + 4 * w.l;
        float x[4][X::C];
#pragma unroll
        for (int c = 0; c < X::C; c++)
            x[0][c] = S[m][c].x, x[1][c] = S[m][c].y, x[2][c] = S[m][c].z, x[3][c] = S[m][c].w;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (X::GENERAL && i + e >= w.n_keys) continue;
            if (!X::GENERAL) {
                store_values<X, DTYPE>(head + (uint64_t)((i + e) * p.state_out.stride_line + X::BYTES * w.j), w.values,
                                       x[e]);
            } else {
#pragma unroll
                for (int c = 0; c < X::C; c++)
                    if (c < w.values)
                        store_element(head + element_at<X>(p.state_out, by_key, i + e, w.j + c), x[e][c], DTYPE);
            }
        }
    }
}
FUNCTION Bytes state_out_at(CALL THREAD const Item &w, int dst)
{
    return DATA(state_out) + state_at(p.state_out, dst, w.h);
}
FUNCTION void store_state(CALL THREAD const Item &w, int dst, THREAD const float4 (&S)[X::NB][X::C])
{
    const Bytes head = state_out_at(PASS w, dst);
    if (!X::GENERAL && p.state_layout != GDN_STATE_KV) store_lines<X>(p, w, head, S);
    else if (X::STATE16 && p.state.dtype == GDN_F16) store_elements_as<X, GDN_F16>(p, w, head, S);
    else store_elements_as<X, X::STATE16 ? GDN_BF16 : GDN_F32>(p, w, head, S);
}

// 7: round, if the token that gives the sequence `length` tokens is one after which the state is rounded.
template <bool F16> GDN_INLINE float nearest(float x) { return F16 ? nearest_f16(x) : nearest_bf16(x); }
template <class X, bool F16> GDN_INLINE void round_all(THREAD float4 (&S)[X::NB][X::C])
{
#pragma unroll
    for (int m = 0; m < X::NB; m++)
#pragma unroll
        for (int c = 0; c < X::C; c++)
            S[m][c] = make_float4(nearest<F16>(S[m][c].x), nearest<F16>(S[m][c].y), nearest<F16>(S[m][c].z),
                                  nearest<F16>(S[m][c].w));
}
FUNCTION void round_state(CALL int length, THREAD float4 (&S)[X::NB][X::C])
{
    if (!gdn_rounds_at(PASS length)) return;
    if (p.state.dtype == GDN_F16) round_all<X, true>(S);
    else round_all<X, false>(S);
}

#endif
