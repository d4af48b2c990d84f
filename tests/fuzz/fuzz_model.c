/* Fuzz target: the whole way of a model file: the reader, the model, the tokenizer, the measure of what all takes, the
 * engine, some tokens from it. An input draws a tiny model (fuzz_model_build.c) and changes of its file. Each step
 * succeeds or is refused with a text. The measure refuses what does not fit into LIMIT, before it is allocated.
 * Allocations are wrapped: they are not more than was counted. */
#include "fuzz_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/tokenizer.h"
#include "runtime/base/error.h"
#include "runtime/serve/scheduler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *fuzz_outcome(void); /* how far the last input came; see driver.c */

enum {
    LIMIT = 8 << 20,
    UNCOUNTED = 96 << 10, /* descriptions of what there is once, and the kernels' workspace */
    MOST_STEPS = 400
};

static const char *outcome;
const char *fuzz_outcome(void) { return outcome; }

static void stop(const char *what)
{
    (void)fprintf(stderr, "fuzz_model: %s (%s)\n", what, rt_last_error());
    abort();
}

/* ---- What is allocated: the linker sends these calls here ---- */

void *__real_rt_calloc(uint64_t n, uint64_t size, const char *what);
void __real_rt_free(void *memory);
gdn_status __real_gdn_buffer_create(gdn_context *context, uint64_t bytes, gdn_span *span);
void __real_gdn_buffer_destroy(gdn_context *context, gdn_span *span);
void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what);
void __wrap_rt_free(void *memory);
gdn_status __wrap_gdn_buffer_create(gdn_context *context, uint64_t bytes, gdn_span *span);
void __wrap_gdn_buffer_destroy(gdn_context *context, gdn_span *span);

static uint64_t live, most;

static void count(uint64_t bytes)
{
    live += bytes;
    most = live > most ? live : most;
}

void *__wrap_rt_calloc(uint64_t n, uint64_t size, const char *what)
{
    if (size && n > ((uint64_t)1 << 40) / size) stop("an allocation of more than 2^40 bytes");
    unsigned char *memory = __real_rt_calloc(1, n * size + 64, what); /* its size stands before it */
    if (!memory) return NULL;
    const uint64_t bytes = n * size;
    memcpy(memory, &bytes, sizeof bytes);
    count(bytes);
    return memory + 64;
}

void __wrap_rt_free(void *memory)
{
    uint64_t bytes;
    if (!memory) return;
    memcpy(&bytes, (unsigned char *)memory - 64, sizeof bytes);
    live -= bytes;
    __real_rt_free((unsigned char *)memory - 64);
}

gdn_status __wrap_gdn_buffer_create(gdn_context *context, uint64_t bytes, gdn_span *span)
{
    const gdn_status status = __real_gdn_buffer_create(context, bytes, span);
    if (!status) count(bytes);
    return status;
}

void __wrap_gdn_buffer_destroy(gdn_context *context, gdn_span *span)
{
    if (span && span->data) live -= span->bytes;
    __real_gdn_buffer_destroy(context, span);
}

/* ---- The way of a file ---- */

static void check(gdn_status status, const void *made, const char *what)
{
    if (status ? made != NULL || !*rt_last_error() : !made) stop(what);
    if (status && !strncmp(rt_last_error(), "no memory", 9)) stop("memory was asked for that nobody counted");
}

static void generate(const fuzz_choices *c, rt_engine *e, const rt_tokenizer *t, rt_spec spec)
{
    const rt_engine_limits limits = rt_engine_limits_of(e);
    const rt_scheduler_desc desc = { e,        t, limits.n_seqs, 0, spec, spec == RT_SPEC_OFF ? 0 : limits.n_rollback,
                                     c->p_min, 1 };
    rt_scheduler *s;
    int32_t tokens[64], id;
    int64_t n = 0;
    gdn_status status = rt_tokenize(t, "abc cab abba", 12, RT_PARSE_SPECIAL, tokens, 64, &n);
    if (status && (!*rt_last_error() || n)) stop("a text is refused without a text");
    if (status || n < 1 || n > 12) {
        n = 3;
        tokens[0] = tokens[1] = 0;
        tokens[2] = limits.n_vocab - 1;
    }
    status = rt_scheduler_create(&desc, &s);
    check(status, s, "the scheduler");
    if (!s) return;
    for (int i = 0; i < 2; i++) {
        const rt_request r = {
            .prompt = tokens, .n_prompt = (int32_t)n, .n_max = 6, .sampling = c->sampling, .ignore_end = i
        };
        status = rt_scheduler_submit(s, &r, &id);
        if (status && !*rt_last_error()) stop("a request is refused without a text");
    }
    int busy = 1, steps = 0;
    while (busy && !rt_scheduler_step(s, &busy))
        if (++steps > MOST_STEPS) stop("the scheduler comes to no end");
    if (busy && !*rt_last_error()) stop("a step fails without a text");
    for (int32_t i = 0; i < 2; i++) {
        rt_result r;
        const int32_t *drawn = NULL;
        int32_t n_drawn = 0;
        if (rt_scheduler_result(s, i, &r)) continue;
        drawn = rt_scheduler_tokens(s, i, &n_drawn);
        if (!busy && (r.finish == RT_FINISH_NONE || (r.finish == RT_FINISH_FAILED) != (r.error != NULL)))
            stop("a request has no end");
        outcome = busy ? "a step fails\n" : r.error ? "no numbers\n" : n_drawn ? "text\n" : outcome;
        for (int32_t k = 0; k < n_drawn; k++)
            if (drawn[k] < 0 || drawn[k] >= limits.n_vocab || rt_token_bytes(t, drawn[k]).bytes > LIMIT)
                stop("a token that the vocabulary does not have");
    }
    rt_scheduler_destroy(s);
}

static void use_model(const fuzz_choices *c, const rt_model *model, rt_budget *budget, uint64_t *counted)
{
    rt_tokenizer *t = NULL;
    rt_engine *e = NULL;
    int64_t n_tokens = 0;
    if (rt_gguf_get_strings(model->file, "tokenizer.ggml.tokens", &n_tokens) || n_tokens != model->hp.n_vocab) return;
    outcome = "no tokenizer\n";
    gdn_status status = rt_tokenizer_create(model->file, budget, &t);
    check(status, t, "the tokenizer");
    rt_engine_desc d = { .model = model,
                         .n_threads = 1,
                         .n_seqs = c->n_seqs,
                         .n_ctx = 40,
                         .n_batch = c->n_batch,
                         .n_rollback = c->n_rollback,
                         .kv_type = c->kv_type,
                         .draft = 1,
                         .isa = c->isa,
                         .rollback = c->n_batch & 1 ? RT_ROLLBACK_LOG : RT_ROLLBACK_SNAPSHOTS };
    rt_memory_bytes m;
    uint64_t scratch;
    status = t ? rt_engine_size(&d, &m, &scratch) : GDN_OK;
    if (status && !*rt_last_error()) stop("a size without a text");
    if (t) outcome = status ? "no size\n" : "too large\n";
    if (t && !status) {
        const uint64_t rest = m.state + m.conv + m.snapshots + m.log + m.kv + m.hidden + scratch;
        if (rest <= LIMIT && budget->used <= LIMIT - rest) {
            outcome = "no engine\n";
            *counted = budget->used + rest;
            status = rt_engine_create(&d, &e);
            check(status, e, "the engine");
        }
    }
    if (e) {
        const rt_spec spec = c->spec == RT_SPEC_MTP && !model->hp.n_mtp ? RT_SPEC_NGRAM : c->spec;
        generate(c, e, t, c->n_rollback ? spec : RT_SPEC_OFF);
    }
    rt_engine_destroy(e);
    rt_tokenizer_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gguf_build file;
    fuzz_choices choices;
    rt_budget budget = { LIMIT, 0 };
    rt_gguf *f;
    rt_model *model = NULL;
    const size_t n = fuzz_model_build(data, size, &file, &choices);
    unsigned char *copy = malloc(n ? n : 1); /* of its size, for AddressSanitizer */
    if (!copy) return 0;
    memcpy(copy, file.bytes, n);
    live = most = 0;
    outcome = "no file\n";
    (void)rt_fail(GDN_OK, "%s", "");
    gdn_status status = rt_gguf_open_memory(copy, n, &budget, &f);
    check(status, f, "the file");
    uint64_t counted = budget.used;
    if (f) {
        status = rt_model_from_gguf(f, &budget, &model);
        check(status, model, "the model");
        counted = budget.used;
        outcome = "no model\n";
    }
    if (model) {
        outcome = "another vocabulary\n";
        const uint64_t weights = model->weight_bytes; /* which stay in the file */
        use_model(&choices, model, &budget, &counted);
        counted = counted > budget.used ? counted : budget.used;
        if (most > counted - weights + UNCOUNTED) {
            (void)fprintf(stderr, "%llu bytes were allocated and %llu counted\n", (unsigned long long)most,
                          (unsigned long long)(counted - weights));
            stop("more is allocated than was counted");
        }
    }
    rt_model_free(model);
    if (live) stop("memory is left behind");
    free(copy);
    return 0;
}
