/* What the maps of ssm_conv say of a sequence, and which of them is bad. Written once, for all languages: sequence.h
 * explains the macros. */
#ifndef GDN_CALL_HISTORY_H
#define GDN_CALL_HISTORY_H

#include "call/maps.h"

GDN_STRUCT(gdn_conv_sequence)
{
    GDN_I32T s;
    GDN_I32T first, T; /* its tokens in the call */
    GDN_I32T position; /* of its first token */
    GDN_I32T src, dst; /* rows of the history, or GDN_NONE; src may be GDN_SKIP */
    GDN_I32T bad;      /* GDN_BAD_*: this map's entry is out of range, and the sequence is skipped. -1: none is */
};

/* The first token of sequence s, 0 <= s <= n_seqs. */
FUNCTION GDN_I32T gdn_conv_first_of(CALL GDN_I32T s)
{
    return MAP(seq_start, GDN_HAS_SEQ_START, s, INT(UINT(s) * UINT(P(even_tokens))));
}

FUNCTION gdn_conv_sequence gdn_conv_sequence_of(CALL GDN_I32T s)
{
    gdn_conv_sequence q;
    q.s = s;
    q.first = gdn_conv_first_of(PASS s);
    const GDN_I32T after = gdn_conv_first_of(PASS s + 1), absent = P(history.n_slots) > 0 ? s : GDN_NONE;
    q.position = MAP(position, GDN_HAS_POSITION, s, 0);
    q.src = MAP(history_src, GDN_HAS_SRC, s, absent);
    q.dst = MAP(history_dst, GDN_HAS_DST, s, absent);
    q.T = INT(UINT(after) - UINT(q.first));
    q.bad = -1;
    if (!gdn_range_fits(q.first, after, P(n_tokens))) q.bad = GDN_BAD_SEQ_START;
    else if (!gdn_position_fits(q.position, q.T)) q.bad = GDN_BAD_POSITION;
    else if (!gdn_source_fits(q.src, P(history.n_entries))) q.bad = GDN_BAD_HISTORY_SRC;
    else if (!gdn_target_fits(q.dst, P(history_out.n_entries))) q.bad = GDN_BAD_HISTORY_DST;
    else if (WITH_TREE && q.src != GDN_SKIP && q.T > 0 && P(history.n_entries) > 0 &&
             P(history.n_slots) - (P(kernel_width) - 1) < q.T)
        q.bad = GDN_BAD_PARENT; /* a tree's tokens must not overwrite what the next call reads */
    return q;
}

/* False for padding, and without a token. */
RULE bool gdn_conv_has_work(gdn_conv_sequence q) { return q.src != GDN_SKIP && q.T > 0; }

/* How many checkpoints the sequence writes. */
FUNCTION GDN_I32T gdn_conv_checkpoints(CALL gdn_conv_sequence q)
{
    if (P(checkpoints_interval) == 0) return 0;
    const GDN_I32T n = gdn_checkpoints_reached(P(checkpoints_interval), q.position, q.T);
    return n < P(checkpoints_n) ? n : P(checkpoints_n);
}

/* The row for checkpoint i of these: GDN_NONE if there is none, GDN_BAD if the map is bad. */
FUNCTION GDN_I32T gdn_conv_checkpoint_of(CALL GDN_I32T s, GDN_I32T i)
{
    const GDN_I32T row = MAP(checkpoints_dst, GDN_HAS_CHECKPOINTS, LONG(s) * P(checkpoints_n) + i, GDN_NONE);
    return gdn_target_fits(row, P(history_out.n_entries)) ? row : GDN_BAD;
}

/* ---- 5, keep history: which inputs a row keeps, by position. */

GDN_STRUCT(gdn_conv_kept) { GDN_I32T from, end; /* [from, end) */ };

/* Checkpoint i keeps the inputs that the next token reads. Checkpoints come first, because they read entries that the
 * newest entries overwrite. */
FUNCTION gdn_conv_kept gdn_conv_kept_by_checkpoint(CALL gdn_conv_sequence q, GDN_I32T i)
{
    gdn_conv_kept kept;
    kept.end = (q.position / P(checkpoints_interval) + i + 1) * P(checkpoints_interval);
    kept.from = kept.end > P(kernel_width) - 1 ? kept.end - (P(kernel_width) - 1) : 0;
    return kept;
}

/* True if the row that is written is the one that is read. */
FUNCTION bool gdn_conv_in_place(CALL gdn_conv_sequence q) { return q.dst >= 0 && q.src == q.dst && P(same_pool) != 0; }

/* Then the row that is written keeps the newest inputs, as many as it has slots. In place it has those before this
 * call. */
FUNCTION gdn_conv_kept gdn_conv_kept_newest(CALL gdn_conv_sequence q)
{
    gdn_conv_kept kept;
    kept.end = q.position + q.T;
    kept.from = kept.end > P(history.n_slots) ? kept.end - P(history.n_slots) : 0;
    if (gdn_conv_in_place(PASS q) && kept.from < q.position) kept.from = q.position;
    if (q.dst < 0) kept.from = kept.end;
    return kept;
}

/* ---- Trees */

/* The parent of token t, or GDN_NONE, counted within the sequence; `first` is the sequence's first token. */
FUNCTION GDN_I32T gdn_conv_parent_of(CALL GDN_I32T first, GDN_I32T t)
{
    return MAP(parent, GDN_HAS_PARENT, LONG(first) + t, t - 1);
}

#endif
