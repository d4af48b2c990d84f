/* CUDA's device language for the emulator. A compiler for the CPU takes a .cu file with
 *     -x c++ -std=c++17 -ffp-contract=off -include tests/emulator/cuda_shim.h
 * Everything here behaves as on a device of compute capability 9.0. It needs no C++ library. */
#ifndef GDN_SIMT_CUDA_SHIM_H
#define GDN_SIMT_CUDA_SHIM_H

#include "tests/emulator/core.h"
#include "tests/emulator/registry.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define GDN_SIMT 1 /* for the few places where a kernel has to know */

/* ---- Qualifiers ---- */
#define __global__
#define __device__
#define __grid_constant__
#ifdef SIMT_CALLS /* compiled once, not again for each of its calls: for sanitizers, and to plant mistakes in it */
#define __forceinline__ inline
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__   static __attribute__((section("simt_shared")))

/* ---- Kernels: one struct by value, `p` in the body ---- */
#define GDN_KERNEL(name, ParamsType, max_threads_per_block)                                                            \
    static_assert(sizeof(ParamsType) <= 4096 && __is_trivially_copyable(ParamsType), "no parameter of a kernel");      \
    static void name(const ParamsType &p);                                                                             \
    static void simt_run_##name(const void *p) { name(*static_cast<const ParamsType *>(p)); }                          \
    __attribute__((constructor)) static void simt_add_##name()                                                         \
    {                                                                                                                  \
        static simt_kernel kernel = { #name, sizeof(ParamsType), max_threads_per_block, simt_run_##name, nullptr };    \
        simt_register_kernel(&kernel);                                                                                 \
    }                                                                                                                  \
    static void name(const ParamsType &p)

/* ---- Where a thread is ---- */
#define threadIdx (const_cast<const simt_dim3 &>(simt_self->index))
#define blockIdx  (const_cast<const simt_dim3 &>(simt_current.index))
#define blockDim  (const_cast<const simt_dim3 &>(simt_current.size))

/* ---- Vector types ---- */
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) { return { x, y }; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return { x, y, z, w }; }
static inline float2 make_float2(float x, float y) { return { x, y }; }
static inline float4 make_float4(float x, float y, float z, float w) { return { x, y, z, w }; }

template <class To, class From> static inline To simt_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the bits of one are not the bits of the other");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned __float_as_uint(float x) { return simt_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return simt_bits<float>(x); }

/* ---- Arithmetic, binary32 in round to nearest ---- */
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }

static inline int __ffs(int x) { return __builtin_ffs(x); }

/* ---- Loads through the read-only cache, and atomics ---- */
/* A parameter that follows the pointer's type, so that atomicMax(&word, 1) is what CUDA's overloads make it. */
template <class T> struct simt_type {
    typedef T type;
};
#define SIMT_VALUE(T) typename simt_type<T>::type

/* A device faults on an address that is not a multiple of the size; a CPU would not notice. */
template <class T> static inline void simt_aligned(const T *at, const char *file, int line)
{
    if ((uintptr_t)at % alignof(T)) simt_fault("%s:%d: an address is not aligned to %zu bytes", file, line, alignof(T));
}

#define SIMT_WHERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
template <class T> static inline T __ldg(const T *at, SIMT_WHERE)
{
    simt_aligned(at, file, line);
    return *at;
}

/* Fibers are never interrupted, so that any step is atomic. The compiler sees __atomic_*, and so does the checker. */
template <class T> static inline T atomicCAS(T *at, SIMT_VALUE(T) compare, SIMT_VALUE(T) value)
{
    __atomic_compare_exchange_n(at, &compare, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return compare;
}
template <class T> static inline T atomicMax(T *at, SIMT_VALUE(T) value)
{
    const T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    if (old < value) __atomic_store_n(at, value, __ATOMIC_RELAXED);
    return old;
}
template <class T> static inline T atomicMin(T *at, SIMT_VALUE(T) value) /* a planted mistake's */
{
    const T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    if (value < old) __atomic_store_n(at, value, __ATOMIC_RELAXED);
    return old;
}

#undef SIMT_WHERE

/* ---- Barriers, shuffles and votes ---- */
/* The default arguments are the place of the call. */
#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SIMT_HERE                                                                                                      \
    simt_site { file, line }

static inline void __syncthreads(SIMT_SITE) { simt_barrier(SIMT_HERE); }
/* A barrier with a number is one wherever threads come to it; a block's threads come all or none. */
static inline void __barrier_sync_count(unsigned id, unsigned count)
{
    if (id == 0 || id > 15 || count != blockDim.x * blockDim.y * blockDim.z)
        simt_fault("barrier %u of %u threads: a block of %u can have barriers 1 to 15 of all of them here", id, count,
                   blockDim.x * blockDim.y * blockDim.z);
    simt_barrier(simt_site{ "barrier", (int)id });
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_SITE)
{
    simt_lanes(SIMT_OP_SYNC, mask, 0, 0, SIMT_HERE);
}
static inline int __any_sync(unsigned mask, int x, SIMT_SITE)
{
    return simt_lanes(SIMT_OP_BALLOT, mask, x != 0, 0, SIMT_HERE) != 0;
}
static inline int __all_sync(unsigned mask, int x, SIMT_SITE)
{
    return simt_lanes(SIMT_OP_BALLOT, mask, x == 0, 0, SIMT_HERE) == 0;
}

template <class T> static inline uint64_t simt_to_64(T value)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 2, "no shuffle of this type");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> static inline T simt_from_64(uint64_t bits)
{
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
/* The lanes of a shuffle of this width are [first, end). */
static inline unsigned simt_first(int width, const char *file, int line)
{
    if (width < 1 || width > 32 || (width & (width - 1))) simt_fault("%s:%d: a width of %d", file, line, width);
    return simt_self->lane & ~(unsigned)(width - 1);
}
template <class T> static inline T simt_shuffle(unsigned mask, T value, unsigned source, simt_site site)
{
    return simt_from_64<T>(simt_lanes(SIMT_OP_SHUFFLE, mask, simt_to_64(value), source, site));
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_SITE)
{
    const unsigned first = simt_first(width, file, line);
    return simt_shuffle(mask, value, first + ((unsigned)source & (unsigned)(width - 1)), SIMT_HERE);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SIMT_SITE)
{
    const unsigned end = simt_first(width, file, line) + (unsigned)width, at = simt_self->lane ^ (unsigned)lane_mask;
    return simt_shuffle(mask, value, at < end ? at : simt_self->lane, SIMT_HERE);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, SIMT_SITE)
{
    const unsigned first = simt_first(width, file, line), lane = simt_self->lane;
    return simt_shuffle(mask, value, lane - first + by < (unsigned)width ? lane + by : lane, SIMT_HERE);
}

/* mma.sync.m16n8k32 of signed bytes, which are added in integers of 32 bits. CUDA has an instruction, and no intrinsic.
 */
static inline void __mma_m16n8k32_s8(int (&c)[4], const uint4 &a, uint2 b, SIMT_SITE)
{
    simt_mma x = { { { c[0], c[1], c[2], c[3] } }, { a.x, a.y, a.z, a.w }, { b.x, b.y } };
    (void)simt_lanes(SIMT_OP_MMA, 0xffffffffu, (uint64_t)(uintptr_t)&x, 0, SIMT_HERE);
    memcpy(c, x.c.s32, sizeof c);
}
/* mma.sync.m16n8k16 of binary16, which are added in binary32. */
static inline void __mma_m16n8k16_f16(float (&c)[4], const uint4 &a, uint2 b, SIMT_SITE)
{
    simt_mma x = { {}, { a.x, a.y, a.z, a.w }, { b.x, b.y } };
    memcpy(x.c.f32, c, sizeof c);
    (void)simt_lanes(SIMT_OP_MMA_F16, 0xffffffffu, (uint64_t)(uintptr_t)&x, 0, SIMT_HERE);
    memcpy(c, x.c.f32, sizeof c);
}

#undef SIMT_SITE
#undef SIMT_HERE

#endif
