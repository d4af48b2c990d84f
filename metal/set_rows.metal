// set_rows: a threadgroup writes a piece of one row. Rows run in parallel, so it must be known beforehand which of two
// rows with one target is the later. Few rows: each is compared with all rows after it. Many rows: two earlier
// dispatches (clear, enter) put them into a hash table in the workspace, whose slots keep the largest row number of
// their target.
//
// Steps, numbered as in docs/reference/kernels/set_rows.md and in every other version:
//   1 target   2 load   3 convert and store
#include "metal/kernel.h"
#include "call/set_rows.h"

GDN_INLINE int64_t index_at(constant gdn_set_rows_call &p, device const uchar *index, int b, int c, int64_t i)
{
    device const uchar *at = index + b * p.index_stride[0] + c * p.index_stride[1] + i * p.index_stride[2];
    return p.index_dtype == GDN_I64 ? *(device const int64_t *)at : int64_t(read_int(at));
}

GDN_INLINE uint32_t hash(int64_t row)
{
    const uint32_t h = uint32_t(row) * 0x9e3779b1u ^ uint32_t(row >> 32) * 0x85ebca77u;
    return h ^ h >> 15;
}

// A slot of the hash table: row number + 1, or 0 = empty. All rows that ever hold one slot have the same target.
GDN_INLINE int64_t slot(constant gdn_set_rows_call &p, int b, int c, uint32_t at)
{
    const int64_t batch = int64_t(b) * p.index_batch[1] + c;
    return batch * (int64_t(p.table_mask) + 1) + (at & p.table_mask);
}

// The operands are in the order of the regions in core/set_rows.c, and after them the workspace.
#define GDN_ROWS_OPERANDS                                                                                              \
    constant gdn_set_rows_call &p [[buffer(0)]], device const uchar *src [[buffer(1)]],                                \
        device uchar *dst [[buffer(2)]], device const uchar *index [[buffer(3)]]
GDN_KERNEL(gdn_metal_rows_clear, GDN_ROWS_OPERANDS, device uint *table [[buffer(4)]], GDN_THREAD)
{
    const int64_t n = int64_t(group.x) * GDN_METAL_ROWS_THREADS + me;
    if (n < p.table_words) table[n] = 0u;
}

GDN_KERNEL(gdn_metal_rows_enter, GDN_ROWS_OPERANDS, device atomic_uint *table [[buffer(4)]], GDN_THREAD)
{
    const int64_t n = int64_t(group.x) * GDN_METAL_ROWS_THREADS + me;
    const int64_t batch = n / p.n_rows, i = n % p.n_rows;
    if (batch >= int64_t(p.index_batch[0]) * p.index_batch[1]) return;
    const int b = int(batch / p.index_batch[1]), c = int(batch % p.index_batch[1]);
    const int64_t row = index_at(p, index, b, c, i);
    if (row < 0 || row >= p.n_rows_dst) return; // rows_write reports it
    uint32_t at = hash(row);
    for (uint32_t tried = 0; tried <= p.table_mask; tried++, at++) {
        device atomic_uint *to = table + slot(p, b, c, at);
        uint held = 0u;
        bool taken = false;
        do { // the weak exchange may fail spuriously
            held = 0u;
            taken = atomic_compare_exchange_weak_explicit(to, &held, uint(i) + 1u, memory_order_relaxed,
                                                          memory_order_relaxed);
        } while (!taken && held == 0u);
        if (taken) return;
        if (index_at(p, index, b, c, int64_t(held) - 1) == row) {
            atomic_fetch_max_explicit(to, uint(i) + 1u, memory_order_relaxed);
            return;
        }
    }
}

// True if row i is the last with its target. The result is uniform in a threadgroup.
GDN_INLINE bool wins(constant gdn_set_rows_call &p, device const uint *table, device const uchar *index, int b, int c,
                     int64_t i, int64_t row, uint me)
{
    if (p.has & GDN_HAS_TABLE) {
        uint32_t at = hash(row);
        for (uint32_t tried = 0; tried <= p.table_mask; tried++, at++) {
            const uint held = table[slot(p, b, c, at)];
            if (held == 0u) return true;
            if (index_at(p, index, b, c, int64_t(held) - 1) == row) return held == uint(i) + 1u;
        }
        return true;
    }
    // Each simdgroup checks all rows that follow, at most GDN_ROWS_COMPARED: no exchange between simdgroups.
    bool later = false;
    for (int64_t n = i + 1 + (me & 31u); n < p.n_rows; n += 32) later = later || index_at(p, index, b, c, n) == row;
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
    const float amax = gdn_from_bits(most), inverse = 0x1.020408p-7f; // 1/127 rounded
    const bool infinite = most == 0x7f800000u;
    const float q0 = amax * inverse;
    const float quotient = fma(fma(-127.0f, q0, amax), inverse, q0);
    const float d = infinite ? gdn_from_bits(0x7f800000u) : quotient;
    const float id = infinite || d < 0x1p-100f ? 0.0f : gdn_reciprocal(d);
    const float y = x * id;
    const float even = (y + 12582912.0f) - 12582912.0f; // to the nearest integer, ties to even
    const uint32_t byte = y != y ? 0u : uint32_t(int(even)) & 255u;
    const uint32_t next = simd_shuffle_xor(byte, 1); // of the odd lane
    if (lane % 2u == 0u) store_16bit(block + 2 + lane, byte | next << 8);
    if (lane == 1u) store_16bit(block, to_f16(d));
}

GDN_KERNEL(gdn_metal_rows_write, GDN_ROWS_OPERANDS, device const uint *table [[buffer(4)]],
           device atomic_uint *bad [[buffer(5)]], GDN_THREAD)
{
    const int64_t item = group.x, piece = item % p.blocks, row_number = item / p.blocks;
    const int64_t i = row_number % p.n_rows, batch = row_number / p.n_rows;
    const int b = int(batch / p.n_batch[1]), c = int(batch % p.n_batch[1]);
    const uint lane = me & 31u;

    // 1: target
    const int ib = b % p.index_batch[0], ic = c % p.index_batch[1];
    const int64_t row = index_at(p, index, ib, ic, i);
    if (row < GDN_NONE || row >= p.n_rows_dst) report(bad, GDN_BAD_INDEX);
    if (row < 0 || row >= p.n_rows_dst || !wins(p, table, index, ib, ic, i, row, me)) return;
    const int64_t begin = piece * GDN_METAL_ROWS_PIECE;
    const int64_t n = p.n_columns - begin < GDN_METAL_ROWS_PIECE ? p.n_columns - begin : GDN_METAL_ROWS_PIECE;
    const int src_bytes = element_bytes(p.src_dtype), dst_bytes = element_bytes(p.dst_dtype);
    device const uchar *from =
        src + b * p.src_stride[0] + c * p.src_stride[1] + i * p.src_stride[2] + src_bytes * begin;
    device uchar *row_at = dst + b * p.dst_stride[0] + c * p.dst_stride[1] + row * p.dst_stride[2];
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
