// gated_delta_net in the kernels of CUDA and Metal, which share gpu/delta_*.h. Which part of the work some lanes have,
// and where its operands are. gpu/names_delta.h has the names that these files take from their includer,
// cuda/gated_delta_net.cuh or metal/gated_delta_net.h.
#ifndef GDN_GPU_DELTA_ITEM_H
#define GDN_GPU_DELTA_ITEM_H

// Compile-time properties of a kernel. NB is exact unless GENERAL: then it is the most blocks of 32 keys, and
// head_dim_k, the alignment of rows and their type are arbitrary.
template <int NB_, int C_, bool CHANNEL_, bool GENERAL_, bool TREE_ = false, bool STATE16_ = false, bool LOG_ = true>
struct Shape {
    STATIC int NB = NB_;            // blocks of 32 keys
    STATIC int C = C_;              // value channels of eight lanes: 1, 2 or 4
    STATIC bool CHANNEL = CHANNEL_; // a gate per key channel
    STATIC bool GENERAL = GENERAL_;
    STATIC bool TREE = TREE_;             // the call's tokens may be a tree
    STATIC bool STATE16 = STATE16_;       // 16-bit states
    STATIC bool LOG = LOG_;               // the call may have a log
    STATIC bool CHUNKED = false;          // the chunked form (cuda/chunked.cuh)
    STATIC int BYTES = STATE16_ ? 2 : 4;  // of an element of a state
    STATIC int VALUES = DELTA_VALUES(C_); // value channels of a thread block
};

// The general kernels run calls with a tree and without.
template <class X> GDN_INLINE bool has_tree(CONSTANT gdn_gated_delta_net_call &p)
{
    return X::TREE && (!X::GENERAL || (p.has & GDN_HAS_TREE));
}
template <class X> GDN_INLINE bool has_log(CONSTANT gdn_gated_delta_net_call &p)
{
    return X::LOG && p.log.n_slots != 0;
}

#define WITH_LOG     has_log<X>(p)
#define WITH_TREE    has_tree<X>(p)
#define WITH_CHANNEL X::CHANNEL
#define WITH_STATE16 X::STATE16
#define WITH_CHUNKED X::CHUNKED
#include "call/sequence.h"
#undef WITH_LOG
#undef WITH_TREE
#undef WITH_CHANNEL
#undef WITH_STATE16
#undef WITH_CHUNKED

// A part of the work, as far as it does not change from token to token: a sequence, a head, value channels.
struct Item {
    gdn_sequence seq;
    int h, kappa;  // value head, key head
    int l;         // lane of the eight
    int j, values; // first value channel of the eight lanes, how many of the C exist
    int n_keys;
};

// Reports an entry that is GDN_BAD. The caller skips it, as all negative ones.
FUNCTION int reported(CALL int word, int entry)
{
    if (entry == GDN_BAD) REPORT(word);
    return entry;
}

// Fills the item, except for l, j and values. False if seq.bad or the tree is bad, which is reported. A bad commit is
// reported too, and the sequence runs. The result is uniform in a warp.
FUNCTION bool find_sequence(CALL int s, int h, THREAD Item &at)
{
    at.seq = gdn_sequence_of(PASS s);
    at.h = h;
    if (at.seq.bad >= 0) {
        REPORT(at.seq.bad);
        return false;
    }
    (void)reported(PASS GDN_BAD_COMMIT, at.seq.commit);
    if (has_tree<X>(p) && at.seq.src != GDN_SKIP && !GOOD_TREE(at.seq)) return false;
    at.kappa = gdn_key_head(PASS h);
    at.n_keys = X::GENERAL ? p.head_dim_k : 32 * X::NB;
    return true;
}

// The value channels from j on, at most n.
GDN_INLINE void take_values(CONSTANT gdn_gated_delta_net_call &p, THREAD Item &at, int j, int n)
{
    at.j = j;
    at.values = p.head_dim_v - j < n ? p.head_dim_v - j : n;
    at.values = at.values < 0 ? 0 : at.values;
}

// The offset of the sequence's first token in an operand.
GDN_INLINE uint64_t token_at(CONSTANT gdn_token_view &view, THREAD const Item &at, int head)
{
    const int64_t stride = view.stride_seq ? view.stride_seq : view.stride_token;
    return (uint64_t)(head * view.stride_head + (view.stride_seq ? at.seq.s : at.seq.first) * stride);
}

// The offset of a head's state in a pool.
GDN_INLINE uint64_t state_at(CONSTANT gdn_pool_view &pool, int entry, int head)
{
    int row = entry, slot = 0;
    if (pool.n_slots != 1)
        row = entry / pool.n_slots, slot = entry % pool.n_slots; // the division would delay the common case
    return (uint64_t)(row * pool.stride_row + slot * pool.stride_slot + head * pool.stride_head);
}

// The entries for the state after token t, or a negative number.
FUNCTION int snapshot_of(CALL THREAD const Item &at, int t)
{
    return reported(PASS GDN_BAD_STATE_DST, gdn_snapshot_of(PASS at.seq, t));
}
FUNCTION int checkpoint_of(CALL THREAD const Item &at, int t)
{
    return reported(PASS GDN_BAD_CHECKPOINT, gdn_checkpoint_of(PASS at.seq.s, t));
}

#endif
