/* CUDA's arithmetic intrinsics, for binary32 in round to nearest; part of cuda_shim.h. */
#ifndef GDN_SIMT_CUDA_MATH_H
#define GDN_SIMT_CUDA_MATH_H

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }

static inline int __ffs(int x) { return __builtin_ffs(x); }

#endif
