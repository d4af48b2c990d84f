// The chunked form: what does not depend on states, of a chunk of a key head and its value heads. A thread block has a
// sequence and key head, and every parts-th of its chunks. It writes a record of each.
#ifndef GDN_CUDA_CHUNKED_PREPARE_CUH
#define GDN_CUDA_CHUNKED_PREPARE_CUH

#include "cuda/chunked.cuh"

namespace chunked
{

struct Prepared {
    float k[TOKENS][32 * Chunked::NB + 1];
    float left[2][TOKENS], factor[TOKENS]; // left(R_t) and left(Q_t); of K_t
    int64_t G[TOKENS];
    float beta[TOKENS];
};

// Writes the digits of row t, and returns its factor.
template <int DIGITS> GDN_INLINE float make_row(const Row &x, int t, int steps, char *side)
{
    uint32_t most = 0;
#pragma unroll
    for (int m = 0; m < Chunked::NB; m++) most = larger(most, magnitude(x[m]));
#pragma unroll
    for (int h = 16; h; h /= 2) most = larger(most, __shfl_xor_sync(GDN_FULL_WARP, most, h));
    const gdn_line line = gdn_line_of(most, DIGITS);
#pragma unroll
    for (int m = 0; m < Chunked::NB; m++) {
        const int n = gdn_line_integer(x[m], line);
#pragma unroll
        for (int a = 0; a < DIGITS; a++)
            if (m < steps) side[digit_at(t, 32 * m + lane(), a, steps, DIGITS)] = (char)gdn_digit(n, a, DIGITS);
    }
    return line.factor;
}

// The rows of token t: a warp has it.
template <int DIGITS>
GDN_INLINE void make_rows(const gdn_cuda_chunked_call &c, const Item &w, const Span &at, const Record &r, int t,
                          Prepared &own)
{
    const gdn_gated_delta_net_call &p = c.call;
    const int of_call = at.from + t - w.seq.position, steps = (w.n_keys + 31) / 32;
    const bool reads = p.read_key.data != nullptr;
    float x[Chunked::NB];
    if (of_call >= 0) load_key(p, w, of_call, x);
    else {
        const char *key = log_key(p, Chunked(), w, log_at(p, Chunked(), w, at.from + t));
#pragma unroll
        for (int m = 0; m < Chunked::NB; m++) {
            const int i = 32 * m + lane();
            x[m] = i < w.n_keys ? load_float(key + 4 * i) : 0.0f;
        }
    }
#pragma unroll
    for (int m = 0; m < Chunked::NB; m++) own.k[t][32 * m + lane()] = x[m];
    const float factor = make_row<DIGITS>(x, t, steps, r.key + (reads ? SIDE_K : SIDE_R) * c.side_bytes);
    float left = factor;
    if (of_call >= 0 && reads) {
        load_row(p, p.read_key, w, of_call, false, x);
        left = make_row<DIGITS>(x, t, steps, r.key);
    }
    float left_q = 0;
    if (of_call >= 0) {
        load_row(p, p.q, w, of_call, p.qk_norm != 0, x);
        left_q = make_row<DIGITS>(x, t, steps, r.key + SIDE_Q * c.side_bytes);
    }
    if (lane()) return;
    own.factor[t] = factor;
    own.left[SIDE_R][t] = gdn_left_factor(left, DIGITS);
    own.left[SIDE_Q][t] = gdn_left_factor(left_q, DIGITS);
}

// The rows KT_i: a thread has key i.
template <int DIGITS>
GDN_INLINE void transpose(const gdn_cuda_chunked_call &c, const Record &r, int i, const Prepared &own)
{
    uint32_t most = 0;
    for (int t = 0; t < TOKENS; t++) most = larger(most, magnitude(own.k[t][i]));
    const gdn_line line = gdn_line_of(most, DIGITS);
    for (int t = 0; t < TOKENS; t += 4) {
        int n[4];
#pragma unroll
        for (int e = 0; e < 4; e++) n[e] = gdn_line_integer(own.k[t + e][i], line);
#pragma unroll
        for (int a = 0; a < DIGITS; a++)
            *(uint32_t *)(r.key + c.transposed_at + digit_at(i, t, a, 1, DIGITS)) = word_of<DIGITS>(n, a);
    }
    left_of_KT(c, r)[i] = gdn_left_factor(line.factor, DIGITS);
}

// prod(R_t, K_s) and prod(Q_t, K_s): a warp has 16 rows t of one side, and all s.
template <class SUM, int DIGITS>
GDN_INLINE void multiply_keys(const gdn_cuda_chunked_call &c, const Item &w, const Span &at, const Record &r,
                              const Prepared &own, float (&product)[TOKENS / 8][4])
{
    const int steps = (w.n_keys + 31) / 32, side = warp() / 2, tile = warp() % 2;
    const char *rows = r.key + side * c.side_bytes;
    const char *keys = r.key + (c.call.read_key.data ? SIDE_K : SIDE_R) * c.side_bytes;
#pragma unroll
    for (int s = 0; s < TOKENS / 8; s++) {
        Sums<SUM, DIGITS> sums;
        clear(sums);
        for (int step = 0; step < steps && s / 2 <= tile; step++) {
            uint4 a[DIGITS][PARTS_OF<SUM>], k[DIGITS][1];
            uint2 b[DIGITS][PARTS_OF<SUM>];
            load_rows(rows, tile, step, steps, a);
            load_rows(keys, s / 2, step, steps, k); // as rows they have the lanes that they need as columns
#pragma unroll
            for (int d = 0; d < DIGITS; d++)
                convert(s % 2 ? make_uint2(k[d][0].y, k[d][0].w) : make_uint2(k[d][0].x, k[d][0].z), b[d]);
            multiply(sums, a, b);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int t = 16 * tile + row_of(i), of = 8 * s + column_of(i);
            product[s][i] =
                of <= t && t < at.n ? gdn_mul(gdn_mul(dot_of(sums, i), own.factor[of]), own.left[side][t]) : 0.0f;
        }
    }
}

// Gates and beta of a value head: a lane has a token.
GDN_INLINE void make_gates(const gdn_gated_delta_net_call &p, const Item &w, const Span &at, const Record &r,
                           Prepared &own)
{
    const int t = lane(), of_call = at.from + t - w.seq.position;
    const float rate = gate_rate(p, read_rate(p, Chunked(), w));
    const float bias = gate_bias<Chunked>(p, read_bias(p, Chunked(), w, 0)).x;
    float g = 0, beta = 0;
    if (t < at.n_logged) g = load_float(log_decay(p, Chunked(), w, log_at(p, Chunked(), w, at.from + t)));
    else if (t < at.n) {
        const uint64_t of_g = (uint64_t)p.g.data + token_at(p.g, w, w.h) + (uint64_t)(of_call * p.g.stride_token);
        const uint64_t of_beta =
            (uint64_t)p.beta.data + token_at(p.beta, w, w.h) + (uint64_t)(of_call * p.beta.stride_token);
        g = gdn_decay_log(p.gate_input, read_element(of_g, p.g.dtype), rate, bias, p.lower_bound);
        beta = delta_factor(p, read_element(of_beta, p.beta.dtype));
    }
    int64_t G = gdn_gate_step(g);
    int spoiled = gdn_gate_spoiled(g);
#pragma unroll
    for (int h = 1; h < TOKENS; h *= 2) { // sums of the tokens up to t
        const int64_t before = __shfl_sync(GDN_FULL_WARP, G, t - h);
        const int bad = __shfl_sync(GDN_FULL_WARP, spoiled, t - h);
        if (t >= h) G += before, spoiled |= bad;
    }
    const float gam = spoiled ? gdn_from_bits(GDN_NAN_BITS) : gdn_decay_of_steps(G);
    const int64_t end = __shfl_sync(GDN_FULL_WARP, G, TOKENS - 1);
    own.G[t] = G;
    own.beta[t] = beta;
    r.head[OF_BETA + t] = beta;
    if (t < at.n) r.head[OF_R + t] = gdn_mul(gam, own.left[SIDE_R][t]);
    if (t < at.n) r.head[OF_Q + t] = gdn_mul(gam, own.left[SIDE_Q][t]);
    r.head[OF_END + t] = gdn_decay_of_steps(end - G);
    if (t == TOKENS - 1) r.head[OF_GAM] = gam;
    r.head[OF_G + t] = g;
}

// A and P of a value head, of the products.
GDN_INLINE void make_decayed(const Span &at, const Record &r, const Prepared &own,
                             const float (&product)[TOKENS / 8][4])
{
    const int side = warp() / 2, tile = warp() % 2;
#pragma unroll
    for (int n = 0; n < TOKENS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int t = 16 * tile + row_of(i), s = 8 * n + column_of(i);
            if (t < at.n_logged || t >= at.n || s > t || (side == SIDE_R && s == t)) continue;
            const float decay = gdn_decay_of_steps(own.G[t] - own.G[s]);
            const float x = side == SIDE_R ? gdn_mul(product[n][i], own.beta[t]) : product[n][i];
            r.head[(side == SIDE_R ? OF_A : OF_P) + s * TOKENS + t] = gdn_mul(x, decay);
        }
}

template <class SUM, int DIGITS>
GDN_INLINE void prepare_chunk(const gdn_cuda_chunked_call &c, Item &w, const Span &at, int i, Prepared &own)
{
    const gdn_gated_delta_net_call &p = c.call;
    const Record r = record_of(c, w, i);
    float product[TOKENS / 8][4];
    for (int t = warp(); t < at.n; t += GDN_CUDA_CHUNKED_WARPS) make_rows<DIGITS>(c, w, at, r, t, own);
    __syncthreads();
    if (is_whole(at))
        for (int key = (int)threadIdx.x; key < w.n_keys; key += THREADS) transpose<DIGITS>(c, r, key, own);
    if (has_tokens(at)) multiply_keys<SUM, DIGITS>(c, w, at, r, own, product);
    for (int u = 0; u < p.heads_per_key; u++) {
        w.h = p.head_map == GDN_HEADS_TILED ? w.kappa + u * p.n_heads_k : w.kappa * p.heads_per_key + u;
        const Record head = record_of(c, w, i);
        if (warp() == 0) make_gates(p, w, at, head, own);
        __syncthreads();
        if (has_tokens(at)) make_decayed(at, head, own, product);
        __syncthreads();
    }
}

template <class SUM, int DIGITS> GDN_INLINE void prepare(const gdn_cuda_chunked_call &c, Prepared &own)
{
    const gdn_gated_delta_net_call &p = c.call;
    const int first_head = p.head_map == GDN_HEADS_TILED ? (int)blockIdx.y : (int)blockIdx.y * p.heads_per_key;
    Item w;
    if (!find_sequence(p, Chunked(), (int)blockIdx.x, first_head, w) || !gdn_has_work(w.seq)) return;
    const int n = w.seq.position - w.seq.base_position + w.seq.T;
    for (int i = (int)blockIdx.z; i <= (n - 1) / TOKENS; i += c.parts) {
        const Span at = span_of(w.seq, w.seq.base_position + TOKENS * i);
        if (has_tokens(at) || is_whole(at)) prepare_chunk<SUM, DIGITS>(c, w, at, i, own);
    }
}

} // namespace chunked

#endif
