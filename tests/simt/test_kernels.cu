// Kernels for the emulator's own tests: what is right, and every mistake that it has to find.
#include "tests/simt/test_kernels.h"

GDN_KERNEL(add_one, test_params, 1024)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.out[i] = p.in[i] + 1.0f;
}

// One block sums n values: shuffles within warps, shared memory between them.
GDN_KERNEL(reduce, test_params, 1024)
{
    __shared__ float partial[32];
    float sum = 0;
    for (unsigned i = threadIdx.x; i < p.n; i += blockDim.x) sum = __fadd_rn(sum, p.in[i]);
    for (int h = 16; h; h >>= 1) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, h));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    if (p.mode == 0) __syncthreads(); // mode 1: it is missing
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
        for (int h = 16; h; h >>= 1) sum = __fadd_rn(sum, __shfl_down_sync(0xffffffffu, sum, h));
        if (threadIdx.x == 0) p.out[blockIdx.x] = sum;
    }
}
