/* What the runtime makes of a model file, for tests in Python that know what it should be. Reads commands from standard
 * input, a line each, and answers with a line each:
 *
 *   logits PATH KV BATCH ROWS TOKEN...
 *       the logits after the last ROWS tokens, one after another; KV is f32, f16 or bf16, BATCH the rows of a
 *       micro-batch
 *   trunk PATH KV BATCH ROWS TOKEN...
 *       the same, loaded for engines that do not draft
 *   drafts PATH KV BATCH N TOKEN...
 *       up to N tokens that the MTP block drafts after the last token, which is not decoded yet
 *   text PATH HEX
 *       the tokens of a text, `;`, the tokens that end one, `;`, bos, and whether it is put in front. PATH may be `-`:
 *       that of the text before
 *
 *   notes PATH
 *       the keys that are named in notes
 *
 * An answer is `ok` with numbers, or `refused STATUS` with a text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/decode/engine.h"
#include "runtime/base/error.h"
#include "runtime/text/tokenizer.h"

enum { LINE = 1 << 22, MAX_TOKENS = 1 << 16, MAX_DRAFTS = 16 };

typedef struct order {
    char *what, *path;
    int32_t kv_type, n_batch, count, n;
    int32_t token[MAX_TOKENS];
} order;

static void refused(gdn_status status) { printf("refused %d %s\n", (int)status, rt_last_error()); }

static gdn_status draft(rt_engine *e, const order *o)
{
    int32_t drafted[MAX_DRAFTS], n = 0;
    static const int32_t seqs[MAX_TOKENS];
    static const uint8_t none[MAX_TOKENS];
    const rt_batch batch = { o->n - 1, o->token, seqs, none };
    const rt_draft_request request = { 0, o->token[o->n - 1], o->count };
    gdn_status status = rt_decode(e, &batch);
    if (!status) status = rt_draft_mtp(e, &request, 1, o->count, 0, drafted, &n);
    if (!status) {
        printf("ok");
        for (int32_t i = 0; i < n; i++) printf(" %d", (int)drafted[i]);
        printf("\n");
    }
    return status;
}

static gdn_status logits(rt_engine *e, const order *o, int32_t n_vocab)
{
    static uint8_t wanted[MAX_TOKENS];
    static int32_t seqs[MAX_TOKENS];
    for (int32_t i = 0; i < o->n; i++) wanted[i] = i >= o->n - o->count;
    const rt_batch batch = { o->n, o->token, seqs, wanted };
    const gdn_status status = rt_decode(e, &batch);
    if (status) return status;
    printf("ok");
    for (int32_t i = o->n - o->count; i < o->n; i++)
        for (int32_t v = 0; v < n_vocab; v++) printf(" %.9g", (double)rt_logits(e, i)[v]);
    printf("\n");
    return GDN_OK;
}

static void run_model(const order *o)
{
    rt_model *model = NULL;
    rt_engine *engine = NULL;
    const int trunk = !strcmp(o->what, "trunk");
    gdn_status status = trunk ? rt_model_load_trunk_within(o->path, NULL, &model) : rt_model_load(o->path, &model);
    if (!status) {
        rt_engine_desc d = { .model = model };
        d.n_threads = 1;
        d.n_seqs = 1;
        d.n_ctx = o->n + 16;
        d.n_batch = o->n_batch;
        d.kv_type = o->kv_type;
        d.draft = !strcmp(o->what, "drafts");
        d.n_rollback = d.draft ? o->count : 0;
        status = rt_engine_create(&d, &engine);
    }
    if (!status) status = strcmp(o->what, "drafts") ? logits(engine, o, model->hp.n_vocab) : draft(engine, o);
    if (status) refused(status);
    rt_engine_destroy(engine);
    rt_model_free(model);
}

static void run_notes(const char *path)
{
    rt_model *model = NULL;
    const char *why = NULL;
    const gdn_status status = rt_model_load(path, &model);
    if (status) {
        refused(status);
        return;
    }
    printf("ok");
    for (int64_t i = 0; (i = rt_next_noted_key(model->file, i, &why)) >= 0; i++) {
        const rt_string name = rt_gguf_key_at(model->file, i, NULL);
        printf(" %.*s", (int)name.bytes, name.text);
    }
    printf("\n");
    rt_model_free(model);
}

static void run_text(const char *path, const char *hex)
{
    static char text[LINE / 2];
    static int32_t tokens[LINE / 2];
    static rt_tokenizer *t;
    rt_gguf *file = NULL;
    int64_t count = 0;
    uint64_t n = 0;
    unsigned byte;
    for (; hex && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++) text[n] = (char)(unsigned char)byte;
    gdn_status status = GDN_OK;
    if (strcmp(path, "-")) {
        rt_tokenizer_destroy(t);
        t = NULL;
        status = rt_gguf_open(path, &file);
        if (!status) status = rt_tokenizer_create(file, &t);
        rt_gguf_close(file);
    }
    if (!status && !t) status = rt_fail(GDN_NOT_FOUND, "there is no text before");
    if (!status) status = rt_tokenize(t, text, n, 0, tokens, LINE / 2, &count);
    if (status) refused(status);
    else {
        printf("ok");
        for (int64_t i = 0; i < count; i++) printf(" %d", (int)tokens[i]);
        printf(" ;");
        for (int32_t i = 0; i < rt_tokenizer_n_tokens(t); i++)
            if (rt_tokenizer_is_end(t, i)) printf(" %d", (int)i);
        printf(" ; %d %d\n", (int)rt_tokenizer_bos(t), rt_tokenizer_add_bos(t));
    }
}

int main(void)
{
    static char line[LINE];
    static order o;
    while (fgets(line, sizeof line, stdin)) {
        o.what = strtok(line, " \n");
        o.path = strtok(NULL, " \n");
        if (!o.what || !o.path) return 2;
        if (!strcmp(o.what, "text")) {
            run_text(o.path, strtok(NULL, " \n"));
        } else if (!strcmp(o.what, "notes")) {
            run_notes(o.path);
        } else {
            const char *kv = strtok(NULL, " \n"), *batch = strtok(NULL, " \n"), *count = strtok(NULL, " \n");
            if (!kv || !batch || !count) return 2;
            o.kv_type = !strcmp(kv, "f32") ? GDN_F32 : !strcmp(kv, "f16") ? GDN_F16 : GDN_BF16;
            o.n_batch = (int32_t)strtol(batch, NULL, 10);
            o.count = (int32_t)strtol(count, NULL, 10);
            o.n = 0;
            for (char *token; (token = strtok(NULL, " \n")) && o.n < MAX_TOKENS;)
                o.token[o.n++] = (int32_t)strtol(token, NULL, 10);
            if (o.count < 1 || o.n < 1 || o.count > (strcmp(o.what, "drafts") ? o.n : MAX_DRAFTS)) return 2;
            run_model(&o);
        }
        (void)fflush(stdout);
    }
    return 0;
}
