// The replay log of gated_delta_net: its entries, and what a token writes to its entry. gated_delta_net.comp
// includes it, and replays the log; step numbers are as there.

// The log entry of a position.
uint64_t log_at(int position)
{
    return p.log.data + gdn_log_offset(seq.row, position);
}

// 7: log token t: the delta of each value channel, once per head the decay, and once per key head the key.
void log_token(int t, float d)
{
    const uint64_t entry = log_at(seq.position + t);
    if (is_first_of_value())
        Float(entry + delta_in_log + 4 * at.mine).x = d;
    if (at.j != 0)
        return;
    if (!CHANNEL && at.l == 0)
        Float(entry + decay_in_log).x = a;
    const bool logs_key = gdn_logs_key(at.h);
    EACH_BLOCK(m) {
        if (CHANNEL)
            store_row(entry + decay_in_log, decay[m], 32 * m + at.i0);
        if (logs_key)
            store_row(entry + key_in_log, k[m], 32 * m + at.i0);
    }
}
