// gated_delta_net in the kernels of CUDA and Metal: the replay log. A sequence's entries are replayed before its first
// token, in the registers that hold the state. Each of its tokens writes an entry.
#ifndef GDN_GPU_DELTA_LOG_H
#define GDN_GPU_DELTA_LOG_H

#include "gpu/delta_item.h"
#include "gpu/delta_state.h"
#include "gpu/delta_step.h"

// Load and store elements i .. i + 3 of a row of the log; those beyond the head are 0. The call does not write the
// entries that it replays, but it may write adjacent ones: so CUDA's kernels do not load these through __ldg.
template <class X> GDN_INLINE float4 load_keys(ConstBytes row, int i, int n_keys)
{
    const ConstBytes at = row + 4 * (uint64_t)i;
    if (!X::GENERAL) return load_float4(at);
    return make_float4(i < n_keys ? load_float(at) : 0.0f, i + 1 < n_keys ? load_float(at + 4) : 0.0f,
                       i + 2 < n_keys ? load_float(at + 8) : 0.0f, i + 3 < n_keys ? load_float(at + 12) : 0.0f);
}
template <class X> GDN_INLINE void store_keys(Bytes row, int i, int n_keys, float4 x)
{
    const Bytes at = row + 4 * (uint64_t)i;
    if (!X::GENERAL) {
        store_float4(at, x);
        return;
    }
    if (i < n_keys) store_float(at, x.x);
    if (i + 1 < n_keys) store_float(at + 4, x.y);
    if (i + 2 < n_keys) store_float(at + 8, x.z);
    if (i + 3 < n_keys) store_float(at + 12, x.w);
}

// log_at(): the entry of a position. In an entry, log_key(): the key of this warp's key head; log_delta(): the deltas
// of the eight lanes' value channels; log_decay(): the decays of the head.
FUNCTION Bytes log_at(CALL THREAD const Item &w, int position)
{
    return DATA(log) + (uint64_t)gdn_log_offset(PASS w.seq.row, position);
}
FUNCTION Bytes log_key(CALL THREAD const Item &w, Bytes entry)
{
    return entry + 4 * (uint64_t)gdn_log_key(PASS w.kappa);
}
FUNCTION Bytes log_delta(CALL THREAD const Item &w, Bytes entry)
{
    return entry + 4 * (uint64_t)(gdn_log_delta(PASS w.h) + w.j);
}
FUNCTION Bytes log_decay(CALL THREAD const Item &w, Bytes entry)
{
    return entry + 4 * (uint64_t)gdn_log_decay(PASS w.h);
}

// The entries of a sequence from a position on. Slots are counted, because dividing takes as long as loading.
struct Entries {
    int slot;
};
GDN_INLINE Entries entries_from(CONSTANT gdn_gated_delta_net_call &p, int position)
{
    return { position % p.log.n_slots };
}
FUNCTION Bytes entry_of(CALL THREAD const Item &w, Entries from, int i)
{
    const int slot = from.slot + i; // i < n_slots
    return DATA(log) + (uint64_t)gdn_log_slot(PASS w.seq.row, slot < p.log.n_slots ? slot : slot - p.log.n_slots);
}

// A lane's part of one entry.
template <class X> struct Logged {
    float4 k[X::NB], decay[X::CHANNEL ? X::NB : 1];
    float delta[X::C];
};

FUNCTION void load_logged(CALL THREAD const Item &w, Bytes entry, THREAD Logged<X> &x)
{
#pragma unroll
    for (int m = 0; m < X::NB; m++) x.k[m] = load_keys<X>(log_key(PASS w, entry), 32 * m + 4 * w.l, w.n_keys);
    if (!X::CHANNEL) x.decay[0] = all4(load_float(log_decay(PASS w, entry)));
    else
#pragma unroll
        for (int m = 0; m < X::NB; m++)
            x.decay[X::CHANNEL ? m : 0] = load_keys<X>(log_decay(PASS w, entry), 32 * m + 4 * w.l, w.n_keys);
    load_values<X>(log_delta(PASS w, entry), w.values, x.delta);
}

// 1: replays the log, from one position to another. AHEAD: the next entry's loads are issued before the arithmetic of
// this one; other shapes lack the registers for two entries.
FUNCTION void replay_log_entries(CALL THREAD const Item &w, int from, int to, THREAD float4 (&S)[X::NB][X::C])
{
    constexpr bool AHEAD = !X::GENERAL || (!X::CHANNEL && !X::STATE16);
    if (from >= to) return;
    Logged<X> next;
    const Entries first = entries_from(p, from);
    if (AHEAD) load_logged(PASS w, entry_of(PASS w, first, 0), next);
#pragma unroll 1
    for (int at = from; at < to; at++) {
        if (!AHEAD) load_logged(PASS w, entry_of(PASS w, first, at - from), next);
        const Logged<X> x = next;
        if (AHEAD && at + 1 < to) load_logged(PASS w, entry_of(PASS w, first, at + 1 - from), next);
#pragma unroll
        for (int m = 0; m < X::NB; m++)
#pragma unroll
            for (int c = 0; c < X::C; c++) S[m][c] = update(S[m][c], x.k[m], x.delta[c], x.decay[X::CHANNEL ? m : 0]);
        round_state(PASS at + 1, S);
    }
}

// 7: log token t. Each eight lanes write the deltas of their value channels. The lanes with value channel 0 write the
// decay, and for the first value head of a key head also the key.
FUNCTION void log_token(CALL THREAD const Item &w, int t, THREAD const float4 (&k)[X::NB], float decay,
                        THREAD const float (&delta)[X::C])
{
    if (w.seq.row < 0) return;
    const Bytes entry = log_at(PASS w, w.seq.position + t);
    if (w.l == 0) store_values<X, GDN_F32>(log_delta(PASS w, entry), w.values, delta);
    if (w.j) return;
    if (!X::CHANNEL && w.l == 0) // with CHANNEL log_gates() writes the decays
        store_float(log_decay(PASS w, entry), decay);
    if (!gdn_logs_key(PASS w.h)) return;
#pragma unroll
    for (int m = 0; m < X::NB; m++) store_keys<X>(log_key(PASS w, entry), 32 * m + 4 * w.l, w.n_keys, k[m]);
}

#endif
