/* The memory of the runtime: the bugs that others had in such memories, as named cases, each with controls that break
 * a map and must be noticed; saving and loading; and a random test against lists of tokens.
 *
 *   test_rt_memory [FOLDER] [--seed S] [--seconds N] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/memory_world.h"

typedef struct test_case {
    const char *name;
    void (*run)(world *w);
    int32_t n_seqs, n_rollback;
    uint32_t must_notice; /* bits of breakages */
} test_case;

#define BIT(b)       (1u << (b))
#define STATE_BREAKS (BIT(BREAK_SRC) | BIT(BREAK_DST))
#define CONV_BREAKS  (BIT(BREAK_CONV_SRC) | BIT(BREAK_CONV_DST) | BIT(BREAK_CONV_POS))

static void all_depths(world *w, int32_t seq)
{
    world_compare(w);
    const int32_t low = rt_seq_min_length(w->m, seq);
    for (int32_t p = rt_seq_length(w->m, seq) - 1; p >= low; p--) {
        world_rm(w, seq, p, -1);
        world_compare(w);
    }
    if (low > 1) WORLD_REQUIRE(w, world_rm(w, seq, low - 1, -1) == GDN_UNSUPPORTED);
    world_compare(w);
}

/* 1: after a prompt, single tokens; then roll back to every depth. Each is exact, or refused. */
static void single_tokens(world *w)
{
    for (int32_t m = 0; m <= w->m->K + 1; m++) {
        world_clear(w);
        world_one(w, 0, 7);
        for (int32_t i = 0; i < m; i++) world_one(w, 0, 1);
        WORLD_REQUIRE(w, rt_seq_min_length(w->m, 0) == 7 + m - w->desc.n_rollback);
        all_depths(w, 0);
        world_one(w, 0, 2);
        world_compare(w);
    }
}

/* 2: a batch of 3 as the first there is, all of it rolled back but one; and to nothing. */
static void whole_batch(world *w)
{
    world_one(w, 0, 3);
    WORLD_REQUIRE(w, rt_seq_min_length(w->m, 0) == 1);
    all_depths(w, 0);
    world_one(w, 0, 2);
    world_compare(w);
    WORLD_REQUIRE(w, world_rm(w, 0, 0, -1) == GDN_OK && rt_seq_length(w->m, 0) == 0);
    world_one(w, 0, 3);
    world_compare(w);
}

/* 3, 15: the same tokens in pieces of any size leave the same snapshots. */
static void pieces(world *w)
{
    for (int32_t piece = 1; piece <= 13; piece++) {
        world_clear(w);
        for (int32_t at = 0; at < 13; at += piece) {
            const int32_t n = at + piece < 13 ? piece : 13 - at, seqs[] = { 1, 0 }, rows[] = { n, n };
            WORLD_REQUIRE(w, world_step(w, 2, seqs, rows, 1) == GDN_OK);
        }
        WORLD_REQUIRE(w, rt_seq_min_length(w->m, 0) == 13 - w->desc.n_rollback);
        all_depths(w, 0);
        all_depths(w, 1);
    }
}

/* 4: rollbacks add up as far as snapshots reach. */
static void again_and_again(world *w)
{
    world_one(w, 0, 9);
    WORLD_REQUIRE(w, world_rm(w, 0, 8, -1) == GDN_OK && world_rm(w, 0, 7, -1) == GDN_OK);
    world_compare(w);
    WORLD_REQUIRE(w, world_rm(w, 0, 5, -1) == GDN_UNSUPPORTED);
    WORLD_REQUIRE(w, world_rm(w, 0, 6, 7) == GDN_OK && world_rm(w, 0, 5, -1) == GDN_UNSUPPORTED);
    world_compare(w);
    world_one(w, 0, 1);
    WORLD_REQUIRE(w, rt_seq_min_length(w->m, 0) == 6);
    world_one(w, 0, 3);
    all_depths(w, 0);
}

/* 5: roll back, let steps fail in every way, and try again. */
static void failing_steps(world *w)
{
    const int32_t zero = 0, many = w->desc.n_cells, two = 2, four = 4;
    world_one(w, 0, 9);
    world_rm(w, 0, 7, -1);
    WORLD_REQUIRE(w, world_step(w, 1, &zero, &many, 1) == GDN_OUT_OF_MEMORY);
    WORLD_REQUIRE(w, world_step(w, 1, &zero, &four, 0) == GDN_OK);
    world_compare(w);
    WORLD_REQUIRE(w, rt_seq_min_length(w->m, 0) == 6);
    WORLD_REQUIRE(w, world_step(w, 1, &zero, &two, -1) == GDN_OK); /* fewer rows than K: the source is intact */
    world_compare(w);
    WORLD_REQUIRE(w, rt_seq_min_length(w->m, 0) <= 7);
    world_one(w, 0, 2);
    all_depths(w, 0);
    world_one(w, 0, 1);
    WORLD_REQUIRE(w, world_step(w, 1, &zero, &four, -1) == GDN_OK); /* as many: the state is lost, and says so */
    WORLD_REQUIRE(w, rt_seq_min_length(w->m, 0) == rt_seq_length(w->m, 0) + 1);
    WORLD_REQUIRE(w, world_step(w, 1, &zero, &two, 1) == GDN_INVALID_ARGUMENT);
    WORLD_REQUIRE(w,
                  rt_memory_save_size(w->m, 0) == 0 && rt_memory_save(w->m, -1, w, sizeof *w) == GDN_INVALID_ARGUMENT);
    world_compare(w);
    world_rm(w, 0, 0, -1);
    world_one(w, 0, 5);
    world_compare(w);
}

/* 6: a copy made after a rollback; both go on, each its own way, alone and together; the owner is overwritten. */
static void copies(world *w)
{
    const int32_t both[] = { 0, 1 }, rows[] = { 2, 3 };
    world_one(w, 0, 9);
    world_rm(w, 0, 8, -1);
    WORLD_REQUIRE(w, world_cp(w, 0, 1) == GDN_OK);
    WORLD_REQUIRE(w, w->m->slots.n_free ==
                         w->m->slots.n - (w->desc.n_rollback ? w->desc.n_rollback : 1)); /* nothing is copied */
    world_compare(w);
    WORLD_REQUIRE(w, world_step(w, 2, both, rows, 1) == GDN_OK);
    world_compare(w);
    world_cp(w, 1, 2);
    world_cp(w, 2, 0);
    world_rm(w, 1, w->t[1].n - 1, -1);
    world_one(w, 1, 1);
    world_one(w, 2, 1);
    world_compare(w);
    world_rm(w, 0, w->t[0].low, -1);
    world_one(w, 0, 1);
    world_compare(w);
}

/* 7: the idle sequence between two active ones stays what it is. */
static void idle_between(world *w)
{
    const int32_t all[] = { 0, 1, 2 }, ends[] = { 0, 2 }, rows[] = { 5, 6, 7 }, more[] = { 3, 1 };
    world_step(w, 3, all, rows, 1);
    for (int i = 0; i < 5; i++) {
        world_step(w, 2, ends, more, 1);
        world_compare(w);
    }
    all_depths(w, 1);
    world_one(w, 1, 2);
    world_compare(w);
}

/* 8: sequences in reverse order. */
static void reversed(world *w)
{
    const int32_t up[] = { 0, 1 }, down[] = { 1, 0 }, a[] = { 4, 2 }, b[] = { 1, 3 };
    world_step(w, 2, down, a, 1);
    world_step(w, 2, up, b, 1);
    world_step(w, 2, down, b, 1);
    world_compare(w);
    all_depths(w, 1);
    all_depths(w, 0);
}

/* 9: removal from every sequence at once, all or none. */
static void wildcard(world *w)
{
    const int32_t all[] = { 2, 0, 1 }, rows[] = { 8, 7, 9 }, one[] = { 1, 1, 1 };
    world_step(w, 3, all, rows, 1);
    WORLD_REQUIRE(w, world_rm(w, -1, 6, -1) == GDN_UNSUPPORTED || w->desc.n_rollback >= 3);
    world_compare(w);
    WORLD_REQUIRE(w, world_rm(w, -1, 7, -1) == GDN_OK);
    world_compare(w);
    world_step(w, 3, all, one, 1);
    world_compare(w);
    WORLD_REQUIRE(w, world_rm(w, -1, 0, -1) == GDN_OK && rt_memory_free_cells(w->m) == w->desc.n_cells);
    world_step(w, 3, all, one, 1);
    world_compare(w);
}

/* 10: without snapshots: rolling back is refused, and takes no memory. */
static void no_snapshots(world *w)
{
    const int32_t both[] = { 0, 1 }, rows[] = { 1, 1 };
    rt_memory_bytes bytes;
    WORLD_REQUIRE(w, rt_memory_size(&w->desc, &bytes) == GDN_OK && bytes.snapshots == 0);
    world_one(w, 0, 5);
    WORLD_REQUIRE(w, world_rm(w, 0, 4, -1) == GDN_UNSUPPORTED && world_rm(w, 0, 5, -1) == GDN_OK);
    world_one(w, 0, 1);
    world_cp(w, 0, 1);
    const rt_token_run spans[] = { { 0, 0, 1 }, { 1, 1, 1 } };
    WORLD_REQUIRE(w, rt_step_fit(w->m, spans, 2) ==
                         1); /* the second would need a third slot, while the first reads theirs */
    WORLD_REQUIRE(w, world_step(w, 2, both, rows, 1) == GDN_OK);
    WORLD_REQUIRE(w, rt_step_fit(w->m, spans, 2) == 2);
    world_compare(w);
    WORLD_REQUIRE(w, w->m->slots.n == w->desc.n_seqs && world_rm(w, 1, 0, -1) == GDN_OK);
    world_one(w, 1, 3);
    world_compare(w);
}

/* 14: what is refused changes nothing: attention is not trimmed where the state cannot be. */
static void refusals(world *w)
{
    rt_step *step;
    const rt_token_run bad[] = { { 9, 0, 1 }, { -1, 0, 1 }, { 0, 0, 0 }, { 0, 1, 1 }, { 0, 0, -3 } },
                       twice[] = { { 0, 0, 1 }, { 0, 1, 1 } };
    world_one(w, 0, 9);
    const uint64_t before = world_digest(w);
    WORLD_REQUIRE(w, world_rm(w, 0, 2, -1) == GDN_UNSUPPORTED && world_rm(w, 0, 2, 4) == GDN_UNSUPPORTED);
    WORLD_REQUIRE(w, rt_seq_rm(w->m, 9, 0, -1) && rt_seq_rm(w->m, 0, -1, -1) && rt_seq_cp(w->m, 0, 9) &&
                         rt_seq_cp(w->m, -1, 0));
    WORLD_REQUIRE(w, rt_seq_keep(w->m, -1) && rt_seq_keep(w->m, 9) && rt_seq_add(w->m, 9, 0, 1) &&
                         rt_draft_reserve(w->m, 9, 1, NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        WORLD_REQUIRE(w, rt_step_begin(w->m, &bad[i], 1, &step) == GDN_INVALID_ARGUMENT && !step);
    WORLD_REQUIRE(w, rt_step_begin(w->m, twice, 2, &step) && rt_step_begin(w->m, twice, 0, &step) &&
                         rt_step_begin(w->m, NULL, 1, &step));
    WORLD_REQUIRE(w, world_digest(w) == before);
    WORLD_REQUIRE(w, rt_step_begin(w->m, twice, 1, &step) == GDN_OK);
    rt_step *second;
    WORLD_REQUIRE(w, rt_step_begin(w->m, twice, 1, &second) == GDN_INVALID_ARGUMENT && !second);
    WORLD_REQUIRE(w, rt_seq_cp(w->m, 0, 1) && rt_seq_keep(w->m, 0) && rt_seq_add(w->m, 0, 0, 1) &&
                         rt_draft_reserve(w->m, 0, 1, NULL));
    WORLD_REQUIRE(w, rt_memory_save_size(w->m, 0) == 0 && rt_memory_save(w->m, 0, w, sizeof *w) &&
                         rt_memory_load(w->m, 0, w, sizeof *w));
    rt_step_cancel(w->m, step, 0);
    WORLD_REQUIRE(w, world_digest(w) == before);
    world_compare(w);
    world_one(w, 0, 1);
    world_compare(w);
    WORLD_REQUIRE(w, rt_step_begin(w->m, twice, 1, &step) == GDN_OK);
    world_clear(w); /* which ends the step */
    rt_step_commit(w->m, step);
    world_compare(w);
    world_one(w, 0, 2);
}

/* 16: one to eight sequences at once, each with its own tokens. */
static void many_sequences(world *w)
{
    int32_t seqs[8], rows[8];
    for (int32_t n = 1; n <= 8; n++) {
        world_clear(w);
        for (int round = 0; round < 3; round++) {
            for (int32_t i = 0; i < n; i++) {
                seqs[i] = (i * 3 + round) % n;
                for (int32_t k = 0; k < i; k++) /* a permutation where 3 and n share a factor, too */
                    if (seqs[k] == seqs[i]) {
                        seqs[i] = (seqs[i] + 1) % n;
                        k = -1;
                    }
                rows[i] = 1 + (i + round) % 4;
            }
            WORLD_REQUIRE(w, world_step(w, n, seqs, rows, 1) == GDN_OK);
            world_compare(w);
        }
    }
}

/* 18, 21: speculative and plain steps in turn; where the live state is must not matter. */
static void speculation(world *w)
{
    const int32_t both[] = { 0, 1 };
    int32_t rows[] = { 6, 6 };
    world_step(w, 2, both, rows, 1);
    for (int round = 0; round < 12; round++) {
        const int32_t n0 = w->t[0].n, n1 = w->t[1].n;
        rows[0] = round % 3 == 2 ? 1 : w->m->K;
        rows[1] = round % 2 ? 1 : 1 + w->desc.n_rollback;
        WORLD_REQUIRE(w, world_step(w, 2, both, rows, 1) == GDN_OK);
        world_rm(w, 0, n0 + 1 + round % rows[0], -1);
        world_rm(w, 1, n1 + 1, -1);
        world_compare(w);
    }
}

/* 20, 23: the draft head of every sequence has its own hidden rows, keys and values; drafts may be empty. */
static void drafting(world *w)
{
    const int32_t all[] = { 0, 1, 2 }, rows[] = { 5, 4, 6 }, verify[] = { 3, 1, 4 };
    world_step(w, 3, all, rows, 1);
    for (int32_t s = 0; s < 3; s++) world_catch_up(w, s);
    for (int round = 0; round < 4; round++) {
        for (int32_t s = 0; s < 3; s++) {
            const int32_t *cells;
            const int32_t n_free = rt_memory_free_cells(w->m);
            WORLD_REQUIRE(w, world_reserve(w, s, verify[s] - 1) == GDN_OK &&
                                 rt_memory_free_cells(w->m) == n_free - verify[s] + 1);
            WORLD_REQUIRE(w,
                          rt_draft_reserve(w->m, s, 1, &cells) == GDN_OK && cells == rt_seq_cells(w->m, s) + w->t[s].n);
            w->t[s].reserved += w->t[s].reserved == 0;
        }
        const int32_t reserved = rt_seq_cells(w->m, 2)[w->t[2].n];
        if (round == 1) world_step(w, 3, all, verify, 0);
        WORLD_REQUIRE(w,
                      world_step(w, 3, all, verify, 1) == GDN_OK && rt_seq_cells(w->m, 2)[w->t[2].n - 4] == reserved);
        world_compare(w);
        world_rm(w, 2, w->t[2].n - 2, -1);
        for (int32_t s = 0; s < 3; s++) world_catch_up(w, s);
        rt_hidden_put(w->m, 0, w->t[0].n - 1 - w->m->K, 0,
                      (float[W_EMBD]){ 0 }); /* too old, and what is to come: not kept */
        rt_hidden_put(w->m, 0, w->t[0].n - 1 + w->m->K, 0, (float[W_EMBD]){ 0 });
        rt_draft_set_length(w->m, 0, w->t[0].n + 9);
        world_compare(w);
    }
    world_reserve(w, 1, 3);
    world_reserve(w, 1, 0);
    world_compare(w);
    world_reserve(w, 1, 3);
    world_rm(w, 1, w->t[1].n, -1);
    world_compare(w);
    WORLD_REQUIRE(w, world_reserve(w, 0, w->desc.n_cells) == GDN_OUT_OF_MEMORY);
    world_reserve(w, 0, 4);
    world_cp(w, 0, 1);
    world_compare(w);
}

/* 26: rows of padding behind the last sequence change nothing. */
static void padded_steps(world *w)
{
    w->padding = 3;
    for (int i = 0; i < 4; i++) {
        const int32_t both[] = { 1, 0 }, rows[] = { 4, 1 };
        world_step(w, 2, both, rows, 1);
        world_compare(w);
    }
}

/* Positions: jumps stay with what follows them through rollbacks; shifting the whole leaves stored keys alone. */
static void positions(world *w)
{
    world_add(w, 0, 0, 5);
    world_one(w, 0, 6);
    WORLD_REQUIRE(w, rt_seq_position(w->m, 0, 0) == 5 && world_add(w, 0, 6, 100) == GDN_OK &&
                         rt_seq_position(w->m, 0, 6) == 111);
    world_one(w, 0, 2);
    world_rm(w, 0, 6, -1);
    WORLD_REQUIRE(w, rt_seq_position(w->m, 0, 6) == 111);
    world_one(w, 0, 1);
    WORLD_REQUIRE(w,
                  world_add(w, 0, 0, -3) == GDN_OK && rt_seq_position(w->m, 0, 0) == 2 && rt_seq_rope(w->m, 0, 0) == 5);
    WORLD_REQUIRE(w, world_add(w, 0, 3, 1) == GDN_UNSUPPORTED &&
                         rt_seq_add(w->m, 0, 7, INT32_MAX) == GDN_INVALID_ARGUMENT);
    WORLD_REQUIRE(w, rt_seq_add(w->m, 0, 0, INT32_MIN) == GDN_INVALID_ARGUMENT && rt_seq_rope(w->m, 0, -1) == -1);
    world_cp(w, 0, 1);
    world_one(w, 1, 1);
    world_compare(w);
    world_rm(w, 0, 0, -1);
    WORLD_REQUIRE(w, rt_seq_position(w->m, 0, 0) == 0);
    world_compare(w);
}

static const test_case cases[] = {
    { "single tokens, then every rollback (1)", single_tokens, 2, 3, STATE_BREAKS | CONV_BREAKS | BIT(BREAK_CELL) },
    { "a whole batch rolled back (2)", whole_batch, 2, 3,
      STATE_BREAKS | BIT(BREAK_NO_DST) | CONV_BREAKS | BIT(BREAK_CELL) },
    { "pieces of any size (3, 15)", pieces, 2, 4, STATE_BREAKS | CONV_BREAKS | BIT(BREAK_CELL) | BIT(BREAK_CELLS) },
    { "rollback after rollback (4)", again_and_again, 2, 3, STATE_BREAKS | BIT(BREAK_NO_DST) | CONV_BREAKS },
    { "steps that fail (5)", failing_steps, 2, 3, STATE_BREAKS | CONV_BREAKS },
    { "copies after a rollback (6)", copies, 3, 2, STATE_BREAKS | CONV_BREAKS | BIT(BREAK_CELL) },
    { "copies without snapshots (6)", copies, 3, 0, BIT(BREAK_SRC) | CONV_BREAKS },
    { "an idle sequence between (7)", idle_between, 3, 3,
      STATE_BREAKS | BIT(BREAK_SEQ) | CONV_BREAKS | BIT(BREAK_CELL) | BIT(BREAK_CELLS) },
    { "reverse order (8)", reversed, 2, 3, STATE_BREAKS | BIT(BREAK_SEQ) | CONV_BREAKS | BIT(BREAK_CELLS) },
    { "wildcards (9)", wildcard, 3, 2, STATE_BREAKS | BIT(BREAK_SEQ) | CONV_BREAKS },
    { "no snapshots (10)", no_snapshots, 2, 0, BIT(BREAK_SRC) | CONV_BREAKS | BIT(BREAK_CELL) },
    { "the convolution rolls back with the state (13)", again_and_again, 1, 3, BIT(BREAK_CONV_POS) },
    { "refusals change nothing (14)", refusals, 3, 3, STATE_BREAKS | CONV_BREAKS },
    { "one to eight sequences (16, 17)", many_sequences, 8, 2,
      STATE_BREAKS | BIT(BREAK_SEQ) | CONV_BREAKS | BIT(BREAK_CELL) },
    { "speculative and plain steps in turn (18, 21)", speculation, 2, 3, STATE_BREAKS | BIT(BREAK_SEQ) | CONV_BREAKS },
    { "drafting in every sequence (20, 23)", drafting, 3, 3, STATE_BREAKS | CONV_BREAKS | BIT(BREAK_CELL) },
    { "padding (26)", padded_steps, 2, 2, STATE_BREAKS | BIT(BREAK_PADDING) | CONV_BREAKS },
    { "positions", positions, 2, 3, BIT(BREAK_CELL) },
};

/* How often a control's broken map was noticed, over the steps it could be broken in: at least once, in each case. */
static int notices(const test_case *c, breakage what, int32_t n_steps, int32_t *tried)
{
    int noticed = 0;
    for (int32_t at = 0; at < n_steps; at++) {
        world w;
        if (!world_open(&w, c->n_seqs, 64, c->n_rollback, GDN_F16, 7)) return 0;
        w.break_what = what;
        w.break_at = at;
        w.quiet = 1;
        c->run(&w);
        world_compare(&w);
        noticed += w.differences > 0;
        (*tried)++;
        world_close(&w);
    }
    return noticed;
}

void test_memory_cases(world *sum)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        if (!world_open(&w, cases[i].n_seqs, 64, cases[i].n_rollback, GDN_F16, 7)) return;
        cases[i].run(&w);
        world_compare(&w);
        const int32_t n_steps = w.n_steps, differences = w.differences;
        world_close(&w);
        int32_t tried = 0, noticed = 0;
        for (int b = 1; b < BREAK_COUNT; b++) {
            if (!(cases[i].must_notice & BIT(b))) continue;
            const int found = notices(&cases[i], (breakage)b, n_steps < 6 ? n_steps : 6, &tried);
            noticed += found;
            if (!found) world_differ(sum, "%s: breakage %d was not noticed", cases[i].name, b);
        }
        printf("%-50s %s, %d of %d broken maps noticed\n", cases[i].name, differences ? "FAILED" : "ok", noticed,
               tried);
        sum->differences += differences;
    }
}

int main(int argc, char **argv)
{
    static world sum;
    uint64_t seed = 1;
    double seconds = 3;
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 0);
        if (!strcmp(argv[i], "--seconds")) seconds = strtod(argv[i + 1], NULL);
    }
    test_memory_cases(&sum);
    test_memory_saves(&sum);
    test_memory_random(&sum, seed, seconds);
    world_close_context();
    if (world_alloc.live) world_differ(&sum, "%lld buffers were not freed", (long long)world_alloc.live);
    REQUIRE(!sum.differences, "%d", sum.differences);
    return test_summary();
}
