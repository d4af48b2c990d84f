/* Thousands of random operations on one engine with several sequences. Operations are ragged batches in any order,
 * rollbacks, copies, removals, drafts, refused calls, and failures of the device within a step.
 *
 * Another engine, with one sequence and no snapshots, decodes each sequence's tokens from scratch. Every row of logits
 * and every draft must have the same bits.
 *
 * Engines alternate between rollback by snapshots and by a replay log.
 *
 * With `prefixes` the engines have prefix caches of several sizes. Sequences then have few different tokens and begin
 * with those of earlier sequences.
 *
 * With `chunked` they do so too, and the engines have the chunked form: with 3 digits for the first model, else 2.
 * Sequences have up to CHUNKED_LENGTH tokens, so that drafts, copies and prefixes cross multiples of 32.
 *
 * After every operation the memory's reference counts are audited, and free resources are filled with NaN.
 *
 *   test_engine_random FOLDER [OPERATIONS [SEED [prefixes | chunked]]]
 *
 * Linked with --wrap=gdn_gated_delta_net, so that launches are counted and fail on request. */
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"
#include "memory_audit.h"
#include "runtime/memory/memory_internal.h"

enum { N_SEQS = 5, ROLLBACK = 3, N_CACHE = 1 << 16, N_SEEN = 12 };
enum { RECURRENCE_LENGTH = 40, CHUNKED_LENGTH = 104, MAX_LENGTH = CHUNKED_LENGTH };
enum { RECURRENCE_MOST = 12, CHUNKED_MOST = 36, MOST = CHUNKED_MOST }; /* rows of a sequence in a batch */

/* ---- The device, which can fail ---- */

static int64_t launches, fail_in = -1; /* fail_in: launches until one fails; -1 = never */
gdn_status __real_gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, void *queue);
gdn_status __wrap_gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, void *queue);
gdn_status __wrap_gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, void *queue)
{
    launches++;
    if (fail_in >= 0 && fail_in-- == 0) return GDN_DEVICE_LOST;
    return __real_gdn_gated_delta_net(ctx, args, queue);
}

/* ---- The truth: digests of logits by list of tokens ---- */

typedef struct truth {
    const rt_model *model;
    rt_engine *engine;
    uint64_t key[N_CACHE], digest[N_CACHE]; /* by hash of the tokens; key 0: free */
    int64_t n_replays;
} truth;

static uint64_t digest_of(const void *bytes, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return h | 1;
}

static uint64_t logits_digest(const truth *t, const rt_engine *e, int32_t row)
{
    const float *logits = rt_engine_logits(e, row);
    return logits ? digest_of(logits, 4 * (size_t)t->model->hp.n_vocab) : 0;
}

/* The digest after token n - 1 of the list. */
static uint64_t truth_of(truth *t, const int32_t *tokens, int32_t n)
{
    const uint64_t key = digest_of(tokens, 4 * (size_t)n);
    for (uint64_t at = key % N_CACHE;; at = (at + 1) % N_CACHE) {
        if (t->key[at] == key) return t->digest[at];
        if (t->key[at]) continue;
        int32_t seq[MAX_LENGTH] = { 0 };
        uint8_t all[MAX_LENGTH];
        memset(all, 1, sizeof all);
        const rt_batch batch = { n, tokens, seq, all };
        NEED(!rt_memory_seq_rm(rt_engine_memory(t->engine), 0, 0, -1) && !rt_engine_decode(t->engine, &batch));
        t->n_replays++;
        for (int32_t i = 1; i <= n; i++) { /* all beginnings of the list are known now */
            const uint64_t k = digest_of(tokens, 4 * (size_t)i);
            uint64_t to = k % N_CACHE;
            while (t->key[to] && t->key[to] != k) to = (to + 1) % N_CACHE;
            t->key[to] = k;
            t->digest[to] = logits_digest(t, t->engine, i - 1);
        }
        return logits_digest(t, t->engine, n - 1);
    }
}

/* ---- The engine under test ---- */

typedef struct list {
    int32_t token[MAX_LENGTH], n;
} list;

typedef struct world {
    truth *t;
    rt_engine *e;
    rt_memory *m;
    list seq[N_SEQS];
    int32_t must[N_SEQS]; /* the smallest length that has to be returnable, after the last step alone */
    list seen[N_SEEN];    /* that sequences held some time ago */
    int prefixes;
    int32_t longest, most;          /* longest: tokens of a sequence; most: rows of it in a batch */
    int64_t started, evicted, kept; /* tokens that a sequence started with; checkpoints that gave way; kept sequences */
    uint64_t random;
    int64_t rows, rollbacks, refused, failed, drafts, anew, lost, folds, logs;
} world;

/* The sequences are known by their lengths alone. */
static void must_be_whole(world *w)
{
    for (int32_t s = 0; s < N_SEQS; s++) w->must[s] = w->seq[s].n;
}

static int32_t below(world *w, int32_t n) { return (int32_t)(test_random(&w->random) % (uint64_t)n); }

/* A state that is gone is not gone on with. */
static void must_be_lost(world *w, int32_t s)
{
    const rt_batch more = FIELDS(.n_rows = 1, .token = (int32_t[]){ 0 }, .seq = (int32_t[]){ s });
    REQUIRE(rt_memory_seq_min_length(w->m, s) == rt_memory_seq_length(w->m, s) + 1);
    REQUIRE(rt_engine_decode(w->e, &more) == GDN_INVALID_ARGUMENT && !rt_memory_seq_rm(w->m, s, 0, -1));
    w->seq[s].n = 0;
    w->lost++;
}

/* What one sequence gets in a batch. */
typedef struct growth {
    int32_t n, token[MOST];
} growth;

static void grow(world *w, int32_t s, growth *g)
{
    const int32_t room = w->longest - w->seq[s].n;
    g->n = 0;
    if (below(w, 2)) g->n = 1 + below(w, below(w, 3) ? 4 : w->most);
    if (g->n > room) g->n = room;
}

/* The list that ends with a row. */
static list path_of(const list *at, const growth *g, int32_t row)
{
    list path = *at;
    for (int32_t t = 0; t <= row; t++) path.token[path.n++] = g->token[t];
    return path;
}

/* A batch of a few sequences, tokens of all of them in any order. */
static void decode(world *w)
{
    static growth g[N_SEQS];
    int32_t token[64], seq[64], of[64], n = 0, done[N_SEQS] = { 0 };
    uint8_t logits[64];
    list after[N_SEQS];
    for (int32_t s = 0; s < N_SEQS; s++) grow(w, s, &g[s]);
    for (int32_t left = 1; left;) {
        left = 0;
        for (int32_t s = 0; s < N_SEQS; s++) {
            if (done[s] == g[s].n || n == 64) continue;
            left = 1;
            if (below(w, 3) == 0) continue;
            of[n] = done[s]++;
            seq[n] = s;
            logits[n] = (uint8_t)(below(w, 4) != 0);
            token[n] = w->prefixes && below(w, 8) ? below(w, 2) : below(w, w->t->model->hp.n_vocab);
            g[s].token[of[n]] = token[n];
            n++;
        }
    }
    for (int32_t s = 0; s < N_SEQS; s++) {
        g[s].n = done[s];
        after[s] = path_of(&w->seq[s], &g[s], g[s].n - 1);
    }
    if (!n) return;
    int bad = 0;
    if (below(w, 4) == 0) { /* a call that must be refused with nothing changed */
        bad = 1 + below(w, 3);
        const int32_t i = below(w, n);
        if (bad == 1) token[i] = below(w, 2) ? -1 : w->t->model->hp.n_vocab;
        if (bad == 2) seq[i] = below(w, 2) ? -1 : N_SEQS;
        if (bad == 3) fail_in = below(w, 2 * w->t->model->n_recurrent);
    }
    const rt_batch batch = { n, token, seq, logits, below(w, 8) == 0 };
    const rt_counters before = rt_engine_counters(w->e);
    const int64_t launched = launches;
    const gdn_status status = rt_engine_decode(w->e, &batch);
    const int64_t n_launches = launches - launched; /* the truth launches too, below */
    fail_in = -1;
    if (bad && bad != 3) {
        REQUIRE(status == GDN_INVALID_ARGUMENT && n_launches == 0);
        w->refused++;
    } else if (status == GDN_OUT_OF_MEMORY) {
        REQUIRE(n_launches == 0 && n > rt_memory_free_cells(w->m));
        w->refused++;
    } else if (status) { /* the device: lengths are a beginning of what was asked, state is there or known to be lost */
        REQUIRE(bad == 3 && status == GDN_DEVICE_LOST);
        w->failed++;
        for (int32_t s = 0; s < N_SEQS; s++) {
            const int32_t length = rt_memory_seq_length(w->m, s);
            REQUIRE(length >= w->seq[s].n && length <= after[s].n);
            after[s].n = length;
            w->seq[s] = after[s];
            if (rt_memory_seq_min_length(w->m, s) > length) must_be_lost(w, s);
        }
        must_be_whole(w);
    } else {
        for (int32_t i = 0; i < n; i++) {
            REQUIRE(!logits[i] == !rt_engine_logits(w->e, i));
            const list path = path_of(&w->seq[seq[i]], &g[seq[i]], of[i]);
            if (logits[i]) REQUIRE(logits_digest(w->t, w->e, i) == truth_of(w->t, path.token, path.n));
        }
        w->rows += n;
        const int64_t steps = (int64_t)(rt_engine_counters(w->e).steps - before.steps);
        /* one launch serves all sequences; with a log, states may be moved up by themselves before a prompt is read */
        const int64_t folds = (int64_t)(rt_engine_counters(w->e).folds - before.folds);
        REQUIRE(n_launches == (steps + folds) * w->t->model->n_recurrent);
        w->folds += folds;
        REQUIRE(rt_engine_counters(w->e).rows - before.rows == (uint64_t)n);
        for (int32_t s = 0; s < N_SEQS; s++) {
            if (!g[s].n) continue;
            w->must[s] = g[s].n > ROLLBACK + 1 ? after[s].n : w->seq[s].n + 1;
            w->seq[s] = after[s];
        }
    }
}

static void roll_back(world *w)
{
    const int32_t s = below(w, N_SEQS), n = w->seq[s].n;
    if (!n) return;
    const int32_t to = below(w, 4) ? n - 1 - below(w, n < 5 ? n : 5) : below(w, n),
                  low = rt_memory_seq_min_length(w->m, s);
    const int64_t launched = launches;
    const uint64_t rows = rt_engine_counters(w->e).rows;
    /* A step that fails forgets what it may have overwritten, and not what the cache shares: there can be gaps. */
    const int gaps = w->prefixes && !w->m->n_log;
    const int there = gaps && to > low ? rt_memory_seq_readable(w->m, &w->m->seq[s], to) : to >= low;
    const gdn_status status = rt_memory_seq_rm(w->m, s, to, -1);
    REQUIRE((status == GDN_OK) == (to == 0 || there) && (!status || status == GDN_UNSUPPORTED));
    REQUIRE(low >= 1 && low <= w->must[s] && low <= n && launches == launched &&
            rt_engine_counters(w->e).rows == rows); /* no recomputation */
    if (!status) {
        w->seq[s].n = to;
        w->must[s] = to < w->must[s] ? to : w->must[s];
        w->rollbacks++;
    }
    REQUIRE(rt_memory_seq_length(w->m, s) == w->seq[s].n);
}

static void copy_or_clear(world *w)
{
    const int32_t a = below(w, N_SEQS), b = below(w, N_SEQS);
    const int32_t what = below(w, 12);
    if (what < 2) { /* seldom: all of them */
        const int32_t s = what || below(w, 4) ? a : -1;
        REQUIRE(!rt_memory_seq_rm(w->m, s, 0, -1));
        for (int32_t i = 0; i < N_SEQS; i++)
            if (s < 0 || i == s) w->seq[i].n = 0;
    } else if (rt_memory_seq_cp(w->m, a, b) == GDN_OK) {
        w->seq[b] = w->seq[a];
        w->must[b] = w->must[a];
    } else {
        REQUIRE(0);
    }
}

/* Keeps what a sequence has, as far as there can be a state. With a log its state moves up to there. */
static void keep(world *w)
{
    const int32_t s = below(w, N_SEQS), n = w->seq[s].n;
    REQUIRE(!rt_memory_prefix_keep(w->m, s) && rt_memory_seq_length(w->m, s) == n);
    if (w->m->n_log) w->must[s] = n;
    const int32_t end = rt_memory_newest_state(w->m, n);
    w->kept += end && memory_prefix_find(w->m, w->seq[s].token, n) == end;
}

/* Starts a sequence with the tokens of an earlier one, as far as the cache has them. */
static void start(world *w)
{
    if (below(w, 2)) keep(w);
    const int32_t s = below(w, N_SEQS);
    list *own = &w->seq[s], *at = &w->seen[below(w, N_SEEN)];
    if (below(w, 3) == 0) *at = w->seq[below(w, N_SEQS)];
    list with = *at;
    with.n = below(w, 3) ? with.n : below(w, with.n + 1);
    if (with.n && below(w, 4) == 0) with.token[below(w, with.n)] ^= 1;
    if (own->n && (own->n > with.n || memcmp(own->token, with.token, 4 * (size_t)own->n) != 0 || below(w, 2))) {
        REQUIRE(!rt_memory_seq_rm(w->m, s, 0, -1));
        own->n = 0;
    }
    const rt_prefix_stats c = rt_memory_prefix_stats_of(w->m);
    const int32_t found = memory_prefix_find(w->m, with.token, with.n);
    int32_t length = -1;
    REQUIRE(found <= with.n && (c.n_max || found == 0));
    REQUIRE(!rt_memory_prefix_start(w->m, s, with.token, with.n, &length));
    REQUIRE(length == (found > own->n ? found : own->n) && rt_memory_seq_length(w->m, s) == length);
    if (found > own->n) { /* there is one snapshot, and the end is at hand for the draft head */
        REQUIRE(rt_memory_seq_min_length(w->m, s) == found);
        w->started += found - own->n;
    }
    with.n = length;
    *own = with;
    must_be_whole(w);
}

/* A draft round for some sequences, against one for each alone on an engine that has just read its tokens. */
static void draft(world *w)
{
    rt_draft_request ask[N_SEQS];
    int32_t n = 0, got[N_SEQS * ROLLBACK], n_got[N_SEQS];
    for (int32_t s = N_SEQS - 1; s >= 0; s--)
        if (w->seq[s].n && w->seq[s].n < w->longest - ROLLBACK && below(w, 2))
            ask[n++] = (rt_draft_request){ s, below(w, w->t->model->hp.n_vocab), 1 + below(w, ROLLBACK) };
    if (!n) return;
    const int64_t launched = launches;
    NEED(!rt_draft_mtp(w->e, ask, n, ROLLBACK, 0.0f, got, n_got));
    REQUIRE(launches == launched);
    for (int32_t i = 0; i < n; i++) {
        const list *l = &w->seq[ask[i].seq];
        rt_memory *m = rt_engine_memory(w->t->engine);
        int32_t expected[ROLLBACK], n_expected, seq[MAX_LENGTH] = { 0 };
        const rt_batch batch = { l->n, l->token, seq, NULL };
        if (!n_got[i]) continue; /* no cells, or hidden rows that a failure has lost */
        REQUIRE(n_got[i] == ask[i].n_max);
        const int anew =
            rt_memory_draft_from(w->m, ask[i].seq) > 0; /* it did not read all: other drafts, if it comes to that */
        NEED(!rt_memory_seq_rm(m, 0, 0, -1) && !rt_engine_decode(w->t->engine, &batch));
        const rt_draft_request alone = { 0, ask[i].token, ask[i].n_max };
        NEED(!rt_draft_mtp(w->t->engine, &alone, 1, ROLLBACK, 0.0f, expected, &n_expected));
        REQUIRE(n_expected == n_got[i] && (anew || !memcmp(expected, got + i * ROLLBACK, 4 * (size_t)n_got[i])));
        w->drafts += !anew;
        w->anew += anew;
        if (below(w, 2)) { /* verify it: the drawn token and the drafts, then keep some */
            int32_t token[ROLLBACK + 1] = { ask[i].token }, of[ROLLBACK + 1];
            uint8_t all[ROLLBACK + 1];
            list *own = &w->seq[ask[i].seq];
            memset(all, 1, sizeof all);
            memcpy(token + 1, got + i * ROLLBACK, 4 * (size_t)n_got[i]);
            for (int32_t j = 0; j <= n_got[i]; j++) of[j] = ask[i].seq;
            const rt_batch verify = { n_got[i] + 1, token, of, all };
            if (rt_engine_decode(w->e, &verify)) continue; /* other drafts hold the cells */
            memcpy(own->token + own->n, token, 4 * (size_t)(n_got[i] + 1));
            for (int32_t j = 0; j <= n_got[i]; j++)
                REQUIRE(logits_digest(w->t, w->e, j) == truth_of(w->t, own->token, own->n + j + 1));
            const int32_t keep = 1 + below(w, n_got[i] + 1);
            own->n += keep;
            must_be_whole(w);
            if (keep <= n_got[i]) REQUIRE(!rt_memory_seq_rm(w->m, ask[i].seq, own->n, -1));
        }
    }
}

static void drive(const rt_model *model, const char *name, int64_t n_operations, uint64_t seed, int prefixes,
                  int32_t digits)
{
    const int32_t n_cells = digits ? 350 : 150;
    static const int32_t caches[2][4] = { { 0 }, { 6, 20, 1, 3 } };
    static const int32_t batches[4] = { 64, 5, 17, 1 }, cells[4] = { GDN_F32, GDN_F16, GDN_BF16, GDN_Q8_0 };
    const int32_t kv_type = cells[((uint64_t)model->hp.arch + seed + (uint64_t)prefixes) % 4];
    const int64_t each = 400;
    truth *t = calloc(1, sizeof *t);
    world w = { .t = t,
                .random = seed,
                .prefixes = prefixes,
                .longest = digits ? CHUNKED_LENGTH : RECURRENCE_LENGTH,
                .most = digits ? CHUNKED_MOST : RECURRENCE_MOST };
    NEED(t);
    t->model = model;
    t->engine = fixture_open(model, &(fixture_engine)FIELDS(.n_seqs = 1, .n_ctx = MAX_LENGTH + ROLLBACK + 1,
                                                            .digits = digits, .n_batch = 32, .n_rollback = ROLLBACK,
                                                            .draft = model->hp.n_mtp, .kv_type = kv_type));
    for (int64_t i = 0; i < n_operations && test_failed < 5; i++) {
        if (i % each == 0) { /* another engine: other micro-batches, threads, rollbacks */
            const int64_t k = i / each;
            w.evicted += w.e ? (int64_t)rt_memory_prefix_stats_of(w.m).n_evicted : 0;
            rt_engine_destroy(w.e);
            w.e = fixture_open(
                model, &(fixture_engine)
                           FIELDS(.n_seqs = N_SEQS, .n_ctx = n_cells, .n_cells = n_cells, .digits = digits,
                                  .n_batch = batches[k % 4], .n_threads = 1 + (int32_t)(k % 2), .n_rollback = ROLLBACK,
                                  .draft = model->hp.n_mtp, .kv_type = kv_type, .n_prefixes = caches[prefixes][k % 4],
                                  .prefix_interval = digits ? 32 + 32 * (k & 1) : (int32_t[]){ 3, 1, 2, 7 }[k % 4],
                                  .rollback = (k ^ k >> 2 ^ (int64_t)model->hp.arch) & 1 ? RT_ROLLBACK_SNAPSHOTS
                                                                                         : RT_ROLLBACK_LOG,
                                  .commit_after = (int32_t[]){ 1, 3, 0, 2 }[k / 2 % 4]));
            w.m = rt_engine_memory(w.e);
            memset(w.seq, 0, sizeof w.seq);
            must_be_whole(&w);
        }
        w.logs += w.m->n_log > 0;
        const int32_t what = below(&w, prefixes ? 18 : 14);
        if (what < 7) decode(&w);
        else if (what < 10) roll_back(&w);
        else if (what < 12) copy_or_clear(&w);
        else if (what > 13) start(&w);
        else if (model->hp.n_mtp) draft(&w);
        memory_audit(w.m);
        if (test_failed) {
            printf("%s: operation %lld (%d) of seed %llu\n", name, (long long)i, (int)what, (unsigned long long)seed);
            break;
        }
        if (t->n_replays > N_CACHE / MAX_LENGTH / 2) { /* start over with an empty cache */
            memset(t->key, 0, sizeof t->key);
            t->n_replays = 0;
        }
    }
    w.evicted += (int64_t)rt_memory_prefix_stats_of(w.m).n_evicted;
    printf("%-24s %lld operations, cells of type %d, seed %llu: %lld rows compared, %lld rollbacks, %lld refused, %lld "
           "failed, %lld "
           "states lost, %lld moved up by themselves, %lld drafts, %lld of a head that began anew, %lld tokens started "
           "with, %lld checkpoints gave way\n",
           name, (long long)n_operations, (int)kv_type, (unsigned long long)seed, (long long)w.rows,
           (long long)w.rollbacks, (long long)w.refused, (long long)w.failed, (long long)w.lost, (long long)w.folds,
           (long long)w.drafts, (long long)w.anew, (long long)w.started, (long long)w.evicted);
    /* or it tested less than it says */
    REQUIRE(w.rows && w.rollbacks && w.refused && w.failed && w.lost && (w.folds || digits) && w.logs &&
            ((w.drafts && w.anew) || !model->hp.n_mtp));
    REQUIRE((w.started && w.evicted && w.kept > 20) || !prefixes);
    rt_engine_destroy(w.e);
    rt_engine_destroy(t->engine);
    free(t);
}

int main(int argc, char **argv)
{
    NEED(argc >= 2);
    const int chunked = argc > 4 && !strcmp(argv[4], "chunked");
    for (int i = 0; i < FIXTURE_TINY; i++) {
        rt_model *model = fixture_tiny_model(argv[1], i);
        drive(model, fixture_tiny[i], argc > 2 ? strtoll(argv[2], NULL, 0) : 3000,
              argc > 3 ? strtoull(argv[3], NULL, 0) : 1, argc > 4, chunked ? i ? 2 : 3 : 0);
        rt_model_free(model);
    }
    return test_summary();
}
