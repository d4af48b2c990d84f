// ssm_conv: one channel per lane. It holds the last KW inputs in registers while it iterates over tokens.
//
// A call is split in one of two ways (PART):
//   whole sequences   for decode: one dispatch does everything
//   pieces            of the token axis, and then the history, after a barrier, because it may overwrite history that
//                     pieces read
//
// Steps, numbered as in docs/reference/kernels/ssm_conv.md and in every other version:
//   1 history   2 taps   3 activation   4 output   5 keep history
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "call/ssm_conv.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int KW = 4;   // kernel_width
layout(constant_id = 2) const int SILU = 0;
layout(constant_id = 3) const int CUT = 0;  // GDN_CONV_*; + 4 if an operand is not F32; + 8 for trees

const int PART = CUT & 3;
const bool TREE = (CUT & 8) != 0; // with GDN_CONV_WHOLE
#ifdef GDN_STORAGE_16
const bool MIXED_IO = (CUT & 4) != 0;
#else
const bool MIXED_IO = false;
#endif


layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Params { gdn_ssm_conv_call p; };

gdn_ssm_conv_call p;

// The types of a call; constants unless MIXED_IO.
int type_of(int dtype)
{
    return MIXED_IO ? dtype : GDN_F32;
}

int64_t bytes_of(int dtype, int n)
{
    return (type_of(dtype) == GDN_F32 ? 4 : 2) * int64_t(n);
}

float load(uint64_t at, int dtype)
{
    return load_element(at, type_of(dtype));
}

void store(uint64_t at, float x, int dtype)
{
#ifdef GDN_STORAGE_16
    if (type_of(dtype) != GDN_F32) {
        Bits16(at).x = uint16_t(dtype == GDN_F16 ? to_f16(x) : to_bf16(x));
        return;
    }
#endif
    Float(at).x = x;
}

// Copies an element to another row; equal types copy the bits.
void move_element(uint64_t to, int to_dtype, uint64_t from, int dtype)
{
    const int type = type_of(dtype);
    if (type_of(to_dtype) != type)
        store(to, load(from, dtype), to_dtype);
    else if (type == GDN_F32)
        Word(to).x = Word(from).x;
#ifdef GDN_STORAGE_16
    else
        Bits16(to).x = Bits16(from).x;
#endif
}

#define WITH_TREE TREE
#include "call/history.h"
#define Sequence gdn_conv_sequence

// Finds the sequence. False if it is skipped, or if a map is bad, which is reported.
bool find_sequence(int s, out Sequence q)
{
    q = gdn_conv_sequence_of(s);
    if (q.bad >= 0)
        report(p.bad, q.bad);
    return q.bad < 0 && gdn_conv_has_work(q);
}

uint64_t token_at(gdn_token_view view, Sequence q, int t)
{
    return view.data + (view.stride_seq != 0 ? q.s * view.stride_seq + t * view.stride_token
                                             : (int64_t(q.first) + t) * view.stride_token);
}

uint64_t history_at(gdn_pool_view pool, int row, int position)
{
    return pool.data + row * pool.stride_row + (position % p.history.n_slots) * pool.stride_slot;
}

// Tokens t0 .. t1 - 1 of a sequence, for channel c.
void convolve(Sequence q, int t0, int t1, int c)
{
    const int64_t at_x = bytes_of(p.x.dtype, c), at_c = bytes_of(p.history_out.dtype, c);
    float weight[KW], x[KW];
    [[unroll]] for (int j = 0; j < KW; j++)
        weight[j] = load(p.weight + c * p.weight_stride_channel + j * p.weight_stride_tap, p.weight_dtype);
    const float bias = p.bias != 0 ? load(p.bias + bytes_of(p.bias_dtype, c), p.bias_dtype) : 0.0;

    // 1: history, and tokens of this call before t0. x[j] is the input of tap j
    [[unroll]] for (int j = 1; j < KW; j++) {
        const int from = t0 - KW + j;
        x[j] = 0.0;
        if (from >= 0)
            x[j] = load(token_at(p.x, q, from) + at_x, p.x.dtype);
        else if (q.src >= 0 && q.position + from >= 0)
            x[j] = load(history_at(p.history, q.src, q.position + from) + at_c, p.history_out.dtype);
    }
    uint64_t in_at = token_at(p.x, q, t0) + at_x, out_at = token_at(p.result, q, t0) + bytes_of(p.result.dtype, c);
    for (int t = t0; t < t1; t++) {
        [[unroll]] for (int j = 0; j < KW - 1; j++)
            x[j] = x[j + 1];
        x[KW - 1] = load(in_at, p.x.dtype);
        // 2: taps, oldest first
        float u = bias;
        [[unroll]] for (int j = 0; j < KW; j++)
            u = fma1(weight[j], x[j], u);
        // 3: activation, 4: output
        store(out_at, SILU != 0 ? gdn_silu(u) : u, p.result.dtype);
        in_at += p.x.stride_token;
        out_at += p.result.stride_token;
    }
}

// All tokens of a sequence that is a tree, for channel c. Each token's taps are its ancestors' inputs, and before them
// those of the history.
void convolve_tree(Sequence q, int c)
{
    const int64_t at_x = bytes_of(p.x.dtype, c), at_c = bytes_of(p.history_out.dtype, c);
    float weight[KW], x[KW];
    [[unroll]] for (int j = 0; j < KW; j++)
        weight[j] = load(p.weight + c * p.weight_stride_channel + j * p.weight_stride_tap, p.weight_dtype);
    const float bias = p.bias != 0 ? load(p.bias + bytes_of(p.bias_dtype, c), p.bias_dtype) : 0.0;
    for (int t = 0; t < q.T; t++) {
        int of = t; // before the first token of a branch: -1, -2, ...
        [[unroll]] for (int j = KW - 1; j >= 0; j--) {
            x[j] = 0.0;
            if (of >= 0)
                x[j] = load(token_at(p.x, q, of) + at_x, p.x.dtype);
            else if (q.src >= 0 && q.position + of >= 0)
                x[j] = load(history_at(p.history, q.src, q.position + of) + at_c, p.history_out.dtype);
            of = of >= 0 ? gdn_conv_parent_of(q.first, of) : of - 1;
        }
        // 2: taps, oldest first
        float u = bias;
        [[unroll]] for (int j = 0; j < KW; j++)
            u = fma1(weight[j], x[j], u);
        // 3: activation, 4: output
        store(token_at(p.result, q, t) + bytes_of(p.result.dtype, c), SILU != 0 ? gdn_silu(u) : u, p.result.dtype);
    }
}

// Stores the input at position `pos` as a conv state entry of a row.
void keep_entry(Sequence q, int row, int pos, int c)
{
    const int64_t at_x = bytes_of(p.x.dtype, c), at_c = bytes_of(p.history_out.dtype, c);
    const uint64_t to = history_at(p.history_out, row, pos) + at_c;
    if (pos >= q.position)
        move_element(to, p.history_out.dtype, token_at(p.x, q, pos - q.position) + at_x, p.x.dtype);
    else if (q.src >= 0)
        move_element(to, p.history_out.dtype, history_at(p.history, q.src, pos) + at_c, p.history_out.dtype);
    else
        store(to, 0.0, p.history_out.dtype);
}

#include "call/history_keep.h"

// The next sequence that may have tokens. It skips any number of sequences without tokens at once.
int next_sequence(int s)
{
    s++;
    if (s < p.n_seqs && gdn_conv_first_of(s + 1) == gdn_conv_first_of(s))
        s = max(s, gdn_conv_sequence_at(gdn_conv_first_of(s)));
    return s;
}

void main()
{
    if (item() >= push.n_items)
        return;
    Params params = Params(push.params);
    p = params.p;
    const int unit = int(item() / uint(p.blocks));
    const int c = int(item() % uint(p.blocks)) * int(gl_WorkGroupSize.x) + int(gl_LocalInvocationIndex);
    if (c >= p.n_channels)
        return;
    if (PART != GDN_CONV_PIECES) {
        Sequence q;
        if (!find_sequence(unit, q) || TREE && !is_tree(p.parent, q.first, q.T, p.bad))
            return;
        if (TREE)
            convolve_tree(q, c);
        else if (PART == GDN_CONV_WHOLE)
            convolve(q, 0, q.T, c);
        gdn_conv_keep(q, c);
        return;
    }
    const int begin = unit * p.chunk, end = min(p.n_tokens - begin, p.chunk) + begin;
    for (int s = gdn_conv_sequence_at(begin); s < p.n_seqs && gdn_conv_first_of(s) < end; s = next_sequence(s)) {
        Sequence q;
        const bool run = find_sequence(s, q);
        const int t0 = max(begin - q.first, 0), t1 = min(end - q.first, q.T);
        if (run && t0 < t1)
            convolve(q, t0, t1, c);
    }
}
