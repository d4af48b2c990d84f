// set_rows: a thread block writes a piece of one row. Rows run in parallel, so it must be known beforehand which of two
// rows with one target is the later. Few rows: each is compared with all rows after it. Many rows: two earlier launches
// (clear, enter) put them into a hash table in the workspace, whose slots keep the largest row number of their target.
//
// Steps, numbered as in docs/reference/kernels/set_rows.md and in every other version:
//   1 target   2 load   3 convert and store
#include "cuda/kernel.cuh"
#include "call/set_rows.h"
#include "numerics/q8_0.h"

#define FUNCTION GDN_INLINE
#define CALL     const gdn_set_rows_call &p,
#define PASS     p,

GDN_INLINE int64_t index_at(const gdn_set_rows_call &p, int b, int c, int64_t i)
{
    const uint64_t at = p.index + (uint64_t)(b * p.index_stride[0] + c * p.index_stride[1] + i * p.index_stride[2]);
    return p.index_dtype == GDN_I64 ? (int64_t)__ldg((const long long *)at) : (int64_t)read_int(at);
}

GDN_INLINE unsigned *slot_at(const gdn_set_rows_call &p, int64_t slot)
{
    return (unsigned *)(p.table + 4 * (uint64_t)slot);
}
GDN_INLINE uint32_t claim(const gdn_set_rows_call &p, int64_t slot, uint32_t word)
{
    return atomicCAS(slot_at(p, slot), 0u, word);
}
GDN_INLINE void raise_to(const gdn_set_rows_call &p, int64_t slot, uint32_t word) { atomicMax(slot_at(p, slot), word); }
GDN_INLINE uint32_t held_in(const gdn_set_rows_call &p, int64_t slot) { return *slot_at(p, slot); }
#include "gpu/set_rows.h"
#undef FUNCTION
#undef CALL
#undef PASS

GDN_KERNEL(gdn_cuda_rows_clear, gdn_set_rows_call, GDN_CUDA_ROWS_THREADS)
{
    const int64_t n = (int64_t)blockIdx.x * GDN_CUDA_ROWS_THREADS + threadIdx.x;
    if (n < p.table_words) store_word(p.table + 4 * (uint64_t)n, 0);
}

GDN_KERNEL(gdn_cuda_rows_enter, gdn_set_rows_call, GDN_CUDA_ROWS_THREADS)
{
    rows_enter(p, (int64_t)blockIdx.x * GDN_CUDA_ROWS_THREADS + threadIdx.x);
}

// 1 if row i is the last with its target. The result is uniform in a thread block.
GDN_INLINE bool wins(const gdn_set_rows_call &p, int b, int c, int64_t i, int64_t row)
{
    if (p.table) return rows_last(p, b, c, i, row);
    // Each warp checks all rows that follow, at most GDN_ROWS_COMPARED, so no block-wide exchange is needed.
    int later = 0;
    for (int64_t n = i + 1 + ((int)threadIdx.x & 31); n < p.n_rows; n += 32) later |= index_at(p, b, c, n) == row;
    return !__any_sync(GDN_FULL_WARP, later);
}

// One Q8_0 block per warp: a binary16 scale and 32 bytes. Stores are 16 bits wide, because blocks are aligned to two.
GDN_INLINE void store_q8_0(char *block, float x, int lane)
{
    // The largest magnitude, without NaNs. Magnitudes are ordered as their bits are.
    const uint32_t own = gdn_bits(x) & 0x7fffffffu;
    uint32_t most = own > 0x7f800000u ? 0 : own;
#pragma unroll
    for (int h = 16; h; h /= 2) {
        const uint32_t other = __shfl_xor_sync(GDN_FULL_WARP, most, h);
        most = other > most ? other : most;
    }
    const float d = gdn_q8_0_step(gdn_from_bits(most));
    const uint32_t byte = (uint32_t)(int)gdn_q8_0_value(x, gdn_q8_0_inverse(d)) & 255u;
    const uint32_t next = __shfl_down_sync(GDN_FULL_WARP, byte, 1);
    if (lane % 2 == 0) store_16bit(block + 2 + (uint64_t)lane, byte | next << 8);
    if (lane == 1) store_16bit(block, to_f16(d));
}

// Copies bytes of a piece of a row; 16 at a time if rows are aligned to that.
GDN_INLINE void move(char *dst, uint64_t src, int64_t bytes, bool wide)
{
    const int64_t whole = wide ? bytes / 16 : 0;
    for (int64_t n = threadIdx.x; n < whole; n += GDN_CUDA_ROWS_THREADS)
        *(uint4 *)(dst + 16 * (uint64_t)n) = __ldg((const uint4 *)(src + 16 * (uint64_t)n));
    for (int64_t n = 8 * whole + threadIdx.x; n < bytes / 2; n += GDN_CUDA_ROWS_THREADS)
        store_16bit(dst + 2 * (uint64_t)n, __ldg((const unsigned short *)(src + 2 * (uint64_t)n)));
}

GDN_KERNEL(gdn_cuda_rows_write, gdn_set_rows_call, GDN_BLOCKS(GDN_CUDA_ROWS_THREADS, 7))
{
    const int64_t item = blockIdx.x, piece = item % p.blocks, row_number = item / p.blocks;
    const int64_t i = row_number % p.n_rows, batch = row_number / p.n_rows;
    const int b = (int)(batch / p.n_batch[1]), c = (int)(batch % p.n_batch[1]), me = (int)threadIdx.x, lane = me & 31;

    // 1: target
    const int ib = b % p.index_batch[0], ic = c % p.index_batch[1];
    const int64_t row = index_at(p, ib, ic, i);
    if (row < GDN_NONE || row >= p.n_rows_dst) report(p.bad, GDN_BAD_INDEX);
    if (row < 0 || row >= p.n_rows_dst || !wins(p, ib, ic, i, row)) return;
    const int64_t begin = piece * GDN_CUDA_ROWS_PIECE;
    const int64_t n = p.n_columns - begin < GDN_CUDA_ROWS_PIECE ? p.n_columns - begin : GDN_CUDA_ROWS_PIECE;
    const uint64_t src_bytes = p.src_dtype == GDN_F32 ? 4 : 2, dst_bytes = p.dst_dtype == GDN_F32 ? 4 : 2;
    const uint64_t src = p.src + (uint64_t)(b * p.src_stride[0] + c * p.src_stride[1] + i * p.src_stride[2]) +
                         src_bytes * (uint64_t)begin;
    char *const dst_row = p.dst + (uint64_t)(b * p.dst_stride[0] + c * p.dst_stride[1] + row * p.dst_stride[2]);
    char *const dst = dst_row + dst_bytes * (uint64_t)begin;

    // 2: load, 3: convert and store
    if (p.src_dtype == p.dst_dtype) { // copy the bits
        move(dst, src, (int64_t)src_bytes * n, p.wide);
    } else if (p.dst_dtype == GDN_Q8_0) {
        for (int64_t j = me / 32; j < n / 32; j += GDN_CUDA_ROWS_THREADS / 32)
            store_q8_0(dst_row + 34 * (uint64_t)(begin / 32 + j),
                       read_element(src + src_bytes * (uint64_t)(32 * j + lane), p.src_dtype), lane);
    } else if (p.wide && p.src_dtype == GDN_F32) { // four columns per lane
        const int64_t whole = n / 4;
        for (int64_t j = me; j < whole; j += GDN_CUDA_ROWS_THREADS) {
            const float4 x = read_float4(src + 16 * (uint64_t)j);
            *(uint2 *)(dst + 8 * (uint64_t)j) =
                make_uint2(to_16bit(x.x, p.dst_dtype) | to_16bit(x.y, p.dst_dtype) << 16,
                           to_16bit(x.z, p.dst_dtype) | to_16bit(x.w, p.dst_dtype) << 16);
        }
        for (int64_t j = 4 * whole + me; j < n; j += GDN_CUDA_ROWS_THREADS)
            store_16bit(dst + 2 * (uint64_t)j, to_16bit(read_float(src + 4 * (uint64_t)j), p.dst_dtype));
    } else {
        for (int64_t j = me; j < n; j += GDN_CUDA_ROWS_THREADS)
            store_element(dst + dst_bytes * (uint64_t)j, read_element(src + src_bytes * (uint64_t)j, p.src_dtype),
                          p.dst_dtype);
    }
}
