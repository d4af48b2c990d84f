/* Code that the plans of all kernels share. See plan.h. */
#include "gpu/plan.h"

uint64_t gdn_gpu_token_bits(const gdn_token_view *t)
{
    return t->data | (uint64_t)t->stride_seq | (uint64_t)t->stride_token | (uint64_t)t->stride_head;
}

uint64_t gdn_gpu_pool_bits(const gdn_pool_view *t)
{
    return t->data | (uint64_t)t->stride_row | (uint64_t)t->stride_slot | (uint64_t)t->stride_head |
           (uint64_t)t->stride_line;
}

uint64_t gdn_gpu_product(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > INT64_MAX ? INT64_MAX : product;
}

uint64_t gdn_gpu_parts(uint64_t n, uint64_t of) { return n / of + (n % of != 0); }
