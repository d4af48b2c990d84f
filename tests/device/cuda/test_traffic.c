/* How many bytes of the states and of the replay log calls of gated_delta_net move on CUDA, counted by the emulator: a
 * verification reads each state once and writes none without a commit, and one with it; it writes its tokens' columns
 * of the log once each and reads those that it repeats and no others. docs/reference/backends/cuda.md has the table.
 *
 * The states are pools with a row more than there are sequences, of which nothing may be touched. Counts would be right
 * as well where a kernel did nothing of use, so each result is compared with the reference's. */
#include <stdlib.h>
#include <string.h>

#include "tests/device/suite.h"
#include "tests/emulator/driver.h"

enum { N_SEQS = 2, HEADS_K = 2, HEADS_V = 4, MOST = 128, MOST_TOKENS = 8, COLUMNS = 12, SLOTS = 4 };

typedef struct call {
    const char *name;
    int32_t dim, tokens, replay; /* of each sequence */
    int commits, snapshots;      /* without a log: states that are written of each sequence */
    const int32_t *parent;
    int extra;    /* of a tree: how often a state is read again, by tokens that do not follow the one before */
    int followed; /* ... and tokens whose deltas these read */
} call;

/* A draft for each of two drafts' places besides: behind the root, behind the first draft. */
static const int32_t twigs[] = { GDN_NONE, 0, 1, 0, 1 };

static const call calls[] = {
    { .name = "verify 4, 4 snapshots, no log", .dim = 128, .tokens = 4, .snapshots = 4 },
    { .name = "verify 4", .dim = 128, .tokens = 4 },
    { .name = "replay 3, verify 4", .dim = 128, .tokens = 4, .replay = 3 },
    { .name = "replay 3, verify 4, commit", .dim = 128, .tokens = 4, .replay = 3, .commits = 1 },
    { .name = "replay 3, commit, no tokens", .dim = 128, .tokens = 0, .replay = 3, .commits = 1 },
    { .name = "heads of 64: replay 3, verify 4", .dim = 64, .tokens = 4, .replay = 3 },
    { .name = "heads of 64: the same, commit", .dim = 64, .tokens = 4, .replay = 3, .commits = 1 },
    { .name = "heads of 40: replay 3, verify 4", .dim = 40, .tokens = 4, .replay = 3 },
    { .name = "heads of 40: the same, commit", .dim = 40, .tokens = 4, .replay = 3, .commits = 1 },
    FIELDS(.name = "tree of 3 and 2 twigs, commit", .dim = 128, .tokens = 5, .commits = 1, .parent = twigs, .extra = 2,
           .followed = 2),
};

/* All operands, in one piece of memory here and one there. */
typedef struct operands {
    float q[N_SEQS * MOST_TOKENS * HEADS_K * MOST], k[N_SEQS * MOST_TOKENS * HEADS_K * MOST];
    float v[N_SEQS * MOST_TOKENS * HEADS_V * MOST], g[N_SEQS * MOST_TOKENS * HEADS_V],
        beta[N_SEQS * MOST_TOKENS * HEADS_V];
    float out[N_SEQS * MOST_TOKENS * HEADS_V * MOST];
    float log[N_SEQS * COLUMNS * (HEADS_K * MOST + HEADS_V * MOST + HEADS_V)];
    float state[(N_SEQS + 1) * SLOTS * HEADS_V * MOST * MOST];
    int32_t src[N_SEQS], dst[N_SEQS * SLOTS], start[N_SEQS + 1], position[N_SEQS], base_position[N_SEQS],
        commit[N_SEQS];
    int32_t parent[N_SEQS * MOST_TOKENS];
} operands;

static int64_t entry_of(const call *c) { return (int64_t)(HEADS_K + HEADS_V) * c->dim + HEADS_V; }
static int64_t state_of(const call *c) { return (int64_t)HEADS_V * c->dim * c->dim; }

static void fill(operands *o, const call *c)
{
    float *all = o->q;
    uint32_t seed = 1;
    for (size_t i = 0; i < offsetof(operands, src) / 4; i++, seed = seed * 1664525u + 1013904223u)
        all[i] = (float)(int32_t)seed * 0x1p-34f;
    for (int s = 0; s <= N_SEQS; s++) o->start[s] = s * c->tokens;
    for (int s = 0; s < N_SEQS; s++) {
        const int slots = c->snapshots ? SLOTS : 1;
        o->src[s] = s * slots;
        o->position[s] = 7 + s;
        o->base_position[s] = o->position[s] - c->replay;
        o->commit[s] = c->commits ? s : GDN_NONE;
        for (int r = 0; r < c->snapshots; r++) o->dst[s * c->snapshots + r] = s * slots + (r + 1) % SLOTS;
        for (int t = 0; c->parent && t < c->tokens; t++) o->parent[s * c->tokens + t] = c->parent[t];
    }
}

static gdn_span map(char *at, size_t offset, size_t n) { return (gdn_span){ at, offset, 4 * n }; }

static gdn_status run(gdn_context *ctx, char *at, const call *c, const gdn_span *workspace)
{
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    a.n_seqs = N_SEQS, a.n_tokens = N_SEQS * c->tokens, a.state.n_rows = N_SEQS + 1;
    a.scale = 0.125f;
    a.n_heads_k = HEADS_K, a.n_heads_v = HEADS_V, a.head_dim_k = a.head_dim_v = c->dim;
    void **const data[] = { &a.q.data, &a.k.data, &a.v.data, &a.g.data, &a.beta.data, &a.out.data, &a.state.data };
    static const size_t offsets[] = { offsetof(operands, q),    offsetof(operands, k),    offsetof(operands, v),
                                      offsetof(operands, g),    offsetof(operands, beta), offsetof(operands, out),
                                      offsetof(operands, state) };
    for (int i = 0; i < 7; i++) *data[i] = at + offsets[i];
    a.seq_start = map(at, offsetof(operands, start), N_SEQS + 1);
    a.state_src = map(at, offsetof(operands, src), N_SEQS);
    a.workspace = *workspace;
    if (c->snapshots) {
        a.state.n_slots = SLOTS, a.n_snapshots = c->snapshots;
        a.state_dst = map(at, offsetof(operands, dst), (size_t)(N_SEQS * c->snapshots));
        return gdn_gated_delta_net(ctx, &a, NULL);
    }
    gdn_replay_log log = GDN_INIT(gdn_replay_log);
    gdn_token_tree tree = GDN_INIT(gdn_token_tree);
    a.n_snapshots = 0, a.log = &log;
    log.entries.n_rows = N_SEQS, log.entries.n_slots = COLUMNS, log.entries.data = at + offsetof(operands, log);
    a.position = map(at, offsetof(operands, position), N_SEQS);
    log.base_position = map(at, offsetof(operands, base_position), N_SEQS);
    log.commit = map(at, offsetof(operands, commit), N_SEQS);
    if (c->parent) {
        a.tree = &tree;
        tree.parent = map(at, offsetof(operands, parent), (size_t)(N_SEQS * c->tokens));
    }
    return gdn_gated_delta_net(ctx, &a, NULL);
}

static unsigned long long bytes_of(int64_t floats) { return 4 * (unsigned long long)floats; }

static void count(const call *c)
{
    static operands here, there;
    gdn_context *ctx = suite_open(GDN_BACKEND_CUDA, NULL, 0), *reference = NULL;
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    const gdn_span none = { 0 };
    gdn_span memory = { 0 };
    simt_traffic state, log;
    REQUIRE(gdn_context_create(&desc, &reference) == GDN_OK);
    REQUIRE(gdn_buffer_create(ctx, sizeof here, &memory) == GDN_OK);
    fill(&here, c);
    REQUIRE(gdn_buffer_write(ctx, &memory, 0, &here, sizeof here) == GDN_OK);
    const simt_ptr at = (simt_ptr)(uintptr_t)memory.data;
    REQUIRE(simt_watch(0, at + offsetof(operands, state), sizeof here.state) == 0);
    REQUIRE(simt_watch(1, at + offsetof(operands, log), sizeof here.log) == 0);
    REQUIRE(run(ctx, memory.data, c, &none) == GDN_OK && gdn_synchronize(ctx, NULL) == GDN_OK);
    REQUIRE(!simt_traffic_of(0, &state) && !simt_traffic_of(1, &log));
    REQUIRE(simt_watch(0, 0, 0) == 0 && simt_watch(1, 0, 0) == 0);
    REQUIRE(gdn_buffer_read(ctx, &memory, 0, &there, sizeof there) == GDN_OK);
    REQUIRE(run(reference, (char *)&here, c, &none) == GDN_OK && !memcmp(&here, &there, sizeof here));

    const unsigned long long states = bytes_of(N_SEQS * state_of(c)), column = bytes_of(N_SEQS * entry_of(c));
    const unsigned writes = (unsigned)(c->snapshots ? c->snapshots : c->commits);
    REQUIRE(state.bytes_read == states && state.read == states * (1 + (unsigned)c->extra));
    REQUIRE(state.most_reads == 1 + (unsigned)c->extra);
    REQUIRE(state.written == states * writes && state.bytes_written == state.written &&
            state.most_writes == (writes > 0));
    const int logs = c->snapshots ? 0 : c->tokens;
    REQUIRE(log.written == column * (unsigned)logs && log.bytes_written == log.written &&
            log.most_writes == (logs > 0));
    REQUIRE(log.bytes_read ==
            column * (unsigned)c->replay + bytes_of((int64_t)N_SEQS * c->followed * HEADS_V * c->dim));
    printf("| %-31s | %6.2f | %6.2f | %6.2f | %6.2f |\n", c->name, (double)state.read / (double)states,
           (double)state.written / (double)states, (double)log.bytes_read / (double)column,
           (double)log.written / (double)column);
    gdn_buffer_destroy(ctx, &memory);
    gdn_context_destroy(ctx);
    gdn_context_destroy(reference);
}

/* Sequences of one token and of many in one call, the long one last in the batch: its blocks come first, because they
 * take longest; and each state is read once, by one form of the kernel, and written once. */
static void count_mixed(void)
{
    enum { MIXED_SEQS = 3, LONG = 12 };
    static const int32_t starts[] = { 0, 1, 2, 2 + LONG };
    static operands here, there;
    const call c = { .name = "mixed", .dim = MOST };
    const size_t state = 4 * (size_t)state_of(&c);
    simt_traffic traffic[MIXED_SEQS];
    gdn_context *ctx = suite_open(GDN_BACKEND_CUDA, NULL, 0), *reference = NULL;
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    gdn_span memory = { 0 };
    REQUIRE(gdn_context_create(&desc, &reference) == GDN_OK);
    REQUIRE(gdn_buffer_create(ctx, sizeof here, &memory) == GDN_OK);
    fill(&here, &c);
    memcpy(here.parent, starts, sizeof starts); /* a map that is long enough, and not used otherwise */
    REQUIRE(gdn_buffer_write(ctx, &memory, 0, &here, sizeof here) == GDN_OK);
    const simt_ptr at = (simt_ptr)(uintptr_t)memory.data + offsetof(operands, state);
    for (unsigned s = 0; s < MIXED_SEQS; s++) REQUIRE(simt_watch(s, at + s * state, state) == 0);
    /* A stage has room for more tokens than there are, and the key behind the last is loaded: nobody uses these. */
    REQUIRE(simt_control("unwritten", 1) == 0);
    for (int host = 0; host < 2; host++) {
        gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
        char *const base = host ? (char *)&here : memory.data;
        a.n_seqs = a.state.n_rows = MIXED_SEQS, a.n_tokens = starts[MIXED_SEQS];
        a.scale = 0.125f;
        a.n_heads_k = HEADS_K, a.n_heads_v = HEADS_V, a.head_dim_k = a.head_dim_v = MOST;
        a.q.data = base + offsetof(operands, q), a.k.data = base + offsetof(operands, k);
        a.v.data = base + offsetof(operands, v), a.g.data = base + offsetof(operands, g);
        a.beta.data = base + offsetof(operands, beta), a.out.data = base + offsetof(operands, out);
        a.state.data = base + offsetof(operands, state);
        a.seq_start = map(base, offsetof(operands, parent), MIXED_SEQS + 1);
        REQUIRE(gdn_gated_delta_net(host ? reference : ctx, &a, NULL) == GDN_OK);
    }
    REQUIRE(gdn_synchronize(ctx, NULL) == GDN_OK);
    for (unsigned s = 0; s < MIXED_SEQS; s++) {
        REQUIRE(!simt_traffic_of(s, &traffic[s]) && simt_watch(s, 0, 0) == 0);
        REQUIRE(traffic[s].read == state && traffic[s].bytes_read == state && traffic[s].written == state &&
                traffic[s].bytes_written == state);
    }
    REQUIRE(simt_control("unwritten", 0) == 0);
    REQUIRE(traffic[MIXED_SEQS - 1].first < traffic[0].first && traffic[0].first < traffic[1].first);
    REQUIRE(gdn_buffer_read(ctx, &memory, 0, &there, sizeof there) == GDN_OK && !memcmp(&here, &there, sizeof here));
    gdn_buffer_destroy(ctx, &memory);
    gdn_context_destroy(ctx);
    gdn_context_destroy(reference);
}

int main(void)
{
    count_mixed();
    printf("| %-31s | states read | written | columns read | written |\n", "of each sequence");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) count(&calls[i]);
    return test_summary();
}
