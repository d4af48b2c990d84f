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

#define SIZES                                                                                                          \
    " n_heads_k=2 n_heads_v=4 n_seqs=2 n_rows=n_rows_out=3 map_start=map_src=1 values_g=gate_slow "                    \
    "n_slots=n_slots_out="
#define DIM(n)       " dim_k=dim_v=" #n
#define SNAPSHOTS(n) SIZES #n " n_snapshots=" #n " map_dst=1 length=4 src=" #n "*s dst=" #n "*s+(i+1)%" #n
#define LOG                                                                                                            \
    SIZES "1 n_snapshots=0 src=s log_rows=2 log_slots=12 map_position=map_base_position=map_commit=1 position=7+s "    \
          "commit=none length=4 "
#define REPLAY    LOG "n_replayed=3 "
#define AS_COMMIT "commit=s "
/* A draft for each of two drafts' places besides: behind the root, behind the first draft. */
#define TWIGS "length=5 tree=map_parent=1 parent=i?i%2?0:1:none "

static const struct call {
    const char *name, *text;
    int dim, tokens, replayed; /* of each sequence */
    int writes;                /* states that are written of each sequence */
    int logs;                  /* 1: each token is written to the log */
    int extra;    /* of a tree: how often a state is read again, by tokens that do not follow the one before */
    int followed; /* ... and tokens whose deltas these read */
} calls[] = {
    { "verify 4, 4 snapshots, no log", "c" DIM(128) SNAPSHOTS(4), 128, 4, 0, 4, 0, 0, 0 },
    { "verify 4", "c" DIM(128) LOG, 128, 4, 0, 0, 1, 0, 0 },
    { "replay 3, verify 4", "c" DIM(128) REPLAY, 128, 4, 3, 0, 1, 0, 0 },
    { "replay 3, verify 4, commit", "c" DIM(128) REPLAY AS_COMMIT, 128, 4, 3, 1, 1, 0, 0 },
    { "replay 3, commit, no tokens", "c" DIM(128) REPLAY AS_COMMIT "length=0", 128, 0, 3, 1, 1, 0, 0 },
    { "heads of 64: replay 3, verify 4", "c" DIM(64) REPLAY, 64, 4, 3, 0, 1, 0, 0 },
    { "heads of 64: the same, commit", "c" DIM(64) REPLAY AS_COMMIT, 64, 4, 3, 1, 1, 0, 0 },
    { "heads of 40: replay 3, verify 4", "c" DIM(40) REPLAY, 40, 4, 3, 0, 1, 0, 0 },
    { "heads of 40: the same, commit", "c" DIM(40) REPLAY AS_COMMIT, 40, 4, 3, 1, 1, 0, 0 },
    { "tree of 3 and 2 twigs, commit", "c" DIM(128) LOG AS_COMMIT TWIGS, 128, 5, 0, 1, 1, 2, 2 },
};

typedef struct both {
    gdn_context *ctx[2]; /* CUDA's, the reference */
    placed call[2];
} both;

static void open_both(both *b, const char *text)
{
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    b->ctx[0] = suite_open(GDN_BACKEND_CUDA, NULL, 0);
    NEED(gdn_context_create(&desc, &b->ctx[1]) == GDN_OK);
    for (int i = 0; i < 2; i++) placed_open(&b->call[i], b->ctx[i], &check_suite_gated_delta_net, text);
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
    open_both(&b, c->text);
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
    open_both(&b,
              "mixed n_heads_k=2 n_heads_v=4 dim_k=dim_v=128 n_seqs=3 length=1,1,12 map_start=1 values_g=gate_slow");
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
