/* See engine_fixture.h. */
#include "engine_fixture.h"

#include <stdlib.h>
#include <string.h>

const char *fixture_path(const char *folder, const char *name)
{
    static char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

rt_model *fixture_model(const char *folder, const char *name)
{
    rt_model *model;
    NEED(!rt_model_load(fixture_path(folder, name), NULL, &model), "%s", name);
    return model;
}

const char *const fixture_tiny[FIXTURE_TINY] = { "tiny-qwen35.gguf", "tiny-qwen35moe.gguf", "tiny-qwen3next.gguf" };

rt_model *fixture_tiny_model(const char *folder, int i)
{
    char name[64];
    (void)snprintf(name, sizeof name, "fixtures/%s", fixture_tiny[i]);
    return fixture_model(folder, name);
}

rt_engine *fixture_open(const rt_model *model, const fixture_engine *with)
{
    const rt_engine_desc d =
        FIELDS(.model = model, .backend = with->backend, .isa = with->isa,
               .n_threads = with->n_threads ? with->n_threads : 1, .n_seqs = with->n_seqs ? with->n_seqs : 1,
               .n_ctx = with->n_ctx ? with->n_ctx : 128, .n_cells = with->n_cells, .n_prefixes = with->n_prefixes,
               .prefix_interval = with->prefix_interval, .n_batch = with->n_batch ? with->n_batch : 64,
               .n_rollback = with->n_rollback, .rollback = with->rollback, .commit_after = with->commit_after,
               .draft_vocab = with->draft_vocab, .digits = with->digits, .draft = with->draft,
               .kv_type = with->kv_type /* 0: GDN_F32 */);
    rt_engine *e;
    NEED(!rt_engine_create(&d, &e));
    return e;
}

rt_scheduler *fixture_schedule(const rt_model *model, const fixture_engine *with, const rt_scheduler_desc *like,
                               rt_engine **engine)
{
    rt_scheduler_desc desc = *like;
    rt_scheduler *s;
    desc.engine = *engine = fixture_open(model, with);
    desc.n_parallel = with->n_seqs;
    NEED(!rt_scheduler_create(&desc, &s));
    return s;
}

void fixture_result(const rt_scheduler *s, int32_t id, fixture_stream *out)
{
    rt_result result;
    const int32_t *tokens = rt_scheduler_tokens(s, id, &out->n);
    NEED(!rt_scheduler_result(s, id, &result) && tokens && out->n <= FIXTURE_TOKENS);
    memcpy(out->token, tokens, 4 * (size_t)out->n);
    out->finish = result.finish;
    out->preempted = result.n_preempted;
    (void)snprintf(out->error, sizeof out->error, "%s", result.error ? result.error : "");
    REQUIRE((out->finish == RT_FINISH_FAILED) == (result.error != NULL));
}

int fixture_same(const fixture_stream *a, const fixture_stream *b)
{
    return a->n == b->n && a->finish == b->finish && !memcmp(a->token, b->token, 4 * (size_t)a->n);
}
