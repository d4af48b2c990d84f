// The replay log of gated_delta_net: its maps, its entries, and what a token writes to its entry. gated_delta_net.comp
// includes it, and replays the log; step numbers are as there.

// Loads and checks the log's maps. Padding is checked as little as on the host. Calls with STATE16 may have no log.
bool find_log()
{
    at.kept = STATE16 ? at.position - at.position % p.state_interval : at.position;
    if (STATE16 && p.log_entries == 0) {
        at.row = at.commit = GDN_GPU_NONE;
        at.base_position = at.position;
        return true;
    }
    at.row = map_at(p.log_row, at.s, at.s);
    at.base_position = map_at(p.base_position, at.s, at.position);
    at.commit = at.src != GDN_GPU_SKIP ? map_at(p.commit, at.s, GDN_GPU_NONE) : GDN_GPU_NONE;
    if (at.row < GDN_GPU_NONE || at.row >= p.log_rows) {
        report(p.bad, GDN_GPU_BAD_LOG_ROW);
        return false;
    }
    const bool fits = (at.row < 0 ? at.base_position == at.position
                                  : at.position + at.T - at.base_position <= p.log_entries) &&
                      (!STATE16 || rounds_at(at.base_position));
    if (at.base_position < 0 || at.base_position > at.position || at.src != GDN_GPU_SKIP && !fits) {
        report(p.bad, GDN_GPU_BAD_STATE_POSITION);
        return false;
    }
    return true;
}

// The log entry of a position.
uint64_t log_at(int position)
{
    return log_base + int64_t(position % p.log_entries) * p.log.line;
}

// 7: log token t: the delta of each value channel, once per head the decay, and once per key head the key.
void log_token(int t, float d)
{
    const uint64_t entry = log_at(at.position + t);
    if (is_first_of_value())
        Float(entry + delta_in_log + 4 * at.mine).x = d;
    if (at.j != 0)
        return;
    if (!CHANNEL && at.l == 0)
        Float(entry + decay_in_log).x = a;
    const int sharing = p.n_heads_v / p.n_heads_k;
    const bool logs_key = p.head_map == HEADS_TILED ? at.h < p.n_heads_k : at.h % sharing == 0;
    EACH_BLOCK(m) {
        if (CHANNEL)
            store_row(entry + decay_in_log, decay[m], 32 * m + at.i0);
        if (logs_key)
            store_row(entry + key_in_log, k[m], 32 * m + at.i0);
    }
}
