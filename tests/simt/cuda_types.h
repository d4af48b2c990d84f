/* CUDA's vector types, binary16 and bfloat16, and conversions; part of cuda_shim.h. */
#ifndef GDN_SIMT_CUDA_TYPES_H
#define GDN_SIMT_CUDA_TYPES_H

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;

#define SIMT_VECTORS(type, base, align2, align4)                                                                       \
    struct type##1 { base x; };                                                                                        \
    struct alignas(align2) type##2 { base x, y; };                                                                     \
    struct type##3 { base x, y, z; };                                                                                  \
    struct alignas(align4) type##4 { base x, y, z, w; };                                                               \
    static inline type##1 make_##type##1(base x) { return { x }; }                                                     \
    static inline type##2 make_##type##2(base x, base y) { return { x, y }; }                                          \
    static inline type##3 make_##type##3(base x, base y, base z) { return { x, y, z }; }                               \
    static inline type##4 make_##type##4(base x, base y, base z, base w) { return { x, y, z, w }; }
SIMT_VECTORS(char, signed char, 2, 4)
SIMT_VECTORS(uchar, unsigned char, 2, 4)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(ushort, unsigned short, 4, 8)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(uint, unsigned int, 8, 16)
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(longlong, long long, 16, 16)
SIMT_VECTORS(ulonglong, unsigned long long, 16, 16)
SIMT_VECTORS(double, double, 16, 16)
#undef SIMT_VECTORS

template <class To, class From> static inline To simt_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the bits of one are not the bits of the other");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned __float_as_uint(float x) { return simt_bits<unsigned>(x); }
static inline int __float_as_int(float x) { return simt_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return simt_bits<float>(x); }
static inline float __int_as_float(int x) { return simt_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return simt_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return simt_bits<double>(x); }

/* ---- binary16 and bfloat16: only their bits and their conversions, as a device does them ---- */
struct __half { unsigned short simt_x; };
struct __nv_bfloat16 { unsigned short simt_x; };
struct alignas(4) __half2 { __half x, y; };
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
typedef __half half;
typedef __half2 half2;

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

static inline __half __float2half(float x) { return __float2half_rn(x); }
static inline __nv_bfloat16 __float2bfloat16(float x) { return __float2bfloat16_rn(x); }
static inline float2 __half22float2(__half2 x) { return { __half2float(x.x), __half2float(x.y) }; }
static inline __half2 __floats2half2_rn(float x, float y) { return { __float2half_rn(x), __float2half_rn(y) }; }
static inline float2 __bfloat1622float2(__nv_bfloat162 x) { return { __bfloat162float(x.x), __bfloat162float(x.y) }; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return { __float2bfloat16_rn(x), __float2bfloat16_rn(y) };
}

#endif
