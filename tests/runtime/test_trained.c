/* The trained model against HF transformers and tokenizers: tokens of texts, logits, and which token is likeliest. Its
 * weights are Q8_0, so activations are rounded to 8 bits here and not there: choices are compared where HF's two best
 * are not close, logits within a few percent of their range.
 *
 *   test_trained FOLDER      the folder that has fixtures/; the model is in ../../models */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"
#include "golden.h"

static void texts(const rt_tokenizer *t, const golden *g)
{
    int n_texts = 0;
    for (int i = 0;; i++, n_texts++) {
        char name[32], bytes[256];
        (void)snprintf(name, sizeof name, "text_%d", i);
        const golden_array *text = golden_find(g, name);
        (void)snprintf(name, sizeof name, "tokens_%d", i);
        const golden_array *tokens = golden_find(g, name);
        if (!text) break;
        NEED(tokens && text->dim[0] <= 256);
        for (int32_t c = 0; c < text->dim[0]; c++) bytes[c] = (char)((const int32_t *)text->data)[c];
        int32_t got[256];
        int64_t n;
        NEED(!rt_tokenize(t, bytes, (uint64_t)text->dim[0], RT_PARSE_SPECIAL, got, 256, &n));
        REQUIRE(n == tokens->dim[0] && !memcmp(got, tokens->data, 4 * (size_t)n));
    }
    REQUIRE(n_texts >= 10);
    printf("%d texts\n", n_texts);
}

static void choices(const rt_model *model, const golden *g)
{
    const golden_array *tokens = golden_find(g, "tokens"), *best = golden_find(g, "best"),
                       *margin = golden_find(g, "margin"), *rows = golden_find(g, "rows"),
                       *logits = golden_find(g, "logits");
    const int32_t V = model->hp.n_vocab;
    NEED(tokens && best && margin && rows && logits && tokens->dim[0] == 96 && best->dim[0] == 96 &&
         logits->dim[1] == V);
    rt_engine *e = fixture_open(model, &(fixture_engine){ .n_batch = 40 });
    int32_t seq[96] = { 0 }, n_clear = 0;
    uint8_t all[96];
    memset(all, 1, sizeof all);
    const rt_batch batch = { 96, tokens->data, seq, all };
    NEED(!rt_decode(e, &batch));
    for (int32_t i = 0; i < 96; i++) {
        if (((const float *)margin->data)[i] < 0.5f) continue;
        REQUIRE(golden_largest(rt_logits(e, i), V) == ((const int32_t *)best->data)[i]);
        n_clear++;
    }
    double worst = 0;
    for (int32_t i = 0; i < rows->dim[0]; i++) {
        const float *expected = (const float *)logits->data + (int64_t)i * V,
                    *got = rt_logits(e, ((const int32_t *)rows->data)[i]);
        const double range = golden_range(expected, V);
        for (int32_t v = 0; v < V; v++) {
            const double d = fabs((double)got[v] - (double)expected[v]) / range;
            worst = d > worst ? d : worst;
        }
    }
    REQUIRE(n_clear >= 40 && worst < 0.01);
    printf("%d clear choices, logits within %.2e of their range\n", (int)n_clear, worst);
    rt_engine_destroy(e);
}

int main(int argc, char **argv)
{
    golden g;
    NEED(argc == 2);
    golden_read(argv[1], "fixtures/kjv-small.golden", &g);
    rt_model *model = fixture_model(argv[1], "../../models/kjv-small-q8_0.gguf");
    rt_tokenizer *tokenizer;
    NEED(!rt_tokenizer_create(model->file, &tokenizer));
    texts(tokenizer, &g);
    choices(model, &g);
    rt_tokenizer_destroy(tokenizer);
    rt_model_free(model);
    golden_free(&g);
    return test_summary();
}
