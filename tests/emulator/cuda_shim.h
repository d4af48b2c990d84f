/* CUDA's device language for the emulator: a compiler for the CPU takes a .cu file with
 *     -x c++ -std=c++17 -ffp-contract=off -include tests/emulator/cuda_shim.h
 * What is here behaves as on a device of compute capability 9.0. It needs no C++ library. */
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

#include "tests/emulator/cuda_types.h"
#include "tests/emulator/cuda_math.h"
#include "tests/emulator/cuda_memory.h"
#include "tests/emulator/cuda_warp.h"

#endif
