// gated_delta_net, tiles, for heads of 64 and 128 without a log, with states of F32: as gated_delta_net_tiles.cuh,
// whose numbers it gives, but ordered so that as little as possible stands in the chain from token to token, which is
// what a prefill waits for.
//
// Sixteen lanes hold 2 C value columns. Lane l has the keys l and l + 16 of each 32, which are two of dot32's partial
// sums: of its five steps h = 16 stays within a lane, and h = 8, 4, 2, 1 exchange with the lanes l^8, l^4, l^2, l^1. Of
// eight lanes each would load twice as many keys from shared memory, which a warp does not get faster if its lanes ask
// for the same; of 32 there would be more exchanges.
//
// A step that exchanges halves the columns of which a lane has sums, as long as there are several. Register c of a lane
// has column c ^ number(l), so that the lanes that differ in a step's bit give one another the upper half of their
// registers and keep the lower half, without choosing. At the end each lane has the kv of one column; it makes that
// one's delta, and gets the others' with one exchange each.
//
// While the exchanges are under way, the state is decayed, the output sums of the token before are made, and the next
// token's key is loaded. Compilers would put much of that behind the exchanges: behind() says what has to stand before
// which, found by trying. Tokens are taken in pairs, whose keys take turns in registers.
//
// Elements of F32 are copied to shared memory as they are, without registers, 32 neighbours by a warp, to 32 banks; on
// sm_75, which has no such copies, the compiler makes loads and stores of them. A row of 16-bit elements is copied to
// the first half of its place, and spread from there by the warp that has copied it, once it has come. The same warp
// normalises its rows.
#ifndef GDN_CUDA_GATED_DELTA_NET_AHEAD_CUH
#define GDN_CUDA_GATED_DELTA_NET_AHEAD_CUH

#include "cuda/gated_delta_net_tiles.cuh"

// Of the 2 NB keys of a row that a lane has, four that it loads at once. The i-th is key 32 (i % NB) + 16 (i / NB) + l.
struct alignas(16) Quad {
    float of[4];
};

// Of a token; the decay is elsewhere where there is a gate per channel.
struct alignas(8) Factors {
    float beta, decay;
};

// Tokens in shared memory.
template <class X> struct Strip {
    static constexpr int TOKENS = X::CHANNEL ? 8 : 16;
    typedef Quad Row[8 * X::NB]; // lane l loads quads l, 16 + l, ...
    // Behind the last key there is room for one that is loaded, and that nobody looks at.
    Row     k[TOKENS + 1], q[TOKENS], decays[X::CHANNEL ? TOKENS : 1];
    Factors factors[TOKENS];
    float   v[TOKENS][X::COLUMNS];
};

// A warp copies a row in NB turns, of which each takes eight quads, 32 banks: this lane's element, and its key, which
// lies beside those of the seven lanes next to it.
template <class X> struct Turn {
    static __device__ __forceinline__ float *element(Quad *row, int turn, int lane)
    {
        return &row[8 * turn + lane % 8].of[lane / 8];
    }
    static __device__ __forceinline__ int key(int turn, int lane)
    {
        const int i = lane / 8;
        return 8 * turn + 32 * (i % X::NB) + 16 * (i / X::NB) + lane % 8;
    }
};

GDN_INLINE void copy_async(void *to, const char *from)
{
    __pipeline_memcpy_async(to, from, 4);
}

// Elements of 16 bits as they are copied, at the beginning of a row of floats.
GDN_INLINE unsigned short *halves_of(void *row)
{
    return (unsigned short *)row;
}

// This lane's elements of a row of k, q or g on their way, `from` in memory: of F32, or of 16 bits, four side by side.
template <class X> GDN_INLINE void copy_row(Quad *row, const char *from, int dtype, int lane)
{
    if (type_of<X>(dtype) == GDN_GPU_F32) {
#pragma unroll
        for (int m = 0; m < X::NB; m++) // eight keys further
            copy_async(Turn<X>::element(row, m, lane), from + 32 * m);
    } else if (lane < 8 * X::NB) {
        __pipeline_memcpy_async(halves_of(row) + 4 * lane, from, 8);
    }
}
// Where they lie in a row.
template <class X> GDN_INLINE int bytes_of_lane(int dtype, int lane)
{
    return type_of<X>(dtype) == GDN_GPU_F32 ? 4 * Turn<X>::key(0, lane) : 8 * lane;
}

// A row of 16-bit elements that has come: this lane's of each turn, and to where such an element of F32 would lie.
template <class X> GDN_INLINE void take_halves(Quad *row, int lane, uint32_t (&x)[X::NB])
{
#pragma unroll
    for (int m = 0; m < X::NB; m++)
        x[m] = halves_of(row)[Turn<X>::key(m, lane)];
}
template <class X> GDN_INLINE void spread_halves(Quad *row, int lane, const uint32_t (&x)[X::NB], int dtype)
{
    if (dtype == GDN_GPU_F16) {
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            *Turn<X>::element(row, m, lane) = from_f16(x[m]);
    } else {
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            *Turn<X>::element(row, m, lane) = from_bf16(x[m]);
    }
}

// 0: prepare, a row of q or k, of which this lane, l of eight, has every eighth residue of 32. All lanes of a warp come
// here.
template <class X> GDN_INLINE void normalise_keys(const gdn_gpu_gated_delta_net &p, Quad *row, int l)
{
    Quad  x[X::NB];
    float squares[4] = {};
#pragma unroll
    for (int n = 0; n < X::NB; n++) {
        x[n] = row[8 * n + l];
#pragma unroll
        for (int w = 0; w < 4; w++) {
            float &sum = squares[n % 2 + (4 * (n / 2) + w) / X::NB * 2];
            sum = __fmaf_rn(x[n].of[w], x[n].of[w], sum);
        }
    }
    float sum = fold_lane(make_float4(squares[0], squares[1], squares[2], squares[3]));
#pragma unroll
    for (int h = 4; h; h /= 2)
        sum = __fadd_rn(sum, exchange(sum, h));
    const float factor = gdn_norm_factor(sum, p.norm_add, p.norm_most);
#pragma unroll
    for (int n = 0; n < X::NB; n++) {
#pragma unroll
        for (int w = 0; w < 4; w++)
            x[n].of[w] = __fmul_rn(x[n].of[w], factor);
        row[8 * n + l] = x[n];
    }
}

// A strip on its way from memory to shared memory. Each warp has tokens of its own. Pointers are to the next strip.
template <class X> struct Copying {
    static constexpr int TOKENS = Strip<X>::TOKENS, EACH = TOKENS / GDN_CUDA_DELTA_WARPS;
    static constexpr int N_V = TOKENS * X::COLUMNS / (32 * GDN_CUDA_DELTA_WARPS), V_TOKENS = TOKENS / N_V;
    const char *k_at, *q_at, *v_at, *g_at, *beta_at;
    bool has_v; // this thread has a column
    // Where types are known per launch: beta and the gate of one token, as they lie in memory; of raw gates, what a
    // head's tokens share.
    float beta, g, rate, bias[X::CHANNEL ? X::NB : 1];
    static_assert(TOKENS % GDN_CUDA_DELTA_WARPS == 0 && TOKENS % N_V == 0, "each thread has as much");
    static_assert(32 % X::COLUMNS == 0, "a row of v is a warp's");

    __device__ __forceinline__ void begin(const gdn_gpu_gated_delta_net &p, const Item &w)
    {
        const int me = (int)threadIdx.x, lane = me % 32, first = me / 32 * EACH;
        const int column = w.j - Lanes<16>::group(me) * (2 * X::C) + me % X::COLUMNS;
        const int own = me % TOKENS;
        has_v = column < p.head_dim_v;
        k_at = token_at(p.k, w, w.kappa) + (uint64_t)(first * p.k.token + bytes_of_lane<X>(p.k_dtype, lane));
        q_at = token_at(p.q, w, w.kappa) + (uint64_t)(first * p.q.token + bytes_of_lane<X>(p.q_dtype, lane));
        v_at = token_at(p.v, w, w.h) +
               (uint64_t)(me / X::COLUMNS * p.v.token + element_bytes(type_of<X>(p.v_dtype)) * column);
        g_at = token_at(p.g, w, w.h) +
               (uint64_t)(X::CHANNEL ? first * p.g.token + bytes_of_lane<X>(p.g_dtype, lane) : own * p.g.token);
        beta_at = token_at(p.beta, w, w.h) + (uint64_t)(own * p.beta.token);
        beta = g = 0.0f;
        rate = read_rate<X>(p, w);
        read_biases(p.dt_bias.base ? (uint64_t)p.dt_bias.base + (uint64_t)(w.h * p.dt_bias.head) : 0, p.dt_bias_dtype,
                    lane);
    }
    // As they lie in memory; the type is asked for once, so that no load waits for another.
    __device__ __forceinline__ void read_biases(uint64_t from, int dtype, int lane)
    {
        constexpr int N = X::CHANNEL ? X::NB : 1;
        const bool there = X::TYPED && from;
        if (there && dtype == GDN_GPU_F32) {
#pragma unroll
            for (int m = 0; m < N; m++)
                bias[m] = read_raw(from + (uint64_t)(X::CHANNEL ? 4 * Turn<X>::key(m, lane) : 0), GDN_GPU_F32);
        } else {
#pragma unroll
            for (int m = 0; m < N; m++)
                bias[m] = there ? read_raw(from + (uint64_t)(X::CHANNEL ? 2 * Turn<X>::key(m, lane) : 0), GDN_GPU_F16)
                                : 0.0f;
        }
    }
    // Behind the loads of the state.
    __device__ __forceinline__ void widen_gates(const gdn_gpu_gated_delta_net &p)
    {
        rate = gate_rate<X>(p, rate);
#pragma unroll
        for (int m = 0; m < (X::CHANNEL ? X::NB : 1); m++)
            bias[m] = X::TYPED && p.dt_bias.base ? widen(gdn_bits(bias[m]), p.dt_bias_dtype) : 0.0f;
    }

    // Row u of those that this warp has, whose k, q and g lie there.
    __device__ __forceinline__ void copy_rows(const gdn_gpu_gated_delta_net &p, const char *k, const char *q_row,
                                              const char *gates, int u, Strip<X> &strip)
    {
        const int lane = (int)threadIdx.x % 32, t = (int)threadIdx.x / 32 * EACH + u;
        copy_row<X>(strip.k[t], k, p.k_dtype, lane);
        copy_row<X>(strip.q[t], q_row, p.q_dtype, lane);
        if (X::CHANNEL)
            copy_row<X>(strip.decays[X::CHANNEL ? t : 0], gates, p.g_dtype, lane);
    }
    // This thread's column of row t, which lies there; of 16 bits, two neighbours at once.
    __device__ __forceinline__ void copy_v(const gdn_gpu_gated_delta_net &p, const char *v, int t,
                                           Strip<X> &strip)
    {
        const int column = (int)threadIdx.x % X::COLUMNS;
        if (type_of<X>(p.v_dtype) == GDN_GPU_F32)
            copy_async(&strip.v[t][column], v);
        else if (column % 2 == 0)
            copy_async(halves_of(strip.v[t]) + column, v);
    }
    __device__ __forceinline__ void copy_gates(const gdn_gpu_gated_delta_net &p, int t, Strip<X> &strip)
    {
        if (X::TYPED) {
            beta = read_raw((uint64_t)beta_at, p.beta_dtype);
            if (!X::CHANNEL)
                g = read_raw((uint64_t)g_at, p.g_dtype);
            return;
        }
        copy_async(&strip.factors[t].beta, beta_at);
        if (!X::CHANNEL)
            copy_async(&strip.factors[t].decay, g_at);
    }

    __device__ __forceinline__ void start(const gdn_gpu_gated_delta_net &p, const Item &w, int t0, Strip<X> &strip)
    {
        const int me = (int)threadIdx.x, left = w.T - t0;
        const char *k = k_at, *q = q_at, *gates = g_at, *v = v_at;
        if (left >= TOKENS) {
#pragma unroll
            for (int u = 0; u < EACH; u++) {
                copy_rows(p, k, q, gates, u, strip);
                k += p.k.token, q += p.q.token, gates += X::CHANNEL ? p.g.token : 0;
            }
            if (has_v)
#pragma unroll
                for (int u = 0; u < N_V; u++, v += V_TOKENS * p.v.token)
                    copy_v(p, v, me / X::COLUMNS + u * V_TOKENS, strip);
            if (me < TOKENS)
                copy_gates(p, me, strip);
        } else { // what nobody waits for, in the fewest instructions
#pragma unroll 1
            for (int u = 0; u < EACH; u++) {
                if (me / 32 * EACH + u < left)
                    copy_rows(p, k, q, gates, u, strip);
                k += p.k.token, q += p.q.token, gates += X::CHANNEL ? p.g.token : 0;
            }
#pragma unroll 1
            for (int u = 0; u < N_V; u++, v += V_TOKENS * p.v.token)
                if (has_v && me / X::COLUMNS + u * V_TOKENS < left)
                    copy_v(p, v, me / X::COLUMNS + u * V_TOKENS, strip);
            if (me < left)
                copy_gates(p, me, strip);
        }
        __pipeline_commit();
        k_at += TOKENS * p.k.token;
        q_at += TOKENS * p.q.token;
        v_at += TOKENS * p.v.token;
        g_at += TOKENS * p.g.token;
        beta_at += TOKENS * p.beta.token;
    }

    // Elements of 16 bits, of what this warp has copied, to their places. All of a row is taken before any is written.
    __device__ __forceinline__ void spread(const gdn_gpu_gated_delta_net &p, int first, int lane, Strip<X> &strip)
    {
        const bool of_k = p.k_dtype != GDN_GPU_F32, of_q = p.q_dtype != GDN_GPU_F32, of_v = p.v_dtype != GDN_GPU_F32;
        const bool of_g = X::CHANNEL && p.g_dtype != GDN_GPU_F32;
        uint32_t k[EACH][X::NB], q[EACH][X::NB], gates[X::CHANNEL ? EACH : 1][X::NB], v[N_V];
        const int row = (int)threadIdx.x / X::COLUMNS, column = (int)threadIdx.x % X::COLUMNS;
        __syncwarp(); // the copies of all lanes have come
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            if (of_k)
                take_halves<X>(strip.k[first + u], lane, k[u]);
            if (of_q)
                take_halves<X>(strip.q[first + u], lane, q[u]);
            if (of_g)
                take_halves<X>(strip.decays[X::CHANNEL ? first + u : 0], lane, gates[X::CHANNEL ? u : 0]);
        }
#pragma unroll
        for (int u = 0; u < N_V; u++)
            if (of_v)
                v[u] = halves_of(strip.v[row + u * V_TOKENS])[column];
        __syncwarp();
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            if (of_k)
                spread_halves<X>(strip.k[first + u], lane, k[u], p.k_dtype);
            if (of_q)
                spread_halves<X>(strip.q[first + u], lane, q[u], p.q_dtype);
            if (of_g)
                spread_halves<X>(strip.decays[X::CHANNEL ? first + u : 0], lane, gates[X::CHANNEL ? u : 0], p.g_dtype);
        }
#pragma unroll
        for (int u = 0; u < N_V; u++)
            if (of_v)
                strip.v[row + u * V_TOKENS][column] = from_half(v[u], p.v_dtype);
    }

    // 0: prepare, q and k, of this warp's tokens: eight lanes have a row, as in prepare_keys().
    __device__ __forceinline__ void normalise(const gdn_gpu_gated_delta_net &p, int first, int lane,
                                              Strip<X> &strip)
    {
        const int l = lane % 8;
        __syncwarp();
#pragma unroll
        for (int r = lane / 8; r < 2 * EACH; r += 4)
            normalise_keys<X>(p, r < EACH ? strip.k[first + r] : strip.q[first + r - EACH], l);
    }

    // The strip is there for this thread. 0: prepare and 2: decay, of what its warp has copied itself; of tokens that
    // are not there these are numbers that nobody reads.
    __device__ __forceinline__ void finish(const gdn_gpu_gated_delta_net &p, Strip<X> &strip)
    {
        const int me = (int)threadIdx.x, lane = me % 32, first = me / 32 * EACH;
        __pipeline_wait_prior(0);
        if (X::TYPED && (p.k_dtype | p.q_dtype | p.v_dtype | (X::CHANNEL ? p.g_dtype : 0)) != GDN_GPU_F32)
            spread(p, first, lane, strip);
        if (normalises<X>(p))
            normalise(p, first, lane, strip);
        if (X::TYPED && me < TOKENS)
            strip.factors[me].beta = delta_factor<X>(p, widen(gdn_bits(beta), p.beta_dtype));
        if (!X::CHANNEL && me < TOKENS)
            strip.factors[me].decay =
                decay_of<X>(p, X::TYPED ? widen(gdn_bits(g), p.g_dtype) : strip.factors[me].decay, rate, bias[0]);
#pragma unroll
        for (int u = 0; X::CHANNEL && u < EACH; u++)
#pragma unroll
            for (int m = 0; m < X::NB; m++) {
                float *at = Turn<X>::element(strip.decays[X::CHANNEL ? first + u : 0], m, lane);
                *at = decay_of<X>(p, *at, rate, bias[X::CHANNEL ? m : 0]);
            }
    }
};

// The lanes that have a head's columns together, how many columns, how many of the lanes end with the sums of one, and
// which number that one has among the columns.
template <class X> struct Group {
    static constexpr int LANES = 16, N = 2 * X::C, OF_ONE = LANES / N;
    static __device__ __forceinline__ int number(int l) { return l / OF_ONE; }
};

// A lane's part of a row, and of its columns.
template <class X> struct Lane {
    Quad quads[X::NB / 2];
    __device__ __forceinline__ float key(int i) const { return quads[i / 4].of[i % 4]; }
};
template <class X> using State = float[2 * X::NB][Group<X>::N]; // of key(i), of column c ^ number(l)

template <class X> GDN_INLINE Lane<X> load_lane(const typename Strip<X>::Row &row, int l)
{
    Lane<X> lane;
#pragma unroll
    for (int n = 0; n < X::NB / 2; n++)
        lane.quads[n] = row[16 * n + l];
    return lane;
}

// A state's elements that this lane has, where they lie in a head of a pool.
template <class X, class Each>
GDN_INLINE void each_element(const gdn_gpu_pool &pool, bool key_major, char *head, const Item &w, Each each)
{
#pragma unroll
    for (int i = 0; i < 2 * X::NB; i++)
#pragma unroll
        for (int c = 0; c < Group<X>::N; c++) {
            const int key = 32 * (i % X::NB) + 16 * (i / X::NB) + w.l, column = c ^ Group<X>::number(w.l);
            if (column < w.columns)
                each(i, c, element_at<X>(pool, key_major, head, w.j + column, key));
        }
}

// x and y are columns of one lane: x = x f, and z = z + x f.
template <int N> GDN_INLINE void mul_columns(float (&x)[N], float f)
{
#pragma unroll
    for (int c = 0; c < N; c += 2)
        take_pair(mul_pair(pair_of(x[c], x[c + 1]), pair_of(f, f)), x[c], x[c + 1]);
}
template <int N> GDN_INLINE void fma_columns(float (&z)[N], const float (&x)[N], float f)
{
#pragma unroll
    for (int c = 0; c < N; c += 2)
        take_pair(fma_pair(pair_of(x[c], x[c + 1]), pair_of(f, f), pair_of(z[c], z[c + 1])), z[c], z[c + 1]);
}
template <int N> GDN_INLINE void add_columns(float (&x)[N], const float (&y)[N])
{
#pragma unroll
    for (int c = 0; c < N; c += 2)
        take_pair(add_pair(pair_of(x[c], x[c + 1]), pair_of(y[c], y[c + 1])), x[c], x[c + 1]);
}

// The mask of an exchange with lane l ^ h of the sixteen.
GDN_INLINE int mask_of(int h)
{
    return 2 * h;
}

// A mask for an exchange that is not known before all of x are; `zero` is 0, which no compiler can know. So what
// they come from stands before the exchange, and not behind all of them, where nothing else is left to be waited with.
// On sm_100 that would take more registers than three blocks leave, and gains little.
GDN_INLINE int behind(int mask, uint32_t)
{
    return mask;
}
template <class... More> GDN_INLINE int behind(int mask, uint32_t zero, float x, More... more)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ / 100 == 10
    return mask;
#else
    return behind(mask | (int)(gdn_bits(x) & zero), zero, more...);
#endif
}

// Step h of the tree, 8, 4, 2 or 1. Each of the first halves the columns that a lane has sums of.
template <int N> GDN_INLINE void fold_columns(float (&sum)[N], int h, int mask)
{
    const int n = N * h / 16; // columns that are left
    if (!n)
        sum[0] = __fadd_rn(sum[0], exchange(sum[0], mask));
#pragma unroll
    for (int c = 0; c < n; c++)
        sum[c] = __fadd_rn(sum[c], exchange(sum[n + c], mask));
}

// What goes from token to token.
template <class X> struct Running {
    State<X> S;
    Lane<X>  q;      // of the token before, whose output sums are still to be made
    char    *out_at; // where that token's outputs go
    int      out_type;
    bool     writes; // this lane has one of them, and there is a token before
    uint32_t zero;   // for behind()
};

// A lane's part of `with` times the state, and step h = 16.
template <class X> GDN_INLINE void sums_of(const Lane<X> &with, const State<X> &S, float (&sum)[Group<X>::N])
{
    float upper[Group<X>::N] = {};
#pragma unroll
    for (int c = 0; c < Group<X>::N; c++)
        sum[c] = 0.0f;
#pragma unroll
    for (int i = 0; i < X::NB; i++) {
        fma_columns(sum, S[i], with.key(i));
        fma_columns(upper, S[X::NB + i], with.key(X::NB + i));
    }
    add_columns(sum, upper);
}

// 2 to 6, of token u of the strip, whose key is k; the next one's is loaded. The output is that of the token before.
template <class X>
GDN_INLINE void take_token(const gdn_gpu_gated_delta_net &p, const Item &w, const Strip<X> &strip, int u, bool writes,
                           const Lane<X> &k, Lane<X> &next, Running<X> &at)
{
    constexpr int N = Group<X>::N;
    const uint32_t zero = at.zero;
    const Factors factors = strip.factors[u];
    const float  v = strip.v[u][Lanes<16>::group((int)threadIdx.x) * N + Group<X>::number(w.l)];
    Lane<X> decay, with = k;
    if (X::CHANNEL) {
        decay = load_lane<X>(strip.decays[u], w.l);
#pragma unroll
        for (int i = 0; i < 2 * X::NB; i++)
            with.quads[i / 4].of[i % 4] = __fmul_rn(decay.key(i), k.key(i));
    }
    next = load_lane<X>(strip.k[u + 1], w.l);
    const Lane<X> q = load_lane<X>(strip.q[u], w.l);
    float kv[N], o[N];
    sums_of<X>(with, at.S, kv); // 3
    fold_columns(kv, 8, mask_of(8));
    sums_of<X>(at.q, at.S, o); // 6, of the token before
    const float first = o[0];
    fold_columns(kv, 4, behind(mask_of(4), zero, q.key(X::NB), o[1], o[N - 1]));
    fold_columns(o, 8, mask_of(8));
#pragma unroll
    for (int i = 0; i < 2 * X::NB; i++)
        mul_columns(at.S[i], X::CHANNEL ? decay.key(i) : factors.decay);
    fold_columns(kv, 2, behind(mask_of(2), zero, next.key(0), at.S[2 * X::NB - 1][N - 1]));
    fold_columns(o, 4, behind(mask_of(4), zero, at.S[X::NB - 1][N - 1]));
    fold_columns(kv, 1, behind(mask_of(1), zero, next.key(X::NB)));
    fold_columns(o, 2, mask_of(2));
    const float read = X::CHANNEL ? kv[0] : __fmul_rn(factors.decay, kv[0]); // 4
    float d[N] = { __fmul_rn(factors.beta, __fsub_rn(v, read)) };
#pragma unroll
    for (int c = 1; c < N; c++)
        d[c] = exchange(d[0],
                        c < N - 1 ? mask_of(Group<X>::OF_ONE * c) : behind(mask_of(Group<X>::OF_ONE * c), zero, first));
    fold_columns(o, 1, mask_of(1));
    if (writes)
        store_element(at.out_at, __fmul_rn(p.scale, o[0]), at.out_type);
    at.out_at += p.result.token;
    at.q = q;
#pragma unroll
    for (int i = 0; i < 2 * X::NB; i++)
        fma_columns(at.S[i], d, k.key(i)); // 5: update
}

// Two strips, in shared memory.
template <class X>
GDN_INLINE void gated_delta_net_ahead(const gdn_gpu_gated_delta_net &p, Strip<X> *strips, Share share)
{
    static_assert(!X::LOG && !X::HALF && !X::GENERAL, "what the others are for");
    Item w;
    if (!find_item<X, Group<X>::LANES>(p, w, share))
        return; // the whole block
    w.T = __shfl_sync(GDN_FULL_WARP, w.T, 0); // it is the same anyway; so the compiler knows that warps stay together
    const int mine = Group<X>::number(w.l); // the column whose output this lane has
    const bool writes = w.l % Group<X>::OF_ONE == 0 && mine < w.columns;
    Running<X> at;
    at.writes = false;
    at.zero = (uint32_t)(p.n_tokens >> 31);
    at.out_type = type_of<X>(p.result_dtype);
    at.out_at = token_at(p.result, w, w.h) +
                ((int64_t)element_bytes(at.out_type) * (w.j + mine) - (int64_t)p.result.token);
    at.q = {};

    Copying<X> next;
    next.begin(p, w);
    next.start(p, w, 0, strips[0]);
#pragma unroll
    for (int i = 0; i < 2 * X::NB; i++)
#pragma unroll
        for (int c = 0; c < Group<X>::N; c++)
            at.S[i][c] = 0.0f;
    if (w.src >= 0) // 1
        each_element<X>(p.state_in, p.key_major, state_at(p.state_in, w.src, p.slots_in, w.h), w,
                        [&](int i, int c, const char *from) { at.S[i][c] = load_float(from); });
    next.widen_gates(p);
    next.finish(p, strips[0]);
    __syncthreads();

    int kept = next_kept(p, w, 0); // the next token whose state may be kept
    for (int t0 = 0, turn = 0; t0 < w.T; t0 += Strip<X>::TOKENS, turn ^= 1) {
        const Strip<X> &strip = strips[turn];
        const bool more = t0 + Strip<X>::TOKENS < w.T;
        const int n = more ? Strip<X>::TOKENS : w.T - t0;
        if (more)
            next.start(p, w, t0 + Strip<X>::TOKENS, strips[turn ^ 1]);
        Lane<X> k[2];
        k[0] = load_lane<X>(strip.k[0], w.l);
        const int pairs = (kept - t0 < n ? kept - t0 : n) & -2; // of tokens whose state nobody keeps
        int u = 0;
#pragma unroll 1
        for (; u < pairs; u += 2) {
            take_token<X>(p, w, strip, u, at.writes, k[0], k[1], at);
            take_token<X>(p, w, strip, u + 1, writes, k[1], k[0], at);
            at.writes = writes;
        }
#pragma unroll 1
        for (; u < n; u++) {
            k[0] = load_lane<X>(strip.k[u], w.l);
            take_token<X>(p, w, strip, u, at.writes, k[0], k[1], at);
            at.writes = writes;
            // 7: snapshot, r tokens before the newest, and checkpoint
            if (t0 + u < kept)
                continue;
            keep_state<X>(p, w, kept, [&](const Item &there, int dst) {
                each_element<X>(p.state_out, p.key_major, state_at(p.state_out, dst, p.slots_out, w.h), there,
                                [&](int i, int c, char *to) { store_float(to, at.S[i][c]); });
            });
            kept = next_kept(p, w, kept + 1);
        }
        if (more)
            next.finish(p, strips[turn ^ 1]);
        __syncthreads();
    }
    float o[Group<X>::N];
    sums_of<X>(at.q, at.S, o);
#pragma unroll
    for (int h = 8; h; h /= 2)
        fold_columns(o, h, mask_of(h));
    if (writes)
        store_element(at.out_at, __fmul_rn(p.scale, o[0]), at.out_type);
}

#endif
