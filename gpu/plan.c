/* Code that the plans and parameter blocks of all kernels share. See plan.h. */
#include "gpu/plan.h"

_Static_assert(GDN_GPU_F32 == (int)GDN_F32 && GDN_GPU_F16 == (int)GDN_F16 && GDN_GPU_BF16 == (int)GDN_BF16 &&
                   GDN_GPU_Q8_0 == (int)GDN_Q8_0 && GDN_GPU_I64 == (int)GDN_I64,
               "kernels know the element types by the same numbers");

uint64_t gdn_gpu_address(const gdn_gpu_device *dev, const gdn_place *at)
{
    return dev->address ? dev->address(dev->backend, at) : 0;
}

gdn_gpu_tokens gdn_gpu_tokens_of(const gdn_gpu_device *dev, const gdn_token_view *view)
{
    return (gdn_gpu_tokens){ gdn_gpu_address(dev, &view->at), view->stride_seq, view->stride_token, view->stride_head };
}

gdn_gpu_pool gdn_gpu_pool_of(const gdn_gpu_device *dev, const gdn_state_view *view)
{
    return (gdn_gpu_pool){ gdn_gpu_address(dev, &view->at), view->stride_row, view->stride_slot, view->stride_head,
                           view->stride_line };
}

int32_t gdn_gpu_one_pool(const gdn_place *in, const gdn_place *out, int64_t *apart)
{
    const int same = in->data && in->data == out->data;
    *apart = same ? (int64_t)(in->offset - out->offset) : 0;
    return same ? GDN_GPU_ONE_POOL : 0;
}

uint64_t gdn_gpu_token_bits(const gdn_gpu_tokens *t)
{
    return t->base | (uint64_t)t->seq | (uint64_t)t->token | (uint64_t)t->head;
}

uint64_t gdn_gpu_pool_bits(const gdn_gpu_pool *t)
{
    return t->base | (uint64_t)t->row | (uint64_t)t->slot | (uint64_t)t->head | (uint64_t)t->line;
}

uint64_t gdn_gpu_product(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > INT64_MAX ? INT64_MAX : product;
}

uint64_t gdn_gpu_parts(uint64_t n, uint64_t of) { return n / of + (n % of != 0); }
