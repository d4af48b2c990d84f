// ssm_conv: one channel per thread. It holds the last KW inputs in registers while it iterates over tokens, and
// prefetches the next tokens' inputs.
//
// A call is split in one of two ways (p.part):
//   whole sequences   for decode: one launch does everything
//   pieces            of the token axis, and then the history in a second launch, because it may overwrite history that
//                     pieces read
//
// Steps, numbered as in docs/reference/kernels/ssm_conv.md and in every other version:
//   1 history   2 taps   3 activation   4 output   5 keep history
#include "cuda/kernel.cuh"
#include "call/ssm_conv.h"

#define FUNCTION  GDN_INLINE
#define CALL      const gdn_ssm_conv_call &p,
#define PASS      p,
#define WITH_TREE ((p.has & GDN_HAS_TREE) != 0)
#include "call/history.h"
typedef gdn_conv_sequence Sequence;

// The sequence. False if there is nothing to do, or a bad map, which is reported.
GDN_INLINE bool find_sequence(const gdn_ssm_conv_call &p, int s, Sequence &q)
{
    q = gdn_conv_sequence_of(p, s);
    if (q.bad >= 0) report(p.bad, q.bad);
    return q.bad < 0 && gdn_conv_has_work(q);
}

GDN_INLINE char *token_at(const gdn_token_view &view, const Sequence &q, int t)
{
    return view.data + (uint64_t)(view.stride_seq ? q.s * view.stride_seq + t * view.stride_token
                                                  : ((int64_t)q.first + t) * view.stride_token);
}

// The history is a ring that is read by position: a smaller position is the rollback.
GDN_INLINE char *history_at(const gdn_ssm_conv_call &p, const gdn_pool_view &pool, int row, int position)
{
    return pool.data + (uint64_t)(row * pool.stride_row + position % p.history.n_slots * pool.stride_slot);
}

GDN_INLINE uint32_t load_bits(const char *at, int dtype)
{
    return dtype == GDN_F32 ? load_word(at) : *(const unsigned short *)at;
}
// The taps of a kernel of width kw are in the last kw of KW registers, so that the newest is always the last. The
// others are skipped.
template <int KW> GDN_INLINE float taps(const float (&weight)[KW], const float (&x)[KW], float u, int kw, bool general)
{
#pragma unroll
    for (int j = 0; j < KW; j++)
        if (!general || j >= KW - kw) u = __fmaf_rn(weight[j], x[j], u);
    return u;
}

// Tokens t0 .. t1 - 1 of a sequence, for channel c. kernel_width is KW, or at most KW where GENERAL.
template <int KW, bool GENERAL>
GDN_INLINE void convolve(const gdn_ssm_conv_call &p, const Sequence &q, int t0, int t1, int c)
{
    constexpr int AHEAD = 4; // tokens whose inputs are loaded together
    const uint64_t at_x = (uint64_t)element_bytes(p.x.dtype) * (uint64_t)c,
                   weight_at = p.weight + (uint64_t)(c * p.weight_stride_channel);
    const int kw = GENERAL ? p.kernel_width : KW;
    const bool wide = !GENERAL && KW == 4 && p.wide_weight;
    uint32_t weight_bits[KW], old[KW], coming[AHEAD];
    int old_type[KW];
    float weight[KW], x[KW];
    uint64_t in_at = (uint64_t)token_at(p.x, q, t0) + at_x;
    char *out_at = token_at(p.result, q, t0) + (uint64_t)element_bytes(p.result.dtype) * (uint64_t)c;
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
        coming[a] = t0 + a < t1 ? read_bits(in_at + (uint64_t)(a * p.x.stride_token), p.x.dtype) : 0u;

        // 1: history, and tokens of this call before t0. x[j] is the input of tap j
#pragma unroll
    for (int j = 0; j < KW; j++) {
        weight_bits[j] = old[j] = 0u;
        old_type[j] = p.x.dtype;
        if (GENERAL && j < KW - kw) continue;
        if (!wide)
            weight_bits[j] = read_bits(weight_at + (uint64_t)((j - (KW - kw)) * p.weight_stride_tap), p.weight_dtype);
        const int from = t0 - KW + j;
        if (j == KW - kw) continue; // shifted out before it is used
        if (from >= 0) {
            old[j] = read_bits((uint64_t)token_at(p.x, q, from) + at_x, p.x.dtype);
        } else if (q.src >= 0 && q.position + from >= 0) {
            const uint64_t at_c = (uint64_t)element_bytes(p.history_out.dtype) * (uint64_t)c;
            old[j] = load_bits(history_at(p, p.history, q.src, q.position + from) + at_c, p.history_out.dtype);
            old_type[j] = p.history_out.dtype;
        }
    }
    if (wide && p.weight_dtype != GDN_F32) {
        const uint2 w = __ldg((const uint2 *)weight_at);
        weight_bits[0] = w.x & 0xffffu, weight_bits[KW > 1] = w.x >> 16, weight_bits[KW / 2] = w.y & 0xffffu,
        weight_bits[KW - 1] = w.y >> 16;
    } else if (wide) {
        const float4 w = read_float4(weight_at);
        weight_bits[0] = gdn_bits(w.x), weight_bits[KW > 1] = gdn_bits(w.y);
        weight_bits[KW / 2] = gdn_bits(w.z), weight_bits[KW - 1] = gdn_bits(w.w);
    }
    const uint32_t bias_bits =
        p.bias ? read_bits(p.bias + (uint64_t)element_bytes(p.bias_dtype) * (uint64_t)c, p.bias_dtype) : 0u;
#pragma unroll
    for (int j = 0; j < KW; j++) {
        weight[j] = widen(weight_bits[j], p.weight_dtype);
        x[j] = widen(old[j], old_type[j]);
    }
    const float bias = widen(bias_bits, p.bias_dtype);
    for (int t = t0; t < t1; t += AHEAD) {
        uint32_t now[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) now[a] = coming[a];
        in_at += (uint64_t)(AHEAD * p.x.stride_token);
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            coming[a] = t + AHEAD + a < t1 ? read_bits(in_at + (uint64_t)(a * p.x.stride_token), p.x.dtype) : 0u;
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (t + a >= t1) break;
#pragma unroll
            for (int j = 0; j < KW - 1; j++) x[j] = x[j + 1];
            x[KW - 1] = widen(now[a], p.x.dtype);
            const float u = taps<KW>(weight, x, bias, kw, GENERAL);          // 2: taps, oldest first
            store_element(out_at, p.silu ? gdn_silu(u) : u, p.result.dtype); // 3: activation, 4: output
            out_at += p.result.stride_token;
        }
    }
}

// Stores the input at position `at` as a conv state entry of a row. Equal types copy the bits.
GDN_INLINE void keep_entry(const gdn_ssm_conv_call &p, const Sequence &q, int row, int at, int c)
{
    const uint64_t at_x = (uint64_t)element_bytes(p.x.dtype) * (uint64_t)c,
                   at_c = (uint64_t)element_bytes(p.history_out.dtype) * (uint64_t)c;
    char *to = history_at(p, p.history_out, row, at) + at_c;
    uint32_t bits = 0u;
    if (at >= q.position) {
        bits = read_bits((uint64_t)token_at(p.x, q, at - q.position) + at_x, p.x.dtype);
        if (p.x.dtype != p.history_out.dtype) return store_element(to, widen(bits, p.x.dtype), p.history_out.dtype);
    } else if (q.src >= 0) {
        bits = load_bits(history_at(p, p.history, q.src, at) + at_c, p.history_out.dtype);
    }
    if (p.history_out.dtype == GDN_F32) store_word(to, bits);
    else store_16bit(to, bits);
}

#include "call/history_keep.h"
#undef FUNCTION
#undef CALL
#undef PASS
#undef WITH_TREE

template <int KW, bool GENERAL> GDN_INLINE void ssm_conv(const gdn_ssm_conv_call &p)
{
    const int unit = (int)(blockIdx.x / (unsigned)p.blocks);
    const int64_t wide_c = (int64_t)(blockIdx.x % (unsigned)p.blocks) * GDN_CUDA_CONV_THREADS + threadIdx.x;
    if (wide_c >= p.n_channels) return;
    const int c = (int)wide_c;
    if (p.part != GDN_CONV_PIECES) {
        Sequence q;
        if (!find_sequence(p, unit, q)) return;
        if (p.part == GDN_CONV_WHOLE) convolve<KW, GENERAL>(p, q, 0, q.T, c);
        gdn_conv_keep(p, q, c);
        return;
    }
    const int begin = unit * p.chunk, end = (p.n_tokens - begin < p.chunk ? p.n_tokens - begin : p.chunk) + begin;
    for (int s = gdn_conv_sequence_at(p, begin); s < p.n_seqs && gdn_conv_first_of(p, s) < end; s++) {
        Sequence q;
        if (!find_sequence(p, s, q)) continue;
        const int t0 = begin - q.first > 0 ? begin - q.first : 0, t1 = end - q.first < q.T ? end - q.first : q.T;
        if (t0 < t1) convolve<KW, GENERAL>(p, q, t0, t1, c);
    }
}

// Steps 1 to 4 for a tree: each token's taps are its ancestors' inputs, and before them those of the history.
template <int KW> GDN_INLINE void convolve_tree(const gdn_ssm_conv_call &p, const Sequence &q, int c)
{
    const uint64_t at_x = (uint64_t)element_bytes(p.x.dtype) * (uint64_t)c,
                   at_c = (uint64_t)element_bytes(p.history_out.dtype) * (uint64_t)c;
    const int kw = p.kernel_width;
    float weight[KW], x[KW];
    const float bias =
        p.bias ? read_element(p.bias + (uint64_t)element_bytes(p.bias_dtype) * (uint64_t)c, p.bias_dtype) : 0.0f;
#pragma unroll
    for (int j = 0; j < KW; j++) {
        x[j] = weight[j] = 0.0f;
        if (j >= KW - kw)
            weight[j] =
                read_element(p.weight + (uint64_t)(c * p.weight_stride_channel + (j - (KW - kw)) * p.weight_stride_tap),
                             p.weight_dtype);
    }
    for (int t = 0; t < q.T; t++) {
        int of = t; // before the first token of a branch: -1, -2, ...
#pragma unroll
        for (int j = KW - 1; j >= 0; j--) {
            if (j < KW - kw) continue;
            x[j] = 0.0f;
            if (of >= 0) x[j] = read_element((uint64_t)token_at(p.x, q, of) + at_x, p.x.dtype);
            else if (q.src >= 0 && q.position + of >= 0)
                x[j] = widen(load_bits(history_at(p, p.history, q.src, q.position + of) + at_c, p.history_out.dtype),
                             p.history_out.dtype);
            of = of >= 0 ? gdn_conv_parent_of(p, q.first, of) : of - 1;
        }
        const float u = taps<KW>(weight, x, bias, kw, true); // 2: taps, oldest first
        store_element(token_at(p.result, q, t) + (uint64_t)element_bytes(p.result.dtype) * (uint64_t)c,
                      p.silu ? gdn_silu(u) : u, p.result.dtype); // 3: activation, 4: output
    }
}

GDN_INLINE void ssm_conv_tree(const gdn_ssm_conv_call &p)
{
    const int64_t c = (int64_t)(blockIdx.x % (unsigned)p.blocks) * GDN_CUDA_CONV_THREADS + threadIdx.x;
    Sequence q;
    if (!find_sequence(p, (int)(blockIdx.x / (unsigned)p.blocks), q)) return;
    if (!is_tree(p.parent, q.first, q.T, p.bad) || c >= p.n_channels) return;
    convolve_tree<16>(p, q, (int)c);
    gdn_conv_keep(p, q, (int)c);
}

// The width that models use, and any width up to 16.
GDN_KERNEL(gdn_cuda_conv_4, gdn_ssm_conv_call, GDN_CUDA_CONV_THREADS) { ssm_conv<4, false>(p); }
GDN_KERNEL(gdn_cuda_conv_general, gdn_ssm_conv_call, GDN_BLOCKS(GDN_CUDA_CONV_THREADS, 1)) { ssm_conv<16, true>(p); }
GDN_KERNEL(gdn_cuda_conv_tree, gdn_ssm_conv_call, GDN_BLOCKS(GDN_CUDA_CONV_THREADS, 1)) { ssm_conv_tree(p); }
