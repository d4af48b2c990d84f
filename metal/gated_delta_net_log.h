// The replay log of gated_delta_net: replays a sequence's entries before its first token, in the registers that hold
// the state, and writes an entry for each of its tokens.
#ifndef GDN_METAL_GATED_DELTA_NET_LOG_H
#define GDN_METAL_GATED_DELTA_NET_LOG_H

#include "metal/gated_delta_net.h"

// The log entry of a position, and the parts that a simdgroup uses: the key of its key head, the deltas of its value
// channels, the decays of its head.
GDN_INLINE device uchar *log_at(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b,
                                thread const Item &w, int position)
{
    return b.log + gdn_log_offset(p, b, w.seq.row, position);
}
GDN_INLINE int64_t log_key(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, thread const Item &w)
{
    return 4 * gdn_log_key(p, b, w.kappa);
}
GDN_INLINE int64_t log_delta(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, thread const Item &w)
{
    return 4 * (gdn_log_delta(p, b, w.h) + w.j);
}
GDN_INLINE int64_t log_decay(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, thread const Item &w)
{
    return 4 * gdn_log_decay(p, b, w.h);
}

// A lane's part of one entry.
template <int NB, int C, bool CHANNEL> struct Logged {
    float4 k[NB], decay[CHANNEL ? NB : 1];
    float delta[C];
};

template <int NB, int C, bool CHANNEL, bool GENERAL>
GDN_INLINE void load_logged(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, thread const Item &w,
                            int position, thread Logged<NB, C, CHANNEL> &x)
{
    device const uchar *entry = log_at(p, b, w, position);
#pragma unroll
    for (int m = 0; m < NB; m++)
        x.k[m] = read_row<GENERAL>(entry + log_key(p, b, w), GDN_F32, 32 * m + 4 * w.l, p.head_dim_k);
    if (!CHANNEL) x.decay[0] = float4(read_float(entry + log_decay(p, b, w)));
#pragma unroll
    for (int m = 0; CHANNEL && m < NB; m++)
        x.decay[CHANNEL ? m : 0] =
            read_row<GENERAL>(entry + log_decay(p, b, w), GDN_F32, 32 * m + 4 * w.l, p.head_dim_k);
#pragma unroll
    for (int c = 0; c < C; c++) x.delta[c] = c < w.values ? read_float(entry + log_delta(p, b, w) + 4 * c) : 0.0f;
}

// 1: replays the log, from one position to another. Loads of the next entry are issued before this one's arithmetic.
template <int NB, int C, bool CHANNEL, bool GENERAL, bool STATE16>
GDN_INLINE void replay_log_entries(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b,
                                   thread const Item &w, int from, int to, thread float4 (&S)[NB][C])
{
    if (from >= to) return;
    Logged<NB, C, CHANNEL> next;
    load_logged<NB, C, CHANNEL, GENERAL>(p, b, w, from, next);
    for (int at = from; at < to; at++) {
        const Logged<NB, C, CHANNEL> x = next;
        if (at + 1 < to) load_logged<NB, C, CHANNEL, GENERAL>(p, b, w, at + 1, next);
#pragma unroll
        for (int m = 0; m < NB; m++)
#pragma unroll
            for (int c = 0; c < C; c++) S[m][c] = update(S[m][c], x.k[m], x.delta[c], x.decay[CHANNEL ? m : 0]);
        round_state<NB, C, STATE16>(p, b, at + 1, S);
    }
}

template <bool GENERAL> GDN_INLINE void write_row(device uchar *row, int i, int n_keys, float4 x)
{
    device uchar *at = row + 4 * i;
    if (!GENERAL) {
        write_float4(at, x);
        return;
    }
    if (i < n_keys) write_float(at, x.x);
    if (i + 1 < n_keys) write_float(at + 4, x.y);
    if (i + 2 < n_keys) write_float(at + 8, x.z);
    if (i + 3 < n_keys) write_float(at + 12, x.w);
}

// 7: log token t. Each eight lanes write the deltas of their value channels. The lanes with value channel 0 write the
// decay, and for the first value head of a key head also the key.
template <int NB, int C, bool CHANNEL, bool GENERAL>
GDN_INLINE void log_token(constant gdn_gated_delta_net_call &p, thread const DeltaBuffers &b, thread const Item &w,
                          int t, thread const float4 (&k)[NB], thread const float4 (&decay)[CHANNEL ? NB : 1],
                          thread const float (&delta)[C])
{
    if (w.seq.row < 0) return;
    device uchar *entry = log_at(p, b, w, w.seq.position + t);
#pragma unroll
    for (int c = 0; c < C; c++)
        if (w.l == 0 && c < w.values) write_float(entry + log_delta(p, b, w) + 4 * c, delta[c]);
    if (w.j) return;
    if (!CHANNEL && w.l == 0) write_float(entry + log_decay(p, b, w), decay[0].x);
#pragma unroll
    for (int m = 0; CHANNEL && m < NB; m++)
        write_row<GENERAL>(entry + log_decay(p, b, w), 32 * m + 4 * w.l, p.head_dim_k, decay[CHANNEL ? m : 0]);
    if (!gdn_logs_key(p, b, w.h)) return;
#pragma unroll
    for (int m = 0; m < NB; m++) write_row<GENERAL>(entry + log_key(p, b, w), 32 * m + 4 * w.l, p.head_dim_k, k[m]);
}

#endif
