// ssm_conv: gpu/conv.h has the kernels, their steps and how a call is split. A lane has one channel.
#include "metal/kernel.h"
#include "call/ssm_conv.h"

struct ConvBuffers {
    GDN_CONV_OPERANDS(GDN_BUFFER, GDN_BUFFER, GDN_BUFFER, GDN_BUFFER)
    device atomic_uint *bad;
};

#define FUNCTION     GDN_INLINE
#define CALL         constant gdn_ssm_conv_call &p, thread const ConvBuffers &b,
#define PASS         p, b,
#define SOURCE       history_of(p, b)
#define GOOD_TREE(q) is_tree(b.parent, (p.has & GDN_HAS_PARENT) != 0, q.first, q.T, b.bad)
#define CONV_THREADS GDN_METAL_CONV_THREADS
#define CONV_AHEAD   1
#define HAS_BIAS     ((p.has & GDN_HAS_BIAS) != 0)

// The history that is read.
GDN_INLINE device const uchar *history_of(constant gdn_ssm_conv_call &p, thread const ConvBuffers &b)
{
    if (p.has & GDN_HAS_ONE_POOL) return b.history_out + p.pool_offset;
    return b.history;
}

template <int KW> GDN_INLINE void read_four_bits(device const uchar *at, int dtype, thread uint32_t (&bits)[KW])
{
    for (int j = 0; j < KW; j++) bits[j] = read_bits(at + element_bytes(dtype) * j, dtype);
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

#define GDN_CONV_ARGUMENT(name, part, member, access, bit, size)                                                       \
    device GDN_CONST_##access uchar *name [[buffer(1 + GDN_CONV_##name)]],
#define GDN_CONV(name, ...)                                                                                            \
    GDN_KERNEL(name, constant gdn_ssm_conv_call &p [[buffer(0)]],                                                      \
               GDN_CONV_OPERANDS(GDN_CONV_ARGUMENT, GDN_CONV_ARGUMENT, GDN_CONV_ARGUMENT, GDN_CONV_ARGUMENT)           \
                   device atomic_uint *bad [[buffer(1 + GDN_CONV_REGIONS)]],                                           \
               GDN_THREAD)                                                                                             \
    {                                                                                                                  \
        const ConvBuffers b = { GDN_CONV_OPERANDS(GDN_BUFFER_NAME, GDN_BUFFER_NAME, GDN_BUFFER_NAME, GDN_BUFFER_NAME)  \
                                    bad };                                                                             \
        __VA_ARGS__(p, b, group.x, me);                                                                                \
    }

// The width that models use, and any width up to 16.
GDN_CONV(gdn_metal_conv_4, ssm_conv<4, false>)
GDN_CONV(gdn_metal_conv_general, ssm_conv<16, true>)
GDN_CONV(gdn_metal_conv_tree, ssm_conv_tree)
