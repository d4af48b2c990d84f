// The kernels of gated_delta_net: gdn_metal_delta_<size>[_channel][_what], of the shapes below. gpu/delta_rows.h has
// the mapping of a head to lanes, and the steps.
//   size   4: heads of 128 keys (NB = 4 blocks). general: any head.
//   what   channel: a gate per key channel. tree: the tokens may be a tree. state16: 16-bit states.
// All take a log; an operand that a call does not have is bound to any buffer.
#include "metal/gated_delta_net.h"

// In the order of the regions in core/gated_delta_net.c.
#define GDN_DELTA_OPERANDS                                                                                             \
    constant gdn_gated_delta_net_call &p [[buffer(0)]], device const uchar *q [[buffer(1)]],                           \
        device const uchar *k [[buffer(2)]], device const uchar *v [[buffer(3)]], device const uchar *g [[buffer(4)]], \
        device const uchar *beta [[buffer(5)]], device const uchar *ssm_a [[buffer(6)]],                               \
        device const uchar *dt_bias [[buffer(7)]], device uchar *result [[buffer(8)]],                                 \
        device const uchar *state [[buffer(9)]], device uchar *state_out [[buffer(10)]],                               \
        device const uchar *seq_start [[buffer(11)]], device const uchar *state_src [[buffer(12)]],                    \
        device const uchar *state_dst [[buffer(13)]], device const uchar *position [[buffer(14)]],                     \
        device const uchar *checkpoints_dst [[buffer(15)]], device const uchar *read_key [[buffer(16)]],               \
        device uchar *log [[buffer(17)]], device const uchar *log_row [[buffer(18)]],                                  \
        device const uchar *base_position [[buffer(19)]], device const uchar *commit [[buffer(20)]],                   \
        device const uchar *parent [[buffer(21)]], device atomic_uint *bad [[buffer(22)]], GDN_THREAD
#define GDN_DELTA_BUFFERS                                                                                              \
    const DeltaBuffers b = { q,                                                                                        \
                             k,                                                                                        \
                             v,                                                                                        \
                             g,                                                                                        \
                             beta,                                                                                     \
                             ssm_a,                                                                                    \
                             dt_bias,                                                                                  \
                             result,                                                                                   \
                             state,                                                                                    \
                             state_out,                                                                                \
                             seq_start,                                                                                \
                             state_src,                                                                                \
                             state_dst,                                                                                \
                             position,                                                                                 \
                             checkpoints_dst,                                                                          \
                             read_key,                                                                                 \
                             log,                                                                                      \
                             log_row,                                                                                  \
                             base_position,                                                                            \
                             commit,                                                                                   \
                             parent,                                                                                   \
                             bad };
#define GDN_DELTA(name, ...)                                                                                           \
    GDN_KERNEL(name, GDN_DELTA_OPERANDS)                                                                               \
    {                                                                                                                  \
        GDN_DELTA_BUFFERS                                                                                              \
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
