/* The prefix cache: which prefixes are found, how many tokens they save, which are evicted first. Logits are those of
 * an engine without a cache, bit for bit. Records are checked, and free cells are filled with NaN (memory_audit.h).
 * Requests are in test_prefix_requests.c; random operations in test_engine_random.c.
 *
 *   test_prefix_cache FOLDER [MODELS]    as test_scheduler */
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"
#include "memory_audit.h"
#include "runtime/memory/memory_internal.h"

enum { LENGTH = 40, R = 3 };

/* ---- An engine with a cache, and one without ---- */

typedef struct pair {
    const rt_model *model;
    rt_engine *e, *plain;
    rt_memory *m;
} pair;

static pair open_pair(const rt_model *model, int32_t n_prefixes, int32_t interval, int32_t n_batch, int32_t n_cells)
{
    static int n_opened; /* engines roll back by snapshots and by a log, in turn */
    pair p = { model, NULL, NULL, NULL };
    fixture_engine with = FIELDS(.n_seqs = 3, .n_ctx = 3 * LENGTH, .n_cells = n_cells, .n_batch = n_batch,
                                 .n_rollback = R, .rollback = n_opened++ % 2 ? RT_ROLLBACK_SNAPSHOTS : RT_ROLLBACK_LOG,
                                 .draft = 1, .n_prefixes = n_prefixes, .prefix_interval = interval);
    if (n_cells) with.n_ctx = n_cells;
    p.e = fixture_open(model, &with);
    p.m = rt_engine_memory(p.e);
    with = (fixture_engine){ .n_ctx = 3 * LENGTH, .n_rollback = R, .draft = 1 };
    p.plain = fixture_open(model, &with);
    return p;
}

static void close_pair(pair *p)
{
    memory_audit(p->m);
    rt_engine_destroy(p->e);
    rt_engine_destroy(p->plain);
}

static void make_text(const rt_model *model, uint64_t seed, int32_t *token)
{
    for (int32_t i = 0; i < LENGTH; i++) token[i] = (int32_t)(test_random(&seed) % (uint64_t)model->hp.n_vocab);
}

/* Tokens [from, to) of the text to a sequence that has those before. */
static gdn_status feed(rt_engine *e, int32_t seq, const int32_t *text, int32_t from, int32_t to)
{
    int32_t of[3 * LENGTH];
    uint8_t all[3 * LENGTH];
    for (int32_t i = 0; i < 3 * LENGTH; i++) of[i] = seq;
    memset(all, 1, sizeof all);
    const rt_batch batch = { to - from, text + from, of, all, 0 };
    return rt_engine_decode(e, &batch);
}

/* The rest of a text: the last rows' logits are those of the engine that read all of it. Ends with an audit. */
static void go_on(pair *p, int32_t seq, const int32_t *text, int32_t n)
{
    const int32_t from = rt_memory_seq_length(p->m, seq);
    const size_t bytes = 4 * (size_t)p->model->hp.n_vocab;
    NEED(from < n && !rt_memory_seq_rm(rt_engine_memory(p->plain), 0, 0, -1) && !feed(p->plain, 0, text, 0, n));
    const uint64_t rows = rt_engine_counters(p->e).rows;
    NEED(!feed(p->e, seq, text, from, n));
    REQUIRE(rt_engine_counters(p->e).rows - rows == (uint64_t)(n - from)); /* the rest is computed, and nothing else */
    for (int32_t i = from; i < n; i++)
        REQUIRE(!memcmp(rt_engine_logits(p->e, i - from), rt_engine_logits(p->plain, i), bytes));
    memory_audit(p->m);
}

/* A sequence that begins with what is kept of a prompt of n tokens, the last of which has to be decoded. */
static int32_t start(pair *p, int32_t seq, const int32_t *text, int32_t n)
{
    int32_t length = -1;
    NEED(!rt_memory_seq_rm(p->m, seq, 0, -1) && !rt_memory_prefix_start(p->m, seq, text, n - 1, &length));
    REQUIRE(length == rt_memory_seq_length(p->m, seq));
    return length;
}

/* ---- What is found ---- */

/* Prompts of every length around the interval, in micro-batches that cut anywhere: a whole number of intervals,
 * strictly less than the prompt. An interval longer than any prompt finds nothing. */
static void lengths(const rt_model *model)
{
    static const int32_t intervals[] = { 1, 3, 8, LENGTH, 2 * LENGTH }, batches[] = { 64, 5 };
    int32_t text[LENGTH];
    make_text(model, 1, text);
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++)
        for (size_t b = 0; b < 2; b++)
            for (int32_t n = 2; n <= LENGTH; n += n < 10 ? 1 : 6) {
                const int32_t N = intervals[i];
                pair p = open_pair(model, LENGTH, N, batches[b], 0);
                const uint64_t launched = rt_engine_counters(p.e).recurrent_launches;
                NEED(!feed(p.e, 0, text, 0, n));
                REQUIRE(rt_engine_counters(p.e).recurrent_launches - launched ==
                        (uint64_t)((n + batches[b] - 1) / batches[b] * model->n_recurrent)); /* no launch more */
                REQUIRE(rt_memory_prefix_stats_of(p.m).n_written == (uint64_t)(n / N));
                REQUIRE(start(&p, 1, text, n) == (n - 1) / N * N);
                go_on(&p, 1, text, n);
                REQUIRE(memory_prefix_find(p.m, text, n) == n / N * N);
                close_pair(&p);
            }
}

/* Several sequences that read the same at the same time, in one step and in steps: written once, and right. A sequence
 * in the middle of its prompt goes on from what another has written meanwhile. */
static void in_flight(const rt_model *model)
{
    int32_t text[LENGTH], token[3 * LENGTH], of[3 * LENGTH];
    make_text(model, 3, text);
    for (int32_t n_batch = 7; n_batch <= 64; n_batch += 57) {
        pair p = open_pair(model, LENGTH, 4, n_batch, 0);
        for (int32_t i = 0; i < 60; i++) {
            token[i] = text[i / 3];
            of[i] = i % 3;
        }
        const rt_batch batch = { 60, token, of, NULL, 0 };
        NEED(!rt_engine_decode(p.e, &batch));
        REQUIRE(rt_memory_prefix_stats_of(p.m).n_written == 5 && rt_memory_prefix_stats_of(p.m).n_held == 5);
        memory_audit(p.m);
        NEED(!feed(p.e, 0, text, 20, 38));
        int32_t length;
        REQUIRE(!rt_memory_prefix_start(p.m, 1, text, LENGTH - 1, &length) && length == 36);
        REQUIRE(!rt_memory_prefix_start(p.m, 1, text, LENGTH - 1, &length) && length == 36); /* there is no more */
        for (int32_t seq = 0; seq < 3; seq++) go_on(&p, seq, text, LENGTH);
        close_pair(&p);
    }
}

/* ---- Who goes ---- */

static void least_recent(const rt_model *model)
{
    int32_t text[4][LENGTH];
    for (int i = 0; i < 4; i++) make_text(model, 10 + (uint64_t)i, text[i]);
    pair p = open_pair(model, 2, 16, 64, 0);
    for (int i = 0; i < 2; i++) NEED(!feed(p.e, i, text[i], 0, 17));
    REQUIRE(start(&p, 0, text[0], 20) == 16); /* now the second was used least recently */
    REQUIRE(start(&p, 1, text[2], 17) == 0);
    go_on(&p, 1, text[2], 17);
    REQUIRE(memory_prefix_find(p.m, text[0], 16) == 16 && memory_prefix_find(p.m, text[2], 16) == 16);
    REQUIRE(memory_prefix_find(p.m, text[1], 16) == 0 && rt_memory_prefix_stats_of(p.m).n_evicted == 1);
    /* those that go while a sequence has started from them: it keeps what it has */
    NEED(!feed(p.e, 2, text[3], 0, 17) && !rt_memory_seq_rm(p.m, 2, 0, -1));
    REQUIRE(memory_prefix_find(p.m, text[0], 16) == 16 && memory_prefix_find(p.m, text[2], 16) == 0); /* one was hit */
    REQUIRE(start(&p, 2, text[3], 17) == 16); /* of two, one may be shared */
    NEED(!rt_memory_seq_rm(p.m, 2, 0, -1) && !feed(p.e, 2, text[1], 0, 17));
    REQUIRE(memory_prefix_find(p.m, text[0], 16) == 0 && memory_prefix_find(p.m, text[3], 16) == 16 &&
            rt_memory_seq_length(p.m, 0) == 16);
    memory_audit(p.m);
    go_on(&p, 0, text[0], 30);
    go_on(&p, 1, text[2], 30);
    close_pair(&p);

    p = open_pair(model, 2, 16, 64, 0);
    for (int i = 0; i < 2; i++) NEED(!feed(p.e, i, text[i], 0, 17));
    NEED(!feed(p.e, 2, text[0], 0, 17) &&
         !rt_memory_seq_rm(p.m, 0, 0, -1)); /* read again, without looking: that is a use */
    REQUIRE(rt_memory_prefix_stats_of(p.m).n_written == 2 && !feed(p.e, 0, text[2], 0, 17));
    REQUIRE(memory_prefix_find(p.m, text[0], 16) == 16 && memory_prefix_find(p.m, text[1], 16) == 0);
    close_pair(&p);

    p = open_pair(model, 2, 16, 64, 0); /* a step that comes to two places takes one, where the other was hit */
    NEED(!feed(p.e, 0, text[0], 0, 17));
    REQUIRE(start(&p, 1, text[0], 17) == 16 && !feed(p.e, 2, text[1], 0, 36));
    REQUIRE(memory_prefix_find(p.m, text[0], 16) == 16 && memory_prefix_find(p.m, text[1], 36) == 16);
    close_pair(&p);

    p = open_pair(model, 1, 4, 64, 0); /* a cache of one: the longest of a prompt */
    NEED(!feed(p.e, 0, text[0], 0, 30));
    REQUIRE(start(&p, 1, text[0], 30) == 28 && rt_memory_prefix_stats_of(p.m).n_written == 1);
    go_on(&p, 1, text[0], LENGTH);
    REQUIRE(memory_prefix_find(p.m, text[0], LENGTH) == LENGTH && memory_prefix_find(p.m, text[0], LENGTH - 1) == 0);
    close_pair(&p);
}

/* Prompts with a common beginning, and with longer ends than the cache has checkpoints. The second one leaves a
 * checkpoint where it branches off, and later ones start there. Other prompts in between do not evict it. With n_cells
 * there are cells for less than two prompts, and none in between. */
static void common_beginning(const rt_model *model, int32_t n_cells)
{
    enum { COMMON = 18, WHOLE = 16 };
    int32_t text[6][LENGTH], other[LENGTH];
    pair p = open_pair(model, 4, 4, 8, n_cells);
    for (int i = 0; i < 6; i++) {
        make_text(model, 80 + (uint64_t)i, text[i]);
        memcpy(text[i], text[0], COMMON * sizeof **text);
        REQUIRE(start(&p, 0, text[i], LENGTH) == (i < 2 ? 0 : WHOLE), "prompt %d", i);
        for (int32_t at = rt_memory_seq_length(p.m, 0); at < LENGTH - 1; at = rt_memory_seq_length(p.m, 0))
            NEED(!feed(p.e, 0, text[i], at, at + 8 < LENGTH - 1 ? at + 8 : LENGTH - 1));
        go_on(&p, 0, text[i], LENGTH);
        make_text(model, 90 + (uint64_t)i, other);
        if (i > 0 && !n_cells) NEED(!feed(p.e, 1, other, 0, LENGTH) && !rt_memory_seq_rm(p.m, 1, 0, -1));
        REQUIRE(i < 1 || memory_prefix_find(p.m, text[0], WHOLE) == WHOLE);
    }
    close_pair(&p);
}

/* Cells that only the cache has are free for all who ask, and the end of what was used least recently goes first. */
static void cells(const rt_model *model)
{
    int32_t text[3][LENGTH];
    for (int i = 0; i < 3; i++) make_text(model, 20 + (uint64_t)i, text[i]);
    pair p = open_pair(model, LENGTH, 4, 64, 48);
    for (int i = 0; i < 2; i++) NEED(!feed(p.e, 0, text[i], 0, 20) && !rt_memory_seq_rm(p.m, 0, 0, -1));
    REQUIRE(rt_memory_free_cells(p.m) == 48 && rt_memory_prefix_stats_of(p.m).n_cells == 40);
    REQUIRE(start(&p, 0, text[0], 21) == 20 && rt_memory_free_cells(p.m) == 28);
    NEED(!rt_memory_seq_rm(p.m, 0, 0, -1) && !feed(p.e, 1, text[2], 0, 10)); /* 8 were free: one interval goes */
    REQUIRE(memory_prefix_find(p.m, text[0], 20) == 20 && memory_prefix_find(p.m, text[1], 20) == 16);
    memory_audit(p.m);
    const int32_t *reserved;
    REQUIRE(!rt_memory_draft_reserve(p.m, 1, 7, &reserved) && memory_prefix_find(p.m, text[1], 20) < 16);
    REQUIRE(memory_prefix_find(p.m, text[0], 20) == 20 && !rt_memory_draft_reserve(p.m, 1, 0, NULL));
    go_on(&p, 1, text[2], LENGTH); /* and now all but what fits beside it */
    REQUIRE(memory_prefix_find(p.m, text[1], 20) == 0 && rt_memory_free_cells(p.m) == 8);
    REQUIRE(start(&p, 0, text[2], LENGTH) == LENGTH - 4); /* which takes no cells */
    REQUIRE(rt_memory_free_cells(p.m) == 8 && feed(p.e, 2, text[0], 0, 9) == GDN_OUT_OF_MEMORY);
    go_on(&p, 0, text[2], LENGTH);
    close_pair(&p);
}

/* Sequences that differ within an interval share cells of it, so there can be more intervals than the cells would hold
 * separately. The least recently used leaf is evicted, but not the one that a sequence continues from. */
static void forks(const rt_model *model)
{
    int32_t text[LENGTH];
    make_text(model, 25, text);
    pair p = open_pair(model, LENGTH, 4, 64, 48);
    NEED(!feed(p.e, 0, text, 0, 3));
    for (int32_t i = 0; i < 12; i++) { /* 48 / 4 */
        text[3] = i;
        NEED(!rt_memory_seq_cp(p.m, 0, 1) && !feed(p.e, 1, text, 3, 4));
        if (i == 0) NEED(!rt_memory_seq_cp(p.m, 1, 2));
    }
    REQUIRE(rt_memory_prefix_stats_of(p.m).n_held == 12 && rt_memory_prefix_stats_of(p.m).n_cells == 15);
    text[3] = 0;
    go_on(&p, 2, text, 9);
    REQUIRE(memory_prefix_find(p.m, text, 8) == 8 && memory_prefix_find(p.m, text, 4) == 4);
    for (int32_t i = 1; i < 12; i++) {
        text[3] = i;
        REQUIRE(memory_prefix_find(p.m, text, 8) == (i == 1 ? 0 : 4)); /* the second was used least recently */
    }
    REQUIRE(start(&p, 0, text, LENGTH) == 4);
    go_on(&p, 0, text, LENGTH);
    close_pair(&p);
}

/* Other owners find neither intervals nor tails, and the same tokens are kept for each. */
static void owners(const rt_model *model)
{
    int32_t text[LENGTH];
    make_text(model, 50, text);
    pair p = open_pair(model, LENGTH, 8, 64, 0);
    for (uint32_t owner = 0; owner < 3; owner++) {
        NEED(!rt_memory_seq_rm(p.m, 0, 0, -1) && !rt_memory_prefix_own(p.m, 0, owner));
        REQUIRE(start(&p, 0, text, LENGTH) == 0, "of another owner");
        for (int32_t end = 5; end < 22; end += 16) { /* a tail before the first interval, and one after the second */
            go_on(&p, 0, text, end);
            NEED(!rt_memory_prefix_keep(p.m, 0));
        }
        REQUIRE(rt_memory_prefix_stats_of(p.m).n_held == 4 * (int32_t)(owner + 1));
    }
    NEED(!rt_memory_seq_cp(p.m, 0, 1)); /* a copy has the owner */
    FAILS(rt_memory_prefix_own(p.m, 1, 7), GDN_INVALID_ARGUMENT, "sequence 1 has tokens of 2, and not of 7");
    REQUIRE(!rt_memory_prefix_own(p.m, 1, 2) && !feed(p.e, 0, text, 21, 25) && !rt_memory_seq_rm(p.m, 0, 23, -1));
    REQUIRE(start(&p, 0, text, LENGTH) == 21); /* what is rolled back leaves nothing at 24 */
    for (uint32_t owner = 4; owner-- > 0;) {
        NEED(!rt_memory_seq_rm(p.m, 0, 0, -1) && !rt_memory_prefix_own(p.m, 0, owner));
        REQUIRE(start(&p, 0, text, 21) == (owner < 3 ? 16 : 0) && start(&p, 0, text, 22) == (owner < 3 ? 21 : 0));
        if (owner < 3) go_on(&p, 0, text, LENGTH);
    }
    FAILS(rt_memory_prefix_own(p.m, 3, 0), GDN_INVALID_ARGUMENT, "no sequence 3");
    close_pair(&p);
}

/* Tokens that were tried and taken back leave nothing; those before them, and what an earlier step wrote, stay. */
static void taken_back(const rt_model *model)
{
    int32_t text[LENGTH];
    make_text(model, 40, text);
    pair p = open_pair(model, LENGTH, 2, 64, 0);
    if (rt_memory_pool(p.m, 0).n_log_rows) { /* what goes back over steps of one token needs snapshots */
        close_pair(&p);
        p = open_pair(model, LENGTH, 2, 64, 0);
    }
    NEED(!feed(p.e, 0, text, 0, 20) && !feed(p.e, 0, text, 20, 23));
    REQUIRE(memory_prefix_find(p.m, text, LENGTH) == 22 && !rt_memory_seq_rm(p.m, 0, 21, -1));
    REQUIRE(memory_prefix_find(p.m, text, LENGTH) == 20);
    NEED(!feed(p.e, 0, text, 21, 23) && !rt_memory_seq_rm(p.m, 0, 22, -1));
    REQUIRE(memory_prefix_find(p.m, text, LENGTH) == 22); /* it ends there: kept */
    NEED(!rt_memory_seq_rm(p.m, 0, 21, -1) && !feed(p.e, 0, text, 21, 22) && !feed(p.e, 0, text, 22, 23));
    NEED(!rt_memory_seq_rm(p.m, 0, 21, -1));
    REQUIRE(memory_prefix_find(p.m, text, LENGTH) == 22); /* of an earlier step */
    memory_audit(p.m);
    text[21] = (text[21] + 1) % model->hp.n_vocab;
    go_on(&p, 0, text, 30);
    REQUIRE(start(&p, 1, text, 31) == 30);
    go_on(&p, 1, text, LENGTH);
    close_pair(&p);
}

/* A step that fails loses the snapshot at the end, and not the shared one before it: the sequence is known to be lost.
 */
static void lost_end(const rt_model *model)
{
    int32_t text[LENGTH];
    rt_step *step;
    make_text(model, 45, text);
    pair p = open_pair(model, LENGTH, 1, 64, 0);
    if (p.m->n_log) {
        close_pair(&p);
        p = open_pair(model, LENGTH, 1, 64, 0);
    }
    NEED(!feed(p.e, 0, text, 0, 1));
    REQUIRE(start(&p, 1, text, 2) == 1);
    NEED(!feed(p.e, 1, text, 1, 2) && !rt_memory_step_begin(p.m, &(rt_token_run){ 1, 0, R + 1 }, 1, &step));
    rt_memory_step_cancel(p.m, step, 1);
    REQUIRE(rt_memory_seq_length(p.m, 1) == 2 && rt_memory_seq_min_length(p.m, 1) == 3);
    memory_audit(p.m);
    REQUIRE(start(&p, 1, text, 2) == 1);
    go_on(&p, 1, text, LENGTH);
    close_pair(&p);
}

/* ---- Checkpoints between interval ends ---- */

/* A sequence of any length is kept, however it was read, and others begin with all of it. It goes on itself, too. */
static void tails(const rt_model *model)
{
    static const int32_t intervals[] = { 1, 4, 16, 2 * LENGTH };
    int32_t text[LENGTH], other[LENGTH];
    make_text(model, 50, text);
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++)
        for (int32_t n = 1; n < LENGTH; n += n < 10 ? 1 : 5)
            for (int32_t last = 1; last <= 3 && last <= n; last++) { /* tokens of the last step; a log has 2 and 3 */
                pair p = open_pair(model, LENGTH, intervals[i], 64, 0);
                if (n > last) NEED(!feed(p.e, 0, text, 0, n - last));
                NEED(!feed(p.e, 0, text, n - last, n) && !rt_memory_prefix_keep(p.m, 0));
                const rt_prefix_stats once = rt_memory_prefix_stats_of(p.m);
                REQUIRE(memory_prefix_find(p.m, text, n) == n && memory_prefix_find(p.m, text, LENGTH) == n);
                NEED(!rt_memory_prefix_keep(p.m, 0)); /* it has it */
                REQUIRE(rt_memory_prefix_stats_of(p.m).n_written == once.n_written &&
                        once.n_held == n / intervals[i] + (n % intervals[i] > 0));
                memory_audit(p.m);
                go_on(&p, 0, text, n + 1);
                REQUIRE(start(&p, 1, text, n + 1) == n);
                go_on(&p, 1, text, LENGTH);
                memcpy(other, text, sizeof other);
                other[n - 1] = (other[n - 1] + 1) % model->hp.n_vocab;
                REQUIRE(memory_prefix_find(p.m, other, LENGTH) == (n - 1) / intervals[i] * intervals[i]);
                close_pair(&p);
            }
}

/* In the chunked form what is kept ends at the last multiple of 32. So it does after a step that crossed it without
 * writing its state, and after as many rejected drafts as there can be. */
static void multiples(const rt_model *model)
{
    static const struct {
        int32_t first, drafts, accepted; /* tokens read at once, then those of a step, of which so many stay */
    } cases[] = { { 62, 4, 4 }, { 94, 4, 1 }, { 91, 4, 4 }, { 62, 4, 1 }, { 30, 2, 2 }, { 63, 1, 1 }, { 20, 4, 2 } };
    int32_t text[3 * LENGTH];
    for (uint64_t i = 0; i < 3; i++) make_text(model, 70 + i, text + i * LENGTH);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture_engine with = FIELDS(.n_seqs = 2, .n_batch = 128, .n_rollback = R, .draft = 1, .n_prefixes = 4,
                                     .prefix_interval = 128, .digits = 2 + (int32_t)i % 2);
        pair p = { .model = model, .e = fixture_open(model, &with) };
        p.m = rt_engine_memory(p.e);
        with.n_prefixes = 0;
        p.plain = fixture_open(model, &with);
        const int32_t first = cases[i].first, end = first + cases[i].accepted, kept = end / RT_CHUNK * RT_CHUNK;
        NEED(!feed(p.e, 0, text, 0, first) && !feed(p.e, 0, text, first, first + cases[i].drafts));
        NEED(!rt_memory_seq_rm(p.m, 0, end, -1) && !rt_memory_prefix_keep(p.m, 0));
        REQUIRE(memory_prefix_find(p.m, text, end) == kept, "case %d", (int)i);
        go_on(&p, 0, text, end + 5); /* what was kept takes nothing from the sequence */
        REQUIRE(start(&p, 1, text, 3 * LENGTH) == kept);
        go_on(&p, 1, text, 3 * LENGTH);
        close_pair(&p);
    }
}

/* Tails that end at different places after the same interval: the longest one is found that begins the text. */
static void longest_tail(const rt_model *model)
{
    int32_t text[LENGTH];
    make_text(model, 52, text);
    pair p = open_pair(model, 6, 16, 64, 0);
    for (int32_t n = 18; n < 30; n += 4) {
        NEED(!feed(p.e, 0, text, n == 18 ? 0 : n - 4, n) && !rt_memory_prefix_keep(p.m, 0));
    }
    for (int32_t n = 17; n < 32; n++)
        REQUIRE(memory_prefix_find(p.m, text, n) == (n < 18 ? 16 : n < 22 ? 18 : n < 26 ? 22 : 26));
    REQUIRE(start(&p, 1, text, 24) == 22);
    go_on(&p, 1, text, LENGTH);
    REQUIRE(memory_prefix_find(p.m, text, LENGTH) == 32); /* the longer interval */
    close_pair(&p);
}

/* Kept sequences give way like other checkpoints, also where a cache is full of them; nothing is kept of what is lost.
 */
static void many_tails(const rt_model *model)
{
    int32_t text[8][LENGTH];
    for (int i = 0; i < 8; i++) make_text(model, 200 + (uint64_t)i, text[i]);
    pair p = open_pair(model, 3, 16, 64, 0);
    for (int i = 0; i < 8; i++) {
        NEED(!feed(p.e, 0, text[i], 0, 5) && !rt_memory_prefix_keep(p.m, 0) && !rt_memory_seq_rm(p.m, 0, 0, -1));
        memory_audit(p.m);
        for (int j = 0; j <= i; j++) REQUIRE(memory_prefix_find(p.m, text[j], 9) == (j > i - 3 ? 5 : 0));
    }
    REQUIRE(rt_memory_prefix_stats_of(p.m).n_cells == 15 && rt_memory_prefix_stats_of(p.m).n_evicted == 5);
    REQUIRE(!rt_memory_prefix_keep(p.m, 1) && rt_memory_prefix_stats_of(p.m).n_written == 8); /* it has no tokens */
    FAILS(rt_memory_prefix_keep(p.m, 3), GDN_INVALID_ARGUMENT, "no sequence 3");
    REQUIRE(!rt_memory_prefix_keep(rt_engine_memory(p.plain), 0)); /* without a cache */
    close_pair(&p);

    do p = open_pair(model, 2, 4, 64, 37); /* tails of all checkpoints beside all intervals, and one more */
    while (p.m->n_log && (close_pair(&p), 1));
    NEED(!feed(p.e, 0, text[0], 0, 37) && !rt_memory_prefix_keep(p.m, 0) && !rt_memory_seq_cp(p.m, 0, 1));
    for (int32_t to = 35; to > 33; to--) {
        NEED(!rt_memory_seq_rm(p.m, 1, to, -1) && !rt_memory_prefix_keep(p.m, 1));
        memory_audit(p.m);
        REQUIRE(memory_prefix_find(p.m, text[0], to) == to);
    }
    close_pair(&p);
}

/* ---- The draft head ---- */

/* It goes on from the hidden row that is kept: with all that it had read where it read along, anew where it did not. */
static void drafts(const rt_model *model)
{
    int32_t text[LENGTH], of[LENGTH] = { 0 }, expected[R], got[R], n;
    make_text(model, 60, text);
    for (int no_follow = 0; no_follow < 2; no_follow++) {
        pair p = open_pair(model, LENGTH, 4, 36, 0);
        const rt_batch batch = { 36, text, of, NULL, no_follow };
        NEED(!rt_engine_decode(p.e, &batch) && !rt_memory_seq_rm(p.m, 0, 0, -1));
        REQUIRE(start(&p, 1, text, 35) == 32);
        REQUIRE(rt_memory_draft_length(p.m, 1) == 32 && rt_memory_draft_from(p.m, 1) == (no_follow ? 32 : 0));
        go_on(&p, 1, text, 35);
        const rt_draft_request ask = { 0, text[35], R }, here = { 1, text[35], R };
        NEED(!rt_draft_mtp(p.plain, &ask, 1, R, 0, expected, &n) && n == R);
        const uint64_t rows = rt_engine_counters(p.e).draft_rows;
        NEED(!rt_draft_mtp(p.e, &here, 1, R, 0, got, &n) && n == R);
        REQUIRE(no_follow || !memcmp(expected, got, sizeof got));
        REQUIRE(rt_engine_counters(p.e).draft_rows - rows == 3 + 1 + R - 1); /* what is new, the token, its guesses */
        go_on(&p, 1, text, LENGTH);
        /* a kept sequence has its own last hidden row */
        NEED(!feed(p.e, 2, text, 0, 34) && !rt_memory_prefix_keep(p.m, 2));
        REQUIRE(start(&p, 2, text, 35) == 34);
        NEED(!rt_memory_seq_rm(rt_engine_memory(p.plain), 0, 0, -1) && !feed(p.plain, 0, text, 0, 34));
        const rt_draft_request plain = { 0, text[34], R }, kept = { 2, text[34], R };
        NEED(!rt_draft_mtp(p.plain, &plain, 1, R, 0, expected, &n) && n == R);
        NEED(!rt_draft_mtp(p.e, &kept, 1, R, 0, got, &n) && n == R);
        REQUIRE(no_follow || !memcmp(expected, got, sizeof got));
        close_pair(&p);
    }
}

/* ---- Sizes and refusals ---- */

static void refusals(const rt_model *model)
{
    rt_engine_desc d = { .model = model, .n_threads = 1, .n_seqs = 2, .n_ctx = 64, .draft = 1 };
    rt_memory_bytes none, one, many;
    uint64_t scratch, more;
    rt_engine *e;
    NEED(!rt_engine_size(&d, &none, &scratch));
    d.n_prefixes = 1;
    d.prefix_interval = 16;
    NEED(!rt_engine_size(&d, &one, &more));
    REQUIRE(none.prefixes == 0 && one.prefixes > 0 && more > scratch && one.kv == none.kv && one.state == none.state);
    d.n_prefixes = 1000; /* no more than there are cells */
    NEED(!rt_engine_size(&d, &many, &more));
    REQUIRE(many.prefixes == 128 * one.prefixes);
    d.prefix_interval = 0; /* RT_PREFIX_INTERVAL, which is more than 128 cells: ends of prompts and texts are kept */
    NEED(!rt_engine_size(&d, &many, &more));
    REQUIRE(many.prefixes == 128 * one.prefixes);
    d.prefix_interval = -1;
    FAILS(rt_engine_create(&d, &e), GDN_INVALID_ARGUMENT, "prefix_interval is -1");
    d.prefix_interval = 1;
    d.n_prefixes = -1;
    FAILS(rt_engine_create(&d, &e), GDN_INVALID_ARGUMENT, "n_prefixes is -1");
    d = (rt_engine_desc){ .model = model, .n_seqs = 4096, .n_ctx = 64, .n_batch = 8192, .n_prefixes = 1 };
    d.prefix_interval = 1;
    FAILS(rt_engine_create(&d, &e), GDN_INVALID_ARGUMENT, "prefix_interval is 1: 4096");

    int32_t text[LENGTH];
    make_text(model, 70, text);
    pair p = open_pair(model, 4, 4, 64, 0);
    FAILS(rt_memory_prefix_start(p.m, 3, text, 9, NULL), GDN_INVALID_ARGUMENT, "no sequence 3");
    REQUIRE(!rt_memory_prefix_start(rt_engine_memory(p.plain), 0, text, 9, NULL)); /* without a cache: nothing */
    const rt_token_run span = { 0, 0, 9 };
    rt_step *step;
    NEED(!rt_memory_step_begin(p.m, &span, 1, &step) && step->n_checkpoints == 0);
    rt_memory_step_tokens(p.m, step, text);
    REQUIRE(step->n_checkpoints == 2 && step->checkpoint_interval == 4 && step->state_checkpoint[1] >= 0);
    FAILS(rt_memory_prefix_start(p.m, 1, text, 9, NULL), GDN_INVALID_ARGUMENT, "under way");
    REQUIRE(memory_prefix_find(p.m, text, 9) == 0);
    rt_memory_step_cancel(p.m, step, 0);
    NEED(!rt_memory_step_begin(p.m, &(rt_token_run){ 0, 0, 3 }, 1, &step));
    rt_memory_step_tokens(p.m, step, text);
    REQUIRE(step->n_checkpoints == 0); /* it comes to none: the kernels are called as without a cache */
    rt_memory_step_cancel(p.m, step, 0);
    close_pair(&p);
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "fixtures/tiny-qwen35.gguf", "fixtures/tiny-qwen3next.gguf" };
    NEED(argc >= 2);
    const size_t all = sizeof names / sizeof names[0], n = argc > 2 ? strtoul(argv[2], NULL, 10) : all;
    NEED(n >= 1 && n <= all);
    for (size_t i = 0; i < n; i++) {
        rt_model *model = fixture_model(argv[1], names[i]);
        if (i == 0) lengths(model);
        in_flight(model);
        least_recent(model);
        common_beginning(model, 0);
        common_beginning(model, LENGTH + 12);
        cells(model);
        forks(model);
        owners(model);
        taken_back(model);
        lost_end(model);
        if (i == 0) tails(model);
        multiples(model);
        longest_tail(model);
        many_tails(model);
        if (model->hp.n_mtp) drafts(model);
        if (i == 0) refusals(model);
        rt_model_free(model);
    }
    return test_summary();
}
