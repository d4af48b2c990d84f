// set_rows: a thread block writes a piece of one row. Rows run in parallel, so it must be known beforehand which of two
// rows with one target is the later. Few rows: each is compared with all rows after it. Many rows: two earlier launches
// (clear, enter) put them into a hash table in the workspace, whose slots keep the largest row number of their target.
//
// Steps, numbered as in docs/reference/kernels/set_rows.md and in every other version:
//   1 target   2 load   3 convert and store
#include "cuda/kernel.cuh"

GDN_INLINE int64_t index_at(const gdn_gpu_set_rows &p, int b, int c, int64_t i)
{
    const uint64_t at = p.index + (uint64_t)(b * p.index_stride[0] + c * p.index_stride[1] + i * p.index_stride[2]);
    return p.index_dtype == GDN_GPU_I64 ? (int64_t)__ldg((const long long *)at) : (int64_t)read_int(at);
}

GDN_INLINE uint32_t hash(int64_t row)
{
    const uint32_t h = (uint32_t)row * 0x9e3779b1u ^ (uint32_t)(row >> 32) * 0x85ebca77u;
    return h ^ h >> 15;
}

// A slot of the hash table: row number + 1, or 0 = empty. All rows that ever hold one slot have the same target.
GDN_INLINE char *slot(const gdn_gpu_set_rows &p, int b, int c, uint32_t at)
{
    const uint64_t batch = (uint64_t)b * (uint64_t)p.index_batch1 + (uint64_t)c;
    return p.table + 4 * (batch * ((uint64_t)p.table_mask + 1) + (at & p.table_mask));
}

GDN_KERNEL(gdn_cuda_rows_clear, gdn_gpu_set_rows, GDN_CUDA_ROWS_THREADS)
{
    const int64_t n = (int64_t)blockIdx.x * GDN_CUDA_ROWS_THREADS + threadIdx.x;
    if (n < p.table_words) store_word(p.table + 4 * (uint64_t)n, 0);
}

GDN_KERNEL(gdn_cuda_rows_enter, gdn_gpu_set_rows, GDN_CUDA_ROWS_THREADS)
{
    const int64_t n = (int64_t)blockIdx.x * GDN_CUDA_ROWS_THREADS + threadIdx.x;
    const int64_t batch = n / p.n_rows, i = n % p.n_rows;
    if (batch >= (int64_t)p.index_batch0 * p.index_batch1) return;
    const int b = (int)(batch / p.index_batch1), c = (int)(batch % p.index_batch1);
    const int64_t row = index_at(p, b, c, i);
    if (row < 0 || row >= p.n_rows_dst) return; // rows_write reports it
    uint32_t at = hash(row);
    for (uint32_t tried = 0; tried <= p.table_mask; tried++, at++) {
        unsigned *to = (unsigned *)slot(p, b, c, at);
        const unsigned held = atomicCAS(to, 0u, (unsigned)i + 1u);
        if (held == 0) return;
        if (index_at(p, b, c, (int64_t)held - 1) == row) {
            atomicMax(to, (unsigned)i + 1u);
            return;
        }
    }
}

// 1 if row i is the last with its target. The result is uniform in a thread block.
GDN_INLINE bool wins(const gdn_gpu_set_rows &p, int b, int c, int64_t i, int64_t row)
{
    if (p.table) {
        uint32_t at = hash(row);
        for (uint32_t tried = 0; tried <= p.table_mask; tried++, at++) {
            const unsigned held = load_word(slot(p, b, c, at));
            if (held == 0) return true;
            if (index_at(p, b, c, (int64_t)held - 1) == row) return held == (unsigned)i + 1u;
        }
        return true;
    }
    // Each warp checks all rows that follow, at most GDN_GPU_ROWS_FEW, so no block-wide exchange is needed.
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
    const float amax = gdn_from_bits(most), inverse = 0x1.020408p-7f; // 1/127 rounded
    const bool infinite = most == 0x7f800000u;
    const float q0 = __fmul_rn(amax, inverse);
    const float quotient = __fmaf_rn(__fmaf_rn(-127.0f, q0, amax), inverse, q0);
    const float d = infinite ? gdn_from_bits(0x7f800000u) : quotient;
    const float id = infinite || d < 0x1p-100f ? 0.0f : gdn_reciprocal(d);
    const float y = __fmul_rn(x, id);
    const float even = __fsub_rn(__fadd_rn(y, 12582912.0f), 12582912.0f); // to the nearest integer, ties to even
    const uint32_t byte = y != y ? 0u : (uint32_t)(int)even & 255u;
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

GDN_KERNEL(gdn_cuda_rows_write, gdn_gpu_set_rows, GDN_BLOCKS(GDN_CUDA_ROWS_THREADS, 7))
{
    const int64_t item = blockIdx.x, piece = item % p.blocks, row_number = item / p.blocks;
    const int64_t i = row_number % p.n_rows, batch = row_number / p.n_rows;
    const int b = (int)(batch / p.n_batch1), c = (int)(batch % p.n_batch1), me = (int)threadIdx.x, lane = me & 31;

    // 1: target
    const int ib = b % p.index_batch0, ic = c % p.index_batch1;
    const int64_t row = index_at(p, ib, ic, i);
    if (row < GDN_GPU_NONE || row >= p.n_rows_dst) report(p.bad, GDN_GPU_BAD_INDEX);
    if (row < 0 || row >= p.n_rows_dst || !wins(p, ib, ic, i, row)) return;
    const int64_t begin = piece * GDN_CUDA_ROWS_PIECE;
    const int64_t n = p.n_columns - begin < GDN_CUDA_ROWS_PIECE ? p.n_columns - begin : GDN_CUDA_ROWS_PIECE;
    const uint64_t src_bytes = p.src_dtype == GDN_GPU_F32 ? 4 : 2, dst_bytes = p.dst_dtype == GDN_GPU_F32 ? 4 : 2;
    const uint64_t src = p.src + (uint64_t)(b * p.src_stride[0] + c * p.src_stride[1] + i * p.src_stride[2]) +
                         src_bytes * (uint64_t)begin;
    char *const dst_row = p.dst + (uint64_t)(b * p.dst_stride[0] + c * p.dst_stride[1] + row * p.dst_stride[2]);
    char *const dst = dst_row + dst_bytes * (uint64_t)begin;

    // 2: load, 3: convert and store
    if (p.src_dtype == p.dst_dtype) { // copy the bits
        move(dst, src, (int64_t)src_bytes * n, p.wide);
    } else if (p.dst_dtype == GDN_GPU_Q8_0) {
        for (int64_t j = me / 32; j < n / 32; j += GDN_CUDA_ROWS_THREADS / 32)
            store_q8_0(dst_row + 34 * (uint64_t)(begin / 32 + j),
                       read_element(src + src_bytes * (uint64_t)(32 * j + lane), p.src_dtype), lane);
    } else if (p.wide && p.src_dtype == GDN_GPU_F32) { // four columns per lane
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
