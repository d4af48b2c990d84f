/* CUDA's arithmetic intrinsics, for binary32 in round to nearest; part of cuda_shim.h. */
#ifndef GDN_SIMT_CUDA_MATH_H
#define GDN_SIMT_CUDA_MATH_H

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }

/* NaN gives 0 and what is too large the nearest number, unlike a conversion on a CPU. */
static inline int __float2int_rn(float x)
{
    if (!(x == x)) return 0;
    if (x >= 0x1p31f) return 0x7fffffff;
    if (x < -0x1p31f) return -0x7fffffff - 1;
    return (int)rintf(x);
}

static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }

#endif
