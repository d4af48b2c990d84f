/* The chunked form of gated_delta_net: what host code and kernels share. The kernel `prepare` makes a record of each
 * chunk of a sequence, in the workspace. The kernels of the chain read it. A record has a part for each key head and
 * one for each value head. cuda/chunked.cuh says what is in them. */
#ifndef GDN_CUDA_CHUNKED_H
#define GDN_CUDA_CHUNKED_H

#include "call/gated_delta_net.h"
#include "numerics/elementary.h"

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

/* The probe of products of digits (cuda/digits.c): 16 rows by 8 columns. As many elements as a sum has at most, of
 * three products of heads of 256. */
enum { GDN_CUDA_DIGITS_PRODUCTS = 5, GDN_CUDA_DIGITS_PROBED = 3 * 256 };
GDN_STRUCT(gdn_cuda_digits_probe) { GDN_MEMORY results; /* [product][row][column], int32 or binary32 */ };
/* Digit k of a row, or a column. Products 0 and 1 have the largest and the least sums. In product 2 random digits
 * follow the largest. */
GDN_ELEMENTARY_FUNCTION int32_t gdn_cuda_probe_digit(int32_t product, int32_t column, int32_t line, int32_t k)
{
    const int32_t number = ((2 * product + column) * 16 + line) * GDN_CUDA_DIGITS_PROBED + k;
    uint32_t x = (uint32_t)(number + 1) * 0x9e3779b1u;
    x = (x ^ x >> 15) * 0x85ebca77u;
    const int32_t random = (int32_t)(x >> 24) - 128;
    if (product == 0 || (product == 2 && k < 640)) return -128;
    if (product == 1) return column ? 127 : -128;
    if (product == 3) return random & 1 ? 127 : -128;
    return random;
}

#endif
