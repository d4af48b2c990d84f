/* Answers: texts to JSON, whole or as a stream of events. See serve.h. */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "system/files.h"
#include "tools/cli/json.h"
#include "tools/serve/calls.h"
#include "tools/serve/serve.h"

json_t *serve_text(const char *bytes, size_t n)
{
    char *const text = malloc(3 * n + 1);
    json_t *const made = text ? json_stringn(text, json_valid_utf8(bytes, n, text)) : NULL;
    free(text);
    return made;
}

json_t *serve_error_object(const serve_error *e)
{
    const int s = e->status;
    const char *const type = s == 401   ? "authentication_error"
                             : s == 403 ? "permission_error"
                             : s == 429 ? "rate_limit_error"
                             : s >= 500 ? "server_error"
                                        : "invalid_request_error";
    return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", serve_text(e->message, strlen(e->message)),
                     "type", type, "param", e->param[0] ? serve_text(e->param, strlen(e->param)) : json_null(), "code",
                     e->code);
}

/* ---- Texts ---- */

/* What is new of a text; NULL: nothing. Completions have content alone. */
typedef struct serve_news {
    json_t *reasoning, *content, *calls;
} serve_news;

/* A call of a tool, in OpenAI's form. It takes the function. */
static json_t *call_of(serve_choice *c, json_t *function)
{
    char id[80];
    const int index = c->n_calls++;
    (void)snprintf(id, sizeof id, "call_%s_%d_%d", c->call->id + strlen("chatcmpl-"), (int)(c - c->call->choice),
                   index);
    return json_pack("{s:s, s:s, s:o, s:o*}", "id", id, "type", "function", "function", function, "index",
                     c->call->stream ? json_integer(index) : NULL);
}

/* Takes the content and the calls of tools among n bytes after the thinking. */
static void take_pieces(serve_choice *c, const char *text, size_t n, serve_news *news)
{
    char *const content = malloc(n + 1);
    size_t n_content = 0;
    while (content && c->done < n) {
        const serve_piece piece =
            serve_next_piece(c->call->tools, text + c->done, n - c->done, c->after, c->ended, &c->seen);
        if (!piece.used) break;
        memcpy(content + n_content, text + c->done, piece.content);
        n_content += piece.content;
        c->done += piece.used;
        c->after = piece.function != NULL;
        if (!piece.function) continue;
        if (c->n_calls && c->call->one_call) {
            json_decref(piece.function);
            continue;
        }
        if (!news->calls) news->calls = json_array();
        (void)json_array_append_new(news->calls, call_of(c, piece.function));
    }
    if (n_content) news->content = serve_text(content, n_content);
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
    if (reasoning.bytes) news.reasoning = serve_text(reasoning.text, reasoning.bytes);
    if (rest.bytes && !c->begin) c->begin = 1 + (size_t)(rest.text - text);
    if (c->call->tools && c->begin) take_pieces(c, text + c->begin - 1, c->split.at - (c->begin - 1), &news);
    else if (rest.bytes) news.content = serve_text(rest.text, rest.bytes);
    return news;
}

static const char *reason_of(const serve_choice *c)
{
    if (c->result.finish != RT_FINISH_STOP) return "length";
    return c->n_calls ? "tool_calls" : "stop";
}

/* ---- Log-probabilities ---- */

static rt_string bytes_of(const serve_call *call, int32_t token)
{
    const rt_string s = rt_token_bytes(call->server->session->tokenizer, token);
    return s.bytes ? s : (rt_string){ "", 0 };
}

/* A token's name: its text. In completions it is the name of a member, so it tells tokens apart and has no NUL: what is
 * no such text is its bytes, as bytes:\xe6\x97. Chats have the bytes beside the text. */
static json_t *name_of(const serve_call *call, int32_t token)
{
    const rt_string s = bytes_of(call, token);
    if (call->ids) return json_sprintf("token_id:%d", (int)token);
    if (call->chat) return serve_text(s.text, s.bytes);
    json_t *name = memchr(s.text, 0, s.bytes) ? NULL : json_stringn(s.text, s.bytes);
    char *text = NULL;
    size_t n = 0;
    FILE *const to = name ? NULL : stream_open(&text, &n);
    if (!to) return name;
    (void)fputs("bytes:", to);
    for (uint64_t i = 0; i < s.bytes; i++) (void)fprintf(to, "\\x%02x", (unsigned char)s.text[i]);
    if (stream_close(to, &text, &n)) name = json_stringn(text, n);
    free(text);
    return name;
}

/* A token of a chat's answer, with the n most likely ones, which follow it. */
static json_t *logprob_of(const serve_call *call, const rt_logprob *p, int32_t n)
{
    const rt_string s = bytes_of(call, p->token);
    json_t *const bytes = json_array(), *const top = n < 0 ? NULL : json_array();
    for (uint64_t i = 0; i < s.bytes; i++) (void)json_array_append_new(bytes, json_integer((unsigned char)s.text[i]));
    for (int32_t i = 1; i <= n; i++) (void)json_array_append_new(top, logprob_of(call, p + i, -1));
    return json_pack("{s:o, s:f, s:o, s:o*}", "token", name_of(call, p->token), "logprob", (double)p->logprob, "bytes",
                     bytes, "top_logprobs", top);
}

/* The arrays of log-probabilities, of completions and of chats. */
static const char *const columns[2][4] = { { "tokens", "token_logprobs", "top_logprobs", "text_offset" },
                                           { "content" } };

/* The entry of a token in one of them. */
static json_t *entry_of(serve_choice *c, const rt_logprob *p, const char *column)
{
    if (c->call->chat) return logprob_of(c->call, p, c->call->n_top);
    if (!strcmp(column, "tokens")) return name_of(c->call, p->token);
    if (!strcmp(column, "token_logprobs")) return isnan(p->logprob) ? json_null() : json_real((double)p->logprob);
    if (!strcmp(column, "text_offset")) {
        const rt_string s = bytes_of(c->call, p->token);
        json_t *const offset = json_integer((json_int_t)c->n_characters);
        for (uint64_t i = 0; i < s.bytes; i++) c->n_characters += ((unsigned char)s.text[i] & 0xc0) != 0x80;
        return offset;
    }
    if (isnan(p->logprob)) return json_null(); /* of a prompt's first token */
    json_t *const top = json_object();
    for (int32_t i = c->call->n_top; i >= 0; i--) { /* the token itself, whether or not it is among the first */
        json_t *const name = name_of(c->call, p[i].token);
        (void)json_object_set_new(top, json_string_value(name), json_real((double)p[i].logprob));
        json_decref(name);
    }
    return top;
}

static const rt_logprob *logprob_at(const serve_choice *c, size_t i)
{
    return c->logprob + i * (1 + (size_t)c->call->n_top);
}

/* Takes the log-probabilities that are new; null: there are none, or the request wants none. */
static json_t *take_logprobs(serve_choice *c)
{
    if (!c->call->logprobs || c->n_told == c->n_logprobs) return json_null();
    json_t *const to = json_object();
    for (int k = 0; k < 4 && columns[c->call->chat][k]; k++) {
        const char *const name = columns[c->call->chat][k];
        json_t *const list = json_array();
        for (size_t i = c->n_told; i < c->n_logprobs; i++)
            (void)json_array_append_new(list, entry_of(c, logprob_at(c, i), name));
        (void)json_object_set_new(to, name, list);
    }
    c->n_told = c->n_logprobs;
    return to;
}

/* The lock is held. */
static serve_usage count(const serve_call *call)
{
    serve_usage u = { 0, 0, 0 };
    for (int32_t i = 0; i < call->n_choices; i++) {
        const serve_choice *const c = &call->choice[i];
        const int32_t n = call->n_prompt[i / call->n];
        u.written += call->no_text ? 0 : c->ended ? c->result.n_tokens : c->n_drawn;
        if (i % call->n) continue;
        u.prompt += n;
        u.kept += c->result.n_prefix < n ? c->result.n_prefix : n;
    }
    return u;
}

serve_usage serve_usage_of(serve_call *call)
{
    if (!call->server) return (serve_usage){ 0, 0, 0 }; /* it was not added */
    gdn_mutex_lock(&call->server->lock);
    const serve_usage u = count(call);
    gdn_mutex_unlock(&call->server->lock);
    return u;
}

static json_t *usage_of(const serve_call *call)
{
    const serve_usage u = count(call);
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)u.prompt, "completion_tokens",
                     (json_int_t)u.written, "total_tokens", (json_int_t)(u.prompt + u.written), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)u.kept);
}

/* A choice with a value and log-probabilities, which it takes. value: a text, a message or its beginning; logprobs:
 * NULL: it has none. */
static json_t *choice_of(const serve_call *call, int32_t index, json_t *value, const char *finish, json_t *logprobs)
{
    const char *const name = call->stream ? "delta" : "message";
    return json_pack("{s:i, s:o, s:o*, s:s?}", "index", (int)index, call->chat ? name : "text", value, "logprobs",
                     logprobs, "finish_reason", finish);
}

/* An answer or event with these choices and this usage, which it takes. NULL: it has none. */
static json_t *answer_of(const serve_call *call, json_t *choices, json_t *usage)
{
    const char *const object = call->stream ? "chat.completion.chunk" : "chat.completion";
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:I, s:o*, s:o*}", "id", call->id, "object",
                     call->chat ? object : "text_completion", "created", (json_int_t)call->created, "model",
                     call->server->model, "system_fingerprint", call->server->fingerprint, "seed",
                     (json_int_t)call->sampling.seed, "choices", choices, "usage", usage);
}

static int failed(const serve_choice *c, serve_error *e)
{
    if (!c->ended || c->result.finish != RT_FINISH_FAILED) return 0;
    (void)serve_fail(e, 500, "generation_failed", NULL, "%s", c->error);
    return 1;
}

/* ---- Whole answers. They are written in parts: log-probabilities as JSON take a hundred times their memory ---- */

/* Writes a value, which it takes. With a name it leaves an object open after the name of one more member. */
static void put(serve_call *call, json_t *value, const char *name)
{
    char *const text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text) call->over = -1;
    else if (fwrite(text, 1, strlen(text) - (name != NULL), call->events) && name)
        (void)fprintf(call->events, ",\"%s\":", name);
    free(text);
    json_decref(value);
}

/* The whole text: a message in chats. */
static json_t *take_value(serve_choice *c)
{
    const serve_news news = take_news(c);
    json_t *const text = news.content ? news.content : news.calls ? json_null() : json_string("");
    return !c->call->chat ? text
                          : json_pack("{s:s, s:o, s:o*, s:o*}", "role", "assistant", "content", text,
                                      "reasoning_content", news.reasoning, "tool_calls", news.calls);
}

static void put_choice(serve_call *call, int32_t i)
{
    serve_choice *const c = &call->choice[i];
    json_t *const value = take_value(c);
    if (!i) put(call, answer_of(call, NULL, NULL), "choices");
    (void)fputc(i ? ',' : '[', call->events);
    put(call, choice_of(call, i, value, reason_of(c), NULL), "logprobs");
    c->told = 1;
}

/* Writes some log-probabilities. 0: there are no more. */
static int put_logprobs(serve_choice *c)
{
    enum { SOME = 16 };
    serve_call *const call = c->call;
    const char *const name = c->column < 4 ? columns[call->chat][c->column] : NULL;
    if (!call->logprobs || !name) {
        (void)fputs(call->logprobs ? "}}" : "null}", call->events);
        return 0;
    }
    if (!c->n_told) (void)fprintf(call->events, "%c\"%s\":[", c->column ? ',' : '{', name);
    for (int i = 0; i < SOME && c->n_told < c->n_logprobs; i++) {
        if (c->n_told) (void)fputc(',', call->events);
        put(call, entry_of(c, logprob_at(c, c->n_told++), name), NULL);
    }
    if (c->n_told < c->n_logprobs) return 1;
    (void)fputc(']', call->events);
    c->n_told = 0;
    c->column++;
    return 1;
}

/* Writes a protocol's whole answer, if its text has ended. */
static void put_translated(serve_call *call)
{
    serve_choice *const c = call->choice;
    if (!c->ended) return;
    json_t *const message = take_value(c);
    json_t *const choice = choice_of(call, 0, message, reason_of(c), NULL);
    put(call, call->protocol->answer_of(call, answer_of(call, json_pack("[o]", choice), usage_of(call))), NULL);
    if (!call->over) call->over = 1;
}

/* Writes the next part of a whole answer, if its text has ended. */
static void add_part(serve_call *call)
{
    serve_choice *const c = &call->choice[call->n_whole];
    serve_error e = { 0 };
    if (call->n_whole == call->n_choices) {
        (void)fputs("],\"usage\":", call->events);
        put(call, usage_of(call), NULL);
        (void)fputc('}', call->events);
        if (!call->over) call->over = 1;
    } else if (failed(c, &e)) {
        call->over = -1;
    } else if (call->protocol) {
        put_translated(call);
    } else if (c->ended && !c->told) {
        put_choice(call, call->n_whole);
    } else if (c->ended && !put_logprobs(c)) {
        call->n_whole++;
    }
}

/* Writes what is new of the answer, at least `least` bytes if there are as many. */
static void add_bytes(serve_call *call, void (*add)(serve_call *), size_t least)
{
    long n = 0;
    free(call->out);
    call->sent = call->n_out = 0;
    call->out = NULL;
    call->events = stream_open(&call->out, &call->n_out);
    for (long before = -1; call->events && !call->over && n != before && n < (long)least; n = ftell(call->events)) {
        before = n;
        add(call);
    }
    if (!call->events || !stream_close(call->events, &call->out, &call->n_out)) call->over = -1;
}

char *serve_wait(serve_call *call, serve_error *e)
{
    enum { LARGE = 1 << 20 };
    char *whole = NULL;
    gdn_mutex_lock(&call->server->lock);
    for (int32_t i = 0; i < call->n_choices && !call->half && !call->gone && !failed(&call->choice[i], e);)
        if (call->choice[i].ended) i++;
        else gdn_condition_wait(&call->news, &call->server->lock);
    if (!e->status && !call->half && !call->gone) add_bytes(call, add_part, LARGE);
    if (call->over < 0) (void)serve_fail(e, 500, NULL, NULL, "out of memory");
    if (call->over > 0) {
        whole = call->out;
        call->out = NULL;
    }
    gdn_mutex_unlock(&call->server->lock);
    return whole;
}

/* ---- Streams ---- */

/* Writes an event, which it takes; NULL: the stream's end. Without memory the stream ends early. */
static void add_event(serve_call *call, json_t *event)
{
    if (!event) call->over = 1;
    if (call->protocol) {
        call->protocol->put_event(call, event);
    } else {
        (void)fputs("data: ", call->events);
        if (event && json_dumpf(event, call->events, JSON_COMPACT)) call->over = -1;
        (void)fputs(event ? "\n\n" : "[DONE]\n\n", call->events);
    }
    json_decref(event);
}

static void add_chunk(serve_call *call, int32_t index, json_t *delta, const char *finish)
{
    json_t *const choices =
        json_pack("[o]", choice_of(call, index, delta, finish, take_logprobs(&call->choice[index])));
    json_t *const usage = !call->usage ? NULL : call->usage_of_each ? usage_of(call) : json_null();
    add_event(call, answer_of(call, choices, usage));
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

/* Writes the events of what is new. */
static void add_all_news(serve_call *call)
{
    int32_t n_told = 0;
    for (int32_t i = 0; !call->over && i < call->n_choices; i++) {
        add_news(call, i);
        n_told += call->choice[i].told == 2;
    }
    if (n_told < call->n_choices || call->over) return;
    if (call->usage) add_event(call, answer_of(call, json_array(), usage_of(call)));
    add_event(call, NULL);
}

size_t serve_next(serve_call *call, char *to, size_t room)
{
    static const double silence = 5; /* seconds; proxies and clients give up after a minute or more */
    const char *const filler = call->stream ? ": waiting\n\n" : "\n";
    int silent = 0;
    gdn_mutex_lock(&call->server->lock);
    while (call->sent == call->n_out && !call->over && !call->gone) {
        add_bytes(call, call->stream ? add_all_news : add_part, 1);
        if (call->n_out || call->over) continue;
        if (silent || call->probe) {
            free(call->out);
            call->out = strdup(filler);
            call->n_out = call->out ? strlen(filler) : 0;
            call->probe = 0;
        } else {
            silent = !gdn_condition_wait_for(&call->news, &call->server->lock, silence);
        }
    }
    const size_t left = call->n_out - call->sent, n = left < room ? left : room;
    if (n) memcpy(to, call->out + call->sent, n);
    call->sent += n;
    gdn_mutex_unlock(&call->server->lock);
    return n;
}
