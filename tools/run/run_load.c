/* Loads the model and creates the engine of `gdn run`. See run.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "system/fault.h"
#include "system/files.h"
#include "system/machine.h"
#include "tools/run/run.h"
#include "runtime/base/clock.h"
#include "tools/cli/target.h"

double run_now(void) { return rt_now(); }

int run_fail(const char *what)
{
    (void)fprintf(stderr, "%s: %s: %s\n", run_caller->name, what, rt_last_error());
    return 1;
}

int run_fail_file(const char *path)
{
    const char *const error = rt_last_error(), *const name = file_name(path);
    const size_t n = strlen(name);
    if (strstr(error, path)) (void)fprintf(stderr, "%s: %s\n", run_caller->name, error);
    else if (!strncmp(error, name, n) && !strncmp(error + n, ": ", 2))
        (void)fprintf(stderr, "%s: %s%s\n", run_caller->name, path, error + n);
    else (void)run_fail(path);
    return 1;
}

/* Reads the template of --chat-template. */
static int read_template(run_session *s)
{
    const char *const path = run_opt.chat_template;
    FILE *const f = file_open(path, "r");
    char *const text = f ? malloc(RT_TEMPLATE_MAX + 1) : NULL;
    if (!f) {
        (void)fprintf(stderr, "%s: --chat-template: cannot open %s: %s%s\n", run_caller->name, path, strerror(errno),
                      strchr(path, '/') || strchr(path, '.') ? "" : "; it names a file, not a built-in template");
        return 1;
    }
    const size_t bytes = text ? fread(text, 1, RT_TEMPLATE_MAX + 1, f) : 0; /* one byte more, to detect too long
                                                                               files */
    const int failed = ferror(f);
    (void)fclose(f);
    int code = 0;
    if (!text) (void)fprintf(stderr, "%s: out of memory\n", run_caller->name);
    else if (failed) (void)fprintf(stderr, "%s: --chat-template: cannot read %s\n", run_caller->name, path);
    else if (rt_chat_create_of(text, bytes, s->tokenizer, &s->chat)) code = run_fail(path);
    free(text);
    return code || !s->chat;
}

int run_load_template(run_session *s)
{
    const char *const way = run_opt.reasoning;
    if (run_opt.chat_template && read_template(s)) return 1;
    const gdn_status status = s->chat ? GDN_OK : rt_chat_create(s->model->file, s->tokenizer, &s->chat);
    s->thinking = !strcmp(way, "on") ? RT_THINK_ON : !strcmp(way, "off") ? RT_THINK_OFF : RT_THINK_AUTO;
    if (status == GDN_NOT_FOUND) {
        (void)fprintf(stderr,
                      "%s: %s has no chat template; --chat-template gives one, and without --chat it continues "
                      "texts\n",
                      run_caller->name, run_opt.model);
        return 1;
    }
    if (status) {
        (void)run_fail_file(run_opt.model);
        (void)fprintf(stderr, "%s: --chat-template gives another template\n", run_caller->name);
        return 1;
    }
    if (run_opt.chat_template_kwargs && rt_chat_set_variables(s->chat, run_opt.chat_template_kwargs))
        return run_fail("--chat-template-kwargs");
    return rt_chat_check_thinking(s->chat, s->thinking) ? run_fail("--reasoning") : 0;
}

/* Reports keys of the file that may change tokens or texts and are not used. */
static void tell_unused_keys(const rt_gguf *file)
{
    const char *why = "";
    for (int64_t i = 0; (i = rt_next_noted_key(file, i, &why)) >= 0; i++) {
        const rt_string name = rt_gguf_key_at(file, i, NULL);
        char shown[81];
        const int n = name.bytes < sizeof shown ? (int)name.bytes : (int)sizeof shown - 1;
        for (int c = 0; c < n; c++) shown[c] = name.text[c] >= ' ' && name.text[c] <= '~' ? name.text[c] : '?';
        shown[n] = 0;
        (void)fprintf(stderr, "%s: note: the key %s of the model is not used: %s\n", run_caller->name, shown, why);
    }
}

/* Reports keys that the file lacks and that results depend on. */
static void tell_defaults(const rt_model *model)
{
    char key[RT_KEY_NAME];
    const char *instead;
    for (int at = 0; rt_next_default(model->file, model->hp.arch, &at, key, &instead);)
        (void)fprintf(stderr, "%s: note: the model has no key %s: it is taken as %s\n", run_caller->name, key, instead);
}

int run_load_model(run_session *s)
{
    int64_t n_tokens = 0;
    fault_watch(run_caller->name, run_opt.model);
    s->budget.limit = run_opt.memory_mib ? (uint64_t)run_opt.memory_mib << 20 : machine_memory_available();
    const int drafts_by_model = strcmp(run_opt.spec, "off") != 0 && strcmp(run_opt.spec, "ngram") != 0;
    const int whole = drafts_by_model && !run_opt.draft_model;
    if ((whole ? rt_model_load : rt_model_load_trunk)(run_opt.model, &s->budget, &s->model))
        return run_fail_file(run_opt.model);
    if (drafts_by_model && run_opt.draft_model && rt_model_add_mtp(s->model, run_opt.draft_model, &s->budget))
        return run_fail_file(run_opt.draft_model);
    if (rt_gguf_get_strings(s->model->file, "tokenizer.ggml.tokens", &n_tokens)) return run_fail_file(run_opt.model);
    if (n_tokens != s->model->hp.n_vocab) { /* before allocating tables */
        (void)fprintf(stderr, "%s: %s: the tokenizer has %lld tokens and the embeddings have %d\n", run_caller->name,
                      run_opt.model, (long long)n_tokens, (int)s->model->hp.n_vocab);
        return 1;
    }
    if (rt_tokenizer_create(s->model->file, &s->budget, &s->tokenizer)) return run_fail_file(run_opt.model);
    tell_unused_keys(s->model->file);
    tell_defaults(s->model);
    return 0;
}

int run_choose_spec(run_session *s)
{
    if (!run_spec_named(run_opt.spec, &s->spec)) s->spec = s->model->hp.n_mtp ? RT_SPEC_MTP : RT_SPEC_OFF;
    if (run_opt.draft_vocab > s->model->hp.n_vocab)
        return cli_error(run_caller, "--draft-vocab is %lld; 0 to %d are allowed, the size of the vocabulary",
                         (long long)run_opt.draft_vocab, (int)s->model->hp.n_vocab);
    if (s->spec != RT_SPEC_MTP) return run_check_drafts(s->spec);
    if (s->model->hp.n_mtp) return 0;
    (void)fprintf(stderr, "%s: %s has no MTP block to draft with; --spec ngram needs none\n", run_caller->name,
                  run_opt.model);
    return 1;
}

static uint64_t needed(const run_session *s)
{
    const rt_memory_bytes *m = &s->memory;
    return s->budget.used + m->state + m->conv + m->snapshots + m->log + m->kv + m->hidden + m->prefixes + s->scratch;
}

/* What --memory allows, or what is available now; 0: not known. */
static uint64_t memory_limit(void)
{
    return run_opt.memory_mib ? (uint64_t)run_opt.memory_mib << 20 : machine_memory_available();
}

/* Checks the memory need before allocating any of it, since an engine that swaps is useless. */
static int check_memory(const run_session *s)
{
    const rt_memory_bytes *m = &s->memory;
    const uint64_t need = needed(s), limit = memory_limit();
    if (!limit || need <= limit) return 0;
    (void)fprintf(stderr,
                  "%s: not enough memory: %llu MiB are needed and %llu MiB are %s\n"
                  "         weights %llu, KV cells %llu, states %llu, snapshots %llu, log %llu, prefixes %llu, scratch "
                  "%llu MiB; a smaller\n"
                  "         --ctx, --parallel, --cells, --draft-max, --prefix-cache or --batch needs less\n",
                  run_caller->name, (unsigned long long)(need >> 20), (unsigned long long)(limit >> 20),
                  run_opt.memory_mib ? "allowed" : "available", (unsigned long long)(s->model->weight_bytes >> 20),
                  (unsigned long long)(m->kv >> 20), (unsigned long long)((m->state + m->conv) >> 20),
                  (unsigned long long)(m->snapshots >> 20), (unsigned long long)(m->log >> 20),
                  (unsigned long long)(m->prefixes >> 20), (unsigned long long)(s->scratch >> 20));
    return 1;
}

/* Sets n_prefixes to what fits in --prefix-cache; nonzero: not even one fits. The default of gdn serve is at most
 * USUAL, and none where none fits. */
static int choose_prefixes(rt_engine_desc *d)
{
    enum { USUAL = 64 };
    const int chosen = cli_given(run_caller, "prefix-cache");
    rt_memory_bytes m;
    uint64_t scratch;
    if (!run_opt.prefix_mib) return 0;
    d->prefix_interval = (int32_t)run_opt.prefix_interval;
    d->n_prefixes = 1;
    if (rt_engine_size(d, &m, &scratch)) return run_fail("the engine");
    uint64_t n = m.prefixes ? ((uint64_t)run_opt.prefix_mib << 20) / m.prefixes : 1;
    if (!chosen && n > USUAL) n = USUAL;
    if (!chosen && !n) run_opt.prefix_mib = d->prefix_interval = d->n_prefixes = 0;
    else if (!n)
        return cli_error(run_caller, "--prefix-cache is %lld; one prefix of this model takes %llu MiB",
                         (long long)run_opt.prefix_mib, (unsigned long long)((m.prefixes + (1 << 20) - 1) >> 20));
    else d->n_prefixes = n < 1 << 20 ? (int32_t)n : 1 << 20;
    return 0;
}

/* Makes the defaults of gdn serve smaller while they take more than three quarters of the memory: first prefixes, then
 * the cells of all sequences, then the context. */
static void fit_memory(run_session *s, rt_engine_desc *d)
{
    enum { LEAST_PREFIXES = 4, LEAST_CONTEXT = 4096 };
    const uint64_t limit = memory_limit();
    const int of_model = !run_opt.context, keeps = d->n_prefixes && !cli_given(run_caller, "prefix-cache");
    while (!rt_engine_size(d, &s->memory, &s->scratch) && limit && needed(s) > limit / 4 * 3) {
        if (keeps && d->n_prefixes > LEAST_PREFIXES) {
            d->n_prefixes /= 2;
        } else if (of_model && !run_opt.cells && d->n_cells > d->n_ctx) {
            d->n_cells = d->n_cells / 2 > d->n_ctx ? d->n_cells / 2 : d->n_ctx;
        } else if (of_model && !run_opt.cells && d->n_ctx / 2 >= LEAST_CONTEXT) {
            d->n_ctx /= 2;
            d->n_cells = d->n_ctx;
        } else {
            break;
        }
    }
}

/* Creates an engine with snapshots or a log for the drafts of `spec`; without drafts, neither. */
int run_open_engine(run_session *s, int32_t n_seqs, rt_spec spec, rt_rollback rollback, rt_engine **engine)
{
    static const struct {
        const char *name;
        int32_t type;
    } kv[] = { { "f16", GDN_F16 }, { "bf16", GDN_BF16 }, { "f32", GDN_F32 }, { "q8_0", GDN_Q8_0 } };
    rt_engine_desc d = { .model = s->model };
    const int serves = run_caller != &run_command;
    const int64_t trained = s->model->hp.n_ctx_train, most = serves ? (1 << 26) / n_seqs : 4096;
    const int64_t context = run_opt.context ? run_opt.context : trained < most ? trained : most;
    if (!run_opt.cells && context * n_seqs > 1 << 26)
        return cli_error(run_caller, "--ctx %lld for %d sequences is too much; %d in all are allowed",
                         (long long)context, (int)n_seqs, 1 << 26);
    if (run_opt.cells && run_opt.cells < context)
        return cli_error(run_caller, "--cells is %lld; %lld are needed for one sequence (--ctx)",
                         (long long)run_opt.cells, (long long)context);
    if (!target_backend(run_opt.backend, &d.backend))
        return cli_error(run_caller, "--backend is '%s'; 'gdn info' lists them", run_opt.backend);
    gdn_backend_info info = { .size = sizeof info };
    if (!gdn_backend_describe(d.backend, &info) && info.available && run_opt.device >= info.n_devices)
        return cli_error(run_caller, "--device is %lld; 0 to %u are allowed, the devices of backend %s",
                         (long long)run_opt.device, (unsigned)info.n_devices - 1, info.name);
    d.kv_type = -1;
    for (size_t i = 0; i < sizeof kv / sizeof kv[0]; i++)
        if (!strcmp(kv[i].name, run_opt.kv)) d.kv_type = kv[i].type;
    if (d.kv_type < 0) return cli_error(run_caller, "--kv is '%s'; f16, bf16, f32 and q8_0 are allowed", run_opt.kv);
    if (d.kv_type == GDN_Q8_0 && s->model->hp.head_dim % 32)
        return cli_error(run_caller,
                         "--kv is 'q8_0' and the model's heads have %d elements; f16, bf16 and f32 are allowed, and "
                         "q8_0 where heads are a multiple of 32",
                         (int)s->model->hp.head_dim);
    d.device = (uint32_t)run_opt.device;
    d.implementation = run_opt.implementation;
    char message[128];
    if (!target_level(run_opt.level, &d.level, message, sizeof message)) return cli_error(run_caller, "%s", message);
    d.isa = run_opt.isa;
    d.n_threads = (int32_t)run_opt.threads;
    d.n_seqs = n_seqs;
    d.n_ctx = (int32_t)context;
    d.n_cells = (int32_t)(run_opt.cells ? run_opt.cells : context * n_seqs);
    d.n_batch = (int32_t)run_opt.batch;
    d.n_rollback = spec == RT_SPEC_OFF ? 0 : (int32_t)run_opt.draft_max;
    d.rollback = rollback;
    d.digits = run_digits();
    d.draft = spec == RT_SPEC_MTP;
    d.draft_vocab = (int32_t)run_opt.draft_vocab;
    if (s->talks) { /* see rt_conversation_desc */
        d.n_prefixes = 1;
        d.prefix_interval = d.n_ctx + 1;
    } else {
        const int prefixes = choose_prefixes(&d);
        if (prefixes) return prefixes;
        if (serves) fit_memory(s, &d);
    }
    s->n_seqs = n_seqs;
    s->context = d.n_ctx;
    if (rt_engine_size(&d, &s->memory, &s->scratch)) return run_fail("the engine");
    if (run_opt.perplexity) s->scratch += run_perplexity_bytes(s);
    if (check_memory(s)) return 1;
    if (!rt_engine_create(&d, engine)) return run_load_prefixes(s);
    char text[RT_ERROR_MAX];
    target_error(rt_last_error(), text, sizeof text);
    (void)fprintf(stderr, "%s: the engine: %s\n", run_caller->name, text);
    return 1;
}

int run_open_scheduler(const run_session *s, rt_scheduler **scheduler)
{
    const rt_scheduler_desc desc = { s->engine,
                                     s->tokenizer,
                                     s->n_seqs,
                                     (int32_t)run_opt.step_rows,
                                     s->spec,
                                     s->spec == RT_SPEC_OFF ? 0 : (int32_t)run_opt.draft_max,
                                     (float)run_opt.p_min,
                                     run_opt.always_draft };
    return rt_scheduler_create(&desc, scheduler) ? run_fail("the scheduler") : 0;
}

void run_close(run_session *s)
{
    run_join_prefixes(s);
    file_lock_free(&s->prefix_lock);
    rt_engine_destroy(s->engine);
    rt_chat_destroy(s->chat);
    rt_schema_free(s->schema);
    rt_tokenizer_destroy(s->tokenizer);
    rt_model_free(s->model);
    free(s->system.bytes);
    for (int i = 0; i < CLI_TEXTS_MAX; i++) free(s->stop[i].bytes);
    memset(s, 0, sizeof *s);
}
