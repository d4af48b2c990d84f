/* The part of metal_shim.h for clang -fsyntax-only: address spaces as in Metal. Nothing here has a body. */
#ifndef GDN_SIMT_METAL_SPACES_H
#define GDN_SIMT_METAL_SPACES_H

#define device      __attribute__((address_space(1)))
#define constant    const __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define thread

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef uint uint3 __attribute__((ext_vector_type(3)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef float packed_float4 __attribute__((ext_vector_type(4)));

float fma(float a, float b, float c);
float4 fma(float4 a, float4 b, float4 c);
uint ctz(uint x);
template <class To, class From> To as_type(From from);
template <class T> T simd_shuffle(T x, ushort lane);
template <class T> T simd_shuffle_xor(T x, ushort mask);
bool simd_any(bool x);

enum memory_order { memory_order_relaxed };
struct atomic_uint {
    uint value;
};
void atomic_store_explicit(device atomic_uint *at, uint value, memory_order order);
uint atomic_fetch_max_explicit(device atomic_uint *at, uint value, memory_order order);
bool atomic_compare_exchange_weak_explicit(device atomic_uint *at, thread uint *expected, uint desired,
                                           memory_order good, memory_order bad);

#define GDN_KERNEL(name, ...) void name(__VA_ARGS__)
#endif
