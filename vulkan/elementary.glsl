// Elementary functions: the sequences of numerics/elementary.h, with its step numbers and names. Those that no
// kernel calls are left out.
#define INF_BITS 0x7f800000u
#define NAN_BITS 0x7fc00000u
#define SIGN_BIT 0x80000000u
#define EXPONENT_MASK 0xff800000u
// Constants by their bits: GLSL has no hexadecimal floating-point literals.
#define MIN_NORMAL uintBitsToFloat(0x00800000u)
#define LOG2E uintBitsToFloat(0x3fb8aa3bu)
#define LN2_HI uintBitsToFloat(0x3f317200u)
#define LN2_LO uintBitsToFloat(0x35bfbe8eu)
#define ROUND_MAGIC 12582912.0
#define EXP_C2 uintBitsToFloat(0x3efffffeu)
#define EXP_C3 uintBitsToFloat(0x3e2aaa46u)
#define EXP_C4 uintBitsToFloat(0x3d2aac2cu)
#define EXP_C5 uintBitsToFloat(0x3c091ef4u)
#define EXP_C6 uintBitsToFloat(0x3ab5641du)
#define EXP_SUBNORMAL uintBitsToFloat(0xc2aeac4fu)
#define RECIPROCAL_SEED 0x7ef311c7u

// By its bits, and the last thing each function asks: a compiler may turn the clamps into min and max, which lose NaN.
bool is_nan(float x)
{
    return (floatBitsToUint(x) & ~SIGN_BIT) > INF_BITS;
}

uint half_of(uint b)
{
    return (b >> 1) | (b & SIGN_BIT);
}

float gdn_exp(float argument)
{
    // [1] clamp
    float x = argument > 89.0 ? 89.0 : argument;
    x = x < -104.0 ? -104.0 : x;
    // [2] reduce
    precise float t = fma1(x, LOG2E, ROUND_MAGIC);
    t = t < ROUND_MAGIC - 149.0 ? ROUND_MAGIC - 149.0 : t;
    precise float n = t - ROUND_MAGIC;
    precise float h = fma_exact_product(-n, LN2_HI, x); // n has 8 bits, LN2_HI 15
    precise float r = fma1(-n, LN2_LO, h);
    precise float hr = h - r;
    precise float c = fma1(-n, LN2_LO, hr);
    // [3] polynomial
    precise float q = EXP_C6;
    q = fma1(q, r, EXP_C5);
    q = fma1(q, r, EXP_C4);
    q = fma1(q, r, EXP_C3);
    q = fma1(q, r, EXP_C2);
    precise float rr = r * r;
    precise float u = fma1(rr, q, c);
    // [4] exp(r + c) = s + w
    precise float s = x < EXP_SUBNORMAL ? 1.0 : 1.0 + r;
    precise float l = r - (s - 1.0);
    precise float w = l + u;
    // [5] scale by 2^n in two halves; only the fma rounds
    uint n_bits = floatBitsToUint(t) << 23;
    uint part = half_of(n_bits) & EXPONENT_MASK;
    float scale1 = uintBitsToFloat(0x3f800000u + part);
    float scale2 = uintBitsToFloat(0x3f800000u + (n_bits - part));
    precise float small = w * scale1;
    precise float large = s * scale1 * scale2;
    precise float result = fma1(small, scale2, large);
    return is_nan(argument) ? argument : result;
}

float gdn_reciprocal(float x)
{
    // [1] split
    float a = uintBitsToFloat(floatBitsToUint(x) & ~SIGN_BIT);
    float pre = a < MIN_NORMAL ? 16777216.0 : 1.0;
    precise float lifted = a * pre;
    uint b = floatBitsToUint(lifted);
    uint e_bits = b & INF_BITS;
    float m = uintBitsToFloat((b & 0x007fffffu) | 0x40000000u);
    // [2] y = 1/m
    precise float y = uintBitsToFloat(RECIPROCAL_SEED - floatBitsToUint(m));
    precise float e = fma1(-m, y, 1.0);
    e = fma1(e, e, e);
    y = fma1(y, e, y);
    e = fma1(-m, y, 1.0);
    y = fma1(y, e, y);
    // [3] one ulp up
    uint up = floatBitsToUint(y) + 1u;
    y = uintBitsToFloat(e_bits >= 0x7e800000u ? (up + 1u) & ~3u : up);
    // [4] the last fma is the only rounding
    e = fma1(-m, y, 1.0);
    e = fma1(e, e, e);
    y = y * uintBitsToFloat(INF_BITS - e_bits);
    y = fma1(y, e, y) * pre;
    // [5] zero, sign, NaN
    y = a == 0.0 ? uintBitsToFloat(INF_BITS) : y;
    y = uintBitsToFloat(floatBitsToUint(y) | (floatBitsToUint(x) & SIGN_BIT));
    return is_nan(x) ? x : y;
}

float gdn_logistic(float x, float num)
{
    // [1] reduce
    precise float t = fma1(x, -LOG2E, ROUND_MAGIC);
    precise float n = t - ROUND_MAGIC;
    precise float r = fma_exact_product(n, LN2_HI, x);
    r = fma1(n, LN2_LO, r);
    // [2] polynomial: 1 - v = exp(-r)
    precise float p = EXP_C6;
    p = fma1(-p, r, EXP_C5);
    p = fma1(-p, r, EXP_C4);
    p = fma1(-p, r, EXP_C3);
    p = fma1(-p, r, EXP_C2);
    p = fma1(-p, r, 1.0);
    precise float v = p * r;
    // [3] d = (1 + exp(-x)) 2^-half
    uint n_bits = floatBitsToUint(t) << 23;
    uint part = half_of(n_bits) & EXPONENT_MASK;
    float scale1 = uintBitsToFloat(0x3f800000u + (n_bits - part));
    float minus_scale2 = uintBitsToFloat(0xbf800000u - part);
    precise float d = scale1 - fma_exact_product(v, scale1, minus_scale2); // scale1 is a power of two
    // [4] y = -1/d
    precise float y = uintBitsToFloat((RECIPROCAL_SEED | SIGN_BIT) - floatBitsToUint(d));
    precise float e = fma1(d, y, 1.0);
    y = fma1(y, e, y);
    precise float ee = e * e;
    y = fma1(y, ee, y);
    e = fma1(d, y, 1.0);
    e = fma1(e, e, e);
    y = fma1(y, e, y);
    // [5] q = -num / d, correctly rounded
    precise float q = num * y;
    e = fma1(q, d, num);
    q = fma1(e, y, q) * minus_scale2;
    // [6] beyond 18 the denominator is 1 to rounding
    return x > 18.0 ? num : q;
}

float gdn_silu(float argument)
{
    float x = argument < -110.0 ? -110.0 : argument;
    float y = gdn_logistic(x, x);
    return is_nan(argument) ? argument : y;
}
