/* Calls with checkpoints: their arguments, what is refused, and which entries of their maps are used. */
#include "test_api.h"

#include <string.h>

static gdn_gated_delta_net_args *const d = &delta_args.args;
static gdn_ssm_conv_args *const c = &conv_args.args;
static gdn_checkpoints *const kept = &delta_args.checkpoints, *const kept_rows = &conv_args.checkpoints;

/* The valid calls, of 2 and of 3 tokens. States are read in slots 0 and 3 and written to 1, 0 and 2. So 3 is left for
 * the second sequence, and 4 and 5 are free. Of three rows of a history 0 and 1 are read, and 0 is written. */
enum { SLOT = 4 * 32 * 16, ROW = 5 * 20, COLUMN = 20 };

static void states(int32_t interval, int32_t n)
{
    *kept = (gdn_checkpoints){ .size = sizeof *kept, .interval = interval, .n = n, .dst = SPAN(delta_mem.checkpoint) };
    d->position = SPAN(delta_mem.position);
    MAP(delta_mem.position, 7, 0);
    MAP(delta_mem.checkpoint, 4, 5, 3, GDN_NONE);
}

static void histories(int32_t interval, int32_t n)
{
    *kept_rows =
        (gdn_checkpoints){ .size = sizeof *kept_rows, .interval = interval, .n = n, .dst = SPAN(conv_mem.checkpoint) };
    MAP(conv_mem.history_dst, 0, GDN_NONE);
    MAP(conv_mem.checkpoint, 2, GDN_NONE, 1, GDN_NONE);
}

static void sizes(void)
{
    REFUSED(on_delta, states(-1, 2), "checkpoints.interval is -1; 1 to 2147483647 are allowed");
    REFUSED(on_delta, states(1, 0), "checkpoints.n is 0; 1 to 1048576 are allowed");
    REFUSED(on_delta, states(1, -1), "checkpoints.n is -1; 1 to 1048576 are allowed");
    REFUSED(on_delta, states(1, 1048577), "checkpoints.n is 1048577; 1 to 1048576 are allowed");
    REFUSED(on_delta, states(0, 1), "checkpoints.interval is 0; 1 to 2147483647 are allowed");
    REFUSED(on_delta, states(0, 0), "checkpoints.interval is 0; 1 to");
    REFUSED(on_delta, kept->size = sizeof *kept, "checkpoints.interval is 0; 1 to");
    REFUSED(on_delta, states(1, 128);
            (d->n_seqs = 1 << 24, d->n_snapshots = 1), "n_seqs * checkpoints.n is 2147483648");
    REFUSED(on_conv, histories(INT32_MIN, 2), "checkpoints.interval is -2147483648; 1 to 2147483647 are allowed");
    REFUSED(on_conv, histories(3, 0), "checkpoints.n is 0; 1 to 1048576 are allowed");
    REFUSED(on_conv, histories(3, -1), "checkpoints.n is -1; 1 to 1048576 are allowed");
    REFUSED(on_conv, histories(0, 0), "checkpoints.interval is 0; 1 to");
    REFUSED(on_conv, kept_rows->size = sizeof *kept_rows, "checkpoints.interval is 0; 1 to");
    REFUSED(on_conv, histories(1, 2); c->history.data = c->history_src.data = c->history_dst.data = NULL;
            c->history.n_rows = c->history.n_slots = 0, "checkpoints is given and history is absent", "must be NULL");
    REFUSED(on_conv, histories(1, 128); c->n_seqs = 1 << 24, "n_seqs * checkpoints.n is 2147483648");
}

static void operands(void)
{
    REFUSED(on_delta, states(1, 2); kept->dst.data = NULL, "checkpoints.dst.data is NULL; 16 bytes");
    REFUSED(on_delta, states(1, 2); kept->dst.bytes = 15, "checkpoints.dst.bytes is 15", "16 bytes");
    REFUSED(on_delta, states(1, 2); kept->dst.offset = 2, "checkpoints.dst begins at", "multiple of 4");
    REFUSED(on_delta, states(1, 2); d->position.bytes = 7, "position.bytes is 7", "8 bytes");
    REFUSED(on_delta, states(1, 2); d->position.data = delta_mem.out;
            d->position.bytes = 0, "out", "overlaps", "position");
    REFUSED(on_delta, states(1, 2); kept->dst.data = delta_mem.state;
            kept->dst.bytes = 0, "overlaps", "checkpoints.dst");
    REFUSED(on_conv, histories(1, 2); kept_rows->dst.data = NULL, "checkpoints.dst.data is NULL; 16 bytes");
    REFUSED(on_conv, histories(1, 2); kept_rows->dst.bytes = 12, "checkpoints.dst.bytes is 12");
    REFUSED(on_conv, histories(1, 2); kept_rows->dst.data = conv_mem.history;
            kept_rows->dst.bytes = 0, "overlaps", "checkpoints.dst");
}

static void entries(void)
{
    int32_t *const map = delta_mem.checkpoint, *const rows = conv_mem.checkpoint;
    REFUSED(on_delta, states(1, 2); map[1] = 6, "checkpoints.dst[0][1] is 6; 0 to 5 and GDN_NONE are allowed");
    REFUSED(on_delta, states(1, 2); map[2] = GDN_SKIP, "checkpoints.dst[1][0] is -2; 0 to 5");
    REFUSED(on_delta, states(1, 2); map[3] = 4, "checkpoints.dst[1][1] is 4, which ", "writes too");
    REFUSED(on_delta, states(1, 2); map[0] = 2, "is 2, which ", "writes too");
    REFUSED(on_delta, states(1, 2); map[2] = 2, "checkpoints.dst[1][0] is 2, which ", "writes too");
    REFUSED(on_delta, states(1, 2);
            MAP(map, 3, 5, 4, GDN_NONE), "state_src[1] is 3", "another sequence's", "checkpoints.dst[0][0] writes");
    REFUSED(on_delta, states(1, 2); delta_mem.position[1] = -1, "position[1] is -1; 0 to 2147483644", "3 tokens");
    REFUSED(on_delta, states(1, 2); delta_mem.position[0] = INT32_MAX - 1, "position[0] is 2147483646", "2 tokens");
    /* The default targets are all of the first two rows. */
    REFUSED(on_delta, states(1, 2); d->state_dst.data = NULL;
            MAP(map, 4, 1, 5, GDN_NONE), "is 1, which ", "writes too");
    REFUSED(on_delta, states(1, 2); d->state_src.data = d->state_dst.data = NULL;
            MAP(map, 4, 1, 5, GDN_NONE), "is 1, which ", "writes too");
    REFUSED(on_conv, histories(1, 2); rows[2] = 3, "checkpoints.dst[1][0] is 3; 0 to 2 and GDN_NONE");
    REFUSED(on_conv, histories(1, 2);
            rows[1] = 2, "checkpoints.dst[0][1] is 2, which", "checkpoints.dst[0][0] writes too");
    REFUSED(on_conv, histories(1, 2); rows[0] = 0, "is 0, which ", "writes too");
    REFUSED(on_conv, histories(1, 2);
            MAP(rows, 1, 2, GDN_NONE, GDN_NONE), "history_src[1] is 1", "checkpoints.dst[0][0] writes");
}

/* Which entries are used: position and interval say after which tokens, and what is not used is not looked at. */
static void used(void)
{
    const delta_memory *before = on_delta.before, *now = on_delta.first;
    const size_t slot = SLOT * 4;
    int32_t *const map = delta_mem.checkpoint;
    ACCEPTED(on_delta, states(1, 2));
    for (int i = 3; i < 6; i++) REQUIRE(memcmp(now->state + i * SLOT, before->state + i * SLOT, slot));
    /* Both tokens of the first sequence have a snapshot, too: the same, in another slot. */
    REQUIRE(!memcmp(now->state + 4 * SLOT, now->state, slot));
    REQUIRE(!memcmp(now->state + 5 * SLOT, now->state + SLOT, slot));
    /* Every 2 tokens: sequence 0 has 8 and then 9 tokens, sequence 1 has 1, 2 and 3. So the checkpoints are at 8 and
     * at 2. The older snapshot is the same state. */
    ACCEPTED(on_delta, states(2, 2); MAP(map, 4, 77, 5, INT32_MIN); delta_mem.state_dst[3] = 3);
    REQUIRE(!memcmp(now->state + 4 * SLOT, now->state, slot));
    REQUIRE(!memcmp(now->state + 5 * SLOT, now->state + 3 * SLOT, slot));
    /* None at all: not at 10 and not at 4. */
    ACCEPTED(on_delta, states(10, 2); MAP(map, 77, 77, 77, 77));
    REQUIRE(!memcmp(now->state + 4 * SLOT, before->state + 4 * SLOT, 2 * slot));
    ACCEPTED(on_delta, states(INT32_MAX, 1); delta_mem.position[0] = INT32_MAX - 2; MAP(map, 4, 77));
    REQUIRE(!memcmp(now->state + 4 * SLOT, now->state + SLOT, slot));
    /* Without positions all sequences begin at 0: the first comes to 2, the second too. */
    ACCEPTED(on_delta, states(2, 1); d->position.data = NULL; MAP(map, 4, 5));
    REQUIRE(!memcmp(now->state + 4 * SLOT, now->state + SLOT, slot));
    /* More of them than entries: the first ones are kept. */
    ACCEPTED(on_delta, states(1, 1); MAP(map, 4, 5));
    REQUIRE(!memcmp(now->state + 4 * SLOT, now->state, slot));
    REQUIRE(memcmp(now->state + 5 * SLOT, now->state + 2 * SLOT, slot));
    /* Padding, no tokens, and nothing to be kept. */
    ACCEPTED(on_delta, states(1, 2); delta_mem.state_src[0] = GDN_SKIP; MAP(map, 77, 77, 4, 5));
    ACCEPTED(on_delta, states(1, 2); MAP(delta_mem.seq_start, 2, 2, 5); MAP(map, 77, 77, 4, 5));
    ACCEPTED(on_delta, states(1, 2); MAP(map, -1, -1, -1, -1));
    SAME(on_delta, MAP(((delta_memory *)on_delta.first)->position, 0, 0);
         MAP(((delta_memory *)on_delta.first)->checkpoint, 0, 0, 0, 0));
    /* The slot that the sequence reads may take its checkpoint. */
    ACCEPTED(on_delta, states(1, 2); delta_mem.state_dst[0] = 4; MAP(map, 5, 1, 3, GDN_NONE);
             delta_mem.state_dst[1] = GDN_NONE; map[1] = 0);
    REQUIRE(!memcmp(now->state, now->state + 4 * SLOT, slot));
    /* A call without tokens does not check the map. */
    ACCEPTED(on_delta, states(1, 2); d->n_tokens = 0; d->seq_start.data = NULL; MAP(map, 77, 77, 77, 77));
    ACCEPTED(on_delta, states(1, 2); d->n_tokens = 0; d->seq_start.data = kept->dst.data = NULL);
}

static void used_of_histories(void)
{
    const conv_memory *before = on_conv.before, *now = on_conv.first;
    int32_t *const rows = conv_mem.checkpoint;
    /* Positions 7 and 1, of 5 columns: after 8 tokens row 2 gets the columns of positions 5, 6 and 7. */
    ACCEPTED(on_conv, histories(8, 2); MAP(rows, 2, 77, 77, 77));
    REQUIRE(!memcmp(now->history + 2 * ROW + 0 * COLUMN, before->history + 0 * COLUMN, COLUMN * 4)); /* 5 */
    REQUIRE(!memcmp(now->history + 2 * ROW + 1 * COLUMN, before->history + 1 * COLUMN, COLUMN * 4)); /* 6 */
    REQUIRE(!memcmp(now->history + 2 * ROW + 2 * COLUMN, before->x, COLUMN * 4));
    REQUIRE(!memcmp(now->history + 2 * ROW + 3 * COLUMN, before->history + 2 * ROW + 3 * COLUMN, 2 * COLUMN * 4));
    /* From position 1, after 2 tokens there are two columns, and no third. */
    ACCEPTED(on_conv, histories(2, 2); MAP(rows, GDN_NONE, 77, 2, GDN_NONE));
    REQUIRE(!memcmp(now->history + 2 * ROW, before->history + ROW, COLUMN * 4));
    REQUIRE(!memcmp(now->history + 2 * ROW + COLUMN, before->x + 2 * COLUMN, COLUMN * 4));
    REQUIRE(!memcmp(now->history + 2 * ROW + 2 * COLUMN, before->history + 2 * ROW + 2 * COLUMN, 3 * COLUMN * 4));
    /* Into the row that is read, where another is written. */
    ACCEPTED(on_conv, histories(1, 1); MAP(conv_mem.history_dst, 2, GDN_NONE); MAP(rows, 0, 1));
    ACCEPTED(on_conv, histories(1, 2); conv_mem.history_src[0] = GDN_SKIP; MAP(rows, 77, 77, 2, 1));
    ACCEPTED(on_conv, histories(1, 2); MAP(conv_mem.seq_start, 2, 2, 5); MAP(rows, 77, 77, 2, 1));
    ACCEPTED(on_conv, histories(1, 2); c->n_tokens = 0; c->seq_start.data = NULL; MAP(rows, 77, 77, 77, 77));
    /* A kernel of one tap has nothing to keep, but its map is judged. */
    ACCEPTED(on_conv, histories(1, 2); c->kernel_width = 1);
    REFUSED(on_conv, histories(1, 2); c->kernel_width = 1; rows[0] = 3, "checkpoints.dst[0][0] is 3");
}

void test_api_checkpoints(void)
{
    sizes();
    operands();
    entries();
    used();
    used_of_histories();
}
