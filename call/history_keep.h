/* What the GPU kernels of ssm_conv share beyond history.h: which sequence a token is of, and step 5, keep history. The
 * kernel defines keep_entry() before, which stores the input at a position as a conv state entry of a row. */
#ifndef GDN_CALL_HISTORY_KEEP_H
#define GDN_CALL_HISTORY_KEEP_H

/* The last sequence that begins at or before token i; 0 if there is none. */
FUNCTION GDN_I32T gdn_conv_sequence_at(CALL GDN_I32T i)
{
    if ((P(has) & GDN_HAS_SEQ_START) == 0) return i / P(even_tokens);
    GDN_I32T low = 0, high = P(n_seqs) - 1;
    while (low < high) {
        const GDN_I32T middle = low + (high - low + 1) / 2;
        if (gdn_conv_first_of(PASS middle) <= i) low = middle;
        else high = middle - 1;
    }
    return low;
}

/* 5: keep history, of channel c. */
FUNCTION void gdn_conv_keep(CALL gdn_conv_sequence q, GDN_I32T c)
{
    const GDN_I32T n = gdn_conv_checkpoints(PASS q);
    for (GDN_I32T i = 0; i < n; i++) {
        const GDN_I32T row = gdn_conv_checkpoint_of(PASS q.s, i);
        const gdn_conv_kept kept = gdn_conv_kept_by_checkpoint(PASS q, i);
        if (row == GDN_BAD) REPORT(GDN_BAD_CHECKPOINT);
        for (GDN_I32T at = kept.from; row >= 0 && at < kept.end; at++) keep_entry(PASS q, row, at, c);
    }
    const gdn_conv_kept kept = gdn_conv_kept_newest(PASS q);
    for (GDN_I32T at = kept.from; at < kept.end; at++) keep_entry(PASS q, q.dst, at, c);
}

#endif
