// 16-bit states of gated_delta_net, F16 or BF16: load, convert to F32 in registers, round, store. In kernels without
// STATE16 these functions load and store F32 and do not round.
#ifndef GDN_CUDA_GATED_DELTA_NET_STATE16_CUH
#define GDN_CUDA_GATED_DELTA_NET_STATE16_CUH

#include "cuda/gated_delta_net.cuh"

// Load and store one element of a state, or four adjacent ones. Loads do not convert; load_quad() has two per word.
template <class X> GDN_INLINE float load_number(const char *at)
{
    return X::STATE16 ? gdn_from_bits(load_16bit(at)) : load_float(at);
}
template <class X> GDN_INLINE float4 load_quad(const char *at)
{
    if (!X::STATE16) return load_float4(at);
    const uint2 x = load_pair(at);
    return make_float4(gdn_from_bits(x.x), gdn_from_bits(x.y), 0.0f, 0.0f);
}
template <int DTYPE> GDN_INLINE void store_quad(char *at, float4 x)
{
    if (DTYPE == GDN_F32) store_float4(at, x);
    else if (DTYPE == GDN_F16) store_pair(at, make_uint2(to_f16_pair(x.x, x.y), to_f16_pair(x.z, x.w)));
    else store_pair(at, make_uint2(to_bf16_pair(x.x, x.y), to_bf16_pair(x.z, x.w)));
}

// Load and store the C adjacent value channels of a lane group: deltas, or with STATE those of a state for one key.
template <class X, bool STATE = false> GDN_INLINE void load_values(const char *at, int values, float (&x)[X::C])
{
    constexpr bool BITS16 = STATE && X::STATE16;
    if (!BITS16 && !X::GENERAL && X::C == 4 && values == 4) {
        const float4 four = load_float4(at);
        x[0] = four.x, x[X::C / 4] = four.y, x[X::C / 2] = four.z, x[X::C - 1] = four.w;
    } else {
#pragma unroll
        for (int c = 0; c < X::C; c++)
            x[c] = c >= values ? 0.0f
                   : BITS16    ? gdn_from_bits(load_16bit(at + 2 * (uint64_t)c))
                               : load_float(at + 4 * (uint64_t)c);
    }
}
template <class X, int DTYPE> GDN_INLINE void store_values(char *at, int values, const float (&x)[X::C])
{
    if (!X::GENERAL && X::C == 4 && values == 4) {
        store_quad<DTYPE>(at, make_float4(x[0], x[X::C / 4], x[X::C / 2], x[X::C - 1]));
    } else {
#pragma unroll
        for (int c = 0; c < X::C; c++)
            if (c < values) store_element(at + element_bytes(DTYPE) * c, x[c], DTYPE);
    }
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

// 7: round, if the token that gives the sequence `length` tokens is one after which the state is rounded.
template <bool F16> GDN_INLINE float nearest(float x) { return F16 ? nearest_f16(x) : nearest_bf16(x); }
template <class X, bool F16> GDN_INLINE void round_all(float4 (&S)[X::NB][X::C])
{
#pragma unroll
    for (int m = 0; m < X::NB; m++)
#pragma unroll
        for (int c = 0; c < X::C; c++)
            S[m][c] = make_float4(nearest<F16>(S[m][c].x), nearest<F16>(S[m][c].y), nearest<F16>(S[m][c].z),
                                  nearest<F16>(S[m][c].w));
}
template <class X> GDN_INLINE void round_state(const gdn_gated_delta_net_call &p, int length, float4 (&S)[X::NB][X::C])
{
    if (!gdn_rounds_at(p, X(), length)) return;
    if (p.state.dtype == GDN_F16) round_all<X, true>(S);
    else round_all<X, false>(S);
}

#endif
