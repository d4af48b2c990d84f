/* The chunked form of gated_delta_net: what host code and kernels share. The kernel `prepare` makes a record of each
 * chunk of a sequence, in the workspace. The kernels of the chain read it. A record has a part for each key head and
 * one for each value head. cuda/chunked.cuh says what is in them. */
#ifndef GDN_CUDA_CHUNKED_H
#define GDN_CUDA_CHUNKED_H

#include "call/gated_delta_net.h"

#define GDN_CUDA_CHUNKED_WARPS  4
#define GDN_CUDA_CHUNKED_VALUES 16 /* value channels of a thread block: a group of a state of digits */
#define GDN_CUDA_CHUNKED_HEAD   (4 * (4 + 2 * 32 * 32 + 5 * 32)) /* bytes of a value head's part */

GDN_STRUCT(gdn_cuda_chunked_call)
{
    gdn_gated_delta_net_call call;
    GDN_MEMORY workspace;
    int64_t record_bytes, keys_at; /* of a record; where the parts of the key heads begin in it */
    GDN_I32T key_bytes;            /* of the part of a key head: sides, digits of KT, left(KT) */
    GDN_I32T side_bytes, transposed_at, left_at;
    GDN_I32T spare; /* records of each sequence beyond one for 32 of its tokens */
    GDN_I32T parts; /* thread blocks of `prepare` that share the chunks of a sequence and key head */
};

#endif
