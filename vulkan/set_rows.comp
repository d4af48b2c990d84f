// set_rows: a workgroup writes a piece of one row. Rows run in parallel, so it must be known beforehand which of two
// rows with one target is the later. Few rows: each is compared with all rows after it. Many rows: a first dispatch
// (PART 1) enters them into a hash table in the workspace, whose slots keep the largest row number of their target.
//
// Steps, numbered as in docs/reference/kernels/set_rows.md and in every other version:
//   1 target   2 load   3 convert and store
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "call/set_rows.h"
#include "numerics/q8_0.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int PART = 0;  // 0 write rows, 1 enter rows into the table
layout(constant_id = 2) const int PIECE = 1024; // columns of a workgroup, a multiple of 32

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Params { gdn_set_rows_call p; };

gdn_set_rows_call p;
shared uint later; // 1: a later row has this row's target

int64_t index_at(int b, int c, int64_t i)
{
    const uint64_t at = p.index + b * p.index_stride[0] + c * p.index_stride[1] + i * p.index_stride[2];
    return p.index_dtype == GDN_I64 ? Long(at).x : int64_t(Int(at).x);
}

uint claim(int64_t slot, uint word)
{
    return atomicCompSwap(Word(p.table + 4 * slot).x, 0, word);
}
void raise_to(int64_t slot, uint word)
{
    atomicMax(Word(p.table + 4 * slot).x, word);
}
uint held_in(int64_t slot)
{
    return Word(p.table + 4 * slot).x;
}
#include "gpu/set_rows.h"

bool wins(int b, int c, int64_t i, int64_t row)
{
    if (p.table != 0)
        return rows_last(b, c, i, row);
    if (gl_LocalInvocationIndex == 0)
        later = 0;
    barrier();
    for (int64_t n = i + 1 + gl_LocalInvocationIndex; n < p.n_rows; n += gl_WorkGroupSize.x)
        if (index_at(b, c, n) == row)
            later = 1;
    barrier();
    return later == 0;
}

#ifdef GDN_STORAGE_16
// One Q8_0 block: a binary16 scale and 32 bytes. Stores are 16 bits wide, because blocks are aligned to two.
void store_q8_0(uint64_t block, uint64_t src)
{
    const int bytes = element_bytes(p.src_dtype);
    float amax = 0.0;
    for (int m = 0; m < 32; m++) {
        const float magnitude = abs(load_element(src + bytes * m, p.src_dtype));
        if (!gdn_is_nan(magnitude) && magnitude > amax)
            amax = magnitude;
    }
    const float d = gdn_q8_0_step(amax), inverse = gdn_q8_0_inverse(d);
    Bits16(block).x = uint16_t(to_f16(d));
    for (int m = 0; m < 32; m += 2) {
        uint two = 0;
        [[unroll]] for (int e = 0; e < 2; e++) {
            const float x = load_element(src + bytes * (m + e), p.src_dtype);
            two |= (uint(int(gdn_q8_0_value(x, inverse))) & 255u) << 8 * e;
        }
        Bits16(block + 2 + m).x = uint16_t(two);
    }
}
#endif

void main()
{
    if (item() >= push.n_items)
        return;
    Params params = Params(push.params);
    p = params.p;
    if (PART == 1) {
        rows_enter(int64_t(item()) * gl_WorkGroupSize.x + gl_LocalInvocationIndex);
        return;
    }
    const int64_t piece = item() % p.blocks, row_number = item() / p.blocks;
    const int64_t i = row_number % p.n_rows, batch = row_number / p.n_rows;
    const int b = int(batch / p.n_batch[1]), c = int(batch % p.n_batch[1]);

    // 1: target
    const int ib = b % p.index_batch[0], ic = c % p.index_batch[1];
    const int64_t row = index_at(ib, ic, i);
    if (row < GDN_NONE || row >= p.n_rows_dst)
        report(p.bad, GDN_BAD_INDEX);
    if (row < 0 || row >= p.n_rows_dst || !wins(ib, ic, i, row))
        return;
    const uint64_t src = p.src + b * p.src_stride[0] + c * p.src_stride[1] + i * p.src_stride[2];
    const uint64_t dst = p.dst + b * p.dst_stride[0] + c * p.dst_stride[1] + row * p.dst_stride[2];
    const int64_t begin = piece * PIECE, end = min(begin + PIECE, p.n_columns);
    const int lanes = int(gl_WorkGroupSize.x), me = int(gl_LocalInvocationIndex);

    // 2: load, 3: convert and store
    if (p.src_dtype == GDN_F32 && p.dst_dtype == GDN_F32) { // copy the bits
        for (int64_t j = begin + me; j < end; j += lanes)
            Word(dst + 4 * j).x = Word(src + 4 * j).x;
        return;
    }
#ifdef GDN_STORAGE_16
    if (p.dst_dtype == GDN_Q8_0) {
        for (int64_t j = begin / 32 + me; j < end / 32; j += lanes)
            store_q8_0(dst + 34 * j, src + (p.src_dtype == GDN_F32 ? 128 : 64) * j);
    } else if (p.dst_dtype == p.src_dtype) {
        for (int64_t j = begin + me; j < end; j += lanes)
            Bits16(dst + 2 * j).x = Bits16(src + 2 * j).x;
    } else {
        for (int64_t j = begin + me; j < end; j += lanes)
            store_element(dst + element_bytes(p.dst_dtype) * j, p.dst_dtype,
                          load_element(src + element_bytes(p.src_dtype) * j, p.src_dtype));
    }
#endif
}
