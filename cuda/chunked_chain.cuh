// The chunked form: the chunks of a sequence, one after another. A thread block has 16 value channels of a value head.
// The state stays in shared memory. The calls that decode have one chunk, of which most tokens are in the log.
#ifndef GDN_CUDA_CHUNKED_CHAIN_CUH
#define GDN_CUDA_CHUNKED_CHAIN_CUH

#include "cuda/chunked.cuh"

namespace chunked
{

typedef float Channels[COLUMNS + 1]; // one more, so that rows begin in different banks

template <int KEYS> struct alignas(16) Head {
    float A[TOKENS][TOKENS], P[TOKENS][TOKENS]; // token s outermost
    uint32_t S[KEYS / 4 * GDN_MOST_DIGITS][COLUMNS], E[TOKENS / 4 * GDN_MOST_DIGITS][COLUMNS];
    float factor[COLUMNS], E_factor[COLUMNS]; // of S_j and E_j
    Channels state[KEYS];                     // an F32 state; of one of digits the next state, before it becomes digits
    Channels d[TOKENS], out[TOKENS];
    uint32_t most[THREADS / COLUMNS][COLUMNS];
};

// A thread's value channel of the block, and its number among the threads with that channel.
GDN_INLINE int channel() { return (int)threadIdx.x % COLUMNS; }
GDN_INLINE int part() { return (int)threadIdx.x / COLUMNS; }
enum { PARTS = THREADS / COLUMNS };

GDN_INLINE bool of_digits(const gdn_gated_delta_net_call &p) { return p.state.dtype != GDN_F32; }

// ---- Columns. There is a barrier in it.
template <int DIGITS, int KEYS>
GDN_INLINE void make_columns(const Channels *x, int n, Head<KEYS> &head, uint32_t (*to)[COLUMNS], float *factor)
{
    const int j = channel();
    uint32_t most = 0;
    for (int i = part(); i < n; i += PARTS) most = larger(most, magnitude(x[i][j]));
    head.most[part()][j] = most;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PARTS; i++) most = larger(most, head.most[i][j]);
    const gdn_line line = gdn_line_of(most, DIGITS);
    for (int quad = part(); quad < n / 4; quad += PARTS) {
        int of[4];
#pragma unroll
        for (int e = 0; e < 4; e++) of[e] = gdn_line_integer(x[4 * quad + e][j], line);
#pragma unroll
        for (int a = 0; a < DIGITS; a++) to[quad * DIGITS + a][j] = word_of<DIGITS>(of, a);
    }
    if (part() == 0) factor[j] = line.factor;
}

// ---- The state. Digits of 16 channels follow each other in memory.
template <int DIGITS> GDN_INLINE int64_t group_bytes(const Item &w) { return (int64_t)w.n_keys * DIGITS * COLUMNS; }
GDN_INLINE int64_t factors_at(const gdn_gated_delta_net_call &p, const Item &w)
{
    return gdn_state_factors(p.head_dim_k, p.head_dim_v, p.digits) + 4 * (w.j + channel());
}

// Element i of the block's channels and the place of it in a head of F32, of the elements that a thread moves.
struct Element {
    int i, j;
    int64_t at;
};
GDN_INLINE Element element_of(const gdn_gated_delta_net_call &p, const Item &w, const gdn_pool_view &pool, int number)
{
    const bool by_key = p.state_layout == GDN_STATE_KV;
    const int i = by_key ? number / COLUMNS : number % w.n_keys, j = by_key ? number % COLUMNS : number / w.n_keys;
    return { i, j, (by_key ? i : w.j + j) * pool.stride_line + 4 * (by_key ? w.j + j : i) };
}

template <int DIGITS, int KEYS>
GDN_INLINE void load_chain(const gdn_gated_delta_net_call &p, const Item &w, Head<KEYS> &head)
{
    const bool none = w.seq.src < 0;
    const char *from = p.state.data + (none ? 0 : state_at(p.state, w.seq.src, w.h));
    if (!of_digits(p)) {
        for (int e = (int)threadIdx.x; e < w.n_keys * COLUMNS; e += THREADS) {
            const Element x = element_of(p, w, p.state, e);
            head.state[x.i][x.j] = none ? 0.0f : load_float(from + x.at);
        }
        return;
    }
    const char *words = from + w.j / COLUMNS * group_bytes<DIGITS>(w);
    for (int i = part(); i < w.n_keys / 4 * DIGITS; i += PARTS)
        head.S[i][channel()] = none ? 0 : load_word(words + 4 * (COLUMNS * i + channel()));
    if (part() == 0) head.factor[channel()] = none ? GDN_FACTOR_OF_ZEROS : load_float(from + factors_at(p, w));
}

// Stores the state to an entry, if it does not hold it.
template <int DIGITS, int KEYS>
GDN_INLINE void store_chain(const gdn_gated_delta_net_call &p, const Item &w, int entry, bool changed,
                            const Head<KEYS> &head)
{
    if (entry < 0) return;
    char *const to = state_out_at(p, Chunked(), w, entry);
    if (!changed && w.seq.src >= 0 && to == p.state.data + state_at(p.state, w.seq.src, w.h)) return;
    if (!of_digits(p)) {
        for (int e = (int)threadIdx.x; e < w.n_keys * COLUMNS; e += THREADS) {
            const Element x = element_of(p, w, p.state_out, e);
            store_float(to + x.at, head.state[x.i][x.j]);
        }
        return;
    }
    char *const words = to + w.j / COLUMNS * group_bytes<DIGITS>(w);
    for (int i = part(); i < w.n_keys / 4 * DIGITS; i += PARTS)
        store_word(words + 4 * (COLUMNS * i + channel()), head.S[i][channel()]);
    if (part() == 0) store_float(to + factors_at(p, w), head.factor[channel()]);
}

// The states that the call keeps at position `from`.
template <int DIGITS, int KEYS>
GDN_INLINE void keep_states(const gdn_gated_delta_net_call &p, const Item &w, int from, bool changed,
                            const Head<KEYS> &head)
{
    const int end = w.seq.position + w.seq.T;
    if (from == w.seq.kept) store_chain<DIGITS>(p, w, w.seq.commit, changed, head);
    if (from > w.seq.position)
        store_chain<DIGITS>(p, w, checkpoint_of(p, Chunked(), w, from - w.seq.position - 1), changed, head);
    if (from != end - end % TOKENS) return;
    const int target = gdn_chunked_target(p, Chunked(), w.seq);
    if (gdn_target_fits(target, p.state_out.n_entries)) store_chain<DIGITS>(p, w, target, changed, head);
    else report(p.bad, GDN_BAD_STATE_DST);
}

// ---- A chunk.
// A, P and the deltas of logged tokens.
template <int KEYS>
GDN_INLINE void load_chunk(const gdn_gated_delta_net_call &p, const Item &w, const Span &at, const Record &r,
                           Head<KEYS> &head)
{
    for (int i = (int)threadIdx.x; has_tokens(at) && i < TOKENS * TOKENS / 4; i += THREADS) {
        ((float4 *)head.A)[i] = ((const float4 *)(r.head + OF_A))[i];
        ((float4 *)head.P)[i] = ((const float4 *)(r.head + OF_P))[i];
    }
    for (int t = part(); t < at.n_logged; t += PARTS)
        head.d[t][channel()] =
            load_float(log_delta(p, Chunked(), w, log_at(p, Chunked(), w, at.from + t)) + 4 * channel());
}

GDN_INLINE uint64_t value_at(const gdn_token_view &view, const Item &w, int t, int j)
{
    return token_at(view, w, w.h) + (uint64_t)(t * view.stride_token + (w.j + j) * element_bytes(view.dtype));
}

// Products with the state: a warp has 16 tokens of one side. x and o before the sums over tokens.
template <class SUM, int DIGITS, int KEYS>
GDN_INLINE void multiply_state(const gdn_cuda_chunked_call &c, const Item &w, const Span &at, const Record &r,
                               Head<KEYS> &head)
{
    const gdn_gated_delta_net_call &p = c.call;
    const int steps = (w.n_keys + 31) / 32, side = warp() / 2, tile = warp() % 2;
    if (16 * tile + 16 <= at.n_logged || 16 * tile >= at.n) return;
    Sums<SUM, DIGITS> sums[2];
    clear(sums[0]), clear(sums[1]);
    for (int step = 0; step < steps; step++) {
        uint4 a[DIGITS][PARTS_OF<SUM>];
        uint2 b[DIGITS][PARTS_OF<SUM>];
        load_rows(r.key + side * c.side_bytes, tile, step, steps, a);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            load_columns(head.S, half, step, 32 * step + 16 == w.n_keys, b);
            multiply(sums[half], a, b);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int t = 16 * tile + row_of(i % 4), j = i / 4 * 8 + column_of(i % 4);
        if (t < at.n_logged || t >= at.n) continue;
        const float dot = gdn_mul(dot_of(sums[i / 4], i % 4), head.factor[j]);
        const int of_call = at.from + t - w.seq.position;
        if (side == SIDE_Q) head.out[t][j] = gdn_mul(r.head[OF_Q + t], dot);
        else
            head.d[t][j] = gdn_mul(r.head[OF_BETA + t],
                                   gdn_fma(-r.head[OF_R + t], dot,
                                           read_element((uint64_t)p.v.data + value_at(p.v, w, of_call, j), p.v.dtype)));
    }
}

// The deltas: a lane has a channel, and all tokens in registers.
template <int KEYS> GDN_INLINE void substitute(const Span &at, Head<KEYS> &head)
{
    const int j = channel();
    float x[TOKENS];
#pragma unroll
    for (int t = 0; t < TOKENS; t++) x[t] = t < at.n ? head.d[t][j] : 0.0f;
#pragma unroll
    for (int s = 0; s < TOKENS - 1; s++) {
        if (s + 1 >= at.n) break;
#pragma unroll
        for (int t = s + 1; t < TOKENS; t++) {
            const float next = gdn_fma(-head.A[s][t], x[s], x[t]);
            x[t] = t < at.n_logged ? x[t] : next;
        }
    }
#pragma unroll
    for (int t = 0; t < TOKENS; t++)
        if (t >= at.n_logged && t < at.n) head.d[t][j] = x[t];
}

template <int KEYS>
GDN_INLINE void write_outputs(const gdn_gated_delta_net_call &p, const Item &w, const Span &at, const Head<KEYS> &head)
{
    const int j = channel();
    for (int t = part(); t < at.n; t += PARTS) {
        if (t < at.n_logged) continue;
        float o = head.out[t][j];
        for (int s = 0; s <= t; s++) o = gdn_fma(head.P[s][t], head.d[s][j], o);
        store_element(p.result.data + value_at(p.result, w, at.from + t - w.seq.position, j), gdn_mul(p.scale, o),
                      p.result.dtype);
    }
}

// Entries of the tokens that the sequence needs after the call. `prepare` has read all entries that hold keys and
// gates; of deltas a thread block reads and writes only those of its channels.
template <int KEYS>
GDN_INLINE void write_log(const gdn_gated_delta_net_call &p, const Item &w, const Span &at, const Record &r,
                          const Head<KEYS> &head)
{
    if (w.seq.row < 0) return;
    const int base = gdn_chunked_base(p, Chunked(), w.seq), kept = base - at.from;
    const int first = kept > at.n_logged ? kept : at.n_logged;
    for (int t = first + part(); t < at.n; t += PARTS) {
        char *const entry = log_at(p, Chunked(), w, at.from + t);
        store_float(log_delta(p, Chunked(), w, entry) + 4 * channel(), head.d[t][channel()]);
        if (w.j == 0 && channel() == 0) store_float(log_decay(p, Chunked(), w, entry), r.head[OF_G + t]);
    }
    if (w.j || !gdn_logs_key(p, Chunked(), w.h)) return;
    for (int t = first + warp(); t < at.n; t += GDN_CUDA_CHUNKED_WARPS) {
        char *const key = log_key(p, Chunked(), w, log_at(p, Chunked(), w, at.from + t));
        Row x;
        load_key(p, w, at.from + t - w.seq.position, x);
#pragma unroll
        for (int m = 0; m < Chunked::NB; m++)
            if (32 * m + lane() < w.n_keys) store_float(key + 4 * (32 * m + lane()), x[m]);
    }
}

// The deltas and outputs of a chunk's tokens.
template <class SUM, int DIGITS, int KEYS>
GDN_INLINE void run_tokens(const gdn_cuda_chunked_call &c, const Item &w, const Span &at, const Record &r,
                           Head<KEYS> &head)
{
    multiply_state<SUM, DIGITS>(c, w, at, r, head);
    __syncthreads();
    if (threadIdx.x < COLUMNS) substitute(at, head);
    __syncthreads();
    write_outputs(c.call, w, at, head);
    write_log(c.call, w, at, r, head);
    __syncthreads();
}

// Element i of a state of digits.
template <int DIGITS, int KEYS> GDN_INLINE float element(const Head<KEYS> &head, int i, int j)
{
    int n = 0;
#pragma unroll
    for (int a = 0; a < DIGITS; a++) n = n * 256 + (int8_t)(head.S[i / 4 * DIGITS + a][j] >> i % 4 * 8);
    return gdn_line_element(n, head.factor[j], DIGITS);
}

// The state after a whole chunk.
template <class SUM, int DIGITS, int KEYS>
GDN_INLINE void next_state(const gdn_cuda_chunked_call &c, const Item &w, const Record &r, Head<KEYS> &head)
{
    const bool digits = of_digits(c.call);
    const float gam = r.head[OF_GAM], *left = left_of_KT(c, r);
    for (int t = part(); t < TOKENS; t += PARTS)
        head.d[t][channel()] = gdn_mul(head.d[t][channel()], r.head[OF_END + t]);
    __syncthreads();
    make_columns<DIGITS>(head.d, TOKENS, head, head.E, head.E_factor);
    __syncthreads();
    for (int tile = warp(); tile < w.n_keys / 16; tile += GDN_CUDA_CHUNKED_WARPS) {
        uint4 a[DIGITS][PARTS_OF<SUM>];
        load_rows(r.key + c.transposed_at, tile, 0, 1, a);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint2 b[DIGITS][PARTS_OF<SUM>];
            Sums<SUM, DIGITS> sums;
            clear(sums);
            load_columns(head.E, half, 0, false, b);
            multiply(sums, a, b);
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const int i = 16 * tile + row_of(n), j = 8 * half + column_of(n);
                const float before = digits ? element<DIGITS>(head, i, j) : head.state[i][j];
                head.state[i][j] = gdn_fma(left[i], gdn_mul(dot_of(sums, n), head.E_factor[j]), gdn_mul(before, gam));
            }
        }
    }
    __syncthreads();
    if (!digits) return;
    make_columns<DIGITS>(head.state, w.n_keys, head, head.S, head.factor);
    __syncthreads();
}

template <class SUM, int DIGITS, int KEYS> GDN_INLINE void chain(const gdn_cuda_chunked_call &c, Head<KEYS> &head)
{
    const gdn_gated_delta_net_call &p = c.call;
    Item w;
    if (!find_sequence(p, Chunked(), (int)blockIdx.x, (int)blockIdx.y, w) || !gdn_has_work(w.seq)) return;
    take_values(p, w, (int)blockIdx.z * COLUMNS, COLUMNS);
    load_chain<DIGITS>(p, w, head);
    __syncthreads();
    for (int i = 0;; i++) {
        const Span at = span_of(w.seq, w.seq.base_position + TOKENS * i);
        keep_states<DIGITS>(p, w, at.from, i > 0, head);
        const Record r = record_of(c, w, i);
        if (has_tokens(at) && !of_digits(p)) make_columns<DIGITS>(head.state, w.n_keys, head, head.S, head.factor);
        if (has_tokens(at) || is_whole(at)) load_chunk(p, w, at, r, head);
        __syncthreads();
        if (has_tokens(at)) run_tokens<SUM, DIGITS>(c, w, at, r, head);
        if (!is_whole(at)) return;
        next_state<SUM, DIGITS>(c, w, r, head);
    }
}

} // namespace chunked

#endif
