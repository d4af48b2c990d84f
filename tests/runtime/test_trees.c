/* Trees of drafts on one engine with several sequences: thousands of rows, of random trees, of chains and of prompts in
 * the same batches, in any order; the branch that is taken is any, or none. Between them sequences are copied, removed,
 * saved, loaded and drafted for, begin from prefixes, and a device fails while a branch is taken.
 *
 * The truth is each sequence's list of tokens. Another engine replays the list of each row's branch from nothing, and
 * every row of logits must have the same bits; so must drafts, which need the hidden rows of the branch. After each
 * operation the memory's books are audited, and all that nobody needs is overwritten.
 *
 *   test_trees FOLDER [OPERATIONS [SEED]]
 *
 * Linked with --wrap=gdn_set_rows, which fails on request. */
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"
#include "memory_audit.h"
#include "runtime/memory/memory_internal.h"

enum { N_SEQS = 4, R = 8, MAX_LENGTH = 44, N_CELLS = 140, MOST = 16, MAX_ROWS = N_SEQS * MOST, N_DRAFTS = 3 };

static int fail_in = -1; /* calls of set_rows until one fails; -1: never */
static int64_t n_calls;  /* of set_rows */
gdn_status __real_gdn_set_rows(gdn_context *ctx, const gdn_set_rows_args *args, gdn_stream stream);
gdn_status __wrap_gdn_set_rows(gdn_context *ctx, const gdn_set_rows_args *args, gdn_stream stream);
gdn_status __wrap_gdn_set_rows(gdn_context *ctx, const gdn_set_rows_args *args, gdn_stream stream)
{
    n_calls++;
    if (fail_in >= 0 && fail_in-- == 0) return GDN_DEVICE_LOST;
    return __real_gdn_set_rows(ctx, args, stream);
}

typedef struct list {
    int32_t token[MAX_LENGTH], n;
} list;

typedef struct world {
    const rt_model *model;
    rt_engine *e, *truth;
    rt_memory *m;
    list seq[N_SEQS];
    uint64_t random;
    int32_t n_prefixes;
    int64_t rows, branches, chains, gone, lost, drafts, loads, started, mixed;
} world;

static int32_t below(world *w, int32_t n) { return (int32_t)(test_random(&w->random) % (uint64_t)n); }

/* What one sequence gets in a batch. */
typedef struct growth {
    int32_t n, token[MOST], parent[MOST], tree;
} growth;

static void grow(world *w, const list *at, growth *g)
{
    const int32_t room = MAX_LENGTH - at->n, what = below(w, 8);
    const int32_t few = what < 5 ? 1 + below(w, R) : what < 6 ? 1 : 1 + below(w, MOST);
    g->n = few < room ? few : room;
    g->tree = 0;
    for (int32_t t = 0; t < g->n; t++) {
        g->token[t] = below(w, w->n_prefixes ? 3 : w->model->hp.n_vocab);
        g->parent[t] = t - 1;
        if (what < 5 && t && below(w, 2)) g->parent[t] = below(w, t);
        g->tree |= g->parent[t] != t - 1;
    }
}

/* The list that ends with a row. */
static list path_of(const list *at, const growth *g, int32_t row)
{
    list path = *at;
    int32_t depth = 0;
    for (int32_t t = row; t >= 0; t = g->parent[t]) depth++;
    path.n += depth;
    for (int32_t t = row, i = path.n; t >= 0; t = g->parent[t]) path.token[--i] = g->token[t];
    return path;
}

/* The row's logits are those of its branch alone. */
static void compare(world *w, const list *path, int32_t row)
{
    int32_t seq[MAX_LENGTH] = { 0 };
    const rt_batch batch = { .n_rows = path->n, .token = path->token, .seq = seq };
    NEED(!rt_seq_rm(rt_engine_memory(w->truth), 0, 0, -1) && !rt_decode(w->truth, &batch));
    const float *a = rt_logits(w->e, row), *b = rt_logits(w->truth, path->n - 1);
    REQUIRE(a && b && !memcmp(a, b, 4 * (size_t)w->model->hp.n_vocab));
    w->rows++;
}

static int same(const world *w, int32_t s)
{
    return rt_seq_length(w->m, s) == w->seq[s].n &&
           (!w->seq[s].n || rt_seq_position(w->m, s, w->seq[s].n) == w->seq[s].n);
}

/* After a step: which branch the sequence goes on with. */
static void choose(world *w, int32_t s, const growth *g)
{
    const list before = w->seq[s];
    const int32_t chain = rt_tree_chain(g->parent, g->n), row = below(w, g->n);
    w->seq[s] = path_of(&before, g, chain - 1);
    REQUIRE(same(w, s));
    const int32_t what = below(w, 12), other = (s + 1) % N_SEQS;
    if (!g->tree) {
        REQUIRE(rt_seq_branch(w->m, s, g->n - 1) == GDN_INVALID_ARGUMENT &&
                same(w, s)); /* there is no unlinked branch */
        return;
    }
    if (what == 0) { /* shared, reserved, or shorter: what lay aside is gone */
        const int32_t how = below(w, 3);
        if (how == 0 && w->seq[other].n == rt_seq_length(w->m, other)) {
            REQUIRE(!rt_seq_cp(w->m, s, other));
            w->seq[other] = w->seq[s];
        } else if (how == 0) {
            REQUIRE(!rt_seq_rm(w->m, s, w->seq[s].n, -1));
        } else if (how == 1) {
            REQUIRE(!rt_draft_reserve(w->m, s, g->n - chain, NULL));
        } else {
            REQUIRE(!rt_seq_rm(w->m, s, w->seq[s].n, -1) && rt_draft_reserved(w->m, s) == 0);
        }
        REQUIRE(rt_seq_branch(w->m, s, row) == GDN_INVALID_ARGUMENT && same(w, s));
        w->gone++;
        return;
    }
    if (what == 1) { /* the device fails on the way: the state is known to be lost, if anything had to be moved */
        fail_in = below(w, 2 * w->model->n_recurrent);
        const gdn_status status = rt_seq_branch(w->m, s, row);
        fail_in = -1;
        if (status) {
            const rt_batch more = { .n_rows = 1, .token = (int32_t[]){ 0 }, .seq = (int32_t[]){ s } };
            REQUIRE(status == GDN_DEVICE_LOST && rt_seq_min_length(w->m, s) > rt_seq_length(w->m, s));
            REQUIRE(rt_decode(w->e, &more) == GDN_INVALID_ARGUMENT && !rt_seq_rm(w->m, s, 0, -1));
            w->seq[s].n = 0;
            w->lost++;
            return;
        }
    } else if (what == 2) { /* as with drafts that are a chain */
        const int32_t keep = 1 + below(w, chain);
        REQUIRE(!rt_seq_rm(w->m, s, before.n + keep, -1));
        w->seq[s].n = before.n + keep;
        w->chains++;
        REQUIRE(same(w, s) && rt_draft_reserved(w->m, s) == 0);
        return;
    } else {
        REQUIRE(rt_seq_branch(w->m, s, g->n) == GDN_INVALID_ARGUMENT && rt_seq_branch(w->m, s, -1) != GDN_OK);
        REQUIRE(!rt_seq_branch(w->m, s, row));
    }
    w->seq[s] = path_of(&before, g, row);
    w->branches++;
    REQUIRE(same(w, s) && rt_draft_reserved(w->m, s) == 0 && rt_seq_branch(w->m, s, 0) == GDN_INVALID_ARGUMENT);
}

static void step(world *w)
{
    static growth g[N_SEQS];
    int32_t token[MAX_ROWS], seq[MAX_ROWS], parent[MAX_ROWS], of[MAX_ROWS], done[N_SEQS] = { 0 }, n = 0;
    int trees = 0, prompts = 0;
    uint8_t all[MAX_ROWS];
    memset(all, 1, sizeof all);
    for (int32_t s = 0; s < N_SEQS; s++) {
        g[s].n = 0;
        if (below(w, 4)) grow(w, &w->seq[s], &g[s]);
        trees += g[s].tree && g[s].n;
        prompts += g[s].n > R;
    }
    for (int32_t left = 1; left;) { /* rows of all sequences, in any order */
        left = 0;
        for (int32_t s = 0; s < N_SEQS; s++) {
            if (done[s] == g[s].n) continue;
            left = 1;
            if (below(w, 2)) continue;
            of[n] = done[s]++;
            seq[n] = s;
            token[n] = g[s].token[of[n]];
            parent[n] = of[n] ? g[s].parent[of[n]] : GDN_NONE;
            n++;
        }
    }
    if (!n) return;
    rt_batch batch = { .n_rows = n, .token = token, .seq = seq, .logits = all, .parent = parent };
    if (below(w, 6) == 0) { /* refused, with nothing changed */
        const int32_t i = below(w, n), was = parent[i];
        parent[i] = of[i] ? (below(w, 2) ? of[i] : GDN_NONE) : 0;
        REQUIRE(rt_decode(w->e, &batch) == GDN_INVALID_ARGUMENT);
        parent[i] = was;
        for (int32_t s = 0; s < N_SEQS; s++) REQUIRE(same(w, s));
    }
    const gdn_status status = rt_decode(w->e, &batch);
    if (status) {
        REQUIRE(status == GDN_OUT_OF_MEMORY && n > rt_memory_free_cells(w->m));
        return;
    }
    w->mixed += trees && prompts;
    for (int32_t i = 0; i < n; i++) {
        const list path = path_of(&w->seq[seq[i]], &g[seq[i]], of[i]);
        if (below(w, 3) == 0 || g[seq[i]].tree) compare(w, &path, i);
    }
    for (int32_t s = 0; s < N_SEQS; s++)
        if (g[s].n) choose(w, s, &g[s]);
}

static void drop_or_copy(world *w)
{
    const int32_t a = below(w, N_SEQS), b = below(w, N_SEQS);
    if (below(w, 3)) {
        REQUIRE(!rt_seq_cp(w->m, a, b));
        w->seq[b] = w->seq[a];
    } else {
        REQUIRE(!rt_seq_rm(w->m, a, 0, -1));
        w->seq[a].n = 0;
    }
}

static void save_and_load(world *w)
{
    const int32_t a = below(w, N_SEQS), b = below(w, N_SEQS);
    const uint64_t n = rt_memory_save_size(w->m, a);
    void *bytes = malloc(n ? n : 1);
    NEED(bytes && !rt_memory_save(w->m, a, bytes, n));
    const gdn_status status = rt_memory_load(w->m, b, bytes, n);
    REQUIRE(!status || status == GDN_OUT_OF_MEMORY);
    if (!status) w->seq[b] = w->seq[a];
    w->loads += !status;
    free(bytes);
}

static void start(world *w)
{
    const int32_t s = below(w, N_SEQS), from = below(w, N_SEQS);
    int32_t length = 0;
    const list with = w->seq[from];
    REQUIRE(!rt_seq_rm(w->m, s, 0, -1) && !rt_prefix_start(w->m, s, with.token, with.n, &length));
    w->seq[s] = with;
    w->seq[s].n = length;
    w->started += length;
}

/* Drafts are those of a head that has read the sequence without trees, where it has read all of it. */
static void draft(world *w)
{
    const int32_t s = below(w, N_SEQS);
    const list *l = &w->seq[s];
    const rt_draft_request ask = { s, below(w, w->model->hp.n_vocab), N_DRAFTS }, alone = { 0, ask.token, N_DRAFTS };
    int32_t got[N_DRAFTS], second[N_DRAFTS], n, wanted[N_DRAFTS], n_wanted, seq[MAX_LENGTH] = { 0 };
    if (!l->n || l->n > MAX_LENGTH - N_DRAFTS - 1) return;
    NEED(!rt_draft_mtp_two(w->e, &ask, 1, N_DRAFTS, 0, got, second, &n));
    if (!n || rt_draft_from(w->m, s) > 0) return;
    const rt_batch batch = { .n_rows = l->n, .token = l->token, .seq = seq };
    NEED(!rt_seq_rm(rt_engine_memory(w->truth), 0, 0, -1) && !rt_decode(w->truth, &batch));
    NEED(!rt_draft_mtp(w->truth, &alone, 1, N_DRAFTS, 0, wanted, &n_wanted));
    REQUIRE(n == n_wanted && !memcmp(got, wanted, 4 * (size_t)n));
    for (int32_t i = 0; i < n; i++) REQUIRE(second[i] >= 0 && second[i] != got[i]);
    w->drafts++;
}

static void open_engines(world *w, int32_t k)
{
    static const int32_t types[] = { GDN_F32, GDN_F16, GDN_BF16 };
    fixture_engine with =
        FIELDS(.n_seqs = N_SEQS, .n_ctx = MAX_LENGTH + MOST, .n_cells = N_CELLS,
               .n_batch = (int32_t[]){ 64, 11, 23 }[k % 3], .n_threads = 1 + k % 2, .n_rollback = R,
               .draft = w->model->hp.n_mtp, .kv_type = types[k % 3], .n_prefixes = k % 2 ? 8 : 0, .prefix_interval = 3,
               .rollback = RT_ROLLBACK_LOG, .backend = k % 4 == 3 ? GDN_BACKEND_REFERENCE : GDN_BACKEND_CPU,
               .commit_after = (int32_t[]){ 0, 1, 6 }[k % 3]);
    rt_engine_destroy(w->e);
    rt_engine_destroy(w->truth);
    w->e = fixture_open(w->model, &with);
    w->m = rt_engine_memory(w->e);
    w->n_prefixes = with.n_prefixes;
    memset(w->seq, 0, sizeof w->seq);
    with = (fixture_engine)FIELDS(.n_ctx = MAX_LENGTH + MOST, .n_batch = 64, .n_rollback = N_DRAFTS,
                                  .draft = w->model->hp.n_mtp, .kv_type = types[k % 3]);
    w->truth = fixture_open(w->model, &with);
}

/* What cannot be is refused by name. */
static void refusals(const rt_model *model)
{
    const int32_t token[4] = { 1, 2, 3, 4 }, seq[4] = { 0 }, parent[4] = { GDN_NONE, 0, 0, 1 };
    const rt_batch batch = { .n_rows = 4, .token = token, .seq = seq, .parent = parent };
    rt_engine *e = fixture_open(model, &(fixture_engine){ .n_batch = 16, .n_rollback = 4 });
    FAILS(rt_decode(e, &batch), GDN_UNSUPPORTED, "log");
    REQUIRE(!rt_engine_limits_of(e).n_tree && rt_seq_length(rt_engine_memory(e), 0) == 0);
    rt_engine_destroy(e);
    e = fixture_open(model, &(fixture_engine){ .n_batch = 16, .n_rollback = 3, .rollback = RT_ROLLBACK_LOG });
    FAILS(rt_decode(e, &batch), GDN_INVALID_ARGUMENT, "4 rows");
    REQUIRE(rt_engine_limits_of(e).n_tree == 3 && rt_seq_length(rt_engine_memory(e), 0) == 0);
    const rt_engine_limits limits = { .draft = 1, .n_rollback = 4, .n_tree = 4 },
                           snapshots = { .draft = 1, .n_rollback = 4 };
    REQUIRE(!rt_tree_check(&limits, RT_SPEC_MTP, 2, 1) && !rt_tree_check(&snapshots, RT_SPEC_MTP, 4, 0));
    REQUIRE(rt_tree_check(&limits, RT_SPEC_MTP, 2, 2) == GDN_INVALID_ARGUMENT);
    REQUIRE(rt_tree_check(&limits, RT_SPEC_MTP, 1, 2) == GDN_INVALID_ARGUMENT);
    REQUIRE(rt_tree_check(&limits, RT_SPEC_NGRAM, 2, 1) == GDN_UNSUPPORTED);
    REQUIRE(rt_tree_check(&snapshots, RT_SPEC_MTP, 2, 1) == GDN_UNSUPPORTED);
    rt_engine_destroy(e);
}

/* A branch of four tokens behind a chain of six takes one call for each layer and pool, however its rows lie; one that
 * lies where it is to go takes as many as keep a call from writing what it reads. */
static void calls(const rt_model *model)
{
    enum { ROWS = 10 };
    static const struct {
        int32_t parent[ROWS], row, n_calls;
    } cases[] = { { { GDN_NONE, 0, 1, 2, 3, 4, 1, 6, 7, 8 }, 9, 1 },   /* 6 7 8 9 to 2 3 4 5 */
                  { { GDN_NONE, 0, 1, 2, 3, 4, 0, 1, 7, 7 }, 9, 1 },   /* 7 9 to 2 3: a row between is skipped */
                  { { GDN_NONE, 0, 1, 2, 3, 4, 0, 1, 7, 7 }, 6, 1 },   /* 6 to 1 */
                  { { GDN_NONE, 0, 0, 2, 3, 4, 5, 6, 7, 8 }, 9, 8 } }; /* 2 .. 9 to 1 .. 8 */
    const int32_t token[ROWS] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, seq[ROWS] = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rt_engine *e =
            fixture_open(model, &(fixture_engine){ .n_batch = 16, .n_rollback = ROWS, .rollback = RT_ROLLBACK_LOG });
        const rt_batch batch = { .n_rows = ROWS, .token = token, .seq = seq, .parent = cases[i].parent };
        NEED(!rt_decode(e, &batch));
        n_calls = 0;
        REQUIRE(!rt_seq_branch(rt_engine_memory(e), 0, cases[i].row));
        if (n_calls != 2 * (int64_t)cases[i].n_calls * model->n_recurrent)
            printf("case %d: %lld calls of set_rows for %d layers\n", (int)i, (long long)n_calls,
                   (int)model->n_recurrent);
        REQUIRE(n_calls == 2 * (int64_t)cases[i].n_calls * model->n_recurrent);
        rt_engine_destroy(e);
    }
}

static void drive(const rt_model *model, const char *name, int32_t n_operations, uint64_t seed)
{
    world w = { .model = model, .random = seed };
    for (int32_t i = 0; i < n_operations && !test_failed; i++) {
        if (i % 40 == 0) open_engines(&w, i / 40);
        const int32_t what = below(&w, 16);
        if (what < 9) step(&w);
        else if (what < 11) drop_or_copy(&w);
        else if (what < 12) save_and_load(&w);
        else if (what < 14) start(&w);
        else if (model->hp.n_mtp) draft(&w);
        memory_audit(w.m);
        if (test_failed) printf("%s: operation %d of seed %llu\n", name, (int)i, (unsigned long long)seed);
    }
    printf("%-24s %d operations: %lld rows compared, %lld branches taken, %lld of them not, %lld gone, %lld lost, %lld "
           "mixed with prompts, %lld drafts, %lld loads, %lld tokens started with\n",
           name, (int)n_operations, (long long)w.rows, (long long)w.branches, (long long)w.chains, (long long)w.gone,
           (long long)w.lost, (long long)w.mixed, (long long)w.drafts, (long long)w.loads, (long long)w.started);
    REQUIRE(w.rows && w.branches && w.chains && w.gone && w.lost && w.mixed && w.loads && w.started &&
            (w.drafts || !model->hp.n_mtp)); /* or it tested less than it says */
    rt_engine_destroy(w.e);
    rt_engine_destroy(w.truth);
}

int main(int argc, char **argv)
{
    NEED(argc >= 2);
    for (int i = 0; i < FIXTURE_TINY; i++) {
        rt_model *model = fixture_tiny_model(argv[1], i);
        if (!i) refusals(model);
        if (!i) calls(model);
        drive(model, fixture_tiny[i], argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 240,
              argc > 3 ? strtoull(argv[3], NULL, 0) : 1);
        rt_model_free(model);
    }
    return test_summary();
}
