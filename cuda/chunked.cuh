// The chunked form of gated_delta_net: what its two kernels share. docs/reference/numerics-chunked.md has the names.
//
// Tensor cores multiply the digits. Rows (R_t, Q_t, K_t and KT_i) are stored as those take them, in fragments of 16
// rows by 32 elements, 16 bytes a lane. Columns (S_j and E_j) are stored as a state of digits is: words of four
// elements, [element / 4][digit][16 channels].
#ifndef GDN_CUDA_CHUNKED_CUH
#define GDN_CUDA_CHUNKED_CUH

#include "cuda/gated_delta_net.cuh"
#include "cuda/chunked.h"
#include "numerics/chunked.h"

// What call/sequence.h and gpu/delta_*.h know of these calls.
struct Chunked {
    static constexpr int NB = 8, C = 1; // blocks of 32 keys, at most
    static constexpr bool CHANNEL = false, GENERAL = true, TREE = false, STATE16 = true, LOG = true, CHUNKED = true;
};

namespace chunked
{

enum { THREADS = 32 * GDN_CUDA_CHUNKED_WARPS, COLUMNS = GDN_CUDA_CHUNKED_VALUES, TOKENS = GDN_CHUNK };
enum { SIDE_R, SIDE_Q, SIDE_K }; // SIDE_K exists with read keys; otherwise R_t is K_t

GDN_INLINE int lane() { return (int)threadIdx.x % 32; }
GDN_INLINE int warp() { return (int)threadIdx.x / 32; }

// The tokens of a chunk, counted from its first.
struct Span {
    int from, n, n_logged; // position of the first; how many; the first n_logged are in the log
};
GDN_INLINE Span span_of(const gdn_sequence &q, int from)
{
    const int left = q.position + q.T - from, n = left < TOKENS ? left : int(TOKENS);
    const int behind = from < q.position ? q.position - from : 0;
    return { from, n, behind < n ? behind : n };
}
GDN_INLINE bool has_tokens(const Span &at) { return at.n > at.n_logged; }
GDN_INLINE bool is_whole(const Span &at) { return at.n == TOKENS; }

// ---- Records (cuda/chunked.h).
struct Record {
    char *key;   // of the key head: digits of R_t and Q_t, and of K_t (sides); of KT_i; left(KT_i)
    float *head; // of a value head
};
// Of a value head: gam_31; A and P with token s outermost; then values of tokens. R, Q: gam times left(). END: decay to
// token 31. G: the gate's logarithm.
enum { OF_GAM = 0, OF_A = 4, OF_P = 1028, OF_BETA = 2052, OF_R = 2084, OF_Q = 2116, OF_END = 2148, OF_G = 2180 };

// Record i of a sequence. Sequences whose tokens do not overlap have records that do not.
GDN_INLINE Record record_of(const gdn_cuda_chunked_call &c, const Item &w, int64_t i)
{
    char *at = c.workspace + (w.seq.first / TOKENS + (int64_t)w.seq.s * c.spare + i) * c.record_bytes;
    return { at + c.keys_at + (int64_t)w.kappa * c.key_bytes, (float *)(at + (int64_t)w.h * GDN_CUDA_CHUNKED_HEAD) };
}
GDN_INLINE float *left_of_KT(const gdn_cuda_chunked_call &c, const Record &r) { return (float *)(r.key + c.left_at); }

// The byte of digit a of an element in rows of `steps` times 32 elements.
GDN_INLINE int digit_at(int row, int element, int a, int steps, int digits)
{
    const int owner = row % 8 * 4 + element % 16 / 4, word = row % 16 / 8 + element % 32 / 16 * 2;
    return (((row / 16 * steps + element / 32) * digits + a) * 32 + owner) * 16 + word * 4 + element % 4;
}

// Digit a of four elements.
template <int DIGITS> GDN_INLINE uint32_t word_of(const int (&n)[4], int a)
{
    uint32_t word = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) word |= (uint32_t)(uint8_t)gdn_digit(n[e], a, DIGITS) << 8 * e;
    return word;
}

// ---- Products: 16 rows by 32 elements, with columns of 8 channels. Tensor cores take the digits as s8 and add them in
// int, or take them as f16 and add them in float. All sums are below 2^24, so both are exact and give the same bits.
// A device uses what has passed its probe (cuda/digits.c). SUM is int or float.
GDN_INLINE void mma(int (&c)[4], const uint4 &a, uint2 b)
{
#if !defined(__CUDACC__)
    __mma_m16n8k32_s8(c, a, b);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
#elif defined(__CUDA_ARCH__) // sm_75 has a quarter of it
    const unsigned rows[4] = { a.x, a.y, a.z, a.w }, columns[2] = { b.x, b.y };
    for (int i = 0; i < 4; i++)
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+r"(c[i % 2 * 2]), "+r"(c[i % 2 * 2 + 1])
                     : "r"(rows[i]), "r"(columns[i / 2]));
#endif
}

// Digits 2 half and 2 half + 1 of a word as f16: a digit's byte with its top bit flipped is the last of 1152 + digit.
GDN_INLINE uint32_t to_halves(uint32_t word, int half)
{
#if defined(__CUDA_ARCH__)
    uint32_t halves;
    asm("sub.rn.f16x2 %0, %1, %2;"
        : "=r"(halves)
        : "r"(__byte_perm(word ^ 0x80808080u, 0x64u, half ? 0x4342 : 0x4140)), "r"(0x64806480u));
    return halves;
#else
    return to_f16((float)(int8_t)(word >> 16 * half)) | to_f16((float)(int8_t)(word >> 16 * half >> 8)) << 16;
#endif
}
GDN_INLINE void mma(float (&c)[4], const uint4 &a, uint2 b)
{
#if !defined(__CUDACC__)
    __mma_m16n8k16_f16(c, a, b);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
#elif defined(__CUDA_ARCH__) // sm_75 has half of it
    const unsigned rows[4] = { a.x, a.y, a.z, a.w }, columns[2] = { b.x, b.y };
    for (int i = 0; i < 2; i++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(rows[2 * i]), "r"(rows[2 * i + 1]), "r"(columns[i]));
#endif
}

// A lane's digits as mma takes them: 32 elements for s8, twice 16 for f16. The order of a sum's elements is free. So a
// word's digits 0 and 1 are elements 2 (lane % 4) and the next, and 2 and 3 are those 8 behind them.
template <class SUM> constexpr int PARTS_OF = 1;
template <> constexpr int PARTS_OF<float> = 2;
GDN_INLINE void convert(const uint4 &x, uint4 (&a)[1]) { a[0] = x; }
GDN_INLINE void convert(uint2 x, uint2 (&b)[1]) { b[0] = x; }
GDN_INLINE void convert(const uint4 &x, uint4 (&a)[2])
{
    a[0] = make_uint4(to_halves(x.x, 0), to_halves(x.y, 0), to_halves(x.x, 1), to_halves(x.y, 1));
    a[1] = make_uint4(to_halves(x.z, 0), to_halves(x.w, 0), to_halves(x.z, 1), to_halves(x.w, 1));
}
GDN_INLINE void convert(uint2 x, uint2 (&b)[2])
{
    b[0] = make_uint2(to_halves(x.x, 0), to_halves(x.x, 1));
    b[1] = make_uint2(to_halves(x.y, 0), to_halves(x.y, 1));
}

// Row and column of number i of a lane's four.
GDN_INLINE int row_of(int i) { return lane() / 4 + i / 2 * 8; }
GDN_INLINE int column_of(int i) { return lane() % 4 * 2 + i % 2; }

template <class SUM, int DIGITS> struct Sums {
    SUM z[DIGITS][4];
};
template <class SUM, int DIGITS> GDN_INLINE void clear(Sums<SUM, DIGITS> &sums)
{
#pragma unroll
    for (int m = 0; m < DIGITS; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums.z[m][i] = 0;
}
// Adds the products of 32 elements.
template <class SUM, int DIGITS, int PARTS>
GDN_INLINE void multiply(Sums<SUM, DIGITS> &sums, const uint4 (&rows)[DIGITS][PARTS],
                         const uint2 (&columns)[DIGITS][PARTS])
{
#pragma unroll
    for (int x = 0; x < DIGITS; x++)
#pragma unroll
        for (int y = 0; x + y < DIGITS; y++)
#pragma unroll
            for (int i = 0; i < PARTS; i++) mma(sums.z[x + y], rows[x][i], columns[y][i]);
}
template <class SUM, int DIGITS> GDN_INLINE float dot_of(const Sums<SUM, DIGITS> &sums, int i)
{
    const int z[GDN_MOST_DIGITS] = { (int)sums.z[0][i], (int)sums.z[1][i],
                                     DIGITS == 3 ? (int)sums.z[DIGITS - 1][i] : 0 };
    return gdn_digit_dot(z, DIGITS);
}

// A lane's part of rows 16 tile to 16 tile + 15.
template <int DIGITS, int PARTS>
GDN_INLINE void load_rows(const char *rows, int tile, int step, int steps, uint4 (&a)[DIGITS][PARTS])
{
#pragma unroll
    for (int d = 0; d < DIGITS; d++)
        convert(((const uint4 *)rows)[((tile * steps + step) * DIGITS + d) * 32 + lane()], a[d]);
}
// A lane's part of columns 8 tile to 8 tile + 7: the elements from 32 step on. half: only 16 are left.
template <int DIGITS, int PARTS>
GDN_INLINE void load_columns(const uint32_t (*columns)[COLUMNS], int tile, int step, bool half,
                             uint2 (&b)[DIGITS][PARTS])
{
    const int quad = 8 * step + lane() % 4, j = 8 * tile + lane() / 4;
#pragma unroll
    for (int d = 0; d < DIGITS; d++)
        convert(make_uint2(columns[quad * DIGITS + d][j], half ? 0 : columns[(quad + 4) * DIGITS + d][j]), b[d]);
}

// ---- Operands.
GDN_INLINE uint32_t magnitude(float x) { return gdn_bits(x) & ~GDN_SIGN_BIT; }
GDN_INLINE uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

typedef float Row[Chunked::NB]; // a lane has the elements 32 m + lane, those beyond the head as zeros

// 0: loads a row of token t of the call; normalises it if the call has a norm.
GDN_INLINE void load_row(const gdn_gated_delta_net_call &p, const gdn_token_view &view, const Item &w, int t, bool norm,
                         Row &x)
{
    const uint64_t row = (uint64_t)view.data + token_at(view, w, w.kappa) + (uint64_t)(t * view.stride_token);
    float sum = 0;
#pragma unroll
    for (int m = 0; m < Chunked::NB; m++) {
        const int i = 32 * m + lane();
        x[m] = i < w.n_keys ? read_element(row + (uint64_t)(i * element_bytes(view.dtype)), view.dtype) : 0.0f;
        sum = gdn_fma(x[m], x[m], sum);
    }
    if (!norm) return;
#pragma unroll
    for (int h = 16; h; h /= 2) sum = gdn_add(sum, exchange(sum, h));
    const float factor = gdn_norm_factor(sum, p.norm_add, p.norm_most);
#pragma unroll
    for (int m = 0; m < Chunked::NB; m++) x[m] = gdn_mul(x[m], factor);
}
GDN_INLINE void load_key(const gdn_gated_delta_net_call &p, const Item &w, int t, Row &x)
{
    load_row(p, p.k, w, t, p.qk_norm != 0, x);
}

} // namespace chunked

#endif
