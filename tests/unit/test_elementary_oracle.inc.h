/* Part of test_elementary.c: what the functions are compared with. */

/* ------------------------------------------------------------------ oracle, in double, without branches so that it
 * vectorises */

#define INLINE static inline __attribute__((always_inline))

/* The highest coefficient first. Unrolled, so that the loops over x around it vectorise. */
INLINE double polynomial(const double *c, int n, double x)
{
    double p = c[0];
#pragma GCC unroll 16
    for (int i = 1; i < n; i++) p = fma(p, x, c[i]);
    return p;
}

INLINE double oracle_exp(double x)
{
    x = x < -200.0 ? -200.0 : x; /* already 0 in float, and still positive here */
    x = x > 200.0 ? 200.0 : x;
    double t = x * 0x1.71547652b82fep+0 + 0x1.8p+52;
    double n = t - 0x1.8p+52;
    double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    static const double inverse_factorials[] =
        FIELDS(1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0,
               1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0);
    double p = polynomial(inverse_factorials, 13, r);
    return p * double_from_bits((double_bits(t) << 52) + 0x3ff0000000000000u);
}

INLINE double oracle_log1p(double x)
{
    const uint64_t bias = (uint64_t)1024 << 52;
    uint64_t k_biased = (double_bits(1.0 + x) - 0x3fe6a09e667f3bcdu + bias) >> 52;
    double scale = double_from_bits(0x3ff0000000000000u - ((k_biased << 52) - bias));
    double k = double_from_bits(0x4330000000000000u + k_biased) - (0x1p52 + 1024.0);
    double f = x * scale + (scale - 1.0);
    double s = f / (2.0 + f), z = s * s;
    static const double odd[] = { 1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0,
                                  1.0 / 9.0,  1.0 / 7.0,  1.0 / 5.0,  1.0 / 3.0,  1.0 };
    double p = polynomial(odd, 11, z);
    double y = k * 0x1.62e42fefa39efp-1 + 2.0 * s * p;
    y = x == 0.0 ? x : y;
    y = x == (double)INFINITY ? x : y;
    double below = x == -1.0 ? -(double)INFINITY : (double)NAN;
    return x > -1.0 ? y : below;
}

INLINE double oracle_reciprocal(double x) { return 1.0 / x; }
INLINE double oracle_rsqrt(double x) { return 1.0 / sqrt(x); }
INLINE double oracle_sigmoid(double x) { return 1.0 / (1.0 + oracle_exp(-x)); }
INLINE double oracle_silu(double x)
{
    x = x < -200.0 ? -200.0 : x;
    return x * oracle_sigmoid(x);
}
INLINE double oracle_softplus(double x)
{
    double y = oracle_log1p(oracle_exp(x));
    return x > 20.0 ? x : y;
}

/* The same by libm, to validate the oracle. */
static long double libm_exp(long double x) { return expl(x); }
static long double libm_log1p(long double x) { return log1pl(x); }
static long double libm_reciprocal(long double x) { return 1.0L / x; }
static long double libm_rsqrt(long double x) { return 1.0L / sqrtl(x); }
static long double libm_sigmoid(long double x) { return 1.0L / (1.0L + expl(-x)); }
static long double libm_silu(long double x) { return x == -(long double)INFINITY ? -0.0L : x / (1.0L + expl(-x)); }
static long double libm_softplus(long double x) { return x > 20.0L ? x : log1pl(expl(x)); }

/* 1 / ulp of the float at exact: 2^-149 and up. */
INLINE double inverse_ulp(double exact)
{
    uint64_t e = (double_bits(exact) >> 52) & 0x7ff;
    e = e < 1023 - 126 ? 1023 - 126 : e;
    e = e > 1023 + 127 ? 1023 + 127 : e;
    return double_from_bits((uint64_t)(2 * 1023 + 23 - e) << 52);
}

/* All bits, where x is a NaN. */
INLINE uint64_t nan_mask(double x)
{
    return 0 - ((0x7ff0000000000000u - (double_bits(x) & 0x7fffffffffffffffu)) >> 63);
}

/* |result - exact| in ulps; infinite for a wrong sign (of a zero too) or a NaN on one side only. An overflow
 * counts as 2^128, the next value if the format went on. With masks: of conditions on what is a NaN GCC 12 makes
 * branches, for some of the functions, and the loop around them no vectors. */
INLINE double ulps(double result, double exact)
{
    double limit = 0x1p128;
    double r = result > limit ? limit : result;
    double x = exact > limit ? limit : exact;
    r = r < -limit ? -limit : r;
    x = x < -limit ? -limit : x;
    uint64_t error = double_bits(fabs(r - x) * inverse_ulp(x));
    uint64_t sign_differs = 0 - ((double_bits(result) ^ double_bits(exact)) >> 63);
    uint64_t result_nan = nan_mask(result), exact_nan = nan_mask(exact);
    uint64_t infinite = sign_differs | result_nan | exact_nan;
    error = (error & ~infinite) | (infinite & 0x7ff0000000000000u);
    return double_from_bits(error & ~(result_nan & exact_nan));
}

static double largest(const double *error)
{
    double m[32] = { 0 };
    for (int i = 0; i < BLOCK; i += 32)
        for (int j = 0; j < 32; j++) m[j] = error[i + j] > m[j] ? error[i + j] : m[j];
    for (int j = 1; j < 32; j++) m[0] = m[j] > m[0] ? m[j] : m[0];
    return m[0];
}

/* Is no error in this block above m, as two of them show? Where all results are one value, or where each is its input,
 * the error is |c - f(x)| or |x - f(x)|. On either side of 0 both f(x) and x - f(x) are monotonic, for all functions of
 * the list but silu between -2 and 2. So the largest difference is at an end of the block, and so is the smallest ulp
 * of f(x). Of these blocks one in CHECKED is measured all the same, which fails for a function of which this is not
 * true. */
static bool none_above(const char *name, double (*oracle)(double), const float *in, const float *want, int n, double m)
{
    const uint32_t low = gdn_bits(in[0]), high = gdn_bits(in[BLOCK - 1]);
    if (n < BLOCK || high - low != BLOCK - 1 || (low ^ high) >> 31) return false; /* not neighbours of one sign */
    if (strcmp(name, "silu") == 0 && fabsf(in[0]) < 2.0f) return false;
    const bool alike = memcmp(want, want + 1, (BLOCK - 1) * sizeof *want) == 0;
    if (!alike && memcmp(want, in, BLOCK * sizeof *want) != 0) return false;
    double farthest = 0.0, scale = 0.0;
    int nans = 0;
    for (int i = 0; i < BLOCK; i += BLOCK - 1) {
        const double exact = oracle((double)in[i]), error = ulps((double)want[i], exact);
        if (!(error <= m)) return false;
        nans += exact != exact;
        farthest = fmax(farthest, error / inverse_ulp(exact));
        scale = fmax(scale, inverse_ulp(exact));
    }
    if (nans) return nans == 2 && alike; /* below the end of a domain, or NaNs as inputs */
    return farthest * scale + 2 * ORACLE_ERROR < m;
}
