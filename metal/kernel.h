// What all kernels share: memory, conversions, maps.
#ifndef GDN_METAL_KERNEL_H
#define GDN_METAL_KERNEL_H

#include "metal/language.h"
#include "metal/shape.h"
#include "call/types.h"
#include "numerics/prepare.h"
#include "gpu/convert16.h"

// ---- Operands, from the list of a kernel (call/). Each is a buffer; buffer 0 is the call.
#define GDN_CONST_READ const
#define GDN_CONST_WRITTEN
#define GDN_BUFFER(name, part, member, access, bit, size)      device GDN_CONST_##access uchar *name;
#define GDN_BUFFER_NAME(name, part, member, access, bit, size) name,

// ---- Memory. Floats are aligned to 4 bytes; rows need no more alignment.
GDN_INLINE float load_float(device const uchar *at) { return *(device const float *)at; }
GDN_INLINE float4 load_float4(device const uchar *at) { return float4(*(device const packed_float4 *)at); }
GDN_INLINE void store_float(device uchar *at, float x) { *(device float *)at = x; }
GDN_INLINE void store_float4(device uchar *at, float4 x) { *(device packed_float4 *)at = packed_float4(x); }
GDN_INLINE int read_int(device const uchar *at) { return *(device const int *)at; }
GDN_INLINE uint load_16bit(device const uchar *at) { return *(device const ushort *)at; }
GDN_INLINE void store_16bit(device uchar *at, uint x) { *(device ushort *)at = ushort(x); }
GDN_INLINE void store_word(device uchar *at, uint x) { *(device uint *)at = x; }
GDN_INLINE void store_pair(device uchar *at, uint x, uint y) // four of 16 bits
{
    store_16bit(at, x & 0xffffu);
    store_16bit(at + 2, x >> 16);
    store_16bit(at + 4, y & 0xffffu);
    store_16bit(at + 6, y >> 16);
}

// A map's entry, or its default if there is no map.
GDN_INLINE int map_at(device const uchar *map, bool there, int64_t index, int absent)
{
    return there ? read_int(map + 4 * index) : absent;
}

// Reports a bad map value to the host. The caller skips the sequence or row.
GDN_INLINE void report(device atomic_uint *bad, int word)
{
    atomic_store_explicit(bad + word, 1u, memory_order_relaxed);
}

#include "call/dialect_metal.h"
#include "call/maps.h"

// False, and reported, if a parent is not an earlier token of the sequence.
GDN_INLINE bool is_tree(device const uchar *parent, bool there, int first, int T, device atomic_uint *bad)
{
    if (!there || gdn_bad_parent(parent, first, T, 0, 1) == T) return true;
    report(bad, GDN_BAD_PARENT);
    return false;
}

// ---- Conversions.
GDN_INLINE float from_16bit(uint32_t h, int dtype) { return dtype == GDN_F16 ? from_f16(h) : from_bf16(h); }

// One element of type F32, F16 or BF16: its bits, as F32, and both.
GDN_INLINE uint read_bits(device const uchar *at, int dtype)
{
    return dtype == GDN_F32 ? *(device const uint *)at : load_16bit(at);
}
GDN_INLINE uint load_bits(device const uchar *at, int dtype) { return read_bits(at, dtype); }
GDN_INLINE float widen(uint bits, int dtype)
{
    return dtype == GDN_F32 ? gdn_from_bits(bits) : from_16bit(bits, dtype);
}
GDN_INLINE float read_element(device const uchar *at, int dtype) { return widen(read_bits(at, dtype), dtype); }

GDN_INLINE void store_element(device uchar *at, float x, int dtype)
{
    if (dtype == GDN_F32) store_float(at, x);
    else store_16bit(at, dtype == GDN_F16 ? to_f16(x) : to_bf16(x));
}

// ---- Four floats at a time, componentwise.
GDN_INLINE float4 make_float4(float x, float y, float z, float w)
{
    float4 r;
    r.x = x;
    r.y = y;
    r.z = z;
    r.w = w;
    return r;
}
GDN_INLINE float4 zero4() { return float4(0.0f); }
GDN_INLINE float4 all4(float x) { return float4(x); }
GDN_INLINE float4 add4(float4 x, float4 y) { return x + y; }
GDN_INLINE float4 mul4(float4 x, float4 y) { return x * y; }
GDN_INLINE float4 fma4(float4 x, float4 y, float4 z) { return fma(x, y, z); }
GDN_INLINE float4 exchange4(float4 x, int mask) { return simd_shuffle_xor(x, ushort(mask)); }
GDN_INLINE float exchange(float x, int mask) { return simd_shuffle_xor(x, ushort(mask)); }

#endif
