// The arithmetic of docs/reference/numerics.md in GLSL, for numerics/elementary.h and the shaders. `precise`
// (NoContraction in SPIR-V) keeps a compiler from fusing or reassociating. The probe (vulkan/probe.c) tests whether the
// device's fma() is fused, and whether subnormal numbers are kept.
//
// GDN_SOFT_FMA: an exact fma from binary64. The product of two binary32 is exact in binary64. The sum is not, but
// two-sum gives its error. If there is an error, the sum is rounded to odd. The last rounding, to binary32, then knows
// on which side of a tie the exact value is. (Boldo, Melquiond 2008.)
#ifdef GDN_SOFT_FMA
// The level GDN_EXACT_FTZ. The probe finds that level only if the device flushes binary32 arithmetic. But conversions
// from and to binary64 may be exempt, so this fma flushes its operands and result itself.
layout(constant_id = 4) const bool FLUSH = false;
float flush(float x)
{
    const uint bits = floatBitsToUint(x);
    return FLUSH && (bits & 0x7f800000u) == 0u ? uintBitsToFloat(bits & 0x80000000u) : x;
}

// Rounds a sum that was rounded to odd to binary32. FLUSH: tiny results become zero. A result is tiny if it is below
// 2^-126 after rounding to 24 bits with an unbounded exponent. The tie 2^-126 - 2^-151 is not tiny. A sum rounded to
// odd still shows on which side of that tie it is.
float to_binary32(int64_t sum)
{
    const int64_t magnitude = sum & 0x7fffffffffffffffL;
    const float rounded = float(int64BitsToDouble(sum));
    const uint least = magnitude < 0x380ffffff0000000L ? 0u : 0x00800000u;
    return FLUSH && magnitude < 0x3810000000000000L ? uintBitsToFloat(uint(sum >> 32) & 0x80000000u | least) : rounded;
}

float fma1(float a, float b, float c)
{
    precise double product = double(flush(a)) * double(flush(b));
    precise double addend = double(flush(c));
    precise double sum = product + addend;
    precise double rest = sum - product;
    precise double error = (product - (sum - rest)) + (addend - rest);
    int64_t bits = doubleBitsToInt64(sum);
    int64_t away = (bits ^ doubleBitsToInt64(error)) >> 63; // -1 if the sum is beyond the exact value, else 0
    // An infinite or NaN sum has a NaN error, which is not greater than zero.
    bits += abs(error) > 0.0 && (bits & 1) == 0 ? (away | 1) : 0;
    return to_binary32(bits);
}
#define gdn_fma_exact_product fma_exact_product
float fma_exact_product(float a, float b, float c)
{
    precise float product = a * b;
    precise float sum = product + c;
    return sum;
}
vec4 fma4(vec4 a, vec4 b, vec4 c)
{
    return vec4(fma1(a.x, b.x, c.x), fma1(a.y, b.y, c.y), fma1(a.z, b.z, c.z), fma1(a.w, b.w, c.w));
}
#else
float fma1(float a, float b, float c)
{
    precise float r = fma(a, b, c);
    return r;
}
vec4 fma4(vec4 a, vec4 b, vec4 c)
{
    precise vec4 r = fma(a, b, c);
    return r;
}
#endif

// ---- What numerics/elementary.h and gpu/convert16.h take from the language. Each operation is a function, whose
// `precise` result keeps it apart from the others.
#define GDN_ELEMENTARY_BITS
#define GDN_ELEMENTARY_FUNCTION
#define GDN_INLINE
#define uint32_t uint
#define gdn_bits floatBitsToUint
#define gdn_from_bits uintBitsToFloat
#define gdn_from_int(b) float(int(b))
#define gdn_fma fma1
#define gdn_flush(x) (x) // the device's comparisons flush as its arithmetic does

float gdn_add(float a, float b)
{
    precise float r = a + b;
    return r;
}
float gdn_sub(float a, float b)
{
    precise float r = a - b;
    return r;
}
float gdn_mul(float a, float b)
{
    precise float r = a * b;
    return r;
}

// Tests the bits, because a compiler may assume that no comparison meets a NaN.
bool gdn_is_nan(float x)
{
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}
#define gdn_keep_nan(x, result) (gdn_is_nan(x) ? (x) : (result))
