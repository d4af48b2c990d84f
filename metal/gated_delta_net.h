// gated_delta_net: its operands, and what differs from CUDA in the text that both share (gpu/delta_*.h). 16-bit
// elements are converted when they are loaded: as floats the device might flush their bits.
#ifndef GDN_METAL_GATED_DELTA_NET_H
#define GDN_METAL_GATED_DELTA_NET_H

#include "metal/kernel.h"
#include "call/gated_delta_net.h"

struct DeltaBuffers {
    GDN_DELTA_OPERANDS(GDN_BUFFER, GDN_BUFFER, GDN_BUFFER, GDN_BUFFER)
    device atomic_uint *bad;
};

#define FUNCTION            template <class X> GDN_INLINE
#define CALL                constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, X,
#define PASS                p, b, X(),
#define SOURCE              source_of(p, b)
#define LOAD_ABSENT         false
#define DELTA_VALUES(C)     (GDN_METAL_DELTA_THREADS / 8 * (C))
#define GOOD_TREE(sequence) is_tree(b.parent, (p.has & GDN_HAS_PARENT) != 0, sequence.first, sequence.T, b.bad)
#include "gpu/delta_item.h"

// Fills the item. False, for the whole simdgroup, if there is nothing to do.
FUNCTION bool find_item(CALL uint group, uint me, thread Item &at)
{
    const int block = int(group % uint(p.blocks)), row = int(group / uint(p.blocks));
    at.l = int(me & 7u);
    take_values(p, at, block * X::VALUES + int(me / 8u) * X::C, X::C);
    return find_sequence(PASS row / p.n_heads_v, row % p.n_heads_v, at) && gdn_has_work(at.seq);
}

// The pool of states that is read.
GDN_INLINE device const uchar *source_of(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b)
{
    if (p.has & GDN_HAS_ONE_POOL) return b.state_out + p.pool_offset;
    return b.state;
}

GDN_INLINE float read_raw(device const uchar *at, int dtype) { return read_element(at, dtype); }
GDN_INLINE float widen_raw(float x, int) { return x; }

// Elements i .. i + 3 of a row of q, k, g or dt_bias; those beyond the head are 0.
template <class X> GDN_INLINE float4 read_row(device const uchar *row, int dtype, int i, int n_keys)
{
    if (!X::GENERAL && dtype == GDN_F32) return load_float4(row + 4 * i);
    const int bytes = element_bytes(dtype);
    device const uchar *at = row + bytes * i;
    float4 x = zero4();
    if (!X::GENERAL || i < n_keys) x.x = read_element(at, dtype);
    if (!X::GENERAL || i + 1 < n_keys) x.y = read_element(at + bytes, dtype);
    if (!X::GENERAL || i + 2 < n_keys) x.z = read_element(at + 2 * bytes, dtype);
    if (!X::GENERAL || i + 3 < n_keys) x.w = read_element(at + 3 * bytes, dtype);
    return x;
}
template <class X> GDN_INLINE float4 widen_row(float4 x, int) { return x; }
template <class X, int N> GDN_INLINE void widen_rows(thread float4 (&)[N], int) {}

// One element of a state, or four adjacent ones.
template <class X> GDN_INLINE float load_number(device const uchar *at, int dtype)
{
    return read_element(at, X::STATE16 ? dtype : GDN_F32);
}
template <class X> GDN_INLINE float4 load_quad(device const uchar *at, int dtype)
{
    if (!X::STATE16) return load_float4(at);
    return make_float4(read_element(at, dtype), read_element(at + 2, dtype), read_element(at + 4, dtype),
                       read_element(at + 6, dtype));
}
template <class X>
GDN_INLINE void widen_state(constant gdn_gated_delta_net_call &, bool, thread float4 (&)[X::NB][X::C])
{
}

#include "gpu/delta_step.h"
#include "gpu/delta_state.h"
#include "gpu/delta_log.h"

// ---- What gpu/delta_rows.h needs.
template <class X> GDN_INLINE int lane_of_warp(thread const Item &w) { return w.j / X::C % 4 * 8 + w.l; }
template <class T> GDN_INLINE T of_lane(T x, int lane) { return simd_shuffle(x, ushort(lane)); }
GDN_INLINE float4 of_lane4(float4 x, int lane) { return of_lane(x, lane); }
GDN_INLINE int lowest_bit(uint32_t x) { return int(ctz(x)); }
GDN_INLINE int here(int x) { return x; }

// The lane that has written deltas loads them, so that lanes need no barrier.
GDN_INLINE void sync_warp() {}
FUNCTION void load_deltas(CALL thread const Item &w, device uchar *entry, thread float (&delta)[X::C])
{
    for (int c = 0; c < X::C; c++) delta[c] = 0.0f;
    if (w.l == 0) load_values<X>(log_delta(PASS w, entry), w.values, delta);
#pragma unroll
    for (int c = 0; c < X::C; c++) delta[c] = of_lane(delta[c], lane_of_warp<X>(w) & 24);
}

FUNCTION device const uchar *read_key_at(CALL thread const Item &w, int t)
{
    return b.read_key + token_at(p.read_key, w, w.kappa) + t * p.read_key.stride_token;
}
#include "gpu/delta_rows.h"

#undef FUNCTION
#undef CALL
#undef PASS
#undef SOURCE
#undef LOAD_ABSENT
#undef DELTA_VALUES
#undef GOOD_TREE
#endif
