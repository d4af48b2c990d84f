// ssm_conv: gpu/conv.h has the kernels, their steps and how a call is split. A thread has one channel.
#include "cuda/kernel.cuh"
#include "call/ssm_conv.h"

#define FUNCTION     GDN_INLINE
#define CALL         const gdn_ssm_conv_call &p,
#define PASS         p,
#define SOURCE       p.history.data
#define GOOD_TREE(q) is_tree(p.parent, q.first, q.T, p.bad)
#define CONV_THREADS GDN_CUDA_CONV_THREADS
#define CONV_AHEAD   4
#define HAS_BIAS     (p.bias != 0)

GDN_INLINE uint32_t load_bits(const char *at, int dtype) { return dtype == GDN_F32 ? load_word(at) : load_16bit(at); }

template <int KW> GDN_INLINE void read_four_bits(uint64_t at, int dtype, uint32_t (&bits)[KW])
{
    if (dtype != GDN_F32) {
        const uint2 w = __ldg((const uint2 *)at);
        bits[0] = w.x & 0xffffu, bits[KW > 1] = w.x >> 16, bits[KW / 2] = w.y & 0xffffu, bits[KW - 1] = w.y >> 16;
    } else {
        const float4 w = read_float4(at);
        bits[0] = gdn_bits(w.x), bits[KW > 1] = gdn_bits(w.y);
        bits[KW / 2] = gdn_bits(w.z), bits[KW - 1] = gdn_bits(w.w);
    }
}
#include "gpu/conv.h"

#undef FUNCTION
#undef CALL
#undef PASS
#undef SOURCE
#undef GOOD_TREE
#undef CONV_THREADS
#undef CONV_AHEAD
#undef HAS_BIAS

// The width that models use, and any width up to 16.
GDN_KERNEL(gdn_cuda_conv_4, gdn_ssm_conv_call, GDN_CUDA_CONV_THREADS)
{
    ssm_conv<4, false>(p, blockIdx.x, threadIdx.x);
}
GDN_KERNEL(gdn_cuda_conv_general, gdn_ssm_conv_call, GDN_BLOCKS(GDN_CUDA_CONV_THREADS, 1))
{
    ssm_conv<16, true>(p, blockIdx.x, threadIdx.x);
}
GDN_KERNEL(gdn_cuda_conv_tree, gdn_ssm_conv_call, GDN_BLOCKS(GDN_CUDA_CONV_THREADS, 1))
{
    ssm_conv_tree(p, blockIdx.x, threadIdx.x);
}
