// The arithmetic of docs/numerics.md in GLSL. `precise` (NoContraction in SPIR-V) keeps a compiler from fusing or
// reassociating; whether the device's fma() is fused is for the probe to find out (vulkan/probe.c).
//
// GDN_SOFT_FMA: an exact fma from binary64. The product of two binary32 is exact in binary64; the sum is not,
// but its error is (two-sum). Where there is an error, the sum is rounded to odd, so that the last rounding, to
// binary32, sees on which side of a tie the exact value lies. (Boldo, Melquiond 2008.)
#ifdef GDN_SOFT_FMA
float fma1(float a, float b, float c)
{
    precise double product = double(a) * double(b);
    precise double addend = double(c);
    precise double sum = product + addend;
    precise double rest = sum - product;
    precise double error = (product - (sum - rest)) + (addend - rest);
    int64_t bits = doubleBitsToInt64(sum);
    int64_t away = (bits ^ doubleBitsToInt64(error)) >> 63; // -1 where the sum lies beyond the exact value, else 0
    // An infinite or NaN sum has a NaN error, which is not greater than zero.
    bits += abs(error) > 0.0 && (bits & 1) == 0 ? (away | 1) : 0;
    return float(int64BitsToDouble(bits));
}
// Where a * b is exact in binary32, so that rounding it changes nothing.
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
#define fma_exact_product fma1
vec4 fma4(vec4 a, vec4 b, vec4 c)
{
    precise vec4 r = fma(a, b, c);
    return r;
}
#endif
