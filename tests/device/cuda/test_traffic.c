/* The emulator counts the bytes of states and of the replay log that calls of gated_delta_net move on CUDA. A
 * verification reads each state once. It writes one state with a commit and none without. It writes the log entry of
 * each token once, and reads only those that it replays. docs/reference/backends/cuda.md has the table.
 *
 * The states are pools with one row more than there are sequences; that row must stay as it is. Each result is compared
 * with the reference's, because counts alone would also fit wrong results. */
#include "tests/device/placed.h"
#include "tests/device/suite.h"
#include "tests/emulator/driver.h"

enum { N_SEQS = 2, HEADS_K = 2, HEADS_V = 4 };

static const struct call {
    const char *name;
    int dim, tokens, replayed; /* of each sequence */
    int writes;                /* states that are written of each sequence */
    int logs;                  /* 1: each token is written to the log */
    int extra;    /* of a tree: how often a state is read again, by tokens that do not follow the one before */
    int followed; /* ... and tokens whose deltas these read */
} calls[] = {
    { "verify 4, 4 snapshots, no log", 128, 4, 0, 4, 0, 0, 0 },
    { "verify 4", 128, 4, 0, 0, 1, 0, 0 },
    { "replay 3, verify 4", 128, 4, 3, 0, 1, 0, 0 },
    { "replay 3, verify 4, commit", 128, 4, 3, 1, 1, 0, 0 },
    { "replay 3, commit, no tokens", 128, 0, 3, 1, 1, 0, 0 },
    { "decode", 128, 1, 0, 1, 0, 0, 0 },
    { "replay 3, decode", 128, 1, 3, 0, 1, 0, 0 },
    { "replay 3, decode, commit", 128, 1, 3, 1, 1, 0, 0 },
    { "replay 17, decode", 128, 1, 17, 0, 1, 0, 0 },
    { "heads of 64: replay 3, verify 4", 64, 4, 3, 0, 1, 0, 0 },
    { "heads of 64: the same, commit", 64, 4, 3, 1, 1, 0, 0 },
    { "heads of 40: replay 3, verify 4", 40, 4, 3, 0, 1, 0, 0 },
    { "heads of 40: the same, commit", 40, 4, 3, 1, 1, 0, 0 },
    { "tree of 3 and 2 twigs, commit", 128, 5, 0, 1, 1, 2, 2 },
};

/* The state is written by a commit where there is a log, and by snapshots where there is none. */
static delta_spec spec_of(const struct call *c)
{
    static const int twigs[] = { GDN_NONE, 0, 1, 0, 1 }; /* two drafts, and a draft for each of their places besides */
    const int slots = c->logs ? 1 : c->writes;
    delta_spec d =
        DELTA(N_SEQS, c->tokens, .n_heads_k = HEADS_K, .n_heads_v = HEADS_V, .dim_k = c->dim, .dim_v = c->dim,
              .n_slots = slots, .n_slots_out = slots, .n_snapshots = c->logs ? 0 : slots, .n_rows = N_SEQS + 1,
              .n_rows_out = N_SEQS + 1, .map_start = 1, .map_src = 1, .values[DELTA_G] = CHECK_GATE_SLOW);
    for (int s = 0; s < N_SEQS; s++) {
        delta_seq *const seq = &d.seq[s];
        for (int r = 0; r < d.n_snapshots; r++) seq->dst[r] = slots * s + (r + 1) % slots;
        if (!c->logs) continue;
        seq->position = 18 + s;
        seq->n_replayed = c->replayed;
        seq->commit = c->writes ? s : GDN_NONE;
        if (c->extra) seq->parent = twigs;
    }
    if (!c->logs) d.map_dst = 1;
    else d.log_rows = N_SEQS, d.log_slots = 20, d.map_position = d.map_base_position = d.map_commit = 1;
    if (c->extra) d.tree = d.map_parent = 1;
    return d;
}

typedef struct both {
    gdn_context *ctx[2]; /* CUDA's, the reference */
    placed call[2];
} both;

static void open_both(both *b, const delta_spec *spec)
{
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    b->ctx[0] = suite_open(GDN_BACKEND_CUDA, NULL, 0);
    NEED(gdn_context_create(&desc, &b->ctx[1]) == GDN_OK);
    for (int i = 0; i < 2; i++)
        placed_open(&b->call[i], b->ctx[i], &check_kernel_gated_delta_net, &(check_spec){ .gated_delta_net = *spec });
}

static void run_both(both *b)
{
    for (int i = 0; i < 2; i++) REQUIRE(placed_run(&b->call[i], NULL) == GDN_OK);
    REQUIRE(gdn_synchronize(b->ctx[0], NULL) == GDN_OK);
}

static void close_both(both *b)
{
    REQUIRE(placed_same(&b->call[0], &b->call[1]));
    for (int i = 0; i < 2; i++) {
        placed_close(&b->call[i]);
        gdn_context_destroy(b->ctx[i]);
    }
}

static unsigned long long bytes_of(int64_t floats) { return 4 * (unsigned long long)floats; }

static void count(const struct call *c)
{
    static both b;
    simt_traffic state, log = { 0 };
    const delta_spec spec = spec_of(c);
    open_both(&b, &spec);
    const gdn_span states_at = placed_at(&b.call[0], "state");
    REQUIRE(simt_watch(0, (simt_ptr)(uintptr_t)states_at.data, states_at.bytes) == 0);
    if (c->logs) {
        const gdn_span log_at = placed_at(&b.call[0], "log.entries");
        REQUIRE(simt_watch(1, (simt_ptr)(uintptr_t)log_at.data, log_at.bytes) == 0);
    }
    run_both(&b);
    REQUIRE(!simt_traffic_of(0, &state) && (!c->logs || !simt_traffic_of(1, &log)));
    REQUIRE(simt_watch(0, 0, 0) == 0 && simt_watch(1, 0, 0) == 0);

    const unsigned long long states = bytes_of((int64_t)N_SEQS * HEADS_V * c->dim * c->dim);
    const unsigned long long entries = bytes_of(N_SEQS * ((int64_t)(HEADS_K + HEADS_V) * c->dim + HEADS_V));
    const unsigned reads = 1 + (unsigned)c->extra, logged = (unsigned)(c->logs * c->tokens);
    REQUIRE(state.bytes_read == states && state.read == states * reads && state.most_reads == reads);
    REQUIRE(state.written == states * (unsigned)c->writes && state.bytes_written == state.written &&
            state.most_writes == (c->writes > 0));
    REQUIRE(log.written == entries * logged && log.bytes_written == log.written && log.most_writes == (logged > 0));
    REQUIRE(log.bytes_read ==
            entries * (unsigned)c->replayed + bytes_of((int64_t)N_SEQS * c->followed * HEADS_V * c->dim));
    printf("| %-31s | %6.2f | %6.2f | %6.2f | %6.2f |\n", c->name, (double)state.read / (double)states,
           (double)state.written / (double)states, (double)log.bytes_read / (double)entries,
           (double)log.written / (double)entries);
    close_both(&b);
}

/* Sequences of one token and of many in one call, the long one last in the batch. Its blocks come first, because they
 * take longest. One variant of the kernel reads each state, once, and writes it once. */
static void count_mixed(void)
{
    enum { MIXED_SEQS = 3, MIXED_DIM = 128 };
    static both b;
    simt_traffic traffic[MIXED_SEQS];
    delta_spec spec = DELTA(MIXED_SEQS, 1, .n_heads_k = HEADS_K, .n_heads_v = HEADS_V, .dim_k = MIXED_DIM,
                            .dim_v = MIXED_DIM, .map_start = 1, .values[DELTA_G] = CHECK_GATE_SLOW);
    spec.seq[2].length = 12;
    open_both(&b, &spec);
    const size_t state = 4 * (size_t)HEADS_V * MIXED_DIM * MIXED_DIM;
    const simt_ptr at = (simt_ptr)(uintptr_t)placed_at(&b.call[0], "state").data;
    for (unsigned s = 0; s < MIXED_SEQS; s++) REQUIRE(simt_watch(s, at + s * state, state) == 0);
    /* A shared-memory stage has room for more tokens than there are, and the key behind the last is loaded. */
    REQUIRE(simt_control("unwritten", 1) == 0);
    run_both(&b);
    for (unsigned s = 0; s < MIXED_SEQS; s++) {
        REQUIRE(!simt_traffic_of(s, &traffic[s]) && simt_watch(s, 0, 0) == 0);
        REQUIRE(traffic[s].read == state && traffic[s].bytes_read == state && traffic[s].written == state &&
                traffic[s].bytes_written == state);
    }
    REQUIRE(simt_control("unwritten", 0) == 0);
    REQUIRE(traffic[MIXED_SEQS - 1].first < traffic[0].first && traffic[0].first < traffic[1].first);
    close_both(&b);
}

int main(void)
{
    count_mixed();
    printf("| %-31s | states read | written | entries read | written |\n", "of each sequence");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) count(&calls[i]);
    return test_summary();
}
