// Elementary functions: the sequences of numerics/elementary.h, with its step numbers and names. Functions that no
// kernel calls are omitted.
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
#define LOG_C2 -0.5
#define LOG_C3 uintBitsToFloat(0x3eaaaad6u)
#define LOG_C4 uintBitsToFloat(0xbe800041u)
#define LOG_C5 uintBitsToFloat(0x3e4cb39fu)
#define LOG_C6 uintBitsToFloat(0xbe2a6bf1u)
#define LOG_C7 uintBitsToFloat(0x3e143a47u)
#define LOG_C8 uintBitsToFloat(0xbe0739e0u)
#define LOG_C9 uintBitsToFloat(0x3dd8b648u)
#define LOG_C10 uintBitsToFloat(0xbd3c4393u)
#define LN2_HI_SCALED uintBitsToFloat(0x33b17200u) // LN2_HI 2^-23
#define LN2_LO_SCALED uintBitsToFloat(0x2a3fbe8eu)
#define RECIPROCAL_SEED 0x7ef311c7u
#define RSQRT_SEED 0x5f3759dfu

// Tests the bits. Each function tests this last: a compiler may turn the clamps into min and max, which lose NaN.
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

float gdn_log1p(float x)
{
    // [1] reduce
    precise float one_more = 1.0 + x;
    uint k_bits = (floatBitsToUint(one_more) - 0x3f400000u) & EXPONENT_MASK;
    float x_scaled = uintBitsToFloat(floatBitsToUint(x) - k_bits);
    float four_scaled = uintBitsToFloat(0x40800000u - k_bits);
    precise float f = x_scaled + fma_exact_product(0.25, four_scaled, -1.0);
    // [2] polynomial: log(1 + f) = f + f^2 q
    precise float q = LOG_C10;
    q = fma1(q, f, LOG_C9);
    q = fma1(q, f, LOG_C8);
    q = fma1(q, f, LOG_C7);
    q = fma1(q, f, LOG_C6);
    q = fma1(q, f, LOG_C5);
    q = fma1(q, f, LOG_C4);
    q = fma1(q, f, LOG_C3);
    q = fma1(q, f, LOG_C2);
    // [3] s + l = k LN2_HI + f exactly, then the small terms
    float k = float(int(k_bits));
    precise float h = k * LN2_HI_SCALED;
    precise float s = h + f;
    precise float l = f - (s - h);
    precise float ff = f * f;
    precise float u = fma1(ff, q, fma1(k, LN2_LO_SCALED, l));
    precise float result = s + u;
    // [4] ends of the domain, the sign of x, NaN
    float below = uintBitsToFloat(x == -1.0 ? INF_BITS : NAN_BITS); // -inf with the sign of x
    result = x > -1.0 ? result : below;
    result = x == uintBitsToFloat(INF_BITS) ? x : result;
    result = uintBitsToFloat(floatBitsToUint(result) | (floatBitsToUint(x) & SIGN_BIT));
    return is_nan(x) ? x : result;
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

float gdn_rsqrt(float x)
{
    // [1] lift subnormals
    float pre = x < MIN_NORMAL ? 16777216.0 : 1.0;
    float post = x < MIN_NORMAL ? 4096.0 : 1.0;
    precise float b = x * pre;
    // [2] y = 1/sqrt(b)
    precise float y = uintBitsToFloat(RSQRT_SEED - (floatBitsToUint(b) >> 1));
    precise float h = b * y;
    precise float e = fma1(-h, y, 1.0);
    precise float step1 = fma1(e, 0.375, 0.5) * e;
    y = fma1(y, step1, y);
    h = b * y;
    e = fma1(-h, y, 1.0);
    precise float half_y = 0.5 * y;
    y = fma1(half_y, e, y);
    // [3] the residual of b y y in twice the precision: b y = h + l
    h = b * y;
    precise float l = fma1(b, y, -h);
    e = fma1(-l, y, fma1(-h, y, 1.0));
    precise float half_e = 0.5 * e;
    precise float more_e = 0.375 * e;
    y = fma1(y, fma1(more_e, e, half_e), y) * post;
    // [4] ends of the domain, NaN
    y = x < 0.0 ? uintBitsToFloat(NAN_BITS) : y;
    y = x == 0.0 ? uintBitsToFloat(INF_BITS | (floatBitsToUint(x) & SIGN_BIT)) : y;
    y = x == uintBitsToFloat(INF_BITS) ? 0.0 : y;
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

float gdn_sigmoid(float argument)
{
    float x = argument < -110.0 ? -110.0 : argument;
    float y = gdn_logistic(x, 1.0);
    return is_nan(argument) ? argument : y;
}

float gdn_silu(float argument)
{
    float x = argument < -110.0 ? -110.0 : argument;
    float y = gdn_logistic(x, x);
    return is_nan(argument) ? argument : y;
}

float gdn_softplus(float x)
{
    float y = gdn_log1p(gdn_exp(x));
    return x > 20.0 ? x : y;
}

// ---- Functions of q, k and g in gated_delta_net: numerics/prepare.h ----

float gdn_norm_factor(float sum, float add, float most)
{
    precise float lifted = sum + add;
    float r = gdn_rsqrt(lifted);
    float least = most < r ? most : r;
    return is_nan(r) ? r : least;
}

float gdn_raw_gate(float x, float rate, float bias)
{
    precise float biased = x + bias;
    precise float gate = rate * gdn_softplus(biased);
    return gate;
}

float gdn_bounded_gate(float x, float rate, float bias, float lower_bound)
{
    precise float biased = x + bias;
    precise float scaled = rate * biased;
    precise float gate = lower_bound * gdn_sigmoid(scaled);
    return gate;
}
