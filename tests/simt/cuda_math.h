/* CUDA's arithmetic intrinsics, for binary32 in round to nearest; part of cuda_shim.h. */
#ifndef GDN_SIMT_CUDA_MATH_H
#define GDN_SIMT_CUDA_MATH_H

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

/* NaN gives 0 and what is too large the nearest number, unlike a conversion on a CPU. */
static inline int simt_to_int(float x)
{
    if (!(x == x)) return 0;
    if (x >= 0x1p31f) return 0x7fffffff;
    if (x < -0x1p31f) return -0x7fffffff - 1;
    return (int)x;
}
static inline unsigned simt_to_uint(float x) { return !(x > 0) ? 0 : x >= 0x1p32f ? 0xffffffffu : (unsigned)x; }
static inline int __float2int_rn(float x) { return simt_to_int(rintf(x)); }
static inline int __float2int_rz(float x) { return simt_to_int(x); }
static inline int __float2int_rd(float x) { return simt_to_int(floorf(x)); }
static inline int __float2int_ru(float x) { return simt_to_int(ceilf(x)); }
static inline unsigned __float2uint_rn(float x) { return simt_to_uint(rintf(x)); }
static inline unsigned __float2uint_rz(float x) { return simt_to_uint(x); }
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline unsigned __brev(unsigned x)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
    return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned s = selector >> 4 * i & 15;
        unsigned byte = (unsigned)(bytes >> 8 * (s & 7)) & 0xff;
        if (s & 8) byte = byte & 0x80 ? 0xff : 0;
        r |= byte << 8 * i;
    }
    return r;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n)
{
    n &= 31;
    return n ? high << n | low >> (32 - n) : high;
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n)
{
    n &= 31;
    return n ? low >> n | high << (32 - n) : low;
}

/* min and max of CUDA: for the pairs of types that have them; floats ignore a NaN. */
#define SIMT_MIN_MAX(type)                                                                                             \
    static inline type min(type a, type b) { return b < a ? b : a; }                                                   \
    static inline type max(type a, type b) { return a < b ? b : a; }
SIMT_MIN_MAX(int)
SIMT_MIN_MAX(unsigned)
SIMT_MIN_MAX(long)
SIMT_MIN_MAX(unsigned long)
SIMT_MIN_MAX(long long)
SIMT_MIN_MAX(unsigned long long)
#undef SIMT_MIN_MAX
static inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
static inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
static inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
static inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }

#endif
