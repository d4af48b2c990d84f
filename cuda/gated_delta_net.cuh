// gated_delta_net: code that decode (gated_delta_net.cu) and prefill (gated_delta_net_tiles.cuh) share. It maps warps
// to heads, computes the addresses of operands, and loads and stores rows and states.
#ifndef GDN_CUDA_GATED_DELTA_NET_CUH
#define GDN_CUDA_GATED_DELTA_NET_CUH

#include "cuda/kernel.cuh"
#include "call/gated_delta_net.h"
#include "numerics/prepare.h"

#define FUNCTION     template <class X> GDN_INLINE
#define CALL         const gdn_gated_delta_net_call &p, X,
#define PASS         p, X(),
#define WITH_LOG     has_log<X>(p)
#define WITH_TREE    has_tree<X>(p)
#define WITH_CHANNEL X::CHANNEL
#define WITH_STATE16 X::STATE16

// Compile-time properties of a kernel. NB is exact unless GENERAL: then it is the most blocks of 32 keys, and
// head_dim_k, the alignment of rows and their type are arbitrary.
template <int NB_, int C_, bool CHANNEL_, bool GENERAL_, bool TREE_ = false, bool STATE16_ = false, bool LOG_ = true>
struct Shape {
    static constexpr int NB = NB_;            // blocks of 32 keys
    static constexpr int C = C_;              // value channels of eight lanes: 1, 2 or 4
    static constexpr bool CHANNEL = CHANNEL_; // a gate per key channel
    static constexpr bool GENERAL = GENERAL_;
    static constexpr bool TREE = TREE_;                     // the call's tokens may be a tree
    static constexpr bool STATE16 = STATE16_;               // 16-bit states
    static constexpr bool LOG = LOG_;                       // the call may have a log
    static constexpr int BYTES = STATE16 ? 2 : 4;           // of an element of a state
    static constexpr int VALUES = GDN_CUDA_DELTA_VALUES(C); // value channels of a thread block
};

// The general kernels run calls with a tree and without.
template <class X> GDN_INLINE bool has_tree(const gdn_gated_delta_net_call &p)
{
    return X::TREE && (!X::GENERAL || (p.has & GDN_HAS_TREE));
}
template <class X> GDN_INLINE bool has_log(const gdn_gated_delta_net_call &p) { return X::LOG && p.log.n_slots != 0; }

#include "call/sequence.h"
#undef FUNCTION
#undef CALL
#undef PASS
#undef WITH_LOG
#undef WITH_TREE
#undef WITH_CHANNEL
#undef WITH_STATE16

// This warp's part of the work, as far as it does not change from token to token: a sequence, a head, value channels.
struct Item : gdn_sequence {
    int h, kappa;  // value head, key head
    int l;         // lane of the eight
    int j, values; // first value channel of the eight lanes, how many of the C exist
    int n_keys;
};

// Which sequences a thread block processes, and its first value channel of the head. TILES: sequences of more than
// GDN_CUDA_FEW_TOKENS tokens that neither have a log row nor commit. ROWS: the others.
struct Share {
    enum { ALL, TILES, ROWS } of;
    int value;
};

// LANES lanes share value channels. lane() is a thread's number among them, group() the number of its lane group in the
// block. With 16 lanes, two threads whose numbers differ only in the lowest bit have the same keys of different
// channels. If all such pairs of a warp load the same 16 bytes of shared memory, devices of compute capability 7.0 to
// 7.5 need two requests instead of four.
template <int LANES> struct Lanes {
    static __device__ __forceinline__ constexpr int lane(int thread)
    {
        return LANES == 16 ? thread / 2 % 16 : thread % LANES;
    }
    static __device__ __forceinline__ constexpr int group(int thread)
    {
        return LANES == 16 ? thread / 32 * 2 + thread % 2 : thread / LANES;
    }
};

// Fills the item. False, for the whole block, if there is nothing to do: a sequence of another share, padding, no
// tokens and no commit, or a bad map, which is reported. Each eight of the LANES have X::C value channels, side by
// side.
template <class X, int LANES = 8> GDN_INLINE bool find_item(const gdn_gated_delta_net_call &p, Item &at, Share share)
{
    (gdn_sequence &)at = gdn_sequence_of(p, X(), (int)blockIdx.x);
    at.h = (int)blockIdx.y;
    if (at.bad >= 0) {
        report(p.bad, at.bad);
        return false;
    }
    (void)reported(p.bad, GDN_BAD_COMMIT, at.commit);
    const bool many = at.T > GDN_CUDA_FEW_TOKENS && at.row < 0 && at.commit < 0;
    if (share.of != Share::ALL && (share.of == Share::TILES) != many) return false;
    if (has_tree<X>(p) && at.src != GDN_SKIP && !is_tree(p.parent, at.first, at.T, p.bad)) return false;
    at.kappa = gdn_key_head(p, X(), at.h);
    constexpr int values = X::C * LANES / 8;
    at.l = Lanes<LANES>::lane((int)threadIdx.x);
    at.j = share.value + Lanes<LANES>::group((int)threadIdx.x) * values;
    at.values = p.head_dim_v - at.j < values ? p.head_dim_v - at.j : values;
    at.values = at.values < 0 ? 0 : at.values;
    at.n_keys = X::GENERAL ? p.head_dim_k : 32 * X::NB;
    return gdn_has_work(at);
}

// The address of the sequence's first token.
GDN_INLINE char *token_at(const gdn_token_view &view, const Item &at, int head)
{
    const int64_t stride = view.stride_seq ? view.stride_seq : view.stride_token;
    return view.data + (uint64_t)(head * view.stride_head + (view.stride_seq ? at.s : at.first) * stride);
}

GDN_INLINE char *state_at(const gdn_pool_view &pool, int entry, int n_slots, int head)
{
    int row = entry, slot = 0;
    if (n_slots != 1) row = entry / n_slots, slot = entry % n_slots; // the division would delay the common case
    return pool.data + (uint64_t)(row * pool.stride_row + slot * pool.stride_slot + head * pool.stride_head);
}

// The entries for the state after token t, or a negative number.
template <class X> GDN_INLINE int snapshot_of(const gdn_gated_delta_net_call &p, const Item &at, int t)
{
    return reported(p.bad, GDN_BAD_STATE_DST, gdn_snapshot_of(p, X(), at, t));
}
template <class X> GDN_INLINE int checkpoint_of(const gdn_gated_delta_net_call &p, const Item &at, int t)
{
    return reported(p.bad, GDN_BAD_STATE_CHECKPOINT, gdn_checkpoint_of(p, X(), at.s, t));
}

// read_raw() loads an element's bits; widen_raw() converts them to F32.
GDN_INLINE float read_raw(uint64_t at, int dtype) { return gdn_from_bits(read_bits(at, dtype)); }
GDN_INLINE float widen_raw(float raw, int dtype) { return widen(gdn_bits(raw), dtype); }

// Loads elements i .. i + 3 of a row of q, k, g or dt_bias without conversion; those beyond the head are 0. Two 16-bit
// elements share a word, except in general kernels, where each has its own.
template <class X> GDN_INLINE float4 read_row(const char *at, int dtype, int i, int n_keys)
{
    const uint64_t row = (uint64_t)at;
    if (!X::GENERAL) { // two loads into different registers: into the same ones, one would wait for the other
        const uint2 *const from = (const uint2 *)(row + (uint64_t)(i * element_bytes(dtype)));
        const uint2 x = __ldg(from);
        uint2 rest = make_uint2(0, 0);
        if (dtype == GDN_F32) rest = __ldg(from + 1);
        return make_float4(gdn_from_bits(x.x), gdn_from_bits(x.y), gdn_from_bits(rest.x), gdn_from_bits(rest.y));
    }
    const uint64_t bytes = (uint64_t)element_bytes(dtype);
    float4 x = zero4();
    if (i < n_keys) x.x = read_raw(row + bytes * (uint64_t)i, dtype);
    if (i + 1 < n_keys) x.y = read_raw(row + bytes * (uint64_t)(i + 1), dtype);
    if (i + 2 < n_keys) x.z = read_raw(row + bytes * (uint64_t)(i + 2), dtype);
    if (i + 3 < n_keys) x.w = read_raw(row + bytes * (uint64_t)(i + 3), dtype);
    return x;
}

// Converts the result of read_row() to F32.
template <class X> GDN_INLINE float4 widen_row(float4 raw, int dtype)
{
    if (dtype == GDN_F32) return raw;
    const uint32_t x = gdn_bits(raw.x), y = gdn_bits(raw.y);
    if (!X::GENERAL)
        return make_float4(from_16bit(x & 0xffffu, dtype), from_16bit(x >> 16, dtype), from_16bit(y & 0xffffu, dtype),
                           from_16bit(y >> 16, dtype));
    return make_float4(from_16bit(x, dtype), from_16bit(y, dtype), from_16bit(gdn_bits(raw.z), dtype),
                       from_16bit(gdn_bits(raw.w), dtype));
}

// 1 if the call has all that a model's layer needs: raw gates, logits, normalised q and k. Code specialised for it
// (ALL) has no branches. So the independent chains of exp, softplus and square root overlap.
template <class X> GDN_INLINE bool does_all(const gdn_gated_delta_net_call &p)
{
    constexpr bool KNOWS = !(X::CHANNEL && X::C < 4); // kernels with few channels lack registers for both paths
    return KNOWS && p.qk_norm && p.beta_input == GDN_BETA_LOGIT && p.gate_input != GDN_G_LOG &&
           p.gate_input != GDN_G_LINEAR && p.gate_input != GDN_G_BOUNDED;
}

// 0: prepare, beta
template <bool ALL = false> GDN_INLINE float delta_factor(const gdn_gated_delta_net_call &p, float x)
{
    return __fmul_rn(p.beta_factor, ALL || p.beta_input == GDN_BETA_LOGIT ? gdn_sigmoid(x) : x);
}

// read_rate() and read_bias() load what the raw gates of a head's tokens share, without conversion; 0 for other g_form.
GDN_INLINE float read_rate(const gdn_gated_delta_net_call &p, const Item &at)
{
    if (!p.ssm_a.data) return 0.0f;
    return read_raw((uint64_t)p.ssm_a.data + (uint64_t)(at.h * p.ssm_a.stride_head), p.ssm_a.dtype);
}
template <class X> GDN_INLINE float4 read_bias(const gdn_gated_delta_net_call &p, const Item &at, int i)
{
    if (!p.dt_bias.data) return zero4();
    const char *row = p.dt_bias.data + (uint64_t)(at.h * p.dt_bias.stride_head);
    return X::CHANNEL ? read_row<X>(row, p.dt_bias.dtype, i, at.n_keys)
                      : make_float4(read_raw((uint64_t)row, p.dt_bias.dtype), 0.0f, 0.0f, 0.0f);
}

// gate_rate() and gate_bias() convert them to F32. Kernels call them after all loads are issued.
GDN_INLINE float gate_rate(const gdn_gated_delta_net_call &p, float raw)
{
    if (!p.ssm_a.data) return 1.0f; // a bounded gate without A_log
    const float A = widen(gdn_bits(raw), p.ssm_a.dtype);
    return p.gate_input == GDN_G_RAW_A_LOG ? -gdn_expf(A) : p.gate_input == GDN_G_BOUNDED ? gdn_expf(A) : A;
}
template <class X> GDN_INLINE float4 gate_bias(const gdn_gated_delta_net_call &p, float4 raw)
{
    if (!p.dt_bias.data) return zero4();
    return X::CHANNEL ? widen_row<X>(raw, p.dt_bias.dtype) : all4(widen(gdn_bits(raw.x), p.dt_bias.dtype));
}

// 2: decay, of one element of g or of four
GDN_INLINE float4 gdn_raw_gate(float4 g, float rate, float4 bias)
{
    return make_float4(gdn_raw_gate(g.x, rate, bias.x), gdn_raw_gate(g.y, rate, bias.y),
                       gdn_raw_gate(g.z, rate, bias.z), gdn_raw_gate(g.w, rate, bias.w));
}
GDN_INLINE float4 gdn_bounded_gate(float4 g, float rate, float4 bias, float bound)
{
    return make_float4(gdn_bounded_gate(g.x, rate, bias.x, bound), gdn_bounded_gate(g.y, rate, bias.y, bound),
                       gdn_bounded_gate(g.z, rate, bias.z, bound), gdn_bounded_gate(g.w, rate, bias.w, bound));
}
GDN_INLINE float4 gdn_expf(float4 x) { return make_float4(gdn_expf(x.x), gdn_expf(x.y), gdn_expf(x.z), gdn_expf(x.w)); }
template <bool ALL = false, class Gate>
GDN_INLINE Gate decay_of(const gdn_gated_delta_net_call &p, Gate g, float rate, Gate bias)
{
    if (!ALL && p.gate_input == GDN_G_LINEAR) return g;
    if (!ALL && p.gate_input == GDN_G_BOUNDED) return gdn_expf(gdn_bounded_gate(g, rate, bias, p.lower_bound));
    return gdn_expf(ALL || p.gate_input != GDN_G_LOG ? gdn_raw_gate(g, rate, bias) : g);
}

// One step of four partial sums, of the keys i, i + step, ... Sums of keys that do not exist are left unchanged: fma(0,
// 0, -0) would be +0.
template <class X> GDN_INLINE float4 sum_step(float4 x, float4 y, float4 sum, int i, int step, int n_keys)
{
    const float4 next = fma4(x, y, sum);
    if (!X::GENERAL) return next;
    return make_float4(i < n_keys ? next.x : sum.x, i + step < n_keys ? next.y : sum.y,
                       i + 2 * step < n_keys ? next.z : sum.z, i + 3 * step < n_keys ? next.w : sum.w);
}

// Only general kernels support a read key: the others lack the registers.
template <class X> GDN_INLINE bool has_read_key(const gdn_gated_delta_net_call &p)
{
    return X::GENERAL && p.read_key.data;
}

// 3: the address of token t's read key. It is recomputed at each use, so that no register holds it.
template <class X> GDN_INLINE const char *read_key_at(const gdn_gated_delta_net_call &p, int t)
{
    Item w;
    w.s = here((int)blockIdx.x);
    w.h = here((int)blockIdx.y);
    w.first = gdn_first_of(p, X(), w.s);
    return token_at(p.read_key, w, gdn_key_head(p, X(), w.h)) + (uint64_t)(t * p.read_key.stride_token);
}

// 3: the keys of block m, for all value channels.
template <class X>
GDN_INLINE void read_step(const Item &w, int m, float4 key, const float4 (&decay)[X::CHANNEL ? X::NB : 1],
                          const float4 (&S)[X::NB][X::C], float4 (&sum)[X::C])
{
    const float4 with = X::CHANNEL ? mul4(decay[X::CHANNEL ? m : 0], key) : key;
#pragma unroll
    for (int c = 0; c < X::C; c++) sum[c] = sum_step<X>(S[m][c], with, sum[c], 32 * m + 4 * w.l, 1, w.n_keys);
}

// Converts all of a row. here() hides the second comparison from the compiler, which would make a jump table of both.
template <class X, int N> GDN_INLINE void widen_rows(float4 (&x)[N], int dtype)
{
    if (dtype == GDN_F32) return;
    if (here(dtype) == GDN_F16) {
#pragma unroll
        for (int n = 0; n < N; n++) x[n] = widen_row<X>(x[n], GDN_F16);
    } else {
#pragma unroll
        for (int n = 0; n < N; n++) x[n] = widen_row<X>(x[n], GDN_BF16);
    }
}

// value_of_lane(): the channel whose sum fold() leaves in lane l. lane_of_value(): the first lane with that of c.
template <int C> GDN_INLINE int value_of_lane(int l) { return C == 4 ? l >> 1 : C == 2 ? l >> 2 : 0; }
template <int C> GDN_INLINE int lane_of_value(int c) { return 8 / C * c; }

// The dot32 tree over the channels' partial sums. Where a step pairs lanes and there are several channels, each lane
// continues with half of them.
template <int C> GDN_INLINE float fold(const float4 (&partial)[C], int l)
{
    const bool upper = (l & 4) != 0, right = (l & 2) != 0;
    float4 a, b, c;
    if (C == 4) { // h = 16, h = 8
        a = add4(upper ? partial[C / 2] : partial[0], exchange4(upper ? partial[0] : partial[C / 2], 4));
        b = add4(upper ? partial[C - 1] : partial[C / 4], exchange4(upper ? partial[C / 4] : partial[C - 1], 4));
        c = add4(right ? b : a, exchange4(right ? a : b, 2));
    } else {
        a = add4(upper ? partial[C - 1] : partial[0], exchange4(upper ? partial[0] : partial[C - 1], 4));
        c = add4(a, exchange4(a, 2));
    }
    const float4 s = add4(c, exchange4(c, 1));                  // h = 4
    return __fadd_rn(__fadd_rn(s.x, s.z), __fadd_rn(s.y, s.w)); // h = 2, 1
}

// S' = fma(k, d, a S), the product rounded first.
GDN_INLINE float4 update(float4 state, float4 k, float d, float4 a) { return fma4(k, all4(d), mul4(a, state)); }

#endif
