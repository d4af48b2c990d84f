/* The draft head, with engines that draft and engines that do not: what each keeps, and what goes from one to the
 * other. How far the head catches up, and how many of its passes serve many sequences.
 *
 *   test_drafts FOLDER    the folder that has fixtures/ */
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"

enum { R = 3, CONTEXT = 96, LONG = 70 };

static rt_engine *open_engine(const rt_model *model, int32_t n_seqs, int32_t draft)
{
    return fixture_open(model, &(fixture_engine){ .n_seqs = n_seqs,
                                                  .n_ctx = CONTEXT,
                                                  .n_batch = 64,
                                                  .n_rollback = R,
                                                  .draft = draft,
                                                  .n_prefixes = 1,
                                                  .prefix_interval = CONTEXT + 1 });
}

static void make_text(const rt_model *model, uint64_t seed, int32_t *token)
{
    for (int32_t i = 0; i < CONTEXT; i++) token[i] = (int32_t)(test_random(&seed) % (uint64_t)model->hp.n_vocab);
}

static void read_text(rt_engine *e, int32_t seq, const int32_t *token, int32_t n, int no_follow)
{
    int32_t of[CONTEXT];
    for (int32_t i = 0; i < n; i++) of[i] = seq;
    const rt_batch batch = { n, token, of, NULL, no_follow };
    NEED(!rt_engine_decode(e, &batch));
}

/* Drafts of one sequence, and the rows of the draft head that they took. */
static int32_t drafts(rt_engine *e, int32_t seq, int32_t token, int32_t *draft, uint64_t *rows)
{
    const rt_draft_request ask = { seq, token, R };
    const uint64_t before = rt_engine_counters(e).draft_rows;
    int32_t n = -1;
    NEED(!rt_draft_mtp(e, &ask, 1, R, 0.0f, draft, &n));
    *rows = rt_engine_counters(e).draft_rows - before;
    return n;
}

/* Rows that the head did not follow are read when drafts are asked for, with the same drafts, where they are few; where
 * they are many, no more than RT_HIDDEN_ROWS. */
static void lags(const rt_model *model)
{
    int32_t text[CONTEXT], draft[R], other[R];
    uint64_t rows;
    make_text(model, 1, text);
    for (int32_t lag = 1; lag < LONG; lag += lag < 28 || lag > 34 ? 5 : 1) {
        rt_engine *e = open_engine(model, 2, 1);
        read_text(e, 0, text, LONG, 0);
        read_text(e, 1, text, LONG - lag, 0);
        const uint64_t before = rt_engine_counters(e).draft_rows;
        read_text(e, 1, text + LONG - lag, lag, 1);
        REQUIRE(rt_engine_counters(e).draft_rows == before); /* nothing while it is declined */
        REQUIRE(drafts(e, 0, 1, draft, &rows) == R && drafts(e, 1, 1, other, &rows) == R);
        REQUIRE(rows <= RT_HIDDEN_ROWS + R - 1);
        REQUIRE(rt_memory_draft_length(rt_engine_memory(e), 1) == LONG);
        const int32_t from = rt_memory_draft_from(rt_engine_memory(e), 1);
        REQUIRE(lag < 2 ? !from : from == 0 || from == LONG + 1 - RT_HIDDEN_ROWS);
        REQUIRE(from || !memcmp(draft, other, sizeof draft));
        REQUIRE((from > 0) == (rt_memory_draft_length(rt_engine_memory(e), 1) - from < LONG));
        rt_engine_destroy(e);
    }
}

static unsigned char saved[1 << 20];
static uint64_t n_saved;
static gdn_status append(void *user, const void *bytes, uint64_t n)
{
    (void)user;
    NEED(n_saved + n <= sizeof saved);
    memcpy(saved + n_saved, bytes, n);
    n_saved += n;
    return GDN_OK;
}

/* Sequence 0 of `from`, which has these tokens, goes to the empty engine `to`. */
static void move(rt_engine *from, rt_engine *to, const int32_t *token, int32_t n)
{
    rt_memory *a = rt_engine_memory(from), *b = rt_engine_memory(to);
    rt_prefix_saved loaded;
    int32_t length;
    n_saved = 0;
    NEED(!rt_memory_prefix_keep(a, 0) && !rt_memory_prefix_save_one(a, 0, token, n, append, NULL));
    NEED(!rt_memory_prefix_load(b, 0, saved, n_saved, &loaded) && loaded.n == 1);
    NEED(!rt_memory_prefix_start(b, 0, token, n, &length) && length == n);
}

/* A head that begins anew looks at nothing before: what lies in its cells there does not matter. And where a
 * micro-batch has few rows, it reads no more. */
static void anew(const rt_model *model)
{
    int32_t text[CONTEXT], draft[2][R];
    uint64_t rows;
    make_text(model, 5, text);
    for (int poison = 0; poison < 2; poison++) {
        rt_engine *a = open_engine(model, 1, 0), *b = open_engine(model, 1, 1);
        rt_memory *m = rt_engine_memory(b);
        const size_t bytes = (size_t)CONTEXT * 4 * (size_t)(model->hp.n_head_kv * model->hp.head_dim);
        read_text(a, 0, text, LONG, 0);
        memset(rt_memory_k(m, model->n_attention), poison ? 0x7E : 0, bytes);
        memset(rt_memory_v(m, model->n_attention), poison ? 0x7E : 0, bytes);
        move(a, b, text, LONG);
        read_text(b, 0, text, 1, 0);
        REQUIRE(drafts(b, 0, 1, draft[poison], &rows) == R && rt_memory_draft_from(m, 0) == LONG);
        rt_engine_destroy(a);
        rt_engine_destroy(b);
    }
    REQUIRE(!memcmp(draft[0], draft[1], sizeof draft[0]));
    for (int32_t length = 1; length < 12; length++) {
        rt_engine *e = fixture_open(model, &(fixture_engine){ .n_batch = R + 2, .n_rollback = R, .draft = 1 });
        read_text(e, 0, text, length, 1);
        REQUIRE(drafts(e, 0, 1, draft[0], &rows) == R && rows <= R + 2 + R - 1);
        REQUIRE((rt_memory_draft_from(rt_engine_memory(e), 0) > 0) == (length + 1 > R + 2));
        rt_engine_destroy(e);
    }
}

/* Sequences that grow side by side: what the head has to read is read for all of them at once. */
static void side_by_side(const rt_model *model)
{
    rt_engine *e = open_engine(model, 4, 1);
    const int32_t of[] = { 0, 1, 2, 3 }, token[] = { 1, 2, 3, 4 };
    const rt_batch batch = { 4, token, of, NULL, 0 };
    for (int i = 0; i < RT_HIDDEN_ROWS; i++) NEED(!rt_engine_decode(e, &batch));
    const rt_counters c = rt_engine_counters(e);
    REQUIRE(c.draft_rows == 4 * RT_HIDDEN_ROWS && c.draft_passes == 4 * RT_HIDDEN_ROWS / 64);
    rt_engine_destroy(e);
}

/* Four prompts of one batch: as few passes as micro-batches, and every row once. */
static void batched(const rt_model *model)
{
    rt_engine *e = open_engine(model, 4, 1);
    int32_t text[CONTEXT], token[4 * LONG], of[4 * LONG], draft[4 * R], n[4];
    make_text(model, 2, text);
    for (int32_t i = 0; i < 4 * LONG; i++) {
        of[i] = i % 4;
        token[i] = text[i / 4];
    }
    const rt_batch batch = { 4 * LONG, token, of, NULL, 0 };
    NEED(!rt_engine_decode(e, &batch));
    rt_counters c = rt_engine_counters(e);
    REQUIRE(c.steps == 5 && c.draft_passes > 0 && c.draft_passes <= c.steps && c.draft_rows <= 4 * LONG);
    const rt_draft_request ask[] = { { 0, 1, R }, { 1, 1, R }, { 2, 1, R }, { 3, 1, R } };
    NEED(!rt_draft_mtp(e, ask, 4, R, 0.0f, draft, n));
    const uint64_t passes = rt_engine_counters(e).draft_passes - c.draft_passes;
    REQUIRE(passes >= R && passes < R + 3); /* the catching up, and one for each drafted token behind the first */
    REQUIRE(rt_engine_counters(e).draft_rows == 4 * (LONG + 1 + R - 1));
    for (int i = 0; i < 4; i++) REQUIRE(n[i] == R && !memcmp(draft, draft + i * R, sizeof draft / 4));
    rt_engine_destroy(e);
}

/* A prefix of an engine without drafts, and of a model without its MTP block, continues with the same bits in an engine
 * with drafts. It drafts again from its end on. The reverse works as well. */
static void loads(const rt_model *model, const rt_model *trunk)
{
    int32_t text[CONTEXT], draft[R];
    uint64_t rows;
    make_text(model, 3, text);
    REQUIRE(trunk->hp.n_mtp == 0 && model->hp.n_mtp == 1 &&
            !memcmp(&trunk->fingerprint, &model->fingerprint, sizeof model->fingerprint) &&
            trunk->weight_bytes < model->weight_bytes);
    const struct {
        const rt_model *from, *to;
        int from_drafts, to_drafts;
    } ways[] = { { model, model, 0, 1 }, { trunk, model, 0, 1 }, { model, trunk, 1, 0 }, { model, model, 1, 1 } };
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int32_t length = 1; length < LONG; length += 23) {
            rt_engine *a = open_engine(ways[w].from, 1, ways[w].from_drafts),
                      *b = open_engine(ways[w].to, 1, ways[w].to_drafts);
            rt_memory *m = rt_engine_memory(b);
            read_text(a, 0, text, length, 0);
            if (ways[w].from_drafts) NEED(!rt_draft_catch_up(a, 0));
            move(a, b, text, length);
            for (int32_t i = length; i < length + 3; i++) {
                read_text(a, 0, text + i, 1, 0);
                read_text(b, 0, text + i, 1, 0);
                REQUIRE(rt_engine_logits(a, 0) &&
                        !memcmp(rt_engine_logits(a, 0), rt_engine_logits(b, 0), 4 * (size_t)model->hp.n_vocab));
                if (!ways[w].to_drafts) continue;
                REQUIRE(drafts(b, 0, text[i + 1], draft, &rows) == R && rows <= (uint64_t)length + 3 + R);
                REQUIRE(rt_memory_draft_from(m, 0) == (ways[w].from_drafts ? 0 : length) &&
                        rt_memory_draft_length(m, 0) == i + 1);
            }
            if (!ways[w].to_drafts) {
                const rt_draft_request ask = { 0, 1, R };
                int32_t none;
                REQUIRE(rt_draft_mtp(b, &ask, 1, R, 0.0f, draft, &none) == GDN_UNSUPPORTED);
            }
            REQUIRE(!rt_memory_seq_rm(m, 0, 0, -1) && rt_memory_draft_from(m, 0) == 0 &&
                    rt_memory_draft_length(m, 0) == 0);
            rt_engine_destroy(a);
            rt_engine_destroy(b);
        }
}

/* Where positions end, drafts end; the cells of an engine without drafts are the trunk's. */
static void limits(const rt_model *model, const rt_model *trunk)
{
    int32_t text[CONTEXT], draft[R];
    uint64_t rows, scratch;
    make_text(model, 4, text);
    rt_engine *e = fixture_open(
        model,
        &(fixture_engine){ .n_ctx = CONTEXT, .n_cells = CONTEXT + 8, .n_batch = 64, .n_rollback = R, .draft = 1 });
    rt_step *step;
    read_text(e, 0, text, 9, 0);
    NEED(!rt_memory_step_begin(rt_engine_memory(e), &(rt_token_run){ 0, 0, 1 }, 1, &step));
    rt_memory_step_commit(rt_engine_memory(e), step); /* its hidden row was not stored: nothing is fed */
    REQUIRE(drafts(e, 0, 1, draft, &rows) == 0 && rows == 0);
    NEED(!rt_memory_seq_rm(rt_engine_memory(e), 0, 0, -1));
    read_text(e, 0, text, CONTEXT - 1, 0);
    REQUIRE(drafts(e, 0, 1, draft, &rows) == R); /* the last of them is at the last position */
    read_text(e, 0, text, 1, 0);
    REQUIRE(drafts(e, 0, 1, draft, &rows) == 0 && rows == 0);
    rt_engine_destroy(e);

    rt_memory_bytes with, without, of_trunk;
    rt_engine_desc d = { .model = model, .n_seqs = 2, .n_ctx = 50, .n_threads = 1, .draft = 1, .kv_type = GDN_F16 };
    NEED(!rt_engine_size(&d, &with, &scratch));
    d.draft = 0;
    NEED(!rt_engine_size(&d, &without, &scratch));
    d.model = trunk;
    NEED(!rt_engine_size(&d, &of_trunk, &scratch));
    const uint64_t layer = UINT64_C(2) * 2 * 50 * 2 * (uint64_t)(model->hp.n_head_kv * model->hp.head_dim);
    REQUIRE(with.kv == layer * (uint64_t)(model->n_attention + 1) &&
            without.kv == layer * (uint64_t)model->n_attention);
    REQUIRE(with.hidden == 2 * RT_HIDDEN_ROWS * 4 * (uint64_t)model->hp.n_embd && without.hidden == 0);
    REQUIRE(!memcmp(&without, &of_trunk, sizeof without));
}

/* Drafts from a part of the vocabulary. The first draft is the likeliest token of that part, so it is the likeliest of
 * all where that is in the part. The head reads no other rows, and has no room for their logits. */
static void shortlist(const rt_model *model)
{
    enum { PARTS = 4, TEXTS = 24 };
    const int32_t V = model->hp.n_vocab, part[PARTS] = { 0, V + 1, V / 2, 1 };
    int32_t text[CONTEXT], draft[PARTS][R], inside = 0, outside = 0;
    uint64_t rows, scratch[PARTS];
    for (uint64_t seed = 20; seed < 20 + TEXTS; seed++) {
        make_text(model, seed, text);
        for (int i = 0; i < PARTS; i++) {
            rt_engine *e = fixture_open(
                model, &(fixture_engine){ .n_ctx = CONTEXT, .n_rollback = R, .draft = 1, .draft_vocab = part[i] });
            read_text(e, 0, text, 9, 0);
            REQUIRE(drafts(e, 0, 1, draft[i], &rows) == R);
            for (int32_t j = 0; j < R; j++) REQUIRE(draft[i][j] < (i < 2 ? V : part[i]));
            rt_engine_destroy(e);
        }
        REQUIRE(!memcmp(draft[0], draft[1], sizeof draft[0]));
        if (draft[0][0] < V / 2) {
            REQUIRE(draft[2][0] == draft[0][0]);
            inside++;
        } else outside++;
    }
    REQUIRE(inside > 0 && outside > 0);
    for (int i = 0; i < PARTS; i++) {
        rt_memory_bytes bytes;
        const rt_engine_desc d =
            FIELDS(.model = model, .n_seqs = 2, .n_ctx = 50, .draft = 1, .kv_type = GDN_F16, .draft_vocab = part[i]);
        NEED(!rt_engine_size(&d, &bytes, &scratch[i]));
    }
    REQUIRE(scratch[0] == scratch[1] && scratch[0] > scratch[2] && scratch[2] > scratch[3]);
}

/* What an engine refuses: numbers of its description, of a batch, and of requests for drafts. */
static void refusals(const rt_model *model)
{
    enum { MOST_CELLS = 1 << 26 };
    rt_memory_bytes bytes;
    uint64_t scratch;
#define DESC(says, change)                                                                                             \
    do {                                                                                                               \
        rt_engine_desc d = { .model = model, .n_seqs = 2, .n_ctx = 50, .draft = 1, .kv_type = GDN_F16 };               \
        d change;                                                                                                      \
        FAILS(rt_engine_size(&d, &bytes, &scratch), GDN_INVALID_ARGUMENT, says);                                       \
    } while (0)
    DESC("model is NULL", .model = NULL);
    DESC("n_seqs is -1; 1 to 4096", .n_seqs = -1);
    DESC("n_seqs is 4097; 1 to 4096", .n_seqs = 4097);
    DESC("n_rollback is 256; 0 to 255", .n_rollback = 256);
    DESC("n_ctx is 0; 1 to 67108864", .n_ctx = 0);
    DESC("n_ctx is 33554433 for each of 2 sequences; 67108864 KV cells", .n_ctx = MOST_CELLS / 2 + 1);
    DESC("n_cells is 49; 50 (n_ctx", .n_cells = 49);
    DESC("n_batch is 65537; 1 to 65536", .n_batch = 65537);
    DESC("n_prefixes is -1; 0 to 1048576", .n_prefixes = -1);
    DESC("rollback is 7;", .rollback = (rt_rollback)7);
    DESC("commit_after is 65537; 0 to 65536", .commit_after = 65537);
    DESC("draft_vocab is -1", .draft_vocab = -1);
    DESC("prefix_interval is -1", .prefix_interval = -1);
#undef DESC

    rt_engine *e = open_engine(model, 2, 1);
    const int32_t V = model->hp.n_vocab;
#define BATCH(says, n, t, s)                                                                                           \
    FAILS(rt_engine_decode(e, &(rt_batch){ n, (int32_t[]){ 1, t }, (int32_t[]){ 0, s }, NULL, 0 }),                    \
          GDN_INVALID_ARGUMENT, says)
    BATCH("n_rows is 0; at least 1", 0, 1, 0);
    BATCH("token[1] is -1; 0 to", 2, -1, 0);
    BATCH("allowed", 2, V, 0);
    BATCH("seq[1] is -1; 0 to 1", 2, 1, -1);
    BATCH("seq[1] is 2; 0 to 1", 2, 1, 2);
    FAILS(rt_engine_decode(e, &(rt_batch){ 1, NULL, (int32_t[]){ 0 }, NULL, 0 }), GDN_INVALID_ARGUMENT,
          "token is NULL");
    FAILS(rt_engine_decode(e, &(rt_batch){ 1, (int32_t[]){ 0 }, NULL, NULL, 0 }), GDN_INVALID_ARGUMENT, "seq is NULL");
#undef BATCH
    int32_t text[CONTEXT], draft[2 * R], n_draft[3];
    make_text(model, 3, text);
    read_text(e, 0, text, 5, 0);
    read_text(e, 1, text, 5, 0);
#define DRAFTS(says, n, ...)                                                                                           \
    FAILS(rt_draft_mtp(e, (rt_draft_request[3]){ { 0, 1, R }, __VA_ARGS__ }, n, R, 0.0f, draft, n_draft),              \
          GDN_INVALID_ARGUMENT, says)
    DRAFTS("n is -1; 0 to 2 requests", -1, { 1, 1, R });
    DRAFTS("n is 3; 0 to 2 requests", 3, { 1, 1, R });
    DRAFTS("request[1].seq is 2; 0 to 1", 2, { 2, 1, R });
    DRAFTS("request[1].token is -1; 0 to", 2, { 1, -1, R });
    DRAFTS("request[1].n_max is -1; 0 to 3", 2, { 1, 1, -1 });
    DRAFTS("request[1].n_max is 4; 0 to 3", 2, { 1, 1, R + 1 });
    DRAFTS("request[1].seq is 0, which request[0] has too", 2, { 0, 1, R });
#undef DRAFTS
    rt_engine_destroy(e);
    e = open_engine(model, 1, 0);
    FAILS(rt_draft_mtp(e, &(rt_draft_request){ 0, 1, R }, 1, R, 0.0f, draft, n_draft), GDN_UNSUPPORTED,
          "without draft");
    rt_engine_destroy(e);
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "fixtures/tiny-qwen35.gguf", "fixtures/tiny-qwen35moe.gguf" };
    NEED(argc >= 2);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        rt_model *model = fixture_model(argv[1], names[i]), *trunk = NULL;
        rt_budget all = { 0, 0 }, less = { 0, 0 };
        NEED(!rt_model_load_trunk(fixture_path(argv[1], names[i]), &less, &trunk));
        lags(model);
        anew(model);
        side_by_side(model);
        batched(model);
        loads(model, trunk);
        limits(model, trunk);
        shortlist(model);
        refusals(model);
        rt_model_free(model);
        NEED(!rt_model_load(fixture_path(argv[1], names[i]), &all, &model));
        REQUIRE(less.used <=
                all.used - (model->weight_bytes - trunk->weight_bytes)); /* what is not used is not counted */
        rt_model_free(model);
        rt_model_free(trunk);
    }
    return test_summary();
}
