/* A few tokens of a model, and what its logits were to the bit: decode MODEL... Every build of the runtime prints the
 * same. */
#include <stdio.h>

#include "runtime/decode/engine.h"
#include "runtime/base/error.h"

enum { N_PROMPT = 7, N_TOKENS = 20 };

/* FNV-1a over the bytes. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return h;
}

static gdn_status decode(const char *path, rt_model *model, rt_engine *engine)
{
    const int32_t n_vocab = model->hp.n_vocab, seq[N_PROMPT] = { 0 };
    int32_t token[N_PROMPT];
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int32_t i = 0; i < N_PROMPT; i++) token[i] = (i * 37 + 5) % n_vocab;
    printf("%s:", path);
    for (int32_t i = 0, n = N_PROMPT; i < N_TOKENS; i++, n = 1) {
        const rt_batch batch = { n, token, seq, NULL };
        const gdn_status status = rt_engine_decode(engine, &batch);
        if (status) return status;
        const float *logits = rt_engine_logits(engine, n - 1);
        h = hash(h, logits, sizeof *logits * (size_t)n_vocab);
        rt_top_k(logits, n_vocab, 1, token);
        printf(" %d", (int)token[0]);
    }
    printf(" %016llx\n", (unsigned long long)h);
    return GDN_OK;
}

static gdn_status run(const char *path)
{
    rt_model *model = NULL;
    rt_engine *engine = NULL;
    gdn_status status = rt_model_load(path, NULL, &model);
    if (!status) {
        const rt_engine_desc desc = { .model = model, .n_threads = 2, .n_ctx = 64 };
        status = rt_engine_create(&desc, &engine);
    }
    if (!status) status = decode(path, model, engine);
    rt_engine_destroy(engine);
    rt_model_free(model);
    return status;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (run(argv[i])) {
            fprintf(stderr, "%s: %s\n", argv[i], rt_last_error());
            return 1;
        }
    return 0;
}
