// ssm_conv: one channel per lane. It holds the last KW inputs in registers while it iterates over tokens.
//
// A call is split in one of two ways (p.part):
//   whole sequences   for decode: one dispatch does everything
//   pieces            of the token axis, and then the history in a second dispatch, because it may overwrite history
//                     that pieces read
//
// Steps, numbered as in docs/reference/kernels/ssm_conv.md and in every other version:
//   1 history   2 taps   3 activation   4 output   5 keep history
#include "metal/kernel.h"
#include "call/ssm_conv.h"

struct ConvBuffers {
    GDN_CONV_OPERANDS(GDN_BUFFER, GDN_BUFFER, GDN_BUFFER, GDN_BUFFER)
    device atomic_uint *bad;
};

#define FUNCTION  GDN_INLINE
#define CALL      constant gdn_ssm_conv_call &p, thread const ConvBuffers &b,
#define PASS      p, b,
#define WITH_TREE ((p.has & GDN_HAS_TREE) != 0)
#include "call/history.h"
typedef gdn_conv_sequence Sequence;

// The sequence. False if there is nothing to do, or a bad map, which is reported.
GDN_INLINE bool find_sequence(constant gdn_ssm_conv_call &p, thread const ConvBuffers &b, int s, thread Sequence &q)
{
    q = gdn_conv_sequence_of(p, b, s);
    if (q.bad >= 0) report(b.bad, q.bad);
    return q.bad < 0 && gdn_conv_has_work(q);
}

GDN_INLINE int64_t token_at(constant gdn_token_view &view, thread const Sequence &q, int t)
{
    return view.stride_seq ? q.s * view.stride_seq + t * view.stride_token : (int64_t(q.first) + t) * view.stride_token;
}

GDN_INLINE device const uchar *old_input(constant gdn_ssm_conv_call &p, thread const ConvBuffers &b, int row,
                                         int position, int64_t at_c)
{
    device const uchar *pool = b.history;
    if (p.has & GDN_HAS_ONE_POOL) pool = b.history_out + p.pool_offset;
    return pool + row * p.history.stride_row + position % p.history.n_slots * p.history.stride_slot + at_c;
}

// Copies an element to another row; equal types copy the bits.
GDN_INLINE void move_element(device uchar *to, int to_dtype, device const uchar *from, int dtype)
{
    if (to_dtype != dtype) store_element(to, read_element(from, dtype), to_dtype);
    else if (dtype == GDN_F32) store_float(to, load_float(from));
    else store_16bit(to, load_16bit(from));
}

// Tokens t0 .. t1 - 1 of a sequence, for channel c. kernel_width is KW, or with GENERAL at most KW. Its taps are then
// in the last registers, so that the newest is always the last; the others are skipped.
template <int KW, bool GENERAL>
GDN_INLINE void convolve(constant gdn_ssm_conv_call &p, thread const ConvBuffers &b, thread const Sequence &q, int t0,
                         int t1, int c)
{
    const int64_t at_x = element_bytes(p.x.dtype) * int64_t(c), at_c = element_bytes(p.history_out.dtype) * int64_t(c);
    device const uchar *weight_at = b.weight + c * p.weight_stride_channel;
    const int kw = GENERAL ? p.kernel_width : KW, none = KW - kw;
    float weight[KW], x[KW];

    // 1: history, and tokens of this call before t0. x[j] is the input of tap j
#pragma unroll
    for (int j = 0; j < KW; j++) {
        weight[j] = x[j] = 0.0f;
        if (GENERAL && j < none) continue;
        weight[j] = read_element(weight_at + (j - none) * p.weight_stride_tap, p.weight_dtype);
        const int from = t0 - KW + j;
        if (j == none) continue; // shifted out before it is used
        if (from >= 0) x[j] = read_element(b.x + token_at(p.x, q, from) + at_x, p.x.dtype);
        else if (q.src >= 0 && q.position + from >= 0)
            x[j] = read_element(old_input(p, b, q.src, q.position + from, at_c), p.history_out.dtype);
    }
    const float bias =
        p.has & GDN_HAS_BIAS ? read_element(b.bias + element_bytes(p.bias_dtype) * int64_t(c), p.bias_dtype) : 0.0f;
    device const uchar *in_at = b.x + token_at(p.x, q, t0) + at_x;
    device uchar *out_at = b.result + token_at(p.result, q, t0) + element_bytes(p.result.dtype) * int64_t(c);
    for (int t = t0; t < t1; t++) {
#pragma unroll
        for (int j = 0; j < KW - 1; j++) x[j] = x[j + 1];
        x[KW - 1] = read_element(in_at, p.x.dtype);
        float u = bias;
#pragma unroll
        for (int j = 0; j < KW; j++) // 2: taps, oldest first
            if (!GENERAL || j >= none) u = fma(weight[j], x[j], u);
        store_element(out_at, p.silu ? gdn_silu(u) : u, p.result.dtype); // 3: activation, 4: output
        in_at += p.x.stride_token;
        out_at += p.result.stride_token;
    }
}

// Stores the input at position `at` as a conv state entry of a row.
GDN_INLINE void keep_entry(constant gdn_ssm_conv_call &p, thread const ConvBuffers &b, thread const Sequence &q,
                           int row, int at, int c)
{
    const int64_t at_x = element_bytes(p.x.dtype) * int64_t(c), at_c = element_bytes(p.history_out.dtype) * int64_t(c);
    device uchar *to =
        b.history_out + row * p.history_out.stride_row + at % p.history.n_slots * p.history_out.stride_slot + at_c;
    if (at >= q.position)
        move_element(to, p.history_out.dtype, b.x + token_at(p.x, q, at - q.position) + at_x, p.x.dtype);
    else if (q.src >= 0) move_element(to, p.history_out.dtype, old_input(p, b, q.src, at, at_c), p.history_out.dtype);
    else store_element(to, 0.0f, p.history_out.dtype);
}

#include "call/history_keep.h"
#undef FUNCTION
#undef CALL
#undef PASS
#undef WITH_TREE

template <int KW, bool GENERAL>
GDN_INLINE void ssm_conv(constant gdn_ssm_conv_call &p, thread const ConvBuffers &b, uint group, uint me)
{
    const int unit = int(group / uint(p.blocks));
    const int64_t wide_c = int64_t(group % uint(p.blocks)) * GDN_METAL_CONV_THREADS + me;
    if (wide_c >= p.n_channels) return;
    const int c = int(wide_c);
    if (p.part != GDN_CONV_PIECES) {
        Sequence q;
        if (!find_sequence(p, b, unit, q)) return;
        if (p.part == GDN_CONV_WHOLE) convolve<KW, GENERAL>(p, b, q, 0, q.T, c);
        gdn_conv_keep(p, b, q, c);
        return;
    }
    const int begin = unit * p.chunk, end = (p.n_tokens - begin < p.chunk ? p.n_tokens - begin : p.chunk) + begin;
    for (int s = gdn_conv_sequence_at(p, b, begin); s < p.n_seqs && gdn_conv_first_of(p, b, s) < end; s++) {
        Sequence q;
        if (!find_sequence(p, b, s, q)) continue; // its bounds may be invalid
        const int t0 = begin - q.first > 0 ? begin - q.first : 0, t1 = end - q.first < q.T ? end - q.first : q.T;
        if (t0 < t1) convolve<KW, GENERAL>(p, b, q, t0, t1, c);
    }
}

// Steps 1 to 4 for a tree: each token's taps are its ancestors' inputs, and before them those of the history.
GDN_INLINE void ssm_conv_tree(constant gdn_ssm_conv_call &p, thread const ConvBuffers &b, uint group, uint me)
{
    const int64_t c = int64_t(group % uint(p.blocks)) * GDN_METAL_CONV_THREADS + me;
    Sequence q;
    if (!find_sequence(p, b, int(group / uint(p.blocks)), q) || c >= p.n_channels) return;
    if (!is_tree(b.parent, (p.has & GDN_HAS_PARENT) != 0, q.first, q.T, b.bad)) return;
    const int kw = p.kernel_width;
    const int64_t at_x = element_bytes(p.x.dtype) * c, at_c = element_bytes(p.history_out.dtype) * c;
    for (int t = 0; t < q.T; t++) {
        float x[16];
        int of = t; // before the first token of a branch: -1, -2, ...
        for (int j = kw - 1; j >= 0; j--) {
            x[j] = 0.0f;
            if (of >= 0) x[j] = read_element(b.x + token_at(p.x, q, of) + at_x, p.x.dtype);
            else if (q.src >= 0 && q.position + of >= 0)
                x[j] = read_element(old_input(p, b, q.src, q.position + of, at_c), p.history_out.dtype);
            of = of >= 0 ? gdn_conv_parent_of(p, b, q.first, of) : of - 1;
        }
        float u = p.has & GDN_HAS_BIAS ? read_element(b.bias + element_bytes(p.bias_dtype) * c, p.bias_dtype) : 0.0f;
        for (int j = 0; j < kw; j++) // 2: taps, oldest first
            u = fma(read_element(b.weight + c * p.weight_stride_channel + j * p.weight_stride_tap, p.weight_dtype),
                    x[j], u);
        store_element(b.result + token_at(p.result, q, t) + element_bytes(p.result.dtype) * c, p.silu ? gdn_silu(u) : u,
                      p.result.dtype); // 3: activation, 4: output
    }
    gdn_conv_keep(p, b, q, int(c));
}

#define GDN_CONV_ARGUMENT(name, part, member, access, bit, size)                                                       \
    device GDN_CONST_##access uchar *name [[buffer(1 + GDN_CONV_##name)]],
#define GDN_CONV(name, ...)                                                                                            \
    GDN_KERNEL(name, constant gdn_ssm_conv_call &p [[buffer(0)]],                                                      \
               GDN_CONV_OPERANDS(GDN_CONV_ARGUMENT, GDN_CONV_ARGUMENT, GDN_CONV_ARGUMENT, GDN_CONV_ARGUMENT)           \
                   device atomic_uint *bad [[buffer(1 + GDN_CONV_REGIONS)]],                                           \
               GDN_THREAD)                                                                                             \
    {                                                                                                                  \
        const ConvBuffers b = { GDN_CONV_OPERANDS(GDN_BUFFER_NAME, GDN_BUFFER_NAME, GDN_BUFFER_NAME, GDN_BUFFER_NAME)  \
                                    bad };                                                                             \
        __VA_ARGS__(p, b, group.x, me);                                                                                \
    }

// The width that models use, and any width up to 16.
GDN_CONV(gdn_metal_conv_4, ssm_conv<4, false>)
GDN_CONV(gdn_metal_conv_general, ssm_conv<16, true>)
GDN_CONV(gdn_metal_conv_tree, ssm_conv_tree)
