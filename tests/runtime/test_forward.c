/* The forward pass against HF transformers, on golden files made by scripts/make_tiny_models.py. Compared are logits,
 * the residual stream after every layer, the normed output, and the draft head's logits and hidden rows. The bound is
 * 1e-4 of each array's range; files with quantised weights have a wider one, as activations are rounded to 8 bits
 * there.
 *
 * The trained model is compared with HF transformers and tokenizers, too: tokens of texts, logits, and which token is
 * likeliest. Choices are compared where HF's two best are not close.
 *
 *   test_forward FOLDER      the folder that has fixtures/; the trained model is in ../../models */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"
#include "runtime/decode/engine_internal.h" /* the draft head's logits have no public function */
#include "tests/golden/golden.h"

/* Largest less smallest. */
static double golden_range(const float *x, int64_t n)
{
    double low = x[0], high = x[0];
    for (int64_t i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    return high - low;
}

/* Where the first of the largest is. */
static int32_t golden_largest(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) best = x[i] > x[best] ? i : best;
    return best;
}

/* ---- Comparing ---- */

typedef struct comparison {
    double worst, tolerance; /* worst: |difference| over the range, of all that was compared */
    double squares;
    int64_t n;
} comparison;

static void compare(comparison *c, const float *got, const float *expected, int64_t n, double range, const char *what,
                    int32_t at)
{
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)got[i] - (double)expected[i]) / range;
        if (!(d <= c->worst)) c->worst = d;
        c->squares += d * d;
        REQUIRE(d <= c->tolerance, "%s[%d][%lld]: %.9g, expected %.9g: %.3g of the range", what, (int)at, (long long)i,
                (double)got[i], (double)expected[i], d);
    }
    c->n += n;
}

/* ---- The trunk ---- */

typedef struct tapped {
    const gdng_file *g;
    comparison *c;
    int32_t first, n_layer, seen;
} tapped;

static void tap(void *user, int32_t layer, const float *rows, int32_t n_rows, int32_t n_embd,
                const int32_t *row_of_batch)
{
    tapped *t = user;
    if (layer < 0 || layer > t->n_layer) return;
    const gdng_tensor *a = gdng_find(t->g, layer == t->n_layer ? "final" : "hidden");
    const int64_t all = a->dims[a->ndim - 2] * n_embd;
    const float *of = (const float *)a->data + (layer == t->n_layer ? 0 : layer * all);
    for (int32_t i = 0; i < n_rows; i++, t->seen++)
        compare(t->c, rows + (int64_t)i * n_embd, of + (int64_t)(t->first + row_of_batch[i]) * n_embd, n_embd,
                golden_range(of, all), layer == t->n_layer ? "final" : "hidden", layer);
}

static float end_logits[4][512]; /* after the last token, by digits */

/* All tokens, in calls of `chunk` and micro-batches of n_batch. */
static void trunk(const rt_model *model, const gdng_file *g, comparison *c, int32_t chunk, int32_t n_batch,
                  int32_t digits)
{
    const gdng_tensor *tokens = gdng_find(g, "tokens"), *logits = gdng_find(g, "logits");
    const int32_t n = (int32_t)tokens->dims[0], V = model->hp.n_vocab;
    NEED(logits && logits->dims[0] == n && logits->dims[1] == V &&
         gdng_find(g, "hidden")->dims[0] == model->hp.n_layer && n <= 64);
    const double range = golden_range(logits->data, (int64_t)n * V);
    rt_engine *e = fixture_open(model, &(fixture_engine){ .n_batch = n_batch, .n_rollback = 2, .digits = digits });
    tapped t = { g, c, 0, model->hp.n_layer, 0 };
    rt_engine_tap(e, tap, &t);
    int32_t seq[64] = { 0 };
    uint8_t all[64];
    memset(all, 1, sizeof all);
    for (int32_t p = 0; p < n; p += chunk) {
        const int32_t rows = n - p < chunk ? n - p : chunk;
        const rt_batch batch = { rows, (const int32_t *)tokens->data + p, seq, all };
        t.first = p;
        NEED(!rt_engine_decode(e, &batch));
        for (int32_t i = 0; i < rows; i++)
            compare(c, rt_engine_logits(e, i), (const float *)logits->data + (int64_t)(p + i) * V, V, range, "logits",
                    p + i);
        NEED(V <= 512);
        memcpy(end_logits[digits], rt_engine_logits(e, rows - 1), 4 * (size_t)V);
    }
    REQUIRE(t.seen == n * (model->hp.n_layer + 1)); /* every layer was looked at */
    rt_engine_destroy(e);
}

/* ---- The draft head ---- */

static void draft_head(const rt_model *model, const gdng_file *g, comparison *c)
{
    const gdng_tensor *tokens = gdng_find(g, "tokens"), *first = gdng_find(g, "mtp_logits"),
                      *first_hidden = gdng_find(g, "mtp_hidden");
    const gdng_tensor *from = gdng_find(g, "draft_from"), *drafts = gdng_find(g, "draft_tokens"),
                      *logits = gdng_find(g, "draft_logits"), *hidden = gdng_find(g, "draft_hidden");
    NEED(first && first_hidden && from && drafts && logits && hidden);
    const int32_t *token = tokens->data, n = (int32_t)tokens->dims[0], V = model->hp.n_vocab, E = model->hp.n_embd,
                  depth = (int32_t)drafts->dims[1];
    const double range = golden_range(first->data, (int64_t)n * V),
                 hidden_range = golden_range(first_hidden->data, (int64_t)n * E);
    int32_t seq[64] = { 0 }, got[8], n_got;
    rt_engine *e = fixture_open(model, &(fixture_engine){ .n_batch = 13, .n_rollback = depth, .draft = 1 });
    rt_memory *m = rt_engine_memory(e);
    /* every position, one draft each, as the text grows: the head has caught up by what the trunk gave */
    for (int32_t p = 0; p < n; p++) {
        const rt_draft_request ask = { 0, token[p], 1 };
        const rt_batch batch = { 1, token + p, seq, NULL };
        NEED(!rt_draft_mtp(e, &ask, 1, 1, 0.0f, got, &n_got));
        REQUIRE(n_got == 1);
        compare(c, e->draft_logits, (const float *)first->data + (int64_t)p * V, V, range, "mtp_logits", p);
        compare(c, e->draft_feed, (const float *)first_hidden->data + (int64_t)p * E, E, hidden_range, "mtp_hidden", p);
        NEED(!rt_engine_decode(e, &batch));
    }
    /* the same with windows as long as the snapshots reach, of which only the first token is kept: the head must not
     * need output rows that are gone */
    NEED(!rt_memory_seq_rm(m, 0, 0, -1));
    for (int32_t p = 0; p < n; p++) {
        const rt_draft_request ask = { 0, token[p], depth };
        int32_t window[9] = { token[p] };
        NEED(!rt_draft_mtp(e, &ask, 1, depth, 0.0f, got, &n_got));
        REQUIRE(n_got == depth && got[0] == golden_largest((const float *)first->data + (int64_t)p * V, V));
        memcpy(window + 1, got, 4 * (size_t)depth);
        const rt_batch batch = { depth + 1, window, seq, NULL };
        NEED(!rt_engine_decode(e, &batch) && !rt_memory_seq_rm(m, 0, p + 1, -1));
    }
    /* a few positions, deeper; the head reads the whole text at once */
    for (int32_t i = 0; i < from->dims[0]; i++)
        for (int32_t d = 1; d <= depth; d++) {
            const int32_t p = ((const int32_t *)from->data)[i];
            const rt_draft_request ask = { 0, token[p], d };
            const rt_batch batch = { p, token, seq, NULL };
            NEED(!rt_memory_seq_rm(m, 0, 0, -1) && (!p || !rt_engine_decode(e, &batch)) &&
                 !rt_draft_mtp(e, &ask, 1, d, 0.0f, got, &n_got));
            REQUIRE(n_got == d && !memcmp(got, (const int32_t *)drafts->data + (int64_t)i * depth, 4 * (size_t)d));
            compare(c, e->draft_logits, (const float *)logits->data + ((int64_t)i * depth + d - 1) * V, V, range,
                    "draft_logits", p);
            compare(c, e->draft_feed, (const float *)hidden->data + ((int64_t)i * depth + d - 1) * E, E, hidden_range,
                    "draft_hidden", p);
        }
    rt_engine_destroy(e);
}

/* ---- The trained model ---- */

static void texts(const rt_tokenizer *t, const gdng_file *g)
{
    int n_texts = 0;
    for (int i = 0;; i++, n_texts++) {
        char name[32], bytes[256];
        (void)snprintf(name, sizeof name, "text_%d", i);
        const gdng_tensor *text = gdng_find(g, name);
        (void)snprintf(name, sizeof name, "tokens_%d", i);
        const gdng_tensor *tokens = gdng_find(g, name);
        if (!text) break;
        NEED(tokens && text->dims[0] <= 256);
        for (int32_t c = 0; c < text->dims[0]; c++) bytes[c] = (char)((const int32_t *)text->data)[c];
        int32_t got[256];
        int64_t n;
        NEED(!rt_tokenize(t, bytes, (uint64_t)text->dims[0], RT_PARSE_SPECIAL, got, 256, &n));
        REQUIRE(n == tokens->dims[0] && !memcmp(got, tokens->data, 4 * (size_t)n));
    }
    REQUIRE(n_texts >= 10);
    printf("%d texts\n", n_texts);
}

static void choices(const rt_model *model, const gdng_file *g)
{
    const gdng_tensor *tokens = gdng_find(g, "tokens"), *best = gdng_find(g, "best"), *margin = gdng_find(g, "margin"),
                      *rows = gdng_find(g, "rows"), *logits = gdng_find(g, "logits");
    const int32_t V = model->hp.n_vocab;
    NEED(tokens && best && margin && rows && logits && tokens->dims[0] == 96 && best->dims[0] == 96 &&
         logits->dims[1] == V);
    rt_engine *e = fixture_open(model, &(fixture_engine){ .n_batch = 40 });
    int32_t seq[96] = { 0 }, n_clear = 0;
    uint8_t all[96];
    memset(all, 1, sizeof all);
    const rt_batch batch = { 96, tokens->data, seq, all };
    NEED(!rt_engine_decode(e, &batch));
    for (int32_t i = 0; i < 96; i++) {
        if (((const float *)margin->data)[i] < 0.5f) continue;
        REQUIRE(golden_largest(rt_engine_logits(e, i), V) == ((const int32_t *)best->data)[i]);
        n_clear++;
    }
    comparison c = { .tolerance = 0.01 };
    for (int32_t i = 0; i < rows->dims[0]; i++) {
        const float *expected = (const float *)logits->data + (int64_t)i * V;
        const int32_t row = ((const int32_t *)rows->data)[i];
        compare(&c, rt_engine_logits(e, row), expected, V, golden_range(expected, V), "logits", row);
    }
    REQUIRE(n_clear >= 40);
    printf("%d clear choices, logits within %.2e of their range\n", (int)n_clear, c.worst);
    rt_engine_destroy(e);
}

static void trained_model(const char *folder)
{
    gdng_file g;
    rt_tokenizer *tokenizer;
    gdng_load(&g, folder, "fixtures/kjv-small.golden");
    rt_model *model = fixture_model(folder, "../../models/kjv-small-q8_0.gguf");
    NEED(!rt_tokenizer_create(model->file, NULL, &tokenizer));
    texts(tokenizer, &g);
    choices(model, &g);
    rt_tokenizer_destroy(tokenizer);
    rt_model_free(model);
    free(g.block);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        double tolerance;
    } files[] = {
        { "tiny-qwen35", 1e-4 },    { "tiny-qwen35-d128", 1e-4 },  { "tiny-qwen35moe", 1e-4 },
        { "tiny-qwen3next", 1e-4 }, { "tiny-qwen35-mixed", 0.08 }, /* quantised: the mean is bounded below */
    };
    NEED(argc == 2);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char name[64];
        gdng_file g;
        comparison c = { 0, files[i].tolerance, 0, 0 }, draft = c, three = c;
        comparison two = { 0, 50 * files[i].tolerance, 0, 0 };
        (void)snprintf(name, sizeof name, "fixtures/%s.golden", files[i].name);
        gdng_load(&g, argv[1], name);
        (void)snprintf(name, sizeof name, "fixtures/%s.gguf", files[i].name);
        rt_model *model = fixture_model(argv[1], name);
        trunk(model, &g, &c, 64, 64, 0);
        trunk(model, &g, &c, 1, 64, 0);
        trunk(model, &g, &c, 7, 64, 0);
        trunk(model, &g, &c, 64, 5, 0);
        trunk(model, &g, &two, 7, 64, 2);
        trunk(model, &g, &three, 64, 5, 3);
        const size_t row = 4 * (size_t)model->hp.n_vocab;
        REQUIRE(memcmp(end_logits[0], end_logits[2], row) && memcmp(end_logits[0], end_logits[3], row) &&
                memcmp(end_logits[2], end_logits[3], row)); /* three forms, three results */
        if (model->hp.n_mtp) draft_head(model, &g, &draft);
        const double mean = sqrt(c.squares / (double)c.n);
        REQUIRE(mean < 0.1 * c.tolerance);
        printf("%-20s trunk %.2e of the range (mean %.1e), %lld values", files[i].name, c.worst, mean, (long long)c.n);
        if (model->hp.n_mtp) printf("; draft head %.2e, %lld values", draft.worst, (long long)draft.n);
        printf("; chunked form %.2e, with 2 digits %.2e\n", three.worst, two.worst);
        rt_model_free(model);
        free(g.block);
    }
    trained_model(argv[1]);
    return test_summary();
}
