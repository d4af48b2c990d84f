// The kernels of gated_delta_net in the chunked form: gdn_cuda_chunked_prepare makes the records of all chunks, then
// gdn_cuda_chunked_<keys> goes through the chunks of a sequence. keys: head_dim_k at most, which decides how much
// shared memory a thread block has.
#include "cuda/chunked_chain.cuh"
#include "cuda/chunked_prepare.cuh"

GDN_KERNEL(gdn_cuda_chunked_prepare, gdn_cuda_chunked_call, GDN_BLOCKS(chunked::THREADS, 3))
{
    __shared__ chunked::Prepared own;
    if (p.call.digits == 2) chunked::prepare<2>(p, own);
    else chunked::prepare<3>(p, own);
}

#define GDN_CHUNKED_CHAIN(name, KEYS, blocks)                                                                          \
    GDN_KERNEL(name, gdn_cuda_chunked_call, GDN_BLOCKS(chunked::THREADS, blocks))                                      \
    {                                                                                                                  \
        __shared__ chunked::Head<KEYS> head;                                                                           \
        if (p.call.digits == 2) chunked::chain<2>(p, head);                                                            \
        else chunked::chain<3>(p, head);                                                                               \
    }
GDN_CHUNKED_CHAIN(gdn_cuda_chunked_128, 128, 2)
GDN_CHUNKED_CHAIN(gdn_cuda_chunked_256, 256, 2)
