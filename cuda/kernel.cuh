// What all CUDA kernels share: declarations, memory by address, conversions, maps. It is compiled by nvcc, or by a C++
// compiler whose -include file defines GDN_KERNEL and the intrinsics.
//
// Arithmetic on vectors uses the _rn intrinsics, which no compiler fuses or reorders. Scalars use
// numerics/arithmetic.h, as numerics/elementary.h does: `fmaf` is one fused instruction, and -fmad=false keeps the
// other operations separate.
#ifndef GDN_CUDA_KERNEL_CUH
#define GDN_CUDA_KERNEL_CUH

#define GDN_MEMORY gdn_cuda_memory
typedef char *gdn_cuda_memory;
#include "call/types.h"
#include "cuda/shape.h"

#if defined(__CUDACC__)
#define GDN_ELEMENTARY_FUNCTION static __device__ __forceinline__
// Dependent launch (queue.c): the next kernel's thread blocks may start while this kernel's run. Each waits here until
// the kernels before it have finished and their results can be read. After other launches both instructions do nothing.
static __device__ __forceinline__ void gdn_cuda_begin()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}
#define GDN_KERNEL(name, params, threads)                                                                              \
    static __device__ __forceinline__ void name##_of(const params &p);                                                 \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ params p)                       \
    {                                                                                                                  \
        gdn_cuda_begin();                                                                                              \
        name##_of(p);                                                                                                  \
    }                                                                                                                  \
    static __device__ __forceinline__ void name##_of(const params &p)
#define GDN_BLOCKS(threads, blocks) threads, blocks // the least blocks per multiprocessor: bounds the registers
#define GDN_SLOW_PATH               static __device__ __noinline__
#elif defined(GDN_KERNEL)
#define GDN_BLOCKS(threads, blocks) threads
#define GDN_SLOW_PATH               static __device__
#else
#error "kernels are compiled by nvcc, or with GDN_KERNEL and the intrinsics included before"
#endif
#include "numerics/elementary.h"

#define GDN_INLINE static __device__ __forceinline__
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define GDN_CONVERT16_BY_DEVICE
#endif
#define GDN_OWN_FROM_F16
#include "gpu/convert16.h"

#define GDN_FULL_WARP 0xffffffffu

// Returns x, opaque to the compiler. So expressions of it are computed here, not hoisted out of a loop into registers
// that the loop needs.
GDN_INLINE int here(int x)
{
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(x));
#endif
    return x;
}

// ---- Memory. Operands that the call does not write are read through __ldg, by address. What the call also writes is
// accessed through pointers that came with the parameters (call/types.h).
GDN_INLINE float read_float(uint64_t at) { return __ldg((const float *)at); }
GDN_INLINE float4 read_float4(uint64_t at) { return __ldg((const float4 *)at); }
GDN_INLINE int read_int(uint64_t at) { return __ldg((const int *)at); }
GDN_INLINE float load_float(const char *at) { return *(const float *)at; }
GDN_INLINE float4 load_float4(const char *at) { return *(const float4 *)at; }
GDN_INLINE unsigned load_word(const char *at) { return *(const unsigned *)at; }
GDN_INLINE void store_float(char *at, float x) { *(float *)at = x; }
GDN_INLINE void store_float4(char *at, float4 x) { *(float4 *)at = x; }
GDN_INLINE void store_word(char *at, unsigned x) { *(unsigned *)at = x; }
GDN_INLINE unsigned load_16bit(const char *at) { return *(const unsigned short *)at; }
GDN_INLINE void store_16bit(char *at, uint32_t x) { *(unsigned short *)at = (unsigned short)x; }
GDN_INLINE uint2 load_pair(const char *at) { return *(const uint2 *)at; }
GDN_INLINE void store_pair(char *at, uint32_t x, uint32_t y) { *(uint2 *)at = make_uint2(x, y); }

// Copies 16 bytes to shared memory, later where the device can, so that many copies are under way and none needs
// registers. copies_done() waits for those of this thread.
GDN_INLINE void copy_later(float *shared, const char *from)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(from)
                 : "memory");
#else
    *(float4 *)shared = load_float4(from);
#endif
}
GDN_INLINE void copies_done()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// A map's entry, or its default if there is no map.
GDN_INLINE int map_at(uint64_t map, int64_t index, int absent)
{
    return map ? read_int(map + 4 * (uint64_t)index) : absent;
}

#include "call/dialect_cuda.h"
#include "call/maps.h"

// Reports a bad map value to the host. The caller skips the sequence or row.
GDN_INLINE void report(char *bad, int word) { store_word(bad + 4 * (uint64_t)word, 1); }

// False, and reported, if a parent is not an earlier token of the sequence. Whole warps call it; the lanes check 32
// tokens at a time.
GDN_INLINE bool is_tree(uint64_t parent, int first, int T, char *bad)
{
    const int lane = (int)threadIdx.x & 31;
    const bool good = !parent || gdn_bad_parent(parent, first, T, lane, 32) >= T;
    if (__all_sync(GDN_FULL_WARP, good)) return true;
    report(bad, GDN_BAD_PARENT);
    return false;
}

// ---- Conversions.
#ifdef GDN_CONVERT16_BY_DEVICE
// Conversion instructions: .rn rounds to nearest, ties to even, and keeps subnormals. The payload of a NaN may differ
// from the reference's, which the contract allows. sm_75, which has none for BF16, and other compilers use the bits.
GDN_INLINE float from_f16(uint32_t h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)h));
    return x;
}
GDN_INLINE uint32_t to_f16(float x)
{
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
GDN_INLINE uint32_t to_bf16(float x)
{
    unsigned short h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
GDN_INLINE uint32_t to_f16_pair(float low, float high)
{
    uint32_t h;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(high), "f"(low));
    return h;
}
GDN_INLINE uint32_t to_bf16_pair(float low, float high)
{
    uint32_t h;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(high), "f"(low));
    return h;
}
GDN_INLINE float nearest_f16(float x) { return from_f16(to_f16(x)); }
GDN_INLINE float nearest_bf16(float x) { return from_bf16(to_bf16(x)); }
#else
// As a binary32 exponent, binary16's is too small by 112, subnormals included. The product is exact.
GDN_INLINE float from_f16(uint32_t h)
{
    const uint32_t sign = (h & 0x8000u) << 16, magnitude = (h & 0x7fffu) << 13;
    const uint32_t bits = gdn_bits(__fmul_rn(gdn_from_bits(magnitude), 0x1p112f));
    return gdn_from_bits(sign | ((h & 0x7c00u) == 0x7c00u ? magnitude | 0x7f800000u : bits));
}
#endif

GDN_INLINE float from_16bit(uint32_t h, int dtype) { return dtype == GDN_F16 ? from_f16(h) : from_bf16(h); }

// One element of type F32, F16 or BF16, uniform in a launch. read_bits() loads it and widen() converts it at its use,
// so that no load waits for an earlier one.
GDN_INLINE uint32_t read_bits(uint64_t at, int dtype)
{
    return dtype == GDN_F32 ? gdn_bits(read_float(at)) : __ldg((const unsigned short *)at);
}
GDN_INLINE float widen(uint32_t bits, int dtype)
{
    return dtype == GDN_F32 ? gdn_from_bits(bits) : from_16bit(bits, dtype);
}
GDN_INLINE float read_element(uint64_t at, int dtype) { return widen(read_bits(at, dtype), dtype); }
GDN_INLINE uint32_t to_16bit(float x, int dtype) { return dtype == GDN_F16 ? to_f16(x) : to_bf16(x); }
GDN_INLINE void store_element(char *at, float x, int dtype)
{
    if (dtype == GDN_F32) store_float(at, x);
    else store_16bit(at, to_16bit(x, dtype));
}

// ---- Two floats at a time. From sm_100 on CUDA 13 has one instruction for both, which rounds each to nearest (_rn)
// and keeps subnormals. So the bits are those of two instructions.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 && __CUDACC_VER_MAJOR__ >= 13
GDN_INLINE float2 add2(float2 x, float2 y) { return __fadd2_rn(x, y); }
GDN_INLINE float2 mul2(float2 x, float2 y) { return __fmul2_rn(x, y); }
GDN_INLINE float2 fma2(float2 x, float2 y, float2 z) { return __ffma2_rn(x, y, z); }
#else
GDN_INLINE float2 add2(float2 x, float2 y) { return make_float2(__fadd_rn(x.x, y.x), __fadd_rn(x.y, y.y)); }
GDN_INLINE float2 mul2(float2 x, float2 y) { return make_float2(__fmul_rn(x.x, y.x), __fmul_rn(x.y, y.y)); }
GDN_INLINE float2 fma2(float2 x, float2 y, float2 z)
{
    return make_float2(__fmaf_rn(x.x, y.x, z.x), __fmaf_rn(x.y, y.y, z.y));
}
#endif

// ---- Four floats at a time, componentwise.
GDN_INLINE float4 zero4() { return make_float4(0.0f, 0.0f, 0.0f, 0.0f); }
GDN_INLINE float4 all4(float x) { return make_float4(x, x, x, x); }
GDN_INLINE float2 low_of(float4 x) { return make_float2(x.x, x.y); }
GDN_INLINE float2 high_of(float4 x) { return make_float2(x.z, x.w); }
GDN_INLINE float4 of_pairs(float2 low, float2 high) { return make_float4(low.x, low.y, high.x, high.y); }
GDN_INLINE float4 add4(float4 x, float4 y)
{
    return of_pairs(add2(low_of(x), low_of(y)), add2(high_of(x), high_of(y)));
}
GDN_INLINE float4 mul4(float4 x, float4 y)
{
    return of_pairs(mul2(low_of(x), low_of(y)), mul2(high_of(x), high_of(y)));
}
GDN_INLINE float4 fma4(float4 x, float4 y, float4 z)
{
    return of_pairs(fma2(low_of(x), low_of(y), low_of(z)), fma2(high_of(x), high_of(y), high_of(z)));
}
GDN_INLINE float4 exchange4(float4 x, int mask)
{
    return make_float4(__shfl_xor_sync(GDN_FULL_WARP, x.x, mask), __shfl_xor_sync(GDN_FULL_WARP, x.y, mask),
                       __shfl_xor_sync(GDN_FULL_WARP, x.z, mask), __shfl_xor_sync(GDN_FULL_WARP, x.w, mask));
}
GDN_INLINE float4 of_lane4(float4 x, int lane)
{
    return make_float4(__shfl_sync(GDN_FULL_WARP, x.x, lane), __shfl_sync(GDN_FULL_WARP, x.y, lane),
                       __shfl_sync(GDN_FULL_WARP, x.z, lane), __shfl_sync(GDN_FULL_WARP, x.w, lane));
}
GDN_INLINE float exchange(float x, int mask) { return __shfl_xor_sync(GDN_FULL_WARP, x, mask); }

#endif
