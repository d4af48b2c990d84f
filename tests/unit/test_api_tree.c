/* Calls whose tokens are trees: their arguments and what is refused. gdn check has what a branch comes to. */
#include "test_api.h"

#include <string.h>

static gdn_gated_delta_net_args *const d = &delta_args.args;
static gdn_ssm_conv_args *const c = &conv_args.args;
static gdn_token_tree *const tree = &delta_args.tree, *const conv_tree = &conv_args.tree;

/* The valid calls, of 2 and of 3 tokens: two that follow the state, and a root with two behind it. */
static const int parents[5] = { GDN_NONE, GDN_NONE, GDN_NONE, 0, 0 };

static void states(void)
{
    with_log();
    d->n_snapshots = 0;
    d->state_dst.data = NULL;
    *tree = (gdn_token_tree){ .size = sizeof *tree, .parent = SPAN(delta_mem.parent) };
    memcpy(delta_mem.parent, parents, sizeof parents);
}

static void histories(void)
{
    c->activation = GDN_ACTIVATION_NONE;
    c->kernel_width = 3; /* of 5 slots 3 are left for tokens */
    *conv_tree = (gdn_token_tree){ .size = sizeof *conv_tree, .parent = SPAN(conv_mem.parent) };
    memcpy(conv_mem.parent, parents, sizeof parents);
}

static gdn_checkpoints kept(int32_t map[4])
{
    return (gdn_checkpoints){ .size = sizeof(gdn_checkpoints), .interval = 3, .n = 1, .dst = { .data = map } };
}

static void arguments(void)
{
    REFUSED(on_delta, states(); delta_args.log.size = 0, "tree is given and log is NULL", "needs a log");
    REFUSED(on_delta, tree->size = sizeof *tree, "tree is given and log is NULL");
    REFUSED(on_delta, states(); d->n_snapshots = 2, "n_snapshots is 2 and tree is given; it must be 0");
    REFUSED(on_delta, states();
            delta_args.checkpoints = kept(delta_mem.checkpoint), "checkpoints and tree are given; one must be NULL");
    REFUSED(on_delta, states(); tree->parent.bytes = 19, "tree.parent.bytes is 19", "20 bytes");
    REFUSED(on_delta, states(); tree->parent.offset = 2, "tree.parent begins at", "multiple of 4");
    REFUSED(on_delta, states(); tree->parent.data = delta_mem.out; tree->parent.bytes = 0, "overlaps", "parent");
    REFUSED(on_delta, states(); MAP(delta_mem.log_row, 2, GDN_NONE);
            MAP(delta_mem.base_position, 4, 4),
            "log.row[1] is GDN_NONE and tree is given; with it the sequence's 3 tokens need a row, 0 to 2");
    REFUSED(on_conv, histories(); conv_args.checkpoints = kept(conv_mem.checkpoint),
                                  "checkpoints and tree are given; a tree has no checkpoints");
    REFUSED(on_conv, histories();
            c->kernel_width = 4,
            "history.n_slots is 5 and tree is given; sequence 1 has 3 tokens, for which at least 6 are needed");
    REFUSED(on_conv, histories(); conv_tree->parent.bytes = 19, "tree.parent.bytes is 19", "20 bytes");
    REFUSED(on_conv, histories(); conv_tree->parent.data = conv_mem.history;
            conv_tree->parent.bytes = 0, "overlaps", "parent");
}

static void entries(void)
{
    int32_t *const of = delta_mem.parent, *const in = conv_mem.parent;
    REFUSED(on_delta, states();
            of[0] = 0, "tree.parent[0] is 0; it is the first token of sequence 0, for which GDN_NONE is allowed");
    REFUSED(on_delta, states(); of[2] = -2, "tree.parent[2] is -2; it is the first token of sequence 1");
    REFUSED(on_delta, states();
            of[1] = 1, "tree.parent[1] is 1; it is token 1 of sequence 0, for which 0 to 0 and GDN_NONE are allowed");
    REFUSED(on_delta, states(); of[4] = 2, "tree.parent[4] is 2; it is token 2 of sequence 1, for which 0 to 1 and");
    REFUSED(on_delta, states(); of[4] = INT32_MIN, "tree.parent[4] is -2147483648; it is token 2 of sequence 1");
    REFUSED(on_delta, states(); delta_args.log.row.data = NULL; of[3] = 7, "tree.parent[3] is 7");
    REFUSED(on_conv, histories(); in[2] = 1, "tree.parent[2] is 1; it is the first token of sequence 1");
    REFUSED(on_conv, histories(); in[3] = 1, "tree.parent[3] is 1; it is token 1 of sequence 1", "0 to 0 and GDN_NONE");
    REFUSED(on_conv, histories(); in[4] = -2, "tree.parent[4] is -2; it is token 2 of sequence 1");
    /* Entries of padding and of no sequence are not read. */
    ACCEPTED(on_delta, states(); MAP(of, 9, -9, -1, 0, 0); delta_mem.state_src[0] = GDN_SKIP);
    ACCEPTED(on_delta, states(); MAP(of, 9, -1, 0, -1, 9); MAP(delta_mem.seq_start, 1, 3, 4));
    ACCEPTED(on_conv, histories(); MAP(in, -1, -1, 9, -9, 5); conv_mem.history_src[1] = GDN_SKIP);
    ACCEPTED(on_conv, histories(); MAP(in, 9, -1, 0, -1, 9); MAP(conv_mem.seq_start, 1, 3, 4));
    /* Nor at columns where there are none; padding needs no row of a log. */
    ACCEPTED(on_conv, histories(); c->kernel_width = 4; conv_mem.history_src[1] = GDN_SKIP);
    ACCEPTED(on_conv, histories(); c->kernel_width = 4; c->history.n_slots = c->history.n_rows = 0;
             c->history.data = c->history_src.data = c->history_dst.data = NULL);
    ACCEPTED(on_delta, states(); MAP(delta_mem.log_row, GDN_NONE, 0); delta_mem.state_src[0] = GDN_SKIP;
             delta_mem.base_position[0] = 7);
}

/* Where each token follows the one before it, the map says what its absence says. */
static void chains(void)
{
    ACCEPTED(on_delta, states(); MAP(delta_mem.parent, -1, 0, -1, 0, 1));
    SAME(on_delta, states(); MAP(delta_mem.parent, -1, 0, -1, 0, 1); tree->parent.data = NULL);
    SAME(on_delta, states(); MAP(delta_mem.parent, -1, 0, -1, 0, 1); tree->size = 0);
    ACCEPTED(on_conv, histories(); MAP(conv_mem.parent, -1, 0, -1, 0, 1));
    SAME(on_conv, histories(); MAP(conv_mem.parent, -1, 0, -1, 0, 1); conv_tree->parent.data = NULL);
    SAME(on_conv, histories(); MAP(conv_mem.parent, -1, 0, -1, 0, 1); conv_tree->size = 0);
}

void test_api_trees(void)
{
    arguments();
    entries();
    chains();
}
