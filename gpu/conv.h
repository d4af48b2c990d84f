// ssm_conv in the kernels of CUDA and Metal, which have the names of gpu/names_conv.h: one channel per thread. It holds
// the last KW inputs in registers while it iterates over tokens, and prefetches the next tokens' inputs.
//
// A call is split in one of two ways (p.part):
//   whole sequences   for decode: one launch does everything
//   pieces            of the token axis, and then the history in a second launch, because it may overwrite history that
//                     pieces read
//
// Steps, numbered as in docs/reference/kernels/ssm_conv.md and in every other version:
//   1 history   2 taps   3 activation   4 output   5 keep history
#ifndef GDN_GPU_CONV_H
#define GDN_GPU_CONV_H

#define WITH_TREE ((p.has & GDN_HAS_TREE) != 0)
#include "call/history.h"
typedef gdn_conv_sequence Sequence;

// The sequence. False if there is nothing to do, or a bad map, which is reported.
FUNCTION bool find_sequence(CALL int s, THREAD Sequence &q)
{
    q = gdn_conv_sequence_of(PASS s);
    if (q.bad >= 0) REPORT(q.bad);
    return q.bad < 0 && gdn_conv_has_work(q);
}

// The offset of a token in an operand.
GDN_INLINE uint64_t token_at(CONSTANT gdn_token_view &view, THREAD const Sequence &q, int t)
{
    return (uint64_t)(view.stride_seq ? q.s * view.stride_seq + t * view.stride_token
                                      : ((int64_t)q.first + t) * view.stride_token);
}

// The offset of a conv state entry. The history is a ring that is read by position: a smaller position is the rollback.
FUNCTION uint64_t entry_at(CALL CONSTANT gdn_pool_view &pool, int row, int position)
{
    return (uint64_t)(row * pool.stride_row + position % p.history.n_slots * pool.stride_slot);
}

// Token t of x and of out; a conv state entry of the row that is read.
FUNCTION Address input_at(CALL THREAD const Sequence &q, int t) { return (Address)(DATA(x) + token_at(p.x, q, t)); }
FUNCTION Bytes output_at(CALL THREAD const Sequence &q, int t) { return DATA(result) + token_at(p.result, q, t); }
FUNCTION ConstBytes old_at(CALL THREAD const Sequence &q, int position)
{
    return SOURCE + entry_at(PASS p.history, q.src, position);
}

// The offset of channel c in a row of elements.
GDN_INLINE uint64_t channel_at(int dtype, int c) { return (uint64_t)element_bytes(dtype) * (uint64_t)c; }

// The bits of a channel's bias.
FUNCTION uint32_t read_bias_bits(CALL int c)
{
    return HAS_BIAS ? read_bits(ADDRESS(bias) + channel_at(p.bias_dtype, c), p.bias_dtype) : 0u;
}

// The taps of a kernel of width kw are in the last kw of KW registers, so that the newest is always the last. The
// others are skipped.
template <int KW>
GDN_INLINE float taps(THREAD const float (&weight)[KW], THREAD const float (&x)[KW], float u, int kw, bool general)
{
#pragma unroll
    for (int j = 0; j < KW; j++)
        if (!general || j >= KW - kw) u = gdn_fma(weight[j], x[j], u);
    return u;
}

// Tokens t0 .. t1 - 1 of a sequence, for channel c. kernel_width is KW, or at most KW where GENERAL. The bits of all
// operands are loaded before the first is converted, so that no load waits for another.
template <int KW, bool GENERAL> FUNCTION void convolve(CALL THREAD const Sequence &q, int t0, int t1, int c)
{
    const uint64_t at_x = channel_at(p.x.dtype, c);
    const Address weight_at = ADDRESS(weight) + (uint64_t)(c * p.weight_stride_channel);
    const int kw = GENERAL ? p.kernel_width : KW;
    const bool wide = !GENERAL && KW == 4 && p.wide_weight;
    uint32_t weight_bits[KW], old[KW], coming[CONV_AHEAD];
    int old_type[KW];
    float weight[KW], x[KW];
    Address in_at = input_at(PASS q, t0) + at_x;
    Bytes out_at = output_at(PASS q, t0) + channel_at(p.result.dtype, c);
#pragma unroll
    for (int a = 0; a < CONV_AHEAD; a++)
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
            old[j] = read_bits(input_at(PASS q, from) + at_x, p.x.dtype);
        } else if (q.src >= 0 && q.position + from >= 0) {
            const uint64_t at_c = channel_at(p.history_out.dtype, c); // here, or it takes registers
            old[j] = load_bits(old_at(PASS q, q.position + from) + at_c, p.history_out.dtype);
            old_type[j] = p.history_out.dtype;
        }
    }
    if (wide) read_four_bits(weight_at, p.weight_dtype, weight_bits);
    const uint32_t bias_bits = read_bias_bits(PASS c);
#pragma unroll
    for (int j = 0; j < KW; j++) {
        weight[j] = widen(weight_bits[j], p.weight_dtype);
        x[j] = widen(old[j], old_type[j]);
    }
    const float bias = widen(bias_bits, p.bias_dtype);
    for (int t = t0; t < t1; t += CONV_AHEAD) {
        uint32_t now[CONV_AHEAD];
#pragma unroll
        for (int a = 0; a < CONV_AHEAD; a++) now[a] = coming[a];
        in_at += (uint64_t)(CONV_AHEAD * p.x.stride_token);
#pragma unroll
        for (int a = 0; a < CONV_AHEAD; a++)
            coming[a] = t + CONV_AHEAD + a < t1 ? read_bits(in_at + (uint64_t)(a * p.x.stride_token), p.x.dtype) : 0u;
#pragma unroll
        for (int a = 0; a < CONV_AHEAD; a++) {
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
FUNCTION void keep_entry(CALL THREAD const Sequence &q, int row, int at, int c)
{
    const uint64_t at_x = channel_at(p.x.dtype, c), at_c = channel_at(p.history_out.dtype, c);
    const Bytes to = DATA(history_out) + entry_at(PASS p.history_out, row, at) + at_c;
    uint32_t bits = 0u;
    if (at >= q.position) {
        bits = read_bits(input_at(PASS q, at - q.position) + at_x, p.x.dtype);
        if (p.x.dtype != p.history_out.dtype) {
            store_element(to, widen(bits, p.x.dtype), p.history_out.dtype);
            return;
        }
    } else if (q.src >= 0) {
        bits = load_bits(old_at(PASS q, at) + at_c, p.history_out.dtype);
    }
    if (p.history_out.dtype == GDN_F32) store_word(to, bits);
    else store_16bit(to, bits);
}

#include "call/history_keep.h"
#undef WITH_TREE

// The me-th thread of a thread block.
template <int KW, bool GENERAL> FUNCTION void ssm_conv(CALL uint32_t block, uint32_t me)
{
    const int unit = (int)(block / (uint32_t)p.blocks);
    const int64_t wide_c = (int64_t)(block % (uint32_t)p.blocks) * CONV_THREADS + me;
    if (wide_c >= p.n_channels) return;
    const int c = (int)wide_c;
    if (p.part != GDN_CONV_PIECES) {
        Sequence q;
        if (!find_sequence(PASS unit, q)) return;
        if (p.part == GDN_CONV_WHOLE) convolve<KW, GENERAL>(PASS q, 0, q.T, c);
        gdn_conv_keep(PASS q, c);
        return;
    }
    const int begin = unit * p.chunk, end = (p.n_tokens - begin < p.chunk ? p.n_tokens - begin : p.chunk) + begin;
    for (int s = gdn_conv_sequence_at(PASS begin); s < p.n_seqs && gdn_conv_first_of(PASS s) < end; s++) {
        Sequence q;
        if (!find_sequence(PASS s, q)) continue; // its bounds may be invalid
        const int t0 = begin - q.first > 0 ? begin - q.first : 0, t1 = end - q.first < q.T ? end - q.first : q.T;
        if (t0 < t1) convolve<KW, GENERAL>(PASS q, t0, t1, c);
    }
}

// Steps 1 to 4 for a tree: each token's taps are its ancestors' inputs, and before them those of the history.
template <int KW> FUNCTION void convolve_tree(CALL THREAD const Sequence &q, int c)
{
    const uint64_t at_x = channel_at(p.x.dtype, c), at_c = channel_at(p.history_out.dtype, c);
    const Address weight_at = ADDRESS(weight) + (uint64_t)(c * p.weight_stride_channel);
    const int kw = p.kernel_width;
    float weight[KW], x[KW];
    const float bias = widen(read_bias_bits(PASS c), p.bias_dtype);
#pragma unroll
    for (int j = 0; j < KW; j++) {
        x[j] = weight[j] = 0.0f;
        if (j >= KW - kw)
            weight[j] = widen(read_bits(weight_at + (uint64_t)((j - (KW - kw)) * p.weight_stride_tap), p.weight_dtype),
                              p.weight_dtype);
    }
    for (int t = 0; t < q.T; t++) {
        int of = t; // before the first token of a branch: -1, -2, ...
#pragma unroll
        for (int j = KW - 1; j >= 0; j--) {
            if (j < KW - kw) continue;
            x[j] = 0.0f;
            if (of >= 0) x[j] = widen(read_bits(input_at(PASS q, of) + at_x, p.x.dtype), p.x.dtype);
            else if (q.src >= 0 && q.position + of >= 0)
                x[j] =
                    widen(load_bits(old_at(PASS q, q.position + of) + at_c, p.history_out.dtype), p.history_out.dtype);
            of = of >= 0 ? gdn_conv_parent_of(PASS q.first, of) : of - 1;
        }
        const float u = taps<KW>(weight, x, bias, kw, true); // 2: taps, oldest first
        store_element(output_at(PASS q, t) + channel_at(p.result.dtype, c), p.silu ? gdn_silu(u) : u,
                      p.result.dtype); // 3: activation, 4: output
    }
}

FUNCTION void ssm_conv_tree(CALL uint32_t block, uint32_t me)
{
    const int64_t c = (int64_t)(block % (uint32_t)p.blocks) * CONV_THREADS + me;
    Sequence q;
    if (!find_sequence(PASS int(block / (uint32_t)p.blocks), q)) return;
    if (!GOOD_TREE(q) || c >= p.n_channels) return;
    convolve_tree<16>(PASS q, int(c));
    gdn_conv_keep(PASS q, int(c));
}

#endif
