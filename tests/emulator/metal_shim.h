/* Metal's shading language for the emulator. A compiler for the CPU takes a .metal file with
 *     -x c++ -std=c++17 -ffp-contract=off -include tests/emulator/metal_shim.h
 * Only what the kernels use is here. A kernel's arguments are one constant struct, then pointers, then which thread it
 * is. C++ ignores the attributes [[...]], so scripts/lint_metal.py checks that they have this order.
 *
 * With GDN_METAL_ADDRESS_SPACES, for clang -fsyntax-only: nothing is run, but every pointer and reference has its
 * address space, as Metal's compiler would have it. */
#ifndef GDN_SIMT_METAL_SHIM_H
#define GDN_SIMT_METAL_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef GDN_METAL_ADDRESS_SPACES
#include "tests/emulator/metal_spaces.h"
#else
#include "tests/emulator/core.h"
#include "tests/emulator/metal_registry.h"

#include <string.h>

#define device
#define constant const
#define thread
#define threadgroup

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;

/* ---- Vectors ---- */
struct uint3 {
    uint x, y, z;
};
struct alignas(16) float4 {
    float x, y, z, w;
    float4() = default;
    explicit float4(float s) : x(s), y(s), z(s), w(s) {}
    explicit inline float4(const struct packed_float4 &p);
};
struct packed_float4 { /* aligned as its elements are */
    float x, y, z, w;
    explicit packed_float4(float4 v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
};
inline float4::float4(const packed_float4 &p) : x(p.x), y(p.y), z(p.z), w(p.w) {}

static inline float4 simt_float4(float x, float y, float z, float w)
{
    float4 r;
    r.x = x, r.y = y, r.z = z, r.w = w;
    return r;
}
static inline float4 operator+(float4 a, float4 b) { return simt_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
static inline float4 operator*(float4 a, float4 b) { return simt_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline uint ctz(uint x) { return x ? (uint)__builtin_ctz(x) : 32; }
static inline float4 fma(float4 a, float4 b, float4 c)
{
    return simt_float4(fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z), fma(a.w, b.w, c.w));
}

template <class To, class From> static inline To as_type(From from)
{
    static_assert(sizeof(To) == sizeof(From), "as_type<> of another size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

/* ---- What lanes of a simdgroup do together. All of them have to come, though the language leaves the rest undefined.
 * ---- */
#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SIMT_HERE                                                                                                      \
    simt_site { file, line }
static inline uint64_t simt_exchange(uint64_t bits, unsigned source, simt_site site)
{
    if (source >= SIMT_LANES)
        simt_fault("%s:%d: lane %u reads from lane %u", site.file, site.line, simt_self->lane, source);
    return simt_lanes(SIMT_OP_SHUFFLE, 0xffffffffu, bits, source, site);
}
static inline uint simt_exchange(uint x, unsigned source, simt_site site)
{
    return (uint)simt_exchange((uint64_t)x, source, site);
}
static inline int simt_exchange(int x, unsigned source, simt_site site)
{
    return (int)simt_exchange((uint)x, source, site);
}
static inline float simt_exchange(float x, unsigned source, simt_site site)
{
    return as_type<float>(simt_exchange(as_type<uint>(x), source, site));
}
static inline float4 simt_exchange(float4 x, unsigned source, simt_site site)
{
    uint64_t half[2];
    memcpy(half, &x, sizeof half);
    half[0] = simt_exchange(half[0], source, site);
    half[1] = simt_exchange(half[1], source, site);
    memcpy(&x, half, sizeof half);
    return x;
}
template <class T> static inline T simd_shuffle(T x, ushort lane, SIMT_SITE)
{
    return simt_exchange(x, lane, SIMT_HERE);
}
template <class T> static inline T simd_shuffle_xor(T x, ushort mask, SIMT_SITE)
{
    return simt_exchange(x, simt_self->lane ^ mask, SIMT_HERE);
}
static inline bool simd_any(bool x, SIMT_SITE) { return simt_lanes(SIMT_OP_BALLOT, 0xffffffffu, x, 0, SIMT_HERE) != 0; }
#undef SIMT_SITE
#undef SIMT_HERE

/* ---- Atomics: fibers are never interrupted, so that any step is atomic. The checker sees __atomic_*. ---- */
struct atomic_uint {
    uint value;
};
enum memory_order { memory_order_relaxed };
static inline void atomic_store_explicit(atomic_uint *at, uint value, memory_order)
{
    __atomic_store_n(&at->value, value, __ATOMIC_RELAXED);
}
static inline uint atomic_fetch_max_explicit(atomic_uint *at, uint value, memory_order)
{
    const uint old = __atomic_load_n(&at->value, __ATOMIC_RELAXED);
    if (old < value) __atomic_store_n(&at->value, value, __ATOMIC_RELAXED);
    return old;
}
/* Fails for no reason half of the time, as it may. */
static inline bool atomic_compare_exchange_weak_explicit(atomic_uint *at, uint *expected, uint desired, memory_order,
                                                         memory_order)
{
    if (simt_random() >> 63) {
        *expected = __atomic_load_n(&at->value, __ATOMIC_RELAXED);
        return false;
    }
    return __atomic_compare_exchange_n(&at->value, expected, desired, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* ---- Kernels ---- */
template <class T> struct simt_argument; /* of type T at place n */
template <class T> struct simt_argument<T *> {
    static T *get(const simt_metal_arguments *a, unsigned n) { return (T *)a->buffers[n]; }
};
template <class T> struct simt_argument<const T &> {
    static const T &get(const simt_metal_arguments *a, unsigned n) { return *(const T *)a->buffers[n]; }
};
template <> struct simt_argument<uint3> {
    static uint3 get(const simt_metal_arguments *, unsigned)
    {
        return { simt_current.index.x, simt_current.index.y, simt_current.index.z };
    }
};
template <> struct simt_argument<uint> {
    static uint get(const simt_metal_arguments *, unsigned) { return simt_self->number; }
};
template <unsigned...> struct simt_indices {
};
template <unsigned N, unsigned... I> struct simt_up_to : simt_up_to<N - 1, N - 1, I...> {
};
template <unsigned... I> struct simt_up_to<0, I...> {
    typedef simt_indices<I...> type;
};
#ifdef __clang__ /* its check of calls needs a C++ library */
#define SIMT_ANY_CALL __attribute__((no_sanitize("function")))
#else
#define SIMT_ANY_CALL
#endif
template <class... A, unsigned... I>
SIMT_ANY_CALL static inline void simt_call(void (*kernel)(A...), const simt_metal_arguments *a, simt_indices<I...>)
{
    kernel(simt_argument<A>::get(a, I)...);
}
template <class P, class... A> constexpr unsigned simt_n_buffers(void (*)(const P &, A...))
{
    return sizeof...(A) - 1;
} /* without the place */
template <class P, class... A> constexpr size_t simt_params_bytes(void (*)(const P &, A...)) { return sizeof(P); }
template <class... A> static inline void simt_run(void (*kernel)(A...), const void *a)
{
    simt_call(kernel, (const simt_metal_arguments *)a, typename simt_up_to<sizeof...(A)>::type());
}

#define GDN_KERNEL(name, ...)                                                                                          \
    static void name(__VA_ARGS__);                                                                                     \
    static void simt_run_##name(const void *a) { simt_run(name, a); }                                                  \
    __attribute__((constructor)) static void simt_add_##name()                                                         \
    {                                                                                                                  \
        static simt_metal_kernel kernel = { { #name, sizeof(simt_metal_arguments), SIMT_MAX_THREADS, simt_run_##name,  \
                                              nullptr },                                                               \
                                            simt_n_buffers(name),                                                      \
                                            simt_params_bytes(name) };                                                 \
        simt_register_kernel(&kernel.kernel);                                                                          \
    }                                                                                                                  \
    static void name(__VA_ARGS__)
#endif
#endif
