/* Models with damaged weights. A request whose logits have a NaN or an infinity fails with a text and without a token
 * drawn from them. Other requests get the tokens of a sound model. Loading refuses what exceeds the memory budget. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"

enum { N_TOKENS = 12, MAX_REQUESTS = 4 };

/* The tiny model, in memory that can be damaged; kept until the program ends. */
static unsigned char *bytes;
static size_t n_bytes;

static rt_model *open_model(void)
{
    rt_gguf *file;
    rt_model *model;
    NEED(!rt_gguf_open_memory(bytes, n_bytes, NULL, &file));
    NEED(!rt_model_from_gguf(file, NULL, &model));
    return model;
}

/* Requests of prompts of 5 tokens each, at most `parallel` at once. */
static void generate(const rt_model *model, int32_t (*prompt)[5], int n, int32_t parallel, const rt_sampling *how,
                     fixture_stream *out)
{
    rt_engine *e;
    const rt_scheduler_desc like = { .spec = RT_SPEC_NGRAM, .draft_max = 2, .always = 1 };
    rt_scheduler *s =
        fixture_schedule(model, &(fixture_engine){ .n_seqs = parallel, .n_rollback = 2, .n_batch = 7 }, &like, &e);
    for (int i = 0; i < n; i++) {
        const rt_request r = { .prompt = prompt[i], .n_prompt = 5, .n_max = N_TOKENS, .sampling = *how };
        int32_t id;
        NEED(!rt_scheduler_submit(s, &r, &id) && id == i);
    }
    for (int busy = 1; busy;) NEED(!rt_scheduler_step(s, &busy));
    for (int i = 0; i < n; i++) fixture_result(s, i, &out[i]);
    rt_scheduler_destroy(s);
    rt_engine_destroy(e);
}

static int is_used(const fixture_stream *a, int n, int32_t token)
{
    int used = 0;
    for (int i = 0; i < n; i++)
        for (int32_t t = 0; t < a[i].n; t++) used |= a[i].token[t] == token;
    return used;
}

/* The embedding of a token that only one prompt has. */
static void test_one_of_many(const rt_sampling *how)
{
    int32_t prompt[MAX_REQUESTS][5] = {
        { 1, 2, 3, 4, 5 }, { 7, 8, 0, 8, 9 }, { 11, 12, 11, 12, 13 }, { 20, 21, 22, 23, 24 }
    };
    fixture_stream sound[MAX_REQUESTS], damaged[MAX_REQUESTS];
    rt_model *model = open_model();
    int32_t victim = 40;
    generate(model, prompt, MAX_REQUESTS, 2, how, sound);
    while (is_used(sound, MAX_REQUESTS, victim)) victim++;
    NEED(victim < model->hp.n_vocab && model->tok_embd.data != model->output.data);
    prompt[1][2] = victim;
    generate(model, prompt, MAX_REQUESTS, 2, how, sound);
    NEED(!is_used(sound, MAX_REQUESTS, victim));
    unsigned char *row = bytes + (model->tok_embd.data - bytes) + victim * model->tok_embd.row_bytes, kept[4];
    memcpy(kept, row, 4);
    memset(row, 0xFF, 4); /* a NaN, in each of the types */
    generate(model, prompt, MAX_REQUESTS, 2, how, damaged);
    memcpy(row, kept, 4);
    for (int i = 0; i < MAX_REQUESTS; i++) {
        REQUIRE(sound[i].n == N_TOKENS && sound[i].finish == RT_FINISH_LENGTH);
        if (i == 1)
            REQUIRE(!damaged[i].n && damaged[i].finish == RT_FINISH_FAILED &&
                    strstr(damaged[i].error, "after 5 tokens (5 of the prompt) the logit of token 0 is"));
        else
            REQUIRE(damaged[i].n == N_TOKENS && damaged[i].finish == RT_FINISH_LENGTH &&
                    fixture_same(&damaged[i], &sound[i]));
    }
    rt_model_free(model);
}

/* One row of the output matrix, so that one logit of each row is NaN, infinity or its negative; the highest and others.
 */
static void test_one_logit(const rt_sampling *how)
{
    static const unsigned char values[][2] = {
        { 0xC0, 0x7F }, { 0x80, 0x7F }, { 0x80, 0xFF }, { 0xC0, 0xFF }
    }; /* BF16 */
    int32_t prompt[1][5] = { { 1, 2, 3, 4, 5 } };
    rt_model *model = open_model();
    NEED(model->output.type == RT_BF16);
    unsigned char *row = bytes + (model->output.data - bytes) + 17 * model->output.row_bytes, kept[2];
    memcpy(kept, row, 2);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        fixture_stream a;
        memcpy(row, values[i], 2);
        generate(model, prompt, 1, 1, how, &a);
        REQUIRE(!a.n && a.finish == RT_FINISH_FAILED && strstr(a.error, "the logit of token 17 is"));
    }
    memcpy(row, kept, 2);
    rt_model_free(model);
}

/* Exactly what was counted is enough, and nothing less. */
static void test_budget(const char *folder)
{
    const char *const path = fixture_path(folder, "fixtures/tiny-qwen3next.gguf");
    rt_budget all = { 0, 0 }, reader = { 0, 0 };
    rt_gguf *file;
    rt_model *model = NULL;
    NEED(!rt_gguf_open(path, &reader, &file));
    rt_gguf_close(file);
    NEED(!rt_model_load(path, &all, &model));
    uint64_t vectors = 0;
    for (int64_t i = 0; i < rt_gguf_n_tensors(model->file); i++) {
        const rt_gguf_tensor *t = rt_gguf_tensor_at(model->file, i);
        vectors += t->n_dims == 1 ? 4 * (uint64_t)t->ne[0] : 0;
    }
    REQUIRE(vectors > 1000 && all.used >= reader.used + model->weight_bytes + vectors + 4 * sizeof(rt_layer));
    rt_model_free(model);
    for (uint64_t less = 1; less < all.used; less += less / 8 + 1) {
        rt_budget b = { all.used - less, 0 };
        REQUIRE(rt_model_load(path, &b, &model) == GDN_OUT_OF_MEMORY && !model &&
                strstr(rt_last_error(), "not enough memory: "));
        REQUIRE(b.used <= b.limit);
    }
    rt_budget b = { all.used, 0 };
    REQUIRE(!rt_model_load(path, &b, &model) && b.used == all.used);
    rt_model_free(model);
}

int main(int argc, char **argv)
{
    const rt_sampling greedy = { 0, 0, 1, 0, 1, 0, 1 }, warm = { 0.9f, 20, 0.95f, 0.01f, 1.1f, 8, 3 };
    if (argc != 2) return 2;
    bytes = test_file(argv[1], "fixtures/tiny-qwen3next.gguf", &n_bytes);
    test_one_of_many(&greedy);
    test_one_of_many(&warm);
    test_one_logit(&greedy);
    test_one_logit(&warm);
    test_budget(argv[1]);
    free(bytes);
    return test_summary();
}
