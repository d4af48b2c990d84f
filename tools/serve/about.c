/* What the server says of its model: names and settings. See serve.h. */
#include <jansson.h>
#include <string.h>

#include "system/files.h"
#include "gdn/base.h"
#include "numerics/checksum.h"
#include "tools/cli/json.h"
#include "tools/serve/serve.h"

/* A name for clients, in UTF-8 and not empty. */
static json_t *name_of(const char *bytes, size_t n)
{
    char given[256], text[3 * sizeof given];
    (void)snprintf(given, sizeof given, "%.*s", (int)(n < sizeof given ? n : sizeof given - 1), bytes);
    text[json_valid_utf8(given, strlen(given), text)] = 0;
    return json_string(*text ? text : "model");
}

/* Makes the fingerprint. The bytes of the weights, which take long to read, do not count. */
static void name_settings(serve_server *v)
{
    const run_session *const s = v->session;
    const rt_fingerprint *const f = &s->model->fingerprint;
    char all[256];
    const int n =
        snprintf(all, sizeof all, "%llx %llx %llx %d %s %s %s", (unsigned long long)f->weights,
                 (unsigned long long)f->tokenizer, s->chat ? (unsigned long long)rt_chat_fingerprint(s->chat) : 0ULL,
                 (int)s->context, run_opt.kv, run_opt.form, run_opt.level ? run_opt.level : "");
    const uint64_t sum = gdn_checksum(all, (size_t)n);
    (void)snprintf(v->fingerprint, sizeof v->fingerprint, "gdn-%d.%d.%d-%016llx", GDN_VERSION_MAJOR, GDN_VERSION_MINOR,
                   GDN_VERSION_PATCH, (unsigned long long)sum);
}

int serve_name_model(serve_server *v)
{
    const char *const file = file_name(run_opt.model), *const end = strstr(file, ".gguf");
    v->names = json_array();
    for (int i = 0; i < serve_opt.alias.n; i++)
        (void)json_array_append_new(v->names, name_of(serve_opt.alias.text[i], strlen(serve_opt.alias.text[i])));
    if (!serve_opt.alias.n)
        (void)json_array_append_new(v->names, name_of(file, end ? (size_t)(end - file) : strlen(file)));
    v->model = json_string_value(json_array_get(v->names, 0));
    name_settings(v);
    return v->model != NULL;
}

int serve_is_name(const serve_server *v, const char *name)
{
    int found = !strcmp(name, v->model);
    for (size_t i = 0; i < json_array_size(v->names); i++)
        found |= !strcmp(name, json_string_value(json_array_get(v->names, i)));
    return found;
}

json_t *serve_model(const serve_server *v, const char *name, serve_error *e)
{
    if (serve_is_name(v, name))
        return json_pack("{s:s, s:s, s:I, s:s, s:i}", "id", name, "object", "model", "created", (json_int_t)v->started,
                         "owned_by", "local", "max_model_len", (int)v->session->context);
    (void)serve_fail(e, 404, "model_not_found", "model", "model: this server has no %.200s, but %s", name, v->model);
    return NULL;
}

json_t *serve_models(const serve_server *v, serve_error *e)
{
    json_t *const list = json_array();
    for (size_t i = 0; i < json_array_size(v->names); i++)
        (void)json_array_append_new(list, serve_model(v, json_string_value(json_array_get(v->names, i)), e));
    return json_pack("{s:s, s:o}", "object", "list", "data", list);
}

/* The text of a token; null: there is none. */
static json_t *text_of(const serve_server *v, int32_t token)
{
    const rt_string s = token < 0 ? (rt_string){ NULL, 0 } : rt_token_bytes(v->session->tokenizer, token);
    return s.bytes ? serve_text(s.text, s.bytes) : json_null();
}

json_t *serve_props(const serve_server *v)
{
    const rt_sampling *const s = &v->defaults[1];
    const rt_tokenizer *const t = v->session->tokenizer;
    json_t *const params =
        json_pack("{s:f, s:f, s:f, s:i, s:f, s:i, s:f, s:f}", "temperature", (double)s->temperature, "top_p",
                  (double)s->top_p, "min_p", (double)s->min_p, "top_k", (int)s->top_k, "repeat_penalty",
                  (double)s->repeat_penalty, "repeat_last_n", (int)s->repeat_last, "presence_penalty",
                  (double)s->presence_penalty, "frequency_penalty", (double)s->frequency_penalty);
    return json_pack("{s:{s:i, s:o}, s:i, s:s, s:o, s:o, s:o}", "default_generation_settings", "n_ctx",
                     (int)v->session->context, "params", params, "total_slots", (int)run_opt.parallel, "model_alias",
                     v->model, "bos_token", text_of(v, rt_tokenizer_bos(t)), "eos_token",
                     text_of(v, rt_tokenizer_eos(t)), "build_info",
                     json_sprintf("gdn %d.%d.%d", GDN_VERSION_MAJOR, GDN_VERSION_MINOR, GDN_VERSION_PATCH));
}

/* As vLLM's, which lm-eval reads. The template is the model file's, unless --chat-template replaces it. */
json_t *serve_tokenizer_info(const serve_server *v)
{
    const rt_tokenizer *const t = v->session->tokenizer;
    rt_string form = { NULL, 0 };
    if (!run_opt.chat_template) (void)rt_gguf_get_string(v->session->model->file, "tokenizer.chat_template", &form);
    return json_pack("{s:s, s:o, s:o, s:n, s:i, s:o*}", "tokenizer_class", "gguf", "bos_token",
                     text_of(v, rt_tokenizer_bos(t)), "eos_token", text_of(v, rt_tokenizer_eos(t)), "pad_token",
                     "model_max_length", (int)v->session->context, "chat_template",
                     form.bytes ? serve_text(form.text, form.bytes) : NULL);
}
