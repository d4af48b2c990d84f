// Runs the device's arithmetic (fma, +, * and a few others) on hard operands. The host compares the results with its
// own bits (gpu/probe.c).
#include "cuda/kernel.cuh"

GDN_KERNEL(gdn_cuda_probe_arithmetic, gdn_gpu_probe, GDN_CUDA_PROBE_THREADS)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n) return;
    const uint64_t in = p.operands + 12 * (uint64_t)i;
    char *out = p.results + 4 * GDN_GPU_PROBE_RESULTS * (uint64_t)i;
    const float a = read_float(in), b = read_float(in + 4), c = read_float(in + 8);
    const float product = __fmul_rn(a, b);
    store_float(out, __fmaf_rn(a, b, c));
    store_float(out + 4, __fadd_rn(b, c));
    store_float(out + 8, product);
    store_float(out + 12, __fadd_rn(product, c)); // must not become an fma
    store_float(out + 16, gdn_expf(c));
    store_float(out + 20, gdn_silu(c));
    store_float(out + 24, gdn_reciprocal(c));
    store_word(out + 28, (a < b ? 1u : 0u) | (a == b ? 2u : 0u) | (a != a ? 4u : 0u));
}
