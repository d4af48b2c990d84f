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

struct Sequence {
    int s, first, T, position, src, dst;
    bool run;
};

GDN_INLINE int start_of(const gdn_gpu_ssm_conv &p, int s)
{
    return p.seq_start ? read_int(p.seq_start + 4 * (uint64_t)s) : s * p.even_tokens;
}

GDN_INLINE Sequence sequence(const gdn_gpu_ssm_conv &p, int s)
{
    Sequence q;
    q.s = s;
    q.first = start_of(p, s);
    const int after = start_of(p, s + 1);
    q.position = map_at(p.position, s, 0);
    const int absent = p.n_entries > 0 ? s : GDN_GPU_NONE;
    q.src = map_at(p.history_src, s, absent);
    q.dst = map_at(p.history_dst, s, absent);
    q.run = true;
    q.T = 0;
    if (q.first < 0 || after < q.first || after > p.n_tokens) {
        report(p.bad, GDN_GPU_BAD_SEQ_START);
        q.run = false;
    } else {
        q.T = after - q.first;
        if (q.position < 0 || q.position > 2147483647 - q.T) {
            report(p.bad, GDN_GPU_BAD_POSITION);
            q.run = false;
        }
    }
    if (q.src < GDN_GPU_SKIP || q.src >= p.rows_in) {
        report(p.bad, GDN_GPU_BAD_HISTORY_SRC);
        q.run = false;
    }
    if (q.dst < GDN_GPU_NONE || q.dst >= p.rows_out) {
        report(p.bad, GDN_GPU_BAD_HISTORY_DST);
        q.run = false;
    }
    q.run = q.run && q.src != GDN_GPU_SKIP && q.T > 0;
    return q;
}

GDN_INLINE char *token_at(const gdn_gpu_tokens &view, const Sequence &q, int t)
{
    return view.base + (uint64_t)(view.seq ? q.s * view.seq + t * view.token : ((int64_t)q.first + t) * view.token);
}

// The history is a ring that is read by position: a smaller position is the rollback.
GDN_INLINE char *history_at(const gdn_gpu_ssm_conv &p, const gdn_gpu_pool &pool, int row, int position)
{
    return pool.base + (uint64_t)(row * pool.row + position % p.n_entries * pool.line);
}

GDN_INLINE uint32_t load_bits(const char *at, int dtype)
{
    return dtype == GDN_GPU_F32 ? load_word(at) : *(const unsigned short *)at;
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
GDN_INLINE void convolve(const gdn_gpu_ssm_conv &p, const Sequence &q, int t0, int t1, int c)
{
    constexpr int AHEAD = 4; // tokens whose inputs are loaded together
    const uint64_t at_x = (uint64_t)element_bytes(p.x_dtype) * (uint64_t)c,
                   weight_at = p.weight + (uint64_t)(c * p.weight_channel);
    const int kw = GENERAL ? p.kernel_width : KW;
    const bool wide = !GENERAL && KW == 4 && p.wide_weight;
    uint32_t weight_bits[KW], old[KW], coming[AHEAD];
    int old_type[KW];
    float weight[KW], x[KW];
    uint64_t in_at = (uint64_t)token_at(p.x, q, t0) + at_x;
    char *out_at = token_at(p.result, q, t0) + (uint64_t)element_bytes(p.result_dtype) * (uint64_t)c;
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
        coming[a] = t0 + a < t1 ? read_bits(in_at + (uint64_t)(a * p.x.token), p.x_dtype) : 0u;

        // 1: history, and tokens of this call before t0. x[j] is the input of tap j
#pragma unroll
    for (int j = 0; j < KW; j++) {
        weight_bits[j] = old[j] = 0u;
        old_type[j] = p.x_dtype;
        if (GENERAL && j < KW - kw) continue;
        if (!wide) weight_bits[j] = read_bits(weight_at + (uint64_t)((j - (KW - kw)) * p.weight_tap), p.weight_dtype);
        const int from = t0 - KW + j;
        if (j == KW - kw) continue; // shifted out before it is used
        if (from >= 0) {
            old[j] = read_bits((uint64_t)token_at(p.x, q, from) + at_x, p.x_dtype);
        } else if (q.src >= 0 && q.position + from >= 0) {
            const uint64_t at_c = (uint64_t)element_bytes(p.history_dtype) * (uint64_t)c;
            old[j] = load_bits(history_at(p, p.history_in, q.src, q.position + from) + at_c, p.history_dtype);
            old_type[j] = p.history_dtype;
        }
    }
    if (wide && p.weight_dtype != GDN_GPU_F32) {
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
        in_at += (uint64_t)(AHEAD * p.x.token);
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            coming[a] = t + AHEAD + a < t1 ? read_bits(in_at + (uint64_t)(a * p.x.token), p.x_dtype) : 0u;
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (t + a >= t1) break;
#pragma unroll
            for (int j = 0; j < KW - 1; j++) x[j] = x[j + 1];
            x[KW - 1] = widen(now[a], p.x_dtype);
            const float u = taps<KW>(weight, x, bias, kw, GENERAL);          // 2: taps, oldest first
            store_element(out_at, p.silu ? gdn_silu(u) : u, p.result_dtype); // 3: activation, 4: output
            out_at += p.result.token;
        }
    }
}

// Stores the input at position `at` as a conv state entry of a row. Equal types copy the bits.
GDN_INLINE void keep_entry(const gdn_gpu_ssm_conv &p, const Sequence &q, int row, int at, int c)
{
    const uint64_t at_x = (uint64_t)element_bytes(p.x_dtype) * (uint64_t)c,
                   at_c = (uint64_t)element_bytes(p.history_dtype) * (uint64_t)c;
    char *to = history_at(p, p.history_out, row, at) + at_c;
    uint32_t bits = 0u;
    if (at >= q.position) {
        bits = read_bits((uint64_t)token_at(p.x, q, at - q.position) + at_x, p.x_dtype);
        if (p.x_dtype != p.history_dtype) return store_element(to, widen(bits, p.x_dtype), p.history_dtype);
    } else if (q.src >= 0) {
        bits = load_bits(history_at(p, p.history_in, q.src, at) + at_c, p.history_dtype);
    }
    if (p.history_dtype == GDN_GPU_F32) store_word(to, bits);
    else store_16bit(to, bits);
}

// 5: keep history: checkpoints first, since they read entries that the newest entries overwrite. A checkpoint holds the
// entries that the next token reads.
GDN_INLINE void keep_checkpoints(const gdn_gpu_ssm_conv &p, const Sequence &q, int c)
{
    if (!p.checkpoint_interval) return;
    const int before = q.position / p.checkpoint_interval, reach = p.kernel_width - 1;
    const int all = (q.position + q.T) / p.checkpoint_interval - before;
    for (int i = 0; i < (all < p.n_checkpoints ? all : p.n_checkpoints); i++) {
        const int row = read_int(p.history_checkpoint + 4 * (uint64_t)((int64_t)q.s * p.n_checkpoints + i)),
                  length = (before + i + 1) * p.checkpoint_interval;
        if (row < GDN_GPU_NONE || row >= p.rows_out) report(p.bad, GDN_GPU_BAD_HISTORY_CHECKPOINT);
        else
            for (int at = length > reach ? length - reach : 0; row >= 0 && at < length; at++)
                keep_entry(p, q, row, at, c);
    }
}

// 5: keep history: then the newest entries. The older of them are copied only if the row changes.
GDN_INLINE void keep(const gdn_gpu_ssm_conv &p, const Sequence &q, int c)
{
    keep_checkpoints(p, q, c);
    if (q.dst < 0) return;
    const bool in_place = q.src == q.dst && p.same_pool;
    const int end = q.position + q.T;
    int at = end > p.n_entries ? end - p.n_entries : 0;
    if (in_place && at < q.position) at = q.position;
    for (; at < end; at++) keep_entry(p, q, q.dst, at, c);
}

// The last sequence that begins at or before token i; 0 if there is none.
GDN_INLINE int sequence_of(const gdn_gpu_ssm_conv &p, int i)
{
    if (!p.seq_start) return i / p.even_tokens;
    int low = 0, high = p.n_seqs - 1;
    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (start_of(p, middle) <= i) low = middle;
        else high = middle - 1;
    }
    return low;
}

template <int KW, bool GENERAL> GDN_INLINE void ssm_conv(const gdn_gpu_ssm_conv &p)
{
    const int unit = (int)(blockIdx.x / (unsigned)p.blocks);
    const int64_t wide_c = (int64_t)(blockIdx.x % (unsigned)p.blocks) * GDN_CUDA_CONV_THREADS + threadIdx.x;
    if (wide_c >= p.n_channels) return;
    const int c = (int)wide_c;
    if (p.part != GDN_GPU_CONV_PIECES) {
        const Sequence q = sequence(p, unit);
        if (q.run && p.part == GDN_GPU_CONV_WHOLE) convolve<KW, GENERAL>(p, q, 0, q.T, c);
        if (q.run) keep(p, q, c);
        return;
    }
    const int begin = unit * p.chunk, end = (p.n_tokens - begin < p.chunk ? p.n_tokens - begin : p.chunk) + begin;
    for (int s = sequence_of(p, begin); s < p.n_seqs && start_of(p, s) < end; s++) {
        const Sequence q = sequence(p, s);
        if (!q.run) continue;
        const int t0 = begin - q.first > 0 ? begin - q.first : 0, t1 = end - q.first < q.T ? end - q.first : q.T;
        if (t0 < t1) convolve<KW, GENERAL>(p, q, t0, t1, c);
    }
}

// Steps 1 to 4 for a tree: each token's taps are its ancestors' inputs, and before them those of the history.
template <int KW> GDN_INLINE void convolve_tree(const gdn_gpu_ssm_conv &p, const Sequence &q, int c)
{
    const uint64_t at_x = (uint64_t)element_bytes(p.x_dtype) * (uint64_t)c,
                   at_c = (uint64_t)element_bytes(p.history_dtype) * (uint64_t)c;
    const int kw = p.kernel_width;
    float weight[KW], x[KW];
    const float bias =
        p.bias ? read_element(p.bias + (uint64_t)element_bytes(p.bias_dtype) * (uint64_t)c, p.bias_dtype) : 0.0f;
#pragma unroll
    for (int j = 0; j < KW; j++) {
        x[j] = weight[j] = 0.0f;
        if (j >= KW - kw)
            weight[j] = read_element(p.weight + (uint64_t)(c * p.weight_channel + (j - (KW - kw)) * p.weight_tap),
                                     p.weight_dtype);
    }
    for (int t = 0; t < q.T; t++) {
        int of = t; // before the first token of a branch: -1, -2, ...
#pragma unroll
        for (int j = KW - 1; j >= 0; j--) {
            if (j < KW - kw) continue;
            x[j] = 0.0f;
            if (of >= 0) x[j] = read_element((uint64_t)token_at(p.x, q, of) + at_x, p.x_dtype);
            else if (q.src >= 0 && q.position + of >= 0)
                x[j] = widen(load_bits(history_at(p, p.history_in, q.src, q.position + of) + at_c, p.history_dtype),
                             p.history_dtype);
            of = of >= 0 ? parent_of(p.parent, q.first, of) : of - 1;
        }
        const float u = taps<KW>(weight, x, bias, kw, true); // 2: taps, oldest first
        store_element(token_at(p.result, q, t) + (uint64_t)element_bytes(p.result_dtype) * (uint64_t)c,
                      p.silu ? gdn_silu(u) : u, p.result_dtype); // 3: activation, 4: output
    }
}

// A tree's tokens must not overwrite what the next call reads, so the history needs slots for all of them.
GDN_INLINE void ssm_conv_tree(const gdn_gpu_ssm_conv &p)
{
    const int64_t c = (int64_t)(blockIdx.x % (unsigned)p.blocks) * GDN_CUDA_CONV_THREADS + threadIdx.x;
    const Sequence q = sequence(p, (int)(blockIdx.x / (unsigned)p.blocks));
    if (!q.run) return;
    if (p.rows_in > 0 && p.n_entries - (p.kernel_width - 1) < q.T) {
        report(p.bad, GDN_GPU_BAD_PARENT);
        return;
    }
    if (!is_tree(p.parent, q.first, q.T, p.bad) || c >= p.n_channels) return;
    convolve_tree<16>(p, q, (int)c);
    keep(p, q, (int)c);
}

// The width that models use, and any width up to 16.
GDN_KERNEL(gdn_cuda_conv_4, gdn_gpu_ssm_conv, GDN_CUDA_CONV_THREADS) { ssm_conv<4, false>(p); }
GDN_KERNEL(gdn_cuda_conv_general, gdn_gpu_ssm_conv, GDN_BLOCKS(GDN_CUDA_CONV_THREADS, 1)) { ssm_conv<16, true>(p); }
GDN_KERNEL(gdn_cuda_conv_tree, gdn_gpu_ssm_conv, GDN_BLOCKS(GDN_CUDA_CONV_THREADS, 1)) { ssm_conv_tree(p); }
