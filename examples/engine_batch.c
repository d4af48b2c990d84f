/* engine_batch.c - an engine's normal step, and what it does with whole sequences.
 *
 *   mixed   a prompt and a verification with a replay log share one call
 *   fork    a call without tokens writes the state of a sequence with a log to another slot
 *   move    the same call folds the log; a record of the state and the position goes to another context and pool
 *
 * Every output is compared with that of plain decoding, token by token. Exit status: 0 = the same bits. */
#include "verify.h"

#include <string.h>

enum {
    HEADS = 2,
    DIM = 32,
    PART = HEADS * DIM,
    STATE = HEADS * DIM * DIM,
    SLOTS = 6, /* of the log: 2 * (1 + 2 drafts) */
    ENTRY = 2 * PART + HEADS,
    ROWS = 4,
    LENGTH = 24,
    MAX_TOKENS = 32,
    A = 0, /* sequences, which are also their slots */
    B = 1,
    FORK = 2
};

static float q[MAX_TOKENS][PART], k[MAX_TOKENS][PART], v[MAX_TOKENS][PART], out[MAX_TOKENS][PART];
static float g[MAX_TOKENS][HEADS], beta[MAX_TOKENS][HEADS];
static float states[ROWS][STATE], elsewhere[ROWS][STATE], entries[1][SLOTS][ENTRY];
static float wanted[3][LENGTH][PART];
static gdn_context *ctx;
static gdn_span workspace;
static int differ;

/* Token i of the batch. The fork has the tokens of A before position 12; `wrong` makes a draft that will be rejected.
 */
static void put_token(int i, int seq, int position, uint32_t wrong)
{
    const uint32_t id = (uint32_t)((seq == FORK && position < 12 ? A : seq) * 1000 + position);
    for (uint32_t c = 0; c < PART; c++) {
        q[i][c] = number(id, c, wrong);
        k[i][c] = number(id, c, 2 + wrong);
        v[i][c] = number(id, c, 4 + wrong);
    }
    put_gates(g[i], beta[i], HEADS, id, wrong);
}

static gdn_gated_delta_net_args call(int n_seqs, const int32_t *start, float (*pool)[STATE])
{
    gdn_gated_delta_net_args a = heads_of(n_seqs, start, HEADS, DIM);
    a.q.data = q;
    a.k.data = k;
    a.v.data = v;
    a.g.data = g;
    a.beta.data = beta;
    a.out.data = out;
    a.state.data = pool;
    a.state.n_rows = ROWS;
    a.workspace = workspace;
    return a;
}

static void compare(const char *what, int i, int seq, int position)
{
    if (!memcmp(out[i], wanted[seq][position], sizeof out[i])) return;
    printf("%s: token %d of sequence %d differs\n", what, position, seq);
    differ = 1;
}

/* One token of one sequence without a log, in place. */
static void one(int seq, int position, int32_t slot, float (*pool)[STATE])
{
    int32_t start[2] = { 0, 1 }, src = position ? slot : GDN_NONE;
    gdn_gated_delta_net_args a = call(1, start, pool);
    put_token(0, seq, position, 0);
    a.state_src.data = &src;
    a.state_dst.data = &slot;
    must(gdn_gated_delta_net(ctx, &a, NULL), "one token");
}

/* Moves A, which has no log any more, to slot 1 of the other pool, of a context of the reference. Returns its position.
 */
static int32_t move(gdn_context **other)
{
    static unsigned char kept[sizeof states[0] + 4096];
    gdn_context_desc desc = GDN_INIT(gdn_context_desc);
    gdn_record_item item = GDN_RECORD_ITEM;
    gdn_record record = GDN_INIT(gdn_record);
    desc.backend = GDN_BACKEND_REFERENCE;
    must(gdn_context_create(&desc, other), "gdn_context_create");
    item.name = "state";
    item.memory.data = states[A];
    item.extent[4] = STATE;
    record.items = &item;
    record.n_items = 1;
    record.number[0] = 12;
    must(gdn_record_write(ctx, &record, kept, sizeof kept), "gdn_record_write");
    item.memory.data = elsewhere[1];
    record.number[0] = 0;
    must(gdn_record_read(*other, &record, kept, sizeof kept), "gdn_record_read");
    return (int32_t)record.number[0];
}

int main(void)
{
    gdn_context_desc desc = GDN_INIT(gdn_context_desc);
    must(gdn_context_create(&desc, &ctx), "gdn_context_create");
    must(gdn_buffer_create(ctx, 1 << 20, &workspace), "gdn_buffer_create");
    for (int seq = 0; seq < 3; seq++)
        for (int p = 0; p < LENGTH; p++) {
            one(seq, p, 3, elsewhere);
            memcpy(wanted[seq][p], out[0], sizeof out[0]);
        }
    for (int p = 0; p < 10; p++) one(A, p, A, states); /* A has 10 tokens */

    /* Mixed: A verifies two drafts, the second of which is wrong; B's prompt has 12 tokens. A has a row of the log and
     * writes no snapshot. B has no row, so its base position is its position, and it writes its state. */
    {
        int32_t start[3] = { 0, 3, 15 }, src[2] = { A, GDN_NONE }, dst[2] = { GDN_NONE, B };
        int32_t position[2] = { 10, 0 }, base[2] = { 10, 0 }, row[2] = { 0, GDN_NONE }, commit[2] = { A, GDN_NONE };
        gdn_replay_log log = GDN_INIT(gdn_replay_log);
        gdn_gated_delta_net_args a = call(2, start, states);
        for (int i = 0; i < 3; i++) put_token(i, A, 10 + i, i == 2);
        for (int i = 0; i < 12; i++) put_token(3 + i, B, i, 0);
        log.entries.data = entries;
        log.entries.n_rows = 1;
        log.entries.n_slots = SLOTS;
        log.row.data = row;
        log.base_position.data = base;
        log.commit.data = commit;
        a.log = &log;
        a.n_snapshots = 1;
        a.state_src.data = src;
        a.state_dst.data = dst;
        a.position.data = position;
        must(gdn_gated_delta_net(ctx, &a, NULL), "mixed");
        for (int i = 0; i < 2; i++) compare("mixed", i, A, 10 + i);
        for (int i = 0; i < 12; i++) compare("mixed", 3 + i, B, i);
    }

    /* Fork: A has 12 tokens, its state has seen 10 and the log has the others. A call without tokens replays them and
     * writes the state at the position to the slot of the fork; A is as before. */
    /* Move: the same to A's own slot folds the log. Then the slot alone is copied. */
    for (int slot = FORK;; slot = A) {
        int32_t start[2] = { 0, 0 }, src = A, position = 12, base = 10, row = 0, commit = slot;
        gdn_replay_log log = GDN_INIT(gdn_replay_log);
        gdn_gated_delta_net_args a = call(1, start, states);
        log.entries.data = entries;
        log.entries.n_rows = 1;
        log.entries.n_slots = SLOTS;
        log.row.data = &row;
        log.base_position.data = &base;
        log.commit.data = &commit;
        a.log = &log;
        a.n_snapshots = 0;
        a.state_src.data = &src;
        a.position.data = &position;
        must(gdn_gated_delta_net(ctx, &a, NULL), "a call without tokens");
        if (slot == A) break;
    }
    gdn_context *other = NULL;
    const int32_t position = move(&other);
    gdn_context *const ctxs[2] = { ctx, other };
    for (int p = position; p < LENGTH; p++) {
        one(FORK, p, FORK, states);
        compare("fork", 0, FORK, p);
        ctx = ctxs[1];
        one(A, p, 1, elsewhere);
        ctx = ctxs[0];
        compare("move", 0, A, p);
        one(B, p, B, states);
        compare("mixed", 0, B, p);
    }
    gdn_context_destroy(other);
    gdn_buffer_destroy(ctx, &workspace);
    gdn_context_destroy(ctx);
    puts(differ ? "different" : "a mixed batch, a fork and a move: the bits of plain decoding");
    return differ;
}
