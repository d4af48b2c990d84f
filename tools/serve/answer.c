/* Answers: texts to JSON, whole or as a stream of events. See serve.h. */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/serve/calls.h"
#include "tools/serve/serve.h"

json_t *serve_error_object(const serve_error *e)
{
    const int s = e->status;
    const char *const type = s == 401   ? "authentication_error"
                             : s == 403 ? "permission_error"
                             : s == 429 ? "rate_limit_error"
                             : s >= 500 ? "server_error"
                                        : "invalid_request_error";
    return json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", e->message, "type", type, "param",
                     e->param[0] ? e->param : NULL, "code", e->code);
}

/* ---- Texts ---- */

/* Text as JSON; what is not UTF-8 becomes U+FFFD, byte for byte, so that pieces give the same as the whole. */
static json_t *json_of(const char *bytes, size_t n)
{
    char *const to = malloc(3 * n + 1), *end = to;
    for (size_t i = 0; to && i < n;) {
        const int length = json_utf8_length((const unsigned char *)bytes + i);
        memcpy(end, length ? bytes + i : "\xef\xbf\xbd", length ? (size_t)length : 3);
        end += length ? length : 3;
        i += length ? (size_t)length : 1;
    }
    json_t *const made = to ? json_stringn(to, (size_t)(end - to)) : NULL;
    free(to);
    return made;
}

/* What is new of a text; NULL: nothing. Completions have content alone. */
typedef struct serve_news {
    json_t *reasoning, *content, *calls;
} serve_news;

/* A call of a tool, in OpenAI's form. It takes the piece's texts. */
static json_t *call_of(serve_choice *c, serve_piece piece)
{
    char id[80];
    const int index = c->n_calls++;
    (void)snprintf(id, sizeof id, "call_%s_%d_%d", c->call->id + strlen("chatcmpl-"), (int)(c - c->call->choice),
                   index);
    json_t *const call = json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name",
                                   piece.name, "arguments", piece.arguments);
    if (c->call->stream) (void)json_object_set_new(call, "index", json_integer(index));
    free(piece.name);
    free(piece.arguments);
    return call;
}

/* Takes the content and the calls of tools among n bytes after the thinking. */
static void take_pieces(serve_choice *c, const char *text, size_t n, serve_news *news)
{
    char *const content = malloc(n + 1);
    size_t n_content = 0;
    while (content && c->done < n) {
        const serve_piece piece = serve_next_piece(c->call->tools, text + c->done, n - c->done, c->after, c->ended);
        if (!piece.used) break;
        memcpy(content + n_content, text + c->done, piece.content);
        n_content += piece.content;
        c->done += piece.used;
        c->after = piece.name != NULL;
        if (!piece.name) continue;
        if (!news->calls) news->calls = json_array();
        (void)json_array_append_new(news->calls, call_of(c, piece));
    }
    if (n_content) news->content = json_of(content, n_content);
    free(content);
}

static serve_news take_news(serve_choice *c)
{
    serve_news news = { NULL, NULL, NULL };
    const char *const text = c->text.bytes ? c->text.bytes : "";
    const size_t n = c->ended ? c->text.n : run_text_ready(&c->text);
    rt_string reasoning = { NULL, 0 }, rest = { text + c->split.at, n - c->split.at };
    if (c->call->chat) rt_chat_split_next(&c->split, c->call->thinks, text, n, c->ended, &reasoning, &rest);
    else c->split.at = n;
    if (reasoning.bytes) news.reasoning = json_of(reasoning.text, reasoning.bytes);
    if (rest.bytes && !c->begin) c->begin = 1 + (size_t)(rest.text - text);
    if (c->call->tools && c->begin) take_pieces(c, text + c->begin - 1, c->split.at - (c->begin - 1), &news);
    else if (rest.bytes) news.content = json_of(rest.text, rest.bytes);
    return news;
}

static const char *reason_of(const serve_choice *c)
{
    if (c->result.finish != RT_FINISH_STOP) return "length";
    return c->n_calls ? "tool_calls" : "stop";
}

/* ---- Log-probabilities ---- */

static json_t *token_of(const serve_call *call, int32_t token)
{
    const rt_string s = rt_token_bytes(call->server->session->tokenizer, token);
    return json_of(s.bytes ? s.text : "", s.bytes);
}

/* A token of a chat's answer. */
static json_t *logprob_of(const serve_call *call, rt_logprob p)
{
    const rt_string s = rt_token_bytes(call->server->session->tokenizer, p.token);
    json_t *const bytes = json_array();
    for (uint64_t i = 0; i < s.bytes; i++) (void)json_array_append_new(bytes, json_integer((unsigned char)s.text[i]));
    return json_pack("{s:o, s:f, s:o}", "token", token_of(call, p.token), "logprob", (double)p.logprob, "bytes", bytes);
}

static json_t *chat_logprobs(const serve_call *call, serve_choice *c)
{
    json_t *const list = json_array();
    for (; c->n_told < c->n_logprobs; c->n_told++) {
        const rt_logprob *const p = c->logprob + c->n_told * (1 + (size_t)call->n_top);
        json_t *const one = logprob_of(call, *p), *const top = json_array();
        for (int32_t i = 1; i <= call->n_top; i++) (void)json_array_append_new(top, logprob_of(call, p[i]));
        (void)json_object_set_new(one, "top_logprobs", top);
        (void)json_array_append_new(list, one);
    }
    return json_pack("{s:o}", "content", list);
}

static json_t *text_logprobs(const serve_call *call, serve_choice *c)
{
    json_t *const tokens = json_array(), *const values = json_array(), *const tops = json_array(),
                  *const offsets = json_array();
    for (; c->n_told < c->n_logprobs; c->n_told++) {
        const rt_logprob *const p = c->logprob + c->n_told * (1 + (size_t)call->n_top);
        const rt_string s = rt_token_bytes(call->server->session->tokenizer, p->token);
        json_t *const top = json_object();
        for (int32_t i = call->n_top; i >= 0; i--) { /* the token itself, whether or not it is among the first */
            json_t *const name = token_of(call, p[i].token);
            (void)json_object_set_new(top, json_string_value(name), json_real((double)p[i].logprob));
            json_decref(name);
        }
        (void)json_array_append_new(tokens, token_of(call, p->token));
        (void)json_array_append_new(values, json_real((double)p->logprob));
        (void)json_array_append_new(tops, top);
        (void)json_array_append_new(offsets, json_integer((json_int_t)c->n_characters));
        for (uint64_t i = 0; i < s.bytes; i++) c->n_characters += ((unsigned char)s.text[i] & 0xc0) != 0x80;
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", values, "top_logprobs", tops,
                     "text_offset", offsets);
}

/* Takes the log-probabilities that are new; null: there are none, or the request wants none. */
static json_t *take_logprobs(serve_call *call, int32_t index)
{
    serve_choice *const c = &call->choice[index];
    if (!call->logprobs || (call->stream && c->n_told == c->n_logprobs)) return json_null();
    return call->chat ? chat_logprobs(call, c) : text_logprobs(call, c);
}

static json_t *usage_of(const serve_call *call)
{
    json_int_t prompt = 0, cached = 0, drawn = 0;
    for (int32_t i = 0; i < call->n_choices; i++) {
        const serve_choice *const c = &call->choice[i];
        const int32_t n = call->n_prompt[c->prompt];
        drawn += c->result.n_tokens;
        if (i % call->n) continue;
        prompt += n;
        cached += c->result.n_prefix < n ? c->result.n_prefix : n;
    }
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", drawn, "total_tokens",
                     prompt + drawn, "prompt_tokens_details", "cached_tokens", cached);
}

/* A choice with a value, which it takes: a text, a message or its beginning. */
static json_t *choice_of(serve_call *call, int32_t index, json_t *value, const char *finish)
{
    const char *const name = call->stream ? "delta" : "message";
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)index, call->chat ? name : "text", value, "logprobs",
                     take_logprobs(call, index), "finish_reason", finish);
}

/* An answer or event with these choices, which it takes. */
static json_t *answer_of(const serve_call *call, json_t *choices)
{
    const char *const object = call->stream ? "chat.completion.chunk" : "chat.completion";
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", call->id, "object", call->chat ? object : "text_completion",
                     "created", (json_int_t)call->created, "model", call->server->model, "choices", choices);
}

static int failed(const serve_choice *c, serve_error *e)
{
    if (!c->ended || c->result.finish != RT_FINISH_FAILED) return 0;
    (void)serve_fail(e, 500, "generation_failed", NULL, "%s", c->error);
    return 1;
}

json_t *serve_wait(serve_call *call, serve_error *e)
{
    json_t *const choices = json_array();
    (void)pthread_mutex_lock(&call->server->lock);
    for (int32_t i = 0; i < call->n_choices; i++) {
        serve_choice *const c = &call->choice[i];
        while (!c->ended) (void)pthread_cond_wait(&call->news, &call->server->lock);
        if (failed(c, e)) break;
        const serve_news news = take_news(c);
        json_t *value = news.content ? news.content : news.calls ? json_null() : json_string("");
        if (call->chat) value = json_pack("{s:s, s:o}", "role", "assistant", "content", value);
        if (news.reasoning) (void)json_object_set_new(value, "reasoning_content", news.reasoning);
        if (news.calls) (void)json_object_set_new(value, "tool_calls", news.calls);
        (void)json_array_append_new(choices, choice_of(call, i, value, reason_of(c)));
    }
    json_t *const usage = usage_of(call);
    (void)pthread_mutex_unlock(&call->server->lock);
    json_t *const answer = answer_of(call, choices);
    (void)json_object_set_new(answer, "usage", usage);
    if (!e->status) return answer;
    json_decref(answer);
    return NULL;
}

/* ---- Streams ---- */

/* Appends an event, which it takes; NULL: the stream's end. Without memory the stream ends early. */
static void add_event(serve_call *call, json_t *event)
{
    char *const text = event ? json_dumps(event, JSON_COMPACT) : strdup("[DONE]");
    const size_t n = text ? strlen(text) + 8 : 0;
    char *const larger = text ? realloc(call->out, call->n_out + n + 1) : NULL;
    if (larger) {
        call->out = larger;
        call->n_out += (size_t)snprintf(larger + call->n_out, n + 1, "data: %s\n\n", text);
    }
    if (!larger || !event) call->over = 1;
    free(text);
    json_decref(event);
}

static void add_chunk(serve_call *call, int32_t index, json_t *delta, const char *finish)
{
    json_t *const event = answer_of(call, json_pack("[o]", choice_of(call, index, delta, finish)));
    if (call->usage) (void)json_object_set_new(event, "usage", json_null());
    add_event(call, event);
}

/* Two events for each call of a tool: its name, then its arguments. Takes the calls. */
static void add_calls(serve_call *call, int32_t i, json_t *calls)
{
    for (size_t k = 0; k < json_array_size(calls); k++) {
        json_t *const one = json_array_get(calls, k), *const function = json_object_get(one, "function");
        json_t *const rest = json_pack("{s:O, s:{s:O}}", "index", json_object_get(one, "index"), "function",
                                       "arguments", json_object_get(function, "arguments"));
        (void)json_object_set_new(function, "arguments", json_string(""));
        add_chunk(call, i, json_pack("{s:[O]}", "tool_calls", one), NULL);
        add_chunk(call, i, json_pack("{s:[o]}", "tool_calls", rest), NULL);
    }
    json_decref(calls);
}

static void add_news(serve_call *call, int32_t i)
{
    serve_choice *const c = &call->choice[i];
    serve_error e = { 0 };
    if (c->told == 2) return;
    if (failed(c, &e)) {
        add_event(call, serve_error_object(&e));
        add_event(call, NULL);
        return;
    }
    if (call->chat && !c->told) add_chunk(call, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
    c->told = c->ended ? 2 : 1;
    const serve_news news = take_news(c);
    json_t *const content = news.content;
    if (news.reasoning) add_chunk(call, i, json_pack("{s:o}", "reasoning_content", news.reasoning), NULL);
    if (content) add_chunk(call, i, call->chat ? json_pack("{s:o}", "content", content) : content, NULL);
    add_calls(call, i, news.calls);
    if (c->ended) add_chunk(call, i, call->chat ? json_object() : json_string(""), reason_of(c));
}

size_t serve_next(serve_call *call, char *to, size_t room)
{
    (void)pthread_mutex_lock(&call->server->lock);
    while (call->sent == call->n_out && !call->over && !call->gone) {
        int32_t n_told = 0;
        call->sent = call->n_out = 0;
        for (int32_t i = 0; !call->over && i < call->n_choices; i++) {
            add_news(call, i);
            n_told += call->choice[i].told == 2;
        }
        if (n_told == call->n_choices && !call->over) {
            if (call->usage) {
                json_t *const event = answer_of(call, json_array());
                (void)json_object_set_new(event, "usage", usage_of(call));
                add_event(call, event);
            }
            add_event(call, NULL);
        }
        if (!call->n_out && !call->over) (void)pthread_cond_wait(&call->news, &call->server->lock);
    }
    const size_t left = call->n_out - call->sent, n = left < room ? left : room;
    if (n) memcpy(to, call->out + call->sent, n);
    call->sent += n;
    (void)pthread_mutex_unlock(&call->server->lock);
    return n;
}

/* ---- Metrics ---- */

char *serve_metrics(serve_server *v)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const f = open_memstream(&text, &n);
    if (!f) return NULL;
    (void)pthread_mutex_lock(&v->lock);
    const rt_totals t = v->totals;
    const int64_t running = v->n_live < run_opt.parallel ? v->n_live : run_opt.parallel;
    const uint64_t *const ended = v->n_ended;
    const struct {
        const char *name;
        int64_t value;
    } list[] = { { "requests_total", (int64_t)v->n_calls },
                 { "refused_total", (int64_t)v->n_refused },
                 { "texts_running", running },
                 { "texts_waiting", v->n_live - running },
                 { "texts_stopped_total", (int64_t)ended[RT_FINISH_STOP] },
                 { "texts_cut_total", (int64_t)(ended[RT_FINISH_LENGTH] + ended[RT_FINISH_CONTEXT]) },
                 { "texts_cancelled_total", (int64_t)ended[RT_FINISH_CANCELLED] },
                 { "texts_failed_total", (int64_t)ended[RT_FINISH_FAILED] },
                 { "prompt_tokens_total", t.prompt_tokens },
                 { "prefix_tokens_total", t.prefix_tokens },
                 { "generated_tokens_total", t.generated_tokens },
                 { "drafted_tokens_total", t.drafted },
                 { "accepted_tokens_total", t.accepted },
                 { "preemptions_total", t.preemptions },
                 { "reread_tokens_total", t.reread_tokens } };
    (void)pthread_mutex_unlock(&v->lock);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        (void)fprintf(f, "# TYPE gdn_%s %s\ngdn_%s %lld\n", list[i].name,
                      strstr(list[i].name, "_total") ? "counter" : "gauge", list[i].name, (long long)list[i].value);
    (void)fclose(f);
    return text;
}
