/* What the maps of gated_delta_net say of a sequence, and which of them is bad. Written once, for all languages. Before
 * it a dialect_*.h is included, which defines:
 *
 *   FUNCTION, CALL, PASS         FUNCTION int f(CALL int x) declares a function of a call, and f(PASS x) calls it
 *   RULE                         declares a function of numbers alone
 *   P(member)                    a member of the call's block
 *   MAP(map, has, i, absent)     entry i of a map, or `absent` without the map
 *   WITH_LOG, WITH_TREE          whether the call has a log, a tree
 *   WITH_CHANNEL, WITH_STATE16   whether it has a gate per key channel, a rounding interval
 *   WITH_CHUNKED                 whether it is in the chunked form, which has a rounding interval too
 *   INT(x), UINT(x), LONG(x)     conversions
 *
 * A kernel for one kind of call knows the WITH_ macros when it is compiled. Defaults of maps are unsigned, because with
 * a map they may overflow. */
#ifndef GDN_CALL_SEQUENCE_H
#define GDN_CALL_SEQUENCE_H

#include "call/maps.h"

GDN_STRUCT(gdn_sequence)
{
    GDN_I32T s;
    GDN_I32T first, T; /* its tokens in the call */
    GDN_I32T src;      /* the entry with the state before them, or GDN_NONE, or GDN_SKIP */
    GDN_I32T position; /* of its first token */
    /* Of the log. Without one: GDN_NONE, the position, GDN_NONE. */
    GDN_I32T row, base_position, commit; /* commit may be GDN_BAD: then only it is skipped */
    GDN_I32T kept; /* the position of the committed state: `position`, or the last rounding at or before it */
    GDN_I32T bad;  /* GDN_BAD_*: this map's entry is out of range, and the sequence is skipped. -1: none is */
};

/* True if a 16-bit state is rounded after the token that gives the sequence this length. */
FUNCTION bool gdn_rounds_at(CALL GDN_I32T length)
{
    return WITH_STATE16 && (P(rounding_interval) == 1 || length % P(rounding_interval) == 0);
}

/* Of the chunked form: the entry for the last state of a sequence with tokens, or GDN_NONE. */
FUNCTION GDN_I32T gdn_chunked_target(CALL gdn_sequence q)
{
    if (P(n_snapshots) == 0 || q.T <= 0) return GDN_NONE;
    return MAP(state_dst, GDN_HAS_DST, q.s, INT(UINT(q.s) * UINT(P(state_out.n_slots))));
}

/* Of the chunked form: the position from which a sequence needs entries of the log after the call. */
FUNCTION GDN_I32T gdn_chunked_base(CALL gdn_sequence q)
{
    const GDN_I32T length = q.position + q.T;
    if (gdn_chunked_target(PASS q) >= 0) return length - length % P(rounding_interval);
    return q.commit >= 0 ? q.kept : q.base_position;
}

/* Of the chunked form: which map does not fit, or -1. The base position is in range, and the row. */
FUNCTION GDN_I32T gdn_chunked_bad(CALL gdn_sequence q)
{
    const GDN_I32T length = q.position + q.T, interval = P(rounding_interval);
    if (q.base_position % interval != 0 || q.base_position > q.kept) return GDN_BAD_BASE_POSITION;
    if (q.row < 0) {
        if (q.base_position != q.position) return q.position == q.kept ? GDN_BAD_BASE_POSITION : GDN_BAD_POSITION;
        return gdn_chunked_target(PASS q) >= 0 && length % interval != 0 ? GDN_BAD_STATE_DST : -1;
    }
    if (q.position - q.base_position > P(log.n_slots)) return GDN_BAD_BASE_POSITION;
    return length - gdn_chunked_base(PASS q) > P(log.n_slots) ? GDN_BAD_BASE_POSITION : -1;
}

/* The first token of sequence s, 0 <= s <= n_seqs. */
FUNCTION GDN_I32T gdn_first_of(CALL GDN_I32T s)
{
    return MAP(seq_start, GDN_HAS_SEQ_START, s, INT(UINT(s) * UINT(P(even_tokens))));
}

/* Entries are loaded before the first test, so that a device waits for memory once. */
FUNCTION gdn_sequence gdn_sequence_of(CALL GDN_I32T s)
{
    gdn_sequence q;
    q.s = s;
    q.first = gdn_first_of(PASS s);
    const GDN_I32T after = gdn_first_of(PASS s + 1);
    q.src = MAP(state_src, GDN_HAS_SRC, s, INT(UINT(s) * UINT(P(state.n_slots))));
    q.position = MAP(position, GDN_HAS_POSITION, s, 0);
    q.kept = q.position;
    if (WITH_STATE16) q.kept -= q.position % P(rounding_interval);
    q.row = GDN_NONE;
    q.base_position = WITH_CHUNKED ? q.kept : q.position;
    q.commit = GDN_NONE;
    if (WITH_LOG) {
        q.row = MAP(log_row, GDN_HAS_LOG_ROW, s, s);
        q.base_position = MAP(base_position, GDN_HAS_BASE_POSITION, s, q.base_position);
        q.commit = MAP(commit, GDN_HAS_COMMIT, s, GDN_NONE);
    }
    const bool padding = q.src == GDN_SKIP;
    if (padding) q.commit = GDN_NONE;
    q.T = INT(UINT(after) - UINT(q.first));
    q.bad = -1;
    if (!gdn_range_fits(q.first, after, P(n_tokens))) q.bad = GDN_BAD_SEQ_START;
    else if (!gdn_source_fits(q.src, P(state.n_entries))) q.bad = GDN_BAD_STATE_SRC;
    else if (!gdn_position_fits(q.position, q.T)) q.bad = GDN_BAD_POSITION;
    else if (WITH_LOG) {
        bool base_fits = q.base_position >= 0 && q.base_position <= q.position;
        bool row_fits = gdn_target_fits(q.row, P(log.n_entries));
        if (base_fits && !padding && !WITH_CHUNKED) { /* from the base position on, the row has the sequence's tokens */
            const GDN_I32T behind = q.position - q.base_position; /* entries that are replayed */
            base_fits = q.row < 0 ? behind == 0 : behind <= P(log.n_slots) - q.T;
            if (WITH_STATE16) base_fits = base_fits && gdn_rounds_at(PASS q.base_position);
            row_fits = row_fits && !(WITH_TREE && q.row < 0 && q.T > 0); /* a tree's tokens are replayed from it */
        }
        if (!row_fits) q.bad = GDN_BAD_LOG_ROW;
        else if (!base_fits) q.bad = GDN_BAD_BASE_POSITION;
        else if (!gdn_target_fits(q.commit, P(state_out.n_entries))) q.commit = GDN_BAD;
    }
    if (WITH_CHUNKED && q.bad < 0 && !padding) q.bad = gdn_chunked_bad(PASS q);
    return q;
}

/* False for padding, and without a token or a commit. Such a sequence must not read its source, because another one may
 * write it. */
RULE bool gdn_has_work(gdn_sequence q) { return q.src != GDN_SKIP && (q.T > 0 || q.commit >= 0); }

/* The entry for the state after token t, as a snapshot: GDN_NONE if there is none, GDN_BAD if the map is bad. */
FUNCTION GDN_I32T gdn_snapshot_of(CALL gdn_sequence q, GDN_I32T t)
{
    const GDN_I32T back = q.T - 1 - t; /* tokens between it and the newest */
    if (back >= P(n_snapshots)) return GDN_NONE;
    const GDN_I32T entry = MAP(state_dst, GDN_HAS_DST, LONG(q.s) * P(n_snapshots) + back,
                               INT(UINT(q.s) * UINT(P(state_out.n_slots)) + UINT(back)));
    if (!gdn_target_fits(entry, P(state_out.n_entries))) return GDN_BAD;
    return entry < 0 || !WITH_STATE16 || gdn_rounds_at(PASS q.position + t + 1) ? entry : GDN_BAD;
}

/* The same as a checkpoint. It loads the position again, so that devices keep no register for it. */
FUNCTION GDN_I32T gdn_checkpoint_of(CALL GDN_I32T s, GDN_I32T t)
{
    if (P(checkpoints_interval) == 0) return GDN_NONE;
    const GDN_I32T position = MAP(position, GDN_HAS_POSITION, s, 0);
    const GDN_I32T i = gdn_checkpoint_index(P(checkpoints_interval), P(checkpoints_n), position, t);
    if (i < 0) return GDN_NONE;
    const GDN_I32T entry = MAP(checkpoints_dst, GDN_HAS_CHECKPOINTS, LONG(s) * P(checkpoints_n) + i, GDN_NONE);
    return gdn_target_fits(entry, P(state_out.n_entries)) ? entry : GDN_BAD;
}

/* The first token from t on whose state may be a snapshot or a checkpoint; T or more if there is none. */
FUNCTION GDN_I32T gdn_next_kept(CALL gdn_sequence q, GDN_I32T t)
{
    const GDN_I32T first = q.T - P(n_snapshots) > t ? q.T - P(n_snapshots) : t;
    if (P(checkpoints_interval) == 0) return first;
    const GDN_I32T position = MAP(position, GDN_HAS_POSITION, q.s, 0), interval = P(checkpoints_interval);
    const GDN_I32T more = interval - 1 - (position + t) % interval; /* tokens before the next checkpoint's */
    return more < first - t ? t + more : first;
}

/* ---- Trees: tokens are counted within the sequence, whose first is `first`. */

/* The parent of token t, or GDN_NONE. */
FUNCTION GDN_I32T gdn_parent_of(CALL GDN_I32T first, GDN_I32T t)
{
    return MAP(parent, GDN_HAS_PARENT, LONG(first) + t, t - 1);
}

/* The number of tokens from the root to token t, 0 if t is GDN_NONE. */
FUNCTION GDN_I32T gdn_depth_of(CALL GDN_I32T first, GDN_I32T t)
{
    GDN_I32T depth = 0;
    for (; t >= 0; t = gdn_parent_of(PASS first, t)) depth++;
    return depth;
}

/* The token on that path that has n tokens after it. */
FUNCTION GDN_I32T gdn_ancestor_of(CALL GDN_I32T first, GDN_I32T t, GDN_I32T n)
{
    for (; n > 0; n--) t = gdn_parent_of(PASS first, t);
    return t;
}

/* ---- Heads, and where a log entry has a head's part. Offsets in elements. */

FUNCTION GDN_I32T gdn_key_head(CALL GDN_I32T h)
{
    return P(head_map) == GDN_HEADS_TILED ? INT(UINT(h) % UINT(P(n_heads_k))) : INT(UINT(h) / UINT(P(heads_per_key)));
}

/* True if value head h is the first that uses its key head: it writes the key to the log. */
FUNCTION bool gdn_logs_key(CALL GDN_I32T h)
{
    return P(head_map) == GDN_HEADS_TILED ? h < P(n_heads_k) : h % P(heads_per_key) == 0;
}

/* The entry in a slot, and of a position, in bytes. */
FUNCTION int64_t gdn_log_slot(CALL GDN_I32T row, GDN_I32T slot)
{
    return row * P(log.stride_row) + slot * P(log.stride_slot);
}
FUNCTION int64_t gdn_log_offset(CALL GDN_I32T row, GDN_I32T position)
{
    return gdn_log_slot(PASS row, position % P(log.n_slots));
}

FUNCTION int64_t gdn_log_key(CALL GDN_I32T key_head) { return LONG(key_head) * P(head_dim_k); }

FUNCTION int64_t gdn_log_delta(CALL GDN_I32T h) { return LONG(P(n_heads_k)) * P(head_dim_k) + LONG(h) * P(head_dim_v); }

FUNCTION int64_t gdn_log_decay(CALL GDN_I32T h)
{
    return gdn_log_delta(PASS P(n_heads_v)) + LONG(h) * (WITH_CHANNEL ? P(head_dim_k) : 1);
}

#endif
