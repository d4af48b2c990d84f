// The kernels of gated_delta_net: gdn_cuda_delta_<decode, rows or tiles>_<size>[_what].
//   size   4: heads of 128 keys (NB = 4 blocks) with rows aligned to 16 bytes. general: any head.
//   what   channel: a gate per key channel. wide: one thread block per multiprocessor, whose threads have twice the
//          registers.
// Each has the code of several shapes and takes one branch: what differs in a kernel's code and not in its registers
// needs no kernel of its own. All take a log. decode and rows take 16-bit states, rows also trees.
#include "cuda/gated_delta_net_decode.cuh"
#include "cuda/gated_delta_net_tiles.cuh"

// The value channels of this thread block, of the shape X.
template <class X> GDN_INLINE int first_value() { return (int)blockIdx.z * X::VALUES; }

// Decode. The fewer thread blocks there would be, the fewer value channels each has. With F32 states and a gate per key
// channel there are no registers for four of eight lanes.
template <bool CHANNEL, bool STATE16, bool LOG>
GDN_INLINE void decode_of(const gdn_gated_delta_net_call &p, Block<CHANNEL> &block)
{
    typedef Shape<4, CHANNEL && !STATE16 ? 2 : 4, CHANNEL, false, false, STATE16, LOG> Most;
    typedef Shape<4, 2, CHANNEL, false, false, STATE16, LOG> Two;
    typedef Shape<4, 1, CHANNEL, false, false, STATE16, LOG> One;
    if (p.head_dim_v == p.blocks * Most::VALUES) gated_delta_net_decode<Most>(p, first_value<Most>(), block);
    else if (p.head_dim_v == p.blocks * Two::VALUES) gated_delta_net_decode<Two>(p, first_value<Two>(), block);
    else gated_delta_net_decode<One>(p, first_value<One>(), block);
}
#define GDN_DELTA_DECODE(name, CHANNEL)                                                                                \
    GDN_KERNEL(name, gdn_gated_delta_net_call, GDN_BLOCKS(32 * GDN_CUDA_DELTA_WARPS, 4))                               \
    {                                                                                                                  \
        __shared__ Block<CHANNEL> block;                                                                               \
        if (p.log.n_slots && p.rounding_interval) decode_of<CHANNEL, true, true>(p, block);                            \
        else if (p.log.n_slots) decode_of<CHANNEL, false, true>(p, block);                                             \
        else if (p.rounding_interval) decode_of<CHANNEL, true, false>(p, block);                                       \
        else decode_of<CHANNEL, false, false>(p, block);                                                               \
    }
GDN_DELTA_DECODE(gdn_cuda_delta_decode_4, false)
GDN_DELTA_DECODE(gdn_cuda_delta_decode_4_channel, true)

// Few tokens per sequence, or states that `tiles` does not take.
//     NB, C, CHANNEL, GENERAL, TREE, STATE16
typedef Shape<4, 4, false, false> Rows;
typedef Shape<4, 2, false, false, true> RowsTree;
typedef Shape<4, 4, false, false, false, true> RowsState16;
typedef Shape<4, 4, true, false> RowsChannel;
typedef Shape<4, 2, true, false, true> RowsChannelTree;
typedef Shape<8, 2, false, true, true> General;
typedef Shape<8, 1, false, true, true, true> GeneralState16;
typedef Shape<8, 1, true, true, true> GeneralChannel;
typedef Shape<8, 1, true, true, true, true> GeneralChannelState16;

template <class X> GDN_INLINE void rows_of(const gdn_gated_delta_net_call &p)
{
    rows_of<X>(p, { Share::ALL, first_value<X>() });
}
// A function of its own: two shapes of 255 registers in one kernel would spill.
template <class X> GDN_SLOW_PATH void rows_apart(const gdn_gated_delta_net_call &p) { rows_of<X>(p); }
#define GDN_DELTA_ROWS(name, blocks)                                                                                   \
    GDN_KERNEL(name, gdn_gated_delta_net_call, GDN_BLOCKS(32 * GDN_CUDA_DELTA_WARPS, blocks))
GDN_DELTA_ROWS(gdn_cuda_delta_rows_4, 3)
{
    if (p.has & GDN_HAS_TREE) rows_of<RowsTree>(p);
    else if (p.rounding_interval) rows_of<RowsState16>(p);
    else rows_of<Rows>(p);
}
GDN_DELTA_ROWS(gdn_cuda_delta_rows_4_channel, 2)
{
    if (p.has & GDN_HAS_TREE) rows_of<RowsChannelTree>(p);
    else rows_of<RowsChannel>(p);
}
GDN_DELTA_ROWS(gdn_cuda_delta_rows_general, 1)
{
    if (p.rounding_interval) rows_apart<GeneralState16>(p);
    else rows_of<General>(p);
}
GDN_DELTA_ROWS(gdn_cuda_delta_rows_general_channel, 1)
{
    if (p.rounding_interval) rows_apart<GeneralChannelState16>(p);
    else rows_of<GeneralChannel>(p);
}

// Prefill, and decode in the same batch. Thread blocks of long sequences come first in the grid, because they take
// longest. With a log, prompts without a log row and commit are TILES; sequences that replay or write entries are ROWS.
template <class X> GDN_INLINE void tiles_of(const gdn_gated_delta_net_call &p, Stage<X> *stages)
{
    typedef Shape<4, 2, X::CHANNEL, false> Few;
    static_assert(GDN_CUDA_TILES_ROWS_VALUES == 2 * Few::VALUES, "there are twice the warps of `rows`");
    const int part = (int)blockIdx.z;
    if (part < p.blocks) gated_delta_net_tiles<X>(p, stages, { Share::TILES, part * X::VALUES });
    else rows_of<Few>(p, { Share::ROWS, (part - p.blocks) * GDN_CUDA_TILES_ROWS_VALUES });
}
#define GDN_DELTA_TILES(name, CHANNEL)                                                                                 \
    GDN_KERNEL(name, gdn_gated_delta_net_call, GDN_BLOCKS(32 * GDN_CUDA_TILES_WARPS, 2))                               \
    {                                                                                                                  \
        typedef Shape<4, 2, CHANNEL, false> X;                                                                         \
        __shared__ Stage<X> stages[2];                                                                                 \
        tiles_of<X>(p, stages);                                                                                        \
    }
GDN_DELTA_TILES(gdn_cuda_delta_tiles_4, false)
GDN_DELTA_TILES(gdn_cuda_delta_tiles_4_channel, true)
// Very few heads get thread blocks with half the value channels.
#define GDN_DELTA_TILES_WIDE(name, CHANNEL)                                                                            \
    GDN_KERNEL(name, gdn_gated_delta_net_call, GDN_BLOCKS(32 * GDN_CUDA_TILES_WARPS, 1))                               \
    {                                                                                                                  \
        typedef Shape<4, 2, CHANNEL, false> Two;                                                                       \
        typedef Shape<4, 1, CHANNEL, false> One;                                                                       \
        __shared__ Stage<Two> two[2];                                                                                  \
        if (p.blocks * Two::VALUES < p.head_dim_v + Two::VALUES) tiles_of<Two>(p, two);                                \
        else tiles_of<One>(p, (Stage<One> *)two);                                                                      \
    }
GDN_DELTA_TILES_WIDE(gdn_cuda_delta_tiles_4_wide, false)
GDN_DELTA_TILES_WIDE(gdn_cuda_delta_tiles_4_wide_channel, true)
#undef FUNCTION
#undef CALL
#undef PASS
#undef SOURCE
#undef LOAD_ABSENT
#undef DELTA_VALUES
#undef GOOD_TREE
