// set_rows: a threadgroup writes a piece of one row. Rows run in parallel, so it must be known beforehand which of two
// rows with one target is the later. Few rows: each is compared with all rows after it. Many rows: two earlier
// dispatches (clear, enter) put them into a hash table in the workspace, whose slots keep the largest row number of
// their target.
//
// Steps, numbered as in docs/reference/kernels/set_rows.md and in every other version:
//   1 target   2 load   3 convert and store
#include "metal/kernel.h"
#include "call/set_rows.h"
#include "numerics/q8_0.h"

struct RowsBuffers {
    device const uchar *index;
    device uint *table;
    device atomic_uint *bad;
};

#define FUNCTION GDN_INLINE
#define CALL     constant gdn_set_rows_call &p, thread const RowsBuffers &b,
#define PASS     p, b,
GDN_INLINE int64_t index_at(CALL int b0, int b1, int64_t i)
{
    device const uchar *at = b.index + b0 * p.index_stride[0] + b1 * p.index_stride[1] + i * p.index_stride[2];
    return p.index_dtype == GDN_I64 ? *(device const int64_t *)at : int64_t(read_int(at));
}
GDN_INLINE uint claim(CALL int64_t slot, uint word)
{
    device atomic_uint *to = (device atomic_uint *)(b.table + slot);
    uint held = 0u;
    while (!atomic_compare_exchange_weak_explicit(to, &held, word, memory_order_relaxed, memory_order_relaxed) &&
           held == 0u)
        ; // the weak exchange may fail spuriously
    return held;
}
GDN_INLINE void raise_to(CALL int64_t slot, uint word)
{
    atomic_fetch_max_explicit((device atomic_uint *)(b.table + slot), word, memory_order_relaxed);
}
GDN_INLINE uint held_in(CALL int64_t slot) { return b.table[slot]; }
#include "gpu/set_rows.h"
#undef FUNCTION

// The operands are in the order of the regions in core/set_rows.c, and after them the workspace.
#define GDN_ROWS_OPERANDS                                                                                              \
    constant gdn_set_rows_call &p [[buffer(0)]], device const uchar *src [[buffer(1)]],                                \
        device uchar *dst [[buffer(2)]], device const uchar *index [[buffer(3)]], device uint *table [[buffer(4)]],    \
        device atomic_uint *bad [[buffer(5)]], GDN_THREAD
GDN_KERNEL(gdn_metal_rows_clear, GDN_ROWS_OPERANDS)
{
    const int64_t n = int64_t(group.x) * GDN_METAL_ROWS_THREADS + me;
    if (n < p.table_words) table[n] = 0u;
}

GDN_KERNEL(gdn_metal_rows_enter, GDN_ROWS_OPERANDS)
{
    const RowsBuffers b = { index, table, bad };
    rows_enter(PASS int64_t(group.x) * GDN_METAL_ROWS_THREADS + me);
}

// True if row i is the last with its target. The result is uniform in a threadgroup.
GDN_INLINE bool wins(CALL int b0, int b1, int64_t i, int64_t row, uint me)
{
    if (p.has & GDN_HAS_TABLE) return rows_last(PASS b0, b1, i, row);
    // Each simdgroup checks all rows that follow, at most GDN_ROWS_COMPARED: no exchange between simdgroups.
    bool later = false;
    for (int64_t n = i + 1 + (me & 31u); n < p.n_rows; n += 32) later = later || index_at(PASS b0, b1, n) == row;
    return !simd_any(later);
}

// One Q8_0 block per simdgroup: a binary16 scale and 32 bytes. Stores are 16 bits wide, because blocks are aligned to
// two.
GDN_INLINE void store_q8_0(device uchar *block, float x, uint lane)
{
    // The largest magnitude, without NaNs. Magnitudes are ordered as their bits are.
    const uint32_t own = gdn_bits(x) & 0x7fffffffu;
    uint32_t most = own > 0x7f800000u ? 0u : own;
#pragma unroll
    for (ushort h = 16; h; h /= 2) {
        const uint32_t other = simd_shuffle_xor(most, h);
        most = other > most ? other : most;
    }
    const float d = gdn_q8_0_step(gdn_from_bits(most));
    const uint32_t byte = uint32_t(int(gdn_q8_0_value(x, gdn_q8_0_inverse(d)))) & 255u;
    const uint32_t next = simd_shuffle_xor(byte, 1); // of the odd lane
    if (lane % 2u == 0u) store_16bit(block + 2 + lane, byte | next << 8);
    if (lane == 1u) store_16bit(block, to_f16(d));
}

GDN_KERNEL(gdn_metal_rows_write, GDN_ROWS_OPERANDS)
{
    const RowsBuffers b = { index, table, bad };
    const int64_t item = group.x, piece = item % p.blocks, row_number = item / p.blocks;
    const int64_t i = row_number % p.n_rows, batch = row_number / p.n_rows;
    const int b0 = int(batch / p.n_batch[1]), b1 = int(batch % p.n_batch[1]);
    const uint lane = me & 31u;

    // 1: target
    const int i0 = b0 % p.index_batch[0], i1 = b1 % p.index_batch[1];
    const int64_t row = index_at(PASS i0, i1, i);
    if (row < GDN_NONE || row >= p.n_rows_dst) report(bad, GDN_BAD_INDEX);
    if (row < 0 || row >= p.n_rows_dst || !wins(PASS i0, i1, i, row, me)) return;
    const int64_t begin = piece * GDN_METAL_ROWS_PIECE;
    const int64_t n = p.n_columns - begin < GDN_METAL_ROWS_PIECE ? p.n_columns - begin : GDN_METAL_ROWS_PIECE;
    const int src_bytes = element_bytes(p.src_dtype), dst_bytes = element_bytes(p.dst_dtype);
    device const uchar *from =
        src + b0 * p.src_stride[0] + b1 * p.src_stride[1] + i * p.src_stride[2] + src_bytes * begin;
    device uchar *row_at = dst + b0 * p.dst_stride[0] + b1 * p.dst_stride[1] + row * p.dst_stride[2];
    device uchar *to = row_at + dst_bytes * begin;

    // 2: load, 3: convert and store
    if (p.dst_dtype == GDN_Q8_0) {
        for (int64_t j = me / 32u; j < n / 32; j += GDN_METAL_ROWS_THREADS / 32)
            store_q8_0(row_at + 34 * (begin / 32 + j), read_element(from + src_bytes * (32 * j + lane), p.src_dtype),
                       lane);
    } else if (p.src_dtype == p.dst_dtype && p.src_dtype == GDN_F32) { // copy the bits
        for (int64_t j = me; j < n; j += GDN_METAL_ROWS_THREADS)
            *(device uint *)(to + 4 * j) = *(device const uint *)(from + 4 * j);
    } else if (p.src_dtype == p.dst_dtype) {
        for (int64_t j = me; j < n; j += GDN_METAL_ROWS_THREADS) store_16bit(to + 2 * j, load_16bit(from + 2 * j));
    } else {
        for (int64_t j = me; j < n; j += GDN_METAL_ROWS_THREADS)
            store_element(to + dst_bytes * j, read_element(from + src_bytes * j, p.src_dtype), p.dst_dtype);
    }
}
#undef CALL
#undef PASS
