// The kernels of gated_delta_net: gdn_metal_delta_<size>[_channel][_what], of the shapes below. gpu/delta_rows.h has
// the mapping of a head to lanes, and the steps.
//   size   4: heads of 128 keys (NB = 4 blocks). general: any head.
//   what   channel: a gate per key channel. tree: the tokens may be a tree. state16: 16-bit states.
// All take a log; an operand that a call does not have is bound to any buffer.
#include "metal/gated_delta_net.h"

#define GDN_DELTA_ARGUMENT(name, part, member, access, bit, size)                                                      \
    device GDN_CONST_##access uchar *name [[buffer(1 + GDN_DELTA_##name)]],
#define GDN_DELTA(name, ...)                                                                                           \
    GDN_KERNEL(name, constant gdn_gated_delta_net_call &p [[buffer(0)]],                                               \
               GDN_DELTA_OPERANDS(GDN_DELTA_ARGUMENT, GDN_DELTA_ARGUMENT, GDN_DELTA_ARGUMENT, GDN_DELTA_ARGUMENT)      \
                   device atomic_uint *bad [[buffer(1 + GDN_DELTA_REGIONS)]],                                          \
               GDN_THREAD)                                                                                             \
    {                                                                                                                  \
        const DeltaBuffers b = { GDN_DELTA_OPERANDS(GDN_BUFFER_NAME, GDN_BUFFER_NAME, GDN_BUFFER_NAME,                 \
                                                    GDN_BUFFER_NAME) bad };                                            \
        typedef Shape<__VA_ARGS__> X;                                                                                  \
        Item w;                                                                                                        \
        if (find_item(p, b, X(), group.x, me, w)) gated_delta_net_rows(p, b, X(), w);                                  \
    }

//        name, NB, C, CHANNEL, GENERAL, TREE, STATE16
GDN_DELTA(gdn_metal_delta_4, 4, 4, false, false, false, false)
GDN_DELTA(gdn_metal_delta_4_channel, 4, 4, true, false, false, false)
GDN_DELTA(gdn_metal_delta_general, 8, 2, false, true, false, false)
GDN_DELTA(gdn_metal_delta_general_channel, 8, 2, true, true, false, false)
GDN_DELTA(gdn_metal_delta_general_tree, 8, 2, false, true, true, false)
GDN_DELTA(gdn_metal_delta_general_channel_tree, 8, 2, true, true, true, false)
GDN_DELTA(gdn_metal_delta_4_state16, 4, 4, false, false, false, true)
GDN_DELTA(gdn_metal_delta_4_channel_state16, 4, 4, true, false, false, true)
GDN_DELTA(gdn_metal_delta_general_state16, 8, 2, false, true, true, true)
GDN_DELTA(gdn_metal_delta_general_channel_state16, 8, 2, true, true, true, true)
