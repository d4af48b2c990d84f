/* CUDA's loads through the read-only cache, atomics and asynchronous copies; part of cuda_shim.h. */
#ifndef GDN_SIMT_CUDA_MEMORY_H
#define GDN_SIMT_CUDA_MEMORY_H

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

/* ---- Asynchronous copies to shared memory (cuda_pipeline_primitives.h) ---- */
static inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, SIMT_WHERE)
{
    simt_copy_async(to, from, (unsigned)bytes, { file, line });
}
static inline void __pipeline_commit() { simt_copy_commit(); }
static inline void __pipeline_wait_prior(size_t pending) { simt_copy_wait((unsigned)pending); }
#undef SIMT_WHERE

#endif
