/* Calls with a replay log: their arguments, what is refused, what is logged and what may be left out. gdn check has
 * what is repeated and committed. */
#include "test_api.h"

#include <string.h>

static gdn_gated_delta_net_args *const d = &delta_args.args;
static gdn_replay_log *const replay = &delta_args.log;

/* The valid call has sequences of 2 and 3 tokens, 2 key heads of 16, 4 value heads of 32. States are read in slots 0
 * and 3 and written to 1, 0 and 2. So 3 is left for the second sequence, and 4 and 5 are free. */
enum {
    SLOT = 4 * 32 * 16,
    DELTAS = 2 * 16,
    DECAYS = DELTAS + 4 * 32,
    ENTRY = API_LOG_ENTRY,
    COLUMNS = API_LOG_SLOTS,
    ROW = COLUMNS * ENTRY
};

/* Without a state that the tokens leave. */
static void only_logged(void)
{
    with_log();
    d->n_snapshots = 0;
    d->state_dst.data = NULL;
}

static void sizes(void)
{
    REFUSED(on_delta, with_log(); replay->entries.n_slots = -1, "log.entries.n_slots is -1; 1 to 1048576 are allowed");
    REFUSED(on_delta, with_log(); replay->entries.n_slots = 1048577, "log.entries.n_slots is 1048577; 1 to 1048576");
    REFUSED(on_delta, with_log(); replay->entries.n_rows = 0, "log.entries.n_rows is 0; 1 to 2147483647 are allowed");
    REFUSED(on_delta, with_log(); replay->entries.n_rows = -5, "log.entries.n_rows is -5; 1 to 2147483647 are allowed");
    REFUSED(on_delta, with_log(); replay->entries.n_slots = 0, "log.entries.n_slots is 0; 1 to 1048576 are allowed");
    REFUSED(on_delta, replay->size = sizeof *replay, "log.entries.n_slots is 0; 1 to");
    /* A call that has no use for positions does not read them. */
    ACCEPTED(on_delta, (void)0);
    static int32_t unread[] = { -1, INT32_MIN };
    SAME(on_delta, d->position = SPAN(unread));
    REFUSED(on_delta, with_log(); d->n_snapshots = 0, "n_snapshots is 0 and state_dst is given");
    REFUSED(on_delta, with_log(); d->n_snapshots = -1, "n_snapshots is -1; 0 to 1048576 are allowed");
    REFUSED(on_delta, with_log(); replay->row.data = NULL;
            replay->entries.n_rows = 1, "n_seqs (without log.row, up to log.entries.n_rows) is 2; 0 to 1");
}

static void operands(void)
{
    REFUSED(on_delta, with_log(); replay->entries.data = NULL, "log.entries.data is NULL");
    REFUSED(on_delta, with_log(); replay->entries.bytes -= 1, "log.entries.bytes is 11807", "11808 bytes");
    REFUSED(on_delta, with_log(); replay->entries.dtype = GDN_F16, "log.entries.dtype is 1");
    REFUSED(on_delta, with_log(); replay->entries.offset = 2, "log.entries begins at", "multiple of 4");
    REFUSED(on_delta, with_log();
            replay->entries.stride[1] = 4 * ENTRY - 4, "log.entries.stride[1] is 652", "at least 656 bytes");
    REFUSED(on_delta, with_log(); replay->entries.stride[2] = 4, "log.entries.stride[2] is 4");
    REFUSED(on_delta, with_log(); replay->entries.data = delta_mem.state;
            replay->entries.bytes = 0, "overlaps", "log.entries");
    REFUSED(on_delta, with_log(); replay->entries.data = delta_mem.out;
            replay->entries.bytes = 0, "overlaps", "log.entries");
    REFUSED(on_delta, with_log(); replay->entries.data = delta_mem.k;
            replay->entries.bytes = 0, "overlaps", "log.entries");
    REFUSED(on_delta, with_log(); replay->row.bytes = 7, "log.row.bytes is 7", "8 bytes");
    REFUSED(on_delta, with_log(); replay->base_position.offset = 1, "log.base_position begins at", "multiple of 4");
    REFUSED(on_delta, with_log(); replay->commit.data = delta_mem.log;
            replay->commit.bytes = 0, "overlaps", "log.commit");
}

static void entries(void)
{
    delta_memory *const m = &delta_mem;
    REFUSED(on_delta, with_log(); m->log_row[1] = 3, "log.row[1] is 3; 0 to 2 and GDN_NONE are allowed");
    REFUSED(on_delta, with_log(); m->log_row[0] = GDN_SKIP, "log.row[0] is -2; 0 to 2 and GDN_NONE");
    REFUSED(on_delta, with_log(); m->log_row[1] = 2, "log.row[1] is 2, which ", "writes too");
    REFUSED(on_delta, with_log();
            m->base_position[0] = 8, "log.base_position[0] is 8; 0 to 7 (the sequence's position)");
    REFUSED(on_delta, with_log(); m->base_position[1] = -1, "log.base_position[1] is -1; 0 to 4");
    REFUSED(on_delta, with_log(); m->base_position[0] = 2,
                                  "log.entries.n_slots is 6; sequence 0 has 2 tokens from position 7 "
                                  "on and the base position of its state is 2, for which at least 7 are needed");
    REFUSED(on_delta, with_log();
            MAP(m->log_row, GDN_NONE, 0), "log.base_position[0] is 4 and log.row[0] is GDN_NONE", "must be 7");
    REFUSED(on_delta, with_log(); m->commit[0] = 6, "log.commit[0] is 6; 0 to 5 and GDN_NONE are allowed");
    REFUSED(on_delta, with_log(); m->commit[0] = 2, "is 2, which ", "writes too");
    REFUSED(on_delta, with_log(); MAP(m->commit, 5, 5), "log.commit[1] is 5, which log.commit[0] writes too");
    REFUSED(on_delta, with_log();
            MAP(m->commit, 3, 4), "state_src[1] is 3, which another sequence's", "log.commit[0] writes");
    /* A sequence without tokens reads where it has something to commit, and only then. */
    REFUSED(on_delta, only_logged(); MAP(m->seq_start, 0, 0, 5);
            MAP(m->commit, 5, 0), "state_src[0] is 0, which another sequence's");
    ACCEPTED(on_delta, only_logged(); MAP(m->seq_start, 0, 0, 5); MAP(m->commit, GDN_NONE, 0); m->base_position[1] = 3);
    REFUSED(on_delta, with_log(); m->position[0] = INT32_MAX - 1;
            m->base_position[0] = INT32_MAX - 1, "position[0] is 2147483646", "2 tokens");
    /* Of padding the row and the place of the state are judged, and nothing else. */
    REFUSED(on_delta, with_log(); m->state_src[0] = GDN_SKIP; m->log_row[0] = 3, "log.row[0] is 3");
    REFUSED(on_delta, with_log(); m->state_src[0] = GDN_SKIP; m->base_position[0] = 8, "log.base_position[0] is 8");
    ACCEPTED(on_delta, with_log(); m->state_src[0] = GDN_SKIP; m->log_row[0] = 0; m->base_position[0] = 0;
             m->commit[0] = 77);
}

/* An entry holds the token's own numbers. From a state of zeros, with decay and beta as they are, these are k, beta * v
 * and g: operands and products of them. */
static void contents(void)
{
    const delta_memory *now = on_delta.first;
    for (int tiled = 0; tiled < 2; tiled++) {
        ACCEPTED(on_delta, only_logged(); inputs()->gate_input = GDN_G_LINEAR; d->head_map = tiled;
                 MAP(delta_mem.state_src, GDN_NONE, GDN_NONE); MAP(delta_mem.base_position, 7, 4));
        for (int s = 0; s < 2; s++) {
            const float *entry = now->log + (s ? 0 : 2) * ROW + (s ? 4 : 7) % COLUMNS * ENTRY;
            const int token = s ? 2 : 0;
            REQUIRE(!memcmp(entry, now->k + token * DELTAS, 4 * DELTAS));
            REQUIRE(!memcmp(entry + DECAYS, now->g + token * 4, 4 * 4));
            for (int h = 0; h < 4; h++)
                for (int j = 0; j < 32; j++) {
                    const float delta = now->beta[token * 4 + h] * now->v[(token * 4 + h) * 32 + j];
                    REQUIRE(!memcmp(entry + DELTAS + h * 32 + j, &delta, 4));
                }
        }
    }
}

/* Without tokens: the commits, for which token operands may be absent; and no commit, which writes nothing. */
static void commits_alone(void)
{
    const delta_memory *before = on_delta.before, *now = on_delta.first;
    ACCEPTED(on_delta, only_logged(); d->n_tokens = 0; MAP(delta_mem.seq_start, 0, 0, 0));
    REQUIRE(!memcmp(now->log, before->log, sizeof now->log));
    SAME(on_delta, only_logged(); d->n_tokens = 0; d->seq_start.data = NULL;
         d->q.data = d->k.data = d->v.data = d->g.data = d->beta.data = d->out.data = NULL;
         MAP(((delta_memory *)on_delta.first)->seq_start, 0, 2, 5));
    SAME(on_delta, only_logged(); d->n_tokens = 0; d->seq_start.data = NULL; inputs()->gate_input = GDN_G_RAW);
    ACCEPTED(on_delta, only_logged(); d->n_tokens = 0; d->seq_start.data = NULL; replay->commit.data = NULL);
    REQUIRE(!memcmp(now->state, before->state, sizeof now->state));
}

/* What may be left out, and where that says the same. */
static void defaults(void)
{
    delta_memory *const first = on_delta.first;
    const delta_memory *before = on_delta.before;
    ACCEPTED(on_delta, only_logged(); MAP(delta_mem.base_position, 7, 4); MAP(delta_mem.commit, -1, -1));
    REQUIRE(!memcmp(first->state, before->state, sizeof first->state));
    SAME(on_delta, only_logged(); replay->base_position.data = replay->commit.data = NULL;
         MAP(first->base_position, 4, 2); MAP(first->commit, 4, 3));
    ACCEPTED(on_delta, only_logged(); MAP(delta_mem.log_row, 0, 1));
    SAME(on_delta, only_logged(); replay->row.data = NULL; MAP(first->log_row, 2, 0));
    ACCEPTED(on_delta, only_logged(); MAP(delta_mem.position, 0, 0); MAP(delta_mem.base_position, 0, 0));
    SAME(on_delta, only_logged(); d->position.data = replay->base_position.data = NULL; MAP(first->position, 7, 4);
         MAP(first->base_position, 4, 2));
    /* A sequence without a row: as without a log. */
    ACCEPTED(on_delta, only_logged(); MAP(delta_mem.log_row, GDN_NONE, 1); MAP(delta_mem.base_position, 7, 2));
    REQUIRE(!memcmp(first->state + 4 * SLOT, before->state, SLOT * 4) && !memcmp(first->log, before->log, 4 * ROW));
    REQUIRE(!memcmp(first->log + 2 * ROW, before->log + 2 * ROW, 4 * ROW));
}

void test_api_logs(void)
{
    sizes();
    operands();
    entries();
    contents();
    commits_alone();
    defaults();
}
