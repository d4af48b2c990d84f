// The kernels of gated_delta_net in the chunked form: gdn_cuda_chunked_prepare makes the records of all chunks, then
// gdn_cuda_chunked_<keys> goes through the chunks of a sequence. keys: head_dim_k at most, which decides how much
// shared memory a thread block has. Those with _f16 multiply the digits as f16.
#include "cuda/chunked_chain.cuh"
#include "cuda/chunked_prepare.cuh"

#define GDN_CHUNKED_PREPARE(name, SUM)                                                                                 \
    GDN_KERNEL(name, gdn_cuda_chunked_call, GDN_BLOCKS(chunked::THREADS, 3))                                           \
    {                                                                                                                  \
        __shared__ chunked::Prepared own;                                                                              \
        if (p.call.digits == 2) chunked::prepare<SUM, 2>(p, own);                                                      \
        else chunked::prepare<SUM, 3>(p, own);                                                                         \
    }
GDN_CHUNKED_PREPARE(gdn_cuda_chunked_prepare, int)
GDN_CHUNKED_PREPARE(gdn_cuda_chunked_prepare_f16, float)

#define GDN_CHUNKED_CHAIN(name, SUM, KEYS, blocks)                                                                     \
    GDN_KERNEL(name, gdn_cuda_chunked_call, GDN_BLOCKS(chunked::THREADS, blocks))                                      \
    {                                                                                                                  \
        __shared__ chunked::Head<KEYS> head;                                                                           \
        if (p.call.digits == 2) chunked::chain<SUM, 2>(p, head);                                                       \
        else chunked::chain<SUM, 3>(p, head);                                                                          \
    }
GDN_CHUNKED_CHAIN(gdn_cuda_chunked_128, int, 128, 2)
GDN_CHUNKED_CHAIN(gdn_cuda_chunked_256, int, 256, 2)
GDN_CHUNKED_CHAIN(gdn_cuda_chunked_128_f16, float, 128, 2)
GDN_CHUNKED_CHAIN(gdn_cuda_chunked_256_f16, float, 256, 2)

// Products of digits for the device's probe (cuda/digits.c): a warp has one.
template <class SUM> GDN_INLINE void probe_digits(const gdn_cuda_digits_probe &p)
{
    const int lane = chunked::lane(), product = (int)blockIdx.x;
    chunked::Sums<SUM, 1> sums;
    chunked::clear(sums);
    for (int step = 0; step < GDN_CUDA_DIGITS_PROBED / 32; step++) {
        uint32_t words[6] = {}; // four of rows, two of a column
        for (int n = 0; n < 6; n++) {
            const bool column = n >= 4;
            const int line = lane / 4 + (column ? 0 : n % 2 * 8);
            const int k = 32 * step + (column ? n - 4 : n / 2) * 16 + lane % 4 * 4;
            for (int e = 0; e < 4; e++)
                words[n] |= (uint32_t)(uint8_t)gdn_cuda_probe_digit(product, column, line, k + e) << 8 * e;
        }
        uint4 a[1][chunked::PARTS_OF<SUM>];
        uint2 b[1][chunked::PARTS_OF<SUM>];
        chunked::convert(make_uint4(words[0], words[1], words[2], words[3]), a[0]);
        chunked::convert(make_uint2(words[4], words[5]), b[0]);
        chunked::multiply(sums, a, b);
    }
    for (int i = 0; i < 4; i++)
        *(SUM *)(p.results + 4 * (128 * product + 8 * chunked::row_of(i) + chunked::column_of(i))) = sums.z[0][i];
}
GDN_KERNEL(gdn_cuda_digits_s8, gdn_cuda_digits_probe, 32) { probe_digits<int>(p); }
GDN_KERNEL(gdn_cuda_digits_f16, gdn_cuda_digits_probe, 32) { probe_digits<float>(p); }
