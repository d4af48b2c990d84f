/* CUDA's vector types and conversions of bits; part of cuda_shim.h. */
#ifndef GDN_SIMT_CUDA_TYPES_H
#define GDN_SIMT_CUDA_TYPES_H

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) { return { x, y }; }
static inline float4 make_float4(float x, float y, float z, float w) { return { x, y, z, w }; }

template <class To, class From> static inline To simt_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the bits of one are not the bits of the other");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned __float_as_uint(float x) { return simt_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return simt_bits<float>(x); }

#endif
