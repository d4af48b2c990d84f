/* CUDA's vector types, binary16 and bfloat16, and conversions; part of cuda_shim.h. */
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

/* ---- binary16 and bfloat16: only their bits and their conversions, as a device does them ---- */
struct __half {
    unsigned short simt_x;
};
struct __nv_bfloat16 {
    unsigned short simt_x;
};

static inline __half __ushort_as_half(unsigned short x) { return { x }; }
static inline unsigned short __half_as_ushort(__half x) { return x.simt_x; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return { x }; }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.simt_x; }

static inline float __half2float(__half x)
{
    const unsigned sign = (unsigned)(x.simt_x & 0x8000) << 16, magnitude = x.simt_x & 0x7fffu;
    if (magnitude >= 0x7c00) /* cvt.f32.f16 gives one NaN for all */
        return __uint_as_float(magnitude > 0x7c00 ? 0x7fffffffu : sign | 0x7f800000u);
    if (magnitude < 0x400) { /* subnormal: exact in binary32 */
        const float value = (float)magnitude * 0x1p-24f;
        return __uint_as_float(sign | __float_as_uint(value));
    }
    return __uint_as_float(sign | ((magnitude << 13) + (112u << 23)));
}

static inline __half __float2half_rn(float value)
{
    const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return { 0x7fff };
    if (magnitude >= 0x477ff000) return { (unsigned short)(sign | 0x7c00) }; /* 65520 and more */
    unsigned kept, rest, half_unit;
    if (magnitude >= 0x38800000) {
        kept = (magnitude - 0x38000000) >> 13;
        rest = magnitude & 0x1fff;
        half_unit = 0x1000;
    } else { /* the result is subnormal */
        const unsigned shift = 126 - (magnitude >> 23);
        if (shift > 25) return { (unsigned short)sign };
        const unsigned fraction = (magnitude & 0x7fffff) | 0x800000;
        kept = shift > 24 ? 0 : fraction >> shift;
        rest = fraction & ((1u << shift) - 1);
        half_unit = 1u << (shift - 1);
    }
    kept += rest > half_unit || (rest == half_unit && (kept & 1));
    return { (unsigned short)(sign | kept) };
}

static inline float __bfloat162float(__nv_bfloat16 x) { return __uint_as_float((unsigned)x.simt_x << 16); }

static inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return { 0x7fff };
    return { (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) };
}

#endif
