/* Reads requests: JSON to prompts and parameters. Members that have no effect here are refused by their names. See
 * serve.h. */
#define _DEFAULT_SOURCE /* getentropy */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "system/files.h"
#include "system/machine.h"
#include "tools/serve/calls.h"
#include "tools/serve/serve.h"
#include "tools/serve/values.h"

/* ---- Prompts ---- */

/* JSON text, whose bytes are to be freed with free(); none of NULL. Its length is 0 if there is no memory. */
static rt_string text_of(const json_t *value)
{
    char *const text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    return (rt_string){ text, text ? strlen(text) : 0 };
}

/* Adds a prompt's tokens, which the call then owns. */
static int add_prompt(serve_server *v, serve_call *call, int32_t *tokens, int64_t n, const char *name, serve_error *e)
{
    call->prompt[call->n_prompts] = tokens;
    call->n_prompt[call->n_prompts++] = (int32_t)n;
    if (n < 1) return serve_wrong(e, name, "it is empty; at least one token is needed");
    const int most = v->session->context - 1; /* the error begins with Anthropic's words */
    return n <= most || (call->protocol && call->protocol->counts) ||
           serve_fail(e, 400, "context_length_exceeded", name,
                      "%s: prompt is too long: %lld tokens > %d maximum; the context (--ctx) has one more, to generate",
                      name, (long long)n, most);
}

static int is_token(const serve_server *v, const json_t *value, int32_t *token)
{
    const json_int_t id = json_integer_value(value);
    const int good = json_is_integer(value) && id >= 0 && id < rt_tokenizer_n_tokens(v->session->tokenizer);
    *token = good ? (int32_t)id : 0;
    return good;
}

/* A prompt of a completion: a text or its tokens. */
static int read_prompt(serve_server *v, serve_call *call, const json_t *prompt, serve_error *e)
{
    const rt_tokenizer *const t = v->session->tokenizer;
    const run_bytes text = { (char *)json_string_value(prompt), json_string_length(prompt) };
    const size_t length = json_array_size(prompt);
    int32_t *tokens = NULL;
    int64_t n = 0;
    if (call->n_prompts == SERVE_TEXTS) return serve_wrong(e, "prompt", "at most 128 prompts are allowed");
    const gdn_status status = text.bytes ? run_tokenize(t, text, 0, &tokens, &n) : GDN_OK;
    if (!text.bytes) tokens = rt_calloc(length, sizeof *tokens, "a prompt");
    if (status || !tokens) {
        rt_free(tokens);
        return serve_refused(e, status ? status : GDN_OUT_OF_MEMORY, "prompt");
    }
    int good = text.bytes || json_is_array(prompt);
    for (size_t i = 0; i < length; i++) good &= is_token(v, json_array_get(prompt, i), &tokens[n++]);
    return add_prompt(v, call, tokens, n, "prompt", e) &&
           (good || serve_wrong(e, "prompt", "a text, the numbers of its tokens, or an array of these are allowed"));
}

static int read_prompts(serve_server *v, serve_call *call, json_t *o, serve_error *e)
{
    const json_t *const prompt = serve_member(o, "prompt"), *const first = json_array_get(prompt, 0);
    const size_t n = json_array_size(prompt);
    if (!prompt) return serve_wrong(e, "prompt", "it is missing");
    if (!serve_read_constraint(v, call, o, e)) return 0;
    if (!json_is_string(first) && !json_is_array(first)) return read_prompt(v, call, prompt, e);
    for (size_t i = 0; i < n; i++)
        if (!read_prompt(v, call, json_array_get(prompt, i), e)) return 0;
    return 1;
}

/* The text of a message. Parts {"type": "text", "text": TEXT, ...} are replaced by one text. */
static json_t *content_of(json_t *message, const char *where, serve_error *e)
{
    json_t *const content = serve_member(message, "content");
    if (!json_is_array(content)) return content;
    char *all = NULL;
    size_t n = 0;
    FILE *const to = stream_open(&all, &n);
    for (size_t i = 0; to && !e->status && i < json_array_size(content); i++) {
        const char *type = "", *text = "";
        size_t bytes = 0;
        if (!json_unpack(json_array_get(content, i), "{s:s, s:s%}", "type", &type, "text", &text, &bytes) &&
            !strcmp(type, "text"))
            (void)fwrite(text, 1, bytes, to);
        else
            (void)serve_fail(e, 400, "unsupported_parameter", "messages", "%scontent: parts of type text are supported",
                             where);
    }
    if ((!to || !stream_close(to, &all, &n)) && !e->status) (void)serve_fail(e, 500, NULL, NULL, "out of memory");
    if (!e->status) (void)json_object_set_new(message, "content", json_stringn(all, n));
    free(all);
    return e->status ? NULL : serve_member(message, "content");
}

/* A call's arguments as the object that templates expect: a text that is JSON of one, or {} for nothing. What a model
 * wrote otherwise is a text in the member "arguments", since the conversation has to go on. */
static json_t *object_of_arguments(json_t *arguments)
{
    const char *const text = json_string_value(arguments);
    const size_t n = json_string_length(arguments);
    if (!arguments || (text && strspn(text, " \t\r\n") == n)) return json_object();
    json_t *const made =
        text ? json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL) : json_incref(arguments);
    if (json_is_object(made)) return made;
    json_decref(made);
    return json_pack("{s:O}", "arguments", arguments);
}

/* Makes the arguments of a message's calls objects. */
static int read_calls(const json_t *calls, const char *where, serve_error *e)
{
    int good = !calls || json_is_array(calls);
    for (size_t i = 0; good && i < json_array_size(calls); i++) {
        json_t *const f = serve_member(json_array_get(calls, i), "function"), *const arguments =
                                                                                  serve_member(f, "arguments");
        good = json_is_string(serve_member(f, "name")) &&
               (!arguments || json_is_string(arguments) || json_is_object(arguments)) &&
               !json_object_set_new(f, "arguments", object_of_arguments(arguments));
    }
    return good ||
           serve_fail(e, 400, "invalid_value", "messages",
                      "%stool_calls: objects {\"function\": {\"name\": ..., \"arguments\": ...}} are allowed", where);
}

/* The members of a message that only some templates know, as text_of() gives them. */
static rt_string read_more(const json_t *m)
{
    json_t *const more = json_pack("{s:O*, s:O*, s:O*}", "tool_calls", serve_member(m, "tool_calls"), "tool_call_id",
                                   serve_member(m, "tool_call_id"), "name", serve_member(m, "name"));
    const rt_string text = text_of(more);
    json_decref(more);
    return text;
}

static int read_message(serve_server *v, json_t *m, size_t i, rt_message *to, serve_error *e)
{
    char where[40];
    (void)snprintf(where, sizeof where, "messages[%zu].", i);
    const char *const role = json_string_value(serve_member(m, "role"));
    const int tool = role && !strcmp(role, "tool"), assistant = role && !strcmp(role, "assistant");
    if ((assistant || tool) && !serve_member(m, "content")) (void)json_object_set_new(m, "content", json_string(""));
    const json_t *const text = content_of(m, where, e);
    if (e->status || !serve_check_members(v, m,
                                          tool        ? SERVE_RESULT
                                          : assistant ? SERVE_ASSISTANT
                                                      : SERVE_INPUT,
                                          where, e))
        return 0;
    const json_t *const calls = serve_member(m, "tool_calls"), *reasoning = serve_member(m, "reasoning_content");
    if (!reasoning) reasoning = serve_member(m, "reasoning"); /* vLLM's name */
    if (!read_calls(calls, where, e)) return 0;
    if (!role || !json_is_string(text) || (reasoning && !json_is_string(reasoning)))
        return serve_fail(e, 400, "invalid_value", "messages", "%srole and content: texts are needed", where);
    if (!tool && !assistant && strcmp(role, "system") && strcmp(role, "developer") && strcmp(role, "user"))
        return serve_fail(e, 400, "invalid_value", "messages",
                          "%srole: system, developer, user, assistant and tool are allowed", where);
    if (json_is_array(calls) && !json_array_size(calls)) (void)json_object_del(m, "tool_calls");
    *to = (rt_message){ strcmp(role, "developer") ? role : "system",
                        json_string_value(text),
                        json_string_length(text),
                        json_string_value(reasoning),
                        json_string_length(reasoning),
                        read_more(m) };
    return to->more.bytes || serve_fail(e, 500, NULL, NULL, "out of memory");
}

/* The variables of the chat template, as text_of() gives them, and enable_thinking among them; none: refused. Those of
 * the request count more than those of the command line, and reasoning_effort is between them. */
static rt_string read_variables(const run_session *s, json_t *o, int *thinking, serve_error *e)
{
    json_t *const given = serve_member(o, "chat_template_kwargs"), *const effort = serve_member(o, "reasoning_effort");
    json_t *const all = json_loads(run_opt.chat_template_kwargs ? run_opt.chat_template_kwargs : "{}", 0, NULL);
    rt_string text = { NULL, 0 };
    if (given && !json_is_object(given)) (void)serve_wrong(e, "chat_template_kwargs", "an object is allowed");
    else if (effort && !json_is_string(effort)) (void)serve_wrong(e, "reasoning_effort", "a text is allowed");
    else if (!all) (void)serve_fail(e, 500, NULL, NULL, "--chat-template-kwargs is no JSON object in UTF-8");
    else if (serve_get_flag(given, "enable_thinking", thinking, e)) {
        if (serve_member(given, "enable_thinking") && rt_chat_check_thinking(s->chat, *thinking))
            (void)serve_refused(e, GDN_UNSUPPORTED, "chat_template_kwargs");
        if (effort) (void)json_object_set(all, "reasoning_effort", effort);
        if (given) (void)json_object_update(all, given);
        if (!e->status) text = text_of(all);
        if (!text.bytes && !e->status) (void)serve_fail(e, 500, NULL, NULL, "out of memory");
    }
    json_decref(all);
    return text;
}

/* Adds the beginning of an answer, which the model continues. Where the prompt opens a block of thinking, that has the
 * message's reasoning and ends. */
static gdn_status add_beginning(const rt_tokenizer *t, const rt_message *m, rt_chat_prompt *prompt)
{
    char *text = NULL;
    size_t n = 0;
    int64_t added = 0;
    FILE *const to = stream_open(&text, &n);
    if (to && m->reasoning) (void)fwrite(m->reasoning, 1, m->n_reasoning, to);
    if (to && prompt->thinks) (void)fputs("\n</think>\n\n", to);
    if (to) (void)fwrite(m->text, 1, m->bytes, to);
    int32_t *const all =
        to && stream_close(to, &text, &n) ? rt_calloc((uint64_t)prompt->n + n + 1, sizeof *all, "a prompt") : NULL;
    gdn_status status = all ? GDN_OK : GDN_OUT_OF_MEMORY;
    if (all) memcpy(all, prompt->tokens, (size_t)prompt->n * sizeof *all);
    if (all) status = rt_tokenize(t, text, n, 0, all + prompt->n, (int64_t)n, &added);
    free(text);
    rt_free(prompt->tokens);
    prompt->tokens = all;
    prompt->n += (int32_t)added;
    prompt->thinks = 0;
    if (!status) return GDN_OK;
    rt_free(all);
    return status;
}

/* continue_final_message: the last message is the beginning of the answer. Otherwise the prompt opens an answer, unless
 * add_generation_prompt is false. */
static int read_beginning(const json_t *o, const json_t *last, int *goes_on, int *opens, serve_error *e)
{
    const char *const role = json_string_value(serve_member(last, "role"));
    *goes_on = 0;
    *opens = 1;
    if (!serve_get_flag(o, "continue_final_message", goes_on, e) ||
        !serve_get_flag(o, "add_generation_prompt", opens, e))
        return 0;
    *opens |= *goes_on; /* vLLM's clients send false with it */
    return !*goes_on || (role && !strcmp(role, "assistant") && !serve_member(last, "tool_calls")) ||
           serve_wrong(e, "continue_final_message",
                       "the last message has to be the assistant's, without calls of tools");
}

static int read_chat(serve_server *v, serve_call *call, json_t *o, serve_error *e)
{
    const json_t *const messages = serve_member(o, "messages");
    const size_t n = json_array_size(messages);
    const rt_chat *const chat = v->session->chat;
    int thinking = v->session->thinking, goes_on, opens;
    rt_chat_prompt prompt;
    if (!chat) return serve_fail(e, 400, NULL, NULL, "the model has no chat template (--chat-template)");
    if (!n) return serve_wrong(e, "messages", "an array with at least one message is needed");
    if (!serve_read_constraint(v, call, o, e) ||
        !read_beginning(o, json_array_get(messages, n - 1), &goes_on, &opens, e))
        return 0;
    const int32_t n_shown = (int32_t)n - goes_on;
    const rt_string variables = read_variables(v->session, o, &thinking, e), tools = text_of(call->tools);
    rt_message *const to = rt_calloc(n, sizeof *to, "messages");
    int good =
        variables.bytes && ((to && (tools.bytes || !call->tools)) || serve_refused(e, GDN_OUT_OF_MEMORY, "messages"));
    for (size_t i = 0; good && i < n; i++) good = read_message(v, json_array_get(messages, i), i, &to[i], e);
    const gdn_status status =
        good ? rt_chat_render_tools(chat, to, n_shown, thinking, opens, tools, variables, &prompt) : GDN_OK;
    if (status)
        good = serve_refused(e, status,
                             status == GDN_NOT_FOUND          ? "tools"
                             : status == GDN_INVALID_ARGUMENT ? "chat_template_kwargs"
                                                              : "messages");
    if (good && opens && run_opt.prefix_mib &&
        rt_chat_boundaries(chat, to, n_shown, thinking, tools, variables, &prompt, call->boundary)) {
        rt_free(prompt.tokens);
        good = serve_refused(e, GDN_OUT_OF_MEMORY, "messages");
    }
    if (good && goes_on && to[n - 1].reasoning && !prompt.thinks) {
        rt_free(prompt.tokens);
        good = serve_wrong(e, "messages", "the last one has reasoning, and the prompt does not begin with thinking");
    } else if (good && goes_on) {
        const gdn_status added = add_beginning(v->session->tokenizer, &to[n - 1], &prompt);
        good = !added || serve_refused(e, added, "messages");
    }
    for (size_t i = 0; to && i < n; i++) free((void *)to[i].more.text);
    rt_free(to);
    free((void *)variables.text);
    free((void *)tools.text);
    if (!good) return 0;
    call->thinks = prompt.thinks;
    return add_prompt(v, call, prompt.tokens, prompt.n, "messages", e);
}

/* ---- Parameters ---- */

static int read_stop(serve_call *call, json_t *o, serve_error *e)
{
    const json_t *const stop = serve_member(o, "stop");
    const int off = json_is_string(stop) && !json_string_length(stop);
    const size_t n = json_is_array(stop) ? json_array_size(stop) : stop && !off;
    int good = n <= SERVE_STOPS;
    for (size_t i = 0; good && i < n; i++) {
        const json_t *const text = json_is_array(stop) ? json_array_get(stop, i) : stop;
        good = json_string_length(text) > 0;
        call->stop[i] = (run_bytes){ (char *)json_string_value(text), json_string_length(text) };
        call->n_stop = (int)i + 1;
    }
    return good || serve_wrong(e, "stop", "a text or an array of at most 16 texts is allowed, none of them empty");
}

/* A seed for a request without one. Clients whose numbers are binary64 can repeat it and those of the next texts. */
static int draw_seed(int64_t *seed, serve_error *e)
{
    uint64_t drawn = 0;
    if (!machine_random(&drawn, sizeof drawn))
        return serve_fail(e, 500, NULL, "seed", "seed: the system gives no random one");
    *seed = (int64_t)(drawn >> 12);
    return 1;
}

/* logit_bias: an object of numbers by tokens' numbers. Some clients send [] for none. */
static int read_bias(const serve_server *v, serve_call *call, const json_t *o, serve_error *e)
{
    json_t *const given = serve_member(o, "logit_bias"), *value;
    const char *name;
    int32_t n = 0;
    if (!given || (json_is_array(given) && !json_array_size(given))) return 1;
    if (!json_is_object(given)) return serve_wrong(e, "logit_bias", "an object is allowed");
    call->bias = calloc(json_object_size(given) + 1, sizeof *call->bias);
    if (!call->bias) return serve_fail(e, 500, NULL, NULL, "out of memory");
    json_object_foreach(given, name, value)
    {
        json_t *const number = json_integer(strtoll(name, NULL, 10));
        const int good = *name && !name[strspn(name, "0123456789")] && is_token(v, number, &call->bias[n].token) &&
                         json_is_number(value);
        json_decref(number);
        if (!good)
            return serve_fail(e, 400, "invalid_value", "logit_bias",
                              "logit_bias: '%.40s' has no number or is no token; numbers by the numbers of tokens are "
                              "allowed",
                              name);
        call->bias[n++].add = (float)json_number_value(value);
    }
    call->sampling.bias = call->bias;
    call->sampling.n_bias = n;
    return 1;
}

static int read_sampling(serve_server *v, serve_call *call, json_t *o, serve_error *e)
{
    rt_sampling *const s = &call->sampling;
    *s = v->defaults[call->chat];
    int64_t top_k = s->top_k, last = s->repeat_last, seed = -1; /* others' word for random */
    if (!serve_get_number(o, "temperature", &s->temperature, e) || !serve_get_number(o, "top_p", &s->top_p, e) ||
        !serve_get_number(o, "min_p", &s->min_p, e) ||
        !serve_get_number(o, "presence_penalty", &s->presence_penalty, e) ||
        !serve_get_number(o, "frequency_penalty", &s->frequency_penalty, e) ||
        !serve_get_number(o, "repetition_penalty", &s->repeat_penalty, e) ||
        !serve_get_number(o, "repeat_penalty", &s->repeat_penalty, e) ||
        !serve_get_integer(o, "repeat_last_n", 0, 1 << 26, &last, e) ||
        !serve_get_integer(o, "top_k", -1, 1 << 26, &top_k, e) ||
        !serve_get_integer(o, "seed", -1, INT64_MAX, &seed, e) || (seed < 0 && !draw_seed(&seed, e)) ||
        !read_bias(v, call, o, e))
        return 0;
    s->top_k = (int32_t)(top_k < 0 ? 0 : top_k); /* -1: others' word for all */
    s->repeat_last = (int32_t)last;
    s->seed = (uint64_t)seed;
    return !rt_sampling_check(s) || serve_fail(e, 400, "invalid_value", NULL, "%s", rt_last_error());
}

/* logprobs: true or false with top_logprobs in a chat, a number in a completion. */
static int read_logprobs(serve_call *call, const json_t *o, serve_error *e)
{
    const char *const name = call->chat ? "top_logprobs" : "logprobs";
    int64_t n = 0;
    call->logprobs = serve_member(o, "logprobs") != NULL;
    if (call->chat && !serve_get_flag(o, "logprobs", &call->logprobs, e)) return 0;
    if (!serve_get_flag(o, "return_tokens_as_token_ids", &call->ids, e)) return 0;
    if (!serve_get_integer(o, name, 0, RT_TOP_LOGPROBS, &n, e)) return 0;
    call->n_top = (int32_t)n;
    return call->logprobs || !serve_member(o, "top_logprobs") ||
           serve_wrong(e, "top_logprobs", "it needs logprobs: true");
}

static int64_t most_tokens(int64_t n)
{
    const int64_t most = serve_opt.max_tokens ? serve_opt.max_tokens : 1 << 26;
    return n < 0 || n > most ? most : n;
}

/* Tokens of a text; -1: as many as there is room for. */
static int read_most(serve_server *v, const serve_call *call, const json_t *o, const char *name, int64_t *to,
                     serve_error *e)
{
    int64_t n = *to;
    if (!serve_get_integer(o, name, -1, INT64_MAX, &n, e)) return 0;
    if (!n && !call->echo) return serve_wrong(e, name, "0 is for completions with echo: true");
    *to = most_tokens(n);
    if (serve_opt.max_tokens && *to < n) serve_say_once(v, name, "it is above --max-tokens, which counts instead");
    return 1;
}

static int read_parameters(serve_server *v, serve_call *call, json_t *o, serve_error *e)
{
    const char *const model = json_string_value(serve_member(o, "model"));
    json_t *const options = serve_member(o, "stream_options");
    const int64_t half = (run_opt.parallel + serve_opt.queue + 1) / 2; /* so that one request leaves room for others */
    const int64_t most_texts = half < SERVE_TEXTS ? half : SERVE_TEXTS;
    int64_t n = 1, n_min = 0, n_max = most_tokens(call->chat ? v->session->context : 128), also = n_max;
    if (!serve_check_members(v, o, call->chat ? SERVE_CHAT : SERVE_COMPLETION, "", e)) return 0;
    if (serve_member(o, "model") && !model) return serve_wrong(e, "model", "a text is allowed");
    if (model && !serve_is_name(v, model)) {
        if (serve_opt.strict)
            return serve_fail(e, 404, "model_not_found", "model", "model: this server has %s only", v->model);
        serve_say_once(v, "model", "it is another model's name, and this server's model answers");
    }
    if (serve_member(o, call->chat ? "prompt" : "messages"))
        return serve_wrong(e, call->chat ? "prompt" : "messages", "it is for the other endpoint");
    if (!serve_get_flag(o, "echo", &call->echo, e) || !read_most(v, call, o, "max_tokens", &n_max, e) ||
        !serve_get_integer(o, "n", 1, SERVE_TEXTS, &n, e) ||
        !read_most(v, call, o, "max_completion_tokens", &also, e) || !read_sampling(v, call, o, e) ||
        !read_stop(call, o, e) || !read_logprobs(call, o, e) ||
        !serve_get_flag(o, "ignore_eos", &call->ignore_end, e) || !serve_get_flag(o, "stream", &call->stream, e) ||
        !serve_get_flag(options, "include_usage", &call->usage, e) ||
        !serve_get_flag(options, "continuous_usage_stats", &call->usage_of_each, e) ||
        !serve_get_integer(o, "min_tokens", 0, INT32_MAX, &n_min, e))
        return 0;
    call->n_min = (int32_t)n_min;
    if (n_min && call->schema)
        return serve_wrong(e, "min_tokens", "it is not for requests whose answers follow a schema");
    if (call->is_json && (call->n_stop || call->ignore_end || call->echo))
        return serve_wrong(e, "response_format",
                           "it is not for requests with stop or ignore_eos, which would cut the JSON, or with echo");
    if (call->schema && call->ignore_end)
        return serve_wrong(e, "ignore_eos", "it is not for requests whose tools are strict or must be called");
    if (options && !json_is_object(options)) return serve_wrong(e, "stream_options", "an object is allowed");
    call->n = (int32_t)n;
    if (serve_member(o, "max_tokens") && serve_member(o, "max_completion_tokens") && n_max != also)
        return serve_wrong(e, "max_tokens", "max_completion_tokens is the same, and has another value");
    call->n_max = (int32_t)(serve_member(o, "max_completion_tokens") ? also : n_max);
    if (!call->n_max) call->n_max = call->no_text = call->ignore_end = 1;
    if (n * call->n_prompts > most_texts)
        return serve_fail(e, 400, "invalid_value", n > 1 ? "n" : "prompt",
                          "n is %d and prompt has %d, which are %d texts; a request may have %d, half of --parallel "
                          "and --queue and at most %d",
                          (int)n, (int)call->n_prompts, (int)n * (int)call->n_prompts, (int)most_texts, SERVE_TEXTS);
    return serve_check_members(v, options, SERVE_OPTIONS, "stream_options.", e);
}

/* The object that the body is; NULL: it is not one. */
static json_t *object_of(const char *body, size_t n, serve_error *e)
{
    json_error_t why = { .text = "" };
    json_t *const o = json_loadb(body ? body : "", n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (json_is_object(o)) return o;
    (void)serve_fail(e, 400, "invalid_json", NULL, "the body is not a JSON object: line %d: %s", why.line, why.text);
    json_decref(o);
    return NULL;
}

/* The body, in a protocol's form, as that of a chat; it takes the body. NULL: refused, with an error. */
static json_t *translated(serve_server *v, json_t *o, const serve_protocol *protocol, json_t **kept, serve_error *e)
{
    if (!o || !protocol) return o;
    json_t *const chat = protocol->chat_of(v, o, kept, e);
    json_decref(o);
    return chat;
}

serve_call *serve_read(serve_server *v, const char *body, size_t n, int chat, const serve_protocol *protocol,
                       serve_error *e)
{
    json_t *kept = NULL, *const o = translated(v, object_of(body, n, e), protocol, &kept, e);
    serve_call *call = o ? calloc(1, sizeof *call) : NULL;
    if (!call) {
        json_decref(o);
        json_decref(kept);
        if (!e->status) (void)serve_fail(e, 500, NULL, NULL, "out of memory");
        return NULL;
    }
    gdn_condition_init(&call->news);
    call->body = o;
    call->chat = chat;
    call->protocol = protocol;
    call->kept = kept;
    if ((chat ? read_chat : read_prompts)(v, call, o, e) && read_parameters(v, call, o, e)) return call;
    serve_release(call);
    return NULL;
}

/* The answer of /tokenize, which also has what vLLM's has. */
static json_t *tokens_of(const serve_server *v, const int32_t *tokens, int64_t n, int pieces)
{
    json_t *const list = json_array();
    for (int64_t i = 0; i < n; i++) {
        const rt_string piece = rt_token_bytes(v->session->tokenizer, tokens[i]);
        json_t *const id = json_integer(tokens[i]);
        json_t *const bytes = serve_text(piece.text ? piece.text : "", piece.bytes);
        (void)json_array_append_new(list, pieces ? json_pack("{s:o, s:O}", "id", id, "piece", bytes) : id);
        json_decref(bytes);
    }
    return json_pack("{s:o, s:I, s:i}", "tokens", list, "count", (json_int_t)n, "max_model_len",
                     (int)v->session->context);
}

/* The tokens of a chat's prompt. */
static json_t *tokenize_chat(serve_server *v, const char *body, size_t n, serve_error *e)
{
    serve_call *const call = serve_read(v, body, n, 1, NULL, e);
    json_t *const answer = call ? tokens_of(v, call->prompt[0], call->n_prompt[0], 0) : NULL;
    if (call) serve_release(call);
    return answer;
}

json_t *serve_read_tokenize(serve_server *v, const char *body, size_t n, serve_error *e)
{
    json_t *const o = object_of(body, n, e), *const own = serve_member(o, "content");
    const json_t *const given = own ? own : serve_member(o, "prompt");
    const run_bytes text = { (char *)json_string_value(given), json_string_length(given) };
    const rt_tokenizer *const t = v->session->tokenizer;
    int bos = 0, special = !own, pieces = 0; /* vLLM's recognises control tokens */
    int64_t count = 0;
    int32_t *tokens = NULL;
    json_t *answer = NULL;
    if (serve_member(o, "messages")) {
        json_decref(o);
        return tokenize_chat(v, body, n, e);
    }
    int good = o && serve_check_members(v, o, SERVE_TOKENIZE, "", e) && serve_get_flag(o, "add_special", &bos, e) &&
               serve_get_flag(o, "add_special_tokens", &bos, e) && serve_get_flag(o, "with_pieces", &pieces, e) &&
               serve_get_flag(o, "parse_special", &special, e) &&
               (text.bytes || serve_wrong(e, "content", "a text is needed"));
    const gdn_status status = good ? run_tokenize(t, text, special ? RT_PARSE_SPECIAL : 0, &tokens, &count) : GDN_OK;
    if (status) good = serve_refused(e, status, "content");
    const int begins = rt_tokenizer_bos(t) >= 0 && (rt_tokenizer_add_bos(t) || !text.n); /* as run_tokenize() does */
    if (good) answer = tokens_of(v, tokens + (begins && !bos), count - (begins && !bos), pieces);
    rt_free(tokens);
    json_decref(o);
    return answer;
}

/* The text of tokens, control tokens included. */
static json_t *text_of_tokens(const serve_server *v, const int32_t *tokens, int64_t n)
{
    char *bytes = NULL;
    size_t n_bytes = 0;
    FILE *const to = stream_open(&bytes, &n_bytes);
    for (int64_t i = 0; to && i < n; i++) {
        const rt_string s = rt_token_bytes(v->session->tokenizer, tokens[i]);
        if (s.bytes) (void)fwrite(s.text, 1, s.bytes, to);
    }
    json_t *const text = to && stream_close(to, &bytes, &n_bytes) ? serve_text(bytes, n_bytes) : NULL;
    free(bytes);
    return text;
}

json_t *serve_read_detokenize(serve_server *v, const char *body, size_t n, serve_error *e)
{
    json_t *const o = object_of(body, n, e), *const list = serve_member(o, "tokens");
    const size_t count = json_array_size(list);
    int32_t *const tokens = rt_calloc(count + 1, sizeof *tokens, "tokens");
    int good = o && serve_check_members(v, o, SERVE_DETOKENIZE, "", e) &&
               (json_is_array(list) || serve_wrong(e, "tokens", "an array is needed")) &&
               (tokens || serve_refused(e, GDN_OUT_OF_MEMORY, "tokens"));
    for (size_t i = 0; good && i < count; i++)
        good = is_token(v, json_array_get(list, i), &tokens[i]) ||
               serve_wrong(e, "tokens", "numbers of tokens are allowed");
    json_t *const text = good ? text_of_tokens(v, tokens, (int64_t)count) : NULL;
    if (good && !text) (void)serve_fail(e, 500, NULL, NULL, "out of memory");
    rt_free(tokens);
    json_decref(o);
    return text ? json_pack("{s:O, s:o}", "content", text, "prompt", text) : NULL; /* llama.cpp's name, vLLM's */
}

json_t *serve_apply_template(serve_server *v, const char *body, size_t n, serve_error *e)
{
    serve_call *const call = serve_read(v, body, n, 1, NULL, e);
    if (!call) return NULL;
    json_t *const text = text_of_tokens(v, call->prompt[0], call->n_prompt[0]);
    if (!text) (void)serve_fail(e, 500, NULL, NULL, "out of memory");
    serve_release(call);
    return text ? json_pack("{s:o}", "prompt", text) : NULL;
}

json_t *serve_count_tokens(serve_server *v, const char *body, size_t n, const serve_protocol *p, serve_error *e)
{
    serve_call *const call = serve_read(v, body, n, 1, p, e);
    json_t *const answer = call ? json_pack("{s:i}", "input_tokens", (int)call->n_prompt[0]) : NULL;
    if (call) serve_release(call);
    return answer;
}
