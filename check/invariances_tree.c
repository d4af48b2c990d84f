/* Trees of tokens: each branch gives the outputs and log entries of a call with that branch alone, without a tree.
 * Siblings may come in any order. */
#include "trial.h"

enum { MOST = 72 };

/* The tokens from the root to t, whose parents are given; how many there are. */
static int path_to(const int *parent, int t, int *path)
{
    int n = 0;
    for (int at = t; at >= 0; at = parent[at]) n++;
    for (int at = t, m = n; at >= 0; at = parent[at]) path[--m] = at;
    return n;
}

static int is_leaf(const int *parent, int n, int t)
{
    for (int i = t + 1; i < n; i++)
        if (parent[i] == t) return 0;
    return 1;
}

static int draw_tree(int *parent, check_rng *rng)
{
    const int n = check_between(rng, 2, check_one_in(rng, 5) ? MOST : 14), bushy = check_between(rng, 1, 4);
    for (int t = 0; t < n; t++) {
        parent[t] = t - 1;
        if (check_one_in(rng, bushy)) parent[t] = check_between(rng, GDN_NONE, t - 1);
    }
    return n;
}

/* The tree with its tokens in another order, in which each still comes behind its parent: order[i] is which token comes
 * i-th, place[t] where token t has come. */
static void reorder(const int *parent, int n, int *order, int *place, int *parents, check_rng *rng)
{
    for (int t = 0; t < n; t++) place[t] = GDN_NONE;
    for (int i = 0; i < n; i++) {
        int t = check_between(rng, 0, n - 1);
        while (place[t] >= 0 || (parent[t] >= 0 && place[parent[t]] < 0)) t = (t + 1) % n;
        order[i] = t;
        place[t] = i;
        parents[i] = parent[t] < 0 ? GDN_NONE : place[parent[t]];
    }
}

typedef int same_tokens_fn(check_trial *trial, const check_call *a, int s, int t, const check_call *b, int s2, int t2,
                           int n, const char *what);

/* `other`, the tree with its n tokens at places of their own, gives what the tree does. */
static void run_reordered(check_trial *trial, const check_kernel *kernel, const check_call *tree, check_call *other,
                          int n, const int *place, same_tokens_fn *same, check_rng *rng)
{
    if (!check_call_run(trial, kernel, other, rng, "the tree in another order")) return;
    for (int t = 0; t < n; t++)
        if (!same(trial, tree, 0, t, other, 0, place[t], 1, "in another order")) return;
}

/* ---- gated_delta_net ----------------------------------------------------------------------------------- */

/* The base position, from which every branch begins; the call with the tree commits that state. */
enum { BEGIN = 1, ROWS = 2 };

static void draw_state_tree(delta_spec *spec, int n, const int *parent, check_rng *rng)
{
    static const int dims[] = { 16, 17, 32, 33, 64, 128 };
    const int heads = check_between(rng, 1, 2), dim_v = CHECK_PICK(rng, dims), dim_k = CHECK_PICK(rng, dims);
    *spec =
        DELTA(1, 1, .n_heads_k = heads, .n_heads_v = heads * check_between(rng, 1, 3), .dim_k = dim_k, .dim_v = dim_v);
    delta_random_rest(spec, rng);
    delta_random_state(spec);
    delta_batch(spec, 1, n);
    spec->n_rows = spec->n_rows_out = ROWS;
    spec->n_snapshots = 0;
    spec->map_src = spec->map_position = spec->map_base_position = spec->map_log_row = spec->map_commit = 1;
    spec->tree = spec->map_parent = 1;
    spec->log_rows = 2;
    delta_seq *const seq = &spec->seq[0];
    seq->state_key = 3;
    seq->position = check_between(rng, 4, 90);
    seq->n_replayed = check_between(rng, 0, 3);
    seq->log_row = check_between(rng, 0, 1);
    seq->commit = BEGIN;
    seq->parent = parent;
    if (spec->dtype_state != GDN_F32) { /* rounded after every 1 to 4 tokens of a branch */
        spec->state_interval = 1 + (int)(spec->seed >> 40 & 3);
        seq->n_replayed += (seq->position - seq->n_replayed) % spec->state_interval;
    }
    spec->log_slots = n + seq->n_replayed + check_between(rng, 0, 3);
}

/* How many of the entries before the tree's tokens are not in the state that it commits. */
static int left_of(const delta_spec *tree)
{
    return tree->state_interval ? tree->seq[0].position % tree->state_interval : 0;
}

/* A call of these tokens, one after another, that starts from where the tree's does. */
static int run_branch(check_trial *trial, const check_call *tree, check_call *branch, const int *path, int n,
                      check_rng *rng)
{
    delta_spec *const spec = &branch->delta;
    *spec = tree->delta;
    spec->tree = spec->map_parent = spec->map_position = spec->map_base_position = spec->map_log_row =
        spec->map_commit = 0;
    spec->log_rows = spec->log_slots = 0;
    spec->n_snapshots = 1;
    spec->seq[0] = (delta_seq){ .length = n, .key = tree->delta.seq[0].key, .order = path };
    const delta_seq *from = &tree->delta.seq[0];
    const int left = left_of(&tree->delta), interval = spec->state_interval;
    if (interval > 1) {
        spec->map_dst = spec->map_position = spec->map_base_position = spec->log_rows = 1;
        spec->log_slots = left + n;
        spec->seq[0].position = from->position;
        spec->seq[0].n_replayed = left;
        spec->seq[0].dst[0] = (from->position + n) % interval ? GDN_NONE : 0;
    }
    check_call_build(trial, &check_kernel_gated_delta_net, branch, rng);
    delta_copy_slot(&tree->c, &tree->delta, "state", tree->result.image, BEGIN, &branch->c, spec, 0);
    if (left)
        delta_copy_log(&tree->c, tree->result.image, from->log_row, &branch->c, 0, from->position - left,
                       from->position);
    return check_trial_run(trial, &branch->c, &branch->result, "a branch alone");
}

/* The branch's entries moved together, and replayed on the state. */
static int run_accepted(check_trial *trial, const check_call *tree, check_call *next, const int *path, int n,
                        check_rng *rng)
{
    const delta_seq *from = &tree->delta.seq[0];
    delta_seq *const seq = &next->delta.seq[0];
    next->delta = tree->delta;
    next->delta.tree = next->delta.map_parent = 0;
    seq->length = seq->commit = 0;
    seq->position = from->position + n;
    seq->n_replayed = left_of(&tree->delta) + n;
    seq->parent = NULL;
    check_call_build(trial, &check_kernel_gated_delta_net, next, rng);
    delta_copy_slot(&tree->c, &tree->delta, "state", tree->result.image, BEGIN, &next->c, &next->delta, seq->src);
    if (left_of(&tree->delta))
        delta_copy_log(&tree->c, tree->result.image, from->log_row, &next->c, seq->log_row,
                       from->position - left_of(&tree->delta), from->position);
    for (int m = 0; m < n; m++)
        delta_copy_entry(&tree->c, tree->result.image, from->log_row, from->position + path[m], &next->c, seq->log_row,
                         from->position + m);
    return check_trial_run(trial, &next->c, &next->result, "an accepted branch");
}

void check_state_trees(check_trial *trial, check_rng *rng)
{
    check_call *tree = check_trial_call(trial), *other = check_trial_call(trial), *branch = check_trial_call(trial),
               *next = check_trial_call(trial);
    int parent[MOST], order[MOST], place[MOST], parents[MOST], path[MOST];
    const int n = draw_tree(parent, rng);
    draw_state_tree(&tree->delta, n, parent, rng);
    if (!check_call_run(trial, &check_kernel_gated_delta_net, tree, rng, "the tree")) return;
    for (int left = 4, t = n - 1; t >= 0 && left; t--) {
        if (!is_leaf(parent, n, t)) continue;
        left--;
        const int depth = path_to(parent, t, path);
        if (!run_branch(trial, tree, branch, path, depth, rng)) return;
        for (int m = 0; m < depth; m++)
            if (!delta_same_tokens(trial, tree, 0, path[m], branch, 0, m, 1, "a branch alone")) return;
        if (!run_accepted(trial, tree, next, path, depth, rng)) return;
        const int interval = tree->delta.state_interval; /* the state behind all tokens is none otherwise */
        if ((interval < 2 || (tree->delta.seq[0].position + depth) % interval == 0) &&
            !delta_same_state(trial, branch, 0, next, 0, "from a branch's entries"))
            return;
    }
    reorder(parent, n, order, place, parents, rng);
    other->delta = tree->delta;
    other->delta.seq[0].order = order;
    other->delta.seq[0].parent = parents;
    run_reordered(trial, &check_kernel_gated_delta_net, tree, other, n, place, delta_same_tokens, rng);
}

/* ---- ssm_conv ------------------------------------------------------------------------------------------ */

/* The column of a position, in a tree's history, against that of another one in a branch's. */
static int same_entry(check_trial *trial, const check_call *tree, int64_t at, const check_call *branch, int64_t from)
{
    return conv_same_slot(trial, tree, tree->conv.seq[0].dst, at, branch, branch->conv.seq[0].dst, from,
                          "a branch alone");
}

void check_history_trees(check_trial *trial, check_rng *rng)
{
    check_call *tree = check_trial_call(trial), *other = check_trial_call(trial), *branch = check_trial_call(trial);
    conv_spec *const spec = &tree->conv;
    int parent[MOST], order[MOST], place[MOST], parents[MOST], path[MOST];
    const int n = draw_tree(parent, rng), width = check_between(rng, 1, 16);
    *spec = CONV(1, 1, .n_channels = check_between(rng, 1, 150), .width = width);
    conv_random_rest(spec, rng);
    conv_batch(spec, 1, n);
    spec->n_slots = spec->width - 1 + n + check_between(rng, 0, 4);
    spec->map_position = spec->map_src = spec->map_dst = spec->tree = spec->map_parent = 1;
    spec->n_rows = spec->n_rows_out = 2;
    conv_seq *const seq = &spec->seq[0];
    seq->position = check_one_in(rng, 3) ? check_between(rng, 0, 3) : check_between(rng, 0, 100);
    seq->key = check_next(rng) >> 1;
    seq->dst = check_between(rng, 0, 1);
    seq->parent = parent;
    if (!check_call_run(trial, &check_kernel_ssm_conv, tree, rng, "the tree")) return;
    for (int left = 4, t = n - 1; t >= 0 && left; t--) {
        if (!is_leaf(parent, n, t)) continue;
        left--;
        const int depth = path_to(parent, t, path);
        branch->conv = tree->conv;
        branch->conv.tree = branch->conv.map_parent = 0;
        branch->conv.seq[0].length = depth;
        branch->conv.seq[0].order = path;
        if (!check_call_run(trial, &check_kernel_ssm_conv, branch, rng, "a branch alone")) return;
        for (int m = 0; m < depth; m++)
            if (!conv_same_tokens(trial, tree, 0, path[m], branch, 0, m, 1, "a branch alone") ||
                !same_entry(trial, tree, (int64_t)seq->position + path[m], branch, (int64_t)seq->position + m))
                return;
        for (int64_t m = 1; m < spec->width && m <= seq->position; m++)
            if (!same_entry(trial, tree, seq->position - m, branch, seq->position - m)) return;
    }
    reorder(parent, n, order, place, parents, rng);
    other->conv = tree->conv;
    other->conv.seq[0].order = order;
    other->conv.seq[0].parent = parents;
    run_reordered(trial, &check_kernel_ssm_conv, tree, other, n, place, conv_same_tokens, rng);
}
