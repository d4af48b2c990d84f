// Metal's language, the definitions that numerics/elementary.h needs, and how a kernel is declared. Metal's compiler
// compiles it on the user's machine, as one source with everything that is included (metal/embed.cmake). Or a C++
// compiler does, whose -include file defines GDN_KERNEL and the language.
//
// Only what is written as fma is fused: contraction is off, and the host requests safe math, because compilers
// otherwise reorder and approximate. There is no simd_sum, whose order is undefined, and no min or max, which treat NaN
// differently. A kernel's last two arguments identify the thread: GDN_THREAD.
#ifndef GDN_METAL_LANGUAGE_H
#define GDN_METAL_LANGUAGE_H

#if defined(__METAL_VERSION__)
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#define GDN_KERNEL(name, ...) kernel void name(__VA_ARGS__)
#elif !defined(GDN_KERNEL)
#error "kernels are compiled by Metal's compiler, or with GDN_KERNEL and the language included before"
#endif
#define GDN_THREAD uint3 group [[threadgroup_position_in_grid]], uint me [[thread_index_in_threadgroup]]
#define GDN_INLINE static inline

// numerics/elementary.h is plain C except for these.
#define GDN_ELEMENTARY_BITS
#define fmaf fma
GDN_INLINE uint32_t gdn_bits(float x) { return as_type<uint32_t>(x); }
GDN_INLINE float gdn_from_bits(uint32_t b) { return as_type<float>(b); }

#endif
