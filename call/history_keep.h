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

/* 5: keep history, of channel c: checkpoints first, since they read entries that the newest entries overwrite. A
 * checkpoint holds the entries that the next token reads. */
FUNCTION void gdn_conv_keep_checkpoints(CALL gdn_conv_sequence q, GDN_I32T c)
{
    const GDN_I32T n = gdn_conv_checkpoints(PASS q), reach = P(kernel_width) - 1;
    for (GDN_I32T i = 0; i < n; i++) {
        const GDN_I32T row = gdn_conv_checkpoint_of(PASS q.s, i),
                       length = (q.position / P(checkpoints_interval) + i + 1) * P(checkpoints_interval);
        if (row == GDN_BAD) REPORT(GDN_BAD_CHECKPOINT);
        for (GDN_I32T at = length > reach ? length - reach : 0; row >= 0 && at < length; at++)
            keep_entry(PASS q, row, at, c);
    }
}

/* 5: keep history: then the newest entries. The older of them are copied only if the row changes. */
FUNCTION void gdn_conv_keep(CALL gdn_conv_sequence q, GDN_I32T c)
{
    gdn_conv_keep_checkpoints(PASS q, c);
    if (q.dst < 0) return;
    const bool in_place = q.src == q.dst && P(same_pool) != 0;
    const GDN_I32T end = q.position + q.T;
    GDN_I32T at = end > P(history.n_slots) ? end - P(history.n_slots) : 0;
    if (in_place && at < q.position) at = q.position;
    for (; at < end; at++) keep_entry(PASS q, q.dst, at, c);
}

#endif
