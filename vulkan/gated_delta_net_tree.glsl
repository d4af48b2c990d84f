// Trees of tokens in gated_delta_net: restores the state of a token's parent if that is not the token before it.
// gated_delta_net.comp includes it for variants with any head_dim_k; step numbers are as there.
//
// Loops iterate along a branch, or along its tokens and their blocks of keys, and are not nested. llvmpipe stops every
// loop of an invocation after 65,535 iterations in all of them together.

const int HELD = 64; // ancestors that one traversal of a branch records
int   path[HELD];
float factors[HELD];

// Checks the maps of a tree: a sequence with tokens needs a row of the log, and valid parents.
bool find_tree()
{
    if (at.T > 0 && at.row < 0) {
        report(p.bad, GDN_GPU_BAD_LOG_ROW);
        return false;
    }
    return is_tree(p.parent, at.first, at.T, p.bad);
}

// The delta of token i, in the lane that has logged it: no lane reads what another one wrote.
float logged_delta(int i)
{
    return is_first_of_value() ? Float(log_at(at.position + i) + delta_in_log + 4 * at.mine).x : 0.0;
}

// Addresses of the operands of token i, when token t is the next one.
uint64_t key_of(int i, int t)
{
    return k_at + (i - t) * p.k.token;
}
uint64_t gate_of(int i, int t)
{
    return g_at + (i - t) * p.g.token;
}

// 0: compute the norm factors of the keys of the path's tokens
void find_factors(int begin, int n, int t)
{
    vec4 sum = vec4(0);
    [[dont_unroll]] for (int part = 0; part < n * n_blocks; part++) {
        const int m = part % n_blocks, of = (begin + part / n_blocks) % HELD;
        const vec4 key = load_row(key_of(path[of], t), p.k_dtype, 32 * m + at.i0);
        sum = fma4(key, key, m == 0 ? vec4(0) : sum);
        if (m == n_blocks - 1) {
            precise vec4 x = sum + exchange(sum, 4, 2); // h = 16
            factors[of] = gdn_norm_factor(fold_rest(x, x, 0, 1), p.norm_add, p.norm_most);
        }
    }
}

// 1: replay the path's tokens on the state, the last of `path` first. Keys and decays are computed again.
//
// Boards (exchange.glsl): consecutive exchanges must not use the same one. A token of the call ends with board 1. It
// begins with 2 if there is a norm, else with 0. Factors begin with 2 and end with 1. So the tokens of a path use 0 and
// 2 in turn. The last one uses 0 if there is a norm; else the last of all paths of the branch uses 2.
void repeat_path(int begin, int n, int t)
{
    vec4 delta;
    if (has_norm())
        find_factors(begin, n, t);
    [[dont_unroll]] for (int part = 0; part < n * n_blocks; part++) {
        const int m = part % n_blocks, left = n - part / n_blocks, behind = begin + left - 1;
        const int i = path[behind % HELD];
        if (m == 0) {
            rounds = rounds_at(at.position + ++depth);
            if (!CHANNEL)
                a = decay_of(load_typed(gate_of(i, t), p.g_dtype), bias);
            delta = gather_values(logged_delta(i), ((has_norm() ? left : behind) & 1) != 0 ? 0 : 2);
        }
        const int i0 = 32 * m + at.i0;
        k[m] = load_row(key_of(i, t), p.k_dtype, i0);
        if (has_norm()) {
            precise vec4 ready = k[m] * factors[behind % HELD];
            k[m] = ready;
        }
        if (CHANNEL)
            decay[m] = decays_of(load_row(gate_of(i, t), p.g_dtype, i0), key_bias[m]);
        update_only(m, delta);
    }
}

// 1, for token t of a tree that does not follow token t - 1: restores the state of its parent. It starts from the state
// at the sequence's position, which it loads from the commit or replays from the log, and replays the parent's branch.
void follow(int t)
{
    const int parent = parent_of(p.parent, at.first, t);
    if (parent == t - 1) {
        depth++;
        return;
    }
    const bool committed = at.commit >= 0 && at.commit < p.entries_out;
    gdn_gpu_pool pool = p.state_in;
    if (committed)
        pool = p.state_out;
    const int from = committed ? at.commit : at.src, n_slots = committed ? p.slots_out : p.slots_in;
    if (STATE16)
        load_state16(pool, from, n_slots);
    else
        load_state(pool, from, n_slots);
    replay_log_entries(committed ? at.kept : at.base_position, at.position);
    depth = 0;
    // Each traversal goes from the end to the root, and keeps the last HELD tokens found, which are the first to
    // replay.
    int last = -1; // the last token that has been replayed
    while (last != parent) {
        int n = 0;
        for (int i = parent; i != last; i = parent_of(p.parent, at.first, i))
            path[n++ % HELD] = i;
        const int held = min(n, HELD), begin = n - held;
        repeat_path(begin, held, t);
        last = path[begin % HELD];
    }
    depth++;
}
