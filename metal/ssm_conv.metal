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

struct ConvBuffers {
    device const uchar *x;
    device const uchar *weight;
    device const uchar *bias;
    device uchar *result;
    device const uchar *history_in;
    device uchar *history_out;
    device const uchar *seq_start;
    device const uchar *position;
    device const uchar *history_src;
    device const uchar *history_dst;
    device const uchar *history_checkpoint;
    device atomic_uint *bad;
    device const uchar *parent;
};

struct Sequence {
    int s, first, T, position, src, dst;
    bool run;
};

GDN_INLINE int start_of(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, int s)
{
    return map_at(b.seq_start, (p.has & GDN_GPU_HAS_SEQ_START) != 0, s, s * p.even_tokens);
}

GDN_INLINE Sequence sequence(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, int s)
{
    Sequence q;
    q.s = s;
    q.first = start_of(p, b, s);
    const int after = start_of(p, b, s + 1), absent = p.n_entries > 0 ? s : GDN_GPU_NONE;
    q.position = map_at(b.position, (p.has & GDN_GPU_HAS_POSITION) != 0, s, 0);
    q.src = map_at(b.history_src, (p.has & GDN_GPU_HAS_SRC) != 0, s, absent);
    q.dst = map_at(b.history_dst, (p.has & GDN_GPU_HAS_DST) != 0, s, absent);
    q.run = true;
    q.T = 0;
    if (q.first < 0 || after < q.first || after > p.n_tokens) {
        report(b.bad, GDN_GPU_BAD_SEQ_START);
        q.run = false;
    } else {
        q.T = after - q.first;
        if (q.position < 0 || q.position > 2147483647 - q.T) {
            report(b.bad, GDN_GPU_BAD_POSITION);
            q.run = false;
        }
    }
    if (q.src < GDN_GPU_SKIP || q.src >= p.rows_in) {
        report(b.bad, GDN_GPU_BAD_HISTORY_SRC);
        q.run = false;
    }
    if (q.dst < GDN_GPU_NONE || q.dst >= p.rows_out) {
        report(b.bad, GDN_GPU_BAD_HISTORY_DST);
        q.run = false;
    }
    q.run = q.run && q.src != GDN_GPU_SKIP && q.T > 0;
    return q;
}

GDN_INLINE int64_t token_at(constant gdn_gpu_tokens &view, thread const Sequence &q, int t)
{
    return view.seq ? q.s * view.seq + t * view.token : (int64_t(q.first) + t) * view.token;
}

GDN_INLINE device const uchar *old_input(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, int row,
                                         int position, int64_t at_c)
{
    device const uchar *pool = b.history_in;
    if (p.has & GDN_GPU_ONE_POOL) pool = b.history_out + p.pool_offset;
    return pool + row * p.history_in.row + position % p.n_entries * p.history_in.line + at_c;
}

// Copies an element to another row; equal types copy the bits.
GDN_INLINE void move_element(device uchar *to, int to_dtype, device const uchar *from, int dtype)
{
    if (to_dtype != dtype) write_element(to, read_element(from, dtype), to_dtype);
    else if (dtype == GDN_GPU_F32) write_float(to, read_float(from));
    else write_16bit(to, read_16bit(from));
}

// Tokens t0 .. t1 - 1 of a sequence, for channel c. kernel_width is KW, or with GENERAL at most KW. Its taps are then
// in the last registers, so that the newest is always the last; the others are skipped.
template <int KW, bool GENERAL>
GDN_INLINE void convolve(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, thread const Sequence &q, int t0,
                         int t1, int c)
{
    const int64_t at_x = element_bytes(p.x_dtype) * int64_t(c), at_c = element_bytes(p.history_dtype) * int64_t(c);
    device const uchar *weight_at = b.weight + c * p.weight_channel;
    const int kw = GENERAL ? p.kernel_width : KW, none = KW - kw;
    float weight[KW], x[KW];

    // 1: history, and tokens of this call before t0. x[j] is the input of tap j
#pragma unroll
    for (int j = 0; j < KW; j++) {
        weight[j] = x[j] = 0.0f;
        if (GENERAL && j < none) continue;
        weight[j] = read_element(weight_at + (j - none) * p.weight_tap, p.weight_dtype);
        const int from = t0 - KW + j;
        if (j == none) continue; // shifted out before it is used
        if (from >= 0) x[j] = read_element(b.x + token_at(p.x, q, from) + at_x, p.x_dtype);
        else if (q.src >= 0 && q.position + from >= 0)
            x[j] = read_element(old_input(p, b, q.src, q.position + from, at_c), p.history_dtype);
    }
    const float bias =
        p.has & GDN_GPU_HAS_BIAS ? read_element(b.bias + element_bytes(p.bias_dtype) * int64_t(c), p.bias_dtype) : 0.0f;
    device const uchar *in_at = b.x + token_at(p.x, q, t0) + at_x;
    device uchar *out_at = b.result + token_at(p.result, q, t0) + element_bytes(p.result_dtype) * int64_t(c);
    for (int t = t0; t < t1; t++) {
#pragma unroll
        for (int j = 0; j < KW - 1; j++) x[j] = x[j + 1];
        x[KW - 1] = read_element(in_at, p.x_dtype);
        float u = bias;
#pragma unroll
        for (int j = 0; j < KW; j++) // 2: taps, oldest first
            if (!GENERAL || j >= none) u = fma(weight[j], x[j], u);
        write_element(out_at, p.silu ? gdn_silu(u) : u, p.result_dtype); // 3: activation, 4: output
        in_at += p.x.token;
        out_at += p.result.token;
    }
}

// Stores the input at position `at` as a conv state entry of a row.
GDN_INLINE void keep_entry(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, thread const Sequence &q, int row,
                           int at, int c)
{
    const int64_t at_x = element_bytes(p.x_dtype) * int64_t(c), at_c = element_bytes(p.history_dtype) * int64_t(c);
    device uchar *to = b.history_out + row * p.history_out.row + at % p.n_entries * p.history_out.line + at_c;
    if (at >= q.position) move_element(to, p.history_dtype, b.x + token_at(p.x, q, at - q.position) + at_x, p.x_dtype);
    else if (q.src >= 0) move_element(to, p.history_dtype, old_input(p, b, q.src, at, at_c), p.history_dtype);
    else write_element(to, 0.0f, p.history_dtype);
}

// 5: keep history: checkpoints first, since they read entries that the newest entries overwrite. A checkpoint holds the
// entries that the next token reads.
GDN_INLINE void keep_checkpoints(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, thread const Sequence &q,
                                 int c)
{
    if (!p.checkpoint_interval) return;
    const int before = q.position / p.checkpoint_interval, reach = p.kernel_width - 1;
    const int all = (q.position + q.T) / p.checkpoint_interval - before;
    for (int i = 0; i < (all < p.n_checkpoints ? all : p.n_checkpoints); i++) {
        const int row = read_int(b.history_checkpoint + 4 * (int64_t(q.s) * p.n_checkpoints + i)),
                  length = (before + i + 1) * p.checkpoint_interval;
        if (row < GDN_GPU_NONE || row >= p.rows_out) report(b.bad, GDN_GPU_BAD_HISTORY_CHECKPOINT);
        else
            for (int at = length > reach ? length - reach : 0; row >= 0 && at < length; at++)
                keep_entry(p, b, q, row, at, c);
    }
}

// 5: keep history: then the newest entries. The older of them are copied only if the row changes.
GDN_INLINE void keep(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, thread const Sequence &q, int c)
{
    keep_checkpoints(p, b, q, c);
    if (q.dst < 0) return;
    const bool in_place = q.src == q.dst && p.same_pool;
    const int end = q.position + q.T;
    int at = end > p.n_entries ? end - p.n_entries : 0;
    if (in_place && at < q.position) at = q.position;
    for (; at < end; at++) keep_entry(p, b, q, q.dst, at, c);
}

// The last sequence that begins at or before token i; 0 if there is none.
GDN_INLINE int sequence_of(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, int i)
{
    if (!(p.has & GDN_GPU_HAS_SEQ_START)) return i / p.even_tokens;
    int low = 0, high = p.n_seqs - 1;
    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (start_of(p, b, middle) <= i) low = middle;
        else high = middle - 1;
    }
    return low;
}

template <int KW, bool GENERAL>
GDN_INLINE void ssm_conv(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, uint group, uint me)
{
    const int unit = int(group / uint(p.blocks));
    const int64_t wide_c = int64_t(group % uint(p.blocks)) * GDN_METAL_CONV_THREADS + me;
    if (wide_c >= p.n_channels) return;
    const int c = int(wide_c);
    if (p.part != GDN_GPU_CONV_PIECES) {
        const Sequence q = sequence(p, b, unit);
        if (q.run && p.part == GDN_GPU_CONV_WHOLE) convolve<KW, GENERAL>(p, b, q, 0, q.T, c);
        if (q.run) keep(p, b, q, c);
        return;
    }
    const int begin = unit * p.chunk, end = (p.n_tokens - begin < p.chunk ? p.n_tokens - begin : p.chunk) + begin;
    for (int s = sequence_of(p, b, begin); s < p.n_seqs && start_of(p, b, s) < end; s++) {
        const Sequence q = sequence(p, b, s);
        if (!q.run) continue; // its bounds may be invalid
        const int t0 = begin - q.first > 0 ? begin - q.first : 0, t1 = end - q.first < q.T ? end - q.first : q.T;
        if (t0 < t1) convolve<KW, GENERAL>(p, b, q, t0, t1, c);
    }
}

// Steps 1 to 4 for a tree: each token's taps are its ancestors' inputs, and before them those of the history. A tree's
// tokens must not overwrite what the next call reads, so the history needs slots for all of them.
GDN_INLINE void ssm_conv_tree(constant gdn_gpu_ssm_conv &p, thread const ConvBuffers &b, uint group, uint me)
{
    const bool there = (p.has & GDN_GPU_HAS_PARENT) != 0;
    const int64_t c = int64_t(group % uint(p.blocks)) * GDN_METAL_CONV_THREADS + me;
    const Sequence q = sequence(p, b, int(group / uint(p.blocks)));
    if (!q.run || c >= p.n_channels) return;
    if (p.rows_in > 0 && p.n_entries - (p.kernel_width - 1) < q.T) {
        report(b.bad, GDN_GPU_BAD_PARENT);
        return;
    }
    if (!is_tree(b.parent, there, q.first, q.T, b.bad)) return;
    const int kw = p.kernel_width;
    const int64_t at_x = element_bytes(p.x_dtype) * c, at_c = element_bytes(p.history_dtype) * c;
    for (int t = 0; t < q.T; t++) {
        float x[16];
        int of = t; // before the first token of a branch: -1, -2, ...
        for (int j = kw - 1; j >= 0; j--) {
            x[j] = 0.0f;
            if (of >= 0) x[j] = read_element(b.x + token_at(p.x, q, of) + at_x, p.x_dtype);
            else if (q.src >= 0 && q.position + of >= 0)
                x[j] = read_element(old_input(p, b, q.src, q.position + of, at_c), p.history_dtype);
            of = of >= 0 ? parent_of(b.parent, there, q.first, of) : of - 1;
        }
        float u =
            p.has & GDN_GPU_HAS_BIAS ? read_element(b.bias + element_bytes(p.bias_dtype) * c, p.bias_dtype) : 0.0f;
        for (int j = 0; j < kw; j++) // 2: taps, oldest first
            u = fma(read_element(b.weight + c * p.weight_channel + j * p.weight_tap, p.weight_dtype), x[j], u);
        write_element(b.result + token_at(p.result, q, t) + element_bytes(p.result_dtype) * c, p.silu ? gdn_silu(u) : u,
                      p.result_dtype); // 3: activation, 4: output
    }
    keep(p, b, q, int(c));
}

#define GDN_CONV_OPERANDS                                                                                              \
    constant gdn_gpu_ssm_conv &p [[buffer(0)]], device const uchar *x [[buffer(1)]],                                   \
        device const uchar *weight [[buffer(2)]], device const uchar *bias [[buffer(3)]],                              \
        device uchar *result [[buffer(4)]], device const uchar *history_in [[buffer(5)]],                              \
        device uchar *history_out [[buffer(6)]], device const uchar *seq_start [[buffer(7)]],                          \
        device const uchar *position [[buffer(8)]], device const uchar *history_src [[buffer(9)]],                     \
        device const uchar *history_dst [[buffer(10)]], device const uchar *history_checkpoint [[buffer(11)]],         \
        device atomic_uint *bad [[buffer(12)]], device const uchar *parent [[buffer(13)]], GDN_THREAD
#define GDN_CONV_BUFFERS                                                                                               \
    const ConvBuffers b = { x,         weight,   bias,        result,      history_in,         history_out,            \
                            seq_start, position, history_src, history_dst, history_checkpoint, bad,                    \
                            parent };
// The width that models use, and any width up to 16.
GDN_KERNEL(gdn_metal_conv_4, GDN_CONV_OPERANDS)
{
    GDN_CONV_BUFFERS
    ssm_conv<4, false>(p, b, group.x, me);
}
GDN_KERNEL(gdn_metal_conv_general, GDN_CONV_OPERANDS)
{
    GDN_CONV_BUFFERS
    ssm_conv<16, true>(p, b, group.x, me);
}
GDN_KERNEL(gdn_metal_conv_tree, GDN_CONV_OPERANDS)
{
    GDN_CONV_BUFFERS
    ssm_conv_tree(p, b, group.x, me);
}
